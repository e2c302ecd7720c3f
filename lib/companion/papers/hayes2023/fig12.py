"""Figure 12: success without candidates against the bound at astronomically small priors."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure, SubFigure

from companion.exhibit import *
from companion.exhibit import GREY as GREY_LINE
from companion.papers.hayes2023 import gradient_reconstructions as informed
from companion.papers.hayes2023.gradient_reconstructions import COLOUR, GREY, PANELS, Attacked
from reconrisk import bounds, privacy
from reconrisk.attacks import success_interval

#: absolute distance at which a pixel counts as right (Appendix I)
PIXEL_TOLERANCE = 32 / 255
#: dimensions for which Appendix I prints prior successes
PRINTED = {784: "12a MNIST", 3072: "12b CIFAR-10"}
#: how much nearer than the target the pool's images may be, as a share of the pool, where at least
#: 60% of the pixels fit, and where 60% to 80% do; chance gives a half
NEARER, NEARER_LEAST = 0.005, 0.01
#: how far the attack's success, with its interval, must stay below a bound on uniform images for
#: the attack to fail where the bound does not protect
FAILS = 0.7
#: largest relative difference between the counted and the exact probability of a fit
COUNTED_MARGIN = 0.15
#: a case small enough to count how often the grey image fits uniform images
COUNTED: dict[str, Any] = {"dimension": 16, "rho": 0.6, "draws": 1_000_000}

PARAMETERS = {
    **informed.GREY_PARAMETERS,
    **informed.COLOUR_PARAMETERS,
    "shares": Parameter(
        "floats",
        (0.6, 0.8, 0.9, 1.0),
        (0.6, 0.7, 0.8, 0.9, 1.0),
        "0.6 and 1; the others are not printed",
        "rho, share of the pixels that must fit",
        low=0.0,
    ),
}
CHOICES = informed.CHOICES
SETTLES = (
    *(f"hayes2023/fig12{panel}" for panel in "abcd"),
    *("C-048", "C-049", "C-050", "E-C-04"),
)


ALTERED = {
    "success": {
        "success": (
            by("data", "successes", each="on {} images"),
            at("epsilon == 1e5", "successes at the largest epsilon"),
        ),
        "bound": "bounds",
    },
    "nearer": {
        "at least 60% fit": "shares of nearer images where at least 60% fit",
        "60% to 80% fit": "shares of nearer images where 60% to 80% fit",
    },
    "printed dimensions": {
        "log10 prior, printed": "exponents of the prior success",
        "log10 prior, exact": "exponents of continuous pixels' prior success",
    },
    "levels": {"share": "shares of levels"},
    "uniform images": {"images that fit": "numbers of images that fit"},
}
SCENARIOS = (
    scenario(
        "a printed prior success larger by one unit of its last digit",
        printed(
            "hayes2023/fig12",
            lambda t: t.assign(value=t["value"].replace("9.66e-473", "9.67e-473")),
        ),
        "C-048",
    ),
)


@measurement
def measure(study: Context) -> Tables:
    p = study.parameters
    attacked = informed.attacked_both(study)
    success = [_fitting(a, p.shares).assign(data=w) for w, a in attacked.items()]
    theory = [_bounds(p, a.targets.shape[1], p.shares).assign(data=w) for w, a in attacked.items()]
    printed = [_bounds(p, dimension, (0.6, 1.0)) for dimension in PRINTED]
    images = {
        f"{which} {name}": image
        for which, a in attacked.items()
        for name, image in _just_fitting(a, p.shares).items()
    }
    return Tables(
        {
            "success": pd.concat(success, ignore_index=True),
            "bound": pd.concat(theory, ignore_index=True),
            "printed dimensions": pd.concat(printed, ignore_index=True),
            "nearer": pd.DataFrame([{"data": w, **_nearer(a)} for w, a in attacked.items()]),
            "uniform images": _uniform_images(study),
            "levels": grey_levels(),
        },
        exact=("bound", "printed dimensions", "levels"),
        images=images,
        ran=informed.describe_attacked(attacked) + " A pixel fits if it is less than 32/255 off.",
        stand_ins=attacked[COLOUR].stand_ins,
    )


def _share_that_fits(a: Attacked) -> np.ndarray:
    """Share of each reconstruction's pixels that fit, (E, K)."""
    return (np.abs(a.rebuilt - a.targets) < PIXEL_TOLERANCE).mean(axis=2)


def _fitting(a: Attacked, shares: Sequence[float]) -> pd.DataFrame:
    """Share of targets rebuilt to rho, with Wilson's 95% interval, and that of a black image."""
    fits = _share_that_fits(a)
    black = (a.targets < PIXEL_TOLERANCE).mean(axis=1)
    rows = []
    for share in shares:
        log_prior = bounds.log_prior_success_pixels(a.targets.shape[1], share, PIXEL_TOLERANCE)
        blind = float((black >= share - 1e-12).mean())
        for epsilon, sigma, fitting in zip(a.epsilons, a.sigmas, fits, strict=True):
            good = fitting >= share - 1e-12
            ends = success_interval(int(good.sum()), len(good))
            bound = bounds.rero_gaussian(sigma, log_prior_success=log_prior, steps=a.steps)
            rows.append((share, float(epsilon), float(good.mean()), *ends, float(bound), blind))
    columns = ["rho", "epsilon", "success", "low", "high", "bound", "black image"]
    return pd.DataFrame(rows, columns=columns)


def _bounds(p: Settings, dimension: int, shares: Sequence[float]) -> pd.DataFrame:
    """log10 of the bound over epsilon, from the printed prior success and from the exact one."""
    # beyond the largest epsilon attacked: for 3,072 values the bound is zero up to a large one
    epsilon = np.geomspace(1.0, 1e5, 61)
    sigma = np.array([privacy.noise_for_epsilon(e, p.delta, steps=p.steps) for e in epsilon])
    parts = []
    for share in shares:
        logs = {
            "printed": bounds.log_prior_success_pixels_printed(dimension, share),
            "exact": bounds.log_prior_success_pixels(dimension, share, PIXEL_TOLERANCE),
        }
        columns: dict[str, Any] = {"dimension": dimension, "rho": share, "epsilon": epsilon}
        for name, log_prior in logs.items():
            gamma = bounds.rero_gaussian(
                sigma, log_prior_success=log_prior, steps=p.steps, log=True
            )
            columns[f"log10 prior, {name}"] = float(log_prior) / math.log(10)
            columns[f"log10 bound, {name}"] = gamma / math.log(10)
        parts.append(pd.DataFrame(columns))
    return pd.concat(parts, ignore_index=True)


def _just_fitting(a: Attacked, shares: Sequence[float]) -> dict[str, np.ndarray]:
    """For each rho the reconstruction that only just meets it, and its target."""
    fits = _share_that_fits(a)
    shown: dict[str, np.ndarray] = {}
    for share in shares:
        meets = np.where(fits >= share - 1e-12, fits, np.inf)
        e, k = np.unravel_index(np.argmin(meets), meets.shape)
        if np.isfinite(meets[e, k]):
            name = f"{share:g} {fits[e, k]:.2f} {a.epsilons[e]:g}"
            shown[f"{name} target"] = a.images.pictures(a.targets[[k]])[0]
            shown[f"{name} rebuilt"] = a.images.pictures(a.rebuilt[e, [k]])[0]
    return shown


def _nearer(a: Attacked) -> dict[str, float]:
    """Mean share of the pool nearer than the target, by the share of pixels that fit."""
    fits, nearer = _share_that_fits(a), a.nearer / a.others
    groups = {"at least 60% fit": fits >= 0.6, "60% to 80% fit": (fits >= 0.6) & (fits < 0.8)}
    return {
        fit: float(nearer[among].mean()) if among.any() else math.nan
        for fit, among in groups.items()
    }


def _uniform_images(study: Context) -> pd.DataFrame:
    """How many uniform images, and how many of their pixels, a grey image fits."""
    dimension, share, draws = COUNTED.values()
    drawn = study.rng("uniform").random((draws, dimension))
    fits = np.abs(drawn - 0.5) < PIXEL_TOLERANCE
    images = int((fits.mean(axis=1) >= share).sum())
    return pd.DataFrame([COUNTED | {"images that fit": images} | _chances_of_a_fit()])


def _chances_of_a_fit() -> dict[str, float]:
    """The prior success of the small case: the binomial tail, and the power that is printed."""
    dimension, share, _ = COUNTED.values()
    exact = bounds.log_prior_success_pixels(dimension, share, PIXEL_TOLERANCE)
    power = bounds.log_prior_success_pixels_printed(dimension, share)
    return {"exact": math.exp(exact), "as printed": math.exp(power)}


def _enumerated() -> pd.Series:
    """The same, counted over all sets of fitting pixels: for runs older than the drawn images."""
    dimension, share, _ = COUNTED.values()
    fitting = np.array([bin(pixels).count("1") for pixels in range(2**dimension)])
    p = 2 * PIXEL_TOLERANCE
    chances = p**fitting * (1 - p) ** (dimension - fitting)
    expected = float(chances[fitting >= share * dimension].sum())
    counted = {"draws": math.inf, "images that fit": expected}
    return pd.Series(COUNTED | counted | _chances_of_a_fit())


def grey_levels() -> pd.DataFrame:
    """Share of 256 equally likely levels that fit one of them, by the reading of "within 32"."""
    off = np.abs(np.arange(256) - 128)
    counts = {"less than 32 levels off": off < 32, "at most 32 levels off": off <= 32}
    return pd.DataFrame([{"fits": name, "share": fits.mean()} for name, fits in counts.items()])


def judge(tables: Tables) -> Iterator[Verdict]:
    table = tables["success"]
    for (which, curves), pictures in zip(PANELS, "cd", strict=True):
        stand_in = informed.stands_in(tables, which)
        own = table[table["data"] == which]
        yield _later_with_share(f"hayes2023/fig12{curves}", tables, own, which)
        yield _resembles(
            f"hayes2023/fig12{pictures}", tables, [which], "at least 60% fit", NEARER, stand_in
        )
    yield _resembles(
        "C-049", tables, [GREY, COLOUR], "60% to 80% fit", NEARER_LEAST, tables.stand_in
    )
    levels = tables["levels"] if "levels" in tables else grey_levels()
    yield from _priors(tables["printed dimensions"], levels)
    yield _share_of_pixels(
        tables["uniform images"].iloc[0] if "uniform images" in tables else _enumerated()
    )
    below = (table["bound"] - table["high"]).groupby(table["data"]).max()
    fails = [
        negate(informed.discount_stand_in(tables, which, gap <= FAILS))
        for which, gap in below.items()
    ]
    first = table[table["epsilon"] == table["epsilon"].min()]
    black = first[first["black image"] > first["bound"] + 1e-6]
    yield check(
        "hayes2023/fig12",
        every(*fails),
        f"on both data sets the attack's success is more than {FAILS:g} below the bound for "
        "uniform images at some epsilon: the bound is near one where the attack still fails",
        ours="real images are not uniform: at the smallest epsilon a black image, which uses no "
        f"gradient, is above the bound at {len(black)} of {len(first)} settings",
        stand_in=tables.stand_in,
        decided_by=informed.NEEDS_NETWORK,
    )


def _resembles(
    target: str, tables: Tables, data: list[str], fit: str, least: float, stand_in: Origin
) -> Verdict:
    """How few of the pool's images are nearer than the target, in place of visual inspection."""
    pixels = "60% to 80%" if fit.startswith("60%") else "at least 60%"
    statement = (
        f"for reconstructions of which {pixels} of the pixels fit, fewer than {least:.1%} of the "
        "pool's images are nearer than the target, on average (in place of visual inspection)"
    )
    if "nearer" not in tables:
        return not_run(target, statement, "a run that ranks the pool's images")
    shares = tables["nearer"].set_index("data").loc[data, fit]
    if shares.isna().any():  # other data sets may speak against it, and not for it
        held = settle(False, not (shares >= least).any())
        none = f"reconstructions of {' and '.join(shares.index[shares.isna()])} images that fit"
        return check(target, held, statement, stand_in=stand_in, decided_by=f"{none} so well")
    share = shares.max()
    return check(target, share < least, statement, ours=f"{share:.2%}", stand_in=stand_in)


def _later_with_share(target: str, tables: Tables, table: pd.DataFrame, which: str) -> Verdict:
    """The attack needs a larger epsilon for a larger rho."""
    wide = table.pivot_table(index="epsilon", columns="rho", values="success")
    ordered = (wide.diff(axis=1).iloc[:, 1:] <= 0).all(axis=None)
    strict, loose = wide[wide.columns.max()].to_numpy(), wide[wide.columns.min()].to_numpy()
    above = int((table["low"] > table["bound"] + 1e-9).sum())
    later = ordered and loose[-1] > 0.9 and loose[0] < 0.1 and bool((strict < loose).any())
    return check(
        target,
        informed.discount_stand_in(tables, which, later),
        "the attack fails at the smallest epsilon and succeeds at the largest for rho = 0.6, and "
        "needs a larger epsilon for a larger rho",
        ours=f"significantly above the bound for uniform images at {above} of {len(table)} "
        "settings",
        stand_in=informed.stands_in(tables, which),
        decided_by=informed.NEEDS_NETWORK,
    )


def _priors(dimensions: pd.DataFrame, levels: pd.DataFrame) -> Iterator[Verdict]:
    """The prior probabilities that Appendix I prints for rho = 1."""
    rows = dimensions[dimensions["rho"] == 1].groupby("dimension").first()
    power, exact = rows["log10 prior, printed"], rows["log10 prior, exact"]
    text = registry.printed("hayes2023/fig12").set_index("panel")
    paper = {d: text.loc[panel, "value"] for d, panel in PRINTED.items()}
    yield check(
        "C-048",
        all(_as_printed(power[d], value) for d, value in paper.items()),
        "(2 x 32/256)^784 = 9.66e-473 and (2 x 32/256)^3072 = 2.96e-1850",
        ours=", ".join(_power_of_ten(power[d]) for d in paper),
        paper=", ".join(paper.values()),
        tolerance="half a unit of the last printed digit",
    )
    pixel = 10 ** (power[784] / 784)
    continuous = 10 ** (exact[784] / 784)
    yield check(
        "C-050",
        levels["share"].min() < pixel * (1 - 1e-9) < pixel * (1 + 1e-9) < levels["share"].max()
        and math.isclose(pixel, 2 * 32 / 256, rel_tol=1e-9)
        and math.isclose(continuous, 2 * PIXEL_TOLERANCE, rel_tol=1e-9),
        "the printed share of a pixel, 64/256, lies between those of 256 grey levels, less than 32 "
        "levels off and at most 32; for continuous pixels it is 64/255",
        ours=", ".join(f"{share:.4g}" for share in levels["share"])
        + f" and {continuous:.4g}; (64/255)^784 = {_power_of_ten(exact[784])}",
        paper=f"{pixel:.4g}; {_power_of_ten(power[784])}",
        tolerance="1e-9",
    )


def _as_printed(log10: float, value: str) -> bool:
    """Whether 10^log10 rounds to a printed number that no float holds."""
    mantissa, _, exponent = value.partition("e")
    return abs(10 ** (log10 - int(exponent)) - float(mantissa)) <= half_unit(mantissa)


def _share_of_pixels(counted: pd.Series) -> Verdict:
    """E-C-04: how often a grey image fits a share of the pixels of uniform images."""
    dimension, share, draws = (counted[name] for name in COUNTED)
    tail, power = counted["exact"], counted["as printed"]
    drawn = math.isfinite(draws)
    rate = counted["images that fit"] / (draws if drawn else 1)
    error = math.sqrt(rate * (1 - rate) / draws)
    images = f"{draws:g} uniform images" if drawn else "all uniform images"
    return refute(
        "E-C-04",
        holds=rate <= power,
        corrected_holds=within(rate, tail, error, COUNTED_MARGIN * tail),
        ours=f"d = {dimension:g}, rho = {share:g}: a grey image fits {rounded(rate, error)} of "
        f"{images}, (1/4)^(d rho) = {power:.1e}",
    )


def _power_of_ten(log10: float) -> str:
    """10^log10 as text, for numbers no float holds."""
    power = math.floor(log10)
    return f"{10 ** (log10 - power):.2f}e{power}"


CURVES = (
    "Success without candidates: a reconstruction succeeds if a share rho of its pixels are less "
    "than 32/255 off. Top: the attack with 95% intervals, a panel for each rho, and the bound for "
    "uniform images, solid with the exact prior success (a binomial tail), dashed as printed (a "
    "power, which at rho < 1 counts one choice of pixels only and is no bound). Dotted: an "
    "all-black image, which uses no gradient; where it is above the bound, the images are not "
    "uniform."
)
PAIRS = " Below: for each rho the reconstruction that only just meets it, and its target."


def caption(tables: Tables) -> str:
    return CURVES + (PAIRS if pictures_at_hand(tables) else "")


@drawing
def draw(tables: Tables) -> Figure:
    shares = sorted(tables["success"]["rho"].unique())
    pictures = pictures_at_hand(tables)
    figure = plt.figure(figsize=(8.4, 7.4 if pictures else 4.9), layout="constrained")
    if pictures:
        top, bottom = figure.subfigures(2, 1, height_ratios=(4.8, 2.6))
        _pairs(bottom, pictures, shares)
    else:
        top = figure.subfigures()
    rows = top.subplots(2, len(shares), sharex=True, sharey=True, squeeze=False)
    for last, row, (which, panel) in zip((False, True), rows, PANELS, strict=True):
        dimension = tables["bound"].set_index("data").loc[which, "dimension"].iloc[0]
        row[0].set_ylabel(f"({panel}) {which} images,\n{dimension:,} values: success")
        for axis, share in zip(row, shares, strict=True):
            _curves(axis, tables, which, share)
            axis.set_xlabel(axis.get_xlabel() if last else "")
    for axis, share in zip(rows[0], shares, strict=True):
        axis.set_title(rf"$\rho$ = {share:g}")
    top.legend(
        handles=[
            legend_line("attack", ORANGE, "-", "o"),
            legend_line("bound", BOUND),
            legend_line("bound as printed", GREY_LINE, "--"),
            legend_line("black image, no gradient used", BLUE, ":"),
        ],
        loc="outside upper center",
        ncols=4,
    )
    return figure


def _curves(axis: Axes, tables: Tables, which: str, share: float) -> None:
    table, theory = (tables[name][tables[name]["data"] == which] for name in ("success", "bound"))
    curve = theory[np.isclose(theory["rho"], share)]
    for name, colour, style in (("exact", BOUND, "-"), ("printed", GREY_LINE, "--")):
        bound = 10.0 ** curve[f"log10 bound, {name}"]
        axis.plot(curve["epsilon"], bound, color=colour, linestyle=style, linewidth=1.4)
    mine = table[table["rho"] == share]
    informed.points_with_intervals(axis, mine, "success", ORANGE)
    axis.axhline(mine["black image"].iloc[0], color=BLUE, linestyle=":", linewidth=1.4)
    informed.epsilon_axis(axis)
    axis.set(ylim=(-0.03, 1.05), xlim=(0.65, 1.5e5))
    axis.set_xticks([1, 1e2, 1e4])


def _pairs(figure: SubFigure, pictures: Mapping[str, np.ndarray], shares: Sequence[float]) -> None:
    """Targets and reconstructions in two rows, grey images on the left."""
    axes = figure.subplots(2, 2 * len(shares))
    for axis in axes.ravel():
        axis.set_axis_off()
    for start, which, panel in ((0, GREY, "c"), (len(shares), COLOUR, "d")):
        names = [n.rpartition(" ")[0] for n in pictures if n.startswith(f"{which} ")]
        by_share = {n.split()[1]: n for n in names}
        for i, share in enumerate(shares, start):
            name = by_share.get(f"{share:g}")
            if name is None:
                continue
            _, _, fits, epsilon = name.split()
            for axis, what in zip(axes[:, i], ("target", "rebuilt"), strict=True):
                axis.set_axis_on()
                picture(axis, pictures[f"{name} {what}"])
            place = f"({panel}) " if i == start else ""
            axes[0, i].set_title(rf"{place}$\rho$ = {share:g}", fontsize=9, loc="left")
            at = rf"$\varepsilon$ = {informed.power_of_ten(float(epsilon))}"
            axes[1, i].set_xlabel(f"{float(fits):.0%} fit\n{at}", fontsize=8)

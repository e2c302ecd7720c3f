"""Figure 12: success without candidates against the bound at astronomically small priors."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure, SubFigure

from companion.papers.hayes2023 import gradient_reconstructions as informed
from companion.papers.hayes2023.gradient_reconstructions import COLOUR, GREY, PANELS, Attacked
from companion.study import Context, Parameter, Tables, Verdict, check, measurement, refute
from companion.study.parameters import Settings
from companion.study.recorded import NoPicture
from companion.study.verdicts import rounded
from companion.style import COLOURS, drawing, legend_line, picture
from companion.style import GREY as GREY_LINE
from reconrisk import bounds, privacy
from reconrisk.attacks import success_interval

#: absolute distance at which a pixel counts as right (Appendix I)
PIXEL_TOLERANCE = 32 / 255
#: log-prior successes that Appendix I prints, as (mantissa, power of ten), by dimension
PRINTED = {784: (9.66, -473), 3072: (2.96, -1850)}
#: a case small enough to count how often the grey image fits uniform images
COUNTED: dict[str, Any] = {"dimension": 16, "rho": 0.6, "draws": 200_000}

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
SETTLES = (
    *(f"hayes2023/fig12{panel}" for panel in "abcd"),
    *("C-048", "C-049", "C-050", "E-C-04", "E-C-17"),
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
        },
        exact=("bound", "printed dimensions"),
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
    near = (fits >= 0.6) & (fits < 0.8)
    return {
        "at least 60% fit": float(nearer[fits >= 0.6].mean()),
        "60% to 80% fit": float(nearer[near].mean()) if near.any() else 1.0,
    }


def _uniform_images(study: Context) -> pd.DataFrame:
    """How many uniform images, and how many of their pixels, a grey image fits."""
    dimension, share, draws = COUNTED.values()
    drawn = study.rng("uniform").random((draws, dimension))
    fits = np.abs(drawn - 0.5) < PIXEL_TOLERANCE
    images = int((fits.mean(axis=1) >= share).sum())
    counts = {"images that fit": images, "pixels that fit": int(fits.sum())}
    return pd.DataFrame([COUNTED | counts])


def judge(tables: Tables) -> Iterator[Verdict]:
    table, nearer = tables["success"], tables["nearer"].set_index("data")
    for (which, curves), pictures in zip(PANELS, "cd", strict=True):
        stand_in = informed.stands_in(tables, which)
        own = table[table["data"] == which]
        yield _later_with_share(f"hayes2023/fig12{curves}", own, stand_in)
        yield check(
            f"hayes2023/fig12{pictures}",
            nearer.loc[which, "at least 60% fit"] < 0.02,
            "for reconstructions of which at least 60% of the pixels fit, fewer than 2% of the "
            "pool's images are nearer than the target, on average",
            stand_in=stand_in,
        )
    yield check(
        "C-049",
        nearer["60% to 80% fit"].max() < 0.05,
        "for reconstructions of which only 60% to 80% of the pixels fit, fewer than 5% of the "
        "pool's images are nearer than the target, on average (in place of visual inspection)",
        stand_in=tables.stand_in,
    )
    yield from _priors(tables["uniform images"].iloc[0])
    first = table[table["epsilon"] == table["epsilon"].min()]
    black = first[first["black image"] > first["bound"] + 1e-6]
    yield check(
        "hayes2023/fig12",
        (table["bound"] - table["high"] > 0.5).any(),
        "over a range of epsilon the bound for uniform images is near one where the attack still "
        "fails",
        ours="real images are not uniform: at the smallest epsilon a black image, which uses no "
        f"gradient, is above the bound at {len(black)} of {len(first)} settings",
        stand_in=tables.stand_in,
    )


def _later_with_share(target: str, table: pd.DataFrame, stand_in: bool) -> Verdict:
    """The attack needs a larger epsilon for a larger rho."""
    wide = table.pivot_table(index="epsilon", columns="rho", values="success")
    ordered = (wide.diff(axis=1).iloc[:, 1:] <= 0).all(axis=None)
    strict, loose = wide[wide.columns.max()].to_numpy(), wide[wide.columns.min()].to_numpy()
    above = int((table["low"] > table["bound"] + 1e-9).sum())
    return check(
        target,
        ordered and loose[-1] > 0.9 and loose[0] < 0.1 and (strict < loose).any(),
        "the attack fails at the smallest epsilon and succeeds at the largest for rho = 0.6, and "
        "needs a larger epsilon for a larger rho",
        ours=f"significantly above the bound for uniform images at {above} of {len(table)} "
        "settings",
        stand_in=stand_in,
    )


def _priors(counted: pd.Series) -> Iterator[Verdict]:
    """The prior probabilities that Appendix I prints."""
    logs = {d: float(bounds.log_prior_success_pixels_printed(d)) / math.log(10) for d in PRINTED}
    exact = float(bounds.log_prior_success_pixels(784, 1.0, PIXEL_TOLERANCE)) / math.log(10)
    yield check(
        "C-048",
        all(abs(10 ** (logs[d] - power) - m) <= 0.005 for d, (m, power) in PRINTED.items()),
        "(2 x 32/256)^784 = 9.66e-473 and (2 x 32/256)^3072 = 2.96e-1850",
        ours=", ".join(_power_of_ten(value) for value in logs.values()),
        paper="9.66e-473, 2.96e-1850",
        tolerance="half a unit of the last printed digit",
    )
    yield check(
        "C-050",
        abs(10 ** (exact + 471) - 2.08) <= 0.005,
        "with 64/255 for a pixel the prior success at rho = 1 is 2.08e-471 for MNIST",
        ours=_power_of_ten(exact),
        paper=_power_of_ten(logs[784]),
    )
    dimension, share, draws = (counted[name] for name in COUNTED)
    pixel = counted["pixels that fit"] / (draws * dimension)
    slack = 4 * math.sqrt(0.25 * 0.75 / (draws * dimension))
    yield refute(
        "E-C-17",
        holds=abs(pixel - 64 / 256) <= slack < abs(pixel - 64 / 255),
        corrected_holds=abs(pixel - 64 / 255) <= slack and round(10 ** (exact - logs[784])) == 22,
        ours=f"{_power_of_ten(exact)} against {_power_of_ten(logs[784])}",
    )
    rate = counted["images that fit"] / draws
    error = math.sqrt(rate * (1 - rate) / draws)
    tail = math.exp(bounds.log_prior_success_pixels(int(dimension), share, PIXEL_TOLERANCE))
    power = math.exp(bounds.log_prior_success_pixels_printed(int(dimension), share))
    yield refute(
        "E-C-04",
        holds=rate <= power,
        corrected_holds=abs(rate - tail) <= 4 * error,
        ours=f"d = {dimension:g}, rho = {share:g}: a grey image fits {rounded(rate, error)} of "
        f"{draws:g} uniform images, (1/4)^(d rho) = {power:.1e}",
    )


def _power_of_ten(log10: float) -> str:
    """10^log10 as text, for numbers no float holds."""
    power = math.floor(log10)
    return f"{10 ** (log10 - power):.2f}e{power}"


CAPTION = (
    "Success without candidates: a reconstruction succeeds if a share rho of its pixels are less "
    "than 32/255 off. Top: the attack with 95% intervals, one colour for each rho, and the bound "
    "for uniform images, solid with the exact prior success (a binomial tail), dashed as printed "
    "(a power, which at rho < 1 counts one choice of pixels only and is no bound). Crosses at the "
    "left edge: an all-black image, which uses no gradient; where it is above the bound, the "
    "images are not uniform. Below: for each rho the reconstruction that only just meets it, "
    "and its target."
)


def alt(tables: Tables) -> str:
    table = tables["success"]
    shares = sorted(set(table["rho"]))

    def begins(which: str, share: float) -> str:
        own = table[(table["data"] == which) & (table["rho"] == share) & (table["success"] > 0.5)]
        return f"epsilon = {own['epsilon'].min():,g}" if len(own) else "no epsilon here"

    starts = "; ".join(
        f"on {which} images from {begins(which, shares[0])} for rho = {shares[0]:g} and from "
        f"{begins(which, shares[-1])} for rho = {shares[-1]:g}"
        for which in (GREY, COLOUR)
    )
    return (
        "Top: two panels over epsilon. For each rho a solid bound rises from zero to one, its "
        "dashed printed counterpart later, and the attack's points later still: they are above one "
        f"half {starts}. At rho = 1 solid and dashed almost coincide. Below, where a run keeps "
        "pictures: targets and reconstructions, which are more alike for larger rho."
    )


@drawing
def draw(tables: Tables) -> Figure:
    shares = sorted(tables["success"]["rho"].unique())
    pictures = _stored_pictures(tables)
    figure = plt.figure(figsize=(9.4, 6.0 if pictures else 3.4), layout="constrained")
    if pictures:
        top, bottom = figure.subfigures(2, 1, height_ratios=(3.2, 2.6))
        _pairs(bottom, pictures, shares)
    else:
        top = figure.subfigures()
    for axis, (which, panel) in zip(top.subplots(1, 2, sharey=True), PANELS, strict=True):
        _curves(axis, tables, which, shares)
        dimension = tables["bound"].set_index("data").loc[which, "dimension"].iloc[0]
        axis.set_title(f"({panel}) {which} images, d = {dimension}", loc="left")
        if which == GREY:
            axis.set_ylabel("reconstruction success")
    top.legend(
        handles=[
            *(
                legend_line(rf"attack, $\rho$ = {share:g}", colour, "-", "o")
                for share, colour in zip(shares, COLOURS, strict=False)
            ),
            legend_line("bound", GREY_LINE),
            legend_line("bound as printed", GREY_LINE, "--"),
            legend_line("black image, no gradient used", GREY_LINE, "", "x"),
        ],
        loc="outside upper center",
        ncols=4,
        handlelength=1.8,
        columnspacing=1.2,
    )
    return figure


def _curves(axis: Axes, tables: Tables, which: str, shares: Sequence[float]) -> None:
    table, theory = (tables[name][tables[name]["data"] == which] for name in ("success", "bound"))
    for share, colour in zip(shares, COLOURS, strict=False):
        curve = theory[np.isclose(theory["rho"], share)]
        for name, style in (("exact", "-"), ("printed", "--")):
            bound = 10.0 ** curve[f"log10 bound, {name}"]
            axis.plot(curve["epsilon"], bound, color=colour, linestyle=style, linewidth=1.2)
        mine = table[table["rho"] == share]
        informed.points_with_intervals(axis, mine, "success", colour)
        axis.plot(0.8, mine["black image"].iloc[0], marker="x", color=colour, zorder=4)
    informed.epsilon_axis(axis)
    axis.set(ylim=(-0.03, 1.05), xlim=(0.65, 1.5e5))


def _stored_pictures(tables: Tables) -> dict[str, np.ndarray]:
    """A run's pictures; none of a recorded one, which has only tables."""
    try:
        return dict(tables.images)
    except NoPicture:
        return {}


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

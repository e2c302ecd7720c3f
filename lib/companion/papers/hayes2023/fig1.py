"""Figure 1: error of reconstructions without candidates over epsilon, by two attacks."""

import math
from collections.abc import Iterator

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from companion.exhibit import *
from companion.exhibit import GREY as GREY_LINE
from companion.papers.hayes2023 import gradient_reconstructions as informed
from companion.papers.hayes2023.gradient_reconstructions import (
    COLOUR,
    GREY,
    PANELS,
    STARTS,
    Attacked,
)
from companion.papers.hayes2023.shadow_models import SHADOW_PARAMETERS, baseline_errors, shadowed
from reconrisk import bounds, privacy
from reconrisk.attacks import baselines

#: half-width of a 95% interval in standard errors
NORMAL_95 = 1.96
#: epsilon from which the attacks are compared: where the paper has the better one perform well
LARGE = {which: high for which, (_, high) in STARTS.items()}

CHOICES = informed.CHOICES
PARAMETERS = {**informed.WITH_SHADOWS, **informed.COLOUR_PARAMETERS, **SHADOW_PARAMETERS}
SETTLES = (
    *("hayes2023/fig1a", "hayes2023/fig1b"),
    *("C-002", "C-005", "C-006"),
)

#: smallest ratio of the errors at the largest epsilon, on both data sets: of one order, and of
#: "orders of magnitude", at least two when its logarithm is rounded
ORDER, ORDERS = 10, 10**1.5
#: smallest error of an attack that fails to reconstruct, over the mean image's, which needs no
#: model (a tenth less would be seen in the figure), and over the nearest neighbours', the line that
#: the figure draws for a good reconstruction
MEAN_IMAGE, FAR = 0.9, 1.5
#: what decides where the intervals are too wide
DECIDED_BY = "more targets: intervals shrink with the root of their number"

ALTERED = {
    "attack": {
        "MSE": (
            by("data", "errors of the gradient-based attack", each="on {} images"),
            at("epsilon >= 1000", "errors of the gradient-based attack from epsilon = 1000 on"),
        )
    },
    "model-based": {"model-based": "errors of the model-based attack"},
    "bound": {("log with DP epsilon", "log corrected"): "logarithms of the lower bound"},
}
SCENARIOS = (
    scenario(
        "errors of the model-based attack {} smaller",
        column("model-based", "model-based", lambda c, by: c * (1 - by)),
        "C-006",
        most=0.9,  # errors as small as their standard errors decide nothing
    ),
)


@measurement
def measure(study: Context) -> Tables:
    p = study.parameters
    informed.require(
        study, epsilons=(1e3, *p.model_epsilons), colour_epsilons=(1e4, *p.model_epsilons)
    )
    if min(p.model_epsilons) > 10:
        raise ValueError(f"model_epsilons must start at 10 or below; got {list(p.model_epsilons)}")
    attacked = informed.attacked_both(study)
    models = {which: shadowed(study, which, p.model_epsilons) for which in attacked}
    lines = [
        {
            "data": which,
            "name": a.images.name,
            "feature map": a.feature_map,
            **baseline_errors(study, which),
            "uniform": baselines.UNIFORM_MSE,
        }
        for which, a in attacked.items()
    ]
    epsilon = np.geomspace(min(p.epsilons), max(p.epsilons), 41)
    sigma = np.array([privacy.noise_for_epsilon(e, p.delta, steps=p.steps) for e in epsilon])
    guo = {
        "epsilon": epsilon,
        "log with DP epsilon": bounds.mse_lower_bound_renyi(epsilon, log=True),
        "log corrected": bounds.mse_lower_bound(sigma, p.steps, log=True),
    }
    return Tables(
        {
            "attack": pd.concat(
                [
                    _errors(a).join(informed.linearised(study, which)).assign(data=which)
                    for which, a in attacked.items()
                ]
            ),
            "model-based": pd.concat([table.assign(data=w) for w, table in models.items()]),
            "baselines": pd.DataFrame(lines),
            "bound": pd.DataFrame(guo),
        },
        exact=("bound",),
        ran=informed.describe_attacked(attacked) + f" Up to {p.shadows} shadow models at each of "
        f"{len(p.model_epsilons)} epsilons.",
        stand_ins=attacked[COLOUR].stand_ins,
    )


def _errors(a: Attacked) -> pd.DataFrame:
    """The gradient-based attack's MSE over epsilon, with 95% intervals."""
    return pd.DataFrame(
        {
            "epsilon": a.epsilons,
            "sigma": a.sigmas,
            "MSE": a.mse,
            "low": a.mse - NORMAL_95 * a.standard_error,
            "high": a.mse + NORMAL_95 * a.standard_error,
            "list floor": a.list_floor.mean(axis=1),
        }
    )


def judge(tables: Tables) -> Iterator[Verdict]:
    attack, models = (
        {which: part.set_index("epsilon") for which, part in tables[name].groupby("data")}
        for name in ("attack", "model-based")
    )
    lines = tables["baselines"].set_index("data")
    ratios = {w: _ratios(attack[w], models[w]) for w in (GREY, COLOUR)}
    last = pd.concat([r.iloc[[-1]] for r in ratios.values()])
    shown = {
        which: f"{float(f'{ratio:.2g}'):g}-fold ({which}, epsilon = {epsilon:g})"
        for which, (epsilon, ratio) in zip(ratios, last["ratio"].items(), strict=True)
    }
    learns = {w: _learns(models[w], lines.loc[w, "mean image"]) for w in ratios}
    for which, ratio in ratios.items():
        large, error = ratio[ratio.index >= LARGE[which]], attack[which]["MSE"]
        # controls: under the most noise the attack gains nothing, without much noise it does
        controls = _beats(error.iloc[-1], lines, which, "nearest neighbour") and not _beats(
            error.loc[ratio.index[0]], lines, which
        )
        ahead = controls and bool((large["ratio"] > 1).all() and ratio["ratio"].iloc[-1] > ORDER)
        # how far ahead the better attack performs well, no text says: from anything to half
        held = every(ahead, alike(_above(large, 1), bool((large["ratio"] > 2).all())))
        name = lines.loc[which, "name"]
        yield check(
            "hayes2023/fig1",
            informed.discount_stand_in(tables, which, held),
            f"on {which} images the gradient-based attack's error is significantly below the "
            f"model-based one's, below half of it, from epsilon = {LARGE[which]:g} on, and below a "
            "tenth at the largest; there it is below the nearest neighbours', and at the smallest "
            "epsilon not below the mean image's",
            ours=shown[which],
            tolerance=f"{STANDARD_ERRORS:g} standard errors",
            stand_in=informed.stands_in(tables, which),
            decided_by=informed.NEEDS_NETWORK
            if which == COLOUR
            else f"how far ahead is meant, which is not printed: on {name} the model-based error "
            f"at epsilon = {LARGE[which]:g} is {large['ratio'].iloc[0]:.2g} times the other; and "
            "the weight of the L1 distance",
        )
    for which, ratio in ratios.items():
        # no better than a guess, the model-based attack says nothing about the other one
        above = _above(ratio.iloc[[-1]], ORDERS) if learns[which] else None
        name, stands_in = lines.loc[which, "name"], informed.stands_in(tables, which)
        needs = DECIDED_BY
        if not learns[which]:
            needs = f"a model-based attack on {name} that does better than the mean image"
        elif which == COLOUR and not stands_in.whole:
            # another network and fewer shadow models do not speak against the paper's
            above = informed.discount_stand_in(tables, which, above or None)
            needs += (
                f"; on {name} also a trained network and as many shadow models as in print "
                f"({shown[which]} here)"
            )
        yield check(
            "C-002",
            above,
            f"on {which} images, at the largest epsilon, the model-based attack's MSE is more than "
            f"{ORDERS:.0f} times the gradient-based one's, two orders of magnitude when rounded, "
            "and itself below the mean image's",
            ours=shown[which],
            paper="orders of magnitude",
            tolerance=f"{STANDARD_ERRORS:g} standard errors",
            stand_in=stands_in,
            differs=f"the errors' ratio on {name} is {shown[which]}"
            if above is False and stands_in.whole
            else "",
            decided_by=needs,
        )
    for which, panel in PANELS:
        yield _crossing(f"hayes2023/fig1{panel}", tables, attack[which], which)
    yield _guo_bound(tables, attack[GREY])
    yield _model_based_fails(models, lines, tables.stand_in)


def _beats(error: float, lines: pd.DataFrame, which: str, line: str = "mean image") -> bool:
    """Whether an error is below a line of the figure."""
    return bool(error < lines.loc[which, line])


def _learns(models: pd.DataFrame, mean_image: float) -> bool:
    """Whether the model-based attack does significantly better than the mean image at the end."""
    last = models.iloc[-1]
    return bool(last["model-based"] + STANDARD_ERRORS * last["standard error"] < mean_image)


def _relative_error(attack: pd.DataFrame) -> pd.Series:
    """The standard error of the mean error, over it."""
    return (attack["high"] - attack["low"]) / (2 * NORMAL_95 * attack["MSE"])


def _ratios(attack: pd.DataFrame, models: pd.DataFrame) -> pd.DataFrame:
    """The model-based attack's error over the gradient-based one's; the error of its logarithm."""
    both = attack.join(models[["model-based", "standard error"]], how="inner")
    own, other = _relative_error(both), both["standard error"] / both["model-based"]
    return pd.DataFrame(
        {"ratio": both["model-based"] / both["MSE"], "log error": np.hypot(own, other)}
    )


def _above(ratios: pd.DataFrame, least: float) -> bool | None:
    """Whether all ratios are above a number; None where their errors do not tell."""
    return clearly((np.log(ratios["ratio"] / least), ratios["log error"]))


def _crossing(target: str, tables: Tables, attack: pd.DataFrame, which: str) -> Verdict:
    """The epsilon at which the attack starts to perform well, by two lines of the figure."""
    (low, high), found, at = STARTS[which], [], []
    spread = np.exp(STANDARD_ERRORS * _relative_error(attack))
    for line in ("mean image", "nearest neighbour"):
        level = tables["baselines"].set_index("data").loc[which, line]
        first, last = (crossing_epsilon(attack["MSE"] * f, level) for f in (1 / spread, spread))
        found.append(settle(low <= first and last <= high, not (last < low or high < first)))
        crossing = float(rounded(crossing_epsilon(attack["MSE"], level), digits=2))
        at.append(f"the {line}'s near epsilon = {crossing:g}")
    return check(
        target,
        informed.discount_stand_in(tables, which, alike(*found)),
        f"the attack starts to perform well between epsilon = {low:g} and {high:g}, whether that "
        "means less error than the mean image or than nearest neighbours",
        ours=" and ".join(at),
        paper=f"between {low:g} and {high:g}",
        tolerance=f"{STANDARD_ERRORS:g} standard errors of the mean error, inside the range",
        stand_in=informed.stands_in(tables, which),
        decided_by=informed.NEEDS_NETWORK
        if which == COLOUR
        else f"what it is to perform well, which is not printed: the error falls below {at[0]}, "
        f"below {at[1]}",
    )


def crossing_epsilon(errors: pd.Series, level: float) -> float:
    """Epsilon at which the mean error falls to a level, log-linear between grid points."""
    falling = np.minimum.accumulate(errors.to_numpy())
    return float(np.exp(np.interp(-np.log(level), -np.log(falling), np.log(errors.index))))


def _guo_bound(tables: Tables, attack: pd.DataFrame) -> Verdict:
    """C-005: far below the attack's error, whichever epsilon is meant."""
    epsilon, log_mse = attack.index.to_numpy(), np.log(attack["MSE"].to_numpy())
    curve = tables["bound"]
    larger = curve[["log with DP epsilon", "log corrected"]].max(axis=1)
    bound = np.interp(np.log(epsilon), np.log(curve["epsilon"]), larger)
    orders = (log_mse - bound) / math.log(10)
    return check(
        "C-005",
        (orders[epsilon >= 10] > 1).all() and (orders[epsilon >= 100] > 40).all(),
        "the attack's MSE is more than ten times the bound from epsilon = 10 on, and more than "
        "forty orders of magnitude above it from epsilon = 100 on, whichever epsilon is meant",
        ours=f"at least {10 ** orders[epsilon >= 10].min():.0f}-fold",
        stand_in=informed.stands_in(tables, GREY),
    )


def _model_based_fails(
    models: dict[str, pd.DataFrame], lines: pd.DataFrame, stand_in: Origin
) -> Verdict:
    """C-006: no better than the mean image at epsilon = 10, far from neighbours at 1,000."""
    over_mean, over_nearest = (
        pd.concat(
            [
                t.loc[t.index <= largest, ["model-based", "standard error"]].div(lines.loc[w, line])
                for w, t in models.items()
            ]
        )
        for largest, line in ((10, "mean image"), (1000, "nearest neighbour"))
    )
    gaps = (
        (np.log(over["model-based"] / least), over["standard error"] / over["model-based"])
        for over, least in ((over_mean, MEAN_IMAGE), (over_nearest, FAR))
    )
    return check(
        "C-006",
        clearly(*gaps),
        "up to epsilon = 10 the model-based attack's error is at least nine tenths of the mean "
        f"image's, up to 1,000 over {FAR:g} times the nearest neighbours'",
        ours=f"at least {over_mean['model-based'].min():.2f} times the mean image's error and "
        f"{over_nearest['model-based'].min():.0f} times the nearest neighbours'",
        tolerance=f"{STANDARD_ERRORS:g} standard errors inside",
        stand_in=stand_in,
        decided_by="more models: intervals shrink with the root of their number",
    )


#: what binds biased attacks too, by column
FLOORS = {"list floor": ("on a list", BOUND, "-"), "van Trees": ("normal images", RED, "-.")}


CAPTION = (
    "Mean squared error of reconstructions without candidates over epsilon: grey images left, "
    "colour images with last-layer fine-tuning right. The gradient-based attack sees every "
    "step's gradient, the model-based one the final model. Lines: the error between nearest "
    "neighbours and between uniform images, as in the paper, and of the mean image. Shaded: good "
    "reconstructions, according to the paper. Guo et al.'s bound: with the DP epsilon and with "
    "the order-2 Renyi divergence. Below, ours: the same attack over the Cramer-Rao error of "
    "unbiased ones and floors under all, on images from a list and on normal images. Bars: 95% "
    "intervals."
)


@drawing
def draw(tables: Tables) -> Figure:
    figure, (axes, floors) = panels(2, 2, width=4.5, height=2.9)
    for axis, floor, (which, panel) in zip(axes, floors, PANELS, strict=True):
        _panel(axis, tables, which)
        _floors(floor, tables, which)
        line = tables["baselines"].set_index("data").loc[which]
        # an empty cell is read back as no text
        features = line["feature map"] if isinstance(line["feature map"], str) else ""
        title = f"({panel}) {line['name']}" + (f"\n{features}" if features else "")
        axis.set_title(title, loc="left")
    for row in (axes, floors):
        row[0].set_ylabel("mean squared error")
    legend_above(
        figure,
        [
            legend_line("gradient-based, eq. (1)", BLUE, "-", "o"),
            legend_line("model-based", ORANGE, "-", "s", markerfacecolor="white"),
            legend_line("Cram\u00e9r\u2013Rao, unbiased", BLUE, ":"),
            *(
                legend_line(f"every attack, {on}", colour, style)
                for on, colour, style in FLOORS.values()
            ),
            legend_line("nearest neighbours", GREY_LINE, "--"),
            legend_line("mean image", GREY_LINE, "-."),
            legend_line("uniform images", GREY_LINE, ":"),
            legend_line("Guo et al., DP epsilon", PURPLE),
            legend_line("Guo et al., R\u00e9nyi", GREEN),
        ],
        3,
    )
    return figure


def _panel(axis: Axes, tables: Tables, which: str) -> None:
    attack, models = (
        tables[name][tables[name]["data"] == which] for name in ("attack", "model-based")
    )
    lines, bound = tables["baselines"].set_index("data"), tables["bound"]
    axis.axvspan(*STARTS[which], color=GREY_LINE, alpha=0.12, linewidth=0)
    for name, style in (("uniform", ":"), ("mean image", "-."), ("nearest neighbour", "--")):
        axis.axhline(lines.loc[which, name], color=GREY_LINE, linestyle=style, linewidth=1.3)
    for drawn, colour in (("log with DP epsilon", PURPLE), ("log corrected", GREEN)):
        axis.plot(bound["epsilon"], np.exp(bound[drawn]), color=colour)
    informed.points_with_intervals(axis, attack, "MSE", BLUE)
    informed.points_with_intervals(axis, models, "model-based", ORANGE, hollow=True)
    _same_axes(axis, attack)


def _floors(axis: Axes, tables: Tables, which: str) -> None:
    """The gradient-based attack over what no attack of some kind falls below."""
    attack = tables["attack"][tables["attack"]["data"] == which]
    axis.plot(attack["epsilon"], attack["linearised"], color=BLUE, linestyle=":", linewidth=1.4)
    for name, (_, colour, style) in FLOORS.items():
        floor = attack[name].where(attack[name] > 0)  # a bound of zero says nothing
        axis.plot(attack["epsilon"], floor, color=colour, linestyle=style, linewidth=1.4)
    informed.points_with_intervals(axis, attack, "MSE", BLUE)
    _same_axes(axis, attack)


def _same_axes(axis: Axes, attack: pd.DataFrame) -> None:
    axis.set(yscale="log", ylim=(min(1e-4, 0.3 * attack["linearised"].min()), 4))
    informed.epsilon_axis(axis)
    axis.set_xlim(0.7, 1.4 * attack["epsilon"].max())

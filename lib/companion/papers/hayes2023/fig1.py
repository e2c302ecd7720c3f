"""Figure 1: error of reconstructions without candidates over epsilon, by two attacks."""

import math
from collections.abc import Iterator

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from companion.papers.hayes2023 import gradient_reconstructions as informed
from companion.papers.hayes2023.gradient_reconstructions import COLOUR, GREY, PANELS, Attacked
from companion.papers.hayes2023.shadow_models import SHADOW_PARAMETERS, baseline_errors, shadowed
from companion.study import Context, Tables, Verdict, check, measurement, refute, shared_by
from companion.study.verdicts import rounded
from companion.style import BLUE, GREEN, ORANGE, PURPLE, drawing, legend_above, legend_line, panels
from companion.style import GREY as GREY_LINE
from reconrisk import bounds, privacy
from reconrisk.attacks import baselines

#: factor by which an epsilon may be outside a printed range on other data than the paper's
STAND_IN_ROOM = 3.0
#: epsilon from which the attacks are compared
LARGE = 1000.0
#: epsilons between which good reconstructions begin, by the text
PRINTED = {GREY: (1e2, 1e3), COLOUR: (1e3, 1e4)}

PARAMETERS = {**informed.GREY_PARAMETERS, **informed.COLOUR_PARAMETERS, **SHADOW_PARAMETERS}
SETTLES = (
    *("hayes2023/fig1a", "hayes2023/fig1b"),
    *("C-002", "C-003", "C-004", "C-005", "C-006", "E-C-13"),
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
            "attack": pd.concat([_errors(a).assign(data=w) for w, a in attacked.items()]),
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
            "low": a.mse - 1.96 * a.standard_error,
            "high": a.mse + 1.96 * a.standard_error,
            "linearised": a.linearised,
            "linearised and clipped": a.projected,
        }
    )


def judge(tables: Tables) -> Iterator[Verdict]:
    attack, models = (
        {which: part.set_index("epsilon") for which, part in tables[name].groupby("data")}
        for name in ("attack", "model-based")
    )
    lines = tables["baselines"].set_index("data")
    ratios = {w: (models[w]["model-based"] / attack[w]["MSE"]).dropna() for w in (GREY, COLOUR)}
    last = {which: ratio.iloc[-1] for which, ratio in ratios.items()}
    shown = ", ".join(
        f"{float(f'{ratio:.1g}'):.0f}-fold ({which}, epsilon = {ratios[which].index[-1]:g})"
        for which, ratio in last.items()
    )
    yield check(
        "hayes2023/fig1",
        min(last.values()) > 5 and all((r[r.index >= LARGE] > 2).all() for r in ratios.values()),
        "the gradient-based attack's error is below half the model-based one's from epsilon = "
        f"{LARGE:g} on, on both data sets",
        ours=shown,
        stand_in=tables.stand_in,
        differs="" if informed.stands_in(tables, GREY) else _still_behind(attack, ratios, lines),
    )
    yield check(
        "C-002",
        min(last.values()) > 5 and max(last.values()) > 10,
        "at the largest epsilon the model-based attack's MSE is several times the gradient-based "
        "one's on both data sets, and more than ten times on one",
        ours=shown,
        paper="orders of magnitude",
        stand_in=tables.stand_in,
    )
    for (which, panel), claim in zip(PANELS, ("C-003", "C-004"), strict=True):
        nearest, stand_in = lines.loc[which, "nearest neighbour"], informed.stands_in(tables, which)
        crossing = _crossing(f"hayes2023/fig1{panel}", attack[which], which, nearest, stand_in)
        yield from shared_by(crossing, claim)
    yield from _guo_bound(tables, attack[GREY])
    yield _model_based_fails(models, lines, tables.stand_in)


def _still_behind(
    attack: dict[str, pd.DataFrame], ratios: dict[str, pd.Series], lines: pd.DataFrame
) -> str:
    """The large epsilons at which the gradient-based attack's error is over half the other's."""
    return "; ".join(
        f"at epsilon = {epsilon:g} its error on {lines.loc[which, 'name']} is {row['MSE']:.2g}, "
        f"the model-based one's {ratio * row['MSE']:.2g}; the Cramer-Rao error of an unbiased "
        f"reconstruction is {row['linearised']:.2g}"
        for which, values in ratios.items()
        for epsilon, ratio in values.items()
        if epsilon >= LARGE and ratio <= 2
        for row in [attack[which].loc[epsilon]]
    )


def _crossing(
    target: str, attack: pd.DataFrame, which: str, nearest: float, stand_in: bool
) -> Verdict:
    """The epsilon at which the attack reaches the nearest neighbours' error, against the text."""
    low, high = PRINTED[which]
    room = STAND_IN_ROOM if stand_in else 1.0
    crossing = crossing_epsilon(attack["MSE"], nearest)
    return check(
        target,
        low / room <= crossing <= high * room,
        "the attack's mean error falls below the nearest neighbours' between epsilon = "
        f"{low:g} and {high:g}",
        ours=f"near epsilon = {float(rounded(crossing, digits=1)):g}",
        paper=f"between {low:g} and {high:g}",
        tolerance=f"a factor of {room:g} on other data" if stand_in else "",
        stand_in=stand_in,
        differs=""
        if stand_in or which == COLOUR
        else f"at epsilon = {high:g} the Cramer-Rao error of an unbiased reconstruction is "
        f"{attack.loc[high, 'linearised']:.2g}, against the nearest neighbours' {nearest:.2g}",
    )


def crossing_epsilon(errors: pd.Series, level: float) -> float:
    """Epsilon at which the mean error falls to a level, log-linear between grid points."""
    falling = np.minimum.accumulate(errors.to_numpy())
    return float(np.exp(np.interp(-np.log(level), -np.log(falling), np.log(errors.index))))


def _guo_bound(tables: Tables, attack: pd.DataFrame) -> Iterator[Verdict]:
    """C-005 and E-C-13."""
    epsilon, log_mse = attack.index.to_numpy(), np.log(attack["MSE"].to_numpy())
    corrected = bounds.mse_lower_bound(
        attack["sigma"].to_numpy(), tables.parameters.steps, log=True
    )
    printed = bounds.mse_lower_bound_renyi(epsilon, log=True)
    literal = np.log(np.expm1(np.minimum(epsilon, 600.0)) / 4)
    orders = (log_mse - np.maximum(corrected, printed)) / math.log(10)
    yield check(
        "C-005",
        (orders[epsilon >= 10] > 1).all() and (orders[epsilon >= 100] > 40).all(),
        "the attack's MSE is more than ten times the bound from epsilon = 10 on, and more than "
        "forty orders of magnitude above it from epsilon = 100 on, whichever epsilon is meant",
        ours=f"at least {10 ** orders[epsilon >= 10].min():.0f}-fold",
        stand_in=informed.stands_in(tables, GREY),
    )
    yield refute(
        "E-C-13",
        holds=(log_mse >= literal).all(),
        # at the smallest epsilon a constant guess, whose error is at most 1/4, is below the bound
        corrected_holds=(np.log(attack["linearised"].to_numpy()) >= corrected).all()
        and tables["bound"]["log corrected"].iloc[0] > math.log(1 / 4),
        ours="the linearised unbiased error is above the corrected bound at every epsilon",
    )


def _model_based_fails(
    models: dict[str, pd.DataFrame], lines: pd.DataFrame, stand_in: bool
) -> Verdict:
    """C-006: no better than the mean image at epsilon = 10, far from neighbours at 1,000."""
    over_mean, over_nearest = (
        min(
            t.loc[t.index <= largest, "model-based"].min() / lines.loc[which, line]
            for which, t in models.items()
        )
        for largest, line in ((10, "mean image"), (1000, "nearest neighbour"))
    )
    return check(
        "C-006",
        over_mean > 0.85 and over_nearest > 1.5,
        "up to epsilon = 10 the model-based attack is no better than guessing the mean image, up "
        "to 1,000 far from the nearest neighbours' error",
        ours=f"at least {over_mean:.1f} times the mean image's error and {over_nearest:.0f} times "
        "the nearest neighbours'",
        stand_in=stand_in,
    )


CAPTION = (
    "Mean squared error of reconstructions without candidates over epsilon: grey images on the "
    "left, colour images with last-layer fine-tuning on the right. The gradient-based attack sees "
    "every step's gradient, the model-based one only the final model. Horizontal lines: the error "
    "between nearest neighbours and between uniform images, as in the paper, and of the mean "
    "image. Shaded: good reconstructions according to the paper. Guo et al.'s bound is drawn with "
    "the DP epsilon, as printed, and with the order-2 Renyi divergence, as is correct. Added: the "
    "Cramer-Rao error of an unbiased attack on the same models, without and with clipping to the "
    "pixels' range."
)


def alt(tables: Tables) -> str:
    lines = tables["baselines"].set_index("data")

    def course(which: str) -> str:
        attack, models = (
            tables[name][tables[name]["data"] == which].set_index("epsilon")
            for name in ("attack", "model-based")
        )
        crossing = crossing_epsilon(attack["MSE"], lines.loc[which, "nearest neighbour"])
        return (
            f"{which} images from {attack['MSE'].iloc[0]:.1g} to {attack['MSE'].iloc[-1]:.1g}, "
            f"crossing the nearest neighbours' line near epsilon = {float(f'{crossing:.1g}'):g}, "
            f"where the model-based attack ends at {models['model-based'].iloc[-1]:.1g}"
        )

    return (
        "Two panels with logarithmic axes. Blue points of the gradient-based attack fall as "
        f"epsilon grows: on {course(GREY)}; on {course(COLOUR)}. Orange squares of the model-based "
        "attack begin near the mean image's line. Two curves of Guo's bound leave the panel at "
        "small epsilon. Dotted theory lines run along the blue points."
    )


@drawing
def draw(tables: Tables) -> Figure:
    figure, [axes] = panels(1, 2, width=4.5, height=3.6)
    for axis, (which, panel) in zip(axes, PANELS, strict=True):
        _panel(axis, tables, which)
        line = tables["baselines"].set_index("data").loc[which]
        # an empty cell is read back as no text
        features = line["feature map"] if isinstance(line["feature map"], str) else ""
        title = f"({panel}) {line['name']}" + (f"\n{features}" if features else "")
        axis.set_title(title, loc="left")
    axes[0].set_ylabel("mean squared error")
    legend_above(
        figure,
        [
            legend_line("gradient-based, eq. (1)", BLUE, "-", "o"),
            legend_line("model-based", ORANGE, "-", "s", markerfacecolor="white"),
            legend_line("Cram\u00e9r\u2013Rao, unbiased", BLUE, ":"),
            legend_line("the same, clipped to [0, 1]", BLUE, "--"),
            legend_line("nearest neighbours", GREY_LINE, "--"),
            legend_line("mean image", GREY_LINE, "-."),
            legend_line("uniform images", GREY_LINE, ":"),
            legend_line("Guo et al., as printed", PURPLE),
            legend_line("Guo et al., corrected", GREEN),
        ],
        3,
    )
    return figure


def _panel(axis: Axes, tables: Tables, which: str) -> None:
    attack, models = (
        tables[name][tables[name]["data"] == which] for name in ("attack", "model-based")
    )
    lines, bound = tables["baselines"].set_index("data"), tables["bound"]
    axis.axvspan(*PRINTED[which], color=GREY_LINE, alpha=0.12, linewidth=0)
    for name, style in (("uniform", ":"), ("mean image", "-."), ("nearest neighbour", "--")):
        axis.axhline(lines.loc[which, name], color=GREY_LINE, linestyle=style, linewidth=1.3)
    for column, colour in (("log with DP epsilon", PURPLE), ("log corrected", GREEN)):
        axis.plot(bound["epsilon"], np.exp(bound[column]), color=colour)
    for column, style in (("linearised", ":"), ("linearised and clipped", "--")):
        axis.plot(attack["epsilon"], attack[column], color=BLUE, linestyle=style, linewidth=1.2)
    informed.points_with_intervals(axis, attack, "MSE", BLUE)
    informed.points_with_intervals(axis, models, "model-based", ORANGE, hollow=True)
    axis.set(yscale="log", ylim=(min(1e-4, 0.5 * attack["linearised and clipped"].min()), 4))
    informed.epsilon_axis(axis)
    axis.set_xlim(0.7, 1.4 * attack["epsilon"].max())

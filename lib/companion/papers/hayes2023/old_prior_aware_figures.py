"""Pictures of Hayes et al. 2023: the prior-aware attack and its scores, Figures 3 and 4."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from companion.drawings import draws
from companion.style import (
    BLUE,
    COLOURS,
    GREEN,
    GREY,
    ORANGE,
    PURPLE,
    SKY,
    legend_above,
    legend_line,
    panels,
)
from companion.study import Result

__all__: list[str] = []

KEY = "hayes2023"

_SUCCESS = "probability of success"
#: colour and name of each score
_SCORES = {
    "sum": (ORANGE, "Algorithm 2 (sum)"),
    "top": (PURPLE, "Algorithm 3 (top qT)"),
    "likelihood": (GREEN, "likelihood"),
}


def _epsilon_axis(axis: Axes, values: pd.Series) -> None:
    """A logarithmic axis with a label at every value."""
    axis.set_xscale("log")
    axis.xaxis.set_major_locator(FixedLocator(sorted(set(values))))
    axis.xaxis.set_minor_locator(NullLocator())
    axis.xaxis.set_major_formatter(FuncFormatter(lambda v, _: f"{v:g}"))
    axis.set_xlabel(r"$\varepsilon$")


def _points(axis: Axes, table: pd.DataFrame, x: str, colour: str, marker: str, shift: float = 1.0):
    """Shares of successes with their 95% intervals."""
    errors = np.array([table["success"] - table["low"], table["high"] - table["success"]])
    axis.errorbar(
        table[x] * shift,
        table["success"],
        errors.clip(min=0),
        fmt=marker,
        color=colour,
        markersize=5,
        capsize=2.5,
        linewidth=1.1,
    )


@draws(
    f"{KEY}/alg2",
    caption="The paper's prior-aware attack takes the candidate whose clipped gradients have the "
    "largest summed inner product with what is left of the privatised ones. Left: its success "
    "with ten candidates, from trials that each train a model and from trials that share a few "
    "trajectories, with 95% intervals. Right: the inner products of single steps at one epsilon, "
    "in units of C squared, with the law that the paper states: mean one for the target, the "
    "cosine of the two gradients for another candidate.",
    alt="Left: success over epsilon from 1 to 100. The bound rises from 0.16 to one, the curve for "
    "orthogonal gradients and the measured points lie below it, by most near epsilon 10, where "
    "they are at 0.6 against 0.76. Right: two nearly equal wide histograms; the target's is "
    "shifted by one to the right and follows the drawn normal density.",
)
def algorithm2(result: Result) -> Figure:
    figure, [[left, right]] = panels(1, 2, width=4.4, height=3.2)
    curve, law = result.tables["curve"], result.tables["law"]
    left.plot(curve["epsilon"], curve["bound"], color=BLUE, label="bound (Corollary 4)")
    left.plot(
        curve["epsilon"],
        curve["orthogonal"],
        color=BLUE,
        linestyle="--",
        label="best attack, orthogonal gradients",
    )
    table, shared = result.tables["trained"], result.tables["shared trajectory"]
    _points(left, table, "epsilon", ORANGE, "o", 1 / 1.06)
    _points(left, shared, "epsilon", GREEN, "s", 1.06)
    guess = 1 / float(table["n"].iloc[0])
    left.axhline(guess, color=GREY, linestyle=":", label="guessing")
    _epsilon_axis(left, table["epsilon"])
    left.set(ylim=(0, 1.04), ylabel=_SUCCESS)
    handles, _ = left.get_legend_handles_labels()
    left.legend(
        handles=[
            *handles,
            legend_line("attack, a model per trial", ORANGE, "", "o"),
            legend_line("attack, shared trajectories", GREEN, "", "s"),
        ],
        loc="lower right",
        bbox_to_anchor=(1.02, 0.12),
        fontsize=7.8,
    )
    sigma = float(law["sigma"].iloc[0])
    edges = np.linspace(-4 * sigma, 1 + 4 * sigma, 46)
    x = np.linspace(edges[0], edges[-1], 300)
    for column, colour, mean in (("target", ORANGE, 1.0), ("other", SKY, law["cosine"].mean())):
        right.hist(law[column], edges, density=True, color=colour, alpha=0.45)
        density = np.exp(-(((x - mean) / sigma) ** 2) / 2) / (sigma * np.sqrt(2 * np.pi))
        name = "target" if column == "target" else "another candidate"
        right.plot(x, density, color=colour, label=f"{name}, mean {mean:.2f}")
    right.set(xlabel=r"inner product over $C^2$", ylabel="density of one step's value")
    right.set_ylim(0, 1.35 * right.get_ylim()[1])
    right.legend(loc="upper left")
    return figure


def _score_columns(axis: Axes, table: pd.DataFrame, epsilons: list[float]) -> None:
    """Three scores side by side at each epsilon, with bound and orthogonal best as marks."""
    positions = np.arange(len(epsilons), dtype=float)
    for offset, (name, (colour, _)) in zip((-0.22, 0.0, 0.22), _SCORES.items(), strict=True):
        part = table[table["score"] == name].set_index("epsilon").loc[epsilons].reset_index()
        _points(axis, part.assign(at=positions + offset), "at", colour, "o")
    one = table[table["score"] == "sum"].set_index("epsilon").loc[epsilons]
    for column, style in (("bound", "-"), ("orthogonal", "--")):
        axis.hlines(one[column], positions - 0.36, positions + 0.36, BLUE, style)
    axis.set_xticks(positions, [f"{e:g}" for e in epsilons])
    axis.set(xlabel=r"$\varepsilon$", ylabel=_SUCCESS, ylim=(0, 1.04))


_BOUND_LINES = [
    legend_line("bound (Corollary 4)", BLUE),
    legend_line("best attack, orthogonal gradients", BLUE, "--"),
]


@draws(
    f"{KEY}/alg3",
    caption="The paper's improved attack keeps, for each candidate, only the qT largest of its T "
    "inner products. Success of all three scores on the same sub-sampled runs, with 95% "
    "intervals; bars mark the bound and the best that any attack could do on orthogonal "
    "gradients.",
    alt="At small epsilon the three scores lie close together, a little below the bars. At the "
    "largest epsilon Algorithm 2 is far below the other two, which reach more than twice its "
    "success.",
)
def algorithm3(result: Result) -> Figure:
    table = result.tables["trained"]
    epsilons = list(dict.fromkeys(table["epsilon"]))
    figure, [[axis]] = panels(1, 1, width=max(5.6, 1.1 * len(epsilons)), height=3.2)
    _score_columns(axis, table, epsilons)
    legend_above(
        figure, [*_BOUND_LINES, *(legend_line(n, c, "", "o") for c, n in _SCORES.values())], 2
    )
    return figure


@draws(
    f"{KEY}/appG_attack",
    caption="The paper's appendix proposes the log likelihood as score. Success of the scores on "
    "three runs, with 95% intervals: a sub-sampled one, where the paper's formula can be compared "
    "with the one put right; a full-batch one whose gradients fall below the clipping norm; and "
    "one with a prior that favours the first candidate. Dotted: always guessing the likeliest.",
    alt="Three panels of horizontal points. Sub-sampled: likelihood and top qT about 0.8, sum 0.6, "
    "the printed formula near 0.1. Unclipped: likelihood well above the other two, which agree. "
    "With a prior: score plus log prior just above the dotted line at 0.7, score times prior "
    "0.5, the scores that know no prior 0.3.",
)
def appendix_g(result: Result) -> Figure:
    table = result.tables["scores"]
    names = {
        "likelihood": "likelihood",
        "top": "Algorithm 3",
        "sum": "Algorithm 2",
        "printed, exactly": "as printed, exact\narithmetic",
        "as printed": "as printed",
        "without prior": "likelihood only",
        "times prior": "times prior,\nas printed",
    }
    figure, [axes] = panels(1, 3, width=3.3, height=2.7)
    for axis, (run, part) in zip(axes, table.groupby("run", sort=False), strict=True):
        order = [name for name in names if name in set(part["score"])]
        shown = part.set_index("score").loc[order]
        positions = -np.arange(len(order))
        errors = np.array([shown["success"] - shown["low"], shown["high"] - shown["success"]])
        axis.errorbar(
            shown["success"], positions, xerr=errors.clip(min=0), fmt="o", color=BLUE, capsize=2.5
        )
        guess = float(result.settings["likeliest"]) if run == "with a prior" else None
        axis.axvline(guess or 1 / float(shown["n"].iloc[0]), color=GREY, linestyle=":")
        labels = [names[name] for name in order]
        if run == "with a prior":
            labels[0] = "plus log prior"
        axis.set_yticks(positions, labels)
        axis.set_ylim(-len(order) + 0.4, 0.6)
        axis.set(xlim=(0, 1.04), xlabel=_SUCCESS, title=str(run))
    return figure


@draws(
    f"{KEY}/fig3",
    caption="How the size of the prior affects the success, for several epsilons; the paper does "
    "not print which. Left: the certified bound, and the attack from trials that each train a "
    "model (circles, 95% intervals) and from trials that share trajectories (crosses). Dashed: "
    "the best that any attack could do if the candidates' gradients were orthogonal. Right: the "
    "gap between the bound and either. The paper sees it widen with epsilon and prior.",
    alt="Left: five solid falling curves over prior sizes from 2 to 1024 on a logarithmic axis, "
    "each with a dashed curve and points somewhat below it. For epsilon 1 and 4 all lie close "
    "together near the guessing probability; for epsilon 10 the points are clearly below the "
    "bound, and for 32 and 100 they fall away from it as the prior grows. Right: the measured gap "
    "falls with the prior for epsilon 1 and 4, rises and falls for 10, and rises for 32 and 100, "
    "where the dashed gap of orthogonal gradients stays near zero.",
)
def figure3(result: Result) -> Figure:
    curve = result.tables["curve"]
    trained, shared = result.tables["trained"], result.tables["shared trajectory"]
    figure, [[left, right]] = panels(1, 2, width=4.6, height=3.5)
    entries = []
    for colour, epsilon in zip(COLOURS, dict.fromkeys(curve["epsilon"]), strict=False):
        part = curve[curve["epsilon"] == epsilon]
        left.plot(part["n"], part["bound"], color=colour)
        left.plot(part["n"], part["orthogonal"], color=colour, linestyle="--", linewidth=1.1)
        points = shared[shared["epsilon"] == epsilon]
        left.plot(points["n"], points["success"], "x", color=colour, markersize=5)
        _points(left, trained[trained["epsilon"] == epsilon], "n", colour, "o")
        right.plot(part["n"], part["gap"], color=colour, linestyle="--", linewidth=1.1)
        gap = points["bound"] - points["success"]
        right.plot(points["n"], gap, "x-", color=colour, markersize=5, linewidth=0.8)
        entries.append(legend_line(rf"$\varepsilon$ = {epsilon:g}", colour))
    for axis in (left, right):
        axis.set_xscale("log", base=2)
        axis.set_xlabel("size of the prior")
    left.set(ylim=(0, 1.03), ylabel=_SUCCESS)
    right.set(ylabel="bound minus success", ylim=(-0.02, None))
    legend_above(
        figure,
        [
            *entries,
            legend_line("bound", GREY),
            legend_line("best, orthogonal", GREY, "--"),
            legend_line("attack, a model per trial", GREY, "", "o"),
            legend_line("attack, shared trajectories", GREY, "", "x"),
        ],
        5,
    )
    return figure


@draws(
    f"{KEY}/fig4",
    caption="Sub-sampling at q = 0.02: the paper compares its plain and its improved attack with "
    "the bound over epsilon. Lines: orthogonal gradients, for which Algorithm 2 and the "
    "likelihood are exact and Algorithm 3 is simulated. Points: attacks on trained models, with "
    "95% intervals. Added here: the likelihood.",
    alt="Success over epsilon from 1 to 32. The bound rises from 0.15 to 0.96, the likelihood runs "
    "a little below it. Algorithm 3 starts below Algorithm 2, crosses it near epsilon 5 and "
    "approaches the likelihood, while Algorithm 2 only reaches 0.47. The points lie somewhat "
    "below their curves.",
)
def figure4(result: Result) -> Figure:
    curve, simulated = result.tables["curve"], result.tables["simulated"]
    figure, [[axis]] = panels(1, 1, width=5.8, height=3.6)
    axis.plot(curve["epsilon"], curve["bound"], color=BLUE, label="bound (Corollary 4)")
    lines = {"sum": curve, "top": simulated, "likelihood": curve}
    table = result.tables["trained"]
    shifts = (0.92, 1.0, 1.08)
    for shift, (name, (colour, label)) in zip(shifts, _SCORES.items(), strict=True):
        axis.plot(lines[name]["epsilon"], lines[name][name], color=colour, label=label)
        _points(axis, table[table["score"] == name], "epsilon", colour, "o", shift)
    guess = 1 / float(table["n"].iloc[0])
    axis.axhline(guess, color=GREY, linestyle=":", label="guessing")
    _epsilon_axis(axis, curve["epsilon"])
    axis.set(ylim=(0, 1.03), ylabel=_SUCCESS)
    axis.legend(loc="upper left")
    return figure

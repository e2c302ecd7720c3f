"""Pictures of exhibits of Hayes et al. 2023 (hyperparameters)."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.colors import Normalize
from matplotlib.figure import Figure

from companion.drawings import draws
from companion.style import BLUE, COLOURS, GREEN, GREY, ORANGE, panels
from companion.study import Result

__all__: list[str] = []

KEY = "hayes2023"

_MAP = "viridis"


def _coloured_curve(axes: Axes, part: pd.DataFrame, value: str, norm: Normalize) -> LineCollection:
    """Draw sigma over q, coloured by a value."""
    x, y, colour = (part[k].to_numpy(float) for k in ("q", "sigma", value))
    points = np.column_stack([x, y])
    lines = LineCollection(
        list(np.stack([points[:-1], points[1:]], axis=1)), cmap=_MAP, norm=norm, linewidths=3
    )
    lines.set_array((colour[:-1] + colour[1:]) / 2)
    axes.add_collection(lines)
    axes.scatter(x, y, c=colour, cmap=_MAP, norm=norm, s=26, zorder=3)
    axes.set_xlim(-0.04, 1.04)
    axes.set_ylim(0, 1.08 * y.max())
    return lines


def _log_rates(axes: Axes) -> None:
    """A logarithmic axis of sampling rates from 0.01 to 1."""
    axes.set(xscale="log", xlim=(0.007, 1.4))
    axes.set_xticks([0.01, 0.1, 1], ["0.01", "0.1", "1"])
    axes.minorticks_off()


def _with_middle(bound: pd.DataFrame) -> pd.DataFrame:
    return bound.assign(gamma=(bound["gamma from"] + bound["gamma to"]) / 2)


# Figure 5 ----------------------------------------------------------------------------------------


@draws(
    f"{KEY}/fig5",
    caption="Runs of equal epsilon: noise multiplier over sampling rate, coloured by the largest "
    "success of any attack (a) and by that of Algorithm 3 (b); crosses are the values that the "
    "paper's text gives at both ends. Added: the same over q (c), with 95% intervals, the "
    "likelihood score, and the best attack on orthogonal candidates; and the bound for other "
    "numbers of steps, the noise tuned for each (d).",
    alt="Two nearly straight rising curves of noise over q, coloured from dark at small q to "
    "bright at large q. Below left: the bound rises from 0.19 to 0.36 over q, the best attack and "
    "the measured points lie below it, crosses at both ends. Below right: curves of the bound for "
    "more steps lie higher and are flatter; all meet at q = 1.",
)
def figure5(result: Result) -> Figure:
    bound, attack = _with_middle(result.tables["bound"]), result.tables["attack"]
    top = attack[attack["score"] == "top"].sort_values("q")
    sigma = bound.set_index("q")["sigma"]
    top = top.assign(sigma=[np.interp(q, sigma.index, sigma) for q in top["q"]])
    figure, (upper, lower) = panels(2, 2, 4.4, 3.0)
    for axes, part, value, name in (
        (upper[0], bound, "gamma", "(a) upper bound"),
        (upper[1], top, "success", "(b) Algorithm 3"),
    ):
        norm = Normalize(part[value].min(), part[value].max())
        figure.colorbar(_coloured_curve(axes, part, value, norm), ax=axes, label="success")
        axes.set(xlabel="sampling rate q", ylabel=r"noise multiplier $\sigma$")
        axes.set_title(name, loc="left")
    _over_rates(lower[0], bound, attack)
    for rate, printed, drop in ((0.01, 0.20, 0.15), (0.99, 0.35, 0.32)):
        lower[0].plot([rate] * 2, [printed, drop], "x", color="black", ms=7, mew=1.6, zorder=4)
    lower[0].plot([], [], "x", color="black", ms=7, mew=1.6, label="in the paper's text")
    lower[0].set(xlabel="sampling rate q", ylabel="success", ylim=(0, 0.42))
    lower[0].set_title("(c) bound and attacks", loc="left")
    lower[0].legend(loc="lower right")
    steps = _with_middle(result.tables["steps"])
    for colour, (count, part) in zip(COLOURS, steps.groupby("T"), strict=False):
        lower[1].plot(part["q"], part["gamma"], "o-", ms=4, color=colour, label=f"T = {count:,}")
    lower[1].set(xlabel="sampling rate q", ylabel="upper bound", ylim=(0, 0.42))
    _log_rates(lower[1])
    lower[1].set_title("(d) other numbers of steps", loc="left")
    lower[1].legend(loc="lower right", ncols=2)
    return figure


_SCORES = {"top": (ORANGE, "o", "Algorithm 3"), "likelihood": (GREEN, "s", "likelihood")}


def _over_rates(axes: Axes, bound: pd.DataFrame, attack: pd.DataFrame) -> None:
    """The bound, the best attack on orthogonal candidates and the measured scores over q."""
    axes.plot(bound["q"], bound["gamma"], color=BLUE, label="upper bound")
    axes.plot(bound["q"], bound["best attack"], "--", color=GREY, label="best attack (orthogonal)")
    for shift, (score, (colour, marker, label)) in zip((0.95, 1.05), _SCORES.items(), strict=True):
        part = attack[attack["score"] == score]
        success = part["success"]
        axes.errorbar(
            part["q"] * shift,
            success,
            yerr=[success - part["low"], part["high"] - success],
            fmt=marker,
            ms=4,
            color=colour,
            capsize=2,
            elinewidth=1,
            label=label,
        )
    _log_rates(axes)


# Figures 14 and 15 -------------------------------------------------------------------------------


@draws(
    f"{KEY}/fig14",
    caption="Bound and improved attack over the sampling rate at fixed epsilon, for three prior "
    "sizes (rows), here with a logarithmic axis. The paper does not print its values of epsilon, "
    "except for 32 and, in Figure 5, 4. Added: the likelihood score and the best attack on "
    "orthogonal candidates (dashed). Vertical bars are 95% intervals.",
    alt="Grid of three rows of prior sizes 2, 10 and 100 and one column for each epsilon. In every "
    "panel a bound rises with q, steeply at small q; measured points scatter with their bars about "
    "or below the dashed curve under it. At epsilon 1 all is nearly flat and close to chance.",
)
def figure14(result: Result) -> Figure:
    bound, attack = _with_middle(result.tables["bound"]), result.tables["attack"]
    epsilons, sizes = sorted(set(bound["epsilon"])), sorted(set(bound["n"]))
    figure, rows = panels(len(sizes), len(epsilons), 2.5, 2.1)
    for row, n in zip(rows, sizes, strict=True):
        for axes, epsilon in zip(row, epsilons, strict=True):
            mine = [t[(t["epsilon"] == epsilon) & (t["n"] == n)] for t in (bound, attack)]
            _over_rates(axes, *mine)
            top = max(mine[0]["gamma"].max(), mine[1]["high"].max())
            axes.set_ylim(0, min(1.15 * top, 1.05))
            axes.set_title(rf"$\epsilon$ = {epsilon:g}, n = {n}", loc="left", fontsize=9)
        row[0].set_ylabel("success")
    for axes in rows[-1]:
        axes.set_xlabel("sampling rate q")
    handles, labels = rows[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=len(labels))
    return figure


@draws(
    f"{KEY}/fig15",
    caption="The bound as a colour along the curves of noise multiplier over sampling rate at "
    "fixed epsilon, for three prior sizes (rows). The axis of q is logarithmic here, because most "
    "of the change is at small q. The colour range of each panel is its own, as in the paper, "
    "which names two values: 0.4 and 1, at the ends of the curve for epsilon = 32 and 100 "
    "candidates.",
    alt="Grid of three rows of prior sizes and one column for each epsilon. Every panel shows the "
    "same kind of rising curve of noise over q, dark at its lower left end and bright over most of "
    "its length; the colour bars span from nothing at epsilon 1 to six tenths at epsilon 32 and "
    "100 candidates.",
)
def figure15(result: Result) -> Figure:
    bound = _with_middle(result.tables["bound"])
    epsilons, sizes = sorted(set(bound["epsilon"])), sorted(set(bound["n"]))
    figure, rows = panels(len(sizes), len(epsilons), 2.75, 2.1)
    for row, n in zip(rows, sizes, strict=True):
        for axes, epsilon in zip(row, epsilons, strict=True):
            part = bound[(bound["epsilon"] == epsilon) & (bound["n"] == n)]
            norm = Normalize(part["gamma"].min(), part["gamma"].max())
            figure.colorbar(_coloured_curve(axes, part, "gamma", norm), ax=axes)
            _log_rates(axes)
            axes.set_title(rf"$\epsilon$ = {epsilon:g}, n = {n}", loc="left", fontsize=9)
        row[0].set_ylabel(r"$\sigma$")
    for axes in rows[-1]:
        axes.set_xlabel("sampling rate q")
    return figure

"""Pictures of Hayes et al. 2023, Figures 2, 7, 9, 10 and 13."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator, ScalarFormatter

from companion.drawings import draws
from companion.style import BLUE, GREEN, GREY, ORANGE, PURPLE, panels
from companion.study import Result

__all__: list[str] = []

KEY = "hayes2023"

_POINTS = (
    "Filled points: every trial trained its own model. Open points: trials along the gradients of "
    "a few models. Bars: 95%."
)


def _axes(axes: Axes, table: pd.DataFrame, chance: float | None = None) -> None:
    """Success over epsilon, logarithmic, labelled at the figure's own values."""
    axes.set(xscale="log", xlabel=r"$\varepsilon$", ylim=(-0.02, 1.04))
    axes.set_xticks(sorted(set(table["epsilon"])))
    axes.xaxis.set_major_formatter(ScalarFormatter())
    axes.xaxis.set_minor_locator(NullLocator())
    if chance is not None:
        axes.axhline(chance, color=GREY, linewidth=0.9, linestyle=":")


def _theory(axes: Axes, curves: pd.DataFrame) -> None:
    axes.plot(curves["epsilon"], curves["bound"], color="black", label="bound (Corollary 4)")
    axes.plot(
        curves["epsilon"],
        curves["orthogonal"],
        color=GREY,
        linestyle="--",
        label="best attack, orthogonal candidates",
    )


def _points(
    axes: Axes, rows: pd.DataFrame, colour: str, shift: float = 1.0, marker: str = "o", **more: Any
) -> None:
    """Success with its interval; ``shift`` multiplies epsilon, to keep points apart."""
    for method, part in rows.groupby("method", sort=False):
        own = method != "shared"
        x = part["epsilon"] * shift * (1.0 if own else 0.985)
        # rounding may put a share a hair outside its own interval
        below = (part["success"] - part["low"]).clip(lower=0)
        above = (part["high"] - part["success"]).clip(lower=0)
        axes.errorbar(
            x,
            part["success"],
            yerr=[below, above],
            fmt=marker,
            markersize=4.5 if own else 5.5,
            markerfacecolor=colour if own else "white",
            color=colour,
            capsize=2,
            linewidth=1.1,
            zorder=4 if own else 3,
            **more,
        )


def _handle(axes: Axes, label: str, colour: str, marker: str = "o") -> None:
    axes.plot([], [], color=colour, marker=marker, linestyle="none", markersize=4.5, label=label)


@draws(
    f"{KEY}/fig2",
    caption="Two attacks against two bounds where only the last layer of a network is trained, "
    "lists of ten. The new bound is below the older one, and the attack that knows the list far "
    "above the one that does not. Marked: the best that orthogonal candidates "
    "allow, and a regular simplex; at epsilon = 10 both are below the bound. Bars: 95%.",
    alt="Bars at epsilon 1, 10 and 100. The RDP bound is 0.17, 0.99, 1; the new bound 0.16, 0.76, "
    "1; the prior-aware attack is near 0.14, 0.6 and 0.95; the gradient-based attack near 0.1, 0.1 "
    "and 0.3. Short lines at 0.67 and 0.71 mark what is attainable at epsilon 10.",
)
def figure2(result: Result) -> Figure:
    success, points = result.tables["success"], result.tables["bounds"]
    figure, [[axes]] = panels(1, 1, width=6.6, height=3.6)
    places = np.arange(len(points))
    for offset, column, colour, label in (
        (-0.3, "RDP bound", "#BDBDBD", "RDP bound (Balle et al.)"),
        (-0.1, "bound", "#6B6B6B", "new bound (Corollary 4)"),
    ):
        axes.bar(places + offset, points[column], 0.19, color=colour, label=label)
    for offset, method, colour, label in (
        (0.1, "shared", BLUE, "prior-aware attack"),
        (0.3, "gradient-based", ORANGE, "gradient-based attack"),
    ):
        rows = success[success["method"] == method]
        errors = [
            (rows["success"] - rows["low"]).clip(lower=0),
            (rows["high"] - rows["success"]).clip(lower=0),
        ]
        axes.bar(places + offset, rows["success"], 0.19, color=colour, label=label, alpha=0.85)
        axes.errorbar(
            places + offset, rows["success"], yerr=errors, fmt="none", color="black", capsize=2,
            linewidth=1,
        )  # fmt: skip
    own = success[success["method"] == "own model"]
    axes.errorbar(
        places + 0.14,
        own["success"],
        yerr=[(own["success"] - own["low"]).clip(lower=0), own["high"] - own["success"]],
        fmt="o",
        color="#003B61",
        markersize=4,
        capsize=2,
        linewidth=1,
        label="each trial its own model",
    )
    for column, style, label in (
        ("orthogonal", "-", "best, orthogonal candidates"),
        ("simplex", ":", "best, regular simplex"),
    ):
        axes.hlines(
            points[column], places - 0.01, places + 0.21, color=PURPLE, linestyle=style,
            linewidth=1.8, label=label,
        )  # fmt: skip
    axes.axhline(0.1, color=GREY, linewidth=0.9, linestyle=":")
    axes.set(
        xlabel=r"$\varepsilon$",
        ylabel="success",
        ylim=(0, 1.04),
        xticks=places,
        xticklabels=[f"{e:g}" for e in points["epsilon"]],
    )
    axes.grid(axis="x", visible=False)
    handles, labels = axes.get_legend_handles_labels()
    # bounds and attacks first, then the marks
    order = sorted(range(len(labels)), key=lambda i: (labels[i].startswith(("best", "each")), i))
    figure.legend(
        [handles[i] for i in order], [labels[i] for i in order], loc="outside right upper"
    )
    return figure


@draws(
    f"{KEY}/fig7",
    caption="The prior-aware attack on networks of 10, 100 and 1,000 hidden units: their size "
    "makes no difference to it. " + _POINTS,
    alt="Success against epsilon. Points of three widths coincide at each epsilon, at about 0.15, "
    "0.6 and 0.94, below the dashed curve of orthogonal candidates and the bound.",
)
def figure7(result: Result) -> Figure:
    success = result.tables["success"]
    figure, [[axes]] = panels(1, 1, width=6.2, height=3.4)
    _theory(axes, result.tables["curves"])
    widths = list(dict.fromkeys(success["width"]))
    styles = zip((BLUE, ORANGE, GREEN), ("o", "s", "^"), (0.93, 1.0, 1.08), strict=False)
    for width, (colour, marker, shift) in zip(widths, styles, strict=False):
        _points(axes, success[success["width"] == width], colour, shift, marker)
        _handle(axes, f"width {width:,}", colour, marker)
    _axes(axes, success, 0.1)
    axes.set_ylabel("success")
    figure.legend(loc="outside right upper")
    return figure


@draws(
    f"{KEY}/fig9",
    caption="Candidates from the data against candidates that are uniform noise, as far apart on "
    "average as the data. The attack names them about as often. " + _POINTS,
    alt="Success against epsilon. Points for data and noise lie together on an S-shaped curve, "
    "noise slightly higher from epsilon 20 on, both a little below the dashed curve of orthogonal "
    "candidates, which is below the bound.",
)
def figure9(result: Result) -> Figure:
    success = result.tables["success"]
    figure, [[axes]] = panels(1, 1, width=6.2, height=3.4)
    _theory(axes, result.tables["curves"])
    for prior, colour, marker, shift, label in (
        ("data", BLUE, "o", 0.98, "candidates from the data"),
        ("noise", ORANGE, "s", 1.02, "candidates of noise"),
    ):
        _points(axes, success[success["prior"] == prior], colour, shift, marker)
        _handle(axes, label, colour, marker)
    _axes(axes, success, 0.1)
    axes.set_ylabel("success")
    figure.legend(loc="outside right upper")
    return figure


@draws(
    f"{KEY}/fig10",
    caption="What an attacker loses who cannot subtract the known records' gradients: a little "
    "among five records, nearly everything among 129, whatever epsilon. " + _POINTS,
    alt="Success against epsilon. With subtraction the points follow the theory curves for 4, 128 "
    "and 999 other records. Without it they lie a little lower for 4 others, and for 128 stay flat "
    "near 0.15, just above the dotted line of chance.",
)
def figure10(result: Result) -> Figure:
    success = result.tables["success"]
    figure, [[axes]] = panels(1, 1, width=6.6, height=3.5)
    _theory(axes, result.tables["curves"])
    sizes = sorted(set(success["known"]))
    for size, colour, marker, shift in zip(
        sizes, (BLUE, ORANGE, GREEN), ("o", "s", "^"), (0.95, 1.0, 1.06), strict=False
    ):
        for subtract in (True, False):
            rows = success[(success["known"] == size) & (success["subtract"] == subtract)]
            if len(rows):
                _points(axes, rows, colour, shift, marker if subtract else "x")
                label = "subtracted" if subtract else "not subtracted"
                _handle(axes, rf"$|D_-|$ = {size}, {label}", colour, marker if subtract else "x")
    _axes(axes, success, 0.1)
    axes.set_ylabel("success")
    figure.legend(loc="outside right upper")
    return figure


@draws(
    f"{KEY}/fig13",
    caption="A clipping norm that clips every gradient and one that does not. Left: mean clipped "
    "norm; the paper's numbers as stars. It falls because the learning rate of best accuracy grows "
    "with epsilon (numbers: that rate); at a fixed one it stays. Right: success. Where gradients "
    "are short, the likelihood score wins back part of what the plain sum loses. " + _POINTS,
    alt="Left: the mean norm stays at 0.1 for C = 0.1; for C = 1 it falls from 0.9 to 0.46 with "
    "the chosen rates and hardly at a fixed one. Right: for C = 0.1 the points are close to "
    "theory; for C = 1 the plain sum reaches 0.7 at epsilon 40 and the likelihood 0.87.",
)
def figure13(result: Result) -> Figure:
    success, norms = result.tables["success"], result.tables["norms"]
    training = result.tables["training"]
    names = list(dict.fromkeys(norms["series"]))
    figure, [[left, right]] = panels(1, 2, width=4.4, height=3.9)
    for name, colour, marker in zip(names, (ORANGE, BLUE, GREEN), ("s", "o", "^"), strict=True):
        rows = norms[norms["series"] == name]
        left.plot(rows["epsilon"], rows["mean norm"], color=colour, marker=marker, markersize=4.5,
                  label=name)  # fmt: skip
    large = training["max_grad_norm"].max()
    chosen = norms[norms["series"] == names[0]]
    first = chosen["learning rate"].iloc[0]
    fixed = training[(training["max_grad_norm"] == large) & (training["learning_rate"] == first)]
    left.plot(fixed["epsilon"], fixed["mean norm"], color=ORANGE, linestyle=":",
              label=f"C = {large:g}, fixed rate {first:g}")  # fmt: skip
    for _, row in chosen.iterrows():
        left.annotate(
            f"{row['learning rate']:g}", (row["epsilon"], row["mean norm"]), (0, -12),
            textcoords="offset points", ha="center", fontsize=8, color=ORANGE,
        )  # fmt: skip
    left.plot([1, 40], [0.9, 0.5], "*", color="black", markersize=8, label="printed", zorder=5)
    left.plot([1, 40], [0.1, 0.1], "*", color="black", markersize=8, zorder=5)
    _axes(left, norms)
    left.set(ylabel="mean clipped gradient norm", title="(a)")
    left.legend(loc="upper center", bbox_to_anchor=(0.5, -0.18), ncols=2)
    _theory(right, result.tables["curves"])
    for name, score, colour, marker, shift, label in (
        (names[1], "sum", BLUE, "o", 1.0, f"{names[1]}, sum"),
        (names[0], "sum", ORANGE, "s", 0.97, f"{names[0]}, sum (Algorithm 2)"),
        (names[0], "likelihood", PURPLE, "D", 1.03, f"{names[0]}, likelihood"),
    ):
        rows = success[(success["series"] == name) & (success["score"] == score)]
        _points(right, rows, colour, shift, marker)
        _handle(right, label, colour, marker)
    _axes(right, success, 0.1)
    right.set(ylabel="success", title="(b)")
    right.legend(loc="upper center", bbox_to_anchor=(0.5, -0.18), ncols=2)
    return figure

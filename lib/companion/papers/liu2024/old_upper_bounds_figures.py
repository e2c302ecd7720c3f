"""Pictures of the upper bounds of Liu et al. 2024: errors over every factor of Table 1."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from companion.drawings import draws
from companion.style import (
    BLUE,
    DEFENCES,
    GREY,
    ORANGE,
    legend_above,
    legend_line,
    panels,
)
from companion.study import Result

__all__: list[str] = []

KEY = "liu2024"

_LOOKS = {
    "none": DEFENCES["None"],
    "noise": DEFENCES["GradNoise"],
    "dropout": DEFENCES["GradDrop"],
    "both": DEFENCES["GradClip"],
    "0.5": DEFENCES["GradPrune"],
    "0.9": DEFENCES["GradPrune"],
}


def _points(axis: Axes, table: pd.DataFrame, x: str, look: dict, line: str = "-", **more) -> None:
    """Geometric means with their intervals, in the order of x."""
    some = table.sort_values(x)
    axis.errorbar(
        some[x],
        some["error"],
        yerr=[some["error"] - some["low"], some["high"] - some["error"]],
        **{
            "color": look["color"],
            "marker": look["marker"],
            "linestyle": line,
            "markersize": 4.5,
            "linewidth": 1.3,
            "elinewidth": 1,
            "capsize": 2,
            "zorder": 3,
            **more,
        },
    )


def _reference(axis: Axes, table: pd.DataFrame, x: str, power: float, last: bool = False) -> None:
    """The printed order as a line through the first or last point."""
    some = table.sort_values(x)
    at = np.array([some[x].iloc[0], some[x].iloc[-1]], dtype=float)
    through = -1 if last else 0
    values = some["error"].iloc[through] * (at / at[through]) ** power
    axis.plot(at, values, ":", color="black", linewidth=1.1, zorder=2)


def _logarithmic(axis: Axes, xlabel: str, ticks: Sequence[float] = ()) -> None:
    """Logarithmic axes with plain numbers on them."""
    axis.set(xscale="log", yscale="log", xlabel=xlabel)
    if len(ticks):
        axis.set_xticks(ticks, [_plain(t) for t in ticks])
        axis.set_xticks([], minor=True)
    low, high = axis.get_ylim()
    levels = [a * 10.0**k for k in range(-4, 1) for a in (1, 2, 5)]
    shown = [v for v in levels if low <= v <= high]
    axis.set_yticks(shown, [f"{v:g}" for v in shown])
    axis.set_yticks([], minor=True)


def _plain(value: float) -> str:
    return f"{value / 1024:g}k" if value >= 1024 else f"{value:g}"


def _widths(table: pd.DataFrame) -> list[float]:
    """Every width but those less than three times the one before, for want of room."""
    found: list[float] = []
    for width in sorted(set(table["width"])):
        if not found or width >= 3 * found[-1]:
            found.append(width)
    return found


def _of(table: pd.DataFrame, defence: str) -> pd.DataFrame:
    return table[table["defence"] == defence]


# Theorem 3.1 -------------------------------------------------------------------------------------


@draws(
    f"{KEY}/thm3_1",
    caption="The attack's error over width, dimension and batch size, geometric means over "
    "networks with 95% intervals. Hollow: the part of it that the first stage makes, the records' "
    "distance from the span of P's eigenvectors. Dotted: the printed order. In the batch size the "
    "error grows more slowly than the bound, whether the labels are random or all the same.",
    alt="Three panels with logarithmic axes. Left: error and span error fall with the width along "
    "a dotted line of slope minus one half. Middle: both rise with the dimension, at slope one "
    "half. Right: two lines rise with the batch size, less steeply than the dotted lines of slope "
    "one.",
)
def theorem_3_1(result: Result) -> Figure:
    figure, axes = panels(1, 3, width=3.3, height=2.9)
    for axis, (name, letter, power) in zip(
        axes[0], (("width", "m", -0.5), ("dimension", "d", 0.5)), strict=False
    ):
        table = result.tables[name]
        whole, span = (table[table["of"] == what] for what in ("error", "span"))
        _points(axis, whole, name, DEFENCES["None"])
        _points(axis, span, name, DEFENCES["None"], "--", markerfacecolor="white")
        _reference(axis, whole, name, power, last=True)
        ticks = _widths(whole) if name == "width" else sorted(set(whole[name]))
        _logarithmic(axis, f"{name} {letter}", ticks)
    axes[0][0].set_ylabel("error of the records")
    batch = result.tables["batch"]
    for kind, colour, marker in (("random", BLUE, "s"), ("equal", ORANGE, "^")):
        mine = batch[batch["labels"] == kind]
        _points(axes[0][2], mine, "batch", {"color": colour, "marker": marker})
        _reference(axes[0][2], mine, "batch", 1.0)
    _logarithmic(axes[0][2], "batch size B", sorted(set(batch["batch"])))
    legend_above(
        figure,
        [
            legend_line("error", GREY, "-", "o"),
            legend_line("span", GREY, "--", "o", markerfacecolor="white"),
            legend_line("random labels", BLUE, "-", "s"),
            legend_line("equal labels", ORANGE, "-", "^"),
            legend_line("printed order", "black", ":"),
        ],
        5,
    )
    return figure


# Table 1 -----------------------------------------------------------------------------------------


@draws(
    f"{KEY}/table1",
    caption="Table 1 as measured: error of the tensor attack (filled, 95% intervals) and "
    "Cramér-Rao bound (hollow; at unit noise, with clipping at one half) over every factor. "
    "Dotted: printed orders. Clipping "
    "alone and local steps change nothing and would lie on the grey lines. Clipping with noise at "
    "a fixed threshold is flat in the width because the gradient's norm grows with it; under "
    "pruning (with elu) the attack does not improve with the width.",
    alt="Seven panels with logarithmic axes over width, width again, dimension, batch size, noise, "
    "clipping ratio and share of kept neurons. Filled points and hollow points follow the dotted "
    "lines, except for flat lines under pruning and clipping with noise, and for the batch size.",
)
def table_1(result: Result) -> Figure:
    figure, axes = panels(2, 4, width=2.75, height=2.6)
    tables = result.tables
    over_m, over_d = tables["attack over m"], tables["attack over d"]
    first, second, third, fourth = axes[0]
    for name in ("none", "noise", "dropout"):
        _points(first, _of(over_m, name), "width", _LOOKS[name])
        _points(third, _of(over_d, name), "dimension", _LOOKS[name])
    _reference(first, _of(over_m, "none"), "width", -0.5, last=True)
    _reference(third, _of(over_d, "none"), "dimension", 0.5, last=True)
    _bound(first, tables["bound over m"], "width", -0.5)
    _bound(third, tables["bound over d"], "dimension", 0.5)
    pruned = tables["attack over m, pruned"]
    for name, line in (("0.5", "-"), ("0.9", "--")):
        _points(second, _of(pruned, name), "width", _LOOKS[name], line)
    _points(second, _of(tables["attack over m, both"], "both"), "width", _LOOKS["both"])
    _points(second, _of(pruned, "none"), "width", _LOOKS["none"])
    _reference(second, _of(pruned, "none"), "width", -0.5, last=True)
    batch = tables["attack over B"]
    for kind, line in (("random", "-"), ("equal", "--")):
        _points(fourth, batch[batch["labels"] == kind], "batch", _LOOKS["none"], line)
    _reference(fourth, batch[batch["labels"] == "random"], "batch", 1.0)
    bound = tables["bound over B"]
    _bound(fourth, bound, "batch", 0.0)
    _logarithmic(first, "width m", _widths(over_m))
    _logarithmic(second, "width m: pruning, clipping", _widths(pruned))
    _logarithmic(third, "dimension d", sorted(set(over_d["dimension"])))
    _logarithmic(fourth, "batch size B", sorted(set(batch["batch"])))
    _own_factors(axes[1], tables)
    for line in axes:
        line[0].set_ylabel("error of the records")
    legend_above(
        figure,
        [
            legend_line("no defence", GREY, "-", "o"),
            legend_line("noise", _LOOKS["noise"]["color"], "-", "^"),
            legend_line("dropout", _LOOKS["dropout"]["color"], "-", "D"),
            legend_line("clipping and noise", _LOOKS["both"]["color"], "-", "s"),
            legend_line("pruning, p = 0.5 (dashed .9)", _LOOKS["0.5"]["color"], "-", "v"),
            legend_line("equal labels", GREY, "--", "o"),
            legend_line("Cramér-Rao bound", GREY, "", "o", markerfacecolor="white"),
            legend_line("printed order", "black", ":"),
        ],
        4,
    )
    return figure


def _bound(axis: Axes, table: pd.DataFrame, x: str, power: float, name: str = "none") -> None:
    """The Cramér-Rao bound in hollow points, with its printed order."""
    _points(axis, table, x, _LOOKS[name], "", markerfacecolor="white")
    _reference(axis, table, x, power)


def _own_factors(axes: list[Axes], tables) -> None:
    """The factors that one defence has alone."""
    noise, ratio, left = (tables[f"attack over {k}"] for k in ("sigma0", "ratio", "1-p"))
    _points(axes[0], noise, "level", _LOOKS["noise"])
    _reference(axes[0], noise, "level", 1.0, last=True)
    _bound(axes[0], tables["bound over sigma0"], "level", 1.0, "noise")
    _logarithmic(axes[0], r"noise $\sigma_0$", sorted(set(noise["level"])))
    _points(axes[1], ratio, "ratio", _LOOKS["both"])
    _reference(axes[1], ratio, "ratio", 1.0, last=True)
    _bound(axes[1], tables["bound over ratio"], "ratio", 1.0, "both")
    _logarithmic(axes[1], "clipping ratio |G| / C", (1, 2, 5, 10, 20, 50))
    _points(axes[2], left, "left", _LOOKS["dropout"])
    _reference(axes[2], left, "left", -0.5, last=True)
    _bound(axes[2], tables["bound over 1-p"], "left", -0.5, "dropout")
    _logarithmic(axes[2], "share 1 - p of kept neurons", sorted(set(left["left"])))
    axes[3].set_axis_off()

"""Drawing the proposed attack beside others: what Tables 3 and 6 and the algorithms share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from companion.style import (
    ATTACKS,
    BLUE,
    COLOURS,
    GREEN,
    GREY,
    ORANGE,
    PURPLE,
    legend_line,
    picture,
)

__all__ = ["METHODS", "draw_metric", "draw_strips", "method_entries"]

#: colours of the attack with and without its parts, and of those it is held against
METHODS = {
    "w/o GR and FM": BLUE,
    "Geiping": BLUE,
    "w/o FM": ATTACKS["w/o FM"]["color"],
    "Ours": ORANGE,
    "Ours, untrained network": GREEN,
    "Jeon": PURPLE,
}


def draw_metric(
    axis: Axes, cells: pd.DataFrame, printed: pd.DataFrame, metric: str, methods: Sequence[str]
) -> None:
    """Ours with 95% intervals by batch size, printed numbers hollow."""
    mine = cells[cells["metric"] == metric]
    sizes = list(dict.fromkeys(mine["batch size"]))
    for number, method in enumerate(methods):
        shift = 0.22 * (number - (len(methods) - 1) / 2)
        colour = METHODS.get(method, COLOURS[number % len(COLOURS)])
        rows = mine[mine["method"] == method]
        axis.errorbar(
            np.arange(len(sizes)) + shift,
            rows["value"],
            yerr=1.96 * rows["error"],
            color=colour,
            marker="o",
            markersize=5,
            linestyle="",
            capsize=2,
            zorder=3,
        )
        theirs = printed[(printed["method"] == method) & (printed["metric"] == metric)]
        theirs = theirs[theirs["batch size"].isin(sizes)]
        axis.plot(
            [sizes.index(n) + shift for n in theirs["batch size"]],
            theirs["value"],
            "D",
            markerfacecolor="white",
            color=colour,
            markersize=5,
            zorder=4,
        )
    axis.set_xticks(range(len(sizes)), [str(n) for n in sizes])
    axis.set(xlabel="batch size", xlim=(-0.5, len(sizes) - 0.5))


def method_entries(methods: Sequence[str]) -> list[Line2D]:
    """Entries of a legend for methods and for what is printed."""
    return [
        *(legend_line(name, METHODS.get(name, GREY), "", "o") for name in methods),
        legend_line("printed (CIFAR-10)", GREY, "", "D", markerfacecolor="white"),
    ]


def draw_strips(axes: Sequence[Axes], images: Mapping[str, np.ndarray]) -> None:
    """Rows of pictures with their names above."""
    for axis, (name, image) in zip(axes, images.items(), strict=True):
        picture(axis, image)
        axis.set_title(name, loc="left", fontsize=9)

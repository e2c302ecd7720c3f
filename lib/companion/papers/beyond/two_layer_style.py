"""Colours of attacks on two-layer networks; panels of errors and of fitted exponents."""

from collections.abc import Mapping
from typing import Any

import pandas as pd
from matplotlib.axes import Axes

from companion.style import BLUE, BOUND, GREEN, ORANGE

__all__ = ["ATTACKS", "BLACK", "draw_errors", "draw_exponents"]

#: label, colour and marker of a curve
Look = tuple[str, str, str]
ATTACKS: dict[str, Look] = {
    "tensor": ("tensor attack, as published", BLUE, "s"),
    "orders removed": ("low orders removed", GREEN, "^"),
    "least squares": ("least squares", ORANGE, "o"),
}
#: of the exact Cramer-Rao bound
BLACK = BOUND


def draw_errors(axes: Axes, over: str, table: pd.DataFrame, looks: Mapping[str, Look]) -> None:
    """Draw geometric means with their intervals over a column, on logarithmic scales."""
    for name, (_, colour, marker) in looks.items():
        room = [table[name] - table[f"{name} low"], table[f"{name} high"] - table[name]]
        line: dict[str, Any] = {
            "color": colour,
            "marker": marker,
            "ms": 4.5,
            "linewidth": 1.3,
            "elinewidth": 0.9,
        }
        axes.errorbar(table[over], table[name], yerr=room, capsize=2, **line)
    axes.set(xscale="log", yscale="log")


def draw_exponents(
    axes: Axes, table: pd.DataFrame, looks: Mapping[str, Look], column: str, values: tuple[str, str]
) -> None:
    """Draw exponents with their intervals: filled and hollow marks for two values of a column."""
    by = table.set_index(["quantity", column])
    places = range(len(looks))[::-1]
    sides = ((values[0], 0.15, None), (values[1], -0.15, "white"))
    for place, (name, (_, colour, marker)) in zip(places, looks.items(), strict=True):
        for value, shift, face in sides:
            own, y = by.loc[(name, value)], place + shift
            axes.plot([own["low"], own["high"]], [y, y], color=colour, linewidth=1.4)
            axes.plot(own["exponent"], y, marker, color=colour, ms=5, mfc=face)
    axes.set_yticks(places, [label for label, _, _ in looks.values()])
    axes.set_ylim(-0.6, len(looks) - 0.4)

"""How the pictures of reconstructions mark data sets, releases, our numbers and printed ones."""

from collections.abc import Sequence
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from companion.papers.biswas2024.printed_reconstructions import SETS
from companion.study import Tables
from companion.style import GREEN, GREY, MECHANISMS, legend_line


def title(tables: Tables, which: str) -> str:
    """Return the name of the attacked data set, and of the one whose numbers are printed."""
    name = str(tables.parameters[which])
    return name if name == SETS[which] else f"{name} (printed: {SETS[which]})"


def colour_of(row: str) -> str:
    """Return the colour of a release, by its name."""
    mechanism = row.partition(",")[0]
    return MECHANISMS.get(mechanism, GREEN if row == "clipping only" else GREY)


def points(axis: Axes, table: pd.DataFrame, x: str, value: str, colour: str) -> None:
    """Draw ours with 95% intervals."""
    style: dict[str, Any] = {
        "capsize": 2,
        "elinewidth": 1,
        "marker": "o",
        "markersize": 4,
        "linewidth": 1.3,
    }
    error = 1.96 * table[f"{value} error"]
    axis.errorbar(table[x], table[value], yerr=error, color=colour, zorder=3, **style)


def hollow(axis: Axes, x: Sequence[float], y: Sequence[float], colour: str) -> None:
    """Draw printed numbers."""
    axis.plot(x, y, "D", markerfacecolor="white", color=colour, markersize=4.5, zorder=4)


def hollow_entry() -> Line2D:
    """Return the legend's entry for printed numbers."""
    return legend_line("printed", GREY, "", "D", markerfacecolor="white")


def mechanism_entries() -> list[Line2D]:
    """Return the legend's entries for the two mechanisms."""
    return [legend_line(name, colour, "-", "o") for name, colour in MECHANISMS.items()]


def cells_at(cells: pd.DataFrame, which: str, size: int, mechanism: str) -> pd.DataFrame:
    """Return one series of cells, by pair."""
    chosen = (cells["data"] == which) & (cells["batch size"] == size)
    return cells[chosen & (cells["mechanism"] == mechanism)].sort_values("pair")


def over_epsilon(
    axis: Axes, ours: pd.DataFrame, printed: pd.DataFrame, which: str, size: int, metric: str
) -> None:
    """Draw both mechanisms over the printed epsilon, ours and printed."""
    for mechanism, colour in MECHANISMS.items():
        mine, theirs = (cells_at(t, which, size, mechanism) for t in (ours, printed))
        points(axis, mine, "epsilon", metric, colour)
        hollow(axis, theirs["epsilon"], theirs[metric], colour)
    axis.set_xscale("log")

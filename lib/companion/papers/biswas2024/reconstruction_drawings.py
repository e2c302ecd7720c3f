"""How the pictures of reconstructions mark data sets, releases, our numbers and printed ones."""

from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from companion.exhibit import *
from companion.exhibit import MECHANISMS
from companion.papers.biswas2024.printed_reconstructions import SETS


def comparable(tables: Tables, which: str) -> bool:
    """Return whether the pictures are the paper's, so that printed errors belong beside ours."""
    return not tables.origin_of(which)


def title(tables: Tables, which: str) -> str:
    """Return the name of the attacked data set, and whose place it takes."""
    name = shown_name(tables.parameters[which])
    return name if comparable(tables, which) else f"{name} (for {shown_name(SETS[which])})"


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


def hollow_entries(tables: Tables) -> list[Line2D]:
    """Return the legend's entry for printed numbers, where any are drawn."""
    return [printed_entry()] if any(comparable(tables, which) for which in SETS) else []


def mechanism_entries() -> list[Line2D]:
    """Return the legend's entries for the two mechanisms."""
    return [legend_line(name, colour, "-", "o") for name, colour in MECHANISMS.items()]


def cells_at(cells: pd.DataFrame, which: str, size: int, mechanism: str) -> pd.DataFrame:
    """Return one series of cells, by pair."""
    chosen = (cells["data"] == which) & (cells["batch size"] == size)
    return cells[chosen & (cells["mechanism"] == mechanism)].sort_values("pair")


def over_epsilon(axis: Axes, tables: Tables, which: str, size: int, metric: str) -> None:
    """Draw both mechanisms over the printed epsilon, ours and on the paper's data the printed."""
    for mechanism, colour in MECHANISMS.items():
        mine, theirs = (
            cells_at(tables[name], which, size, mechanism) for name in ("ours", "printed")
        )
        points(axis, mine, "epsilon", metric, colour)
        if comparable(tables, which):
            mark_printed(axis, theirs["epsilon"], theirs[metric], colour)
    axis.set_xscale("log")

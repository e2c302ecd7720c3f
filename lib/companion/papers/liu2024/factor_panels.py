"""Drawing errors over one factor of Table 1 on logarithmic axes (Liu et al. 2024)."""

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
from matplotlib.axes import Axes

__all__ = ["draw_means", "draw_order", "set_logarithmic", "spread_widths"]


def draw_means(
    axis: Axes, table: pd.DataFrame, x: str, look: Mapping[str, Any], line: str = "-", **more: Any
) -> None:
    """Draw geometric means with their intervals, in the order of x."""
    some = table.sort_values(x)
    more |= {"markersize": 4.5, "linewidth": 1.3, "elinewidth": 1, "capsize": 2, "zorder": 3}
    intervals = [some["error"] - some["low"], some["high"] - some["error"]]
    axis.errorbar(some[x], some["error"], intervals, linestyle=line, **look, **more)


def draw_order(axis: Axes, table: pd.DataFrame, x: str, power: float, last: bool = False) -> None:
    """Draw the printed order as a line through the first or last point."""
    some = table.sort_values(x)
    at, through = some[x].iloc[[0, -1]].to_numpy(float), -1 if last else 0
    values = some["error"].iloc[through] * (at / at[through]) ** power
    axis.plot(at, values, ":", color="black", linewidth=1.1, zorder=2)


def set_logarithmic(axis: Axes, xlabel: str, ticks: Sequence[float]) -> None:
    """Make both axes logarithmic, with plain numbers on them."""
    axis.set(xscale="log", yscale="log", xlabel=xlabel)
    axis.set_xticks(ticks, [f"{t / 1024:g}k" if t >= 1024 else f"{t:g}" for t in ticks])
    axis.set_xticks([], minor=True)
    low, high = axis.get_ylim()
    levels = (a * 10.0**k for k in range(-4, 1) for a in (1, 2, 5))
    shown = [v for v in levels if low <= v <= high]
    axis.set_yticks(shown, [f"{v:g}" for v in shown])
    axis.set_yticks([], minor=True)


def spread_widths(table: pd.DataFrame) -> list[float]:
    """The widths that leave room for their labels: each at least three times the one before."""
    found: list[float] = []
    for width in sorted(set(table["width"])):
        if not found or width >= 3 * found[-1]:
            found.append(width)
    return found

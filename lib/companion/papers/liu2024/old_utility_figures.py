"""Drawing of Liu et al. 2024, Figure 3."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from companion.drawings import draws
from companion.study.results import Result
from companion.style import DEFENCES, legend_above, legend_line, panels

__all__ = ["figure3"]

#: areas of the marks by batch size, the smallest first
_AREAS = (16, 34, 60)


@draws(
    "liu2024/fig3",
    caption="Figure 3: lowest RMSE over the attacks against the final training loss, one mark for "
    "each strength and batch size (the larger, the larger the mark). Left: Tables 4 and 5 as "
    "printed. Middle: ours, with one standard error over trainings and over pictures. Right: ours "
    "where attackers may allow for the defence. Lines join the marks that no other beats. Losses "
    "are on a logarithmic axis.",
    alt="Three scatter plots of lowest reconstruction error over training loss, marks by defence. "
    "Strong noise lies far to the right. In the printed panel strong pruning is highest; lines "
    "join the points on the upper left front.",
)
def figure3(result: Result) -> Figure:
    figure, (axes,) = panels(1, 3, width=3.5, height=3.2)
    shown = (("printed", "printed"), ("ours", "ours"), ("aware", "ours, aware"))
    sizes = sorted(set(result.tables["ours"]["batch size"]))
    fronts = result.tables["fronts"]
    for axis, (name, front) in zip(axes, shown, strict=True):
        _marks(axis, result.tables[name], sizes)
        edge = fronts[fronts["points"] == front].sort_values("loss")
        axis.step(edge["loss"], edge["RMSE"], where="post", color="#5F5F5F", linewidth=1, zorder=1)
        axis.set(xscale="log", xlabel="final training loss")
        axis.set_title({"aware": "ours, aware attackers"}.get(name, name), loc="left")
        _plain_ticks(axis)
    axes[0].set_ylabel("lowest RMSE")
    present = set(result.tables["ours"]["defence"])
    legend_above(
        figure,
        [
            legend_line(name, str(look["color"]), "", str(look["marker"]))
            for name, look in DEFENCES.items()
            if name in present
        ],
        6,
    )
    return figure


def _marks(axis: Axes, points: pd.DataFrame, sizes: list[int]) -> None:
    finite = points[np.isfinite(points["loss"])]
    for name, own in finite.groupby("defence", sort=False):
        look = DEFENCES[str(name)]
        if "error" in own:
            axis.errorbar(
                own["loss"],
                own["RMSE"],
                xerr=own["error"],
                yerr=own["RMSE error"],
                linestyle="",
                color=look["color"],
                elinewidth=0.6,
                alpha=0.45,
                zorder=2,
            )
        axis.scatter(
            own["loss"],
            own["RMSE"],
            s=[_AREAS[min(sizes.index(n), len(_AREAS) - 1)] for n in own["batch size"]],
            color=look["color"],
            marker=look["marker"],
            linewidths=0.4,
            edgecolors="white",
            zorder=3,
        )


def _plain_ticks(axis: Axes) -> None:
    """A few round numbers on a short logarithmic axis."""
    low, high = axis.get_xlim()
    ticks = [t for t in (0.2, 0.5, 1, 2, 5, 10, 20, 50) if low <= t <= high]
    axis.set_xticks(ticks, [f"{t:g}" for t in ticks])
    axis.minorticks_off()

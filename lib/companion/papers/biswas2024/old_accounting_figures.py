"""Pictures of exhibits of Biswas et al. 2024 (accounting)."""

from __future__ import annotations

import math

from matplotlib.figure import Figure

from companion.drawings import draws
from companion.study import Result
from companion.style import COLOURS, GREEN, GREY, PURPLE, legend_line, panels

__all__ = ["APPROACHES"]

KEY = "biswas2024"

#: of the paper's two ways of accounting, the same in every picture
APPROACHES = {1: GREEN, 2: PURPLE}


@draws(
    f"{KEY}/prop1",
    caption="The Rényi divergence of two VMF laws of the paper's dimension, p = 13,700. Left: of "
    "opposite centres over the order, for four concentrations, with the straight line that "
    "Gaussian noise of the same spread has (dotted); they part at large orders, the sooner the "
    "larger the concentration. Right: of order two over the angle between the centres; it is "
    "largest at 180 degrees. Not in the paper as a picture; its Proposition 1 and footnote 3.",
    alt="Left: four rising lines on log-log axes, one above the other by concentration, each on a "
    "dotted straight line that it leaves at the right, the highest first. Right: four curves that "
    "rise with the angle to their largest value at 180 degrees, also on a logarithmic scale.",
)
def proposition1(result: Result) -> Figure:
    orders, angles = result.tables["by order"], result.tables["by angle"]
    figure, (row,) = panels(1, 2, 4.4, 3.3)
    for colour, (kappa, part) in zip(COLOURS, orders.groupby("kappa"), strict=False):
        row[0].plot(part["order"], part["divergence"], color=colour, label=rf"$\kappa$ = {kappa:g}")
        row[0].plot(part["order"], part["Gaussian"], ":", color="black", linewidth=1.1)
        turn = angles[angles["kappa"] == kappa]
        row[1].plot(turn["angle"] * 180 / math.pi, turn["divergence"], color=colour)
    row[0].plot([], [], ":", color="black", linewidth=1.1, label=r"$2\alpha\kappa^2/p$")
    row[0].set(
        xscale="log",
        yscale="log",
        xlabel=r"order $\alpha$",
        ylabel="Rényi divergence, opposite centres",
        xticks=[1, 2, 4, 8, 16, 32, 64],
        xticklabels=["1", "2", "4", "8", "16", "32", "64"],
    )
    row[0].minorticks_off()
    row[1].set(
        yscale="log",
        ylim=(1e-3, 200),
        xlabel="angle between the centres (degrees)",
        ylabel="divergence of order 2",
        xticks=[0, 45, 90, 135, 180],
    )
    figure.legend(loc="outside upper center", ncols=5)
    return figure


@draws(
    f"{KEY}/thm1",
    caption="The divergence of opposite centres of VMF noise for three orders. Left: over the "
    "concentration at p = 13,700; it grows. Right: over the dimension at concentration 75; it "
    "falls, from twice the concentration, the largest possible loss, in few dimensions to almost "
    "nothing in many. Dashed: the paper's dimension. Not in the paper as a picture.",
    alt="Left: three curves that rise with the concentration on log-log axes, higher for higher "
    "orders. Right: three curves, flat at 150 in few dimensions, then falling along straight "
    "lines; a dashed vertical line at 13,700.",
)
def theorem1(result: Result) -> Figure:
    curves = result.tables["curves"]
    figure, (row,) = panels(1, 2, 4.4, 3.2)
    for axes, over in zip(row, ("concentration", "dimension"), strict=True):
        part = curves[curves["over"] == over]
        for colour, (order, line) in zip(COLOURS, part.groupby("order"), strict=False):
            axes.plot(line["at"], line["divergence"], color=colour, label=rf"$\alpha$ = {order:g}")
        axes.set(xscale="log", yscale="log", ylabel="Rényi divergence")
    row[0].set(xlabel=r"concentration $\kappa$", xticks=[5, 25, 75, 200, 500])
    row[0].set_xticklabels(["5", "25", "75", "200", "500"])
    row[0].minorticks_off()
    row[0].legend(loc="upper left")
    row[1].axvline(13_700, color=GREY, linestyle="--", linewidth=1.1)
    row[1].set(xlabel="dimension p")
    return figure


@draws(
    f"{KEY}/alg_accounting2",
    caption="Epsilon of VMF noise by the paper's two approaches at three compositions, over the "
    "concentration. Circles: every epsilon that Tables I and IV print, in the colour of the "
    "approach that is named or that gives it. Left: on a logarithmic scale; neither approach is "
    "always the better one. Right: the printed values over the better approach, whose search may "
    "lose some per cent (grey). Two lie below: they rest on straight lines between divergences, "
    "which bound nothing.",
    alt="Left: two rising curves that cross twice, near concentrations 103 and 422; seventeen "
    "circles lie along the lower one. Right: fifteen circles in a narrow band above one, one a "
    "little below it at a concentration of 150 and one at 0.8 at 300.",
)
def approach2(result: Result) -> Figure:
    curves, printed = result.tables["curves"], result.tables["printed"]
    figure, (row,) = panels(1, 2, 4.4, 3.3)
    row[1].axhspan(1.0, 1.04, color="#DDDDDD", linewidth=0)
    for approach, colour in APPROACHES.items():
        own = printed[printed["approach"] == approach]
        row[0].plot(curves["kappa"], curves[f"approach {approach}"], color=colour)
        circles = {"linestyle": "", "marker": "o", "color": colour, "mfc": "white", "ms": 5}
        row[0].plot(own["kappa"], own["printed"], **circles)
        row[1].plot(own["kappa"], own["printed"] / own["best"], **circles)
    row[0].set(yscale="log", xlabel=r"concentration $\kappa$", ylabel=r"$\epsilon$ at T = 3")
    row[1].set(
        xlabel=r"concentration $\kappa$",
        ylabel=r"printed $\epsilon$ / better approach",
        ylim=(0.77, 1.07),
    )
    figure.legend(
        handles=[
            *(legend_line(f"approach {n}", colour) for n, colour in APPROACHES.items()),
            *(
                legend_line(f"printed, approach {n}", colour, "", "o", mfc="white")
                for n, colour in APPROACHES.items()
            ),
        ],
        loc="outside upper center",
        ncols=4,
    )
    return figure

"""Pictures of our own: accounting of von Mises-Fisher noise."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from companion.drawings import draws
from companion.papers.biswas2024.old_accounting_figures import APPROACHES
from companion.study import Result
from companion.style import GREY, MECHANISMS, legend_line, panels

__all__: list[str] = []


@draws(
    "beyond/vmf_accountant",
    caption="What VMF noise costs over its concentration at the paper's p, q and delta: by the "
    "paper's two approaches and certified from both sides (the band is thinner than the line). "
    "Left: at 3 compositions, one an epoch; crosses: Table IV. Right: at the "
    "1,407 steps that were run, with the same crosses. They lie above what 3 compositions cost and "
    "below what 1,407 do; at 1,407 both approaches are useless beyond a concentration of 200.",
    alt="Two panels on logarithmic scales. Left: three rising curves, the certified one lowest, "
    "the crosses along the lower of the two others. Right: the certified curve rises to 395 and "
    "passes above the crosses; the two approaches leave it and reach ten thousands.",
)
def vmf_accountant(result: Result) -> Figure:
    curves, printed = result.tables["curves"], result.tables["printed"]
    figure, (row,) = panels(1, 2, 4.4, 3.4)
    colour = MECHANISMS["VMF"]
    for axes, (steps, part) in zip(row, curves.groupby("T"), strict=True):
        for approach, shade in APPROACHES.items():
            axes.plot(part["kappa"], part[f"approach {approach}"], "--", color=shade, linewidth=1.4)
        axes.fill_between(part["kappa"], part["certified from"], part["certified to"], color=colour)
        axes.plot(part["kappa"], part["certified to"], color=colour)
        axes.plot(printed["kappa"], printed["printed"], "x", color="black", ms=5, mew=1.2)
        axes.set(yscale="log", xlabel=r"concentration $\kappa$")
        axes.set_title(f"{steps:,.0f} compositions")
    row[0].set(ylabel=r"$\epsilon$")
    figure.legend(
        handles=[
            *(legend_line(f"approach {n}", shade, "--") for n, shade in APPROACHES.items()),
            legend_line("certified", colour),
            legend_line("printed", "black", "", "x"),
        ],
        loc="outside upper center",
        ncols=4,
    )
    return figure


@draws(
    "beyond/fair_pairs",
    caption="Left: the concentration paired with each noise multiplier, as printed (crosses), with "
    "the same certified epsilon after 1,407 steps (circles), and by the closed form (line); "
    "dashed, if three layers are clipped each by itself. Right: the certified epsilon of both "
    "halves of every printed pair, over the printed one: the concentration costs more, the noise "
    "multiplier less than what the pair is said to cost (dashed). Not in the paper.",
    alt="Left: circles on a straight falling line on log-log axes; the crosses lie "
    "above it and below a dashed parallel. Right: two rows of dots on log-log axes, those of the "
    "concentrations above the dashed diagonal, those of the noise multipliers below it.",
)
def fair_pairs(result: Result) -> Figure:
    table = result.tables["pairs"]
    figure, (row,) = panels(1, 2, 4.4, 3.3)
    gaussian, vmf = MECHANISMS["Gaussian"], MECHANISMS["VMF"]
    row[0].plot(table["sigma"], table["closed form"], color=GREY, label=r"$\sqrt{p}/(2\sigma)$")
    row[0].plot(
        table["sigma"], table["by layers"], "--", color=GREY, linewidth=1.2, label="three layers"
    )
    row[0].plot(
        table["sigma"], table["fair kappa"], "o", color=vmf, ms=4.5, label="equal certified epsilon"
    )
    row[0].plot(
        table["sigma"], table["printed kappa"], "x", color="black", ms=5, mew=1.2, label="printed"
    )
    row[0].set(
        xscale="log",
        yscale="log",
        xlabel=r"noise multiplier $\sigma$",
        ylabel=r"concentration $\kappa$",
        xticks=[0.2, 0.4, 0.8],
        xticklabels=["0.2", "0.4", "0.8"],
        yticks=[50, 100, 200, 400],
        yticklabels=["50", "100", "200", "400"],
    )
    row[0].minorticks_off()
    row[0].legend(loc="upper right")
    ends = np.array([0.2, 500.0])
    row[1].plot(ends, ends, "--", color=GREY, linewidth=1.1)
    for name, colour, label in (
        ("epsilon of printed kappa", vmf, "printed concentration (VMF)"),
        ("epsilon of sigma", gaussian, "printed noise multiplier (Gaussian)"),
    ):
        row[1].plot(table["printed epsilon"], table[name], "o", color=colour, ms=4.5, label=label)
    row[1].set(
        xscale="log",
        yscale="log",
        xlabel=r"printed $\epsilon$",
        ylabel=r"certified $\epsilon$, 1,407 steps",
    )
    row[1].legend(loc="upper left")
    return figure

"""Picture of our own exhibit on accuracy at equal epsilon."""

from __future__ import annotations

from typing import Any

from matplotlib.figure import Figure

from companion.drawings import draws
from companion.study import Result
from companion.style import GREEN, GREY, MECHANISMS, PURPLE, legend_line, panels

__all__: list[str] = []

_POINTS: dict[str, Any] = {"markersize": 4.5, "linewidth": 1.4, "capsize": 2.5, "elinewidth": 1}
_BY_LAYER, _WHOLE, _FAIR = (
    "paper's pairs",
    "paper's pairs, clipped as a whole",
    "equal epsilon",
)


@draws(
    "beyond/fair_utility",
    caption="Left: test accuracy over the epsilon that each noise is certified to cost after the "
    "paper's 1,407 steps. At equal epsilon both mechanisms clip the gradient as a whole; hollow "
    "points are VMF noise at the paper's concentrations, which stand to the right of where "
    "the paper puts them. Right: by how much Gaussian noise is ahead at the paper's pairs, as it "
    "clips and with the gradient clipped as a whole, and at pairs that really have one epsilon, "
    "over the paper's label of the pair. Bars: 95% intervals of the mean over runs.",
    alt="Left: the blue Gaussian curve runs flat near the line of training without noise; the "
    "orange VMF curve starts near guessing and rises with epsilon, well below. Right: gaps over "
    "the paper's labels; with the same clipping the gap at equal epsilon lies above the gap at the "
    "paper's pairs.",
)
def fair_utility(result: Result) -> Figure:
    table, gaps = result.tables["accuracy"], result.tables["gaps"]
    figure, ((left, right),) = panels(1, 2, width=4.4, height=3.5)
    for pairing, mechanism in ((_FAIR, "Gaussian"), (_FAIR, "VMF"), (_WHOLE, "VMF")):
        own = table[(table["pairing"] == pairing) & (table["mechanism"] == mechanism)]
        fair = pairing == _FAIR
        left.errorbar(
            own["epsilon"],
            own["mean"],
            yerr=1.96 * own["error"],
            color=MECHANISMS[mechanism],
            marker="o" if fair else "s",
            markerfacecolor=MECHANISMS[mechanism] if fair else "white",
            linestyle="-" if fair else ":",
            **_POINTS,
        )
    none = table.loc[table["mechanism"] == "none", "mean"].mean()
    left.axhline(none, color=GREY, linestyle="--", linewidth=1.2)
    left.axhline(0.1, color=GREY, linestyle=":", linewidth=1.2)
    left.set(xscale="log", ylim=(0, 1.02), xlabel=r"certified $\varepsilon$", ylabel="accuracy")
    left.set_title("accuracy", loc="left")
    for pairing, colour, marker, label in (
        (_BY_LAYER, PURPLE, "s", "the paper's pairs, clipped by layer"),
        (_WHOLE, GREY, "^", "the paper's pairs, clipped as a whole"),
        (_FAIR, GREEN, "o", "equal epsilon, clipped as a whole"),
    ):
        own = gaps[gaps["pairing"] == pairing]
        right.errorbar(
            own["paper's epsilon"],
            own["gap"],
            yerr=1.96 * own["error"],
            color=colour,
            marker=marker,
            label=label,
            **_POINTS,
        )
    right.axhline(0, color=GREY, linewidth=1)
    right.set(
        xscale="log",
        xlabel=r"the paper's $\varepsilon$ of the pair",
        ylabel="Gaussian less VMF accuracy",
        ylim=(min(-0.02, 1.1 * float(gaps["gap"].min())), 1.02),
    )
    right.set_title("gap", loc="left")
    right.legend(loc="upper right")
    figure.legend(
        handles=[
            legend_line("Gaussian", MECHANISMS["Gaussian"], "-", "o"),
            legend_line("VMF at equal epsilon", MECHANISMS["VMF"], "-", "o"),
            legend_line(
                "VMF at the paper's kappa", MECHANISMS["VMF"], ":", "s", markerfacecolor="white"
            ),
            legend_line("no noise", GREY, "--"),
            legend_line("guessing", GREY, ":"),
        ],
        loc="outside upper center",
        ncols=5,
        columnspacing=1.3,
        handlelength=2.2,
    )
    return figure

"""Pictures of the exhibits of Biswas et al. 2024 that train networks."""

from __future__ import annotations

from matplotlib.figure import Figure

from companion.drawings import draws
from companion.style import GREY, MECHANISMS, legend_above, legend_line, panels
from companion.study import Result

__all__: list[str] = []

KEY = "biswas2024"


@draws(
    f"{KEY}/fig2",
    caption="Test accuracy of networks trained with Gaussian and with von Mises-Fisher noise over "
    "the epsilon that the paper gives a pair of noises (its Table IV; a label, not what either "
    "noise costs). Points: means over runs with 95% intervals. Crosses: the printed accuracies of "
    "Table V at batch size 128, also where other data stand in here. "
    "Lines across: training without noise, ours and as printed, and guessing.",
    alt="Two panels over a logarithmic epsilon axis. In both, the blue Gaussian points lie near "
    "the dashed line of training without noise and hardly rise; the orange VMF points lie below "
    "and rise from left to right without meeting them. Crosses mark the printed numbers.",
)
def figure2(result: Result) -> Figure:
    table = result.tables["accuracy"]
    figure, (axes,) = panels(1, 2, width=4.3, height=3.5)
    for axis, (name, own), paper in zip(
        axes, table.groupby("name", sort=False), ("MNIST", "Fashion-MNIST"), strict=True
    ):
        for mechanism, colour in MECHANISMS.items():
            part = own[own["mechanism"] == mechanism].sort_values("epsilon")
            axis.errorbar(
                part["epsilon"],
                part["mean"],
                yerr=1.96 * part["error"],
                color=colour,
                marker="o",
                markersize=4.5,
                linewidth=1.4,
                capsize=2.5,
                elinewidth=1,
            )
            axis.plot(part["epsilon"], part["printed"], "x", color=colour, markersize=6)
        without = own[own["mechanism"] == "none"].iloc[0]
        axis.axhline(without["mean"], color=GREY, linestyle="--", linewidth=1.2)
        axis.axhline(without["printed"], color=GREY, linestyle="-.", linewidth=1.0)
        axis.axhline(0.1, color=GREY, linestyle=":", linewidth=1.2)
        axis.set(xscale="log", ylim=(0, 1.02), xlabel=r"the paper's $\varepsilon$ of the pair")
        title = paper if name == paper else f"{name} (for {paper})"
        axis.set_title(title, loc="left")
    axes[0].set_ylabel("test accuracy")
    legend_above(
        figure,
        [
            legend_line("Gaussian", MECHANISMS["Gaussian"], "-", "o"),
            legend_line("VMF", MECHANISMS["VMF"], "-", "o"),
            legend_line("printed", GREY, "", "x"),
            legend_line("no noise", GREY, "--"),
            legend_line("no noise, printed", GREY, "-."),
            legend_line("guessing", GREY, ":"),
        ],
        6,
    )
    return figure

"""Pictures of Biswas et al. 2024, Section V: Bayes' capacity."""

from __future__ import annotations

from matplotlib.figure import Figure

from companion.drawings import draws
from companion.study import Result
from companion.style import GREY, MECHANISMS, legend_above, legend_line, panels

__all__: list[str] = []

KEY = "biswas2024"

_MARKERS = {"Gaussian": "o", "VMF": "s"}


@draws(
    f"{KEY}/fig5",
    caption="Log of Bayes' capacity over epsilon for the pairs of Table IV. Left, as in the paper: "
    "the Gaussian's by Theorem 5, with the batch average and the ball of all layers, over the "
    "printed epsilon. Middle: the same over the certified epsilon of the run; grey lines join the "
    "two mechanisms of a pair. Dashed: the log of the number of batches of 128 of the 60,000 "
    "records. Right: with one record's gradient of length at most one at stake instead of the "
    "average, and twice VMF's log capacity at the Gaussian's certified epsilon (crosses).",
    alt="Left and middle: on a log axis all Gaussian points lie near thirty thousand nats, above a "
    "dashed line at 912, and all VMF points between 75 and 491, below it; in the middle grey lines "
    "lean to the right from the Gaussian point of each pair to its VMF point. Right: two rising "
    "curves, the Gaussian one above; crosses of twice VMF's values lie on it.",
)
def figure5(result: Result) -> Figure:
    points = result.tables["points"]
    figure, (row,) = panels(1, 3, 3.2, 3.1)
    over = {
        "Gaussian": ("epsilon", "certified epsilon, Gaussian", "certified epsilon, Gaussian"),
        "VMF": ("epsilon", "certified epsilon, VMF", "certified epsilon, VMF"),
    }
    capacity = {
        "Gaussian": ("Gaussian", "Gaussian", "Gaussian, one record"),
        "VMF": ("VMF", "VMF", "VMF"),
    }
    for x, y in zip(
        points[[columns[1] for columns in over.values()]].to_numpy(),
        points[[columns[1] for columns in capacity.values()]].to_numpy(),
        strict=True,
    ):
        row[1].plot(x, y, color=GREY, linewidth=0.6, alpha=0.6)
    for name, colour in MECHANISMS.items():
        for axes, x_column, y_column in zip(row, over[name], capacity[name], strict=True):
            axes.plot(
                points[x_column],
                points[y_column],
                color=colour,
                marker=_MARKERS[name],
                ms=4,
                linewidth=1.2,
            )
    equal = result.tables["equal epsilon"]
    row[2].plot(equal["epsilon"], 2.0 * equal["VMF"], "x", color=MECHANISMS["VMF"], ms=8, mew=1.6)
    for axes in row[:2]:
        axes.axhline(points["all batches"][0], color=GREY, linestyle="--", linewidth=1.0)
    names = ("printed", "certified", "certified, one record")
    for axes, name in zip(row, names, strict=True):
        axes.set(xscale="log", yscale="log", xlabel=r"$\epsilon$", title=name)
    row[0].set_ylabel("log capacity (nats)")
    for axes in row[:2]:
        axes.set_ylim(50, 1e5)
    row[2].set(
        yticks=[100, 200, 400, 800], yticklabels=["100", "200", "400", "800"], ylim=(60, 900)
    )
    row[2].minorticks_off()
    handles = [
        legend_line(name, colour, marker=_MARKERS[name]) for name, colour in MECHANISMS.items()
    ]
    handles += [
        legend_line("twice VMF at equal epsilon", MECHANISMS["VMF"], "", "x"),
        legend_line("number of possible batches", GREY, "--"),
    ]
    legend_above(figure, handles, 4)
    return figure

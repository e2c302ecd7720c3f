"""Picture of the capacity of gradients whose layers are clipped one by one."""

from __future__ import annotations

from matplotlib.figure import Figure

from companion.drawings import draws
from companion.study import Result
from companion.style import MECHANISMS, legend_above, legend_line, panels

__all__: list[str] = []

_DOMAINS = {
    "ball": ("ball of Theorem 5, each layer clipped", "-"),
    "layers": ("product of the layers' balls", "--"),
    "whole": ("unit ball, clipped as a whole", ":"),
}


@draws(
    "beyond/capacity_of_layers",
    caption="Log of Bayes' capacity of Gaussian noise over the noise multiplier at p = 13,700 in "
    "three layers, by what the gradients are taken to fill: Theorem 5's ball, the product of the "
    "layers' unit balls, which is what clipping each layer gives, and the unit ball of a gradient "
    "clipped as a whole. Left: the average over a batch, as in the paper. Right: one record's "
    "gradient. Dots: Theorem 5 at Table IV's noise. Orange: VMF's capacities at the concentrations "
    "paired with it.",
    alt="Two panels of three falling curves in the same order, the ball of Theorem 5 highest and "
    "the unit ball lowest. On the left all lie between four thousand and fifty thousand nats, far "
    "above the orange squares between 75 and 490; on the right they fall from two thousand to "
    "forty and the squares lie below all three.",
)
def capacity_of_layers(result: Result) -> Figure:
    curves, marks = result.tables["curves"], result.tables["marks"]
    vmf = result.tables["VMF"]["log capacity"]
    blue, orange = MECHANISMS["Gaussian"], MECHANISMS["VMF"]
    figure, (row,) = panels(1, 2, 4.2, 3.3)
    sizes = sorted(curves["batch size"].unique(), reverse=True)
    for axes, size in zip(row, sizes, strict=True):
        lines = curves[curves["batch size"] == size]
        for column, (_, style) in _DOMAINS.items():
            axes.plot(lines["sigma"], lines[column], color=blue, linestyle=style)
        at = marks[marks["batch size"] == size]
        axes.plot(at["sigma"], at["ball"], "o", color=blue, ms=4)
        axes.plot(at["sigma"], vmf, "s", color=orange, ms=4)
        name = "one record" if size == 1 else f"average of {size} records"
        axes.set(
            xscale="log",
            yscale="log",
            title=name,
            xlabel=r"noise multiplier $\sigma$",
            xticks=[0.1, 0.3, 1.0, 3.0],
            xticklabels=["0.1", "0.3", "1", "3"],
        )
        axes.minorticks_off()
    row[0].set_ylabel("log capacity (nats)")
    handles = [legend_line(label, blue, style) for label, style in _DOMAINS.values()]
    handles += [
        legend_line("Table IV", blue, "", "o"),
        legend_line("VMF at the paired concentration", orange, "", "s"),
    ]
    legend_above(figure, handles, 3)
    return figure

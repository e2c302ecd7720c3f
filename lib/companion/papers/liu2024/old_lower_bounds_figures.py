"""Pictures of exhibits of Liu et al. 2024 (lower bounds)."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from companion.drawings import draws
from companion.style import (
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    PURPLE,
    legend_above,
    legend_line,
    panels,
)
from companion.study import Result

__all__: list[str] = []

KEY = "liu2024"


@draws(
    f"{KEY}/prop2_1",
    caption="Left: variance of the noise over the squared sensitivity at delta of 1e-5: the least "
    "that is private, what the moments ask for, and 2 log(1/delta) over the first and the second "
    "power of epsilon. Right: over the width, a gradient entry's mean square, the variances that "
    "privacy asks for, and the one at which no unbiased attack on one record is better than "
    "guessing zero. Not in the paper as a picture.",
    alt="Left: four falling lines on log axes; the moments' line lies just above the least one, "
    "and the dotted line of the first power crosses both. Right: three parallel rising lines, "
    "privacy at epsilon one far above the variance that hides; the gradient's size is flat.",
)
def proposition_2_1(result: Result) -> Figure:
    noise, price = result.tables["noise"], result.tables["price"]
    figure, (row,) = panels(1, 2, 4.3, 3.4)
    for name, colour, style in (
        ("by moments", ORANGE, "-"),
        ("needed", BLUE, "-"),
        ("2 L/epsilon^2", GREY, "--"),
        ("2 L/epsilon", GREY, ":"),
    ):
        label = {
            "by moments": "by the moments",
            "needed": "least",
            "2 L/epsilon^2": r"$2\log(1/\delta)/\epsilon^2$",
            "2 L/epsilon": r"$2\log(1/\delta)/\epsilon$",
        }[name]
        row[0].plot(noise["epsilon"], noise[name], color=colour, linestyle=style, label=label)
    row[0].set(
        xscale="log", yscale="log", xlabel=r"$\epsilon$", ylabel="variance / squared sensitivity"
    )
    row[0].legend(loc="upper right")
    for name, colour, label in (
        ("variance, epsilon = 1", ORANGE, r"private, $\epsilon = 1$"),
        ("variance, epsilon = 10", PURPLE, r"private, $\epsilon = 10$"),
        ("variance that hides", BLUE, "hides the record"),
        ("mean square of an entry", GREY, "gradient, mean square"),
    ):
        row[1].plot(price["m"], price[name], color=colour, marker="o", ms=4)
        row[1].annotate(
            label,
            (price["m"].iloc[0], price[name].iloc[0]),
            xytext=(0, 12),
            textcoords="offset points",
            fontsize=8.5,
            color=colour,
        )
    row[1].set(xscale="log", yscale="log", xlabel="width m", ylabel="variance of an entry's noise")
    row[1].set_xticks(price["m"], [f"{m:,}" for m in price["m"]])
    row[1].minorticks_off()
    row[1].margins(y=0.12)
    return figure


_SWEEPS = (
    ("width", "width m", "log"),
    ("dimension", "dimension d", "log"),
    ("batch_size", "batch size B", "log"),
)


@draws(
    f"{KEY}/thm3_2",
    caption="The Cramer-Rao bound over the noise's standard deviation: exact (blue), exact for who "
    "knows that records have norm one (green), and loosened to a trace as in the paper (orange), "
    "over width, dimension and batch size, and over the share of neurons dropped (dashed) or "
    "entries pruned (solid). Grey: slopes of the paper's order. Geometric means over networks. Not "
    "in the paper as a picture.",
    alt="Four panels on logarithmic axes. Over width all lines fall with slope minus one half; "
    "over dimension they rise with one half; over the batch size the orange line is flat and the "
    "exact ones rise; over the share removed all rise, pruning and dropout nearly alike.",
)
def theorem_3_2(result: Result) -> Figure:
    table = result.tables["bounds"]
    figure, (row,) = panels(1, 4, 2.75, 3.0)
    for axis in row[1:]:
        axis.sharey(row[0])
        axis.tick_params(labelleft=False, which="both")
    for axis, (name, label, scale) in zip(row, _SWEEPS, strict=False):
        part = table[table["over"] == name]
        _bounds(axis, part)
        slope = {"width": -0.5, "dimension": 0.5, "batch_size": 0.0}[name]
        x = part["value"].to_numpy(float)
        start = 0.62 * part["loosened"].iloc[0]
        axis.plot(x, start * (x / x[0]) ** slope, color=GREY, linewidth=1, linestyle="-.")
        axis.set(xscale=scale, yscale="log", xlabel=label)
        axis.set_xticks(x, [f"{v / 1000:g}k" if v >= 1000 else f"{v:g}" for v in x])
        axis.minorticks_off()
    for name, style in (("dropout", "--"), ("pruned", "-")):
        _bounds(row[3], table[table["over"] == name], style)
    row[3].set(yscale="log", xlabel="share dropped or pruned")
    row[0].set_ylabel(r"bound / $\sigma$")
    legend_above(
        figure,
        [
            legend_line("exact", BLUE, "-", "o"),
            legend_line("exact, norm known", GREEN, "-", "o"),
            legend_line("loosened", ORANGE, "-", "o"),
            legend_line("paper's order", GREY, "-."),
            legend_line("dropout", GREY, "--"),
            legend_line("pruning", GREY, "-"),
        ],
        6,
    )
    return figure


def _bounds(axis: Axes, part: pd.DataFrame, style: str = "-") -> None:
    for name, colour in (("exact", BLUE), ("unit", GREEN), ("loosened", ORANGE)):
        axis.plot(part["value"], part[name], color=colour, linestyle=style, marker="o", ms=3.5)


_ESTIMATORS = (
    ("least squares", BLUE, "o"),
    ("shrunk", GREEN, "s"),
    ("on the sphere", PURPLE, "^"),
    ("zero", ORANGE, "D"),
)


@draws(
    f"{KEY}/lemD6",
    caption="Root mean squared error of four reconstructions of one record from a noisy gradient, "
    "over the error that the paper's bound allows (dashed: equality; dotted: the bound for records "
    "known to have norm one). Bars: four standard errors. Least squares is nearly unbiased; "
    "shrinking it, projecting it to the unit sphere and guessing zero go below. Not in the paper.",
    alt="One panel on log axes. Blue circles lie on the dashed diagonal at small noise and above "
    "it at large noise; green squares and purple triangles fall below it; orange diamonds stay at "
    "one throughout, below the diagonal on the right.",
)
def lemma_d6(result: Result) -> Figure:
    table = result.tables["estimators"]
    figure, ((axis,),) = panels(1, 1, 5.2, 3.8)
    x = table["printed bound"]
    axis.plot(x, x, color=GREY, linestyle="--")
    axis.plot(x, table["bound for unit records"], color=GREY, linestyle=":")
    for name, colour, marker in _ESTIMATORS:
        axis.errorbar(
            x,
            table[name],
            yerr=4 * table[f"{name} error"],
            color=colour,
            marker=marker,
            ms=4.5,
            linewidth=1.2,
            capsize=2,
            label=name,
        )
    axis.plot([], [], color=GREY, linestyle="--", label="printed bound")
    axis.plot([], [], color=GREY, linestyle=":", label="bound for unit records")
    axis.set(
        xscale="log", yscale="log", xlabel="printed bound on the error", ylabel="measured error"
    )
    axis.legend(loc="lower right")
    return figure


@draws(
    f"{KEY}/lemE3",
    caption="The bound on the reconstruction error when the smallest entries of the whole gradient "
    "are pruned: exact (solid) and by the paper's lemma (dashed), each over its value without "
    "defence, for labels of both signs and of one. Left: over the share of all entries, with the "
    "threshold that Remark E.4 names; up to it the inner weights' entries go. Right: beyond it, "
    "over the share of the output weights' entries. Medians over networks. Not in the paper.",
    alt="Left: all lines lie at one until a dotted vertical line near the right edge, then bend "
    "upwards. Right: the same lines spread out; the exact ones start flatter than the dashed ones "
    "and end far above them, for elu with labels of one sign most of all.",
)
def lemma_e3(result: Result) -> Figure:
    table = result.tables["bounds"]
    figure, (row,) = panels(1, 2, 4.3, 3.3)
    edge = table.loc[table["outer pruned"] < 0.02, "pruned"].max()
    for (activation, labels), part in table.groupby(["activation", "labels"], sort=False):
        colour = {
            "elu": {"mixed": BLUE, "equal": ORANGE},
            "tanh": {"mixed": GREEN, "equal": PURPLE},
        }[activation][labels]
        exact = part["exact"].where(np.isfinite(part["exact"]))
        for axis, over in zip(row, ("pruned", "outer pruned"), strict=True):
            axis.plot(part[over], exact, color=colour, marker="o", ms=2.5)
            axis.plot(part[over], part["trace"], color=colour, linestyle="--", linewidth=1.1)
    row[0].axvline(edge, color=GREY, linestyle=":")
    row[0].text(edge - 0.02, 10, "d/(d+1)", ha="right", fontsize=9, color=GREY)
    row[0].set(xlabel="share of all entries pruned", ylabel="bound / bound without defence")
    row[1].set(xlabel="share of the output weights' entries pruned")
    for axis in row:
        axis.set(yscale="log")
    legend_above(
        figure,
        [
            legend_line("elu, mixed labels", BLUE),
            legend_line("elu, equal labels", ORANGE),
            legend_line("tanh, mixed", GREEN),
            legend_line("tanh, equal", PURPLE),
            legend_line("exact", GREY, "-", "o"),
            legend_line("by the lemma", GREY, "--"),
        ],
        6,
    )
    return figure

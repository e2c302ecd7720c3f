"""Pictures of the exhibits of Biswas et al. 2024 that reconstruct batches."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from companion.drawings import draws
from companion.style import (
    COLOURS,
    GREEN,
    GREY,
    MECHANISMS,
    PURPLE,
    legend_above,
    legend_line,
    panels,
    picture,
)
from companion.study import Result

__all__: list[str] = []

KEY = "biswas2024"

_SETS = ("digits", "garments")
_PRINTED = {"digits": "MNIST", "garments": "FashionMNIST"}


def _title(result: Result, which: str) -> str:
    """The data set that was attacked, and whose printed numbers stand beside it."""
    name = str(result.settings[which])
    return name if name == _PRINTED[which] else f"{name} (printed: {_PRINTED[which]})"


def _colour(row: str) -> str:
    """The colour of a release, by its name."""
    mechanism = row.partition(",")[0]
    return MECHANISMS.get(mechanism, GREEN if row == "clipping only" else GREY)


def _points(axis: Axes, table: pd.DataFrame, x: str, value: str, colour: str) -> None:
    """Ours with 95% intervals."""
    axis.errorbar(
        table[x],
        table[value],
        yerr=1.96 * table[f"{value} error"],
        color=colour,
        capsize=2,
        elinewidth=1,
        marker="o",
        markersize=4,
        linewidth=1.3,
        zorder=3,
    )


def _hollow(axis: Axes, x: Sequence[float], y: Sequence[float], colour: str) -> None:
    """Printed numbers."""
    axis.plot(x, y, "D", markerfacecolor="white", color=colour, markersize=4.5, zorder=4)


def _hollow_entry(label: str, colour: str = GREY) -> Line2D:
    return legend_line(label, colour, "", "D", markerfacecolor="white")


def _mechanism_entries() -> list[Line2D]:
    return [legend_line(name, colour, "-", "o") for name, colour in MECHANISMS.items()]


# The attack itself -------------------------------------------------------------------------------


@draws(
    f"{KEY}/alg_iga",
    caption="Inverting gradients at work. Top: median error of the pictures, and distance of their "
    "gradient from the released one, over the iterations, without noise (solid) and under the "
    "lightest Gaussian noise of Table II (dotted). The distance of a large batch falls as far as "
    "that of a small one while its pictures stay wrong. Below: the six rows of Table II when one "
    "of the attack's settings is changed that the paper does not state; the printed numbers are "
    "vertical lines where the data are the paper's.",
    alt="Top left: error over iterations; one record falls to a billionth, larger batches level "
    "off higher, 128 records near one. Top right: the distance falls for all sizes without noise "
    "and stays high with it. Below: six coloured dots in each of seven lines of settings, similar "
    "in all but the trained network and the unlimited pixels.",
)
def inverting_gradients(result: Result) -> Figure:
    trace, readings = result.tables["trace"], result.tables["readings"]
    figure = plt.figure(figsize=(9.4, 6.6), layout="constrained")
    top, bottom = figure.subfigures(2, 1, height_ratios=(3.0, 3.4))
    sizes = list(dict.fromkeys(trace["batch size"]))
    rows = list(dict.fromkeys(trace["row"]))
    for axis, (column, label) in zip(
        top.subplots(1, 2),
        (("MSE", "mean squared error"), ("distance", "one minus cosine")),
        strict=True,
    ):
        for size, colour in zip(sizes, COLOURS, strict=False):
            for row, style in zip(rows, ("-", ":"), strict=True):
                mine = trace[(trace["batch size"] == size) & (trace["row"] == row)]
                shown = np.maximum(mine[column], 1e-9)
                axis.plot(mine["iteration"] + 1, shown, style, color=colour, linewidth=1.5)
        axis.set(xscale="log", yscale="log", xlabel="iterations, plus one", ylabel=label)
    top.legend(
        handles=[
            *(
                legend_line(f"n = {size}", colour)
                for size, colour in zip(sizes, COLOURS, strict=False)
            ),
            *(legend_line(row, GREY, style) for row, style in zip(rows, ("-", ":"), strict=True)),
        ],
        loc="outside upper center",
        ncols=6,
        handlelength=2.2,
        columnspacing=1.2,
    )
    _reading_panels(bottom, result, readings)
    return figure


def _reading_panels(figure, result: Result, readings: pd.DataFrame) -> None:
    names = list(dict.fromkeys(readings["reading"]))
    rows = list(dict.fromkeys(readings["row"]))
    for axis, which in zip(figure.subplots(1, 2, sharey=True), _SETS, strict=True):
        for row, marker in zip(rows, ("s", "s", "o", "o", "^", "^"), strict=True):
            mine = readings[(readings["data"] == which) & (readings["row"] == row)]
            light = row == rows[4] or row == rows[5]
            axis.plot(
                mine["MSE"],
                [names.index(n) for n in mine["reading"]],
                marker,
                color=_colour(row),
                markerfacecolor="white" if light else _colour(row),
                markersize=5,
            )
            if result.settings[which] == _PRINTED[which]:
                printed = mine["MSE"].iloc[0] / np.exp(mine["off"].iloc[0])
                axis.axvline(printed, color=_colour(row), linewidth=1, zorder=1)
        axis.set(xscale="log", xlabel="mean squared error")
        axis.set_yticks(range(len(names)), names)
        axis.set_ylim(len(names) - 0.5, -0.5)
        axis.set_title(str(result.settings[which]), loc="left")
    figure.legend(
        handles=[
            legend_line(row, _colour(row), "", marker, markerfacecolor=face)
            for row, marker, face in zip(
                rows,
                ("s", "s", "o", "o", "^", "^"),
                [_colour(row) for row in rows[:4]] + ["white", "white"],
                strict=True,
            )
        ],
        loc="outside upper center",
        ncols=6,
        handlelength=1.0,
        columnspacing=1.0,
    )


# Tables II and III -------------------------------------------------------------------------------


@draws(
    f"{KEY}/table2",
    caption="Table II: error and similarity of reconstructed batches of 128, in the order of the "
    "labels and of standardised pictures. Filled: ours with 95% intervals; hollow: printed. "
    "Vertical lines: the mean picture, and the mean pictures of the labels, which the attacker "
    "knows and which take no gradient. The printed noise .0174 is read as .174. A reconstruction "
    "of VMF noise is as bad as one of noise alone.",
    alt="Four panels, MSE on top and SSIM below, digits left, garments right; six rows each. From "
    "no defence over clipping and Gaussian noise to VMF noise the error grows. Hollow printed "
    "marks lie in the same order. Vertical lines of the two guesses lie left of nearly all.",
)
def table2(result: Result) -> Figure:
    table, guesses = result.tables["rows"], result.tables["guesses"]
    figure, axes = panels(2, 2, width=4.6, height=2.6)
    for column, which in enumerate(_SETS):
        mine = table[table["data"] == which].sort_values("MSE").reset_index(drop=True)
        lines = guesses[guesses["data"] == which].set_index("guess")["MSE"]
        for line, metric in enumerate(("MSE", "SSIM")):
            axis = axes[line][column]
            for place, row in mine.iterrows():
                colour = _colour(row["row"])
                axis.errorbar(
                    row[metric],
                    place,
                    xerr=1.96 * row[f"{metric} error"],
                    color=colour,
                    marker="o",
                    markersize=5,
                    capsize=2,
                    zorder=3,
                )
                _hollow(axis, [row[f"{metric} printed"]], [place], colour)
            axis.set_yticks(range(len(mine)), mine["row"] if column == 0 else [""] * len(mine))
            axis.invert_yaxis()
            axis.set_xlabel(metric)
            if metric == "MSE":
                axis.set_title(_title(result, which), loc="left")
                for name, style in (("mean image", "-."), ("class means", "--")):
                    axis.axvline(lines[name], color=PURPLE, linestyle=style, linewidth=1.2)
                axis.set_xlim(0, None)
    legend_above(
        figure,
        [
            legend_line("ours", GREY, "", "o"),
            _hollow_entry("printed"),
            legend_line("mean picture", PURPLE, "-."),
            legend_line("mean picture of the label", PURPLE, "--"),
        ],
        4,
    )
    return figure


@draws(
    f"{KEY}/table3",
    caption="Table III: deep leakage from gradients over the batch size, pictures in [0, 1]. Ours "
    "with 95% intervals; hollow: printed, for a batch size that is not stated. Dashed: the "
    "uniform noise that the attack starts from. Without noise small batches are rebuilt; under "
    "the lightest noise of either mechanism the attack comes no nearer. The printed errors "
    "under noise are those of uniform noise on the paper's data.",
    alt="Four panels over the batch size, MSE on top, SSIM below. Grey points without defence "
    "start at zero error and rise; blue and orange points under noise lie about or above the "
    "dashed line of uniform noise, with an SSIM near zero.",
)
def table3(result: Result) -> Figure:
    table = result.tables["leakage"]
    uniform = result.tables["uniform"].set_index("data")["MSE"]
    printed = result.tables["printed"]
    sizes = sorted(set(table["batch size"]))
    figure, axes = panels(2, 2, width=4.2, height=2.5)
    for column, which in enumerate(_SETS):
        for line, metric in enumerate(("MSE", "SSIM")):
            axis = axes[line][column]
            for i, (row, mine) in enumerate(
                table[table["data"] == which].groupby("row", sort=False)
            ):
                places = mine.assign(
                    place=[sizes.index(s) + 0.08 * (i - 1) for s in mine["batch size"]]
                )
                _points(axis, places, "place", metric, _colour(str(row)))
                chosen = printed[(printed["data"] == which) & (printed["row"] == row)]
                _hollow(axis, [len(sizes) + 0.12 * (i - 1)], chosen[metric], _colour(str(row)))
            if metric == "MSE":
                axis.axhline(uniform[which], color=GREY, linestyle="--", linewidth=1.2)
                axis.set_title(_title(result, which), loc="left")
            axis.set_xticks(range(len(sizes) + 1), [*map(str, sizes), "printed"])
            axis.set(xlabel="records of a batch", ylabel=metric if column == 0 else "")
    legend_above(
        figure,
        [
            *(legend_line(row, _colour(row), "-", "o") for row in dict.fromkeys(table["row"])),
            _hollow_entry("printed"),
            legend_line("uniform noise", GREY, "--"),
        ],
        5,
    )
    return figure


# Table VI and Figure 1 ---------------------------------------------------------------------------


def _over_epsilon(
    axis: Axes, ours: pd.DataFrame, printed: pd.DataFrame, which: str, size: int, metric: str
) -> None:
    """Both mechanisms over the printed epsilon, ours and printed."""
    for mechanism, colour in MECHANISMS.items():
        mine, theirs = (
            t[(t["data"] == which) & (t["batch size"] == size) & (t["mechanism"] == mechanism)]
            for t in (ours, printed)
        )
        _points(axis, mine.sort_values("pair"), "epsilon", metric, colour)
        _hollow(axis, theirs["epsilon"], theirs[metric], colour)
    axis.set_xscale("log")


@draws(
    f"{KEY}/table6",
    caption="Table VI: error and similarity over the printed epsilon, for four batch sizes and two "
    "data sets. Filled: ours with 95% intervals, all releases on the same batches; hollow: "
    "printed. The printed epsilons are those of batch size 128 and do not hold for the others.",
    alt="Sixteen panels: rows for MSE and SSIM of digits and of garments, columns for batch sizes "
    "16 to 128. Orange VMF points are nearly level, blue Gaussian points fall in MSE and rise in "
    "SSIM with epsilon, and the hollow printed marks do alike.",
)
def table6(result: Result) -> Figure:
    ours, printed = result.tables["ours"], result.tables["printed"]
    sizes = list(dict.fromkeys(ours["batch size"]))
    lines = [(which, metric) for which in _SETS for metric in ("MSE", "SSIM")]
    figure, axes = plt.subplots(
        len(lines),
        len(sizes),
        figsize=(2.5 * len(sizes), 7.6),
        squeeze=False,
        sharex=True,
        sharey="row",
        layout="constrained",
    )
    for row, (which, metric) in zip(axes, lines, strict=True):
        for axis, size in zip(row, sizes, strict=True):
            _over_epsilon(axis, ours, printed, which, size, metric)
        row[0].set_ylabel(f"{metric}\n{result.settings[which]}")
    for axis, size in zip(axes[0], sizes, strict=True):
        axis.set_title(f"batch of {size}", loc="left")
    for axis in axes[-1]:
        axis.set_xlabel(r"printed $\varepsilon$")
    legend_above(figure, [*_mechanism_entries(), _hollow_entry("printed")], 3)
    return figure


@draws(
    f"{KEY}/fig1",
    caption="Figure 1: SSIM (top) and MSE (below) of batches of 128 over the printed epsilon, "
    "digits on the left. Filled: ours with 95% intervals; hollow: the printed numbers of Table VI "
    "and, at epsilon = 173, of Table II. Under VMF noise the error hardly depends on epsilon; "
    "Gaussian noise gives way. What the two have in common is another matter: at equal epsilon as "
    "paired here, the released gradients differ in direction by orders of magnitude.",
    alt="Four panels over epsilon from 0.49 to 173. Blue Gaussian points rise in SSIM and fall in "
    "MSE; orange VMF points stay level at zero SSIM and the largest MSE. The curves never cross.",
)
def figure1(result: Result) -> Figure:
    ours, printed = result.tables["ours"], result.tables["printed"]
    size = int(ours["batch size"].iloc[0])
    figure, axes = panels(2, 2, width=4.2, height=2.6)
    for line, metric in enumerate(("SSIM", "MSE")):
        for column, which in enumerate(_SETS):
            axis = axes[line][column]
            _over_epsilon(axis, ours, printed, which, size, metric)
            if line == 0:
                axis.set_title(_title(result, which), loc="left")
            else:
                axis.set_xlabel(r"printed $\varepsilon$")
            if column == 0:
                axis.set_ylabel(metric)
    legend_above(figure, [*_mechanism_entries(), _hollow_entry("printed")], 3)
    return figure


# Figure 3 ----------------------------------------------------------------------------------------


@draws(
    f"{KEY}/fig3",
    caption="Figure 3: pictures of one batch of 128 and their reconstructions, in the order of the "
    "labels: without defence, with clipping alone, and under three noises of each mechanism, the "
    "lightest first. Last row: the mean picture of the data, which takes no gradient. Share on "
    "the right of each block: reconstructions of all batches that are most like the mean picture "
    "of their own label.",
    alt="Rows of small grey pictures, eight digits on the left and eight garments on the right. "
    "Digits are readable without defence and with clipping, still under light Gaussian noise, "
    "and lost in all rows of VMF noise, which look like random pixels.",
)
def figure3(result: Result) -> Figure:
    seen = result.tables["recognised"].set_index(["data", "row"])["recognised"]
    rows = list(dict.fromkeys(name.split(" ", 2)[2] for name in result.images))
    count = len({name.split()[1] for name in result.images})
    figure, axes = plt.subplots(
        len(rows),
        2 * count + 1,
        figsize=(0.52 * (2 * count) + 2.4, 0.56 * len(rows) + 0.6),
        width_ratios=[1.0] * count + [0.9] + [1.0] * count,
        squeeze=False,
    )
    figure.subplots_adjust(left=0.2, right=0.94, top=0.92, bottom=0.01, wspace=0.06, hspace=0.06)
    for line, row in zip(axes, rows, strict=True):
        line[count].set_axis_off()
        for first, which in zip((0, count + 1), _SETS, strict=True):
            for i in range(count):
                picture(line[first + i], result.images[f"{which} {i} {row}"])
            if (which, row) in seen:
                line[first + count - 1].text(
                    1.12,
                    0.5,
                    f"{seen[which, row]:.0%}",
                    transform=line[first + count - 1].transAxes,
                    va="center",
                    fontsize=8,
                    color=GREY,
                )
        line[0].text(
            -0.25, 0.5, row, transform=line[0].transAxes, ha="right", va="center", fontsize=8.5
        )
    for first, which in zip((0, count + 1), _SETS, strict=True):
        axes[0][first].set_title(str(result.settings[which]), loc="left", fontsize=10)
    return figure


# Figure 4 ----------------------------------------------------------------------------------------


@draws(
    f"{KEY}/fig4",
    caption="Figure 4: error over Bayes' capacity at batch size 128 (nats; Theorem 5 with the "
    "batch's average and layers clipped to one, Theorem 6). Filled: ours with 95% intervals; "
    "hollow: printed; numbers: printed epsilons. Below: rank correlations of the error with "
    "capacity (circles) and with epsilon (squares) by batch size and over all, with 95% intervals: "
    "ours over the batches, the printed ones over the pairs.",
    alt="Top: two panels. Orange VMF points at capacities of 75 to 400 lie high and level, blue "
    "Gaussian points at ten thousands lie lower. Below: rank correlations with capacity at minus "
    "one for every batch size and weaker over all; those with epsilon near minus one half.",
)
def figure4(result: Result) -> Figure:
    ours, printed = result.tables["ours"], result.tables["printed"]
    ranks = result.tables["rank correlations"]
    size = max(ours["batch size"])
    figure, axes = panels(2, 2, width=4.4, height=2.7)
    for column, which in enumerate(_SETS):
        axis = axes[0][column]
        for mechanism, colour in MECHANISMS.items():
            mine, theirs = (
                t[
                    (t["data"] == which) & (t["batch size"] == size) & (t["mechanism"] == mechanism)
                ].sort_values("pair")
                for t in (ours, printed)
            )
            _points(axis, mine, "log capacity", "MSE", colour)
            _hollow(axis, theirs["log capacity"], theirs["MSE"], colour)
            for end, offset in ((0, (-4, 8)), (-1, (6, 6))):
                axis.annotate(
                    f"{mine['epsilon'].iloc[end]:g}",
                    (theirs["log capacity"].iloc[end], theirs["MSE"].iloc[end]),
                    xytext=offset,
                    textcoords="offset points",
                    fontsize=8,
                    color=colour,
                )
        axis.set(xscale="log", xlabel="log capacity (nats)", ylabel="MSE" if column == 0 else "")
        axis.margins(y=0.15)
        axis.set_title(_title(result, which), loc="left")
        _rank_panel(axes[1][column], ranks[ranks["data"] == which])
        if column == 0:
            axes[1][column].set_ylabel("rank correlation with MSE")
    legend_above(
        figure,
        [
            *_mechanism_entries(),
            _hollow_entry("printed"),
            legend_line("with capacity", PURPLE, "", "o"),
            legend_line("with epsilon", GREEN, "", "s"),
        ],
        5,
    )
    return figure


def _rank_panel(axis: Axes, ranks: pd.DataFrame) -> None:
    sizes = list(dict.fromkeys(ranks["batch size"]))
    styles = (("capacity", PURPLE, "o"), ("epsilon", GREEN, "s"))
    for shift, (source, face) in zip(
        (-0.12, 0.12), (("ours", None), ("printed", "white")), strict=True
    ):
        for against, colour, marker in styles:
            mine = ranks[(ranks["source"] == source) & (ranks["against"] == against)]
            value = mine["rank correlation"]
            axis.errorbar(
                [sizes.index(s) + shift for s in mine["batch size"]],
                value,
                yerr=np.maximum([value - mine["low"], mine["high"] - value], 0),
                color=colour,
                marker=marker,
                markerfacecolor=face or colour,
                markersize=5,
                linestyle="",
                capsize=2,
                elinewidth=1,
            )
    axis.set_xticks(range(len(sizes)), ["all sizes" if s == "all" else s for s in sizes])
    axis.set(xlabel="batch size", ylim=(-1.06, 0.06))

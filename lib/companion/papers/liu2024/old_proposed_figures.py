"""Pictures of the exhibits of Liu et al. 2024 that show the proposed attack and its parts."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from companion.drawings import draws
from companion.study import Result
from companion.style import (
    ATTACKS,
    BLUE,
    COLOURS,
    GREEN,
    GREY,
    ORANGE,
    PURPLE,
    SKY,
    legend_above,
    legend_line,
    panels,
    picture,
)

__all__: list[str] = []

KEY = "liu2024"

#: of the attack with and without its parts, and of those it is held against
_METHODS = {
    "w/o GR and FM": BLUE,
    "Geiping": BLUE,
    "w/o FM": ATTACKS["w/o FM"]["color"],
    "Ours": ORANGE,
    "Ours, untrained network": GREEN,
    "Jeon": PURPLE,
}


def _bars(
    axis: Axes, cells: pd.DataFrame, printed: pd.DataFrame, metric: str, methods: Sequence[str]
) -> None:
    """Ours with 95% intervals by batch size, printed numbers hollow."""
    mine = cells[cells["metric"] == metric]
    sizes = list(dict.fromkeys(mine["batch size"]))
    for number, method in enumerate(methods):
        shift = 0.22 * (number - (len(methods) - 1) / 2)
        colour = _METHODS.get(method, COLOURS[number % len(COLOURS)])
        rows = mine[mine["method"] == method]
        axis.errorbar(
            np.arange(len(sizes)) + shift,
            rows["value"],
            yerr=1.96 * rows["error"],
            color=colour,
            marker="o",
            markersize=5,
            linestyle="",
            capsize=2,
            zorder=3,
        )
        theirs = printed[(printed["method"] == method) & (printed["metric"] == metric)]
        theirs = theirs[theirs["batch size"].isin(sizes)]
        axis.plot(
            [sizes.index(n) + shift for n in theirs["batch size"]],
            theirs["value"],
            "D",
            markerfacecolor="white",
            color=colour,
            markersize=5,
            zorder=4,
        )
    axis.set_xticks(range(len(sizes)), [str(n) for n in sizes])
    axis.set(xlabel="batch size", xlim=(-0.5, len(sizes) - 0.5))


def _method_entries(methods: Sequence[str]) -> list:
    return [
        *(legend_line(name, _METHODS.get(name, GREY), "", "o") for name in methods),
        legend_line("printed (CIFAR-10)", GREY, "", "D", markerfacecolor="white"),
    ]


def _strips(axes: Sequence[Axes], result: Result) -> None:
    """Rows of pictures with their names above."""
    for axis, (name, image) in zip(axes, result.images.items(), strict=True):
        picture(axis, image)
        axis.set_title(name, loc="left", fontsize=9)


# The attack at work ------------------------------------------------------------------------------


@draws(
    f"{KEY}/alg_proposed",
    caption="The proposed attack at work. Left: PSNR over the iterations as its parts are put in. "
    "Middle, top: cosine of recovered with true features, by batch size, with all classes' "
    "gradients taken apart together, the same within the exact span, and as published. Middle, "
    "bottom: share of the features inside the recovered span when the regulariser is descended as "
    "printed and as corrected. Right: four originals and what is recovered of them.",
    alt="Three parts: curves of PSNR rising over iterations for four versions of the attack; "
    "cosines near one for two ways to recover features and far lower for the published one, above "
    "a panel where one reading goes to one and the printed one to zero; rows of small pictures.",
)
def proposed(result: Result) -> Figure:
    course, features = result.tables["course"], result.tables["features"]
    pushed = result.tables["regulariser"]
    figure = plt.figure(figsize=(10.2, 4.6), layout="constrained")
    left, middle, right = figure.subfigures(1, 3, width_ratios=(1.15, 1, 0.9))
    axis = left.subplots()
    for name, rows in course.groupby("method", sort=False):
        axis.plot(rows["iteration"], rows["PSNR"], color=_METHODS[str(name)], label=str(name))
    axis.set(xlabel="iteration", ylabel="PSNR (dB)")
    left.legend(loc="outside upper center", ncols=2, handlelength=1.6, columnspacing=1.0)
    top, bottom = middle.subplots(2, 1)
    for (how, rows), colour in zip(
        features.groupby("how", sort=False), (ORANGE, SKY, GREY), strict=False
    ):
        top.plot(rows["batch size"], rows["cosine"], "o-", color=colour, label=str(how))
    top.set(xscale="log", xlabel="batch size", ylabel="cosine", ylim=(0, 1.05))
    sizes = sorted(set(features["batch size"]))
    top.set_xticks(sizes, [str(n) for n in sizes])
    top.minorticks_off()
    top.legend(loc="lower left", bbox_to_anchor=(-0.12, 1.0), fontsize=7.5, ncols=1)
    for (reading, rows), colour in zip(
        pushed.groupby("reading", sort=False), (GREY, ORANGE), strict=True
    ):
        bottom.plot(rows["iteration"], rows["inside"], color=colour, label=str(reading))
    bottom.set(xlabel="iteration", ylabel="share inside", ylim=(-0.03, 1.05))
    bottom.legend(loc="center right", fontsize=7.5)
    _strips(list(right.subplots(len(result.images), 1)), result)
    return figure


@draws(
    f"{KEY}/alg_greedy",
    caption="Greedy matching of features to their noisy copies against the best of all "
    "permutations. Left: the squared cosine that greedy matching keeps of the best permutation's. "
    "Right: share of right pairs, solid greedy, dashed best. With noise up to the features' own "
    "norm the two agree; where they part, the greedy one finds fewer right pairs.",
    alt="Two panels over the noise for 2 to 32 features. Left: ratios at one up to noise one, then "
    "falling to about 0.97. Right: shares of right pairs fall from one beyond noise one, the "
    "solid greedy curves a little below the dashed best ones.",
)
def greedy(result: Result) -> Figure:
    table = result.tables["matchings"]
    figure, axes = panels(1, 2, width=4.2, height=3.0)
    left, right = axes[0]
    for (_, rows), colour in zip(table.groupby("size"), COLOURS, strict=False):
        left.plot(rows["noise"], rows["greedy"] / rows["best"], "o-", color=colour, markersize=4)
        right.plot(rows["noise"], rows["greedy right"], "o-", color=colour, markersize=4)
        right.plot(rows["noise"], rows["best right"], "--", color=colour)
    left.set(xlabel="noise over the features' norm", ylabel="squared cosine, greedy over best")
    right.set(xlabel="noise over the features' norm", ylabel="right pairs", ylim=(0, 1.03))
    sizes = list(dict.fromkeys(table["size"]))
    legend_above(
        figure,
        [
            *(
                legend_line(f"{n} features", c, "-", "o")
                for n, c in zip(sizes, COLOURS, strict=False)
            ),
            legend_line("best permutation", GREY, "--"),
        ],
        6,
    )
    return figure


_READINGS = {"joint": BLUE, "norm": GREEN, "count": ORANGE, "equal": PURPLE}
_READING_NAMES = {
    "joint": "joint cosine",
    "norm": "by parameters' norm",
    "count": "by entries",
    "equal": "all alike",
}


@draws(
    f"{KEY}/alg_reweight",
    caption="Gradient reweighting under the readings of its weights. Left: what each counts of the "
    "layers; the joint cosine counts squared gradient norms. Right: PSNR of batches of 16 and 32 "
    "with 95% intervals over the pictures; hollow: printed, without and with reweighting.",
    alt="Left: four groups of bars for the readings; the head holds most of the joint cosine, the "
    "wide layer most of the norms, while entries and equal weights spread wider. Right: PSNR "
    "points at two batch sizes, lowest for the joint cosine and the norm.",
)
def reweighting(result: Result) -> Figure:
    shares, cells = result.tables["weights"], result.tables["cells"]
    figure, axes = panels(1, 2, width=4.4, height=3.2)
    left, right = axes[0]
    columns = {"joint": "joint", "norm": "norm", "count": "entries", "equal": "equal"}
    low = np.zeros(len(columns))
    for layer, colour in zip(shares["layer"], (SKY, GREY, ORANGE, PURPLE), strict=False):
        height = shares[shares["layer"] == layer][list(columns.values())].iloc[0].to_numpy()
        left.bar(range(len(columns)), height, bottom=low, color=colour, label=layer, width=0.65)
        low = low + height
    left.set_xticks(
        range(len(columns)),
        ["joint\ncosine", "parameters'\nnorm", "entries", "all alike"],
        fontsize=8,
    )
    left.set(ylabel="share of the distance")
    left.legend(loc="lower left", bbox_to_anchor=(-0.1, 1.0), ncols=2, fontsize=8)
    mine = cells[cells["metric"] == "PSNR"]
    sizes = list(dict.fromkeys(mine["batch size"]))
    for number, (reading, colour) in enumerate(_READINGS.items()):
        rows = mine[mine["method"] == reading]
        right.errorbar(
            np.arange(len(sizes)) + 0.15 * (number - 1.5),
            rows["value"],
            yerr=1.96 * rows["error"],
            color=colour,
            marker="o",
            linestyle="",
            capsize=2,
            label=_READING_NAMES[reading],
        )
    printed = result.tables["printed"]
    for shift, method in ((-0.225, "w/o GR and FM"), (0.075, "w/o FM")):
        values = printed[printed["method"] == method]
        right.plot(
            np.arange(len(values)) + shift + 0.06,
            values["value"],
            "D",
            markerfacecolor="white",
            color=_READINGS["joint" if "GR" in method else "count"],
        )
    right.set_xticks(range(len(sizes)), [str(n) for n in sizes])
    right.set(xlabel="batch size", ylabel="PSNR (dB)", xlim=(-0.5, len(sizes) - 0.5))
    right.legend(loc="lower left", bbox_to_anchor=(-0.1, 1.0), ncols=2, fontsize=8)
    return figure


@draws(
    f"{KEY}/table6",
    caption="Table 6 and the sweep of weights. Top: PSNR, RMSE and perceptual distance by batch "
    "size without gradient reweighting and feature matching, without matching, and with both; "
    "filled: ours with 95% intervals over the pictures, hollow: printed, for other data and "
    "another network. Below: PSNR over one weight at a time, at half the iterations, with the "
    "paper's choice as a dashed line.",
    alt="Six panels. Top: three metrics by batch size; reweighting improves all of them, matching "
    "takes some of it back in ours and adds a little in print. Below: PSNR rises with the total "
    "variation, little with the statistics, and falls with the weight of the features.",
)
def table6(result: Result) -> Figure:
    cells, printed, sweep = (result.tables[name] for name in ("cells", "printed", "sweep"))
    methods = list(dict.fromkeys(cells["method"]))
    figure, axes = panels(2, 3, width=3.2, height=2.7)
    for axis, metric in zip(axes[0], ("PSNR", "RMSE", "LPIPS"), strict=True):
        _bars(axis, cells, printed, metric, methods)
        axis.set_ylabel({"PSNR": "PSNR (dB)", "LPIPS": "perceptual distance"}.get(metric, metric))
    for axis, (weight, rows) in zip(axes[1], sweep.groupby("weight", sort=False), strict=True):
        axis.errorbar(
            range(len(rows)),
            rows["PSNR"],
            yerr=1.96 * rows["error"],
            color=ORANGE,
            marker="o",
            capsize=2,
        )
        axis.set_xticks(range(len(rows)), [f"{v:g}" for v in rows["value"]])
        chosen = list(rows["value"]).index(_CHOSEN[str(weight)])
        axis.axvline(chosen, color=GREY, linestyle="--", linewidth=1.1)
        axis.set(xlabel=_WEIGHTS[str(weight)], ylabel="PSNR (dB)")
    legend_above(
        figure, [*_method_entries(methods), legend_line("the paper's weight", GREY, "--")], 5
    )
    return figure


_CHOSEN = {"alpha_TV": 0.01, "alpha_BN": 0.001, "alpha_f": 0.1}
_WEIGHTS = {
    "alpha_TV": r"total variation $\alpha_{TV}$",
    "alpha_BN": r"statistics $\alpha_{BN}$",
    "alpha_f": r"features $\alpha_f$",
}


@draws(
    f"{KEY}/table3",
    caption="Table 3: perceptual distance of three attacks at batch sizes 16 and 32, ours with 95% "
    "intervals over the pictures; hollow: printed (LPIPS on CIFAR-10). In place of Jeon et al.'s "
    "pretrained generator stands a decoder trained on other pictures of the data set. Right: the "
    "first pictures of a batch of 16 and what each attack makes of them.",
    alt="Left: points of three methods at two batch sizes with hollow printed marks below; ours "
    "lower than Geiping's, and the decoder's near ours. Right: four rows of eight small pictures, "
    "the originals first.",
)
def table3(result: Result) -> Figure:
    cells, printed = result.tables["cells"], result.tables["printed"]
    methods = list(dict.fromkeys(cells["method"]))
    figure = plt.figure(figsize=(9.4, 3.4), layout="constrained")
    left, right = figure.subfigures(1, 2, width_ratios=(1, 1.35))
    axis = left.subplots()
    _bars(axis, cells, printed, "LPIPS", methods)
    axis.set(ylabel="perceptual distance", ylim=(0, None))
    left.legend(
        handles=_method_entries(methods), loc="outside upper center", ncols=4, columnspacing=0.8
    )
    _strips(list(right.subplots(len(result.images), 1)), result)
    return figure

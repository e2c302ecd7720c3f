"""Gradient reweighting: what each reading of the weights counts, and what it does to batches."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from companion.papers.liu2024.own_runs import check_run
from companion.papers.liu2024.proposed_runs import (
    BENCH,
    Bench,
    Variant,
    by_size,
    measure_cells,
    printed_cells,
    signed,
    what_ran,
)
from companion.study import Context, Parameter, Tables, Verdict, check, measurement
from companion.style import BLUE, GREEN, GREY, ORANGE, PURPLE, SKY, drawing, panels
from reconrisk.training import client_updates

PARAMETERS = {
    **BENCH,
    "batch_sizes": Parameter("ints", (16, 32), (16, 32), "16, 32", "pictures a batch", low=1),
}
SETTLES = ("E-027",)

READINGS = ("joint", "norm", "count", "equal")


@measurement
def measure(study: Context) -> Tables:
    sizes = study.parameters.batch_sizes
    printed = printed_cells("table6")
    large = (printed["metric"] == "PSNR") & printed["batch size"].isin((16, 32))
    return Tables(
        {
            "weights": _shares(study),
            "cells": measure_cells(study, {name: Variant(name) for name in READINGS}, sizes),
            "printed": printed[large],
        },
        ran=what_ran(study, sizes),
    )


def _shares(study: Context) -> pd.DataFrame:
    """What each reading counts of the parameters, by layer, of a batch's gradient."""
    bench = Bench.of(study)
    network = bench.model()
    batches = bench.batches(min(study.parameters.batch_sizes))
    released = client_updates(
        network, batches.images[:1], batches.labels[:1], generator=bench.generator(0)
    )
    rows = [
        {
            "layer": _layer(name),
            "joint": float(released.gradient[name].square().sum()),
            "norm": float(parameter.detach().norm()),
            "entries": parameter.numel(),
            "equal": 1.0,
        }
        for name, parameter in network.named_parameters()
    ]
    table = pd.DataFrame(rows).groupby("layer", sort=False).sum()
    return (table / table.sum()).reset_index()


def _layer(name: str) -> str:
    if name.startswith(("wide", "head")):
        return "wide layer" if name.startswith("wide") else "head"
    return "batch norms" if "norm" in name else "convolutions"


def judge(tables: Tables) -> Iterator[Verdict]:
    body = tables["weights"].set_index("layer").loc["convolutions"]
    yield check(
        "liu2024/alg_reweight",
        body["entries"] > body["joint"] and body["equal"] > body["norm"],
        "the readings differ in what they count: the body's layers hold a smaller share of "
        "the gradient's squared norm, which the joint cosine counts, than of its entries; and "
        "a smaller share of the parameters' norm than of the number of tensors",
        ours=f"squared norm {body['joint']:.0e}, entries {body['entries']:.0%}, "
        f"parameters' norm {body['norm']:.0%}, tensors {body['equal']:.0%}",
        stand_in=tables.stand_in,
    )
    mine, printed = by_size(tables["cells"], "PSNR"), by_size(tables["printed"], "PSNR")
    gains = mine[tables.parameters.weighting] - mine["joint"]
    theirs = printed["w/o FM"] - printed["w/o GR and FM"]
    yield check_run(
        tables,
        "E-027",
        (theirs > 0).all() and gains.mean() > 0 and (gains > -0.3).all(),
        "reweighting raises the PSNR of large batches: in print at 16 and 32, and on average "
        "over the same sizes in ours",
        ours=f"{gains.mean():+.0f} dB",
        paper=signed(theirs),
    )


CAPTION = (
    "Gradient reweighting under the readings of its weights. Left: what each counts of the layers; "
    "the joint cosine counts squared gradient norms. Right: PSNR of large batches with 95% "
    "intervals over the pictures; hollow: printed, without and with reweighting."
)


def alt(tables: Tables) -> str:
    shares = tables["weights"].set_index("layer")
    means = by_size(tables["cells"], "PSNR").mean()
    return (
        f"Left: four groups of bars for the readings; the head holds {shares['joint']['head']:.0%} "
        f"of the joint cosine, the wide layer {shares['norm']['wide layer']:.0%} of the norms and "
        f"{shares['entries']['wide layer']:.0%} of the entries; the convolutions "
        f"{shares['entries']['convolutions']:.0%} of the entries. Right: PSNR at "
        f"{len(tables.parameters.batch_sizes)} batch sizes, on average "
        + ", ".join(f"{means[name]:.0f} dB ({name})" for name in READINGS)
        + "."
    )


_LOOKS = {
    "joint": ("joint\ncosine", BLUE),
    "norm": ("parameters'\nnorm", GREEN),
    "count": ("entries", ORANGE),
    "equal": ("all alike", PURPLE),
}


@drawing
def draw(tables: Tables) -> Figure:
    figure, ((left, right),) = panels(1, 2, width=4.4, height=3.2)
    _draw_shares(left, tables["weights"])
    _draw_gains(right, tables["cells"], tables["printed"])
    for axis in (left, right):
        axis.legend(loc="lower left", bbox_to_anchor=(-0.1, 1.0), ncols=2, fontsize=8)
    return figure


def _draw_shares(axis: Axes, shares: pd.DataFrame) -> None:
    low = np.zeros(len(READINGS))
    for row, colour in zip(shares.to_dict("records"), (SKY, GREY, ORANGE, PURPLE), strict=False):
        height = np.array([row["entries" if name == "count" else name] for name in READINGS])
        axis.bar(range(len(low)), height, bottom=low, color=colour, label=row["layer"], width=0.65)
        low = low + height
    axis.set_xticks(range(len(low)), [label for label, _ in _LOOKS.values()], fontsize=8)
    axis.set(ylabel="share of the distance")


def _draw_gains(axis: Axes, cells: pd.DataFrame, printed: pd.DataFrame) -> None:
    mine = cells[cells["metric"] == "PSNR"]
    sizes = list(dict.fromkeys(mine["batch size"]))
    shifts = {name: 0.15 * (number - 1.5) for number, name in enumerate(READINGS)}
    for reading, (label, colour) in _LOOKS.items():
        rows = mine[mine["method"] == reading]
        axis.errorbar(
            np.arange(len(sizes)) + shifts[reading],
            rows["value"],
            yerr=1.96 * rows["error"],
            color=colour,
            marker="o",
            linestyle="",
            capsize=2,
            label=label.replace("\n", " "),
        )
    for reading, method in (("joint", "w/o GR and FM"), ("count", "w/o FM")):
        theirs = printed[(printed["method"] == method) & printed["batch size"].isin(sizes)]
        axis.plot(
            [sizes.index(n) + shifts[reading] + 0.06 for n in theirs["batch size"]],
            theirs["value"],
            "D",
            markerfacecolor="white",
            color=_LOOKS[reading][1],
        )
    axis.set_xticks(range(len(sizes)), [str(n) for n in sizes])
    axis.set(xlabel="batch size", ylabel="PSNR (dB)", xlim=(-0.5, len(sizes) - 0.5))

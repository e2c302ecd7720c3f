"""Gradient reweighting: what each reading of the weights counts, and its effect on batches."""

from collections.abc import Iterator

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from companion.exhibit import *
from companion.exhibit import BLACK
from companion.papers.liu2024.own_runs import check_run
from companion.papers.liu2024.proposed_panels import draw_metric, printed_beside
from companion.papers.liu2024.proposed_runs import (
    BENCH,
    LARGE,
    NOTABLE,
    Bench,
    Variant,
    by_size,
    measure_cells,
    printed_cells,
    signed,
    what_ran,
)

PARAMETERS = {**BENCH, **LARGE}
SETTLES = ("E-027",)
ALTERED = {
    "weights": {
        "entries": at("layer == 'convolutions'", "the convolutions' shares of entries"),
        "equal": at("layer == 'convolutions'", "the convolutions' shares of tensors"),
    },
    "cells": {"value": at("method == 'count' and metric == 'PSNR'", "PSNRs with reweighting [dB]")},
    "printed": {"value": at("method == 'w/o FM'", "printed PSNRs with reweighting [dB]")},
}

#: label and colour of each reading of the weights
READINGS = {
    "joint": ("joint\ncosine", BLUE),
    "norm": ("parameters'\nnorm", GREEN),
    "count": ("entries", ORANGE),
    "equal": ("all alike", PURPLE),
}


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
    """The share of each group of layers in what each reading counts, for one batch's gradient."""
    bench = Bench.of(study)
    network = bench.model()
    released = bench.updates(network, bench.batches(min(study.parameters.batch_sizes), 1))
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
        "the readings differ in what they count: the convolutions have a smaller share of the "
        "gradient's squared norm, which the joint cosine counts, than of its entries, and a "
        "smaller share of the parameters' norm than of the number of tensors",
        ours=f"squared norm {body['joint']:.0e}, entries {body['entries']:.0%}, "
        f"parameters' norm {body['norm']:.0%}, tensors {body['equal']:.0%}",
        stand_in=tables.stand_in,
    )
    mine, printed = by_size(tables["cells"], "PSNR"), by_size(tables["printed"], "PSNR")
    gains = mine[tables.parameters.weighting] - mine["joint"]
    errors = by_size(tables["cells"], "PSNR", "error")
    error = np.hypot(errors[tables.parameters.weighting], errors["joint"])
    theirs = printed["w/o FM"] - printed["w/o GR and FM"]
    yield check_run(
        tables,
        "E-027",
        every(
            bool((theirs > NOTABLE).all()),
            clearly(
                (gains.mean() - NOTABLE, np.linalg.norm(error) / len(error)), (gains + 0.3, error)
            ),
        ),
        f"reweighting raises the PSNR of large batches by more than {NOTABLE:g} dB: in print at 16 "
        "and 32, and on average over the same sizes in ours, with one reading of the weights",
        ours=f"{gains.mean():+.0f} dB",
        paper=signed(theirs),
        elsewhere="on pictures of 16 pixels and few iterations the reading by entries, which was "
        "chosen on smaller ones, gains nothing; equal weights do",
        decided_by=f"more pictures: {signed(gains)} with the reading by entries, "
        + signed(mine["equal"] - mine["joint"])
        + " with equal weights",
    )


CAPTION = (
    "Gradient reweighting under the readings of its weights. Left: what each counts of the layers; "
    "the joint cosine counts squared gradient norms. Right: PSNR of large batches with 95% "
    "intervals over the pictures; hollow, where the data are the paper's: printed, without and "
    "with reweighting."
)


@drawing
def draw(tables: Tables) -> Figure:
    figure, ((left, right),) = panels(1, 2, width=4.4, height=3.2)
    places, low = range(len(READINGS)), np.zeros(len(READINGS))
    shares = tables["weights"].rename(columns={"entries": "count"}).set_index("layer")[[*READINGS]]
    colours = ("#DDDDDD", "#B0B0B0", "#808080", BLACK)  # the readings have colours
    for (layer, height), colour in zip(shares.iterrows(), colours, strict=False):
        left.bar(places, height, bottom=low, color=colour, label=layer, width=0.65)
        low = low + height.to_numpy()
    left.set_xticks(places, [label for label, _ in READINGS.values()], fontsize=8)
    left.set(ylabel="share of the distance")
    printed = printed_beside(tables).replace(
        {"method": {"w/o GR and FM": "joint", "w/o FM": "count"}}
    )
    readings = {name: colour for name, (_, colour) in READINGS.items()}
    draw_metric(right, tables["cells"], printed, "PSNR", readings)
    right.set(ylabel="PSNR (dB)")
    entries = [legend_line(t.replace("\n", " "), c, "", "o") for t, c in READINGS.values()]
    for axis, handles in ((left, None), (right, entries)):
        axis.legend(
            handles=handles, loc="lower left", bbox_to_anchor=(-0.1, 1.0), ncols=2, fontsize=8
        )
    return figure

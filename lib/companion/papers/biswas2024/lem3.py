"""Lemma 3: post-processing never raises the capacity."""

import math
from collections.abc import Iterator

import numpy as np
import pandas as pd
from scipy import special as sc

from companion.exhibit import *
from companion.papers.biswas2024.random_channels import (
    CHANNELS,
    NOISE,
    ROUNDING,
    falls,
    log_capacity,
    random_channel,
    random_sizes,
)
from reconrisk import bounds

_THEOREM = "none (a theorem)"
_CELLS = (0.1, 0.25, 0.5, 1.0, 2.0, 4.0)

PARAMETERS = {
    "channels": CHANNELS,
    "noise_std": NOISE,
    "cells": Parameter(
        "floats", _CELLS, _CELLS, _THEOREM, "width of the cells that outputs are rounded to", 0.01
    ),
}
SETTLES = ("D-013",)
SHOWN = ("rounded outputs",)
ALTERED = {
    "pairs": {"both": "log capacities of two channels in a row [nats]"},
    "rounded outputs": {"log capacity": "log capacities with rounded outputs"},
    "fewer inputs": {"fall": "capacities lost with an input [nats]"},
}


@measurement
def measure(study: Context) -> Tables:
    p, rng = study.parameters, study.rng("channels")
    pairs = []
    for _ in range(p.channels):
        _, inputs, outputs = random_sizes(rng)
        first = random_channel(rng, inputs, outputs)
        second = random_channel(rng, outputs, int(rng.integers(2, 9)))
        pairs.append([log_capacity(channel) for channel in (first, second, first @ second)])
    rounded = [rounded_outputs(p.noise_std, cell) for cell in p.cells]
    return Tables(
        {
            "pairs": pd.DataFrame(pairs, columns=["first", "second", "both"]),
            "fewer inputs": pd.DataFrame({"fall": falls(rng, p.channels)}),
            "rounded outputs": pd.DataFrame({"cell": p.cells, "log capacity": rounded}),
        },
        exact=("rounded outputs",),
        ran=f"{p.channels} random pairs of channels; Gaussian noise of {p.noise_std:g} on [-1, 1], "
        "its outputs rounded to cells of growing width.",
    )


def rounded_outputs(noise_std: float, cell: float) -> float:
    """Return the log capacity of Gaussian noise on [-1, 1] with outputs rounded to cells.

    A cell is likeliest for the input nearest to its middle.
    """
    count = math.ceil((1.0 + 12.0 * noise_std) / cell)
    centre = cell * np.arange(-count, count + 1)
    nearest = np.clip(centre, -1.0, 1.0)
    upper, lower = (
        sc.ndtr((centre + side - nearest) / noise_std) for side in (cell / 2, -cell / 2)
    )
    return math.log(float(np.sum(upper - lower)))


def judge(tables: Tables) -> Iterator[Verdict]:
    pairs, values = tables["pairs"], tables["rounded outputs"]["log capacity"]
    limit = float(bounds.bayes_capacity_gaussian(1, tables.parameters.noise_std, 1.0))
    yield from shared_by(
        check(
            "biswas2024/lem3",
            (pairs["both"] < pairs[["first", "second"]].min(axis=1) + ROUNDING).all()
            and (values.diff().dropna() < 0).all()
            and values.max() < limit < values.iloc[0] + 1e-2
            and tables["fewer inputs"]["fall"].min() > -ROUNDING,
            "neither post-processing nor fewer inputs raise the capacity; two channels in a row "
            "have at most the smaller of their capacities",
            ours=f"{len(pairs)} random pairs, the capacity falls by "
            f"{(pairs['first'] - pairs['both']).median():.2f} nats in the median; outputs rounded "
            f"to a cell: {values.iloc[0]:.4f} falling to {values.iloc[-1]:.4f} from {limit:.4f}",
            tolerance=f"{ROUNDING:g}",
        ),
        "D-013",
    )

"""Lemmas 1 to 3 and Corollary 1: the capacities of random channels and of noise."""

import math
from collections.abc import Iterator

import numpy as np
import pandas as pd
from scipy import special as sc
from scipy import stats

from companion.exhibit import *
from companion.papers.biswas2024.random_channels import (
    CHANNELS,
    NOISE,
    ROUNDING,
    falls,
    log_capacity,
    random_channel,
    random_map,
    random_sizes,
)
from reconrisk import bounds

EXHIBITS = ("lem1", "lem2", "lem3", "cor1")

PARAMETERS_LEM1 = {"channels": CHANNELS}
SHOWN_LEM1 = ("pre-processing",)
ALTERED_LEM1 = {
    "channels": {
        "every input": "changes by maps that reach every input [nats]",
        "all but one": "changes by maps that miss an input [nats]",
    }
}
SCENARIOS_LEM1 = (
    scenario(
        "a missed input that never lowers the capacity",
        column("channels", "all but one", lambda c: c.clip(lower=0.0)),
    ),
)
_REACHED = ["every input", "all but one"]


def measure_lem1(study: Context) -> Tables:
    """Lemma 1: a deterministic map in front of a channel does not change its capacity."""
    rng = study.rng("channels")
    rows = []
    for _ in range(study.parameters.channels):
        secrets, inputs, outputs = random_sizes(rng)
        channel = random_channel(rng, inputs, outputs)
        alone = log_capacity(channel)
        onto, into = (
            log_capacity(random_map(rng, secrets, inputs, onto=onto) @ channel) - alone
            for onto in (True, False)
        )
        rows.append((inputs, outputs, alone, onto, into))
    table = pd.DataFrame(rows, columns=["inputs", "outputs", "log capacity", *_REACHED])
    summary = [
        (c, f"{(table[c].abs() < ROUNDING).mean():.0%}", int((table[c] > ROUNDING).sum()))
        for c in _REACHED
    ]
    columns = ["the map reaches", "unchanged", "raised"]
    return Tables(
        {"channels": table, "pre-processing": pd.DataFrame(summary, columns=columns)},
        ran=f"{len(table)} random channels of up to 8 inputs and 8 outputs.",
    )


def judge_lem1(tables: Tables) -> Iterator[Verdict]:
    table = tables["channels"]
    every, missed = (table[name] for name in _REACHED)
    yield check(
        "biswas2024/lem1",
        every.abs().max() < ROUNDING and missed.max() < ROUNDING and missed.min() < -1e-3,
        "a deterministic map in front does not change the capacity if it reaches every input of "
        "the channel; if it misses one, the capacity never rises and may fall",
        ours=f"{len(table)} random channels; with one input missed the capacity falls in "
        f"{(missed < -ROUNDING).mean():.0%}",
        tolerance=f"{ROUNDING:g}",
    )


_THEOREM = "none (a theorem)"
_INPUTS = (2, 3, 5, 10, 100)
PARAMETERS_LEM2 = {
    "inputs": Parameter("ints", _INPUTS, _INPUTS, _THEOREM, "n", 2),
    "channels": Parameter("int", 100, 2000, _THEOREM, "random channels for each n", 10),
}
SETTLES_LEM2 = ("D-012",)
SHOWN_LEM2 = ("capacities",)
ALTERED_LEM2 = {
    "capacities": {
        "equal rows": "capacities of channels of equal rows",
        "identity": "capacities of the identity",
        "least of random": "least capacities of random channels",
        "largest of random": "largest capacities of random channels",
    }
}


def measure_lem2(study: Context) -> Tables:
    """Lemma 2: the least and the largest capacity, and random channels between them."""
    p, rng = study.parameters, study.rng("channels")
    rows = []
    for inputs in p.inputs:
        nothing = np.tile(rng.dirichlet(np.ones(5)), (inputs, 1))
        # more than one output may reveal a secret
        everything = np.kron(np.eye(inputs), rng.dirichlet(np.ones(3)))
        between = [log_capacity(random_channel(rng, inputs, inputs + 2)) for _ in range(p.channels)]
        values = {
            "one column": log_capacity(np.ones((inputs, 1))),
            "equal rows": log_capacity(nothing),
            "least of random": min(between),
            "largest of random": max(between),
            "identity": log_capacity(np.eye(inputs)),
            "disjoint rows": log_capacity(everything),
        }
        rows.append({"inputs": inputs} | {name: math.exp(v) for name, v in values.items()})
    return Tables(
        {"capacities": pd.DataFrame(rows)},
        ran=f"{p.channels} random channels for each number of inputs.",
    )


def judge_lem2(tables: Tables) -> Iterator[Verdict]:
    table = tables["capacities"]
    n = table["inputs"]
    extremes = {"one column": 1, "equal rows": 1, "identity": n, "disjoint rows": n}
    off = max(float((table[name] - value).abs().max()) for name, value in extremes.items())
    between = (table["least of random"] > 1) & (table["largest of random"] < n)
    settled = check(
        "biswas2024/lem2",
        off < 1e-9 and between.all(),
        "a channel whose rows are all equal has capacity 1, one whose rows share no output "
        "has its number of inputs, and every other lies strictly between",
        ours=f"n = {', '.join(map(str, n))}, {tables.parameters.channels} random channels each",
        tolerance="1e-9",
    )
    yield from shared_by(settled, "D-012")


_CELLS = (0.1, 0.25, 0.5, 1.0, 2.0, 4.0)
PARAMETERS_LEM3 = {
    "channels": CHANNELS,
    "noise_std": NOISE,
    "cells": Parameter(
        "floats", _CELLS, _CELLS, _THEOREM, "width of the cells that outputs are rounded to", 0.01
    ),
}
SETTLES_LEM3 = ("D-013",)
SHOWN_LEM3 = ("rounded outputs",)
ALTERED_LEM3 = {
    "pairs": {"both": "log capacities of two channels in a row [nats]"},
    "rounded outputs": {"log capacity": "log capacities with rounded outputs"},
    "fewer inputs": {"fall": "capacities lost with an input [nats]"},
}


def measure_lem3(study: Context) -> Tables:
    """Lemma 3: post-processing never raises the capacity."""
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


def judge_lem3(tables: Tables) -> Iterator[Verdict]:
    pairs, values = tables["pairs"], tables["rounded outputs"]["log capacity"]
    limit = float(bounds.bayes_capacity_gaussian(1, tables.parameters.noise_std, 1.0))
    settled = check(
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
    )
    yield from shared_by(settled, "D-013")


PARAMETERS_COR1 = {"channels": CHANNELS, "noise_std": NOISE}
SHOWN_COR1 = ("nested domains",)
ALTERED_COR1 = {
    "fewer inputs": {"fall": "capacities lost with an input [nats]"},
    "nested domains": {"p = 100": by("domain", "log capacities at p = 100", each="of the {}")},
}


def measure_cor1(study: Context) -> Tables:
    """Corollary 1: fewer inputs, smaller capacity, of random channels and of noise on domains."""
    p = study.parameters
    return Tables(
        {
            "fewer inputs": pd.DataFrame({"fall": falls(study.rng("channels"), p.channels)}),
            "nested domains": _nested_domains(p.noise_std),
        },
        exact=("nested domains",),
        ran=f"{p.channels} random channels; closed forms at noise {p.noise_std:g}.",
    )


def _nested_domains(noise_std: float) -> pd.DataFrame:
    """Log capacities on domains, each within the next."""
    names = [
        "two points, 2 apart",
        "unit ball",
        "product of two unit balls",
        "ball of radius sqrt(2)",
    ]
    table = pd.DataFrame({"domain": names})
    for dimension in (2, 4, 10, 100):
        table[f"p = {dimension}"] = [
            math.log(2.0 * stats.norm.cdf(1.0 / noise_std)),
            float(bounds.bayes_capacity_gaussian(dimension, noise_std, 1.0)),
            2.0 * float(bounds.bayes_capacity_gaussian(dimension // 2, noise_std, 1.0)),
            float(bounds.bayes_capacity_gaussian(dimension, noise_std, math.sqrt(2.0))),
        ]
    return table


def judge_cor1(tables: Tables) -> Iterator[Verdict]:
    fall, domains = tables["fewer inputs"]["fall"], tables["nested domains"]
    growth = domains.drop(columns="domain").diff().dropna()
    yield check(
        "biswas2024/cor1",
        fall.min() > -ROUNDING and (growth > 0).all(axis=None),
        "fewer inputs never raise the capacity, of channels and of Gaussian noise on nested "
        "domains",
        ours=f"{len(fall)} random channels; {growth.shape[1]} dimensions of {len(domains)} nested "
        f"domains, each larger by at least {growth.min(axis=None):.2g} nats",
        tolerance=f"{ROUNDING:g}",
    )

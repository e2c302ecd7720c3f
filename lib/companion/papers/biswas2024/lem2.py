"""Lemma 2: the least and the largest capacity, and random channels between them."""

import math
from collections.abc import Iterator

import numpy as np
import pandas as pd

from companion.exhibit import *
from companion.papers.biswas2024.random_channels import log_capacity, random_channel

_THEOREM = "none (a theorem)"
_INPUTS = (2, 3, 5, 10, 100)

PARAMETERS = {
    "inputs": Parameter("ints", _INPUTS, _INPUTS, _THEOREM, "n", 2),
    "channels": Parameter("int", 100, 2000, _THEOREM, "random channels for each n", 10),
}
SETTLES = ("D-012",)
SHOWN = ("capacities",)
ALTERED = {
    "capacities": {
        "equal rows": "capacities of channels of equal rows",
        "identity": "capacities of the identity",
        "least of random": "least capacities of random channels",
        "largest of random": "largest capacities of random channels",
    }
}


@measurement
def measure(study: Context) -> Tables:
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


def judge(tables: Tables) -> Iterator[Verdict]:
    table = tables["capacities"]
    n = table["inputs"]
    extremes = {"one column": 1, "equal rows": 1, "identity": n, "disjoint rows": n}
    off = max(float((table[name] - value).abs().max()) for name, value in extremes.items())
    between = (table["least of random"] > 1) & (table["largest of random"] < n)
    yield from shared_by(
        check(
            "biswas2024/lem2",
            off < 1e-9 and between.all(),
            "a channel whose rows are all equal has capacity 1, one whose rows share no output "
            "has its number of inputs, and every other lies strictly between",
            ours=f"n = {', '.join(map(str, n))}, {tables.parameters.channels} random channels each",
            tolerance="1e-9",
        ),
        "D-012",
    )

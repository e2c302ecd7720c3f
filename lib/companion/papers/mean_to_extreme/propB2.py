"""Proposition B.2: the variance never falls below sigma^2 ||X||^2; with a bias it stays higher."""

import math
from collections.abc import Iterator

import numpy as np
import pandas as pd
import torch

from companion.experiments.tools import as_numpy, mean_and_error, tensor
from companion.papers.mean_to_extreme.theorem_parameters import REPEATS, SIGMA, STATED
from companion.study import Context, Parameter, Tables, Verdict, check, measurement, refute
from companion.study.verdicts import rounded, shared_by
from reconrisk import DPSGD
from reconrisk.attacks import known_scale, observe
from reconrisk.mechanisms import global_norm
from reconrisk.models import AttackLayer, sum_of_outputs
from reconrisk.training import per_example_gradients

ROWS = (1, 10, 100, 1000)

PARAMETERS = {
    "repeats": REPEATS,
    "noise_multiplier": SIGMA,
    "dimension": Parameter("int", 16, 64, STATED, "values of a record", 2),
    "rows": Parameter("ints", ROWS, (*ROWS, 10_000), STATED, "M", 1),
}
SETTLES = ("A-008", "E-A-12")


@measurement
def measure(study: Context) -> Tables:
    p = study.parameters
    record = study.rng("record").random(p.dimension)
    record /= np.linalg.norm(record)
    clipping = 2.0
    run = DPSGD(p.noise_multiplier, max_grad_norm=clipping)
    variances = []
    for rows in p.rows:
        repeats = max(50, min(p.repeats, 2_000_000 // (rows * p.dimension)))
        inputs = tensor(study, np.broadcast_to(record, (repeats, p.dimension)))
        for bias in (False, True):
            generator = study.generator(rows, bias)
            rebuilt = as_numpy(known_scale(observe(inputs, run, generator, rows=rows, bias=bias)))
            squares = np.square(rebuilt - record).mean(axis=1)
            norm = math.sqrt(rows * (1 + bias))
            theory = (clipping * p.noise_multiplier * max(1.0, norm / clipping)) ** 2 / rows
            layer = AttackLayer(p.dimension, rows, bias=bias, dtype=torch.float64)
            gradient = per_example_gradients(layer, sum_of_outputs, inputs[:1].cpu())
            measured = mean_and_error(squares)
            variances.append((rows, bias, float(global_norm(gradient)), *measured, theory))
    columns = ["rows M", "bias", "gradient norm", "variance", "standard error", "theory"]
    return Tables(
        {"variance": pd.DataFrame(variances, columns=columns)},
        ran=f"DP-SGD steps with and without bias for M up to {max(p.rows)}, C = 2 ||X||.",
    )


def judge(tables: Tables) -> Iterator[Verdict]:
    table, least = tables["variance"], tables.parameters.noise_multiplier**2
    off = ((table["variance"] - table["theory"]).abs() / table["standard error"]).max()
    largest = table["rows M"].max()
    limits = table[table["rows M"] == largest].set_index("bias")
    limits = limits[["theory", "variance", "standard error"]] / least
    kept = limits["theory"][True]
    measured = {bias: rounded(*limits.loc[bias][1:]) for bias in (False, True)}
    floor = check(
        "mean_to_extreme/propB2",
        (table["theory"] >= least * (1 - 1e-12)).all()
        and off < 5
        and abs(limits["theory"][False] - 1) < 1e-9,
        "the variance tends to sigma^2 ||X||^2 from above as M grows",
        ours=f"variance over sigma^2 ||X||^2 at M = {largest}: {measured[False]}; "
        f"{table['rows M'].nunique()} values of M within {off:.1f} standard errors of theory",
        paper="at least 1",
        tolerance="5 standard errors",
    )
    yield from shared_by(floor, "A-008")
    without = table[~table["bias"]]
    slope = np.polyfit(np.log(without["rows M"]), np.log(without["gradient norm"]), 1)[0]
    yield refute(
        "E-A-12",
        holds=abs(slope - 1) < 0.1 or abs(kept - 1) < 0.1,
        corrected_holds=abs(slope - 0.5) < 1e-9 and abs(kept / 2 - 1) < 1e-9,
        ours=f"slope {slope:.3f}; limit over sigma^2 with bias and ||X|| = 1: {measured[True]}",
        paper="slope 1; limit 1",
    )

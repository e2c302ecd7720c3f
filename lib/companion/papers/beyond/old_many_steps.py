"""Our own: the averaged attack over many sampled steps, exactly."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd

from companion.experiments.tools import attack_repeatedly
from companion.study.computations import Context, computes
from companion.study.results import Result
from companion.study.verdicts import check, rounded
from reconrisk import bounds


@computes("beyond/many_steps", "O-004")
def many_steps(context: Context) -> Result:
    """Tail and expectation of the averaged attack over T and |D|, checked by simulation."""
    p = context.settings
    eta = p.threshold / p.dimension
    rows_table = []
    for records in p.records:
        for steps in p.steps:
            tail = float(
                bounds.mse_tail_sampled(
                    eta, p.dimension, p.noise_multiplier, 1.0, steps, 1 / records, log=True
                )
            )
            met = -math.expm1(steps * math.log1p(-1 / records))
            rows_table.append(
                (
                    records,
                    steps,
                    tail,
                    math.exp(tail),
                    met,
                    float(bounds.expected_mse_sampled(p.noise_multiplier, 1.0, steps, 1 / records)),
                    float(bounds.mse_tail(eta, p.dimension, p.noise_multiplier, 1.0, steps)),
                )
            )
    table = pd.DataFrame(
        rows_table,
        columns=[
            "|D|",
            "T",
            "log tail",
            "P(MSE <= eta)",
            "P(met at all)",
            "E[MSE | met]",
            "every step a hit",
        ],
    )

    # simulation: select, attack through the real step, average, compare
    records, steps = min(p.records), 1000
    record = context.rng("record").random(p.dimension)
    record /= np.linalg.norm(record)
    hits = context.rng("selection").binomial(steps, 1 / records, p.trials)
    rebuilt = attack_repeatedly(
        context, record, p.noise_multiplier, 0.5, int(hits.sum()), key=("steps",)
    )
    within = np.zeros(p.trials, dtype=bool)
    hit = np.flatnonzero(hits)
    first = np.concatenate([[0], np.cumsum(hits[hit])[:-1]])  # each run's own steps
    average = np.add.reduceat(rebuilt, first, axis=0) / hits[hit, None]
    within[hit] = np.square(average - record).mean(axis=1) <= eta
    measured = float(within.mean())
    exact = float(
        bounds.mse_tail_sampled(eta, p.dimension, p.noise_multiplier, 1.0, steps, 1 / records)
    )
    error = math.sqrt(exact * (1 - exact) / p.trials)
    grows = all(
        bool((np.diff(group["log tail"]) >= -1e-12).all()) for _, group in table.groupby("|D|")
    )
    shrinks = bool((table["P(MSE <= eta)"] <= table["every step a hit"] * (1 + 1e-12)).all())
    agrees = abs(measured - exact) < 4 * error
    ours = f"T = {steps}, |D| = {records}: {rounded(measured, error)} simulated, {exact:.4f} exact"
    return Result(
        "beyond/many_steps",
        [
            check(
                "beyond/many_steps",
                grows and shrinks and agrees,
                "the mixture's tail grows with T and stays below that of T certain hits",
                ours=f"{len(table)} settings; {ours}",
                tolerance="4 standard errors",
            ),
            check(
                "O-004",
                agrees,
                "simulated selection and averaging agree with the mixture",
                ours=ours,
                tolerance="4 standard errors",
            ),
        ],
        {"mixture": table},
        exact=("mixture",),
        ran=f"closed forms at N = {p.dimension}, sigma = {p.noise_multiplier:g}, eta = "
        f"{p.threshold:g} ||X||^2 / N; {p.trials} simulated runs of {steps} steps.",
    )

"""Proposition 1: the expected MSE with and without clipping, eqs. (4), (5) and (21)."""

from collections.abc import Iterator

import pandas as pd

from companion.exhibit import *
from companion.papers.ziller2024 import projection_steps as projection
from reconrisk import DPSGD, bounds, metrics

PARAMETERS = {
    "dimensions": projection.dimensions_parameter(4, 64, 1024),
    "noise_multipliers": projection.sigmas_parameter(0.1, 1.0),
    "samples": projection.samples_parameter(10000, 20000),
}
#: relative; an error of 5% in the noise is one of 10% in the MSE
MARGIN = 0.05
SETTLES = ("B-006", "B-041", "E-B-02")
ALTERED = {"mse": {"mean MSE": "mean MSEs"}}


@measurement
def measure(study: Context) -> Tables:
    p = study.parameters
    clipping = 1.0
    rows = []
    for dimension in p.dimensions:
        for ratio in (0.5, 1.0, 3.0):
            record = projection.random_record(study.rng(dimension), dimension, ratio * clipping)
            for sigma in p.noise_multipliers:
                run, key = DPSGD(sigma, max_grad_norm=clipping), (ratio, sigma)
                errors = projection.released(study, record, run, p.samples, metrics.mse, key)
                expected = float(bounds.expected_mse_clipped(ratio, dimension, sigma, clipping))
                rows.append((dimension, ratio, sigma, *mean_and_error(errors), expected, sigma**2))
    columns = ["N", "norm over C", "sigma", "mean MSE", "standard error", "eq. (4)", "eq. (5)"]
    table = pd.DataFrame(rows, columns=columns)
    return Tables(
        {"mse": table, "closed form": table.drop(columns=["mean MSE", "standard error"])},
        exact=["closed form"],
        ran=f"{p.samples} DP-SGD steps for each of {len(table)} settings of N, ||X||/C and sigma.",
    )


def judge(tables: Tables) -> Iterator[Verdict]:
    table = tables["mse"]
    right = projection.agree(table, "mean MSE", "eq. (4)", MARGIN * table["eq. (4)"])
    above = (table["eq. (4)"] >= table["eq. (5)"]).all()
    off = (table["mean MSE"] / table["eq. (4)"] - 1).abs().max()
    mean = check(
        "ziller2024/prop1",
        every(right, above),
        "the mean MSE is eq. (4), with and without clipping, hence at least C^2 sigma^2",
        ours=f"{len(table)} settings, the worst {off:.1%} off",
        tolerance=projection.within_margin(100 * MARGIN, "%"),
    )
    yield from shared_by(mean, "B-006")
    error, margin = table["standard error"], MARGIN * table["eq. (5)"]
    printed = at_most(table["mean MSE"], table["eq. (5)"] + margin, error)
    corrected = at_least(table["mean MSE"], table["eq. (5)"] - margin, error)
    ours = f"E[MSE] up to {(table['mean MSE'] / table['eq. (5)']).max():.0f} times C^2 sigma^2"
    statement = "eq. (21) prints <= where Proposition 1 states >=, and only >= holds"
    both = every(corrected, negate(printed))
    yield check("B-041", both, statement, ours=ours)
    yield refute("E-B-02", holds=printed, corrected_holds=corrected, ours=ours, paper="at most 1")

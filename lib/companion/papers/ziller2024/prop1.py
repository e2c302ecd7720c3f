"""Proposition 1: the expected MSE with and without clipping, eqs. (4), (5) and (21)."""

from collections.abc import Iterator

import pandas as pd

from companion.experiments.tools import mean_and_error
from companion.papers.ziller2024 import projection_steps as projection
from companion.study import Context, Tables, Verdict, check, measurement, refute
from companion.study.verdicts import STANDARD_ERRORS, shared_by
from reconrisk import DPSGD, bounds, metrics

PARAMETERS = {
    "dimensions": projection.dimensions_parameter(4, 64, 1024),
    "noise_multipliers": projection.sigmas_parameter(0.1, 1.0),
    "samples": projection.samples_parameter(2000, 20000),
}
SETTLES = ("B-006", "B-041", "E-B-02")


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
    off = projection.worst_deviation(table, "mean MSE", "eq. (4)")
    slack = STANDARD_ERRORS * table["standard error"]
    at_least = (table["mean MSE"] >= table["eq. (5)"] - slack).all()
    at_most = (table["mean MSE"] <= table["eq. (5)"] + slack).all()
    mean = check(
        "ziller2024/prop1",
        off < STANDARD_ERRORS and at_least,
        "the mean MSE is eq. (4), with and without clipping, hence at least C^2 sigma^2",
        ours=f"{len(table)} settings, the worst {off:.1f} standard errors off",
        tolerance=projection.TOLERANCE,
    )
    yield from shared_by(mean, "B-006")
    ours = f"E[MSE] up to {(table['eq. (4)'] / table['eq. (5)']).max():.0f} times C^2 sigma^2"
    statement = "eq. (21) prints <= where Proposition 1 states >=, and only >= holds"
    yield check("B-041", at_least and not at_most, statement, ours=ours)
    yield refute("E-B-02", holds=at_most, corrected_holds=at_least, ours=ours, paper="at most 1")

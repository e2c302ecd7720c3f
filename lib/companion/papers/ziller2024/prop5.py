"""Proposition 5: the law of the MSE, with and without clipping."""

import functools
from collections.abc import Iterator

import pandas as pd

from companion.experiments.tools import SIGNIFICANCE, fits
from companion.papers.ziller2024 import projection_steps as projection
from companion.study import Context, Tables, Verdict, check, measurement, shared_by
from reconrisk import DPSGD, bounds, metrics

PARAMETERS = {
    "dimensions": projection.dimensions_parameter(1, 10, 100, 1000),
    "samples": projection.samples_parameter(4000, 100000),
}
SETTLES = ("B-024",)


@measurement
def measure(study: Context) -> Tables:
    p = study.parameters
    sigma, clipping = 0.5, 1.0
    run = DPSGD(sigma, max_grad_norm=clipping)
    rows = []
    for dimension in p.dimensions:
        for norm in (0.5, 3.0):
            record = projection.random_record(study.rng(dimension), dimension, norm * clipping)
            errors = projection.released(study, record, run, p.samples, metrics.mse, (norm,))
            law = {"dimension": dimension, "noise_multiplier": sigma}
            exact = functools.partial(
                bounds.mse_tail_clipped, **law, max_grad_norm=clipping, data_norm=norm
            )
            central = functools.partial(bounds.mse_tail, **law, data_norm=clipping)
            rows.append((dimension, norm, fits(errors, exact), fits(errors, central)))
    columns = ["N", "norm over C", "p non-central", "p central"]
    return Tables(
        {"p-values": pd.DataFrame(rows, columns=columns)},
        ran=f"{p.samples} DP-SGD steps for each N, with ||X|| = C/2 and 3 C, at sigma = {sigma:g}.",
    )


def judge(tables: Tables) -> Iterator[Verdict]:
    table = tables["p-values"]
    exact, central = table["p non-central"], table.loc[table["norm over C"] > 1, "p central"]
    law = check(
        "ziller2024/prop5",
        projection.all_fit(exact) and (central < SIGNIFICANCE).all(),
        "given X, the MSE is C^2 sigma^2 / N times a non-central chi-square variable",
        ours=f"smallest p-value {exact.min():.2g} over {len(table)} settings; the central law is "
        "rejected where X is clipped",
        tolerance=projection.level(len(table)),
    )
    yield from shared_by(law, "B-024")

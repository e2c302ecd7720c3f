"""Proposition 5: the law of the MSE, with and without clipping."""

import functools
from collections.abc import Iterator

import pandas as pd

from companion.exhibit import *
from companion.papers.ziller2024 import projection_steps as projection
from reconrisk import DPSGD, bounds, metrics

PARAMETERS = {
    "dimensions": projection.dimensions_parameter(1, 10, 100, 1000),
    "samples": projection.samples_parameter(10000, 100000),
}
SETTLES = ("B-024",)
ALTERED = {
    "distances": {
        "from non-central": "distances from the non-central law",
        "from central": at("`norm over C` > 1", "distances from the central law with clipping"),
    },
}


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
            measured, error = projection.distance(errors, exact)
            rows.append((dimension, norm, measured, projection.distance(errors, central)[0], error))
    columns = ["N", "norm over C", "from non-central", "from central", "standard error"]
    return Tables(
        {"distances": pd.DataFrame(rows, columns=columns)},
        ran=f"{p.samples} DP-SGD steps for each N, with ||X|| = C/2 and 3 C, at sigma = {sigma:g}.",
    )


def judge(tables: Tables) -> Iterator[Verdict]:
    table, margin = tables["distances"], projection.SHARE_MARGIN
    error, clipped = table["standard error"], table["norm over C"] > 1
    central = within(table["from central"][clipped], 0, error[clipped], margin)
    law = check(
        "ziller2024/prop5",
        every(
            within(table["from non-central"], 0, error, margin),
            negate(central),
        ),
        "given X, the MSE is C^2 sigma^2 / N times a non-central chi-square variable",
        ours=f"distribution functions at most {table['from non-central'].max():.3f} apart at "
        f"{len(table)} settings; from the central law up to {table['from central'].max():.2f} "
        "where X is clipped",
        tolerance=projection.within_margin(margin),
    )
    yield from shared_by(law, "B-024")

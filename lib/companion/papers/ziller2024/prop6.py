"""Proposition 6: the data-free bound on P(MSE <= eta)."""

from collections.abc import Iterator

import numpy as np
import pandas as pd
from scipy import stats

from companion.exhibit import *
from companion.papers.ziller2024 import projection_steps as projection
from reconrisk import DPSGD, bounds, metrics

LEVELS = np.array([0.01, 0.1, 0.5, 0.9, 0.99])

PARAMETERS = {
    "dimensions": projection.dimensions_parameter(1, 10, 100, 1000),
    "samples": projection.samples_parameter(10000, 100000),
}
SETTLES = ("B-025", "E-B-12")
ALTERED = {
    "tails": {
        "measured": "measured probabilities",
        "exact": at("`norm over C` > 1", "exact probabilities of clipped records"),
    },
}


@measurement
def measure(study: Context) -> Tables:
    p = study.parameters
    sigma, clipping = 0.5, 1.0
    run = DPSGD(sigma, max_grad_norm=clipping)
    frames = []
    for dimension in p.dimensions:
        eta = stats.gamma.ppf(LEVELS, dimension / 2) * 2 * (clipping * sigma) ** 2 / dimension
        for norm in (0.5, 1.1, 3.0):
            record = projection.random_record(study.rng(dimension), dimension, norm * clipping)
            errors = projection.released(study, record, run, p.samples, metrics.mse, (norm,))
            columns = {
                "N": dimension,
                "norm over C": norm,
                "eta": eta,
                "measured": np.mean(errors[:, None] <= eta, axis=0),
                "standard error": 0.5 / np.sqrt(p.samples),  # of a share, at most
                "exact": bounds.mse_tail_clipped(eta, dimension, sigma, clipping, norm),
                "bound": bounds.mse_tail(eta, dimension, sigma, clipping),
            }
            frames.append(pd.DataFrame(columns))
    table = pd.concat(frames, ignore_index=True)
    return Tables(
        {"tails": table, "closed form": table.drop(columns=["measured", "standard error"])},
        exact=["closed form"],
        ran=f"{p.samples} DP-SGD steps for each N, with ||X|| = 0.5, 1.1 and 3 C, at sigma = "
        f"{sigma:g}.",
    )


def judge(tables: Tables) -> Iterator[Verdict]:
    table, margin = tables["tails"], projection.SHARE_MARGIN
    measured, exact, bound = table["measured"], table["exact"], table["bound"]
    right = within(measured, exact, table["standard error"], margin)
    dominated = (exact <= bound * (1 + 1e-9)).all()
    clipped = table["norm over C"] > 1
    bounded = check(
        "ziller2024/prop6",
        every(right, dominated, np.allclose(exact[~clipped], bound[~clipped])),
        "P(MSE <= eta) <= P(N/2, N eta / (2 C^2 sigma^2)), with equality without clipping",
        ours=f"{len(table)} thresholds; measured probabilities at most "
        f"{(measured - exact).abs().max():.3f} off",
        tolerance=projection.within_margin(margin),
    )
    yield from shared_by(bounded, "B-025")
    median = table.iloc[-1 - len(LEVELS) // 2]
    smaller = refute(
        "ziller2024/prop6",
        erratum="E-B-12",
        # "MSE <= MSE_bound": the bounding variable is the smaller one in distribution
        holds=at_most(bound[clipped], measured[clipped] + margin, table["standard error"][clipped]),
        corrected_holds=every(right, dominated, (exact < bound)[clipped].all()),
        ours=f"P(MSE <= eta) against the bound, N = {median['N']:.0f}, ||X|| = "
        f"{median['norm over C']:g} C, median eta: {median['exact']:.2g} against "
        f"{median['bound']:.2g}",
    )
    yield from shared_by(smaller, "E-B-12")

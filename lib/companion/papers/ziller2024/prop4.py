"""Proposition 4: averages of T reconstructions, and the noise that keeps the risk constant."""

import math
from collections.abc import Iterator

import numpy as np
import pandas as pd
from scipy import stats

from companion.exhibit import *
from companion.papers.ziller2024 import projection_steps as projection
from reconrisk import DPSGD, bounds

STEPS = (1, 4, 16, 64, 256)

PARAMETERS = {
    "steps": Parameter("ints", STEPS, (*STEPS, 1024), projection.STATED, "T, steps", low=1),
    "dimension": Parameter("int", 64, 64, projection.STATED, "N, values of a record", low=2),
    "samples": projection.samples_parameter(1000, 2000),
}
#: relative; an error of 5% in the noise is one of 10% in the variance
MARGIN = 0.05
SETTLES = ("B-012", "B-013", "B-022")
ALTERED = {
    "variance": {"variance": "variances of averages"},
    "risk": {"success": at("T == T.max()", "successes after the most steps")},
    "composition": {"missed": "errors of the second kind of T steps"},
}


@measurement
def measure(study: Context) -> Tables:
    p = study.parameters
    sigma = clipping = 1.0
    record = projection.random_record(study.rng("record"), p.dimension, 3 * clipping)
    run = DPSGD(sigma, max_grad_norm=clipping)
    rows = []
    for steps in p.steps:
        rebuilt = projection.released(study, record, run, p.samples * steps, key=(steps,))
        average = rebuilt.reshape(p.samples, steps, -1).mean(axis=1)
        squares = np.square(average - record / 3).mean(axis=1)
        rows.append((steps, *mean_and_error(squares), (clipping * sigma) ** 2 / steps))
    return Tables(
        {
            "variance": pd.DataFrame(rows, columns=["T", "variance", "standard error", "eq. (10)"]),
            "risk": _risk_over_steps(),
            "composition": _composition(),
        },
        exact=["risk"],
        ran=f"{p.samples} averages of T reconstructions each at N = {p.dimension}, "
        f"T up to {max(p.steps)}.",
    )


def _risk_over_steps() -> pd.DataFrame:
    """Worst-case success, expected MSE and NCC after T steps of noise sqrt(T)."""
    rows = [
        (
            steps,
            float(bounds.rero_gaussian(noise, 0.1, steps=steps)),
            float(bounds.expected_mse(noise, 1.0, steps)),
            float(bounds.expected_ncc(1000, noise, repeats=steps)),
        )
        for steps in (1, 10, 1000, 10**5)
        for noise in [math.sqrt(steps)]
    ]
    return pd.DataFrame(rows, columns=["T", "success", "E[MSE]", "E[NCC]"])


def _composition() -> pd.DataFrame:
    """Remark 1: the best test of T Gaussian steps, and that of one with mu = sqrt(T) / sigma."""
    # the likelihood ratio of T observations depends on their mean alone, N(mu_1, sigma^2 / T)
    alpha = np.linspace(0.01, 0.99, 25)
    frames = []
    for steps, sigma in ((4, 1.0), (9, 2.0)):
        threshold = stats.norm.isf(alpha, 0, math.sqrt(steps) * sigma)  # of the sum of T
        missed = stats.norm.cdf(threshold, steps, math.sqrt(steps) * sigma)
        of_one = stats.norm.cdf(stats.norm.isf(alpha) - math.sqrt(steps) / sigma)
        columns = {"T": steps, "sigma": sigma, "alpha": alpha, "missed": missed, "of one": of_one}
        frames.append(pd.DataFrame(columns))
    return pd.concat(frames, ignore_index=True)


def judge(tables: Tables) -> Iterator[Verdict]:
    table = tables["variance"]
    off = (table["variance"] / table["eq. (10)"] - 1).abs().max()
    averaged = check(
        "ziller2024/prop4",
        projection.agree(table, "variance", "eq. (10)", MARGIN * table["eq. (10)"]),
        "the average of T reconstructions has variance C^2 sigma^2 / T",
        ours=f"T = {', '.join(map(str, table['T']))}: the worst {off:.1%} off",
        tolerance=projection.within_margin(100 * MARGIN, "%"),
    )
    yield from shared_by(averaged, "B-012")
    risk, composition = tables["risk"].set_index("T"), tables["composition"]
    ends = [100 * risk["success"].iloc[place] for place in (0, -1)]
    root = check(
        "B-013",
        (risk.max() - risk.min() < 1e-9).all()
        and np.allclose(composition["missed"], composition["of one"], rtol=1e-9, atol=0),
        "T steps of noise sigma sqrt(T) have the worst case, expected MSE and NCC of one step of "
        "noise sigma",
        ours=f"worst-case success after 1 and {risk.index[-1]} steps: {ends[0]:.1f}% and "
        f"{ends[1]:.1f}%",
    )
    yield from shared_by(root, "B-022")

"""Proposition 4: averages of T reconstructions, and the noise that keeps the risk constant."""

import math
from collections.abc import Iterator

import numpy as np
import pandas as pd
from scipy import stats

from companion.experiments.tools import mean_and_error
from companion.papers.ziller2024 import projection_steps as projection
from companion.study import Context, Parameter, Tables, Verdict, check, measurement, refute
from companion.study.verdicts import STANDARD_ERRORS, shared_by
from reconrisk import DPSGD, bounds

STEPS = (1, 4, 16, 64, 256)

PARAMETERS = {
    "steps": Parameter("ints", STEPS, (*STEPS, 1024), projection.STATED, "T, steps", low=1),
    "dimension": Parameter("int", 64, 64, projection.STATED, "N, values of a record", low=2),
    "samples": projection.samples_parameter(200, 2000),
}
SETTLES = ("B-012", "B-013", "B-022", "E-B-04", "E-B-10")


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
            "risk": _risk_over_steps(1),
            "risk at sigma over root T": _risk_over_steps(-1),
            "composition": _composition(),
        },
        exact=["risk", "risk at sigma over root T"],
        ran=f"{p.samples} averages of T reconstructions each at N = {p.dimension}, "
        f"T up to {max(p.steps)}.",
    )


def _risk_over_steps(power: int) -> pd.DataFrame:
    """Worst-case success, bounds on MSE and NCC after T steps of noise sqrt(T) ** power."""
    rows = [
        (
            steps,
            float(bounds.rero_gaussian(noise, 0.1, steps=steps)),
            float(bounds.expected_mse(noise, 1.0, steps)),
            float(bounds.expected_ncc(1000, noise, repeats=steps)),
        )
        for steps in (1, 10, 1000, 10**5)
        for noise in [math.sqrt(steps) ** power]
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
    off = projection.worst_deviation(table, "variance", "eq. (10)")
    averaged = check(
        "ziller2024/prop4",
        off < STANDARD_ERRORS,
        "the average of T reconstructions has variance C^2 sigma^2 / T",
        ours=f"T = {', '.join(map(str, table['T']))}: the worst {off:.1f} standard errors off",
        tolerance=projection.TOLERANCE,
    )
    yield from shared_by(averaged, "B-012")
    risks = [tables[name].set_index("T") for name in ("risk", "risk at sigma over root T")]
    kept, lost = ((risk.max() - risk.min() < 1e-9).all() for risk in risks)
    growing, shrinking = (100 * risk["success"] for risk in risks)
    numbers = (
        f"worst-case success after 1 and {growing.index[-1]} steps: {shrinking.iloc[0]:.1f}% and "
        f"{shrinking.iloc[-1]:.1f}% with sigma / sqrt(T), {growing.iloc[0]:.1f}% and "
        f"{growing.iloc[-1]:.1f}% with sigma sqrt(T)"
    )
    composition = tables["composition"]
    root = check(
        "B-013",
        kept and not lost and np.allclose(composition["missed"], composition["of one"]),
        "T steps of noise sigma sqrt(T) have the worst case, expected MSE and NCC of one step of "
        "noise sigma; with sigma / sqrt(T) they do not",
        ours=numbers,
    )
    yield from shared_by(root, "B-022")
    yield refute("E-B-04", holds=lost, corrected_holds=kept, ours=numbers)
    slope = np.polyfit(np.log(table["T"]), 0.5 * np.log(table["variance"]), 1)[0]
    yield refute(
        "E-B-10",
        holds=abs(slope + 1) < 0.1,
        corrected_holds=abs(slope + 0.5) < 0.02,
        ours=f"log-log slope of the root mean squared error {slope:.2f}",
        paper="-1",
    )

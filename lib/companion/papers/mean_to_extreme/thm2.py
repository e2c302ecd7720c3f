"""Theorem 2: simulated MSEs and the scaled chi-squared law."""

import math
from collections.abc import Iterator

import numpy as np
import pandas as pd
from scipy import stats

from companion.experiments.tools import SIGNIFICANCE, attack_repeatedly, fits
from companion.papers.mean_to_extreme.theorem_parameters import REPEATS, SIGMA, STATED
from companion.study import Context, Parameter, Tables, Verdict, check, measurement, shared_by
from reconrisk import bounds, metrics

DIMENSIONS = (1, 4, 64, 784)

PARAMETERS = {
    "repeats": REPEATS,
    "noise_multiplier": SIGMA,
    "dimensions": Parameter("ints", DIMENSIONS, (*DIMENSIONS, 3072), STATED, "N", 1),
}
SETTLES = ("A-018", "A-019")


@measurement
def measure(study: Context) -> Tables:
    p = study.parameters
    sigma = p.noise_multiplier
    laws = []
    for dimension in p.dimensions:
        record = study.rng("record", dimension).random(dimension) + 0.1
        norm = float(np.linalg.norm(record))
        rebuilt = attack_repeatedly(study, record, sigma, 0.5 * norm, p.repeats)
        errors = metrics.mse(record, rebuilt)
        p_value = fits(errors * dimension / (sigma * norm) ** 2, stats.chi2(dimension).cdf)
        threshold = (sigma * norm) ** 2 * (1 - 0.5 / math.sqrt(dimension))
        exact = float(bounds.mse_tail(threshold, dimension, sigma, norm))
        measured = float(np.mean(errors <= threshold))
        spread = math.sqrt(exact * (1 - exact) / p.repeats)
        laws.append((dimension, p_value, exact, measured, (measured - exact) / spread))
    columns = ["N", "p-value", "P(MSE <= eta)", "measured", "z-score"]
    return Tables(
        {"law": pd.DataFrame(laws, columns=columns)},
        ran=f"{p.repeats} DP-SGD steps for each of {len(p.dimensions)} dimensions.",
    )


def judge(tables: Tables) -> Iterator[Verdict]:
    table = tables["law"]
    least, farthest = table["p-value"].min(), table["z-score"].abs().max()
    dimensions = ", ".join(f"{n}" for n in table["N"])
    law = check(
        "mean_to_extreme/thm2",
        least > SIGNIFICANCE,
        "the MSE is sigma^2 ||X||^2 / N times a chi-squared variable with N degrees",
        ours=f"smallest p-value {least:.2g} over N = {dimensions}",
        tolerance=f"p > {SIGNIFICANCE:g}",
    )
    yield from shared_by(law, "A-018")
    probability = check(
        "mean_to_extreme/thm2",
        farthest < 4,
        "P(MSE <= eta) is the regularised gamma function of eq. (23)",
        ours=f"largest deviation {farthest:.1f} standard errors",
        tolerance="4 standard errors",
    )
    yield from shared_by(probability, "A-019")

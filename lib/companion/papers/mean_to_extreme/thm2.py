"""Theorem 2: simulated MSEs and the scaled chi-squared law."""

import math
from collections.abc import Iterator

import numpy as np
import pandas as pd
from scipy import stats

from companion.exhibit import *
from companion.papers.mean_to_extreme.theorem_parameters import SIGMA, STATED
from reconrisk import bounds, metrics

DIMENSIONS = (1, 4, 64, 784)

PARAMETERS = {
    "repeats": Parameter("int", 20_000, 100_000, STATED, "simulated steps per N", 100),
    "noise_multiplier": SIGMA,
    "dimensions": Parameter("ints", DIMENSIONS, (*DIMENSIONS, 3072), STATED, "N", 1),
}
SETTLES = ("A-018", "A-019")
ALTERED = {
    "law": {"distance": "distances from the chi-squared law", "measured": "probabilities"},
}

#: how near distribution functions must come to theirs
MARGIN = 0.03


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
        law = distance_to_law(errors * dimension / (sigma * norm) ** 2, stats.chi2(dimension).cdf)
        threshold = (sigma * norm) ** 2 * (1 - 0.5 / math.sqrt(dimension))
        exact = float(bounds.mse_tail(threshold, dimension, sigma, norm))
        measured = float(np.mean(errors <= threshold))
        spread = math.sqrt(exact * (1 - exact) / p.repeats)
        laws.append((dimension, *law, exact, measured, spread))
    columns = ["N", "distance", "standard error of the distance", "P(MSE <= eta)", "measured"]
    columns.append("standard error")
    return Tables(
        {"law": pd.DataFrame(laws, columns=columns)},
        ran=f"{p.repeats} DP-SGD steps for each of {len(p.dimensions)} dimensions.",
    )


def judge(tables: Tables) -> Iterator[Verdict]:
    table = tables["law"]
    off = (table["measured"] - table["P(MSE <= eta)"]).abs().max()
    dimensions = ", ".join(f"{n}" for n in table["N"])
    law = check(
        "mean_to_extreme/thm2",
        within(table["distance"], 0, table["standard error of the distance"], MARGIN),
        "the MSE is sigma^2 ||X||^2 / N times a chi-squared variable with N degrees",
        ours=f"largest distance of the distribution functions {table['distance'].max():.4f} over "
        f"N = {dimensions}",
        tolerance=f"{MARGIN:g}, its error included",
    )
    yield from shared_by(law, "A-018")
    probability = check(
        "mean_to_extreme/thm2",
        within(table["measured"], table["P(MSE <= eta)"], table["standard error"], MARGIN),
        "P(MSE <= eta) is the regularised gamma function of eq. (23)",
        ours=f"largest deviation {off:.4f}",
        tolerance=f"{MARGIN:g}, its error included",
    )
    yield from shared_by(probability, "A-019")

"""Proposition B.3: the normal limit of the MSE: distance of the exact law, and simulation."""

import math
from collections.abc import Iterator

import numpy as np
import pandas as pd
from scipy import stats

from companion.exhibit import *
from companion.papers.mean_to_extreme.theorem_parameters import SIGMA, STATED
from reconrisk import bounds, metrics

PARAMETERS = {
    "repeats": Parameter("int", 2000, 5_000, STATED, "steps", 100),
    "noise_multiplier": SIGMA,
    "dimensions": Parameter("ints", (4, 64, 1024, 8192), (4, 64, 1024, 16_384), STATED, "N", 1),
}
SETTLES = ("A-051",)
AWAY = "distance to the normal law"
ALTERED = {
    "distance": {AWAY: at("N == N.max()", "distances to the limit at the largest N")},
    "simulated": {"distance": "distances of simulated errors from the normal law"},
}

#: how near the exponent must come to -1/2: the third-order term is of relative size 1/sqrt(N)
EXPONENT_MARGIN = 0.02
#: how near the distribution function of the errors must come to the normal one
MARGIN = 0.06


@measurement
def measure(study: Context) -> Tables:
    p = study.parameters
    points = np.linspace(-4, 4, 801)  # standard deviations
    distances = []
    for dimension in p.dimensions:
        scaled = np.maximum(1 + points * math.sqrt(2 / dimension), 0)
        exact = bounds.mse_tail(scaled, dimension, 1.0, 1.0)
        distances.append((dimension, float(np.abs(exact - stats.norm.cdf(points)).max())))

    largest = max(p.dimensions)
    record = study.rng("record").random(largest)
    norm = float(np.linalg.norm(record))
    rebuilt = attack_repeatedly(study, record, p.noise_multiplier, 0.5 * norm, p.repeats)
    variance = (p.noise_multiplier * norm) ** 2
    standardised = math.sqrt(largest) * (metrics.mse(record, rebuilt) - variance)
    distance, error = distance_to_law(standardised / (math.sqrt(2) * variance), stats.norm.cdf)
    simulated = {"N": largest, "distance": distance, "standard error": error}
    return Tables(
        {
            "distance": pd.DataFrame(distances, columns=["N", AWAY]),
            "simulated": pd.DataFrame([simulated]),
        },
        exact=("distance",),
        ran=f"exact laws for N up to {largest}, and {p.repeats} DP-SGD steps at the largest.",
    )


def judge(tables: Tables) -> Iterator[Verdict]:
    distance, simulated = tables["distance"], tables["simulated"].iloc[0]
    sizes, distances = np.log(distance[["N", AWAY]].to_numpy(float)).T
    slope = np.polyfit(sizes, distances, 1)[0]
    limit = check(
        "mean_to_extreme/propB3",
        every(
            within(simulated["distance"], 0, simulated["standard error"], MARGIN),
            bool(abs(slope + 0.5) < EXPONENT_MARGIN),
        ),
        "sqrt(N) (MSE - sigma^2 ||X||^2) tends to N(0, 2 sigma^4 ||X||^4)",
        ours=f"distance to the limit falls like N^{slope:.3f}; that of simulated "
        f"errors at N = {simulated['N']:.0f} is {simulated['distance']:.3f}",
        tolerance=f"exponent -0.5 +- {EXPONENT_MARGIN:g}; {MARGIN:g}, its error included",
    )
    yield from shared_by(limit, "A-051")

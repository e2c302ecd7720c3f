"""Proposition B.4: the parts of the sample NCC; single values exceed the printed bound."""

from collections.abc import Iterator

import numpy as np
import pandas as pd

from companion.exhibit import *
from companion.papers.mean_to_extreme.theorem_parameters import SIGMA, STATED
from reconrisk import bounds, metrics

PARAMETERS = {
    "repeats": Parameter("int", 20_000, 100_000, STATED, "simulated steps per N", 100),
    "dimensions": Parameter("ints", (3, 4, 64), (3, 4, 64, 784), STATED, "N", 3),
    "noise_multiplier": SIGMA,
}
SETTLES = ("A-027",)
ALTERED = {
    "exceedance": {
        "eq. (66) off": "differences from eq. (66)",
        "share above": "shares above the bound",
    }
}

#: how near the measured share must come to the exact one
MARGIN = 0.02


@measurement
def measure(study: Context) -> Tables:
    p = study.parameters
    sigma = p.noise_multiplier
    exceedance = []
    for dimension in p.dimensions:
        record = study.rng(dimension).random(dimension)
        norm = float(np.linalg.norm(record))
        rebuilt = attack_repeatedly(study, record, sigma, 0.5 * norm, p.repeats)
        noise = rebuilt - record
        sd, sd_rebuilt = record.std(), rebuilt.std(axis=1)
        covariance = (record * noise).mean(axis=1) - record.mean() * noise.mean(axis=1)
        identity = sd / sd_rebuilt + covariance / (sd * sd_rebuilt)  # eq. (66)
        ncc = metrics.ncc(record, rebuilt)
        bound = float(bounds.ncc_bound_paper(dimension, sigma))
        exact = float(bounds.ncc_tail(bound, dimension, sigma, record))
        error = np.sqrt(exact * (1 - exact) / p.repeats)
        difference = np.abs(ncc - identity).max()
        exceedance.append((dimension, bound, np.mean(ncc > bound), error, exact, difference))
    columns = ["N", "bound", "share above", "standard error", "exact share", "eq. (66) off"]
    return Tables(
        {"exceedance": pd.DataFrame(exceedance, columns=columns)},
        ran=f"{p.repeats} DP-SGD steps for each of {len(p.dimensions)} dimensions.",
    )


def judge(tables: Tables) -> Iterator[Verdict]:
    table = tables["exceedance"]
    yield check(
        "mean_to_extreme/propB4",
        (table["eq. (66) off"] < 1e-12).all(),
        "eq. (66) holds for every simulated pair",
        ours=f"largest difference below 1e-12 over {tables.parameters.repeats} pairs per N",
    )
    error = table["standard error"]
    near = within(table["share above"], table["exact share"], error, MARGIN)
    first = table.iloc[0]
    yield check(
        "A-027",
        every(near, bool((table["share above"] - STANDARD_ERRORS * error > 0.01).all())),
        "single reconstructions exceed sqrt(1/(1 + sigma^2 N))",
        ours=f"share at N = {first['N']:g}: {rounded(first['share above'], error[0])}, exact "
        f"{first['exact share']:.4f}",
        tolerance=f"{MARGIN:g} from the exact share, errors included",
    )

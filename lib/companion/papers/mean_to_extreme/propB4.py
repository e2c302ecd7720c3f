"""Proposition B.4: the parts of the sample NCC; single values exceed the printed bound."""

from collections.abc import Iterator

import numpy as np
import pandas as pd

from companion.experiments.tools import attack_repeatedly
from companion.papers.mean_to_extreme.theorem_parameters import REPEATS, SIGMA, STATED
from companion.study import Context, Parameter, Tables, Verdict, check, measurement
from companion.study.verdicts import rounded
from reconrisk import bounds, metrics

PARAMETERS = {
    "repeats": REPEATS,
    "dimensions": Parameter("ints", (3, 4, 64), (3, 4, 64, 784), STATED, "N", 3),
    "noise_multiplier": SIGMA,
}
SETTLES = ("A-027",)


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
    columns = ["N", "bound", "share above", "error", "exact share", "eq. (66) off"]
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
    off = ((table["share above"] - table["exact share"]).abs() / table["error"]).max()
    first = table.iloc[0]
    yield check(
        "A-027",
        (table["share above"] > 0.01).all() and off < 4,
        "single reconstructions exceed sqrt(1/(1 + sigma^2 N))",
        ours=f"share at N = {first['N']:g}: {rounded(first['share above'], first['error'])}, "
        f"exact {first['exact share']:.4f}",
        tolerance="4 standard errors of the exact law",
    )

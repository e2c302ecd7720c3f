"""Proposition 2: the expected MSE, with C below and above the record's norm."""

import math
from collections.abc import Iterator

import numpy as np
import pandas as pd

from companion.experiments.tools import attack_repeatedly, mean_and_error
from companion.papers.mean_to_extreme.theorem_parameters import REPEATS, SIGMA, STATED
from companion.study import Context, Parameter, Tables, Verdict, check, measurement, shared_by
from companion.study.verdicts import rounded
from reconrisk import metrics
from reconrisk.attacks import rows_for_least_noise

PARAMETERS = {
    "repeats": REPEATS,
    "noise_multiplier": SIGMA,
    "dimension": Parameter("int", 16, 64, STATED, "values of a record", 2),
}
SETTLES = ("A-004", "A-014", "A-016", "A-017")


@measurement
def measure(study: Context) -> Tables:
    p = study.parameters
    sigma = p.noise_multiplier
    record = study.rng("record").random(p.dimension)
    norm = float(np.linalg.norm(record))
    errors = []
    for case, clipping in (("C below the norm", 0.5 * norm), ("C above the norm", 3 * norm)):
        rows = rows_for_least_noise(clipping, norm)
        rebuilt = attack_repeatedly(study, record, sigma, clipping, p.repeats, rows=rows)
        bias = np.abs(rebuilt.mean(axis=0) - record).max() / (sigma * norm / math.sqrt(p.repeats))
        errors.append((case, clipping, *mean_and_error(metrics.mse(record, rebuilt)), bias, norm))
    # Guo et al. 2022: a lower bound on the MSE of unbiased attacks from order-2 Renyi DP
    guo = [(s, 1 / (4 * math.expm1(1 / s**2)), (s * norm) ** 2) for s in (0.05, 0.1, 0.2, 0.5, 1.0)]
    columns = ["case", "C", "MSE", "standard error", "bias in errors", "norm"]
    return Tables(
        {
            "errors": pd.DataFrame(errors, columns=columns),
            "guo": pd.DataFrame(guo, columns=["sigma", "Guo et al. bound", "MSE of the attack"]),
        },
        ran=f"{p.repeats} DP-SGD steps at N = {p.dimension}, sigma = {sigma:g}, with C below and "
        "above the record's norm.",
    )


def judge(tables: Tables) -> Iterator[Verdict]:
    errors, sigma = tables["errors"], tables.parameters.noise_multiplier
    low, high = (errors.iloc[i] for i in (0, 1))
    expected = (sigma * low["norm"]) ** 2
    off = ((errors["MSE"] - expected).abs() / errors["standard error"]).max()
    mean = check(
        "mean_to_extreme/prop2",
        off < 4 and (errors["bias in errors"] < 5).all(),
        "X_hat is unbiased with expected MSE sigma^2 ||X||^2",
        ours=f"{rounded(low['MSE'], low['standard error'])}, within {off:.1f} standard errors",
        paper=rounded(expected),
        tolerance="4 standard errors",
    )
    yield from shared_by(mean, "A-014")
    guo = tables["guo"].set_index("sigma")
    gaps = guo["MSE of the attack"] / guo["Guo et al. bound"]
    yield check(
        "A-004",
        (gaps > 5).all() and gaps.iloc[0] > 1e100,
        "the bound of Guo et al. lies far below the attack's MSE",
        ours=f"MSE over bound: {gaps[1.0]:.2g} at sigma = 1, {gaps[0.2]:.2g} at sigma = 0.2",
    )
    floor = (errors["C"] * sigma) ** 2
    bounded = check(
        "A-016",
        low["C"] <= low["norm"]
        and low["MSE"] >= floor[0]
        and high["C"] > high["norm"]
        and high["MSE"] < floor[1],
        "the MSE is at least C^2 sigma^2 if C is at most the norm, and below it if C exceeds the "
        "norm",
        ours="; ".join(
            f"{rounded(row['MSE'], row['standard error'])} against {rounded(floor[i])} for "
            f"{row['case']}"
            for i, row in errors.iterrows()
        ),
    )
    yield from shared_by(bounded, "A-017")

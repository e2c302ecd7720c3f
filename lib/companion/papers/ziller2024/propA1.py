"""Proposition A.1: the parts of the law of the NCC, printed and corrected, and the exact law."""

import math
from collections.abc import Iterator

import numpy as np
import pandas as pd
from scipy import stats

from companion.experiments.tools import SIGNIFICANCE, fits, mean_and_error
from companion.papers.ziller2024 import projection_steps as projection
from companion.study import Context, Parameter, Tables, Verdict, check, measurement, refute
from companion.study.verdicts import STANDARD_ERRORS, rounded
from reconrisk import DPSGD, bounds, metrics

PARAMETERS = {
    "dimension": Parameter("int", 10, 10, projection.STATED, "N, values of a record", low=3),
    "samples": projection.samples_parameter(20000, 200000),
}
SETTLES = ("B-042", "E-B-05", "E-B-09")


@measurement
def measure(study: Context) -> Tables:
    p = study.parameters
    n, clipping, sigma, beta = p.dimension, 2.0, 0.7, 1 / 3
    scale, run = clipping * sigma, DPSGD(sigma, max_grad_norm=clipping)
    record = projection.random_record(study.rng("record"), n, 3 * clipping)
    rebuilt = projection.released(study, record, run, p.samples)
    noise = rebuilt - beta * record
    rho = noise.mean(axis=1)
    nu = noise - rho[:, None]
    centred = record - record.mean()
    z3 = (2 * beta * centred * nu).mean(axis=1)
    z4 = np.square(nu).mean(axis=1)
    # part, values whose mean is measured, printed and corrected mean
    parts = [
        ("variance of rho, eq. (71)", rho**2, scale**2 / math.sqrt(n), scale**2 / n),
        ("variance of nu, eq. (74)", z4, (1 + 1 / math.sqrt(n)) * scale**2, (1 - 1 / n) * scale**2),
        ("variance of Z3", z3**2, math.nan, 4 * beta**2 * scale**2 * (centred**2).sum() / n**2),
        ("mean of Z4, eq. (79)", z4, scale, scale**2 * (n - 1) / n),
    ]
    parts = [(part, *mean_and_error(values), *means) for part, values, *means in parts]

    ncc = metrics.ncc(record, rebuilt)
    square = np.square(rebuilt - rebuilt.mean(axis=1, keepdims=True)).mean(axis=1)
    wrong_numerator = ((1 - beta) * centred**2 + centred * nu).mean(axis=1)
    printed = wrong_numerator / (record.std() * square)
    right = (centred / record.std() * (beta * centred + nu)).mean(axis=1) / np.sqrt(square)
    whole = {
        "corrected eq. (75) off": np.abs(right - ncc).max(),
        "printed eq. (75) off": np.abs(printed - ncc).mean(),
        "p-value, exact law": fits(ncc, lambda x: 1 - bounds.ncc_tail(x, n, sigma, record)),
        "p-value of Z4, N - 1": fits(z4 * n / scale**2, stats.chi2(n - 1).cdf),
        "p-value of Z4, N": fits(z4 * n / scale**2, stats.chi2(n).cdf),
        "least x - mean": centred.min(),
    }
    columns = ["part", "measured", "standard error", "printed", "corrected"]
    return Tables(
        {"parts": pd.DataFrame(parts, columns=columns), "ncc": pd.DataFrame([whole])},
        ran=f"{p.samples} DP-SGD steps at N = {n}, C = {clipping:g}, sigma = {sigma:g}, "
        "||X|| = 3 C.",
    )


def judge(tables: Tables) -> Iterator[Verdict]:
    parts, ncc = tables["parts"], tables["ncc"].iloc[0]
    off, off_printed = (
        (parts["measured"] - parts[column]).abs() / parts["standard error"]
        for column in ("corrected", "printed")
    )
    measured = [rounded(*row) for row in parts[["measured", "standard error"]].to_numpy()]
    printed, corrected = ([f"{v:.3f}" for v in parts[k]] for k in ("printed", "corrected"))
    yield refute(
        "ziller2024/propA1",
        "the printed parts give the distribution of the NCC",
        holds=(off_printed[:2] < STANDARD_ERRORS).all() and ncc["printed eq. (75) off"] < 1e-9,
        corrected="With the parts corrected eq. (75) is the NCC, and no numerical work is needed: "
        "r sqrt(N-2) / sqrt(1 - r^2) is non-central t with N - 2 degrees of freedom and "
        "non-centrality beta ||X - mean|| / (C sigma).",
        corrected_holds=ncc["p-value, exact law"] > SIGNIFICANCE
        and ncc["corrected eq. (75) off"] < 1e-9,
        ours=f"Kolmogorov-Smirnov p-value of the exact law {ncc['p-value, exact law']:.2g}",
        paper=f"eq. (75) as printed is off by {ncc['printed eq. (75) off']:.2f} on average",
    )
    yield check(
        "B-042",
        off[0] < STANDARD_ERRORS < off_printed[0],
        "the mean of N noise terms has variance C^2 sigma^2 / N, not / sqrt(N)",
        ours=measured[0],
        paper=f"{printed[0]} printed, {corrected[0]} corrected",
    )
    yield refute(
        "E-B-05",
        holds=(off_printed[:2] < STANDARD_ERRORS).any(),
        corrected_holds=(off[:2] < STANDARD_ERRORS).all(),
        ours=f"{measured[0]} and {measured[1]}",
        paper=f"{printed[0]} and {printed[1]}",
    )
    yield refute(
        "E-B-09",
        holds=ncc["printed eq. (75) off"] < 1e-9
        or ncc["p-value of Z4, N"] > SIGNIFICANCE
        or off_printed[3] < STANDARD_ERRORS
        or ncc["least x - mean"] >= 0,  # the printed Z3 takes roots of these
        corrected_holds=ncc["corrected eq. (75) off"] < 1e-9
        and ncc["p-value of Z4, N - 1"] > SIGNIFICANCE
        and (off[2:] < STANDARD_ERRORS).all(),
        ours=f"mean of Z4 {measured[3]}; p-value {ncc['p-value of Z4, N - 1']:.2g} with N - 1 "
        "degrees of freedom",
        paper=f"mean of Z4 {printed[3]}",
    )

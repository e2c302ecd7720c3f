"""Proposition 4: the PSNR's tail with a known range."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd

from companion.papers.mean_to_extreme.synthetic_records import (
    reconstruction_errors,
    records_and_norms,
)
from companion.papers.mean_to_extreme.theorem_parameters import SIGMA, STATED
from companion.study import Context, Parameter, Tables, Verdict, check, measurement
from reconrisk import bounds

PARAMETERS = {
    "records": Parameter("int", 200, 1000, STATED, "records of the synthetic data set", 10),
    "repeats": Parameter("int", 200, 1000, STATED, "steps per record", 10),
    "dimension": Parameter("int", 4, 4, STATED, "N", 3),
    "noise_multiplier": SIGMA,
}
SETTLES = ("A-022",)


@measurement
def measure(study: Context) -> Tables:
    p = study.parameters
    sigma, dimension = p.noise_multiplier, p.dimension
    records, norms = records_and_norms(study)
    least = float(norms.min())
    errors = reconstruction_errors(study, records, 0.5 * least)
    own_range = np.ptp(records, axis=1)
    with np.errstate(divide="ignore"):
        psnr = 20 * np.log10(own_range)[:, None] - 10 * np.log10(errors)
    thresholds = np.array([5.0, 10.0, 15.0, 20.0])
    table = {
        "eta (dB)": thresholds,
        "bound": bounds.psnr_tail(thresholds, dimension, sigma, least, float(np.ptp(records))),
        "largest exact": [
            bounds.psnr_tail(t, dimension, sigma, norms, own_range).max() for t in thresholds
        ],
        "largest measured": [(psnr >= t).mean(axis=1).max() for t in thresholds],
    }
    return Tables(
        {"bound": pd.DataFrame(table)},
        ran=f"{p.records} synthetic records, {p.repeats} DP-SGD steps each.",
    )


def judge(tables: Tables) -> Iterator[Verdict]:
    p, table = tables.parameters, tables["bound"]
    bound, exact = table["bound"], table["largest exact"]
    slack = 5 * np.sqrt(bound * (1 - bound) / p.repeats)
    for target in ("mean_to_extreme/prop4", "A-022"):
        yield check(
            target,
            (table["largest measured"] <= bound + slack).all()
            and (exact <= bound * (1 + 1e-12)).all(),
            "P(PSNR >= eta) of X_hat is at most the regularised gamma value, for every record",
            ours=f"{p.records} records, {len(table)} thresholds; largest exact over bound "
            f"{(exact / bound).max():.3f}",
            paper="at most 1",
            tolerance="5 standard errors",
        )

"""Proposition 4: the PSNR's tail with a known range."""

from collections.abc import Iterator

import numpy as np
import pandas as pd

from companion.papers.mean_to_extreme.synthetic_records import (
    RECORDS,
    below_bound,
    reconstruction_errors,
    records_and_norms,
)
from companion.papers.mean_to_extreme.theorem_parameters import SIGMA
from companion.study import Context, Tables, Verdict, check, measurement, shared_by
from reconrisk import bounds

PARAMETERS = {**RECORDS, "noise_multiplier": SIGMA}
SETTLES = ("A-022",)


@measurement
def measure(study: Context) -> Tables:
    p = study.parameters
    sigma, dimension = p.noise_multiplier, p.dimension
    records, norms = records_and_norms(study)
    least = float(norms.min())
    errors = reconstruction_errors(study, records, 0.5 * least)
    own_range = np.ptp(records, axis=1)
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
    bounded = check(
        "mean_to_extreme/prop4",
        below_bound(table, p.repeats),
        "P(PSNR >= eta) of X_hat is at most the regularised gamma value, for every record",
        ours=f"{p.records} records, {len(table)} thresholds; largest exact over bound "
        f"{(table['largest exact'] / table['bound']).max():.3f}",
        paper="at most 1",
        tolerance="5 standard errors",
    )
    yield from shared_by(bounded, "A-022")

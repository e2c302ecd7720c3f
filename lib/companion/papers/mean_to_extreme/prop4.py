"""Proposition 4: the PSNR's tail with a known range."""

from collections.abc import Iterator

import numpy as np
import pandas as pd

from companion.exhibit import *
from companion.papers.mean_to_extreme.synthetic_records import (
    RECORDS,
    TAIL_MARGIN,
    below_bound,
    measured_beside_exact,
    reconstruction_errors,
    records_and_norms,
)
from companion.papers.mean_to_extreme.theorem_parameters import SIGMA
from reconrisk import bounds

PARAMETERS = {**RECORDS, "noise_multiplier": SIGMA}
SETTLES = ("A-022",)
ALTERED = {
    "bound": {
        "largest exact": "exact tails",
        "mean measured": "measured shares",
        "bound": "bounds",
    },
}


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
    exact = bounds.psnr_tail(thresholds[:, None], dimension, sigma, norms, own_range)
    measured = np.stack([(psnr >= t).mean(axis=1) for t in thresholds])
    table = {
        "eta (dB)": thresholds,
        "bound": bounds.psnr_tail(thresholds, dimension, sigma, least, float(np.ptp(records))),
    }
    beside = measured_beside_exact(measured, exact, p.repeats)
    return Tables(
        {"bound": pd.DataFrame(table).join(beside)},
        ran=f"{p.records} synthetic records, {p.repeats} DP-SGD steps each.",
    )


def judge(tables: Tables) -> Iterator[Verdict]:
    p, table = tables.parameters, tables["bound"]
    bounded = check(
        "mean_to_extreme/prop4",
        below_bound(table),
        "P(PSNR >= eta) of X_hat is at most the regularised gamma value, for every record",
        ours=f"{p.records} records, {len(table)} thresholds; largest exact over bound "
        f"{(table['largest exact'] / table['bound']).max():.3f}",
        paper="at most 1",
        tolerance=f"{TAIL_MARGIN:g} for measured shares, errors included",
    )
    yield from shared_by(bounded, "A-022")

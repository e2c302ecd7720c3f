"""The synthetic data set on which DP-SGD steps test Propositions 3 and 4."""

import numpy as np
import pandas as pd

from companion.exhibit import *
from companion.papers.mean_to_extreme.theorem_parameters import STATED
from reconrisk import DPSGD, metrics
from reconrisk.attacks import known_scale, observe

__all__ = [
    "RECORDS",
    "TAIL_MARGIN",
    "below_bound",
    "measured_beside_exact",
    "reconstruction_errors",
    "records_and_norms",
]

#: how near measured shares must come to exact probabilities
TAIL_MARGIN = 0.02

RECORDS = {
    "records": Parameter("int", 200, 1000, STATED, "records of the synthetic data set", 10),
    "repeats": Parameter("int", 200, 1000, STATED, "steps per record", 10),
    "dimension": Parameter("int", 4, 4, STATED, "N", 3),
}


def records_and_norms(study: Context) -> tuple[np.ndarray, np.ndarray]:
    """Return records from U(0, 1)^N and their norms."""
    p = study.parameters
    records = study.rng("records").random((p.records, p.dimension))
    return records, np.linalg.norm(records, axis=1)


def reconstruction_errors(study: Context, records: np.ndarray, max_grad_norm: float) -> np.ndarray:
    """Return MSEs of ``repeats`` DP-SGD steps on every record, shape (records, repeats)."""
    p = study.parameters
    repeated = np.repeat(records, p.repeats, axis=0)
    run = DPSGD(p.noise_multiplier, max_grad_norm=max_grad_norm)
    update = observe(tensor(study, repeated), run, study.generator("errors"))
    errors = metrics.mse(repeated, as_numpy(known_scale(update)))
    return errors.reshape(len(records), p.repeats)


def measured_beside_exact(measured: np.ndarray, exact: np.ndarray, repeats: int) -> pd.DataFrame:
    """Return shares of successes over all records beside the mean of their exact tails.

    Parameters
    ----------
    measured, exact : ndarray, shape (thresholds, records)
        Share of a record's ``repeats`` steps, and its probability.
    """
    error = np.sqrt((exact * (1 - exact)).mean(axis=1) / (exact.shape[1] * repeats))
    return pd.DataFrame(
        {
            "largest exact": exact.max(axis=1),
            "mean exact": exact.mean(axis=1),
            "mean measured": measured.mean(axis=1),
            "standard error": error,
        }
    )


def below_bound(table: pd.DataFrame) -> bool | None:
    """Return whether exact tails keep to a bound and measured ones agree with them."""
    agree = within(
        table["mean measured"], table["mean exact"], table["standard error"], TAIL_MARGIN
    )
    return every(bool((table["largest exact"] <= table["bound"] * (1 + 1e-12)).all()), agree)

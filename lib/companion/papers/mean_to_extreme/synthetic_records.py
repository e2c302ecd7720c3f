"""The synthetic data set on which DP-SGD steps test Propositions 3 and 4."""

import numpy as np
import pandas as pd

from companion.experiments.tools import as_numpy, tensor
from companion.papers.mean_to_extreme.theorem_parameters import STATED
from companion.study import Context, Parameter
from reconrisk import DPSGD, metrics
from reconrisk.attacks import known_scale, observe

__all__ = ["RECORDS", "below_bound", "reconstruction_errors", "records_and_norms"]

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


def below_bound(table: pd.DataFrame, steps: int) -> bool:
    """Return whether exact tails, and those measured within 5 standard errors, keep to a bound."""
    bound = table["bound"]
    slack = 5 * np.sqrt(bound * (1 - bound) / steps)
    exact = (table["largest exact"] <= bound * (1 + 1e-12)).all()
    return bool(exact and (table["largest measured"] <= bound + slack).all())

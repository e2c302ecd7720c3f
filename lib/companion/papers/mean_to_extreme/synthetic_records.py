"""The synthetic data set on which Propositions 3 and 4 are held against DP-SGD steps."""

from __future__ import annotations

import numpy as np

from companion.experiments.tools import as_numpy, tensor
from companion.study import Context
from reconrisk import DPSGD, metrics
from reconrisk.attacks import known_scale, observe

__all__ = ["records_and_norms", "reconstruction_errors"]


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

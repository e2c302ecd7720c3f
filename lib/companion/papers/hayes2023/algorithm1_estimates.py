"""Repeated estimates of gamma by Algorithm 1, and their standard deviations."""

import math
from collections.abc import Sequence

import numpy as np
from scipy.special import ndtr, ndtri

from companion.exhibit import *
from companion.papers.hayes2023.equal_epsilon import tuned_run
from reconrisk import DPSGD, bounds

#: steps of the full-batch runs of Figures 1 to 3
STEPS = 100
KAPPA = Parameter("float", 0.1, 0.1, "1/10", "kappa, prior success", low=1e-6)


def full_batch(epsilon: float) -> DPSGD:
    """The full-batch run of Figure 2 at an epsilon."""
    return tuned_run(epsilon, steps=STEPS)


def one_step(run: DPSGD) -> DPSGD:
    """One step with the same likelihood ratio as a full-batch run.

    At q = 1 the ratio depends on the mean of the coordinates only, so its law is that of one step
    with noise sigma / sqrt(T), which needs a T-th of the random numbers.
    """
    return DPSGD(run.noise_multiplier / math.sqrt(run.steps))


def estimates(
    study: Context,
    run: DPSGD,
    kappa: float,
    samples: int,
    repeats: int,
    normalisation: str = "samples",
    key: Sequence[object] = (),
) -> np.ndarray:
    """Repeated calls of Algorithm 1."""
    rng = study.rng("algorithm 1", normalisation, samples, repeats, *key)
    return np.array(
        [
            bounds.rero_algorithm1(run, kappa, samples, rng, normalisation=normalisation)
            for _ in range(repeats)
        ]
    )


def spread(shift: float | np.ndarray, kappa: float | np.ndarray) -> dict[str, np.ndarray]:
    """Standard deviation of Algorithm 1's estimates times the root of the number of samples.

    For one step at q = 1, to first order, by normalisation. With r the ratio and r* its threshold
    the errors are means of ``(r - r*)_+`` with the factor 1/N, of ``(r - r*)_+ - gamma r`` divided
    by the sum of all ratios, and of ``min(r, r*)`` by the complement.
    """
    m = np.asarray(shift, dtype=float)
    z = -ndtri(kappa)
    threshold = np.exp(m * z - m**2 / 2)
    gamma = ndtr(m - z)
    square = np.exp(m**2) * ndtr(2 * m - z)  # E[r^2] above the threshold
    mean = gamma - threshold * kappa
    variance = square - 2 * threshold * gamma + threshold**2 * kappa - mean**2
    with_all = square - threshold * gamma - mean  # covariance with the sum of all ratios
    normalised = variance - 2 * gamma * with_all + gamma**2 * np.expm1(m**2)
    below = np.exp(m**2) * ndtr(z - 2 * m) + threshold**2 * kappa  # E[min(r, r*)^2]
    complement = below - (1 - mean) ** 2
    return {
        "samples": np.sqrt(variance),
        "ratios": np.sqrt(np.maximum(normalised, 0.0)),
        "complement": np.sqrt(np.maximum(complement, 0.0)),
    }

"""Power of a likelihood ratio's threshold on simulated runs."""

import math

import numpy as np


def portions(count: int, most: int) -> list[int]:
    """Return numbers of at most ``most``, which is at least 1, that add up to a count."""
    return [min(most, count - start) for start in range(0, count, most)]


def power_at_level(present: np.ndarray, absent: np.ndarray, level: float) -> tuple[float, float]:
    """Return the power of a test and its standard error.

    Parameters
    ----------
    present, absent : ndarray, of one size
        Log-likelihood ratios of runs with the record and of runs without it, which set the
        threshold.
    level : float
        Share of the runs without the record that the test finds it in.
    """
    bar = float(np.quantile(absent, 1 - level))
    power = float(np.mean(present > bar))
    # the power's slope at the threshold is the likelihood ratio there
    variance = power * (1 - power) + math.exp(2 * bar) * (1 - level) * level
    return power, math.sqrt(variance / present.size)

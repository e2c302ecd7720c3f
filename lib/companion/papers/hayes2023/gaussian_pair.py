"""One step's dominating pair, for Lemmas 11 and 12.

``nu = N(0, sigma^2)`` is the output without the target, ``mu = (1 - q) nu + q N(1, sigma^2)`` that
with it, in units of the clipping norm.
"""

import numpy as np
from scipy.special import ndtr


def excess_of_null(a: float | np.ndarray, sigma: float, rate: float) -> np.ndarray:
    """``integral (nu - a mu)_+``: over the outputs whose ratio mu / nu is below 1/a."""
    with np.errstate(divide="ignore", invalid="ignore"):
        odds = (1 / np.asarray(a, dtype=float) - 1 + rate) / rate
        end = np.where(odds > 0, 0.5 + sigma**2 * np.log(odds), -np.inf)
    own = ndtr(end / sigma)
    return own - a * ((1 - rate) * own + rate * ndtr((end - 1) / sigma))


def excess_of_mixture(a: float | np.ndarray, sigma: float, rate: float) -> np.ndarray:
    """``integral (mu - a nu)_+`` for a >= 1."""
    start = 0.5 + sigma**2 * np.log((np.asarray(a, dtype=float) - 1 + rate) / rate)
    null = ndtr(-start / sigma)
    return (1 - rate - a) * null + rate * ndtr((1 - start) / sigma)

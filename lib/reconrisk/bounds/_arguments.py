"""Checks of arguments that the bounds share.

Throughout, one reconstruction of a record ``X`` with norm ``data_norm`` is ``N(X, s**2 I)`` with
``s = noise_multiplier * data_norm`` (``mean_to_extreme``, section 4.1, eq. 20), and the average of
``repeats`` of them has ``s**2/repeats`` (Proposition 7; ``ziller2024``, Proposition 4).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from reconrisk import arguments

__all__ = ["dimension", "effective_noise", "log_probability", "positive", "probability", "repeats"]

MAX_DIMENSION = 1e12


def dimension(value: ArrayLike, low: int = 1) -> np.ndarray:
    """Return a whole dimension in ``[low, 1e12]``."""
    return arguments.integer("dimension", value, low, MAX_DIMENSION)


def positive(name: str, value: ArrayLike) -> np.ndarray:
    """Return an argument in [1e-140, 1e140], whose square neither overflows nor underflows."""
    return arguments.real(name, value, 1e-140, 1e140)


def repeats(value: ArrayLike, name: str = "repeats") -> np.ndarray:
    """Return a whole number of averaged observations in [1, 1e15]."""
    return arguments.integer(name, value, 1, 1e15)


def effective_noise(noise_multiplier: ArrayLike, count: ArrayLike) -> np.ndarray:
    """Return ``noise_multiplier/sqrt(count)``: the noise of an average of observations."""
    return positive("noise_multiplier", noise_multiplier) / np.sqrt(repeats(count))


def probability(log_p: ArrayLike, log: bool) -> np.ndarray:
    """Return ``log_p`` if ``log``, else its exponential."""
    return np.asarray(log_p)[()] if log else np.exp(log_p)[()]


def log_probability(name: str, value: ArrayLike | None, log_value: ArrayLike | None) -> np.ndarray:
    """Return the log of a probability of which either ``name`` or ``log_name`` is given."""
    log_name = f"log_{name}"
    if (value is None) == (log_value is None):
        given = "neither" if value is None else "both"
        raise ValueError(f"give exactly one of {name} and {log_name}; got {given}")
    if log_value is not None:
        return arguments.real(log_name, log_value, -np.inf, 0)
    assert value is not None
    with np.errstate(divide="ignore"):
        return np.log(arguments.real(name, value, 0, 1))

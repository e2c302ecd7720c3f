"""Minimax estimation of a direction under von Mises-Fisher and under Gaussian noise.

Let ``x`` be a unit vector in N dimensions. With Gaussian noise the output is ``y = x + s Z``; given
the norm of ``y``, its direction has a density proportional to ``exp(<x, y>/s**2)``: von
Mises-Fisher with concentration ``|y|/s**2``. With von Mises-Fisher noise of concentration kappa in
``p >= N`` dimensions, the projection ``z`` of the output onto the N dimensions that contain ``x``
has, given its norm, a von Mises-Fisher direction with concentration ``kappa |z|``. Both outputs are
therefore mixtures of the same distributions, with observed concentrations.

By the Hunt-Stein theorem (the rotations are a compact group) the minimax estimate in squared error
is the posterior mean under a uniform prior on the sphere: ``A_N(c) y/|y|`` at the observed
concentration ``c``. Its error is ``1 - E A_N(c)**2``.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from reconrisk import arguments, special

__all__ = [
    "direction_cosine_gaussian",
    "direction_cosine_vmf",
    "direction_error_gaussian",
    "direction_error_vmf",
    "gaussian_expectation",
    "squared_cosine_gaussian",
]

_NODES = 400
#: range of integration in standard deviations
_FAR = 12.0


def direction_cosine_vmf(
    dimension: ArrayLike, concentration: ArrayLike, ambient: ArrayLike | None = None
) -> np.ndarray:
    """Mean cosine between a direction and its von Mises-Fisher output.

    Parameters
    ----------
    dimension : array_like
        N in [2, 1e9]: dimension of the subspace known to contain the direction.
    concentration : array_like
        In [0, 1e8].
    ambient : array_like, optional
        p in [N, 1e9]: dimension in which the noise is added; N by default. The output is first
        projected onto the subspace: for a layer with p/N equal rows, its row mean.

    Returns
    -------
    ndarray or float
        ``E A_N(kappa |z|)`` in [0, 1]; for p = N ``A_p(kappa)``.

    Examples
    --------
    >>> from reconrisk import bounds
    >>> round(float(bounds.direction_cosine_vmf(784, 100.0)), 4)
    0.1255
    """
    return _each(_vmf_mean, 1, *_vmf_arguments(dimension, concentration, ambient))


def direction_error_vmf(
    dimension: ArrayLike, concentration: ArrayLike, ambient: ArrayLike | None = None
) -> np.ndarray:
    """Minimax expected squared error of an estimate of a unit direction.

    Parameters
    ----------
    dimension, concentration, ambient
        As in :func:`direction_cosine_vmf`.

    Returns
    -------
    ndarray or float
        ``1 - E A_N(kappa |z|)**2`` in [0, 1]; one if the output has no information.

    Examples
    --------
    >>> from reconrisk import bounds
    >>> round(float(bounds.direction_error_vmf(784, 100.0)), 4)
    0.9842
    """
    return 1.0 - _each(_vmf_mean, 2, *_vmf_arguments(dimension, concentration, ambient))


def direction_cosine_gaussian(dimension: ArrayLike, noise_std: ArrayLike) -> np.ndarray:
    """Mean cosine between a unit vector and its observation under Gaussian noise.

    Parameters
    ----------
    dimension : array_like
        N in [2, 1e9].
    noise_std : array_like
        s in [1e-4, 1e6]: standard deviation of each coordinate's noise over the vector's norm.

    Returns
    -------
    ndarray or float
        ``E A_N(|y|/s**2)`` in [0, 1].

    Examples
    --------
    >>> from reconrisk import bounds
    >>> round(float(bounds.direction_cosine_gaussian(784, 0.1)), 4)
    0.3363
    """
    return _each(_gaussian_mean, 1, *_gaussian_arguments(dimension, noise_std))


def direction_error_gaussian(dimension: ArrayLike, noise_std: ArrayLike) -> np.ndarray:
    """Minimax expected squared error of a unit direction under Gaussian noise on the vector.

    The norm of the vector is known; compare :func:`direction_error_vmf`.

    Parameters
    ----------
    dimension, noise_std
        As in :func:`direction_cosine_gaussian`.

    Returns
    -------
    ndarray or float
        ``1 - E A_N(|y|/s**2)**2`` in [0, 1].

    Examples
    --------
    >>> from reconrisk import bounds
    >>> round(float(bounds.direction_error_gaussian(784, 0.1)), 4)
    0.8869
    """
    return 1.0 - squared_cosine_gaussian(dimension, noise_std)


def squared_cosine_gaussian(dimension: ArrayLike, noise_std: ArrayLike) -> np.ndarray:
    """Return ``E A_N(|y|/s**2)**2``, as :func:`direction_cosine_gaussian` the mean of ``A_N``."""
    return _each(_gaussian_mean, 2, *_gaussian_arguments(dimension, noise_std))


def _vmf_arguments(
    dimension: ArrayLike, concentration: ArrayLike, ambient: ArrayLike | None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    n = arguments.integer("dimension", dimension, 2, 1e9)
    kappa = arguments.real("concentration", concentration, 0, 1e8)
    p = n if ambient is None else arguments.integer("ambient", ambient, 2, 1e9)
    n, kappa, p = np.broadcast_arrays(n, kappa, p)
    if np.any(p < n):
        raise ValueError(f"ambient must be in [dimension, 1e9]; got {arguments.shown(ambient)}")
    return n, kappa, p


def _gaussian_arguments(
    dimension: ArrayLike, noise_std: ArrayLike
) -> tuple[np.ndarray, np.ndarray]:
    n = arguments.integer("dimension", dimension, 2, 1e9)
    s = arguments.real("noise_std", noise_std, 1e-4, 1e6)
    n, s = np.broadcast_arrays(n, s)
    return n, s


def _each(function: Callable[..., float], power: int, *arrays: np.ndarray) -> np.ndarray:
    rows = zip(*(values.ravel() for values in arrays), strict=True)
    out = [function(power, *(float(value) for value in row)) for row in rows]
    return np.array(out).reshape(arrays[0].shape)[()]


def _vmf_mean(power: int, n: float, kappa: float, p: float) -> float:
    """Return ``E A_N(kappa |z|)**power``, integrating over the logit of ``|z|**2``."""
    if kappa == 0.0:
        return 0.0
    if p == n:
        return float(special.bessel_ratio(0.5 * n - 1.0, kappa)) ** power
    half = 0.5 * (p - n)

    def log_density(log_odds: np.ndarray) -> np.ndarray:
        # |z|**2 = 1/(1 + exp(-log_odds)): smooth on the whole line
        log_inside, log_outside = -np.logaddexp(0.0, -log_odds), -np.logaddexp(0.0, log_odds)
        rise = special.log_iv_reduced(0.5 * n - 1.0, kappa * np.exp(0.5 * log_inside))
        return 0.5 * n * log_inside + half * log_outside + rise

    def ratio(log_odds: np.ndarray) -> np.ndarray:
        radius = np.exp(-0.5 * np.logaddexp(0.0, -log_odds))
        return special.bessel_ratio(0.5 * n - 1.0, kappa * radius) ** power

    return _mean(log_density, ratio, -80.0, 80.0)


def _gaussian_mean(power: int, n: float, s: float) -> float:
    """Return ``E A_N(|y|/s**2)**power``."""
    return gaussian_expectation(n, s, lambda c: special.bessel_ratio(0.5 * n - 1.0, c) ** power)


def gaussian_expectation(n: float, s: float, function: Callable[[np.ndarray], np.ndarray]) -> float:
    """Return ``E f(|y|/s**2)`` for ``y = x + s Z``, ``|x| = 1``, integrating over ``log |y|**2``.

    N in [2, 1e9] and s in [1e-4, 1e6]; ``f`` smooth, and of at most exponential growth.
    """

    def log_density(w: np.ndarray) -> np.ndarray:
        rise = special.log_iv_reduced(0.5 * n - 1.0, np.exp(0.5 * w) / s**2)
        return 0.5 * n * w - 0.5 * np.exp(w) / s**2 + rise

    middle = np.log1p(n * s * s)
    return _mean(
        log_density, lambda w: function(np.exp(0.5 * w) / s**2), middle - 60.0, middle + 10.0
    )


def _mean(
    log_density: Callable[[np.ndarray], np.ndarray],
    ratio: Callable[[np.ndarray], np.ndarray],
    low: float,
    high: float,
) -> float:
    """Return the mean of ``ratio`` under a unimodal density, by the trapezoidal rule.

    The window narrows until the density exceeds exp(-_FAR**2/2) of its peak on most of it; there
    the rule is accurate to rounding.
    """
    for _ in range(60):
        nodes = np.linspace(low, high, _NODES)
        depth = log_density(nodes)
        depth = depth - np.max(depth)
        kept = np.flatnonzero(depth > -0.5 * _FAR**2)
        first, last = max(kept[0] - 1, 0), min(kept[-1] + 1, _NODES - 1)
        if last - first > 0.7 * _NODES:
            break
        low, high = float(nodes[first]), float(nodes[last])
    weight = np.exp(depth)
    return float(weight @ ratio(nodes) / weight.sum())

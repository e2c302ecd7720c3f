"""Bayes capacity: the largest factor by which an output increases the success of a guess.

The capacity of a channel is the sum over the outputs of their largest probability under any input
(Biswas et al. 2024, eq. 13); for densities, the integral of the pointwise supremum (Definition 7,
eq. 14). It is at least one, and bounds the ratio of posterior to prior success for every prior and
every gain function. Values overflow by thousands of nats, so logarithms are returned.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy import special as sc

from reconrisk import arguments, special
from reconrisk.bounds import _arguments as args

__all__ = ["bayes_capacity_discrete", "bayes_capacity_gaussian", "bayes_capacity_vmf"]

_TERMS = 1 << 14
#: terms this many nats below the sum are negligible, even p = 1e8 of them
_NEGLIGIBLE = 60.0
MAX_DIMENSION = 1e8


@np.errstate(under="ignore")
def bayes_capacity_gaussian(
    dimension: ArrayLike, noise_std: ArrayLike, radius: ArrayLike
) -> np.ndarray:
    r"""Log of the Bayes capacity of Gaussian noise on inputs from a ball.

    The supremum of the densities is their peak inside the ball, and outside it the density with its
    mean at the nearest point of the ball. Its integral is, with
    ``rho = radius/(noise_std sqrt 2)``::

        C = rho**p / Gamma(p/2 + 1)
            + sum_{j=0}^{p-1} binom(p-1, j) rho**j Gamma((p-j)/2) / Gamma(p/2)

    (Biswas et al. 2024, Theorem 5, ``j = p - 1 - k``). There the average over a batch of B divides
    sum and noise by B, and each of l layers is clipped to norm one: ``noise_std = sigma/B`` and
    ``radius = sqrt(l)``. The clipped gradients lie in a smaller set, the product of l unit balls;
    its log capacity is the sum over the layers, each with its number of weights and ``radius = 1``.

    Parameters
    ----------
    dimension : array_like
        p, whole, in [1, 1e8].
    noise_std : array_like
        Standard deviation of every coordinate, > 0.
    radius : array_like
        Radius of the ball of inputs, >= 0, in the same unit.

    Returns
    -------
    ndarray or float
        ``log C`` in nats, >= 0, increasing in ``radius/noise_std`` and in the dimension. Its error
        is below ``1e-15 p log p`` and below 1e-9 of its size.

    Raises
    ------
    ValueError
        If an argument is nan or out of its range.

    Notes
    -----
    Cost: about ``20 sqrt(p)`` exponentials for each value, for the terms near the largest.

    Examples
    --------
    >>> from reconrisk import bounds
    >>> round(float(bounds.bayes_capacity_gaussian(13_700, 1.0, 1.0)), 1)
    116.8
    """
    p = arguments.integer("dimension", dimension, 1, MAX_DIMENSION)
    scale = args.positive("noise_std", noise_std)
    r = arguments.real("radius", radius, 0, 1e140)
    p, scale, r = np.broadcast_arrays(p, scale, r)
    with np.errstate(divide="ignore"):
        log_rho = np.log(r) - np.log(scale) - 0.5 * np.log(2.0)
    out = np.empty(p.shape)
    for index in np.ndindex(p.shape):
        out[index] = _log_capacity(float(p[index]), float(log_rho[index]))
    return out[()]


def _log_capacity(p: float, log_rho: float) -> float:
    if log_rho == -np.inf:
        return 0.0
    # all terms but j = 0, which is one
    total = p * log_rho - float(sc.gammaln(0.5 * p + 1.0))
    peak = _largest_term(p, log_rho)
    for direction in (1, -1):
        start = peak if direction > 0 else peak - 1
        while 1 <= start < p:
            end = min(max(start + direction * _TERMS, 0), int(p))
            terms = _log_terms(np.arange(start, end, direction, dtype=float), p, log_rho)
            top = float(np.max(terms))
            total = float(np.logaddexp(total, top + np.log(np.sum(np.exp(terms - top)))))
            # the terms decrease from here on: the rest is less than p times the last
            if terms[-1] < total - _NEGLIGIBLE:
                break
            start = end
    return float(np.logaddexp(0.0, total))


def _log_terms(j: np.ndarray, p: float, log_rho: float) -> np.ndarray:
    terms = _log_binomial(p - 1.0, j) + j * log_rho
    return terms + sc.gammaln(0.5 * (p - j)) - sc.gammaln(0.5 * p)


def _largest_term(p: float, log_rho: float) -> int:
    """Return the j in [1, p - 1] of the largest term.

    The ratio of consecutive terms decreases with j, so that bisection finds it.
    """
    low, high = 1, max(int(p) - 1, 1)
    while low < high:
        middle = (low + high) // 2
        pair = _log_terms(np.array([middle, middle + 1.0]), p, log_rho)
        low, high = (middle + 1, high) if pair[1] > pair[0] else (low, middle)
    return low


def _log_binomial(n: float, k: np.ndarray) -> np.ndarray:
    return sc.gammaln(n + 1.0) - sc.gammaln(k + 1.0) - sc.gammaln(n - k + 1.0)


def bayes_capacity_vmf(dimension: ArrayLike, concentration: ArrayLike) -> np.ndarray:
    """Log of the Bayes capacity of von Mises-Fisher noise on the sphere of directions.

    Every output is the mean direction of some input, so that the capacity is the peak of the
    density times the area of the sphere: ``log C = kappa - L(kappa)`` (Biswas et al. 2024, Theorem
    6), ``L`` being :func:`reconrisk.special.log_iv_reduced` at order ``p/2 - 1``. For independent
    blocks the log capacities add.

    Parameters
    ----------
    dimension : array_like
        p, whole, in [2, 1e12].
    concentration : array_like
        kappa in [0, 1e12].

    Returns
    -------
    ndarray or float
        ``log C`` in nats, >= 0, zero at ``concentration = 0``; increasing in the concentration and
        in the dimension. Its error is below ``1e-15 (kappa + 1)``.

    Raises
    ------
    ValueError
        If an argument is nan or out of its range.

    Examples
    --------
    >>> from reconrisk import bounds
    >>> round(float(bounds.bayes_capacity_vmf(13_700, 75.0)), 1)
    74.8
    """
    p = args.dimension(dimension, 2)
    kappa = arguments.real("concentration", concentration, 0, 1e12)
    return (kappa - special.log_iv_reduced(0.5 * p - 1.0, kappa))[()]


def bayes_capacity_discrete(channel: ArrayLike) -> np.ndarray:
    """Log of the Bayes capacity of a channel matrix: of the sum of its columns' maxima.

    Parameters
    ----------
    channel : array_like, shape (..., inputs, outputs)
        Rows are the conditional probabilities of the outputs and sum to one within 1e-9.

    Returns
    -------
    ndarray or float, shape (...)
        In [0, log min(inputs, outputs)]; zero if and only if the output is independent of the input
        (Biswas et al. 2024, Lemma 2).

    Raises
    ------
    ValueError
        If an entry is negative or nan, or a row does not sum to one.

    Examples
    --------
    >>> from reconrisk import bounds
    >>> round(float(bounds.bayes_capacity_discrete([[0.9, 0.1], [0.2, 0.8]])), 4)
    0.5306
    """
    c = arguments.real("channel", channel, 0, 1 + 1e-9)
    if c.ndim < 2 or 0 in c.shape:
        raise ValueError(f"channel must have shape (..., inputs, outputs); got {c.shape}")
    sums = np.sum(c, axis=-1)
    arguments.real("sum of a row of channel", sums, 1 - 1e-9, 1 + 1e-9)
    most = np.log(min(c.shape[-2:]))
    return np.clip(np.log(np.sum(np.max(c, axis=-2), axis=-1)), 0.0, most)[()]

"""Remainders of the gamma and exponential functions, computed without cancellation."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy import special as sc

from reconrisk import arguments

__all__ = [
    "divergence",
    "exp_remainder",
    "log_binomial_pmf",
    "log_poisson_peak",
    "log_stirling_remainder",
]

# B_2k / (2k (2k-1)), k = 1..9: the series of log Gamma*, accurate to 1 ulp from z = 8 on
_STIRLING = (
    1 / 12,
    -1 / 360,
    1 / 1260,
    -1 / 1680,
    1 / 1188,
    -691 / 360360,
    1 / 156,
    -3617 / 122400,
    43867 / 244188,
)
_HALF_LOG_2PI = 0.91893853320467274178
_ODD_RECIPROCALS = tuple(2.0 / (2 * j + 3) for j in range(12))
_EXP_TAIL = tuple(float(1.0 / sc.factorial(j, exact=True)) for j in range(2, 16))


def log_stirling_remainder(z: np.ndarray) -> np.ndarray:
    """Return ``log Gamma(z) - [(z - 1/2) log z - z + log(2 pi)/2]`` for ``z > 0``.

    By DLMF 5.11.1 from z = 8 on, directly below, where there is little cancellation.
    """
    z = np.asarray(z, dtype=float)
    large = np.maximum(z, 8.0)
    w = 1.0 / (large * large)
    series = np.full_like(w, _STIRLING[-1])
    for c in _STIRLING[-2::-1]:
        series = series * w + c
    series = series / large
    if np.all(z >= 8.0):
        return series
    small = np.minimum(z, 8.0)
    direct = sc.gammaln(small) - ((small - 0.5) * np.log(small) - small + _HALF_LOG_2PI)
    return np.where(z >= 8.0, series, direct)


def divergence(mu: np.ndarray) -> np.ndarray:
    """Return ``mu - log(1 + mu)`` for ``mu > -1``, with full relative accuracy near 0.

    With ``r = mu/(2 + mu)``, ``log(1 + mu) = 2 artanh r`` and ``mu - 2 r = mu r``, so that the
    leading terms need not be subtracted.
    """
    near = np.abs(mu) < 0.4
    m = np.where(near, mu, 0.0)
    r = m / (2.0 + m)
    w = r * r
    series = np.full_like(w, _ODD_RECIPROCALS[-1])
    for c in _ODD_RECIPROCALS[-2::-1]:
        series = series * w + c
    close = r * (m - w * series)
    if np.all(near):
        return close
    far = np.where(near, 1.0, mu)
    return np.where(near, close, far - np.log1p(far))


def exp_remainder(x: np.ndarray) -> np.ndarray:
    """Return ``exp(x) - 1 - x`` with full relative accuracy near 0."""
    near = np.abs(x) < 0.5
    m = np.where(near, x, 0.0)
    # the series of x**j/(j+2)!: eight terms suffice below 0.05, fourteen below 0.5
    tail = _EXP_TAIL if np.max(np.abs(m), initial=0.0) > 0.05 else _EXP_TAIL[:8]
    series = np.full_like(m, tail[-1])
    for c in tail[-2::-1]:
        series *= m
        series += c
    close = m * m * series
    if np.all(near):
        return close
    return np.where(near, close, np.expm1(x) - x)


def log_poisson_peak(a: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Return ``log(x**a exp(-x) / Gamma(a + 1))``, for ``a > 0`` and ``x >= 0``.

    The factor common to the tails of the gamma distribution. With ``x = a (1 + mu)`` it is
    ``-a (mu - log(1 + mu)) - log(2 pi a)/2 - log Gamma*(a)``, whose terms do not cancel, so that it
    is accurate at a = 1e9.
    """
    with np.errstate(divide="ignore"):
        mu = (x - a) / a
        bulk = -a * divergence(mu)
        # for x << a, mu rounds to -1; there the direct form is accurate
        tiny = x < 1e-3 * a
        if np.any(tiny):
            bulk = np.where(tiny, a * (np.log(x) - np.log(a)) - (x - a), bulk)
    return bulk - (_HALF_LOG_2PI + 0.5 * np.log(a)) - log_stirling_remainder(a)


def log_binomial_pmf(k: ArrayLike, trials: ArrayLike, probability: ArrayLike) -> np.ndarray:
    """``log P(K = k)`` for ``K ~ Binomial(trials, probability)``.

    Parameters
    ----------
    k : array_like
        Whole numbers in [0, trials].
    trials : array_like
        Whole numbers in [1, 1e15].
    probability : array_like
        In [0, 1].

    Returns
    -------
    ndarray or float
        In [-inf, 0].

    Raises
    ------
    ValueError
        If an argument is nan, not whole where it must be, or out of its range.

    Notes
    -----
    A ratio of three Poisson probabilities (Loader 2000), each without cancellation; differences of
    log-gamma functions would lose six digits at 1e6 trials.

    Examples
    --------
    >>> from reconrisk import special
    >>> round(float(special.log_binomial_pmf(3.0, 10.0, 0.5)), 6)
    -2.14398
    """
    k = arguments.integer("k", k, 0)
    n = arguments.integer("trials", trials, 1, 1e15)
    p = arguments.real("probability", probability, 0, 1)
    if np.any(k > n):
        raise ValueError(f"k must be in [0, trials]; got {float(np.max(k))!r}")
    k, n, p = np.broadcast_arrays(k, n, p)
    with np.errstate(divide="ignore", invalid="ignore"):
        rest = n - k
        inner = (
            log_poisson_peak(np.maximum(k, 1.0), n * p)
            + log_poisson_peak(np.maximum(rest, 1.0), n * (1.0 - p))
            - log_poisson_peak(n, n)
        )
        out = np.where(k == 0, n * np.log1p(-p), np.where(rest == 0, n * np.log(p), inner))
    return np.minimum(out, 0.0)[()]

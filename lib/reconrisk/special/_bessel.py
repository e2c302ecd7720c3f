"""Logarithms of modified Bessel functions of the first kind, and ratios of consecutive orders.

Two expansions cover the quadrant of orders and arguments. Where ``r = sqrt(order**2 + x**2)`` is
small, the power series, whose terms are all positive; elsewhere the uniform expansion of Debye
(DLMF 10.41.3), whose k-th term falls like ``r**-k`` for *every* ratio of order to argument: for
large orders, for large arguments and at order zero.
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike
from scipy import special as sc

from reconrisk import arguments
from reconrisk.special._blocks import over_blocks
from reconrisk.special._stirling import log_stirling_remainder

__all__ = ["bessel_ratio", "bessel_ratio_inverse", "log_iv", "log_iv_reduced"]

MAX_ORDER = 1e12
MAX_ARGUMENT = 1e15
# from this r on the uniform expansion with _TERMS terms is accurate to the last bit
_FAR = 30.0
_TERMS = 16
# Below x**2/4 = 2 (order + 1) the series has two dozen terms and gives the reduced function with
# full relative accuracy, however small it is.
_SHALLOW = 2.0
_HALF_LOG_2PI = 0.91893853320467274178
_EPS = 2.0**-53

# The x/order at which the exponent of the uniform expansion changes sign, in three parts of at
# most 26 bits each, so that their products with half of an order's bits are exact.
_Z0 = (0.6627434194087982, -5.961663628040181e-11, -5.182935893827684e-19)


def log_iv(order: ArrayLike, x: ArrayLike) -> np.ndarray:
    """``log I_order(x)``, the modified Bessel function of the first kind.

    Parameters
    ----------
    order : array_like
        In [0, 1e12].
    x : array_like
        In [0, 1e15].

    Returns
    -------
    ndarray or float
        -inf at ``x = 0`` for positive orders. The error is below ``2e-14 max(1, |log I|)``; near
        the zero of the logarithm there is no relative accuracy.

    Raises
    ------
    ValueError
        If an argument is nan or out of its range.

    Notes
    -----
    A fraction of a second per million values. For differences of logarithms at one order use
    :func:`log_iv_reduced`, which omits their large common part.

    Examples
    --------
    >>> from reconrisk import special
    >>> round(float(special.log_iv(6850.0, 75.0)), 3)
    -28827.621
    """
    return over_blocks(_log_iv, *_arguments(order, x))


def log_iv_reduced(order: ArrayLike, x: ArrayLike) -> np.ndarray:
    """``log[Gamma(order + 1) (2/x)**order I_order(x)]``, with full relative accuracy near zero.

    The logarithm of ``0F1(; order + 1; x**2/4)``. For ``order = p/2 - 1`` it is the logarithm of
    the mean of ``exp(x u)`` over the unit sphere in ``p`` dimensions, ``u`` a coordinate: the
    normalising constant of the von Mises-Fisher density with respect to the uniform distribution.
    Zero at ``x = 0``, increasing and convex in ``x``, decreasing in the order.

    Parameters
    ----------
    order : array_like
        In [0, 1e12].
    x : array_like
        In [0, 1e15].

    Returns
    -------
    ndarray or float
        In [0, x]; relative error below 2e-15.

    Raises
    ------
    ValueError
        If an argument is nan or out of its range.

    Examples
    --------
    >>> from reconrisk import special
    >>> round(float(special.log_iv_reduced(10.0, 0.0)), 4)
    0.0
    """
    return over_blocks(_reduced, *_arguments(order, x))


def bessel_ratio(order: ArrayLike, x: ArrayLike) -> np.ndarray:
    """``I_{order + 1}(x) / I_order(x)``, the slope of :func:`log_iv_reduced`.

    For ``order = p/2 - 1`` this is ``A_p(x)``: the norm of the mean of a von Mises-Fisher vector
    with concentration ``x`` in ``p`` dimensions.

    Parameters
    ----------
    order : array_like
        In [0, 1e12].
    x : array_like
        In [0, 1e15].

    Returns
    -------
    ndarray or float
        In [0, 1], increasing in ``x``, decreasing in the order; relative error below 3e-15.

    Raises
    ------
    ValueError
        If an argument is nan or out of its range.

    Examples
    --------
    >>> from reconrisk import special
    >>> round(float(special.bessel_ratio(379.0, 20.0)), 6)
    0.026298
    """
    return over_blocks(_ratio, *_arguments(order, x))


def bessel_ratio_inverse(order: ArrayLike, ratio: ArrayLike) -> np.ndarray:
    """The ``x`` at which ``I_{order + 1}(x) / I_order(x)`` has a given value.

    For ``order = p/2 - 1``, the concentration at which the mean of a von Mises-Fisher vector in
    ``p`` dimensions has that norm.

    Parameters
    ----------
    order : array_like
        In [0, 1e9].
    ratio : array_like
        In [0, 1 - 1e-6].

    Returns
    -------
    ndarray or float
        In [0, 1e15]; relative error a few units in the last place times the condition number, about
        ``1/(1 - ratio)``.

    Raises
    ------
    ValueError
        If an argument is nan or out of its range.

    Notes
    -----
    Newton's method from Amos's lower bound (1974). The ratio is concave in ``x``, so the iterates
    increase to the root.

    Examples
    --------
    >>> from reconrisk import special
    >>> round(float(special.bessel_ratio_inverse(379.0, special.bessel_ratio(379.0, 20.0))), 6)
    20.0
    """
    nu = arguments.real("order", order, 0, 1e9)
    return over_blocks(_inverse, nu, arguments.real("ratio", ratio, 0, 1 - 1e-6))


def _arguments(order: ArrayLike, x: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    return arguments.real("order", order, 0, MAX_ORDER), arguments.real("x", x, 0, MAX_ARGUMENT)


# --- the uniform expansion --------------------------------------------------------------------


@lru_cache(maxsize=1)
def _debye() -> tuple[np.ndarray, ...]:
    """Return the polynomials ``d_k(u)``, constant term first, k = 1.._TERMS.

    ``log sum_k U_k(t)/order**k = sum_k d_k(t**2) / r**k`` with ``t = order/r``: the logarithm of
    the series of DLMF 10.41.3, without the factor ``t**k`` of its k-th term.
    """
    # U_k(t) = t**k u_k(t**2), in exact arithmetic (DLMF 10.41.9)
    u = [[Fraction(1)]]
    for k in range(_TERMS):
        new = [Fraction(0)] * (k + 2)
        for j, c in enumerate(u[k]):
            power = k + 2 * j
            new[j] += c * (Fraction(power, 2) + Fraction(1, 8 * (power + 1)))
            new[j + 1] -= c * (Fraction(power, 2) + Fraction(5, 8 * (power + 3)))
        u.append(new)
    # k d_k = k u_k - sum_j j d_j u_(k-j): the logarithm of a power series
    d: list[list[Fraction]] = [[Fraction(0)]]
    for k in range(1, _TERMS + 1):
        new = [k * c for c in u[k]]
        for j in range(1, k):
            for a, left in enumerate(d[j]):
                for b, right in enumerate(u[k - j]):
                    new[a + b] -= j * left * right
        d.append([c / k for c in new])
    return tuple(np.array([float(c) for c in row]) for row in d[1:])


@lru_cache(maxsize=1)
def _debye_slopes() -> tuple[np.ndarray, ...]:
    """Return ``k d_k(u) + 2 u d_k'(u)``, the polynomials of the expansion's derivative in x."""
    return tuple((k + 2.0 * np.arange(row.size)) * row for k, row in enumerate(_debye(), start=1))


def _terms_needed(smallest_r: float) -> int:
    """Return how many terms a block needs until the next is below the last bit."""
    if smallest_r > 1e4:
        return 4
    if smallest_r > 300.0:
        return 7
    return 10 if smallest_r > 80.0 else _TERMS


def _expansion(rows: tuple[np.ndarray, ...], u: np.ndarray, r: np.ndarray) -> np.ndarray:
    """Return ``sum_k rows[k](u) / r**k``, k from one."""
    inverse = 1.0 / r
    total = np.zeros(u.shape)
    for row in reversed(rows[: _terms_needed(float(np.min(r)))]):
        value = np.full(u.shape, row[-1])
        for c in row[-2::-1]:
            value *= u
            value += c
        total += value
        total *= inverse
    return total


def _log_iv_far(nu: np.ndarray, x: np.ndarray, r: np.ndarray) -> np.ndarray:
    u = (nu / r) ** 2
    rest = _expansion(_debye(), u, r) - _HALF_LOG_2PI - 0.5 * np.log(r)
    return _exponent(nu, x, r) + rest


def _exponent(nu: np.ndarray, x: np.ndarray, r: np.ndarray) -> np.ndarray:
    """Return ``r - nu asinh(nu/x)`` with full relative accuracy where the two nearly cancel.

    Both are computed as differences from their values at ``z = x/nu = z0``, where they are equal;
    ``x - nu z0`` is computed without rounding the product.
    """
    small = nu < 1.0
    n = np.where(small, 1.0, nu)
    delta = _minus_product(x, n) / n
    z = x / n
    z0 = _Z0[0] + _Z0[1]
    s, s0 = np.hypot(1.0, z), np.hypot(1.0, z0)
    rise = delta * (z + z0) / (s + s0)
    with np.errstate(divide="ignore"):
        ratio = (rise * z0 - delta * (1.0 + s0)) / (z * (1.0 + s0))
        large_order = n * (rise - np.log1p(ratio))
        if not np.any(small):
            return large_order
        return np.where(small, r + nu * np.log(x / (nu + r)), large_order)


def _minus_product(x: np.ndarray, nu: np.ndarray) -> np.ndarray:
    """Return ``x - nu z0`` with an error far below the last bit of ``x`` (Dekker's splitting)."""
    high = 134217729.0 * nu
    high = high - (high - nu)
    low = nu - high
    a, b, c = _Z0
    return (((x - high * a) - low * a) - high * b) - low * b - nu * c


# --- the series --------------------------------------------------------------------------------


@np.errstate(under="ignore")
def _series(nu: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Return ``0F1(; nu + 1; x**2/4) - 1`` term by term; every term is positive."""
    quarter = 0.25 * x * x
    term = quarter / (nu + 1.0)
    total = term.copy()
    for m in range(2, 200):
        term = term * (quarter / (m * (nu + m)))
        total += term
        if m % 4 == 0 and not np.any(term > _EPS * total):
            break
    return total


def _pairs(nu: np.ndarray, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    nu, x = np.broadcast_arrays(np.atleast_1d(nu), x)
    return nu, x


def _log_iv(nu: np.ndarray, x: np.ndarray) -> np.ndarray:
    nu, x = _pairs(nu, x)
    r = np.hypot(nu, x)
    near = r < _FAR
    out = np.empty(x.shape)
    if np.any(near):
        n, y = nu[near], x[near]
        out[near] = sc.xlogy(n, 0.5 * y) - sc.gammaln(n + 1.0) + np.log1p(_series(n, y))
    far = ~near
    if np.any(far):
        out[far] = _log_iv_far(nu[far], x[far], r[far])
    return out


def _is_shallow(nu: np.ndarray, x: np.ndarray, r: np.ndarray) -> np.ndarray:
    return (r < _FAR) | (0.25 * x * x <= _SHALLOW * (nu + 1.0))


def _reduced(nu: np.ndarray, x: np.ndarray) -> np.ndarray:
    nu, x = _pairs(nu, x)
    r = np.hypot(nu, x)
    series = _is_shallow(nu, x, r)
    out = np.empty(x.shape)
    if np.any(series):
        out[series] = np.log1p(_series(nu[series], x[series]))
    far = ~series
    if np.any(far):
        out[far] = _reduced_far(nu[far], x[far], r[far])
    return out


def _reduced_far(nu: np.ndarray, x: np.ndarray, r: np.ndarray) -> np.ndarray:
    rest = _expansion(_debye(), (nu / r) ** 2, r)
    # by Stirling's formula the large terms of the gamma function and of the exponent cancel ...
    n = np.maximum(nu, 8.0)
    z = x / n
    w = z * z / (1.0 + np.hypot(1.0, z))
    large = n * (w - np.log1p(0.5 * w)) - 0.5 * np.log1p(w) + log_stirling_remainder(n) + rest
    small = nu < 8.0
    if not np.any(small):
        return large
    # ... and at small orders there is no cancellation
    direct = sc.gammaln(nu + 1.0) - nu * np.log(0.5 * (nu + r)) + r
    direct += rest - _HALF_LOG_2PI - 0.5 * np.log(r)
    return np.where(small, direct, large)


def _ratio(nu: np.ndarray, x: np.ndarray) -> np.ndarray:
    nu, x = _pairs(nu, x)
    r = np.hypot(nu, x)
    series = _is_shallow(nu, x, r)
    out = np.empty(x.shape)
    if np.any(series):
        n, y = nu[series], x[series]
        above, below = 1.0 + _series(n + 1.0, y), 1.0 + _series(n, y)
        out[series] = y / (2.0 * (n + 1.0)) * (above / below)
    far = ~series
    if np.any(far):
        n, y, s = nu[far], x[far], r[far]
        # the derivative of the reduced expansion, term by term
        slope = 0.5 + _expansion(_debye_slopes(), (n / s) ** 2, s)
        out[far] = (y / s) * (s / (n + s) - slope / s)
    return out


def _inverse(nu: np.ndarray, ratio: np.ndarray) -> np.ndarray:
    nu, ratio = _pairs(nu, ratio)
    # I_(n+1)/I_n <= x / (n + 1/2 + sqrt(x**2 + (n + 1/2)**2)), solved for x
    x = (2.0 * nu + 1.0) * ratio / ((1.0 - ratio) * (1.0 + ratio))
    for _ in range(60):
        value = _ratio(nu, x)
        with np.errstate(divide="ignore", invalid="ignore"):
            slope = np.where(
                x > 0, (1.0 - value) * (1.0 + value) - (2.0 * nu + 1.0) * value / x, 1.0
            )
        # near ratio one the slope cancels; it is never below half that of the bound
        root = np.hypot(x, nu + 0.5)
        least = 0.5 * (nu + 0.5) / (root * (nu + 0.5 + root))
        step = (ratio - value) / np.maximum(slope, least)
        x = x + step
        if not np.any(np.abs(step) > 2e-15 * x / (1.0 - ratio)):
            break
    return x

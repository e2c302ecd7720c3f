"""Tail of the cosine between a Gaussian vector and its mean.

For ``Z ~ N(delta e, I_d)`` and the cosine ``c`` of the angle between ``Z`` and ``e``, the variable
``c sqrt(d-1)/sqrt(1-c**2)`` has the non-central t distribution with ``d - 1`` degrees of freedom.
At ``delta = 0`` the tail is the fraction of the sphere in a cap.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy import special as sc

from reconrisk import arguments
from reconrisk.special._blocks import log1mexp, over_blocks
from reconrisk.special._gamma import _tails
from reconrisk.special._quadrature import log_integral
from reconrisk.special._stirling import exp_remainder, log_stirling_remainder

__all__ = ["log_cap_tail", "log_cosine_tail"]

MAX_DIMENSION = 1e12
MAX_NONCENTRALITY = 1e8
# Below this |tau| the integral is over the norm of the noise orthogonal to the mean direction,
# above it over the component along that direction; each is smooth on its side. In few dimensions
# the first is many times cheaper and accurate up to a larger |tau|.
_STEEP = 1.6
_STEEP_FEW = 6.0
_FEW = 30
_HALF_LOG_2PI = 0.91893853320467274178


def log_cosine_tail(
    cosine: ArrayLike, dimension: ArrayLike, noncentrality: ArrayLike = 0.0
) -> np.ndarray:
    """``log P(cos angle(Z, e) >= cosine)`` for ``Z ~ N(noncentrality * e, I_dimension)``.

    Parameters
    ----------
    cosine : array_like
        Threshold in [-1, 1].
    dimension : array_like
        Whole number d in [1, 1e12]. In one dimension the cosine is the sign of ``Z``.
    noncentrality : array_like
        ``delta`` in [-1e8, 1e8]: norm of the mean over the noise's standard deviation.

    Returns
    -------
    ndarray or float
        In [-inf, 0]; 0 at ``cosine = -1`` and, for d >= 2, -inf at ``cosine = 1``, exactly.

    Raises
    ------
    ValueError
        If an argument is nan, out of its range, or the dimension is not whole.

    Notes
    -----
    With ``R ~ chi_{d-1}`` and ``tau = c/sqrt(1-c**2)`` the tail is ``E Phi(delta - tau R)``, and
    its complement ``E Phi(tau R - delta)``; the smaller of the two is integrated, in logarithms,
    by the trapezoidal rule in ``log R`` (for ``|tau| > 1.6`` in ``log |Z_1|``, with the chi
    distribution function in the integrand). Relative error of the probability below 1e-11 while its
    logarithm is above -1e3, of the logarithm below 1e-13 beyond; noncentralities above 1e4 add
    the rounding of ``delta`` itself. Between 1 and 2 s per million; up to 10 s in few dimensions
    and where ``|tau| > 1.6``.

    Examples
    --------
    >>> from reconrisk import special
    >>> round(float(special.log_cosine_tail(0.5, 100)), 4)
    -16.7939
    """
    c = arguments.real("cosine", cosine, -1, 1)
    d = _dimension(dimension)
    delta = _noncentrality(noncentrality)
    with np.errstate(divide="ignore"):
        tau = c / np.sqrt((1.0 - c) * (1.0 + c))
    return over_blocks(_tail, tau, d, delta)


def log_cap_tail(
    sine_squared: ArrayLike, dimension: ArrayLike, noncentrality: ArrayLike = 0.0
) -> np.ndarray:
    """:func:`log_cosine_tail` at ``cosine = sqrt(1 - sine_squared)``.

    For caps so small that their cosine rounds to one.

    Parameters
    ----------
    sine_squared : array_like
        Zero, or in [1e-280, 1].
    dimension, noncentrality : array_like
        As in :func:`log_cosine_tail`.

    Returns
    -------
    ndarray or float
        In [-inf, 0].

    Raises
    ------
    ValueError
        As :func:`log_cosine_tail`.

    Examples
    --------
    >>> from reconrisk import special
    >>> round(float(special.log_cap_tail(0.5, 100)), 4)
    -37.1929
    """
    s = arguments.real("sine_squared", sine_squared, 0, 1)
    arguments.real("sine_squared (where not zero)", np.where(s > 0.0, s, 1.0), 1e-280, 1)
    d = _dimension(dimension)
    delta = _noncentrality(noncentrality)
    with np.errstate(divide="ignore"):
        tau = np.sqrt((1.0 - s) / s)
    return over_blocks(_tail, tau, d, delta)


def _dimension(dimension: ArrayLike) -> np.ndarray:
    return arguments.integer("dimension", dimension, 1, MAX_DIMENSION)


def _noncentrality(noncentrality: ArrayLike) -> np.ndarray:
    return arguments.real("noncentrality", noncentrality, -MAX_NONCENTRALITY, MAX_NONCENTRALITY)


def _tail(tau: np.ndarray, d: np.ndarray, delta: np.ndarray) -> np.ndarray:
    """Return the log-tail on a block, from ``tau = c/sqrt(1 - c**2)``."""
    tau, d, delta = np.broadcast_arrays(np.atleast_1d(tau), d, delta)
    out = np.empty(tau.shape)
    # in one dimension and at c = 0 the sign of Z_1 decides; the ends of the interval are exact
    line = (d == 1) | (tau == 0.0)
    ends = np.isinf(tau) & ~line
    out[line] = np.where((d == 1) & np.isneginf(tau), 0.0, sc.log_ndtr(delta))[line]
    out[ends] = np.where(tau[ends] < 0, 0.0, -np.inf)
    rest = ~(line | ends)
    shallow = rest & (np.abs(tau) <= np.where(d <= _FEW, _STEEP_FEW, _STEEP))
    steep = rest & ~shallow
    if np.any(shallow):
        out[shallow] = _shallow(tau[shallow], d[shallow] - 1.0, delta[shallow])
    if np.any(steep):
        t, k, m = tau[steep], d[steep] - 1.0, delta[steep]
        # P(cos >= c) at -delta is the complement of P(cos >= -c) at delta
        out[steep] = _steep(np.abs(t), k, np.where(t > 0, m, -m), t > 0)
    return out


def _shallow(tau: np.ndarray, k: np.ndarray, delta: np.ndarray) -> np.ndarray:
    small = delta < tau * np.sqrt(k)
    flip = np.where(small, -1.0, 1.0)
    log_small = _chi_normal(flip * tau, -flip * delta, k)
    log_small = np.minimum(log_small, 0.0)
    return np.where(small, log_small, log1mexp(log_small))


def _chi_normal(alpha: np.ndarray, beta: np.ndarray, k: np.ndarray) -> np.ndarray:
    """Return ``log E Phi(alpha R + beta)``, ``R ~ chi_k``, where it is at most about one half."""
    # Stationary points of the log-integrand with the slope of log Phi replaced by its bounds 0 and
    # -(alpha r + beta). The peak lies between them, within one width of the farther.
    root_k = np.sqrt(k)
    one = 1.0 + alpha * alpha
    product = alpha * beta
    rest = np.sqrt(product * product + 4.0 * k * one)
    far = np.where(
        product <= 0,
        (rest - product) / (2.0 * one),
        2.0 * k / np.where(product > 0, rest + product, 1.0),
    )
    r0 = np.where(alpha > 0, np.maximum(root_k, far), np.minimum(root_k, far))
    v0 = np.log(r0 / root_k)
    step = 0.74 / np.sqrt(r0 * r0 * one + k + 24.0)
    slope = alpha * root_k * np.exp(v0)
    start = slope + beta
    constant = 0.5 * (np.log(k) - 1.1447298858494002) - log_stirling_remainder(0.5 * k)
    return log_integral(_chi_normal_integrand, step, v0, slope, start, 0.5 * k) + constant


def _chi_normal_integrand(
    t: np.ndarray, v0: np.ndarray, slope: np.ndarray, start: np.ndarray, half_k: np.ndarray
) -> np.ndarray:
    # (k/2)(exp(2v) - 1 - 2v) at v = v0 + t: the chi density's exponent without its large terms
    return sc.log_ndtr(start + slope * np.expm1(t)) - half_k * exp_remainder(2.0 * (v0 + t))


def _steep(tau: np.ndarray, k: np.ndarray, delta: np.ndarray, tail: np.ndarray) -> np.ndarray:
    """Return log P(Z_1 >= tau R) where ``tail`` and its complement elsewhere, for tau > 0."""
    small = delta < tau * np.sqrt(k)
    out = np.empty(tau.shape)
    for lower, mask in ((True, small), (False, ~small)):
        if np.any(mask):
            out[mask] = _along(tau[mask], k[mask], delta[mask], lower)
    out = np.minimum(out, 0.0)
    return np.where(small == tail, out, log1mexp(out))


def _along(tau: np.ndarray, k: np.ndarray, delta: np.ndarray, lower: bool) -> np.ndarray:
    """Integrate over ``z = Z_1 > 0``: ``phi(z - delta)`` times the tail of R at ``z/tau``."""
    inverse = 1.0 / (tau * tau)
    root = np.sqrt(delta * delta + 4.0)
    bulk = np.where(delta > 0, 0.5 * (delta + root), 2.0 / (root - np.minimum(delta, 0.0)))
    lead = 1.0 + inverse
    root = np.sqrt(delta * delta + 4.0 * (k + 1.0) * lead)
    deep = np.where(
        delta > 0,
        (delta + root) / (2.0 * lead),
        2.0 * (k + 1.0) / (root - np.minimum(delta, 0.0)),
    )
    z0 = np.maximum(bulk, deep) if lower else np.minimum(bulk, deep)
    step = 0.74 / np.sqrt(z0 * z0 * lead + k + 25.0)

    def integrand(t, z0, gap, half_inverse, half_k):
        ratio = np.expm1(t)
        distance = gap + z0 * ratio
        z = z0 + z0 * ratio
        shape = np.broadcast_to(half_k, z.shape).reshape(-1)
        inner = _tails(shape, (z * z * half_inverse).reshape(-1), lower).reshape(z.shape)
        return t - 0.5 * distance * distance + inner

    value = log_integral(integrand, step, z0, z0 - delta, 0.5 * inverse, 0.5 * k)
    value += np.log(z0) - _HALF_LOG_2PI
    return value if lower else np.logaddexp(value, sc.log_ndtr(-delta))

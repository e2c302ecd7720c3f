"""Conversion of Rényi divergence to (epsilon, delta); amplification and composition of a pair.

The building blocks of accountants that do not use the whole privacy-loss distribution.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from reconrisk import arguments
from reconrisk._types import DPSGD
from reconrisk.special import log_binomial_pmf

__all__ = ["amplify", "compose", "epsilon_from_renyi", "log_delta_from_renyi"]

#: relative rounding error of a sum of some thousand terms, with a margin
_ROUNDING = 1e-12


@np.errstate(under="ignore")
def renyi_gaussian(run: DPSGD, orders: ArrayLike) -> np.ndarray:
    """Rényi divergences of a run, the larger ones of both directions, rounded up.

    Mironov, Talwar and Zhang (2019), Theorem 5 and Section 3.3: present against absent, by a
    binomial sum where the order is whole; the steps add up. Orders are above one; nats, one for
    each order.
    """
    q, sigma = float(run.sampling_rate), float(run.noise_multiplier)
    orders = np.asarray(orders, dtype=float)
    if q == 1.0:
        return 0.5 * run.steps * orders / sigma**2 * (1.0 + _ROUNDING)
    values = np.empty(orders.size)
    for i, order in enumerate(orders):
        if order == np.floor(order):
            k = np.arange(order + 1.0)
            terms = log_binomial_pmf(k, float(order), q) + 0.5 * k * (k - 1.0) / sigma**2
        else:
            terms = _log_moment_terms(float(order), sigma, q)
        values[i] = (float(np.logaddexp.reduce(terms)) + _ROUNDING) / (order - 1.0)
    return run.steps * np.maximum(values, 0.0) * (1.0 + _ROUNDING)


def _log_moment_terms(order: float, sigma: float, q: float) -> np.ndarray:
    """Return the logarithms of the terms of a trapezoidal sum for ``E R**order``.

    ``R = 1 - q + q exp(x/sigma - 1/(2 sigma**2))`` has no zero where ``|Im x| < pi sigma``, and is
    nowhere larger there than at the real part. So the sum errs by ``2 exp(c**2/2)/(exp(2 pi c/h) -
    1)`` of the moment at most, for every ``c < pi sigma`` (Trefethen and Weideman 2014, Theorem
    5.1). What is beyond its ends is below ``exp(-700)``.
    """
    c = min(3.0 * sigma, 3.0)
    h = 2.0 * np.pi * c / 80.0
    x = np.arange(-40.0, 40.0 + order / sigma, h)
    ratio = np.logaddexp(np.log1p(-q), np.log(q) + x / sigma - 0.5 / sigma**2)
    return order * ratio - 0.5 * x * x + np.log(h / np.sqrt(2.0 * np.pi))


def log_delta_from_renyi(order: ArrayLike, renyi: ArrayLike, epsilon: ArrayLike) -> np.ndarray:
    """``log delta`` at ``epsilon`` from a bound on one Rényi divergence.

    ``delta = min(1, exp((a - 1)(renyi - epsilon)) / (a - 1) * (1 - 1/a)**a)`` (Canonne et al. 2020,
    Proposition 2.11; Biswas et al. 2024, Proposition 4, eq. 8).

    Parameters
    ----------
    order : array_like
        a in (1, inf).
    renyi : array_like
        Bound on the divergence of that order, nats, >= 0.
    epsilon : array_like
        Nats, >= 0.

    Returns
    -------
    ndarray or float
        In (-inf, 0].

    Raises
    ------
    ValueError
        If an argument is nan or out of its range.

    Examples
    --------
    >>> from reconrisk import privacy
    >>> round(float(privacy.log_delta_from_renyi(8.0, 4.0, 6.0)), 4)
    -17.0142
    """
    a, bound = _order_and_bound(order, renyi)
    e = arguments.real("epsilon", epsilon, 0)
    gap = a - 1.0
    return np.minimum(gap * (bound - e) + gap * np.log(gap) - a * np.log(a), 0.0)[()]


def epsilon_from_renyi(order: ArrayLike, renyi: ArrayLike, delta: ArrayLike) -> np.ndarray:
    """Smallest ``epsilon`` at ``delta`` from a bound on one Rényi divergence.

    ``max(0, renyi + log(1 - 1/a) - (log delta + log a)/(a - 1))``, the inverse of
    :func:`log_delta_from_renyi` (Biswas et al. 2024, Section III-A2).

    Parameters
    ----------
    order : array_like
        a in (1, inf).
    renyi : array_like
        Bound on the divergence of that order, nats, >= 0.
    delta : array_like
        In (0, 1].

    Returns
    -------
    ndarray or float
        Nats, >= 0.

    Raises
    ------
    ValueError
        If an argument is nan or out of its range.

    Examples
    --------
    >>> from reconrisk import privacy
    >>> round(float(privacy.epsilon_from_renyi(8.0, 4.0, 1e-5)), 4)
    5.2141
    """
    a, bound = _order_and_bound(order, renyi)
    d = arguments.real("delta", delta, 0, 1, low_open=True)
    value = bound + np.log1p(-1.0 / a) - (np.log(d) + np.log(a)) / (a - 1.0)
    return np.maximum(value, 0.0)[()]


def _order_and_bound(order: ArrayLike, renyi: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    a = arguments.real("order", order, 1, np.inf, low_open=True, high_open=True)
    return a, arguments.real("renyi", renyi, 0)


def amplify(
    epsilon: ArrayLike, delta: ArrayLike, sampling_rate: ArrayLike
) -> tuple[np.ndarray, np.ndarray]:
    """(epsilon, delta) of a mechanism on a Poisson sample: privacy amplification by sampling.

    ``log(1 + q (exp(epsilon) - 1))`` and ``q delta`` (Balle et al. 2018, Theorem 8; Biswas et al.
    2024, eq. 9).

    Parameters
    ----------
    epsilon : array_like
        Of the mechanism on all records, nats, >= 0.
    delta : array_like
        Of the mechanism on all records, in [0, 1].
    sampling_rate : array_like
        q in (0, 1].

    Returns
    -------
    epsilon, delta : ndarray or float
        Both of the arguments' broadcast shape.

    Raises
    ------
    ValueError
        If an argument is nan or out of its range.

    Examples
    --------
    >>> from reconrisk import privacy
    >>> epsilon, delta = privacy.amplify(1.0, 1e-5, sampling_rate=0.1)
    >>> round(float(epsilon), 4)
    0.1586
    """
    e = arguments.real("epsilon", epsilon, 0)
    d = arguments.real("delta", delta, 0, 1)
    q = arguments.real("sampling_rate", sampling_rate, 0, 1, low_open=True)
    e, d, q = np.broadcast_arrays(e, d, q)
    near = np.log1p(q * np.expm1(np.minimum(e, 30.0)))
    with np.errstate(divide="ignore"):
        far = np.logaddexp(np.log1p(-q), np.log(q) + e)
    return np.where(e < 30.0, near, far)[()], (q * d)[()]


def compose(
    epsilon: ArrayLike, delta: ArrayLike, steps: ArrayLike, slack: ArrayLike
) -> tuple[np.ndarray, np.ndarray]:
    """(epsilon, delta) of T runs of an (epsilon, delta)-private mechanism: advanced composition.

    Kairouz et al. 2017, Theorem 10 (Biswas et al. 2024, Theorem 2): for every ``slack`` in [0, 1],
    delta is ``1 - (1 - delta)**T (1 - slack)``, and epsilon the smaller of ``T epsilon`` and
    ``T epsilon tanh(epsilon/2) + epsilon sqrt(2 T log x)`` with
    ``x = min(1/slack, e + sqrt(T) epsilon/slack)``.

    Parameters
    ----------
    epsilon : array_like
        Of one run, nats, >= 0.
    delta : array_like
        Of one run, in [0, 1].
    steps : array_like
        T, whole, >= 1.
    slack : array_like
        Part of delta spent on the composition, in [0, 1]; at zero epsilon is ``T epsilon``.

    Returns
    -------
    epsilon, delta : ndarray or float
        Both of the arguments' broadcast shape.

    Raises
    ------
    ValueError
        If an argument is nan or out of its range.

    Examples
    --------
    >>> from reconrisk import privacy
    >>> epsilon, delta = privacy.compose(0.1, 1e-6, steps=100, slack=1e-6)
    >>> round(float(epsilon), 4)
    5.7561
    """
    e = arguments.real("epsilon", epsilon, 0, np.inf, high_open=True)
    d = arguments.real("delta", delta, 0, 1)
    count = arguments.integer("steps", steps, 1)
    s = arguments.real("slack", slack, 0, 1)
    e, d, count, s = np.broadcast_arrays(e, d, count, s)
    with np.errstate(divide="ignore", invalid="ignore"):
        drift = count * e * np.tanh(0.5 * e)
        spread = np.minimum(-np.log(s), np.log(np.e + np.sqrt(count) * e / s))
        advanced = drift + e * np.sqrt(2.0 * count * spread)
        total = np.where(s > 0.0, np.minimum(count * e, advanced), count * e)
        log_rest = count * np.log1p(-d) + np.log1p(-s)
    return total[()], (-np.expm1(log_rest))[()]

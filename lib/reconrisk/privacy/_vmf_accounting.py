"""The two accountants of Biswas et al. (2024, Section III-A) for von Mises-Fisher noise.

*Approach 1* converts the Rényi divergence to (epsilon, delta), then amplifies and composes that
pair. *Approach 2* amplifies and composes the Rényi divergence, then converts it. Both are upper
bounds for opposite directions, the worst case; :func:`reconrisk.privacy.vmf_epsilon` is exact.

``G(a) = (a - 1) D_a``, the logarithm of a moment, is convex in the order and vanishes at order one,
and so does ``H(a) = T G(a) + (a - 1) log(a - 1) - a log a``. The converted epsilon at ``delta`` is
the smallest ``(H(a) - log delta)/(a - 1)``, attained at the root of
``(a - 1) H'(a) - H(a) + log delta``, which increases in ``a``.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

import numpy as np
from scipy import optimize
from scipy import special as sc

from reconrisk import arguments, special
from reconrisk.privacy import _vmf
from reconrisk.privacy._conversions import amplify, compose, epsilon_from_renyi
from reconrisk.special._roots import monotone_root

__all__ = [
    "ConvertedEpsilon",
    "vmf_epsilon_by_conversion",
    "vmf_epsilon_by_renyi",
    "vmf_epsilon_converted",
    "vmf_renyi_sampled",
]

_MAX_ORDER = 1e9
_MAX_WHOLE_ORDER = 1024
_LEAST_GAP = 1e-9


@dataclass(frozen=True)
class ConvertedEpsilon:
    """An epsilon and the parameters that minimise it.

    Attributes
    ----------
    epsilon : float
        Nats, >= 0.
    order : float
        Order of the Rényi divergence that was converted.
    slack : float
        Part of delta spent on the composition; zero for basic composition.
    """

    epsilon: float
    order: float
    slack: float = 0.0


def vmf_epsilon_converted(concentration: float, dimension: int, delta: float) -> ConvertedEpsilon:
    """Epsilon of one von Mises-Fisher release, by Rényi divergence at the best order.

    Biswas et al. 2024, Proposition 4 with its optimal order, where
    ``epsilon = 2 kappa A_p((2 a - 1) kappa) + log(1 - 1/a)``.

    Parameters
    ----------
    concentration : float
        kappa in [0, 1e6].
    dimension : int
        p in [2, 2e12].
    delta : float
        In (0, 1].

    Returns
    -------
    ConvertedEpsilon

    Raises
    ------
    ValueError
        If an argument is out of its range.

    Examples
    --------
    >>> from reconrisk import privacy
    >>> round(privacy.vmf_epsilon_converted(20.0, 760, 1e-5).epsilon, 3)
    7.217
    """
    kappa, p = _checked_release(concentration, dimension)
    d = float(arguments.real("delta", delta, 0, 1, low_open=True))
    epsilon, order = _convert_release(kappa, p, np.array([math.log(d)]))
    return ConvertedEpsilon(float(epsilon[0]), float(order[0]))


def vmf_epsilon_by_conversion(
    concentration: float, dimension: int, delta: float, sampling_rate: float, steps: int
) -> ConvertedEpsilon:
    """Epsilon of sub-sampled releases, approach 1: convert, amplify, compose.

    Biswas et al. 2024, Section III-A1: Proposition 4, eq. (9) and Theorem 2, at the best order and
    the best split of delta between the releases and the composition.

    Parameters
    ----------
    concentration : float
        kappa in [0, 1e6].
    dimension : int
        p in [2, 2e12].
    delta : float
        In (0, 1).
    sampling_rate : float
        q in (0, 1].
    steps : int
        Number of releases T >= 1.

    Returns
    -------
    ConvertedEpsilon

    Raises
    ------
    ValueError
        If an argument is out of its range.

    Examples
    --------
    >>> from reconrisk import privacy
    >>> round(privacy.vmf_epsilon_by_conversion(20.0, 760, 1e-5, 0.1, 3).epsilon, 3)
    13.604
    """
    kappa, p = _checked_release(concentration, dimension)
    d, q, count = _checked_target(delta, sampling_rate, steps)

    def account(slack: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        each = -np.expm1((math.log1p(-d) - np.log1p(-slack)) / count) / q
        # a delta of one or more per release allows epsilon = 0
        epsilon, order = _convert_release(kappa, p, np.log(np.minimum(each, 1.0)))
        sampled, _ = amplify(epsilon, 0.0, q)
        return compose(sampled, 0.0, count, slack)[0], order

    slack = np.append(0.0, d * np.geomspace(1e-12, 1.0 - 1e-6, 81))
    for _ in range(3):
        epsilon, order = account(slack)
        best = int(np.argmin(epsilon))
        found = ConvertedEpsilon(float(epsilon[best]), float(order[best]), float(slack[best]))
        if found.slack == 0.0:
            break
        around = slack[max(best - 1, 1)], slack[min(best + 1, slack.size - 1)]
        slack = np.append(found.slack, np.geomspace(*around, 41))
    return found


def vmf_renyi_sampled(
    orders: int, concentration: float, dimension: int, sampling_rate: float, factor: float = 3.0
) -> np.ndarray:
    """Bounds on the Rényi divergence of one Poisson-sampled release at whole orders.

    Zhu and Wang 2019, Theorem 5 (Biswas et al. 2024, Theorem 3) for whole orders from two on; at
    order one, ``q`` times the Kullback-Leibler divergence.

    Parameters
    ----------
    orders : int
        The largest order, in [1, 1024].
    concentration : float
        kappa in [0, 1e6].
    dimension : int
        p in [2, 2e12].
    sampling_rate : float
        q in (0, 1].
    factor : float
        Weight of the moments from the third on, in [1, 3]. Three is valid for every mechanism. One
        is exact for the pair ``((1 - q) Q + q P, Q)`` of opposite directions (removing the record);
        the theorem has it where odd Pearson-Vajda moments are non-negative.

    Returns
    -------
    ndarray, shape (orders,)
        At orders 1, 2, ..., ``orders``; nats.

    Raises
    ------
    ValueError
        If an argument is out of its range.

    Notes
    -----
    Because binomial weights sum to one, the moment is ``1 + sum_l w_l (f_l exp(G_l) - 1)`` over
    ``l >= 2``, which is accurate for small divergences. Cost: ``orders**2`` operations.
    """
    count = arguments.count("orders", orders, 1, _MAX_WHOLE_ORDER)
    kappa, p = _checked_release(concentration, dimension)
    q = float(arguments.real("sampling_rate", sampling_rate, 0, 1, low_open=True))
    f = float(arguments.real("factor", factor, 1, 3))
    first = q * float(_vmf.vmf_kl(p, kappa))
    if count == 1 or kappa == 0.0:
        return np.append(first, np.zeros(count - 1))
    whole = np.arange(2.0, count + 1.0)
    log_excess = _log_excess(whole, kappa, p, f)
    log_sum = np.array([_mixture(a, whole, log_excess, q) for a in range(2, count + 1)])
    return np.append(first, log_sum / (whole - 1.0))


def _log_excess(whole: np.ndarray, kappa: float, p: float, factor: float) -> np.ndarray:
    """Return the log of ``f_l exp(G_l) - 1`` at whole orders from two on."""
    moment = (whole - 1.0) * _vmf.vmf_renyi(whole, p, kappa)
    more = np.where(whole == 2.0, 0.0, factor - 1.0)
    return moment + np.log(more - np.expm1(-moment))


def _mixture(a: int, whole: np.ndarray, log_excess: np.ndarray, q: float) -> float:
    """Return ``log(1 + sum_{l=2}^a binom(a, l) q**l (1 - q)**(a - l) excess_l)``."""
    if q == 1.0:
        return float(np.logaddexp(0.0, log_excess[a - 2]))
    log_odds = math.log(q) - math.log1p(-q)
    log_factorial = _log_factorials(_MAX_WHOLE_ORDER)
    terms = (log_odds * whole + log_excess)[: a - 1]
    terms += log_factorial[a] - log_factorial[2 : a + 1] - log_factorial[a - 2 :: -1]
    top = float(terms.max())
    log_sum = top + math.log(float(np.sum(np.exp(terms - top)))) + a * math.log1p(-q)
    return float(np.logaddexp(0.0, log_sum))


@functools.cache
def _log_factorials(largest: int) -> np.ndarray:
    return sc.gammaln(np.arange(largest + 1) + 1.0)


def vmf_epsilon_by_renyi(
    concentration: float,
    dimension: int,
    delta: float,
    sampling_rate: float,
    steps: int,
    *,
    factor: float = 3.0,
    interpolation: str = "moments",
) -> ConvertedEpsilon:
    """Epsilon of sub-sampled releases, approach 2: Rényi divergence throughout.

    Biswas et al. 2024, Section III-A2: Theorem 3, times T, Proposition 4 at the best order up to
    1024.

    Parameters
    ----------
    concentration, dimension, delta, sampling_rate, steps
        As in :func:`vmf_epsilon_by_conversion`.
    factor : float
        As in :func:`vmf_renyi_sampled`.
    interpolation : {"moments", "none", "divergences"}
        Between whole orders: "moments" interpolates ``(a - 1) D_a`` linearly, which is an upper
        bound because it is convex (Wang et al. 2019, Corollary 10); "none" uses whole orders only;
        "divergences" interpolates ``D_a`` linearly, which is **not** a bound (D can exceed its
        chords) and serves only to reproduce two rows of the paper's Table I.

    Returns
    -------
    ConvertedEpsilon

    Raises
    ------
    ValueError
        If an argument is out of its range.

    Examples
    --------
    >>> from reconrisk import privacy
    >>> round(privacy.vmf_epsilon_by_renyi(5.0, 760, 1e-5, 0.1, 3).epsilon, 3)
    0.463
    """
    kappa, p = _checked_release(concentration, dimension)
    d, q, count = _checked_target(delta, sampling_rate, steps)
    rule = arguments.one_of("interpolation", interpolation, ("moments", "none", "divergences"))
    if kappa == 0.0:
        return ConvertedEpsilon(0.0, 2.0)
    log_delta = math.log(d)
    orders = 32
    while True:
        divergence = count * vmf_renyi_sampled(orders, kappa, int(p), q, factor)
        whole = np.arange(1.0, orders + 1.0)
        epsilon = epsilon_from_renyi(whole[1:], divergence[1:], d)
        if orders == _MAX_WHOLE_ORDER or epsilon.min() <= _least_beyond(
            orders, kappa, p, q, d, count
        ):
            break
        orders *= 2
    best = int(np.argmin(epsilon)) + 2
    found = ConvertedEpsilon(float(epsilon[best - 2]), float(best))
    if rule == "none":
        return found
    for left in (best - 1, best):
        if left + 1 <= orders:
            pair = divergence[left - 1 : left + 1]
            between = _interpolate_epsilon(float(left), pair, log_delta, rule == "moments")
            found = min(found, between, key=lambda c: c.epsilon)
    return found


def _least_beyond(order: int, kappa: float, p: float, q: float, delta: float, steps: int) -> float:
    """Return a lower bound on epsilon at all orders above ``order``.

    With a factor above one epsilon can have several local minima. But the bound on the divergence
    is at least the exact divergence, that of factor one, which increases with the order.
    """
    whole = np.arange(2.0, order + 1.0)
    exact = _mixture(order, whole, _log_excess(whole, kappa, p, 1.0), q) / (order - 1.0)
    further = np.arange(order + 1.0, _MAX_WHOLE_ORDER + 1.0)
    return float(np.min(epsilon_from_renyi(further, steps * exact, delta)))


def _interpolate_epsilon(
    left: float, divergence: np.ndarray, log_delta: float, moments: bool
) -> ConvertedEpsilon:
    """Return the smallest epsilon at orders in ``[left, left + 1]``, by interpolation."""

    def epsilon(order: float) -> float:
        share = order - left
        if moments:
            ends = (left - 1.0) * divergence[0], left * divergence[1]
            value = ((1.0 - share) * ends[0] + share * ends[1]) / (order - 1.0)
        else:
            value = (1.0 - share) * divergence[0] + share * divergence[1]
        return float(epsilon_from_renyi(order, value, math.exp(log_delta)))

    low = max(left, 1.0 + _LEAST_GAP)
    result = optimize.minimize_scalar(
        epsilon, bounds=(low, left + 1.0), method="bounded", options={"xatol": 1e-12}
    )
    return ConvertedEpsilon(float(result.fun), float(result.x))


def _convert_release(
    kappa: float, p: float, log_delta: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return epsilon and order of one release without sub-sampling, for each ``log_delta``."""
    if kappa == 0.0:
        return np.zeros(log_delta.shape), np.full(log_delta.shape, 2.0)
    nu = 0.5 * p - 1.0

    def slope(log_gap: np.ndarray, index: np.ndarray) -> np.ndarray:
        gap = np.exp(log_gap)
        a = 1.0 + gap
        moment = gap * _vmf.vmf_renyi(a, p, kappa)
        change = 2.0 * kappa * special.bessel_ratio(nu, (2.0 * gap + 1.0) * kappa)
        # (a - 1) H' - H + log delta for T = 1, simplified
        return gap * change - moment + np.log(a) + log_delta[index]

    low = np.full(log_delta.shape, math.log(_LEAST_GAP))
    high = np.full(log_delta.shape, math.log(min(_MAX_ORDER, 4e14 / kappa)))
    index = np.arange(log_delta.size)
    below = slope(high, index) < 0.0
    above = slope(low, index) > 0.0
    root = np.where(below, high, low)
    inside = ~(below | above)
    if np.any(inside):
        found = monotone_root(
            lambda t, i: slope(t, np.flatnonzero(inside)[i]), low[inside], high[inside], 1e-13
        )
        root[inside] = found
    a = 1.0 + np.exp(root)
    epsilon = epsilon_from_renyi(a, _vmf.vmf_renyi(a, p, kappa), np.exp(log_delta))
    # no privacy loss is larger than 2 kappa
    return np.minimum(epsilon, 2.0 * kappa), a


def _checked_release(concentration: float, dimension: int) -> tuple[float, float]:
    kappa = arguments.real("concentration", concentration, 0, 1e6)
    return float(kappa), float(_vmf.check_dimension(dimension))


def _checked_target(delta: float, sampling_rate: float, steps: int) -> tuple[float, float, int]:
    d = arguments.real("delta", delta, 0, 1, low_open=True, high_open=True)
    q = arguments.real("sampling_rate", sampling_rate, 0, 1, low_open=True)
    return float(d), float(q), arguments.count("steps", steps, 1)

"""Reconstruction robustness (ReRo) of von Mises-Fisher noise, certified.

Theorem 2 of Hayes et al. (2023) does not assume Gaussian noise: the trade-off curve between the
outputs without and with the record maps the prior success probability to the success of the best
attack. Every release perturbs the direction of a unit vector, which one record may reverse. The
pair of opposite directions is the easiest to distinguish at every level, for one release, on
Poisson samples and under composition (see :mod:`reconrisk.privacy._vmf_step`), so that its curve
bounds every attack.

The reference distribution need not be that of a run without the record: any distribution that does
not depend on the record is valid. With the uniform distribution on the sphere, the bound for one
release is about that of half the concentration.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from reconrisk import arguments, special
from reconrisk._types import Enclosure, order_ends
from reconrisk.bounds import _arguments as args
from reconrisk.bounds._bayes_success_vmf import log_coordinate_tail
from reconrisk.bounds._rero import probabilities_outwards
from reconrisk.privacy import _vmf_step
from reconrisk.privacy._saddle import MOST_CELLS
from reconrisk.privacy._step import UNIT, Step
from reconrisk.privacy._tradeoff import SMALLEST, enclosed_curve

__all__ = ["rero_vmf", "rero_vmf_curve", "rero_vmf_one_release"]

#: caps whose cosine is closer to one than this are too narrow for the quadrature
_NARROW = 1e-5


@np.errstate(under="ignore")
def rero_vmf(
    concentration: float,
    dimension: int,
    prior_success: float | None = None,
    log_prior_success: float | None = None,
    *,
    sampling_rate: float = 1.0,
    steps: int = 1,
    log: bool = False,
    tolerance: float = 1e-4,
) -> Enclosure:
    """Certified success of any attack on releases with von Mises-Fisher noise.

    The blow-up function ``gamma(kappa)`` of the pair of opposite directions: the largest
    probability with the record of an event that has probability at most ``kappa`` without it. As in
    :func:`rero`, the record is added to a fixed data set. The mechanism is Algorithm 2 of Biswas et
    al. (2024). For a single release without sub-sampling :func:`rero_vmf_one_release` is tighter.

    Parameters
    ----------
    concentration : float
        In [0, 1e5]; zero gives ``kappa``.
    dimension : int
        p in [2, 1e9].
    prior_success : float, optional
        ``kappa`` in [0, 1].
    log_prior_success : float, optional
        ``log kappa`` in [-inf, 0] instead.
    sampling_rate : float
        q in (0, 1].
    steps : int
        Number of releases T >= 1.
    log : bool
        Enclose ``log gamma`` instead of ``gamma``.
    tolerance : float
        Target width, relative to ``gamma``; in [1e-12, 1].

    Returns
    -------
    Enclosure
        Contains ``gamma``; discretisation and rounding errors are bounded and included. It is wider
        than ``tolerance`` where memory or rounding errors require it, for instance where likelihood
        ratios overflow. Below ``kappa`` = 1e-200 the lower end is ``kappa`` and the upper end
        follows from the largest likelihood ratio.

    Raises
    ------
    TypeError
        If the prior success is not a single number.
    ValueError
        If not exactly one prior is given or an argument is out of its range.

    Notes
    -----
    Cost: a few compositions of a lattice with a number of cells proportional to
    ``tolerance**-0.5``; 0.05 to 1 s. For many ``kappa`` use :func:`rero_vmf_curve`.

    Examples
    --------
    >>> from reconrisk import bounds
    >>> found = bounds.rero_vmf(20.0, 760, 0.1)
    >>> f"{found.lower:.4f} {found.upper:.4f}"
    '0.5672 0.5673'
    """
    log_kappa = args.log_probability("prior_success", prior_success, log_prior_success)
    if log_kappa.ndim:
        raise TypeError(
            "prior_success must be a single number (rero_vmf_curve takes arrays); got shape "
            f"{log_kappa.shape}"
        )
    pair = _pair(concentration, dimension, sampling_rate, steps)
    low, high = _enclose(pair, log_kappa[None], _tolerance(tolerance))
    if log:
        return Enclosure(float(low[0]), float(high[0]))
    return Enclosure(*(float(v[0]) for v in probabilities_outwards(low, high)))


@np.errstate(under="ignore")
def rero_vmf_curve(
    concentration: float,
    dimension: int,
    prior_success: ArrayLike,
    *,
    sampling_rate: float = 1.0,
    steps: int = 1,
    tolerance: float = 1e-4,
) -> tuple[np.ndarray, np.ndarray]:
    """:func:`rero_vmf` at many prior success probabilities, at little more than the cost of one.

    Parameters
    ----------
    concentration, dimension, sampling_rate, steps, tolerance
        As in :func:`rero_vmf`.
    prior_success : array_like
        ``kappa`` in [0, 1].

    Returns
    -------
    lower, upper : ndarray
        Bounds on ``gamma``, of the shape of ``prior_success``.

    Raises
    ------
    ValueError
        If an argument is out of its range.

    Examples
    --------
    >>> from reconrisk import bounds
    >>> lower, upper = bounds.rero_vmf_curve(20.0, 760, [0.1, 0.5])
    >>> [round(float(v), 4) for v in upper]
    [0.5673, 0.9266]
    """
    kappa = arguments.real("prior_success", prior_success, 0, 1)
    pair = _pair(concentration, dimension, sampling_rate, steps)
    with np.errstate(divide="ignore"):
        low, high = _enclose(pair, np.log(kappa).ravel(), _tolerance(tolerance))
    lower, upper = probabilities_outwards(low, high)
    return lower.reshape(kappa.shape), upper.reshape(kappa.shape)


def rero_vmf_one_release(
    concentration: float,
    dimension: int,
    prior_success: ArrayLike | None = None,
    *,
    log_prior_success: ArrayLike | None = None,
    log: bool = False,
) -> np.ndarray:
    """Largest success of any attack on one release without sub-sampling.

    The probability that a von Mises-Fisher vector falls into the cap around its mean that covers a
    fraction ``kappa`` of the sphere: the reference distribution is uniform. At ``kappa = 1/2`` two
    opposite directions attain it (:func:`bayes_success_vmf_two`). It is about the bound for
    Gaussian noise with a noise multiplier of ``sqrt(p)/concentration``, twice that of
    :func:`rero_vmf`.

    Parameters
    ----------
    concentration : float
        In [0, 1e8].
    dimension : int
        p in [2, 1e9].
    prior_success : array_like, optional
        ``kappa`` in [0, 1].
    log_prior_success : array_like, optional
        ``log kappa`` in [-1e6, 0] or -inf instead.
    log : bool
        Return ``log gamma``.

    Returns
    -------
    ndarray or float
        ``gamma`` in [kappa, 1] (or its logarithm); relative error about 1e-10 (tested). For caps
        with ``1 - cos`` below 1e-5 an upper bound: ``kappa`` times the largest density ratio.

    Raises
    ------
    ValueError
        If an argument is out of its range, or not exactly one prior is given.

    Examples
    --------
    >>> from reconrisk import bounds
    >>> round(float(bounds.rero_vmf_one_release(20.0, 760, 0.1)), 4)
    0.2889
    """
    log_kappa = args.log_probability("prior_success", prior_success, log_prior_success)
    kappa = float(arguments.real("concentration", concentration, 0, 1e8))
    p = float(arguments.integer("dimension", dimension, 2, 1e9))
    out = [_one_release(kappa, p, float(value)) for value in log_kappa.ravel()]
    return args.probability(np.array(out).reshape(log_kappa.shape), log)


def _one_release(kappa: float, p: float, log_kappa: float) -> float:
    if kappa == 0.0 or log_kappa in (-np.inf, 0.0):
        return log_kappa
    arguments.real("log_prior_success", log_kappa, -1e6, 0)
    cap = float(special.log_cosine_quantile(log_kappa, p))
    if cap > 1.0 - _NARROW:
        # the density is largest at the mean
        log_gamma = log_kappa + kappa - float(special.log_iv_reduced(0.5 * p - 1.0, kappa))
    else:
        log_gamma = log_coordinate_tail(cap, kappa, p)
    return min(max(log_gamma, log_kappa), 0.0)


def _tolerance(value: float) -> float:
    return float(arguments.real("tolerance", value, 1e-12, 1))


def _pair(
    concentration: float, dimension: int, sampling_rate: float, steps: int
) -> _vmf_step.OppositePair:
    return _vmf_step.OppositePair(
        float(arguments.real("concentration", concentration, 0, 1e5)),
        float(arguments.integer("dimension", dimension, 2, 1e9)),
        float(arguments.real("sampling_rate", sampling_rate, 0, 1, low_open=True)),
        arguments.count("steps", steps, 1),
    )


def _enclose(
    pair: _vmf_step.OppositePair, log_kappa: np.ndarray, tolerance: float
) -> tuple[np.ndarray, np.ndarray]:
    """Enclose ``log gamma`` for an array of ``log kappa``."""
    low, high = log_kappa.copy(), _closed_above(pair, log_kappa)
    inside = (log_kappa > math.log(SMALLEST) + 1e-9) & (log_kappa < 0.0)
    inside[inside] = high[inside] - low[inside] > 0.1 * tolerance
    if np.any(inside):
        lower, upper = _curve(pair, np.exp(log_kappa[inside]), tolerance)
        # rounding of exp(log kappa): gamma is concave in kappa, so log gamma has slope at most one
        slip = 16.0 * UNIT * (1.0 + np.abs(log_kappa[inside]))
        low[inside] = np.maximum(low[inside], np.log(lower) - slip)
        high[inside] = np.minimum(high[inside], np.log(upper) + slip)
    high = np.minimum(high, 0.0)
    return order_ends(low, high, log=True), high


def _closed_above(pair: _vmf_step.OppositePair, log_kappa: np.ndarray) -> np.ndarray:
    """Bound ``log gamma`` by the range of the likelihood ratio and the chance of being sampled."""
    ends = pair.loss(np.array([-0.5 * math.pi, 0.5 * math.pi])) * pair.steps
    high = log_kappa + float(ends[1])
    with np.errstate(divide="ignore"):
        # the probability of the complement decreases by at most this factor
        log_rest = np.log(-np.expm1(log_kappa))
        high = np.minimum(high, np.log(-np.expm1(np.minimum(log_rest + float(ends[0]), 0.0))))
        if pair.sampling_rate < 1.0:
            never = pair.steps * math.log1p(-pair.sampling_rate)
            some = np.logaddexp(never + log_kappa, math.log(-math.expm1(never)))
            high = np.minimum(high, some)
    possible = log_kappa > -np.inf
    error = UNIT * (64.0 + 16.0 * (np.abs(log_kappa[possible]) + float(np.max(np.abs(ends)))))
    high[possible] = np.minimum(np.maximum(high[possible], log_kappa[possible]) + error, 0.0)
    return high


def _curve(
    pair: _vmf_step.OppositePair, kappa: np.ndarray, tolerance: float
) -> tuple[np.ndarray, np.ndarray]:
    spill = 1e-3 * tolerance * float(kappa.min())
    low, high = _vmf_step.reach(pair, spill)
    guide = _vmf_step.guide(pair, max(60.0, -2.0 * math.log(spill)))
    ends = pair.loss(np.array([low, high]))
    least = float(ends[1] - ends[0]) / MOST_CELLS

    def discretise(width: float) -> Step:
        return _vmf_step.one_step(pair, width, low, high)

    plans = [(guide, math.inf)] * kappa.size
    return enclosed_curve(plans, discretise, least, least, kappa, tolerance)

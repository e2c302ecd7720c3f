"""Reconstruction robustness (ReRo) of DP-SGD, certified.

``(eta, gamma)``-ReRo: no attack reconstructs a record within error ``eta`` with probability above
``gamma`` (Balle et al. 2022, Definition 2). The trade-off curve between the outputs without and
with the record maps the prior success probability ``kappa`` to ``gamma`` (Hayes et al. 2023,
Theorem 2; Kaissis et al. 2023).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from functools import partial

import numpy as np
from numpy.typing import ArrayLike
from scipy import special as sc

from reconrisk import arguments, special
from reconrisk._types import DPSGD, Enclosure, order_ends
from reconrisk.bounds import _arguments as args
from reconrisk.privacy._phases import (
    Release,
    as_run_or_releases,
    composed_success,
    grouped_runs,
)
from reconrisk.privacy._releases import (
    Atoms,
    Group,
    Laplace,
    TooDear,
    full_batch_shift,
    log_mean_square,
    log_untouched,
    part_of,
)
from reconrisk.privacy._samplers import SampledRun, bracket
from reconrisk.privacy._targets import mechanism_of
from reconrisk.privacy._tradeoff import SMALLEST, success_curve

__all__ = ["probabilities_outwards", "rero", "rero_curve", "rero_gaussian"]

_ULP = 2.0**-52


def rero_gaussian(
    noise_multiplier: ArrayLike,
    prior_success: ArrayLike | None = None,
    *,
    log_prior_success: ArrayLike | None = None,
    steps: ArrayLike = 1,
    log: bool = False,
) -> np.ndarray:
    """Largest success of any attack on full-batch DP-SGD, ``Phi(Phi**-1(kappa) + sqrt(T)/sigma)``.

    Hayes et al. (2023), Theorem 2 and Corollary 4 at sampling rate one, where the trade-off curve
    has this closed form; ``ziller2024``, Table 1, column "Worst-Case Success".

    Parameters
    ----------
    noise_multiplier : array_like
        ``sigma`` > 0.
    prior_success : array_like, optional
        ``kappa`` in [0, 1]; zero gives zero.
    log_prior_success : array_like, optional
        ``log kappa`` in [-inf, 0] instead, for priors that underflow (tested to -1e6).
    steps : array_like
        T, whole, >= 1.
    log : bool
        Return ``log gamma``.

    Returns
    -------
    ndarray or float
        ``gamma`` in [kappa, 1] (or its logarithm).

    Raises
    ------
    ValueError
        If an argument is nan or out of its range, or not exactly one prior is given.

    Examples
    --------
    >>> from reconrisk import bounds
    >>> round(float(bounds.rero_gaussian(1.0, 0.1)), 3)
    0.389
    """
    log_kappa = args.log_probability("prior_success", prior_success, log_prior_success)
    sigma = args.positive("noise_multiplier", noise_multiplier)
    shift = np.sqrt(args.repeats(steps, "steps")) / sigma
    return args.probability(special.log_normal_cdf_shifted(log_kappa, shift), log)


@np.errstate(under="ignore")
def rero(
    run: DPSGD | SampledRun | Iterable[Release | SampledRun],
    prior_success: float | None = None,
    log_prior_success: float | None = None,
    *,
    log: bool = False,
    tolerance: float = 1e-4,
) -> Enclosure:
    """Certified success of any attack on a run of DP-SGD.

    Hayes et al. (2023), Corollary 4; one-sided as there: the record is added to a fixed data set.

    - sampling rate 1, any number of steps: ``Phi(Phi**-1(kappa) + sqrt(T)/sigma)``;
    - one step, any sampling rate q: ``(1 - q) kappa + q Phi(Phi**-1(kappa) + 1/sigma)``, because
      the likelihood ratio of the mixture is an increasing function of that at q = 1;
    - otherwise discretised privacy-loss distributions: a dominating pair from above and a test that
      an attacker can carry out from below, with bounds on rounding and truncation errors.

    Parameters
    ----------
    run : DPSGD or SampledRun, or list of DPSGD, Laplace, Atoms, Group, Allocation and SampledRun
        The run; its clipping norm does not matter. A list is a run of several phases, or several
        mechanisms on the same records, a :class:`~reconrisk.privacy.SampledRun` one of another
        sampler, as in :func:`reconrisk.privacy.epsilon`.
    prior_success : float, optional
        ``kappa`` in [0, 1].
    log_prior_success : float, optional
        ``log kappa`` in [-inf, 0] instead.
    log : bool
        Enclose ``log gamma`` instead of ``gamma``.
    tolerance : float
        Target width, relative to ``gamma``, where there is no closed form; in [1e-12, 1].

    Returns
    -------
    Enclosure
        Contains ``gamma``. With a closed form its half-width is a bound on the rounding error,
        at most ``2**-52 (64 + 8 (1 + mu)(|z| + mu) + 8 |log gamma|)`` relative to ``gamma``, with
        ``z = Phi**-1(kappa)`` and ``mu = sqrt(T)/sigma``. Otherwise it is wider than ``tolerance``
        where memory or rounding errors require it; below ``kappa`` = 1e-200 its ends are bounds in
        closed form.

    Raises
    ------
    TypeError
        If ``run`` is not a :class:`~reconrisk.DPSGD` or a prior is not a single number.
    ValueError
        If not exactly one prior is given or an argument is out of range.

    Notes
    -----
    Cost without a closed form, on one core: 10 to 50 milliseconds from q = 1e-3 on, almost
    independent of T, and seconds where many steps sample rarely (2 s at q = 1e-9, T = 1e9; 7 s at
    sigma = 0.5, q = 1e-7, T = 1e8). About ten times more at a tolerance of 1e-6, and up to 8 s from
    1e-8 on, where memory ends the refinement. For many ``kappa`` use :func:`rero_curve`.

    Examples
    --------
    >>> from reconrisk import DPSGD, bounds
    >>> found = bounds.rero(DPSGD(1.0, sampling_rate=0.02, steps=1000), prior_success=1e-4)
    >>> f"{found.lower:.5f} {found.upper:.5f}"
    '0.00224 0.00224'
    """
    sampled = bracket(run)
    if sampled is not None:
        return sampled.enclosure(
            lambda releases: rero(
                releases, prior_success, log_prior_success, log=log, tolerance=tolerance
            )
        )
    one = as_run_or_releases(run)  # type: ignore[arg-type]
    log_kappa = args.log_probability("prior_success", prior_success, log_prior_success)
    if log_kappa.ndim:
        raise TypeError(
            "prior_success must be a single number (rero_curve takes arrays); got shape "
            f"{log_kappa.shape}"
        )
    arguments.real("tolerance", tolerance, 1e-12, 1)
    low, high = _enclose(one, log_kappa[None], float(tolerance))
    if log:
        return Enclosure(float(low[0]), float(high[0]))
    return Enclosure(*(float(v[0]) for v in probabilities_outwards(low, high)))


@np.errstate(under="ignore")
def rero_curve(
    run: DPSGD | SampledRun | Iterable[Release | SampledRun],
    prior_success: ArrayLike,
    *,
    tolerance: float = 1e-4,
) -> tuple[np.ndarray, np.ndarray]:
    """:func:`rero` at many prior success probabilities, at little more than the cost of one.

    Parameters
    ----------
    run : DPSGD or SampledRun, or list of DPSGD, Laplace, Atoms, Group, Allocation and SampledRun
    prior_success : array_like
        ``kappa`` in [0, 1].
    tolerance : float
        Target width, relative to ``gamma``; in [1e-12, 1].

    Returns
    -------
    lower, upper : ndarray
        Bounds on ``gamma``, of the shape of ``prior_success``.

    Raises
    ------
    TypeError, ValueError
        As :func:`rero`.

    Notes
    -----
    Cost: one discretisation of a step in total, and three compositions for each group of levels
    within three standard deviations of the privacy loss: 50 values from 1e-12 to 0.99 at T = 1000,
    q = 0.02 take about 0.1 s.

    Examples
    --------
    >>> from reconrisk import DPSGD, bounds
    >>> lower, upper = bounds.rero_curve(DPSGD(2.0, steps=4), [0.1, 0.5])
    >>> [round(float(v), 4) for v in upper]
    [0.3891, 0.8413]
    """
    sampled = bracket(run)
    if sampled is not None:
        attacks, bound = sampled.enclosed(
            lambda releases: rero_curve(releases, prior_success, tolerance=tolerance)
        )
        below = np.max([attack[0] for attack in attacks], axis=0)
        return order_ends(below, bound[1]), bound[1]
    one = as_run_or_releases(run)  # type: ignore[arg-type]
    kappa = arguments.real("prior_success", prior_success, 0, 1)
    arguments.real("tolerance", tolerance, 1e-12, 1)
    with np.errstate(divide="ignore"):
        low, high = _enclose(one, np.log(kappa).ravel(), float(tolerance))
    lower, upper = probabilities_outwards(low, high)
    return lower.reshape(kappa.shape), upper.reshape(kappa.shape)


def _enclose(
    run: DPSGD | list[Release], log_kappa: np.ndarray, tolerance: float
) -> tuple[np.ndarray, np.ndarray]:
    """Enclose ``log gamma`` for an array of ``log kappa``."""
    if not isinstance(run, DPSGD):
        low, high = _enclose_from_far(run, log_kappa)
        try:
            return _narrow(low, high, log_kappa, tolerance, partial(composed_success, run))
        except TooDear:
            return low, high
    full = _enclose_in_closed_form(run, run.steps, 1.0, log_kappa)
    one = _enclose_in_closed_form(run, 1, float(run.sampling_rate), log_kappa)
    if run.sampling_rate == 1.0:
        return full
    if run.steps == 1:
        return one
    # gamma is at least that of one step and at most that of all steps without sub-sampling
    low, high = one[0].copy(), full[1].copy()
    never = run.steps * np.log1p(-run.sampling_rate)  # log P(the record is in no batch)
    some = np.logaddexp(never + log_kappa, np.log(-np.expm1(never)))
    possible = log_kappa > -np.inf
    some = some + _ULP * (64.0 + 8.0 * np.abs(some) + 8.0 * abs(never))
    high[possible] = np.minimum(high, some)[possible]
    near = (log_kappa > np.log(SMALLEST)) & (log_kappa < 0.0)
    low[near] = np.maximum(low[near], _by_largest_output(run, log_kappa[near]))
    return _narrow(low, high, log_kappa, tolerance, partial(success_curve, mechanism_of(run)))


def _narrow(
    low: np.ndarray,
    high: np.ndarray,
    log_kappa: np.ndarray,
    tolerance: float,
    curve: Callable[[np.ndarray, float], tuple[np.ndarray, np.ndarray]],
) -> tuple[np.ndarray, np.ndarray]:
    """Narrow an enclosure of ``log gamma`` by that of a curve, where it is not narrow yet."""
    low, high = low.copy(), high.copy()
    inside = (log_kappa > np.log(SMALLEST) + 1e-9) & (log_kappa < 0.0)
    inside[inside] = high[inside] - low[inside] > 0.1 * tolerance
    if np.any(inside):
        lower, upper = curve(np.exp(log_kappa[inside]), tolerance)
        # rounding of exp(log kappa): gamma is concave in kappa, so log gamma has slope at most one
        slip = 8.0 * _ULP * (1.0 + np.abs(log_kappa[inside]))
        low[inside] = np.maximum(low[inside], np.log(lower) - slip)
        high[inside] = np.minimum(high[inside], np.log(upper) + slip)
    high = np.minimum(high, 0.0)
    return order_ends(low, high, log=True), high


def _by_largest_output(run: DPSGD, log_kappa: np.ndarray) -> np.ndarray:
    """Return log of the power of the test that looks at the largest output of all steps.

    With hardly any noise no test is better.
    """
    q, steps = float(run.sampling_rate), run.steps
    with np.errstate(divide="ignore"):  # what is next to one is one
        each = -np.expm1(np.log1p(-np.exp(log_kappa)) / steps)
        least = -sc.ndtri(each)
        some = (1.0 - q) * each + q * sc.ndtr(1.0 / float(run.noise_multiplier) - least)
        # less a margin for the roundings of the level, and of tails up to 30 deviations
        return np.log(-np.expm1(steps * np.log1p(-np.minimum(some, 1.0)))) - 1e-11


def _enclose_from_far(
    releases: list[Release], log_kappa: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Enclose ``log gamma`` of releases that differ by closed forms, from far apart.

    What one release says all say; all Gaussian releases together say no more than without
    sub-sampling, and nothing of a record that none of them took.
    """
    alone = _log_alone(releases)
    low = np.maximum(log_kappa, alone - 1e-12)
    high = np.where(log_kappa > -np.inf, 0.0, min(alone + 1e-12, 0.0))
    runs = [r for r in releases if isinstance(r, DPSGD)]
    for run in grouped_runs(runs, False):
        low = np.maximum(
            low, _enclose_in_closed_form(run, 1, float(run.sampling_rate), log_kappa)[0]
        )
    shift = full_batch_shift(releases)
    if shift < math.inf:
        at_once = DPSGD(1.0 / shift if shift else math.inf)
        high = _enclose_in_closed_form(at_once, 1, 1.0, log_kappa)[1]
        high = np.minimum(high, _by_mean_square(log_mean_square(releases), log_kappa))
    if len(releases) == 1 and isinstance(releases[0], Laplace) and releases[0].steps == 1:
        one, q = releases[0], float(releases[0].sampling_rate)
        full = np.array([_laplace(float(v), 1.0 / float(one.noise_multiplier)) for v in log_kappa])
        if q < 1.0:
            full = np.logaddexp(np.log1p(-q) + log_kappa, np.log(q) + full)
        error = _ULP * (64.0 + 8.0 * np.where(full > -np.inf, np.abs(full), 0.0))
        return np.maximum(full - error, log_kappa), np.minimum(full + error, 0.0)
    if any(isinstance(r, Group) for r in releases):
        return low, high  # no bound on their losses; some are refused as parts
    most = math.fsum(p.steps * p.highest for p in map(part_of, releases))
    if most < math.inf:
        high = np.minimum(high, np.minimum(log_kappa + most * (1.0 + 1e-12) + 1e-12, 0.0))
    if shift < math.inf or all(isinstance(r, DPSGD | Laplace) for r in releases):
        never, without = log_untouched(releases)
        if never > -math.inf:
            # of what neither law takes, a test may accept all that its kappa allows
            untouched = never + np.minimum(log_kappa - without, 0.0)
            some = np.logaddexp(untouched, np.log(-np.expm1(never)))
            some = some + _ULP * (64.0 + 8.0 * np.abs(some) + 32.0 * abs(never))
            high = np.where(log_kappa > -np.inf, np.minimum(high, some), high)
    return low, high


def _log_alone(releases: list[Release]) -> float:
    """Return log of the probability of outcomes that there are with the record alone."""
    others = 0.0
    for one in releases:
        if isinstance(one, Atoms):
            others += one.steps * (math.log1p(-one.alone) if one.alone < 1.0 else -math.inf)
    return math.log(-math.expm1(others)) if others < 0.0 else -math.inf


def _by_mean_square(log_square: float, log_kappa: np.ndarray) -> np.ndarray:
    """Bound ``log gamma`` by ``gamma <= kappa + sqrt(v kappa (1 - kappa))``.

    ``v`` is the variance of the likelihood ratio: the inequality is Cauchy and Schwarz's.
    """
    if log_square > 300.0:
        return np.where(log_kappa > -np.inf, 0.0, -np.inf)
    spread = math.log(max(math.expm1(log_square * (1.0 + 1e-12)), 1e-300))
    gained = 0.5 * (spread + log_kappa + special.log1mexp(log_kappa))
    return np.minimum(np.logaddexp(log_kappa, gained) * (1.0 - 1e-14) + 1e-12, 0.0)


def _laplace(log_kappa: float, shift: float) -> float:
    """Return ``log gamma`` of one release with Laplace noise (Dong et al. 2022, Section 2.3)."""
    if log_kappa <= -shift - math.log(2.0):
        return log_kappa + shift
    if log_kappa <= -math.log(2.0):
        return math.log1p(-0.25 * math.exp(-shift - log_kappa))
    return math.log1p(math.exp(-shift) * math.expm1(log_kappa)) if log_kappa < 0.0 else 0.0


def _enclose_in_closed_form(
    run: DPSGD, steps: float, sampling_rate: float, log_kappa: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Enclose ``log gamma`` of one step, or of all at sampling rate one."""
    shift = np.sqrt(float(steps)) / float(run.noise_multiplier)
    low, high = np.empty(log_kappa.size), np.empty(log_kappa.size)
    for i, value in enumerate(log_kappa):
        low[i], high[i] = _closed_at(float(value), shift, sampling_rate)
    return low, high


def _closed_at(log_kappa: float, shift: float, q: float) -> tuple[float, float]:
    if log_kappa in (-np.inf, 0.0):
        return log_kappa, log_kappa
    log_gamma = float(special.log_normal_cdf_shifted(log_kappa, shift))
    error = _rounding(log_kappa, shift, log_gamma)
    if q < 1.0:
        log_gamma = float(np.logaddexp(np.log1p(-q) + log_kappa, np.log(q) + log_gamma))
        error += _ULP * (16.0 + 4.0 * (abs(np.log(q)) + abs(np.log1p(-q)) + abs(log_kappa)))
    # gamma lies between kappa and one
    low = float(max(log_gamma - error, log_kappa * (1.0 + _ULP)))
    return low, float(min(log_gamma + error, 0.0))


def probabilities_outwards(low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return probabilities from bounds on their logarithms, rounded outwards; zero stays zero."""
    smallest = np.where(high > -np.inf, 5e-324, 0.0)
    lower = np.maximum(np.exp(low) * (1.0 - 4.0 * _ULP) - smallest, 0.0)
    return lower, np.minimum(np.exp(high) * (1.0 + 4.0 * _ULP) + smallest, 1.0)


def _rounding(log_kappa: float, shift: float, log_gamma: float) -> float:
    """Return a bound on the absolute error of the computed ``log gamma``.

    The rounding error of the quantile, a few ulps of ``|z|``, is multiplied by the inverse Mills
    ratio at ``z + mu`` (at most ``|z| + 1``, less ``mu``), or by at most ``1 + mu`` where the
    difference from ``log p`` is computed; the remainder is the rounding of the terms themselves.
    """
    z = float(special.log_normal_quantile(log_kappa))
    top = z + shift
    mills = np.exp(-0.5 * top * top - log_gamma) if top > -30.0 else abs(top) + 1.0
    sensitivity = min(1.0 + shift, mills + 1e-300) if z < -5.0 and top < 0.0 else mills
    terms = 64.0 + 8.0 * sensitivity * (abs(z) + shift) + 8.0 * abs(log_gamma)
    if log_gamma > -1e-3:
        # near one the error is relative to 1 - gamma; the constant is a safety margin
        terms = 64.0 + 8.0 * sensitivity * (abs(z) + shift)
    return _ULP * terms

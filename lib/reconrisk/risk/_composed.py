"""A run's epsilon, its total variation and its blow-up function, at every legal setting.

Sub-sampled runs of several steps are composed numerically by :mod:`reconrisk.privacy` and
:mod:`reconrisk.bounds`. With very little noise, very rare participation or billions of steps that
takes minutes. There, and at prior successes too small for the numerical composition, closed forms
enclose the value: one step gives the lower end; all steps without sub-sampling, the probability
of taking part at all and the Renyi divergences give the upper end.
"""

from __future__ import annotations

import functools
import math

import numpy as np

from reconrisk import bounds, privacy, special
from reconrisk._types import DPSGD, Enclosure
from reconrisk.risk._report import Interval
from reconrisk.risk._settings import TrainingRun

__all__ = ["composed_numerically", "distance_of", "epsilon_of", "success_at"]

#: least noise multiplier, least sampling rate and most steps of runs composed numerically
_COMPOSED = ((0.25, 1e-4, 1_000_000), (0.15, 2e-3, 10_000), (0.1, 1e-2, 10_000))
_COMPOSED_VMF = ((0.25, 1e-4, 100_000), (0.15, 2e-3, 10_000))
#: most steps and least rate at which enclosures are narrowed to 1e-4; elsewhere to 1e-3
_USUAL_STEPS, _USUAL_RATE = 20_000, 1e-3
_USUAL_DELTA = 1e-10
_ORDERS = (*range(2, 32), *(round(32.0 * 2.0 ** (i / 4.0)) for i in range(25)))
_VMF_ORDERS = 128
#: relative rounding error of a sum of a thousand terms, with a margin
_ROUNDING = 1e-12
#: width of log gamma above which the Renyi bound is tried
_WIDE_LOG = 1e-3
_GRID_POINTS = 33


def _noise(run: TrainingRun) -> float:
    """The noise multiplier; under von Mises-Fisher noise, the equivalent Gaussian one."""
    if run.gaussian:
        return run.effective_noise
    return float(privacy.vmf_noise_multiplier(*_vmf_parameters(run)[::-1]))


def _vmf_parameters(run: TrainingRun) -> tuple[float, int]:
    """Concentration and number of parameters."""
    assert run.concentration is not None and run.parameters is not None
    return run.concentration, run.parameters


def _has_closed_form(run: TrainingRun) -> bool:
    return run.gaussian and (run.sampling_rate == 1.0 or run.steps == 1)


def composed_numerically(run: TrainingRun) -> bool:
    """Whether the run has a closed form or is composed numerically in reasonable time."""
    return _has_closed_form(run) or any(
        _noise(run) >= noise and run.sampling_rate >= rate and run.steps <= steps
        for noise, rate, steps in (_COMPOSED if run.gaussian else _COMPOSED_VMF)
    )


def _tolerance(run: TrainingRun) -> float:
    usual = run.steps <= _USUAL_STEPS and run.sampling_rate >= _USUAL_RATE
    return 1e-4 if usual else 1e-3


def _epsilon_tolerance(run: TrainingRun) -> float:
    # at a tiny delta rounding errors dominate, and a finer grid only adds to them
    return _tolerance(run) if run.delta >= _USUAL_DELTA else 1e-2


def _enclosure(found: Enclosure) -> Interval:
    return Interval.of(found.lower, found.upper)


# Renyi divergences of the run, with the record against without it --------------------------------


@functools.lru_cache(maxsize=64)
def _renyi(run: TrainingRun) -> tuple[tuple[int, ...], np.ndarray]:
    """Integer orders, and an upper bound on the run's divergence at each.

    One step has ``log E_nu (1 - q + q L)**a/(a - 1)`` exactly, a binomial sum for Gaussian noise
    (Mironov et al. 2019), and the steps add up. In the other direction it is not larger.
    """
    if run.gaussian:
        orders, q, sigma = _ORDERS, run.sampling_rate, run.effective_noise
        values = []
        for order in orders:
            k = np.arange(order + 1.0)
            terms = special.log_binomial_pmf(k, float(order), q) + 0.5 * k * (k - 1.0) / sigma**2
            values.append((float(np.logaddexp.reduce(terms)) + _ROUNDING) / (order - 1.0))
        one = np.array(values)
    else:
        orders = tuple(range(2, _VMF_ORDERS + 1))
        # the divergence of this pair; the general bound where this one does not cover both orders
        one = privacy.vmf_renyi_sampled(_VMF_ORDERS, *_vmf_parameters(run), run.sampling_rate)[1:]
    return orders, run.steps * np.maximum(one, 0.0) * (1.0 + _ROUNDING)


def _log_never(run: TrainingRun) -> float:
    """Log of the probability that the record takes part in no step."""
    return run.steps * math.log1p(-run.sampling_rate) if run.sampling_rate < 1.0 else -math.inf


def _without_sampling(run: TrainingRun, steps: int) -> DPSGD:
    return DPSGD(run.effective_noise, 1.0, steps)


# Epsilon -----------------------------------------------------------------------------------------


def epsilon_of(run: TrainingRun) -> Interval:
    """Enclose the run's epsilon at its delta."""
    if composed_numerically(run):
        found = _epsilon_gaussian(run) if run.gaussian else _epsilon_vmf(run)
        if not _has_closed_form(run) and found.width > 0.1 * found.upper:
            # wider than the tolerance: memory or rounding did not allow more
            upper = max(min(found.upper, _epsilon_by_renyi(run)), found.lower)
            found = Enclosure(found.lower, upper)
        return _enclosure(found)
    upper = _epsilon_by_renyi(run)
    lower = 0.0
    if run.gaussian:
        most = privacy.epsilon(_without_sampling(run, run.steps), run.delta).upper
        upper, lower = min(upper, most), _one_step_epsilon(run)
    else:
        upper = min(upper, 2.0 * _vmf_parameters(run)[0] * run.steps)
    if -math.expm1(_log_never(run)) <= run.delta:
        upper = 0.0
    upper *= 1.0 + _ROUNDING
    return Interval.of(min(lower, upper), upper)


def _epsilon_by_renyi(run: TrainingRun) -> float:
    orders, divergences = _renyi(run)
    found = float(np.min(privacy.epsilon_from_renyi(orders, divergences, run.delta)))
    return found * (1.0 + _ROUNDING)


def _epsilon_vmf(run: TrainingRun) -> Enclosure:
    kappa, p = _vmf_parameters(run)
    return privacy.vmf_epsilon(
        kappa, p, run.delta, run.sampling_rate, run.steps, tolerance=_epsilon_tolerance(run)
    )


def _epsilon_gaussian(run: TrainingRun) -> Enclosure:
    if run.steps > 1 or run.sampling_rate == 1.0:
        return privacy.epsilon(run.dpsgd, run.delta, tolerance=_epsilon_tolerance(run))
    # one step with the record against without it: the privacy profile of the full batch, scaled
    low, high = _one_step_epsilon(run), _one_step_epsilon(run, upper=True)
    return Enclosure(low, max(low, high))


def _one_step_epsilon(run: TrainingRun, *, upper: bool = False) -> float:
    """``log(1 + q (e^eps - 1))`` with eps that of a full-batch step at ``delta/q``."""
    q = run.sampling_rate
    if run.delta >= q:
        return 0.0
    full = privacy.epsilon(_without_sampling(run, 1), run.delta / q)
    value = full.upper if upper else full.lower
    value = math.log1p(q * math.expm1(value)) if value < 600.0 else value + math.log(q)
    slip = _ROUNDING if upper else -_ROUNDING
    return max(value * (1.0 + slip) + slip, 0.0)


# Total variation ---------------------------------------------------------------------------------


def distance_of(run: TrainingRun) -> Interval:
    """Enclose the total variation between the releases with and without the record."""
    if not run.gaussian:
        return _distance_vmf(run)
    if run.sampling_rate == 1.0:
        return _enclosure(privacy.delta(run.dpsgd, 0.0))
    one = math.erf(0.5 / (math.sqrt(2.0) * run.effective_noise))
    lower = run.sampling_rate * one * (1.0 - 1e-14)
    if run.steps == 1:
        return Interval.of(lower, min(run.sampling_rate * one * (1.0 + 1e-14), 1.0))
    if composed_numerically(run):
        return _enclosure(privacy.delta(run.dpsgd, 0.0, tolerance=_tolerance(run)))
    upper = min(
        privacy.delta(_without_sampling(run, run.steps), 0.0).upper,
        -math.expm1(_log_never(run)) * (1.0 + _ROUNDING),
        run.steps * run.sampling_rate * one * (1.0 + 1e-14),
        _distance_by_divergence(run),
    )
    return Interval.of(min(lower, upper), upper)


def _distance_by_divergence(run: TrainingRun) -> float:
    """The lesser of Pinsker's and Bretagnolle and Huber's bounds, with the order-two divergence."""
    divergence = float(_renyi(run)[1][0])
    return min(math.sqrt(0.5 * divergence), math.sqrt(-math.expm1(-divergence))) * (1.0 + 1e-12)


def _distance_vmf(run: TrainingRun) -> Interval:
    """Enclose the largest ``gamma(kappa) - kappa`` on a grid, using that gamma is monotone."""
    if not composed_numerically(run):
        share = -math.expm1(_log_never(run)) if run.sampling_rate < 1.0 else 1.0
        return Interval.of(0.0, min(_distance_by_divergence(run), share * (1.0 + _ROUNDING), 1.0))
    low, high, least, most = 0.0, 1.0, 0.0, np.ones(1)
    for _ in range(2):
        grid = np.linspace(low, high, _GRID_POINTS)
        below, above = bounds.rero_vmf_curve(
            *_vmf_parameters(run),
            grid,
            sampling_rate=run.sampling_rate,
            steps=run.steps,
            tolerance=1e-3,
        )
        least = max(least, float(np.max(below - grid)))
        most = above[1:] - grid[:-1]
        near = np.flatnonzero(most >= least)
        low, high = float(grid[near[0]]), float(grid[near[-1] + 1])
    return Interval.of(least, min(max(float(np.max(most)), least), 1.0))


# Success -----------------------------------------------------------------------------------------


@functools.lru_cache(maxsize=256)
def success_at(run: TrainingRun, log_kappa: float) -> Interval:
    """Enclose the largest success of any attack at a prior success, under either mechanism.

    Parameters
    ----------
    run : TrainingRun
    log_kappa : float
        Natural logarithm of the prior success.

    Returns
    -------
    Interval
        A probability, with its logarithms.
    """
    if not composed_numerically(run):
        found = _success_by_closed_forms(run, log_kappa)
    elif run.gaussian:
        found = bounds.rero(
            run.dpsgd, log_prior_success=log_kappa, log=True, tolerance=_tolerance(run)
        )
    else:
        found = bounds.rero_vmf(
            *_vmf_parameters(run),
            log_prior_success=log_kappa,
            sampling_rate=run.sampling_rate,
            steps=run.steps,
            log=True,
            tolerance=_tolerance(run),
        )
    if found.width > _WIDE_LOG and not _has_closed_form(run):
        found = _narrowed_by_renyi(run, log_kappa, found)
    return Interval.of_logs(found.lower, found.upper)


def _success_by_closed_forms(run: TrainingRun, log_kappa: float) -> Enclosure:
    never = _log_never(run)
    # upper end: a record that never takes part is guessed, one that does is reconstructed
    high = 0.0
    if never > -math.inf:
        high = float(np.logaddexp(never + log_kappa, math.log(-math.expm1(never))))
        high += _ROUNDING * (1.0 + abs(high))
    low = log_kappa
    if run.gaussian:
        full = bounds.rero(_without_sampling(run, run.steps), log_prior_success=log_kappa, log=True)
        one = DPSGD(run.effective_noise, run.sampling_rate, 1)
        low = bounds.rero(one, log_prior_success=log_kappa, log=True).lower
        high = min(high, full.upper)
    else:
        high = min(high, log_kappa + 2.0 * _vmf_parameters(run)[0] * run.steps)
    high = min(high, 0.0)
    return Enclosure(min(low, high), high)


def _narrowed_by_renyi(run: TrainingRun, log_kappa: float, known: Enclosure) -> Enclosure:
    """Lower an enclosure's upper end by ``gamma <= (kappa exp(D))**(1 - 1/order)``."""
    orders, divergences = _renyi(run)
    finite = np.isfinite(divergences)
    if not np.any(finite):
        return known
    values = bounds.rero_renyi(
        np.array(orders)[finite], divergences[finite], log_prior_success=log_kappa, log=True
    )
    high = min(known.upper, float(np.min(values)) * (1.0 - _ROUNDING))
    return Enclosure(known.lower, max(high, known.lower))

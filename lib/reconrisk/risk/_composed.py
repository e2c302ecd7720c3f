"""A run's epsilon, its total variation and its blow-up function, at every legal setting.

Sub-sampled runs of several steps are composed numerically by :mod:`reconrisk.privacy` and
:mod:`reconrisk.bounds`, under Gaussian noise from a multiplier of 1/35 on at every sampling rate
and number of steps. Under von Mises-Fisher noise very little noise, very rare participation or very
many steps take minutes. There, with less Gaussian noise, and at prior successes too small for the
numerical composition, closed forms enclose the value: the probability of taking part at all and the
Renyi divergences give the upper end. They also narrow what rounding errors or memory leave wide.
"""

from __future__ import annotations

import functools
import math

import numpy as np

from reconrisk import bounds, privacy
from reconrisk._types import DPSGD, Enclosure
from reconrisk.privacy._conversions import renyi_gaussian
from reconrisk.privacy._phases import grouped_runs
from reconrisk.risk._entries import Interval
from reconrisk.risk._settings import TrainingRun

__all__ = ["composed_numerically", "distance_of", "epsilon_of", "power_at", "success_at"]

#: least noise multiplier, least sampling rate and most steps of runs composed numerically under von
#: Mises-Fisher noise
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


def _vmf_parameters(run: TrainingRun) -> tuple[float, int]:
    """Concentration and number of parameters."""
    assert run.concentration is not None and run.parameters is not None
    return run.concentration, run.parameters


def _has_closed_form(run: TrainingRun) -> bool:
    one = run.gaussian and not run.phases and isinstance(run.releases, DPSGD)
    return one and (run.sampling_rate == 1.0 or run.steps == 1)


def _many(run: TrainingRun) -> bool:
    """Whether the run has several phases, or protects groups: always composed numerically."""
    return run.gaussian and not isinstance(run.releases, DPSGD)


def composed_numerically(run: TrainingRun) -> bool:
    """Whether the run has a closed form or is composed numerically in reasonable time."""
    if run.gaussian or run.guarantee is not None:
        return True
    # the equivalent noise multiplier
    sigma = float(privacy.vmf_noise_multiplier(*_vmf_parameters(run)[::-1]))
    return any(
        sigma >= noise and run.sampling_rate >= rate and run.steps <= steps
        for noise, rate, steps in _COMPOSED_VMF
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

    One step has ``log E_nu (1 - q + q L)**a/(a - 1)`` exactly, and the steps add up. In the other
    direction it is not larger.
    """
    if run.gaussian:
        orders = _ORDERS
        phases = grouped_runs(run.each_phase, True) if run.group_size == 1 else (run.dpsgd,)
        values = np.sum([renyi_gaussian(phase, orders) for phase in phases], axis=0)
        return orders, values * (1.0 + _ROUNDING)
    orders = tuple(range(2, _VMF_ORDERS + 1))
    # the divergence of this pair; the general bound where this one does not cover both orders
    one = privacy.vmf_renyi_sampled(_VMF_ORDERS, *_vmf_parameters(run), run.sampling_rate)[1:]
    return orders, run.steps * np.maximum(one, 0.0) * (1.0 + _ROUNDING)


def _log_never(run: TrainingRun) -> float:
    """Log of the probability that the record takes part in no step."""
    return run.steps * math.log1p(-run.sampling_rate) if run.sampling_rate < 1.0 else -math.inf


# Epsilon -----------------------------------------------------------------------------------------


def epsilon_of(run: TrainingRun) -> Interval:
    """Enclose the run's epsilon at its delta."""
    if run.of_membership is not None:
        return _enclosure(run.of_membership.epsilon(run.delta))
    if _many(run):
        return _enclosure(privacy.epsilon(run.releases, run.delta, tolerance=_tolerance(run)))
    if composed_numerically(run):
        found = _epsilon_gaussian(run) if run.gaussian else _epsilon_vmf(run)
        if _has_closed_form(run) or found.width <= 0.1 * found.upper:
            return _enclosure(found)
    else:
        found = Enclosure(0.0, 2.0 * _vmf_parameters(run)[0] * run.steps * (1.0 + _ROUNDING))
    upper = 0.0 if -math.expm1(_log_never(run)) <= run.delta else _epsilon_by_renyi(run)
    return Interval.of(found.lower, max(min(found.upper, upper), found.lower))


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
    full = privacy.epsilon(DPSGD(run.effective_noise), run.delta / q)
    value = full.upper if upper else full.lower
    value = math.log1p(q * math.expm1(value)) if value < 600.0 else value + math.log(q)
    slip = _ROUNDING if upper else -_ROUNDING
    return max(value * (1.0 + slip) + slip, 0.0)


# Total variation ---------------------------------------------------------------------------------


def distance_of(run: TrainingRun) -> Interval:
    """Enclose the total variation between the releases with and without the record."""
    if run.of_membership is not None:
        return _enclosure(run.of_membership.delta(0.0))
    if _many(run):
        return _enclosure(privacy.delta(run.releases, 0.0, tolerance=_tolerance(run)))
    if not run.gaussian:
        return _distance_vmf(run)
    if run.sampling_rate == 1.0:
        return _enclosure(privacy.delta(run.dpsgd, 0.0))
    one = run.sampling_rate * math.erf(0.5 / (math.sqrt(2.0) * run.effective_noise))
    if run.steps == 1:
        return Interval.of(one * (1.0 - 1e-14), min(one * (1.0 + 1e-14), 1.0))
    found = privacy.delta(run.dpsgd, 0.0, tolerance=_tolerance(run))
    if found.width <= 0.1 * found.upper:
        return _enclosure(found)
    upper = min(
        found.upper,
        -math.expm1(_log_never(run)) * (1.0 + _ROUNDING),
        run.steps * one * (1.0 + 1e-14),
        _distance_by_divergence(run),
    )
    # a test at one of these rates is nearly the best where there is hardly any noise
    gains = (success_at(run, math.log(k)).lower for k in (1e-6, 1e-3, 1e-2))
    tests = (g - k for g, k in zip(gains, (1e-6, 1e-3, 1e-2), strict=True) if g is not None)
    lower = max([found.lower, *tests]) * (1.0 - _ROUNDING)
    return Interval.of(lower, max(upper, lower))


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
    if run.guarantee is not None:
        found = run.guarantee.success(log_kappa)
        return Interval.of_logs(found.lower, found.upper)
    if run.gaussian:
        found = bounds.rero(
            run.releases, log_prior_success=log_kappa, log=True, tolerance=_tolerance(run)
        )
    elif composed_numerically(run):
        found = bounds.rero_vmf(
            *_vmf_parameters(run),
            log_prior_success=log_kappa,
            sampling_rate=run.sampling_rate,
            steps=run.steps,
            log=True,
            tolerance=_tolerance(run),
        )
    else:
        found = _success_by_closed_forms(run, log_kappa)
    of_groups = run.group_size > 1 and run.sampling_rate < 1.0
    if found.width > _WIDE_LOG and not _has_closed_form(run) and not of_groups:
        found = _narrowed_by_renyi(run, log_kappa, found)
    return Interval.of_logs(found.lower, found.upper)


@functools.lru_cache(maxsize=256)
def power_at(run: TrainingRun, log_rate: float) -> Interval:
    """Enclose the true positives of the best membership test at a false positive rate.

    Under the run's adjacency, whereas :func:`success_at` has a record of gradient zero beside it.
    """
    known = run.of_membership
    if known is None:
        return success_at(run, log_rate)
    found = getattr(known, "of_tests", known).success(log_rate)
    return Interval.of_logs(found.lower, found.upper)


def _success_by_closed_forms(run: TrainingRun, log_kappa: float) -> Enclosure:
    never = _log_never(run)
    # upper end: a record that never takes part is guessed, one that does is reconstructed
    high = 0.0
    if never > -math.inf:
        high = float(np.logaddexp(never + log_kappa, math.log(-math.expm1(never))))
        high += _ROUNDING * (1.0 + abs(high))
    high = min(high, log_kappa + 2.0 * _vmf_parameters(run)[0] * run.steps, 0.0)
    return Enclosure(min(log_kappa, high), high)


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

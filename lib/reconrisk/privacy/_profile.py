"""Enclosures of the privacy profile of sub-sampled DP-SGD, for adding and for removing a record.

:mod:`reconrisk.privacy._refine` narrows the cells; here is which cells, tilts and windows it may
have, and when large losses are treated apart.
"""

from __future__ import annotations

import math

import numpy as np

from reconrisk.privacy._compose import TooLong
from reconrisk.privacy._gaussian import log_delta_of_shift
from reconrisk.privacy._refine import Cells, refine_delta, refine_epsilon
from reconrisk.privacy._saddle import (
    Mechanism,
    Saddle,
    few_large,
    narrowest,
    reach,
    saddle,
)
from reconrisk.privacy._step import Step, one_step
from reconrisk.privacy._tails import Tails, loosening, run_tails, split_tails
from reconrisk.privacy._total_variation import small_losses_delta

__all__ = ["delta_enclosure", "epsilon_enclosure", "guess", "rough_log_delta", "scale"]

#: large losses are treated apart if without them epsilon is smaller by this factor
_RARE = 0.95
#: logarithms of the smallest deltas that are enclosed with large losses apart, and without
_LOG_LEAST, _LOG_DEEPEST = -25.0 * math.log(10.0), -100.0 * math.log(10.0)
#: tolerance at which the size of delta is found
_ROUGH = 0.3
#: where there are so many cells, an enclosure that is wider than wanted by such a factor will do
_LONG, _ENOUGH = 1 << 15, 5.0
#: the same for windows of so many points, of about so many deviations of the sum
_FAIR, _LONGEST, _WINDOW = 6e-3, 1 << 18, 16.0
#: relative width of a delta near a small total variation that will do
_FAIR_NEAR = 1e-2
#: smallest tilt, which decides the tail that is summed, and those tried relative to a level's
_LEAST_TILT = 1e-9
_SHARES = (1.0, 0.6, 0.35, 0.2)


def scale(guide: Saddle, level: float, sign: int) -> float:
    """Roughly ``log delta`` at a level of the loss."""
    return float(np.interp(level, guide.level, _log_deltas(guide, sign)))


def _log_deltas(guide: Saddle, sign: int) -> np.ndarray:
    """Roughly ``log delta`` at the guide's levels."""
    like, other = (guide.log_tail(s, sign) for s in ((1.0, 0.0) if sign > 0 else (0.0, 1.0)))
    ratio = np.minimum(other + sign * guide.level - like, -1e-9)
    return like + np.log(-np.expm1(ratio))


def delta_enclosure(mechanism: Mechanism, epsilon: float, tolerance: float) -> tuple[float, float]:
    """Enclose ``delta(epsilon)``, the larger of both directions; relative width ``tolerance``.

    Where large losses are treated apart, the lower bound is far from deltas below 1e-25; elsewhere
    from those below 1e-100.
    """
    small = small_losses_delta(mechanism, epsilon)
    if small is not None and (epsilon == 0.0 or small[1] - small[0] <= _FAIR_NEAR * small[1]):
        return small
    size, deepest = _log_delta(mechanism, epsilon)

    def lattice(size: float, goal: float, share: float, finest: bool, aim: float) -> Cells:
        low, high = reach(mechanism, math.exp(size) * 1e-3 * goal)
        guide, cut = saddle(mechanism, low, high), math.inf
        least = narrowest(mechanism, low, high, 0.0 if finest else goal)
        width, stretched = share * _first_width(guide, epsilon, size, goal), math.inf
        parted = few_large(mechanism, low, high, size)
        # widths of enclosures go with the square of the cells'
        short = width < least and goal * (least / width) ** 2 > _FAIR
        if parted is not None and (short or _is_lower_without_large(parted[0], guide, epsilon)):
            guide, cut = parted
            width = share * _first_width(guide, epsilon, size, goal)
        if width < least and cut < math.inf:
            least = narrowest(mechanism, low, high, 0.0 if finest else goal, cut)
            stretched = cut
        if cut < math.inf and not finest:
            least = max(least, _window(guide) / _LONGEST)
        step = _step(mechanism, max(width, least, aim), low, high, stretched)
        return _cells(step, least, guide, cut, size, goal, finest)

    found = refine_delta(lattice, epsilon, mechanism.lowest, size, deepest, tolerance, _ROUGH)
    return found if small is None else (max(found[0], small[0]), min(found[1], small[1]))


def _step(mechanism: Mechanism, width: float, low: float, high: float, stretched: float) -> Step:
    a, q = mechanism.inverse_noise, mechanism.sampling_rate
    return one_step(a, q, width, low, high, stretched)


def _cells(
    step: Step,
    least: float,
    guide: Saddle,
    cut: float,
    size: float,
    tolerance: float,
    narrowest: bool,
) -> Cells:
    def tails(sign: int, level: float) -> tuple[Tails, Tails]:
        return _tails_near(guide, step, cut, sign, size, tolerance, level)

    stretched, will_do = step.nu.some is not None, 0.0
    if step.nu.mass.size > (_LONG >> 2 if stretched else _LONG):
        will_do = tolerance * _ENOUGH * (2.0 if stretched else 1.0)
    long = cut < math.inf and _window(guide) > 0.5 * _LONGEST * step.width
    will_do = max(will_do, _FAIR if long else 0.0)
    slack = loosening(guide.steps, step)
    return Cells(step.width, least, slack, guide, tails, will_do, narrowest, stretched, long)


def _window(guide: Saddle) -> float:
    """Return the length of a window, about."""
    return _WINDOW * float(np.interp(0.0, guide.theta, guide.spread))


def _first_width(guide: Saddle, epsilon: float, size: float, goal: float) -> float:
    """Return the width of cells at which the enclosure is about as wide as wanted.

    That is about three quarters of the variance they add, times the density.
    """
    log_density = float(np.interp(epsilon, guide.level, guide.log_density_at(1.0)))
    variance = goal * math.exp(min(size - max(log_density, -600.0), 600.0)) / 0.75
    return guide.width(epsilon, variance)


def _is_lower_without_large(small: Saddle, guide: Saddle, epsilon: float) -> bool:
    """Whether delta is smaller without the large losses."""
    return scale(small, epsilon, 1) < scale(guide, epsilon, 1) + math.log(_RARE)


def _log_delta(mechanism: Mechanism, epsilon: float) -> tuple[float, float]:
    """Roughly ``log delta``: of the small losses, or because one step has a large one.

    And the least that is enclosed.
    """
    low, high = reach(mechanism, 1e-3 * math.exp(_LOG_DEEPEST))
    guide, size, deepest = saddle(mechanism, low, high), _LOG_DEEPEST, _LOG_DEEPEST
    for _ in range(3):
        parted = few_large(mechanism, low, high, size)
        small = guide if parted is None else parted[0]
        one = _log_delta_of_one(mechanism, small, epsilon)
        deepest = _LOG_LEAST if _is_lower_without_large(small, guide, epsilon) else _LOG_DEEPEST
        size = min(max(scale(small, epsilon, 1), one, deepest), 0.0)
    return size, deepest


def _outside(
    guide: Saddle, theta: float, level: float, sign: int, size: float, tolerance: float
) -> float:
    """The logarithm of the tilted mass that may be missed."""
    log_scale = guide.at(theta) - theta * level + (level if sign > 0 else 0.0)
    return float(np.clip(math.log(1e-3 * tolerance) + size - log_scale, -42.0, -14.0))


def guess(guide: Saddle, size: float, sign: int) -> float:
    """Roughly the epsilon at which ``log delta`` of one direction is ``size``."""
    levels = np.sort(sign * guide.level[sign * guide.level >= 0.0])
    if not levels.size:
        return 0.0
    sizes = np.interp(sign * levels, guide.level, _log_deltas(guide, sign))
    return max(float(np.interp(-size, -np.minimum(sizes, 0.0), levels)), 0.0)


def epsilon_enclosure(mechanism: Mechanism, delta: float, tolerance: float) -> tuple[float, float]:
    """Enclose the smallest ``epsilon >= 0`` with ``delta(epsilon) <= delta``.

    Relative width ``tolerance``, or absolute ``1e-3 * tolerance`` where epsilon is below 1e-3.
    """
    q, a = mechanism.sampling_rate, mechanism.inverse_noise
    if mechanism.steps * q * math.erf(0.5 * a * math.sqrt(0.5)) < delta * (1.0 - 1e-9):
        return 0.0, 0.0  # delta(0) is at most all steps' total variations together
    low, high = reach(mechanism, delta * 1e-3 * tolerance)
    guide, cut = saddle(mechanism, low, high), math.inf
    levels = _guesses(guide, delta)
    parted = few_large(mechanism, low, high, math.log(delta))
    if parted is not None:
        found = _guesses(parted[0], delta)
        one = _epsilon_of_one(mechanism, parted[0], delta)
        if found[1] < _RARE * levels[1]:
            (guide, cut), levels = parted, found
        elif _negligible_by_chernoff(parted[0], one, delta):
            (guide, cut), levels = parted, {1: one, -1: found[-1]}
    theta = max(float(guide.tilt(np.array(levels[1]))), 1.0)
    width = guide.width(levels[1], tolerance * max(levels[1], 1e-3) / theta)
    if cut < math.inf:  # at first no narrower than is cheap
        width = max(width, 0.5 * narrowest(mechanism, low, high, tolerance))

    def lattice(width: float, finest: bool) -> Cells:
        goal = 0.0 if finest else tolerance
        least, stretched = narrowest(mechanism, low, high, goal), math.inf
        if width < least and cut < math.inf:
            least, stretched = narrowest(mechanism, low, high, goal, cut), cut
        if cut < math.inf and not finest:
            least = max(least, _window(guide) / _LONGEST)
        step = _step(mechanism, max(width, least), low, high, stretched)
        return _cells(step, least, guide, cut, math.log(delta), tolerance, finest)

    return refine_epsilon(lattice, width, levels, mechanism.lowest, delta, tolerance)


def rough_log_delta(mechanism: Mechanism, epsilon: float, log_delta: float) -> float:
    """Return roughly ``log delta`` near a value, from a saddle point alone, in milliseconds."""
    low, high = reach(mechanism, 1e-5 * math.exp(log_delta))
    parted = few_large(mechanism, low, high, log_delta)
    if parted is None:
        return scale(saddle(mechanism, low, high), epsilon, 1)
    small = scale(parted[0], epsilon, 1)
    return float(np.logaddexp(small, _log_delta_of_one(mechanism, parted[0], epsilon)))


def _log_delta_of_one(mechanism: Mechanism, small: Saddle, epsilon: float) -> float:
    """Roughly ``log delta`` because one step has a large loss, added to the small ones' mean."""
    q = mechanism.sampling_rate
    missing = epsilon - min(float(np.interp(0.0, small.theta, small.level)), 0.0)
    full = missing - math.log(q) + math.log1p((q - 1.0) * math.exp(-missing))
    return math.log(q * mechanism.steps) + log_delta_of_shift(full, mechanism.inverse_noise)


def _epsilon_of_one(mechanism: Mechanism, small: Saddle, delta: float) -> float:
    """Roughly the epsilon that one step with a large loss has."""
    low, high, target = 0.0, 1.0, math.log(delta)
    while _log_delta_of_one(mechanism, small, high) > target:
        low, high = high, 2.0 * high
    while high - low > 1e-3 * high > 1e-12:  # halving alone never ends at zero
        middle = 0.5 * (low + high)
        above = _log_delta_of_one(mechanism, small, middle) > target
        low, high = (middle, high) if above else (low, middle)
    return high


def _negligible_by_chernoff(small: Saddle, level: float, delta: float) -> bool:
    """Whether small losses alone hardly ever reach a level, by Chernoff's bound."""
    theta, log_norm = (values[small.theta >= 1.0] for values in (small.theta, small.log_norm))
    exponent = log_norm - small.at(1.0) - (theta - 1.0) * level
    return float(exponent.min()) < math.log((1.0 - _RARE) * delta)


def _guesses(guide: Saddle, delta: float) -> dict[int, float]:
    return {sign: sign * guess(guide, math.log(delta), sign) for sign in (1, -1)}


def _tails_near(
    guide: Saddle,
    step: Step,
    cut: float,
    sign: int,
    size: float,
    tolerance: float,
    level: float,
) -> tuple[Tails, Tails]:
    """Return the run's tails tilted to a level, or less far if that window is too long."""
    theta = float(guide.tilt(np.array(level)))
    theta = max(theta, _LEAST_TILT) if sign > 0 else min(theta, -_LEAST_TILT)
    for share in _SHARES:
        tilt = share * theta
        outside = _outside(guide, tilt, level, sign, size, tolerance)
        try:
            if cut < math.inf:
                return split_tails(step, guide, tilt, outside, cut)
            return run_tails(step, guide, tilt, outside)
        except TooLong:
            if share == _SHARES[-1]:
                raise
    raise AssertionError

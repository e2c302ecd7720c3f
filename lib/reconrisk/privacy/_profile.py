"""Enclosures of the privacy profile of sub-sampled DP-SGD, for adding and for removing a record.

With the record against without (``remove``), ``delta(epsilon)`` is the largest value of
``P_mu(E) - exp(epsilon) P_nu(E)`` over events ``E``; the other direction (``add``) exchanges the
laws. Neither is the larger for all compositions (Lebeda et al. 2024), so both are computed. From
above both are read off the dominating pair, whose profile is linear in ``exp(epsilon)`` between
lattice points; from below any threshold on the lattice statistic will do.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import numpy as np

from reconrisk.privacy._compose import TooLong
from reconrisk.privacy._gaussian import log_delta_of_shift
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
from reconrisk.privacy._total_variation import small_total_variation

__all__ = ["delta_enclosure", "epsilon_enclosure", "rough_log_delta"]

_ROUNDS = 12
_PASSES = 3
# rounds without any upper bound, after which closed forms have to do
_IN_VAIN = 3
#: large losses are treated apart if without them epsilon is smaller by this factor
_RARE = 0.95
#: logarithms of the smallest deltas that are enclosed with large losses apart, and without
_LOG_LEAST, _LOG_DEEPEST = -25.0 * math.log(10.0), -100.0 * math.log(10.0)
#: tolerance at which the size of delta is found
_ROUGH = 0.3
#: where there are so many cells, an enclosure that is wider than wanted by such a factor will do
_LONG, _ENOUGH = 1 << 15, 5.0
#: relative width above which an enclosure is worth as many cells as memory allows
_FAIR = 5e-3
#: size of delta above which a bound near one is no sign of cells that are too wide
_USELESS = 0.05
#: smallest tilt, which decides the tail that is summed, and those tried relative to a level's
_LEAST_TILT = 1e-9
_SHARES = (1.0, 0.6, 0.35, 0.2)
_POWERS = np.unique((2.0 ** np.arange(0.0, 22.0, 0.5)).astype(np.int64))
_NEAR = np.concatenate([-_POWERS[::-1], [0], _POWERS])

Lift = float | np.ndarray
Direction = Callable[[Tails, np.ndarray, Lift], tuple[np.ndarray, ...]]


def _removed(tails: Tails, index: np.ndarray, lift: Lift) -> tuple[np.ndarray, ...]:
    """Bounds on the tails of the likely law and of ``exp(lift)`` times the other's.

    In the order low, high, low, high.
    """
    return (*tails.mu.up(index), *tails.nu.up(index, lift))


def _added(tails: Tails, index: np.ndarray, lift: Lift) -> tuple[np.ndarray, ...]:
    return (*tails.nu.down(index), *tails.mu.down(index, lift))


def _above(tails: Tails, direction: Direction, sign: int, epsilon: float) -> float:
    """The dominating pair's profile, by linear interpolation between lattice points."""
    index = tails.index(np.array([sign * epsilon])) + np.arange(-1, 3)
    points = sign * tails.log_ratio(index)
    _, likely, other, _ = direction(tails, index, points)
    values = np.maximum(likely - other, 0.0)
    order = np.argsort(points)
    points, values = points[order], values[order]
    j = int(np.clip(np.searchsorted(points, epsilon) - 1, 0, points.size - 2))
    gap = math.expm1(min(points[j + 1] - points[j], 700.0))
    if gap <= 0:  # cells narrower than the rounding of the loss
        return float(values[j : j + 2].max())
    share = min(max(math.expm1(min(epsilon - points[j], 700.0)) / gap, 0.0), 1.0)
    return float(values[j] + share * (values[j + 1] - values[j]))


def _best_test(
    statistic: Tails, sign: int, start: float, worth: Callable[[np.ndarray], np.ndarray]
) -> float:
    """Return the largest worth of a threshold test, on thresholds searched around ``start``.

    Any threshold gives a bound. The best one differs from the level of the loss by the steps' mean
    rounding, which is more than a cell for many steps.
    """
    centre, best = int(statistic.index(np.array([sign * start]))[0]), -math.inf
    bottom, top = statistic.first, statistic.last
    for _ in range(_ROUNDS):
        places = np.unique(np.clip(centre + _NEAR, bottom, top))
        values = worth(places)
        found = float(values.max())
        if not found > best:
            break
        best, centre = found, int(places[int(np.argmax(values))])
    return best


def _sides(mechanism: Mechanism, epsilon: float) -> list[tuple[Direction, int]]:
    sides: list[tuple[Direction, int]] = [(_removed, 1)]
    if -epsilon > mechanism.lowest:  # below its smallest value the loss has no mass
        sides.append((_added, -1))
    return sides


def _scale(guide: Saddle, level: float, sign: int) -> float:
    """Roughly ``log delta`` at a level of the loss."""
    like, other = (guide.log_tail(s, sign) for s in ((1.0, 0.0) if sign > 0 else (0.0, 1.0)))
    ratio = np.minimum(other + sign * guide.level - like, -1e-9)
    return float(np.interp(level, guide.level, like + np.log(-np.expm1(ratio))))


def delta_enclosure(mechanism: Mechanism, epsilon: float, tolerance: float) -> tuple[float, float]:
    """Enclose ``delta(epsilon)``, the larger of both directions; relative width ``tolerance``.

    Where large losses are treated apart, the lower bound is far from deltas below 1e-25; elsewhere
    from those below 1e-100.
    """
    if epsilon == 0.0:
        small = small_total_variation(mechanism)
        if small is not None:
            return small
    (size, deepest), goal = _log_delta(mechanism, epsilon), max(tolerance, _ROUGH)
    lower, upper, gap, share, finest, aim = 0.0, 1.0, math.inf, 1.0, False, 0.0
    for _ in range(_ROUNDS):
        low, high = reach(mechanism, math.exp(size) * 1e-3 * goal)
        guide, cut = saddle(mechanism, low, high), math.inf
        least = narrowest(mechanism, low, high, 0.0 if finest else goal)
        width, stretched = share * _first_width(guide, epsilon, size, goal), math.inf
        parted = few_large(mechanism, low, high, size)
        if parted is not None and (width < least or _lower(parted[0], guide, epsilon)):
            guide, cut = parted
            width = share * _first_width(guide, epsilon, size, goal)
        if width < least and cut < math.inf:
            least = narrowest(mechanism, low, high, 0.0 if finest else goal, cut)
            stretched = cut
        width = max(width, least, aim)
        a, q = mechanism.inverse_noise, mechanism.sampling_rate
        step = one_step(a, q, width, low, high, stretched)
        slack = loosening(mechanism.steps, step)
        try:
            bounds = []
            sides = _sides(mechanism, epsilon)
            # both directions have the same total variation
            for direction, sign in sides[:1] if epsilon == 0.0 and stretched < math.inf else sides:
                above, below = _tails_near(guide, step, cut, sign, size, goal, sign * epsilon)
                worth = partial(_profile_at, below, direction, epsilon)
                low_end = max(_best_test(below, sign, epsilon, worth), 0.0)
                high_end = slack * _above(above, direction, sign, epsilon - math.log(slack))
                bounds.append((low_end, min(high_end, 1.0)))
        except TooLong:
            share *= 2.0
            continue
        lower = max(lower, max(b[0] for b in bounds))
        found = max(b[1] for b in bounds)
        upper = min(upper, found)
        before, gap = gap, (upper - lower) / max(upper, 1e-300)
        moved = math.log(max(upper, 1e-300)) - size
        if gap <= tolerance or upper < math.exp(deepest):
            break
        if found > 0.5 and size < math.log(_USELESS) and width > least:
            share *= 0.25  # cells too wide for the other direction's narrow losses
        elif abs(moved) >= 1.0 and size > deepest:
            size = max(size + moved, deepest)
        elif goal > tolerance:
            goal = tolerance
        elif width <= least and (gap <= _FAIR or finest) or gap > 0.95 * before:
            break
        elif _will_do(gap, tolerance, step):
            break
        else:
            finest = width <= least
            if finest and stretched < math.inf:  # only as narrow as is fair
                aim = width * math.sqrt(0.4 * _FAIR / gap)
            share *= float(np.clip(0.85 * math.sqrt(tolerance / gap), 0.05, 0.7))
    return lower, upper


def _first_width(guide: Saddle, epsilon: float, size: float, goal: float) -> float:
    """Return the width of cells at which the enclosure is about as wide as wanted.

    That is about three quarters of the variance they add, times the density.
    """
    log_density = float(np.interp(epsilon, guide.level, guide.log_density_at(1.0)))
    variance = goal * math.exp(min(size - max(log_density, -600.0), 600.0)) / 0.75
    return guide.width(epsilon, variance)


def _will_do(gap: float, tolerance: float, step: Step) -> bool:
    if step.nu.some is not None:
        return step.nu.mass.size > _LONG >> 2 and gap <= 2.0 * _ENOUGH * tolerance
    return step.nu.mass.size > _LONG and gap <= _ENOUGH * tolerance


def _lower(small: Saddle, guide: Saddle, epsilon: float) -> bool:
    """Whether delta is smaller without the large losses."""
    return _scale(small, epsilon, 1) < _scale(guide, epsilon, 1) + math.log(_RARE)


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
        deepest = _LOG_LEAST if _lower(small, guide, epsilon) else _LOG_DEEPEST
        size = min(max(_scale(small, epsilon, 1), one, deepest), 0.0)
    return size, deepest


def _outside(
    guide: Saddle, theta: float, level: float, sign: int, size: float, tolerance: float
) -> float:
    """The logarithm of the tilted mass that may be missed."""
    log_scale = guide.at(theta) - theta * level + (level if sign > 0 else 0.0)
    return float(np.clip(math.log(1e-3 * tolerance) + size - log_scale, -42.0, -14.0))


def _guess(guide: Saddle, size: float, sign: int) -> float:
    """Roughly the epsilon at which ``log delta`` of one direction is ``size``."""
    levels = np.sort(sign * guide.level[sign * guide.level >= 0.0])
    if not levels.size:
        return 0.0
    sizes = np.array([_scale(guide, sign * v, sign) for v in levels])
    return max(float(np.interp(-size, -np.minimum(sizes, 0.0), levels)), 0.0)


def epsilon_enclosure(mechanism: Mechanism, delta: float, tolerance: float) -> tuple[float, float]:
    """Enclose the smallest ``epsilon >= 0`` with ``delta(epsilon) <= delta``.

    Both bounds on the profile are inverted at no further composition; relative width ``tolerance``,
    or absolute ``1e-3 * tolerance`` where epsilon is below a thousandth.
    """
    q, a = mechanism.sampling_rate, mechanism.inverse_noise
    if mechanism.steps * q * math.erf(0.5 * a * math.sqrt(0.5)) < delta * (1.0 - 1e-9):
        return 0.0, 0.0  # delta(0) is at most all steps' total variations together
    low, high = reach(mechanism, delta * 1e-3 * tolerance)
    guide, cut = saddle(mechanism, low, high), math.inf
    least = narrowest(mechanism, low, high, tolerance)
    levels = _guesses(guide, delta)
    parted = few_large(mechanism, low, high, math.log(delta))
    if parted is not None:
        found = _guesses(parted[0], delta)
        if found[1] < _RARE * levels[1]:
            (guide, cut), levels = parted, found
    theta = max(float(guide.tilt(np.array(levels[1]))), 1.0)
    width = guide.width(levels[1], tolerance * max(levels[1], 1e-3) / theta)
    lower, upper, gap, in_vain, stretched = 0.0, math.inf, math.inf, 0, math.inf
    for _ in range(_ROUNDS):
        if width < least and cut < stretched:
            width = max(width, 0.5 * least)
            least, stretched = narrowest(mechanism, low, high, tolerance, cut), cut
        width = max(width, least)
        step = one_step(a, q, width, low, high, stretched)
        ends = [(0.0, 0.0)]
        try:
            for direction, sign in ((_removed, 1), (_added, -1)):
                # the loss is never below ``lowest``: further on, adding a record shows nothing
                limit = math.inf if sign > 0 else -mechanism.lowest * (1.0 + 1e-12)
                if max(end[0] for end in ends) >= limit:
                    break
                tails = partial(_tails_near, guide, step, cut, sign, math.log(delta), tolerance)
                end = _inverted(tails, guide, step, direction, levels[sign], delta, tolerance)
                levels[sign] = sign * end[1] if end[1] < math.inf else levels[sign]
                ends.append((end[0], min(end[1], limit)))
        except TooLong:
            width = least = 2.0 * width
            continue
        lower = max(lower, max(end[0] for end in ends))
        upper = min(upper, max(end[1] for end in ends))
        before, gap = gap, (upper - lower) / max(upper, 1e-3)
        fair = upper - lower <= max(_FAIR * upper, 1e-3)
        in_vain += upper == math.inf
        if in_vain == _IN_VAIN:
            break
        if width <= least and not fair:
            least = min(least, narrowest(mechanism, low, high, 0.0, stretched))
        finest = width <= least and stretched <= cut
        if gap <= tolerance or finest or gap > 0.95 * before:
            break
        if _will_do(gap, tolerance, step):
            break
        factor = 0.85 * math.sqrt(tolerance / gap) if 0 < gap < math.inf else 2.0
        width *= float(np.clip(factor, 0.05, 0.7))
    return lower, upper


def rough_log_delta(mechanism: Mechanism, epsilon: float, log_delta: float) -> float:
    """Return roughly ``log delta`` near a value, from a saddle point alone, in milliseconds."""
    low, high = reach(mechanism, 1e-5 * math.exp(log_delta))
    parted = few_large(mechanism, low, high, log_delta)
    if parted is None:
        return _scale(saddle(mechanism, low, high), epsilon, 1)
    small = _scale(parted[0], epsilon, 1)
    return float(np.logaddexp(small, _log_delta_of_one(mechanism, parted[0], epsilon)))


def _log_delta_of_one(mechanism: Mechanism, small: Saddle, epsilon: float) -> float:
    """Roughly ``log delta`` because one step has a large loss, added to the small ones' mean."""
    q = mechanism.sampling_rate
    missing = epsilon - min(float(np.interp(0.0, small.theta, small.level)), 0.0)
    full = missing - math.log(q) + math.log1p((q - 1.0) * math.exp(-missing))
    return math.log(q * mechanism.steps) + log_delta_of_shift(full, mechanism.inverse_noise)


def _guesses(guide: Saddle, delta: float) -> dict[int, float]:
    return {sign: sign * _guess(guide, math.log(delta), sign) for sign in (1, -1)}


def _inverted(
    tails: Callable[[float], tuple[Tails, Tails]],
    guide: Saddle,
    step: Step,
    direction: Direction,
    level: float,
    delta: float,
    tolerance: float,
) -> tuple[float, float]:
    """Enclose epsilon in one direction, from cells of one width.

    The tilt for a rough ``level`` is corrected while the bounds move away from it.
    """
    sign = 1 if direction is _removed else -1
    slack = loosening(guide.steps, step)
    lower, upper = 0.0, math.inf
    for _ in range(_PASSES):
        above, below = tails(level)
        new = _invert(partial(_small_enough, above, direction, sign, delta / slack))
        new += math.log(slack)
        upper = min(upper, new)
        if new == math.inf:
            break
        worth = partial(_ruled_out, below, direction, delta, upper)
        ruled_out = _best_test(below, sign, upper, worth)
        lower = max(lower, ruled_out * (1.0 - 1e-12) - 1e-15)
        moved, level = abs(level - sign * upper), sign * upper
        spread = float(np.interp(level, guide.level, guide.spread))
        if moved < min(spread, 0.02 * upper) or upper - lower <= tolerance * max(upper, 1e-3):
            break
    return lower, upper


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


def _small_enough(
    pair: Tails, direction: Direction, sign: int, delta: float, epsilon: float
) -> bool:
    return _above(pair, direction, sign, epsilon) <= delta


def _profile_at(
    statistic: Tails, direction: Direction, epsilon: float, index: np.ndarray
) -> np.ndarray:
    """Return lower bounds on the profile at ``epsilon``, from threshold tests."""
    low, _, _, high = direction(statistic, index, epsilon)
    return low - high


def _ruled_out(
    statistic: Tails, direction: Direction, delta: float, near: float, index: np.ndarray
) -> np.ndarray:
    """Return the largest epsilon that each threshold test rules out at ``delta``."""
    low, _, _, high = direction(statistic, index, near)
    with np.errstate(divide="ignore", invalid="ignore"):
        found = near + np.log(low - delta) - np.log(high)
    # smaller tails are inaccurate
    return np.where((low > delta) & (high > 1e-290), found, -math.inf)


def _invert(fits: Callable[[float], bool]) -> float:
    """The smallest epsilon that fits, to 1e-14 from above; infinity beyond 1e9."""
    if fits(0.0):
        return 0.0
    low, high = 0.0, 1.0
    while not fits(high):
        low, high = high, 2.0 * high
        if high > 1e9:
            return math.inf
    while high - low > 1e-13 * high:
        middle = 0.5 * (low + high)
        if middle in (low, high):
            break
        low, high = (low, middle) if fits(middle) else (middle, high)
    return high

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
from reconrisk.privacy._saddle import Mechanism, Saddle, narrowest, reach, saddle
from reconrisk.privacy._step import one_step
from reconrisk.privacy._tails import Tails, loosening, run_tails

__all__ = ["delta_enclosure", "epsilon_enclosure"]

_ROUNDS = 12
_NEAR = np.arange(-3, 5)

Direction = Callable[[Tails, np.ndarray], tuple[np.ndarray, ...]]


def _removed(tails: Tails, index: np.ndarray) -> tuple[np.ndarray, ...]:
    """Bounds on the tails of the likely law and of the other one, (low, high, low, high)."""
    return (*tails.mu.up(index), *tails.nu.up(index))


def _added(tails: Tails, index: np.ndarray) -> tuple[np.ndarray, ...]:
    return (*tails.nu.down(index), *tails.mu.down(index))


def _above(tails: Tails, direction: Direction, sign: int, epsilon: float) -> float:
    """The dominating pair's profile, by linear interpolation between lattice points."""
    index = tails.index(np.array([sign * epsilon])) + np.arange(-1, 3)
    points = sign * tails.log_ratio(index)
    first = direction(tails, index)
    values = np.maximum(first[1] - np.exp(np.minimum(points, 690.0)) * first[2], 0.0)
    order = np.argsort(points)
    points, values = points[order], values[order]
    j = int(np.clip(np.searchsorted(points, epsilon) - 1, 0, points.size - 2))
    gap = math.expm1(points[j + 1] - points[j])
    if gap <= 0:  # cells narrower than the rounding of the loss
        return float(values[j : j + 2].max())
    share = min(max(math.expm1(epsilon - points[j]) / gap, 0.0), 1.0)
    return float(values[j] + share * (values[j + 1] - values[j]))


def _below(tails: Tails, direction: Direction, sign: int, epsilon: float) -> float:
    index = tails.index(np.array([sign * epsilon])) + _NEAR
    low, _, _, high = direction(tails, index)
    return max(float(np.max(low - math.exp(min(epsilon, 690.0)) * high)), 0.0)


def _sides(mechanism: Mechanism, epsilon: float) -> list[tuple[Direction, int]]:
    sides: list[tuple[Direction, int]] = [(_removed, 1)]
    if -epsilon > mechanism.lowest:  # below its smallest value the loss has no mass
        sides.append((_added, -1))
    return sides


def _scale(guide: Saddle, level: float, sign: int) -> float:
    """Roughly ``log delta`` at a level of the loss."""
    like, other = (guide.log_tail(s) for s in ((1.0, 0.0) if sign > 0 else (0.0, 1.0)))
    if sign < 0:
        like, other = (np.log(-np.expm1(np.minimum(v, -1e-12))) for v in (like, other))
    ratio = np.minimum(other + sign * guide.level - like, -1e-9)
    return float(np.interp(level, guide.level, like + np.log(-np.expm1(ratio))))


def delta_enclosure(mechanism: Mechanism, epsilon: float, tolerance: float) -> tuple[float, float]:
    """Enclose ``delta(epsilon)``, the larger of both directions; relative width ``tolerance``."""
    guide = saddle(mechanism, *reach(mechanism, 1e-150))
    size = max(_scale(guide, epsilon, 1), -600.0)
    low, high = reach(mechanism, math.exp(max(size, -400.0)) * 1e-3 * tolerance)
    guide = saddle(mechanism, low, high)
    least = narrowest(mechanism, low, high)
    # the enclosure's width is about three quarters of the added variance times the density
    log_density = float(np.interp(epsilon, guide.level, guide.log_density_at(1.0)))
    variance = tolerance * math.exp(min(size - max(log_density, -600.0), 600.0)) / 0.75
    width = max(guide.width(epsilon, variance), least)
    lower, upper, gap = 0.0, 1.0, math.inf
    for _ in range(_ROUNDS):
        bounds, too_long = [], False
        step = one_step(mechanism.inverse_noise, mechanism.sampling_rate, width, low, high)
        slack = loosening(mechanism.steps, step)
        for direction, sign in _sides(mechanism, epsilon):
            theta = float(guide.tilt(np.array(sign * epsilon)))
            outside = _outside(guide, theta, sign * epsilon, sign, size, tolerance)
            try:
                above, below = run_tails(step, guide, theta, outside)
            except TooLong:
                too_long = True
                break
            high_end = min(slack * _above(above, direction, sign, epsilon), 1.0)
            low_end = _below(below, direction, sign, epsilon)
            bounds.append((low_end, high_end))
        if too_long:
            least = 2.0 * width
        else:
            lower = max(lower, max(b[0] for b in bounds))
            upper = min(upper, max(b[1] for b in bounds))
            before, gap = gap, (upper - lower) / max(upper, 1e-300)
            if gap <= tolerance or width <= least or gap > 0.95 * before:
                break
        factor = 0.85 * math.sqrt(tolerance / gap) if gap < math.inf else 2.0
        width = max(width * float(np.clip(factor, 0.05, 0.7)), least)
    return lower, upper


def _outside(
    guide: Saddle, theta: float, level: float, sign: int, size: float, tolerance: float
) -> float:
    """The logarithm of the tilted mass that may be missed."""
    log_scale = guide.at(theta) - theta * level + (level if sign > 0 else 0.0)
    return float(np.clip(math.log(1e-3 * tolerance) + size - log_scale, -42.0, -14.0))


def epsilon_enclosure(mechanism: Mechanism, delta: float, tolerance: float) -> tuple[float, float]:
    """Enclose the smallest ``epsilon >= 0`` with ``delta(epsilon) <= delta``.

    Both bounds on the profile are inverted by bisection, at no further composition; relative width
    ``tolerance``, or absolute ``1e-3 * tolerance`` where epsilon is below a thousandth.
    """
    low, high = reach(mechanism, delta * 1e-3 * tolerance)
    guide = saddle(mechanism, low, high)
    least = narrowest(mechanism, low, high)
    size = math.log(delta)
    start = int(np.searchsorted(guide.level, 0.0))
    sizes = np.array([_scale(guide, v, 1) for v in guide.level[start:]])
    guess = float(np.interp(-size, -np.minimum(sizes, 0.0), guide.level[start:]))
    levels = {1: max(guess, 0.0), -1: -max(guess, 0.0)}
    theta = max(float(guide.tilt(np.array(guess))), 1.0)
    width = max(guide.width(guess, tolerance * max(guess, 1e-3) / theta), least)
    lower, upper, gap = 0.0, math.inf, math.inf
    for _ in range(_ROUNDS):
        step = one_step(mechanism.inverse_noise, mechanism.sampling_rate, width, low, high)
        slack = loosening(mechanism.steps, step)
        found: list[tuple[float, float]] = [(0.0, 0.0)]
        too_long = False
        for direction, sign in ((_removed, 1), (_added, -1)):
            # the loss is never below ``lowest``: further on, adding a record shows nothing
            limit = math.inf if sign > 0 else -mechanism.lowest * (1.0 + 1e-12)
            if max(f[0] for f in found) >= limit:
                break
            for _ in range(2):
                theta = float(guide.tilt(np.array(levels[sign])))
                outside = _outside(guide, theta, levels[sign], sign, size, tolerance)
                try:
                    above, below = run_tails(step, guide, theta, outside)
                except TooLong:
                    too_long = True
                    break
                high_end = _invert(partial(_small_enough, above, direction, sign, delta / slack))
                low_end = _retreat(partial(_too_large, below, direction, sign, delta), high_end)
                high_end = min(high_end, limit)
                if high_end == math.inf:
                    break
                moved = abs(levels[sign] - sign * high_end)
                levels[sign] = sign * high_end
                if moved < float(np.interp(levels[sign], guide.level, guide.spread)):
                    break
            if too_long:
                break
            found.append((max(low_end * (1.0 - 1e-12) - 1e-15, 0.0), high_end))
        if too_long:
            least = 2.0 * width
        else:
            lower = max(lower, max(f[0] for f in found))
            upper = min(upper, max(f[1] for f in found))
            before, gap = gap, (upper - lower) / max(upper, 1e-3)
            if gap <= tolerance or width <= least or gap > 0.95 * before:
                break
        factor = 0.85 * math.sqrt(tolerance / gap) if 0 < gap < math.inf else 2.0
        width = max(width * float(np.clip(factor, 0.05, 0.7)), least)
    return lower, upper


def _small_enough(
    pair: Tails, direction: Direction, sign: int, delta: float, epsilon: float
) -> bool:
    return _above(pair, direction, sign, epsilon) <= delta


def _too_large(
    statistic: Tails, direction: Direction, sign: int, delta: float, epsilon: float
) -> bool:
    return _below(statistic, direction, sign, epsilon) > delta


def _invert(fits: Callable[[float], bool]) -> float:
    """The smallest epsilon that fits, to 1e-14 from above; infinity beyond 1e6."""
    if fits(0.0):
        return 0.0
    low, high = 0.0, 1.0
    while not fits(high):
        low, high = high, 2.0 * high
        if high > 1e6:
            return math.inf
    while high - low > 1e-13 * high:
        middle = 0.5 * (low + high)
        if middle in (low, high):
            break
        low, high = (low, middle) if fits(middle) else (middle, high)
    return high


def _retreat(fails: Callable[[float], bool], upper: float) -> float:
    """The largest epsilon below ``upper`` that fails, to 1e-14 from below, or zero."""
    move = 1e-6 * upper
    while move < upper and not fails(upper - move):
        move *= 4.0
    if not move < upper < math.inf:
        return 0.0
    low, high = upper - move, upper
    while high - low > 1e-13 * high:
        middle = 0.5 * (low + high)
        if middle in (low, high):
            break
        low, high = (middle, high) if fails(middle) else (low, middle)
    return low

"""Epsilon and delta of a composition, both directions, by cells that are narrowed while it pays.

With the record against without (``remove``), ``delta(epsilon)`` is the largest value of
``P_mu(E) - exp(epsilon) P_nu(E)`` over events ``E``; the other direction (``add``) exchanges the
laws. Neither is the larger for all compositions (Lebeda et al. 2024), so both are computed, until
one is certain to be the smaller. From above both are read off the dominating pair, whose profile is
linear in ``exp(epsilon)`` between lattice points; from below any threshold on the lattice statistic
will do.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from scipy import optimize

from reconrisk.privacy._compose import TooLong
from reconrisk.privacy._saddle import Saddle
from reconrisk.privacy._tails import Tails

__all__ = ["Cells", "refine_delta", "refine_epsilon"]

_ROUNDS, _PASSES = 12, 3
# rounds without any upper bound, after which closed forms have to do
_IN_VAIN = 3
#: size of delta above which a bound near one is no sign of cells that are too wide
_USELESS = 0.05
#: relative width of an enclosure that is not worth a long transform
_FAIR = 5e-3
#: part of a gap due to rounding errors at which narrower cells are not worth their cost
_ROUNDED = 0.75
#: epsilon below which its width may be absolute where cells are many
_LARGE = 0.25
_POWERS = np.unique((2.0 ** np.arange(0.0, 22.0, 0.5)).astype(np.int64))
_NEAR = np.concatenate([-_POWERS[::-1], [0], _POWERS])

Lift = float | np.ndarray
Direction = Callable[[Tails, np.ndarray, Lift], tuple[np.ndarray, ...]]


@dataclass(frozen=True)
class Cells:
    """A composition on a lattice.

    Attributes
    ----------
    width, least : float
        Of the cells, and the smallest one that is worth its cost.
    slack : float
        Bound on the factor by which rounding reduces likelihood ratios.
    guide : Saddle
    tails : callable
        Returns the tails of the dominating pair and of the lattice statistic, near a level in a
        direction, 1 for ``remove`` and -1 for ``add``; raises :class:`TooLong`.
    will_do : float
        Relative width with which narrower cells are not worth their cost.
    narrowest : bool
        Whether no narrower cells than ``least`` can be had, however wide the enclosure.
    stretched : bool
        Whether large losses have wider cells.
    long : bool
        Whether narrower cells need transforms that take a second.
    """

    width: float
    least: float
    slack: float
    guide: Saddle
    tails: Callable[[int, float], tuple[Tails, Tails]]
    will_do: float
    narrowest: bool
    stretched: bool = False
    long: bool = False


# Refinement --------------------------------------------------------------------------------------


@dataclass
class _Side:
    """What is known of one direction."""

    direction: Direction
    sign: int
    lower: float
    upper: float


def _both(sides: list[_Side]) -> tuple[float, float]:
    return max(s.lower for s in sides), max(s.upper for s in sides)


def refine_delta(
    lattice: Callable[[float, float, float, bool, float], Cells],
    epsilon: float,
    lowest: float,
    size: float,
    deepest: float,
    tolerance: float,
    rough: float,
) -> tuple[float, float]:
    """Enclose ``delta(epsilon)``, the larger of both directions; relative width ``tolerance``.

    Parameters
    ----------
    lattice : callable
        Returns cells for the logarithm of delta, a relative width of its enclosure, a factor of the
        first width, whether to go to the limit of memory, and the smallest width that is wanted.
    lowest : float
        Infimum of the privacy loss.
    size, deepest : float
        Rough logarithm of delta, and the smallest one that is enclosed.
    rough : float
        Relative width with which the size of delta is found.
    """
    sides = [_Side(_tails_removing, 1, 0.0, 1.0)]
    if -epsilon > lowest:  # below its smallest value the loss has no mass
        sides.append(_Side(_tails_adding, -1, 0.0, 1.0))
    goal, gap, share, finest, aim, last = max(tolerance, rough), math.inf, 1.0, False, 0.0, math.inf
    lower, upper = 0.0, 1.0
    for _ in range(_ROUNDS):
        cells = lattice(size, goal, share, finest, aim)
        # both directions have the same total variation
        used = sides[:1] if epsilon == 0.0 and cells.stretched else sides
        narrower, last = cells.width < 0.9 * last, cells.width
        try:
            worst, noise = _narrowed_delta(cells, used, epsilon)
        except TooLong:
            if gap <= _FAIR:
                break
            share *= 2.0
            continue
        lower, upper = _both(used)
        before, gap = gap, (upper - lower) / max(upper, 1e-300)
        moved = math.log(max(upper, 1e-300)) - size
        # not while only its size is looked for
        enough = max(tolerance, cells.will_do * (goal <= tolerance))
        if gap <= enough or upper < math.exp(deepest):
            break
        if worst > 0.5 and size < math.log(_USELESS) and cells.width > cells.least:
            share *= 0.25  # cells too wide for the other direction's narrow losses
        elif abs(moved) >= 1.0 and size > deepest:
            size = max(size + moved, deepest)
        elif goal > tolerance:
            goal = tolerance
        elif gap > 0.95 * before and narrower or 2.0 * noise > _ROUNDED * (upper - lower):
            break
        elif (
            gap <= _FAIR
            and aim > 0.0
            or cells.width <= cells.least
            and (gap <= _FAIR or finest or cells.narrowest)
        ):
            break
        else:
            finest = finest or cells.width <= cells.least
            if finest and (cells.stretched or cells.long):  # only as narrow as is fair
                aim = cells.width * math.sqrt(0.5 * _FAIR / gap)
            share *= float(np.clip(0.85 * math.sqrt(tolerance / gap), 0.05, 0.7))
    return lower, upper


def _narrowed_delta(cells: Cells, sides: list[_Side], epsilon: float) -> tuple[float, float]:
    """Bound delta in every direction that may be the larger.

    Return the largest new upper bound, and how much of it are rounding errors.
    """
    worst = noise = 0.0
    for side in sides:
        if side.upper <= _both(sides)[0]:
            continue
        above, below = cells.tails(side.sign, side.sign * epsilon)
        worth = partial(_profile_at, below, side.direction, epsilon)
        side.lower = max(side.lower, _best_test(below, side.sign, epsilon, worth))
        shifted = epsilon - math.log(cells.slack)
        found = min(cells.slack * _above(above, side.direction, side.sign, shifted), 1.0)
        if found > worst:
            ends = side.direction(above, above.index(np.array([side.sign * epsilon])), epsilon)
            noise = float(ends[1][0] - ends[0][0] + ends[3][0] - ends[2][0])
        side.upper, worst = min(side.upper, found), max(worst, found)
    return worst, noise


def refine_epsilon(
    lattice: Callable[[float, bool], Cells],
    width: float,
    levels: dict[int, float],
    lowest: float,
    delta: float,
    tolerance: float,
) -> tuple[float, float]:
    """Enclose the smallest ``epsilon >= 0`` with ``delta(epsilon) <= delta``.

    Both bounds on the profile are inverted at no further composition; relative width ``tolerance``,
    or absolute ``1e-3 * tolerance`` where epsilon is below a thousandth.

    Parameters
    ----------
    lattice : callable
        Returns cells for a width, and whether to go to the limit of memory.
    width : float
        Of the first cells.
    levels : dict
        Rough levels of the loss for both directions; changed here.
    """
    # adding a record never shows more than the largest negative loss
    most = -lowest * (1.0 + 1e-12)
    sides = [_Side(_tails_removing, 1, 0.0, math.inf), _Side(_tails_adding, -1, 0.0, most)]
    gap, floor, in_vain, finest = math.inf, 0.0, 0, False
    lower, upper = 0.0, math.inf
    for _ in range(_ROUNDS):
        cells = lattice(max(width, floor), finest)
        width = cells.width
        try:
            for side in sides:
                if side.upper <= _both(sides)[0]:
                    continue
                low, high = _enclose_direction(cells, side, levels[side.sign], delta, tolerance)
                levels[side.sign] = side.sign * high if high < math.inf else levels[side.sign]
                side.lower, side.upper = max(side.lower, low), min(side.upper, high)
        except TooLong:
            width = floor = 2.0 * width
            continue
        lower, upper = _both(sides)
        before, gap = gap, (upper - lower) / max(upper, 1e-3)
        in_vain += upper == math.inf
        if in_vain == _IN_VAIN or gap <= tolerance or gap > 0.95 * before:
            break
        if upper - lower <= cells.will_do * max(upper, _LARGE):
            break
        at_least = width <= cells.least
        if finest or at_least:
            fair = upper - lower <= max(_FAIR * upper, 1e-3)
            if fair or at_least and (finest or cells.narrowest):
                break
            finest = True
        factor = 0.85 * math.sqrt(tolerance / gap) if 0 < gap < math.inf else 2.0
        if finest and gap < math.inf:  # only as narrow as is fair
            factor = max(factor, math.sqrt(0.7 * _FAIR / gap))
        width *= float(np.clip(factor, 0.05, 0.7))
    return lower, upper


def _enclose_direction(
    cells: Cells, side: _Side, level: float, delta: float, tolerance: float
) -> tuple[float, float]:
    """Enclose epsilon in one direction, from cells of one width.

    The tilt for a rough ``level`` is corrected while the bounds move away from it.
    """
    direction, sign = side.direction, side.sign
    lower, upper = 0.0, math.inf
    for _ in range(_PASSES):
        above, below = cells.tails(sign, level)
        new = _invert(partial(_excess, above, direction, sign, delta / cells.slack))
        new += math.log(cells.slack)
        upper = min(upper, new)
        if new == math.inf:
            break
        worth = partial(_ruled_out, below, direction, delta, upper)
        ruled_out = _best_test(below, sign, upper, worth)
        lower = max(lower, ruled_out * (1.0 - 1e-12) - 1e-15)
        moved, level = abs(level - sign * upper), sign * upper
        spread = float(np.interp(level, cells.guide.level, cells.guide.spread))
        if moved < min(spread, 0.02 * upper) or upper - lower <= tolerance * max(upper, 1e-3):
            break
    return lower, upper


# Bounds from tails --------------------------------------------------------------------------------


def _tails_removing(tails: Tails, index: np.ndarray, lift: Lift) -> tuple[np.ndarray, ...]:
    """Bounds on the tails of the likely law and of ``exp(lift)`` times the other's.

    In the order low, high, low, high.
    """
    return (*tails.mu.up(index), *tails.nu.up(index, lift))


def _tails_adding(tails: Tails, index: np.ndarray, lift: Lift) -> tuple[np.ndarray, ...]:
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


def _excess(pair: Tails, direction: Direction, sign: int, delta: float, epsilon: float) -> float:
    return _above(pair, direction, sign, epsilon) - delta


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


def _invert(excess: Callable[[float], float]) -> float:
    """An epsilon without excess, within 1e-13 of where excess ends; infinity beyond 1e9.

    What is undefined counts as excess.
    """

    def above(epsilon: float) -> float:
        value = excess(epsilon)
        return 1.0 if math.isnan(value) else value

    if above(0.0) <= 0.0:
        return 0.0
    low, high = 0.0, 1.0
    while above(high) > 0.0:
        low, high = high, 2.0 * high
        if high > 1e9:
            return math.inf
    found = float(optimize.brentq(above, low, high, xtol=1e-20, rtol=1e-13, maxiter=1000))
    step = max(1e-13 * found, 1e-20)
    while found < high and above(found) > 0.0:
        found, step = min(found + step, high), 2.0 * step
    return found

"""Certified epsilon of sub-sampled von Mises-Fisher noise, from its privacy-loss distribution."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from reconrisk import arguments
from reconrisk._types import Enclosure
from reconrisk.privacy import _vmf_step
from reconrisk.privacy._compose import TooLong
from reconrisk.privacy._saddle import MOST_CELLS, Saddle
from reconrisk.privacy._step import Step
from reconrisk.privacy._tails import Tails, run_tails

__all__ = ["vmf_epsilon"]

_ROUNDS = 10


@np.errstate(under="ignore")
def vmf_epsilon(
    concentration: float,
    dimension: int,
    delta: float,
    sampling_rate: float = 1.0,
    steps: int = 1,
    *,
    tolerance: float = 1e-4,
) -> Enclosure:
    """Smallest epsilon at which von Mises-Fisher releases on Poisson samples are private.

    Every release perturbs the direction of a unit vector. A sampled record may change that
    direction arbitrarily, so that the worst case is a pair of opposite directions, with the record
    added or removed.

    Parameters
    ----------
    concentration : float
        kappa in [0, 1e5].
    dimension : int
        p in [2, 1e9].
    delta : float
        In [1e-100, 1).
    sampling_rate : float
        q in (0, 1].
    steps : int
        Number of releases T >= 1.
    tolerance : float
        Target width of the enclosure, relative to epsilon.

    Returns
    -------
    Enclosure
        Contains epsilon, in nats; discretisation and rounding errors are bounded and included. It
        is wider than the target where memory or rounding errors require it, and uninformative above
        690 nats, where likelihood ratios overflow.

    Raises
    ------
    ValueError
        If an argument is out of its range.

    Notes
    -----
    Discretises one release, composes it by Fourier transform from above and from below, and narrows
    the cells until the tolerance is met. Cost: about a hundred operations for each of
    ``range of one loss * sqrt(T epsilon / tolerance)`` cells; one to two seconds at the settings of
    Biswas et al. (2024).

    Examples
    --------
    >>> from reconrisk import privacy
    >>> found = privacy.vmf_epsilon(20.0, 760, 1e-5)
    >>> f"{found.lower:.3f} {found.upper:.3f}"
    '6.721 6.721'
    """
    kappa = float(arguments.real("concentration", concentration, 0, 1e5))
    p = float(arguments.integer("dimension", dimension, 2, 1e9))
    d = float(arguments.real("delta", delta, 1e-100, 1, high_open=True))
    q = float(arguments.real("sampling_rate", sampling_rate, 0, 1, low_open=True))
    count = arguments.count("steps", steps, 1)
    target = float(arguments.real("tolerance", tolerance, 1e-9, 1))
    if kappa == 0.0:
        return Enclosure(0.0, 0.0)
    pair = _vmf_step.OppositePair(kappa, p, q, count)
    return _enclose(pair, d, target)


def _enclose(pair: _vmf_step.OppositePair, delta: float, tolerance: float) -> Enclosure:
    guide = _vmf_step.guide(pair, max(60.0, -2.0 * math.log(delta) + 20.0))
    low, high = _vmf_step.reach(pair, 1e-3 * tolerance * delta)
    most = float(pair.loss(np.array(0.5 * math.pi))) * pair.steps
    rough = _approximate(guide, delta)
    ends = pair.loss(np.array([low, high]))
    least = float(ends[1] - ends[0]) / MOST_CELLS
    width = max(_first_width(guide, rough, tolerance), least)
    best, narrowed = Enclosure(0.0, most), False
    for _ in range(_ROUNDS):
        try:
            found = _bounds_at(pair, guide, width, (low, high), rough, (delta, tolerance))
        except TooLong:
            width = least = 2.0 * width
            continue
        lower, upper = max(best.lower, found[0]), min(best.upper, found[1])
        before, moved = best.width, abs(upper - rough) > _spread(guide, rough)
        best = Enclosure(lower, max(upper, lower))
        rough = best.upper
        if best.width <= tolerance * best.upper:
            break
        if moved:  # the tilt was for another level
            narrowed = False
            continue
        if width <= least or (narrowed and best.width > 0.985 * before):
            break
        factor = math.sqrt(tolerance * best.upper / best.width)
        width, narrowed = max(width * min(max(0.85 * factor, 0.05), 0.7), least), True
    return best


def _bounds_at(
    pair: _vmf_step.OppositePair,
    guide: Saddle,
    width: float,
    ends: tuple[float, float],
    rough: float,
    aim: tuple[float, float],
) -> tuple[float, float]:
    """Return lower and upper bounds on epsilon from cells of a given width."""
    delta, tolerance = aim
    step = _vmf_step.one_step(pair, width, *ends)
    slack = pair.steps * step.ratio_error * 1.01
    above, below = _tails_at(step, guide, rough, tolerance)
    upper = _epsilon_removing(above, delta * math.exp(-slack)) + slack
    if _can_shrink(pair, upper):
        apart, _ = _tails_at(step, guide, -upper, tolerance)
        upper = max(upper, _epsilon_adding(apart, delta) + slack)
    return _lower_bound(below, delta, rough), upper * (1.0 + 1e-14)


def _can_shrink(pair: _vmf_step.OppositePair, epsilon: float) -> bool:
    """Return whether an output can be ``exp(epsilon)`` times likelier without the record."""
    return float(pair.loss(np.array(-0.5 * math.pi))) * pair.steps < -epsilon


def _approximate(guide: Saddle, delta: float) -> float:
    """Return epsilon at ``delta`` to a few per cent, by the saddle-point approximation."""
    with np.errstate(divide="ignore", over="ignore"):
        log_first, log_second = guide.log_tail(1.0), guide.level + guide.log_tail(0.0)
        gap = np.minimum(log_second - log_first, -1e-12)
        log_delta = log_first + np.log(-np.expm1(gap))
    order = guide.level > 0.0
    if not np.any(order):
        return 0.0
    level, value = guide.level[order], np.minimum.accumulate(log_delta[order])
    return float(np.interp(-math.log(delta), -value, level))


def _first_width(guide: Saddle, epsilon: float, tolerance: float) -> float:
    """Return the cell width at which both discretisations move epsilon by about the tolerance."""
    tilt = max(float(guide.tilt(np.array(epsilon))), 0.1)
    moved = math.sqrt(4.0 * tolerance * max(epsilon, 1e-3) / (guide.steps * tilt))
    single = _spread(guide, epsilon) / math.sqrt(guide.steps)
    return min(moved, 0.5 * single + 1e-12)


def _spread(guide: Saddle, level: float) -> float:
    return float(np.interp(level, guide.level, guide.spread))


def _tails_at(step: Step, guide: Saddle, level: float, tolerance: float) -> tuple[Tails, Tails]:
    # one of the guide's own tilts, at which its norm is not interpolated
    nearest = np.argmin(np.abs(guide.theta - guide.tilt(np.array(level))))
    theta = float(guide.theta[nearest])
    # a change of epsilon by this much changes the tails by this relative amount
    moved = tolerance * min(max(abs(level), 1e-9), 1.0)
    return run_tails(step, guide, theta, math.log(1e-5 * moved) - 4.0)


def _first(holds: Callable[[int], bool], pair: Tails) -> int:
    """Return the smallest index at which a monotone condition holds, the window's end if none."""
    return _bisect(holds, pair.first - 1, pair.last + 1)


def _bisect(holds: Callable[[int], bool], low: int, high: int) -> int:
    """Return the smallest index above ``low`` at which a monotone condition holds, or ``high``."""
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


def _first_around(holds: Callable[[int], bool], pair: Tails, start: int) -> int:
    """Return what :func:`_first` does for a condition that is monotone only around ``start``."""
    bottom, top = pair.first - 1, pair.last + 1
    low = high = min(max(start, pair.first), top - 1)
    step = 1
    while low > bottom and holds(low):
        low, high, step = max(low - step, bottom), low, 2 * step
    while high < top and not holds(high):
        low, high, step = high, min(high + step, top), 2 * step
    return _bisect(holds, low, high)


def _epsilon_removing(pair: Tails, delta: float) -> float:
    """Return epsilon at ``delta`` of the dominating pair, for removing the record.

    Between two lattice points delta is linear in ``exp(epsilon)``.
    """

    def enough(index: int) -> bool:
        place = np.array([index])
        ratio = np.exp(np.minimum(pair.log_ratio(place), 690.0))
        return bool((pair.mu.up(place)[1] - ratio * pair.nu.up(place)[0])[0] <= delta)

    place = _first(enough, pair)
    if place == pair.last + 1:
        return math.inf
    at = np.array([place])
    top = float(pair.log_ratio(at)[0])
    if place == pair.first:
        return max(top, 0.0)
    excess, mass = float(pair.mu.up(at)[1][0]) - delta, float(pair.nu.up(at)[0][0])
    inside = math.log(excess / mass) if excess > 0.0 and mass > 0.0 else -math.inf
    if mass <= 0.0:
        inside = top
    return max(min(max(inside, top - pair.width), top), 0.0)


def _epsilon_adding(pair: Tails, delta: float) -> float:
    """Return epsilon at ``delta`` of the dominating pair, for adding the record."""

    def is_too_much(index: int) -> bool:
        place = np.array([index])
        ratio = np.exp(np.clip(-pair.log_ratio(place), -690.0, 690.0))
        return bool((pair.nu.down(place)[1] - ratio * pair.mu.down(place)[0])[0] > delta)

    place = _first(is_too_much, pair)
    if place == pair.first:
        return math.inf
    at = np.array([min(place, pair.last + 1 - 1)])
    top = -float(pair.log_ratio(at)[0]) + pair.width
    excess, mass = float(pair.nu.down(at)[1][0]) - delta, float(pair.mu.down(at)[0][0])
    if excess <= 0.0:
        inside = -math.inf
    else:
        inside = math.log(excess / mass) if mass > 0.0 else top
    return max(min(max(inside, top - pair.width), top), 0.0)


def _lower_bound(statistic: Tails, delta: float, rough: float) -> float:
    """Return the largest epsilon that a threshold test on the lattice statistic rules out.

    The tails are accurate only near the level of the tilt. Far from it their lower bounds are zero
    and no test rules anything out, so the search starts at ``rough``.
    """

    def is_crossed(index: int) -> bool:
        place = np.array([index])
        ratio = np.exp(np.minimum(statistic.log_ratio(place), 690.0))
        return bool((statistic.mu.up(place)[0] - ratio * statistic.nu.up(place)[1])[0] <= delta)

    start = int(statistic.index(np.array(rough)))
    places = _first_around(is_crossed, statistic, start) + np.arange(-3, 4)
    power, level = statistic.mu.up(places)[0] - delta, statistic.nu.up(places)[1]
    valid = (power > 0.0) & (level > 1e-290)  # smaller levels are inaccurate
    if not np.any(valid):
        return 0.0
    ruled_out = np.log(power[valid]) - np.log(level[valid])
    return max(float(np.max(ruled_out)) * (1.0 - 1e-14), 0.0)

"""Enclosures of the trade-off curve of sub-sampled DP-SGD.

``gamma(kappa)`` is the largest probability under ``mu`` of an event that has at most probability
``kappa`` under ``nu`` (Hayes et al. 2023, Corollary 4). From above, for any number ``r >= 0`` and
any dominating pair, ``gamma <= P_mu(ratio >= r) + r (kappa - P_nu(ratio >= r))``. From below,
``gamma`` is at least the power of a randomised threshold test of level ``kappa`` on the lattice
statistic.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import cache

import numpy as np

from reconrisk.privacy._compose import TooLong
from reconrisk.privacy._saddle import Mechanism, Saddle, few_large, narrowest, reach, saddle
from reconrisk.privacy._step import Step, one_step
from reconrisk.privacy._tails import Tails, loosening, run_tails, split_tails

__all__ = ["SMALLEST", "enclosed_curve", "power_above", "power_below", "success_curve"]

#: smallest prior success that is discretised
SMALLEST = 1e-200
_ROUNDS = 12
_PASSES = 3
#: large losses are treated apart if they raise the level by so many deviations of the small ones
_APART = 0.25
#: kappa below which they are only if nothing else helps: a sum beside a large loss is not tilted,
#: and rounding errors swamp it
_LEAST_APART = 1e-18
#: relative width above which an enclosure is worth as many cells as memory allows
_FAIR = 5e-3


def success_curve(
    mechanism: Mechanism, kappa: np.ndarray, tolerance: float
) -> tuple[np.ndarray, np.ndarray]:
    """Enclose ``gamma`` at each ``kappa`` in ``[1e-200, 1)``.

    Returns
    -------
    lower, upper : ndarray
        ``upper - lower <= tolerance * upper``, except where memory or rounding errors prevent it.

    Notes
    -----
    One discretisation of a step for all ``kappa``, and three compositions for each group of
    ``kappa`` whose levels are within three standard deviations of the loss. The cell width
    is about ``sqrt(8 tolerance gamma/(T f))`` with the density ``f`` of the loss at the
    level, so that the cost grows like ``tolerance**-0.5`` and hardly with T.
    """
    smallest = float(kappa.min())
    low, high = reach(mechanism, 1e-3 * tolerance * smallest)

    def discretise(width: float) -> Step:
        return one_step(mechanism.inverse_noise, mechanism.sampling_rate, width, low, high)

    @cache
    def split_large_losses(decades: int) -> tuple[Saddle, float] | None:
        return few_large(mechanism, low, high, 2.0 * decades * math.log(10.0))

    guide = saddle(mechanism, low, high)
    least, finest = (narrowest(mechanism, low, high, t) for t in (tolerance, 0.0))
    whole = (guide, math.inf)
    plans = [whole] * kappa.size
    for i, pair in enumerate(np.floor(0.5 * np.log10(kappa)).astype(int)):
        small = split_large_losses(int(pair))
        if small is not None and _tails_dominate(guide, small[0], kappa[i : i + 1]):
            plans[i] = small
    deep = np.array([p is not whole for p in plans]) & (kappa < _LEAST_APART)
    if not np.any(deep):
        return enclosed_curve(plans, discretise, least, finest, kappa, tolerance)
    first = [whole if d else p for p, d in zip(plans, deep, strict=True)]
    lower, upper = enclosed_curve(first, discretise, least, least, kappa, tolerance)
    wide = np.flatnonzero(deep & (upper - lower > _FAIR * upper))
    if wide.size:
        again = [plans[i] for i in wide]
        low_end, high_end = enclosed_curve(again, discretise, least, least, kappa[wide], tolerance)
        lower[wide] = np.maximum(lower[wide], low_end)
        upper[wide] = np.minimum(upper[wide], high_end)
    return lower, upper


def _tails_dominate(guide: Saddle, small: Saddle, kappa: np.ndarray) -> bool:
    """Whether the level of ``kappa`` is much lower without the large losses."""
    level = _levels(small, kappa)
    spread = np.interp(level, small.level, small.spread)
    return bool(_levels(guide, kappa) - level > _APART * spread)


def enclosed_curve(
    plans: list[tuple[Saddle, float]],
    discretise: Callable[[float], Step],
    least: float,
    finest: float,
    kappa: np.ndarray,
    tolerance: float,
) -> tuple[np.ndarray, np.ndarray]:
    """Enclose ``gamma`` as :func:`success_curve`, for the steps of any mechanism.

    Parameters
    ----------
    plans : list of tuple
        For each ``kappa``, the saddle point of the sum of the losses up to a value, beyond which
        they are treated apart; and this value, infinite if none is.
    discretised : callable
        Returns one step on a lattice of a given cell width. The mass beyond the range of its cells,
        over all steps, is less than ``1e-3 * tolerance`` times the smallest ``kappa``.
    least, finest : float
        Smallest cell width that is worth its cost, and the smallest that memory allows.
    """
    members: dict[float, tuple[tuple[Saddle, float], list[int]]]
    members = {plan[1]: (plan, []) for plan in plans}
    for i, (_, cut) in enumerate(plans):
        members[cut][1].append(i)
    chosen = [(guide, cut, np.array(which)) for (guide, cut), which in members.values()]
    level = np.empty_like(kappa)
    width = math.inf
    for guide, _, which in chosen:
        level[which] = _levels(guide, kappa[which])
        width = min(width, _first_width(guide, kappa[which], level[which], tolerance))
    width = max(width, least)
    lower, upper = kappa.copy(), np.ones_like(kappa)
    gap, aim = np.inf, tolerance
    for _ in range(_ROUNDS):
        step = discretise(width)
        slack = loosening(plans[0][0].steps, step)
        noise, again = np.full_like(kappa, np.inf), upper - lower > tolerance * upper
        too_long = False
        for _ in range(_PASSES):
            wanted = np.flatnonzero(again)
            for guide, cut, theta, which in _groups(chosen, level, wanted):
                outside = _outside(guide, theta, level[which], kappa[which], tolerance)
                try:
                    if cut < math.inf:
                        above, below = split_tails(step, guide, max(theta, 1.0), outside, cut)
                    else:
                        above, below = run_tails(step, guide, theta, outside)
                except TooLong:
                    too_long, again[which] = True, False
                    continue
                bound, index = power_above(above, kappa[which])
                power = power_below(below, kappa[which])
                upper[which] = np.minimum(upper[which], slack * bound)
                lower[which] = np.maximum(lower[which], power)
                found = above.log_ratio(index)
                # a level that one large loss reaches tells nothing of the tilt of the others
                level[which] = np.minimum(found, level[which]) if cut < math.inf else found
                found = _noise(above, index) / upper[which]
                # where rounding errors dominate, repeat with the tilt and window for this level
                again[which] = (found > 0.1 * tolerance) & (found < 0.5 * noise[which])
                noise[which] = np.minimum(found, noise[which])
        before, gap = gap, float(np.max((upper - lower) / upper))
        # without the rounding errors of both bounds, which narrower cells only increase
        spread = (upper - lower) / upper - np.where(np.isfinite(noise), 2.0 * noise, 0.0)
        too_wide = float(np.max(spread))
        if too_long:
            least = 2.0 * width
        elif width <= least and too_wide > _FAIR and finest < least:
            least, aim = finest, 0.7 * _FAIR  # only as narrow as is fair
        elif gap <= tolerance or width <= least or gap > 0.95 * before or too_wide < 0.8 * aim:
            break
        elif aim > tolerance and too_wide <= _FAIR:
            break
        factor = 0.85 * math.sqrt(aim / max(too_wide, 0.1 * aim))
        width = max(width * float(np.clip(factor, 0.05, 0.7)), least)
    return lower, upper


def _noise(pair: Tails, index: np.ndarray) -> np.ndarray:
    """Return the part of a bound on the power that is due to rounding and the window."""
    low, high = pair.nu.up(index)
    with np.errstate(over="ignore", invalid="ignore"):
        return np.nan_to_num((high - low) * np.exp(np.minimum(pair.log_ratio(index), 690.0)))


def _levels(guide: Saddle, kappa: np.ndarray) -> np.ndarray:
    """Approximate the levels that the sum exceeds under ``nu`` with probability ``kappa``."""
    start = int(np.searchsorted(guide.theta, 0.0))
    return np.interp(-np.log(kappa), -guide.log_tail(0.0)[start:], guide.level[start:])


def _groups(
    chosen: list[tuple[Saddle, float, np.ndarray]], level: np.ndarray, wanted: np.ndarray
) -> Iterator[tuple[Saddle, float, float, np.ndarray]]:
    """Yield tilts, each with the indices of the levels within 1.5 deviations of its mean."""
    for guide, cut, members in chosen:
        groups: list[list[int]] = []
        for i in sorted(np.intersect1d(members, wanted), key=lambda i: level[i]):
            first = level[groups[-1][0]] if groups else -math.inf
            spread = float(np.interp(first, guide.level, guide.spread)) if groups else 0.0
            if level[i] - first > 3.0 * spread:
                groups.append([])
            groups[-1].append(int(i))
        for group in groups:
            theta = max(float(guide.tilt(level[group[len(group) // 2]])), 0.0)
            yield guide, cut, theta, np.array(group)


def _outside(
    guide: Saddle, theta: float, level: np.ndarray, kappa: np.ndarray, tolerance: float
) -> float:
    """Return the log of the tilted mass that the window may omit without widening the enclosure."""
    log_scale = guide.at(theta) - theta * level
    return float(np.clip(np.min(np.log(1e-2 * tolerance * kappa) - log_scale), -42.0, -12.0))


def _first_width(guide: Saddle, kappa: np.ndarray, level: np.ndarray, tolerance: float) -> float:
    """Return the cell width at which the enclosure is about as wide as the tolerance.

    The enclosure's width is 3/4 of the variance that the cells add, times the density of the loss
    at the level.
    """
    power = np.exp(np.interp(level, guide.level, guide.log_tail(1.0)))
    power = np.clip(power, kappa, 1.0)
    log_density = np.interp(level, guide.level, guide.log_density_at(1.0))
    density = np.exp(np.clip(log_density, -600.0, 600.0))
    variances = tolerance * power / (0.75 * density)
    return min(guide.width(float(c), float(v)) for c, v in zip(level, variances, strict=True))


def power_above(pair: Tails, kappa: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the least ``P_mu + r (kappa - P_nu)`` at levels next to ``kappa``, and the level."""
    near = pair.crossing(kappa, False)
    best = np.ones_like(kappa)
    for index in (near - 2, near - 1, near, near + 1):
        # the bound holds for any r, so that capping it is safe
        ratio = np.exp(np.minimum(pair.log_ratio(index), 690.0))
        bound = pair.mu.up(index)[1] + ratio * (kappa - pair.nu.up(index)[0])
        best = np.minimum(best, np.maximum(bound, 0.0))
    return best * (1.0 + 1e-15), near


def power_below(statistic: Tails, kappa: np.ndarray) -> np.ndarray:
    """Return a lower bound on the power of the randomised threshold test of level ``kappa``."""
    index = statistic.crossing(kappa, True)
    larger, smaller = statistic.nu.up(index - 1)[1], statistic.nu.up(index)[1]
    with np.errstate(divide="ignore", invalid="ignore"):
        share = (kappa - smaller) / (larger - smaller)
    share = np.where((larger > kappa) & (smaller <= kappa), np.clip(share, 0.0, 1.0), 0.0)
    power, more = statistic.mu.up(index)[0], statistic.mu.up(index - 1)[0]
    power = power + share * np.maximum(more - power, 0.0)
    return np.where(smaller <= kappa, power, 0.0) * (1.0 - 1e-15)

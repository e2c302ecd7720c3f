"""Certified upper and lower bounds on the tails of a run's privacy loss, under nu and mu.

If large losses are rare (small sampling rates), no tilt of the sum is near its level: tilted so far
that the level is their mean, most sums are either far below or far above it. Then the steps are
split by their loss (:func:`split_tails`): no step has a large loss, or one has, or more, of which
only the probability is bounded. What is composed are the steps with small losses.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from reconrisk.privacy._compose import Sum, TooLong, compose
from reconrisk.privacy._saddle import Saddle
from reconrisk.privacy._step import UNIT, Law, Step, first_large

__all__ = ["Tail", "Tails", "loosening", "run_tails", "split_tails"]


#: largest index that is told from others
_FAR = 2.0**60
#: logarithms of the most and the least mass outside the window of the steps beside a large loss
_OF_OTHERS, _FARTHEST = -20.0, -42.0
#: largest admissible logarithm of a factor, below overflow
_MOST_EXCESS = 690.0


def _most(lift: float | np.ndarray) -> np.ndarray:
    """Return an upper bound on ``exp(lift)`` times a probability."""
    return np.where(np.greater(lift, _MOST_EXCESS), math.inf, np.exp(np.minimum(lift, 700.0)))


@dataclass
class Tail:
    """Tails of the distribution ``mass * exp(log_norm + offset - rate * i)`` of total mass one.

    The upper tail is summed if ``rate >= 0``, otherwise the lower tail, so that the weights
    decrease and small tails keep their relative accuracy; the other tail is the complement.

    Attributes
    ----------
    at_end : float
        Bound on the mass at infinity on the side that is summed.
    """

    total: Sum
    rate: float
    offset: float
    at_end: float
    _cached: np.ndarray | None = None

    @property
    def first(self) -> int:
        """First index at which the tail is computed."""
        return self.total.first

    @property
    def last(self) -> int:
        """Last index at which the tail is computed."""
        return self.total.first + self.total.size - 1

    def bounds(
        self, index: np.ndarray, lift: float | np.ndarray = 0.0
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return lower and upper bounds on ``exp(lift)`` times the tail summed, at each index."""
        place = np.clip(index - self.total.first, 0, self.total.size - 1)
        inside = self.total.first + place
        error = self.total.error_of_tail(abs(self.rate))
        # capped below overflow; the tails are then bounded by 0 and 1
        log_scale = self.total.log_norm + self.offset - self.rate * inside + lift
        scale, most = np.exp(np.minimum(log_scale, _MOST_EXCESS)), _most(lift)
        summed, relative = self._sums_at(place), self.total.relative
        low = np.clip(scale * (summed * (1.0 - relative) - error), 0.0, most)
        high = scale * (summed * (1.0 + relative) + error)
        if self.at_end:
            high = high + self.at_end * most
        high = np.where(log_scale < _MOST_EXCESS, np.clip(high, 0.0, most), most)
        # beyond the window's ends the tails are monotone
        below, above = index < inside, index > inside
        more, less = (below, above) if self.rate >= 0 else (above, below)
        return np.where(less, 0.0, low), np.where(more, most, high)

    def _sums_at(self, place: np.ndarray) -> np.ndarray:
        sums = self.total.rising if self.rate >= 0 else self.total.falling
        if self.total.mass is None:
            return sums(place, abs(self.rate))
        if self._cached is None:
            self._cached = sums(np.arange(self.total.size), abs(self.rate))
        return self._cached[place]

    def up(
        self, index: np.ndarray, lift: float | np.ndarray = 0.0
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return lower and upper bounds on ``exp(lift) P(i >= index)``."""
        return self._side(index, lift, self.rate >= 0)

    def down(
        self, index: np.ndarray, lift: float | np.ndarray = 0.0
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return lower and upper bounds on ``exp(lift) P(i < index)``."""
        return self._side(index, lift, self.rate < 0)

    def _side(
        self, index: np.ndarray, lift: float | np.ndarray, summed: bool
    ) -> tuple[np.ndarray, np.ndarray]:
        low, high = self.bounds(index, lift)
        if summed:
            return low, high
        most = _most(lift)
        with np.errstate(invalid="ignore"):
            return np.where(np.isinf(most), 0.0, most - high), most - low


@dataclass
class SplitTail:
    """Tails of a sum of draws of which few are large, on the side that :attr:`none` sums.

    Attributes
    ----------
    none, one : Tail
        Of all draws, and of all but one, if none of these is large; their total mass is the
        probability of that.
    large : ndarray
        Expected number of large draws at the lattice points ``points``.
    points : ndarray
    relative : float
        Bound on the relative error of these numbers and their sums.
    rest : float
        Bound on the probability that more than one draw is large.
    """

    none: Tail
    one: Tail
    large: np.ndarray
    points: np.ndarray
    relative: float
    rest: float

    @property
    def first(self) -> int:
        """First index at which the tail is computed."""
        return min(self.none.first, self.one.first)

    @property
    def last(self) -> int:
        """Last index at which the tail is computed."""
        return max(self.none.last, self.one.last + int(self.points[-1]) + 1)

    def up(
        self, index: np.ndarray, lift: float | np.ndarray = 0.0
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return lower and upper bounds on ``exp(lift) P(i >= index)``."""
        assert self.none.rate >= 0.0
        return self._bounds(index, lift)

    def down(
        self, index: np.ndarray, lift: float | np.ndarray = 0.0
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return lower and upper bounds on ``exp(lift) P(i < index)``."""
        assert self.none.rate < 0.0
        return self._bounds(index, lift)

    def _bounds(self, index: np.ndarray, lift: float | np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        low, high = self.none.bounds(index, lift)
        more, most = (self._with_large(index, tail) for tail in self._tails_of_one)
        most = most * (1.0 + self.relative) + self.rest
        least, scale = np.exp(np.minimum(lift, _MOST_EXCESS)), _most(lift)
        return low + least * more * (1.0 - self.relative), np.minimum(high + scale * most, scale)

    def _with_large(self, index: np.ndarray, tail: np.ndarray) -> np.ndarray:
        """Return the tails of sums with one large draw, from bounds on those of the others."""
        # the place in ``tail`` that a large draw leaves to the others falls with the draw
        start = index - (self.one.total.first - 1)
        beyond = np.searchsorted(self.points, start - (tail.size - 1))
        inside = np.maximum(np.searchsorted(self.points, start, side="right"), beyond)
        up_to, from_on = self._sums
        sums = tail[-1] * up_to[beyond] + tail[0] * from_on[inside]
        for n in np.flatnonzero(inside > beyond):
            some = slice(beyond[n], inside[n])
            sums[n] += self.large[some] @ tail[start[n] - self.points[some]]
        return sums

    @cached_property
    def _sums(self) -> tuple[np.ndarray, np.ndarray]:
        """Numbers of large draws below each point and from it on, each summed from its small end.

        Differences of one of them would cancel: the numbers fall by many orders of magnitude.
        """
        up_to = np.append(0.0, np.cumsum(self.large))
        return up_to, np.append(np.cumsum(self.large[::-1])[::-1], 0.0)

    @cached_property
    def _tails_of_one(self) -> tuple[np.ndarray, np.ndarray]:
        """Bounds on the tails of :attr:`one` in its window and at a point beyond each end."""
        total = self.one.total
        return self.one.bounds(np.arange(total.first - 1, total.first + total.size + 1))


@dataclass(frozen=True)
class Tails:
    """Tails of a statistic on the lattice, under ``nu`` and under ``mu``."""

    nu: Tail | SplitTail
    mu: Tail | SplitTail
    base: float
    width: float

    @property
    def first(self) -> int:
        """First index at which the tail under ``nu`` is computed."""
        return self.nu.first

    @property
    def last(self) -> int:
        """Last index at which the tail under ``nu`` is computed."""
        return self.nu.last

    def log_ratio(self, index: np.ndarray) -> np.ndarray:
        """Return the log-likelihood ratio of the dominating pair at each index."""
        return self.base + index * self.width

    def index(self, log_ratio: np.ndarray) -> np.ndarray:
        """Return the last index at or below a value of the log-likelihood ratio."""
        cells = np.floor((log_ratio - self.base) / self.width)
        return np.clip(cells, -_FAR, _FAR).astype(np.int64)

    def crossing(self, kappa: np.ndarray, upper: bool) -> np.ndarray:
        """Return the lowest index whose tail under ``nu`` is at most ``kappa``.

        By the upper bound on the tail if ``upper``, else by the lower.
        """
        low = np.full(kappa.shape, self.first - 1, dtype=np.int64)
        high = np.full(kappa.shape, self.last, dtype=np.int64)
        while np.any(high - low > 1):
            middle = (low + high) // 2
            above = self.nu.up(middle)[int(upper)] > kappa
            low, high = np.where(above, middle, low), np.where(above, high, middle)
        return high


def loosening(steps: float, step: Step) -> float:
    """Return a bound on the factor by which rounding reduces the steps' likelihood ratios.

    With it ``delta(epsilon) <= factor * delta'(epsilon - log(factor))``, where ``delta'`` is the
    lattice pair's.
    """
    return math.exp(min(_excess(steps, step), _MOST_EXCESS))


def _excess(steps: float, step: Step) -> float:
    return steps * step.ratio_error * 1.01


def run_tails(step: Step, guide: Saddle, theta: float, log_outside: float) -> tuple[Tails, Tails]:
    """Return the tails of the dominating pair and of the lattice statistic after all steps.

    ``theta`` is the tilt, in units of the loss, at which they are most accurate. The window omits a
    mass of at most ``exp(log_outside)`` of each tilted distribution at either end.

    Raises :class:`TooLong` if the rounding errors of all steps together exceed the range of floats.
    """
    steps, h = guide.steps, step.width
    if _excess(steps, step) > _MOST_EXCESS:
        raise TooLong(f"{steps} steps, each with an error of {step.ratio_error:.1e}")
    rate, base = theta * h, steps * step.base
    low, high = guide.slopes(theta, log_outside)
    slopes = (low * h, high * h)
    law = compose(step.above, rate, steps, slopes, log_outside)
    above = Tails(
        Tail(law, rate, 0.0, 0.0 if rate >= 0 else steps * step.at_minus_infinity),
        Tail(law, rate - h, base, steps * step.at_infinity if rate >= h else 0.0),
        base,
        h,
    )
    nu = compose(step.nu, rate, steps, slopes, log_outside)
    mu = compose(step.mu, rate - h, steps, slopes, log_outside)
    below = Tails(Tail(nu, rate, 0.0, 0.0), Tail(mu, rate - h, 0.0, 0.0), base, h)
    return above, below


def split_tails(
    step: Step, guide: Saddle, theta: float, log_outside: float, cut: float
) -> tuple[Tails, Tails]:
    """Return what :func:`run_tails` does, split by the number of steps with a loss above ``cut``.

    The upper tails only if ``theta`` is positive, at least one; otherwise the lower ones.

    Parameters
    ----------
    guide : Saddle
        Of the steps with losses up to ``cut``.
    """
    h, base = step.width, guide.steps * step.base
    if _excess(guide.steps, step) > _MOST_EXCESS:
        raise TooLong(f"{guide.steps} steps, each with an error of {step.ratio_error:.1e}")
    end = first_large(cut, step.base, h)
    # with one large loss, no tail of the others' sum needs to be small
    tilts = [max(theta, 1.0) if theta > 0.0 else theta, 1.0 if theta > 0.0 else -1e-9]
    # what lies outside of their window may be as improbable as two large losses
    few = guide.steps * float(_split_law(step.above, end)[1].mass.sum())
    outside = float(np.clip(math.log(max(few, 1e-300)), _FARTHEST, _OF_OTHERS))
    outsides = [log_outside, min(log_outside, outside)]
    slopes = [guide.slopes(t, outside) for t, outside in zip(tilts, outsides, strict=True)]

    def sums(law: Law, tilted: float) -> list[Sum]:
        """Return the sums of the small losses of all steps, and of all but one."""
        small, found = _split_law(law, end)[0], []
        for fewer, tilt, outside, (low, high) in zip((0, 1), tilts, outsides, slopes, strict=True):
            rate, ends, steps = (tilt - tilted) * h, (low * h, high * h), guide.steps - fewer
            # a large loss is added to the tails at all points, none to those at a few
            found.append(compose(small, rate, steps, ends, outside, whole=bool(fewer)))
        return found

    def tail(law: Law, totals: list[Sum], shift: float, at_end: float) -> SplitTail:
        """Return the tail of the law whose mass is larger by ``exp(shift * loss)``."""
        large, tails = _split_law(law, end)[1], []
        for steps, total in zip((guide.steps, guide.steps - 1), totals, strict=True):
            tails.append(Tail(total, total.rate - shift * h, shift * steps * step.base, 0.0))
        tails[0].at_end = guide.steps * at_end
        loss = step.base + large.points * h
        mass = large.mass * np.exp(shift * loss)
        error = float(large.relative.max(initial=0.0)) + UNIT * (64.0 + 4.0 * large.mass.size)
        chance = float(mass.sum()) * (1.0 + error) + at_end
        rest = 0.5 * guide.steps * (guide.steps - 1.0) * chance * chance
        return SplitTail(tails[0], tails[1], guide.steps * mass, large.points, error, rest)

    upper = theta > 0.0
    totals = sums(step.above, 0.0)
    above = Tails(
        tail(step.above, totals, 0.0, 0.0 if upper else step.at_minus_infinity),
        tail(step.above, totals, 1.0, step.at_infinity if upper else 0.0),
        base,
        h,
    )
    nu, mu = sums(step.nu, 0.0), sums(step.mu, 1.0)
    return above, Tails(tail(step.nu, nu, 0.0, 0.0), tail(step.mu, mu, 0.0, 0.0), base, h)


def _split_law(law: Law, end: int) -> tuple[Law, Law]:
    """Return the part of a law below a lattice point and the rest."""
    n = min(max(end - law.first, 1), law.mass.size)
    small = Law(law.first, law.mass[:n], law.relative[:n])
    return small, Law(law.first + n, law.mass[n:], law.relative[n:], law.points[n:])

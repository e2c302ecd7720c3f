"""Certified upper and lower bounds on the tails of a run's privacy loss, under nu and mu."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from reconrisk.privacy._compose import Sum, TooLong, compose
from reconrisk.privacy._saddle import Saddle
from reconrisk.privacy._step import Step

__all__ = ["Tail", "Tails", "loosening", "run_tails"]


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

    def bounds(self, index: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return lower and upper bounds on the tail that is summed, at each index."""
        place = np.clip(index - self.total.first, 0, self.total.size - 1)
        inside = self.total.first + place
        error = self.total.error_of_tail(abs(self.rate))
        # capped below overflow; the tails are then bounded by 0 and 1
        log_scale = self.total.log_norm + self.offset - self.rate * inside
        scale = np.exp(np.minimum(log_scale, 690.0))
        summed, relative = self._summed(place), self.total.relative
        low = np.clip(scale * (summed * (1.0 - relative) - error), 0.0, 1.0)
        high = np.clip(scale * (summed * (1.0 + relative) + error) + self.at_end, 0.0, 1.0)
        # beyond the window's ends the tails are monotone
        below, above = index < inside, index > inside
        more, less = (below, above) if self.rate >= 0 else (above, below)
        return np.where(less, 0.0, low), np.where(more, 1.0, high)

    def _summed(self, place: np.ndarray) -> np.ndarray:
        sums = self.total.rising if self.rate >= 0 else self.total.falling
        if self.total.mass is None:
            return sums(place, abs(self.rate))
        if self._cached is None:
            self._cached = sums(np.arange(self.total.size), abs(self.rate))
        return self._cached[place]

    def up(self, index: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return lower and upper bounds on ``P(i >= index)``."""
        low, high = self.bounds(index)
        return (low, high) if self.rate >= 0 else (1.0 - high, 1.0 - low)

    def down(self, index: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return lower and upper bounds on ``P(i < index)``."""
        low, high = self.bounds(index)
        return (low, high) if self.rate < 0 else (1.0 - high, 1.0 - low)


@dataclass(frozen=True)
class Tails:
    """Tails of a statistic on the lattice, under ``nu`` and under ``mu``."""

    nu: Tail
    mu: Tail
    base: float
    width: float

    @property
    def first(self) -> int:
        """First index at which the tail under ``nu`` is computed."""
        return self.nu.total.first

    @property
    def size(self) -> int:
        """Number of indices at which the tail under ``nu`` is computed."""
        return self.nu.total.size

    def log_ratio(self, index: np.ndarray) -> np.ndarray:
        """Return the log-likelihood ratio of the dominating pair at each index."""
        return self.base + index * self.width

    def index(self, log_ratio: np.ndarray) -> np.ndarray:
        """Return the last index at or below a value of the log-likelihood ratio."""
        return np.floor((log_ratio - self.base) / self.width).astype(np.int64)

    def crossing(self, kappa: np.ndarray, upper: bool) -> np.ndarray:
        """Return the lowest index whose tail under ``nu`` is at most ``kappa``.

        By the upper bound on the tail if ``upper``, else by the lower.
        """
        low = np.full(kappa.shape, self.first - 1, dtype=np.int64)
        high = np.full(kappa.shape, self.first + self.size - 1, dtype=np.int64)
        while np.any(high - low > 1):
            middle = (low + high) // 2
            above = self.nu.up(middle)[int(upper)] > kappa
            low, high = np.where(above, middle, low), np.where(above, high, middle)
        return high


#: largest admissible logarithm of a factor, below overflow
_MOST_EXCESS = 690.0


def loosening(steps: float, step: Step) -> float:
    """Return a bound on the factor by which rounding reduces the steps' likelihood ratios."""
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

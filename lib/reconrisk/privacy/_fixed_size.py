"""One step on a batch of fixed size, drawn anew without replacement: the pair that dominates it.

Given who else may take the record's place, a step shows ``(1 - q) N(c, I) + q N(x, I)`` with the
record and ``(1 - q) N(c, I) + q N(y, I)`` in the neighbouring data set, where ``c``, ``x`` and
``y`` are gradients in a ball of radius ``a = 1/sigma``. For any event of probability ``p`` under
``N(x, I)``, Neyman and Pearson's lemma bounds its probability under the other two laws from below.
With the bounds, which one half-line attains, ``H(alpha)``, the largest
``P(A) - alpha Q(A)``, is that of normal laws on a line: for ``alpha >= 1`` with ``c`` as far from
``x`` as it may be, for ``alpha <= 1``, by exchanging the laws, as far from ``y``. The pair with
both halves of this profile dominates every step. It has an atom where the laws agree.
(For replaced records this is Zhu, Dong and Wang, 2022, Theorem 11.)

In a Poisson sample nobody takes the place of a record that is left out: ``c`` is what the others
add, which the record does not move, so that ``x`` and ``y`` are at most one norm from it. One pair
of opposite gradients has both halves of the profile, and is attained.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy import special as sc

from reconrisk.privacy._releases import (
    Atoms,
    Composable,
    Part,
    _normal_masses,
    _step_of,
    log_square_of,
    part_of,
)
from reconrisk.privacy._saddle import LARGEST_OUTPUT
from reconrisk.privacy._step import UNIT, Step

__all__ = ["Announced", "Binned", "FixedSizeBound", "bin_outputs"]

_ROUGH, _CELLS = 600, 1 << 17
#: bins of a statistic, and deviations that they reach
_BINS, _REACH = 4000, 12.0
#: distances, in clipping norms, of the record's gradient and of the neighbouring one from the
#: substitute's: where the record is the likelier law, and where the neighbouring one is
_DISTANCES = {
    "replace": ((2, 0), (2, 0)),
    "zero-out": ((2, 1), (1, 0)),
    "replace in Poisson samples": ((1, -1), (1, -1)),
}
#: and of the record's from what is in its place
_APART = {"replace": 2.0, "zero-out": 1.0, "replace in Poisson samples": 2.0}


@dataclass(frozen=True)
class FixedSizeBound(Composable):
    """Steps that are as easy to tell apart as any on batches of fixed size, or easier.

    Or exactly as easy as those on Poisson samples in which a record is replaced.

    Parameters
    ----------
    noise_multiplier : float
    sampling_rate : float
        Batch size over number of records.
    adjacency : str
        "replace", "zero-out" or "replace in Poisson samples".
    steps : int
    """

    noise_multiplier: float
    sampling_rate: float
    adjacency: str

    @property
    def shift(self) -> float:
        """Deviations between the record and what is in its place, in the same batch."""
        return _APART[self.adjacency] / float(self.noise_multiplier)

    @property
    def share(self) -> float:
        """Probability with which a step takes the record."""
        return float(self.sampling_rate)

    @property
    def replaces(self) -> bool:
        """Another gradient, or one of zero, is in the record's place."""
        return True

    def part(self) -> Part:
        """Return the part of a composition that these steps are."""
        return _FixedSizePart(self)


@dataclass(frozen=True)
class _Side:
    """Two mixtures ``(1 - q) N(0, 1) + q N(d, 1)``, and their losses above zero.

    Attributes
    ----------
    rate, likely, other : float
        q and the shifts, ``likely > other``.
    unit : float
        a.
    """

    rate: float
    unit: float
    likely: float
    other: float

    @property
    def start(self) -> float:
        """The output at which the laws agree."""
        return 0.5 * (self.likely + self.other)

    def loss(self, x: np.ndarray) -> np.ndarray:
        """The losses at outputs."""
        one, two = (self._log_density(x, shift) for shift in (self.likely, self.other))
        return one - two

    def _log_density(self, x: np.ndarray, shift: float) -> np.ndarray:
        q, exponent = self.rate, shift * (x - 0.5 * shift)
        return exponent if q == 1.0 else np.logaddexp(math.log1p(-q), math.log(q) + exponent)

    def outputs(self, loss: np.ndarray) -> np.ndarray:
        """Return the outputs of some losses >= 0."""
        q, a = self.rate, self.unit
        if self.other == 0.0:
            # 1 - q + q exp(y) = exp(loss), without overflow
            y = loss + np.log1p((1.0 - q) / q * -np.expm1(-loss))
            return y / self.likely + 0.5 * self.likely
        if self.other < 0.0:
            # sinh(a x - loss/2) = (1 - q)/q sinh(loss/2) exp(a**2/2), without overflow
            with np.errstate(divide="ignore"):  # no loss at zero
                log_sinh = 0.5 * loss + np.log(-0.5 * np.expm1(-loss))
            log_side = math.log((1.0 - q) / q) + 0.5 * a * a + log_sinh
            near = np.arcsinh(np.exp(np.minimum(log_side, 30.0)))
            far = log_side + math.log(2.0)
            return (0.5 * loss + np.where(log_side > 30.0, far, near)) / a
        # a quadratic equation in exp(a x)
        part = (1.0 - q) / q * math.exp(-a * a) * np.exp(-loss) * -np.expm1(-loss)
        return (loss + np.log(0.5 * (1.0 + np.sqrt(1.0 + 4.0 * part)))) / a + 1.5 * a

    def masses(self, edges: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the masses between edges under both laws, and a bound on their relative errors."""
        q = self.rate
        found = []
        idle, miss = _normal_masses(edges, 0.0)
        for shift in (self.likely, self.other):
            mass, error = _normal_masses(edges, shift)
            total = (1.0 - q) * idle + q * mass
            slip = (1.0 - q) * idle * miss + q * mass * error
            found.append((total, slip / np.maximum(total, 1e-300)))
        (likely, one), (other, two) = found
        return likely, other, np.maximum(one, two) + 8.0 * UNIT

    def beyond(self, x: float) -> tuple[float, float]:
        """Return the masses beyond an output under both laws."""
        q = self.rate
        one, two = (
            (1.0 - q) * float(sc.ndtr(-x)) + q * float(sc.ndtr(s - x))
            for s in (self.likely, self.other)
        )
        return one, two


class _FixedSizePart:
    """Steps on batches of fixed size, as the composition needs them."""

    cells, finest = _CELLS, 0.0
    lowest, highest = -math.inf, math.inf

    def __init__(self, release: FixedSizeBound) -> None:
        self.steps = int(release.steps)
        a, q = 1.0 / float(release.noise_multiplier), float(release.sampling_rate)
        self._sides = [_Side(q, a, a * d, a * e) for d, e in _DISTANCES[release.adjacency]]
        above, below = (side.start for side in self._sides)
        self._atom = (1.0 - q) * float(sc.ndtr(above) - sc.ndtr(-below))

    def table(self, spill: float) -> tuple[np.ndarray, np.ndarray]:
        losses, masses = [np.zeros(1)], [np.array([self._atom])]
        for side, end, sign in zip(self._sides, self._tops(spill)[0], (1, -1), strict=True):
            edges = np.linspace(side.start, end, _ROUGH + 1)
            likely, other, _ = side.masses(edges)
            losses.append(sign * side.loss(0.5 * (edges[1:] + edges[:-1])))
            masses.append(other if sign > 0 else likely)
        loss, mass = np.concatenate(losses), np.concatenate(masses)
        used = mass > 0.0
        return loss[used], np.log(mass[used])

    def _tops(self, spill: float) -> tuple[list[float], list[float]]:
        """Return the outputs at which either side ends, and their losses."""
        z = -float(sc.ndtri(0.25 * spill / self.steps))
        ends = [min(side.likely + z, LARGEST_OUTPUT) for side in self._sides]
        return ends, [
            float(side.loss(np.array(x))) for side, x in zip(self._sides, ends, strict=True)
        ]

    def step(self, width: float, spill: float) -> Step:
        parts, outside = [], []
        for side, end, top in zip(self._sides, *self._tops(spill), strict=True):
            halves = 2 * max(math.ceil(top / width * (1.0 - 1e-12)), 1)
            edges = side.outputs(0.5 * width * np.arange(halves + 1.0))
            edges[0], edges[-1] = side.start, end
            edges = np.maximum.accumulate(np.minimum(edges, end))
            parts.append(side.masses(edges))
            outside.append(side.beyond(end))
        (mu_up, nu_up, error_up), (nu_down, mu_down, error_down) = parts
        (far_up, near_up), (far_down, near_down) = outside
        nu, mu = (np.concatenate(both) for both in ((nu_down[::-1], nu_up), (mu_down[::-1], mu_up)))
        middle = nu_down.size
        nu[middle] += self._atom
        mu[middle] += self._atom
        error = np.concatenate([error_down[::-1], error_up]) + UNIT * 64.0
        ends = near_up, far_up
        return _step_of(
            -0.5 * width * middle, width, nu, mu, error, ends, lost=far_down, certain=near_down
        )


@dataclass(frozen=True)
class Announced(Composable):
    """A release of all records that may leave the record out, and tells whether it did.

    Parameters
    ----------
    noise_multiplier : float
    rate : float
        Probability with which it takes the record.
    """

    noise_multiplier: float
    rate: float

    @property
    def shift(self) -> float:
        """Deviations by which the record moves a release that takes it."""
        return 1.0 / float(self.noise_multiplier)

    @property
    def share(self) -> float:
        """Probability with which a release takes the record."""
        return float(self.rate)

    @property
    def replaces(self) -> bool:
        """Without the record, too, it tells whether it took what is in its place."""
        return True

    @property
    def log_square(self) -> float:
        """Logarithm of the mean square of a release's likelihood ratio."""
        return log_square_of(float(self.noise_multiplier), self.share)

    def part(self) -> Part:
        """Return the part of a composition that this release is."""
        return _AnnouncedPart(self)


class _AnnouncedPart:
    """The losses of a Gaussian release, or none."""

    cells, finest = _CELLS, 0.0
    lowest, highest = -math.inf, math.inf

    def __init__(self, release: Announced) -> None:
        self.steps, self._a, self._rate = int(release.steps), release.shift, release.share

    def table(self, spill: float) -> tuple[np.ndarray, np.ndarray]:
        end = self._end(spill)
        edges = np.linspace(self._a - end, end, 2 * _ROUGH + 1)
        loss = self._a * (0.5 * (edges[1:] + edges[:-1]) - 0.5 * self._a)
        mass = self._rate * _normal_masses(edges, 0.0)[0]
        loss, mass = np.append(loss, 0.0), np.append(mass, 1.0 - self._rate)
        used = mass > 0.0
        return loss[used], np.log(mass[used])

    def _end(self, spill: float) -> float:
        return min(self._a - float(sc.ndtri(0.25 * spill / self.steps)), LARGEST_OUTPUT)

    def step(self, width: float, spill: float) -> Step:
        a, r = self._a, self._rate
        top = a * (self._end(spill) - 0.5 * a)
        halves = 2 * max(math.ceil(top / width), 1)
        edges = 0.5 * a + 0.5 * width / a * np.arange(-halves, halves + 1.0)
        (nu, miss), (mu, slip) = (_normal_masses(edges, mean) for mean in (0.0, a))
        nu, mu = r * nu, r * mu
        nu[halves] += 1.0 - r  # no loss where the record is left out
        mu[halves] += 1.0 - r
        error = (2.0 + a) * np.maximum(miss, slip) + UNIT * 64.0
        low, high = edges[0], edges[-1]
        ends = r * float(sc.ndtr(-high)), r * float(sc.ndtr(a - high))
        lost, certain = r * float(sc.ndtr(low)), r * float(sc.ndtr(low - a))
        return _step_of(
            -0.5 * width * halves, width, nu, mu, error, ends, lost=lost, certain=certain
        )


@dataclass(frozen=True)
class Binned(Composable):
    """A statistic in bins, of which only a lower bound is asked.

    Parameters
    ----------
    without, present : tuple of float
        Probabilities of the bins without the record and with it.
    steps : int
    """

    without: tuple[float, ...]
    present: tuple[float, ...]

    def part(self) -> Part:
        """Return the part of a composition that this statistic is."""
        part = part_of(Atoms(self.without, self.present, steps=self.steps))
        part.cells = _CELLS >> 3
        return part


def bin_outputs(
    with_record: list[tuple[float, float]], without: list[tuple[float, float]], steps: int
) -> Binned:
    """Return which bin an output falls into, with and without the record: a test's two laws.

    Parameters
    ----------
    with_record, without : list of tuple of float
        Weights and means of normal laws of deviation one.
    steps : int
    """
    means = [mean for _, mean in with_record + without]
    edges = np.linspace(min(means) - _REACH, max(means) + _REACH, _BINS - 1)
    edges = np.concatenate([[-np.inf], edges, [np.inf]])
    laws = []
    for mixture in (without, with_record):
        law = sum(weight * _normal_masses(edges, mean)[0] for weight, mean in mixture)
        laws.append(tuple(np.asarray(law).tolist()))
    return Binned(laws[0], laws[1], steps=steps)

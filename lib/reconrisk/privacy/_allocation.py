"""One epoch in which a record goes into one batch, drawn uniformly: its loss on a lattice.

With ``z`` the outputs of ``b`` steps in units of the noise, ``a = 1/sigma`` and
``W(z) = exp(a z - a**2/2)``, the likelihood ratio of ``mu``, the mean of the ``b`` normal laws with
one shifted coordinate, to ``nu = N(0, I)`` is the mean of ``W(z_1), ..., W(z_b)`` (Chua et al.,
2025, "Balls-and-Bins Sampling for DP-SGD"). An epoch that ends after ``r`` steps has ``b - r``
of these equal to one.

Sums of independent ratios are taken on a geometric lattice, whose logarithm is that of the loss, by
doubling (the grid of Feldman and Shenfeld, 2026). A sum between two lattice points goes to both,
with probabilities that keep its mean. So

*from above* every rounding spreads the likelihood ratio around its mean; a sum of spread terms is
spread itself (the convex order is closed under sums), and the pair of lattice laws dominates;

*from below* the lattice point, drawn so, is a statistic that an attacker can compute. Its laws
under ``nu`` and under ``mu`` are carried along, of which the second is that of a sum with one term
drawn from the other law.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from scipy import special as sc

from reconrisk import arguments
from reconrisk.privacy._compose import _recursion
from reconrisk.privacy._releases import (
    Composable,
    Part,
    TooDear,
    _normal_masses,
    log_square_of,
)
from reconrisk.privacy._saddle import LARGEST_OUTPUT
from reconrisk.privacy._step import UNIT, Law, Step

__all__ = ["MOST_BATCHES", "Allocation"]

#: least noise multiplier: products of likelihood ratios and masses stay in the range of floats
_LEAST_NOISE = 0.05
#: batches of an epoch
MOST_BATCHES = 10**7
#: cells of the rough table, and the most of the lattice
_ROUGH, _CELLS = 300, 2000
#: most cells of one batch's loss within so many deviations, and the fewest of an epoch's spread
_FINEST, _DEVIATIONS, _FEWEST = 4_000, 8.0, 3.0
_LONGEST = 350_000
#: cells are twice as wide for every so many doublings that are still to come
_SLOWLY = 2
#: bound on the rounding of one split, relative to the likelihood ratio
_SPLIT = 32.0 * UNIT


@dataclass(frozen=True)
class Allocation(Composable):
    """Epochs of ``batches`` steps, in each of which a record is in one batch, drawn uniformly.

    Parameters
    ----------
    noise_multiplier : float
        sigma >= 0.05.
    batches : int
        b >= 1.
    released : int, optional
        Steps of each epoch that are released, 1 to ``batches``; all by default.
    steps : int
        Number of epochs, each with a draw of its own.

    Raises
    ------
    TypeError, ValueError
        If an argument is not a number or is out of its range.

    Examples
    --------
    >>> from reconrisk import privacy
    >>> found = privacy.epsilon([privacy.Allocation(1.0, batches=100, steps=10)], delta=1e-5)
    >>> f"{found.lower:.2f} {found.upper:.2f}"
    '1.70 1.70'
    """

    noise_multiplier: float
    batches: int
    released: int | None = None

    def __post_init__(self) -> None:
        arguments.real("noise_multiplier", self.noise_multiplier, _LEAST_NOISE, 1e6)
        arguments.integer("batches", self.batches, 1, MOST_BATCHES)
        if self.released is not None:
            arguments.integer("released", self.released, 1, self.batches)
        arguments.integer("steps", self.steps, 1)

    @property
    def shift(self) -> float:
        """Deviations by which an epoch moves, for who knows the record's batch."""
        return 1.0 / float(self.noise_multiplier)

    @property
    def share(self) -> float:
        """Probability with which an epoch releases the record's batch."""
        return int(self.released or self.batches) / int(self.batches)

    @property
    def log_square(self) -> float:
        """Logarithm of the mean square of an epoch's likelihood ratio."""
        return log_square_of(float(self.noise_multiplier), self.share / int(self.batches))

    @property
    def is_dear(self) -> bool:
        """Whether an epoch's losses are spread too little for a lattice that takes seconds."""
        spread = math.sqrt(math.expm1(min(self.log_square, 100.0)))
        released = int(self.released or self.batches)
        return spread < _FEWEST * _finest(1.0 / float(self.noise_multiplier), released)

    def part(self) -> Part:
        """Return the part of a composition that these epochs are."""
        return _AllocationPart(self)


@dataclass(frozen=True)
class _Sum:
    """A sum of ``count`` likelihood ratios on the points ``exp(width * (first + k))``.

    Attributes
    ----------
    width : float
    nu, mu : ndarray
        Masses of the lattice statistic; under ``mu`` one term has the other law.
    relative : float
        Bound on their relative rounding errors.
    ratio : float
        Bound on the relative error of the likelihood ratios that the lattice points stand for.
    lost : float
        Bound on the mass of ``nu`` that was moved upwards.
    certain : float
        Bound on the part of the sum's mean, over ``count``, beyond the last point.
    """

    count: int
    width: float
    first: int
    nu: np.ndarray
    mu: np.ndarray
    relative: float
    ratio: float
    lost: float = 0.0
    certain: float = 0.0

    @property
    def points(self) -> np.ndarray:
        return self.first + np.arange(self.nu.size)


class _AllocationPart:
    """Epochs of one random allocation, as the composition needs them."""

    cells = _CELLS
    highest = math.inf

    def __init__(self, release: Allocation) -> None:
        self.steps, self._a = int(release.steps), 1.0 / float(release.noise_multiplier)
        self._batches = int(release.batches)
        self._released = int(release.released or release.batches)
        self.finest, self._is_dear = _finest(self._a, self._released), release.is_dear
        idle = self._batches - self._released
        self.lowest = math.log(idle / self._batches) if idle else -math.inf

    def table(self, spill: float) -> tuple[np.ndarray, np.ndarray]:
        if self._is_dear:
            raise TooDear(
                "batches of an allocation must be few enough for its losses to be composed; got "
                f"{self._batches:,}, of which {self._released:,} released"
            )
        reach = -float(sc.ndtri(max(spill, 1e-250)))
        # at most some cells in all, and at least some in a deviation of the mean of many
        deviation = math.sqrt(math.expm1(min(self._a**2, 100.0)) / self._released)
        width = min(self._a * (2.0 * reach + self._a) / _ROUGH, 0.3 * deviation)
        width = max(width, self.finest)
        step = self.step(width, spill)
        used = step.nu.mass > 0.0
        return (step.base + width * step.nu.points)[used], np.log(step.nu.mass[used])

    def step(self, width: float, spill: float) -> Step:
        a, b, r = self._a, self._batches, self._released
        share = spill / (self.steps * (2.0 * r.bit_length() + 4.0))
        law = _add_copies(_one_ratio(a, width * 2 ** _coarsening(r), share / b), r, share)
        if r < b:
            law = _add(law, _constant(b - r, width), share)
        base = law.first * width - math.log(b)
        errors = np.full(law.nu.size, law.relative + 16.0 * UNIT)
        top = float(np.abs(law.points).max()) * width
        return Step(
            base=base,
            width=width,
            above=Law(0, law.nu, errors),
            nu=Law(0, law.nu, errors),
            mu=Law(0, law.mu, errors),
            ratio_error=law.ratio + UNIT * (32.0 + 8.0 * (top + math.log(b))),
            at_infinity=law.certain * (1.0 + 1e-9),
            at_minus_infinity=law.lost * (1.0 + 1e-9),
        )


def _finest(a: float, released: int) -> float:
    """Return the least width of cells: sums of so many batches take seconds there."""
    # sums of two ratios reach the logarithm of two above the ratios
    width = a * (2.0 * _DEVIATIONS + a) / (_FINEST * 2 ** _coarsening(released))
    return max(width, math.log(2.0) / _LONGEST)


def _one_ratio(a: float, width: float, spill: float) -> _Sum:
    """Return one likelihood ratio ``W`` on the lattice, from closed masses of its cells."""
    z = min(-float(sc.ndtri(max(spill, 1e-250))), LARGEST_OUTPUT)
    low, high = math.floor(a * (-z - 0.5 * a) / width), math.ceil(a * (z + 0.5 * a) / width) + 1
    points = np.arange(low, high + 1)
    edges = points * (width / a) + 0.5 * a
    nu, error = _normal_masses(edges, 0.0)
    mu, slip = _normal_masses(edges, a)
    relative = float(np.maximum(error, slip)[(nu > 0.0) & (mu > 0.0)].max())
    with np.errstate(divide="ignore", over="ignore"):  # a cell far out may hold one law alone
        share = _share(np.exp(np.log(mu) - np.log(nu) - points[:-1] * width), width)
    laws = []
    for mass, mean in ((nu, 0.0), (mu, a)):
        law = np.zeros(points.size)
        law[:-1] += mass * (1.0 - share)
        law[1:] += mass * share
        law[0] += sc.ndtr(edges[0] - mean)
        law[-1] += sc.ndtr(mean - edges[-1])
        laws.append(law)
    lost, certain = float(sc.ndtr(edges[0])), float(sc.ndtr(a - edges[-1]))
    relative += 64.0 * UNIT
    return _Sum(1, width, low, laws[0], laws[1], relative, 2.0 * relative, lost, certain)


def _constant(value: int, width: float) -> _Sum:
    """Return a sum of ``value`` ratios that are one."""
    at = math.floor(math.log(value) / width)
    share = float(_share(np.array([value * math.exp(-at * width)]), width)[0])
    law = np.array([1.0 - share, share])
    return _Sum(value, width, at, law, law.copy(), 4.0 * UNIT, _SPLIT)


def _share(ratio: np.ndarray, width: float) -> np.ndarray:
    """Return the probability of a cell's upper end for a value ``ratio`` times its lower end."""
    return np.clip((ratio - 1.0) / math.expm1(width), 0.0, 1.0)


def _add_copies(one: _Sum, count: int, spill: float) -> _Sum:
    """Return the sum of ``count`` independent copies, on a lattice that grows finer as it does.

    What is rounded early is averaged over many terms.
    """
    found, power, doubled = None, one, 1
    while True:
        if count & doubled:
            found = power if found is None else _add(_refine(found, power.width), power, spill)
        doubled *= 2
        if doubled > count:
            assert found is not None
            return found
        power = _add(power, power, spill * doubled / count)
        if _coarsening(count / doubled) < _coarsening(2 * count / doubled):
            power = _refine(power, 0.5 * power.width)


def _coarsening(copies: float) -> int:
    """Return how often cells are twice as wide for a sum of which so many copies are added."""
    return math.floor(math.log2(copies) / _SLOWLY)


def _refine(law: _Sum, width: float) -> _Sum:
    """Return the same sum on a lattice that is finer by a power of two."""
    times = round(law.width / width)
    size = times * (law.nu.size - 1) + 1
    laws = np.zeros((2, size))
    laws[:, ::times] = law.nu, law.mu
    return replace(law, width=width, first=times * law.first, nu=laws[0], mu=laws[1])


def _add(left: _Sum, right: _Sum, spill: float) -> _Sum:
    """Return the sum of two independent sums on one lattice, with both ends cut.

    Pairs of points ``k`` apart add up to a point ``log(1 + exp(-k width))/width`` above the upper
    one: each ``k`` is one product of vectors, until the rise is below half a cell.
    """
    count, first = left.count + right.count, min(left.first, right.first)
    last = max(left.first + left.nu.size, right.first + right.nu.size)
    out = np.zeros((2, last - first + math.floor(math.log(2.0) / left.width) + 2))
    if left is right:
        _add_pairs(out, left, right, count, first, 1, 2.0)
        _add_pairs(out, left, right, count, first, 0, 1.0, only=True)
    else:
        _add_pairs(out, left, right, count, first, 0, 1.0)
        _add_pairs(out, right, left, count, first, 1, 1.0)
    # sums of at most so many positive terms
    relative = left.relative + right.relative + UNIT * (64.0 + 2.0 * out.shape[1])
    ratio = max(left.ratio, right.ratio) + _SPLIT
    lost = left.lost + right.lost
    certain = (left.count * left.certain + right.count * right.certain) / count
    found = _Sum(count, left.width, first, out[0], out[1], relative, ratio, lost, certain)
    return _trim(found, spill)


def _add_pairs(
    out: np.ndarray,
    upper: _Sum,
    lower: _Sum,
    count: int,
    first: int,
    start: int,
    times: float,
    *,
    only: bool = False,
) -> None:
    """Add the pairs of an upper and a lower point that are at least ``start`` apart to ``out``.

    ``out`` has a row for ``nu`` and one for ``mu``, and begins at the point ``first``; ``only`` the
    pairs exactly so far apart.
    """
    width, offset = upper.width, lower.first - upper.first
    size, at = upper.nu.size, upper.first - first
    rows = np.stack([upper.nu, upper.mu * (upper.count / count)]) * times
    below = lower.nu, lower.mu * (lower.count / count)
    far = max(math.ceil(math.log(2.0 / math.expm1(width)) / width), start + 1)
    stop = start + 1 if only else min(far, size - offset)
    gaps = np.arange(start, max(stop, start))
    rise = np.exp(-gaps * width)
    lifts = np.floor(np.log1p(rise) / width).astype(int)
    shares = _share((1.0 + rise) * np.exp(-lifts * width), width)
    # gaps of one rise follow each other: their pairs are one convolution with the shares
    rises = np.split(np.arange(gaps.size), np.flatnonzero(np.diff(lifts)) + 1)
    for some in rises if gaps.size else ():
        shift = offset + start + int(some[0])
        i, j = max(shift, 0), min(size, lower.nu.size + shift + some.size - 1)
        if i >= j:
            continue
        place = at + i + int(lifts[some[0]])
        for up, weights in ((0, 1.0 - shares[some]), (1, shares[some])):
            sums = [np.convolve(law, weights)[i - shift : j - shift] for law in below]
            pair = rows[:, i:j] * sums[0]
            pair[1] += rows[0, i:j] * sums[1]
            out[:, place + up : place + up + j - i] += pair
    i = max(offset + far, 0)
    if only or i >= size:
        return
    # farther apart, the upper end of the cell has a share that decays, from one half on
    part = slice(i - offset - far, size - offset - far)
    whole, raised = [], []
    for law in below:
        law = np.append(law, np.zeros(max(part.stop - law.size, 0)))[: part.stop]
        whole.append(np.cumsum(law)[part])
        raised.append(math.exp(-far * width) / math.expm1(width) * _recursion(law, width)[part])
    for up, masses in ((0, [w - r for w, r in zip(whole, raised, strict=True)]), (1, raised)):
        pair = rows[:, i:] * masses[0]
        pair[1] += rows[0, i:] * masses[1]
        out[:, at + i + up : at + size + up] += pair


def _trim(law: _Sum, spill: float) -> _Sum:
    """Return a sum without the points that nearly nothing reaches, at either end."""
    used = np.flatnonzero(law.nu > 0.0)
    first, last = int(used[0]), int(used[-1])
    below = np.cumsum(law.nu[first : last + 1])
    with np.errstate(divide="ignore"):
        log_mean = np.log(law.nu[first : last + 1]) + law.points[first : last + 1] * law.width
    mean = np.exp(log_mean - math.log(law.count))
    beyond = np.cumsum(mean[::-1])[::-1]
    low = first + int(np.searchsorted(below, spill, side="right"))
    high = first + int(np.searchsorted(-beyond, -spill, side="left")) - 1
    high = max(high, low)
    laws = []
    for mass in (law.nu, law.mu):
        kept = mass[low : high + 1].copy()
        kept[0] += mass[:low].sum()
        kept[-1] += mass[high + 1 :].sum()
        laws.append(kept)
    lost = law.lost + (float(below[low - first - 1]) if low > first else 0.0)
    certain = law.certain + (float(beyond[high + 1 - first]) if high < last else 0.0)
    return replace(law, first=law.first + low, nu=laws[0], mu=laws[1], lost=lost, certain=certain)

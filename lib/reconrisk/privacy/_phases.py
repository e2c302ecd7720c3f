"""Epsilon, delta and success of releases that differ: the phases of a run, or several mechanisms.

The losses of independent releases add up. All are cut into cells of one width, each from a base of
its own; the law of the sum is the product of their characteristic functions, tilted alike. What
:mod:`reconrisk.privacy._compose` says of the errors of a power holds for each factor, and the
bounds below for their product. Dominating pairs and lattice statistics compose as those of equal
steps do.

Neighbouring phases of a long schedule are grouped (:func:`group_neighbours`): from above each
counts with the least noise and the largest rate of its group, from below with the most and the
smallest.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from scipy import fft

from reconrisk._types import DPSGD, Enclosure, check_not_described, order_ends
from reconrisk.privacy._compose import (
    LONGEST,
    Sum,
    TooLong,
    _centre,
    _fold,
    _tilt,
    distances_at,
    few_frequencies,
)
from reconrisk.privacy._profile import guess, scale
from reconrisk.privacy._refine import Cells, refine_delta, refine_epsilon
from reconrisk.privacy._releases import Group, Part, Release, part_of
from reconrisk.privacy._saddle import Saddle
from reconrisk.privacy._step import UNIT, Law, Step
from reconrisk.privacy._tails import Tail, Tails
from reconrisk.privacy._tradeoff import power_above, power_below

__all__ = [
    "Release",
    "as_run_or_releases",
    "composed_delta",
    "composed_epsilon",
    "composed_success",
    "grouped_runs",
    "merge_equal",
]

#: most different releases that are composed one by one
MOST_PARTS = 48
_ROUNDS, _PASSES = 8, 4
#: relative width with which an enclosure ends if a step has more than this
#: part of the cells that it may
_ENOUGH, _LONG = 2e-3, 1 / 32
_NEGLIGIBLE, _FLOOR, _MOST_EXCESS = -80.0, 1e-250, 690.0
_TILTS = 100
#: masses that the first look at a delta leaves out
_SPILL = 1e-30
_SHARES = (1.0, 0.6, 0.35, 0.2, 0.0)
_LEAST_TILT = 1e-9


# Releases ----------------------------------------------------------------------------------------


def merge_equal(releases: Iterable[Release]) -> list[Release]:
    """Return the releases with equal ones counted together, and full batches as one release.

    Gaussian releases of all records with noise multipliers ``sigma_i`` are one with ``sigma``,
    ``1/sigma**2`` being the sum of ``1/sigma_i**2``.

    Raises
    ------
    TypeError, ValueError
        If there is no release, or something else among them.
    """
    counted: dict[Release | tuple[float, float], int] = {}
    for release in releases:
        key: Release | tuple[float, float]
        if isinstance(release, DPSGD):  # schedules have thousands
            key = float(release.noise_multiplier), float(release.sampling_rate)
            steps = int(release.steps)
        elif isinstance(release, Release):
            key, steps = _single_step(release)
        else:
            raise TypeError(
                "releases must be DPSGD, Laplace, Atoms, Group or Allocation; "
                f"got a {type(release).__name__}, {str(release)[:60]}"
            )
        counted[key] = counted.get(key, 0) + steps
    if not counted:
        raise ValueError("releases must hold at least one; got none")
    whole = {k[0]: t for k, t in counted.items() if isinstance(k, tuple) and k[1] == 1.0}
    found = [
        DPSGD(*k, t) if isinstance(k, tuple) else _repeat(k, t)
        for k, t in counted.items()
        if not isinstance(k, tuple) or k[1] < 1.0
    ]
    if len(whole) == 1:
        found.extend(DPSGD(sigma, 1.0, t) for sigma, t in whole.items())
    elif whole:
        least = min(whole)
        total = math.fsum(t * (least / sigma) ** 2 for sigma, t in whole.items())
        found.append(DPSGD(least / math.sqrt(total)))
    return found


@lru_cache(maxsize=4)
def _merged_once(releases: tuple[Release, ...]) -> list[Release]:
    return merge_equal(releases)


def _single_step(release: Release) -> tuple[Release | tuple[float, float], int]:
    """Return one step of a release, of DP-SGD its noise and rate, and the number of steps."""
    if not isinstance(release, Group):
        return replace(release, steps=1), int(release.steps)
    run = release.run
    sigma, q, steps = float(run.noise_multiplier), float(run.sampling_rate), int(run.steps)
    if release.size == 1 or q == 1.0:
        return (sigma / release.size, q), steps
    return Group(DPSGD(sigma, q), int(release.size)), steps


def _repeat(release: Release, steps: int) -> Release:
    if isinstance(release, Group):
        return Group(replace(release.run, steps=steps), release.size)
    return replace(release, steps=steps)


def as_run_or_releases(run: DPSGD | Iterable[Release]) -> DPSGD | list[Release]:
    """Return the one run of DP-SGD that is given, or that releases amount to; else the releases.

    Raises
    ------
    TypeError, ValueError
        If it is neither a run nor releases, or there is none.
    """
    if isinstance(run, DPSGD):
        return run
    check_not_described(run)
    if not isinstance(run, Iterable) or isinstance(run, (str, bytes)):
        raise TypeError(f"run must be a DPSGD, or a list of releases; got {run!r}")
    if isinstance(run, tuple) and len(run) > MOST_PARTS and isinstance(run[0], DPSGD):
        found = list(_merged_once(run))
    else:
        found = merge_equal(run)
    return found[0] if len(found) == 1 and isinstance(found[0], DPSGD) else found


def group_neighbours(releases: Sequence[Release], safe: bool) -> list[Release]:
    """Return at most ``MOST_PARTS`` releases: neighbouring phases counted as their worst, or best.

    Steps of less noise, and of a larger sampling rate, are easier to distinguish.
    """
    if len(releases) <= MOST_PARTS:
        return list(releases)
    few: list[Release] = [r for r in releases if not isinstance(r, DPSGD | Group)]
    sizes: dict[int, list[DPSGD]] = {}
    for r in releases:
        if isinstance(r, DPSGD):
            sizes.setdefault(1, []).append(r)
        elif isinstance(r, Group):
            sizes.setdefault(r.size, []).append(r.run)
    room = max((MOST_PARTS - len(few)) // max(len(sizes), 1), 1)
    for size, phases in sizes.items():
        found = _reduce_phases(tuple(phases), safe, room)
        few.extend(found if size == 1 else [Group(r, size) for r in found])
    return few


def grouped_runs(phases: Sequence[DPSGD], safe: bool) -> tuple[DPSGD, ...]:
    """Return phases of DP-SGD grouped as :func:`group_neighbours` does."""
    every = tuple(phases)
    return every if len(every) <= MOST_PARTS else _reduce_phases(every, safe, MOST_PARTS)


# A report asks of the same schedule again and again: what it is grouped to is kept.
@lru_cache(maxsize=8)
def _reduce_phases(phases: tuple[DPSGD, ...], safe: bool, room: int) -> tuple[DPSGD, ...]:
    sigma, q = (np.array([float(getattr(r, n)) for r in phases]) for n in _AXES)
    steps = np.array([int(r.steps) for r in phases])
    worst, best = (np.min, np.max) if safe else (np.max, np.min)
    return tuple(
        DPSGD(float(worst(sigma[part])), float(best(q[part])), int(steps[part].sum()))
        for part in _cut_into_groups(np.log(sigma), np.log(q), room)
    )


_AXES = ("noise_multiplier", "sampling_rate")


def _cut_into_groups(x: np.ndarray, y: np.ndarray, most: int) -> list[np.ndarray]:
    """Cut points into groups, the widest group in two at a time, at its widest side's middle."""
    groups = [np.arange(x.size)]
    while len(groups) < most:
        sizes = [max(float(np.ptp(x[g])), float(np.ptp(y[g]))) for g in groups]
        widest = int(np.argmax(sizes))
        if sizes[widest] == 0.0:
            break
        group = groups.pop(widest)
        side = x if np.ptp(x[group]) >= np.ptp(y[group]) else y
        low = side[group] <= 0.5 * (side[group].min() + side[group].max())
        groups += [group[low], group[~low]]
    return groups


# The law of the sum ------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Composition:
    """Releases that are composed; the guide's tilted sum is that of all steps."""

    parts: tuple[Part, ...]

    @classmethod
    def of(cls, releases: Iterable[Release]) -> _Composition:
        return cls(tuple(part_of(r) for r in releases))

    @property
    def steps(self) -> int:
        return sum(p.steps for p in self.parts)

    @property
    def lowest(self) -> float:
        return math.fsum(p.steps * p.lowest for p in self.parts)

    def tables(self, spill: float) -> list[tuple[int, np.ndarray, np.ndarray]]:
        share = spill / len(self.parts)
        return [(p.steps, *p.table(share)) for p in self.parts]

    def cut(self, width: float, spill: float) -> list[tuple[Step, int]]:
        share = spill / len(self.parts)
        return [(p.step(width, share), p.steps) for p in self.parts]


@dataclass(frozen=True)
class _Guide:
    """Where to look: a saddle point of the sum of all losses, and the width of cells."""

    saddle: Saddle
    tables: list[tuple[int, np.ndarray, np.ndarray]]
    cells: list[int]
    finest: float

    @property
    def least(self) -> float:
        """Smallest width at which no step has more cells than it may."""
        spans = (float(np.ptp(loss)) for _, loss, _ in self.tables)
        least = max(s / n for s, n in zip(spans, self.cells, strict=True)) + 1e-13
        return max(least, self.finest)

    def width(self, level: float, variance: float) -> float:
        """Return the width at which the cells add about ``variance`` to the sum at a level."""
        theta = float(self.saddle.tilt(np.array(level)))
        spread = float(np.interp(level, self.saddle.level, self.saddle.spread))
        steps = sum(t for t, _, _ in self.tables)
        weights = []
        for count, loss, log_mass in self.tables:
            exponent = log_mass + theta * loss
            weight = np.exp(exponent - exponent.max())
            weights.append((count, loss - loss.min(), weight / weight.sum()))
        coarsest = min(0.5 * spread, math.sqrt(6.0 * spread / steps))
        least = math.sqrt(6.0 * variance / steps)
        width = coarsest
        while width > least:
            added = 0.0
            for count, height, weight in weights:
                rest = height % width
                added += count * float(np.sum(weight * rest * (width - rest)))
            if added < 0.8 * variance:
                break
            width *= 0.85
        return 0.9 * max(width, min(least, coarsest)) + 1e-13


def _guide(composition: _Composition, spill: float) -> _Guide:
    tables = composition.tables(spill)

    def moments(theta: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        log_norm = mean = variance = np.zeros(theta.size)
        for count, loss, log_mass in tables:
            exponent = theta[:, None] * loss + log_mass
            top = exponent.max(axis=1)
            weight = np.exp(exponent - top[:, None])
            total = weight.sum(axis=1)
            first = (weight @ loss) / total
            square = np.einsum("ij,ij->i", weight, (loss - first[:, None]) ** 2) / total
            log_norm = log_norm + count * (top + np.log(total))
            mean, variance = mean + count * first, variance + count * square
        return log_norm, mean, variance

    ends = np.sqrt(moments(np.array([0.0, 1.0]))[2])
    spread = max(float(ends.min()), 1e-3 * float(ends.max()), 1e-12)
    half = np.geomspace(1e-2 / spread, max(120.0 / spread, 4.0), _TILTS)
    positive = np.unique(np.concatenate([half, np.linspace(0, 1, 41)[1:]]))
    theta = np.concatenate([-half[::-1], [0.0], positive])
    log_norm, mean, variance = moments(theta)
    log_norm = log_norm - np.interp(0.0, theta, log_norm)
    nothing = np.zeros(1)
    # bounded losses: far tilts have no spread left
    spreads = np.sqrt(np.maximum(variance, 1e-24))
    cells = [p.cells for p in composition.parts]
    saddle = Saddle(1, theta, log_norm, mean, spreads, nothing, nothing, 0.0)
    return _Guide(saddle, tables, cells, max(p.finest for p in composition.parts))


def _sum_of(
    laws: Sequence[tuple[Law, int]],
    rate: float,
    slopes: tuple[float, float],
    log_outside: float,
) -> Sum:
    """Return the law of the sum of ``steps`` draws of each law, tilted by ``rate``, on a window.

    The errors of a product of powers ``prod phi_i**T_i``, each ``phi_i`` known up to ``e_i``: at
    most ``prod (|phi_i| + e_i)**T_i`` times the sum of ``T_i e_i/(|phi_i| + e_i)``, and likewise
    for the rounding of logarithms and exponentials.
    """
    tilted = [_tilt(law, rate) for law, _ in laws]
    index = [law.first + np.arange(law.mass.size) for law, _ in laws]
    counts = [steps for _, steps in laws]
    draws = [(t[0], i, n) for t, i, n in zip(tilted, index, counts, strict=True)]
    first, size, folded = _window(draws, slopes, log_outside)
    if size > LONGEST:
        raise TooLong(f"{size} lattice points")
    log_norm = math.fsum(n * t[1] for t, n in zip(tilted, counts, strict=True))
    errors, rare = (
        math.fsum(n * t[k] for t, n in zip(tilted, counts, strict=True)) for k in (2, 3)
    )
    if errors + rare > _MOST_EXCESS:
        raise TooLong(f"{sum(counts)} steps, with an error of {errors:.1e} together")
    folded += math.expm1(rare)
    exponents = abs(log_norm) + abs(rate) * max(abs(first), abs(first + size))
    sums = math.fsum(n * (1.0 + math.log(t[0].size)) for t, n in zip(tilted, counts, strict=True))
    relative = math.expm1(errors) + 4.0 * UNIT * (2.0 + len(laws) + exponents + sums + size)

    entry_of_one = 8.0 * math.log2(size) * UNIT
    all_centred = [_centre(mass) for mass, *_ in tilted]
    few = few_frequencies([(c, n) for (c, _), n in zip(all_centred, counts, strict=True)], size)
    count = size // 2 + 1 if few is None else few[0].size
    log_size, angle, log_bound, entries, own = np.zeros((5, count))
    shift, square, left_out = first, 0.0, 0.0 if few is None else few[1]
    for (centred, largest), (law, steps) in zip(all_centred, laws, strict=True):
        shift -= steps * (law.first + largest)
        entry: float | np.ndarray
        if few is None:
            distance = fft.rfft(_fold(centred, size)) - centred.others
            entry = entry_of_one * centred.others + 1e-300
            square += steps * entry_of_one * centred.norm
        else:
            distance, entry = distances_at(centred, size, few[0])
            entry = entry + 1e-300
        x, y, length = distance.real, distance.imag, np.abs(distance)
        near = length < 0.5
        with np.errstate(divide="ignore"):
            # the first form is accurate for |phi| near one, the second down to zero
            close = 0.5 * np.log1p(np.where(near, 2.0 * x + length * length, 0.0))
            one = np.where(near, close, np.log(np.hypot(1.0 + x, y)))
        reached = np.exp(one) + entry
        log_size += steps * one
        angle += steps * np.arctan2(y, 1.0 + x)
        log_bound += steps * np.log(reached)
        entries += steps * entry / reached
        own += steps * length / reached
    own *= (72.0 + 2.0 * len(laws)) * UNIT
    own += 4.0 * UNIT
    used = log_size > _NEGLIGIBLE
    powers = np.zeros(log_size.size, dtype=complex)
    powers[used] = np.exp(log_size[used] + 1j * angle[used])
    weight = np.exp(np.minimum(log_bound, 1.0))
    left_out += 2.0 * float(np.sum(np.exp(np.minimum(log_bound[~used], 0.0)))) / size
    inverse = entry_of_one
    each = 2.0 * float(np.sum(weight * (own + entries) + inverse * np.abs(powers))) / size
    if few is None:
        square *= 1.0 + 1e-6 + float(np.max(entries, initial=0.0, where=used))
    else:
        square = math.sqrt(2.0 * float(np.sum((weight * entries) ** 2)) / size)
    square += math.sqrt(2.0 * float(np.sum((weight * own) ** 2)) / size)
    square += inverse * math.sqrt(2.0 * float(np.sum(np.abs(powers) ** 2)) / size)
    square += left_out * math.sqrt(size)
    spectrum = powers
    if few is not None:
        spectrum = np.zeros(size // 2 + 1, dtype=complex)
        spectrum[few[0]] = powers
    mass = np.maximum(np.roll(fft.irfft(spectrum, size), -(shift % size)), _FLOOR)
    return Sum(
        first, size, rate, log_norm, folded, each + left_out + _FLOOR,
        square + _FLOOR * math.sqrt(size), relative, mass,
    )  # fmt: skip


_Draws = list[tuple[np.ndarray, np.ndarray, int]]


def _window(
    draws: _Draws, slopes: tuple[float, float], log_outside: float
) -> tuple[int, int, float]:
    """Return the window's start, its length (a power of two) and a bound on the mass outside."""
    lowest = sum(n * int(i[0]) for _, i, n in draws)
    highest = sum(n * int(i[-1]) for _, i, n in draws)
    low = _end([(m, -i, n) for m, i, n in draws], slopes[0], log_outside)
    high = _end(draws, slopes[1], log_outside)
    first = lowest if low is None else max(lowest, -low - 1)
    last = highest if high is None else min(highest, high + 1)
    size = 1 << max(last - first + 4, 16).bit_length()
    missed = float(int(first > lowest) + int(last < highest))
    return first - 1, size, min(missed * math.exp(log_outside), 1.0)


def _end(draws: _Draws, slope: float, log_outside: float) -> int | None:
    """Return a level that the sum reaches with probability at most ``exp(log_outside)``.

    By Chernoff's bound, the lowest level of several slopes; None if all of them overflow.
    """
    best = math.inf
    for trial in slope * np.array([0.25, 0.5, 1.0, 2.0, 4.0]):
        level = -log_outside
        for mass, index, steps in draws:
            middle = float(np.sum(mass * index))
            exponent = trial * (index - middle)
            if not trial > 0.0 or float(exponent.max()) > 600.0:  # overflow
                level = math.inf
                break
            log_mean = math.log(float(np.sum(mass * np.exp(np.maximum(exponent, -600.0)))))
            slack = UNIT * (16.0 + 4.0 * float(np.abs(exponent).max()))
            level += steps * (trial * middle + log_mean + slack)
        best = min(best, level / trial if level < math.inf else math.inf)
    return None if best == math.inf else math.ceil(best)


def _loosening(steps: Sequence[tuple[Step, int]]) -> float:
    """Return a bound on the factor by which rounding reduces the steps' likelihood ratios."""
    return math.exp(min(1.01 * math.fsum(n * s.ratio_error for s, n in steps), _MOST_EXCESS))


def _tails(
    steps: Sequence[tuple[Step, int]], saddle: Saddle, theta: float, log_outside: float
) -> tuple[Tails, Tails]:
    """Return the tails of the dominating pair and of the lattice statistic of all steps."""
    h = steps[0][0].width
    rate = theta * h
    base = math.fsum(n * s.base for s, n in steps)
    low, high = saddle.slopes(theta, log_outside)
    slopes = (low * h, high * h)

    def summed(name: str, tilt: float) -> Sum:
        return _sum_of([(getattr(s, name), n) for s, n in steps], tilt, slopes, log_outside)

    law = summed("above", rate)
    lost = math.fsum(n * s.at_minus_infinity for s, n in steps) if rate < 0 else 0.0
    certain = math.fsum(n * s.at_infinity for s, n in steps) if rate >= h else 0.0
    above = Tails(Tail(law, rate, 0.0, lost), Tail(law, rate - h, base, certain), base, h)
    nu, mu = summed("nu", rate), summed("mu", rate - h)
    return above, Tails(Tail(nu, rate, 0.0, 0.0), Tail(mu, rate - h, 0.0, 0.0), base, h)


def _tails_near(
    steps: Sequence[tuple[Step, int]], saddle: Saddle, level: float, sign: int, log_missed: float
) -> tuple[Tails, Tails]:
    """Return tails tilted to a level, or less far where that window is too long.

    ``log_missed`` is the logarithm of the probability under ``nu`` that the window may leave out.
    """
    tilt = float(saddle.tilt(np.array(level)))
    tilt = max(tilt, _LEAST_TILT) if sign > 0 else min(tilt, -_LEAST_TILT)
    for share in _SHARES:
        theta = share * tilt if share else sign * _LEAST_TILT
        log_level = saddle.at(theta) - theta * level
        outside = float(np.clip(log_missed - log_level, -42.0, -12.0))
        try:
            return _tails(steps, saddle, theta, outside)
        except TooLong:
            continue
    raise TooLong("no tilt has a window that fits in memory")


# Epsilon and delta -------------------------------------------------------------------------------


def composed_epsilon(releases: Iterable[Release], delta: float, tolerance: float) -> Enclosure:
    """Enclose epsilon of merged releases; see :func:`reconrisk.privacy.epsilon`."""
    return _both(releases, lambda c, close: _epsilon(c, delta, close), tolerance)


def composed_delta(releases: Iterable[Release], epsilon: float, tolerance: float) -> Enclosure:
    """Enclose delta of merged releases; see :func:`reconrisk.privacy.delta`."""
    return _both(releases, lambda c, close: _delta(c, epsilon, close), tolerance)


def _long(composition: _Composition, steps: Sequence[tuple[Step, int]]) -> bool:
    """Whether a step has so many cells that an enclosure that is narrow enough will do."""
    sizes = (step.nu.mass.size for step, _ in steps)
    return any(n > p.cells * _LONG for n, p in zip(sizes, composition.parts, strict=True))


def _both(
    releases: Iterable[Release],
    found: Callable[[_Composition, float], tuple[float, float]],
    tolerance: float,
) -> Enclosure:
    """Enclose a value that grows with what the releases say, from groups of them on both sides."""
    safe, other, close = _sides(releases, tolerance)
    lower, upper = found(_Composition.of(safe), close)
    if safe != other:
        lower = found(_Composition.of(other), close)[0]
    return Enclosure(float(order_ends(lower, upper)), upper)


def _sides(
    releases: Iterable[Release], tolerance: float
) -> tuple[list[Release], list[Release], float]:
    """Return releases grouped for either side, and the tolerance that is worth its cost."""
    known = list(releases)
    safe, other = group_neighbours(known, True), group_neighbours(known, False)
    # where the groups leave per cents open
    return safe, other, tolerance if safe == other else max(tolerance, _ENOUGH)


def _epsilon(composition: _Composition, delta: float, tolerance: float) -> tuple[float, float]:
    spill = delta * 1e-3 * tolerance
    guide = _guide(composition, spill)
    saddle = guide.saddle
    levels = {sign: sign * guess(saddle, math.log(delta), sign) for sign in (1, -1)}
    theta = max(float(saddle.tilt(np.array(levels[1]))), 1.0)
    width = guide.width(levels[1], tolerance * max(levels[1], 1e-3) / theta)

    def lattice(width: float, _: bool) -> Cells:
        return _cells(composition, guide, width, spill)

    return refine_epsilon(lattice, width, levels, composition.lowest, delta, tolerance)


def _delta(composition: _Composition, epsilon: float, tolerance: float) -> tuple[float, float]:
    # far tails may be dear: only where they are needed
    size = scale(_guide(composition, _SPILL).saddle, epsilon, 1)
    if size < 0.5 * math.log(_SPILL):
        size = max(scale(_guide(composition, 1e-100).saddle, epsilon, 1), -600.0)

    def lattice(size: float, goal: float, share: float, _: bool, aim: float) -> Cells:
        spill = math.exp(max(size, -400.0)) * 1e-3 * goal
        guide = _guide(composition, spill)
        saddle = guide.saddle
        # the enclosure's width is about three quarters of the added variance times the density
        log_density = float(np.interp(epsilon, saddle.level, saddle.log_density_at(1.0)))
        variance = goal * math.exp(min(size - max(log_density, -600.0), 600.0)) / 0.75
        return _cells(composition, guide, max(share * guide.width(epsilon, variance), aim), spill)

    return refine_delta(lattice, epsilon, composition.lowest, size, -600.0, tolerance, tolerance)


def _cells(composition: _Composition, guide: _Guide, width: float, spill: float) -> Cells:
    """Return the composition in cells of a width, or of the smallest that is possible."""
    width = max(width, guide.least)
    steps = composition.cut(width, spill)

    def tails(sign: int, level: float) -> tuple[Tails, Tails]:
        return _tails_near(steps, guide.saddle, level, sign, math.log(spill) - max(level, 0.0))

    will_do = _ENOUGH if _long(composition, steps) else 0.0
    return Cells(width, guide.least, _loosening(steps), guide.saddle, tails, will_do, True)


# Success -----------------------------------------------------------------------------------------


def composed_success(
    releases: Iterable[Release], kappa: np.ndarray, tolerance: float
) -> tuple[np.ndarray, np.ndarray]:
    """Enclose ``gamma`` of merged releases at each ``kappa`` in ``[1e-200, 1)``.

    See :func:`reconrisk.bounds.rero`.
    """
    safe, other, close = _sides(releases, tolerance)
    lower, upper = _success(_Composition.of(safe), kappa, close)
    if safe != other:
        lower = _success(_Composition.of(other), kappa, close)[0]
    return order_ends(lower, upper), upper


def _success(
    composition: _Composition, kappa: np.ndarray, tolerance: float
) -> tuple[np.ndarray, np.ndarray]:
    spill = 1e-3 * tolerance * float(kappa.min())
    guide = _guide(composition, spill)
    saddle, least = guide.saddle, guide.least
    start = int(np.searchsorted(saddle.theta, 0.0))
    level = np.interp(-np.log(kappa), -saddle.log_tail(0.0)[start:], saddle.level[start:])
    lower, upper = kappa.copy(), np.ones_like(kappa)
    width = max(_first_width(guide, kappa, level, tolerance), least)
    gap = math.inf
    for _ in range(_ROUNDS):
        steps = composition.cut(width, spill)
        slack = _loosening(steps)
        too_long = False
        again = upper - lower > tolerance * upper
        for _ in range(2):
            tails, near = None, math.inf
            # from the smallest kappa on, whose window serves those near it
            for i in np.flatnonzero(again)[np.argsort(-level[again])]:
                spread = float(np.interp(level[i], saddle.level, saddle.spread))
                if tails is None or near - level[i] > spread:
                    near = float(level[i])
                    missed = math.log(1e-2 * tolerance * float(kappa[i]))
                    try:
                        tails = _tails_near(steps, saddle, near, 1, missed)
                    except TooLong:
                        too_long, again[i] = True, False
                        continue
                above, below = tails
                bound, index = power_above(above, kappa[i : i + 1])
                upper[i] = min(upper[i], slack * float(bound[0]))
                lower[i] = max(lower[i], float(power_below(below, kappa[i : i + 1])[0]))
                found = float(above.log_ratio(index)[0])
                # a second pass where the tilt was for another level
                again[i] = (
                    upper[i] - lower[i] > tolerance * upper[i] and abs(found - level[i]) > spread
                )
                level[i] = found
        before, gap = gap, float(np.max((upper - lower) / upper))
        if too_long:
            least = 2.0 * width
        elif gap <= tolerance or width <= least or gap > 0.95 * before:
            break
        elif gap <= _ENOUGH and _long(composition, steps):
            break
        factor = 0.85 * math.sqrt(tolerance / gap)
        width = max(width * float(np.clip(factor, 0.05, 0.7)), least)
    return lower, upper


def _first_width(guide: _Guide, kappa: np.ndarray, level: np.ndarray, tolerance: float) -> float:
    """Return the width at which the enclosures are about as wide as the tolerance."""
    saddle = guide.saddle
    power = np.exp(np.interp(level, saddle.level, saddle.log_tail(1.0)))
    power = np.clip(power, kappa, 1.0)
    log_density = np.interp(level, saddle.level, saddle.log_density_at(1.0))
    variances = tolerance * power / (0.75 * np.exp(np.clip(log_density, -600.0, 600.0)))
    return min(guide.width(float(c), float(v)) for c, v in zip(level, variances, strict=True))

"""The distribution of a sum of i.i.d. lattice variables, with relative accuracy near any level.

The masses are first tilted by ``exp(rate * k)``, so that the level of interest is near the mean of
the tilted sum. With ``phi`` the discrete Fourier transform of length N of the tilted masses, that
of the sum of T draws, modulo N, is ``phi**T``. For large T only few frequencies are not negligible;
then only those are evaluated, and each tail is a sum over them. Otherwise a fast Fourier transform
gives all masses of the sum.

:class:`Sum` carries bounds on all errors:

- *aliasing*: the tilted mass outside the window, by Chernoff's bound on the lattice distribution;
- *rounding of the masses*: relative errors of at most ``r`` change every mass of the sum by a
  relative error of at most ``(1 + r)**T - 1``;
- *transform*: an absolute error ``e`` of every ``phi`` is one of
  ``T (e + 72 u |phi - 1|)(|phi| + e)**(T - 1)`` of its power, with the unit roundoff ``u``. The
  mean of that over the spectrum, and of ``|phi|**T`` times the rounding of the inverse transform,
  bounds the error of each mass; its mean square bounds that of a tail, by the Cauchy-Schwarz
  inequality;
- *omitted frequencies*: ``(|phi| + e)**T``, between the points of a coarser transform by
  ``|phi'| <= E|k - mean|`` and, sharper near one, because ``sqrt(1 - |phi|**2)`` changes at most as
  fast as the draws' standard deviation. (With the difference ``d`` of two draws it is the root of
  ``2 E sin(d omega/2)**2``, a norm of ``sin(d omega/2)``, which changes by at most ``d/2``.)
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import fft
from scipy.linalg import lapack

from reconrisk.privacy._step import UNIT, Law

__all__ = [
    "LARGEST", "LONGEST", "Sum", "TooLong", "compose", "distances_at", "few_frequencies",
]  # fmt: skip

#: longest transform of which all masses are kept, and longest of which few are
LONGEST = 1 << 22
LARGEST = 1 << 30

#: largest number of frequencies evaluated one by one, and of their products with masses
MOST_FREQUENCIES = 1 << 14
MOST_PRODUCTS = 1 << 29

#: lengths of the transform that finds them: the most, and the parts of the window's
_LONG, _COARSE, _FINEST = 1 << 20, 8, 1 << 7
#: products of frequencies and masses that cost as much as one point of a whole transform
_WORTH = 100

#: share of the error that improbable masses may have, to be counted apart
_IMPROBABLE = 1e-6
_FLOOR = 1e-250
_NEGLIGIBLE = -80.0
_NO_LESS = -1e3
_BLOCK = 64


class TooLong(Exception):
    """The lattice of the sum does not fit in memory; wider cells are needed."""


@dataclass(frozen=True)
class Sum:
    """Tilted masses of a sum on a window: ``P(i) exp(rate i - log_norm)``.

    Attributes
    ----------
    first, size : int
        The window, ``first .. first + size - 1``.
    rate, log_norm : float
    folded : float
        Bound on the tilted mass outside the window, which is aliased into it.
    each, square : float
        Bounds on the further absolute error of each mass, and on the L2 norm of these errors.
    relative : float
        Bound on the relative error of the masses, of undoing the tilt of a tail and of its sum.
    mass : ndarray or None
        All tilted masses, or None if the next two are given.
    frequencies, powers : ndarray or None
        The non-negative frequencies that are not negligible, as integers below ``size``, and
        ``phi**T`` there (twice that above zero), with phases for the window's first index.
    """

    first: int
    size: int
    rate: float
    log_norm: float
    folded: float
    each: float
    square: float
    relative: float
    mass: np.ndarray | None = None
    frequencies: np.ndarray | None = None
    powers: np.ndarray | None = None

    def error_of_tail(self, decay: float) -> float:
        """Return a bound on the error of a sum of masses weighted ``exp(-decay * distance)``."""
        count = squares = float(self.size)
        if decay * count > 1.0:
            count = min(count, 1.0 / -math.expm1(-decay))
            squares = min(squares, 1.0 / -math.expm1(-2.0 * decay))
        return self.folded + min(self.each * count, self.square * math.sqrt(squares))

    def rising(self, place: np.ndarray, decay: float) -> np.ndarray:
        """Return ``sum over i >= j of mass_i exp(-decay (i - j))``, ``j`` relative to ``first``."""
        if self.mass is not None:
            return _recursion(self.mass[::-1], decay)[::-1][place]
        return self._geometric(place, decay, 1)

    def falling(self, place: np.ndarray, decay: float) -> np.ndarray:
        """Return ``sum over i < j of mass_i exp(-decay (j - i))``, ``j`` relative to ``first``."""
        if self.mass is not None:
            before = np.append(0.0, self.mass[:-1])
            return math.exp(-decay) * _recursion(before, decay)[place]
        return math.exp(-decay) * self._geometric(place - 1, decay, -1)

    def _geometric(self, place: np.ndarray, decay: float, sign: int) -> np.ndarray:
        """Return ``sum over n >= 0 of mass(place + sign n) exp(-decay n)`` within the window."""
        assert self.frequencies is not None and self.powers is not None
        m = self.frequencies
        omega = 2.0 * math.pi / self.size * m
        # 1 - exp(-decay + i sign omega), without cancellation
        near = -math.expm1(-decay) + 2.0 * math.exp(-decay) * np.sin(0.5 * omega) ** 2
        left = near - 1j * sign * math.exp(-decay) * np.sin(omega)
        left[0] = 1.0
        kernel = self.powers / (self.size * left)
        count = self.size - place if sign > 0 else place + 1
        # the phase one cell beyond the window's end
        end = np.exp(-1j * omega) if sign < 0 else np.ones(m.size)
        out = np.empty(place.size)
        chunk = max(1, 500_000 // m.size)
        for start in range(0, place.size, chunk):
            j, n = place[start : start + chunk, None], count[start : start + chunk]
            here = np.exp(2j * math.pi / self.size * ((m * j) % self.size))
            last = here.conj() * end * np.exp(-decay * n)[:, None]
            terms = (kernel * here * (1.0 - last)).real
            # exactly, because both sides of the ratio cancel at frequency zero and small decay
            constant = np.expm1(-decay * n) / math.expm1(-decay) if decay else n
            terms[:, 0] = self.powers[0].real / self.size * constant
            out[start : start + chunk] = terms.sum(axis=1)
        return np.maximum(out, 0.0)


def _recursion(mass: np.ndarray, decay: float) -> np.ndarray:
    """Return ``sum over i <= j of mass_i exp(-decay (j - i))`` at every ``j``."""
    bands = np.empty((2, mass.size), order="F")
    bands[0], bands[1] = 1.0, -math.exp(-decay)
    # LAPACK's triangular solver: the general one for bands takes four to thirteen times as long
    summed, _ = lapack.dtbtrs(bands, mass, uplo="L", diag="U")
    return summed


def compose(
    law: Law,
    rate: float,
    steps: int,
    slopes: tuple[float, float],
    log_outside: float,
    *,
    whole: bool = False,
) -> Sum:
    """Return the distribution of the sum of ``steps`` draws, tilted by ``rate``, on a window.

    Parameters
    ----------
    law : Law
        Of one draw.
    rate : float
        Tilt per lattice point.
    steps : int
        Number of draws T.
    slopes : tuple of float
        Positive initial guesses of Chernoff's parameters, relative to ``rate``, for the two ends.
    log_outside : float
        Logarithm of the tilted mass that may lie beyond either end of the window.
    whole : bool
        Return all masses, even if few frequencies would do.

    Returns
    -------
    Sum

    Raises
    ------
    TooLong
        If neither transform is feasible, or the steps' rounding errors exceed the range of floats.

    Notes
    -----
    Cost, for K masses: about eight exponentials for each; then either two transforms of the
    window's length or, with M frequencies, one short transform and ``2 K M`` multiplications.
    """
    tilted, log_step, relative, rare = _tilt(law, rate)
    index = law.first + np.arange(tilted.size)
    first, size, folded = _window(tilted, index, steps, slopes, log_outside)
    log_norm = steps * log_step
    exponents = abs(log_norm) + abs(rate) * max(abs(first), abs(first + size))
    if steps * (relative + rare) > 690.0:
        raise TooLong(f"{steps} steps, each with an error of {relative:.1e}")
    folded += math.expm1(steps * rare)
    relative = math.expm1(steps * relative) + 4.0 * UNIT * (
        2.0 + exponents + steps * (1.0 + math.log(tilted.size))
    )
    centred, largest = _centre(tilted)
    shift = first - steps * (law.first + largest)
    counting = few_frequencies([(centred, steps)], size)
    if size > LONGEST and (whole or counting is None):
        raise TooLong(f"{size} lattice points, too many of whose frequencies are not negligible")
    relative += 4.0 * UNIT * size if whole or counting is None else 0.0
    if counting is None:
        mass, each, square = _all_masses(centred, steps, size, shift)
        return Sum(first, size, rate, log_norm, folded, each, square, relative, mass)
    frequencies, left_out = counting
    powers, each, square = _few_powers(centred, steps, size, shift, frequencies)
    each += left_out
    square += left_out * math.sqrt(size)
    few = Sum(
        first, size, rate, log_norm, folded, each, square, relative, None, frequencies, powers
    )
    if not whole:
        return few
    mass, each, square = _from_few(few, frequencies, powers)
    return Sum(first, size, rate, log_norm, folded, each, square, relative, mass)


def _tilt(law: Law, rate: float) -> tuple[np.ndarray, float, float, float]:
    """Return tilted masses of sum one, the log of their norm, and bounds on their errors.

    First a relative error of all masses but a few improbable ones, then the sum of the absolute
    errors of those.
    """
    index = law.first + np.arange(law.mass.size)
    with np.errstate(divide="ignore"):
        log_mass = np.log(law.mass) + rate * index
    top = float(log_mass.max())
    # smaller masses are negligible, and subnormal numbers slow
    tilted = np.exp(np.maximum(log_mass - top, -690.0))
    total = float(tilted.sum())
    tilted /= total
    exponents = 2.0 * np.abs(rate * index) + np.abs(np.maximum(log_mass, -1e3)) + abs(top)
    relative = law.relative + 4.0 * UNIT * (2.0 + exponents)
    order = np.argsort(-relative)
    errors = np.cumsum((tilted * relative)[order])
    kept = int(np.argmax(errors > _IMPROBABLE * relative[order]))
    rare = float(errors[kept - 1]) * (1.0 + 1e-9) if kept else 0.0
    return tilted, top + math.log(total), float(relative[order[kept]]), rare


@dataclass(frozen=True)
class _Centred:
    """Masses indexed from the largest one, which is set to zero.

    The error of a transform is proportional to the norm of its input, which without the largest
    mass is small if most draws have the same value. ``others`` is their sum, ``deviation`` the mean
    distance from the largest, ``spread`` a bound on the standard deviation.
    """

    rest: np.ndarray
    first: int
    others: float
    norm: float
    deviation: float
    spread: float


def _centre(tilted: np.ndarray) -> tuple[_Centred, int]:
    largest = int(np.argmax(tilted))
    rest = tilted.copy()
    rest[largest] = 0.0
    offset = np.abs(np.arange(tilted.size, dtype=float) - largest)
    norm = math.sqrt(float(np.sum(rest * rest)))
    deviation = float(np.sum(rest * offset))
    spread = math.sqrt(float(rest @ (offset * offset)))
    return _Centred(rest, -largest, float(rest.sum()), norm, deviation, spread), largest


def _fold(law: _Centred, size: int) -> np.ndarray:
    return np.bincount((law.first + np.arange(law.rest.size)) % size, law.rest, minlength=size)


def _all_masses(
    law: _Centred, steps: int, size: int, shift: int
) -> tuple[np.ndarray, float, float]:
    """Return all tilted masses of the sum by two fast Fourier transforms, and error bounds."""
    entry = 8.0 * math.log2(size) * UNIT
    spectrum = fft.rfft(_fold(law, size)) - law.others
    powers, each, square, left_out = _powers(spectrum, entry * law.others, steps, size)
    each += 2.0 * entry * float(np.sum(np.abs(powers))) / size + left_out
    # in mean square, a transform has this error relative to the norm of its input
    square += steps * entry * law.norm + left_out * math.sqrt(size)
    square += entry * math.sqrt(2.0 * float(np.sum(np.abs(powers) ** 2)) / size)
    mass = np.roll(fft.irfft(powers, size), -(shift % size))
    # the floor avoids slow subnormal numbers in the recursions of the tails
    return np.maximum(mass, _FLOOR), each + _FLOOR, square + _FLOOR * math.sqrt(size)


def _powers(
    distance: np.ndarray, entry: float | np.ndarray, steps: int, size: int
) -> tuple[np.ndarray, float, float, float]:
    """Return ``phi**T`` of ``phi = 1 + distance`` and error bounds.

    ``distance`` has an absolute error of at most ``entry``. The logarithm, its multiple and the
    exponential add at most ``72 u |distance|`` for each factor.

    Returns
    -------
    powers : ndarray, complex
    each : float
        Mean error of the powers over the spectrum.
    square : float
        Root mean square of these errors, without the contribution of ``entry``.
    left_out : float
        Mean magnitude of the powers that were set to zero.
    """
    x, y = distance.real, distance.imag
    length = np.abs(distance)
    near = length < 0.5
    with np.errstate(divide="ignore"):
        # the first form is accurate for |phi| near one, the second down to zero
        close = 0.5 * np.log1p(np.where(near, 2.0 * x + length * length, 0.0))
        log_size = np.where(near, close, np.log(np.hypot(1.0 + x, y)))
    log_size = np.maximum(log_size, _NO_LESS)  # finite: no steps at all have the power one
    log_power = (steps - 1) * np.maximum(log_size, np.log(np.exp(log_size) + entry))
    used = steps * log_size > _NEGLIGIBLE
    powers = np.zeros_like(distance)
    powers[used] = np.exp(
        steps * log_size[used] + 1j * (steps * np.arctan2(y[used], 1.0 + x[used]))
    )
    # real input: every coefficient but the first and last represents two
    weight = np.exp(np.minimum(log_power, 1.0))
    own = weight * (72.0 * steps * UNIT * length + 4.0 * UNIT)
    each = 2.0 * float(np.sum(own + steps * entry * weight)) / size
    square = math.sqrt(2.0 * float(np.sum(own * own)) / size)
    left_out = 2.0 * float(np.sum(np.exp(np.minimum(steps * log_size[~used], 0.0)))) / size
    return powers, each, square, left_out


def few_frequencies(
    laws: Sequence[tuple[_Centred, int]], size: int
) -> tuple[np.ndarray, float] | None:
    """Return the frequencies that are not negligible, and a bound on the others' part of each mass.

    Of a sum of so many draws of each law. None if too many may be needed.
    """
    coarse = 512.0 * max(law.deviation for law, _ in laws) + 64.0
    coarse = 1 << math.ceil(math.log2(min(max(coarse, size / _FINEST), size / _COARSE, _LONG)))
    entry = 8.0 * math.log2(coarse) * UNIT
    half = math.pi / coarse * (1.0 + 1e-9)
    log_power = np.zeros(coarse // 2 + 1)
    for law, steps in laws:
        distance = fft.rfft(_fold(law, coarse)) - law.others
        # upper bounds within half an interval of each coarse frequency
        magnitude = np.abs(1.0 + distance) + entry + half * law.deviation
        missing = -2.0 * distance.real - np.abs(distance) ** 2 - 8.0 * entry * law.others
        missing = np.maximum(np.sqrt(np.maximum(missing, 0.0)) - half * law.spread, 0.0)
        missing = np.minimum(missing, 1.0 - 1e-15)
        log_power += steps * np.minimum(np.log(magnitude), 0.5 * np.log1p(-missing * missing))
    counts = np.flatnonzero(log_power > _NEGLIGIBLE)
    ratio = size // coarse
    wanted = counts.size * ratio
    most = len(laws) * _WORTH * size if size <= LONGEST else MOST_PRODUCTS
    products = wanted * sum(law.rest.size for law, _ in laws)
    if wanted > min(MOST_FREQUENCIES, size >> 4) or products > most:
        return None
    start = counts * ratio - ratio // 2
    frequencies = (start[:, None] + np.arange(ratio + 1)).ravel()
    left = np.exp(log_power[log_power <= _NEGLIGIBLE])
    omitted = 2.0 * ratio * float(np.sum(left)) / size
    return np.unique(np.clip(frequencies, 0, size // 2)), omitted


def distances_at(
    law: _Centred, size: int, frequencies: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return ``phi - 1`` at some frequencies, and bounds on its errors.

    What is summed is ``exp(-i omega k) - 1``, which is small for most draws: so are the errors.
    """
    rows = -(-law.rest.size // _BLOCK)
    padded = np.zeros(rows * _BLOCK)
    padded[: law.rest.size] = law.rest
    block = padded.reshape(rows, _BLOCK)
    begin = law.first + _BLOCK * np.arange(rows)
    distance = np.empty(frequencies.size, dtype=complex)
    chunk = max(1, (1 << 21) // (rows + _BLOCK))
    for start in range(0, frequencies.size, chunk):
        part = frequencies[start : start + chunk]
        inner = _phases_less_one(part, np.arange(_BLOCK), size)
        outer = _phases_less_one(part, begin, size)
        # NumPy sums the rows pairwise
        sums = inner @ block.T
        sums += outer * sums
        sums += outer * block.sum(axis=1)
        distance[start : start + chunk] = np.sum(sums, axis=1)
    # the mean size of what is summed: of a block's beginning and of the place within it
    within = np.minimum(2.0, (2.0 * math.pi / size) * frequencies * _BLOCK)
    away = np.minimum(2.0 * law.others, (2.0 * math.pi / size) * frequencies * law.deviation)
    entry = (
        UNIT * (64.0 + 2.0 * (_BLOCK + 16.0 + math.log2(rows))) * (3.0 * within * law.others + away)
    )
    return distance, entry


def _few_powers(
    law: _Centred, steps: int, size: int, shift: int, frequencies: np.ndarray
) -> tuple[np.ndarray, float, float]:
    """Return ``phi**T`` at some frequencies, and bounds on the resulting errors of the masses."""
    distance, entry = distances_at(law, size, frequencies)
    powers, each, square, left_out = _powers(distance, entry, steps, size)
    weight = np.abs(powers)
    inverse = 128.0 * UNIT
    each += inverse * float(np.sum(weight)) / size + left_out
    square += math.sqrt(float(np.sum((steps * entry + inverse * weight) ** 2)) / size)
    square += left_out * math.sqrt(size)
    powers *= _phases(frequencies, np.array([-shift]), size)[:, 0]
    powers[(frequencies > 0) & (frequencies < size // 2)] *= 2.0
    return powers, each, square


def _from_few(
    total: Sum, frequencies: np.ndarray, powers: np.ndarray
) -> tuple[np.ndarray, float, float]:
    """Return all masses of a sum of which few frequencies are known, and error bounds."""
    size = total.size
    spectrum = np.zeros(size // 2 + 1, dtype=complex)
    spectrum[frequencies] = powers
    spectrum[1 : size // 2] *= 0.5
    entry, weight = 8.0 * math.log2(size) * UNIT, np.abs(powers)
    each = total.each + entry * float(weight.sum()) / size + _FLOOR
    square = total.square + entry * math.sqrt(float(weight @ weight) / size)
    mass = np.maximum(fft.irfft(spectrum, size), _FLOOR)
    return mass, each, square + _FLOOR * math.sqrt(size)


def _phases(frequencies: np.ndarray, places: np.ndarray, size: int) -> np.ndarray:
    """Return ``exp(-2 pi i m k / size)``, ``m k`` reduced exactly, shape (frequencies, places)."""
    product = (frequencies[:, None] * (places[None, :] % size)) % size
    return np.exp((-2j * math.pi / size) * product)


def _phases_less_one(frequencies: np.ndarray, places: np.ndarray, size: int) -> np.ndarray:
    """Return ``exp(-2 pi i m k / size) - 1`` with a small relative error, as :func:`_phases`."""
    product = (frequencies[:, None] * (places[None, :] % size)) % size
    product[2 * product > size] -= size
    half = (math.pi / size) * product
    sine = np.sin(half)
    return (-2.0 * sine) * (sine + 1j * np.cos(half))


def _window(
    tilted: np.ndarray,
    index: np.ndarray,
    steps: int,
    slopes: tuple[float, float],
    log_outside: float,
) -> tuple[int, int, float]:
    """Return the window's start, its length (a power of two) and a bound on the mass outside."""
    lowest, highest = steps * int(index[0]), steps * int(index[-1])
    low = _end(tilted, -index, steps, slopes[0], log_outside)
    high = _end(tilted, index, steps, slopes[1], log_outside)
    first = lowest if low is None else max(lowest, -low - 1)
    last = highest if high is None else min(highest, high + 1)
    size = min(1 << max(last - first + 4, 16).bit_length(), LARGEST)
    missed = float(int(first > lowest) + int(last < highest))
    if first + size <= last + 1:
        missed = math.inf
    return first - 1, size, min(missed * math.exp(log_outside), 1.0)


def _end(
    tilted: np.ndarray, index: np.ndarray, steps: int, slope: float, log_outside: float
) -> int | None:
    """Return a level that the sum reaches with probability at most ``exp(log_outside)``.

    By Chernoff's bound, the lowest level of three slopes; None if all of them overflow.
    """
    best = math.inf
    middle = float(np.sum(tilted * index))
    if not slope > 0.0:  # no guess: that of a normal law
        variance = steps * float(np.sum(tilted * (index - middle) ** 2))
        slope = math.sqrt(-2.0 * log_outside / max(variance, 1e-300))
    for trial in (0.5 * slope, slope, 2.0 * slope):
        exponent = trial * (index - middle)
        if not trial > 0.0 or float(exponent.max()) > 600.0:  # overflow
            continue
        log_mean = math.log(float(np.sum(tilted * np.exp(np.maximum(exponent, -600.0)))))
        slack = UNIT * (16.0 + 4.0 * float(np.abs(exponent).max()))
        best = min(best, steps * middle + (steps * (log_mean + slack) - log_outside) / trial)
    return None if best == math.inf else math.ceil(best)

"""One step of sub-sampled DP-SGD, discretised on a lattice of privacy losses.

With ``nu = N(0, 1)`` (without the record; the unit is the noise's standard deviation) and
``mu = (1 - q) nu + q N(a, 1)``, ``a = 1/sigma``, the privacy loss is
``L(x) = log(1 - q + q exp(a x - a**2/2))``, increasing in ``x``. Losses are divided into cells of
width ``h`` from an origin ``base``; for ``q < 1`` that is the smallest loss, ``log(1 - q)``.

*From above.* The mass in a cell is split between the cell's two ends so that its totals under
``nu`` and under ``mu`` are preserved. This spreads the likelihood ratio without changing its mean,
so that the pair of lattice distributions dominates ``(mu, nu)``: it is easier to distinguish by
every test and after any number of steps (Blackwell's order; Doroshenko et al. 2022, "connect the
dots"). The two parts are integrals of positive functions; differences of masses would cancel on
fine lattices.

*From below.* The sum over the steps of the loss rounded to the lattice is a statistic of the
output, so that an attacker can carry out every test based on it. Its distributions under ``nu`` and
``mu`` are exact.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy import special as sc

__all__ = ["Law", "Step", "first_large", "losses", "one_step"]

UNIT = 2.0**-53

_FEW = np.polynomial.legendre.leggauss(4)
_MANY = np.polynomial.legendre.leggauss(8)
_INVERSE_ROOT_2PI = 0.3989422804014327
_CHUNK = 1 << 15
#: cells of large losses are at least this part of their distance from the origin wide
_STRETCH = 1.0 / 1024.0


@dataclass(frozen=True)
class Law:
    """A distribution on the lattice points ``first, first + 1, ...``, or on some of them.

    Attributes
    ----------
    first : int
    mass : ndarray
        Non-negative; its sum is one minus the mass at plus and minus infinity.
    relative : ndarray
        Bound on each mass's relative rounding error.
    some : ndarray or None
        The lattice points, where they are not all.
    """

    first: int
    mass: np.ndarray
    relative: np.ndarray
    some: np.ndarray | None = None

    @property
    def points(self) -> np.ndarray:
        """The lattice points."""
        return self.first + np.arange(self.mass.size) if self.some is None else self.some


@dataclass(frozen=True)
class Step:
    """One step on the lattice ``base + k * width``.

    Attributes
    ----------
    base, width : float
    above : Law
        The dominating pair's distribution under ``nu``; under ``mu`` the mass at ``k`` is larger by
        the factor ``exp(base + k * width)``, and the remaining mass is at plus infinity.
    nu, mu : Law
        Distributions of the rounded loss.
    ratio_error : float
        Bound on the relative error of the dominating pair's likelihood ratio.
    at_infinity : float
        Bound on ``mu``'s mass at plus infinity in the dominating pair.
    at_minus_infinity : float
        Bound on ``nu``'s mass at minus infinity.
    """

    base: float
    width: float
    above: Law
    nu: Law
    mu: Law
    ratio_error: float
    at_infinity: float
    at_minus_infinity: float


def losses(x: np.ndarray, inverse_noise: float, sampling_rate: float) -> np.ndarray:
    """Return ``L(x) = log(1 - q + q exp(a x - a**2/2))``."""
    a, q = inverse_noise, sampling_rate
    exponent = a * (x - 0.5 * a)
    if q == 1.0:
        return exponent
    return math.log1p(-q) + np.logaddexp(0.0, exponent + math.log(q) - math.log1p(-q))


def first_large(cut: float, base: float, width: float) -> int:
    """Return the first lattice point beyond a loss."""
    return math.floor((cut - base) / width) + 1


def one_step(
    inverse_noise: float,
    sampling_rate: float,
    width: float,
    low: float,
    high: float,
    cut: float = math.inf,
) -> Step:
    """Discretise one step on outputs in ``[low, high]`` with cells of ``width``.

    The mass of outputs outside is added on the safe side of either distribution. Beyond the loss
    ``cut`` cells grow wider, by a thousandth of their distance from the smallest loss.

    Cost: eight exponentials for each of ``2 (L(high) - L(low))/width`` half cells, in chunks of
    2**15; memory of about ten arrays of half that length.
    """
    geometry = _Geometry(inverse_noise, sampling_rate, low, high, width, cut)
    masses = np.empty((4, geometry.halves))
    for start in range(0, geometry.halves, _CHUNK):
        stop = min(start + _CHUNK, geometry.halves)
        masses[:, start:stop] = _integrate(geometry, start, stop)
    return _assemble(geometry, masses)


class _Geometry:
    """The lattice: cell ``j`` begins ``bounds[j] width`` above ``base``, and has two halves.

    Likelihood ratios are written ``exp(base) * (1 + v)`` with an excess ``v(x) >= 0``.
    """

    def __init__(
        self, a: float, q: float, low: float, high: float, width: float, cut: float
    ) -> None:
        self.a, self.q, self.low, self.high, self.width = a, q, low, high, width
        if q == 1.0:
            self.base = a * (low - 0.5 * a)
            self.log_odds = 0.0
        else:
            self.base = math.log1p(-q)
            self.log_odds = math.log(q) - math.log1p(-q)
        bottom, top = (math.log1p(float(self.excess(np.array(x)))) for x in (low, high))
        self.first = int(bottom / width)
        if self.first > 0 and self.first * width > bottom:
            self.first -= 1
        last = max(math.ceil(top / width), self.first + 1)
        fine = self.first + 2
        fine = last if cut == math.inf else min(max(first_large(cut, self.base, width), fine), last)
        self.bounds = np.arange(self.first, fine + 1)
        self.uniform = fine == last
        if not self.uniform:
            self.bounds = np.append(self.bounds[:-1], _stretch_cells(fine, last))
        self.cells = self.bounds.size - 1
        self.halves = 2 * self.cells

    def excess(self, x: np.ndarray) -> np.ndarray:
        """Return ``v(x) = exp(L(x) - base) - 1`` with a small relative error."""
        if self.q == 1.0:
            return np.maximum(np.expm1(self.a * (x - self.low)), 0.0)
        return np.exp(self.a * (x - 0.5 * self.a) + self.log_odds)

    def outputs(self, y: np.ndarray) -> np.ndarray:
        """Return the outputs ``x`` in ``[low, high]`` whose losses are nearest to ``base + y``."""
        if self.q == 1.0:
            x = y / self.a + self.low
        else:
            with np.errstate(divide="ignore"):
                # the logarithm of exp(y) - 1, without overflow
                x = (y + np.log(-np.expm1(-y)) - self.log_odds) / self.a + 0.5 * self.a
        return np.clip(x, self.low, self.high)

    def edges(self, start: int, stop: int) -> np.ndarray:
        """Return the outputs at the ends of half cells ``start`` to ``stop - 1``."""
        j = np.arange(start, stop + 1)
        twice = self.bounds[j // 2] + self.bounds[(j + 1) // 2]
        x = self.outputs(twice * (0.5 * self.width))
        if start == 0:
            x[0] = self.low
        if stop == self.halves:
            x[-1] = self.high
        return x


def _stretch_cells(first: int, last: int) -> np.ndarray:
    """Return growing cells' ends from ``first`` to ``last``."""
    count = math.ceil(math.log(last / max(first, 1)) / math.log1p(_STRETCH)) + 1
    ends = np.rint(np.geomspace(max(first, 1), last, count + 1)).astype(np.int64)
    ends[0], ends[-1] = first, last
    return np.unique(ends)


def _integrate(g: _Geometry, start: int, stop: int) -> np.ndarray:
    """Return four masses of each half cell, shape (4, half cells).

    Under ``nu``, under ``mu``, and the parts of ``nu`` assigned to the cell's lower and upper end.
    """
    edges = g.edges(start, stop)
    lower, size = edges[:-1], np.diff(edges)
    cell = np.arange(start, stop) // 2
    # Gauss-Legendre with 4 (8) nodes is exact to 1e-17 of the mass up to these sizes
    scale = size * (np.maximum(np.abs(lower), np.abs(edges[1:])) + g.a + 4.0)
    narrow = scale <= 0.1
    if np.all(narrow):
        return _sums(g, lower, size, cell, *_FEW)
    out = np.zeros((4, stop - start))
    out[:, narrow] = _sums(g, lower[narrow], size[narrow], cell[narrow], *_FEW)
    wide = np.flatnonzero(~narrow)
    pieces = np.ceil(scale[wide] / 2.0).astype(int)
    owner = np.repeat(wide, pieces)
    number = np.arange(owner.size) - np.repeat(np.cumsum(pieces) - pieces, pieces)
    piece = np.repeat(size[wide] / pieces, pieces)
    sums = _sums(g, lower[owner] + number * piece, piece, cell[owner], *_MANY)
    for row, values in zip(out, sums, strict=True):
        row += np.bincount(owner, values, minlength=stop - start)
    return out


def _sums(
    g: _Geometry,
    lower: np.ndarray,
    size: np.ndarray,
    cell: np.ndarray,
    nodes: np.ndarray,
    weights: np.ndarray,
) -> np.ndarray:
    """Return the four masses of the intervals ``[lower, lower + size]``, shape (4, intervals)."""
    out = np.zeros((4, lower.size))
    bottom = np.expm1(g.bounds[cell] * g.width)
    rise = math.expm1(g.width)
    if not g.uniform:
        rise = np.expm1((g.bounds[cell + 1] - g.bounds[cell]) * g.width)
    to_share = 1.0 / ((1.0 + bottom) * rise)
    lift = math.exp(g.base)
    for node, weight in zip(nodes, weights, strict=True):
        x = lower + (0.5 + 0.5 * node) * size
        density = np.exp(-0.5 * x * x) * ((0.5 * weight * _INVERSE_ROOT_2PI) * size)
        excess = g.excess(x)
        # the fraction of this mass assigned to the cell's upper end
        share = np.clip((excess - bottom) * to_share, 0.0, 1.0)
        out[0] += density
        out[1] += density * (lift * (1.0 + excess))
        out[2] += density * (1.0 - share)
        out[3] += density * share
    return out


def _assemble(g: _Geometry, masses: np.ndarray) -> Step:
    """Return the lattice distributions, from the half cells' masses and those beyond the ends."""
    nu, mu, left, right = masses
    a, q, h = g.a, g.q, g.width
    rounding = _rounding(g)
    nu_low, nu_high = float(sc.ndtr(g.low)), float(sc.ndtr(-g.high))
    mu_low = (1.0 - q) * nu_low + q * float(sc.ndtr(g.low - a))
    mu_high = (1.0 - q) * nu_high + q * float(sc.ndtr(a - g.high))

    above = np.zeros(g.cells + 1)
    above[:-1] += left.reshape(-1, 2).sum(axis=1)
    above[1:] += right.reshape(-1, 2).sum(axis=1)
    at_minus_infinity = 0.0
    if q < 1.0 and g.first == 0:
        share = math.exp(g.log_odds) * float(sc.ndtr(g.low - a)) / math.expm1(h)
        above[0] += max(nu_low - share, 0.0)
        above[1] += share
    else:
        # split between a likelihood ratio of zero and that of a lattice point above
        above[1] += mu_low * math.exp(-(g.base + (g.first + 1) * h))
        at_minus_infinity = nu_low
    # split between the last lattice point and an infinite likelihood ratio
    above[-1] += nu_high

    points = None if g.uniform else g.bounds
    label = (np.arange(g.halves) + 1) // 2
    laws = []
    for mass, below, beyond in ((nu, nu_low, nu_high), (mu, mu_low, mu_high)):
        rounded = np.append(np.bincount(label, mass, minlength=g.cells + 1), beyond)
        rounded[0] += below
        some = None if points is None else np.append(points, points[-1] + 1)
        laws.append(Law(g.first, rounded, np.append(rounding, rounding[-1]), some))
    return Step(
        base=g.base,
        width=h,
        above=Law(g.first, above, rounding, points),
        nu=laws[0],
        mu=laws[1],
        ratio_error=_ratio_error(g),
        at_infinity=mu_high * (1.0 + 1e-9),
        at_minus_infinity=at_minus_infinity * (1.0 + 1e-9),
    )


def _ratio_error(g: _Geometry) -> float:
    """Return a bound on the relative error of the mean likelihood ratio of what a point is given.

    Errors of excesses, of lattice points' and of the shares are relative to the largest excess.
    """
    largest = 1.0 if g.q == 1.0 else min(math.expm1(min(int(g.bounds[-1]) * g.width, 1.0)), 1.0)
    exponents = g.a * max(-g.low, g.high) + g.a * g.a + abs(g.log_odds)
    return largest * UNIT * (32.0 + 4.0 * exponents)


def _rounding(g: _Geometry) -> np.ndarray:
    """Return a bound on the relative error of the mass at each lattice point.

    Rounding errors of the exponents ``x**2/2`` and ``a x - a**2/2 + log(q/(1 - q))`` and of the
    sums over nodes, and the error of the quadrature.
    """
    x = np.abs(g.outputs(g.bounds * g.width))
    x[0] = abs(g.low)
    x[-1] = max(x[-1], abs(g.high))
    near = x.copy()
    near[1:] = np.maximum(near[1:], x[:-1])
    near[:-1] = np.maximum(near[:-1], x[1:])
    return UNIT * (64.0 + 2.0 * near * near + 4.0 * (g.a * near + g.a**2 + abs(g.log_odds)))

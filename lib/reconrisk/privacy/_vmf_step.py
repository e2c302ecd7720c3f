"""One sub-sampled von Mises-Fisher release on a lattice of privacy losses, from both sides.

Of all pairs of directions, opposite ones are the easiest to tell apart, for every event and not
only in Rényi divergence. Put the two directions at angles ``+-theta/2`` from their bisector ``v``,
``u`` orthogonal to it. At a given ``theta`` the best event is a cap ``{u.x > tau}``; turning the
directions apart brings the first nearer to ``u`` and the second away from it, so by reflection
the cap's probability rises under the first law and falls under the second: the hockey-stick
divergences grow with ``theta`` at every level. What is dominated stays so on a Poisson sample and
under composition (Zhu, Dong and Wang 2022).

For the opposite pair the loss depends on one coordinate ``t = u.x`` of the output only, whose law
is ``exp(-+kappa t) (1 - t**2)**((p-3)/2)``. With the latitude ``f``, ``t = sin f``, its density is
``exp(-+kappa sin f) cos(f)**(p-2)``, smooth in every dimension. ``nu`` is the law of the output
without the record, ``mu = (1 - q) nu + q nu'`` that with it, ``nu'`` the mirror image, and the
loss ``L = log(1 - q + q exp(2 kappa sin f))`` grows with ``f``. Cells, the laws from above and
from below: as in :mod:`reconrisk.privacy._step`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy import special as sc

from reconrisk import special
from reconrisk.privacy._saddle import Saddle, tabulate
from reconrisk.privacy._step import UNIT, Law, Step
from reconrisk.special._stirling import log_stirling_remainder

__all__ = ["OppositePair", "guide", "one_step", "reach"]

_FEW = np.polynomial.legendre.leggauss(4)
_MANY = np.polynomial.legendre.leggauss(8)
_CHUNK = 1 << 15
# Nothing of a density is followed below exp(-_DEEP) of its peak.
_DEEP = 740.0
_TINY = 1e-300


@dataclass(frozen=True)
class OppositePair:
    """``steps`` releases with concentration kappa > 0 in p dimensions, on Poisson samples."""

    concentration: float
    dimension: float
    sampling_rate: float
    steps: int

    @property
    def log_odds(self) -> float:
        """``log(q/(1 - q))``; not for q = 1."""
        return math.log(self.sampling_rate) - math.log1p(-self.sampling_rate)

    def loss(self, f: np.ndarray) -> np.ndarray:
        """Privacy loss of one release at a latitude."""
        full = 2.0 * self.concentration * np.sin(f)
        if self.sampling_rate == 1.0:
            return full
        return math.log1p(-self.sampling_rate) + np.logaddexp(0.0, full + self.log_odds)

    def log_density(self, f: np.ndarray) -> np.ndarray:
        """Of the latitude under ``nu``."""
        with np.errstate(divide="ignore"):
            across = (self.dimension - 2.0) * _log_cos(f) if self.dimension > 2.0 else 0.0
        return across - self.concentration * np.sin(f) - _log_norm(self)


def _log_cos(f: np.ndarray) -> np.ndarray:
    """``log cos f`` with a small relative error near zero, a small absolute one at the poles."""
    s = np.sin(f)
    flat = np.abs(s) < 0.7
    return np.where(
        flat, 0.5 * np.log1p(-np.where(flat, s * s, 0.0)), np.log(np.where(flat, 1.0, np.cos(f)))
    )


def _log_norm(pair: OppositePair) -> float:
    """Log of the integral of ``cos(f)**(p-2) exp(kappa sin f)``."""
    half = 0.5 * pair.dimension
    if half < 9.0:
        log_ratio = float(sc.gammaln(half - 0.5) - sc.gammaln(half))
    else:
        # log Gamma(z - 1/2)/Gamma(z), whose parts would lose five digits at p = 13,700
        drop = log_stirling_remainder(np.array(half - 0.5)) - log_stirling_remainder(np.array(half))
        log_ratio = float(drop) + 0.5 - 0.5 * math.log(half)
        log_ratio += (half - 1.0) * math.log1p(-0.5 / half)
    reduced = float(special.log_iv_reduced(half - 1.0, pair.concentration))
    return 0.5 * math.log(math.pi) + log_ratio + reduced


# --- where the laws are ---------------------------------------------------------------------------


def _stiffness(pair: OppositePair, f: np.ndarray) -> np.ndarray:
    """An increasing function whose increments bound how much the densities bend."""
    kappa, m = pair.concentration, pair.dimension - 2.0
    s = np.sin(f)
    # -log cos, kept finite at the poles, where cos**m is a polynomial of few terms or negligible
    steep = -0.5 * m * np.log1p(1e-16 - s * s)
    return kappa * s + np.sign(f) * steep + 3.0 * math.sqrt(m + kappa + 1.0) * f


def _refined(pair: OppositePair, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Cut intervals so that none is stiffer than two; return the points and whose they are."""
    owner = np.arange(points.size - 1)
    for _ in range(64):
        pieces = np.ceil(0.5 * np.diff(_stiffness(pair, points)))
        pieces = np.clip(pieces, 1, 64).astype(np.int64)
        if np.all(pieces == 1):
            break
        share = np.arange(pieces.sum()) - np.repeat(np.cumsum(pieces) - pieces, pieces)
        start = np.repeat(points[:-1], pieces)
        points = np.append(start + share * np.repeat(np.diff(points) / pieces, pieces), points[-1])
        owner = np.repeat(owner, pieces)
    return points, owner


@lru_cache(maxsize=8)
def _tails(concentration: float, dimension: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Latitudes, symmetric about zero, and ``nu``'s mass below and above each."""
    pair = OppositePair(concentration, dimension, 1.0, 1)
    end = _end(pair)
    half, _ = _refined(pair, np.linspace(0.0, end, 33))
    points = np.concatenate([-half[:0:-1], half])
    middle, half_size = 0.5 * (points[1:] + points[:-1]), 0.5 * np.diff(points)
    mass = np.zeros(middle.size)
    for node, weight in zip(*_MANY, strict=True):
        mass += weight * np.exp(pair.log_density(middle + node * half_size))
    mass *= half_size
    if abs(float(mass.sum()) - 1.0) > 1e-9:  # pragma: no cover - guards the quadrature
        raise ArithmeticError(f"the density integrates to {mass.sum()!r}")
    below = np.concatenate([[0.0], np.cumsum(mass)]) + _TINY
    above = np.concatenate([np.cumsum(mass[::-1])[::-1], [0.0]]) + _TINY
    return points, below * (1.0 + 1e-9), above * (1.0 + 1e-9)


def _end(pair: OppositePair) -> float:
    """The latitude beyond which neither law has more than exp(-740) of its peak."""
    kappa, m = pair.concentration, pair.dimension - 2.0

    def drop(f: float) -> float:
        return kappa * math.sin(f) + m * math.log(max(math.cos(f), 1e-300))

    peak = math.asin(2.0 * kappa / (m + math.hypot(m, 2.0 * kappa)))
    low, high = peak, 0.5 * math.pi
    floor = drop(peak) - _DEEP
    if m == 0.0 or drop(high - 1e-12) > floor:
        return high
    for _ in range(60):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if drop(middle) > floor else (low, middle)
    return high


def reach(pair: OppositePair, spill: float) -> tuple[float, float]:
    """Latitudes beyond which all steps together lose at most ``spill`` of either law."""
    points, below, _ = _tails(pair.concentration, pair.dimension)
    index = int(np.searchsorted(below, spill / pair.steps, side="right")) - 1
    low = float(points[max(index, 0)])
    # nu' is the mirror image of nu
    return low, -low


def guide(pair: OppositePair, deepest: float) -> Saddle:
    """Tabulate the tilted sums for levels whose probability is at least ``exp(-deepest)``."""
    low, high = reach(pair, math.exp(-min(deepest, 600.0)))
    edges = np.linspace(low, high, 1201)
    f = 0.5 * (edges[1:] + edges[:-1])
    loss, log_mass = pair.loss(f), pair.log_density(f) + math.log(edges[1] - edges[0])
    q = pair.sampling_rate
    base = math.log1p(-q) if q < 1.0 else float(loss[0])
    far = math.sqrt(2.0 * deepest) + 2.0
    return tabulate(pair.steps, loss, log_mass, base, far, 200, np.linspace(0.0, 2.0, 201))


# --- cells ----------------------------------------------------------------------------------------


class _Cells:
    """Half cell ``j`` is ``[first/2 + j, first/2 + j + 1] * width/2`` above ``base``."""

    def __init__(self, pair: OppositePair, width: float, low: float, high: float) -> None:
        self.pair, self.width, self.low, self.high = pair, width, low, high
        q = pair.sampling_rate
        self.base = math.log1p(-q) if q < 1.0 else float(pair.loss(np.array(low)))
        bottom, top = (float(self.excess(np.array(f))) for f in (low, high))
        self.first = max(int(bottom / width), 0)
        while self.first > 0 and self.first * width > bottom:
            self.first -= 1
        self.cells = max(int(math.ceil(top / width)), self.first + 1) - self.first
        self.halves = 2 * self.cells

    def excess(self, f: np.ndarray) -> np.ndarray:
        """``L - base``, never negative, with a small relative error."""
        full = 2.0 * self.pair.concentration * np.sin(f)
        if self.pair.sampling_rate == 1.0:
            return np.maximum(full - self.base, 0.0)
        return np.logaddexp(0.0, full + self.pair.log_odds)

    def edges(self, start: int, stop: int) -> np.ndarray:
        """Latitudes of the ends of half cells ``start .. stop - 1``."""
        y = (2 * self.first + np.arange(start, stop + 1)) * (0.5 * self.width)
        if self.pair.sampling_rate == 1.0:
            full = y + self.base
        else:
            with np.errstate(divide="ignore"):
                full = y + np.log(-np.expm1(-y)) - self.pair.log_odds
        t = np.clip(full / (2.0 * self.pair.concentration), -1.0, 1.0)
        f = np.clip(np.arcsin(t), self.low, self.high)
        if start == 0:
            f[0] = self.low
        if stop == self.halves:
            f[-1] = self.high
        return f


def one_step(pair: OppositePair, width: float, low: float, high: float) -> Step:
    """Discretise one release with cells of ``width``, keeping latitudes in ``[low, high]`` apart.

    Latitudes beyond, which must come from :func:`reach`, are lumped, on the safe side for either
    law.

    Cost: a dozen exponentials for each of ``2 (L(high) - L(low))/width`` half cells, in chunks of
    2**15; memory of seven arrays of that many cells.
    """
    cells = _Cells(pair, width, low, high)
    masses = np.empty((4, cells.halves))
    for start in range(0, cells.halves, _CHUNK):
        stop = min(start + _CHUNK, cells.halves)
        masses[:, start:stop] = _integrate(cells, start, stop)
    return _assemble(cells, masses)


def _integrate(cells: _Cells, start: int, stop: int) -> np.ndarray:
    """Masses of half cells under ``nu`` and ``mu``, and ``nu``'s parts for the cells' two ends."""
    points, owner = _refined(cells.pair, cells.edges(start, stop))
    lower, size = points[:-1], np.diff(points)
    bottom = (cells.first + (start + owner) // 2) * cells.width
    # with 4 nodes exact to 1e-17 of the mass up to a stiffness of 0.1, with 8 nodes up to 2
    narrow = np.diff(_stiffness(cells.pair, points)) <= 0.1
    out = np.zeros((4, stop - start))
    for which, rule in ((np.flatnonzero(narrow), _FEW), (np.flatnonzero(~narrow), _MANY)):
        if which.size:
            sums = _sums(cells, lower[which], size[which], bottom[which], rule)
            for row, values in zip(out, sums, strict=True):
                row += np.bincount(owner[which], values, minlength=stop - start)
    return out


def _sums(
    cells: _Cells,
    lower: np.ndarray,
    size: np.ndarray,
    bottom: np.ndarray,
    rule: tuple[np.ndarray, np.ndarray],
) -> np.ndarray:
    """Integrals over ``[lower, lower + size]`` of four densities, shape (4, intervals)."""
    out = np.zeros((4, lower.size))
    to_share = 1.0 / math.expm1(cells.width)
    for node, weight in zip(*rule, strict=True):
        f = lower + (0.5 + 0.5 * node) * size
        log_density, y, scale = cells.pair.log_density(f), cells.excess(f), 0.5 * weight * size
        density = np.exp(log_density) * scale
        # the share of this output that goes to the cell's upper end
        share = np.clip(np.expm1(np.minimum(y - bottom, 2.0 * cells.width)) * to_share, 0.0, 1.0)
        out[0] += density
        out[1] += np.exp(log_density + y + cells.base) * scale
        out[2] += density * (1.0 - share)
        out[3] += density * share
    return out


def _assemble(cells: _Cells, masses: np.ndarray) -> Step:
    """Lattice laws from the half cells' masses and what lies outside ``[low, high]``."""
    nu, mu, left, right = masses
    pair, q, h = cells.pair, cells.pair.sampling_rate, cells.width
    nu_low, nu_high, turned_low, turned_high = _beyond(cells)
    mu_low = (1.0 - q) * nu_low + q * turned_low
    mu_high = (1.0 - q) * nu_high + q * turned_high

    above = np.zeros(cells.cells + 1)
    above[:-1] += left.reshape(-1, 2).sum(axis=1)
    above[1:] += right.reshape(-1, 2).sum(axis=1)
    at_minus_infinity = 0.0
    if q < 1.0 and cells.first == 0:
        # ratios from 1 - q, the first lattice point's, on
        share = math.exp(pair.log_odds) * turned_low / math.expm1(h)
        above[0] += max(nu_low - share, 0.0)
        above[1] += share
    else:
        # between a likelihood ratio of zero and that of a lattice point not below
        log_ratio = cells.base + (cells.first + 1) * h
        above[1] += min(math.exp(min(math.log(mu_low) - log_ratio, 0.0)), nu_low)
        at_minus_infinity = nu_low
    # between the last lattice point and an infinite likelihood ratio
    above[-1] += nu_high

    rounding, ratio_error = _rounding(cells)
    label = (np.arange(cells.halves) + 1) // 2
    laws = []
    for mass, below, beyond in ((nu, nu_low, nu_high), (mu, mu_low, mu_high)):
        rounded = np.append(np.bincount(label, mass, minlength=cells.cells + 1), beyond)
        rounded[0] += below
        laws.append(Law(cells.first, rounded, np.append(rounding, rounding[-1])))
    return Step(
        cells.base,
        h,
        above=Law(cells.first, above, rounding),
        nu=laws[0],
        mu=laws[1],
        ratio_error=ratio_error,
        at_infinity=mu_high,
        at_minus_infinity=at_minus_infinity,
    )


def _beyond(cells: _Cells) -> tuple[float, float, float, float]:
    """Masses below ``low`` and above ``high`` of ``nu`` and of its mirror image."""
    points, below, above = _tails(cells.pair.concentration, cells.pair.dimension)
    low, high = np.searchsorted(points, [cells.low, cells.high])
    mirror = points.size - 1
    return (
        float(below[low]),
        float(above[high]),
        float(above[mirror - low]),
        float(below[mirror - high]),
    )


def _rounding(cells: _Cells) -> tuple[np.ndarray, float]:
    """Bounds on the relative errors of each mass and of the likelihood ratio.

    Roundings of the exponents ``(p - 2) log cos f``, ``kappa sin f``, of the normaliser and of the
    loss, of the sums over nodes, and the quadrature's own error.
    """
    pair = cells.pair
    f = np.abs(cells.edges(0, cells.halves)[::2])
    near = f.copy()
    near[1:] = np.maximum(near[1:], f[:-1])
    near[:-1] = np.maximum(near[:-1], f[1:])
    turn = pair.concentration * np.sin(near)
    odds = abs(pair.log_odds) if pair.sampling_rate < 1.0 else abs(cells.base)
    fall = np.minimum(-_log_cos(near) * (pair.dimension - 2.0), 2.0 * _DEEP)
    exponents = 2.0 * fall + 8.0 * turn + 4.0 * odds + 2.0 * abs(_log_norm(pair)) + 40.0
    ratio = 32.0 + 12.0 * float(np.max(turn)) + 4.0 * odds
    return UNIT * (64.0 + 4.0 * exponents), UNIT * ratio

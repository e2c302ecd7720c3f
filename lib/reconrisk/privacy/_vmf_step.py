"""One sub-sampled von Mises-Fisher release, discretised on a lattice of privacy losses.

Of all pairs of directions, opposite ones are the easiest to distinguish, at every level of the
hockey-stick divergence and not only in Rényi divergence. Let two directions be at angles
``+-theta/2`` from their bisector ``v`` and ``u`` orthogonal to ``v``. At a given ``theta`` the best
event is a cap ``{u.x > tau}``. A larger ``theta`` brings the first direction nearer to ``u`` and
the second away from it, so that by reflection the probability of the cap increases under the first
distribution and decreases under the second: every hockey-stick divergence increases with ``theta``.
Domination is preserved by Poisson sampling and by composition (Zhu, Dong and Wang 2022).

For opposite directions the loss depends only on one coordinate ``t = u.x`` of the output, whose
density is proportional to ``exp(-+kappa t) (1 - t**2)**((p-3)/2)``. In the latitude ``f``,
``t = sin f``, it is ``exp(-+kappa sin f) cos(f)**(p-2)``, smooth in every dimension. ``nu`` is the
distribution of the output without the record, ``mu = (1 - q) nu + q nu'`` that with it, where
``nu'`` is the mirror image of ``nu``. The loss ``L = log(1 - q + q exp(2 kappa sin f))`` increases
with ``f``. The cells, and the distributions from above and from below, are as in
:mod:`reconrisk.privacy._step`.
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
# densities below exp(-_LOG_CUTOFF) of their peak are neglected
_LOG_CUTOFF = 740.0
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
        """Return the privacy loss of one release at each latitude."""
        full = 2.0 * self.concentration * np.sin(f)
        if self.sampling_rate == 1.0:
            return full
        return math.log1p(-self.sampling_rate) + np.logaddexp(0.0, full + self.log_odds)

    def log_density(self, f: np.ndarray) -> np.ndarray:
        """Return the log-density of the latitude under ``nu``."""
        with np.errstate(divide="ignore"):
            across = (self.dimension - 2.0) * _log_cos(f) if self.dimension > 2.0 else 0.0
        return across - self.concentration * np.sin(f) - _log_norm(self)


def _log_cos(f: np.ndarray) -> np.ndarray:
    """Return ``log cos f``, with a small relative error near zero, absolute near the poles."""
    s = np.sin(f)
    flat = np.abs(s) < 0.7
    return np.where(
        flat, 0.5 * np.log1p(-np.where(flat, s * s, 0.0)), np.log(np.where(flat, 1.0, np.cos(f)))
    )


def _log_norm(pair: OppositePair) -> float:
    """Return the log of the integral of ``cos(f)**(p-2) exp(kappa sin f)``."""
    half = 0.5 * pair.dimension
    if half < 9.0:
        log_ratio = float(sc.gammaln(half - 0.5) - sc.gammaln(half))
    else:
        # log Gamma(z - 1/2)/Gamma(z); the difference of log-gammas loses five digits at p = 13,700
        drop = log_stirling_remainder(np.array(half - 0.5)) - log_stirling_remainder(np.array(half))
        log_ratio = float(drop) + 0.5 - 0.5 * math.log(half)
        log_ratio += (half - 1.0) * math.log1p(-0.5 / half)
    reduced = float(special.log_iv_reduced(half - 1.0, pair.concentration))
    return 0.5 * math.log(math.pi) + log_ratio + reduced


# --- the range of latitudes -----------------------------------------------------------------------


def _stiffness(pair: OppositePair, f: np.ndarray) -> np.ndarray:
    """Return an increasing function of f whose increments bound the variation of the densities."""
    kappa, m = pair.concentration, pair.dimension - 2.0
    s = np.sin(f)
    # -m log cos, kept finite at the poles, where cos**m is a low-order polynomial or negligible
    steep = -0.5 * m * np.log1p(1e-16 - s * s)
    return kappa * s + np.sign(f) * steep + 3.0 * math.sqrt(m + kappa + 1.0) * f


def _refine_intervals(pair: OppositePair, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Split intervals whose stiffness exceeds two; return the points and the original intervals."""
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
    """Return latitudes, symmetric about zero, and the mass of ``nu`` below and above each."""
    pair = OppositePair(concentration, dimension, 1.0, 1)
    end = _end(pair)
    half, _ = _refine_intervals(pair, np.linspace(0.0, end, 33))
    points = np.concatenate([-half[:0:-1], half])
    middle, half_size = 0.5 * (points[1:] + points[:-1]), 0.5 * np.diff(points)
    mass = np.zeros(middle.size)
    for node, weight in zip(*_MANY, strict=True):
        mass += weight * np.exp(pair.log_density(middle + node * half_size))
    mass *= half_size
    if abs(float(mass.sum()) - 1.0) > 1e-9:  # pragma: no cover - checks the quadrature
        raise ArithmeticError(f"the density must integrate to one; got {mass.sum()!r}")
    below = np.concatenate([[0.0], np.cumsum(mass)]) + _TINY
    above = np.concatenate([np.cumsum(mass[::-1])[::-1], [0.0]]) + _TINY
    return points, below * (1.0 + 1e-9), above * (1.0 + 1e-9)


def _end(pair: OppositePair) -> float:
    """Return the latitude beyond which both densities are below exp(-740) of their peaks."""
    kappa, m = pair.concentration, pair.dimension - 2.0

    def log_density(f: float) -> float:
        return kappa * math.sin(f) + m * math.log(max(math.cos(f), 1e-300))

    peak = math.asin(2.0 * kappa / (m + math.hypot(m, 2.0 * kappa)))
    low, high = peak, 0.5 * math.pi
    floor = log_density(peak) - _LOG_CUTOFF
    if m == 0.0 or log_density(high - 1e-12) > floor:
        return high
    for _ in range(60):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if log_density(middle) > floor else (low, middle)
    return high


def reach(pair: OppositePair, spill: float) -> tuple[float, float]:
    """Return the range of latitudes that omits at most ``spill`` of nu and mu in all steps."""
    points, below, _ = _tails(pair.concentration, pair.dimension)
    index = int(np.searchsorted(below, spill / pair.steps, side="right")) - 1
    low = float(points[max(index, 0)])
    # nu' is the mirror image of nu
    return low, -low


def guide(pair: OppositePair, deepest: float) -> Saddle:
    """Tabulate the tilted sums of losses for levels of probability at least ``exp(-deepest)``."""
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
    """The lattice: half cell ``j`` begins ``(2 first + j) width/2`` above ``base``."""

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
        """Return ``L - base >= 0`` with a small relative error."""
        full = 2.0 * self.pair.concentration * np.sin(f)
        if self.pair.sampling_rate == 1.0:
            return np.maximum(full - self.base, 0.0)
        return np.logaddexp(0.0, full + self.pair.log_odds)

    def edges(self, start: int, stop: int) -> np.ndarray:
        """Return the latitudes at the ends of half cells ``start`` to ``stop - 1``."""
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
    """Discretise one release on ``[low, high]`` with cells of ``width``.

    ``low`` and ``high`` must come from :func:`reach`. The mass outside them is added on the safe
    side of either distribution.

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
    """Return four masses of each half cell, shape (4, half cells).

    Under ``nu``, under ``mu``, and the parts of ``nu`` assigned to the cell's lower and upper end.
    """
    points, owner = _refine_intervals(cells.pair, cells.edges(start, stop))
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
    """Return the four masses of the intervals ``[lower, lower + size]``, shape (4, intervals)."""
    out = np.zeros((4, lower.size))
    to_share = 1.0 / math.expm1(cells.width)
    for node, weight in zip(*rule, strict=True):
        f = lower + (0.5 + 0.5 * node) * size
        log_density, y, scale = cells.pair.log_density(f), cells.excess(f), 0.5 * weight * size
        density = np.exp(log_density) * scale
        # the fraction of this mass assigned to the cell's upper end
        share = np.clip(np.expm1(np.minimum(y - bottom, 2.0 * cells.width)) * to_share, 0.0, 1.0)
        out[0] += density
        out[1] += np.exp(log_density + y + cells.base) * scale
        out[2] += density * (1.0 - share)
        out[3] += density * share
    return out


def _assemble(cells: _Cells, masses: np.ndarray) -> Step:
    """Return the lattice distributions, from the half cells' masses and those beyond the ends."""
    nu, mu, left, right = masses
    pair, q, h = cells.pair, cells.pair.sampling_rate, cells.width
    nu_low, nu_high, mirror_low, mirror_high = _beyond(cells)
    mu_low = (1.0 - q) * nu_low + q * mirror_low
    mu_high = (1.0 - q) * nu_high + q * mirror_high

    above = np.zeros(cells.cells + 1)
    above[:-1] += left.reshape(-1, 2).sum(axis=1)
    above[1:] += right.reshape(-1, 2).sum(axis=1)
    at_minus_infinity = 0.0
    if q < 1.0 and cells.first == 0:
        # split between the first two lattice points; the first has the ratio 1 - q
        share = math.exp(pair.log_odds) * mirror_low / math.expm1(h)
        above[0] += max(nu_low - share, 0.0)
        above[1] += share
    else:
        # split between a likelihood ratio of zero and that of a lattice point above
        log_ratio = cells.base + (cells.first + 1) * h
        above[1] += min(math.exp(min(math.log(mu_low) - log_ratio, 0.0)), nu_low)
        at_minus_infinity = nu_low
    # split between the last lattice point and an infinite likelihood ratio
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
    """Return the masses below ``low`` and above ``high``, of ``nu``, then of its mirror image."""
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
    """Return bounds on the relative errors of each mass and of the likelihood ratio.

    Rounding errors of the exponents ``(p - 2) log cos f`` and ``kappa sin f``, of the normalising
    constant, of the loss and of the sums over nodes, and the error of the quadrature.
    """
    pair = cells.pair
    f = np.abs(cells.edges(0, cells.halves)[::2])
    near = f.copy()
    near[1:] = np.maximum(near[1:], f[:-1])
    near[:-1] = np.maximum(near[:-1], f[1:])
    turn = pair.concentration * np.sin(near)
    odds = abs(pair.log_odds) if pair.sampling_rate < 1.0 else abs(cells.base)
    fall = np.minimum(-_log_cos(near) * (pair.dimension - 2.0), 2.0 * _LOG_CUTOFF)
    exponents = 2.0 * fall + 8.0 * turn + 4.0 * odds + 2.0 * abs(_log_norm(pair)) + 40.0
    ratio = 32.0 + 12.0 * float(np.max(turn)) + 4.0 * odds
    return UNIT * (64.0 + 4.0 * exponents), UNIT * ratio

"""Saddle-point approximations from the cumulant generating function of one step's privacy loss.

They choose the tilt, the cell width and the window, on which the width and the cost of an enclosure
depend. They are not certified, and no certified value depends on them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy import optimize
from scipy import special as sc

from reconrisk.privacy._step import losses

__all__ = [
    "MOST_CELLS",
    "Mechanism",
    "Saddle",
    "few_large",
    "narrowest",
    "reach",
    "saddle",
    "tabulate",
]

#: outputs beyond this have probabilities below 1e-250 and share one cell
LARGEST_OUTPUT = 34.0

#: probability of two steps with large losses, relative to the quantity of interest
_REST = 2e-5

#: largest number of cells of one step
MOST_CELLS = 1 << 20


@dataclass(frozen=True)
class Mechanism:
    """``steps`` Gaussian mechanisms of shift ``inverse_noise``, each on a Poisson sample."""

    inverse_noise: float
    sampling_rate: float
    steps: int

    @property
    def lowest(self) -> float:
        """Infimum of the privacy loss of the whole run."""
        q = self.sampling_rate
        return self.steps * math.log1p(-q) if q < 1.0 else -math.inf


def reach(mechanism: Mechanism, spill: float) -> tuple[float, float]:
    """Return the range of outputs that omits at most about ``spill`` of nu and mu in all steps."""
    z = -float(sc.ndtri(spill / mechanism.steps))
    return -min(z, LARGEST_OUTPUT), min(mechanism.inverse_noise + z, LARGEST_OUTPUT)


def narrowest(
    mechanism: Mechanism, low: float, high: float, tolerance: float, cut: float = math.inf
) -> float:
    """Return the smallest cell width for a tolerance, of cells up to the loss ``cut``."""
    most = MOST_CELLS if tolerance < 1e-4 else MOST_CELLS >> 3 if tolerance < 0.1 else 1 << 14
    ends = losses(np.array([low, high]), mechanism.inverse_noise, mechanism.sampling_rate)
    if cut < math.inf:  # the sum of small losses takes longer than one step's cells
        return (cut - float(ends[0])) / (most >> 2)
    return float(ends[1] - ends[0]) / most


def few_large(
    mechanism: Mechanism, low: float, high: float, size: float
) -> tuple[Saddle, float] | None:
    """Return the sum of the small losses and the loss at which the large ones begin.

    Two steps with large losses have a probability far below ``exp(size)``. None if no output within
    the range separates them.
    """
    a, q = mechanism.inverse_noise, mechanism.sampling_rate
    log_chance = 0.5 * (math.log(_REST) + size) - math.log(mechanism.steps)

    def excess(x: float) -> float:
        tail = np.logaddexp(math.log1p(-q) + sc.log_ndtr(-x), math.log(q) + sc.log_ndtr(a - x))
        return float(tail) - log_chance

    if q == 1.0 or not excess(low) > 0.0 > excess(high):
        return None
    rare = float(optimize.brentq(excess, low, high))
    return saddle(mechanism, low, rare), float(losses(np.array(rare), a, q))


@dataclass(frozen=True)
class Saddle:
    """The sum of ``steps`` losses under ``nu``, tilted by ``exp(theta S)``, on a grid of tilts.

    Attributes
    ----------
    theta : ndarray
        Increasing tilts around zero.
    log_norm, level, spread : ndarray
        Cumulant generating function, mean and standard deviation of the tilted sum.
    loss, log_density : ndarray
        One step's loss at some outputs, and the logarithm of their masses under ``nu``.
    base : float
        Loss at which the cells begin.
    """

    steps: int
    theta: np.ndarray
    log_norm: np.ndarray
    level: np.ndarray
    spread: np.ndarray
    loss: np.ndarray
    log_density: np.ndarray
    base: float

    def log_tail(self, shift: float, sign: int = 1) -> np.ndarray:
        """Approximate ``log P(sign S >= sign level)`` at all levels.

        Tilted by ``shift`` (0: nu, 1: mu).
        """
        d = self.theta - shift
        exponent = self.log_norm - d * self.level - (0.0 if shift == 0.0 else self.at(shift))
        width = np.abs(d) * self.spread
        with np.errstate(divide="ignore"):
            near = np.minimum(exponent + _log_mills(width), -1e-300)
            other = np.log(-np.expm1(near))
        return np.where(sign * d >= 0.0, near, other)

    def log_density_at(self, shift: float) -> np.ndarray:
        """Approximate log-density of ``S`` at all levels, tilted by ``shift``."""
        exponent = self.log_norm - (self.theta - shift) * self.level - shift * self.at(shift)
        return exponent - np.log(self.spread * math.sqrt(2.0 * math.pi) + 1e-300)

    def tilt(self, level: np.ndarray) -> np.ndarray:
        """Return the tilt under which a level is the mean."""
        return np.interp(level, self.level, self.theta)

    def at(self, theta: float) -> float:
        return float(np.interp(theta, self.theta, self.log_norm))

    def width(self, level: float, variance: float) -> float:
        """Return the cell width that adds about ``variance`` to the sum tilted to a level.

        An output at height ``u`` in a cell of width ``h`` adds ``u (h - u)``: ``h**2/6`` on
        average, but much less if most outputs lie near the bottom of the lowest cell.
        """
        spread = float(np.interp(level, self.level, self.spread))
        exponent = self.log_density + float(self.tilt(np.array(level))) * self.loss
        weight = np.exp(exponent - exponent.max())
        weight /= weight.sum()
        height = self.loss - self.base
        # at most half of one step's standard deviation, and no more than shifts the sum by half
        # of its standard deviation
        coarsest = min(0.5 * spread / math.sqrt(self.steps), math.sqrt(6.0 * spread / self.steps))
        least = math.sqrt(6.0 * variance / self.steps)
        width = coarsest
        while width > least:
            rest = height % width
            if self.steps * float(np.sum(weight * rest * (width - rest))) < 0.8 * variance:
                break
            width *= 0.85
        return 0.9 * max(width, min(least, coarsest)) + 1e-13

    def slopes(self, theta: float, log_outside: float) -> tuple[float, float]:
        """Return Chernoff parameters of levels rarely passed by the tilted sum, below and above."""
        exponent = self.log_norm - self.at(theta) - (self.theta - theta) * self.level
        above = np.flatnonzero((self.theta > theta) & (exponent < log_outside))
        below = np.flatnonzero((self.theta < theta) & (exponent < log_outside))
        top = self.theta[above[0] if above.size else -1]
        bottom = self.theta[below[-1] if below.size else 0]
        return theta - float(bottom), float(top) - theta


def _log_mills(width: np.ndarray) -> np.ndarray:
    """Return ``log(exp(width**2/2) Phi(-width))``."""
    return np.log(0.5 * sc.erfcx(width / math.sqrt(2.0)))


def saddle(mechanism: Mechanism, low: float, high: float) -> Saddle:
    """Tabulate the tilted sums of losses at outputs in ``[low, high]``.

    Cost: one exponential for each of 600 outputs and 240 tilts.
    """
    sampling_rate = mechanism.sampling_rate
    edges = np.linspace(low, high, 601)
    x = 0.5 * (edges[1:] + edges[:-1])
    loss = losses(x, mechanism.inverse_noise, sampling_rate)
    log_density = -0.5 * x * x - 0.5 * math.log(2 * math.pi) + math.log(edges[1] - edges[0])
    base = math.log1p(-sampling_rate) if sampling_rate < 1.0 else float(loss[0])
    return tabulate(mechanism.steps, loss, log_density, base, 2.0 - low, 100, np.linspace(0, 1, 41))


def tabulate(
    steps: int,
    loss: np.ndarray,
    log_density: np.ndarray,
    base: float,
    far: float,
    tilts: int,
    fine: np.ndarray,
) -> Saddle:
    """Tabulate the tilted sums of ``steps`` losses with any distribution.

    Parameters
    ----------
    loss, log_density, base
        As in :class:`Saddle`.
    far : float
        Largest distance of the levels of interest from the mean, in standard deviations.
    tilts : int
        Number of tilts on either side of zero, geometrically spaced.
    fine : ndarray
        Further non-negative tilts.
    """
    ends = [math.sqrt(steps) * _deviation(loss, log_density, theta) for theta in (0.0, 1.0)]
    spread = max(min(ends), 1e-3 * max(ends), 1e-12)
    half = np.geomspace(1e-2 / spread, max(3.0 * far / spread, 4.0), tilts)
    positive = np.unique(np.concatenate([half, fine[1:]]))
    theta = np.concatenate([-half[::-1], [0.0], positive])
    exponent = theta[:, None] * loss + log_density
    top = exponent.max(axis=1)
    weight = np.exp(exponent - top[:, None])
    total = weight.sum(axis=1)
    mean = (weight @ loss) / total
    square = np.einsum("ij,ij->i", weight, (loss - mean[:, None]) ** 2) / total
    log_norm = top + np.log(total)
    log_norm -= np.interp(0.0, theta, log_norm)
    deviation = np.sqrt(steps * square)
    return Saddle(steps, theta, steps * log_norm, steps * mean, deviation, loss, log_density, base)


def _deviation(loss: np.ndarray, log_density: np.ndarray, theta: float) -> float:
    exponent = theta * loss + log_density
    weight = np.exp(exponent - exponent.max())
    weight /= weight.sum()
    mean = weight @ loss
    return math.sqrt(float(weight @ (loss - mean) ** 2))

"""Bayes' capacities without their closed forms: integrals over shells and angles, and sampling.

Independent routes to ``bounds.bayes_capacity_*``. All are natural logarithms, because at the
paper's size the values leave the range of floats by thousands of nats.
"""

import math
from collections.abc import Callable, Sequence

import numpy as np
from scipy import special as sc

from companion.experiments.federated import NETWORK
from reconrisk.mechanisms import vmf_cosines

#: weights of each layer of the paper's network
LAYER_SIZES = tuple(rows * columns for rows, columns in NETWORK.shapes.values())

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(400)
_GRID = 4001
#: values this many nats below the peak are negligible
_DEPTH = 60.0


def log_integral(log_f: Callable[[np.ndarray], np.ndarray], low: float, high: float) -> float:
    """Log of the integral of a function with one peak, which may be as narrow as a thousandth.

    Gauss-Legendre over the part of [low, high] in which it is not negligible.
    """
    grid = np.linspace(low, high, _GRID)
    with np.errstate(divide="ignore"):
        values = log_f(grid)
    kept = np.flatnonzero(values > np.max(values) - _DEPTH)
    a, b = grid[max(kept[0] - 1, 0)], grid[min(kept[-1] + 1, _GRID - 1)]
    x = a + 0.5 * (b - a) * (_NODES + 1.0)
    return float(sc.logsumexp(log_f(x), b=_WEIGHTS) + math.log(0.5 * (b - a)))


def _log_sphere(dimension: float) -> float:
    """Log area of the unit sphere in R^p."""
    half = 0.5 * dimension
    return math.log(2.0) + half * math.log(math.pi) - float(sc.gammaln(half))


def _peak(dimension: int, noise_std: float, radius: float) -> float:
    """The most probable length of outputs: ``(p-1)/y = (y-R)/s^2``."""
    return 0.5 * (radius + math.sqrt(radius**2 + 4.0 * (dimension - 1) * noise_std**2))


def gaussian_by_shells(
    dimension: int, noise_std: float, radius: float, *, surface: bool = False
) -> float:
    """Log capacity of Gaussian noise on a ball, or on its surface, from the integral over lengths.

    An output of length y is ``max(y - R, 0)`` away from the ball and ``|y - R|`` from its surface.
    """
    p, s = dimension, noise_std

    def outside(y: np.ndarray) -> np.ndarray:
        return (p - 1) * np.log(y) - 0.5 * ((y - radius) / s) ** 2

    def inside(y: np.ndarray) -> np.ndarray:
        return outside(y) if surface else sc.xlogy(p - 1, y)

    far = _peak(p, s, radius) + 15.0 * s
    # inside, y^(p-1) has fallen by the depth at this length, and the bell at that one
    near = radius * math.exp(-_DEPTH / max(p - 1, 1))
    near = max(near, radius - 15.0 * s) if surface else near
    near = 0.0 if p == 1 and not surface else near
    both = np.logaddexp(log_integral(inside, near, radius), log_integral(outside, radius, far))
    return float(both) + _log_sphere(p) - 0.5 * p * math.log(2.0 * math.pi * s**2)


def gaussian_by_sampling(
    rng: np.random.Generator,
    dimensions: Sequence[int],
    noise_std: float,
    radii: Sequence[float],
    samples: int,
) -> tuple[float, float]:
    """Log capacity of Gaussian noise on a product of balls, and its standard error.

    The supremum of the density is integrated by importance sampling: outputs are drawn about the
    origin, each block at its most probable length, and the nearest input clips every block to its
    own radius.
    """
    log_weight = np.zeros(samples)
    for p, radius in zip(dimensions, radii, strict=True):
        wide = max(_peak(p, noise_std, radius) / math.sqrt(p), noise_std)
        length = wide * np.linalg.norm(rng.standard_normal((samples, p)), axis=1)
        log_weight += p * math.log(wide / noise_std) + 0.5 * (length / wide) ** 2
        log_weight -= 0.5 * (np.maximum(length - radius, 0.0) / noise_std) ** 2
    return _log_mean(log_weight)


def _log_mean(log_values: np.ndarray) -> tuple[float, float]:
    """Log of the mean of exponentials and its standard error, to first order."""
    top = float(np.max(log_values))
    values = np.exp(log_values - top)
    mean = float(np.mean(values))
    error = float(np.std(values, ddof=1)) / math.sqrt(values.size) / mean
    return top + math.log(mean), error


def vmf_by_angle(dimension: int, concentration: float) -> float:
    """Log capacity of VMF noise from the integral over the angle with the mean direction."""
    p, kappa = dimension, concentration

    def area(angle: np.ndarray) -> np.ndarray:
        return sc.xlogy(p - 2, np.sin(angle))

    def relative_density(angle: np.ndarray) -> np.ndarray:
        # relative to the peak: 1 - cos without cancellation
        return area(angle) - 2.0 * kappa * np.sin(0.5 * angle) ** 2

    return log_integral(area, 0.0, math.pi) - log_integral(relative_density, 0.0, math.pi)


def vmf_by_sampling(
    rng: np.random.Generator, dimension: int, concentration: float, samples: int
) -> tuple[float, float]:
    """Log capacity of VMF noise from the library's sampler: the mean of peak over density."""
    cosines, _ = vmf_cosines(dimension, concentration, rng, samples)
    return _log_mean(concentration * (1.0 - cosines))


def vmf_by_uniform_sampling(
    rng: np.random.Generator, dimension: int, concentration: float, samples: int
) -> tuple[float, float]:
    """Log capacity of VMF noise from directions drawn uniformly, without any of its samplers."""
    vectors = rng.standard_normal((samples, dimension))
    cosines = vectors[:, 0] / np.linalg.norm(vectors, axis=1)
    value, error = _log_mean(concentration * cosines)
    return concentration - value, error

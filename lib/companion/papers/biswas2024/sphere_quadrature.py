"""Integrals over spheres: the circle and the sphere point by point, higher ones by latitude."""

import math

import numpy as np
from scipy.special import logsumexp

from companion.experiments.federated import DIMENSION


def points_on_sphere(dimension: int) -> tuple[np.ndarray, np.ndarray]:
    """Return points of the circle or the sphere, shape (n, p), and weights that add to its area.

    Exact for polynomials of degree 100 and more: the densities here are smooth.
    """
    angle = np.linspace(-math.pi, math.pi, 257)[:-1]
    step = angle[1] - angle[0]
    circle = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    if dimension == 2:
        return circle, np.full(angle.size, step)
    heights, weights = np.polynomial.legendre.leggauss(64)
    points = np.concatenate(
        [
            np.column_stack([math.sqrt(1 - height**2) * circle, np.full(angle.size, height)])
            for height in heights
        ]
    )
    return points, np.repeat(weights * step, angle.size)


def at_angle(dimension: int, angle: float) -> np.ndarray:
    """Return a unit vector at an angle to the first axis."""
    direction = np.zeros(dimension)
    direction[:2] = math.cos(angle), math.sin(angle)
    return direction


def latitudes(
    kappa: float, dimension: int = DIMENSION, order: float = 4.0, count: int = 60_000
) -> tuple[np.ndarray, np.ndarray]:
    """Return the privacy loss of opposite centres at latitudes, and their log-masses.

    The masses are those without the record. A strip of the sphere weighs ``cos**(p - 2)``; only
    latitudes that matter up to an order are kept, whose mean is at most ``2 order kappa/p``.
    """
    width = min(0.5 * math.pi, 2 * order * kappa / dimension + 20.0 / math.sqrt(dimension))
    latitude = (np.arange(count) + 0.5) * (2 * width / count) - width
    log_weight = (dimension - 2) * np.log(np.cos(latitude)) - kappa * np.sin(latitude)
    return 2 * kappa * np.sin(latitude), log_weight - logsumexp(log_weight)


def poisson_sampled(loss: np.ndarray, sampling_rate: float) -> np.ndarray:
    """Return the privacy loss of a release on a Poisson sample, from that on all records."""
    return np.logaddexp(math.log1p(-sampling_rate), math.log(sampling_rate) + loss)

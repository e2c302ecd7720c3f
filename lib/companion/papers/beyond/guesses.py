"""Guesses at a record from other records, without any gradient: a reconstruction must beat them."""

import math
from dataclasses import dataclass
from typing import Self

import numpy as np
from scipy.spatial.distance import cdist

from reconrisk import bounds
from reconrisk.attacks import mean_record_mse, nearest_neighbour_mse

#: the mean squared error that counts as a near miss, as a share of the nearest neighbour's
_NEAR = 0.25
#: probability that a count contradicts its bound although the bound holds
RARELY = 1e-6


@dataclass(frozen=True)
class Guesses:
    """Guesses at a record of a pool by an attacker who knows the others.

    Attributes
    ----------
    mean, neighbour : float
        Root mean squared errors of the mean picture and of the nearest other record.
    threshold : float
        Mean squared error that counts as a near miss.
    kappa : float
        Prior success: upper bound on the probability that the best fixed guess is a near miss.
    """

    mean: float
    neighbour: float
    threshold: float
    kappa: float

    @classmethod
    def of(cls, pool: np.ndarray) -> Self:
        """Measure the guesses on a pool of records, (count, d)."""
        nearest = float(nearest_neighbour_mse(pool).mean())
        distances = cdist(pool, pool) / math.sqrt(pool.shape[1])
        kappa = bounds.prior_success_ball_any_centre(
            0.5 * (distances + distances.T), math.sqrt(_NEAR * nearest)
        ).upper
        mean = math.sqrt(mean_record_mse(pool))
        return cls(mean, math.sqrt(nearest), _NEAR * nearest, kappa)

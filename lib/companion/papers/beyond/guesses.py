"""What records tell of each other without any gradient: what a reconstruction has to beat."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.spatial.distance import cdist

from reconrisk import bounds
from reconrisk.attacks import mean_record_mse, nearest_neighbour_mse

__all__ = ["NEAR", "RARELY", "Guesses"]

#: the mean squared error that counts as a near miss, as a share of the nearest neighbour's
NEAR = 0.25
#: chance at which a count may contradict its bound although the bound holds
RARELY = 1e-6


@dataclass(frozen=True)
class Guesses:
    """Guesses at a record of a pool by one who knows the others.

    Attributes
    ----------
    mean, neighbour : float
        Root mean squared errors of the mean picture and of the nearest other record.
    threshold : float
        Mean squared error that counts as a near miss.
    kappa : float
        Prior success: of a near miss by the best fixed guess, at most.
    """

    mean: float
    neighbour: float
    threshold: float
    kappa: float

    @classmethod
    def of(cls, pool: np.ndarray) -> Guesses:
        """Measure the guesses on a pool of records, (count, d)."""
        nearest = float(nearest_neighbour_mse(pool).mean())
        distances = cdist(pool, pool) / math.sqrt(pool.shape[1])
        kappa = bounds.prior_success_ball_any_centre(
            0.5 * (distances + distances.T), math.sqrt(NEAR * nearest)
        ).upper
        mean = math.sqrt(mean_record_mse(pool))
        return cls(mean, math.sqrt(nearest), NEAR * nearest, kappa)

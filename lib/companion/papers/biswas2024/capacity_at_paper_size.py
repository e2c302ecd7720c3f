"""Bayes' capacity at the size of the paper's network and batches."""

import math

import numpy as np
from scipy import special as sc

from companion.experiments.capacity_routes import LAYER_SIZES
from companion.experiments.federated import BATCH_SIZE, DIMENSION, RECORDS
from reconrisk import bounds

LAYERS = len(LAYER_SIZES)
#: of the ball that Theorem 5 puts the average of clipped gradients in
RADIUS = math.sqrt(LAYERS)


def gaussian_capacity(
    noise_multiplier: float | np.ndarray, batch_size: int | np.ndarray = BATCH_SIZE
) -> np.ndarray:
    """Return Theorem 5's log capacity: the average's noise, and the ball of all layers."""
    noise = np.divide(noise_multiplier, batch_size)
    return bounds.bayes_capacity_gaussian(DIMENSION, noise, RADIUS)


def log_batches(records: int = RECORDS, batch_size: int = BATCH_SIZE) -> float:
    """Return the log of the number of batches that can be drawn from the training set."""
    whole, rest = records + 1, records - batch_size + 1
    return float(sc.gammaln(whole) - sc.gammaln(batch_size + 1) - sc.gammaln(rest))

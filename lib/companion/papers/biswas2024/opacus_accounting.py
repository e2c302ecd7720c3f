"""The accountant that chose the paper's noise multipliers: Opacus', by Rényi divergence."""

import functools
import math

import numpy as np

from companion.experiments.federated import DELTA, EPOCHS, STEPS
from reconrisk import privacy

#: orders that Opacus tries
ORDERS = np.concatenate([1.0 + np.arange(1, 100) / 10.0, np.arange(12.0, 64.0)])
#: one batch of an epoch's 469, the sampling rate as Opacus counts it
RATE = EPOCHS / STEPS
#: distance from the target at which Opacus' search for a noise multiplier stops
SEARCHED_TO = 0.01


def gaussian_renyi(
    noise_multiplier: float, sampling_rate: float, orders: np.ndarray = ORDERS
) -> np.ndarray:
    """Return the Rényi divergence of one Poisson-sampled Gaussian release, present against absent.

    By the trapezoidal rule, whose error falls like ``exp(-2 pi d/step)`` with the distance ``d`` to
    the next singularity, here ``pi sigma`` off the axis: any order, no series.

    Orders are above one; the divergences, one for each order, are in nats.
    """
    shift = 1.0 / noise_multiplier
    step = min(0.1, 0.5 * noise_multiplier)
    x = np.arange(-14.0, shift * float(np.max(orders)) + 14.0, step)
    loss = shift * (x - 0.5 * shift)
    if sampling_rate < 1.0:
        loss = np.logaddexp(math.log1p(-sampling_rate), math.log(sampling_rate) + loss)
    log_mass = -0.5 * x * x - 0.5 * math.log(2.0 * math.pi) + math.log(step)
    log_moments = np.empty(orders.size)
    for i, order in enumerate(orders):
        exponent = order * loss + log_mass
        top = float(exponent.max())
        log_moments[i] = top + math.log(float(np.sum(np.exp(exponent - top))))
    return log_moments / (orders - 1.0)


@functools.lru_cache(maxsize=4096)
def renyi_epsilon(noise_multiplier: float, steps: int, sampling_rate: float = RATE) -> float:
    """Return epsilon of a run at the paper's delta, at the best of Opacus' orders."""
    divergence = steps * gaussian_renyi(noise_multiplier, sampling_rate)
    return float(np.min(privacy.epsilon_from_renyi(ORDERS, divergence, DELTA)))


@functools.cache
def searched_noise(epsilon: float) -> float:
    """Return the noise multiplier that Opacus' search finds for 1,407 steps.

    It halves an interval until the upper end's epsilon is within 0.01 below the target.
    """
    low, high = 0.0, 20.0
    reached = renyi_epsilon(high, STEPS)
    while epsilon - reached > SEARCHED_TO:
        centre = 0.5 * (low + high)
        value = renyi_epsilon(centre, STEPS)
        if value < epsilon:
            high, reached = centre, value
        else:
            low = centre
    return high


def truncated(value: float, decimals: int = 3) -> float:
    """Return a value cut off after some decimals."""
    return math.floor(value * 10**decimals) / 10**decimals

"""The sensitivity of a two-layer gradient, and the noise for its privacy (Liu et al. 2024)."""

import math
from collections.abc import Callable, Sequence

import numpy as np
import pandas as pd
from scipy import optimize

from companion.exhibit import *
from companion.papers.liu2024.floor_orders import NOT_PRINTED
from companion.papers.liu2024.gradient_floors import draw_network, unit_rows, weights_of
from reconrisk import DPSGD, privacy, special
from reconrisk.two_layer import TwoLayer

__all__ = ["PARAMETERS", "noise_is_private", "noise_table", "sensitivities", "sensitivity"]

_EPSILONS = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0)
PARAMETERS = {
    "dimension": Parameter("int", 16, 64, NOT_PRINTED, "d, values of a record", low=3),
    "widths": Parameter(
        "ints", (4000, 16000, 64000), (8000, 32000, 128000), NOT_PRINTED, "m, neurons", low=100
    ),
    "epsilons": Parameter(
        "floats",
        _EPSILONS,
        _EPSILONS,
        "any",
        "epsilons at which noise is compared, smallest first",
        low=1e-3,
    ),
    "delta": Parameter("float", 1e-5, 1e-5, "any", "delta", low=1e-100),
}


def sensitivity(network: TwoLayer, rng: np.random.Generator, pairs: int) -> dict[str, float]:
    """Measure how far the gradient moves when one record of a batch is replaced.

    The residuals are ``2 (f - y)``. For the worst pair, ``|g - g'| <= |g| + |g'|``, and one record
    with labels 1 and -1 attains this but for the network's small outputs.

    Returns
    -------
    dict
        Squared distances of two records' gradients, over the number of neurons: means over random
        pairs with random labels (``random pair``) and with equal ones (``same label``); of the
        worst pair found (``worst pair``); a value that no pair exceeds (``no pair above``); and the
        ``inner weights' part`` of the worst pair's.
    """
    inner, outer = weights_of(network)
    s, d, m = network.function, network.dimension, network.width
    x, other = unit_rows(rng, pairs, d), unit_rows(rng, pairs, d)
    y, label = (rng.choice([-1.0, 1.0], pairs) for _ in range(2))

    def gradient(points: np.ndarray, labels: np.ndarray) -> np.ndarray:
        values = s.value(points @ inner.T)
        return 2.0 * (values @ outer - labels)[:, None] * values

    def mean_square(labels: np.ndarray) -> float:
        gap = gradient(x, y) - gradient(other, labels)
        return float(np.mean(np.sum(gap**2, axis=1))) / m

    def squares(point: np.ndarray) -> tuple[float, np.ndarray]:
        z = inner @ point
        value = s.value(z)
        return float(value @ value) / m, 2.0 * (value * s.slope(z)) @ inner / m

    def output(point: np.ndarray) -> tuple[float, np.ndarray]:
        z = inner @ point
        value = float(outer @ s.value(z))
        return abs(value), np.sign(value) * (outer * s.slope(z)) @ inner

    peak, top = (_largest(function, unit_rows(rng, 3, d)) for function in (squares, output))
    # the inner weights' part of the gradient, |r a_j s' x|^2 with the steepest slope everywhere
    steep = np.max(np.abs(s.slope(np.linspace(-12, 12, 4001))))
    inside = steep**2 * float(outer @ outer) / m
    return {
        "random pair": mean_square(label),
        "same label": mean_square(y),
        "worst pair": 16.0 * peak,
        "no pair above": float(16.0 * (1.0 + top) ** 2 * (peak + inside)),
        "inner weights' part": float(16.0 * inside),
    }


def _largest(
    function: Callable[[np.ndarray], tuple[float, np.ndarray]], starts: np.ndarray
) -> float:
    """The largest value of a function on the unit sphere, by ascent from each start."""

    def negative(point: np.ndarray) -> tuple[float, np.ndarray]:
        size = float(np.linalg.norm(point))
        unit = point / size
        value, slopes = function(unit)
        return -value, -(slopes - (slopes @ unit) * unit) / size

    found = (optimize.minimize(negative, s, jac=True, method="L-BFGS-B").x for s in starts)
    return max(function(point / np.linalg.norm(point))[0] for point in found)


def sensitivities(study: Context, activation: str, pairs: int) -> pd.DataFrame:
    """Squared distances of gradients over the width, one row a network."""
    dimension, rows = study.parameters.dimension, []
    function = special.activation(activation)
    limit = 16.0 * special.normal_mean(lambda z: function.value(z) ** 2, function.kinks)
    for m in study.parameters.widths:
        network = draw_network(study, dimension, m, activation)
        found = sensitivity(network, study.rng("pairs", dimension, activation), pairs)
        rows.append({"activation": activation, "d": dimension, "m": m, **found})
    return pd.DataFrame(rows).assign(**{"limit of the worst": limit})


def noise_table(epsilons: Sequence[float], delta: float) -> pd.DataFrame:
    """Variance over the squared sensitivity: least, by moments, and two orders with constants."""
    log = math.log(1 / delta)
    rows = []
    for epsilon in epsilons:
        by_moments = float(privacy.noise_by_moments(epsilon, delta))
        first_power = math.sqrt(2 * log / epsilon)
        rows.append(
            {
                "epsilon": epsilon,
                "needed": privacy.noise_for_epsilon(epsilon, delta) ** 2,
                "by moments": by_moments**2,
                "2 L/epsilon^2": 2 * log / epsilon**2,
                "2 L/epsilon": 2 * log / epsilon,
                "epsilon at the moments' noise": privacy.epsilon(DPSGD(by_moments), delta).upper,
                "epsilon at 2 L/epsilon": privacy.epsilon(DPSGD(first_power), delta).upper,
            }
        )
    return pd.DataFrame(rows)


def noise_is_private(noise: pd.DataFrame) -> bool:
    """Whether an accountant finds no epsilon above the one that the moments promise."""
    return bool((noise["epsilon at the moments' noise"] <= noise["epsilon"]).all())

"""How far one record moves a two-layer gradient, and the noise that privacy then asks for.

What Propositions 2.1 and A.1 of Liu et al. 2024 share.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy import optimize

from companion.papers.liu2024.gradient_floors import draw_network, unit_rows
from companion.study import Context, Parameter
from reconrisk import DPSGD, privacy, special
from reconrisk.two_layer import TwoLayer

__all__ = [
    "PARAMETERS",
    "Sensitivity",
    "noise_is_private",
    "noise_table",
    "sensitivities",
    "sensitivity",
]

_EPSILONS = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0)
_NONE = "not printed: the paper only proves"
PARAMETERS = {
    "dimension": Parameter("int", 16, 64, _NONE, "d, values of a record", low=3),
    "widths": Parameter(
        "ints", (4000, 16000, 64000), (8000, 32000, 128000), _NONE, "m, neurons", low=100
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


@dataclass(frozen=True)
class Sensitivity:
    """Squared distances of two records' gradients, over the number of neurons.

    Attributes
    ----------
    random, same_label : float
        Means over random pairs with labels at random, and equal.
    worst : float
        Of the worst pair found: one record with either label.
    ceiling : float
        No pair of unit records is further apart.
    inner : float
        The inner weights' part of ``worst``.
    """

    random: float
    same_label: float
    worst: float
    ceiling: float
    inner: float


def sensitivity(network: TwoLayer, rng: np.random.Generator, pairs: int = 100) -> Sensitivity:
    """Measure how far the gradient moves when one record of a batch is replaced.

    The residuals are ``2 (f - y)``. For the worst pair, ``|g - g'| <= |g| + |g'|``, and one record
    with labels 1 and -1 attains this but for the network's small outputs.

    Parameters
    ----------
    network : TwoLayer
        Small enough to be held in memory.
    rng : numpy.random.Generator
        Of random pairs and of the starts of the search for the largest gradient.
    pairs : int
        Random pairs, >= 2.
    """
    parts = list(network.neurons())
    inner = np.concatenate([p.inner for p in parts]).astype(float)
    outer = np.concatenate([p.outer for p in parts])
    s, d, m = network.function, network.dimension, network.width
    x, other = unit_rows(rng, pairs, d), unit_rows(rng, pairs, d)
    y, label = (rng.choice([-1.0, 1.0], pairs) for _ in range(2))

    def gradient(points: np.ndarray, labels: np.ndarray) -> np.ndarray:
        values = s.value(points @ inner.T)
        return 2.0 * (values @ outer - labels)[:, None] * values

    def mean_square(labels: np.ndarray) -> float:
        gap = gradient(x, y) - gradient(other, labels)
        return float(np.mean(np.sum(gap**2, axis=1))) / m

    def largest(function: Callable[[np.ndarray], tuple[float, np.ndarray]]) -> np.ndarray:
        found = [_ascend(function, start) for start in unit_rows(rng, 3, d)]
        return max(found, key=lambda point: function(point)[0])

    def squares(point: np.ndarray) -> tuple[float, np.ndarray]:
        z = inner @ point
        value = s.value(z)
        return float(value @ value) / m, 2.0 * (value * s.slope(z)) @ inner / m

    def output(point: np.ndarray) -> tuple[float, np.ndarray]:
        z = inner @ point
        value = float(outer @ s.value(z))
        return abs(value), np.sign(value) * (outer * s.slope(z)) @ inner

    peak = squares(largest(squares))[0]
    top = output(largest(output))[0]
    # the inner weights' part of the gradient, |r a_j s' x|^2 with the steepest slope everywhere
    steep = np.max(np.abs(s.slope(np.linspace(-12, 12, 4001))))
    inside = steep**2 * float(outer @ outer) / m
    return Sensitivity(
        random=mean_square(label),
        same_label=mean_square(y),
        worst=16.0 * peak,
        ceiling=16.0 * (1.0 + top) ** 2 * (peak + inside),
        inner=16.0 * inside,
    )


def _ascend(
    function: Callable[[np.ndarray], tuple[float, np.ndarray]], start: np.ndarray
) -> np.ndarray:
    """Look for a largest value on the unit sphere from one start."""

    def negative(point: np.ndarray) -> tuple[float, np.ndarray]:
        size = float(np.linalg.norm(point))
        unit = point / size
        value, slopes = function(unit)
        return -value, -(slopes - (slopes @ unit) * unit) / size

    found = optimize.minimize(negative, start, jac=True, method="L-BFGS-B")
    return found.x / np.linalg.norm(found.x)


def sensitivities(study: Context, activation: str, pairs: int) -> pd.DataFrame:
    """Squared distances of gradients over the width, one row a network."""
    dimension, rows = study.parameters.dimension, []
    function = special.activation(activation)
    limit = 16.0 * special.normal_mean(lambda z: function.value(z) ** 2, function.kinks)
    for m in study.parameters.widths:
        found = sensitivity(
            draw_network(study, dimension, m, activation),
            study.rng("pairs", dimension, activation),
            pairs,
        )
        rows.append(
            {
                "activation": activation,
                "d": dimension,
                "m": m,
                "random pair": found.random,
                "same label": found.same_label,
                "worst pair": found.worst,
                "no pair above": float(found.ceiling),
                "limit of the worst": limit,
                "inner weights' part": float(found.inner),
            }
        )
    return pd.DataFrame(rows)


def noise_table(epsilons: Sequence[float], delta: float) -> pd.DataFrame:
    """Variance over the squared sensitivity: needed, by moments, and two orders with constants."""
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

"""Two-layer networks for the exhibits on lower bounds: batches, floors, sensitivity, estimators.

Records are random unit vectors; networks are drawn from the study's seed. Everything returned is
for noise of standard deviation one on every observed entry: the bounds are proportional to it.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import optimize

from reconrisk import bounds, special
from reconrisk.attacks import tensor_attack
from reconrisk.metrics import match
from companion.study.session import Context
from reconrisk.two_layer import (
    LocalSteps,
    OutputGradient,
    TwoLayer,
    gradient_jacobians,
    inner_gradient_jacobians,
    release_output_gradient,
)

__all__ = [
    "LINEAR",
    "Floor",
    "Problem",
    "Sensitivity",
    "another_batch",
    "floor_of",
    "problem",
    "pruned_floors",
    "sensitivity",
    "slope",
    "solve_one_record",
    "tensor_error",
    "unit_rows",
]

#: the activation that makes a network linear
LINEAR = special.Activation("linear", lambda z: z, np.ones_like, np.zeros_like)

#: the last chunk of a network's seeds is kept free by the library
_SEEDS = 2**62


@dataclass(frozen=True)
class Problem:
    """A network, a batch of unit records, and what is released of its gradient."""

    network: TwoLayer
    inputs: np.ndarray
    labels: np.ndarray
    active: np.ndarray | None
    released: OutputGradient


@dataclass(frozen=True)
class Floor:
    """What bounds the reconstruction of one batch, for noise of standard deviation one.

    Attributes
    ----------
    exact, unit : float
        The Cramer-Rao bound of attackers who know what the paper's does, and of those who know the
        records' norms besides.
    loosened : float
        The paper's: from the trace alone.
    trace : float
        Of the information.
    norm : float
        Of the released gradient before clipping.
    """

    exact: float
    unit: float
    loosened: float
    trace: float
    norm: float


def unit_rows(rng: np.random.Generator, count: int, dimension: int) -> np.ndarray:
    """Draw records from the unit sphere, shape (count, dimension)."""
    rows = rng.standard_normal((count, dimension))
    return rows / np.linalg.norm(rows, axis=1)[:, None]


def signs(count: int, mixed: bool) -> np.ndarray:
    """Labels: one and minus one in turn, or all one."""
    return np.where((np.arange(count) % 2 == 1) & mixed, -1.0, 1.0)


def problem(
    context: Context,
    dimension: int,
    batch_size: int,
    width: int,
    *,
    activation: str | special.Activation = "elu",
    mixed: bool = True,
    draw: int = 0,
    local: LocalSteps | None = None,
    active: np.ndarray | None = None,
    **defences: float,
) -> Problem:
    """Draw a network and a batch, and release its gradient after the defences.

    Parameters
    ----------
    context : Context
    dimension, batch_size, width : int
    activation : str or special.Activation
    mixed : bool
        Whether labels take turns; else all are one.
    draw : int
        Which of many independent networks and batches.
    local, active, defences
        As of :func:`reconrisk.two_layer.release_output_gradient`.

    Notes
    -----
    Records, and the first neurons, are the same for all widths and defences.
    """
    x = unit_rows(context.rng("records", dimension, batch_size, draw), batch_size, dimension)
    y = signs(batch_size, mixed)
    seed = context.seed_of("network", dimension, draw) % _SEEDS
    network = TwoLayer(dimension, width, activation, seed)
    rng = context.rng("defence", dimension, batch_size, draw)
    released = release_output_gradient(
        network, x, y, local=local, active=active, rng=rng, **defences
    )
    return Problem(network, x, y, active, released)


def floor_of(
    given: Problem, max_grad_norm: float | None = None, *, labels_known: bool = True
) -> Floor:
    """Compute all bounds of a problem, after clipping if a norm is given.

    Without the labels (and the output weights) the residuals are unknowns of their own.
    """
    x = given.inputs
    information = bounds.gradient_information(
        gradient_jacobians(
            given.network,
            x,
            given.released,
            active=given.active,
            free_residuals=not labels_known,
        )
    )
    if max_grad_norm is not None:
        information = information.clipped(max_grad_norm)
    return Floor(
        exact=float(bounds.cramer_rao_error(information, 1.0, x)),
        unit=float(bounds.cramer_rao_error(information, 1.0, x, unit_norm=True)),
        loosened=float(bounds.cramer_rao_error_loosened(information, 1.0, x)),
        trace=float(np.trace(information.matrix[: x.size, : x.size])),
        norm=given.released.norm,
    )


def slope(x: Any, y: Any) -> float:
    """Exponent of a power law fitted to points by least squares on logarithms."""
    return float(np.polyfit(np.log(np.asarray(x, float)), np.log(np.asarray(y, float)), 1)[0])


def tensor_error(given: Problem) -> float:
    """Root mean squared error of the tensor attack, as published, over the batch."""
    found = tensor_attack(given.network, given.released, len(given.inputs), removed=0)
    matching = match(given.inputs, found.inputs, signs=not found.signed)
    return math.sqrt(float(np.mean(matching.mse)) * given.inputs.shape[1])


# The whole gradient, both layers -----------------------------------------------------------------


def pruned_floors(given: Problem, shares: np.ndarray) -> list[dict[str, float]]:
    """Bounds when the smallest entries of the whole gradient, both layers, are pruned.

    Parameters
    ----------
    given : Problem
        Undefended.
    shares : ndarray
        Shares of all ``m (d + 1)`` entries that are pruned, in [0, 1).

    Returns
    -------
    list of dict
        For each share: ``exact`` and ``loosened`` bound, ``kept of the squared norm`` (of the
        Jacobian, the rho of Proposition 3.4 as it is defined there), and ``outer pruned``, the
        share of the output weights' entries that are gone.
    """
    parts = [
        gradient_jacobians(given.network, given.inputs, given.released),
        inner_gradient_jacobians(given.network, given.inputs, given.released),
    ]
    values, rows = zip(*(_joined(part) for part in parts), strict=True)
    outer = np.arange(sum(map(len, values))) < len(values[0])
    every, jacobian = np.concatenate(values), np.concatenate(rows)
    order = np.argsort(np.abs(every))
    whole = float(np.sum(jacobian**2))
    found = []
    for share in np.asarray(shares, dtype=float):
        kept = order[round(share * len(order)) :]
        info = bounds.gradient_information([(every[kept], jacobian[kept])])
        found.append(
            {
                "pruned": float(share),
                "exact": float(bounds.cramer_rao_error(info, 1.0, given.inputs)),
                "loosened": float(bounds.cramer_rao_error_loosened(info, 1.0, given.inputs)),
                "kept of the squared norm": float(np.trace(info.matrix)) / whole,
                "outer pruned": 1.0 - float(np.mean(np.isin(np.flatnonzero(outer), kept))),
            }
        )
    return found


def _joined(parts: Any) -> tuple[np.ndarray, np.ndarray]:
    chunks = list(parts)
    return np.concatenate([v for v, _ in chunks]), np.concatenate([j for _, j in chunks])


# How far one record moves the gradient -----------------------------------------------------------


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


# A linear network --------------------------------------------------------------------------------


def another_batch(given: Problem, rng: np.random.Generator) -> np.ndarray:
    """Another batch of unit records with the same labels and the same gradient in both layers.

    For a linear network: all that is seen is ``v = sum r_i x_i``, and the outputs are ``u.x_i``.
    Reflections in directions orthogonal to u and v change neither.

    Parameters
    ----------
    given : Problem
        Of a linear network, d >= 3.
    rng : numpy.random.Generator
        Of the direction of the reflection, taken in the records' own span where it can be.
    """
    x, r = given.inputs, given.released.residuals
    u = sum(part.outer @ part.inner.astype(float) for part in given.network.neurons())
    fixed = np.linalg.qr(np.stack([r @ x, u], axis=1))[0]
    free = x - (x @ fixed) @ fixed.T
    mixed = rng.standard_normal(len(x)) @ free
    if np.linalg.norm(mixed) < 1e-9:
        mixed = rng.standard_normal(x.shape[1])
        mixed -= fixed @ (fixed.T @ mixed)
    axis = mixed / np.linalg.norm(mixed)
    return x - 2.0 * np.outer(x @ axis, axis)


# Estimators of one record ------------------------------------------------------------------------


def solve_one_record(network: TwoLayer, label: float, values: np.ndarray) -> np.ndarray:
    """Least squares for one record of a known label, from the gradient of the output weights.

    Starts at the direction of the gradient's first moment: ``sum_j g_j w_j`` points along ``r x``,
    and r has the sign of minus the label.

    Parameters
    ----------
    network : TwoLayer
        Small enough to be held in memory.
    label : float
    values : ndarray, shape (m,)
        Noisy gradient.

    Returns
    -------
    ndarray, shape (d,)
        Of any norm.
    """
    inner, outer = _held(network)
    s = network.function

    def misfit(point: np.ndarray) -> np.ndarray:
        value = s.value(inner @ point)
        return 2.0 * (outer @ value - label) * value - values

    def derivative(point: np.ndarray) -> np.ndarray:
        z = inner @ point
        value, slopes = s.value(z), s.slope(z)
        pull = 2.0 * (outer * slopes) @ inner
        return 2.0 * (outer @ value - label) * slopes[:, None] * inner + np.outer(value, pull)

    moment = -label * (values - values.mean()) @ inner
    start = moment / np.linalg.norm(moment)
    # Levenberg and Marquardt's method: few unknowns, smooth enough a function
    return optimize.least_squares(misfit, start, derivative, method="lm").x


@functools.lru_cache(maxsize=2)
def _held(network: TwoLayer) -> tuple[np.ndarray, np.ndarray]:
    parts = list(network.neurons())
    inner = np.concatenate([p.inner for p in parts]).astype(float)
    return inner, np.concatenate([p.outer for p in parts])

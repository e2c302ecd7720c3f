"""What the lemmas behind the tensor attack say, measured: Liu et al. 2024, Appendices B and C."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import permutations
from typing import Any

import numpy as np
import pandas as pd

from reconrisk.attacks._cp_decomposition import decompose
from reconrisk.metrics import projection_error
from reconrisk.special import activation, normal_mean
from companion.study.session import Context
from companion.papers.liu2024.tensor_errors import draw_problem, length_of_error
from companion.experiments.tools import run_tasks
from companion.study.sweep import as_table
from reconrisk.two_layer import LocalSteps, simulate

__all__ = [
    "bernstein_task",
    "change_task",
    "decomposition_task",
    "derivative_mean",
    "lemma_sweep",
    "square_moment",
]

Row = dict[str, Any]


# Theorem B.1 -------------------------------------------------------------------------------------


def decomposition_task(task: Row, seed: int) -> Row:
    """Decompose known moments that were disturbed by symmetric noise of a given operator norm.

    Parameters
    ----------
    task : dict
        ``dimension``, ``batch``, ``overlap`` of the records, ``matrix`` and ``tensor`` (norms of
        the two disturbances), ``residual_ratio`` (largest over smallest component), ``network``
        (number of the draw), ``base``.
    seed : int
        Not used: disturbances of several sizes must have the same direction.

    Returns
    -------
    dict
        ``error`` of the records and ``span``, the share of them outside the eigenvectors' span.
    """
    del seed
    count = task["batch"]
    x = draw_problem({**task, "width": 1, "activation": "hermite", "labels": "random"}).inputs
    rng = np.random.default_rng([task["base"], count, task["network"], 7])
    components = np.geomspace(1.0, task["residual_ratio"], count) * rng.choice([-1, 1], count)
    noise = rng.standard_normal((task["dimension"],) * 2)
    noise = noise + noise.T
    matrix = (x.T * components) @ x + task["matrix"] / np.linalg.norm(noise, 2) * noise
    values, vectors = np.linalg.eigh(matrix)
    span = vectors[:, np.argsort(-np.abs(values))[:count]].T
    inside = x @ span.T
    tensor = np.einsum("i,ia,ib,ic->abc", components, inside, inside, inside)
    drawn = rng.standard_normal((count,) * 3)
    cube = np.sum([drawn.transpose(t) for t in permutations(range(3))], axis=0)
    tensor = tensor + task["tensor"] / np.linalg.norm(cube.reshape(count, -1), 2) * cube
    found = decompose(tensor, rng).vectors @ span
    return {
        "error": length_of_error(x, found),
        "span": float(projection_error(x, span)),
    }


# Lemma B.2 ---------------------------------------------------------------------------------------


def bernstein_task(task: Row, seed: int) -> Row:
    """Draw means of random matrices, and return how many are further off than Lemma B.2 allows.

    Parameters
    ----------
    task : dict
        ``law``: "hermite" for ``e (w w' - I)`` with normal e and w, what noise adds to P;
        "shifted" for ``w w'``, whose mean is not zero; "flat" for ``s`` times a random rank-one
        projection. ``dimension``, ``count`` (matrices in a mean), ``trials``, ``share`` (delta_1).
    seed : int
        The task's own.

    Returns
    -------
    dict
        ``exceeded`` with the printed right-hand side, ``twice`` with two times that, ``ratio`` of
        the 1 - delta quantile of the distances to it, and the printed ``bound``.
    """
    rng = np.random.default_rng(seed)
    d, m, trials, share = task["dimension"], task["count"], task["trials"], task["share"]
    law = task["law"]
    # quantities of the lemma: norm of the mean, variance, weak variance (L^2), size M that all but
    # a share delta_0 of the matrices keep below
    mean, variance, weak = {
        "hermite": (0.0, d + 1.0, 2.0),
        "shifted": (1.0, d + 2.0, 3.0),
        "flat": (0.0, 1.0 / d, 3.0 / (d * (d + 2.0))),
    }[law]
    distances, largest = np.empty(trials), np.empty(trials)
    for k in range(trials):
        w = rng.standard_normal((m, d))
        e = rng.standard_normal((m,))
        lengths = np.einsum("na,na->n", w, w)
        if law == "hermite":
            off = ((w * e[:, None]).T @ w - e.sum() * np.eye(d)) / m
            sizes = np.abs(e) * np.maximum(lengths - 1.0, 1.0)
        elif law == "shifted":
            off, sizes = w.T @ w / m - np.eye(d), lengths
        else:
            off, sizes = (w * (np.sign(e) / lengths)[:, None]).T @ w / m, np.ones(m)
        distances[k] = np.linalg.norm(off, 2)
        largest[k] = sizes.max()
    size = float(np.quantile(largest, 1 - share))
    spread = variance + mean**2 + size * mean + share * weak
    bound = math.sqrt(math.log(1 / share) * spread / m)
    return {
        "exceeded": float(np.mean(distances > bound)),
        "twice": float(np.mean(distances > 2 * bound)),
        "ratio": float(np.quantile(distances, 1 - 2 * share)) / bound,
        "bound": bound,
        "needed": size * math.log(1 / share),
    }


# Lemma B.3 ---------------------------------------------------------------------------------------


def derivative_mean(name: str, order: int) -> float:
    """Mean of an activation's derivative of order 1 to 4 at a standard normal, as a distribution.

    From its first two derivatives, without its values: those of higher order by parts, and a jump
    of the slope at a kink k adds ``jump * phi(k) He_{order-2}(k)``.
    """
    s = activation(name)
    if order == 1:
        return normal_mean(s.slope, s.kinks)
    polynomial = np.polynomial.hermite_e.HermiteE.basis(order - 2)
    total = normal_mean(lambda z: s.curvature(z) * polynomial(z), s.kinks)
    for kink in s.kinks:
        below, above = s.slope(np.array([kink, np.nextafter(kink, np.inf)]))
        weight = math.exp(-0.5 * kink * kink) / math.sqrt(2 * math.pi)
        total += float(above - below) * weight * float(polynomial(kink))
    return total


def square_moment(vector: Sequence[float]) -> tuple[float, float]:
    """Return ``E (a'(w w' - I) a)^2`` for a unit vector, exactly and as eq. (23) sums it.

    Exactly ``2 |a|^4``; with every pair of different entries counted once,
    ``sum 2 a_i^4 + sum_{i != j} a_i^2 a_j^2``.
    """
    a = np.asarray(vector, dtype=float)
    total = float(a @ a) ** 2
    fourth = float(np.sum(a**4))
    return 2.0 * total, fourth + total


# Lemmas C.4 to C.10 ------------------------------------------------------------------------------


def change_task(task: Row, seed: int) -> Row:
    """Return what the first of two local steps changes, at the paper's rates 1/m^2 and 1.

    Returns
    -------
    dict
        The largest over the records of: ``values``, of ``|s(w1.x) - s(w.x)|`` over the neurons
        (Lemma C.4); ``residuals``, of ``|r1 - r|`` (C.5); ``later``, of ``|r1|`` (C.6); and of the
        norms in Lemmas C.7 to C.10, ``P values``, ``T values``, ``P residuals``, ``T residuals``.
        ``signed``: of the matrix in C.7 without the absolute values, which the proof of C.1 needs.
        ``second``: distance of the second step's gradient from the first's over the latter's norm.
    """
    del seed
    problem = draw_problem(task)
    network, x = problem.network, problem.inputs
    local = LocalSteps(2, 1.0 / network.width**2, 1.0)
    steps = simulate(network, x, local, labels=problem.labels)
    before, after = steps.residuals
    span = np.linalg.svd(x, full_matrices=False)[2]
    sums: dict[str, np.ndarray] = {}
    largest = 0.0
    gaps = np.zeros(2)
    s = network.function
    for chunk in network.neurons():
        for some in chunk.split(1 << 14):
            (first, _, g0), (second, _, g1) = steps.replay(some)
            change = s.value(second) - s.value(first)
            largest = max(largest, float(np.abs(change).max()))
            gaps += [np.sum((g1 - g0) ** 2), np.sum(g0**2)]
            for name, weights in (
                ("values", after * np.abs(change)),
                ("signed", after * change),
                ("residuals", (after - before) * s.value(first)),
            ):
                for key, part in _moments(some.inner.astype(float), weights, span).items():
                    sums[f"{key} {name}"] = sums.get(f"{key} {name}", 0.0) + part / network.width
    norms = {
        key: max(float(np.linalg.norm(part.reshape(part.shape[0], -1), 2)) for part in value)
        for key, value in sums.items()
    }
    return {
        "values": largest,
        "residuals": float(np.abs(after - before).max()),
        "later": float(np.abs(after).max()),
        "second": float(math.sqrt(gaps[0] / gaps[1])),
        "signed": norms["P signed"],
        **{key: norms[key] for key in _NORMS},
    }


_NORMS = ("P values", "T values", "P residuals", "T residuals")


def _moments(w: np.ndarray, weights: np.ndarray, span: np.ndarray) -> dict[str, np.ndarray]:
    """Sums over neurons of weights times H_2(w) and H_3(w)(V, V, V), for every record."""
    d, count = w.shape[1], len(span)
    matrix = np.stack([(w * c[:, None]).T @ w - c.sum() * np.eye(d) for c in weights.T])
    u = w @ span.T
    squares = (u[:, :, None] * u[:, None, :]).reshape(len(u), -1)
    cubes = []
    for c in weights.T:
        weighted = u * c[:, None]
        first = weighted.sum(axis=0)
        cube = (weighted.T @ squares).reshape(count, count, count)
        mixed = first[:, None, None] * np.eye(count)
        cubes.append(cube - mixed - mixed.transpose(1, 0, 2) - mixed.transpose(1, 2, 0))
    return {"P": matrix, "T": np.stack(cubes)}


# Sweeps ------------------------------------------------------------------------------------------

_FUNCTIONS = {f.__name__: f for f in (decomposition_task, bernstein_task, change_task)}


def lemma_sweep(context: Context, function: str, tasks: Sequence[Row]) -> pd.DataFrame:
    """Run tasks of this module, or remember them from an exhibit before."""
    return as_table(tasks, run_tasks(context, _FUNCTIONS[function], tasks, "tensors", function))

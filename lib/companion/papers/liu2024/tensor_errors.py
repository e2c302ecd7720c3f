"""Errors of the tensor attack and their bounds, measured over every factor of Table 1 (Liu et al.).

Networks are drawn at random with orthonormal records, so that the smallest singular value of the
records is one and only the factor that a sweep moves is moved. All defences of a sweep meet the
same networks, records and noise.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from reconrisk import bounds
from reconrisk.attacks import gradient_moments, project_tensor, tensor_attack
from reconrisk.metrics import match, projection_error
from reconrisk.special import hermite_coefficient
from companion.study.session import Context
from companion.experiments.tools import run_tasks
from companion.study.sweep import as_table
from companion.study.verdicts import rounded
from reconrisk.two_layer import (
    LocalSteps,
    OutputGradient,
    TwoLayer,
    gradient_jacobians,
    release_output_gradient,
)

__all__ = [
    "NEAR",
    "NONE",
    "REGIME",
    "UNLIMITED",
    "PowerLaw",
    "Problem",
    "attack_task",
    "bound_task",
    "draw_problem",
    "fit_column",
    "fit_levels",
    "length_of_error",
    "listed",
    "moment_task",
    "power_law",
    "problem_tasks",
    "released",
    "shared_sweep",
    "slopes",
]

NONE = "none"

#: a point is asymptotic if the geometric mean of its networks' errors is below this; an error of
#: sqrt(2) is that of a guess, and .35 an angle of 20 degrees
REGIME = 0.35

#: a regime that leaves nothing out, for values that have no ceiling
UNLIMITED = math.inf

#: an exponent agrees with a printed one within this, on top of which networks are finite
NEAR = 0.15

Row = dict[str, Any]


# Power laws --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class PowerLaw:
    """A straight line through logarithms.

    Attributes
    ----------
    exponent, low, high : float
        The slope and its 95% interval.
    error : float
        Standard error of the slope.
    factor : float
        The value at one.
    points : int
        How many points it runs through.
    """

    exponent: float
    low: float
    high: float
    error: float
    factor: float
    points: int

    def near(self, printed: float, room: float) -> bool:
        """Whether the slope is within ``room`` of a printed exponent."""
        return abs(self.exponent - printed) <= room

    def __str__(self) -> str:
        return f"{self.exponent:.2f} [{self.low:.2f}, {self.high:.2f}]"


def power_law(x: Sequence[float], values: Sequence[np.ndarray]) -> PowerLaw:
    """Fit ``value = factor * x**exponent`` by weighted least squares on logarithms.

    Parameters
    ----------
    x : sequence of float
        One positive number for each of at least two points.
    values : sequence of ndarray
        The positive values that independent networks gave at each point, at least two each.

    Returns
    -------
    PowerLaw
        Points are weighted by the squared standard error of their mean logarithm, no smaller than
        half of what the spread over all points gives; the interval is Student's, and wider by
        the root of the reduced chi-square where the points do not lie on a line.

    Raises
    ------
    ValueError
        If there are fewer points or values, or one is not positive.
    """
    logs = [np.log(np.asarray(v, dtype=float)) for v in values]
    at = np.log(np.asarray(x, dtype=float))
    if len(at) < 2 or len(at) != len(logs) or min(map(len, logs)) < 2:
        raise ValueError("x must hold at least two points, with at least two values for each")
    if not all(np.all(np.isfinite(v)) for v in [at, *logs]):
        raise ValueError("x and values must be positive")
    counts = np.array([len(v) for v in logs])
    own = np.array([np.var(v, ddof=1) for v in logs])
    pooled = float(np.sum((counts - 1) * own) / np.sum(counts - 1))
    weights = counts / np.maximum(np.maximum(own, pooled / 4), 1e-20)
    means = np.array([v.mean() for v in logs])
    middle = np.sum(weights * at) / np.sum(weights)
    spread = np.sum(weights * (at - middle) ** 2)
    slope = float(np.sum(weights * (at - middle) * means) / spread)
    level = float(np.sum(weights * means) / np.sum(weights) - slope * middle)
    left = means - level - slope * at
    reduced = np.sum(weights * left**2) / (len(at) - 2) if len(at) > 2 else 1.0
    error = math.sqrt(max(1.0, reduced) / spread)
    room = float(stats.t.ppf(0.975, counts.sum() - 2)) * error
    return PowerLaw(slope, slope - room, slope + room, error, math.exp(level), len(at))


def fit_column(
    table: pd.DataFrame, over: str, column: str = "error", *, regime: float = REGIME
) -> PowerLaw:
    """Fit one column over another, through the points whose geometric mean is below ``regime``."""
    points = [
        (float(np.exp(np.mean(np.log(part[over])))), part[column].to_numpy())
        for _, part in table.groupby("point", sort=False)
    ]
    inside = [(x, v) for x, v in points if np.exp(np.mean(np.log(v))) < regime]
    if len(inside) < 2:
        raise ValueError(f"{column} over {over}: fewer than two points are below {regime}")
    return power_law([x for x, _ in inside], [v for _, v in inside])


def fit_levels(
    table: pd.DataFrame, over: str, column: str = "error", *, regime: float = REGIME
) -> PowerLaw:
    """Fit one column over another where every network met every level: a slope for each network.

    The levels are those whose geometric mean is below ``regime``; the interval is Student's over
    the networks.
    """
    inside = table.groupby("point")[column].transform(lambda v: np.exp(np.log(v).mean())) < regime
    some = table[inside].assign(x=lambda t: np.log(t[over]), y=lambda t: np.log(t[column]))
    if some["point"].nunique() < 2:
        raise ValueError(f"{column} over {over}: fewer than two levels are below {regime}")
    lines = [np.polyfit(part["x"], part["y"], 1) for _, part in some.groupby("network")]
    slopes, levels = np.array(lines).T
    error = max(float(np.std(slopes, ddof=1)) / math.sqrt(len(slopes)), 1e-12)
    middle = float(slopes.mean())
    room = float(stats.t.ppf(0.975, len(slopes) - 1)) * error
    factor = math.exp(float(levels.mean()))
    return PowerLaw(middle, middle - room, middle + room, error, factor, some["point"].nunique())


def slopes(found: Mapping[str, PowerLaw], *names: str) -> str:
    """Exponents rounded to what their errors support, for a verdict."""
    return ", ".join(f"{rounded(found[n].exponent, found[n].error)}" for n in names)


def listed(found: Mapping[str, PowerLaw]) -> pd.DataFrame:
    return pd.DataFrame(
        [
            {
                "exponent of": name,
                "value": f.exponent,
                "low": f.low,
                "high": f.high,
                "points": f.points,
            }
            for name, f in found.items()
        ]
    )


# Problems ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Problem:
    """One network with one batch.

    Attributes
    ----------
    network : TwoLayer
    inputs : ndarray, shape (B, d)
        Unit rows.
    labels : ndarray, shape (B,)
        1 or -1.
    seed : int
        Of what the defences draw.
    """

    network: TwoLayer
    inputs: np.ndarray
    labels: np.ndarray
    seed: int


def draw_problem(task: Mapping[str, Any]) -> Problem:
    """Draw a task's network and records.

    The same for all defences; of networks that differ in the width, all is drawn anew.
    """
    d, m, size = task["dimension"], task["width"], task["batch"]
    rng = np.random.default_rng([task["base"], d, m, size, task["network"]])
    seed = int(rng.integers(2**62))
    drawn = rng.standard_normal((d, size))
    overlap = task.get("overlap", 0.0)
    inputs = np.linalg.qr(drawn)[0].T
    if overlap:
        # records of equal inner products: each leans towards their common mean
        middle = inputs.sum(axis=0) / math.sqrt(size)
        own = (1 + (size - 1) * overlap) ** 0.5 - (1 - overlap) ** 0.5
        inputs = (1 - overlap) ** 0.5 * inputs + own / math.sqrt(size) * middle
    signs = rng.choice([-1.0, 1.0], size)
    labels = np.ones(size) if task["labels"] == "equal" else signs
    network = TwoLayer(d, m, task["activation"], seed)
    return Problem(network, inputs, labels, int(rng.integers(2**62)))


def released(problem: Problem, defence: Mapping[str, Any]) -> tuple[OutputGradient, Any]:
    """Return what a defence releases, and which records take part in which local step.

    ``defence`` has the keyword arguments of
    :func:`reconrisk.two_layer.release_output_gradient`; ``local`` as a list of count and rates, and
    ``first`` instead of ``active``: the share of the batch that the first of two steps sees, the
    second sees the others.
    """
    options = dict(defence)
    local = LocalSteps(*options.pop("local", (1,)))
    first = options.pop("first", None)
    active = None
    if first is not None:
        ahead = np.arange(len(problem.labels)) < first * len(problem.labels)
        active = np.stack([ahead, ~ahead])
    gradient = release_output_gradient(
        problem.network,
        problem.inputs,
        problem.labels,
        local=local,
        active=active,
        rng=np.random.default_rng(problem.seed),
        **options,
    )
    return gradient, active


def problem_tasks(
    points: Sequence[Mapping[str, Any]], networks: int, shared: Mapping[str, Any]
) -> list[Row]:
    """One task for each point and network; ``shared`` goes into all."""
    return [
        {"labels": "random", **shared, **point, "network": k}
        for point in points
        for k in range(networks)
    ]


def length_of_error(truth: np.ndarray, found: np.ndarray, *, signs: bool = True) -> float:
    """Root mean square distance of matched records, the error of Definition D.1."""
    return float(np.sqrt(np.mean(match(truth, found, signs=signs).mse) * truth.shape[1]))


# Tasks -------------------------------------------------------------------------------------------


def attack_task(task: Row, seed: int) -> list[Row]:
    """Attack one network under several defences.

    Parameters
    ----------
    task : dict
        ``base`` (the study's seed), ``activation``, ``dimension``, ``width``, ``batch``,
        ``labels`` ("random" or "equal"), ``network`` (its number), ``defences`` (name to the
        arguments of :func:`released`) and optionally ``overlap`` of the records.
    seed : int
        Not used: the defences of several sweeps must meet the same network.

    Returns
    -------
    list of dict
        One row for each defence: ``error``, ``span`` (root mean square distance of the records
        from the eigenvectors' span), ``norm`` of the gradient, ``count`` of released entries.
    """
    del seed
    problem = draw_problem(task)
    rows = []
    for name, defence in task["defences"].items():
        gradient, _ = released(problem, defence)
        found = tensor_attack(problem.network, gradient, task["batch"], removed=0)
        off = projection_error(problem.inputs, found.span)
        rows.append(
            {
                "defence": name,
                "error": length_of_error(problem.inputs, found.inputs),
                "span": float(np.sqrt(np.mean(np.square(off)))),
                "norm": gradient.norm,
                "count": gradient.count,
            }
        )
    return rows


def bound_task(task: Row, seed: int) -> list[Row]:
    """Return the Cramér-Rao bounds of one network under several defences, at unit noise.

    Arguments as in :func:`attack_task`; a clipping threshold is taken from ``defences``.

    Returns
    -------
    list of dict
        One row for each defence: ``error`` (exact), ``loosened`` (the paper's), ``kept`` (share of
        the Jacobian's squared norm in the released entries) and ``norm`` of the gradient.
    """
    del seed
    problem = draw_problem(task)
    network, x = problem.network, problem.inputs
    rows, whole = [], None
    for name, defence in task["defences"].items():
        gradient, active = released(problem, {**defence, "max_grad_norm": None})
        found = bounds.gradient_information(gradient_jacobians(network, x, gradient, active=active))
        if "local" not in defence:
            whole = float(np.trace(found.matrix)) if whole is None else whole
        if defence.get("max_grad_norm") is not None:
            found = found.clipped(defence["max_grad_norm"])
        rows.append(
            {
                "defence": name,
                "error": float(bounds.cramer_rao_error(found, 1.0, x)),
                "loosened": float(bounds.cramer_rao_error_loosened(found, 1.0, x)),
                "kept": float(np.trace(found.matrix)) / whole if whole else math.nan,
                "norm": gradient.norm,
            }
        )
    return rows


def moment_task(task: Row, seed: int) -> Row:
    """Return how far the moments P and T(V, V, V) of one undefended network are from their means.

    With V the records' own span; operator norm for P, that of the flattened tensor for T. Also
    ``total``: the distance of T's sum over the neurons, without 1/m, as eq. (7) prints it.
    """
    del seed
    problem = draw_problem(task)
    network, x = problem.network, problem.inputs
    gradient, _ = released(problem, {})
    r = gradient.residuals
    second, third = (hermite_coefficient(task["activation"], k) for k in (2, 3))
    found = gradient_moments(network, gradient, 2, removed=0)
    span = np.linalg.svd(x, full_matrices=False)[2]
    cubes = project_tensor(network, gradient, found, span, 3, removed=0)
    inside = x @ span.T
    mean = third * np.einsum("i,ia,ib,ic->abc", r, inside, inside, inside)
    flat = (len(x), len(x) ** 2)
    return {
        "matrix": float(np.linalg.norm(found.matrix - second * (x.T * r) @ x, 2)),
        "tensor": float(np.linalg.norm((cubes - mean).reshape(flat), 2)),
        "size": float(np.linalg.norm(mean.reshape(flat), 2)),
        "total": float(np.linalg.norm((cubes * network.width - mean).reshape(flat), 2)),
    }


# Sweeps ------------------------------------------------------------------------------------------

_FUNCTIONS = {f.__name__: f for f in (attack_task, bound_task, moment_task)}


def shared_sweep(context: Context, function: str, tasks: Sequence[Row]) -> pd.DataFrame:
    """Run tasks, or remember them from an exhibit before; ``point`` numbers the points."""
    table = as_table(tasks, run_tasks(context, _FUNCTIONS[function], tasks, "tensors", function))
    keys = [k for k in ("dimension", "width", "batch", "labels", "overlap") if k in table]
    return table.assign(point=table.groupby(keys, sort=False).ngroup())

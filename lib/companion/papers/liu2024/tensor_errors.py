"""Two-layer networks with batches, attacked and bounded under defences (Liu et al., Table 1).

Networks are drawn at random with orthonormal records, so that the smallest singular value of the
records is one and a sweep varies its own factor alone. All defences of a sweep are applied to the
same networks, records and noise.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from companion.exhibit import *
from reconrisk import bounds
from reconrisk.attacks import tensor_attack
from reconrisk.metrics import match, projection_error
from reconrisk.two_layer import (
    LocalSteps,
    OutputGradient,
    TwoLayer,
    gradient_jacobians,
    release_output_gradient,
)

NONE = "none"

Row = dict[str, Any]


@dataclass(frozen=True)
class Problem:
    """A network, a batch (B, d) of unit records with labels 1 or -1, and the defences' seed."""

    network: TwoLayer
    inputs: np.ndarray
    labels: np.ndarray
    seed: int


def draw_problem(task: Mapping[str, Any]) -> Problem:
    """Draw a task's network and records: the same for all defences, others for each width."""
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
    ``first`` instead of ``active``: the share of the batch in the first of two steps, the rest
    being in the second.
    """
    options, active, count = dict(defence), None, len(problem.labels)
    local = LocalSteps(*options.pop("local", (1,)))
    if "first" in options:
        ahead = np.arange(count) < options.pop("first") * count
        active = np.stack([ahead, ~ahead])
    options |= {"local": local, "active": active, "rng": np.random.default_rng(problem.seed)}
    batch = (problem.inputs, problem.labels)
    return release_output_gradient(problem.network, *batch, **options), active


def problem_tasks(
    points: Sequence[Mapping[str, Any]], networks: int, shared: Mapping[str, Any]
) -> list[Row]:
    """One task for each point and network, with the values of ``shared``."""
    return [
        {"labels": "random", **shared, **point, "network": k}
        for point in points
        for k in range(networks)
    ]


def one_factor(p: Settings, over: str) -> list[Row]:
    """Points that vary ``"width"``, ``"dimension"`` or ``"batch"`` by the exhibit's parameters."""
    middle = {"dimension": 16, "width": p.widths[1], "batch": 4}
    values = {"width": p.widths, "dimension": p.dimensions, "batch": p.batches}[over]
    return [middle | {over: value} for value in values]


def length_of_error(truth: np.ndarray, found: np.ndarray, *, signs: bool = True) -> float:
    """Root mean square distance of matched records, the error of Definition D.1."""
    return float(np.sqrt(np.mean(match(truth, found, signs=signs).mse) * truth.shape[1]))


def attack_task(task: Row) -> list[Row]:
    """Attack one network under several defences.

    Parameters
    ----------
    task : dict
        ``base`` (the study's seed), ``activation``, ``dimension``, ``width``, ``batch``,
        ``labels`` ("random" or "equal"), ``network`` (its number), ``defences`` (name to the
        arguments of :func:`released`) and optionally ``overlap`` of the records.

    Returns
    -------
    list of dict
        One row for each defence: ``error``, ``span`` (root mean square distance of the records
        from the eigenvectors' span), ``norm`` of the gradient, ``count`` of released entries.
    """
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


def bound_task(task: Row) -> list[Row]:
    """Return the Cramér-Rao bounds of one network under several defences, at unit noise.

    Arguments as in :func:`attack_task`; a clipping threshold is taken from ``defences``.

    Returns
    -------
    list of dict
        One row for each defence: ``error`` (exact), ``loosened`` (the paper's), ``kept`` (share of
        the Jacobian's squared norm in the released entries) and ``norm`` of the gradient.
    """
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


def run_networks(
    study: Context, function: Callable[[Row], Any], tasks: Sequence[Row], label: str
) -> pd.DataFrame:
    """One row for each network and defence; ``point`` numbers the settings that networks share."""
    # one thread, so that the last bit does not depend on the machine
    table = as_table(tasks, study.sweep(function, tasks, label, threads=1))
    keys = [k for k in ("dimension", "width", "batch", "labels", "overlap") if k in table]
    return table.assign(point=table.groupby(keys, sort=False).ngroup())

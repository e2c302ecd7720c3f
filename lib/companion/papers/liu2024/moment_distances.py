"""How far the moments P and T(V, V, V) of wide networks are from their means: Lemmas B.4, B.5."""

from typing import Any

import numpy as np
import pandas as pd

from companion.exhibit import *
from companion.papers.liu2024.power_laws import UNLIMITED, PowerLaw, fit_column
from companion.papers.liu2024.tensor_errors import (
    draw_problem,
    one_factor,
    problem_tasks,
    released,
    run_networks,
)
from reconrisk.attacks import gradient_moments, project_tensor
from reconrisk.special import hermite_coefficient

__all__ = ["PARAMETERS", "moment_laws", "moment_sweep", "moment_task", "what_ran"]

_OURS = "no experiment"
PARAMETERS = {
    "activation": Parameter("str", "relu_shifted", "relu_shifted", "any", "of the networks"),
    "networks": Parameter("int", 12, 20, _OURS, "independent networks at each point", low=2),
    "widths": Parameter(
        "ints",
        (1024, 4096, 16384, 65536),
        (4096, 16384, 65536, 262144),
        _OURS,
        "neurons m",
        low=1024,
    ),
    "dimensions": Parameter(
        "ints", (8, 16, 32, 64), (16, 32, 64, 128, 256), _OURS, "input dimensions d", low=8
    ),
    "batches": Parameter("ints", (2, 4, 8, 16), (2, 4, 8, 16, 32), _OURS, "batch sizes B", low=1),
}


def moment_task(task: dict[str, Any]) -> dict[str, float]:
    """Return how far the moments P and T(V, V, V) of one undefended network are from their means.

    V is the records' own span. Distances are in the operator norm, for T that of the flattened
    tensor. ``total`` is the distance of T's sum over the neurons, without 1/m, as eq. (7) has it.
    """
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

    def norm(moment: np.ndarray) -> float:
        return float(np.linalg.norm(moment.reshape(len(moment), -1), 2))

    return {
        "matrix": norm(found.matrix - second * (x.T * r) @ x),
        "tensor": norm(cubes - mean),
        "size": norm(mean),
        "total": norm(cubes * network.width - mean),
    }


def moment_sweep(study: Context, over: str) -> pd.DataFrame:
    """Distances of the moments over ``"width"``, ``"dimension"`` or ``"batch"``."""
    p = study.parameters
    at = one_factor(p, over)
    if over == "batch":
        at = [{**x, "dimension": 32, "labels": kind} for kind in ("random", "equal") for x in at]
    tasks = problem_tasks(at, p.networks, {"base": study.seed, "activation": p.activation})
    return run_networks(study, moment_task, tasks, f"moments, {over}")


def moment_laws(study: Context, column: str) -> dict[str, PowerLaw]:
    """Power laws of one distance over m, d, and B with random and with equal labels."""

    def fit(table: pd.DataFrame, over: str) -> PowerLaw:
        return fit_column(table, over, column, regime=UNLIMITED)

    batch = moment_sweep(study, "batch")
    return {
        "m": fit(moment_sweep(study, "width"), "width"),
        "d": fit(moment_sweep(study, "dimension"), "dimension"),
        **{k: fit(batch[batch["labels"] == k], "batch") for k in ("random", "equal")},
    }


def what_ran(study: Context) -> str:
    """One sentence on the sweeps."""
    p = study.parameters
    return (
        f"{p.networks} networks ({p.activation}, orthonormal records) at each point, m from "
        f"{p.widths[0]} to {p.widths[-1]}, d to {p.dimensions[-1]}, B to {p.batches[-1]}."
    )

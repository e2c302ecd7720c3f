"""Changes by the first of two local steps: Lemmas C.4 to C.10 of Liu et al. 2024."""

import math
from typing import Any

import numpy as np
import pandas as pd

from companion.exhibit import *
from companion.papers.liu2024.power_laws import (
    EXPONENTS,
    UNLIMITED,
    PowerLaw,
    check_exponents,
    fit_column,
    laws_of,
    listed,
)
from companion.papers.liu2024.tensor_errors import (
    draw_problem,
    one_factor,
    problem_tasks,
    run_networks,
)
from reconrisk.two_layer import LocalSteps, simulate

__all__ = [
    "ALTERED",
    "PARAMETERS",
    "change_laws",
    "change_sweep",
    "change_tables",
    "change_task",
    "grows_no_faster",
]

_OURS = "no experiment"
PARAMETERS = {
    "activation": Parameter("str", "elu", "elu", "any of orders 2, 3", "of the networks"),
    "networks": Parameter("int", 4, 10, _OURS, "independent networks at each point", low=2),
    "widths": Parameter(
        "ints", (2048, 8192, 32768), (8192, 32768, 131072), _OURS, "neurons m", low=1024
    ),
    "dimensions": Parameter("ints", (8, 16, 32), (16, 32, 64), _OURS, "input dimensions", low=8),
    "batches": Parameter("ints", (2, 4, 8), (2, 4, 8, 16), _OURS, "batch sizes", low=1),
}
ALTERED = {"exponents": EXPONENTS}


def change_task(task: dict[str, Any]) -> dict[str, float]:
    """Measure the changes by the first of two local steps, at the paper's rates 1/m^2 and 1.

    Returns
    -------
    dict
        The largest over the records of: ``values``, of ``|s(w1.x) - s(w.x)|`` over the neurons
        (Lemma C.4); ``residuals``, of ``|r1 - r|`` (C.5); ``later``, of ``|r1|`` (C.6); and of the
        norms in Lemmas C.7 to C.10, ``P values``, ``T values``, ``P residuals``, ``T residuals``.
        ``signed``: of the matrix in C.7 without the absolute values, which the proof of C.1 needs.
        ``second``: distance of the second step's gradient from the first's over the latter's norm.
    """
    problem = draw_problem(task)
    network, x = problem.network, problem.inputs
    local = LocalSteps(2, 1.0 / network.width**2, 1.0)
    steps = simulate(network, x, local, labels=problem.labels)
    before, after = steps.residuals
    span = np.linalg.svd(x, full_matrices=False)[2]
    sums: dict[str, np.ndarray] = {}
    largest, gaps, s = 0.0, np.zeros(2), network.function
    for chunk in network.neurons():
        for some in chunk.split(1 << 14):
            (first, _, g0), (second, _, g1) = steps.replay(some)
            change = s.value(second) - s.value(first)
            largest = max(largest, float(np.abs(change).max()))
            gaps += [np.sum((g1 - g0) ** 2), np.sum(g0**2)]
            weighted = {
                "values": after * np.abs(change),
                "signed": after * change,
                "residuals": (after - before) * s.value(first),
            }
            for name, weights in weighted.items():
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
        **{key: norms[key] for key in ("P values", "T values", "P residuals", "T residuals")},
    }


def _moments(w: np.ndarray, weights: np.ndarray, span: np.ndarray) -> dict[str, np.ndarray]:
    """Sums over the neurons of weighted H_2(w) and H_3(w)(V, V, V), for every record."""
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


def change_sweep(study: Context, over: str) -> pd.DataFrame:
    """Changes over ``"width"``, ``"dimension"`` or ``"batch"``.

    Records have inner products of 1/2 and equal labels, the worst case for B.
    """
    p = study.parameters
    shared = {"base": study.seed, "activation": p.activation, "labels": "equal", "overlap": 0.5}
    tasks = problem_tasks(one_factor(p, over), p.networks, shared)
    return run_networks(study, change_task, tasks, f"local steps, {over}")


def change_laws(study: Context, column: str) -> dict[str, PowerLaw]:
    """Power laws of one column of :func:`change_task` over m, d and B."""
    return {
        letter: fit_column(change_sweep(study, over), over, column, regime=UNLIMITED)
        for letter, over in (("m", "width"), ("d", "dimension"), ("B", "batch"))
    }


def change_tables(study: Context, column: str, **more: pd.DataFrame) -> Tables:
    """The exponents of one change, and further tables."""
    p = study.parameters
    return Tables(
        {"exponents": listed(change_laws(study, column)), **more},
        ran=f"{p.networks} networks ({p.activation}) at each point, m from {p.widths[0]} to "
        f"{p.widths[-1]}, equal labels, records with inner products of 1/2; rates 1/m^2 and 1.",
    )


def grows_no_faster(
    target: str, tables: Tables, statement: str, *, batch: float, dimension: float
) -> Verdict:
    """Judge a lemma that bounds a change by ``B^batch d^dimension / m``."""
    printed = {"m": -1, "B": batch, "d": dimension}
    return check_exponents(target, laws_of(tables["exponents"]), statement, printed, tuple(printed))

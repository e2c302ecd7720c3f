"""Lemmas B.4 and B.5: how far P and T(V, V, V) of wide networks are from their means."""

from collections.abc import Iterator
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
    released,
    run_networks,
)
from reconrisk.attacks import gradient_moments, project_tensor
from reconrisk.special import hermite_coefficient

EXHIBITS = ("lemB4", "lemB5")

_OURS = "no experiment"
PARAMETERS = {
    "activation": Parameter("str", "relu_shifted", "relu_shifted", "any", "of the networks"),
    "networks": Parameter("int", 12, 20, _OURS, "independent networks at each point", low=2),
    "widths": Parameter(
        "ints", (1024, 4096, 16384, 65536), (4096, 16384, 65536, 262144), _OURS, "neurons m", 1024
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


ALTERED_LEMB4 = {"exponents": EXPONENTS}


def measure_lemb4(study: Context) -> Tables:
    """Lemma B.4: how far P is from its mean, over m, d and B."""
    laws = moment_laws(study, "matrix")
    return Tables({"exponents": listed(laws)}, ran=what_ran(study))


def judge_lemb4(tables: Tables) -> Iterator[Verdict]:
    yield check_exponents(
        "liu2024/lemB4",
        laws_of(tables["exponents"]),
        "the distance of P from its mean grows as the root of d/m, and no faster than B, whether "
        "labels are random or equal",
        {"m": -0.5, "d": 0.5, "random": 1, "equal": 1},
        at_most=("random", "equal"),
    )


SETTLES_LEMB5 = ("E-E-22",)
ALTERED_LEMB5 = {
    "exponents": EXPONENTS,
    "relative distances": {
        "mean over the neurons": "distances of the mean",
        "sum over the neurons": "distances of the sum",
    },
}
#: relative distance of the widest networks' mean over the neurons from its limit: a fifth of zero's
AT_LIMIT = 0.2


def measure_lemb5(study: Context) -> Tables:
    """Lemma B.5: how far T(V, V, V) is from its mean, and so the sum that eq. (7) prints."""
    laws = moment_laws(study, "tensor")
    sweep = moment_sweep(study, "width")
    widest = sweep[sweep["width"] == sweep["width"].max()]
    relative = {
        "m": widest["width"].iloc[0],
        "mean over the neurons": (widest["tensor"] / widest["size"]).mean(),
        "sum over the neurons": (widest["total"] / widest["size"]).mean(),
        "exponent of the sum": fit_column(sweep, "width", "total", regime=UNLIMITED).exponent,
    }
    return Tables(
        {"exponents": listed(laws), "relative distances": pd.DataFrame([relative])},
        ran=what_ran(study),
    )


def judge_lemb5(tables: Tables) -> Iterator[Verdict]:
    yield check_exponents(
        "liu2024/lemB5",
        laws_of(tables["exponents"]),
        "the distance of T(V, V, V) from its mean falls as the root of 1/m, does not depend on d, "
        "and grows no faster than B^(5/2), whether labels are random or equal",
        {"m": -0.5, "d": 0, "random": 2.5, "equal": 2.5},
        at_most=("random", "equal"),
    )
    width, mean, total, growth = tables["relative distances"].iloc[0]
    yield check(
        "E-E-22",
        mean < AT_LIMIT and total > 1 and growth > 0.5,
        "the mean over the neurons tends to the mean over one neuron, their sum does not",
        ours=f"relative distance at m = {width:.0f}: {mean:.1f} for the mean, "
        f"{'above 1000' if total > 1000 else format(total, '.0f')} for the sum",
        tolerance=f"{AT_LIMIT:g}",
    )

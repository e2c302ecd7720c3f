"""Theorem B.1: known P and T, perturbed by given amounts, and the error of their decomposition."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import permutations
from typing import Any

import numpy as np
import pandas as pd

from companion.exhibit import *
from companion.papers.liu2024.power_laws import (
    FACTORS,
    NEAR,
    PowerLaw,
    laws_of,
    listed,
    power_law,
    slopes,
)
from companion.papers.liu2024.tensor_errors import draw_problem, length_of_error
from reconrisk.attacks import decompose_cubes

_OURS = "no experiment"
PARAMETERS = {
    "draws": Parameter("int", 6, 30, _OURS, "independent perturbations", low=2),
    "dimension": Parameter("int", 16, 64, _OURS, "d", low=8),
    "sizes": Parameter(
        "floats",
        (1e-4, 1e-3, 1e-2, 1e-1),
        (1e-5, 1e-4, 1e-3, 1e-2, 1e-1),
        _OURS,
        "operator norms of the perturbation",
        low=0.0,
    ),
}

ALTERED = {
    "exponents": {("value", "low", "high"): by("exponent of", "exponents", FACTORS)},
}

#: inner products of the records
OVERLAPS = (0.0, 0.5, 0.75, 0.9)
#: of the exponents of small perturbations, whose error is linear
LINEAR = 0.02


@measurement
def measure(study: Context) -> Tables:
    p = study.parameters
    laws, means = {}, []
    for name in ("matrix", "tensor"):
        sizes = _decompositions(study, [{name: size} for size in p.sizes])
        laws[name] = _law_over(sizes, name)
        mean = sizes.groupby(name)["error"].mean().reset_index(name="mean error")
        means.append(mean.rename(columns={name: "value"}).assign(disturbance=name))
        overlaps = _decompositions(study, [{"overlap": o, name: p.sizes[1]} for o in OVERLAPS])
        laws[f"{name} pi"] = _law_over(overlaps, "1/pi_min")
    return Tables(
        {"errors": pd.concat(means, ignore_index=True), "exponents": listed(laws)},
        ran=f"Moments of 4 records in d = {p.dimension} and symmetric perturbations of operator "
        f"norms {p.sizes[0]:g} to {p.sizes[-1]:g}, {p.draws} of each.",
    )


def _decompositions(study: Context, points: Sequence[Mapping[str, float]]) -> pd.DataFrame:
    p = study.parameters
    base = {"base": study.seed, "dimension": p.dimension, "batch": 4, "residual_ratio": 1.0}
    base |= {"overlap": 0.0, "matrix": 0.0, "tensor": 0.0}
    tasks = [{**base, **point, "network": k} for point in points for k in range(p.draws)]
    rows = study.sweep(decomposition_task, tasks, "decompositions", threads=1)
    # records of equal inner products o have the smallest singular value (1 - o)^(1/2)
    return as_table(tasks, rows).assign(**{"1/pi_min": lambda t: (1 - t["overlap"]) ** -0.5})


def _law_over(table: pd.DataFrame, column: str) -> PowerLaw:
    errors = table.groupby(column)["error"].apply(np.array)
    return power_law(list(errors.index), list(errors))


def decomposition_task(task: dict[str, Any]) -> dict[str, float]:
    """Decompose known moments perturbed by symmetric noise of a given operator norm.

    Parameters
    ----------
    task : dict
        ``dimension``, ``batch``, ``overlap`` of the records, ``matrix`` and ``tensor`` (norms of
        the two perturbations), ``residual_ratio`` (largest over smallest component), ``network``
        (number of the draw), ``base``. Perturbations of all sizes have the same direction.

    Returns
    -------
    dict
        ``error`` of the records.
    """
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
    found = decompose_cubes(tensor, rng).vectors @ span
    return {"error": length_of_error(x, found)}


def judge(tables: Tables) -> Iterator[Verdict]:
    laws = laws_of(tables["exponents"])
    linear = all(laws[name].near(1.0, LINEAR) for name in ("matrix", "tensor"))
    bounds = ((laws["matrix pi"], 1 + NEAR), (laws["tensor pi"], 2 + NEAR))
    bounded = all(law.exponent <= most for law, most in bounds)
    possibly = all(law.low <= most for law, most in bounds)
    yield check(
        "liu2024/thmB1",
        every(linear, settle(bounded, possibly)),
        "the records' error is linear in the perturbation of P and in that of T(V, V, V), with "
        "factors of at most 1/pi_min and 1/pi_min^2",
        ours=f"exponents {slopes(laws, 'matrix', 'tensor')}; of 1/pi_min "
        f"{slopes(laws, 'matrix pi', 'tensor pi')}",
        paper="1, 1; at most 1, 2",
        tolerance=f"{LINEAR:g}; {NEAR:g}, one-sided",
        decided_by="more perturbations",
    )

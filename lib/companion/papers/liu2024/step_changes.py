"""Lemmas C.4 to C.10 and Corollary C.6: what the first of two local steps changes."""

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pandas as pd

from companion.exhibit import *
from companion.papers.liu2024.power_laws import (
    EXPONENTS,
    FACTORS,
    UNLIMITED,
    PowerLaw,
    check_exponents,
    fit_column,
    laws_of,
    listed,
    slopes,
)
from companion.papers.liu2024.tensor_errors import (
    draw_problem,
    one_factor,
    problem_tasks,
    run_networks,
)
from reconrisk.special import ACTIVATIONS
from reconrisk.two_layer import LocalSteps, simulate

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
ALTERED = {
    "exponents": EXPONENTS,
    "derivative": {"by differences": "derivatives"},
    "signed": {"value": by("exponent of", "exponents without absolute values", FACTORS)},
    "signs": {"signed over unsigned": "sums without absolute values"},
    "largest": {"largest residual": "residuals"},
}

#: each lemma's column of :func:`change_task`, what it says, and its powers of B and d beside 1/m
LEMMAS = {
    "lemC4": ("values", "one step changes every activation by at most order B/m", 1, 0),
    "lemC5": ("residuals", "one step changes every residual by at most order B/m", 1, 0),
    "lemC7": ("P values", "the change of the activations moves P by at most order B d/m", 1, 1),
    "lemC8": (
        "T values",
        "the change of the activations moves T(V, V, V) by at most order B^(5/2)/m",
        2.5,
        0,
    ),
    "lemC9": ("P residuals", "the change of the residuals moves P by at most order B d/m", 1, 1),
    "lemC10": (
        "T residuals",
        "the change of the residuals moves T(V, V, V) by at most order B^(5/2)/m",
        2.5,
        0,
    ),
}

EXHIBITS = (*LEMMAS, "corC6")
SETTLES_LEMC5 = ("E-E-23",)

#: up to a constant the signed sums of Lemma C.7 must not be larger; 1 would be the inequality as
#: printed
LARGER = 1.25
#: the residual 2 (f - y) of a label of size one and a small output f
LARGEST = 2.2
#: of exponents that are to be zero: these values hardly scatter
FLAT = 0.03


def measure(study: Context) -> Tables:
    p = study.parameters
    column = LEMMAS[study.exhibit.partition("/")[2]][0]
    tables = {"exponents": listed(change_laws(study, column))}
    if column == "residuals":
        tables["derivative"] = _derivative(study.rng("residual"))
    if column == "P values":
        tables["signed"] = listed(change_laws(study, "signed"))
        tables["signs"] = _over_sweeps(
            study, "signed over unsigned", lambda t: t["signed"] / t["P values"]
        )
    return Tables(
        tables,
        ran=f"{p.networks} networks ({p.activation}) at each point, m from {p.widths[0]} to "
        f"{p.widths[-1]}, equal labels, records with inner products of 1/2; rates 1/m^2 and 1.",
    )


def measure_corc6(study: Context) -> Tables:
    """Measure the residuals after the step, of Corollary C.6."""
    largest = _over_sweeps(study, "largest residual", lambda t: t["later"])
    return Tables(
        {
            "exponents": listed(change_laws(study, "later")),
            "largest": largest.drop(columns="networks"),
        },
        ran=f"{study.parameters.networks} networks at each point; labels of size one.",
    )


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


def _over_sweeps(
    study: Context, name: str, values: Callable[[pd.DataFrame], pd.Series]
) -> pd.DataFrame:
    """The largest of some values in each sweep."""
    rows = []
    for over in ("width", "dimension", "batch"):
        found = values(change_sweep(study, over))
        rows.append({"over": over, "networks": len(found), name: float(found.max())})
    return pd.DataFrame(rows)


def _derivative(rng: np.random.Generator) -> pd.DataFrame:
    """The loss's derivative in an output weight, by differences, and its two factors."""
    w, a, x, y = rng.standard_normal((5, 3)), rng.standard_normal(5), rng.standard_normal(3), 1.0
    values = ACTIVATIONS["elu"].value(w @ x)
    step = 1e-4 * np.eye(5)[0]
    above, below = (float((outer @ values - y) ** 2) for outer in (a + step, a - step))
    row = {
        "by differences": (above - below) / 2e-4,
        "f - y": float(a @ values - y),
        "s(w.x)": float(values[0]),
    }
    return pd.DataFrame([row])


def judge(tables: Tables) -> Iterator[Verdict]:
    _, statement, batch, dimension = LEMMAS[tables.exhibit.partition("/")[2]]
    printed = {"m": -1, "B": batch, "d": dimension}
    laws = laws_of(tables["exponents"])
    yield check_exponents(tables.exhibit, laws, statement, printed, at_most=tuple(printed))
    if "derivative" in tables:
        slope, gap, value = tables["derivative"].iloc[0]
        factor = slope / (gap * value)
        yield refute(
            "E-E-23",
            holds=math.isclose(factor, 1.0, rel_tol=1e-6),
            corrected_holds=math.isclose(factor, 2.0, rel_tol=1e-6),
            ours=f"{factor:.4f} (f - y)",
            paper="f - y; 2 (f - y)",
        )
    if "signed" in tables:
        yield check_exponents(
            tables.exhibit,
            laws_of(tables["signed"]),
            "the same holds without the absolute values, as the proof of Proposition C.1 needs",
            {"m": -1, "B": 1},
            at_most=("m", "B"),
        )
        signs = tables["signs"]
        most = signs["signed over unsigned"].max()
        yield check(
            tables.exhibit,
            most < LARGER,
            "in random networks the sum without absolute values is no larger than the one with "
            "them, up to a constant",
            ours=f"at most {most:.2f} times as large in {signs['networks'].sum()} networks",
            tolerance=f"{LARGER:g}",
        )


def judge_corc6(tables: Tables) -> Iterator[Verdict]:
    laws, largest = laws_of(tables["exponents"]), tables["largest"]["largest residual"].max()
    yield check(
        "liu2024/corC6",
        largest < LARGEST and all(law.near(0.0, FLAT) for law in laws.values()),
        "residuals after one step are of order one, whatever m, B and d",
        ours=f"at most {largest:.1f} in size; exponents of m, B, d: {slopes(laws, 'm', 'B', 'd')}",
        paper="O(1)",
        tolerance=f"below {LARGEST:g}; {FLAT:g}",
    )

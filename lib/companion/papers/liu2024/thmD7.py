"""Theorem D.7: the effect of the loosening and of an attacker's knowledge, by batch and defence."""

import math
from collections.abc import Iterator
from typing import Any

import pandas as pd

from companion.exhibit import *
from companion.papers.liu2024.floor_orders import NOT_PRINTED, around, problems
from companion.papers.liu2024.gradient_floors import (
    ROUNDING,
    floor_of,
    geometric_mean,
    one_thread,
    problem,
    round_digits,
    span,
    two_batches,
)
from reconrisk import bounds

PARAMETERS = {
    **around((32, 64), (4, 8), (16000, 64000)),
    "batch_sizes": Parameter(
        "ints", (1, 2, 4, 8, 16), (1, 2, 4, 8, 16), NOT_PRINTED, "B without a defence", low=1
    ),
}
SHOWN = ("bounds over their order",)
ALTERED = {
    "bounds": {
        "exact, unit norm": "bounds for known norms",
        "labels unknown": "bounds for unknown labels",
        "exact / loosened": (
            at("batch.str.startswith('B = ')", "exact over loosened bounds"),
            at("batch == 'B = 1'", "exact over loosened bounds of one record"),
        ),
    },
    "traces": {"trace over its limit": "traces of kinked activations"},
}

#: of a slack that is none, and of the traces of wide networks over their limit
TIGHT = 0.01


@measurement
@one_thread
def measure(study: Context) -> Tables:
    p = study.parameters
    cases: dict[str, dict[str, Any]] = {f"B = {b}": {"batch_size": b} for b in p.batch_sizes}
    cases |= {
        "clipping to a quarter": {"clip": 0.25},
        "dropout .5": {"dropout": 0.5},
        "pruning .5": {"pruned": 0.5},
        "pruning .9": {"pruned": 0.9},
        "pruning .9, equal labels": {"pruned": 0.9, "mixed": False},
        "two local batches": two_batches(p.batch_size, 0.2 / (p.width * p.batch_size), 1.0),
    }
    table = pd.DataFrame([{"batch": name, **_case(study, **c)} for name, c in cases.items()])
    table["exact / loosened"] = table["exact"] / table["loosened"]
    return Tables(
        {
            "bounds over their order": round_digits(table, 3),
            "bounds": table,
            "traces": _traces(study),
        },
        ran=f"{p.draws} {p.activation} networks of {p.width:,} neurons at d = {p.dimension}, "
        f"B = {p.batch_size} unless said.",
    )


def _case(study: Context, clip: float | None = None, **chosen: Any) -> dict[str, float]:
    """Bounds by the attacker's knowledge, in units of sigma sqrt(d/m)."""
    p, found = study.parameters, []
    for drawn in problems(study, **chosen):
        limit = None if clip is None else clip * drawn.released.norm
        known, blind = (floor_of(drawn, limit, labels_known=k) for k in (True, False))
        found.append(
            {
                "loosened": known.loosened,
                "exact": known.exact,
                "exact, unit norm": known.unit,
                "labels unknown": blind.exact,
                "labels unknown, unit norm": blind.unit,
            }
        )
    scale = math.sqrt(p.width / p.dimension)
    return {c: scale * geometric_mean([f[c] for f in found]) for c in found[0]}


def _traces(study: Context) -> pd.DataFrame:
    """Traces of activations without a second derivative over the limit that needs none."""
    p, rows = study.parameters, []
    for name in ("relu", "leaky_relu"):
        given = problem(study, p.dimension, p.batch_size, p.width, activation=name)
        limit = bounds.information_trace_limit(name, p.dimension, p.width, given.released.residuals)
        rows.append({"activation": name, "trace over its limit": floor_of(given).trace / limit})
    return pd.DataFrame(rows)


def judge(tables: Tables) -> Iterator[Verdict]:
    table = tables["bounds"]
    loose = table["exact / loosened"]
    undefended = loose[table["batch"].str.startswith("B = ")]
    yield check(
        "liu2024/thmD7",
        (table["exact, unit norm"] <= table["exact"] * (1 + ROUNDING)).all()
        and (table["labels unknown"] >= table["exact"] * (1 - ROUNDING)).all()
        and (loose >= 1 - ROUNDING).all()
        and loose[table["batch"] == "B = 1"].max() < 1 + TIGHT
        and (undefended.diff().dropna() > TIGHT).all(),
        "the bound holds for every batch size; from the trace alone it is tight for one record, "
        "and looser the larger the batch",
        ours="exact over loosened: "
        + ", ".join(f"{v:.2f} at {n}" for n, v in zip(table["batch"], loose, strict=True)),
    )
    ratios = tables["traces"]["trace over its limit"]
    yield check(
        "liu2024/thmD7",
        (ratios - 1).abs().max() < TIGHT,
        "the activations of Remark D.4 are covered: for ReLU and leaky ReLU, which have a second "
        "derivative almost everywhere, the trace tends to m sum r_i^2 ((d - 1) E[s'^2] + "
        "E[s'^2 z^2]) as for smooth ones",
        ours=f"trace over its limit {span(ratios, 3)}",
        tolerance=f"{TIGHT:g}",
    )

"""Proposition E.2: two local steps on two batches against one step on both, over their rates."""

from collections.abc import Iterator
from itertools import product

import numpy as np
import pandas as pd

from companion.exhibit import *
from companion.papers.liu2024.floor_orders import around, problems
from companion.papers.liu2024.gradient_floors import (
    Problem,
    floor_of,
    geometric_mean,
    one_thread,
    round_digits,
    span,
    two_batches,
)

PARAMETERS = {
    **around((16, 32), (4, 8), (8000, 64000)),
    "shares": Parameter(
        "floats",
        (0.05, 0.2),
        (0.05, 0.1, 0.2),
        "of order 1/m^2 or 1 (garbled)",
        "learning rates of the output weights, times m B",
        low=0.0,
    ),
    "inner_rates": Parameter(
        "floats",
        (1.0, 10.0),
        (1.0, 10.0),
        "of order 1 to m (garbled)",
        "learning rates of the inner weights, smallest first",
        low=0.0,
    ),
}
SHOWN = ("bound over that of one step",)
ALTERED = {"rates": {"furthest": "distances from the bound of one step"}}

#: by how much the bound may differ, at rates of 1/m^2 and at larger ones
SMALL, STABLE = 1e-3, 0.05


@measurement
@one_thread
def measure(study: Context) -> Tables:
    p = study.parameters
    m, b = p.width, p.batch_size
    rates = {"1/m^2": m**-2.0} | {f"{share:g}/(m B)": share / (m * b) for share in p.shares}
    plain = np.array([_bounds(given) for given in problems(study)])
    rows = []
    for (outer_name, outer), inner in product(rates.items(), p.inner_rates):
        steps = two_batches(b, outer, inner)
        ratios = np.array([_bounds(given) for given in problems(study, **steps)]) / plain
        means = map(geometric_mean, ratios.T)
        rows.append((outer_name, inner, *means, np.max(np.abs(np.log(ratios)))))
    columns = ["rate of a", "rate of w", "exact", "loosened", "furthest"]
    table = pd.DataFrame(rows, columns=columns)
    return Tables(
        {
            "bound over that of one step": round_digits(table.drop(columns="furthest")),
            "rates": table,
        },
        ran=f"{p.draws} networks, d = {p.dimension}, m = {m:,}, two batches of {b // 2}.",
    )


def _bounds(given: Problem) -> tuple[float, float]:
    found = floor_of(given)
    return found.exact, found.loosened


def judge(tables: Tables) -> Iterator[Verdict]:
    table = tables["rates"]
    least = table["rate of w"] == tables.parameters.inner_rates[0]
    small = table[least & (table["rate of a"] == "1/m^2")]
    yield check(
        "liu2024/propE2",
        (table["furthest"] < STABLE).all() and (small["furthest"] < SMALL).all(),
        "the bound of two steps on two batches is that of one step on both: at small rates, and to "
        "a few per cent at stable ones",
        ours=f"bound over that of one step: exact {span(table['exact'], 3)}, loosened "
        f"{span(table['loosened'], 3)}",
        paper="sigma sqrt(d/m)",
        tolerance=f"{SMALL:g}, {STABLE:g}",
    )

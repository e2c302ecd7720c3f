"""Orders of the lower bound in d and m, from sweeps over one factor at a time (Liu et al. 2024)."""

from collections.abc import Iterator, Sequence
from typing import Any

import pandas as pd

from companion.exhibit import *
from companion.papers.liu2024.gradient_floors import (
    Problem,
    floor_of,
    geometric_mean,
    problem,
    slope,
)

#: tolerance of fitted exponents, because networks are finite
EXPONENT = 0.1

NOT_PRINTED = "not printed: the paper only proves"
#: of the sweeps of :func:`orders`
SWEPT = {
    "dimensions": Parameter(
        "ints", (32, 64, 128), (64, 128, 256), NOT_PRINTED, "values of d in its sweep", low=3
    ),
    "widths": Parameter(
        "ints",
        (4000, 8000, 16000),
        (4000, 16000, 64000, 256000),
        NOT_PRINTED,
        "values of m in its sweep",
        low=100,
    ),
}
#: of verdicts on :func:`order_holds`
ORDER: dict[str, Any] = {
    "paper": "1/2 in d, -1/2 in m",
    "tolerance": f"{EXPONENT:g} in each exponent",
}


def around(
    dimension: tuple[int, int], batch_size: tuple[int, int], width: tuple[int, int]
) -> dict[str, Parameter]:
    """The network and batch of which one argument at a time is varied, quick and paper."""
    return {
        "activation": Parameter(
            "str", "elu", "elu", "any with bounded derivatives", "activation of the networks"
        ),
        "dimension": Parameter("int", *dimension, NOT_PRINTED, "d, values of a record", low=3),
        "batch_size": Parameter("int", *batch_size, NOT_PRINTED, "B, records of a batch", low=1),
        "width": Parameter("int", *width, NOT_PRINTED, "m, neurons", low=100),
        "draws": Parameter("int", 3, 10, NOT_PRINTED, "networks and batches at each point", low=2),
    }


def base_of(study: Context) -> dict[str, Any]:
    """The network and batch of :func:`around`, as arguments of :func:`.problem`."""
    p = study.parameters
    names = ("dimension", "batch_size", "width", "activation")
    return {name: p[name] for name in names if name in p}


def problems(study: Context, **changed: Any) -> Iterator[Problem]:
    """Every draw of the network and batch of :func:`around`, with some arguments changed."""
    for draw in range(study.parameters.draws):
        yield problem(study, **(base_of(study) | changed), draw=draw)


def floors_over(study: Context, name: str, values: Sequence[float], **changed: Any) -> pd.DataFrame:
    """Bounds over one argument of :func:`.problem`: geometric means over the draws."""
    rows = []
    for value in values:
        found = [floor_of(given) for given in problems(study, **(changed | {name: value}))]
        means = {
            column: geometric_mean([getattr(f, column) for f in found])
            for column in ("exact", "unit", "loosened")
        }
        rows.append({"over": name, "value": value, **means})
    return pd.DataFrame(rows)


def orders(study: Context, **changed: Any) -> pd.DataFrame:
    """Bounds over the dimension and over the width."""
    sweeps = {"dimension": study.parameters.dimensions, "width": study.parameters.widths}
    found = [floors_over(study, name, values, **changed) for name, values in sweeps.items()]
    return pd.concat(found, ignore_index=True)


def exponents(table: pd.DataFrame, column: str) -> dict[str, float]:
    """Exponents of one bound in each argument that was varied."""
    return {str(name): slope(part["value"], part[column]) for name, part in table.groupby("over")}


def order_holds(found: dict[str, float]) -> bool:
    """Whether the exponents are 1/2 in d and -1/2 in m."""
    return abs(found["dimension"] - 0.5) < EXPONENT and abs(found["width"] + 0.5) < EXPONENT


def order_text(found: dict[str, float]) -> str:
    """The exponents in d and m."""
    return f"{found['dimension']:.2f} in d, {found['width']:.2f} in m"


def of_sweeps(words: str) -> tuple[str | Parts, ...]:
    """Name bounds to be altered: all, and the first over m and d, which alters the order."""
    firsts = (
        at(f"over == '{over}' and over != over.shift()", f"{words} at the smallest {over}")
        for over in ("width", "dimension")
    )
    return (words, *firsts)

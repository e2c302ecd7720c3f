"""Proposition 3.2: two local steps on two batches do not change the order of the bound."""

from collections.abc import Iterator

from companion.exhibit import *
from companion.papers.liu2024.floor_orders import (
    ORDER,
    SWEPT,
    around,
    exponents,
    of_sweeps,
    order_holds,
    order_text,
    orders,
)
from companion.papers.liu2024.gradient_floors import one_thread, two_batches

PARAMETERS = {
    **around((24, 64), (4, 8), (8000, 64000)),
    **SWEPT,
    "outer_rate": Parameter(
        "float",
        0.2,
        0.2,
        "of order 1/m^2 or 1 (garbled)",
        "learning rate of the output weights times m B, at the largest m",
        low=0.0,
    ),
    "inner_rate": Parameter(
        "float",
        1.0,
        1.0,
        "of order 1 to m (garbled)",
        "learning rate of the inner weights",
        low=0.0,
    ),
}

ALTERED = {"bounds": {"exact": of_sweeps("exact bounds"), "loosened": of_sweeps("loosened bounds")}}


@measurement
@one_thread
def measure(study: Context) -> Tables:
    p = study.parameters
    outer_rate = p.outer_rate / (max(p.widths) * p.batch_size)
    return Tables(
        {"bounds": orders(study, **two_batches(p.batch_size, outer_rate, p.inner_rate))},
        ran=f"{p.draws} networks a point around d = {p.dimension}, m = {p.width:,}, two batches of "
        f"{p.batch_size // 2}.",
    )


def judge(tables: Tables) -> Iterator[Verdict]:
    exact, loosened = (exponents(tables["bounds"], column) for column in ("exact", "loosened"))
    yield check(
        "liu2024/prop3_2",
        order_holds(exact) and order_holds(loosened),
        "with two local steps on two batches the bound is of order sigma sqrt(d/m)",
        ours=f"exact: {order_text(exact)}; loosened: {order_text(loosened)}",
        **ORDER,
    )

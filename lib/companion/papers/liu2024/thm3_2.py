"""Theorem 3.2: the exact and the loosened bound over m, d, B and the share of entries removed."""

from collections.abc import Iterator

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from companion.exhibit import *
from companion.papers.liu2024.floor_orders import (
    NOT_PRINTED,
    ORDER,
    SWEPT,
    around,
    exponents,
    floors_over,
    of_sweeps,
    order_holds,
    order_text,
    orders,
)
from companion.papers.liu2024.gradient_floors import ROUNDING, one_thread

PARAMETERS = {
    **around((32, 64), (4, 8), (16000, 64000)),
    **SWEPT,
    "batch_sizes": Parameter(
        "ints", (1, 2, 4, 8, 16), (1, 2, 4, 8, 16), NOT_PRINTED, "B in the sweep", low=1
    ),
    "shares": Parameter(
        "floats",
        (0.3, 0.5, 0.7, 0.9),
        (0.3, 0.5, 0.7, 0.9, 0.97),
        "any",
        "shares of neurons dropped, and of entries pruned",
        low=0.0,
    ),
}
SETTLES = ("E-004",)
ALTERED = {"bounds": {"exact": of_sweeps("exact bounds"), "loosened": of_sweeps("loosened bounds")}}
SCENARIOS = (
    scenario(
        "an exact bound that is the loosened one",
        frame("bounds", lambda t: t.assign(exact=t["loosened"])),
        "E-004",
    ),
    scenario(
        "a loosened bound that grows with the batch size",
        frame("bounds", lambda t: t.assign(loosened=t["loosened"] * _batch(t))),
        "E-004",
    ),
)


@measurement
@one_thread
def measure(study: Context) -> Tables:
    p = study.parameters
    sweeps = {"batch_size": p.batch_sizes, "dropout": p.shares, "pruned": p.shares}
    found = [floors_over(study, name, values) for name, values in sweeps.items()]
    return Tables(
        {"bounds": pd.concat([orders(study), *found], ignore_index=True)},
        ran=f"{p.draws} {p.activation} networks and batches a point around d = {p.dimension}, "
        f"B = {p.batch_size}, m = {p.width:,}.",
    )


def judge(tables: Tables) -> Iterator[Verdict]:
    table = tables["bounds"]
    exact, loosened = (exponents(table, column) for column in ("exact", "loosened"))
    above = (table["exact"] >= table["loosened"] * (1 - ROUNDING)).all()
    order = order_holds(exact) and order_holds(loosened)
    text = f"exact: {order_text(exact)}; loosened: {order_text(loosened)}"
    yield check(
        "liu2024/thm3_2",
        order and above,
        "the Cramer-Rao bound of a batch is of order sigma sqrt(d/m), loosened or not, "
        "and the loosened one is never above the exact one",
        ours=text,
        **ORDER,
    )
    ratios = _slack_by_batch(table)
    least, most = ratios.index[[0, -1]]
    yield check(
        "E-004",
        order and abs(loosened["batch_size"]) < 0.05 and exact["batch_size"] > 0.25,
        "the lower bound is of order sigma sqrt(d/m) for unbiased attacks; the exact one "
        "also grows with the batch size, the loosened one does not",
        ours=f"{text}; in B {exact['batch_size']:.2f} and {loosened['batch_size']:.2f}: "
        f"exact over loosened {ratios[least]:.2f} at B = {least:.0f}, {ratios[most]:.1f} at "
        f"B = {most:.0f}",
        **ORDER,
    )


def _batch(table: pd.DataFrame) -> pd.Series:
    """The batch size where it varies, else one."""
    return table["value"].where(table["over"] == "batch_size", 1.0)


def _slack_by_batch(table: pd.DataFrame) -> pd.Series:
    """Exact over loosened bound by batch size."""
    over_batch = table[table["over"] == "batch_size"].set_index("value")
    return over_batch["exact"] / over_batch["loosened"]


CAPTION = (
    "The Cramér-Rao bound over the noise's standard deviation: exact (blue), exact for attackers "
    "who know that records have norm one (green), and loosened to a trace as in the paper "
    "(orange), over width, dimension and batch size, and over the share of neurons dropped "
    "(dashed) or entries pruned (solid). Grey: slopes of the paper's order. Geometric means over "
    "networks. Not in the paper as a picture."
)


@drawing
def draw(tables: Tables) -> Figure:
    table = tables["bounds"]
    figure, (row,) = panels(1, 4, 2.75, 3.0)
    for axis in row[1:]:
        axis.sharey(row[0])
        axis.tick_params(labelleft=False, which="both")
    sweeps = (("width", "m", -0.5), ("dimension", "d", 0.5), ("batch_size", "B", 0.0))
    for axis, (name, letter, power) in zip(row, sweeps, strict=False):
        part = table[table["over"] == name]
        _draw_bounds(axis, part)
        x = part["value"].to_numpy(float)
        start = 0.62 * part["loosened"].iloc[0]
        axis.plot(x, start * (x / x[0]) ** power, color=GREY, linewidth=1, linestyle="-.")
        axis.set(xscale="log", yscale="log", xlabel=f"{name.replace('_', ' ')} {letter}")
        axis.set_xticks(x, [f"{v / 1000:g}k" if v >= 1000 else f"{v:g}" for v in x])
        axis.minorticks_off()
    for name, style in (("dropout", "--"), ("pruned", "-")):
        _draw_bounds(row[3], table[table["over"] == name], style)
    row[3].set(yscale="log", xlabel="share dropped or pruned")
    row[0].set_ylabel(r"bound / $\sigma$")
    bounds = {"exact": BLUE, "exact, norm known": GREEN, "loosened": ORANGE}
    styles = {"paper's order": "-.", "dropout": "--", "pruning": "-"}
    lines = [legend_line(name, colour, "-", "o") for name, colour in bounds.items()]
    lines += [legend_line(name, GREY, style) for name, style in styles.items()]
    legend_above(figure, lines, 6)
    return figure


def _draw_bounds(axis: Axes, part: pd.DataFrame, style: str = "-") -> None:
    for name, colour in (("exact", BLUE), ("unit", GREEN), ("loosened", ORANGE)):
        axis.plot(part["value"], part[name], color=colour, linestyle=style, marker="o", ms=3.5)

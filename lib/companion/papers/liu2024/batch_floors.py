"""Theorems 3.2 and D.7 and Proposition 3.2: the lower bound of batches and its order."""

import math
from collections.abc import Iterator
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from companion.exhibit import *
from companion.papers.liu2024 import gradient_floors as floors
from reconrisk import bounds

EXHIBITS = ("prop3_2", "thm3_2", "thmD7")
ALTERED = {
    "bounds": {
        "exact": floors.of_sweeps("exact bounds"),
        "loosened": floors.of_sweeps("loosened bounds"),
    }
}

PARAMETERS_PROP3_2 = {
    **floors.around((24, 64), (4, 8), (8000, 64000)),
    **floors.SWEPT,
    "outer_rate": Parameter(
        "float", 0.2, 0.2, "of order 1/m^2 or 1 (garbled)", "output weights' rate times m B", 0.0
    ),
    "inner_rate": Parameter(
        "float", 1.0, 1.0, "of order 1 to m (garbled)", "inner weights' learning rate", 0.0
    ),
}


@floors.one_thread
def measure_prop3_2(study: Context) -> Tables:
    """Proposition 3.2: two local steps on two batches do not change the order of the bound."""
    p = study.parameters
    outer_rate = p.outer_rate / (max(p.widths) * p.batch_size)
    return Tables(
        {
            "bounds": floors.orders(
                study, **floors.two_batches(p.batch_size, outer_rate, p.inner_rate)
            )
        },
        ran=f"{p.draws} networks a point around d = {p.dimension}, m = {p.width:,}, two batches of "
        f"{p.batch_size // 2}.",
    )


def judge_prop3_2(tables: Tables) -> Iterator[Verdict]:
    exact, loosened = (
        floors.exponents(tables["bounds"], column) for column in ("exact", "loosened")
    )
    yield check(
        "liu2024/prop3_2",
        floors.order_holds(exact) and floors.order_holds(loosened),
        "with two local steps on two batches the bound is of order sigma sqrt(d/m)",
        ours=f"exact: {floors.order_text(exact)}; loosened: {floors.order_text(loosened)}",
        **floors.ORDER,
    )


PARAMETERS_THM3_2 = {
    **floors.around((32, 64), (4, 8), (16000, 64000)),
    **floors.SWEPT,
    "batch_sizes": Parameter(
        "ints", (1, 2, 4, 8, 16), (1, 2, 4, 8, 16), floors.NOT_PRINTED, "B in the sweep", low=1
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
SETTLES_THM3_2 = ("E-004",)
SCENARIOS_THM3_2 = (
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


@floors.one_thread
def measure_thm3_2(study: Context) -> Tables:
    """Theorem 3.2: the exact and the loosened bound over m, d, B and the share removed."""
    p = study.parameters
    sweeps = {"batch_size": p.batch_sizes, "dropout": p.shares, "pruned": p.shares}
    found = [floors.floors_over(study, name, values) for name, values in sweeps.items()]
    return Tables(
        {"bounds": pd.concat([floors.orders(study), *found], ignore_index=True)},
        ran=f"{p.draws} {p.activation} networks and batches a point around d = {p.dimension}, "
        f"B = {p.batch_size}, m = {p.width:,}.",
    )


def judge_thm3_2(tables: Tables) -> Iterator[Verdict]:
    table = tables["bounds"]
    exact, loosened = (floors.exponents(table, column) for column in ("exact", "loosened"))
    above = (table["exact"] >= table["loosened"] * (1 - floors.ROUNDING)).all()
    order = floors.order_holds(exact) and floors.order_holds(loosened)
    text = f"exact: {floors.order_text(exact)}; loosened: {floors.order_text(loosened)}"
    yield check(
        "liu2024/thm3_2",
        order and above,
        "the Cramer-Rao bound of a batch is of order sigma sqrt(d/m), loosened or not, "
        "and the loosened one is never above the exact one",
        ours=text,
        **floors.ORDER,
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
        **floors.ORDER,
    )


def _batch(table: pd.DataFrame) -> pd.Series:
    """The batch size where it varies, else one."""
    return table["value"].where(table["over"] == "batch_size", 1.0)


def _slack_by_batch(table: pd.DataFrame) -> pd.Series:
    """Exact over loosened bound by batch size."""
    over_batch = table[table["over"] == "batch_size"].set_index("value")
    return over_batch["exact"] / over_batch["loosened"]


CAPTION_THM3_2 = (
    "The Cramér-Rao bound over the noise's standard deviation: exact (blue), exact for attackers "
    "who know that records have norm one (green), and loosened to a trace as in the paper "
    "(orange), over width, dimension and batch size, and over the share of neurons dropped "
    "(dashed) or entries pruned (solid). Grey: slopes of the paper's order. Geometric means over "
    "networks. Not in the paper as a picture."
)


@drawing
def draw_thm3_2(tables: Tables) -> Figure:
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


PARAMETERS_THMD7 = {
    **floors.around((32, 64), (4, 8), (16000, 64000)),
    "batch_sizes": Parameter(
        "ints", (1, 2, 4, 8, 16), (1, 2, 4, 8, 16), floors.NOT_PRINTED, "B without a defence", low=1
    ),
}
SHOWN_THMD7 = ("bounds over their order",)
ALTERED_THMD7 = {
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


@floors.one_thread
def measure_thmd7(study: Context) -> Tables:
    """Theorem D.7: what the loosening and an attacker's knowledge change, by batch."""
    p = study.parameters
    cases: dict[str, dict[str, Any]] = {f"B = {b}": {"batch_size": b} for b in p.batch_sizes}
    cases |= {
        "clipping to a quarter": {"clip": 0.25},
        "dropout .5": {"dropout": 0.5},
        "pruning .5": {"pruned": 0.5},
        "pruning .9": {"pruned": 0.9},
        "pruning .9, equal labels": {"pruned": 0.9, "mixed": False},
        "two local batches": floors.two_batches(p.batch_size, 0.2 / (p.width * p.batch_size), 1.0),
    }
    table = pd.DataFrame([{"batch": name, **_case(study, **c)} for name, c in cases.items()])
    table["exact / loosened"] = table["exact"] / table["loosened"]
    return Tables(
        {
            "bounds over their order": floors.round_digits(table, 3),
            "bounds": table,
            "traces": _traces(study),
        },
        ran=f"{p.draws} {p.activation} networks of {p.width:,} neurons at d = {p.dimension}, "
        f"B = {p.batch_size} unless said.",
    )


def _case(study: Context, clip: float | None = None, **chosen: Any) -> dict[str, float]:
    """Bounds by the attacker's knowledge, in units of sigma sqrt(d/m)."""
    p, found = study.parameters, []
    for drawn in floors.problems(study, **chosen):
        limit = None if clip is None else clip * drawn.released.norm
        known, blind = (floors.floor_of(drawn, limit, labels_known=k) for k in (True, False))
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
    return {c: scale * floors.geometric_mean([f[c] for f in found]) for c in found[0]}


def _traces(study: Context) -> pd.DataFrame:
    """Traces of activations without a second derivative over the limit that needs none."""
    p, rows = study.parameters, []
    for name in ("relu", "leaky_relu"):
        given = floors.problem(study, p.dimension, p.batch_size, p.width, activation=name)
        limit = bounds.information_trace_limit(name, p.dimension, p.width, given.released.residuals)
        rows.append(
            {"activation": name, "trace over its limit": floors.floor_of(given).trace / limit}
        )
    return pd.DataFrame(rows)


def judge_thmd7(tables: Tables) -> Iterator[Verdict]:
    table = tables["bounds"]
    loose = table["exact / loosened"]
    undefended = loose[table["batch"].str.startswith("B = ")]
    yield check(
        "liu2024/thmD7",
        (table["exact, unit norm"] <= table["exact"] * (1 + floors.ROUNDING)).all()
        and (table["labels unknown"] >= table["exact"] * (1 - floors.ROUNDING)).all()
        and (loose >= 1 - floors.ROUNDING).all()
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
        ours=f"trace over its limit {floors.span(ratios, 3)}",
        tolerance=f"{TIGHT:g}",
    )

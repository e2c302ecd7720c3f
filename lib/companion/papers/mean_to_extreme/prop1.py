"""Proposition 1: the coordinate variance over the number of rows, and where it becomes least."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from companion.experiments.tools import attack_repeatedly, mean_and_error
from companion.papers.mean_to_extreme.theorem_parameters import REPEATS, SIGMA, STATED
from companion.study import Context, Parameter, Tables, Verdict, check, measurement, refute
from companion.study.verdicts import rounded
from companion.style import BLUE, GREEN, GREY, ORANGE, drawing, panels
from reconrisk.attacks import rows_for_least_noise

ROWS = (1, 3, 10, 30, 100, 300)

PARAMETERS = {
    "repeats": REPEATS,
    "noise_multiplier": SIGMA,
    "max_grad_norm": Parameter("float", 10.0, 10.0, STATED, "C, in units of the record's norm", 1),
    "dimension": Parameter("int", 16, 64, STATED, "values of a record", 2),
    "rows": Parameter("ints", ROWS, (*ROWS, 1000), STATED, "M", 1),
}
SETTLES = ("A-009", "A-010", "A-011", "E-A-01")


@measurement
def measure(study: Context) -> Tables:
    p = study.parameters
    record = study.rng("record").random(p.dimension)
    record /= np.linalg.norm(record)
    sigma, clipping = p.noise_multiplier, p.max_grad_norm
    enough = rows_for_least_noise(clipping, 1.0)
    variances = []
    for rows in sorted({*p.rows, math.ceil(clipping), enough, enough - 1}):
        repeats = max(50, min(p.repeats, 400_000 // rows))
        rebuilt = attack_repeatedly(study, record, sigma, clipping, repeats, rows=rows)
        squares = np.square(rebuilt - record).mean(axis=1)
        beta = min(1.0, clipping / math.sqrt(rows))
        variances.append((rows, *mean_and_error(squares), (clipping * sigma / beta) ** 2 / rows))
    table = pd.DataFrame(variances, columns=["rows M", "variance", "standard error", "theory"])
    return Tables(
        {"variance": table, "theory": table[["rows M", "theory"]]},
        exact=("theory",),
        ran=f"up to {p.repeats} DP-SGD steps per M at N = {p.dimension}, C = {clipping:g} ||X||.",
    )


def judge(tables: Tables) -> Iterator[Verdict]:
    p, table = tables.parameters, tables["variance"].set_index("rows M")
    least = p.noise_multiplier**2
    printed, corrected = math.ceil(p.max_grad_norm), rows_for_least_noise(p.max_grad_norm, 1.0)
    ratio, error = table.loc[printed, ["variance", "standard error"]] / least
    printed_holds = ratio - 4 * error < 1
    enough = table.index >= corrected
    off = ((table["variance"] - table["theory"]).abs() / table["standard error"]).max()
    above = (table.loc[~enough, "theory"] > least * (1 + 1e-9)).all()
    flat = np.allclose(table.loc[enough, "theory"], least)
    squared_holds = flat and above and off < 5
    ours = (
        f"variance / least at the printed M = {printed}: {rounded(ratio, error)}; least from M = "
        f"{corrected} on"
    )
    for target in ("mean_to_extreme/prop1", "E-A-01"):
        yield refute(
            target,
            erratum="E-A-01",
            holds=printed_holds,
            corrected_holds=squared_holds,
            ours=ours,
            paper="1",
        )
    yield check(
        "A-009",
        squared_holds,
        "above the (squared) threshold the variance is sigma^2 ||X||^2 and stays there",
        ours=f"measured within {off:.1f} standard errors of the closed form",
        tolerance="5 standard errors",
    )
    yield check(
        "A-010",
        above,
        "below the threshold the variance is higher",
        ours=f"{(~enough).sum()} values of M below, all higher",
    )
    yield check(
        "A-011",
        not printed_holds and squared_holds,
        "only the squared ratio attains the least variance when C > ||X||",
        ours=ours,
    )


CAPTION = (
    "The variance of a coordinate falls with the number of rows until the gradient is clipped, and "
    "not a step earlier: the threshold is the square of the printed one."
)


def alt(tables: Tables) -> str:
    clipping, theory = tables.parameters.max_grad_norm, tables["theory"].set_index("rows M")
    printed, corrected = math.ceil(clipping), math.ceil(clipping**2)
    ratio = theory.loc[printed, "theory"] / theory["theory"].min()
    return (
        "Log-log plot of variance over the least variance against the number of rows. Measured "
        f"points follow a line falling as one over M to 1 at M = {corrected}; the printed "
        f"threshold M = {printed} stands at a ratio of {ratio:.3g}."
    )


@drawing
def draw(tables: Tables) -> Figure:
    table = tables["variance"]
    least = table["theory"].min()
    clipping = float(tables.parameters.max_grad_norm)
    figure, ((axis,),) = panels(1, 1, 5.6, 3.5)
    axis.plot(table["rows M"], table["theory"] / least, color=GREY, label="closed form")
    axis.errorbar(
        table["rows M"],
        table["variance"] / least,
        yerr=2 * table["standard error"] / least,
        fmt="o",
        color=BLUE,
        ms=5,
        label="measured (2 standard errors)",
    )
    axis.axvline(np.ceil(clipping), color=ORANGE, ls="--", label=r"printed $\lceil C/\|X\|\rceil$")
    axis.axvline(
        np.ceil(clipping**2), color=GREEN, ls="-.", label=r"corrected $\lceil (C/\|X\|)^2\rceil$"
    )
    axis.set(xscale="log", yscale="log", xlabel="rows M", ylabel=r"variance / $\sigma^2\|X\|^2$")
    axis.legend(loc="lower left")
    return figure

"""Proposition 1: the coordinate variance over the number of rows, and where it is least."""

import math
from collections.abc import Iterator

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from companion.exhibit import *
from companion.papers.mean_to_extreme.theorem_parameters import REPEATS, SIGMA, STATED
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
ALTERED = {
    "variance": {
        "variance": "variances",
        "theory": at("`rows M` == 300", "variances in closed form at 300 rows"),
    },
}

#: how near measured variances must come to theirs, relative
MARGIN = 0.06


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
    printed_holds = ratio - STANDARD_ERRORS * error < 1 + MARGIN
    enough = table.index >= corrected
    relative, spread = (table[c] / table["theory"] for c in ("variance", "standard error"))
    off = (relative - 1).abs().max()
    above = (table.loc[~enough, "theory"] > least * (1 + 1e-9)).all()
    at_least = np.allclose(table.loc[enough, "theory"], least, rtol=1e-9)
    squared_holds = every(bool(at_least and above), within(relative, 1, spread, MARGIN))
    wrong = refute(
        "mean_to_extreme/prop1",
        erratum="E-A-01",
        holds=printed_holds,
        corrected_holds=squared_holds,
        ours=f"variance over the least at the printed M = {printed}: {rounded(ratio, error)}; "
        f"least from M = {corrected} on",
        paper="1",
    )
    yield from shared_by(wrong, "E-A-01")
    stays = check(
        "A-009",
        every(not printed_holds, squared_holds),
        "the variance is higher below the squared threshold, also at the printed one, and stays at "
        "sigma^2 ||X||^2 from it on",
        ours=f"{(~enough).sum()} values of M below it; measured within {off:.1%}",
        tolerance=f"{MARGIN:.0%}, errors included",
    )
    yield from shared_by(stays, "A-010", "A-011")


CAPTION = (
    "The variance of a coordinate falls with the number of rows until the gradient is clipped: the "
    "threshold is the square of the printed one."
)


@drawing
def draw(tables: Tables) -> Figure:
    table = tables["variance"]
    least = table["theory"].min()
    clipping = float(tables.parameters.max_grad_norm)
    figure, ((axis,),) = panels(1, 1, 5.6, 3.5)
    axis.plot(table["rows M"], table["theory"] / least, color=GREY, label="closed form")
    variance, error = table["variance"] / least, 2 * table["standard error"] / least
    style = {"fmt": "o", "color": BLUE, "ms": 5, "label": "measured (2 standard errors)"}
    axis.errorbar(table["rows M"], variance, yerr=error, **style)
    printed, corrected = r"printed $\lceil C/\|X\|\rceil$", r"corrected $\lceil (C/\|X\|)^2\rceil$"
    axis.axvline(np.ceil(clipping), color=ORANGE, ls="--", label=printed)
    axis.axvline(np.ceil(clipping**2), color=GREEN, ls="-.", label=corrected)
    axis.set(xscale="log", yscale="log", xlabel="rows M", ylabel=r"variance / $\sigma^2\|X\|^2$")
    axis.legend(loc="lower left")
    return figure

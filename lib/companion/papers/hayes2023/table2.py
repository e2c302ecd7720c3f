"""Table 2: the 36 printed bounds on the advantage, beside exact values."""

import math
from collections.abc import Iterator

import numpy as np
import pandas as pd
from scipy import stats

from companion.papers.hayes2023.algorithm1_estimates import spread
from companion.papers.hayes2023.fano_bounds import (
    GUO,
    GUO_MC,
    OURS,
    advantages,
    closed_fano,
    fano,
    printed_cells,
)
from companion.study import Context, Parameter, Tables, Verdict, check, compare, measurement, refute
from companion.study.verdicts import half_unit
from reconrisk import bounds

#: squared distance of two gradients of norm C: a guess, orthogonal, and the most there can be
SQUARED_SENSITIVITIES = (1, 2, 4)

PARAMETERS = {
    "printed_samples": Parameter("int", 100000, 100000, "100,000", "samples of the paper", low=2),
    "samples": Parameter("int", 5000, 100000, "100,000", "samples to estimate its noise", low=100),
}
SETTLES = ("C-044", "C-045", "C-046", "C-047", "E-C-11")
SHOWN = ("36 cells",)


@measurement
def measure(study: Context) -> Tables:
    p = study.parameters
    rows = []
    for (n, method), cells in printed_cells().groupby(["n", "bound"], sort=False):
        exact = advantages(cells["sigma"].to_numpy(), n)[method]
        for sigma, value, printed in zip(cells["sigma"], exact, cells["printed"], strict=True):
            noise = _noise(study, method, sigma, n) / math.sqrt(p.printed_samples)
            rows.append((n, method, sigma, float(value), noise, printed))
    table = pd.DataFrame(rows, columns=["n", "bound", "sigma", "exact", "noise", "printed"])
    return Tables(
        {"table": table, "36 cells": _wide(table), "sensitivities": _sensitivities(table)},
        ran="closed forms and quadrature; the noise of the Monte Carlo rows from "
        f"{p.samples} samples per cell, for the stated {p.printed_samples}.",
    )


def _noise(study: Context, method: str, sigma: float, n: int) -> float:
    """Standard deviation of one sample of a Monte Carlo row, as it moves the advantage."""
    if method == GUO:
        return 0.0
    if method == OURS:
        return float(spread(1 / sigma, 1 / n)[0]) / (1 - 1 / n)
    samples = study.parameters.samples
    rng = study.rng("mutual information", sigma, n)
    _, error = bounds.mutual_information_monte_carlo(np.eye(n) / sigma, samples, rng)
    exact = float(bounds.mutual_information_orthogonal(n, 1 / sigma))
    step = 1e-4 * exact
    slope = float(fano(np.array(exact + step), n) - fano(np.array(exact - step), n)) / (2 * step)
    return error * math.sqrt(samples) * slope


def _wide(table: pd.DataFrame) -> pd.DataFrame:
    """One row for each prior size and bound: printed and exact number at each sigma."""
    text = table["printed"] + table["exact"].map(" ({:.4f})".format)
    wide = table.assign(text=text).pivot(index=["n", "bound"], columns="sigma", values="text")
    wide.columns = [f"sigma = {sigma:g}" for sigma in wide.columns]
    return wide.reset_index()


def _sensitivities(table: pd.DataFrame) -> pd.DataFrame:
    """The closed row of Guo et al. for other sensitivities than that of orthogonal gradients."""
    rows = table[table["bound"] == GUO]
    return pd.concat(
        pd.DataFrame(
            {
                "n": n,
                "sigma": cells["sigma"],
                "squared sensitivity": square,
                "exact": closed_fano(cells["sigma"].to_numpy(), n, math.sqrt(square)),
            }
        )
        for square in SQUARED_SENSITIVITIES
        for n, cells in rows.groupby("n")
    )


def judge(tables: Tables) -> Iterator[Verdict]:
    # as printed, zeros at the end included: they say how far a number is rounded
    exact = tables["table"][["n", "bound", "sigma", "exact", "noise"]]
    table = exact.merge(printed_cells(), on=["n", "bound", "sigma"])
    table["value"] = table["printed"].astype(float)
    table["half unit"] = table["printed"].map(half_unit)
    ours = table[table["bound"] == OURS]
    noisy = "the printed numbers scatter more than the stated 100,000 samples explain"
    yield _agree(
        "hayes2023/table2",
        "all 36 numbers, the Monte Carlo ones within the noise of 100,000 samples",
        table,
        differs=f"In the rows 'Ours' {noisy}; the other rows agree.",
    )
    closed = tables["sensitivities"].set_index(["squared sensitivity", "n", "sigma"])["exact"]
    yield _smallest(table, closed)
    yield _agree("C-045", "the row 'Ours', prior size 10", ours[ours["n"] == 10])
    yield _agree(
        "C-046",
        "the row 'Ours', prior size 100",
        ours[ours["n"] == 100],
        differs=f"Exact values differ by up to 0.006: {noisy}.",
    )
    yield _sensitivity(table[table["bound"] == GUO], closed)
    yield _no_upper_bounds(ours, tables.parameters.printed_samples)


def _agree(target: str, statement: str, cells: pd.DataFrame, differs: str = "") -> Verdict:
    return compare(
        target,
        statement,
        cells["exact"],
        cells["value"],
        list(cells["printed"]),
        standard_error=cells["noise"],
        differs=differs,
    )


def _smallest(table: pd.DataFrame, closed: pd.Series) -> Verdict:
    """C-044: the new bound is the smallest of the three, also at any angle of the candidates."""
    wide = table.pivot(index=["n", "sigma"], columns="bound", values=["exact", "value"])
    exact, printed = wide["exact"], wide["value"]
    smallest = [(t[OURS] < t[[GUO, GUO_MC]].min(axis=1)).all() for t in (exact, printed)]
    share = exact[OURS] / exact[GUO_MC]
    return check(
        "C-044",
        all(smallest) and len(exact) == 12 and (exact[OURS] < closed[4]).all(),
        "the new bound is the smallest in all 12 columns, as printed and exactly, also if "
        "candidates may be opposite",
        ours=f"{share.min():.2f} to {share.max():.2f} of the better of the two others",
    )


def _sensitivity(guo: pd.DataFrame, closed: pd.Series) -> Verdict:
    """C-047: which sensitivity reproduces the rows of Guo et al."""
    guo = guo.set_index(["n", "sigma"])
    agree = {
        square: int(((guo["value"] - closed[square]).abs() <= guo["half unit"]).sum())
        for square in SQUARED_SENSITIVITIES
    }
    return check(
        "C-047",
        agree == {1: 0, 2: len(guo), 4: 0},
        "the rows of Guo et al. reproduce with squared sensitivity 2, that of orthogonal "
        "gradients, and not with 1 or 4",
        ours=", ".join(f"{hits} of {len(guo)} at {square}" for square, hits in agree.items()),
        tolerance="half a unit of the last printed digit",
    )


def _no_upper_bounds(ours: pd.DataFrame, stated: int) -> Verdict:
    """E-C-11: whether the rows 'Ours' can be upper bounds from the stated samples."""
    unit, off = ours["half unit"], ours["exact"] - ours["value"]

    def misfit(samples: int) -> float:
        variance = ours["noise"] ** 2 * stated / samples + (2 * unit) ** 2 / 12
        return float((off**2 / variance).sum())

    short = int((off > unit).sum())
    return refute(
        "E-C-11",
        holds=short == 0 or misfit(stated) < stats.chi2.isf(1e-6, len(ours)),
        corrected_holds=short >= 3 and misfit(3000) < stats.chi2.isf(0.01, len(ours)),
        ours=f"{short} of {len(ours)} below the exact bound by more than half a unit; "
        f"chi-squared {misfit(stated):.0f} on {len(ours)} degrees of freedom for 100,000 samples, "
        f"{misfit(3000):.1f} for 3,000",
    )

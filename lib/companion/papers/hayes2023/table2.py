"""Table 2: the 36 printed bounds on the advantage, beside exact values."""

import math
from collections.abc import Iterator

import numpy as np
import pandas as pd
from scipy import stats

from companion.exhibit import *
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
from reconrisk import bounds

#: squared distance of two gradients of norm C: a guess, orthogonal, and the most there can be
SQUARED_SENSITIVITIES = (1, 2, 4)

#: least probability of printed numbers that scatter as much, if they are what is said of them
LEAST = 0.01
#: the estimates of Algorithm 1 that the rows "Ours" may be, and where their noise is
ESTIMATES = {
    "complement": "noise",
    "factor 1/N": "noise with 1/N",
    "divided by all": "noise divided by all",
}

PARAMETERS = {
    "printed_samples": Parameter("int", 100000, 100000, "100,000", "samples of the paper", low=2),
    "samples": Parameter("int", 5000, 100000, "100,000", "samples to estimate its noise", low=100),
}
SETTLES = ("C-044", "C-045", "C-046", "C-047")
SHOWN = ("36 cells", "estimates")
ALTERED = {
    "table": {
        "exact": by(
            "bound", "exact values", {"Ours": "the new bound", GUO_MC: "Guo et al.'s sampled bound"}
        )
    },
    "sensitivities": {"exact": "bounds by sensitivity"},
    "hayes2023/table2": {"printed": at("method == 'Ours'", "printed numbers of the new bound")},
}


@measurement
def measure(study: Context) -> Tables:
    p = study.parameters
    rows = []
    for (n, method), cells in printed_cells().groupby(["n", "bound"], sort=False):
        exact = advantages(cells["sigma"].to_numpy(), n)[method]
        for sigma, value, text in zip(cells["sigma"], exact, cells["printed"], strict=True):
            noise = np.array(_noise(study, method, sigma, n)) / math.sqrt(p.printed_samples)
            rows.append((n, method, sigma, float(value), *noise, text))
    columns = ["n", "bound", "sigma", "exact", *ESTIMATES.values(), "printed"]
    table = pd.DataFrame(rows, columns=columns)
    return Tables(
        {
            "table": table,
            "36 cells": _wide(table),
            "sensitivities": _sensitivities(table),
            "estimates": _fits(table),
        },
        ran="closed forms and quadrature; the noise of the Monte Carlo rows from "
        f"{p.samples} samples per cell, for the stated {p.printed_samples}.",
    )


def _noise(study: Context, method: str, sigma: float, n: int) -> list[float]:
    """Standard deviation of one sample of a Monte Carlo row, as it moves the advantage.

    For each of ``ESTIMATES``, which differ in the rows "Ours" alone.
    """
    if method == GUO:
        return [0.0] * len(ESTIMATES)
    if method == OURS:
        of = spread(1 / sigma, 1 / n)
        return [float(of[name]) / (1 - 1 / n) for name in ("complement", "samples", "ratios")]
    samples = study.parameters.samples
    rng = study.rng("mutual information", sigma, n)
    _, error = bounds.mutual_information_monte_carlo(np.eye(n) / sigma, samples, rng)
    exact = float(bounds.mutual_information_orthogonal(n, 1 / sigma))
    step = 1e-4 * exact
    slope = float(fano(np.array(exact + step), n) - fano(np.array(exact - step), n)) / (2 * step)
    return [error * math.sqrt(samples) * slope] * len(ESTIMATES)


def _wide(table: pd.DataFrame) -> pd.DataFrame:
    """One row for each prior size and bound: printed and exact number at each sigma."""
    text = table["printed"] + table["exact"].map(" ({:.4f})".format)
    wide = table.assign(text=text).pivot(index=["n", "bound"], columns="sigma", values="text")
    wide.columns = [f"sigma = {sigma:g}" for sigma in wide.columns]
    return wide.reset_index()


def _fits(table: pd.DataFrame) -> pd.DataFrame:
    """Which estimate the printed rows "Ours" can be, by chi-squared of all their numbers."""
    ours = _with_printed(table[table["bound"] == OURS])
    rows = []
    for name, noise in ESTIMATES.items():
        found = _chi_squared(ours, ours[noise])
        rows.append((name, f"{found:.1f}", f"{stats.chi2.sf(found, len(ours)):.2g}"))
    return pd.DataFrame(rows, columns=["estimate", "chi-squared", "probability of more"])


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


def _with_printed(table: pd.DataFrame) -> pd.DataFrame:
    """Computed numbers with the printed ones, which as text say how far they are rounded."""
    merged = table.drop(columns="printed").merge(printed_cells(), on=["n", "bound", "sigma"])
    merged["value"] = merged["printed"].astype(float)
    merged["half unit"] = merged["printed"].map(half_unit)
    return merged


def _chi_squared(cells: pd.DataFrame, noise: pd.Series) -> float:
    """Squared distances of printed from exact numbers over the variance of noise and rounding."""
    variance = noise**2 + cells["half unit"] ** 2 / 3
    return float(((cells["value"] - cells["exact"]) ** 2 / variance).sum())


def beside_print(tables: Tables) -> pd.DataFrame:
    """Return each printed number beside ours."""
    table = tables["table"]
    return pd.DataFrame({"printed": table["printed"].astype(float), "ours": table["exact"]})


def judge(tables: Tables) -> Iterator[Verdict]:
    table = _with_printed(tables["table"])
    ours = table[table["bound"] == OURS]
    yield _agree("hayes2023/table2", "all 36 numbers", table)
    closed = tables["sensitivities"].set_index(["squared sensitivity", "n", "sigma"])["exact"]
    yield _smallest(table, closed)
    yield _agree("C-045", "the row 'Ours', prior size 10", ours[ours["n"] == 10])
    yield _agree("C-046", "the row 'Ours', prior size 100", ours[ours["n"] == 100])
    yield _sensitivity(table[table["bound"] == GUO], closed)


def _agree(target: str, statement: str, cells: pd.DataFrame) -> Verdict:
    """Each number within rounding and noise, and all together no more off than these explain."""
    off = (cells["value"] - cells["exact"]).abs()
    each = off <= cells["half unit"] * (1 + 1e-9) + STANDARD_ERRORS * cells["noise"]
    ours = cells[cells["bound"] == OURS]
    fits = {
        name: stats.chi2.sf(_chi_squared(ours, ours[noise]), len(ours))
        for name, noise in ESTIMATES.items()
    }
    best, *others = fits.values()
    return check(
        target,
        each.all() and best > LEAST,
        f"{statement}, those sampled within the noise of the stated 100,000 samples, if they are "
        "complements of the smallest ratios",
        ours=f"{each.sum()} of {len(cells)} agree; 'Ours' scatters as complements would "
        f"(p = {best:.2g}), not as estimates by the factor 1/N ({others[0]:.1g}) or divided by the "
        f"sum of all ratios ({others[1]:.1g})",
        paper=f"{len(cells)} numbers in print",
        tolerance=f"half a unit of the last printed digit + {STANDARD_ERRORS:g} standard "
        f"deviations of the printed estimate, and chi-squared at {LEAST:g}",
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


def _exchanged(table: pd.DataFrame) -> pd.DataFrame:
    """The labels of the new bound and of the closed one by Guo et al. exchanged."""
    return table.replace({"bound": {OURS: GUO, GUO: OURS}})

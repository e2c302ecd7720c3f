"""Verdicts that Figures 1 and 3 share: reconstructions at their expectations, within the bounds."""

import functools
import math
from collections.abc import Iterator

import numpy as np
import pandas as pd

from companion.exhibit import *

__all__ = ["ALTERED_METRICS", "DEVIATIONS", "at_expectations", "worst_deviation"]

#: standard deviations between a reconstruction and its expectation (two-sided 6e-7)
DEVIATIONS = 5.0
#: what the verdicts of :func:`at_expectations` notice, for ``ALTERED``
ALTERED_METRICS = {
    "MSE": "MSEs",
    "bound MSE": at("beta < 1", "bounds on the MSE with clipping"),
    "PSNR": "PSNRs [dB]",
    "bound PSNR": "bounds on the PSNR [dB]",
    "NCC": "NCCs",
    "bound NCC": "bounds on the NCC",
}


def worst_deviation(table: pd.DataFrame, metric: str) -> float:
    """Return the largest deviation of a metric from its expectation, in standard deviations."""
    gap = (table[metric] - table[f"expected {metric}"]).abs()
    return float((gap / table[f"spread {metric}"]).max())


def at_expectations(tables: Tables, paper: str, *claims: str) -> Iterator[Verdict]:
    """Judge a figure (which settles the claims) and its panels for MSE, PSNR and NCC."""
    table = tables["metrics"]
    settle = functools.partial(check, stand_in=tables.stand_in)
    off = {metric: worst_deviation(table, metric) for metric in ("MSE", "NCC")}
    decibels = 10 / math.log(10) * table["spread MSE"] / table["expected MSE"]
    # Definition 2, by the picture's own range
    of_mse = 20 * np.log10(table["range"]) - 10 * np.log10(table["MSE"])
    excess = ((table["PSNR"] - table["bound PSNR"]) / decibels).max()
    worst = f"the worst of {len(table)} reconstructions {{:.1f}} standard deviations off"
    panels = {
        "mse": (
            off["MSE"] < DEVIATIONS and (table["expected MSE"] >= table["bound MSE"]).all(),
            "each MSE is at its expectation, eq. (4), which is at least C^2 sigma^2",
            worst.format(off["MSE"]),
        ),
        "psnr": (
            off["MSE"] < DEVIATIONS
            and excess < DEVIATIONS
            and np.allclose(table["PSNR"], of_mse, rtol=0, atol=1e-6),
            "each PSNR follows the MSE and stays below 10 log10(range^2 / (C^2 sigma^2))",
            f"largest excess over the bound: {excess:.1f} standard deviations",
        ),
        "ncc": (
            # eq. (8) itself is exceeded by a part of about 1/N of it where the data are centred
            off["NCC"] < DEVIATIONS
            and (table["expected NCC"] <= table["bound NCC"] * (1 + 2 / table["N"])).all(),
            "each NCC is at its exact expectation, which is at most sqrt(1 / (1 + N sigma^2))",
            worst.format(off["NCC"]),
        ),
    }
    whole = settle(
        tables.exhibit,
        all(holds for holds, _, _ in panels.values()),
        "all three metrics follow their expectations, on the safe side of the bounds",
        ours=f"{table['picture'].nunique()} pictures at "
        f"{', '.join(map(str, sorted(table['size'].unique())))} pixels a side, "
        f"{table['C'].nunique()} clipping norms, {table['sigma'].nunique()} noise multipliers",
        paper=paper,
    )
    yield from shared_by(whole, *claims)
    for metric, (holds, statement, ours) in panels.items():
        yield settle(
            f"{tables.exhibit}_{metric}",
            holds,
            statement,
            ours=ours,
            tolerance=f"{DEVIATIONS:g} standard deviations of one reconstruction",
        )

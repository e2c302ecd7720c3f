"""Errors under every defence, printed and ours: what Tables 4, 7 and 8 and Figures 2 to 4 share."""

from __future__ import annotations

import functools
from collections.abc import Mapping

import numpy as np
import pandas as pd

from companion.experiments.client_grid import BASELINES, Grid, baselines
from companion.experiments.clients import Setting, printed_rows
from companion.experiments.tools import mean_and_error
from companion.papers.liu2024.own_runs import check_run
from companion.study import Context, Parameter, Tables, Verdict

__all__ = [
    "MATCHED",
    "SIZES",
    "UNMATCHED",
    "check_strengths",
    "errors_without_gradient",
    "gains_beyond_error",
    "gains_of_matching",
    "lowest_errors",
    "mean_errors",
    "mean_image_error",
    "of_setting",
    "printed_errors",
    "printed_gains",
    "rises",
    "strongest_by_defence",
    "what_ran",
]

#: the proposed attack of Table 7, and that of Table 8, without feature matching
MATCHED, UNMATCHED = "Ours", "w/o FM"
SIZES = {
    "batch_sizes": Parameter("ints", (2, 4, 8), (2, 4, 8), "2, 4, 8", "pictures a batch", low=1),
}
_CELL = ["batch size", "defence", "strength", "setting"]


@functools.cache
def printed_errors(table: str) -> pd.DataFrame:
    """Table 4, 7 or 8: one row per attack, batch size and setting, in the printed order.

    Columns ``attack``, ``batch size``, ``defence``, ``strength``, ``setting``, ``RMSE`` and, but
    for Table 4, ``RMSE sd``, ``PSNR`` and ``PSNR sd``.
    """
    rows = printed_rows(table)
    if table != "table4":
        rows = rows.assign(attack={"table7": MATCHED, "table8": UNMATCHED}[table])
    columns = {}
    for metric, own in rows.groupby("metric", sort=False):
        own = own.set_index(["attack", *_CELL])
        columns[metric] = own["value"]
        if table != "table4":
            columns[f"{metric} sd"] = own["sd"].astype(float)
    return pd.DataFrame(columns).reset_index()


def mean_errors(errors: pd.DataFrame) -> pd.DataFrame:
    """Mean over the pictures, its standard error and the deviation, by cell of the grid."""
    keys = ["attack", *_CELL, "aware"]
    rows = []
    for key, cell in errors.groupby(keys, sort=False):
        row = dict(zip(keys, key, strict=True))
        for metric in ("RMSE", "PSNR"):
            # exact reconstructions have no finite PSNR: 100 dB is as good as exact
            values = np.minimum(cell[metric], 100.0)
            mean, error = mean_and_error(values)
            row |= {metric: mean, f"{metric} sd": float(np.std(values)), f"{metric} error": error}
        for what in ("gradient norm", "relative noise"):
            row[what] = float(cell[what].mean())
        rows.append(row)
    return pd.DataFrame(rows)


def errors_without_gradient(study: Context) -> pd.DataFrame:
    """Mean RMSE and PSNR of the pictures that take no gradient, grey and the mean image."""
    found = baselines(Grid.of(study)).groupby("attack", sort=False)[["RMSE", "PSNR"]].mean()
    return found.loc[list(BASELINES)].reset_index()


def mean_image_error(tables: Mapping[str, pd.DataFrame]) -> float:
    """RMSE of the mean image: an attack that leaves more does worse than no gradient."""
    return float(tables["references"].set_index("attack").loc["mean image", "RMSE"])


def lowest_errors(errors: pd.DataFrame) -> pd.DataFrame:
    """RMSE of the strongest attack: (batch size, defence, strength) and the least mean."""
    keys = ["batch size", "defence", "strength"]
    return errors.groupby(keys, sort=False, as_index=False)["RMSE"].min()


def strongest_by_defence(errors: pd.DataFrame) -> pd.DataFrame:
    """The lowest RMSE of each defence at its best strength: batch sizes by defences."""
    return lowest_errors(errors).pivot_table(
        index="batch size", columns="defence", values="RMSE", aggfunc="max", sort=False
    )


def rises(errors: pd.DataFrame, defence: str, few: float, many: float) -> bool:
    """Whether an RMSE is larger at the greater strength, at every batch size."""
    table = errors[errors["defence"] == defence].pivot_table(
        index="batch size", columns="strength", values="RMSE"
    )
    return bool((table[many] > table[few]).all())


def of_setting(errors: pd.DataFrame, size: int, *settings: Setting) -> pd.Series:
    """RMSE at one batch size under some settings, by their titles."""
    own = errors[errors["batch size"] == size].set_index("setting")["RMSE"]
    return own.loc[[s.title for s in settings]]


def gains_of_matching(errors: pd.DataFrame) -> pd.DataFrame:
    """What feature matching changes, picture by picture: RMSE without less with, and in PSNR."""
    wide = errors.pivot_table(
        index=[*_CELL, "number"], columns="attack", values=["RMSE", "PSNR"], sort=False
    )
    rows = []
    for key, cell in wide.groupby(level=_CELL, sort=False):
        row = dict(zip(_CELL, key, strict=True))
        less = cell["RMSE"][UNMATCHED] - cell["RMSE"][MATCHED]
        more = cell["PSNR"][MATCHED] - cell["PSNR"][UNMATCHED]
        row["RMSE"], row["RMSE error"] = mean_and_error(less)
        row["PSNR"], row["PSNR error"] = mean_and_error(more)
        rows.append(row)
    return pd.DataFrame(rows)


@functools.cache
def printed_gains() -> pd.DataFrame:
    """The same of the printed means."""
    both = printed_errors("table7").merge(
        printed_errors("table8"), on=_CELL, suffixes=("", " without")
    )
    both["RMSE gain"] = (both["RMSE without"] - both["RMSE"]).round(2)
    both["PSNR gain"] = (both["PSNR"] - both["PSNR without"]).round(2)
    return both[[*_CELL, "RMSE gain", "PSNR gain"]]


def gains_beyond_error(gains: pd.DataFrame) -> str:
    """In how many cells matching features helps beyond three standard errors."""
    count = int((gains["RMSE"] > 3 * gains["RMSE error"]).sum())
    return f"gain beyond three standard errors: in {count} of {len(gains)} cells"


def check_strengths(tables: Tables, target: str) -> Verdict:
    """Judge what Tables 7 and 8 show on any data: more noise, more pruning, larger errors."""
    ours, limit = tables["ours"], mean_image_error(tables)
    largest = ours[ours["batch size"] == ours["batch size"].max()]
    ends = largest[largest["setting"].isin(["GradNoise sigma0=0.1", "GradPrune p=0.99"])]
    return check_run(
        tables,
        target,
        rises(ours, "GradNoise", 0.001, 0.1)
        and rises(ours, "GradPrune", 0.3, 0.99)
        and (ends["RMSE"] > limit).all(),
        "the RMSE rises from noise of .001 to .1 and from pruning of 30 to 99 per cent at every "
        "batch size, and in the largest batches both ends are worse than the mean image",
        ours=f"mean image {limit:.2f}",
    )


def what_ran(study: Context, attacks: str) -> str:
    """One sentence for attacks on the grid."""
    p = study.parameters
    return (
        f"{attacks} on {p.images} pictures of {p.data}, {p.side} pixels a side, a {p.network} with "
        f"random weights and known batch norm statistics, {p.iterations} iterations."
    )

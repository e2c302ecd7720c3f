"""Errors of attackers on the same records: means and ratios with their standard errors."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from companion.exhibit import at_least, at_most

#: how far below the best attacker's error another may come, relative, errors included
MARGIN = 0.02


def standard_error(values: np.ndarray) -> float:
    """Of the mean of independent values."""
    return float(values.std() / math.sqrt(len(values)))


def ratio_of_means(one: np.ndarray, other: np.ndarray) -> tuple[float, float]:
    """One mean error over another of the same records, and its standard error."""
    ratio = one.mean() / other.mean()
    return float(ratio), standard_error(one - ratio * other) / float(other.mean())


def share_of_hits(hits: np.ndarray) -> tuple[float, float]:
    """Return the share of hits, (repeats, records), and its standard error, which is never zero.

    Records are the sample: releases of one record are averaged.
    """
    return float(hits.mean()), max(standard_error(hits.mean(axis=0)), 1 / hits.size)


def ratios_at_most(pairs: pd.DataFrame, most: float = 1 + MARGIN) -> bool | None:
    """Whether ratios are at most a number; None where four standard errors do not tell.

    Parameters
    ----------
    pairs : DataFrame
        With columns ``ratio`` and ``standard error``.
    """
    return at_most(pairs["ratio"], most, pairs["standard error"])


def ratios_at_least(pairs: pd.DataFrame, least: float) -> bool | None:
    """Whether ratios are at least a number; as :func:`ratios_at_most`."""
    return at_least(pairs["ratio"], least, pairs["standard error"])


def list_ratios(pairs: pd.DataFrame, over: str) -> str:
    """Return ratios in words, each with its noise or its epsilon."""
    return ", ".join(f"{r['ratio']:.2f} ({over} = {r[over]:g})" for _, r in pairs.iterrows())


def draw_errors(
    axis: Axes, errors: pd.DataFrame, over: str, looks: Mapping[str, tuple[str, str]], size: float
) -> None:
    """Draw mean squared errors with two standard errors; dashed and without those if unmarked."""
    for attacker, (colour, mark) in looks.items():
        own = errors[errors["attacker"] == attacker]
        bars = 2 * own["standard error"] if mark else None
        look: dict[str, Any] = {"color": colour, "marker": mark, "ls": "-" if mark else "--"}
        axis.errorbar(own[over], own["MSE"], bars, ms=size, label=attacker, **look)
    axis.set(xscale="log", yscale="log")


def name_row(axis: Axes, attacker: str) -> None:
    """Write an attacker's name beside a row of pictures."""
    name = attacker.replace(" ", "\n", 1)
    axis.set_ylabel(name, rotation=0, ha="right", va="center", fontsize=8)

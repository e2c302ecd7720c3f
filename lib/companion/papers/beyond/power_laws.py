"""Exponents of power laws, and means over networks, with their intervals."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from scipy import stats

__all__ = ["exponents", "geometric_means", "regression_slope", "root_mean_square"]


def exponents(own: pd.DataFrame, over: str, name: str) -> dict[str, float]:
    """Exponent of ``name`` as a power of the column ``over``, fitted to every network.

    Returns the mean over networks, its standard error and the 95% interval (Student's t).
    """
    slopes = [
        np.polyfit(np.log(g[over].astype(float)), np.log(g[name]), 1)[0]
        for _, g in own.groupby("network")
        if len(g) > 1
    ]
    return _with_interval(np.array(slopes))


def _with_interval(values: np.ndarray) -> dict[str, float]:
    error = float(values.std(ddof=1) / np.sqrt(len(values)))
    return _interval(float(values.mean()), error, len(values) - 1)


def _interval(middle: float, error: float, freedom: int) -> dict[str, float]:
    room = float(stats.t.ppf(0.975, freedom)) * error
    return {"exponent": middle, "error": error, "low": middle - room, "high": middle + room}


def regression_slope(x: pd.Series, y: pd.Series) -> dict[str, float]:
    """Exponent of ``y`` as a power of ``x`` by regression, as :func:`exponents` returns it."""
    fit = stats.linregress(np.log(x), np.log(y))
    return _interval(float(fit.slope), float(fit.stderr), len(x) - 2)


def geometric_means(own: pd.DataFrame, names: Sequence[str]) -> dict[str, float]:
    """Geometric means of columns with 95% intervals, as columns ``low`` and ``high``."""
    row = {}
    for name in names:
        logs = _with_interval(np.log(own[name].to_numpy()))
        row[name] = float(np.exp(logs["exponent"]))
        row[f"{name} low"], row[f"{name} high"] = np.exp(logs["low"]), np.exp(logs["high"])
    return row


def root_mean_square(values: pd.Series) -> float:
    """Root of the mean of squares."""
    return float(np.sqrt(np.mean(np.square(values))))

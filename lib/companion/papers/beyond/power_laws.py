"""Powers that errors grow with, and means over networks, with their intervals."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from scipy import stats

__all__ = ["exponents", "geometric_means", "regression_slope", "root_mean_square"]


def exponents(own: pd.DataFrame, over: str, name: str) -> dict[str, float]:
    """Fit a power law to every network, and its exponent's 95% interval over the networks.

    Parameters
    ----------
    own : DataFrame
        With columns ``network``, ``over`` and ``name``.
    over, name : str
        The column that varies and the one that is thought to be a power of it.

    Returns
    -------
    dict
        ``"exponent"``, ``"error"`` (standard), ``"low"`` and ``"high"`` (Student's t).
    """
    slopes = [
        np.polyfit(np.log(g[over].astype(float)), np.log(g[name]), 1)[0]
        for _, g in own.groupby("network")
        if len(g) > 1
    ]
    return _with_interval(np.array(slopes))


def _with_interval(values: np.ndarray) -> dict[str, float]:
    middle, error = float(values.mean()), float(values.std(ddof=1) / np.sqrt(len(values)))
    room = float(stats.t.ppf(0.975, len(values) - 1)) * error
    return {"exponent": middle, "error": error, "low": middle - room, "high": middle + room}


def regression_slope(x: pd.Series, y: pd.Series) -> dict[str, float]:
    """Return the power of ``x`` that ``y`` grows with, by regression, as :func:`exponents` does."""
    fit = stats.linregress(np.log(x), np.log(y))
    slope, error = float(fit.slope), float(fit.stderr)
    room = float(stats.t.ppf(0.975, len(x) - 2)) * error
    return {"exponent": slope, "error": error, "low": slope - room, "high": slope + room}


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

"""Intervals of a success as error bars."""

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes


def interval_lengths(table: pd.DataFrame) -> np.ndarray:
    """Lengths below and above each success, (2, K); rounding may make one a hair negative."""
    success = table["success"]
    return np.maximum([success - table["low"], table["high"] - success], 0)


def error_bars(axes: Axes, x: Any, table: pd.DataFrame, **style: Any) -> None:
    """Draw successes with their intervals."""
    axes.errorbar(x, table["success"], interval_lengths(table), **style)

"""Intervals of a success, as matplotlib's error bars take them."""

import numpy as np
import pandas as pd


def interval_lengths(table: pd.DataFrame) -> np.ndarray:
    """Lengths below and above each success, (2, K); rounding may make one a hair negative."""
    success = table["success"]
    return np.maximum([success - table["low"], table["high"] - success], 0)

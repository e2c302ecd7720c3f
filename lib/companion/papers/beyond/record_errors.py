"""Errors of attackers on the same records: means and ratios with their standard errors."""

import math

import numpy as np
import pandas as pd

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

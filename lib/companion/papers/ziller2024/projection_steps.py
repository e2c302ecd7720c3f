"""DP-SGD steps through the linear projection, eqs. (1) to (3), and tests of a law against them.

Every expectation and law is measured on these steps and compared with its closed form.
"""

import math
from collections.abc import Callable, Sequence

import numpy as np
import pandas as pd
from scipy import stats

from companion.exhibit import *
from reconrisk import DPSGD
from reconrisk.attacks import unscaled

#: what is printed of the settings of a theorem
STATED = "not printed: a statement, not an experiment"
#: how near a measured probability must come, its Monte Carlo error included: noise that is 5% off
#: moves those of a hundred values or more by over twice this
SHARE_MARGIN = 0.04


def samples_parameter(quick: int, paper: int, printed: str = STATED) -> Parameter:
    """Return the parameter that counts the steps of each setting."""
    return Parameter("int", quick, paper, printed, "reconstructions per setting", low=100)


def dimensions_parameter(*dimensions: int, low: int = 1) -> Parameter:
    """Return the parameter that lists the dimensions."""
    return Parameter("ints", dimensions, dimensions, STATED, "N, values of a record", low)


def sigmas_parameter(*sigmas: float) -> Parameter:
    """Return the parameter that lists the noise multipliers."""
    return Parameter("floats", sigmas, sigmas, STATED, "sigma, noise multipliers", 1e-12)


def released(
    study: Context,
    record: np.ndarray,
    run: DPSGD,
    samples: int,
    statistic: Callable[[np.ndarray, np.ndarray], np.ndarray] = lambda record, rebuilt: rebuilt,
    key: Sequence[object] = (),
) -> np.ndarray:
    """Release DP-SGD steps on one record and return a statistic of the reconstructions.

    Parameters
    ----------
    record : ndarray, shape (N,)
    run : DPSGD
        Noise multiplier and clipping norm of the steps.
    samples : int
        How many independent steps.
    statistic : callable
        Of the record and of reconstructions (count, N), eq. (3): an array with a row for each.
    key : sequence
        Seeds the noise, besides the record's size. Settings only, no computed number: its last bit
        may differ between machines, and with it all of the noise.

    Returns
    -------
    ndarray, shape (samples, ...)
        Computed in chunks, so that memory stays at about 100 MB.
    """
    generator = study.generator("noise", *key, record.size)
    steps = reconstructions(study, record, run, samples, generator, unscaled)
    return np.concatenate([statistic(record, rebuilt) for rebuilt in steps])


def steps_at(dimension: int, samples: int) -> int:
    """Return how many steps to release: a tenth where many values average the noise."""
    return samples if dimension <= 10 else samples // 10


def random_record(
    rng: np.random.Generator, dimension: int, norm: float, *, centred: bool = False
) -> np.ndarray:
    """Return a random record of a given norm: values of one sign, or of mean zero."""
    values = rng.random(dimension)
    if centred:
        values -= values.mean()
    return values * (norm / np.linalg.norm(values))


def agree(
    table: pd.DataFrame, measured: str, expected: str, margin: float | pd.Series
) -> bool | None:
    """Return whether two columns agree, by the column "standard error"; see ``within``."""
    return within(table[measured], table[expected], table["standard error"], margin)


def distance(values: np.ndarray, cdf: Callable[[np.ndarray], np.ndarray]) -> tuple[float, float]:
    """Return the largest distance of an empirical distribution function from another, its error.

    The error is the largest one of a share. Four of them bound the distance of values that follow
    the law with probability 0.9993 (Dvoretzky, Kiefer, Wolfowitz and Massart).
    """
    return float(stats.kstest(np.ravel(values), cdf).statistic), 0.5 / math.sqrt(np.size(values))


def within_margin(margin: float, unit: str = "") -> str:
    """Return a margin in words."""
    return f"{margin:g}{unit}, Monte Carlo error included"

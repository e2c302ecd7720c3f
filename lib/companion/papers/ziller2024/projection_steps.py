"""DP-SGD steps through the linear projection, eqs. (1) to (3), and tests of a law against them.

Every expectation and law is measured on these steps and compared with its closed form.
"""

from collections.abc import Callable, Sequence

import numpy as np
import pandas as pd

from companion.experiments.tools import SIGNIFICANCE, reconstructions
from companion.study import Context, Parameter
from companion.study.verdicts import STANDARD_ERRORS
from reconrisk import DPSGD
from reconrisk.attacks import unscaled

#: what is printed of the settings of a theorem
STATED = "not printed: a statement, not an experiment"
TOLERANCE = f"{STANDARD_ERRORS:g} standard errors"


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


def random_record(
    rng: np.random.Generator, dimension: int, norm: float, *, centred: bool = False
) -> np.ndarray:
    """Return a random record of a given norm: values of one sign, or of mean zero."""
    values = rng.random(dimension)
    if centred:
        values -= values.mean()
    return values * (norm / np.linalg.norm(values))


def worst_deviation(table: pd.DataFrame, measured: str, expected: str) -> float:
    """Return the largest distance of two columns in units of the column "standard error"."""
    return float(((table[measured] - table[expected]).abs() / table["standard error"]).max())


def all_fit(p_values: pd.Series) -> bool:
    """Return whether the smallest of several p-values is not too small for their number."""
    return bool(p_values.min() > SIGNIFICANCE / len(p_values))  # Bonferroni


def level(count: int = 1) -> str:
    """Return the level of :func:`all_fit` in words."""
    return f"p > {SIGNIFICANCE:g}" + (f" / {count}" if count > 1 else "")

"""The least error of any attack on a record from a list, from the likelihoods of what it saw."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from reconrisk import arguments

__all__ = ["posterior_mse"]


def posterior_mse(log_likelihood: ArrayLike, records: ArrayLike) -> np.ndarray:
    """Least mean squared error that observations leave to any attack on a record from a list.

    The posterior mean has the least mean squared error of all estimators, biased ones and ones
    clipped to the pixels' range included (Lehmann and Casella 1998, Section 4.1), and given an
    observation that error is the posterior's variance. For a record drawn uniformly from the list,
    the mean over observations therefore bounds every attack on them, whether or not it has the
    list; whoever has it attains the bound.

    Parameters
    ----------
    log_likelihood : array_like, shape (..., n)
        Log density of each observation for each record of the list, up to a constant: for all
        gradients of a run, :func:`reconrisk.attacks.likelihood_score`. For unequal prior
        probabilities add their logarithms; -inf excludes a record.
    records : array_like, shape (n, N)

    Returns
    -------
    ndarray or float
        A value per observation, averaged over the N values of a record.

    Raises
    ------
    ValueError
        If shapes do not fit, a number is undefined, or an observation excludes all records.

    Notes
    -----
    Half the mean squared distance of two independent draws of the posterior: a sum of positive
    terms, exact to rounding however concentrated the posterior is. Cost: ``n^2`` for each value of
    a record and each observation.

    Examples
    --------
    Two equally likely records, of two values each:

    >>> from reconrisk import bounds
    >>> round(float(bounds.posterior_mse([0.0, 0.0], [[0.0, 0.0], [1.0, 0.0]])), 6)
    0.125
    """
    logs = arguments.real("log_likelihood", log_likelihood, high_open=True)
    listed = arguments.real("records", records, low_open=True, high_open=True)
    if listed.ndim != 2 or logs.ndim < 1 or logs.shape[-1] != len(listed):
        raise ValueError(
            "log_likelihood must have shape (..., n) and records (n, N); got "
            f"{logs.shape} and {listed.shape}"
        )
    largest = logs.max(axis=-1, keepdims=True)
    if np.isneginf(largest).any():
        raise ValueError("log_likelihood must be finite for some record; got -inf for all")
    posterior = np.exp(logs - largest)
    posterior /= posterior.sum(axis=-1, keepdims=True)
    centred = listed - listed.mean(axis=0)
    squares = np.square(centred).sum(axis=1)
    distances = np.maximum(squares[:, None] + squares - 2 * centred @ centred.T, 0.0)
    np.fill_diagonal(distances, 0.0)
    spread = np.sum(posterior @ distances * posterior, axis=-1)
    return (spread / (2 * listed.shape[1]))[()]

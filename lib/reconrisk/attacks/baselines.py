"""Baselines for reconstructions: guesses without a release, and the nearest other record.

Hayes et al., Section 2.1 and Figure 1, show the mean squared error of nearest neighbours and of
uniform random vectors. The mean record is added: it needs no attack and outperforms many.
"""

from __future__ import annotations

import numpy as np
from scipy import special

from reconrisk import arguments

__all__ = [
    "UNIFORM_MSE",
    "conversion_success",
    "mean_record_mse",
    "nearer_records",
    "nearest_neighbour_mse",
    "squared_distances",
]

#: expected MSE between two independent uniform vectors in [0, 1]: the mean of (u - v)^2
UNIFORM_MSE = 1 / 6


def squared_distances(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Return all squared Euclidean distances, shape (m, n), of (m, d) and (n, d); float64.

    Cost: ``m n d`` multiplications in one product of matrices; memory ``m n``.
    """
    a, b = np.asarray(first, dtype=float), np.asarray(second, dtype=float)
    squares = np.einsum("ij,ij->i", a, a)[:, None] + np.einsum("ij,ij->i", b, b)
    return np.maximum(squares - 2 * a @ b.T, 0)


def nearest_neighbour_mse(records: np.ndarray, block: int = 2000) -> np.ndarray:
    """Return each record's MSE to its nearest other record, shape (N,).

    Parameters
    ----------
    records : array, shape (N, d)
        N >= 2.
    block : int
        Records compared at a time; memory is ``block * N``.

    Returns
    -------
    ndarray, shape (N,)
        Squared error per value, in squared data units.

    Notes
    -----
    Cost: ``N^2 d`` multiplications: seconds for 10,000 images of MNIST, minutes for 60,000.

    Examples
    --------
    >>> import numpy as np
    >>> from reconrisk import attacks
    >>> attacks.nearest_neighbour_mse(np.array([[0.0], [1.0], [3.0]])).tolist()
    [1.0, 1.0, 4.0]
    """
    values = np.asarray(records, dtype=float)
    if values.ndim != 2 or len(values) < 2:
        raise ValueError(f"records must be a matrix of two or more rows; got {values.shape}")
    nearest = np.empty(len(values))
    for start in range(0, len(values), block):
        distances = squared_distances(values[start : start + block], values)
        rows = np.arange(len(distances))
        distances[rows, start + rows] = np.inf
        nearest[start : start + block] = distances.min(axis=1)
    return nearest / values.shape[1]


def mean_record_mse(records: np.ndarray) -> float:
    """Return the MSE of guessing the mean of all records, averaged over them.

    Examples
    --------
    >>> import numpy as np
    >>> from reconrisk import attacks
    >>> attacks.mean_record_mse(np.array([[0.0, 0.0], [1.0, 1.0]]))
    0.25
    """
    return float(np.asarray(records, dtype=float).var(axis=0).mean())


def nearer_records(
    reconstructions: np.ndarray, targets: np.ndarray, pool: np.ndarray, block: int = 500
) -> np.ndarray:
    """Return how many records of a pool lie nearer to each reconstruction than its target does.

    Parameters
    ----------
    reconstructions, targets : array, shape (K, d)
    pool : array, shape (M, d)
        May contain the targets: a record as far away as the target does not count.
    block : int
        Reconstructions compared at a time.

    Returns
    -------
    ndarray of int, shape (K,)
    """
    rebuilt, true = np.asarray(reconstructions, float), np.asarray(targets, float)
    own = np.square(rebuilt - true).sum(axis=1)
    counts = np.empty(len(rebuilt), dtype=int)
    for start in range(0, len(rebuilt), block):
        part = slice(start, start + block)
        distances = squared_distances(rebuilt[part], pool)
        # rounding of the product must not make the target nearer than its own distance
        margin = 1e-9 * (1 + own[part, None])
        counts[part] = np.count_nonzero(distances < own[part, None] - margin, axis=1)
    return counts


def conversion_success(nearer: np.ndarray, others: int, prior_size: int) -> np.ndarray:
    """Return the probability that a reconstruction picks its target out of a random prior.

    The prior is the target and ``prior_size - 1`` of the ``others`` records, drawn without
    replacement; the reconstruction succeeds if the target is the nearest (Hayes et al., Appendix
    D). The paper draws 1,000 priors for each reconstruction; the average over *all* priors is the
    probability that none of the ``nearer`` records is drawn,
    ``C(others - nearer, n - 1) / C(others, n - 1)``.

    Parameters
    ----------
    nearer : array of int, shape (...)
        Records nearer than the target (:func:`nearer_records`), 0 to ``others``.
    others : int
        Records that the prior is drawn from, without the target.
    prior_size : int
        n, 2 to ``others + 1``.

    Returns
    -------
    ndarray, shape (...), in [0, 1]

    Examples
    --------
    >>> import numpy as np
    >>> from reconrisk import attacks
    >>> attacks.conversion_success(np.array([0, 1, 99]), others=99, prior_size=2).round(3).tolist()
    [1.0, 0.99, 0.0]
    """
    arguments.integer("others", others, 1)
    arguments.integer("prior_size", prior_size, 2, others + 1)
    r = arguments.integer("nearer", nearer, 0, others)
    drawn, left = prior_size - 1, others - r
    possible = left >= drawn
    kept = np.where(possible, left, drawn)  # a placeholder where no such prior exists
    log_share = _log_choose(kept, drawn) - _log_choose(np.asarray(float(others)), drawn)
    return np.where(possible, np.exp(np.minimum(log_share, 0.0)), 0.0)


def _log_choose(n: np.ndarray, k: float) -> np.ndarray:
    """Log C(n, k) for whole numbers, without cancellation for large n."""
    return -np.log1p(n) - special.betaln(n - k + 1, k + 1.0)

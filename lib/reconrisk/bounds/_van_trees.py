"""Van Trees' bound on the error of records from a Gaussian prior, given noisy observations."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from reconrisk import arguments

__all__ = ["van_trees_error"]

# information below this fraction of the largest counts as zero
_SINGULAR = 1e-13


def van_trees_error(
    information: ArrayLike, noise_std: ArrayLike, covariance: ArrayLike
) -> np.ndarray:
    """Least root mean squared error of any estimator of records with a Gaussian prior.

    ``sqrt(tr((I/sigma^2 + C^-1)^-1)/B)`` with the information I averaged over the prior: van Trees'
    inequality (Van Trees 1968, Section 2.4; Gill and Levit 1995). Unlike the Cramer-Rao bound it
    holds for biased estimators too, on average over records of that prior. It is attained if the
    observation is linear in the records.

    Parameters
    ----------
    information : array_like, shape (B d, B d)
        I at noise of standard deviation one, ordered by records: the ``matrix`` of a
        :class:`GradientInformation`, or the mean of several.
    noise_std : array_like
        sigma >= 0. Without noise the bound is the prior's spread in the directions of zero
        information.
    covariance : array_like, shape (d, d)
        C, the prior covariance of each of the B independent records. It may be singular: of values
        that are known nothing is left.

    Returns
    -------
    ndarray or float
        Root mean over the records of the squared Euclidean distances, as in
        :func:`cramer_rao_error`.

    Raises
    ------
    ValueError
        If shapes do not fit, a value is out of range or the covariance has a negative eigenvalue.

    Notes
    -----
    One eigendecomposition for any number of noise levels.
    """
    matrix = arguments.real("information", information, low_open=True, high_open=True)
    prior = arguments.real("covariance", covariance, low_open=True, high_open=True)
    sigma = arguments.real("noise_std", noise_std, 0, 1e140)
    if prior.ndim != 2 or prior.shape[0] != prior.shape[1] or not np.allclose(prior, prior.T):
        raise ValueError(f"covariance must be a symmetric matrix; got shape {prior.shape}")
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or len(matrix) % len(prior):
        raise ValueError(
            f"information must be square with a multiple of {len(prior)} rows; got {matrix.shape}"
        )
    variances, directions = np.linalg.eigh(prior)
    if variances[0] < -_SINGULAR * max(abs(variances[-1]), 1e-300) * len(prior):
        raise ValueError(
            f"covariance must have no negative eigenvalue; got {float(variances[0])!r}"
        )
    kept = variances > _SINGULAR * variances[-1]
    root = directions[:, kept] * np.sqrt(variances[kept])
    records = len(matrix) // len(prior)
    roots = np.kron(np.eye(records), root)
    # whitened by the prior, so that information and prior precision are comparable
    values, vectors = np.linalg.eigh(roots.T @ matrix @ roots)
    spread = np.sum(np.square(roots @ vectors), axis=0)
    values = np.where(values > _SINGULAR * max(values[-1], 0.0), values, 0.0)
    squared = np.square(sigma)[..., None]
    positive = (values > 0) | (squared > 0)
    posterior = np.where(positive, squared / np.where(positive, squared + values, 1.0), 1.0)
    return np.sqrt(posterior @ spread / records)[()]

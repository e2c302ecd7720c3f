"""How well records of a known law can be found from noisy numbers: van Trees' bound."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from reconrisk import arguments

__all__ = ["van_trees_error"]

# a direction in which the information is below this share of its largest is not determined
_SINGULAR = 1e-13


def van_trees_error(
    information: ArrayLike, noise_std: ArrayLike, covariance: ArrayLike
) -> np.ndarray:
    """Least root mean squared error of any estimator of records from a normal law.

    ``sqrt(tr((I/sigma^2 + C^-1)^-1)/B)`` with the mean information I over the law: van Trees'
    inequality (Van Trees 1968, Section 2.4; Gill and Levit 1995), which unlike the Cramer-Rao bound
    holds for biased estimators too. It is attained where the observation is linear in the records.

    Parameters
    ----------
    information : array_like, shape (B d, B d)
        Of noise of standard deviation one, record by record: the ``matrix`` of a
        :class:`GradientInformation`, or the mean of several.
    noise_std : array_like
        sigma >= 0. Without noise what is left is the spread of the law in the directions that the
        observation does not see at all.
    covariance : array_like, shape (d, d)
        C, of one record; the B records are independent. Positive definite.

    Returns
    -------
    ndarray or float
        Root mean over the records of the squared Euclidean distances, as in
        :func:`cramer_rao_error`.

    Raises
    ------
    ValueError
        If shapes do not fit, a value is out of range or the covariance is not positive definite.

    Notes
    -----
    One eigendecomposition, whatever the number of noises.
    """
    matrix = arguments.real("information", information, low_open=True, high_open=True)
    law = arguments.real("covariance", covariance, low_open=True, high_open=True)
    sigma = arguments.real("noise_std", noise_std, 0, 1e140)
    if law.ndim != 2 or law.shape[0] != law.shape[1] or not np.allclose(law, law.T):
        raise ValueError(f"covariance must be a symmetric matrix; got shape {law.shape}")
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or len(matrix) % len(law):
        raise ValueError(
            f"information must be square with a multiple of {len(law)} rows; got {matrix.shape}"
        )
    try:
        root = np.linalg.cholesky(law)
    except np.linalg.LinAlgError:
        raise ValueError("covariance must be positive definite") from None
    records = len(matrix) // len(law)
    roots = np.kron(np.eye(records), root)
    # in units of the law's own spread, where what is learnt and what was known compare
    values, vectors = np.linalg.eigh(roots.T @ matrix @ roots)
    spread = np.sum(np.square(roots @ vectors), axis=0)
    values = np.where(values > _SINGULAR * max(values[-1], 0.0), values, 0.0)
    squared = np.square(sigma)[..., None]
    known = (values > 0) | (squared > 0)
    left = np.where(known, squared / np.where(known, squared + values, 1.0), 1.0)
    return np.sqrt(left @ spread / records)[()]

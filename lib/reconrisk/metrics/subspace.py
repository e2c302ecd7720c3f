"""Distance of vectors from the span of others."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from reconrisk.metrics.matching import checked_sets

__all__ = ["projection_error"]


def projection_error(targets: ArrayLike, reconstructions: ArrayLike) -> np.ndarray:
    """Mean distance of the unit targets from the span of the reconstructions.

    Parameters
    ----------
    targets : array_like, shape (..., n, N)
        Scaled to unit norm first.
    reconstructions : array_like, shape (..., m, N)
        Their scale, sign and order do not matter.

    Returns
    -------
    ndarray, shape (...)
        In [0, 1]: 0 if the span contains all targets, 1 if it is orthogonal to all. For m random
        directions about ``sqrt(1 - m / N)``.

    Raises
    ------
    ValueError
        If shapes do not fit, a value is not finite or a target is zero.

    Notes
    -----
    The feature reconstruction error of Liu et al., Section 5.1 and Table 2. One singular value
    decomposition per set; singular values below 1e-10 of the largest count as zero.

    Examples
    --------
    >>> from reconrisk import metrics
    >>> metrics.projection_error([[1.0, 0.0], [0.0, 1.0]], [[2.0, 0.0]]).tolist()
    0.5
    """
    x, y = checked_sets(targets, reconstructions)
    norms = np.linalg.norm(x, axis=-1, keepdims=True)
    if np.any(norms == 0):
        raise ValueError(f"targets must not be zero; got {int(np.sum(norms == 0))} zero vectors")
    _, singular_values, directions = np.linalg.svd(y, full_matrices=False)
    nonzero = singular_values > 1e-10 * singular_values[..., :1]
    basis = directions * nonzero[..., None]
    unit = x / norms
    residual = unit - (unit @ np.swapaxes(basis, -1, -2)) @ basis
    return np.linalg.norm(residual, axis=-1).mean(axis=-1)

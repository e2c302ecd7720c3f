"""How far vectors stick out of the space that others span."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

__all__ = ["projection_error"]


def projection_error(targets: ArrayLike, reconstructions: ArrayLike) -> np.ndarray:
    """Mean norm of what is left of unit targets outside the reconstructions' span, in [0, 1].

    Parameters
    ----------
    targets : array_like, shape (..., n, N)
        Scaled to unit norm first.
    reconstructions : array_like, shape (..., m, N)
        Their scale, sign and order do not matter.

    Returns
    -------
    ndarray, shape (...)
        0: the span holds all targets; 1: it is orthogonal to all. m random directions leave
        ``sqrt(1 - m / N)`` on average.

    Raises
    ------
    ValueError
        If shapes do not fit or a target is zero.

    Notes
    -----
    The feature reconstruction error of Liu et al., Section 5.1 and Table 2. One singular value
    decomposition a set; directions below 1e-10 of the largest count as absent.

    Examples
    --------
    >>> from reconrisk import metrics
    >>> metrics.projection_error([[1.0, 0.0], [0.0, 1.0]], [[2.0, 0.0]]).tolist()
    0.5
    """
    x, y = np.asarray(targets, dtype=float), np.asarray(reconstructions, dtype=float)
    if x.ndim < 2 or y.ndim != x.ndim or x.shape[:-2] != y.shape[:-2] or x.shape[-1] != y.shape[-1]:
        raise ValueError(
            "targets and reconstructions must have shapes (..., n, N) and (..., m, N); "
            f"got {x.shape} and {y.shape}"
        )
    norms = np.linalg.norm(x, axis=-1, keepdims=True)
    if np.any(norms == 0):
        raise ValueError("targets must not be zero")
    _, sizes, directions = np.linalg.svd(y, full_matrices=False)
    present = sizes > 1e-10 * sizes[..., :1]
    basis = directions * present[..., None]
    unit = x / norms
    outside = unit - (unit @ np.swapaxes(basis, -1, -2)) @ basis
    return np.linalg.norm(outside, axis=-1).mean(axis=-1)

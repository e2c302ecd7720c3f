"""The Levenberg-Marquardt method, from normal equations that are accumulated by the caller."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.linalg import lapack

__all__ = ["damped_step", "minimise_squares"]

NormalEquations = tuple[float, np.ndarray, np.ndarray]


def minimise_squares(
    normal: Callable[[np.ndarray], NormalEquations],
    loss: Callable[[np.ndarray], float],
    start: np.ndarray,
    *,
    iterations: int,
    enough: float,
) -> tuple[np.ndarray, float]:
    """Minimise a sum of squares from ``start``; return the point and the sum.

    Parameters
    ----------
    normal : callable
        Maps a point, (n,), to the sum of squares, ``J'e`` and ``J'J``.
    loss : callable
        Maps a point to the sum of squares.
    start : ndarray, shape (n,)
    iterations : int
        Most steps; the search ends once five in a row gain less than 1e-6 of the sum.
    enough : float
        The search ends at a sum of at most this value.

    Returns
    -------
    point : ndarray, shape (n,)
    value : float
        The sum of squares there.
    """
    point, damping, stalled = start, 1e-3, 0
    best, gradient, matrix = normal(point)
    for _ in range(iterations):
        before = best
        for _ in range(12):
            trial = point - damped_step(matrix, gradient, damping)
            value = loss(trial)
            if value < best:
                point, damping = trial, max(damping / 8.0, 1e-12)
                best, gradient, matrix = normal(point)
                break
            damping = min(4.0 * max(damping, 1e-8), 1e8)
        stalled = stalled + 1 if best >= (1.0 - 1e-6) * before else 0
        if best <= enough or stalled == 5:
            break
    return point, best


def damped_step(matrix: np.ndarray, gradient: np.ndarray, damping: float) -> np.ndarray:
    """Solve ``(J'J + damping diag J'J) step = J'e``."""
    diagonal = np.diag(matrix)
    # an unknown without influence gets a tiny weight, so that the system stays regular
    added = damping * diagonal + 1e-14 * max(float(diagonal.max()), 1e-300)
    damped = matrix.copy()
    damped.ravel()[:: len(matrix) + 1] += added
    # LAPACK itself: systems are small and many, and SciPy's checks take longer than it
    _, step, failed = lapack.dposv(damped, gradient)
    # rounding can make the system indefinite: no step then, so that the damping increases
    return np.zeros_like(gradient) if failed else step

"""Levenberg and Marquardt's method where only the normal equations fit into memory."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy import linalg

__all__ = ["damped_step", "minimise_squares"]

Normal = tuple[float, np.ndarray, np.ndarray]


def minimise_squares(
    normal: Callable[[np.ndarray], Normal],
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
        Point, (n,), to the sum of squares, ``J'e`` and ``J'J``.
    loss : callable
        Point to the sum of squares.
    iterations : int
        At most so many steps; fewer once five in a row gain less than 1e-6 of the sum.
    enough : float
        A sum that is good enough to stop at.
    """
    point, damping, idle = start, 1e-3, 0
    best, towards, matrix = normal(point)
    for _ in range(iterations):
        before = best
        for _ in range(12):
            trial = point - damped_step(matrix, towards, damping)
            value = loss(trial)
            if value < best:
                point, damping = trial, max(damping / 8.0, 1e-12)
                best, towards, matrix = normal(point)
                break
            damping = min(4.0 * max(damping, 1e-8), 1e8)
        idle = idle + 1 if best >= (1.0 - 1e-6) * before else 0
        if best <= enough or idle == 5:
            break
    return point, best


def damped_step(matrix: np.ndarray, towards: np.ndarray, damping: float) -> np.ndarray:
    """Solve ``(J'J + damping diag J'J) step = J'e``."""
    diagonal = np.diag(matrix)
    # an unknown that nothing depends on keeps a little weight of its own: the system stays regular
    added = damping * diagonal + 1e-14 * max(float(diagonal.max()), 1e-300)
    try:
        factor = linalg.cho_factor(matrix + np.diag(added))
    except linalg.LinAlgError:
        # rounding made the system indefinite: no step; more damping will mend it
        return np.zeros_like(towards)
    return np.asarray(linalg.cho_solve(factor, towards))

"""The least concave curve above points of the plane."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from reconrisk import arguments

__all__ = ["concave_hull"]


def concave_hull(points: ArrayLike) -> np.ndarray:
    """Return the corners of the least concave curve above points of the plane.

    Parameters
    ----------
    points : array_like, shape (n, 2)
        Finite, in any order; n >= 1.

    Returns
    -------
    ndarray, shape (k, 2)
        From the least to the largest first coordinate.

    Raises
    ------
    TypeError, ValueError
        If the points are not numbers, not finite or of another shape.

    Examples
    --------
    >>> from reconrisk import special
    >>> special.concave_hull([[0.0, 0.0], [0.5, 0.5], [0.25, 0.75], [1.0, 1.0]]).tolist()
    [[0.0, 0.0], [0.25, 0.75], [1.0, 1.0]]
    """
    array = arguments.finite("points", points)
    if array.ndim != 2 or array.shape[1] != 2 or not len(array):
        raise ValueError(f"points must be pairs of numbers; got shape {array.shape}")
    kept: list[tuple[float, float]] = []
    for x, y in sorted(map(tuple, array.tolist()), key=lambda p: (p[0], -p[1])):
        if kept and x <= kept[-1][0]:
            continue  # a lower point at the same place
        while len(kept) > 1:
            (a, f), (b, g) = kept[-2:]
            if (b - a) * (y - f) < (g - f) * (x - a):
                break
            kept.pop()
        kept.append((x, y))
    return np.array(kept)

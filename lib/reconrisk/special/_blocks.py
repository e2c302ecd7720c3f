"""Evaluate an elementwise function over broadcast arrays, one cache-sized block at a time.

The special functions make dozens of passes over their arguments. On a block that fits in the
processor's cache a pass is several times cheaper than on an array of a million numbers.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from reconrisk import arguments

__all__ = ["log1mexp", "over_blocks"]

BLOCK = 8192


@np.errstate(under="ignore")
def over_blocks(
    function: Callable[..., np.ndarray], *arrays: np.ndarray, block: int = BLOCK
) -> np.ndarray:
    """Return ``function`` of the broadcast ``arrays``, called with one-dimensional blocks.

    An argument of size one is passed as a zero-dimensional array, so that ``function`` can compute
    what depends on it alone only once.

    Parameters
    ----------
    function : callable
        Elementwise; takes as many arrays as are given here and returns one of the block's length.
    *arrays : ndarray of float
        Of shapes that broadcast.
    block : int
        Elements per call.

    Returns
    -------
    ndarray or float
        Of the broadcast shape.
    """
    shape = np.broadcast_shapes(*(array.shape for array in arrays))
    flat = [
        array.reshape(()) if array.size == 1 else np.broadcast_to(array, shape).reshape(-1)
        for array in arrays
    ]
    size = int(np.prod(shape, dtype=np.int64))
    out = np.empty(size)
    for start in range(0, size, block):
        stop = min(start + block, size)
        out[start:stop] = function(*(f if f.ndim == 0 else f[start:stop] for f in flat))
    out += 0.0  # turns the -0.0 of a probability of one into 0.0
    return out.reshape(shape)[()]


def log1mexp(log_p: np.ndarray) -> np.ndarray:
    """Return ``log(1 - exp(log_p))`` without cancellation.

    Parameters
    ----------
    log_p : ndarray or float
        In [-inf, 0]; positive values, which rounding can produce, count as 0.

    Returns
    -------
    ndarray
        In [-inf, 0]; -inf at ``log_p = 0``.

    Raises
    ------
    TypeError, ValueError
        If a value is no number, or nan.

    Examples
    --------
    >>> from reconrisk import special
    >>> round(float(special.log1mexp(-1e-20)), 4)
    -46.0517
    """
    log_p = np.minimum(arguments.real("log_p", log_p), 0.0)
    near_one = log_p > -0.6931471805599453
    with np.errstate(divide="ignore"):
        return np.where(
            near_one,
            np.log(-np.expm1(np.where(near_one, log_p, -1.0))),
            np.log1p(-np.exp(np.where(near_one, -1.0, log_p))),
        )

"""Roots of many monotone functions at once."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

__all__ = ["monotone_root"]


def monotone_root(
    function: Callable[[np.ndarray, np.ndarray], np.ndarray],
    low: np.ndarray,
    high: np.ndarray,
    tolerance: float = 4e-16,
) -> np.ndarray:
    """Return a root of each function between ``low`` and ``high``.

    Chandrupatla's method (1997), for all functions at once: inverse quadratic interpolation where
    it is safe, bisection elsewhere.

    Parameters
    ----------
    function : callable
        ``function(t, index)`` evaluates the functions numbered ``index`` at ``t``.
    low, high : ndarray, shape (n,)
        Ends with function values of opposite sign (or zero).
    tolerance : float
        Relative width of a bracket at which its root counts as found.

    Returns
    -------
    ndarray, shape (n,)
    """
    index = np.arange(low.size)
    a, b = np.array(high, dtype=float), np.array(low, dtype=float)
    fa, fb = function(a, index), function(b, index)
    result = np.where(np.abs(fa) < np.abs(fb), a, b)
    c, fc = a.copy(), fa.copy()
    share = np.full(low.size, 0.5)
    for _ in range(200):
        t = a + share * (b - a)
        ft = function(t, index)
        same = np.sign(ft) == np.sign(fa)
        c, fc = np.where(same, a, b), np.where(same, fa, fb)
        b, fb = np.where(same, b, a), np.where(same, fb, fa)
        a, fa = t, ft
        best_a = np.abs(fa) < np.abs(fb)
        best = np.where(best_a, a, b)
        result[index] = best
        width = np.abs(b - a)
        with np.errstate(divide="ignore", invalid="ignore"):
            limit = (tolerance * np.abs(best) + 1e-300) / width
            xi = (a - b) / (c - b)
            phi = (fa - fb) / (fc - fb)
            quadratic = fa / (fb - fa) * fc / (fb - fc) + (c - a) / (b - a) * fa / (
                fc - fa
            ) * fb / (fc - fb)
        keep = ~((limit > 0.5) | (fa == 0.0) | (width == 0.0))
        if not np.any(keep):
            break
        safe = (phi**2 < xi) & ((1.0 - phi) ** 2 < 1.0 - xi) & np.isfinite(quadratic)
        share = np.where(safe, quadratic, 0.5)
        limit = np.minimum(np.where(np.isfinite(limit), limit, 0.5), 0.5)
        share = np.clip(share, limit, 1.0 - limit)
        index, share = index[keep], share[keep]
        a, b, c = a[keep], b[keep], c[keep]
        fa, fb, fc = fa[keep], fb[keep], fc[keep]
    return result

"""Inverse of the cosine's tail."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy import special as sc

from reconrisk import arguments
from reconrisk.special._blocks import log1mexp, over_blocks
from reconrisk.special._cosine import _dimension, _noncentrality, _tail
from reconrisk.special._roots import monotone_root

__all__ = ["log_cosine_quantile"]


def log_cosine_quantile(
    log_p: ArrayLike, dimension: ArrayLike, noncentrality: ArrayLike = 0.0
) -> np.ndarray:
    """The largest cosine whose tail probability is at least ``exp(log_p)``.

    Inverse of :func:`reconrisk.special.log_cosine_tail` in its first argument.

    Parameters
    ----------
    log_p : array_like
        In [-inf, 0].
    dimension, noncentrality : array_like
        As in :func:`~reconrisk.special.log_cosine_tail`.

    Returns
    -------
    ndarray or float
        In [-1, 1]. In one dimension, where the cosine is a sign, one of the two ends.

    Raises
    ------
    ValueError
        As :func:`~reconrisk.special.log_cosine_tail`.

    Notes
    -----
    Chandrupatla's method in ``arsinh(tau sqrt(d - 1))``, ``tau = c/sqrt(1 - c**2)``, on the
    logarithm of the smaller tail; about 15 evaluations of the tail per element.
    """
    p = arguments.real("log_p", log_p, -np.inf, 0)
    return over_blocks(_quantile, p, _dimension(dimension), _noncentrality(noncentrality))


def _quantile(log_p: np.ndarray, d: np.ndarray, delta: np.ndarray) -> np.ndarray:
    log_p, d, delta = (np.array(v) for v in np.broadcast_arrays(np.atleast_1d(log_p), d, delta))
    line = d == 1
    out = np.where(log_p == 0.0, -1.0, 1.0)
    out[line] = np.where(log_p <= sc.log_ndtr(delta), 1.0, -1.0)[line]
    rest = ~line & (log_p < 0.0) & np.isfinite(log_p)
    if not np.any(rest):
        return out
    log_p, d, delta = log_p[rest], d[rest], delta[rest]
    root = np.sqrt(d - 1.0)
    upper = log_p < -0.6931471805599453
    target = np.where(upper, log_p, log1mexp(log_p))

    def excess(y: np.ndarray, i: np.ndarray) -> np.ndarray:
        tau = np.sinh(y) / root[i]
        # P(cos >= c) where that is the smaller tail, else P(-cos >= -c); both fall away from the
        # middle, and the sign makes the difference increase with y.
        side = np.where(upper[i], 1.0, -1.0)
        return -side * (_tail(side * tau, d[i], side * delta[i]) - target[i])

    # From |tau| = 1e9 on the cosine rounds to one, so nothing beyond is worth telling apart.
    edge = np.arcsinh(1e9 * root)
    guess = np.arcsinh(delta - sc.ndtri_exp(log_p))
    y = guess.copy()
    low, high = guess.copy(), guess.copy()
    inside = np.ones(d.size, dtype=bool)
    for end, sign in ((low, -1.0), (high, 1.0)):
        width = 0.25
        todo = np.arange(d.size)
        while todo.size:
            end[todo] = np.clip(guess[todo] + sign * width, -edge[todo], edge[todo])
            todo = todo[sign * excess(end[todo], todo) < 0.0]
            beyond = todo[np.abs(end[todo]) >= edge[todo]]
            inside[beyond] = False
            y[beyond] = sign * edge[beyond]
            todo = todo[np.abs(end[todo]) < edge[todo]]
            width *= 2.0
    index = np.flatnonzero(inside)
    y[index] = monotone_root(lambda t, i: excess(t, index[i]), low[index], high[index])
    tau = np.sinh(y) / root
    out[rest] = tau / np.hypot(1.0, tau)
    return out

"""Quantiles of the cosine between a Gaussian vector and its mean."""

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
        In [-1, 1]; -1 or 1 in one dimension, where the cosine is a sign.

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
        # P(cos >= c) where that is the smaller tail, else P(-cos >= -c); the sign makes the
        # difference increase with y in both cases
        side = np.where(upper[i], 1.0, -1.0)
        return -side * (_tail(side * tau, d[i], side * delta[i]) - target[i])

    # from |tau| = 1e9 on the cosine rounds to +-1
    edge = np.arcsinh(1e9 * root)
    guess = np.arcsinh(delta - sc.ndtri_exp(log_p))
    y = guess.copy()
    low, high = guess.copy(), guess.copy()
    inside = np.ones(d.size, dtype=bool)
    for end, sign in ((low, -1.0), (high, 1.0)):
        width = 0.25
        index = np.arange(d.size)
        while index.size:
            end[index] = np.clip(guess[index] + sign * width, -edge[index], edge[index])
            index = index[sign * excess(end[index], index) < 0.0]
            beyond = index[np.abs(end[index]) >= edge[index]]
            inside[beyond] = False
            y[beyond] = sign * edge[beyond]
            index = index[np.abs(end[index]) < edge[index]]
            width *= 2.0
    index = np.flatnonzero(inside)
    y[index] = monotone_root(lambda t, i: excess(t, index[i]), low[index], high[index])
    tau = np.sinh(y) / root
    out[rest] = tau / np.hypot(1.0, tau)
    return out

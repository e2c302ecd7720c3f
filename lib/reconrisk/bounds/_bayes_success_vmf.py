"""Success of the best attack on n candidates under von Mises-Fisher noise, for one release.

The likelihood of a candidate increases with the cosine between its direction and the output; with
equal priors the best attack names the candidate with the largest. The book's page on our own
results has statements and proofs.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike
from scipy import special as sc

from reconrisk import arguments, special

__all__ = ["bayes_success_vmf", "bayes_success_vmf_two", "log_coordinate_tail"]

_STEP = 0.02
_GAUSS = np.polynomial.legendre.leggauss(16)

LogDensity = Callable[[np.ndarray], np.ndarray]


@np.errstate(under="ignore")
def bayes_success_vmf(concentration: float, dimension: int, prior_size: int) -> float:
    """Success of the best attack on n equally likely candidates with orthogonal directions.

    ``exp(-L(kappa))/n`` times the mean of ``exp(kappa M)`` over uniformly distributed directions, M
    being the largest of n coordinates. Its moments are those of the largest of n normal variables
    over those of a chi variable with p degrees of freedom.

    Parameters
    ----------
    concentration : float
        In [0, 1e4].
    dimension : int
        p in [2, 1e9].
    prior_size : int
        n in [1, p].

    Returns
    -------
    float
        In [1/n, 1]; relative error about 1e-11 (tested).

    Raises
    ------
    ValueError
        If an argument is out of its range.

    Notes
    -----
    A series of at most ``kappa + 12 sqrt(kappa) + 40`` terms, each an integral on a fixed grid:
    milliseconds at concentrations of a few hundred.

    Examples
    --------
    >>> from reconrisk import bounds
    >>> round(bounds.bayes_success_vmf(20.0, 760, 10), 4)
    0.2584
    """
    kappa = float(arguments.real("concentration", concentration, 0, 1e4))
    p = float(arguments.integer("dimension", dimension, 2, 1e9))
    n = float(arguments.integer("prior_size", prior_size, 1, p))
    if kappa == 0.0 or n == 1.0:
        return 1.0 / n
    # coordinates are at most one, so that the terms are at most those of the series of exp(kappa)
    k = np.arange(int(kappa + 12.0 * np.sqrt(kappa) + 40.0) + 1, dtype=float)
    log_chi = 0.5 * k * np.log(2.0) + sc.gammaln(0.5 * (p + k)) - sc.gammaln(0.5 * p)
    scale = k * np.log(kappa) - sc.gammaln(k + 1.0) - log_chi
    scale -= float(special.log_iv_reduced(0.5 * p - 1.0, kappa))
    value = sum(float(part) for part in _moments(k, n, scale)) / n
    return float(np.clip(value, 1.0 / n, 1.0))


def _moments(k: np.ndarray, n: float, log_scale: np.ndarray) -> list[float]:
    """Return sums over blocks of k of ``exp(log_scale) * E M**k``, M the largest of n normals."""
    x = np.arange(-9.0, np.sqrt(k[-1]) + 9.0, _STEP) + 0.5 * _STEP
    log_density = np.log(n * _STEP) - 0.5 * x * x - 0.5 * np.log(2.0 * np.pi)
    log_density += (n - 1.0) * sc.log_ndtr(x)
    log_size, negative = np.log(np.abs(x)), x < 0.0
    parts = []
    block = max(1, 2_000_000 // x.size)
    for start in range(0, k.size, block):
        order, scale = k[start : start + block, None], log_scale[start : start + block, None]
        terms = np.exp(order * log_size + log_density + scale)
        sign = np.where(negative & (order % 2.0 == 1.0), -1.0, 1.0)
        parts.append(float(np.sum(sign * terms)))
    return parts


def bayes_success_vmf_two(
    concentration: float, dimension: int, cosine: ArrayLike = -1.0
) -> np.ndarray:
    """Success of the best attack on two equally likely directions with a given cosine.

    The probability that the output is nearer to the true direction. The output's coordinate along
    the difference of the two has a density proportional to
    ``exp(kappa s c + L_{p-1}(kappa cos(angle/2) sqrt(1 - c**2))) (1 - c**2)**((p-3)/2)`` with
    ``s = sin(angle/2)``.

    Parameters
    ----------
    concentration : float
        In [0, 1e8].
    dimension : int
        p in [3, 1e9].
    cosine : array_like
        Of the angle between the directions, in [-1, 1]; at -1 the value is
        :func:`rero_vmf_one_release` at a prior success of one half.

    Returns
    -------
    ndarray or float
        In [1/2, 1]; relative error about 1e-12.

    Raises
    ------
    ValueError
        If an argument is out of its range.

    Examples
    --------
    >>> from reconrisk import bounds
    >>> round(float(bounds.bayes_success_vmf_two(20.0, 760)), 4)
    0.766
    """
    kappa = float(arguments.real("concentration", concentration, 0, 1e8))
    p = float(arguments.integer("dimension", dimension, 3, 1e9))
    rho = arguments.real("cosine", cosine, -1, 1)
    out = [_two(kappa, p, float(value)) for value in rho.ravel()]
    return np.array(out).reshape(rho.shape)[()]


def _two(kappa: float, p: float, rho: float) -> float:
    sine, cosine = np.sqrt(0.5 * (1.0 - rho)), np.sqrt(0.5 * (1.0 + rho))

    def log_density(u: np.ndarray) -> np.ndarray:
        # in u, with the coordinate c = tanh u
        log_across = np.log(2.0) - np.logaddexp(u, -u)
        rise = special.log_iv_reduced(0.5 * (p - 3.0), kappa * cosine * np.exp(log_across))
        return kappa * sine * np.tanh(u) + (p - 1.0) * log_across + rise

    return float(np.clip(np.exp(_log_tail(log_density, 0.0, p)), 0.5, 1.0))


def log_coordinate_tail(cosine: float, kappa: float, p: float) -> float:
    """Return ``log P(t >= cosine)``, t the cosine of a von Mises-Fisher vector and its mean."""

    def log_density(u: np.ndarray) -> np.ndarray:
        return kappa * np.tanh(u) + (p - 1.0) * (np.log(2.0) - np.logaddexp(u, -u))

    with np.errstate(divide="ignore"):
        return _log_tail(log_density, float(np.arctanh(cosine)), p)


def _log_tail(log_density: LogDensity, start: float, p: float) -> float:
    """Return the log of the tail above ``start`` of a unimodal density, normalised here."""
    # for large u the density decreases like exp(-(p - 1) u)
    end = 20.0 + 80.0 / (p - 1.0)
    middle = min(max(start, -end), end)
    below, above = (_log_part(log_density, middle, edge) for edge in (-end, end))
    return float(above - np.logaddexp(below, above))


def _log_part(log_density: LogDensity, start: float, end: float) -> float:
    """Return the log of the integral from ``start`` to ``end``, by Gauss-Legendre quadrature."""
    near, far = start, end
    for _ in range(60):
        u = np.linspace(near, far, 401)
        depth = log_density(u)
        depth = depth - np.max(depth)
        kept = np.flatnonzero(depth > -80.0)
        first, last = max(kept[0] - 1, 0), min(kept[-1] + 1, 400)
        if last - first > 280:
            break
        near, far = float(u[first]), float(u[last])
    pieces = np.linspace(near, far, 25)
    middle, half = 0.5 * (pieces[1:] + pieces[:-1]), 0.5 * np.diff(pieces)
    values = log_density((middle[:, None] + half[:, None] * _GAUSS[0]).ravel())
    top = float(np.max(values))
    if top == -np.inf or near == far:
        return -np.inf
    sums = np.exp(values - top).reshape(24, -1) @ _GAUSS[1]
    with np.errstate(divide="ignore"):
        return top + float(np.log(np.sum(sums * np.abs(half))))

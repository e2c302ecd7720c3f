r"""Least error of any reconstruction when the output says I nats: rate-distortion bounds.

If the mutual information of a record X and everything that an attacker sees is at most I, no
estimate has an expected squared error below the distortion-rate function of X at I (Shannon 1959;
Cover and Thomas 2006, chapter 10), whatever the network and the attack were:
:func:`reconrisk.bounds.information_capacity` is such an I. Errors are means over the N values of
a record; I is in nats for the whole record.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy import optimize

from reconrisk import arguments
from reconrisk.bounds import _arguments as args
from reconrisk.bounds._information import information_success, probabilities

__all__ = [
    "mse_floor_gaussian",
    "mse_floor_levels",
    "mse_floor_set",
    "mse_floor_uniform",
]

#: log of ``1/(2 pi e)``
_LOG_SHANNON = -np.log(2.0 * np.pi) - 1.0
#: most levels and records: tables of their squares are held in memory
_MOST_LEVELS, _MOST_RECORDS = 4096, 20_000
#: Blahut-Arimoto: most points of reproduction, iterations, the gap in nats at which it ends, and
#: the power by which its steps are made longer
_POINTS, _ITERATIONS, _CLOSE, _LONGER = 513, 1000, 5e-5, 1.9
#: relative slack for the maximum between two nodes
_BETWEEN = 1e-4


def _information(value: ArrayLike) -> np.ndarray:
    return arguments.real("information", value, 0, np.inf, high_open=True)


def mse_floor_uniform(
    information: ArrayLike, dimension: ArrayLike, data_range: ArrayLike = 1.0, *, log: bool = False
) -> np.ndarray:
    """Least MSE of any estimate of N independent values, each uniform on an interval.

    ``R**2 exp(-2 I/N)/(2 pi e)``: the Shannon lower bound, for a record whose differential entropy
    is ``N ln R``. It is tight where the error is small against the range.

    Parameters
    ----------
    information : array_like
        ``I`` >= 0 of record and output, or an upper bound on it, nats.
    dimension : array_like
        N in [1, 1e12].
    data_range : array_like
        R > 0, data units.
    log : bool
        Return the natural logarithm; the floor itself can underflow to zero.

    Returns
    -------
    ndarray or float
        Squared data units, mean over the values.

    Raises
    ------
    ValueError
        If an argument is nan or out of its range.

    Examples
    --------
    >>> from reconrisk import bounds
    >>> round(float(bounds.mse_floor_uniform(784.0, 784)), 6)
    0.007924
    """
    rate = _information(information) / args.dimension(dimension)
    return _of_log(
        2.0 * np.log(args.positive("data_range", data_range)) + _LOG_SHANNON - 2.0 * rate, log
    )


def _of_log(value: np.ndarray, log: bool) -> np.ndarray:
    return np.asarray(value)[()] if log else np.exp(value)[()]


def mse_floor_gaussian(
    information: ArrayLike, variances: ArrayLike, *, log: bool = False
) -> np.ndarray:
    """Least MSE of any estimate of a Gaussian record: reverse water-filling.

    ``mean of min(v_i, w)`` with the level w at which ``sum of max(ln(v_i/w)/2, 0)`` is I, over the
    eigenvalues v of the covariance. Exact for Gaussian records as a distortion-rate function; no
    bound for other records of that covariance, which can be told more exactly.

    Parameters
    ----------
    information : array_like
        ``I`` >= 0, nats.
    variances : array_like, shape (N,)
        Eigenvalues of the covariance, in {0} or [1e-140, 1e140], not all zero; squared data units.
    log : bool
        Return the natural logarithm.

    Returns
    -------
    ndarray or float
        Squared data units, mean over the N values; of the shape of ``information``.

    Raises
    ------
    ValueError
        If an argument is nan or out of its range.

    Examples
    --------
    >>> from reconrisk import bounds
    >>> bounds.mse_floor_gaussian([0.0, 1.0], [4.0, 1.0, 1.0]).round(6)
    array([2.      , 0.814999])
    """
    nats = _information(information)
    v = arguments.real("variances", variances, 0, 1e140)
    if v.ndim != 1 or not np.any(v > 0) or np.any((v > 0) & (v < 1e-140)):
        raise ValueError(
            "variances must be a list of numbers in {0} or [1e-140, 1e140], not all zero; "
            f"got shape {v.shape}, least {float(v.min(initial=np.inf))!r}"
        )
    logs = np.sort(np.log(v[v > 0]))[::-1]
    active = np.arange(1, logs.size + 1)
    # information at which the level has sunk to the k-th largest variance
    reached = 0.5 * (np.cumsum(logs) - active * logs)
    count = np.searchsorted(reached, nats.ravel(), side="right")
    level = (np.cumsum(logs)[count - 1] - 2.0 * nats.ravel()) / count
    tails = np.append(np.logaddexp.accumulate(logs[::-1])[::-1], -np.inf)
    total = np.logaddexp(np.log(count) + level, tails[count]) - np.log(v.size)
    return _of_log(total.reshape(nats.shape), log)


@np.errstate(under="ignore")
def mse_floor_levels(
    information: ArrayLike,
    dimension: ArrayLike,
    levels: ArrayLike = 256,
    prior: ArrayLike | None = None,
) -> np.ndarray:
    """Least MSE of any estimate of N independent values of a finite set, such as grey levels.

    By the algorithm of Blahut and Arimoto (1972), with real numbers as estimates. What is returned
    is a lower bound whether or not the algorithm has converged: for every slope s and weights w,
    ``R(D) >= -E ln w(X) - ln max_y E[exp(-s (X - y)**2)/w(X)] - s D``, the maximum over all real y
    bounded from the values at nodes.

    Parameters
    ----------
    information : array_like
        ``I`` >= 0 for the whole record, nats.
    dimension : array_like
        N in [1, 1e12].
    levels : int or array_like, shape (n,)
        A whole number n in [2, 4096] for n equally spaced values from 0 to 1, or the values.
    prior : array_like, shape (n,), optional
        Their probabilities; equal by default.

    Returns
    -------
    ndarray or float
        Squared data units; zero from ``I = N ln n`` on.

    Raises
    ------
    ValueError
        If an argument is nan or out of its range, or the probabilities do not sum to one.

    Notes
    -----
    Cost: 0.5 to 5 seconds for each value of I/N, at 256 levels. The result is below the
    distortion-rate function by less than 0.5% of it, up to 5 nats a value.

    Examples
    --------
    >>> from reconrisk import bounds
    >>> round(float(bounds.mse_floor_levels(0.0, 10, levels=2)), 3)
    0.25
    """
    nats, n = np.broadcast_arrays(_information(information), args.dimension(dimension))
    if np.ndim(levels) == 0:
        x = np.linspace(0.0, 1.0, arguments.count("levels", levels, 2, _MOST_LEVELS))
    else:
        x = arguments.real("levels", levels, -1e70, 1e70)
    if x.ndim != 1 or not 2 <= x.size <= _MOST_LEVELS or np.unique(x).size < x.size:
        raise ValueError(f"levels must be 2 to {_MOST_LEVELS} different values; got {levels!r}")
    p = np.full(x.size, 1.0 / x.size) if prior is None else probabilities(prior)
    if p.size != x.size:
        raise ValueError(f"prior must have one entry per level; got {p.size} for {x.size}")
    low, span = x.min(), np.ptp(x)
    unit, kept = (x - low) / span, p > 0
    rates = (nats / n).ravel()
    found = {r: _least_distortion(r, unit[kept], p[kept]) for r in set(rates.tolist())}
    out = np.array([found[r] for r in rates.tolist()]) * span * span
    return out.reshape(nats.shape)[()]


def _least_distortion(rate: float, x: np.ndarray, p: np.ndarray) -> float:
    """Return a lower bound on the distortion at a rate, for values in [0, 1]."""
    entropy = -float(p @ np.log(p))
    variance = float(p @ (x - p @ x) ** 2)
    if rate >= entropy or variance == 0.0:
        return 0.0
    # slopes from one without a reproduction but the mean to one that tells all levels apart
    least = np.log(0.25 / variance)
    gap = float(np.diff(np.sort(x)).min())
    most = np.log(40.0 / gap**2)
    best = 0.0

    def loss(log_slope: float) -> float:
        nonlocal best
        value = _dual(float(np.exp(log_slope)), x, p, rate)
        best = max(best, value)
        return -value

    optimize.minimize_scalar(loss, bounds=(least, most), method="bounded", options={"xatol": 1e-2})
    return best


def _dual(slope: float, x: np.ndarray, p: np.ndarray, rate: float) -> float:
    """Return the bound on the distortion at a rate that a slope gives."""
    points = np.linspace(0.0, 1.0, min(_POINTS, 33 + int(4.0 * np.sqrt(slope))))
    if slope > 0.1 * _POINTS**2:
        # narrower than the points are apart: the levels themselves
        points = x
    kernel = np.exp(-slope * np.square(x[:, None] - points))
    weight = np.full(points.size, 1.0 / points.size)
    for _ in range(_ITERATIONS):
        mixed = kernel @ weight
        ratio = (p / mixed) @ kernel
        if np.log(ratio.max()) < _CLOSE:
            break
        weight = weight * ratio**_LONGER
        weight /= weight.sum()
    mixed = kernel @ weight
    # f'' >= -2 s f, so that f exceeds its values at nodes h apart by at most 1/(1 - s h^2/4)
    nodes = np.linspace(0.0, 1.0, 2 + int(np.sqrt(slope / (4.0 * _BETWEEN))))
    scaled, top = p / mixed, 0.0
    for part in np.array_split(nodes, 1 + nodes.size * x.size // 2**21):
        top = max(top, float((scaled @ np.exp(-slope * np.square(x[:, None] - part))).max()))
    most = np.log(top / (1.0 - 0.25 * slope * (nodes[1] - nodes[0]) ** 2))
    return float(-(p @ np.log(mixed)) - most - rate) / slope


def mse_floor_set(information: ArrayLike, records: ArrayLike) -> np.ndarray:
    """Least MSE of any estimate of a record drawn from a finite set, by counting.

    Records of which an estimate has an MSE of at most t lie within ``2 sqrt(N t)`` of each other.
    Without the output it therefore has such an error with a probability of at most ``kappa(t)``:
    the largest share of the set in a ball of that radius around one of its members. With the output
    it has one at most ``s(t)`` of the time (:func:`information_success`), and the floor is the
    integral of ``1 - s``.

    Parameters
    ----------
    information : array_like
        ``I`` >= 0, nats.
    records : array_like, shape (n, N)
        n in [2, 20,000] equally likely records; equal ones count as often as they stand there.

    Returns
    -------
    ndarray or float
        Squared data units, mean over the N values; zero from ``I = ln n`` on.

    Raises
    ------
    ValueError
        If an argument is nan or out of its range.

    Notes
    -----
    Cost: ``n**2 N`` operations. Memory: 64 MB besides the records.

    Examples
    --------
    >>> from reconrisk import bounds
    >>> round(float(bounds.mse_floor_set(0.0, [[0.0], [1.0]])), 6)
    0.125
    """
    nats = _information(information)
    x = arguments.real("records", records, -1e70, 1e70)
    if x.ndim != 2 or not 2 <= len(x) <= _MOST_RECORDS or x.shape[1] == 0:
        raise ValueError(
            f"records must have shape (n, N) with n in [2, {_MOST_RECORDS}]; got {x.shape}"
        )
    n = len(x)
    edges = 0.25 * _smallest_neighbourhoods(x) / x.shape[1]
    # below the k-th edge a ball holds at most k - 1 records
    shares = np.arange(1, n) / n
    widths = np.diff(edges)
    out = [float(widths @ (1.0 - information_success(i, shares))) for i in nats.ravel().tolist()]
    return np.array(out).reshape(nats.shape)[()]


def _smallest_neighbourhoods(x: np.ndarray) -> np.ndarray:
    """Return, for k = 1, ..., n, the least squared radius around a record that holds k of them."""
    x = x - x.mean(axis=0)
    rounding = (x.shape[1] + 10) * 2.3e-16
    squares = np.square(x).sum(axis=1)
    least = np.full(len(x), np.inf)
    for rows in np.array_split(np.arange(len(x)), 1 + len(x) ** 2 // 2**22):
        gaps = squares[rows, None] + squares - 2.0 * x[rows] @ x.T
        # rounding errors must not make a neighbourhood larger
        gaps = np.maximum(gaps - rounding * (squares[rows, None] + squares), 0.0)
        gaps[np.arange(len(rows)), rows] = 0.0
        least = np.minimum(least, np.sort(gaps, axis=1).min(axis=0))
    return least

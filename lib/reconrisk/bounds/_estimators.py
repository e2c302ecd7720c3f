"""Biased estimators with a smaller error than the unbiased reconstruction, in closed form.

``mean_to_extreme``, Theorem 1, claims that the minimum-variance unbiased reconstruction
``X_hat ~ N(X, s**2 I)``, ``s = sigma |X|``, has the smallest mean squared error. A biased one has a
smaller error at every record and every noise multiplier.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy import special as sc

from reconrisk import arguments, special
from reconrisk.bounds import _arguments as args
from reconrisk.bounds._mse import noise_std

__all__ = [
    "expected_mse_clipped_to_range",
    "expected_mse_james_stein",
]


def expected_mse_clipped_to_range(
    signal: ArrayLike, noise_std: ArrayLike, low: float = 0.0, high: float = 1.0
) -> np.ndarray:
    """Expected mean squared error of ``clip(x + s g, low, high)``, for a record in that range.

    Per entry, with ``a = (x - low)/s``, ``b = (high - x)/s`` and P the regularised incomplete gamma
    function: ``s**2 [P(3/2, a**2/2)/2 + P(3/2, b**2/2)/2 + a**2 Phi(-a) + b**2 Phi(-b)]``.

    Parameters
    ----------
    signal : array_like
        One record with values in [low, high], any shape.
    noise_std : array_like
        ``s`` > 0, standard deviation of the noise on each entry, data units.
    low, high : float
        The known range of the values.

    Returns
    -------
    ndarray or float
        Mean over the record's entries, squared data units; of the shape of ``noise_std``.

    Raises
    ------
    TypeError, ValueError
        If an argument has the wrong type or is out of its range.

    Notes
    -----
    Memory: the size of ``signal``, for one entry of ``noise_std`` at a time.

    Examples
    --------
    >>> from reconrisk import bounds
    >>> round(float(bounds.expected_mse_clipped_to_range([0.0, 0.5, 1.0], noise_std=0.1)), 6)
    0.006667
    """
    bottom = float(arguments.real("low", low, -1e140, 1e140))
    top = float(arguments.real("high", high, bottom, 1e140, low_open=True))
    x = arguments.real("signal", signal, bottom, top).ravel()
    if x.size == 0:
        raise ValueError("signal must have at least one value; got none")
    std = args.positive("noise_std", noise_std)
    out = np.empty(std.size)
    for i, s in enumerate(std.ravel()):
        total = 0.0
        for gap in ((x - bottom) / s, (top - x) / s):
            square = gap * gap
            total += np.mean(0.5 * sc.gammainc(1.5, 0.5 * square) + square * sc.ndtr(-gap))
        out[i] = s * s * total
    return out.reshape(std.shape)[()]


def expected_mse_james_stein(
    dimension: ArrayLike,
    noise_multiplier: ArrayLike,
    data_norm: ArrayLike,
    repeats: ArrayLike = 1,
) -> np.ndarray:
    """Expected mean squared error of the James-Stein estimator, for known ``s``.

    ``(1 - (N-2) s**2/|X_hat|**2) X_hat`` has ``s**2 [1 - (N-2)**2/N E(1/Y)]``, Y non-central
    chi-square with N degrees of freedom and non-centrality ``lam = |X|**2/s**2 = repeats/sigma**2``
    (James and Stein 1961). Evaluated as ``s**2 [2 + (N-2) lam I]/N`` with
    ``I = integral_0^1 t**(N-1) exp(-lam (1-t**2)/2) dt``, without cancellation.

    Parameters
    ----------
    dimension : array_like
        N in [3, 1e12].
    noise_multiplier, data_norm, repeats : array_like
        As in :func:`reconrisk.bounds.mse_tail`, with ``sqrt(repeats)/sigma`` at most 1e8.

    Returns
    -------
    ndarray or float
        In (0, s**2), squared data units.

    Raises
    ------
    TypeError, ValueError
        If an argument has the wrong type or is out of its range.

    Examples
    --------
    >>> from reconrisk import bounds
    >>> round(float(bounds.expected_mse_james_stein(784, 0.1, 5.0)), 4)
    0.0289
    """
    n = args.dimension(dimension, 3)
    std = noise_std(noise_multiplier, data_norm, repeats)
    root = 1.0 / args.effective_noise(noise_multiplier, repeats)
    lam = arguments.real("sqrt(repeats) / noise_multiplier", root, 0, 1e8) ** 2
    n, std, lam = np.broadcast_arrays(n, std, lam)
    flat_n, flat_lam = n.reshape(-1), lam.reshape(-1)
    centre = 1.0 / (flat_n + flat_lam)
    # t = exp(-y), y = centre * exp(w): the integrand is analytic, with a width of about one
    step = np.full(flat_n.size, 0.125)
    log_i = np.log(centre) + special.log_integral(_log_js, step, centre, flat_n, 0.5 * flat_lam)
    ratio = (2.0 + (n - 2.0) * lam * np.exp(log_i).reshape(n.shape)) / n
    return (std * std * ratio)[()]


def _log_js(w: np.ndarray, centre: np.ndarray, n: np.ndarray, half_lam: np.ndarray) -> np.ndarray:
    y = centre * np.exp(w)
    return w - n * y + half_lam * np.expm1(-2.0 * y)

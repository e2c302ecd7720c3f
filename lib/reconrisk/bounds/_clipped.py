"""The single-row attack, whose reconstruction clipping biases (``ziller2024``).

With one row and one step the observed gradient is ``beta X + N(0, C**2 sigma**2 I)`` with
``beta = 1/max(1, |X|/C)`` (eq. 3); the attack does not rescale it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from reconrisk import arguments, special
from reconrisk.bounds import _arguments as args
from reconrisk.bounds._mse import gamma_argument, noise_std

__all__ = ["expected_mse_clipped", "mse_tail_clipped"]


def _bias(data_norm: ArrayLike, max_grad_norm: ArrayLike) -> np.ndarray:
    """Return ``(1 - beta) |X| = max(|X| - C, 0)``."""
    norm = arguments.real("data_norm", data_norm, 0, 1e140)
    return np.maximum(norm - args.positive("max_grad_norm", max_grad_norm), 0.0)


def expected_mse_clipped(
    data_norm: ArrayLike,
    dimension: ArrayLike,
    noise_multiplier: ArrayLike,
    max_grad_norm: ArrayLike,
    repeats: ArrayLike = 1,
) -> np.ndarray:
    """Expected mean squared error of the single-row attack's reconstruction.

    ``(1 - beta)**2 |X|**2/N + C**2 sigma**2/repeats``:
    ``ziller2024``, Proposition 1, eq. (4); for the average of several steps, Proposition 4, eq.
    (10).

    Parameters
    ----------
    data_norm : array_like
        Norm of the record, >= 0, data units.
    dimension : array_like
        N in [1, 1e12].
    noise_multiplier : array_like
        ``sigma`` > 0.
    max_grad_norm : array_like
        Clipping norm C > 0.
    repeats : array_like
        Number of averaged reconstructions, whole, >= 1.

    Returns
    -------
    ndarray or float
        > 0, squared data units.

    Raises
    ------
    ValueError
        If an argument is nan or out of its range.

    Examples
    --------
    >>> from reconrisk import bounds
    >>> round(float(bounds.expected_mse_clipped(5.0, 784, 0.1, max_grad_norm=1.0)), 4)
    0.0304
    """
    n = args.dimension(dimension)
    bias = _bias(data_norm, max_grad_norm)
    std = noise_std(noise_multiplier, max_grad_norm, repeats)
    return (bias * bias / n + std * std)[()]


def mse_tail_clipped(
    threshold: ArrayLike,
    dimension: ArrayLike,
    noise_multiplier: ArrayLike,
    max_grad_norm: ArrayLike,
    data_norm: ArrayLike,
    repeats: ArrayLike = 1,
    *,
    log: bool = False,
) -> np.ndarray:
    """Probability that the mean squared error of the single-row attack is at most a threshold.

    ``MSE = C**2 sigma**2/N * Y``, Y non-central chi-square with N degrees of freedom and
    non-centrality ``(1 - beta)**2 |X|**2/(C**2 sigma**2)`` (``ziller2024``, Proposition 5,
    eq. 11).

    Parameters
    ----------
    threshold : array_like
        In [0, inf], squared data units.
    dimension, noise_multiplier, max_grad_norm, data_norm, repeats : array_like
        As in :func:`expected_mse_clipped`.
    log : bool
        Return the natural logarithm.

    Returns
    -------
    ndarray or float
        In [0, 1] (or its logarithm).

    Raises
    ------
    ValueError
        If an argument is nan or out of its range, or the non-centrality exceeds 1e15.

    Examples
    --------
    >>> from reconrisk import bounds
    >>> round(float(bounds.mse_tail_clipped(0.03, 784, 0.1, 1.0, 5.0)), 4)
    0.3634
    """
    eta = arguments.real("threshold", threshold, 0)
    n = args.dimension(dimension)
    bias = _bias(data_norm, max_grad_norm)
    std = noise_std(noise_multiplier, max_grad_norm, repeats)
    shift = (bias / std) ** 2
    x = 2.0 * gamma_argument(eta, n, std)
    return args.probability(special.log_noncentral_chi2_cdf(x, n, shift), log)

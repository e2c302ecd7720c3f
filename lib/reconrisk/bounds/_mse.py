"""The distribution of the mean squared error of the analytic attack's reconstruction.

``MSE = s**2/N * Y`` with ``Y ~ chi-square_N`` (``mean_to_extreme``, Theorem 2, eq. 22).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from reconrisk import arguments, special
from reconrisk.bounds import _arguments as args

__all__ = ["expected_mse", "mse_density", "mse_quantile", "mse_tail"]


def noise_std(noise_multiplier: ArrayLike, data_norm: ArrayLike, count: ArrayLike) -> np.ndarray:
    """Return ``s``, the standard deviation of one entry of the averaged reconstruction."""
    std = args.effective_noise(noise_multiplier, count) * args.positive("data_norm", data_norm)
    return arguments.real("noise_multiplier * data_norm / sqrt(repeats)", std, 1e-140, 1e140)


def gamma_argument(threshold: np.ndarray, n: np.ndarray, std: np.ndarray) -> np.ndarray:
    """Return ``N * threshold / (2 s**2)``; raise where it overflows or underflows."""
    with np.errstate(over="ignore"):
        x = 0.5 * n * (threshold / std / std)
    return in_floats("dimension * threshold / (2 s**2)", x, threshold)


def in_floats(name: str, value: np.ndarray, threshold: np.ndarray) -> np.ndarray:
    """Return ``value``, a multiple of ``threshold``; raise where it overflows or underflows."""
    inner = (threshold > 0.0) & np.isfinite(threshold)
    wrong = inner & ((value < 1e-280) | (value > 1e300))
    if np.any(wrong):
        at = np.broadcast_to(threshold, wrong.shape)[wrong].item(0)
        raise ValueError(
            f"threshold must be 0, inf, or such that {name} is in [1e-280, 1e+300]; got {at!r}"
        )
    return value


def mse_tail(
    threshold: ArrayLike,
    dimension: ArrayLike,
    noise_multiplier: ArrayLike,
    data_norm: ArrayLike,
    repeats: ArrayLike = 1,
    *,
    log: bool = False,
) -> np.ndarray:
    """Probability that the reconstruction's mean squared error is at most a threshold.

    ``P(MSE <= eta) = P(N/2, N eta repeats / (2 sigma**2 |X|**2))`` with the regularised lower
    incomplete gamma function: ``mean_to_extreme``, Theorem 2, eq. (23), and (with the smallest norm
    in the data) the bound of Proposition 3, eq. (24); ``ziller2024``, Proposition 6. It holds for
    the unbiased reconstruction, not for every estimator: for those see
    :func:`reconrisk.bounds.mse_tail_sphere`.

    Parameters
    ----------
    threshold : array_like
        ``eta`` in [0, inf], squared data units.
    dimension : array_like
        Entries of a record, N in [1, 1e12].
    noise_multiplier : array_like
        ``sigma`` > 0: noise standard deviation over clipping norm.
    data_norm : array_like
        Euclidean norm of the record, > 0, data units; the clipping norm for the second bound of
        eq. (24).
    repeats : array_like
        Number of averaged reconstructions, whole, >= 1.
    log : bool
        Return the natural logarithm, which does not underflow.

    Returns
    -------
    ndarray or float
        In [0, 1] (or its logarithm).

    Raises
    ------
    ValueError
        If an argument is nan or out of its range.

    Notes
    -----
    Relative error below 1e-11 down to 1e-300, besides that from rounding of the arguments: the
    condition number of the logarithm's absolute error is ``|N eta/(2 s**2) - N/2|``. About 0.1 s
    per million.

    Examples
    --------
    >>> from reconrisk import bounds
    >>> log_tail = bounds.mse_tail(0.02, 150_528, 0.001, 150.0, log=True)
    >>> round(float(log_tail) / 2.302585, 1)
    -220.0
    """
    eta = arguments.real("threshold", threshold, 0)
    n = args.dimension(dimension)
    std = noise_std(noise_multiplier, data_norm, repeats)
    return args.probability(special.log_gamma_lower(0.5 * n, gamma_argument(eta, n, std)), log)


def mse_quantile(
    probability: ArrayLike | None,
    dimension: ArrayLike,
    noise_multiplier: ArrayLike,
    data_norm: ArrayLike,
    repeats: ArrayLike = 1,
    *,
    log_probability: ArrayLike | None = None,
) -> np.ndarray:
    """The ``threshold`` at which :func:`mse_tail` equals ``probability``.

    Parameters
    ----------
    probability : array_like or None
        In [0, 1]; None if ``log_probability`` is given.
    dimension, noise_multiplier, data_norm, repeats : array_like
        As in :func:`mse_tail`.
    log_probability : array_like, optional
        In [-inf, 0].

    Returns
    -------
    ndarray or float
        In [0, inf], squared data units.

    Raises
    ------
    ValueError
        If an argument is out of its range, not exactly one probability is given, or the result is
        below 1e-300 in units of ``2 s**2/N``.

    Examples
    --------
    >>> from reconrisk import bounds
    >>> middle = bounds.mse_quantile(0.5, 784, 0.1, 5.0)
    >>> round(float(bounds.mse_tail(middle, 784, 0.1, 5.0)), 6)
    0.5
    """
    log_p = args.log_probability("probability", probability, log_probability)
    n = args.dimension(dimension)
    std = noise_std(noise_multiplier, data_norm, repeats)
    return (special.log_gamma_quantile(0.5 * n, log_p) * (2.0 / n) * std * std)[()]


def mse_density(
    value: ArrayLike,
    dimension: ArrayLike,
    noise_multiplier: ArrayLike,
    data_norm: ArrayLike,
    repeats: ArrayLike = 1,
    *,
    log: bool = False,
) -> np.ndarray:
    """Probability density of the mean squared error: the derivative of :func:`mse_tail`.

    Shown as colour in ``mean_to_extreme``, Figure 2, left column.

    Parameters
    ----------
    value : array_like
        In (0, inf), squared data units.
    dimension, noise_multiplier, data_norm, repeats : array_like
        As in :func:`mse_tail`.
    log : bool
        Return the natural logarithm.

    Returns
    -------
    ndarray or float
        Per squared data unit.

    Raises
    ------
    ValueError
        If an argument is nan or out of its range.

    Examples
    --------
    >>> from reconrisk import bounds
    >>> round(float(bounds.mse_density(0.25, 784, 0.1, 5.0)), 4)
    31.5879
    """
    y = arguments.real("value", value, 0, np.inf, low_open=True, high_open=True)
    n = args.dimension(dimension)
    std = noise_std(noise_multiplier, data_norm, repeats)
    x = gamma_argument(y, n, std)
    # d/dy of P(a, x), with dx/dy = x/y in logarithms, which do not overflow
    return args.probability(special.log_gamma_density(0.5 * n, x) + np.log(x) - np.log(y), log)


def expected_mse(
    noise_multiplier: ArrayLike, data_norm: ArrayLike, repeats: ArrayLike = 1
) -> np.ndarray:
    """Expected mean squared error of the attack's reconstruction, ``sigma**2 |X|**2 / repeats``.

    ``mean_to_extreme``, Proposition 2, eq. (21); with the clipping norm for ``data_norm`` it is the
    lower bound of ``ziller2024``, Proposition 1, eq. (5). It does not depend on the dimension.

    Parameters
    ----------
    noise_multiplier, data_norm, repeats : array_like
        As in :func:`mse_tail`.

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
    >>> round(float(bounds.expected_mse(0.1, data_norm=5.0, repeats=25)), 6)
    0.01
    """
    return (noise_std(noise_multiplier, data_norm, repeats) ** 2)[()]

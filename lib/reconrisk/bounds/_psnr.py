"""The distribution of the peak signal-to-noise ratio, ``10 log10(range**2 / MSE)`` in decibel."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy import special as sc

from reconrisk import arguments, special
from reconrisk.bounds import _arguments as args
from reconrisk.bounds._mse import gamma_argument, noise_std

__all__ = [
    "expected_psnr",
    "mse_of_psnr",
    "psnr_bound_paper",
    "psnr_density",
    "psnr_quantile",
    "psnr_tail",
]

_DECIBEL = 10.0 / np.log(10.0)


def mse_of_psnr(psnr: ArrayLike, data_range: ArrayLike) -> np.ndarray:
    """Mean squared error at a given peak signal-to-noise ratio.

    ``data_range**2 * 10**(-psnr/10)``: ``mean_to_extreme``, Proposition 4 (eta-tilde), which
    translates statements on the MSE into statements on the PSNR; ``ziller2024``, eq. (14).

    Parameters
    ----------
    psnr : array_like
        In [-1000, 1000] dB.
    data_range : array_like
        Largest minus smallest value, in [1e-50, 1e50], data units.

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
    >>> float(bounds.mse_of_psnr(20.0, data_range=1.0))
    0.01
    """
    value = arguments.real("psnr", psnr, -1000, 1000)
    width = arguments.real("data_range", data_range, 1e-50, 1e50)
    return (width**2 * 10.0 ** (-value / 10.0))[()]


def psnr_tail(
    threshold: ArrayLike,
    dimension: ArrayLike,
    noise_multiplier: ArrayLike,
    data_norm: ArrayLike,
    data_range: ArrayLike,
    repeats: ArrayLike = 1,
    *,
    log: bool = False,
) -> np.ndarray:
    """Probability that the PSNR of the attack's reconstruction is at least a threshold.

    ``P(PSNR >= eta) = P(N/2, N eta~ repeats/(2 sigma**2 |X|**2))``,
    ``eta~ = data_range**2 10**(-eta/10)``: ``mean_to_extreme``, Proposition 4, eq. (25);
    ``ziller2024``, Proposition 7, states the complement.

    Parameters
    ----------
    threshold : array_like
        ``eta`` in [-1000, 1000] dB.
    dimension, noise_multiplier, data_norm, repeats : array_like
        As in :func:`reconrisk.bounds.mse_tail`.
    data_range : array_like
        Largest minus smallest value, in [1e-50, 1e50], data units.
    log : bool
        Return the natural logarithm.

    Returns
    -------
    ndarray or float
        In [0, 1] (or its logarithm).

    Raises
    ------
    ValueError
        If an argument is nan or out of its range.

    Examples
    --------
    >>> from reconrisk import bounds
    >>> round(float(bounds.psnr_tail(26.0, 784, 0.01, 5.0, data_range=1.0)), 4)
    0.5441
    """
    eta = mse_of_psnr(arguments.real("threshold", threshold, -1000, 1000), data_range)
    n = args.dimension(dimension)
    std = noise_std(noise_multiplier, data_norm, repeats)
    x = gamma_argument(np.asarray(eta), n, std)
    return args.probability(special.log_gamma_lower(0.5 * n, x), log)


def psnr_quantile(
    probability: ArrayLike | None,
    dimension: ArrayLike,
    noise_multiplier: ArrayLike,
    data_norm: ArrayLike,
    data_range: ArrayLike,
    repeats: ArrayLike = 1,
    *,
    log_probability: ArrayLike | None = None,
) -> np.ndarray:
    """The PSNR that is reached or exceeded with a given probability.

    Inverse of :func:`psnr_tail` in its first argument.

    Parameters
    ----------
    probability : array_like or None
        In (0, 1); None if ``log_probability`` is given.
    dimension, noise_multiplier, data_norm, data_range, repeats : array_like
        As in :func:`psnr_tail`.
    log_probability : array_like, optional
        In (-inf, 0).

    Returns
    -------
    ndarray or float
        Decibel.

    Raises
    ------
    ValueError
        If an argument is out of its range, or not exactly one probability is given.

    Examples
    --------
    >>> from reconrisk import bounds
    >>> round(float(bounds.psnr_quantile(0.5, 784, 0.01, 5.0, 1.0)), 4)
    26.0243
    """
    log_p = args.log_probability("probability", probability, log_probability)
    arguments.real("log_probability", log_p, -np.inf, 0, low_open=True, high_open=True)
    n = args.dimension(dimension)
    std = noise_std(noise_multiplier, data_norm, repeats)
    span = arguments.real("data_range", data_range, 1e-50, 1e50)
    log_x = np.log(special.log_gamma_quantile(0.5 * n, log_p))
    return (_DECIBEL * (2.0 * np.log(span / std) + np.log(0.5 * n) - log_x))[()]


def psnr_density(
    value: ArrayLike,
    dimension: ArrayLike,
    noise_multiplier: ArrayLike,
    data_norm: ArrayLike,
    data_range: ArrayLike,
    repeats: ArrayLike = 1,
    *,
    log: bool = False,
) -> np.ndarray:
    """Probability density of the PSNR, per decibel: minus the derivative of :func:`psnr_tail`.

    Shown as colour in ``mean_to_extreme``, Figure 2, middle column.

    Parameters
    ----------
    value : array_like
        In [-1000, 1000] dB.
    dimension, noise_multiplier, data_norm, data_range, repeats : array_like
        As in :func:`psnr_tail`.
    log : bool
        Return the natural logarithm.

    Returns
    -------
    ndarray or float
        Per decibel (or its logarithm).

    Raises
    ------
    ValueError
        If an argument is nan or out of its range.

    Examples
    --------
    >>> from reconrisk import bounds
    >>> round(float(bounds.psnr_density(26.0, 784, 0.01, 5.0, 1.0)), 4)
    1.8103
    """
    y = mse_of_psnr(arguments.real("value", value, -1000, 1000), data_range)
    n = args.dimension(dimension)
    x = gamma_argument(np.asarray(y), n, noise_std(noise_multiplier, data_norm, repeats))
    log_density = special.log_gamma_density(0.5 * n, x) + np.log(x) - np.log(_DECIBEL)
    return args.probability(log_density, log)


def expected_psnr(
    dimension: ArrayLike,
    noise_multiplier: ArrayLike,
    data_norm: ArrayLike,
    data_range: ArrayLike,
    repeats: ArrayLike = 1,
) -> np.ndarray:
    """Exact expected PSNR of the attack's reconstruction.

    ``10 log10(range**2/s**2) + (10/ln 10) (ln(N/2) - digamma(N/2))``, because the logarithm of a
    chi-square variable has mean ``ln 2 + digamma(N/2)``. The printed upper bound of ``ziller2024``,
    Proposition 2, eq. (6), lacks the second term, about ``4.34/N``, and so is too small.

    Parameters
    ----------
    dimension, noise_multiplier, data_norm, data_range, repeats : array_like
        As in :func:`psnr_tail`.

    Returns
    -------
    ndarray or float
        Decibel.

    Raises
    ------
    ValueError
        If an argument is nan or out of its range.

    Examples
    --------
    >>> from reconrisk import bounds
    >>> round(float(bounds.expected_psnr(784, 0.01, 5.0, data_range=1.0)), 2)
    26.03
    """
    a = 0.5 * args.dimension(dimension)
    std = noise_std(noise_multiplier, data_norm, repeats)
    span = arguments.real("data_range", data_range, 1e-50, 1e50)
    return (_DECIBEL * (2.0 * np.log(span / std) + _log_minus_digamma(a)))[()]


def psnr_bound_paper(
    noise_multiplier: ArrayLike,
    data_norm: ArrayLike,
    data_range: ArrayLike,
    repeats: ArrayLike = 1,
) -> np.ndarray:
    """The printed "upper bound" on the expected PSNR, ``10 log10(range**2/s**2)``.

    ``ziller2024``, Proposition 2, eq. (6), and the column "Max E[PSNR]" of its Table 1 (with the
    clipping norm for ``data_norm``). Jensen's inequality is applied there in the wrong direction:
    without clipping it is a lower bound. For comparison with :func:`expected_psnr`.

    Parameters
    ----------
    noise_multiplier, data_norm, data_range, repeats : array_like
        As in :func:`psnr_tail`.

    Returns
    -------
    ndarray or float
        Decibel.

    Raises
    ------
    ValueError
        If an argument is nan or out of its range.

    Examples
    --------
    >>> from reconrisk import bounds
    >>> round(float(bounds.psnr_bound_paper(0.1, 5.0, data_range=1.0)), 4)
    6.0206
    """
    std = noise_std(noise_multiplier, data_norm, repeats)
    span = arguments.real("data_range", data_range, 1e-50, 1e50)
    return (2.0 * _DECIBEL * np.log(span / std))[()]


def _log_minus_digamma(a: np.ndarray) -> np.ndarray:
    """Return ``ln a - digamma(a)``, by DLMF 5.11.2 where the two nearly cancel."""
    large = np.maximum(a, 10.0)
    w = 1.0 / (large * large)
    series = 1 / 12 - w * (1 / 120 - w * (1 / 252 - w * (1 / 240 - w * (1 / 132))))
    direct = np.log(a) - sc.digamma(a)
    return np.where(a > 10.0, 0.5 / large + w * series, direct)

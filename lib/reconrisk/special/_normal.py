"""The normal distribution in logarithms: distribution function, quantile and trade-off curve."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy import special as sc

from reconrisk import arguments
from reconrisk.special._blocks import over_blocks

__all__ = ["log_normal_cdf", "log_normal_cdf_shifted", "log_normal_quantile"]

_ROOT_HALF = 0.7071067811865476


def log_normal_cdf(x: ArrayLike) -> np.ndarray:
    """Log of the standard normal distribution function, ``log Phi(x)``.

    Parameters
    ----------
    x : array_like
        In [-inf, inf].

    Returns
    -------
    ndarray or float
        In [-inf, 0]; relative error below 1e-15 for ``x < 3``, absolute error below 1e-17 above.

    Raises
    ------
    ValueError
        If an entry is nan.

    Examples
    --------
    >>> from reconrisk import special
    >>> round(float(special.log_normal_cdf(-40.0)), 4)
    -804.6084
    """
    return sc.log_ndtr(arguments.real("x", x))[()]


def log_normal_quantile(log_p: ArrayLike) -> np.ndarray:
    """The ``x`` at which ``log Phi(x) = log_p``.

    Parameters
    ----------
    log_p : array_like
        In [-inf, 0].

    Returns
    -------
    ndarray or float
        In [-inf, inf]; relative error of a few units in the last place.

    Raises
    ------
    ValueError
        If an entry is nan or positive.

    Notes
    -----
    SciPy's ``ndtri_exp`` has a relative error of up to 5e-13 between ``log_p`` = -1e4 and -1e9,
    which at -1e6 is a relative error of 1e-6 in the probability; one Newton step removes it.

    Examples
    --------
    >>> from reconrisk import special
    >>> round(float(special.log_normal_quantile(-804.6084)), 4)
    -40.0
    """
    return over_blocks(_quantile, arguments.real("log_p", log_p, -np.inf, 0))


def _quantile(log_p: np.ndarray) -> np.ndarray:
    with np.errstate(divide="ignore"):
        x = np.array(sc.ndtri_exp(np.atleast_1d(log_p)))
    deep = (x < -30.0) & np.isfinite(x)
    if np.any(deep):
        z = x[deep]
        scaled = sc.erfcx(-z * _ROOT_HALF)
        # the slope of log Phi: phi/Phi = sqrt(2/pi)/erfcx(-z/sqrt 2)
        slope = 0.7978845608028654 / scaled
        x[deep] = z - (sc.log_ndtr(z) - np.broadcast_to(log_p, x.shape)[deep]) / slope
    return x


def log_normal_cdf_shifted(log_p: ArrayLike, shift: ArrayLike) -> np.ndarray:
    """``log Phi(Phi**-1(p) + shift)`` from ``log p``: the trade-off curve of two Gaussians.

    The power of the most powerful test of ``N(0, 1)`` against ``N(shift, 1)`` at level ``p``.

    Parameters
    ----------
    log_p : array_like
        In [-inf, 0].
    shift : array_like
        In [0, inf).

    Returns
    -------
    ndarray or float
        In [-inf, 0], never below ``log_p``.

    Raises
    ------
    ValueError
        If an argument is nan or out of its range.

    Notes
    -----
    With ``z = Phi**-1(p)`` far in the tail, rounding ``z`` alone would move ``log Phi(z + shift)``
    by ``z**2`` units in the last place. There the *difference* from ``log p`` is computed,
    ``-shift (z + shift/2) + log erfcx(-(z + shift)/sqrt 2) - log erfcx(-z/sqrt 2)``, whose error
    is that of ``shift * z`` only.

    Examples
    --------
    >>> from reconrisk import special
    >>> round(float(special.log_normal_cdf_shifted(-4267.0, 60.0)), 4)
    -526.7094
    """
    log_p = arguments.real("log_p", log_p, -np.inf, 0)
    shift = arguments.real("shift", shift, 0, np.inf, high_open=True)
    return over_blocks(_shift, log_p, shift)


def _shift(log_p: np.ndarray, shift: np.ndarray) -> np.ndarray:
    log_p, shift = np.broadcast_arrays(np.atleast_1d(log_p), shift)
    z = _quantile(log_p)
    out = np.array(sc.log_ndtr(z + shift))
    deep = (z < -5.0) & (z + shift < 0.0) & np.isfinite(z)
    if np.any(deep):
        z, m = z[deep], shift[deep]
        gain = -m * (z + 0.5 * m)
        gain += np.log(sc.erfcx(-(z + m) * _ROOT_HALF) / sc.erfcx(-z * _ROOT_HALF))
        out[deep] = log_p[deep] + gain
    return np.maximum(out, log_p)

"""The privacy profile of full-batch DP-SGD in closed form (the analytic Gaussian mechanism).

``T`` steps at sampling rate one are one Gaussian mechanism with shift ``mu = sqrt(T)/sigma``
(Dong et al. 2022, Corollary 2), whose profile is ``Phi(a) - exp(epsilon) Phi(b)`` with
``a = mu/2 - epsilon/mu`` and ``b = a - mu`` (Balle and Wang 2018, Theorem 8).
"""

from __future__ import annotations

import math

import numpy as np
from scipy import special as sc

from reconrisk import arguments
from reconrisk._types import DPSGD
from reconrisk.special import log1mexp

__all__ = ["ERROR", "log_delta_gaussian", "log_delta_of_shift"]

#: bound on the absolute error of ``log delta``, besides its relative error
ERROR = 1e-11

_ROOT_HALF = math.sqrt(0.5)
_ROOT_HALF_PI = math.sqrt(math.pi / 2)
_HALF_LOG_2PI = 0.5 * math.log(2 * math.pi)
#: beyond so many deviations the rest is less than the rounding of half their square
_FAR = 1e50
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(24)


def log_delta_of_shift(epsilon: float, shift: float) -> float:
    """Return ``log(Phi(a) - exp(epsilon) Phi(b))`` with ``a, b = +-shift/2 - epsilon/shift``.

    With ``M = Phi/phi`` and ``exp(epsilon) phi(b) = phi(a)`` it is ``log(phi(a) (M(a) - M(b)))``.
    Where ``a`` and ``b`` are close, the difference is the integral of ``M' = 1 + x M``, without
    cancellation.
    """
    if shift == 0.0:
        return -math.inf if epsilon >= 0 else math.log(-math.expm1(epsilon))
    a = 0.5 * shift - epsilon / shift
    b = a - shift
    if a < -_FAR:  # its square alone counts
        return -0.5 * a * a
    if a > 1.0:
        # delta = 1 - (Phi(-a) + exp(epsilon) Phi(b))
        log_rest = float(np.logaddexp(sc.log_ndtr(-a), epsilon + sc.log_ndtr(b)))
        return float(log1mexp(np.array(min(log_rest, 0.0))))
    if shift < 1.0:
        middle, half = 0.5 * (a + b), 0.5 * shift
        gain = half * float(_WEIGHTS @ _mills_slope(middle + half * _NODES))
    else:
        gain = float(_mills(np.array(a)) - _mills(np.array(b)))
    return -0.5 * a * a - _HALF_LOG_2PI + math.log(gain)


def _mills(x: np.ndarray) -> np.ndarray:
    """Return ``Phi(x)/phi(x)``."""
    return _ROOT_HALF_PI * sc.erfcx(-x * _ROOT_HALF)


def _mills_slope(x: np.ndarray) -> np.ndarray:
    """Return ``1 + x Phi(x)/phi(x)``; for very negative x by ``1/x**2 - 3/x**4 + ...``."""
    near = 1.0 + x * _mills(np.maximum(x, -60.0))
    with np.errstate(divide="ignore"):
        y = 1.0 / np.minimum(x, -1.0) ** 2
    far = y * (1 - y * (3 - y * (15 - y * (105 - y * (945 - y * 10395)))))
    return np.where(x < -20.0, far, near)


def log_delta_gaussian(noise_multiplier: float, epsilon: float, steps: int = 1) -> float:
    """``log delta`` of full-batch DP-SGD at ``epsilon``.

    The privacy profile of the Gaussian mechanism (Balle and Wang 2018, Theorem 8).

    Parameters
    ----------
    noise_multiplier : float
        sigma in [1e-100, 1e100], or infinite.
    epsilon : float
        Any finite number, nats; below zero the profile is
        ``1 - exp(epsilon) + exp(epsilon) delta(-epsilon)``.
    steps : int
        T >= 1.

    Returns
    -------
    float
        In [-inf, 0]; absolute error below ``1e-11 + 1e-15 |log delta|``.

    Raises
    ------
    TypeError, ValueError
        If an argument is not a number or is out of its range.

    Examples
    --------
    >>> from reconrisk import privacy
    >>> round(privacy.log_delta_gaussian(1.0, 1.0), 4)
    -2.0641
    """
    run = DPSGD(noise_multiplier, steps=steps)
    arguments.single("epsilon", epsilon)
    e = float(arguments.finite("epsilon", epsilon))
    return log_delta_of_shift(e, math.sqrt(run.steps) / float(run.noise_multiplier))

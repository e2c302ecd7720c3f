"""Bounds for every estimator: the corrected reconstruction robustness of the analytic attack.

``mean_to_extreme``, Propositions 3 and 5, claim that no reconstruction exceeds the tail of the
unbiased one. A shrunk reconstruction does. Two bounds hold for every estimator:

*Known norm.* The attacker observes ``Z ~ N(X, s**2 I)`` and knows ``|X| = r``. Success,
``|X - Y|**2 <= N eta =: rho**2 < r**2``, means that ``X`` lies in the ball of radius ``rho`` around
the estimate ``Y``. That ball intersects the sphere ``|X| = r`` in a cap of angular radius at most
``arcsin(rho/r)``, attained at ``|Y| = sqrt(r**2 - rho**2)``. Under the uniform prior on the sphere
the posterior density increases with ``<X, Z>``, so that of all caps of that size the one centred at
``Z/|Z|`` has the largest posterior probability: the Bayes success is
``P(cos(X, Z) >= sqrt(1 - rho**2/r**2))``. The estimator ``sqrt(r**2 - rho**2) Z/|Z|`` has exactly
this success at every ``X`` on the sphere, and so is minimax (Hunt and Stein: the rotations form a
compact group, so that the uniform prior is least favourable).

*Any network and any attack* on a Gaussian mechanism: the closed-form ReRo bound, where ``kappa`` is
the fraction of the sphere in such a cap or, for records uniform in a box, a bound on the success of
the best constant guess.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy import special as sc

from reconrisk import arguments, special
from reconrisk.bounds import _arguments as args
from reconrisk.bounds._mse import in_floats
from reconrisk.bounds._rero import rero_gaussian

__all__ = ["log_prior_success_box", "mse_tail_sphere", "rero_box", "rero_sphere"]


def _sine_squared(threshold: ArrayLike, n: np.ndarray, data_norm: ArrayLike) -> np.ndarray:
    """Return ``min(N eta/r**2, 1)``; at one the zero estimate always succeeds."""
    eta = arguments.real("threshold", threshold, 0)
    norm = args.positive("data_norm", data_norm)
    with np.errstate(over="ignore"):
        share = n * (eta / norm / norm)
    in_floats("dimension * threshold / data_norm**2", np.minimum(share, 1.0), eta)
    return np.minimum(share, 1.0)


def mse_tail_sphere(
    threshold: ArrayLike,
    dimension: ArrayLike,
    noise_multiplier: ArrayLike,
    data_norm: ArrayLike,
    repeats: ArrayLike = 1,
    *,
    log: bool = False,
) -> np.ndarray:
    """Largest probability, over all estimators, that the mean squared error is at most a threshold.

    For records uniformly distributed on the sphere of radius ``data_norm``, or the worst record on
    it, from the analytic attack's observation ``X_hat ~ N(X, sigma**2 |X|**2 I)``::

        P(cos(X, X_hat) >= sqrt(1 - N eta/|X|**2)),   and 1 for N eta >= |X|**2.

    This corrects ``mean_to_extreme``, Proposition 3. The estimator
    ``sqrt(|X|**2 - N eta) X_hat/|X_hat|`` attains it.

    Parameters
    ----------
    threshold : array_like
        ``eta`` in [0, inf], squared data units.
    dimension : array_like
        N in [1, 1e12].
    noise_multiplier : array_like
        ``sigma`` > 0; ``sigma/sqrt(repeats)`` at least 1e-8.
    data_norm : array_like
        The known norm of the record, > 0, data units.
    repeats : array_like
        Number of averaged observations, whole, >= 1.
    log : bool
        Return the natural logarithm.

    Returns
    -------
    ndarray or float
        In [0, 1] (or its logarithm); at least :func:`~reconrisk.bounds.mse_tail` and
        :func:`~reconrisk.bounds.mse_tail_shrunk`.

    Raises
    ------
    TypeError, ValueError
        If an argument has the wrong type or is out of its range.

    Examples
    --------
    >>> from reconrisk import bounds
    >>> round(float(bounds.mse_tail_sphere(0.015, 784, 0.03, 5.0)), 4)
    0.9982
    """
    n = args.dimension(dimension)
    sine2 = _sine_squared(threshold, n, data_norm)
    delta = 1.0 / args.effective_noise(noise_multiplier, repeats)
    arguments.real("sqrt(repeats) / noise_multiplier", delta, 0, 1e8)
    value = np.where(sine2 >= 1.0, 0.0, special.log_cap_tail(sine2, n, delta))
    return args.probability(value, log)


def rero_sphere(
    threshold: ArrayLike,
    dimension: ArrayLike,
    noise_multiplier: ArrayLike,
    data_norm: ArrayLike,
    steps: ArrayLike = 1,
    *,
    log: bool = False,
) -> np.ndarray:
    """Bound on the success of any attack, through any network, on a record uniform on a sphere.

    The closed form ``Phi(Phi**-1(kappa) + sqrt(T)/sigma)`` (Hayes et al. 2023, Theorem 2) at the
    prior success ``kappa`` of the best constant guess: the fraction of the sphere in a cap with
    ``cos >= sqrt(1 - N eta/|X|**2)``. It holds for every dependence of the clipped gradient on the
    record; :func:`mse_tail_sphere`, for the linear network, is at most this.

    Parameters
    ----------
    threshold, dimension, data_norm : array_like
        As in :func:`mse_tail_sphere`.
    noise_multiplier : array_like
        ``sigma`` > 0.
    steps : array_like
        T, whole, >= 1, at sampling rate one.
    log : bool
        Return the natural logarithm.

    Returns
    -------
    ndarray or float
        In [0, 1] (or its logarithm).

    Raises
    ------
    TypeError, ValueError
        If an argument has the wrong type or is out of its range.

    Examples
    --------
    >>> from reconrisk import bounds
    >>> round(float(bounds.rero_sphere(0.01, 784, 0.1, 5.0, log=True)))
    -206
    """
    n = args.dimension(dimension)
    sine2 = _sine_squared(threshold, n, data_norm)
    log_kappa = np.where(sine2 >= 1.0, 0.0, special.log_cap_tail(sine2, n))
    return rero_gaussian(noise_multiplier, log_prior_success=log_kappa, steps=steps, log=log)


def log_prior_success_box(
    threshold: ArrayLike, dimension: ArrayLike, width: ArrayLike = 1.0
) -> np.ndarray:
    """Log of an upper bound on the prior success for records uniform in a box.

    For ``X`` uniform in a cube of side ``width`` the best guess is the centre (the density is
    symmetric and log-concave: Anderson 1955), and ``P(|X - centre|**2 <= N eta)`` is at most

    - the volume of the ball over that of the cube, and
    - by Chernoff's bound, the minimum over ``t >= 0`` of ``[exp(t eta) E exp(-t U**2)]**N``, with U
      uniform in ``[-width/2, width/2]``.

    Parameters
    ----------
    threshold : array_like
        ``eta`` in [0, inf], squared data units.
    dimension : array_like
        N in [1, 1e12].
    width : array_like
        Side of the box, > 0, data units.

    Returns
    -------
    ndarray or float
        In [-inf, 0], rounded upwards. Zero for ``eta >= width**2/12``, the expected mean squared
        error of the centre.

    Raises
    ------
    TypeError, ValueError
        If an argument has the wrong type or is out of its range.

    Examples
    --------
    >>> from reconrisk import bounds
    >>> round(float(bounds.log_prior_success_box(0.01, 784)))
    -697
    """
    eta = arguments.real("threshold", threshold, 0)
    n = args.dimension(dimension)
    w = args.positive("width", width)
    # share: the mean square allowed per entry, in units of the half-width
    with np.errstate(over="ignore"):
        share = np.minimum(4.0 * (eta / w / w), 1.0)
    share, n = np.broadcast_arrays(in_floats("threshold / width**2", share, eta), n)
    inside = (share > 0.0) & (share < 1.0 / 3.0)
    u = np.where(inside, share, 0.1)
    half_n = 0.5 * n
    log_ball = half_n * np.log(np.pi * n * u / 4.0) - sc.gammaln(half_n + 1.0)
    v = _tilt(u)
    per_entry = v * v * u + np.log(np.sqrt(np.pi) / 2.0 * sc.erf(v) / v)
    log_chernoff = n * per_entry
    # bound on the rounding error of N times a difference of terms of order log(1/share)
    slack = 1e-14 * n * (1.0 + np.abs(np.log(u)) + np.abs(np.log(n)))
    bound = np.minimum(np.minimum(log_ball, log_chernoff) + slack, 0.0)
    return np.where(inside, bound, np.where(share > 0.0, 0.0, -np.inf))[()]


def _tilt(share: np.ndarray) -> np.ndarray:
    """Return ``v`` with ``E[U**2]`` under ``exp(-v**2 u**2)`` on [-1, 1] close to ``share``.

    By bisection; the bound is valid for every ``v``, so that its accuracy is not critical.
    """
    low, high = np.full(share.shape, 1e-4), 1.0 / np.sqrt(2.0 * share)
    for _ in range(60):
        v = 0.5 * (low + high)
        mean = 0.5 / (v * v) - np.exp(-v * v) / (np.sqrt(np.pi) * v * sc.erf(v))
        low, high = np.where(mean > share, v, low), np.where(mean > share, high, v)
    return high


def rero_box(
    threshold: ArrayLike,
    dimension: ArrayLike,
    noise_multiplier: ArrayLike,
    width: ArrayLike = 1.0,
    steps: ArrayLike = 1,
    *,
    log: bool = False,
) -> np.ndarray:
    """Bound on the success of any attack, through any network, on a record uniform in a box.

    :func:`reconrisk.bounds.rero_gaussian` at the prior of :func:`log_prior_success_box`.

    Parameters
    ----------
    threshold, dimension, width : array_like
        As in :func:`log_prior_success_box`.
    noise_multiplier, steps : array_like
        As in :func:`rero_sphere`.
    log : bool
        Return the natural logarithm.

    Returns
    -------
    ndarray or float
        In [0, 1] (or its logarithm).

    Examples
    --------
    >>> from reconrisk import bounds
    >>> round(float(bounds.rero_box(0.01, 784, 0.1, log=True)))
    -374
    """
    log_kappa = log_prior_success_box(threshold, dimension, width)
    return rero_gaussian(noise_multiplier, log_prior_success=log_kappa, steps=steps, log=log)

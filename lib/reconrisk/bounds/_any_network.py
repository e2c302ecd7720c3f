r"""What any network can say about a record through DP-SGD: mutual information, in nats.

A server that chooses the network can make the clipped gradient of a record any function
``phi(X)`` of norm at most C, in as many parameters m as it likes; with all other gradients known it
sees ``Y = phi(X) + N(0, sigma**2 C**2 I_m)``. That is a channel of power ``1/(m sigma**2)`` for
each parameter, so ``I(X; Y) <= (m/2) ln(1 + 1/(m sigma**2)) < 1/(2 sigma**2)`` (Shannon 1949; Cover
and Thomas 2006, section 9.2). Over T steps the chain rule adds the bounds up, also if the server
chooses every network after what it saw.

With Poisson sampling at rate q, an attacker who is told which steps took the record has
``I(X; Y | B) <= q (m/2) ln(1 + 1/(m sigma**2))`` in each. To one who is not told, the output has
the law ``P_x = (1 - q) N(0, I) + q N(phi(x)/(sigma C), I)``, in units of the noise, and
``I(X; Y) <= max_x KL(P_x || N(0, I))``: the left side is the least such average over all second
laws. That divergence depends on the norm of ``phi`` alone, and grows with it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from reconrisk import arguments, special
from reconrisk.bounds import _arguments as args
from reconrisk.bounds._direction import gaussian_expectation
from reconrisk.special._stirling import divergence

__all__ = ["information_capacity", "information_capacity_vmf", "information_on_sphere"]

_LEAST_RATE = 1e-30
#: signals 1/sigma above which the components of the mixture do not overlap in floats
_APART = 60.0


def information_capacity(
    noise_multiplier: ArrayLike,
    sampling_rate: ArrayLike = 1.0,
    steps: ArrayLike = 1,
    parameters: ArrayLike = np.inf,
    *,
    participation: str = "secret",
) -> np.ndarray:
    """Bound on the mutual information of a record and DP-SGD's output, for every network.

    ``T q (m/2) ln(1 + 1/(m sigma**2))``, at most ``q T/(2 sigma**2)``. If the steps that took the
    record are secret it is also at most T times the divergence of
    ``(1 - q) N(0, 1) + q N(1/sigma, 1)`` from ``N(0, 1)``, and the smaller of both is returned.

    Parameters
    ----------
    noise_multiplier : array_like
        ``sigma`` in [1e-140, 1e140]: of the whole clipped gradient.
    sampling_rate : array_like
        q in [1e-30, 1]: probability of Poisson sampling.
    steps : array_like
        T, whole, >= 1. Each network may depend on all earlier outputs.
    parameters : array_like
        m >= 1: released coordinates in each step; infinite by default.
    participation : {"secret", "known"}
        Whether the attacker is told which steps took the record.

    Returns
    -------
    ndarray or float
        Nats, >= 0. Relative error below 1e-10.

    Raises
    ------
    ValueError
        If an argument is nan or out of its range.

    Notes
    -----
    For one full-batch step it is the capacity itself in the limit of many parameters:
    :func:`information_on_sphere` and :func:`mutual_information_orthogonal` approach it from below.
    The record may have any law; its entropy bounds the information as well.

    Cost: about ``4/sigma**2`` exponentials (at most 15,000) for each pair of sigma and q < 1.

    Examples
    --------
    >>> from reconrisk import bounds
    >>> float(bounds.information_capacity(0.5))
    2.0
    >>> round(float(bounds.information_capacity(0.5, parameters=4)), 6)
    1.386294
    >>> known = bounds.information_capacity(1.0, 0.01, 100, participation="known")
    >>> secret = bounds.information_capacity(1.0, 0.01, 100)
    >>> round(float(known), 6), round(float(secret), 6)
    (0.5, 0.008381)
    """
    sigma = args.positive("noise_multiplier", noise_multiplier)
    rate = arguments.real("sampling_rate", sampling_rate, _LEAST_RATE, 1)
    count = args.repeats(steps, "steps")
    m = arguments.real("parameters", parameters, 1)
    arguments.one_of("participation", participation, ("secret", "known"))
    with np.errstate(over="ignore"):
        power = 1.0 / sigma / sigma
        one = np.where(np.isinf(m), 0.5 * power, 0.5 * _log1p_of_ratio(m, power))
    step = rate * one
    if participation == "secret":
        step = np.minimum(step, _mixture_divergence(1.0 / sigma, rate))
    return (count * step)[()]


def _log1p_of_ratio(m: np.ndarray, power: np.ndarray) -> np.ndarray:
    """Return ``m log(1 + power/m)``."""
    finite = np.where(np.isinf(m), 1.0, m)
    return finite * np.log1p(power / finite)


def _mixture_divergence(signal: np.ndarray, rate: np.ndarray) -> np.ndarray:
    """Return ``KL((1 - q) N(0, 1) + q N(a, 1) || N(0, 1))`` for signals a, or a bound on it."""
    a, q = np.broadcast_arrays(signal, rate)
    flat = [_mixture_one(x, y) for x, y in zip(a.ravel().tolist(), q.ravel().tolist(), strict=True)]
    return np.array(flat).reshape(a.shape)


def _mixture_one(a: float, q: float) -> float:
    if q == 1.0:
        return 0.5 * a * a
    if a > _APART:
        return q * (0.5 * a * a + np.log(q)) + (1.0 - q) * np.log1p(-q)
    # E (1 + u) log(1 + u) - u with u = q (exp(a y - a**2/2) - 1) and y standard normal. The
    # integrand is analytic for |Im y| < pi/a; steps of 0.5/a leave an error of about 1e-17.
    step = min(0.25, 0.5 / a)
    y = np.arange(-13.0, 2.0 * a + 13.0, step)
    exponent = a * y - 0.5 * a * a
    v = np.log(q) + exponent
    near = v < 30.0
    u = q * np.expm1(np.where(near, exponent, 0.0))
    small = np.minimum(u, 1.0)
    value = np.where(
        u < 1.0, small * small - (1.0 + small) * divergence(small), (1.0 + u) * np.log1p(u) - u
    )
    with np.errstate(divide="ignore"):
        log_near = np.log(np.maximum(value, 0.0))
    log_value = np.where(near, log_near, v + np.log(np.where(near, 2.0, v) - 1.0))
    total = np.exp(log_value - 0.5 * y * y).sum() * step / np.sqrt(2.0 * np.pi)
    return float(min(total, 0.5 * q * a * a))


def information_capacity_vmf(dimension: ArrayLike, concentration: ArrayLike) -> np.ndarray:
    """Largest mutual information of a direction, of any law, and its von Mises-Fisher output.

    ``kappa A - log R``, with R the reduced Bessel function of order ``p/2 - 1`` and A its log's
    slope: the entropy of the uniform law on the sphere less that of the noise. A uniform direction
    attains it. Releases add up, as in :func:`information_capacity`.

    Parameters
    ----------
    dimension : array_like
        p in [2, 1e9].
    concentration : array_like
        ``kappa`` in [0, 1e8].

    Returns
    -------
    ndarray or float
        Nats, >= 0. Absolute error about ``1e-15 kappa``.

    Raises
    ------
    ValueError
        If an argument is nan or out of its range.

    Examples
    --------
    >>> from reconrisk import bounds
    >>> round(float(bounds.information_capacity_vmf(784, 100.0)), 4)
    6.2277
    """
    order = 0.5 * arguments.integer("dimension", dimension, 2, 1e9) - 1.0
    kappa = arguments.real("concentration", concentration, 0, 1e8)
    gain = kappa * special.bessel_ratio(order, kappa) - special.log_iv_reduced(order, kappa)
    return np.maximum(gain, 0.0)[()]


def information_on_sphere(dimension: ArrayLike, noise_multiplier: ArrayLike) -> np.ndarray:
    """Mutual information of a direction, uniform on the sphere, and one noisy step.

    ``a**2 - E log R(a |y|)`` with ``a = 1/sigma``, ``y = a u + Z`` and R the reduced Bessel
    function of order ``m/2 - 1`` (:func:`reconrisk.special.log_iv_reduced`). The linear layer says
    this much about a record of uniform direction; no law of a gradient of norm C in m parameters
    can say more than :func:`information_capacity`, which it approaches as m grows.

    Parameters
    ----------
    dimension : array_like
        m in [2, 1e9].
    noise_multiplier : array_like
        ``sigma`` in [1e-4, 1e6].

    Returns
    -------
    ndarray or float
        Nats, in (0, (m/2) ln(1 + 1/(m sigma**2))). Absolute error about ``1e-14/sigma**2``.

    Raises
    ------
    ValueError
        If an argument is nan or out of its range.

    Examples
    --------
    >>> from reconrisk import bounds
    >>> [round(float(bounds.information_on_sphere(m, 0.5)), 4) for m in (4, 100, 10_000)]
    [1.3704, 1.961, 1.9996]
    """
    m = arguments.integer("dimension", dimension, 2, 1e9)
    sigma = arguments.real("noise_multiplier", noise_multiplier, 1e-4, 1e6)
    m, sigma = np.broadcast_arrays(m, sigma)

    def one(n: float, s: float) -> float:
        return s**-2 - gaussian_expectation(
            n, s, lambda c: special.log_iv_reduced(0.5 * n - 1.0, c)
        )

    pairs = zip(m.ravel().tolist(), sigma.ravel().tolist(), strict=True)
    return np.array([one(n, s) for n, s in pairs]).reshape(m.shape)[()]

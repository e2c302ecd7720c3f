"""The von Mises-Fisher distribution on the sphere: density and divergences.

All of these are values, slopes or differences of one function, ``L(x)``: the logarithm of the mean
of ``exp(x u)`` over the unit sphere in ``p`` dimensions, ``u`` a coordinate, which is
:func:`reconrisk.special.log_iv_reduced` at order ``p/2 - 1``. Its slope is ``A_p(x)``, the norm of
the mean vector at concentration ``x``.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy import special as sc

from reconrisk import arguments, special

__all__ = [
    "check_concentration",
    "check_dimension",
    "log_sphere_area",
    "vmf_concentration",
    "vmf_kl",
    "vmf_log_density",
    "vmf_mean_cosine",
    "vmf_noise_multiplier",
    "vmf_renyi",
    "vmf_renyi_blocks",
]

MAX_DIMENSION = 2e12
MAX_CONCENTRATION = 1e12
# Below this |r - 1| the difference L(r kappa) - L(kappa) is the integral of the slope, for which
# the Gauss-Legendre rule is then accurate to the last bit.
_CLOSE = 0.25
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(10)


def check_dimension(dimension: ArrayLike) -> np.ndarray:
    """Return whole dimensions in [2, 2e12]."""
    return arguments.integer("dimension", dimension, 2, MAX_DIMENSION)


def check_concentration(concentration: ArrayLike) -> np.ndarray:
    """Return concentrations in [0, 1e12]."""
    return arguments.real("concentration", concentration, 0, MAX_CONCENTRATION)


def log_sphere_area(dimension: np.ndarray) -> np.ndarray:
    """Return the log of the area of the unit sphere in ``dimension`` dimensions."""
    half = 0.5 * dimension
    return np.log(2.0) + half * np.log(np.pi) - sc.gammaln(half)


def vmf_log_density(
    cosine: ArrayLike, dimension: ArrayLike, concentration: ArrayLike
) -> np.ndarray:
    """Log-density of the von Mises-Fisher distribution with respect to the surface of the sphere.

    ``kappa cosine + log C_p(kappa)`` with ``C_p = kappa**nu / ((2 pi)**(p/2) I_nu(kappa))`` and
    ``nu = p/2 - 1`` (Biswas et al. 2024, Definition 4, eq. 4); ``log C_p`` is the value at
    ``cosine = 0``.

    Parameters
    ----------
    cosine : array_like
        Cosine of the angle to the mean direction, in [-1, 1].
    dimension : array_like
        p, whole, in [2, 2e12].
    concentration : array_like
        kappa, in [0, 1e12].

    Returns
    -------
    ndarray or float
        Nats.

    Raises
    ------
    ValueError
        If an argument is nan or out of its range.

    Examples
    --------
    >>> from reconrisk import privacy
    >>> round(float(privacy.vmf_log_density(1.0, 760, 20.0)), 4)
    1459.2606
    """
    c = arguments.real("cosine", cosine, -1, 1)
    p, kappa = check_dimension(dimension), check_concentration(concentration)
    return (kappa * c - log_sphere_area(p) - special.log_iv_reduced(0.5 * p - 1.0, kappa))[()]


def vmf_mean_cosine(dimension: ArrayLike, concentration: ArrayLike) -> np.ndarray:
    """Mean cosine of the angle to the mean direction, ``A_p(kappa)``.

    Also the norm of the mean vector; about ``kappa/p`` for small concentrations.

    Parameters
    ----------
    dimension, concentration : array_like
        As in :func:`vmf_log_density`.

    Returns
    -------
    ndarray or float
        In [0, 1].

    Raises
    ------
    ValueError
        If an argument is nan or out of its range.

    Examples
    --------
    >>> from reconrisk import privacy
    >>> round(float(privacy.vmf_mean_cosine(760, 100.0)), 4)
    0.1294
    """
    p, kappa = check_dimension(dimension), check_concentration(concentration)
    return special.bessel_ratio(0.5 * p - 1.0, kappa)


def vmf_concentration(dimension: ArrayLike, mean_cosine: ArrayLike) -> np.ndarray:
    """The concentration at which :func:`vmf_mean_cosine` has a given value.

    Parameters
    ----------
    dimension : array_like
        p, whole, in [2, 2e9].
    mean_cosine : array_like
        In [0, 1 - 1e-6].

    Returns
    -------
    ndarray or float
        kappa >= 0.

    Raises
    ------
    ValueError
        If an argument is nan or out of its range.

    Examples
    --------
    >>> from reconrisk import privacy
    >>> round(float(privacy.vmf_concentration(760, 0.1293)), 1)
    99.9
    """
    p = arguments.integer("dimension", dimension, 2, 2e9)
    c = arguments.real("mean_cosine", mean_cosine, 0, 1 - 1e-6)
    return special.bessel_ratio_inverse(0.5 * p - 1.0, c)


def vmf_renyi(
    order: ArrayLike, dimension: ArrayLike, concentration: ArrayLike, angle: ArrayLike = np.pi
) -> np.ndarray:
    r"""Rényi divergence between von Mises-Fisher distributions of one concentration.

    ``[L(r kappa) - L(kappa)] / (a - 1)`` with ``r**2 = 1 + 4 a (a - 1) sin(angle/2)**2``. At
    opposite directions, the worst case, ``r = |2 a - 1|``: Biswas et al. 2024, Proposition 1. At
    ``a = 1`` it is the Kullback-Leibler divergence ``2 kappa A_p(kappa) sin(angle/2)**2``, at
    ``a = inf`` the largest privacy loss ``2 kappa sin(angle/2)``.

    Parameters
    ----------
    order : array_like
        a in (0, 1e15], or inf.
    dimension : array_like
        p, whole, in [2, 2e12].
    concentration : array_like
        kappa in [0, 1e12]; for finite orders ``(2 a + 1) kappa`` is at most 1e15.
    angle : array_like
        Between the two mean directions, in [0, pi].

    Returns
    -------
    ndarray or float
        Nats, >= 0; relative error below 2e-14, also near order one.

    Raises
    ------
    ValueError
        If an argument is nan or out of its range.

    Examples
    --------
    >>> from reconrisk import privacy
    >>> round(float(privacy.vmf_renyi(2.0, 760, 20.0)), 4)
    2.0981
    """
    a = arguments.real("order", order, 0, low_open=True)
    p, kappa = check_dimension(dimension), check_concentration(concentration)
    theta = arguments.real("angle", angle, 0, np.pi)
    a, p, kappa, theta = np.broadcast_arrays(a, p, kappa, theta)
    finite = np.where(np.isinf(a), 1.0, a)
    arguments.real("order (if finite)", finite, 0, 1e15)
    arguments.real("(2 order + 1) * concentration", (2.0 * finite + 1.0) * kappa, 0, 1e15)
    sine = np.sin(0.5 * theta)
    excess = 4.0 * finite * (finite - 1.0) * sine * sine
    r = np.where(sine == 1.0, np.abs(2.0 * finite - 1.0), np.sqrt(np.maximum(1.0 + excess, 0.0)))
    value = np.empty(a.shape)
    close = np.abs(r - 1.0) <= _CLOSE
    for mask, rule in ((close, _by_slope), (~close, _by_difference)):
        if np.any(mask):
            value[mask] = rule(finite[mask], 0.5 * p[mask] - 1.0, kappa[mask], sine[mask], r[mask])
    return np.where(np.isinf(a), 2.0 * kappa * sine, value)[()]


def _by_slope(
    a: np.ndarray, nu: np.ndarray, kappa: np.ndarray, sine: np.ndarray, r: np.ndarray
) -> np.ndarray:
    """Return the mean slope of L between kappa and r kappa, times ``kappa (r - 1)/(a - 1)``."""
    half = 0.5 * kappa * (4.0 * a * (a - 1.0) * sine * sine) / (r + 1.0)
    nodes = (kappa + half)[:, None] + half[:, None] * _NODES
    slope = special.bessel_ratio(nu[:, None], np.maximum(nodes, 0.0)) @ (0.5 * _WEIGHTS)
    return 4.0 * a * kappa * sine * sine / (r + 1.0) * slope


def _by_difference(
    a: np.ndarray, nu: np.ndarray, kappa: np.ndarray, sine: np.ndarray, r: np.ndarray
) -> np.ndarray:
    rise = special.log_iv_reduced(nu, r * kappa) - special.log_iv_reduced(nu, kappa)
    return rise / (a - 1.0)


def vmf_kl(dimension: ArrayLike, concentration: ArrayLike, angle: ArrayLike = np.pi) -> np.ndarray:
    """Kullback-Leibler divergence: :func:`vmf_renyi` at order one.

    ``kappa A_p(kappa) (1 - cos angle)``; ``2 kappa A_p(kappa)`` at opposite directions (Biswas et
    al. 2024, Proposition 1).

    Parameters
    ----------
    dimension, concentration, angle : array_like
        As in :func:`vmf_renyi`.

    Returns
    -------
    ndarray or float
        Nats, >= 0.

    Raises
    ------
    ValueError
        If an argument is nan or out of its range.

    Examples
    --------
    >>> from reconrisk import privacy
    >>> round(float(privacy.vmf_kl(760, 20.0)), 4)
    1.0519
    """
    return vmf_renyi(1.0, dimension, concentration, angle)


def vmf_renyi_blocks(
    order: ArrayLike, dimensions: ArrayLike, concentrations: ArrayLike, angle: ArrayLike = np.pi
) -> np.ndarray:
    """Rényi divergence of independent von Mises-Fisher blocks whose directions differ.

    The sum over the blocks (Biswas et al. 2024, eq. 6 and Proposition 2). With the same
    concentration for every block, a single vector is the most private (Proposition 3). With
    concentrations proportional to the blocks' dimensions, for which the angular noise is the same,
    blocks and a single vector agree to first order.

    Parameters
    ----------
    order : array_like, shape (...)
        In (0, inf].
    dimensions, concentrations, angle : array_like, shape (..., blocks)
        As in :func:`vmf_renyi`; the last axis runs over the blocks.

    Returns
    -------
    ndarray or float, shape (...)
        Nats, >= 0.

    Raises
    ------
    ValueError
        If an argument is nan or out of its range, or ``dimensions`` is a scalar.

    Examples
    --------
    >>> from reconrisk import privacy
    >>> round(float(privacy.vmf_renyi_blocks(2.0, [400, 360], [10.0, 10.0])), 4)
    2.1038
    """
    p = check_dimension(dimensions)
    if p.ndim == 0:
        raise ValueError(f"dimensions must have a last axis over the blocks; got {dimensions!r}")
    a = arguments.real("order", order, 0, low_open=True)[..., None]
    return np.sum(vmf_renyi(a, p, concentrations, angle), axis=-1)[()]


def vmf_noise_multiplier(dimension: ArrayLike, concentration: ArrayLike) -> np.ndarray:
    """Noise multiplier of the Gaussian mechanism about as private as von Mises-Fisher noise.

    ``sqrt(p) / (2 kappa)``: between opposite directions the privacy loss depends on one coordinate,
    which in many dimensions is close to ``N(+-kappa/p, 1/p)``, so that the pair is about as hard to
    distinguish as ``N(0, 1)`` and ``N(2 kappa/sqrt(p), 1)``. An approximation for ``kappa`` far
    below ``p``, not a bound; :func:`vmf_epsilon` is exact.

    Parameters
    ----------
    dimension : array_like
        p, whole, in [2, 2e12].
    concentration : array_like
        kappa, in (0, 1e12].

    Returns
    -------
    ndarray or float
        > 0.

    Raises
    ------
    ValueError
        If an argument is nan or out of its range.

    Examples
    --------
    >>> from reconrisk import privacy
    >>> round(float(privacy.vmf_noise_multiplier(760, 20.0)), 4)
    0.6892
    """
    p = check_dimension(dimension)
    kappa = arguments.real("concentration", concentration, 0, MAX_CONCENTRATION, low_open=True)
    return (np.sqrt(p) / (2.0 * kappa))[()]

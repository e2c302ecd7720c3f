"""Activations of a two-layer network, and their Hermite coefficients.

For a standard normal ``z`` and the probabilists' Hermite polynomials, Stein's lemma gives
``E[s(z) He_k(z)] = E[s^(k)(z)]`` (Liu et al. 2024, Lemma B.3). This module computes the left-hand
side, which exists even where the derivative is not a function, as at the kink of a rectifier.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from types import MappingProxyType

import numpy as np
from numpy.polynomial import hermite_e
from scipy import special as sc

from reconrisk import arguments

__all__ = [
    "ACTIVATIONS",
    "Activation",
    "activation",
    "hermite_coefficient",
    "normal_mean",
    "tensor_orders",
]

Function = Callable[[np.ndarray], np.ndarray]

MAX_ORDER = 8
#: coefficients below this count as zero; the quadrature's error is a thousandth of it
VANISHING = 1e-11
# end of the quadrature; beyond it the normal density times He_8 times any activation is below 1e-30
_END = 14
_NODES = 24


@dataclass(frozen=True)
class Activation:
    """An activation function with its first two derivatives.

    Attributes
    ----------
    name : str
    value, slope, curvature : callable
        The function and its derivatives, from arrays to arrays of the same shape; at a kink the
        derivatives are those from the left.
    kinks : tuple of float
        Points where a derivative jumps.
    """

    name: str
    value: Function = field(repr=False)
    slope: Function = field(repr=False)
    curvature: Function = field(repr=False)
    kinks: tuple[float, ...] = ()


def activation(of: str | Activation) -> Activation:
    """Return the activation with a given name.

    Parameters
    ----------
    of : str or Activation
        A key of :data:`ACTIVATIONS`, or an activation, which is returned.

    Returns
    -------
    Activation

    Raises
    ------
    ValueError
        If :data:`ACTIVATIONS` has no such name.

    Examples
    --------
    >>> from reconrisk import special
    >>> special.activation('relu').name
    'relu'
    """
    if isinstance(of, Activation):
        return of
    return ACTIVATIONS[arguments.one_of("activation", of, tuple(ACTIVATIONS))]


def hermite_coefficient(of: str | Activation, order: int) -> float:
    """Return ``E[s(z) He_k(z)]``, the mean of the k-th derivative at a standard normal.

    Parameters
    ----------
    of : str or Activation
        s, growing no faster than a polynomial.
    order : int
        k, in [0, 8].

    Returns
    -------
    float
        Absolute error below 1e-13; exactly zero where the computed value is below 1e-11.

    Raises
    ------
    ValueError
        If the name is unknown or the order out of range.

    Notes
    -----
    Gauss-Legendre quadrature on intervals of length one that also end at the kinks: 700 values of
    s, cached for each activation and order.

    Examples
    --------
    >>> from reconrisk import special
    >>> round(float(special.hermite_coefficient('relu', 0)), 6)
    0.398942
    """
    k = arguments.count("order", order, 0, MAX_ORDER)
    return _coefficient(activation(of), k)


@lru_cache(maxsize=512)
def _coefficient(of: Activation, order: int) -> float:
    polynomial = [0.0] * order + [1.0]
    mean = normal_mean(lambda z: hermite_e.hermeval(z, polynomial) * of.value(z), of.kinks)
    return mean if abs(mean) >= VANISHING else 0.0


def normal_mean(function: Function, kinks: tuple[float, ...] = ()) -> float:
    """Return ``E[function(z)]`` for a standard normal ``z``.

    Parameters
    ----------
    function : callable
        From arrays to arrays of the same shape; smooth except at the kinks, growing no faster than
        a polynomial.
    kinks : tuple of float
        Points where a derivative of the function jumps.

    Returns
    -------
    float
        By Gauss-Legendre quadrature on intervals of length one; absolute error below 1e-13 if the
        values are of order one.
    """
    ends = np.unique([*np.arange(-_END, _END + 1.0), *kinks])
    nodes, weights = np.polynomial.legendre.leggauss(_NODES)
    half = 0.5 * np.diff(ends)[:, None]
    z = ends[:-1, None] + half * (nodes + 1.0)
    return float(np.sum(half * weights * _normal_density(z) * function(z)))


def tensor_orders(of: str | Activation) -> tuple[int, int]:
    """Return the orders of the moments that the tensor attack can use.

    The smallest ``k >= 2`` and ``k >= 3`` whose Hermite coefficients do not vanish (Liu et al.
    2024, Assumption B.1, k2 and k3); the attack exists for ``k2 <= 3`` and ``k3 <= 4``.

    Parameters
    ----------
    of : str or Activation
        Name of an activation, or the activation.

    Returns
    -------
    tuple of int
        (2, 3) for elu, selu and the shifted ones; (2, 4) for relu, leaky_relu, gelu, silu and
        softplus, which are z/2 plus an even function; (3, 3) for tanh and sigmoid, odd up to a
        constant.

    Raises
    ------
    ValueError
        If the name is unknown, or the coefficients of both orders 2 and 3, or 3 and 4, vanish, as
        for a linear or a quadratic activation.

    Examples
    --------
    >>> from reconrisk import special
    >>> special.tensor_orders('elu')
    (2, 3)
    """
    s = activation(of)
    second = next((k for k in (2, 3) if hermite_coefficient(s, k)), None)
    third = next((k for k in (3, 4) if hermite_coefficient(s, k)), None)
    if second is None or third is None:
        found = {k: hermite_coefficient(s, k) for k in (2, 3, 4)}
        raise ValueError(
            "activation must have a Hermite coefficient of order 2 or 3, and one of order 3 or 4, "
            f"that does not vanish; {s.name} has {found}"
        )
    return second, third


# The activations ---------------------------------------------------------------------------------


def _normal_density(z: np.ndarray) -> np.ndarray:
    return np.exp(-0.5 * z * z) / np.sqrt(2.0 * np.pi)


def _rectifier(name: str, slope_below: float, kink: float = 0.0) -> Activation:
    return Activation(
        name,
        lambda z: np.where(z > kink, z - kink, slope_below * (z - kink)),
        lambda z: np.where(z > kink, 1.0, slope_below),
        np.zeros_like,
        (kink,),
    )


def _exponential_linear(name: str, scale: float, alpha: float) -> Activation:
    below = scale * alpha
    return Activation(
        name,
        lambda z: np.where(z > 0, scale * z, below * np.expm1(np.minimum(z, 0.0))),
        lambda z: np.where(z > 0, scale, below * np.exp(np.minimum(z, 0.0))),
        lambda z: np.where(z > 0, 0.0, below * np.exp(np.minimum(z, 0.0))),
        (0.0,),
    )


def _logistic(name: str, scale: float, shift: float) -> Activation:
    def slope(z: np.ndarray) -> np.ndarray:
        p = sc.expit(scale * z + shift)
        return scale * p * (1.0 - p)

    def curvature(z: np.ndarray) -> np.ndarray:
        p = sc.expit(scale * z + shift)
        return scale**2 * p * (1.0 - p) * (1.0 - 2.0 * p)

    return Activation(name, lambda z: sc.expit(scale * z + shift), slope, curvature)


def _silu_slope(z: np.ndarray) -> np.ndarray:
    p = sc.expit(z)
    return p * (1.0 + z * (1.0 - p))


def _silu_curvature(z: np.ndarray) -> np.ndarray:
    p = sc.expit(z)
    return p * (1.0 - p) * (2.0 + z * (1.0 - 2.0 * p))


_ALL = (
    _exponential_linear("elu", 1.0, 1.0),
    # the constants of Klambauer et al. 2017, which preserve mean 0 and variance 1
    _exponential_linear("selu", 1.0507009873554805, 1.6732632423543772),
    _rectifier("relu", 0.0),
    _rectifier("leaky_relu", 0.2),
    _rectifier("relu_shifted", 0.0, 1.0),
    Activation(
        "gelu",
        lambda z: z * sc.ndtr(z),
        lambda z: sc.ndtr(z) + z * _normal_density(z),
        lambda z: (2.0 - z * z) * _normal_density(z),
    ),
    Activation("silu", lambda z: z * sc.expit(z), _silu_slope, _silu_curvature),
    Activation(
        "softplus",
        lambda z: np.logaddexp(0.0, z),
        sc.expit,
        lambda z: sc.expit(z) * sc.expit(-z),
    ),
    Activation(
        "tanh",
        np.tanh,
        lambda z: 1.0 - np.tanh(z) ** 2,
        lambda z: -2.0 * np.tanh(z) * (1.0 - np.tanh(z) ** 2),
    ),
    _logistic("sigmoid", 1.0, 0.0),
    _logistic("sigmoid_shifted", 2.0, 1.0),
    # He_2/2 + He_3/6: only the terms that the attack of orders (2, 3) uses
    Activation(
        "hermite",
        lambda z: (z * z - 1.0) / 2.0 + (z * z * z - 3.0 * z) / 6.0,
        lambda z: z + (z * z - 1.0) / 2.0,
        lambda z: 1.0 + z,
    ),
)

#: The activations by name; ``relu_shifted`` is relu(z - 1), ``sigmoid_shifted`` sigmoid(2 z + 1),
#: ``leaky_relu`` has slope 0.2 below zero, ``hermite`` is He_2/2 + He_3/6.
ACTIVATIONS = MappingProxyType({s.name: s for s in _ALL})

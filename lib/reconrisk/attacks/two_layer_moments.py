"""The tensor attack on two-layer networks: Liu et al. 2024, Section 3 and Appendix B.1.

The gradient of the output weight of neuron j is a function ``g(w_j) = sum_i r_i s(w_j.x_i)`` of
Gaussian weights that the attacker knows. By Stein's lemma its moments with Hermite polynomials are
sums of powers of the records ::

    P = (1/m) sum_j g_j (w_j w_j' - I)      ->  sum_i r_i E[s''] x_i x_i'
    T = (1/m) sum_j g_j H_3(w_j)(V, V, V)   ->  sum_i r_i E[s'''] (V'x_i) (x) (V'x_i) (x) (V'x_i)

with V the leading eigenvectors of P; the directions of the records are the components of T. Where a
mean derivative vanishes the next order takes its place, contracted with a known vector.

:func:`tensor_attack` with ``removed=0`` is the published attack. With ``removed=2`` the parts of g
that are constant and linear in w, which carry no signal in P and T but most of their noise, are
subtracted first, which is our improvement. :mod:`~reconrisk.attacks.two_layer_refinement` refines
its result.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import linalg

from reconrisk import arguments, special
from reconrisk.attacks._cp_decomposition import Cubes, decompose_cubes
from reconrisk.two_layer import Neurons, OutputGradient, TwoLayer

__all__ = [
    "GradientMoments",
    "TensorReconstruction",
    "gradient_moments",
    "project_tensor",
    "tensor_attack",
]

ORDERS = ((2, 3), (2, 4), (3, 3))
#: numbers in the largest array that the tensor's sum makes from a chunk
_SLICE_NUMBERS = 1 << 21


@dataclass(frozen=True)
class GradientMoments:
    """Moments of a released gradient with Hermite polynomials of its neurons' weights.

    Attributes
    ----------
    mean : float
        Mean of the released entries: order zero.
    linear : ndarray, shape (d,)
        Order one, of the centred entries: converges to ``sum_i r_i E[s'] x_i``.
    matrix : ndarray, shape (d, d)
        P: order two, or order three contracted with ``contraction``.
    contraction : ndarray, shape (d,)
        Unit vector along ``linear`` (or random, where that moment vanishes).
    order : int
        Order of the matrix, 2 or 3.
    removed : int
        Number of lowest orders subtracted from the gradient before P.
    """

    mean: float
    linear: np.ndarray
    matrix: np.ndarray
    contraction: np.ndarray
    order: int
    removed: int


@dataclass(frozen=True)
class TensorReconstruction:
    """The result of :func:`tensor_attack`.

    Attributes
    ----------
    inputs : ndarray, shape (B, d)
        Unit vectors in arbitrary order, with arbitrary signs unless ``signed``.
    span : ndarray, shape (B, d)
        Orthonormal rows: the eigenvectors of P.
    eigenvalues : ndarray, shape (B,)
        Of P, in decreasing absolute value. P is indefinite: residuals have both signs.
    weights : ndarray, shape (B,)
        Of the components of T.
    misfit : float
        Norm of the residual of T's decomposition, relative to the norm of T.
    signed : bool
        Whether the moments determine the signs of the records.
    orders : tuple of int
        Orders of P and T.
    """

    inputs: np.ndarray
    span: np.ndarray
    eigenvalues: np.ndarray
    weights: np.ndarray
    misfit: float
    signed: bool
    orders: tuple[int, int]


def tensor_attack(
    network: TwoLayer,
    released: OutputGradient,
    batch_size: int,
    *,
    orders: tuple[int, int] | None = None,
    removed: int = 2,
    seed: int = 0,
    pencils: int = 20,
    sweeps: int = 100,
) -> TensorReconstruction:
    """Reconstruct the directions of a batch's records from one gradient of the output weights.

    Parameters
    ----------
    network : TwoLayer
        The network; the attacker knows its inner weights.
    released : OutputGradient
        Local steps are ignored; only the released entries are used.
    batch_size : int
        B in [1, d].
    orders : tuple of int, optional
        Orders of P and T: (2, 3), (2, 4) or (3, 3); by default the first that the activation
        allows (:func:`reconrisk.special.tensor_orders`).
    removed : int
        Number of lowest orders subtracted first. 0: none, as published. 1: the mean of the
        gradient. 2: also its part linear in the weights. 3: for T, also its quadratic part within
        the span (orders (2, .) only).
    seed : int
        Seed of the decomposition's random pencils, and of a random contraction.
    pencils, sweeps : int
        Random starts and alternating sweeps of the decomposition.

    Returns
    -------
    TensorReconstruction

    Raises
    ------
    ValueError
        If an argument is out of range, or a required Hermite coefficient vanishes.

    Notes
    -----
    Cost: two passes over the neurons, or three where ``removed >= 2`` or a contraction is needed,
    of ``m d`` normal draws each; ``2 m d^2`` floating-point operations for P and
    ``2 m (d B + B^3)`` for T, in single precision with sums in double. Memory: a chunk of neurons,
    the m released values, d^2 and B^3. The chunk size affects the result by rounding only.
    """
    size = int(arguments.integer("batch_size", batch_size, 1, network.dimension))
    second, third = _orders(network, orders, removed)
    rng = np.random.default_rng([seed, 0x7E450])
    found = gradient_moments(
        network, released, second, removed=removed, contract=third == 4, rng=rng
    )
    values, vectors = linalg.eigh(found.matrix)
    leading = np.argsort(-np.abs(values), kind="stable")[:size]
    span = vectors[:, leading].T
    tensor = project_tensor(network, released, found, span, third, removed=removed)
    cubes = decompose_cubes(tensor, rng, pencils=pencils, sweeps=sweeps)
    signs = _signs(network.function, found, span, cubes, (second, third))
    inputs = (cubes.vectors * (1.0 if signs is None else signs[:, None])) @ span
    return TensorReconstruction(
        inputs,
        span,
        values[leading],
        cubes.weights,
        cubes.misfit,
        signs is not None,
        (second, third),
    )


def _orders(network: TwoLayer, orders: tuple[int, int] | None, removed: int) -> tuple[int, int]:
    """Return the orders of P and T, checked against the activation's Hermite coefficients."""
    s = network.function
    arguments.integer("removed", removed, 0, 3)
    chosen = special.tensor_orders(s) if orders is None else orders
    if chosen not in ORDERS:
        raise ValueError(f"orders must be one of {ORDERS}; got {chosen!r}")
    for k in chosen:
        if special.hermite_coefficient(s, k) == 0.0:
            raise ValueError(
                f"orders must have Hermite coefficients that do not vanish; that of order {k} does "
                f"for {s.name}: P or T would be noise alone (got {chosen!r})"
            )
    if removed == 3 and chosen[0] != 2:
        raise ValueError(f"removed must be at most 2 for orders {chosen}; got {removed}")
    return chosen


# Moments -----------------------------------------------------------------------------------------


def gradient_moments(
    network: TwoLayer,
    released: OutputGradient,
    order: int = 2,
    *,
    removed: int = 2,
    contract: bool = False,
    rng: np.random.Generator | None = None,
) -> GradientMoments:
    """Return the low moments of a released gradient, see :class:`GradientMoments`.

    Parameters
    ----------
    network, released, removed
        As in :func:`tensor_attack`.
    order : int
        Order of the matrix, 2 or 3.
    contract : bool
        Whether to compute the linear moment even if ``removed`` and ``order`` do not need it.
    rng : numpy.random.Generator, optional
        Draws the contraction if the activation's first Hermite coefficient vanishes.

    Returns
    -------
    GradientMoments

    Raises
    ------
    ValueError
        If the gradient does not fit the network, or an argument is out of range.

    Notes
    -----
    Cost: one pass over the neurons, or two if the linear moment is needed.
    """
    arguments.integer("order", order, 2, 3)
    arguments.integer("removed", removed, 0, 3)
    mean = float(released.seen.mean())
    linear = np.zeros(network.dimension)
    if removed >= 2 or contract or order == 3:
        for some, g in released.entries(network):
            linear += (g - mean).astype(np.float32) @ some.inner
        linear /= released.count
    length = float(np.linalg.norm(linear))
    contraction = linear / length if length > 0 else linear
    if special.hermite_coefficient(network.function, 1) == 0.0 and (contract or order == 3):
        drawn = (rng or np.random.default_rng(0)).standard_normal(network.dimension)
        contraction = drawn / np.linalg.norm(drawn)
    start = GradientMoments(mean, linear, np.zeros((0, 0)), contraction, order, removed)
    total = np.zeros((network.dimension, network.dimension))
    weight, along = 0.0, np.zeros(network.dimension)
    for some, g in released.entries(network):
        left = _subtract_low_orders(some, g, start)
        if order == 3:
            left = left * (some.inner @ contraction.astype(np.float32))
            along += _subtract_low_orders(some, g, start).astype(np.float32) @ some.inner
        total += (some.inner * left.astype(np.float32)[:, None]).T @ some.inner
        weight += float(left.sum())
    total[np.diag_indices(len(total))] -= weight
    if order == 3:
        mixed = np.outer(along, contraction)
        total -= mixed + mixed.T
    matrix = 0.5 * (total + total.T) / released.count
    return GradientMoments(mean, linear, matrix, contraction, order, removed)


def project_tensor(
    network: TwoLayer,
    released: OutputGradient,
    found: GradientMoments,
    span: np.ndarray,
    order: int = 3,
    *,
    removed: int = 2,
) -> np.ndarray:
    """Return the moment of order three, or of order four contracted once, in a subspace.

    Parameters
    ----------
    network, released, removed
        As in :func:`tensor_attack`.
    found : GradientMoments
        The parts to subtract, and the contraction.
    span : ndarray, shape (B, d)
        Orthonormal rows.
    order : int
        3 or 4.

    Returns
    -------
    ndarray, shape (B, B, B)
        Symmetric. Converges to ``sum_i r_i E[s^(k)] c_i^(x3)`` with ``c_i = V'x_i``, for k = 4 each
        term times ``a.x_i`` with the contraction a.

    Notes
    -----
    Cost: one pass over the neurons.
    """
    arguments.integer("order", order, 3, 4)
    count = len(span)
    basis = span.T.astype(np.float32)
    inner_matrix = span @ found.matrix @ span.T
    contraction = found.contraction.astype(np.float32)
    cubes = np.zeros((count, count * count))
    squares, firsts, total = np.zeros((count, count)), np.zeros(count), 0.0
    for chunk, g in released.entries(network):
        left = _subtract_low_orders(chunk, g, found)
        for some in chunk.split(max(1, _SLICE_NUMBERS // (count * count))):
            part = left[some.where.start - chunk.where.start :][: len(some.outer)]
            u = some.inner @ basis
            if removed == 3:
                quadratic = np.einsum("na,na->n", u @ inner_matrix, u) - np.trace(inner_matrix)
                part = part - 0.5 * quadratic
            weighted = u * part.astype(np.float32)[:, None]
            if order == 4:
                squares += weighted.T @ u
                total += float(part.sum())
                weighted = weighted * (some.inner @ contraction)[:, None]
            firsts += weighted.sum(axis=0, dtype=float)
            cubes += weighted.T @ (u[:, :, None] * u[:, None, :]).reshape(len(u), -1)
    tensor = cubes.reshape(count, count, count) - _symmetric(firsts[:, None, None], np.eye(count))
    if order == 4:
        c = span @ found.contraction
        tensor -= _symmetric(c[:, None, None], squares)
        tensor += total * _symmetric(c[:, None, None], np.eye(count))
    turns = ((0, 1, 2), (1, 2, 0), (2, 0, 1))
    return np.asarray(sum(tensor.transpose(t) for t in turns)) / (3.0 * released.count)


def _symmetric(vector: np.ndarray, matrix: np.ndarray) -> np.ndarray:
    """Symmetrised outer product of a vector and a symmetric matrix: the sum of three terms."""
    product = vector * matrix[None]
    return product + product.transpose(1, 0, 2) + product.transpose(1, 2, 0)


def _subtract_low_orders(some: Neurons, values: np.ndarray, found: GradientMoments) -> np.ndarray:
    """Subtract the mean and the linear part, as far as ``found.removed`` asks."""
    left = values - found.mean if found.removed >= 1 else values
    if found.removed >= 2:
        left = left - some.inner @ found.linear.astype(np.float32)
    return left


def _signs(
    s: special.Activation,
    found: GradientMoments,
    span: np.ndarray,
    cubes: Cubes,
    orders: tuple[int, int],
) -> np.ndarray | None:
    """Return the components' signs, or None where the moments do not determine them.

    P gives the sign of every residual. With it the component of T, if it is of order three, or the
    linear moment, distinguishes a record from its negative.
    """
    if orders[0] != 2:
        return None
    v = cubes.vectors
    inner = np.einsum("ia,ab,ib->i", v, span @ found.matrix @ span.T, v)
    residuals = np.linalg.lstsq((v @ v.T) ** 2, inner, rcond=1e-12)[0]
    residuals = residuals / special.hermite_coefficient(s, 2)
    if orders[1] == 3:
        third = special.hermite_coefficient(s, 3)
        return np.where(cubes.weights * residuals * third < 0, -1.0, 1.0)
    first = special.hermite_coefficient(s, 1)
    if not first:
        return None
    linear = np.linalg.lstsq(v.T, span @ found.linear, rcond=1e-12)[0]
    return np.where(linear * residuals * first < 0, -1.0, 1.0)

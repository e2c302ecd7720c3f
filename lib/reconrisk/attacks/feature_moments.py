"""The inputs of a classifier's wide layer, from the gradient of its head (Liu et al., Appendix F).

The last v neurons of the wide layer have standard normal weights and no bias, so the gradient of
the head's weights from them is, class by class, that of a two-layer network ::

    dL/dA_kj = sum_i r_ki s(w_j.z_i)

with the inputs z of the wide layer, the *features*, in place of records. Their moments give the
features up to scale and sign. The paper applies the tensor attack to one such row
(:func:`~reconrisk.attacks.tensor_attack`, ``method="tensor"``). Because the residuals r of the
softmax add up to zero over the classes, that row must be a weighted sum.

Our ``method="classes"`` uses all rows: the matrices P of order two of whitened combinations of them
share the components ``z_i z_i'`` and differ in the weights, so they can be decomposed jointly. If
labels differ, no tensor of higher order, which is far noisier, is needed.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import torch

from reconrisk import arguments, special
from reconrisk.attacks._cp_decomposition import decompose_jointly
from reconrisk.attacks.independent_components import row_space
from reconrisk.attacks.two_layer_moments import gradient_moments, tensor_attack
from reconrisk.convnets import WideHead
from reconrisk.mechanisms import Released
from reconrisk.two_layer import LocalSteps, Neurons, OutputGradient, TwoLayer

__all__ = ["recover_feature_span", "recover_features"]

METHODS = ("classes", "tensor")
SPANS = ("moments", "layer")
#: singular value, relative to the largest, below which combinations of the rows are rounding
_RANK_TOLERANCE = 1e-5


def recover_features(
    network: WideHead,
    released: Released,
    count: int,
    *,
    neurons: int,
    method: str = "classes",
    span: str = "moments",
    removed: int = 2,
    whitened: bool = True,
    seed: int = 0,
) -> torch.Tensor:
    """Recover the features of each batch, up to order, scale and sign.

    Parameters
    ----------
    network : WideHead
        With a wide layer.
    released : Released
        P updates. Entries masked by ``released.visible`` are left out of means.
    count : int
        n, the batch size, in [1, f]; also n <= v.
    neurons : int
        v, the number of last neurons with random weights
        (:func:`~reconrisk.convnets.randomise_neurons`).
    method : {"classes", "tensor"}
        Joint decomposition of all rows of the head's gradient, or the published attack on their sum
        weighted by the class numbers 1, 2, ...
    span : {"moments", "layer"}
        Source of the features' span: the moments, as published, or the gradient of the wide layer's
        own weights, whose rows span it (exact without a defence). With ``"classes"`` only.
    removed : int
        Number of lowest Hermite orders subtracted first: 0 (as published) to 2.
    whitened : bool
        Whether to whiten the neurons' weights by their empirical second moment first, so that their
        chance correlations add no noise. False: as published.
    seed : int
        Seed of the decomposition's random starts.

    Returns
    -------
    Tensor, shape (P, n, f)
        Unit vectors, of the gradient's type and device.

    Raises
    ------
    ValueError
        If there is no wide layer, an argument is out of its range, or the head's gradient is zero
        throughout.

    Notes
    -----
    Cost per problem: ``min(n, K - 1)`` matrices of ``2 v f^2`` operations on the CPU, in single
    precision with double sums, then a decomposition of ``n^4``; memory ``K v + n f^2``.
    Without noise the mean distance of the features from the recovered span is about
    ``0.85 sqrt(f / v)`` for ReLU while n < K, and ``1.3 sqrt(f / v)`` without whitening.
    """
    arguments.one_of("method", method, METHODS)
    arguments.one_of("span", span, SPANS)
    given, back, rows = _random_neurons(network, released, neurons, whitened)
    size = int(arguments.integer("count", count, 1, min(given.dimension, neurons)))
    found = []
    for number, (values, kept) in enumerate(rows):
        if method == "tensor":
            weights = np.arange(1, len(values) + 1)
            one = _as_output_gradient(weights @ values)
            inputs = tensor_attack(given, one, size, removed=removed, seed=seed).inputs
        else:
            moments = _class_moments(given, values, kept, size, removed)
            basis = _leading(moments, size)
            if span == "layer":
                layer = released.gradient["wide.weight"][number : number + 1].double()
                # change to the coordinates of the whitened weights
                whole = layer @ torch.linalg.inv(torch.as_tensor(back, device=layer.device))
                basis = row_space(whole, size)[0].cpu().numpy()
            slices = basis @ moments @ basis.T
            parts = decompose_jointly(slices, np.random.default_rng([seed, 0xFEA7]))
            inputs = parts @ basis
        found.append(inputs @ back)
    unit = [rows / np.linalg.norm(rows, axis=1, keepdims=True) for rows in found]
    return _to_tensor(np.stack(unit), released)


def recover_feature_span(
    network: WideHead,
    released: Released,
    count: int,
    *,
    neurons: int,
    removed: int = 2,
    whitened: bool = True,
) -> torch.Tensor:
    """Recover the span of each batch's features from the moments of order two.

    Parameters
    ----------
    network, released, count, neurons, removed, whitened
        As in :func:`recover_features`.

    Returns
    -------
    Tensor, shape (P, n, f)
        Orthonormal rows.

    Raises
    ------
    ValueError
        As in :func:`recover_features`.
    """
    given, back, rows = _random_neurons(network, released, neurons, whitened)
    size = int(arguments.integer("count", count, 1, min(given.dimension, neurons)))
    found = [
        _leading(_class_moments(given, values, kept, size, removed), size) @ back
        for values, kept in rows
    ]
    return _to_tensor(np.linalg.svd(np.stack(found), full_matrices=False)[2], released)


@dataclass(frozen=True)
class _GivenNeurons(TwoLayer):
    """A two-layer network whose inner weights are given, not drawn."""

    weights: np.ndarray = field(default_factory=lambda: np.zeros((1, 1), np.float32), repr=False)

    def neurons(self):
        """Yield all neurons, chunk by chunk."""
        step = max(1, (1 << 20) // self.dimension)
        for start in range(0, self.width, step):
            part = self.weights[start : start + step]
            yield Neurons(slice(start, start + len(part)), part, np.ones(len(part)) / self.width)


_Rows = list[tuple[np.ndarray, np.ndarray]]


def _random_neurons(
    network: WideHead, released: Released, neurons: int, whitened: bool
) -> tuple[_GivenNeurons, np.ndarray, _Rows]:
    """Set up the moments.

    Returns the random neurons as a two-layer network; the matrix (f, f) that maps its inputs, as
    rows, to features; each problem's rows (K, v) and the mask of their visible entries.
    """
    if getattr(network, "wide", None) is None:
        raise ValueError("network must have a wide layer")
    assert network.wide is not None
    arguments.integer("neurons", neurons, 1, len(network.wide.weight))
    arguments.integer("problems", len(released), 1)
    inner = network.wide.weight[-neurons:].detach().cpu().numpy().astype(np.float32)
    back = np.eye(inner.shape[1])
    if whitened:
        if neurons <= inner.shape[1]:
            raise ValueError(
                f"neurons must be more than the {inner.shape[1]} features to be whitened; "
                f"got {neurons}"
            )
        # with w = L u for white u, w.z = u.(L'z)
        second = inner.astype(float).T @ inner / neurons
        back = np.linalg.inv(np.linalg.cholesky(second))
        inner = (inner @ back.T).astype(np.float32)
    name = getattr(network.activation, "__name__", "relu")
    given = _GivenNeurons(inner.shape[1], neurons, special.activation(name), weights=inner)
    head = released.gradient["head.weight"][:, :, -neurons:].detach().double().cpu().numpy()
    if not np.all(np.isfinite(head)):
        raise ValueError("released must be finite")
    if not np.all(np.any(head, axis=(1, 2))):
        raise ValueError("released must contain the head's gradient; that of some problem is zero")
    kept = np.ones(head.shape, dtype=bool)
    if released.visible is not None:
        kept &= released.visible["head.weight"][:, :, -neurons:].cpu().numpy()
    if released.units is not None:
        kept &= (released.units[:, None, -neurons:] > 0).cpu().numpy()
    return given, back, list(zip(head, kept, strict=True))


def _as_output_gradient(values: np.ndarray) -> OutputGradient:
    return OutputGradient(values, None, None, LocalSteps(), np.zeros(1), 0.0)


def _class_moments(
    given: _GivenNeurons, values: np.ndarray, kept: np.ndarray, count: int, removed: int
) -> np.ndarray:
    """Matrices P (q, f, f) of uncorrelated combinations of the head's rows, each of mean square 1.

    A common part dominates most rows. Whitening keeps the directions that distinguish records above
    the noise of that part.
    """
    arguments.integer("removed", removed, 0, 2)
    left = np.where(kept, values, 0.0)
    share = np.maximum(kept.sum(axis=1, keepdims=True), 1)
    if removed >= 1:
        left = np.where(kept, left - left.sum(axis=1, keepdims=True) / share, 0.0)
    if removed >= 2:
        linear = (left @ given.weights) / share
        left = np.where(kept, left - linear @ given.weights.T, 0.0)
    _, sizes, directions = np.linalg.svd(left, full_matrices=False)
    # the residuals of the softmax add up to zero over the classes
    most = min(count, max(1, len(values) - 1), int((sizes > _RANK_TOLERANCE * sizes[0]).sum()))
    order = special.tensor_orders(given.function)[0]
    return np.stack(
        [
            gradient_moments(
                given, _as_output_gradient(row * np.sqrt(len(row))), order, removed=removed
            ).matrix
            for row in directions[:most]
        ]
    )


def _leading(moments: np.ndarray, count: int) -> np.ndarray:
    """Orthonormal rows (count, f): leading eigenvectors of the sum of squared matrices."""
    _, vectors = np.linalg.eigh(np.einsum("qab,qcb->ac", moments, moments))
    return vectors[:, ::-1][:, :count].T


def _to_tensor(found: np.ndarray, released: Released) -> torch.Tensor:
    like = released.gradient["head.weight"]
    return torch.as_tensor(found, dtype=like.dtype, device=like.device)

"""The cocktail party attack: a linear layer's inputs as independent components of its gradient.

Kariyappa et al. 2023; Liu et al., Section 4.1. The gradient of a linear layer is a sum of outer
products, ``dL/dW = sum_i delta_i x_i^T``: each row is a mixture of the batch's inputs. Their span
is exact (:func:`row_space`). To separate them the attack assumes that the values of different
inputs are independent, which holds poorly for images of one kind.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
from torch import nn

from reconrisk import arguments
from reconrisk.attacks._interface import Knowledge
from reconrisk.attacks._inversion_problem import Inversion
from reconrisk.attacks.deep_inversion import Objective, invert_updates
from reconrisk.mechanisms import Released

__all__ = ["Components", "component_attack", "row_space", "stretch", "unmix"]


@dataclass(frozen=True)
class Components:
    """The result of :func:`unmix`.

    Attributes
    ----------
    sources : Tensor, shape (P, n, d), float64
        The components, with variance one over their d values and non-negative mean, in arbitrary
        order. They are not centred.
    converged : Tensor of bool, shape (P,)
        Whether the iteration converged.
    """

    sources: torch.Tensor
    converged: torch.Tensor


def row_space(mixtures: torch.Tensor, count: int) -> torch.Tensor:
    """Return an orthonormal basis of the n strongest directions of the rows, shape (P, n, d).

    Parameters
    ----------
    mixtures : Tensor, shape (P, rows, d)
        A linear layer's gradients; without a defence, the basis spans the batch's inputs exactly.
    count : int
        n, 1 to ``min(rows, d)``.
    """
    _check_mixtures(mixtures, count)
    return torch.linalg.svd(mixtures.double(), full_matrices=False).Vh[:, :count]


def unmix(
    mixtures: torch.Tensor,
    count: int,
    *,
    generator: torch.Generator,
    iterations: int = 500,
    tolerance: float = 1e-8,
) -> Components:
    """Find n independent components of each layer's gradient by whitening and FastICA.

    All components together, with the hyperbolic tangent as nonlinearity and symmetric
    decorrelation (Hyvärinen 1999). Kariyappa et al. descend a negentropy of the same kind by
    gradients instead; their published code sets that term to zero after computing it.

    Parameters
    ----------
    mixtures : Tensor, shape (P, rows, d)
    count : int
        n, at least 1, at most ``min(rows, d - 1)``.
    generator : torch.Generator
        Source of the initial rotation.
    iterations : int
        Most iterations.
    tolerance : float
        The iteration has converged when no direction changes by more than this in cosine.

    Returns
    -------
    Components

    Raises
    ------
    ValueError
        If shapes do not fit or the centred rows span fewer than n directions.

    Notes
    -----
    Cost: the mixtures' singular value decomposition (``rows d min(rows, d)`` multiplications), then
    ``2 n^2 d`` an iteration, in double precision.
    """
    _check_mixtures(mixtures, count)
    arguments.integer("iterations", iterations, 1)
    arguments.real("tolerance", tolerance, 0, low_open=True)
    rows = mixtures.double()
    values = rows.shape[2]
    left, sizes, right = torch.linalg.svd(rows - rows.mean(dim=2, keepdim=True), False)
    if count > sizes.shape[1] or bool((sizes[:, count - 1] <= 1e-12 * sizes[:, 0]).any()):
        raise ValueError(f"mixtures must span {count} directions after centring")
    white = math.sqrt(values) * right[:, :count]
    # one initial rotation for all, so that results do not depend on the number of problems
    drawn = torch.randn((count, count), generator=generator, device=rows.device, dtype=rows.dtype)
    rotation = _decorrelate(drawn).expand(len(rows), -1, -1)
    converged = torch.zeros(len(rows), dtype=torch.bool, device=rows.device)
    for _ in range(iterations):
        responses = torch.tanh(rotation @ white)
        curvature = (1 - responses.square()).mean(dim=2)
        updated = _decorrelate(responses @ white.mT / values - curvature[..., None] * rotation)
        cosines = (updated * rotation).sum(dim=2).abs()
        rotation = updated
        converged = (1 - cosines).amax(dim=1) < tolerance
        if bool(converged.all()):
            break
    # apply the unmixing to the rows before centring, so that components keep their means
    unmixing = rotation @ (math.sqrt(values) / sizes[:, :count, None] * left[:, :, :count].mT)
    sources = unmixing @ rows
    sign = torch.where(sources.mean(dim=2, keepdim=True) < 0, -1.0, 1.0)
    return Components(sources * sign, converged)


def stretch(sources: torch.Tensor, low: float = 0.0, high: float = 1.0) -> torch.Tensor:
    """Return each component of ``sources`` (..., d), mapped linearly onto [low, high]."""
    if not low < high:
        raise ValueError(f"low must be below high; got {low!r} and {high!r}")
    least, most = sources.amin(dim=-1, keepdim=True), sources.amax(dim=-1, keepdim=True)
    return low + (high - low) * (sources - least) / (most - least)


def component_attack(
    network: nn.Module,
    released: Released,
    knowledge: Knowledge,
    *,
    generator: torch.Generator,
    layer: str = "wide.weight",
    objective: Objective | None = None,
    **settings,
) -> Inversion:
    """Recover the inputs of a linear layer as independent components, then invert the features.

    If the layer is the network's first, its inputs are the images and need no inversion. Directions
    that a defence removed from the layer's gradient are replaced by random ones.

    Parameters
    ----------
    network, released, knowledge, generator
        As in :func:`~reconrisk.attacks.invert_updates`; recovered features replace
        ``knowledge.features``.
    layer : str
        The name of the linear layer's weights.
    objective : Objective, optional
        Objective of the inversion of features. By default the features' squared cosines, with the
        paper's relative weights of the other terms and no distance of updates. Not used if the
        layer is the first.
    **settings
        Further arguments of :func:`~reconrisk.attacks.invert_updates`.

    Returns
    -------
    Inversion
        Without an inversion of features, ``loss`` is 0 where unmixing converged and 1 where it did
        not, and the records are in arbitrary order.

    Raises
    ------
    ValueError
        If there is no such layer, or as in :func:`unmix`.
    """
    weight = released.gradient.get(layer)
    if weight is None or weight.ndim != 3:
        raise ValueError(f"layer must name a linear layer's weights; got {layer!r}")
    count = knowledge.labels.shape[1]
    found = unmix(_make_full_rank(weight, generator), count, generator=generator)
    sources = found.sources.to(weight.dtype)
    if weight.shape[2] == math.prod(knowledge.shape):
        records = stretch(sources).unflatten(2, knowledge.shape)
        return Inversion(records, 1 - found.converged.to(weight.dtype))
    if objective is None:
        objective = Objective(gradient=0.0, features=1.0, total_variation=0.1)
    known = replace(knowledge, features=sources)
    return invert_updates(
        network, released, known, generator=generator, objective=objective, **settings
    )


def _make_full_rank(weight: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Make a gradient full rank, by adding noise far below the rounding of single precision."""
    whole = weight.double()
    size = whole.abs().amax(dim=(1, 2), keepdim=True)
    drawn = torch.randn(whole.shape, generator=generator, device=whole.device, dtype=whole.dtype)
    return whole + 1e-10 * torch.where(size > 0, size, 1.0) * drawn


def _check_mixtures(mixtures: torch.Tensor, count: int) -> None:
    if mixtures.ndim != 3:
        raise ValueError(f"mixtures must have shape (P, rows, d); got {tuple(mixtures.shape)}")
    arguments.integer("count", count, 1, min(mixtures.shape[1:]))
    if not bool(torch.isfinite(mixtures).all()):
        raise ValueError("mixtures must be finite")


def _decorrelate(matrix: torch.Tensor) -> torch.Tensor:
    """Return the nearest orthogonal matrices."""
    left, _, right = torch.linalg.svd(matrix)
    return left @ right

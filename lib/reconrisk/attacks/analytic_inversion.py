"""Analytic inversion as an attack on any network with a linear layer (papers A and B; Liu et al.).

The gradient of a linear layer's weights is the gradient of its biases times its input: for one
record their ratio is the input, whatever follows the layer. :mod:`~reconrisk.attacks.analytic` has
the estimators under DP-SGD and their distributions; this module has the common interface of the
attacks on clients' updates.
"""

from __future__ import annotations

import math
from dataclasses import replace

import torch
from torch import nn

from reconrisk.attacks._interface import Knowledge
from reconrisk.attacks._inversion_problem import Inversion
from reconrisk.attacks.deep_inversion import Objective, invert_updates
from reconrisk.mechanisms import Released

__all__ = ["analytic_attack", "layer_ratio"]


def layer_ratio(weights: torch.Tensor, biases: torch.Tensor) -> torch.Tensor:
    """Return the least-squares ratio of a linear layer's gradients, shape (P, d).

    ``sum_j b_j W_j / sum_j b_j^2``, the record x of the closest gradient ``W_j = b_j x``. For a
    batch of one record it is exact if some bias gradient is not zero; for several records it is a
    weighted mean. Zero where all bias gradients are zero.

    Parameters
    ----------
    weights : Tensor, shape (P, rows, d)
    biases : Tensor, shape (P, rows)

    Raises
    ------
    ValueError
        If shapes do not fit.

    Notes
    -----
    *From Mean to Extreme*, eq. (8), has the ratio of one row, which is heavy-tailed under noise;
    weighting the rows by their squared bias gradients makes it less so. Cost: ``rows d``
    multiplications a problem.
    """
    if weights.ndim != 3 or weights.shape[:2] != biases.shape:
        raise ValueError(
            "weights and biases must have shapes (P, rows, d) and (P, rows); "
            f"got {tuple(weights.shape)} and {tuple(biases.shape)}"
        )
    # scale first: squares of small gradients would underflow
    size = biases.abs().amax(dim=1, keepdim=True)
    share = biases / torch.where(size > 0, size, 1.0)
    weighted = (share[:, :, None] * weights).sum(dim=1)
    divisor = share.square().sum(dim=1, keepdim=True) * size
    return torch.where(divisor > 0, weighted / torch.where(divisor > 0, divisor, 1.0), 0.0)


def analytic_attack(
    network: nn.Module,
    released: Released,
    knowledge: Knowledge,
    *,
    generator: torch.Generator | None = None,
    layer: str = "imprint",
    box: tuple[float, float] | None = (0.0, 1.0),
    objective: Objective | None = None,
    **settings,
) -> Inversion:
    """Divide a linear layer's weight gradient by its bias gradient.

    All records of a batch get the same reconstruction: exact at batch size one, a weighted mean of
    the records above. If the layer's input is not the record, the recovered features are inverted.

    Parameters
    ----------
    network, released, knowledge
        As in :func:`~reconrisk.attacks.invert_updates`; the defence is not accounted for.
    generator : torch.Generator, optional
        Source of the initial candidates; not used if the layer is the network's first.
    layer : str
        The name of a linear layer with biases.
    box : tuple of float, optional
        Range of the values, to which records are clipped.
    objective : Objective, optional
        Of the inversion of features; by default their squared cosine and a little total variation.
    **settings
        Further arguments of :func:`~reconrisk.attacks.invert_updates` for that inversion.

    Returns
    -------
    Inversion
        Without an inversion of features, ``loss`` is the share of the layer's gradient that no
        single record explains, in [0, 1].

    Raises
    ------
    ValueError
        If there is no such layer, or its input is not the record and there is no generator.
    """
    try:
        weights, biases = released.gradient[f"{layer}.weight"], released.gradient[f"{layer}.bias"]
    except KeyError:
        raise ValueError(
            f"layer must name a linear layer with biases of the network; got {layer!r}"
        ) from None
    found = layer_ratio(weights, biases)
    problems, count = knowledge.labels.shape
    if weights.shape[2] == math.prod(knowledge.shape):
        unexplained = (weights - biases[:, :, None] * found[:, None]).square().sum(dim=(1, 2))
        whole = weights.square().sum(dim=(1, 2))
        loss = unexplained / torch.where(whole > 0, whole, 1.0)
        records = found if box is None else found.clamp(*box)
        shape = (problems, count, *knowledge.shape)
        return Inversion(records.view(problems, 1, *knowledge.shape).expand(shape), loss)
    if generator is None:
        raise ValueError("generator must be given where the layer's input is not the record")
    if objective is None:
        objective = Objective(gradient=0.0, features=1.0, total_variation=0.1)
    features = found[:, None].expand(-1, count, -1)
    known = replace(knowledge, features=features)
    return invert_updates(
        network, released, known, generator=generator, objective=objective, box=box, **settings
    )

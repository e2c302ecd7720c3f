"""Updates of many clients of federated learning at once, under a defence."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import torch
from torch import nn
from torch.func import functional_call, grad, vmap
from torch.nn import functional

from reconrisk import arguments
from reconrisk.mechanisms import (
    Defence,
    Gradient,
    LocalAggregation,
    Released,
    changes_of_training,
    defend,
)

__all__ = [
    "UpdateOf",
    "client_updates",
    "local_update",
    "traced_update_function",
    "update_function",
]

UpdateOf = Callable[[torch.Tensor, torch.Tensor, torch.Tensor | None], Gradient]
TracedUpdateOf = Callable[[torch.Tensor, torch.Tensor, torch.Tensor | None], tuple[Gradient, Any]]
Auxiliary = TypeVar("Auxiliary")


def local_update(
    gradient_at: Callable[[Gradient], tuple[Gradient, Auxiliary]],
    first: Gradient,
    local: LocalAggregation | None,
) -> tuple[Gradient, Auxiliary]:
    """Return the mean gradient over local steps, and the auxiliary value of the first.

    Parameters
    ----------
    gradient_at : callable
        Maps weights to the gradient there and an auxiliary value.
    first : Gradient
        Initial weights.
    local : LocalAggregation or None
        None for the gradient at ``first``.
    """
    total, auxiliary = gradient_at(first)
    if local is None:
        return total, auxiliary
    weights, step = first, total
    for _ in range(local.steps - 1):
        weights = {name: w - local.learning_rate * step[name] for name, w in weights.items()}
        step, _ = gradient_at(weights)
        total = {name: t + step[name] for name, t in total.items()}
    return {name: t / local.steps for name, t in total.items()}, auxiliary


def update_function(network: nn.Module, local: LocalAggregation | None = None) -> UpdateOf:
    """Return the function that maps a batch to its client's update, without side effects.

    Parameters
    ----------
    network : Module
        Called with a batch of images, and with the neurons' factors if there are any; returns
        outputs (n, classes). Its weights are the client's initial weights.
    local : LocalAggregation, optional
        Local steps of the client; one by default.

    Returns
    -------
    callable
        Maps images (n, ...), integer labels (n,) and factors (neurons,) or None to the gradient of
        the mean cross-entropy, or the mean gradient over the local steps. It works under ``vmap``
        and is differentiable in the images.
    """
    traced = _update_and_trace(network, local, {}, lambda outputs: outputs)
    return lambda images, labels, units: traced(images, labels, units)[0]


def traced_update_function(
    network: nn.Module, local: LocalAggregation | None = None
) -> TracedUpdateOf:
    """Return :func:`update_function` with the trace of the first forward pass beside the update.

    Parameters
    ----------
    network : WideHead
    local : LocalAggregation, optional

    Returns
    -------
    callable
        Maps the same arguments to the update and a :class:`~reconrisk.convnets.Trace`, for the
        cost of the update.
    """
    return _update_and_trace(network, local, {"trace": True}, lambda trace: trace.outputs)


def _update_and_trace(
    network: nn.Module,
    local: LocalAggregation | None,
    keywords: dict[str, bool],
    outputs_of: Callable[[Any], torch.Tensor],
) -> TracedUpdateOf:
    first = {name: p.detach() for name, p in network.named_parameters()}
    buffers = dict(network.named_buffers())

    def loss(
        weights: Gradient, images: torch.Tensor, labels: torch.Tensor, units: torch.Tensor | None
    ) -> tuple[torch.Tensor, Any]:
        arguments = (images,) if units is None else (images, units)
        found = functional_call(network, {**weights, **buffers}, arguments, keywords)
        return functional.cross_entropy(outputs_of(found), labels), found

    gradient_at = grad(loss, has_aux=True)

    def update(
        images: torch.Tensor, labels: torch.Tensor, units: torch.Tensor | None
    ) -> tuple[Gradient, Any]:
        return local_update(lambda w: gradient_at(w, images, labels, units), first, local)

    return update


def client_updates(
    network: nn.Module,
    images: torch.Tensor,
    labels: torch.Tensor,
    defence: Defence = (),
    *,
    generator: torch.Generator,
    block: int | None = None,
) -> Released:
    """Return the updates of P clients that the server receives under a defence.

    Parameters
    ----------
    network : Module
        As in :func:`update_function`; with a layer ``wide`` where neurons are dropped.
    images : Tensor, shape (P, n, ...)
    labels : Tensor of integers, shape (P, n)
    defence : sequence
        Defences of :mod:`reconrisk.mechanisms`, in the order of their application.
    generator : torch.Generator
        Source of masks and noise, on the images' device.
    block : int, optional
        Batches differentiated together; all by default. Affects results by rounding only.

    Returns
    -------
    Released

    Raises
    ------
    ValueError
        If shapes do not fit, or the defence drops neurons and the network has no wide layer.

    Notes
    -----
    Memory: block times the number of parameters, and the activations.
    """
    if images.ndim < 3 or labels.shape != images.shape[:2] or labels.is_floating_point():
        raise ValueError(
            "images and labels must have shapes (P, n, ...) and (P, n), labels of integers; "
            f"got {tuple(images.shape)} and {tuple(labels.shape)}"
        )
    dropout, local = changes_of_training(defence)
    units = None
    if dropout is not None:
        wide = getattr(network, "wide", None)
        if wide is None:
            raise ValueError("network must have a wide layer whose neurons can be dropped")
        units = dropout.draw(len(images), len(wide.weight), generator).to(wide.weight.dtype)
    size = len(images) if block is None else block
    arguments.integer("block", size, 1)
    update = update_function(network, local)
    mapped = vmap(update, in_dims=(0, 0, None if units is None else 0))
    parts = []
    for low in range(0, len(images), size):
        chosen = slice(low, low + size)
        parts.append(
            mapped(images[chosen], labels[chosen], None if units is None else units[chosen])
        )
    gradient = {name: torch.cat([part[name] for part in parts]) for name in parts[0]}
    return defend(Released(gradient, units=units, local=local), defence, generator=generator)

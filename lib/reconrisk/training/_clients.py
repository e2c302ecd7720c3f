"""Updates of many clients of federated learning at once, under a defence."""

from __future__ import annotations

from collections.abc import Callable, Iterable
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
from reconrisk.training._networks import (
    Loss,
    check_labels,
    outputs_of,
    plain_attention,
    prepare,
    state_of,
    trainable,
)

__all__ = ["UpdateOf", "client_updates", "local_update", "update_and_trace", "update_function"]

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


def update_function(
    network: nn.Module, local: LocalAggregation | None = None, *, loss: Loss | None = None
) -> UpdateOf:
    """Return the function that maps a batch to its client's update, without side effects.

    Parameters
    ----------
    network : Module
        Called with a batch of images, and with the neurons' factors if there are any; returns
        outputs (n, ...), or an object with them as ``logits``. Its weights are the client's initial
        weights; those that are frozen (``requires_grad=False``) stay.
    local : LocalAggregation, optional
        Local steps of the client; one by default.
    loss : callable, optional
        Maps outputs and labels to a scalar; by default the mean cross-entropy.

    Returns
    -------
    callable
        Maps images (n, ...), labels (n, ...) and factors (neurons,) or None to the gradient of the
        loss, or the mean gradient over the local steps. It works under ``vmap`` and is
        differentiable in the images.

    Raises
    ------
    ValueError
        If a layer draws at random in training mode; the message names it.
    """
    traced = update_and_trace(network, local, loss)
    return lambda images, labels, units: traced(images, labels, units)[0]


def update_and_trace(
    network: nn.Module,
    local: LocalAggregation | None = None,
    loss: Loss | None = None,
    *,
    names: Iterable[str] | None = None,
    trace: bool = False,
    eager: bool = False,
) -> TracedUpdateOf:
    """Return :func:`update_function` with what the first forward pass returned beside the update.

    Parameters
    ----------
    network, local, loss
        As there.
    names : iterable of str, optional
        The parameters whose gradient is wanted; those that are not frozen by default.
    trace : bool
        Whether the network is a ``WideHead`` that is asked for its ``Trace``.
    eager : bool
        Whether to differentiate by plain autograd, which is faster for one batch and does not work
        under ``vmap``.
    """
    network = prepare(network)
    first, fixed = state_of(network, trainable(network) if names is None else names)
    keywords = {"trace": True} if trace else {}
    measure = functional.cross_entropy if loss is None else loss

    def loss_of(
        weights: Gradient, images: torch.Tensor, labels: torch.Tensor, units: torch.Tensor | None
    ) -> tuple[torch.Tensor, Any]:
        arguments = (images,) if units is None else (images, units)
        with plain_attention():
            # a call of the network itself costs less than one with other weights in their place
            found = (
                network(*arguments, **keywords)
                if weights is own
                else functional_call(network, {**weights, **fixed}, arguments, keywords)
            )
        outputs = found.outputs if trace else outputs_of(found)
        return measure(outputs, labels), found if trace else outputs

    own = {name: network.get_parameter(name) for name in first}
    if eager and all(p.requires_grad for p in own.values()):
        first = own

    def eager_gradient_at(weights: Gradient, *batch: Any) -> tuple[Gradient, Any]:
        with torch.enable_grad():
            for w in weights.values():
                w.requires_grad_()
            value, found = loss_of(weights, *batch)
            slopes = torch.autograd.grad(
                value, list(weights.values()), create_graph=True, materialize_grads=True
            )
        return dict(zip(weights, slopes, strict=True)), found

    gradient_at = eager_gradient_at if eager else grad(loss_of, has_aux=True)

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
    loss: Loss | None = None,
    block: int | None = None,
) -> Released:
    """Return the updates of P clients that the server receives under a defence.

    Parameters
    ----------
    network : Module
        As in :func:`update_function`; with a layer ``wide`` where neurons are dropped.
    images : Tensor, shape (P, n, ...)
    labels : Tensor, shape (P, n) of integers, or (P, n, ...) with another loss
    defence : sequence
        Defences of :mod:`reconrisk.mechanisms`, in the order of their application.
    generator : torch.Generator
        Source of masks and noise, on the images' device.
    loss : callable, optional
        As in :func:`update_function`.
    block : int, optional
        Batches differentiated together; all by default. Affects results by rounding only.

    Returns
    -------
    Released

    Raises
    ------
    ValueError
        If shapes do not fit, a label is no output of the network, a layer draws at random, or the
        defence drops neurons and the network has no wide layer.

    Notes
    -----
    Memory: block times the number of parameters, and the activations.
    """
    wrong = loss is None and (labels.ndim > 2 or labels.is_floating_point())
    if images.ndim < 3 or labels.shape[:2] != images.shape[:2] or wrong:
        raise ValueError(
            "images and labels must have shapes (P, n, ...) and (P, n), labels of integers; "
            f"got {tuple(images.shape)} and {tuple(labels.shape)}"
        )
    network = prepare(network)
    if loss is None:
        check_labels(network, images[0], labels)
    dropout, local = changes_of_training(defence)
    units = None
    if dropout is not None:
        wide = getattr(network, "wide", None)
        if wide is None:
            raise ValueError("network must have a wide layer whose neurons can be dropped")
        units = dropout.draw(len(images), len(wide.weight), generator).to(wide.weight.dtype)
    size = len(images) if block is None else block
    arguments.integer("block", size, 1)
    update = update_function(network, local, loss=loss)
    mapped = vmap(update, in_dims=(0, 0, None if units is None else 0))
    parts = []
    for low in range(0, len(images), size):
        chosen = slice(low, low + size)
        parts.append(
            mapped(images[chosen], labels[chosen], None if units is None else units[chosen])
        )
    gradient = {name: torch.cat([part[name] for part in parts]) for name in parts[0]}
    return defend(Released(gradient, units=units, local=local), defence, generator=generator)

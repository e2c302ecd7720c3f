"""Steps of DP-SGD through PyTorch's autograd.

The attacks of papers A and B use steps of batch size one; :func:`single_record_steps` takes one
such step for each of many records.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn
from torch.func import functional_call, grad, vmap

from reconrisk._types import DPSGD
from reconrisk.mechanisms import Gradient, add_gaussian_noise, clip
from reconrisk.training._networks import (
    outputs_of,
    plain_attention,
    prepare,
    state_of,
    trainable,
)

__all__ = ["per_example_gradients", "single_record_steps"]

Loss = Callable[..., torch.Tensor]


def per_example_gradients(
    model: nn.Module,
    loss: Loss,
    inputs: torch.Tensor,
    labels: torch.Tensor | None = None,
) -> Gradient:
    """Return the gradient of the loss for each record separately.

    Parameters
    ----------
    model : Module
        Its parameters are differentiated, but those that are frozen; left unchanged. It may be in
        the wrapper of Opacus, and may return an object with its outputs as ``logits``.
    loss : callable
        Without labels, maps the outputs for one record, which the model is given without an axis of
        records, to a scalar. With labels, a loss of PyTorch such as ``cross_entropy``: maps outputs
        and labels of a batch to a scalar; the batch has one record.
    inputs : Tensor, shape (examples, ...)
    labels : Tensor, shape (examples, ...), optional

    Returns
    -------
    Gradient
        Parameter name to Tensor of shape (examples, \\*parameter.shape).

    Raises
    ------
    ValueError
        If a layer draws at random, or normalises by the batch, so that no record has a gradient of
        its own; the message names it.

    Notes
    -----
    Memory: examples times the number of parameters. A single record uses plain reverse mode, which
    stores the gradient once.
    """
    model = prepare(model, alone=True)
    if len(inputs) == 1:
        parameters = {name: p for name, p in model.named_parameters() if p.requires_grad}
        with torch.enable_grad(), plain_attention():
            found = model(inputs[0] if labels is None else inputs)
            value = loss(outputs_of(found), *(() if labels is None else (labels,)))
        values = torch.autograd.grad(value, list(parameters.values()), materialize_grads=True)
        return {name: g[None] for name, g in zip(parameters, values, strict=True)}
    moved, fixed = state_of(model, trainable(model))

    def loss_of(values: Gradient, *record: torch.Tensor) -> torch.Tensor:
        batch = record if labels is None else [part[None] for part in record]
        with plain_attention():
            found = functional_call(model, {**values, **fixed}, (batch[0],))
        return loss(outputs_of(found), *batch[1:])

    given = (inputs,) if labels is None else (inputs, labels)
    return vmap(grad(loss_of), in_dims=(None, *[0] * len(given)))(moved, *given)


def single_record_steps(
    model: nn.Module,
    loss: Loss,
    inputs: torch.Tensor,
    run: DPSGD,
    generator: torch.Generator,
) -> tuple[Gradient, torch.Tensor]:
    """Take one step of DP-SGD with batch size one for every record.

    Parameters
    ----------
    model, loss, inputs
        As in :func:`per_example_gradients`.
    run : DPSGD
        Its ``noise_multiplier`` and ``max_grad_norm`` are used.
    generator : torch.Generator
        Source of the noise.

    Returns
    -------
    gradient : Gradient
        The released gradient: ``clip(G_x) + N(0, C^2 sigma^2)``, *From Mean to Extreme*,
        eqs. (11)-(12).
    factor : Tensor, shape (examples,)
        The clipping factor beta of each record, which the attacker does not see.
    """
    clipped, factor = clip(per_example_gradients(model, loss, inputs), run.max_grad_norm)
    noise_std = run.noise_multiplier * run.max_grad_norm
    return add_gaussian_noise(clipped, noise_std, generator), factor

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

__all__ = ["per_example_gradients", "single_record_steps"]

Loss = Callable[[torch.Tensor], torch.Tensor]


def per_example_gradients(model: nn.Module, loss: Loss, inputs: torch.Tensor) -> Gradient:
    """Return the gradient of ``loss(model(x))`` for each record ``x`` separately.

    Parameters
    ----------
    model : Module
        Its parameters are differentiated; left unchanged.
    loss : callable
        Maps the outputs for one record to a scalar.
    inputs : Tensor, shape (examples, ...)

    Returns
    -------
    Gradient
        Parameter name to Tensor of shape (examples, \\*parameter.shape).

    Notes
    -----
    Memory: examples times the number of parameters. A single record uses plain reverse mode, which
    stores the gradient once.
    """
    parameters = {name: p for name, p in model.named_parameters() if p.requires_grad}
    if len(inputs) == 1:
        values = torch.autograd.grad(loss(model(inputs[0])), list(parameters.values()))
        return {name: g[None] for name, g in zip(parameters, values, strict=True)}
    detached = {name: p.detach() for name, p in parameters.items()}
    buffers = dict(model.named_buffers())

    def loss_of(values: Gradient, record: torch.Tensor) -> torch.Tensor:
        return loss(functional_call(model, {**values, **buffers}, (record,)))

    return vmap(grad(loss_of), in_dims=(None, 0))(detached, inputs)


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

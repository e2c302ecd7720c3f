"""How a client's update moves with its images: what bounds and least squares are made of."""

from __future__ import annotations

import warnings

import torch
from torch import nn
from torch.func import jvp, vmap

from reconrisk import arguments
from reconrisk.mechanisms import LocalAggregation
from reconrisk.training._clients import UpdateOf, update_function

__all__ = ["update_jacobian"]


def update_jacobian(
    network: nn.Module,
    images: torch.Tensor,
    labels: torch.Tensor,
    *,
    local: LocalAggregation | None = None,
    units: torch.Tensor | None = None,
    block: int = 64,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return a batch's update as one vector, and its derivatives in the images.

    Before clipping, which :meth:`reconrisk.bounds.GradientInformation.clipped` accounts for.

    Parameters
    ----------
    network : Module
        As in :func:`update_function`; in double precision, if a rank is to be told from rounding.
    images : Tensor, shape (n, ...)
        Of the network's precision.
    labels : Tensor of integers, shape (n,)
    local : LocalAggregation, optional
        Steps that the client takes.
    units : Tensor, shape (neurons,), optional
        Factors of the wide layer's neurons.
    block : int
        Directions differentiated together. Changes no result beyond rounding.

    Returns
    -------
    values : Tensor, shape (q,)
        Every parameter's entries, flattened, in the network's order.
    jacobian : Tensor, shape (q, n d)
        With a column for each of the images' values, image by image. At a corner of an activation
        it is the derivative on the side that PyTorch takes.

    Raises
    ------
    ValueError
        If shapes do not fit.

    Notes
    -----
    As many derivatives of an update in one direction as there are pixels: of each image's own
    gradient where images do not meet (one step, ``eval()``), else of the whole batch's.
    Memory: ``q n d`` numbers.
    """
    if images.ndim < 2 or labels.shape != images.shape[:1] or labels.is_floating_point():
        raise ValueError(
            "images and labels must have shapes (n, ...) and (n,), labels of integers; "
            f"got {tuple(images.shape)} and {tuple(labels.shape)}"
        )
    arguments.integer("block", block, 1)
    update = update_function(network, local)
    if local is None and not network.training:
        # each image moves its own share of the mean gradient alone
        count = len(images)
        parts = [
            _derivatives(update, images[i : i + 1], labels[i : i + 1], units, block)
            for i in range(count)
        ]
        values = torch.stack([p[0] for p in parts]).mean(dim=0)
        return values, torch.cat([p[1] for p in parts], dim=1) / count
    return _derivatives(update, images, labels, units, block)


def _derivatives(
    update: UpdateOf,
    images: torch.Tensor,
    labels: torch.Tensor,
    units: torch.Tensor | None,
    block: int,
) -> tuple[torch.Tensor, torch.Tensor]:
    """An update as one vector, (q,), and its derivatives in all pixels, (q, n d)."""

    def flat(pixels: torch.Tensor) -> torch.Tensor:
        gradient = update(pixels.view(images.shape), labels, units)
        return torch.cat([g.flatten() for g in gradient.values()])

    def along(direction: torch.Tensor) -> torch.Tensor:
        return jvp(flat, (pixels,), (direction,))[1]

    pixels = images.detach().flatten()
    directions = torch.eye(len(pixels), dtype=pixels.dtype, device=pixels.device)
    with torch.no_grad(), warnings.catch_warnings():
        # PyTorch's own forward mode loads rules by a call that it has deprecated
        warnings.filterwarnings("ignore", "`torch.jit", DeprecationWarning)
        return flat(pixels), vmap(along, chunk_size=block)(directions).mT

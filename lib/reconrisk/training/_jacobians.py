"""The Jacobian of a client's update in its images, for bounds and least squares."""

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
    """Return a batch's update as a vector, and its Jacobian in the images.

    Both are before clipping, which :meth:`reconrisk.bounds.GradientInformation.clipped` adds.

    Parameters
    ----------
    network : Module
        As in :func:`update_function`; in double precision where the Jacobian's rank matters.
    images : Tensor, shape (n, ...)
        In the network's precision.
    labels : Tensor of integers, shape (n,)
    local : LocalAggregation, optional
        Local steps of the client.
    units : Tensor, shape (neurons,), optional
        Factors of the wide layer's neurons.
    block : int
        Directions differentiated together. Affects results by rounding only.

    Returns
    -------
    values : Tensor, shape (q,)
        The flattened parameters, in the network's order.
    jacobian : Tensor, shape (q, n d)
        One column for each pixel value, image by image. At a kink of an activation it is the
        one-sided derivative that PyTorch takes.

    Raises
    ------
    ValueError
        If shapes do not fit.

    Notes
    -----
    Cost: one directional derivative of an update per pixel: of each image's own gradient if images
    do not interact (one step, ``eval()``), else of the whole batch's. Memory: ``q n d`` numbers.
    """
    if images.ndim < 2 or labels.shape != images.shape[:1] or labels.is_floating_point():
        raise ValueError(
            "images and labels must have shapes (n, ...) and (n,), labels of integers; "
            f"got {tuple(images.shape)} and {tuple(labels.shape)}"
        )
    arguments.integer("block", block, 1)
    update = update_function(network, local)
    if local is None and not network.training:
        # each image affects only its own share of the mean gradient
        count = len(images)
        parts = [
            _derivatives(update, images[i : i + 1], labels[i : i + 1], units, block)
            for i in range(count)
        ]
        values = torch.stack([p[0] for p in parts]).mean(dim=0)
        # joined along the first axis, the parts are copied as they lie in memory
        return values, torch.cat([p[1].mT for p in parts]).div_(count).mT
    return _derivatives(update, images, labels, units, block)


def _derivatives(
    update: UpdateOf,
    images: torch.Tensor,
    labels: torch.Tensor,
    units: torch.Tensor | None,
    block: int,
) -> tuple[torch.Tensor, torch.Tensor]:
    """An update as a vector, (q,), and its Jacobian in all pixels, (q, n d)."""

    def flat(pixels: torch.Tensor) -> torch.Tensor:
        gradient = update(pixels.view(images.shape), labels, units)
        return torch.cat([g.flatten() for g in gradient.values()])

    def along(direction: torch.Tensor) -> torch.Tensor:
        return jvp(flat, (pixels,), (direction,))[1]

    pixels = images.detach().flatten()
    directions = torch.eye(len(pixels), dtype=pixels.dtype, device=pixels.device)
    with torch.no_grad(), warnings.catch_warnings():
        # PyTorch's forward mode itself makes a deprecated call
        warnings.filterwarnings("ignore", "`torch.jit", DeprecationWarning)
        return flat(pixels), vmap(along, chunk_size=block)(directions).mT

"""Euclidean lengths of many networks' gradients."""

import torch

from reconrisk.training import Weights

__all__ = ["gradient_lengths"]


def gradient_lengths(gradients: Weights) -> torch.Tensor:
    """Return the lengths of K gradients, all layers as one vector, shape (K,)."""
    return torch.stack([g.square().sum(dim=(1, 2)) for g in gradients.values()]).sum(dim=0).sqrt()

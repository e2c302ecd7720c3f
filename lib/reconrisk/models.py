"""The networks of the papers; so far the manipulated ones of papers A and B.

The attacker of *From Mean to Extreme* (Section 3.2) puts a fully connected layer in front of a
network or in its place; Ziller et al. (eq. 1) replace everything by one projection.
"""

from __future__ import annotations

import torch
from torch import nn

__all__ = ["AttackLayer", "PrependedNetwork", "sum_of_outputs"]


class AttackLayer(nn.Module):
    """``f(X) = W (a X - c) + b`` with ``rows`` rows: what the attacker feeds the record into.

    Parameters
    ----------
    dimension : int
        N, values of a record.
    rows : int
        M, rows of ``W``.
    bias : bool
        Whether the layer has a bias ``b`` whose gradient shows the scaling factor.
    offset : Tensor, shape (N,), optional
        ``c``: a fixed vector subtracted from the record before the layer (default none).
    input_scale : float
        ``a``: a fixed factor on the record before the layer.

    Notes
    -----
    The weights start at zero: with a loss that is linear in ``f`` the gradient does not depend on
    them (*From Mean to Extreme*, eq. 6), so drawing ``M N`` random numbers would be idle work.
    """

    def __init__(
        self,
        dimension: int,
        rows: int = 1,
        *,
        bias: bool = False,
        offset: torch.Tensor | None = None,
        input_scale: float = 1.0,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(rows, dimension, dtype=dtype))
        self.bias = nn.Parameter(torch.zeros(rows, dtype=dtype)) if bias else None
        self.register_buffer("offset", offset)
        self.input_scale = input_scale

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """Return the layer's outputs, shape (..., M), for records of shape (..., N)."""
        fed = self.input_scale * inputs
        if self.offset is not None:
            fed = fed - self.offset
        return nn.functional.linear(fed, self.weight, self.bias)


class PrependedNetwork(nn.Module):
    """An attack layer in front of a network that goes on training: ``g(f(X))``.

    The rest is a small fully connected classifier with ReLU; its gradients make up ``G_{X,P}`` of
    *From Mean to Extreme*, eq. (9), and only lengthen the gradient.
    """

    def __init__(self, dimension: int, rows: int, hidden: int, generator: torch.Generator) -> None:
        super().__init__()
        self.attack = AttackLayer(dimension, rows, bias=True)
        self.rest = nn.Sequential(nn.Linear(rows, hidden), nn.ReLU(), nn.Linear(hidden, 10))
        with torch.no_grad():
            # a positive first response keeps every ReLU open, so that no row's gradient vanishes
            self.attack.bias.fill_(1.0)
            for parameter in self.rest.parameters():
                parameter.copy_(torch.rand(parameter.shape, generator=generator) / rows)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """Return ten outputs for records of shape (..., N)."""
        return self.rest(self.attack(inputs))


def sum_of_outputs(outputs: torch.Tensor) -> torch.Tensor:
    """The attacker's loss ``1^T f(X)`` of one record (*From Mean to Extreme*, Corollary 1)."""
    return outputs.sum()

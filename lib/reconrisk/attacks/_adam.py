"""The optimiser of Geiping et al. 2020, for many candidates at once."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Protocol

import torch

from reconrisk.attacks._inversion_problem import Inversion
from reconrisk.training._adam import Adam

__all__ = ["Descent", "best_of_restarts", "descend"]


class Descent(Protocol):
    """A loss of candidates (P, n, ...), one value a problem."""

    def loss(self, values: torch.Tensor) -> torch.Tensor:
        """Loss of each problem, shape (P,)."""

    def slope(self, values: torch.Tensor) -> torch.Tensor:
        """Derivative of the losses, of the candidates' shape; the next call may overwrite it."""


@torch.no_grad()
def descend(
    descent: Descent,
    values: torch.Tensor,
    iterations: int,
    learning_rate: float,
    signed: bool,
    box: tuple[float, float] | None,
    watch: Callable[[int, torch.Tensor], None],
    brief: bool = False,
) -> torch.Tensor:
    """Move ``values``, (P, n, ...), in place; return their loss at the end, shape (P,)."""
    drops = [iterations * share // 8 for share in (3, 5, 7)]
    betas = (0.9, 0.9 if brief else 0.999)
    momentum = torch.zeros_like(values) if signed else None
    optimiser = None if signed else Adam([values], betas=betas, fused=True)
    for iteration in range(iterations):
        watch(iteration, values)
        slope = descent.slope(values)
        if brief:
            rate = learning_rate * (1 + math.cos(math.pi * iteration / iterations)) / 2
        else:
            rate = learning_rate * 0.1 ** sum(iteration >= drop for drop in drops)
        if momentum is not None:
            # the second moment of signs is one, so that Adam reduces to its corrected momentum
            momentum.lerp_(slope.sign_(), 0.1)
            values.add_(momentum, alpha=-rate / (1 - 0.9 ** (iteration + 1)))
        elif optimiser is not None:
            optimiser.step([slope], rate)
        if box is not None:
            values.clamp_(*box)
    watch(iterations, values)
    return descent.loss(values)


def best_of_restarts(values: torch.Tensor, loss: torch.Tensor, restarts: int) -> Inversion:
    """Return the candidate of least loss of each problem, out of (P times restarts, n, ...)."""
    spread = loss.unflatten(0, (-1, restarts))
    # a candidate that diverged has loss nan and must not be chosen
    chosen = torch.where(spread.isnan(), math.inf, spread).argmin(dim=1)
    rows = torch.arange(len(chosen), device=loss.device)
    return Inversion(values.unflatten(0, (-1, restarts))[rows, chosen], spread[rows, chosen])

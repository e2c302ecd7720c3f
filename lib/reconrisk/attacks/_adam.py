"""The optimiser of Geiping et al., for any loss of many candidates at once."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Protocol

import torch

from reconrisk.attacks._inversion_problem import Inversion

__all__ = ["Descent", "best_of_restarts", "descend"]


class Descent(Protocol):
    """A loss of candidates (P, n, ...), problem by problem."""

    def loss(self, values: torch.Tensor) -> torch.Tensor:
        """Shape (P,)."""

    def slope(self, values: torch.Tensor) -> torch.Tensor:
        """Derivative, of the candidates' shape; may be overwritten by the next call."""


@torch.no_grad()
def descend(
    descent: Descent,
    values: torch.Tensor,
    iterations: int,
    learning_rate: float,
    signed: bool,
    box: tuple[float, float] | None,
    seen: Callable[[int, torch.Tensor], None],
) -> torch.Tensor:
    """Move ``values``, (P, n, ...), in place; return their loss at the end, shape (P,)."""
    drops = [iterations * share // 8 for share in (3, 5, 7)]
    momentum = torch.zeros_like(values)
    optimiser = torch.optim.Adam([values], lr=learning_rate, fused=True)
    for iteration in range(iterations):
        seen(iteration, values)
        slope = descent.slope(values)
        rate = learning_rate * 0.1 ** sum(iteration >= drop for drop in drops)
        if signed:
            # Adam's second moment of signs is one: what is left of it is the corrected momentum
            momentum.lerp_(slope.sign_(), 0.1)
            values.add_(momentum, alpha=-rate / (1 - 0.9 ** (iteration + 1)))
        else:
            values.grad = slope
            optimiser.param_groups[0]["lr"] = rate
            optimiser.step()
        if box is not None:
            values.clamp_(*box)
    seen(iterations, values)
    values.grad = None
    return descent.loss(values)


def best_of_restarts(values: torch.Tensor, loss: torch.Tensor, restarts: int) -> Inversion:
    """Of candidates (P times restarts, n, ...) the one with the least loss of each problem."""
    spread = loss.unflatten(0, (-1, restarts))
    # a candidate that diverged is not a number and must not win
    chosen = torch.where(spread.isnan(), math.inf, spread).argmin(dim=1)
    rows = torch.arange(len(chosen), device=loss.device)
    return Inversion(values.unflatten(0, (-1, restarts))[rows, chosen], spread[rows, chosen])

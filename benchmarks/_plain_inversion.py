"""The loop that one would write to invert gradients, which two benchmarks measure against."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import nn

__all__ = ["plain_loop"]


def plain_loop(
    network: nn.Module,
    released: Sequence[torch.Tensor],
    labels: torch.Tensor,
    start: torch.Tensor,
    iterations: int,
    penalty: Callable[[torch.Tensor], torch.Tensor],
) -> torch.Tensor:
    """Inverting gradients, one problem after the other, by autograd: the losses at the end.

    A gradient by autograd with ``create_graph``, the loss differentiated once more, Adam on its
    signs, candidates kept in [0, 1]. Every tensor's first axis counts the problems.
    """
    parameters = list(network.parameters())
    losses = []
    for k in range(len(labels)):
        seen = [r[k] for r in released]
        size = sum(r.square().sum() for r in seen).sqrt()
        candidate = start[k].clone().requires_grad_()
        optimiser = torch.optim.Adam([candidate], lr=0.1)
        drops = [iterations * share // 8 for share in (3, 5, 7)]
        schedule = torch.optim.lr_scheduler.MultiStepLR(optimiser, drops, gamma=0.1)

        def distance(candidate=candidate, seen=seen, size=size, k=k) -> torch.Tensor:
            loss = torch.nn.functional.cross_entropy(network(candidate), labels[k])
            gradients = torch.autograd.grad(loss, parameters, create_graph=True)
            inner = sum((g * r).sum() for g, r in zip(gradients, seen, strict=True))
            norm = sum(g.square().sum() for g in gradients).sqrt()
            return 1 - inner / (norm * size) + penalty(candidate)

        for _ in range(iterations):
            optimiser.zero_grad()
            (candidate.grad,) = torch.autograd.grad(distance(), candidate)
            candidate.grad.sign_()
            optimiser.step()
            schedule.step()
            with torch.no_grad():
                candidate.clamp_(0, 1)
        losses.append(distance().detach())
    return torch.stack(losses)

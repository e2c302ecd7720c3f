"""L-BFGS on many independent functions at once."""

from __future__ import annotations

from collections.abc import Callable

import torch

__all__ = ["limited_memory_bfgs"]


@torch.no_grad()
def limited_memory_bfgs(
    evaluate: Callable[[torch.Tensor], tuple[torch.Tensor, torch.Tensor]],
    point: torch.Tensor,
    iterations: int,
    history: int,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Minimise P functions of m variables together, each with its own step lengths.

    Parameters
    ----------
    evaluate : callable
        Maps points (P, m) to values (P,) and derivatives (P, m).
    point : Tensor, shape (P, m)
        Initial points.
    iterations, history : int
        Steps at most, and pairs of differences kept.

    Returns
    -------
    point, value : Tensor, shape (P, m) and (P,)
    """
    value, slope = evaluate(point)
    moves: list[torch.Tensor] = []
    changes: list[torch.Tensor] = []
    inverse: list[torch.Tensor] = []  # 1 / <move, change>, zero where the pair is not used
    scale = slope.norm(dim=1).clamp(min=1e-30).reciprocal()
    for _ in range(iterations):
        direction = slope.clone()
        used = []
        for s, y, rho in zip(moves[::-1], changes[::-1], inverse[::-1], strict=True):
            used.append(rho * (s * direction).sum(dim=1))
            direction -= used[-1][:, None] * y
        direction *= scale[:, None]
        for s, y, rho, a in zip(moves, changes, inverse, used[::-1], strict=True):
            direction += (a - rho * (y * direction).sum(dim=1))[:, None] * s
        descent = (direction * slope).sum(dim=1)
        wrong = ~(descent > 0)
        direction[wrong] = slope[wrong] * scale[wrong, None]
        descent = (direction * slope).sum(dim=1)

        length = torch.ones_like(value)
        waiting = torch.ones_like(value, dtype=torch.bool)
        new_value, new_slope, new_point = value.clone(), slope.clone(), point.clone()
        for _ in range(20):
            trial = point - length[:, None] * direction
            trial_value, trial_slope = evaluate(trial)
            taken = waiting & (trial_value <= value - 1e-4 * length * descent)
            new_value[taken] = trial_value[taken]
            new_slope[taken] = trial_slope[taken]
            new_point[taken] = trial[taken]
            waiting &= ~taken
            if not bool(waiting.any()):
                break
            length = torch.where(waiting, 0.5 * length, length)
        if bool(waiting.all()):
            break
        move, change = new_point - point, new_slope - slope
        product, size = (move * change).sum(dim=1), (change * change).sum(dim=1)
        useful = product > 1e-10 * move.norm(dim=1) * change.norm(dim=1)
        useful &= product > 0
        moves.append(move)
        changes.append(change)
        inverse.append(torch.where(useful, 1 / torch.where(useful, product, 1), 0))
        scale = torch.where(useful, product / torch.where(useful, size, 1), scale)
        if len(moves) > history:
            del moves[0], changes[0], inverse[0]
        point, value, slope = new_point, new_value, new_slope
    return point, value

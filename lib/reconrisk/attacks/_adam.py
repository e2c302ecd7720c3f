"""The optimiser of Geiping et al. 2020, for many candidates at once."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import torch

from reconrisk.attacks._inversion_problem import Inversion
from reconrisk.training._adam import Adam

__all__ = ["Descent", "KeptSearch", "best_of_restarts", "descend"]


class Descent(Protocol):
    """A loss of candidates (P, n, ...), one value a problem."""

    def loss(self, values: torch.Tensor) -> torch.Tensor:
        """Loss of each problem, shape (P,)."""

    def slope(self, values: torch.Tensor) -> torch.Tensor:
        """Derivative of the losses, of the candidates' shape; the next call may overwrite it."""


@dataclass(frozen=True)
class KeptSearch:
    """Files from which a search that was stopped goes on, with the same result to the bit.

    Attributes
    ----------
    path : Path
        Of this one search, ending in ``.pt``; each block of problems has a file beside it.
    seconds : float
        Least time between two writes.
    notes : dict
        What the caller's ``watch`` notes, kept and restored with the search: text to what JSON
        holds.
    """

    path: Path
    seconds: float = 60.0
    notes: dict[str, Any] = field(default_factory=dict)

    def block(self, first: int) -> Path:
        """Return the file of the block that begins with a problem."""
        return self.path.with_suffix(f".{first}{self.path.suffix}")

    def remove(self) -> None:
        """Remove all files, once the result is safe."""
        for file in self.path.parent.glob(f"{self.path.stem}.*{self.path.suffix}"):
            file.unlink()


class _Keeper:
    """One block's search: what tells it from others, its tensors, and when it was written."""

    def __init__(self, kept: KeptSearch, first: int, search: dict, states: list) -> None:
        self._kept, self._path = kept, kept.block(first)
        self._search, self._states = search, states
        self._written = time.monotonic()

    def restore(self) -> int:
        """Load the tensors in place; return the iteration to go on from, 0 without a file."""
        if not self._path.is_file():
            return 0
        found = torch.load(self._path, weights_only=True)
        if found["search"] != self._search:
            raise ValueError(
                f"kept must be of a search with {self._search}; {self._path} is of one with "
                f"{found['search']}"
            )
        for state, stored in zip(self._states, found["states"], strict=True):
            state.copy_(stored)
        self._kept.notes.update(found["notes"])
        return int(found["iteration"])

    def write(self, iteration: int, *, done: bool = False) -> None:
        """Write the tensors, if it is time."""
        if not done and time.monotonic() - self._written < self._kept.seconds:
            return
        self._path.parent.mkdir(parents=True, exist_ok=True)
        partly = self._path.with_suffix(".partly")
        content = {"search": self._search, "iteration": iteration, "states": self._states}
        torch.save({**content, "notes": self._kept.notes}, partly)
        os.replace(partly, self._path)
        self._written = time.monotonic()


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
    kept: KeptSearch | None = None,
    first: int = 0,
    rematch: int = 1,
) -> torch.Tensor:
    """Move ``values``, (P, n, ...), in place; return their loss at the end, shape (P,)."""
    drops = [iterations * share // 8 for share in (3, 5, 7)]
    betas = (0.9, 0.9 if brief else 0.999)
    momentum = torch.zeros_like(values) if signed else None
    optimiser = None if signed else Adam([values], betas=betas, fused=True)
    keeper = None
    if kept:
        search = {
            "iterations": iterations,
            "learning_rate": learning_rate,
            "signed": signed,
            "brief": brief,
            "shape": list(values.shape),
            # of the start: it tells apart searches for different pictures
            "loss": [float(f"{loss:.3g}") for loss in descent.loss(values).tolist()],
        }
        moments = [momentum] if optimiser is None else optimiser.state
        keeper = _Keeper(kept, first, search, [values, *moments])
    done = keeper.restore() if keeper else 0
    for iteration in range(done, iterations):
        # where the descent matches features anew it needs nothing of what came before
        if keeper and iteration % rematch == 0 and iteration > done:
            keeper.write(iteration)
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
    if keeper:
        keeper.write(iterations, done=True)
    watch(iterations, values)
    return descent.loss(values)


def best_of_restarts(values: torch.Tensor, loss: torch.Tensor, restarts: int) -> Inversion:
    """Return the candidate of least loss of each problem, out of (P times restarts, n, ...)."""
    spread = loss.unflatten(0, (-1, restarts))
    # a candidate that diverged has loss nan and must not be chosen
    chosen = torch.where(spread.isnan(), math.inf, spread).argmin(dim=1)
    rows = torch.arange(len(chosen), device=loss.device)
    return Inversion(values.unflatten(0, (-1, restarts))[rows, chosen], spread[rows, chosen])

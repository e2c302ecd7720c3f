"""The problem and the result of every inversion of a batch's gradient."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch

from reconrisk.training import Weights
from reconrisk.training._backpropagation import one_hot

__all__ = ["Inversion", "Problem", "gram", "inner_products"]


@dataclass(frozen=True)
class Inversion:
    """The result of an attack on P updates.

    Attributes
    ----------
    inputs : Tensor, shape (P, n, d)
        The reconstructed batches, in the order of the labels.
    loss : Tensor, shape (P,)
        Final value of the objective.
    values : Tensor, shape (P, ...), optional
        Parameters of the batches, where another space than that of the pixels was searched.
    """

    inputs: torch.Tensor
    loss: torch.Tensor
    values: torch.Tensor | None = None


@dataclass(frozen=True)
class Problem:
    """Networks, their released gradients, and the labels of the batches as probabilities."""

    weights: Weights
    released: Weights
    targets: torch.Tensor

    @classmethod
    def of(
        cls,
        weights: Mapping[str, torch.Tensor],
        released: Mapping[str, torch.Tensor],
        labels: torch.Tensor,
    ) -> Problem:
        layers = list(weights.values())
        if labels.ndim != 2 or labels.is_floating_point():
            raise ValueError(f"labels must be integers of shape (P, n); got {tuple(labels.shape)}")
        for name, w in weights.items():
            expected = (len(labels), *w.shape[-2:])
            if name not in released or released[name].shape != expected:
                got = tuple(released[name].shape) if name in released else None
                raise ValueError(f"released[{name!r}] must have shape {expected}; got {got}")
            if w.ndim not in (2, 3) or (w.ndim == 3 and len(w) != len(labels)):
                raise ValueError(
                    f"weights[{name!r}] must have shape (rows, columns) or "
                    f"({len(labels)}, rows, columns); got {tuple(w.shape)}"
                )
            if not bool(torch.isfinite(released[name]).all()):
                raise ValueError(f"released[{name!r}] must be finite")
        targets = one_hot(labels, layers[-1].shape[-2], layers[0].dtype)
        return cls(dict(weights), {name: released[name] for name in weights}, targets)

    @property
    def dimension(self) -> int:
        return next(iter(self.weights.values())).shape[-1]

    def take(self, chosen: slice, restarts: int) -> Problem:
        """Select problems and repeat each for every restart."""

        def select(t: torch.Tensor) -> torch.Tensor:
            part = t[chosen]
            return part.repeat_interleave(restarts, dim=0) if restarts > 1 else part

        weights = {name: w if w.ndim == 2 else select(w) for name, w in self.weights.items()}
        released = {name: r if r.ndim == 2 else select(r) for name, r in self.released.items()}
        return Problem(weights, released, select(self.targets))

    def restrict_to_span(self, span: torch.Tensor) -> Problem:
        """Return the problem in double precision, records in coordinates of ``span``, (P, q, d)."""
        first = next(iter(self.weights))
        weights = {name: w.double() for name, w in self.weights.items()}
        released = {name: r.double() for name, r in self.released.items()}
        weights[first] = weights[first] @ span.mT
        released[first] = released[first] @ span.mT
        expanded = {name: w.expand(len(self.targets), *w.shape[-2:]) for name, w in weights.items()}
        return Problem(expanded, released, self.targets.double())

    def first_candidates(
        self, generator: torch.Generator, restarts: int, start: torch.Tensor | None
    ) -> torch.Tensor:
        """Draw (P, restarts, n, d) at once, so that the draws do not depend on the blocks."""
        problems, count = self.targets.shape[:2]
        first = torch.randn(
            (problems, restarts, count, self.dimension),
            generator=generator,
            device=self.targets.device,
            dtype=self.targets.dtype,
        )
        if start is not None:
            expected = (problems, count, self.dimension)
            if start.shape not in (expected, expected[1:]):
                raise ValueError(f"start must have shape {expected}; got {tuple(start.shape)}")
            first[:, 0] = start
        return first


def inner_products(
    one: Sequence[torch.Tensor],
    other: Sequence[torch.Tensor],
    buffers: Sequence[torch.Tensor] | None = None,
) -> torch.Tensor:
    """Inner products of P gradients with P others, over all layers, shape (P,).

    ``buffers`` of the same shapes hold the products, so that repeated calls allocate nothing.
    """
    if buffers is None:
        buffers = [torch.empty_like(a) for a in one]
    triples = zip(one, other, buffers, strict=True)
    parts = [torch.mul(a, b, out=out).flatten(1).sum(dim=1) for a, b, out in triples]
    return torch.stack(parts).sum(dim=0)


def gram(rows: torch.Tensor) -> torch.Tensor:
    """Return ``rows.mT @ rows``, (d, d), of rows (n, d).

    On the processor, where no derivative is wanted, NumPy makes it: of a product of a matrix with
    itself it computes one triangle.
    """
    if rows.device.type != "cpu" or rows.requires_grad:
        return rows.mT @ rows
    values = rows.numpy()
    return torch.from_numpy(values.T @ values)

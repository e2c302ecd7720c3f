"""Gradient inversion by least squares within the gradient's row space.

:func:`span_attack` has no published counterpart. It works in double precision and measures how much
information a gradient contains, rather than how much a given attack extracts: the rows of the first
layer's gradient are combinations of the records, which leaves n^2 unknowns instead of n d.
:func:`class_means` is the baseline that uses the labels and no gradient.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch

from reconrisk.attacks._inversion_problem import Inversion, Problem, gram, inner_products
from reconrisk.training import mean_gradient
from reconrisk.training._backpropagation import backward_pass, one_hot

__all__ = ["class_means", "span_attack"]


def class_means(inputs: torch.Tensor, labels: torch.Tensor, classes: int) -> torch.Tensor:
    """Return the mean record of each class, shape (classes, d): the best guess from labels alone.

    Parameters
    ----------
    inputs : Tensor, shape (N, d)
        Auxiliary records of the attacker.
    labels : Tensor of integers, shape (N,)
    classes : int

    Raises
    ------
    ValueError
        If a class has no record.
    """
    members = one_hot(labels, classes, inputs.dtype)
    counts = members.sum(dim=0)
    if not bool((counts > 0).all()):
        raise ValueError(f"labels must contain every class; got counts {counts.tolist()}")
    return (members.mT @ inputs) / counts[:, None]


def span_attack(
    weights: Mapping[str, torch.Tensor],
    released: Mapping[str, torch.Tensor],
    labels: torch.Tensor,
    start: torch.Tensor,
    *,
    iterations: int = 200,
    max_grad_norm: float | None = None,
    by_layer: bool = True,
) -> Inversion:
    """Reconstruct P batches within the row space of the first layer's gradient.

    That gradient is ``sum_i delta_i x_i'`` over the n records: without noise its n leading right
    singular vectors span the records, and only their n^2 coordinates are unknown. The
    Levenberg-Marquardt method finds them from all layers' gradients.

    Parameters
    ----------
    weights, released, labels
        As in :func:`invert_gradients`; n is at most the first layer's units.
    start : Tensor, shape (P, n, d) or (n, d)
        Initial candidates, for example near the class means of the labels; projected onto the span.
        Records of one label need different ones, or they take the same steps.
    iterations : int
        Most steps; the search ends once five in a row decrease no loss by a relative 1e-8.
    max_grad_norm : float, optional
        C, if every record's gradient was clipped before averaging and the attacker knows it.
    by_layer : bool
        Whether every layer was clipped to C separately.

    Returns
    -------
    Inversion
        In double precision; the loss is the squared distance over the released squared norm.

    Raises
    ------
    ValueError
        If shapes do not fit, or the batch has more records than the first layer has units.

    Notes
    -----
    Cost per problem and step: ``(n h + p') n^4`` multiplications for the normal equations and
    ``n^6 / 3`` for their solution, with p' the other layers' parameters; memory ``(n h + p') n^2``
    numbers.
    """
    problem = Problem.of(weights, released, labels)
    count = labels.shape[1]
    first = next(iter(problem.released))
    rows = problem.released[first].shape[1]
    if count > min(rows, problem.dimension):
        raise ValueError(
            f"labels must be of at most {min(rows, problem.dimension)} records a batch; got {count}"
        )
    if start.shape not in ((count, problem.dimension), (*labels.shape, problem.dimension)):
        raise ValueError(
            f"start must have shape {(*labels.shape, problem.dimension)}; got {tuple(start.shape)}"
        )
    span = torch.linalg.svd(problem.released[first].double(), full_matrices=False).Vh[:, :count]
    initial = start.double().expand(len(labels), count, problem.dimension) @ span.mT
    wide = [r.double() for r in problem.released.values()]
    size = inner_products(wide, wide)
    fit = _LeastSquares(problem.restrict_to_span(span), 1 / size.sqrt(), max_grad_norm, by_layer)
    coordinates, loss = fit.run(initial, iterations)
    return Inversion(coordinates @ span, loss)


@dataclass(frozen=True)
class _LeastSquares:
    """The misfit of the gradients of records.

    Attributes
    ----------
    problem : Problem
        In double precision, with the first layer in the coordinates of the records.
    scale : Tensor, shape (P,)
        Factor of the misfit of the gradients.
    """

    problem: Problem
    scale: torch.Tensor
    max_grad_norm: float | None
    by_layer: bool

    def run(self, coordinates: torch.Tensor, iterations: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Minimise from ``coordinates``, (P, n, q); return them and the sum of squares, (P,)."""
        point = coordinates
        residual = self._residuals(point)
        loss = residual.square().sum(dim=1)
        damping = torch.full_like(loss, 1e-3)
        stalled = 0
        for _ in range(iterations):
            before = loss
            slopes = self._jacobians(point)
            normal = torch.stack([gram(s) for s in slopes])
            gradient = (slopes.mT @ residual[..., None])[..., 0]
            pending = torch.ones_like(loss, dtype=torch.bool)
            for _ in range(25):
                step = _damped_step(normal, gradient, damping)
                trial = point - step.view(point.shape)
                trial_residual = self._residuals(trial)
                trial_loss = trial_residual.square().sum(dim=1)
                taken = pending & (trial_loss < loss)
                point = torch.where(taken[:, None, None], trial, point)
                residual = torch.where(taken[:, None], trial_residual, residual)
                loss = torch.where(taken, trial_loss, loss)
                damping = torch.where(
                    taken, damping / 6, torch.where(pending, damping * 4, damping)
                )
                pending &= ~taken
                if not bool(pending.any()):
                    break
            damping.clamp_(1e-10, 1e6)
            # a short step may only mean that the damping has to decrease first
            stalled = stalled + 1 if bool((loss >= (1 - 1e-8) * before).all()) else 0
            if stalled == 5:
                break
        return point, loss

    def _residuals(self, records: torch.Tensor) -> torch.Tensor:
        """Scaled misfits of all layers, (P, parameters)."""
        problem = self.problem
        gradients = mean_gradient(
            problem.weights,
            records,
            problem.targets,
            max_grad_norm=self.max_grad_norm,
            by_layer=self.by_layer,
        )
        misfits = [(g - problem.released[name]).flatten(1) for name, g in gradients.items()]
        return torch.cat(misfits, dim=1) * self.scale[:, None]

    def _jacobians(self, records: torch.Tensor) -> torch.Tensor:
        """Derivatives of the residuals, (P, parameters, n q)."""
        problem, axes = self.problem, torch.eye(records.shape[2]).to(records)
        run = backward_pass(problem.weights, records, problem.targets)
        moves = run.along(axes.expand(len(records), -1, -1), self.max_grad_norm, self.by_layer)
        share = self.scale[:, None, None] / records.shape[1]
        return (torch.cat([m.flatten(3).flatten(1, 2) for m in moves], dim=2) * share).mT


def _damped_step(
    normal: torch.Tensor, gradient: torch.Tensor, damping: torch.Tensor
) -> torch.Tensor:
    """Solve ``(N + damping diag N) step = gradient`` for every problem."""
    diagonal = normal.diagonal(dim1=1, dim2=2)
    # an unknown without influence gets a tiny weight, so that the system stays regular
    floor = 1e-14 * diagonal.amax(dim=1, keepdim=True).clamp(min=1e-300)
    added = damping[:, None] * diagonal.clamp(min=0) + floor
    factor, failed = torch.linalg.cholesky_ex(normal + torch.diag_embed(added))
    step = torch.cholesky_solve(gradient[..., None], factor)[..., 0]
    # where rounding made the system indefinite take no step, so that the damping increases
    return torch.where((failed == 0)[:, None], step, torch.zeros_like(step))

"""Gradient inversion by least squares: what the network's shape, or a prior, gives away.

In double precision and without a published counterpart, to say how much a gradient holds rather
than how much a given attack finds in it:

- :func:`span_attack`: the rows of the first layer's gradient are combinations of the records, so
  that n^2 numbers are sought instead of n d;
- :func:`gaussian_prior_attack`: the most probable batch under a normal prior in few coordinates.

:func:`class_means` is the guess of one who attacks nothing but knows the labels.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch

from reconrisk import arguments
from reconrisk.attacks._inversion_problem import Inversion, Problem, inner_products
from reconrisk.training import mean_gradient
from reconrisk.training._backpropagation import backward_pass, one_hot

__all__ = ["class_means", "gaussian_prior_attack", "span_attack"]


def class_means(inputs: torch.Tensor, labels: torch.Tensor, classes: int) -> torch.Tensor:
    """Return the mean record of each class, shape (classes, d): an attacker's guess without attack.

    Parameters
    ----------
    inputs : Tensor, shape (N, d)
        Records the attacker has of its own.
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
    singular vectors span the records, and only their n^2 coordinates are unknown. They are found by
    Levenberg and Marquardt's method from all layers' gradients.

    Parameters
    ----------
    weights, released, labels
        As in :func:`invert_gradients`; n is at most the first layer's units.
    start : Tensor, shape (P, n, d) or (n, d)
        First candidates, for example the class means of the labels; projected onto the span.
    iterations : int
        At most so many steps; fewer once five in a row decrease no loss by 1e-8 of it.
    max_grad_norm : float, optional
        C, if every record's gradient was clipped before the average and the attacker knows so.
    by_layer : bool
        Whether every layer was clipped to C on its own.

    Returns
    -------
    Inversion
        In double precision; the loss is the squared distance over the released squared norm.

    Notes
    -----
    Per problem and step ``(n h + p') n^4`` multiplications for the normal equations and ``n^6 / 3``
    for their solution, with p' the other layers' parameters; memory ``(n h + p') n^2`` numbers.
    """
    problem = Problem.of(weights, released, labels)
    count = labels.shape[1]
    first = next(iter(problem.released))
    rows = problem.released[first].shape[1]
    if count > min(rows, problem.dimension):
        raise ValueError(
            f"a batch must have at most {min(rows, problem.dimension)} records; got {count}"
        )
    if start.shape not in ((count, problem.dimension), (*labels.shape, problem.dimension)):
        raise ValueError(
            f"start must have shape {(*labels.shape, problem.dimension)}; got {tuple(start.shape)}"
        )
    span = torch.linalg.svd(problem.released[first].double(), full_matrices=False).Vh[:, :count]
    begin = start.double().expand(len(labels), count, problem.dimension) @ span.mT
    wide = [r.double() for r in problem.released.values()]
    size = inner_products(wide, wide)
    fit = _LeastSquares(
        problem.within(span),
        torch.zeros_like(begin),
        torch.eye(count, dtype=begin.dtype, device=begin.device).expand(len(begin), -1, -1),
        1 / size.sqrt(),
        torch.zeros(count, dtype=begin.dtype, device=begin.device),
        max_grad_norm,
        by_layer,
    )
    coordinates, loss = fit.run(begin, iterations)
    return Inversion(coordinates @ span, loss)


def gaussian_prior_attack(
    weights: Mapping[str, torch.Tensor],
    released: Mapping[str, torch.Tensor],
    labels: torch.Tensor,
    means: torch.Tensor,
    basis: torch.Tensor,
    prior_std: torch.Tensor,
    *,
    noise_std: float | torch.Tensor,
    iterations: int = 20,
    max_grad_norm: float | None = None,
    by_layer: bool = True,
) -> Inversion:
    """Reconstruct P batches as the most probable ones under a Gaussian prior.

    Each record is its class's mean plus ``c @ basis`` with independent normal c; the released
    gradient is the batch's plus normal noise. Minus twice the log posterior is minimised by
    Levenberg and Marquardt's method, from the class means.

    Parameters
    ----------
    weights, released, labels
        As in :func:`invert_gradients`.
    means : Tensor, shape (classes, d)
        See :func:`class_means`.
    basis : Tensor, shape (k, d)
        For example leading principal directions of records less their classes' means.
    prior_std : Tensor, shape (k,)
        Standard deviations of the coordinates, > 0.
    noise_std : float or Tensor, shape (P,)
        Standard deviation of the released gradient's coordinates around the batch's, > 0: noise,
        plus whatever of the records the basis does not hold.
    iterations, max_grad_norm, by_layer
        As in :func:`span_attack`.

    Returns
    -------
    Inversion
        In double precision; the loss is the sum of squares, less the part of the misfit that no
        record of the prior's can change.

    Notes
    -----
    All is done in the coordinates of the means and the basis, ``q <= classes + k`` in place of d.
    Per problem and step ``(q h + p') (n k)^2`` multiplications, memory ``(q h + p') n k`` numbers.
    """
    problem = Problem.of(weights, released, labels)
    arguments.real("prior_std", prior_std.cpu().numpy(), 0, low_open=True)
    for name, rows in (("means", means), ("basis", basis)):
        if rows.ndim != 2 or rows.shape[1] != problem.dimension:
            raise ValueError(
                f"{name} must have shape (rows, {problem.dimension}); got {tuple(rows.shape)}"
            )
    if prior_std.shape != basis.shape[:1]:
        raise ValueError(f"prior_std must have shape {basis.shape[:1]}; got {prior_std.shape}")
    noise = torch.as_tensor(noise_std, dtype=torch.float64, device=basis.device)
    arguments.real("noise_std", noise.cpu().numpy(), 0, low_open=True)
    stacked = torch.cat([basis.double(), means.double()])
    span = torch.linalg.svd(stacked, full_matrices=False).Vh
    span = span.expand(len(labels), *span.shape)
    offset = (means.double()[labels]) @ span.mT
    directions = (basis.double() * prior_std.double()[:, None]) @ span.mT
    fit = _LeastSquares(
        problem.within(span),
        offset,
        directions,
        (1 / noise).expand(len(labels)),
        torch.ones(len(basis), dtype=torch.float64, device=basis.device),
        max_grad_norm,
        by_layer,
    )
    begin = torch.zeros((*labels.shape, len(basis)), dtype=torch.float64, device=basis.device)
    coordinates, loss = fit.run(begin, iterations)
    return Inversion((offset + coordinates @ directions) @ span, loss)


@dataclass(frozen=True)
class _LeastSquares:
    """Records ``offset + c @ directions``; the misfit of their gradients, plus a penalty on c.

    Attributes
    ----------
    problem : Problem
        In double precision, first layer in the same coordinates as the records.
    offset : Tensor, shape (P, n, q)
    directions : Tensor, shape (P, k, q)
    scale : Tensor, shape (P,)
        What a misfit of the gradients is multiplied by.
    penalty : Tensor, shape (k,)
        What a coordinate is multiplied by; zeros for none.
    """

    problem: Problem
    offset: torch.Tensor
    directions: torch.Tensor
    scale: torch.Tensor
    penalty: torch.Tensor
    max_grad_norm: float | None
    by_layer: bool

    def run(self, coordinates: torch.Tensor, iterations: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Minimise from ``coordinates``, (P, n, k); return them and the sum of squares, (P,)."""
        shape = coordinates.shape
        point = coordinates.flatten(1)
        rest = self._residuals(point)
        loss = rest.square().sum(dim=1)
        damping = torch.full_like(loss, 1e-3)
        idle = 0
        for _ in range(iterations):
            before = loss
            slopes = self._jacobians(point)
            normal = slopes.mT @ slopes
            towards = (slopes.mT @ rest[..., None])[..., 0]
            open_ = torch.ones_like(loss, dtype=torch.bool)
            for _ in range(25):
                trial = point - _damped_step(normal, towards, damping)
                trial_rest = self._residuals(trial)
                trial_loss = trial_rest.square().sum(dim=1)
                taken = open_ & (trial_loss < loss)
                point = torch.where(taken[:, None], trial, point)
                rest = torch.where(taken[:, None], trial_rest, rest)
                loss = torch.where(taken, trial_loss, loss)
                damping = torch.where(taken, damping / 6, torch.where(open_, damping * 4, damping))
                open_ &= ~taken
                if not bool(open_.any()):
                    break
            damping.clamp_(1e-10, 1e6)
            # a short step may only mean that the damping has to come down again first
            idle = idle + 1 if bool((loss >= (1 - 1e-8) * before).all()) else 0
            if idle == 5:
                break
        return point.view(shape), loss

    def _residuals(self, point: torch.Tensor) -> torch.Tensor:
        """Misfits and penalised coordinates one after the other, (P, parameters + n k)."""
        problem = self.problem
        coordinates = point.view(*self.offset.shape[:2], -1)
        gradients = mean_gradient(
            problem.weights,
            self.offset + coordinates @ self.directions,
            problem.targets,
            max_grad_norm=self.max_grad_norm,
            by_layer=self.by_layer,
        )
        misfits = [(g - problem.released[name]).flatten(1) for name, g in gradients.items()]
        penalised = (coordinates * self.penalty).flatten(1)
        return torch.cat([torch.cat(misfits, dim=1) * self.scale[:, None], penalised], dim=1)

    def _jacobians(self, point: torch.Tensor) -> torch.Tensor:
        """Derivatives of the residuals, (P, parameters + n k, n k)."""
        problem = self.problem
        coordinates = point.view(*self.offset.shape[:2], -1)
        records = self.offset + coordinates @ self.directions
        run = backward_pass(problem.weights, records, problem.targets)
        moves = run.along(self.directions, self.max_grad_norm, self.by_layer)
        share = self.scale[:, None, None] / records.shape[1]
        by_coordinate = torch.cat([m.flatten(3).flatten(1, 2) for m in moves], dim=2) * share
        penalties = self.penalty.expand_as(coordinates).flatten(1)
        return torch.cat([by_coordinate, torch.diag_embed(penalties)], dim=2).mT


def _damped_step(
    normal: torch.Tensor, towards: torch.Tensor, damping: torch.Tensor
) -> torch.Tensor:
    """Solve ``(N + damping diag N) step = towards`` for every problem."""
    diagonal = normal.diagonal(dim1=1, dim2=2)
    # an unknown that nothing depends on keeps a little weight of its own: the system stays regular
    floor = 1e-14 * diagonal.amax(dim=1, keepdim=True).clamp(min=1e-300)
    added = damping[:, None] * diagonal.clamp(min=0) + floor
    factor, failed = torch.linalg.cholesky_ex(normal + torch.diag_embed(added))
    step = torch.cholesky_solve(towards[..., None], factor)[..., 0]
    # where rounding made the system indefinite no step is tried; more damping will mend it
    return torch.where((failed == 0)[:, None], step, torch.zeros_like(step))

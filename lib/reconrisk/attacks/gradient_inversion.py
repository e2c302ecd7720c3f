"""Reconstruction of a whole batch from one released gradient: Biswas et al., Sections IV and VI.

The attacker is the server of federated learning: it knows the network's weights, the batch's size
and labels, and sees one gradient, averaged over the batch and privatised. Two published attacks
search for a batch whose gradient matches it, here for many problems in one tensor program:

- :func:`invert_gradients`, inverting gradients (Geiping et al. 2020): cosine distance plus total
  variation, signed gradients, Adam with a step schedule; with other arguments, deep leakage from
  gradients (Zhu et al. 2019) by Adam;
- :func:`deep_leakage`, the latter with its authors' optimiser, L-BFGS.

:mod:`~reconrisk.attacks.least_squares_inversion` has attacks with more prior knowledge.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Protocol

import torch

from reconrisk import arguments
from reconrisk.attacks._adam import best_of_restarts, descend
from reconrisk.attacks._inversion_problem import Inversion, Problem, inner_products
from reconrisk.attacks._lbfgs import limited_memory_bfgs
from reconrisk.training._backpropagation import backward_pass

__all__ = [
    "Distance",
    "Inversion",
    "Watcher",
    "cosine_distance",
    "deep_leakage",
    "invert_gradients",
    "squared_distance",
]

Slopes = tuple[torch.Tensor, torch.Tensor, torch.Tensor]
Distance = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], Slopes]


# Distances of gradients --------------------------------------------------------------------------


def cosine_distance(inner: torch.Tensor, squared: torch.Tensor, released: torch.Tensor) -> Slopes:
    """One minus the cosine of two gradients (Geiping et al. 2020, eq. 4), independent of length.

    Parameters
    ----------
    inner, squared, released : Tensor, shape (P,)
        ``<g, r>``, ``|g|^2`` and ``|r|^2`` of the candidates' gradient g and the released one, r.

    Returns
    -------
    value, by_inner, by_squared : Tensor, shape (P,)
        The distance and its derivatives in the first two arguments.
    """
    scale = (squared * released).rsqrt()
    cosine = inner * scale
    return 1 - cosine, -scale, 0.5 * cosine / squared


def squared_distance(inner: torch.Tensor, squared: torch.Tensor, released: torch.Tensor) -> Slopes:
    """Squared distance of two gradients over ``|r|^2`` (Zhu et al. 2019).

    Arguments and results as in :func:`cosine_distance`.
    """
    scale = 1 / released
    return (squared - 2 * inner + released) * scale, -2 * scale, scale


# Published attacks -------------------------------------------------------------------------------


class Watcher(Protocol):
    """Called before the first and after every iteration, with a block's current candidates."""

    def __call__(self, iteration: int, inputs: torch.Tensor, problems: slice) -> None:
        """``inputs`` has shape (problems, restarts, n, d) and is overwritten afterwards."""


def invert_gradients(
    weights: Mapping[str, torch.Tensor],
    released: Mapping[str, torch.Tensor],
    labels: torch.Tensor,
    *,
    generator: torch.Generator,
    distance: Distance = cosine_distance,
    iterations: int = 4800,
    learning_rate: float = 0.1,
    signed: bool = True,
    total_variation: float = 0.0,
    shape: tuple[int, int] | None = None,
    box: tuple[float, float] | None = None,
    restarts: int = 1,
    start: torch.Tensor | None = None,
    watch: Watcher | None = None,
    block: int | None = None,
) -> Inversion:
    """Reconstruct P batches from their released gradients, all at once.

    Descends ``distance + total_variation * TV`` by Adam on the records' values, or on the signs of
    the derivatives, with the learning rate divided by ten after 3/8, 5/8 and 7/8 of the iterations,
    and projection to the box after each one: the schedule of Geiping et al.'s own code.

    Parameters
    ----------
    weights : mapping of str to Tensor, shape (P, rows, columns) or (rows, columns)
        The networks at which the gradients were computed; without leading axis, one for all.
    released : mapping of str to Tensor, shape (P, rows, columns)
        Averaged and privatised gradients.
    labels : Tensor of integers, shape (P, n)
        Known labels of the batches.
    generator : torch.Generator
        Source of the initial candidates, standard normal.
    distance : callable
        :func:`cosine_distance` or :func:`squared_distance`.
    iterations : int
        Biswas et al. run 10,000.
    learning_rate : float
        Initial rate of Adam, in the records' units.
    signed : bool
        Whether Adam is given the signs of the derivatives.
    total_variation : float
        Weight of the mean absolute difference of neighbouring pixels, along rows plus along
        columns; >= 0. Needs ``shape``.
    shape : tuple of int, optional
        Height and width of the images.
    box : tuple of float, optional
        Least and largest value of a pixel; none by default.
    restarts : int
        Initial candidates per problem; the one with the least final loss is returned.
    start : Tensor, shape (P, n, d) or (n, d), optional
        Initial candidate in place of the first restart's noise.
    watch : callable, optional
        Called before the first and after every iteration.
    block : int, optional
        Problems (with their restarts) optimised together; by default as many as fit in the cache.
        Affects results by rounding only.

    Returns
    -------
    Inversion

    Raises
    ------
    ValueError
        If shapes do not fit or an argument is out of its range.

    Notes
    -----
    Cost per problem, restart and iteration: ``5 n d h`` multiplications (h units of the first
    layer), some 0.5 ms on one core for 128 records of 256-50-15-10. In single precision the cosine
    distance cannot fall below 1e-7, where a batch of 128 is still far from converged.
    """
    problem = Problem.of(weights, released, labels)
    arguments.integer("iterations", iterations, 1)
    arguments.integer("restarts", restarts, 1)
    arguments.real("learning_rate", learning_rate, 0, low_open=True)
    arguments.real("total_variation", total_variation, 0)
    if total_variation and (
        shape is None or min(shape) < 2 or shape[0] * shape[1] != problem.dimension
    ):
        raise ValueError(
            f"shape must be a height and a width with product {problem.dimension}; got {shape!r}"
        )
    if box is not None and not box[0] < box[1]:
        raise ValueError(f"box must be (low, high) with low < high; got {box!r}")
    first = problem.first_candidates(generator, restarts, start)
    if block is None:
        block = _block_size(problem, restarts)
    parts = []
    for low in range(0, len(first), block):
        chosen = slice(low, low + block)
        descent = _Descent(
            problem.take(chosen, restarts), distance, total_variation, shape or (0, 0)
        )

        def observe(iteration: int, values: torch.Tensor, chosen: slice = chosen) -> None:
            if watch is not None:
                watch(iteration, values.unflatten(0, (-1, restarts)), chosen)

        values = first[chosen].flatten(0, 1)
        loss = descend(descent, values, iterations, learning_rate, signed, box, observe)
        parts.append(best_of_restarts(values, loss, restarts))
    return Inversion(torch.cat([p.inputs for p in parts]), torch.cat([p.loss for p in parts]))


def deep_leakage(
    weights: Mapping[str, torch.Tensor],
    released: Mapping[str, torch.Tensor],
    labels: torch.Tensor,
    *,
    generator: torch.Generator,
    iterations: int = 300,
    history: int = 20,
    restarts: int = 1,
    start: torch.Tensor | None = None,
) -> Inversion:
    """Reconstruct P batches by least squared distance of gradients and L-BFGS.

    Deep leakage from gradients (Zhu et al. 2019) with known labels. A step that does not decrease a
    problem's loss enough is halved for that problem; a problem whose steps become too short stops.
    The records are not constrained to a range, and under noise they leave any range.

    Parameters
    ----------
    weights, released, labels, generator, restarts, start
        As in :func:`invert_gradients`.
    iterations : int
        Steps of L-BFGS.
    history : int
        Pairs of differences that approximate the curvature.

    Returns
    -------
    Inversion

    Raises
    ------
    ValueError
        As in :func:`invert_gradients`.

    Notes
    -----
    Cost per iteration: that of :func:`invert_gradients` times the evaluations of the line search
    (one to two), and ``4 history n d`` multiplications; memory ``2 history n d`` numbers a problem.
    """
    problem = Problem.of(weights, released, labels)
    arguments.integer("iterations", iterations, 1)
    arguments.integer("history", history, 1)
    arguments.integer("restarts", restarts, 1)
    first = problem.first_candidates(generator, restarts, start)
    descent = _Descent(problem.take(slice(None), restarts), squared_distance)
    values = first.flatten(0, 1)

    def evaluate(flat: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        loss, slope = descent.evaluate(flat.view_as(values))
        return loss, slope.flatten(1).clone()

    reached, loss = limited_memory_bfgs(evaluate, values.flatten(1), iterations, history)
    return best_of_restarts(reached.view_as(values), loss, restarts)


class _Descent:
    """The loss of candidate batches and its derivative, for P problems together."""

    def __init__(
        self,
        problem: Problem,
        distance: Distance,
        variation: float = 0.0,
        shape: tuple[int, int] = (0, 0),
    ) -> None:
        self._weights = problem.weights
        self._targets = problem.targets
        self._released = [r.to(self._targets.dtype) for r in problem.released.values()]
        self._size = inner_products(self._released, self._released)
        if not bool((self._size > 0).all()):
            raise ValueError("released gradients must not vanish")
        self._distance = distance
        self._variation = variation
        # buffers that every iteration reuses: allocation would cost more than the arithmetic
        first = next(iter(problem.weights.values()))
        rows, dimension = first.shape[-2:]
        problems, count = self._targets.shape[:2]
        self._products = [torch.empty_like(r) for r in self._released]
        self._slope = self._targets.new_empty((problems, count, dimension))
        self._left = self._targets.new_empty((problems, count, 2 * rows))
        self._right = self._targets.new_empty((problems, 2 * rows, dimension))
        self._right[:, rows:] = first
        self._total_variation = _TotalVariation(self._slope, shape) if variation else None

    def loss(self, values: torch.Tensor) -> torch.Tensor:
        """Loss (P,) of candidates (P, n, d)."""
        return self._evaluate(values)[0]

    def slope(self, values: torch.Tensor) -> torch.Tensor:
        """Derivative (P, n, d) of the loss; the next call overwrites it."""
        return self._evaluate(values, value=False)[1]

    def evaluate(self, values: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Loss and derivative; the next call overwrites the derivative."""
        return self._evaluate(values)

    def _evaluate(
        self, values: torch.Tensor, value: bool = True
    ) -> tuple[torch.Tensor, torch.Tensor]:
        share = 1.0 / values.shape[1]
        run = backward_pass(self._weights, values, self._targets)
        gradients = run.gradients(share)
        inner = inner_products(gradients, self._released, self._products)
        squared = inner_products(gradients, gradients, self._products)
        loss, by_inner, by_squared = self._distance(inner, squared, self._size)
        towards = (share * by_inner)[:, None, None]
        along = (2 * share * by_squared)[:, None, None]
        rows = self._left.shape[-1] // 2
        cotangents = [self._right[:, :rows]]
        cotangents += [torch.empty_like(g) for g in gradients[1:]]
        for v, g, r in zip(cotangents, gradients, self._released, strict=True):
            torch.mul(r, towards, out=v).addcmul_(g, along)
        self._left[..., :rows] = run.deltas[0]
        self._left[..., rows:] = run.pull_back_to_responses(cotangents)
        slope = torch.bmm(self._left, self._right, out=self._slope)
        if self._total_variation is not None:
            if value:
                loss = loss + self._variation * self._total_variation.value(values)
            self._total_variation.add_slope(values, self._variation, slope)
        return loss, slope


class _TotalVariation:
    """Mean absolute difference of neighbouring pixels, along rows plus along columns.

    Images are flat: neighbours in a row are adjacent in memory, except at the ends of rows, where
    the difference is ignored; neighbours in a column are one width apart.
    """

    def __init__(self, like: torch.Tensor, shape: tuple[int, int]) -> None:
        self._height, self._width = shape
        self._buffer = torch.empty_like(like)

    def value(self, values: torch.Tensor) -> torch.Tensor:
        """Total variation of each problem's candidates, shape (P,)."""
        total = values.new_zeros(len(values))
        for apart in (1, self._width):
            step = self._steps(values, apart)
            total += step.abs_().sum(dim=(1, 2)) * self._share(apart)
        return total

    def add_slope(self, values: torch.Tensor, factor: float, into: torch.Tensor) -> None:
        """Add ``factor`` times the derivative, (P, n, d)."""
        for apart in (1, self._width):
            sign = self._steps(values, apart).sign_()
            into[..., apart:].add_(sign, alpha=factor * self._share(apart))
            into[..., :-apart].sub_(sign, alpha=factor * self._share(apart))

    def _share(self, apart: int) -> float:
        """One over the number of differences; neighbours are 1 or a width apart in memory."""
        rows, columns = self._height - (apart > 1), self._width - (apart == 1)
        return 1 / (self._buffer.shape[1] * rows * columns)

    def _steps(self, values: torch.Tensor, apart: int) -> torch.Tensor:
        step = torch.sub(values[..., apart:], values[..., :-apart], out=self._buffer[..., apart:])
        if apart == 1:
            step[..., self._width - 1 :: self._width] = 0
        return step


def _block_size(problem: Problem, restarts: int) -> int:
    """Problems whose tensors fit in the cache (or fill a GPU), in blocks of similar size."""
    room = 2**19 if problem.targets.device.type == "cpu" else 2**27
    problems, count = problem.targets.shape[:2]
    parameters = sum(w.shape[-2] * w.shape[-1] for w in problem.weights.values())
    most = max(1, room // (restarts * (count * problem.dimension + parameters)))
    return math.ceil(problems / math.ceil(problems / most))

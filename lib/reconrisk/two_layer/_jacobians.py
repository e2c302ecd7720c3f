"""Jacobians of the released gradient in the records, for the Cramer-Rao bound."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import ArrayLike

from reconrisk.two_layer._network import Neurons, TwoLayer
from reconrisk.two_layer._release import OutputGradient
from reconrisk.two_layer._steps import Simulation, simulate

__all__ = ["gradient_jacobians", "inner_gradient_jacobians"]

#: numbers in the largest array made from a slice of a chunk
_SLICE_NUMBERS = 1 << 21


def gradient_jacobians(
    network: TwoLayer,
    inputs: ArrayLike,
    released: OutputGradient,
    *,
    active: ArrayLike | None = None,
    free_residuals: bool = False,
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield the gradient's released entries and their Jacobian in the records, by chunks.

    Both are before clipping and noise, which :func:`reconrisk.bounds.gradient_information` adds;
    pruning, dropout and local steps are those of ``released``. For a pruned gradient the Jacobian
    is that of the kept entries, with the mask held fixed.

    Parameters
    ----------
    network : TwoLayer
    inputs : array_like, shape (B, d)
        The true records.
    released : OutputGradient
        Made from the same records; its residuals replace the labels.
    active
        As in :func:`release_output_gradient`.
    free_residuals : bool
        Whether the first step's residuals are independent unknowns, as for an attacker who knows
        neither labels nor output weights; by default they depend on the records through
        ``dr_i = 2 df(x_i)``.

    Yields
    ------
    values : ndarray, shape (n,)
    jacobian : ndarray, shape (n, q)
        ``q = B d`` columns record by record, then B for the residuals if these are free.

    Raises
    ------
    ValueError
        If ``released`` does not fit the records and the network, or has ``record_dropout``.

    Notes
    -----
    Cost of one step: two passes over the neurons and ``m B d`` multiplications; of k steps:
    2 k + 1 passes and ``k m B^2 q`` multiplications. Memory: one slice of a chunk, 2**21 numbers.
    """
    steps = _simulate_release(network, inputs, released, active)
    many = steps.local.count > 1
    tangents = _residual_tangents(steps, free_residuals)
    wide = tangents.shape[2] * (len(steps.inputs) if many else 1)
    for chunk in network.neurons():
        for some in chunk.split(max(1, _SLICE_NUMBERS // wide)):
            chosen = slice(None) if released.kept is None else released.kept[some.where]
            if many:
                values, jacobian = _sum_steps(steps, some, tangents)
            else:
                values, jacobian = _single(steps, some, tangents[0])
            yield values[chosen], jacobian[chosen]


def inner_gradient_jacobians(
    network: TwoLayer, inputs: ArrayLike, released: OutputGradient
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield the gradient of the inner weights and its Jacobian in the records, by chunks.

    That of the first step, ``sum_i r_i a_j s'(w_j.x_i) x_i`` for every neuron present, with
    residuals that depend on the records. Arguments and errors as in :func:`gradient_jacobians`.

    Yields
    ------
    values : ndarray, shape (n d,)
    jacobian : ndarray, shape (n d, B d)

    Notes
    -----
    Cost: ``m B^2 d^3`` multiplications, which limits it to small d.
    """
    steps = _simulate_release(network, inputs, released, None)
    x, r = steps.inputs, steps.residuals[0]
    count, d = x.shape
    tangents = _residual_tangents(steps, False)[0]
    s = network.function
    for chunk in network.neurons():
        for some in chunk.split(max(1, _SLICE_NUMBERS // (count * d * d))):
            scores = some.scores(x)
            slope = s.slope(scores) * some.outer[:, None]
            bend = s.curvature(scores) * some.outer[:, None] * r
            jacobian = np.einsum("ni,ic,ie->nce", slope, x, tangents)
            own = jacobian.reshape(*jacobian.shape[:2], count, d)
            own += np.einsum("ni,ic,ne->ncie", bend, x, some.inner)
            own += np.einsum("ni,ce->ncie", slope * r, np.eye(d))
            values = (slope * r) @ x
            chosen = steps.presence_mask(some) > 0
            yield values[chosen].ravel(), jacobian[chosen].reshape(-1, count * d)


def _simulate_release(
    network: TwoLayer, inputs: ArrayLike, released: OutputGradient, active: ArrayLike | None
) -> Simulation:
    x = network.records(inputs)
    if len(released.residuals) != len(x) or len(released.values) != network.width:
        raise ValueError(
            f"released must be the gradient of {len(x)} records and {network.width} neurons; got "
            f"{len(released.residuals)} and {len(released.values)}"
        )
    if released.record_dropout > 0:
        raise ValueError(
            "released must come without record_dropout, whose unknown masks have no derivative; "
            f"got {released.record_dropout!r}"
        )
    return simulate(
        network,
        x,
        released.local,
        present=released.present,
        active=active,
        first_residuals=released.residuals,
    )


def _residual_tangents(steps: Simulation, free: bool) -> np.ndarray:
    """Jacobians of every step's residuals in the unknowns, (k, B, q)."""
    count, d = steps.inputs.shape
    columns = count * (d + 1) if free else count * d
    tangents = np.zeros((0, count, columns))
    first = np.zeros((count, columns))
    start = np.zeros((count, columns))
    if free:
        first[:, count * d :] = np.eye(count)
    for number in range(steps.local.count):
        if free and number == 0 and steps.local.count == 1:
            return first[None]
        slopes = _output_tangents(steps, tangents, columns)
        if number == 0:
            start = slopes if free else start
            first = first if free else 0 * slopes
        step = first + 2.0 * (slopes - start)
        tangents = np.concatenate([tangents, (step * steps.active[number][:, None])[None]])
    return tangents


def _output_tangents(steps: Simulation, tangents: np.ndarray, columns: int) -> np.ndarray:
    """Jacobian of the outputs before the step after those with given tangents, (B, q)."""
    s = steps.network.function
    x = steps.inputs
    total = np.zeros((len(x), columns))
    for chunk in steps.network.neurons():
        if len(tangents) == 0:
            # a record affects only its own output
            pull = s.slope(chunk.scores(x)) * (chunk.outer * steps.presence_mask(chunk))[:, None]
            for i, row in enumerate(pull.T @ chunk.inner):
                total[i, i * x.shape[1] : (i + 1) * x.shape[1]] += row
            continue
        for some in chunk.split(max(1, _SLICE_NUMBERS // (columns * len(x)))):
            presence_mask = steps.presence_mask(some)
            *_, (scores, outer, d_scores, d_outer, _, _) = _replay_with_tangents(
                steps, some, np.concatenate([tangents, np.zeros((1, *tangents.shape[1:]))])
            )
            total += (s.value(scores) * presence_mask[:, None]).T @ d_outer
            pull = s.slope(scores) * (outer * presence_mask)[:, None]
            total += np.einsum("ni,niq->iq", pull, d_scores)
    return total


def _single(
    steps: Simulation, some: Neurons, tangents: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """One step's gradient, (n,), and its Jacobian, (n, q)."""
    s, r = steps.network.function, steps.residuals[0]
    scores = some.scores(steps.inputs)
    values = s.value(scores)
    jacobian = values @ tangents
    count, d = steps.inputs.shape
    own = jacobian[:, : count * d].reshape(len(jacobian), count, d)
    own += (s.slope(scores) * r)[:, :, None] * some.inner[:, None, :]
    return values @ r, jacobian


def _sum_steps(
    steps: Simulation, some: Neurons, tangents: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The sum of all steps' gradients, (n,), and its Jacobian, (n, q)."""
    value = np.zeros(len(some.outer))
    jacobian = np.zeros((len(some.outer), tangents.shape[2]))
    for *_, gradient, d_gradient in _replay_with_tangents(steps, some, tangents):
        value += gradient
        jacobian += d_gradient
    return value, jacobian


def _replay_with_tangents(
    steps: Simulation, some: Neurons, tangents: np.ndarray
) -> Iterator[tuple[np.ndarray, ...]]:
    """Replay the steps as :meth:`Simulation.replay` does, with derivatives of all results.

    Yields scores (n, B), outer (n,), d_scores (n, B, q), d_outer (n, q), gradient (n,) and
    d_gradient (n, q) for as many steps as there are tangents.
    """
    s, x = steps.network.function, steps.inputs
    count, d = x.shape
    gram = x @ x.T
    scores, outer = some.scores(x), some.outer
    d_scores = np.zeros((*scores.shape, tangents.shape[2]))
    d_gram = np.zeros((count, count, tangents.shape[2]))
    for i in range(count):
        own = slice(i * d, (i + 1) * d)
        d_scores[:, i, own] = some.inner
        d_gram[i, :, own] += x
        d_gram[:, i, own] += x
    d_outer = np.zeros((len(outer), tangents.shape[2]))
    for number, move in enumerate(tangents):
        # the residuals of the last step may be unknown zeros; they are not needed
        r = steps.residuals[number]
        slope = s.slope(scores)
        gradient = s.value(scores) @ r
        d_gradient = s.value(scores) @ move + np.einsum("ni,niq->nq", slope * r, d_scores)
        yield scores, outer, d_scores, d_outer, gradient, d_gradient
        if number + 1 == len(tangents):
            return
        push = outer[:, None] * slope * r
        d_push = (outer[:, None] * s.curvature(scores) * r)[:, :, None] * d_scores
        d_push += (slope * r)[:, :, None] * d_outer[:, None, :]
        d_push += (outer[:, None] * slope)[:, :, None] * move
        shift = np.einsum("nkq,ki->niq", d_push, gram) + np.einsum("nk,kiq->niq", push, d_gram)
        scores = scores - steps.local.inner_rate * (push @ gram)
        d_scores = d_scores - steps.local.inner_rate * shift
        outer = outer - steps.local.outer_rate * gradient
        d_outer = d_outer - steps.local.outer_rate * d_gradient

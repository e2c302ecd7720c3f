"""Local steps of gradient descent, replayed neuron by neuron."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from reconrisk import arguments
from reconrisk.two_layer._network import Neurons, TwoLayer

__all__ = ["LocalSteps", "Simulation", "simulate"]


@dataclass(frozen=True)
class LocalSteps:
    """Local steps of gradient descent of a client before its update (local aggregation).

    The released value is the sum of the steps' gradients: the update of the output weights divided
    by their learning rate, ``(a^(0) - a^(k))/eta_a`` (Liu et al. 2024, eq. 29).

    Parameters
    ----------
    count : int
        k in [1, 1000]; one is plain gradient descent.
    outer_rate, inner_rate : float
        Learning rates eta_a and eta_w >= 0 of the output and the inner weights. The paper takes
        eta_a of order 1/m^2 to 1 and eta_w of order 1 to m; stable steps need ``eta_a m B`` well
        below 1.
    """

    count: int = 1
    outer_rate: float = 0.0
    inner_rate: float = 0.0

    def __post_init__(self) -> None:
        arguments.integer("count", self.count, 1, 1000)
        arguments.real("outer_rate", self.outer_rate, 0, 1e12)
        arguments.real("inner_rate", self.inner_rate, 0, 1e12)


@dataclass(frozen=True)
class Simulation:
    """The local steps of one batch, in a form that each neuron can replay.

    A neuron depends on the others only through the residuals. Given these for every step, its
    gradients follow from its own initial weights, and from the inner ones only through the scores
    ``w_j.x_i``.

    Attributes
    ----------
    network : TwoLayer
    inputs : ndarray, shape (B, d)
    local : LocalSteps
    present : ndarray of bool, shape (m,), optional
        Mask of the neurons that dropout kept; None for all.
    active : ndarray of 0 and 1, shape (k, B)
        Mask of the records that take part in each step.
    residuals : ndarray, shape (k, B)
        r of every step, zero for records that do not take part.
    first : ndarray, shape (B,)
        r of all records at the initial weights.
    """

    network: TwoLayer
    inputs: np.ndarray
    local: LocalSteps
    present: np.ndarray | None
    active: np.ndarray
    residuals: np.ndarray
    first: np.ndarray

    def values(self, some: Neurons) -> np.ndarray:
        """Return the sum of the steps' gradients in these neurons' output weights, (n,)."""
        total = sum(gradient for _, _, gradient in self.replay(some))
        return np.asarray(total) * self.presence_mask(some)

    def presence_mask(self, some: Neurons) -> np.ndarray:
        """Return one for each present neuron and zero for the others, (n,)."""
        return np.ones(len(some.outer)) if self.present is None else self.present[some.where] * 1.0

    def replay(self, some: Neurons) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """Yield each step's scores, (n, B), output weights, (n,), and gradient, (n,)."""
        s, gram = self.network.function, self.inputs @ self.inputs.T
        scores, outer = some.scores(self.inputs), some.outer
        for number, r in enumerate(self.residuals):
            gradient = s.value(scores) @ r
            yield scores, outer, gradient
            if number + 1 < len(self.residuals):
                push = (outer[:, None] * s.slope(scores)) * r
                scores = scores - self.local.inner_rate * (push @ gram)
                outer = outer - self.local.outer_rate * gradient


def simulate(
    network: TwoLayer,
    inputs: np.ndarray,
    local: LocalSteps,
    *,
    present: np.ndarray | None = None,
    active: ArrayLike | None = None,
    labels: np.ndarray | None = None,
    first_residuals: np.ndarray | None = None,
) -> Simulation:
    """Simulate local steps from the labels, or from the residuals of the first step.

    Parameters
    ----------
    network : TwoLayer
    inputs : ndarray, shape (B, d)
    local : LocalSteps
    present : ndarray of bool, shape (m,), optional
        Mask of the neurons that dropout kept; by default all.
    active : array_like of 0 and 1, shape (k, B), optional
        Mask of the records that take part in each step; by default all.
    labels : ndarray, shape (B,), optional
        Not needed with ``first_residuals``.
    first_residuals : ndarray, shape (B,), optional
        r of all records at the initial weights. The residuals of later steps differ from them by
        ``2 (f^(t)(x_i) - f^(0)(x_i))``.

    Returns
    -------
    Simulation

    Raises
    ------
    ValueError
        If ``active`` has another shape or other values.

    Notes
    -----
    Cost: k passes over the neurons; none if k = 1 and the first residuals are given.
    """
    part = np.ones((local.count, len(inputs)))
    if active is not None:
        part = np.asarray(active, dtype=float)
        if part.shape != (local.count, len(inputs)) or not np.all((part == 0) | (part == 1)):
            raise ValueError(
                f"active must be 0 or 1 of shape {(local.count, len(inputs))}; got {active!r}"
            )
    # offset: 2 f^(0) minus the first residuals, that is, twice the labels
    offset = None if labels is None else 2.0 * labels
    residuals = np.empty((0, len(inputs)))
    first = np.zeros(len(inputs)) if first_residuals is None else first_residuals
    for step in range(local.count):
        if step == 0 and first_residuals is not None and local.count == 1:
            residuals = first_residuals[None] * part
            break
        # a row of zeros replaces the residuals of this step, which are not known yet
        rows = np.vstack([residuals, np.zeros(len(inputs))])
        so_far = Simulation(network, inputs, local, present, part, rows, first)
        outputs = np.zeros(len(inputs))
        for some in network.neurons():
            *_, (scores, outer, _) = so_far.replay(some)
            outputs += (outer * so_far.presence_mask(some)) @ network.function.value(scores)
        if offset is None:
            assert first_residuals is not None
            offset = 2.0 * outputs - first_residuals
        now = 2.0 * outputs - offset
        first = now if step == 0 else first
        residuals = np.vstack([residuals, now * part[step]])
    return Simulation(network, inputs, local, present, part, residuals, first)

"""Records and dropout masks together, where each record of a batch has masks of its own.

With such dropout a released entry is ``g_j = sum_i M_ij r_i s(w_j.x_i)``, one of only ``2^B`` sums.
To the tensor attack and to plain least squares the masks are noise. But which of the sums an
entry is can be told as soon as the records are roughly known, and then the entry is as good as one
without dropout: expectation maximisation over the masks, with Gauss-Newton steps for the records
and a noise that shrinks as the fit gets better. Not in Liu et al. 2024.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import product

import numpy as np

from reconrisk import arguments
from reconrisk.attacks._levenberg_marquardt import damped_step
from reconrisk.attacks.two_layer_refinement import (
    ENTRIES_PER_UNKNOWN,
    Refinement,
    first_entries,
)
from reconrisk.two_layer import OutputGradient, TwoLayer

__all__ = ["refine_with_masks"]

# a root mean square, relative to the values', that is rounding alone
_EXACT = 1e-12
# steps without a better fit before a start is given up
_PATIENCE = 12
#: 2^B sums for every entry
_MOST_RECORDS = 10


def refine_with_masks(
    network: TwoLayer,
    released: OutputGradient,
    starts: Iterable[Refinement],
    *,
    noise_std: float = 0.0,
    iterations: int = 80,
    entries_per_unknown: int = ENTRIES_PER_UNKNOWN,
) -> Refinement:
    """Fit records, residuals and every record's dropout masks.

    Parameters
    ----------
    network : TwoLayer
    released : OutputGradient
        Made with ``record_dropout``; not pruned.
    starts : iterable of Refinement
        First candidates, as :func:`refine_records` and :func:`refine_in_span` return them from the
        same gradient; the next is tried where one does not lead to a fit.
    noise_std : float
        Standard deviation of the entries' noise.
    iterations : int
        Steps from each start, at most.
    entries_per_unknown : int
        At most so many times more entries than unknowns are used, the first ones.

    Returns
    -------
    Refinement
        The best fit. Its loss is the mean over the masks that remain in question.

    Raises
    ------
    ValueError
        If the gradient is without ``record_dropout`` or pruned, the batch has more than ten
        records, there are no starts, or an argument is out of range.

    Notes
    -----
    ``n (2^B B + (B (d + 1))^2)`` multiplications a step and ``n (2^B + B (d + 1))`` numbers in
    memory, n the entries used.
    """
    sigma = float(arguments.real("noise_std", noise_std, 0, 1e140))
    arguments.integer("iterations", iterations, 1, 100000)
    arguments.integer("entries_per_unknown", entries_per_unknown, 1)
    share = released.record_dropout
    if share == 0 or released.kept is not None:
        raise ValueError("released must have record_dropout and all its entries; got others")
    best: Refinement | None = None
    for start in starts:
        if len(start.inputs) > _MOST_RECORDS:
            raise ValueError(
                f"starts must have at most {_MOST_RECORDS} records; got {len(start.inputs)}"
            )
        most = entries_per_unknown * start.inputs.size
        fit = _Masked(network, released, len(start.inputs), most)
        found = fit.run(start.inputs, start.residuals / (1.0 - share), sigma, iterations)
        if best is None or found.loss < best.loss:
            best = found
        if best.fitted:
            break
    if best is None:
        raise ValueError("starts must not be empty; got none")
    return best


class _Masked:
    """Some entries with their neurons, and all masks a batch can have."""

    def __init__(self, network: TwoLayer, released: OutputGradient, count: int, most: int) -> None:
        held = first_entries(network, released, most)
        self.function = network.function
        self.inner = np.concatenate([some.inner.astype(float) for some, _ in held])
        self.values = np.concatenate([g for _, g in held])
        self.masks = np.array(list(product((0.0, 1.0), repeat=count)))
        share, kept = released.record_dropout, self.masks.sum(axis=1)
        self.prior = kept * np.log(1.0 - share) + (count - kept) * np.log(share)

    def run(
        self, inputs: np.ndarray, residuals: np.ndarray, noise_std: float, iterations: int
    ) -> Refinement:
        """Step until the fit is exact, what noise explains, or no longer gets better."""
        size = float(self.values @ self.values)
        count = len(self.values)
        enough = noise_std**2 * count * (1.0 + 5.0 * np.sqrt(2.0 / count)) + 1e-20 * size
        x, r, spread, idle = inputs, residuals, -1.0, 0
        best, chosen = np.inf, (inputs, residuals)
        for _ in range(iterations):
            values = self.function.value(self.inner @ x.T)
            gaps = (values * r) @ self.masks.T - self.values[:, None]
            squares = gaps * gaps
            if spread < 0:
                # at first so wide that no mask is ruled out on the strength of a poor start
                spread = 2.0 * np.sqrt(np.mean(squares.min(axis=1)))
            odds = self._odds(squares, max(spread, noise_std, 1e-14 * np.sqrt(size / count)))
            loss = float(np.sum(odds * squares))
            if loss < 0.999 * best:
                idle = 0
            if loss < best:
                best, chosen = loss, (x, r)
            spread, idle = np.sqrt(loss / count), idle + 1
            if spread <= _EXACT * np.sqrt(size / count) or idle > _PATIENCE:
                break
            x, r = self._step(x, r, values, odds, gaps)
        return Refinement(*chosen, best / size, best <= enough)

    def _odds(self, squares: np.ndarray, spread: float) -> np.ndarray:
        """Probability of every mask at every entry, (n, 2^B)."""
        logs = self.prior - 0.5 * squares / spread**2
        odds = np.exp(logs - logs.max(axis=1, keepdims=True))
        return odds / odds.sum(axis=1, keepdims=True)

    def _step(
        self,
        x: np.ndarray,
        r: np.ndarray,
        values: np.ndarray,
        odds: np.ndarray,
        gaps: np.ndarray,
    ) -> tuple[np.ndarray, np.ndarray]:
        """One Gauss-Newton step on the expected sum of squares."""
        count, d = x.shape
        slopes = self.function.slope(self.inner @ x.T) * r
        blocks = [
            np.column_stack([slopes[:, i, None] * self.inner, values[:, i]]) for i in range(count)
        ]
        matrix = np.empty((count * (d + 1), count * (d + 1)))
        towards = np.empty(count * (d + 1))
        for i in range(count):
            own = slice(i * (d + 1), (i + 1) * (d + 1))
            towards[own] = blocks[i].T @ ((odds * gaps) @ self.masks[:, i])
            for k in range(i, count):
                both = odds @ (self.masks[:, i] * self.masks[:, k])
                other = slice(k * (d + 1), (k + 1) * (d + 1))
                matrix[own, other] = (blocks[i] * both[:, None]).T @ blocks[k]
                matrix[other, own] = matrix[own, other].T
        step = damped_step(matrix, towards, 1e-8).reshape(count, d + 1)
        moved = np.column_stack([x, r]) - step
        return moved[:, :d], moved[:, d]

"""Joint recovery of records and dropout masks, where each record of a batch has its own masks.

With such dropout a released entry is ``g_j = sum_i M_ij r_i s(w_j.x_i)``, one of only ``2^B`` sums.
To the tensor attack and to plain least squares the masks are noise. But approximate records already
identify the sum of each entry, which is then as informative as one without dropout. The method is
expectation maximisation over the masks, with Gauss-Newton steps for the records and a noise level
that decreases as the fit improves. Not in Liu et al. 2024.
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

#: root mean square, relative to the values', that is rounding
_EXACT = 1e-12
#: steps without a better fit after which a start is abandoned
_MOST_STALLED = 12
#: largest B, because every entry has 2^B sums
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
        Initial candidates, as :func:`refine_records` and :func:`refine_in_span` return them from
        the same gradient; tried in turn until one leads to a fit.
    noise_std : float
        Standard deviation of the noise on each entry.
    iterations : int
        Most steps from each start.
    entries_per_unknown : int
        Limits the entries used, the first ones, to this multiple of the unknowns.

    Returns
    -------
    Refinement
        The best fit. Its loss is the expectation over the masks.

    Raises
    ------
    ValueError
        If the gradient is without ``record_dropout`` or pruned, the batch has more than ten
        records, there are no starts, or an argument is out of range.

    Notes
    -----
    Cost: ``n (2^B B + (B (d + 1))^2)`` multiplications a step and ``n (2^B + B (d + 1))`` numbers
    in memory, with n the entries used.
    """
    sigma = float(arguments.real("noise_std", noise_std, 0, 1e140))
    arguments.integer("iterations", iterations, 1, 100000)
    arguments.integer("entries_per_unknown", entries_per_unknown, 1)
    share = released.record_dropout
    if share == 0 or released.kept is not None:
        raise ValueError(
            "released must have record_dropout and not be pruned; "
            f"got record_dropout {share!r} and {released.count} of {len(released.values)} entries"
        )
    best: Refinement | None = None
    for start in starts:
        if len(start.inputs) > _MOST_RECORDS:
            raise ValueError(
                f"starts must have at most {_MOST_RECORDS} records; got {len(start.inputs)}"
            )
        most = entries_per_unknown * start.inputs.size
        fit = _MaskedFit(network, released, len(start.inputs), most)
        found = fit.run(start.inputs, start.residuals / (1.0 - share), sigma, iterations)
        if best is None or found.loss < best.loss:
            best = found
        if best.fitted:
            break
    if best is None:
        raise ValueError("starts must not be empty; got none")
    return best


class _MaskedFit:
    """The fit of some entries over all masks that a batch can have."""

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
        """Iterate until the fit is exact or no longer improves."""
        size = float(self.values @ self.values)
        count = len(self.values)
        enough = noise_std**2 * count * (1.0 + 5.0 * np.sqrt(2.0 / count)) + 1e-20 * size
        x, r, spread, stalled = inputs, residuals, -1.0, 0
        best, chosen = np.inf, (inputs, residuals)
        for _ in range(iterations):
            values = self.function.value(self.inner @ x.T)
            misfits = (values * r) @ self.masks.T - self.values[:, None]
            squares = misfits * misfits
            if spread < 0:
                # initially wide, so that a poor start does not rule out any mask
                spread = 2.0 * np.sqrt(np.mean(squares.min(axis=1)))
            posterior = self._posterior(
                squares, max(spread, noise_std, 1e-14 * np.sqrt(size / count))
            )
            loss = float(np.sum(posterior * squares))
            if loss < 0.999 * best:
                stalled = 0
            if loss < best:
                best, chosen = loss, (x, r)
            spread, stalled = np.sqrt(loss / count), stalled + 1
            if spread <= _EXACT * np.sqrt(size / count) or stalled > _MOST_STALLED:
                break
            x, r = self._step(x, r, values, posterior, misfits)
        return Refinement(*chosen, best / size, best <= enough)

    def _posterior(self, squares: np.ndarray, spread: float) -> np.ndarray:
        """Posterior probability of every mask at every entry, (n, 2^B)."""
        logs = self.prior - 0.5 * squares / spread**2
        posterior = np.exp(logs - logs.max(axis=1, keepdims=True))
        return posterior / posterior.sum(axis=1, keepdims=True)

    def _step(
        self,
        x: np.ndarray,
        r: np.ndarray,
        values: np.ndarray,
        posterior: np.ndarray,
        misfits: np.ndarray,
    ) -> tuple[np.ndarray, np.ndarray]:
        """One Gauss-Newton step on the expected sum of squares."""
        count, d = x.shape
        slopes = self.function.slope(self.inner @ x.T) * r
        blocks = [
            np.column_stack([slopes[:, i, None] * self.inner, values[:, i]]) for i in range(count)
        ]
        matrix = np.empty((count * (d + 1), count * (d + 1)))
        gradient = np.empty(count * (d + 1))
        for i in range(count):
            own = slice(i * (d + 1), (i + 1) * (d + 1))
            gradient[own] = blocks[i].T @ ((posterior * misfits) @ self.masks[:, i])
            for k in range(i, count):
                both = posterior @ (self.masks[:, i] * self.masks[:, k])
                other = slice(k * (d + 1), (k + 1) * (d + 1))
                matrix[own, other] = (blocks[i] * both[:, None]).T @ blocks[k]
                matrix[other, own] = matrix[own, other].T
        step = damped_step(matrix, gradient, 1e-8).reshape(count, d + 1)
        moved = np.column_stack([x, r]) - step
        return moved[:, :d], moved[:, d]

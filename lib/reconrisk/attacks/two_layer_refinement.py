"""Refinement of the tensor attack by least squares on the gradient of a two-layer network.

The tensor attack uses two moments of the gradient; the refinement uses all m entries. Each is
``sum_i r_i s(w_j.x_i)`` in B (d + 1) unknowns, the records and their residuals, which without noise
are usually determined once there are a few times more entries than unknowns. An exception: if all
residuals have one sign, pruning keeps the neurons at which every record is in the linear part of an
activation like elu, and these depend on the sum of the records only;
:func:`reconrisk.bounds.cramer_rao_error` is infinite then. Neither labels nor output weights are
needed.

Not in Liu et al. 2024. The method is Levenberg-Marquardt, first within the span that the tensor
attack found, from several starts, then in full space.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice

import numpy as np

from reconrisk import arguments
from reconrisk.attacks._levenberg_marquardt import NormalEquations, minimise_squares
from reconrisk.attacks.two_layer_moments import TensorReconstruction
from reconrisk.special import Activation
from reconrisk.two_layer import LocalSteps, Neurons, OutputGradient, TwoLayer, simulate

__all__ = ["Refinement", "first_entries", "refine_in_span", "refine_records"]

#: Entries per unknown that suffice to distinguish a good start from a bad one.
ENTRIES_PER_UNKNOWN = 50
#: sum of squares, relative to the values', that is rounding
_EXACT = 1e-27
#: lengths of perturbations, relative to a record's
_HOPS = (0.03, 0.1, 0.3)
_SLICE_NUMBERS = 1 << 21
#: most inner weights that are kept in memory between steps
_HELD = 1 << 22


@dataclass(frozen=True)
class Refinement:
    """The result of a least-squares fit.

    Attributes
    ----------
    inputs : ndarray, shape (B, d)
        In arbitrary order; for an odd activation a record and its residual may both have the
        opposite sign.
    residuals : ndarray, shape (B,)
        r of the first step, up to an unknown clipping factor.
    loss : float
        Sum of squared misfits, relative to that of the released values.
    fitted : bool
        Whether the noise explains the loss.
    """

    inputs: np.ndarray
    residuals: np.ndarray
    loss: float
    fitted: bool


def refine_records(
    network: TwoLayer,
    released: OutputGradient,
    start: TensorReconstruction,
    *,
    noise_std: float = 0.0,
    unit_norm: bool = True,
    restarts: int = 6,
    attempts: int = 6,
    iterations: int = 60,
    hops: int = 0,
    seed: int = 0,
) -> Refinement:
    """Fit records and residuals to every released entry.

    Parameters
    ----------
    network : TwoLayer
    released : OutputGradient
        Pruned and dropped entries are left out of the fit. Local steps are simulated, which needs
        the output weights, and for dropout the neurons that were present. A clipping factor is
        absorbed in the residuals.
    start : TensorReconstruction
        Initial candidates, and the span they were found in.
    noise_std : float
        Standard deviation of the noise on each entry; used only to decide when to stop.
    unit_norm : bool
        Whether the records are known to have norm one, as in the paper: B penalties enforce it,
        with a weight that dominates the noise. Otherwise norms are estimated too, except for relu
        and leaky_relu, where only the product of norm and residual is determined; fits diverge
        more often.
    restarts : int
        Random starts in the span besides that of the tensor attack. Under heavy pruning the tensor
        attack's span is poor, and more starts (20, with as many attempts) often help.
    attempts : int
        Most fits in the span, best first, that are continued in full space on the first 50 entries
        per unknown, until one fits; the best of them is continued on all entries.
    iterations : int
        Most steps of each fit.
    hops : int
        Most further fits on all entries, each from the best one slightly perturbed, until one
        fits (basin hopping). Between two similar records a ReLU network's loss has many shallow
        minima; 200 hops usually leave them.
    seed : int
        Seed of the random starts and perturbations.

    Returns
    -------
    Refinement
        The fit with the least loss.

    Raises
    ------
    ValueError
        If an argument is out of range.

    Notes
    -----
    Cost of a step in full space: one or two passes over the neurons (times the local steps) and
    ``m' (B (d + 1))^2`` multiplications with m' released entries; memory for ``(B (d + 1))^2``
    numbers and one slice, and up to 16 MB of inner weights held between steps. For the fits in the
    span see :func:`refine_in_span`.
    """
    arguments.integer("attempts", attempts, 1, 1000)
    arguments.integer("iterations", iterations, 1, 100000)
    arguments.integer("hops", hops, 0, 100000)
    fits = refine_in_span(
        network,
        released,
        start,
        unit_norm=unit_norm,
        restarts=restarts,
        iterations=iterations,
        seed=seed,
    )
    everything = _FullSpace.of(network, released, len(start.inputs), unit_norm, None)
    few = ENTRIES_PER_UNKNOWN * everything.unknowns
    some = _FullSpace.of(network, released, len(start.inputs), unit_norm, few)

    def fit(space: _FullSpace, point: np.ndarray) -> tuple[np.ndarray, float]:
        enough = _EXACT * space.size
        return minimise_squares(
            space.normal, space.loss, point, iterations=iterations, enough=enough
        )

    tries: list[tuple[float, np.ndarray]] = []
    for first in fits[:attempts]:
        point, loss = fit(some, np.concatenate([first.inputs.ravel(), first.residuals]))
        tries.append((loss, point))
        if loss <= _largest_noise(some.size, some.entry_count, noise_std):
            break
    point = min(tries, key=lambda t: t[0])[1]
    # these fits took the sum over local steps for a single step
    x, r = everything.parts(point)
    point, loss = fit(everything, np.concatenate([x.ravel(), r / released.local.count]))
    explained = _largest_noise(everything.size, everything.entry_count, noise_std)
    rng = np.random.default_rng([seed, 0x40B])
    for _ in range(hops if loss > explained else 0):
        moved = point.copy()
        size = np.sqrt(np.mean(moved[: x.size] ** 2))
        moved[: x.size] += rng.choice(_HOPS) * rng.standard_normal(x.size) * size
        moved, other = fit(everything, moved)
        if other < loss:
            point, loss = moved, other
        if loss <= explained:
            break
    return Refinement(
        *everything.parts(point), float(loss / everything.size), bool(loss <= explained)
    )


def refine_in_span(
    network: TwoLayer,
    released: OutputGradient,
    start: TensorReconstruction,
    *,
    unit_norm: bool = True,
    restarts: int = 6,
    iterations: int = 60,
    entries_per_unknown: int = ENTRIES_PER_UNKNOWN,
    seed: int = 0,
) -> list[Refinement]:
    """Fit records and residuals within a known or estimated span: B^2 + B unknowns.

    Parameters
    ----------
    network, released, start, unit_norm, restarts, iterations, seed
        As in :func:`refine_records`; local steps are ignored.
    entries_per_unknown : int
        Limits the entries used, the first ones, to this multiple of the unknowns.

    Returns
    -------
    list of Refinement
        One for each start, least loss first. Exact if the span is.

    Raises
    ------
    ValueError
        If an argument is out of range.

    Notes
    -----
    Cost: one pass over (part of) the neurons; each step ``n (B^2 + B)^2`` multiplications and
    ``n (B^2 + B)`` numbers in memory, with n the entries used.
    """
    arguments.integer("restarts", restarts, 0, 1000)
    arguments.integer("entries_per_unknown", entries_per_unknown, 1)
    span, count = start.span, len(start.inputs)
    most = entries_per_unknown * (count * count + count)
    held = first_entries(network, released, most)
    coordinates = np.concatenate([some.inner.astype(float) @ span.T for some, _ in held])
    values = np.concatenate([g for _, g in held])
    size = float(values @ values)
    fit = _InSpan(network.function, coordinates, values, count, np.sqrt(size) * unit_norm)
    rng = np.random.default_rng([seed, 0x5BA7])
    initials = [start.inputs @ span.T, *rng.standard_normal((restarts, count, len(span)))]
    found = []
    for initial in initials:
        unit = initial / np.linalg.norm(initial, axis=1, keepdims=True)
        point = fit.best_signs(unit)
        point, loss = minimise_squares(
            fit.normal, fit.loss, point, iterations=iterations, enough=_EXACT * size
        )
        inputs, residuals = fit.parts(point)
        fitted = loss <= _largest_noise(size, len(values), 0.0)
        found.append(Refinement(inputs @ span, residuals, loss / size, fitted))
    return sorted(found, key=lambda r: r.loss)


def _largest_noise(size: float, entries: int, noise_std: float) -> float:
    """Largest sum of squares that noise, or rounding without noise, explains."""
    sigma = float(arguments.real("noise_std", noise_std, 0, 1e140))
    return sigma**2 * entries * (1.0 + 5.0 * np.sqrt(2.0 / entries)) + 1e-12 * size


def first_entries(
    network: TwoLayer, released: OutputGradient, most: int
) -> list[tuple[Neurons, np.ndarray]]:
    """Return the first released entries, at most ``most`` of them, with their neurons."""
    found, left = [], most
    for some, g in released.entries(network):
        # a chunk may have no released entry
        found += [(part, g[:left]) for part in islice(some.split(left), 1)]
        left -= len(g)
        if left <= 0:
            break
    return found


def _unit_squares(
    x: np.ndarray, weight: float, sums: tuple[np.ndarray, np.ndarray] | None
) -> float:
    """Return ``sum_i (weight (|x_i|^2 - 1))^2``; add its terms to ``J'e`` and ``J'J`` if given."""
    if weight == 0.0:
        return 0.0
    count, d = x.shape
    misfit = weight * (np.sum(x * x, axis=1) - 1.0)
    if sums is not None:
        for i in range(count):
            own = slice(i * d, (i + 1) * d)
            slope = 2.0 * weight * x[i]
            sums[0][own] += misfit[i] * slope
            sums[1][own, own] += np.outer(slope, slope)
    return float(misfit @ misfit)


@dataclass(frozen=True)
class _InSpan:
    """The fit of ``sum_i r_i s(u_j.c_i)``; a point is the c, (B, B), followed by the r."""

    function: Activation
    coordinates: np.ndarray
    values: np.ndarray
    count: int
    unit_weight: float

    def parts(self, point: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return point[: -self.count].reshape(self.count, -1), point[-self.count :]

    def loss(self, point: np.ndarray) -> float:
        c, r = self.parts(point)
        misfit = self.function.value(self.coordinates @ c.T) @ r - self.values
        return float(misfit @ misfit) + _unit_squares(c, self.unit_weight, None)

    def normal(self, point: np.ndarray) -> NormalEquations:
        c, r = self.parts(point)
        scores = self.coordinates @ c.T
        value = self.function.value(scores)
        pull = self.function.slope(scores) * r
        moved = (pull[:, :, None] * self.coordinates[:, None, :]).reshape(len(pull), -1)
        slopes = np.concatenate([moved, value], axis=1)
        misfit = value @ r - self.values
        sums = (slopes.T @ misfit, slopes.T @ slopes)
        return float(misfit @ misfit) + _unit_squares(c, self.unit_weight, sums), *sums

    def best_signs(self, c: np.ndarray) -> np.ndarray:
        """Flip signs greedily; return the vectors with their least-squares residuals."""
        point, loss = self._with_residuals(c)
        for i in range(self.count):
            flipped = c.copy()
            flipped[i] *= -1
            other, other_loss = self._with_residuals(flipped)
            if other_loss < loss:
                c, point, loss = flipped, other, other_loss
        return point

    def _with_residuals(self, c: np.ndarray) -> tuple[np.ndarray, float]:
        value = self.function.value(self.coordinates @ c.T)
        r = np.linalg.lstsq(value.T @ value, value.T @ self.values, rcond=1e-10)[0]
        misfit = value @ r - self.values
        return np.concatenate([c.ravel(), r]), float(misfit @ misfit)


@dataclass(frozen=True)
class _FullSpace:
    """The fit in full space, streamed; a point is the records, (B, d), followed by the residuals.

    Local steps are simulated exactly in the values. The derivatives neglect the small change of the
    network over the steps, which affects the path but not the minimum.
    """

    network: TwoLayer
    released: OutputGradient
    local: LocalSteps
    held: list[tuple[Neurons, np.ndarray]] | None
    count: int
    unit_weight: float
    size: float
    entry_count: int

    @classmethod
    def of(
        cls,
        network: TwoLayer,
        released: OutputGradient,
        count: int,
        unit_norm: bool,
        most: int | None,
    ) -> _FullSpace:
        """Set up a fit of all entries, or of the first ``most`` with local steps ignored."""
        held, local = None, released.local
        size, entries = float(released.seen @ released.seen), released.count
        if most is not None:
            held, local = first_entries(network, released, most), LocalSteps()
            size = sum(float(g @ g) for _, g in held)
            entries = sum(len(g) for _, g in held)
        elif entries * network.dimension <= _HELD:
            held = list(released.entries(network))
        weight = float(np.sqrt(size)) if unit_norm else 0.0
        return cls(network, released, local, held, count, weight, size, entries)

    @property
    def unknowns(self) -> int:
        return self.count * (self.network.dimension + 1)

    def parts(self, point: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return point[: -self.count].reshape(self.count, -1), point[-self.count :]

    def loss(self, point: np.ndarray) -> float:
        return self._accumulate(point, None) + _unit_squares(
            self.parts(point)[0], self.unit_weight, None
        )

    def normal(self, point: np.ndarray) -> NormalEquations:
        sums = (np.zeros(len(point)), np.zeros((len(point), len(point))))
        loss = self._accumulate(point, sums)
        return loss + _unit_squares(self.parts(point)[0], self.unit_weight, sums), *sums

    def _accumulate(self, point: np.ndarray, sums: tuple[np.ndarray, np.ndarray] | None) -> float:
        """Return the sum of squares; add its terms to ``J'e`` and ``J'J`` if given."""
        x, r = self.parts(point)
        released, s = self.released, self.network.function
        steps = simulate(self.network, x, self.local, present=released.present, first_residuals=r)
        total_residuals = steps.residuals.sum(axis=0)
        rows = max(1, _SLICE_NUMBERS // len(point))
        loss = 0.0
        for chunk, values in self.held or released.entries(self.network):
            for start, some in zip(range(0, len(values), rows), chunk.split(rows), strict=True):
                misfit, scores = -values[start : start + rows], np.empty(0)
                for step_scores, _, gradient in steps.replay(some):
                    misfit, scores = misfit + gradient, step_scores
                loss += float(misfit @ misfit)
                if sums is not None:
                    pull = s.slope(scores) * total_residuals
                    moved = (pull[:, :, None] * some.inner[:, None, :]).reshape(len(misfit), -1)
                    value = self.local.count * s.value(scores)
                    slopes = np.concatenate([moved, value], axis=1)
                    sums[0][:] += slopes.T @ misfit
                    sums[1][:] += slopes.T @ slopes
        return loss

"""The release of a batch's gradient of the output weights under defences."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from reconrisk import arguments
from reconrisk.two_layer._network import Neurons, TwoLayer
from reconrisk.two_layer._steps import LocalSteps, simulate

__all__ = ["OutputGradient", "aggregate_gradients", "release_output_gradient"]


@dataclass(frozen=True)
class OutputGradient:
    """The released gradient of the output weights.

    Attributes
    ----------
    values : ndarray, shape (m,)
        Zero where nothing is released.
    kept : ndarray of bool, shape (m,), optional
        Mask of the released entries, which attackers know, because the zeros of pruning and dropout
        are visible; None for all.
    present : ndarray of bool, shape (m,), optional
        Mask of the neurons that dropout kept; None for all.
    local : LocalSteps
        The client's local steps, which attackers know.
    residuals : ndarray, shape (B,)
        The true r of all records at the initial weights; for bounds and tests, not for attacks.
    norm : float
        Norm of the gradient after pruning and before clipping.
    record_dropout : float
        Share of the neurons dropped for each record separately: attackers know the share, not the
        masks.
    """

    values: np.ndarray
    kept: np.ndarray | None
    present: np.ndarray | None
    local: LocalSteps
    residuals: np.ndarray
    norm: float
    record_dropout: float = 0.0

    @property
    def count(self) -> int:
        """Number of released entries."""
        return len(self.values) if self.kept is None else int(self.kept.sum())

    @property
    def seen(self) -> np.ndarray:
        """The released entries, shape (count,)."""
        return self.values if self.kept is None else self.values[self.kept]

    def entries(self, network: TwoLayer) -> Iterator[tuple[Neurons, np.ndarray]]:
        """Yield the neurons with released entries, chunk by chunk, and these entries, (n,).

        If only some of a chunk's entries are released, its ``where`` starts at its first neuron and
        has their number as length.

        Raises
        ------
        ValueError
            If ``values`` is not finite with one value for each of the network's neurons.
        """
        if len(self.values) != network.width or not np.all(np.isfinite(self.values)):
            raise ValueError(
                f"released must have {network.width} finite values, one a neuron; "
                f"got {len(self.values)}"
            )
        for some in network.neurons():
            g = self.values[some.where]
            if self.kept is None:
                yield some, g
            else:
                chosen = self.kept[some.where]
                where = slice(some.where.start, some.where.start + int(chosen.sum()))
                yield Neurons(where, some.inner[chosen], some.outer[chosen]), g[chosen]


def release_output_gradient(
    network: TwoLayer,
    inputs: ArrayLike,
    labels: ArrayLike,
    *,
    dropout: float = 0.0,
    record_dropout: float = 0.0,
    local: LocalSteps | None = None,
    active: ArrayLike | None = None,
    pruned: float = 0.0,
    max_grad_norm: float | None = None,
    noise_std: float = 0.0,
    rng: np.random.Generator | None = None,
) -> OutputGradient:
    """Return a batch's gradient of the output weights under defences, applied in this order.

    Parameters
    ----------
    network : TwoLayer
    inputs : array_like, shape (B, d)
    labels : array_like, shape (B,)
    dropout : float
        Share p in [0, 1) of neurons dropped at random for this batch; the others are not rescaled
        (Section 3.4: an effective width of ``(1-p) m``).
    record_dropout : float
        Share in [0, 1) of neurons dropped for each record separately, as in dropout layers:
        ``g_j = sum_i r_i M_ij s(w_j.x_i)``. For one step, without ``dropout``.
    local : LocalSteps, optional
        Local aggregation; by default one step.
    active : array_like of bool, shape (k, B), optional
        Mask of the records that take part in each local step; by default all (Proposition C.1; two
        disjoint batches are Proposition E.2).
    pruned : float
        Share in [0, 1) of the remaining entries that are pruned, smallest first.
    max_grad_norm : float, optional
        C > 0: the gradient is divided by ``max(1, |g|/C)``.
    noise_std : float
        Standard deviation of normal noise on every released entry.
    rng : numpy.random.Generator, optional
        Required for dropout and noise.

    Returns
    -------
    OutputGradient

    Raises
    ------
    ValueError
        If shapes do not fit, a value is out of range, or ``rng`` is missing.

    Notes
    -----
    Cost: ``k + 1`` passes over the neurons of ``m d B`` multiplications each; memory for one chunk
    and the m values.
    """
    x = network.records(inputs)
    y = arguments.real("labels", labels, low_open=True, high_open=True)
    if y.shape != (len(x),):
        raise ValueError(f"labels must have shape {(len(x),)}; got {y.shape}")
    shares = {"dropout": dropout, "record_dropout": record_dropout, "pruned": pruned}
    for name, share in shares.items():
        arguments.real(name, share, 0, 1, high_open=True)
    arguments.real("noise_std", noise_std, 0, 1e140)
    if max_grad_norm is not None:
        arguments.real("max_grad_norm", max_grad_norm, 1e-140, 1e140)
    if rng is None and (dropout > 0 or record_dropout > 0 or noise_std > 0):
        raise ValueError("rng must be given for dropout and noise; got None")
    local = local or LocalSteps()
    if record_dropout > 0 and (dropout > 0 or local.count > 1 or active is not None):
        raise ValueError(
            "record_dropout must come without dropout, local steps and active; "
            f"got {record_dropout!r} with dropout {dropout!r} and {local.count} steps"
        )
    present = None
    if dropout > 0:
        assert rng is not None
        present = rng.random(network.width) >= dropout
    if record_dropout > 0:
        assert rng is not None
        present_for = rng.random((network.width, len(x))) >= record_dropout
        values, residuals = _gradient_with_masks(network, x, y, present_for)
    else:
        steps = simulate(network, x, local, present=present, active=active, labels=y)
        values = np.concatenate([steps.values(some) for some in network.neurons()])
        residuals = steps.first
    kept = present
    if pruned > 0:
        kept = _largest(values, present, pruned)
        values[~kept] = 0.0
    norm = float(np.linalg.norm(values))
    if max_grad_norm is not None:
        values /= max(1.0, norm / max_grad_norm)
    if noise_std > 0:
        assert rng is not None
        noise = noise_std * rng.standard_normal(network.width)
        values += noise if kept is None else np.where(kept, noise, 0.0)
    return OutputGradient(values, kept, present, local, residuals, norm, record_dropout)


def aggregate_gradients(released: Sequence[OutputGradient]) -> OutputGradient:
    """Return the average of several clients' gradients: secure aggregation, Section 3.3.

    For L clients with one step each it is the gradient of all their records as one batch, up to the
    factor 1/L, and attacks treat it as such.

    Parameters
    ----------
    released : sequence of OutputGradient
        Gradients of one network and one step each, with all entries released.

    Returns
    -------
    OutputGradient
        Its residuals are those of the clients, concatenated and divided by L.

    Raises
    ------
    ValueError
        If there are none, their widths differ, entries are missing or there were local steps.
    """
    if len({len(one.values) for one in released}) != 1:
        raise ValueError(
            f"released must be gradients of one width; got {[len(one.values) for one in released]}"
        )
    if any(g.kept is not None or g.local.count > 1 or g.record_dropout > 0 for g in released):
        raise ValueError("released must be whole gradients of one step; got others")
    values = np.mean([one.values for one in released], axis=0)
    residuals = np.concatenate([one.residuals for one in released]) / len(released)
    norm = float(np.linalg.norm(values))
    return replace(released[0], values=values, residuals=residuals, norm=norm)


def _gradient_with_masks(
    network: TwoLayer, x: np.ndarray, y: np.ndarray, present_for: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Gradient and residuals with a dropout mask (m, B), one column for each record."""
    outputs = np.zeros(len(x))
    s = network.function
    for some in network.neurons():
        outputs += some.outer @ (s.value(some.scores(x)) * present_for[some.where])
    residuals = 2.0 * (outputs - y)
    parts = [
        (s.value(some.scores(x)) * present_for[some.where]) @ residuals
        for some in network.neurons()
    ]
    return np.concatenate(parts), residuals


def _largest(values: np.ndarray, kept: np.ndarray | None, pruned: float) -> np.ndarray:
    """Mask of the entries of largest absolute value, all but the share ``pruned`` of those kept."""
    size = np.abs(values) if kept is None else np.where(kept, np.abs(values), -1.0)
    present = len(values) if kept is None else int(kept.sum())
    remaining = max(1, round((1.0 - pruned) * present))
    chosen = np.zeros(len(values), dtype=bool)
    chosen[np.argpartition(size, len(size) - remaining)[len(size) - remaining :]] = True
    return chosen

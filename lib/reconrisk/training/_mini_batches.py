"""Mini-batch training with Gaussian or von Mises-Fisher noise: Biswas et al. 2024, Algorithms 1, 2.

Many networks of one shape train together; initial weights, batches, mechanism and noise may differ.
The noise dominates the cost: a step of K networks takes little more than K vectors of normal draws.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch

from reconrisk import arguments
from reconrisk.mechanisms import add_vmf_noise
from reconrisk.models import SigmoidNetwork
from reconrisk.training._adam import Adam
from reconrisk.training._backpropagation import (
    backward_pass,
    one_hot,
    per_record_clip_factors,
)
from reconrisk.training._factors import Weights

__all__ = [
    "Release",
    "StepWatcher",
    "poisson_batches",
    "release_gradients",
    "train_mini_batches",
]

KINDS = ("none", "clip", "gaussian", "vmf")


@dataclass(frozen=True)
class Release:
    """The mechanism that releases a batch's gradient, and its noise.

    Parameters
    ----------
    kind : str
        ``"none"``: the average as it is. ``"clip"``: the average of clipped gradients.
        ``"gaussian"``: Algorithm 1, their sum plus N(0, (C sigma)^2) on every coordinate, divided
        by the batch size. ``"vmf"``: Algorithm 2, their average, all layers as one vector, is
        scaled to the unit sphere and replaced by a von Mises-Fisher draw around it.
    noise : float
        sigma >= 0 of ``"gaussian"``, the concentration in [0, 1e12] of ``"vmf"``; otherwise zero.
    max_grad_norm : float
        C > 0; 1 in the paper.
    by_layer : bool
        Whether each layer's gradient of a record is clipped to C separately (the paper's
        experiments, Section VII-B), or all of them together.

    Notes
    -----
    Our text of the paper lacks the listings of both algorithms; this follows what Sections IV-B,
    V-B and V-C say about their lines. In particular, von Mises-Fisher noise is added once to the
    averaged gradient (Theorem 6: line 10 scales "the final vector"), not to each record's, and
    sigma is the noise of each coordinate over C for any number of clipped layers (Theorem 5).
    """

    kind: str
    noise: float = 0.0
    max_grad_norm: float = 1.0
    by_layer: bool = True

    def __post_init__(self) -> None:
        arguments.one_of("kind", self.kind, KINDS)
        arguments.real("noise", self.noise, 0, 1e12)
        arguments.real("max_grad_norm", self.max_grad_norm, 0, low_open=True, high_open=True)
        if self.noise and self.kind in ("none", "clip"):
            raise ValueError(f"noise must be 0 for kind {self.kind!r}; got {self.noise!r}")


@torch.no_grad()
def release_gradients(
    weights: Mapping[str, torch.Tensor],
    inputs: torch.Tensor,
    labels: torch.Tensor,
    releases: Sequence[Release],
    *,
    generator: torch.Generator,
    batch_size: float | None = None,
    takes_part: torch.Tensor | None = None,
) -> Weights:
    """Return the released gradient of each batch: Algorithms 1 and 2, lines 5 to 11.

    Parameters
    ----------
    weights : mapping of str to Tensor, shape (K, rows, columns) or (rows, columns)
        In the order of the layers.
    inputs : Tensor, shape (K, n, d) or (n, d)
        Batch k, or one batch for all.
    labels : Tensor of integers, shape (K, n) or (n,)
    releases : sequence of Release, length K
    generator : torch.Generator
        Source of the noise, on the inputs' device.
    batch_size : float, optional
        Divisor of the sums; n by default. Under Poisson sampling, the expected size.
    takes_part : Tensor of bool, shape (K, n), optional
        Mask of the rows that are records; the others are padding.

    Returns
    -------
    Weights, shape (K, rows, columns)

    Raises
    ------
    ValueError
        If shapes do not fit, a label is none of the classes, or the average of records that is to
        be scaled to the unit sphere is zero. Without records it points anywhere.

    Notes
    -----
    Cost per network: ``2 n d h1`` multiplications, and a normal draw for every parameter where
    there is noise. No record's gradient is formed.
    """
    models = len(releases)
    layers = list(weights.values())
    size = float(inputs.shape[-2]) if batch_size is None else float(batch_size)
    arguments.real("batch_size", size, 0, low_open=True)
    for name, tensor, axes in (("inputs", inputs, 2), ("labels", labels, 1)):
        if tensor.ndim not in (axes, axes + 1) or (tensor.ndim > axes and len(tensor) != models):
            raise ValueError(
                f"{name} must have {axes} axes, or {models} entries along one before them; "
                f"got shape {tuple(tensor.shape)}"
            )
    targets = one_hot(labels, layers[-1].shape[-2], inputs.dtype)
    run = backward_pass(weights, inputs, targets)
    factors = _factors(run.squared_norms(), releases)
    if takes_part is not None:
        factors = [f * takes_part for f in factors]
    sums = run.gradients([f.expand(models, -1) / size for f in factors])
    released = dict(zip(weights, sums, strict=True))
    _add_gaussian(released, releases, size, generator)
    vmf_rows = [k for k, r in enumerate(releases) if r.kind == "vmf"]
    if vmf_rows:
        every, among = len(vmf_rows) == models, _span(vmf_rows)
        chosen = released if every else {name: g[among] for name, g in released.items()}
        if takes_part is None:
            takes_part = torch.ones((models, inputs.shape[-2]), dtype=torch.bool)
        _point_anywhere(chosen, takes_part[among].any(dim=1), generator)
        concentrations = np.array([releases[k].noise for k in vmf_rows])
        for name, g in add_vmf_noise(chosen, concentrations, generator).items():
            if every:
                released[name] = g
            else:
                released[name][among] = g
    return released


def _point_anywhere(gradient: Weights, filled: torch.Tensor, generator: torch.Generator) -> None:
    """Let the sums of batches without a record, which have no direction, point anywhere."""
    if not bool(filled.all()):
        for g in gradient.values():
            g[~filled] = torch.empty_like(g[~filled]).normal_(generator=generator)


def _span(rows: list[int]) -> slice | list[int]:
    """Return rows as a slice where they are adjacent: a view in place of a copy."""
    adjacent = rows[-1] - rows[0] == len(rows) - 1
    return slice(rows[0], rows[-1] + 1) if adjacent else rows


def _factors(norms: list[torch.Tensor], releases: Sequence[Release]) -> list[torch.Tensor]:
    """Each layer's clipping factors (K, n), by the release of each network."""
    limits, clipped = _clipping(tuple(releases), norms[0].device, norms[0].dtype)
    # in units of each network's C, so that the clipping norm is one for all
    unit = [norm / limits for norm in norms]
    result = [torch.ones_like(u) for u in unit]
    for by_layer, rows in clipped.items():
        factors = per_record_clip_factors(unit, 1.0, by_layer)
        result = [torch.where(rows, f, r) for f, r in zip(factors, result, strict=True)]
    return result


@functools.lru_cache(maxsize=8)
def _clipping(
    releases: tuple[Release, ...], device: torch.device, dtype: torch.dtype
) -> tuple[torch.Tensor, dict[bool, torch.Tensor]]:
    """The squares of C, and which networks clip by layer and which as a whole, (K, 1) each."""
    limits = torch.tensor([r.max_grad_norm for r in releases], device=device, dtype=dtype)
    rows = {
        choice: [r.kind != "none" and r.by_layer == choice for r in releases]
        for choice in (True, False)
    }
    clipped = {
        choice: torch.tensor(own, device=device)[:, None]
        for choice, own in rows.items()
        if any(own)
    }
    return limits[:, None].square(), clipped


def _add_gaussian(
    released: Weights, releases: Sequence[Release], size: float, generator: torch.Generator
) -> None:
    """Add Gaussian noise in place for the networks that ask for it; draw none for the others."""
    rows = [k for k, r in enumerate(releases) if r.kind == "gaussian"]
    if not rows:
        return
    like = next(iter(released.values()))
    std = [releases[k].noise * releases[k].max_grad_norm / size for k in rows]
    spread = torch.tensor(std, device=like.device, dtype=like.dtype)[:, None, None]
    among = _span(rows)
    for g in released.values():
        noise = g.new_empty((len(rows), *g.shape[1:])).normal_(0, 1, generator=generator)
        if len(rows) == len(g):
            g.addcmul_(noise, spread)
        else:
            g[among] += noise.mul_(spread)


class StepWatcher(Protocol):
    """A callback for every step of :func:`train_mini_batches`, before the weights are updated."""

    def __call__(
        self,
        step: int,
        weights: Weights,
        rows: torch.Tensor,
        takes_part: torch.Tensor | None,
        released: Weights,
    ) -> None:
        """Observe a step; ``rows``, (K, n), index the batches. Arguments must not be modified."""


def train_mini_batches(
    network: SigmoidNetwork,
    inputs: torch.Tensor,
    labels: torch.Tensor,
    releases: Sequence[Release],
    *,
    batch_size: int,
    epochs: int,
    generator: torch.Generator,
    learning_rate: float = 0.005,
    weight_decay: float = 0.1,
    decoupled: bool = True,
    initial: Mapping[str, torch.Tensor] | None = None,
    poisson: bool = True,
    watch: StepWatcher | None = None,
) -> Weights:
    """Train K networks by Adam on privatised mini-batch gradients, all together.

    Parameters
    ----------
    network : SigmoidNetwork
    inputs : Tensor, shape (N, d)
    labels : Tensor of integers, shape (N,)
    releases : sequence of Release, length K
        Repeat one to train several networks with it: each has its own initial weights (unless
        ``initial`` is given), batches and noise.
    batch_size : int
        Batch size, at most N; under Poisson sampling, its expectation.
    epochs : int
        Passes over the data; an epoch has ``ceil(N / batch_size)`` steps.
    generator : torch.Generator
        Source of the initial weights, the batches and the noise, on the inputs' device.
    learning_rate, weight_decay : float
        Adam's.
    decoupled : bool
        True (AdamW): every step first scales the weights by ``1 - learning_rate * weight_decay``.
        False: ``weight_decay * w`` is added to the gradient, as PyTorch's Adam does.
    initial : mapping of str to Tensor, shape (rows, columns) or (K, rows, columns), optional
        Initial weights; by default drawn for every network.
    poisson : bool
        True: every record takes part in every step with probability ``batch_size / N``, as the
        privacy accounting assumes and Opacus does. False: batches of equal size from a fresh
        shuffle of every epoch, whose last batch may be short.
    watch : callable, optional
        Called at every step; it must not draw from ``generator``.

    Returns
    -------
    Weights, shape (K, rows, columns)
        The final weights.

    Raises
    ------
    ValueError
        If shapes do not fit or an argument is out of its range.

    Notes
    -----
    Biswas et al., Section VI: Adam with learning rate 0.005 and weight decay 0.1, 3 epochs. Added
    to the *mean* gradient that decay dominates, and the weights shrink to zero with any mechanism,
    or none; decoupled, or added to the *sum* of the gradients, it does not. Cost per step and
    network: ``2 n d h1`` multiplications, one normal draw a parameter and Adam's dozen operations
    on each.
    """
    count = len(inputs)
    if inputs.ndim != 2 or inputs.shape[1] != network.widths[0]:
        raise ValueError(
            f"inputs must have shape (records, {network.widths[0]}); got {tuple(inputs.shape)}"
        )
    if labels.shape != (count,):
        raise ValueError(f"labels must have shape ({count},); got {tuple(labels.shape)}")
    arguments.integer("batch_size", batch_size, 1)
    arguments.real("batch_size", batch_size, 1, count)
    arguments.integer("epochs", epochs, 1)
    arguments.real("learning_rate", learning_rate, 0, low_open=True)
    arguments.real("weight_decay", weight_decay, 0)
    if not releases:
        raise ValueError("releases must not be empty")
    weights = _first_weights(network, initial, len(releases), generator, inputs.dtype)
    values = list(weights.values())
    optimiser = Adam(values, weight_decay=weight_decay, decoupled=decoupled, fused=True)
    steps = epochs * math.ceil(count / batch_size)
    draw = poisson_batches if poisson else _shuffled_batches
    batches = draw(count, batch_size, len(releases), steps, generator)
    for step, (rows, takes_part) in enumerate(batches):
        released = release_gradients(
            weights,
            inputs[rows],
            labels[rows],
            releases,
            generator=generator,
            batch_size=batch_size if poisson else rows.shape[1],
            takes_part=takes_part,
        )
        if watch is not None:
            watch(step, weights, rows, takes_part, released)
        optimiser.step([released[name] for name in weights], learning_rate)
    return weights


def _first_weights(
    network: SigmoidNetwork,
    initial: Mapping[str, torch.Tensor] | None,
    models: int,
    generator: torch.Generator,
    dtype: torch.dtype,
) -> Weights:
    if initial is None:
        return network.initialise(generator, models, dtype)
    weights: Weights = {}
    for name, shape in network.shapes.items():
        value = initial[name].to(dtype)
        if value.shape not in (shape, (models, *shape)):
            raise ValueError(
                f"initial[{name!r}] must have shape {shape} or {(models, *shape)}; "
                f"got {tuple(value.shape)}"
            )
        weights[name] = value.expand(models, *shape).clone()
    return weights


Batches = Iterator[tuple[torch.Tensor, torch.Tensor | None]]


def poisson_batches(
    count: int, batch_size: int, models: int, steps: int, generator: torch.Generator
) -> Batches:
    """Yield Poisson samples of the records for many models, step by step.

    The gaps between sampled records are geometric, so that the number of draws is that of sampled
    records, not of all.

    Parameters
    ----------
    count : int
        Number of records.
    batch_size : int
        Expected size of a sample, at most ``count``.
    models, steps : int
    generator : torch.Generator

    Yields
    ------
    rows : Tensor of integers, shape (models, n)
        Positions of records, padded to the longest batch.
    taken : Tensor of booleans, shape (models, n), or None
        Mask of the positions that are not padding; None if none is.
    """
    rate = batch_size / count
    device = generator.device
    if rate == 1:
        every = torch.arange(count, device=device).expand(models, count)
        for _ in range(steps):
            yield every, None
        return
    # enough gaps to pass the last record except once in 1e9; then more are drawn
    drawn = int(batch_size + 6.5 * math.sqrt(batch_size) + 20)
    scale = 1 / math.log1p(-rate)
    for _ in range(steps):
        rows = torch.full((models, 1), -1, device=device)
        while bool((rows[:, -1] < count).any()):
            uniform = torch.rand(
                (models, drawn), generator=generator, device=device, dtype=torch.float64
            )
            # 1 - uniform is in (0, 1]; a gap beyond the end may be cut there
            gaps = (torch.log1p(-uniform) * scale).clamp(max=count).floor().long() + 1
            rows = torch.cat([rows, rows[:, -1:] + gaps.cumsum(dim=1)], dim=1)
        rows = rows[:, 1:]
        taken = rows < count
        longest = max(1, int(taken.sum(dim=1).max()))
        yield rows[:, :longest].clamp(max=count - 1), taken[:, :longest]


def _shuffled_batches(
    count: int, batch_size: int, models: int, steps: int, generator: torch.Generator
) -> Batches:
    """Yield consecutive parts (K, n) of each network's shuffle, which is new in every epoch."""
    per_epoch = math.ceil(count / batch_size)
    for step in range(steps):
        place = step % per_epoch
        if place == 0:
            device = generator.device
            orders = [
                torch.randperm(count, generator=generator, device=device) for _ in range(models)
            ]
            order = torch.stack(orders)
        yield order[:, place * batch_size : (place + 1) * batch_size], None

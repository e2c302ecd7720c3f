"""Training under a defence, to measure its cost in utility.

Liu et al., Section 5.2 and Table 5, measure the utility of a defence by the training loss reached
when every gradient is defended. The loss of a single network also depends on its initial weights
and the order of the records. Here many networks are trained at once under many defences, the k-th
network of every defence from the same weights and with the same batches, so that differences are
due to the defences.
"""

from __future__ import annotations

import copy
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.func import functional_call, grad_and_value, stack_module_state, vmap
from torch.nn import functional

from reconrisk import arguments
from reconrisk.convnets import BatchNorm, WideHead
from reconrisk.mechanisms import (
    Defence,
    Gradient,
    Released,
    SecureAggregation,
    changes_of_training,
    defend,
)
from reconrisk.training._clients import local_update
from reconrisk.training._networks import check_classes

__all__ = ["DefendedTraining", "train_under_defences"]

Slope = Callable[..., tuple[Gradient, tuple[torch.Tensor, list]]]


@dataclass(frozen=True)
class DefendedTraining:
    """Networks trained under S defences, K under each.

    Attributes
    ----------
    losses : ndarray, shape (S, K, epochs)
        Mean loss of an epoch's batches, each evaluated before its step, with the batch norms in
        training mode. ``inf`` from the first epoch with a loss that is not finite.
    state : dict of str to Tensor, shape (S, K, ...)
        Final parameters and batch-norm statistics.
    """

    losses: np.ndarray
    state: dict[str, torch.Tensor]

    @property
    def final(self) -> np.ndarray:
        """Loss over the last epoch, shape (S, K): our reading of what Table 5 prints."""
        return self.losses[:, :, -1]

    def load(self, network: nn.Module, defence: int, run: int) -> nn.Module:
        """Load one trained state into a network of the same architecture, and return it."""
        network.load_state_dict({name: t[defence, run] for name, t in self.state.items()})
        return network


def train_under_defences(
    networks: Sequence[WideHead],
    images: torch.Tensor,
    labels: torch.Tensor,
    defences: Sequence[Defence],
    *,
    generator: torch.Generator,
    epochs: int,
    batch_size: int,
    learning_rate: float | Sequence[float] = 0.1,
    momentum: float = 0.9,
    decay: float = 0.1,
    decay_every: int | None = None,
    statistics: float = 0.1,
) -> DefendedTraining:
    """Train copies of some networks under each defence by stochastic gradient descent.

    Every step computes the gradient of a batch's mean cross-entropy, or under local aggregation the
    mean gradient of the local steps, applies the defence and updates the weights ::

        velocity = momentum velocity + released,    weights = weights - rate velocity

    Parameters
    ----------
    networks : sequence of WideHead
        K of one architecture; not changed.
    images : Tensor, shape (N, 3, side, side)
    labels : Tensor of integers, shape (N,)
    defences : sequence of sequences
        S lists of defences of :mod:`reconrisk.mechanisms`, without secure aggregation, which for
        training is a larger batch.
    generator : torch.Generator
        Source of the batches, masks and noise, on the images' device. A defence's draws depend on
        its index, not on the other defences.
    epochs : int
    batch_size : int
        n <= N. The incomplete last batch of an epoch is skipped.
    learning_rate : float or sequence of float
        In (0, inf), for all defences or for each.
    momentum : float
        In [0, 1).
    decay : float
        Factor of the rate after every ``decay_every`` epochs, in (0, 1].
    decay_every : int, optional
        By default the rate is constant.
    statistics : float
        Momentum of the batch norms' stored statistics, in [0, 1].

    Returns
    -------
    DefendedTraining

    Raises
    ------
    ValueError, TypeError
        If an argument is out of range, shapes do not fit, or the networks' architectures differ.

    Notes
    -----
    Networks of defences that change the training step in the same way are mapped together, which on
    a CPU is about twenty times as fast for small ones. Memory: S K times three copies of the
    parameters, and the activations of as many batches.
    """
    _check_training(networks, images, labels, defences, batch_size)
    for name, whole in (("epochs", epochs), ("decay_every", decay_every)):
        if whole is not None:
            arguments.integer(name, whole, 1)
    rates = _rates(learning_rate, len(defences))
    arguments.real("momentum", momentum, 0, 1, high_open=True)
    arguments.real("decay", decay, 0, 1, low_open=True)
    arguments.real("statistics", statistics, 0, 1)
    orders = _orders(len(networks), epochs, len(labels), generator)
    seeds = torch.randint(2**62, (len(defences),), generator=generator, device=generator.device)
    draws = [torch.Generator(device=images.device).manual_seed(int(s)) for s in seeds]
    groups = [
        _Group(networks, [(defences[s], draws[s]) for s in chosen], list(chosen), statistics)
        for chosen in _group_alike(defences)
    ]
    losses = np.full((len(defences), len(networks), epochs), math.inf)
    for epoch, order in enumerate(orders):
        slowed = 1.0 if decay_every is None else decay ** (epoch // decay_every)
        for group in groups:
            rate = images.new_tensor(rates)[group.places] * slowed
            total = torch.zeros(group.shape, dtype=torch.float64, device=images.device)
            for low in range(0, len(labels) - batch_size + 1, batch_size):
                rows = order[:, low : low + batch_size]
                total += group.step(images[rows], labels[rows], rate, momentum)
            mean = (total / (len(labels) // batch_size)).cpu().numpy()
            losses[group.places, :, epoch] = np.where(np.isfinite(mean), mean, math.inf)
    return DefendedTraining(
        _infinite_after_divergence(losses), _collect_state(groups, len(defences))
    )


class _Group:
    """The networks of defences that change the training step alike: their state and a step."""

    def __init__(
        self,
        networks: Sequence[WideHead],
        members: list[tuple[Defence, torch.Generator]],
        places: list[int],
        statistics: float,
    ) -> None:
        self.places, self._members, self._momentum = places, members, statistics
        self.shape = (len(members), len(networks))
        count = len(networks)
        parameters, buffers = stack_module_state(list(networks))
        repeats = len(members)

        def copies(tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
            return {k: torch.cat([t.detach()] * repeats) for k, t in tensors.items()}

        self.weights, self.buffers = copies(parameters), copies(buffers)
        self._velocity = {name: torch.zeros_like(w) for name, w in self.weights.items()}
        self._slices = [slice(i * count, (i + 1) * count) for i in range(repeats)]
        self._dropout, self._local = changes_of_training(members[0][0])
        self._norms = [name for name, m in networks[0].named_modules() if isinstance(m, BatchNorm)]
        self._slope = _mapped_slope(networks[0], self._local, self._dropout is not None)
        self._neurons = len(networks[0].wide.weight) if networks[0].wide is not None else 0

    def step(
        self, images: torch.Tensor, labels: torch.Tensor, rates: torch.Tensor, momentum: float
    ) -> torch.Tensor:
        """Step on a batch of each network, (K, n, ...); return the losses before it, (S, K)."""
        repeats, count = self.shape
        rates = rates.repeat_interleave(count)
        images = images.repeat(repeats, *[1] * (images.ndim - 1))
        units = self._units(count, images.dtype)
        gradient, (loss, seen) = self._slope(
            self.weights, self.buffers, images, labels.repeat(repeats, 1), units
        )
        whole = Released(gradient, units=units, local=self._local)
        parts = [
            defend(whole.take(chosen), defence, generator=draw).gradient
            for chosen, (defence, draw) in zip(self._slices, self._members, strict=True)
        ]
        for name, velocity in self._velocity.items():
            velocity.mul_(momentum).add_(torch.cat([part[name] for part in parts]))
            move = rates.view(-1, *[1] * (velocity.ndim - 1)) * velocity
            self.weights[name] = self.weights[name] - move
        for norm, (mean, variance) in zip(self._norms, seen, strict=True):
            self.buffers[f"{norm}.mean"].lerp_(mean, self._momentum)
            self.buffers[f"{norm}.variance"].lerp_(variance, self._momentum)
        return loss.double().unflatten(0, (repeats, count))

    def _units(self, count: int, dtype: torch.dtype) -> torch.Tensor | None:
        """Draw each member's dropout of neurons from its own generator; None without dropout."""
        parts = []
        for defence, draw in self._members:
            dropout, _ = changes_of_training(defence)
            if dropout is None:
                return None
            parts.append(dropout.draw(count, self._neurons, draw).to(dtype))
        return torch.cat(parts)


def _mapped_slope(network: WideHead, local: Any, drops: bool) -> Slope:
    """Map stacked weights and batches to updates, losses and batch-norm statistics."""
    model = _in_training(network)

    def one(weights, buffers, images, labels, units):
        def loss(w):
            arguments = (images,) if units is None else (images, units)
            trace = functional_call(model, {**w, **buffers}, arguments, {"trace": True})
            value = functional.cross_entropy(trace.outputs, labels)
            return value, (value, trace.statistics)

        def slope(w):
            # the auxiliary value includes the loss
            gradient, (_, seen) = grad_and_value(loss, has_aux=True)(w)
            return gradient, seen

        return local_update(slope, weights, local)

    return vmap(one, in_dims=(0, 0, 0, 0, 0 if drops else None))


def _in_training(network: WideHead) -> WideHead:
    """Return a copy of the network without weights, in training mode."""
    return copy.deepcopy(network).to("meta").train()


def _rates(given: float | Sequence[float], defences: int) -> list[float]:
    rates = list(given) if isinstance(given, Sequence) else [given] * defences
    if len(rates) != defences:
        raise ValueError(f"learning_rate must have {defences} entries; got {len(rates)}")
    for rate in rates:
        arguments.real("learning_rate", rate, 0, low_open=True, high_open=True)
    return rates


def _group_alike(defences: Sequence[Defence]) -> list[list[int]]:
    """Group the indices of defences that change the training step alike, in order."""
    groups: dict[Any, list[int]] = {}
    for place, defence in enumerate(defences):
        dropout, local = changes_of_training(defence)
        groups.setdefault((dropout is not None, local), []).append(place)
    return list(groups.values())


def _orders(
    networks: int, epochs: int, records: int, generator: torch.Generator
) -> Iterator[torch.Tensor]:
    """Draw a random order of the records for every network, (K, N), for every epoch.

    The generator draws them at once; they are drawn again when an epoch needs its own.
    """
    again = torch.Generator(device=generator.device)
    again.set_state(generator.get_state())

    def draw(source: torch.Generator) -> torch.Tensor:
        return torch.randperm(records, generator=source, device=source.device)

    for _ in range(epochs * networks):
        draw(generator)
    return (torch.stack([draw(again) for _ in range(networks)]) for _ in range(epochs))


def _infinite_after_divergence(losses: np.ndarray) -> np.ndarray:
    return np.where(np.logical_or.accumulate(np.isinf(losses), axis=-1), math.inf, losses)


def _collect_state(groups: Sequence[_Group], count: int) -> dict[str, torch.Tensor]:
    """Collect all groups' parameters and buffers, (S, K, ...), in the order of the defences."""
    order = list(itertools.chain.from_iterable(group.places for group in groups))
    back = [order.index(place) for place in range(count)]
    gathered = {}
    for kind in ("weights", "buffers"):
        for name in getattr(groups[0], kind):
            parts = [getattr(g, kind)[name].unflatten(0, g.shape) for g in groups]
            gathered[name] = torch.cat(parts)[back]
    return gathered


def _check_training(
    networks: Sequence[WideHead],
    images: torch.Tensor,
    labels: torch.Tensor,
    defences: Sequence[Defence],
    batch_size: int,
) -> None:
    if not networks or not defences:
        raise ValueError("networks and defences must not be empty")
    shapes = [{name: t.shape for name, t in n.state_dict().items()} for n in networks]
    if any(shape != shapes[0] for shape in shapes):
        raise ValueError("networks must be of one architecture")
    if images.ndim != 4 or labels.shape != images.shape[:1] or labels.is_floating_point():
        raise ValueError(
            "images and labels must have shapes (N, 3, side, side) and (N,), labels of integers; "
            f"got {tuple(images.shape)} and {tuple(labels.shape)}"
        )
    check_classes(labels, len(networks[0].head.weight))
    arguments.integer("batch_size", batch_size, 1, len(labels))
    for defence in defences:
        dropout, _ = changes_of_training(defence)
        if dropout is not None and networks[0].wide is None:
            raise ValueError("networks must have a wide layer whose neurons can be dropped")
        if any(isinstance(part, SecureAggregation) for part in defence):
            raise ValueError(
                "defences must not aggregate securely; train on the clients' joint batches instead"
            )

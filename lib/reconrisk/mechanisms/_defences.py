"""Defences against reconstruction, composable: what is done to an update, and what shows of it.

Liu et al., Section 3. Two kinds: *transforms* of the update that a client would send
(:class:`Clipping`, :class:`Noise`, :class:`EntryDropout`, :class:`Pruning`,
:class:`SecureAggregation`), and *changes of the training* that makes it (:class:`NeuronDropout`,
:class:`LocalAggregation`), which :func:`reconrisk.training.client_updates` carries out. A list of
them is a defence, applied in its order; the empty list is none, and clipping with noise after it is
DP-SGD (:func:`dp_sgd`).

Whoever reads an update sees more than its numbers: entries that a defence removed are zero. What
can be seen so travels with the update (:class:`Released`), and noise on all entries covers it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import torch

from reconrisk import arguments
from reconrisk.mechanisms._gradients import Gradient, add_gaussian_noise, clip

__all__ = [
    "Clipping",
    "Defence",
    "EntryDropout",
    "LocalAggregation",
    "NeuronDropout",
    "Noise",
    "Pruning",
    "Released",
    "SecureAggregation",
    "TrainingChange",
    "Transform",
    "changes_of_training",
    "defend",
    "dp_sgd",
    "support",
]

Masks = dict[str, torch.Tensor]


@dataclass(frozen=True)
class LocalAggregation:
    """Local aggregation: a client takes k steps of gradient descent and sends their sum.

    What is sent is the sum of the steps' gradients over k, ``(w_0 - w_k) / (k rate)``: the mean
    gradient seen on the way. Liu et al., Section 3.1, with all steps on the same batch.

    Parameters
    ----------
    steps : int
        k >= 1. The paper takes 3 and 5 (its theory, 2).
    learning_rate : float
        Of the local steps, > 0.
    """

    steps: int
    learning_rate: float

    def __post_init__(self) -> None:
        arguments.integer("steps", self.steps, 1)
        arguments.real("learning_rate", self.learning_rate, 0, low_open=True, high_open=True)


@dataclass(frozen=True)
class NeuronDropout:
    """Dropout of the wide layer's neurons, one draw per update: Liu et al., Section 3.4.

    Kept neurons answer ``1 / (1 - probability)`` times as much. The gradient's rows of dropped
    neurons are zero, so that the draw is visible.

    Parameters
    ----------
    probability : float
        Of being dropped, in [0, 1).
    """

    probability: float

    def __post_init__(self) -> None:
        arguments.real("probability", self.probability, 0, 1, high_open=True)

    def draw(self, updates: int, neurons: int, generator: torch.Generator) -> torch.Tensor:
        """Return each neuron's factor, shape (updates, neurons): zero where it is dropped."""
        drawn = torch.rand((updates, neurons), generator=generator, device=generator.device)
        return (drawn >= self.probability).float() / (1 - self.probability)


TrainingChange = LocalAggregation | NeuronDropout


@dataclass(frozen=True)
class Released:
    """What the server sees of P updates.

    Attributes
    ----------
    gradient : Gradient
        Parameter name to Tensor of shape (P, \\*parameter.shape).
    visible : mapping of str to Tensor of bool, optional
        Shaped alike: the entries that were released, where the others show as zeros. None if all
        were, or if noise covers which.
    units : Tensor, shape (P, neurons), optional
        The factors of :class:`NeuronDropout`, as long as they show.
    local : LocalAggregation, optional
        The clients' protocol, which the server has set.
    clients : int
        Clients whose updates were averaged into each.
    """

    gradient: Gradient
    visible: Masks | None = None
    units: torch.Tensor | None = None
    local: LocalAggregation | None = None
    clients: int = 1

    def __len__(self) -> int:
        """Return P."""
        return len(next(iter(self.gradient.values())))

    def take(self, chosen: slice) -> Released:
        """Some of the updates."""

        def part(tensors: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
            return {name: t[chosen] for name, t in tensors.items()}

        return replace(
            self,
            gradient=part(self.gradient),
            visible=None if self.visible is None else part(self.visible),
            units=None if self.units is None else self.units[chosen],
        )


def support(gradient: Mapping[str, torch.Tensor]) -> Masks:
    """Return where a gradient is not zero: all that its reader can tell of what was removed.

    Also an entry that happens to be zero counts as removed (a closed ReLU's, say).
    """
    return {name: g != 0 for name, g in gradient.items()}


# Transforms --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Clipping:
    """Scale an update down to a norm of ``max_grad_norm``: Liu et al., Section 3.2.

    The whole update of a client, as in the paper's experiments; clipping of each record's gradient
    is :func:`reconrisk.training.release_gradients`.

    Parameters
    ----------
    max_grad_norm : float
        C > 0; the paper takes 2, 4 and 8.
    """

    max_grad_norm: float

    def __post_init__(self) -> None:
        arguments.real("max_grad_norm", self.max_grad_norm, 0, low_open=True, high_open=True)

    def apply(self, released: Released, generator: torch.Generator) -> Released:
        """Return the update clipped."""
        return replace(released, gradient=clip(released.gradient, self.max_grad_norm)[0])


@dataclass(frozen=True)
class Noise:
    """Add independent Gaussian noise to the entries: Liu et al., Section 3.2.

    Parameters
    ----------
    std : float
        Standard deviation on every entry, >= 0; the paper takes 0.001 to 0.1.
    everywhere : bool
        Whether removed entries get noise too, which hides which they are.
    """

    std: float
    everywhere: bool = True

    def __post_init__(self) -> None:
        arguments.real("std", self.std, 0, high_open=True)

    def apply(self, released: Released, generator: torch.Generator) -> Released:
        """Return the update with noise."""
        noisy = add_gaussian_noise(released.gradient, self.std, generator)
        if self.std == 0:
            return replace(released, gradient=noisy)
        if self.everywhere or released.visible is None:
            # rows of dropped neurons are no longer zero either
            return replace(released, gradient=noisy, visible=None, units=None)
        return replace(released, gradient=_masked(noisy, released.visible))


@dataclass(frozen=True)
class EntryDropout:
    """Remove each entry of an update with the same probability (*GradDrop*, Liu et al.).

    Parameters
    ----------
    probability : float
        Of being removed, in [0, 1); the paper takes 0.3 to 0.9.
    rescaled : bool
        Whether kept entries are divided by ``1 - probability``, so that the update is unbiased.
    """

    probability: float
    rescaled: bool = False

    def __post_init__(self) -> None:
        arguments.real("probability", self.probability, 0, 1, high_open=True)

    def apply(self, released: Released, generator: torch.Generator) -> Released:
        """Return the update thinned out."""
        kept = {
            name: torch.rand(g.shape, generator=generator, device=g.device) >= self.probability
            for name, g in released.gradient.items()
        }
        thinned = _masked(released.gradient, kept)
        if self.rescaled:
            thinned = {name: g / (1 - self.probability) for name, g in thinned.items()}
        return replace(released, gradient=thinned, visible=_both(released.visible, kept))


@dataclass(frozen=True)
class Pruning:
    """Set the smallest entries of an update to zero: Liu et al., Section 3.5.

    Parameters
    ----------
    share : float
        Of the entries that are removed, in [0, 1), rounded to whole entries. The paper takes 0.3
        to 0.99.
    by_layer : bool
        Whether each layer loses that share, or all layers together (the default).
    """

    share: float
    by_layer: bool = False

    def __post_init__(self) -> None:
        arguments.real("share", self.share, 0, 1, high_open=True)

    def apply(self, released: Released, generator: torch.Generator) -> Released:
        """Return the update pruned."""
        sizes = {name: g.abs().flatten(1) for name, g in released.gradient.items()}
        if self.by_layer:
            least = {name: self._threshold(size) for name, size in sizes.items()}
        else:
            everywhere = self._threshold(torch.cat(list(sizes.values()), dim=1))
            least = dict.fromkeys(sizes, everywhere)
        kept = {
            name: (sizes[name] > least[name]).view_as(g) for name, g in released.gradient.items()
        }
        pruned = _masked(released.gradient, kept)
        return replace(released, gradient=pruned, visible=_both(released.visible, kept))

    def _threshold(self, sizes: torch.Tensor) -> torch.Tensor:
        """Of (P, entries) what is removed at most, shape (P, 1); entries tied with it go too."""
        removed = round(self.share * sizes.shape[1])
        if removed == 0:
            return sizes.new_full((len(sizes), 1), -1.0)
        return sizes.kthvalue(removed, dim=1, keepdim=True).values


@dataclass(frozen=True)
class SecureAggregation:
    """Average the updates of ``clients`` neighbours: Liu et al., Section 3.3.

    P updates become P / clients; with batches of one size, each is the gradient of all records of
    its clients. An entry is visible if any client released it.

    Parameters
    ----------
    clients : int
        L >= 1, a divisor of the number of updates.
    """

    clients: int

    def __post_init__(self) -> None:
        arguments.integer("clients", self.clients, 1)

    def apply(self, released: Released, generator: torch.Generator) -> Released:
        """Return the averages."""
        if len(released) % self.clients:
            raise ValueError(
                f"clients must divide the number of updates, {len(released)}; got {self.clients!r}"
            )

        def together(t: torch.Tensor) -> torch.Tensor:
            return t.unflatten(0, (-1, self.clients))

        gradient = {name: together(g).mean(dim=1) for name, g in released.gradient.items()}
        visible = released.visible
        if visible is not None:
            visible = {name: together(v).any(dim=1) for name, v in visible.items()}
        # one client's dropped neurons are another's kept ones: no single draw shows any more
        units = released.units if self.clients == 1 else None
        clients = released.clients * self.clients
        return replace(released, gradient=gradient, visible=visible, units=units, clients=clients)


Transform = Clipping | Noise | EntryDropout | Pruning | SecureAggregation
Defence = Sequence[Transform | TrainingChange]


def dp_sgd(max_grad_norm: float, noise_multiplier: float) -> tuple[Clipping, Noise]:
    """Return DP-SGD on a client's update: clipping, then noise of std ``C sigma``.

    Parameters
    ----------
    max_grad_norm : float
        C > 0.
    noise_multiplier : float
        sigma >= 0. Liu et al. print the noise of an update once as sigma and once as ``C sigma``
        (Section 3.2 and Appendix C.2); this is the latter.
    """
    arguments.real("noise_multiplier", noise_multiplier, 0, high_open=True)
    return Clipping(max_grad_norm), Noise(max_grad_norm * noise_multiplier)


def changes_of_training(defence: Defence) -> tuple[NeuronDropout | None, LocalAggregation | None]:
    """Return what a defence changes in training: dropout and local steps, None where it does not.

    Raises
    ------
    ValueError
        If it has two of a kind, or one after a transform: training comes first.
    """
    dropout: NeuronDropout | None = None
    local: LocalAggregation | None = None
    transformed = False
    for part in defence:
        if not isinstance(part, TrainingChange):
            transformed = True
            continue
        if transformed:
            raise ValueError(f"defence must change training before the update; got {defence!r}")
        if isinstance(part, NeuronDropout):
            if dropout is not None:
                raise ValueError(f"defence must drop neurons once; got {defence!r}")
            dropout = part
        else:
            if local is not None:
                raise ValueError(f"defence must aggregate locally once; got {defence!r}")
            local = part
    return dropout, local


def defend(
    update: Mapping[str, torch.Tensor] | Released,
    defence: Defence,
    *,
    generator: torch.Generator,
) -> Released:
    """Apply a defence's transforms, in their order, to P updates.

    Parameters
    ----------
    update : Gradient or Released
        Tensors of shape (P, ...), made under the defence's changes of training.
    defence : sequence of Transform and TrainingChange
        Changes of training are left to :func:`reconrisk.training.client_updates`.
    generator : torch.Generator
        Source of noise and masks, on the update's device.

    Returns
    -------
    Released

    Raises
    ------
    ValueError
        If the tensors do not share P.

    Notes
    -----
    One pass over the entries for each transform; pruning selects one of them in linear time.
    """
    changes_of_training(defence)
    released = update if isinstance(update, Released) else Released(dict(update))
    if len({len(g) for g in released.gradient.values()}) != 1:
        shapes = {name: tuple(g.shape) for name, g in released.gradient.items()}
        raise ValueError(f"update must have one first axis for all tensors; got {shapes}")
    for part in defence:
        if not isinstance(part, TrainingChange):
            released = part.apply(released, generator)
    return released


def _masked(gradient: Mapping[str, torch.Tensor], kept: Mapping[str, torch.Tensor]) -> Gradient:
    # not a product: an entry that is removed must not turn into -0 or nan
    return {name: torch.where(kept[name], g, torch.zeros_like(g)) for name, g in gradient.items()}


def _both(first: Masks | None, second: Masks) -> Masks:
    if first is None:
        return second
    return {name: mask & second[name] for name, mask in first.items()}

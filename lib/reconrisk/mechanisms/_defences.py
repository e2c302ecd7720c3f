"""Composable defences against reconstruction, and what the server observes of the updates.

Liu et al. (2024), Section 3. There are two kinds: *transforms* of the update that a client sends
(:class:`Clipping`, :class:`Noise`, :class:`EntryDropout`, :class:`Pruning`,
:class:`SecureAggregation`), and *changes of the training* that computes it (:class:`NeuronDropout`,
:class:`LocalAggregation`), which :func:`reconrisk.training.client_updates` carries out. A defence
is a sequence of them, applied in order. The empty sequence is no defence, and clipping followed by
noise is DP-SGD (:func:`dp_sgd`).

Entries that a defence removed are zero, which the server can observe. :class:`Released` carries
these masks with the update; noise on all entries hides them.
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
    """Local aggregation: a client takes k gradient steps and sends their mean gradient.

    The update is ``(w_0 - w_k) / (k learning_rate)``. Liu et al., Section 3.1, with all steps on
    the same batch.

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

    The outputs of kept neurons are scaled by ``1 / (1 - probability)``. The gradient rows of
    dropped neurons are zero, so that the server can observe the draw.

    Parameters
    ----------
    probability : float
        Probability that a neuron is dropped, in [0, 1).
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
    """What the server observes of P updates.

    Attributes
    ----------
    gradient : Gradient
        Parameter name to Tensor of shape (P, \\*parameter.shape).
    visible : mapping of str to Tensor of bool, optional
        Of the same shapes: which entries were not removed. None if no entry was removed, or if
        noise hides which.
    units : Tensor, shape (P, neurons), optional
        The factors of :class:`NeuronDropout`, if the server can observe them.
    local : LocalAggregation, optional
        The clients' protocol, which the server set.
    clients : int
        Number of clients averaged in each update.
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
        """Return the updates that a slice selects."""

        def part(tensors: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
            return {name: t[chosen] for name, t in tensors.items()}

        return replace(
            self,
            gradient=part(self.gradient),
            visible=None if self.visible is None else part(self.visible),
            units=None if self.units is None else self.units[chosen],
        )


def support(gradient: Mapping[str, torch.Tensor]) -> Masks:
    """Return masks of the non-zero entries: what a gradient reveals about removed entries.

    An entry that is zero for another reason, such as an inactive ReLU, counts as removed.

    Parameters
    ----------
    gradient : mapping of str to Tensor

    Returns
    -------
    mapping of str to Tensor of bool
        Of the same shapes.
    """
    return {name: g != 0 for name, g in gradient.items()}


# Transforms --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Clipping:
    """Clip the norm of a client's whole update: Liu et al., Section 3.2.

    For clipping of each record's gradient see :func:`reconrisk.training.release_gradients`.

    Parameters
    ----------
    max_grad_norm : float
        C > 0; 2, 4 and 8 in the paper.
    """

    max_grad_norm: float

    def __post_init__(self) -> None:
        arguments.real("max_grad_norm", self.max_grad_norm, 0, low_open=True, high_open=True)

    def apply(self, released: Released, generator: torch.Generator) -> Released:
        """Return the clipped updates."""
        return replace(released, gradient=clip(released.gradient, self.max_grad_norm)[0])


@dataclass(frozen=True)
class Noise:
    """Add independent Gaussian noise to the entries: Liu et al., Section 3.2.

    Parameters
    ----------
    std : float
        Standard deviation on every entry, >= 0; 0.001 to 0.1 in the paper.
    everywhere : bool
        Whether removed entries get noise too, which hides that they were removed.
    """

    std: float
    everywhere: bool = True

    def __post_init__(self) -> None:
        arguments.real("std", self.std, 0, high_open=True)

    def apply(self, released: Released, generator: torch.Generator) -> Released:
        """Return the noisy updates."""
        noisy = add_gaussian_noise(released.gradient, self.std, generator)
        if self.std == 0:
            return replace(released, gradient=noisy)
        if self.everywhere or released.visible is None:
            # the rows of dropped neurons are no longer zero
            return replace(released, gradient=noisy, visible=None, units=None)
        return replace(released, gradient=_mask(noisy, released.visible))


@dataclass(frozen=True)
class EntryDropout:
    """Set each entry of an update to zero with the same probability (*GradDrop*, Liu et al.).

    Parameters
    ----------
    probability : float
        Probability that an entry is removed, in [0, 1); 0.3 to 0.9 in the paper.
    rescaled : bool
        Whether kept entries are divided by ``1 - probability``, so that the update is unbiased.
    """

    probability: float
    rescaled: bool = False

    def __post_init__(self) -> None:
        arguments.real("probability", self.probability, 0, 1, high_open=True)

    def apply(self, released: Released, generator: torch.Generator) -> Released:
        """Zero the masked entries."""
        kept = {
            name: torch.rand(g.shape, generator=generator, device=g.device) >= self.probability
            for name, g in released.gradient.items()
        }
        masked = _mask(released.gradient, kept)
        if self.rescaled:
            masked = {name: g / (1 - self.probability) for name, g in masked.items()}
        return replace(released, gradient=masked, visible=_both(released.visible, kept))


@dataclass(frozen=True)
class Pruning:
    """Set the smallest entries of an update to zero: Liu et al., Section 3.5.

    Parameters
    ----------
    share : float
        Share of the entries that are removed, in [0, 1), rounded to a whole number of entries; 0.3
        to 0.99 in the paper.
    by_layer : bool
        Whether the share is of each layer's entries, or of all entries together (the default).
    """

    share: float
    by_layer: bool = False

    def __post_init__(self) -> None:
        arguments.real("share", self.share, 0, 1, high_open=True)

    def apply(self, released: Released, generator: torch.Generator) -> Released:
        """Return the pruned updates."""
        sizes = {name: g.abs().flatten(1) for name, g in released.gradient.items()}
        if self.by_layer:
            thresholds = {name: self._threshold(size) for name, size in sizes.items()}
        else:
            common = self._threshold(torch.cat(list(sizes.values()), dim=1))
            thresholds = dict.fromkeys(sizes, common)
        kept = {
            name: (sizes[name] > thresholds[name]).view_as(g)
            for name, g in released.gradient.items()
        }
        pruned = _mask(released.gradient, kept)
        return replace(released, gradient=pruned, visible=_both(released.visible, kept))

    def _threshold(self, sizes: torch.Tensor) -> torch.Tensor:
        """Return the largest size removed, (P, 1), of sizes (P, entries); ties are removed."""
        removed = round(self.share * sizes.shape[1])
        if removed == 0:
            return sizes.new_full((len(sizes), 1), -1.0)
        return sizes.kthvalue(removed, dim=1, keepdim=True).values


@dataclass(frozen=True)
class SecureAggregation:
    """Average the updates of each group of ``clients`` clients: Liu et al., Section 3.3.

    P updates become P / clients. If all batches have the same size, each average is the gradient on
    all records of its clients. An entry is visible if any client released it.

    Parameters
    ----------
    clients : int
        L >= 1, a divisor of the number of updates.
    """

    clients: int

    def __post_init__(self) -> None:
        arguments.integer("clients", self.clients, 1)

    def apply(self, released: Released, generator: torch.Generator) -> Released:
        """Return the averaged updates."""
        if len(released) % self.clients:
            raise ValueError(
                f"clients must divide the number of updates, {len(released)}; got {self.clients!r}"
            )

        def group_clients(t: torch.Tensor) -> torch.Tensor:
            return t.unflatten(0, (-1, self.clients))

        gradient = {name: group_clients(g).mean(dim=1) for name, g in released.gradient.items()}
        visible = released.visible
        if visible is not None:
            visible = {name: group_clients(v).any(dim=1) for name, v in visible.items()}
        # the clients drop different neurons: no single draw can be observed
        units = released.units if self.clients == 1 else None
        clients = released.clients * self.clients
        return replace(released, gradient=gradient, visible=visible, units=units, clients=clients)


Transform = Clipping | Noise | EntryDropout | Pruning | SecureAggregation
Defence = Sequence[Transform | TrainingChange]


def dp_sgd(max_grad_norm: float, noise_multiplier: float) -> tuple[Clipping, Noise]:
    """Return DP-SGD on a client's update: clipping, then noise of standard deviation ``C sigma``.

    Parameters
    ----------
    max_grad_norm : float
        C > 0.
    noise_multiplier : float
        sigma >= 0. Liu et al. give the standard deviation of an update's noise as sigma in one
        place and as ``C sigma`` in another (Section 3.2 and Appendix C.2); this is the latter.

    Returns
    -------
    clipping : Clipping
    noise : Noise

    Raises
    ------
    ValueError
        If an argument is nan or out of its range.
    """
    arguments.real("noise_multiplier", noise_multiplier, 0, high_open=True)
    return Clipping(max_grad_norm), Noise(max_grad_norm * noise_multiplier)


def changes_of_training(defence: Defence) -> tuple[NeuronDropout | None, LocalAggregation | None]:
    """Return a defence's changes of the training.

    Parameters
    ----------
    defence : sequence of Transform and TrainingChange

    Returns
    -------
    dropout : NeuronDropout or None
    local : LocalAggregation or None

    Raises
    ------
    ValueError
        If the defence has two changes of a kind, or one after a transform.
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
        Tensors of shape (P, ...), computed under the defence's changes of training.
    defence : sequence of Transform and TrainingChange
        Changes of training are ignored; :func:`reconrisk.training.client_updates` applies them.
    generator : torch.Generator
        Source of noise and masks, on the update's device.

    Returns
    -------
    Released

    Raises
    ------
    ValueError
        If the tensors do not share P, or the defence is not valid
        (:func:`changes_of_training`).

    Notes
    -----
    Cost: one pass over the entries for each transform; pruning selects its threshold in linear
    time.
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


def _mask(gradient: Mapping[str, torch.Tensor], kept: Mapping[str, torch.Tensor]) -> Gradient:
    # not a product, which would give -0 or nan at some removed entries
    return {name: torch.where(kept[name], g, torch.zeros_like(g)) for name, g in gradient.items()}


def _both(first: Masks | None, second: Masks) -> Masks:
    if first is None:
        return second
    return {name: mask & second[name] for name, mask in first.items()}

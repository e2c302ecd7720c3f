"""Parametrisations of images by generators: Liu et al., Section 4.2.

:class:`UntrainedSpace`, which the proposed attack uses, holds the weights of an untrained network
(deep image prior, Ulyanov et al. 2018). :class:`LatentSpace` and :class:`TunedSpace` are those of
Jeon et al. (2021), who first optimise the latent vectors of a pretrained generator and then its
weights as well.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass

import torch
from torch import nn
from torch.func import functional_call

from reconrisk import arguments
from reconrisk.attacks._interface import Knowledge
from reconrisk.attacks._inversion_problem import Inversion
from reconrisk.attacks.deep_inversion import Objective, invert_updates
from reconrisk.convnets import Decoder, ImagePrior
from reconrisk.convnets._classifiers import draw_weights
from reconrisk.mechanisms import Released

__all__ = ["LatentSpace", "TunedSpace", "UntrainedSpace", "generative_attack"]


#: The paper's objective without its feature term.
REGULARISED = Objective(total_variation=0.01, statistics=0.001)


@dataclass(frozen=True)
class UntrainedSpace:
    """The weights of an untrained network that generates a batch from fixed noise.

    Attributes
    ----------
    network : ImagePrior
        Its weights are the initial ones of the first problem.
    noise : Tensor, shape (n, width, side, side)
        Input of the network, the same for every problem.
    features : Tensor, shape (P, n, f), optional
        Of each problem, recovered features of its images, in their order: they enter the network's
        residual blocks. :func:`~reconrisk.attacks.proposed_attack` fills them in.
    distinct : int
        How many initial weights are drawn, which the problems take in turn: with the number of
        batches here, the same batches under several defences, one defence after another, start
        alike. 0: each problem, and each of its restarts, draws its own.
    """

    network: ImagePrior
    noise: torch.Tensor
    features: torch.Tensor | None = None
    distinct: int = 0

    def __post_init__(self) -> None:
        arguments.integer("distinct", self.distinct, 0)

    @classmethod
    def draw(cls, network: ImagePrior, count: int, generator: torch.Generator) -> UntrainedSpace:
        """Return the space of batches of ``count`` images, with standard normal noise."""
        like = next(network.parameters())
        shape = (count, network.width, network.side, network.side)
        return cls(network, torch.randn(shape, generator=generator, device=like.device).to(like))

    def start(self, problems: int, count: int, generator: torch.Generator) -> torch.Tensor:
        """Return initial weights as vectors (problems, k), followed by any features."""
        rows = [_flat_weights(self.network)]
        for _ in range((self.distinct or problems) - 1):
            other = copy.deepcopy(self.network)
            draw_weights(other, generator)
            rows.append(_flat_weights(other))
        weights = torch.stack([rows[problem % len(rows)] for problem in range(problems)])
        if self.features is None:
            return weights
        # a problem's restarts follow one another
        known = self.features.flatten(1).to(weights)
        known = known.repeat_interleave(problems // len(known), dim=0)
        return torch.cat([weights, known], dim=1)

    def images(self, values: torch.Tensor) -> torch.Tensor:
        """Return the network's images (n, colours, side, side) with these weights."""
        if self.features is None:
            return _call_with_weights(self.network, values, self.noise)
        known = values[-self.features[0].numel() :].detach()  # constants, not optimised
        known = known.unflatten(0, self.features.shape[1:])
        return _call_with_weights(self.network, values, self.noise, known)


@dataclass(frozen=True)
class LatentSpace:
    """The latent vectors of a generator.

    Attributes
    ----------
    decoder : Decoder
        A trained generator.
    known : Tensor, shape (N, latent)
        Latent vectors of images. Initial values are drawn from the normal distribution with their
        mean and covariance.
    """

    decoder: Decoder
    known: torch.Tensor

    def start(self, problems: int, count: int, generator: torch.Generator) -> torch.Tensor:
        """Draw initial latent vectors (problems, n, latent)."""
        shape = (problems, count, self.decoder.latent)
        drawn = torch.randn(shape, generator=generator, device=self.known.device).to(self.known)
        # a combination of centred rows with normal weights has exactly their covariance
        spread = self.known - self.known.mean(dim=0)
        factor = torch.linalg.qr(spread, mode="r").R / len(spread) ** 0.5
        return self.known.mean(dim=0) + drawn @ factor

    def images(self, values: torch.Tensor) -> torch.Tensor:
        """Return the decoder's images of latent vectors (n, latent)."""
        frozen = {name: p.detach() for name, p in self.decoder.named_parameters()}
        return functional_call(self.decoder, frozen, (values,))


@dataclass(frozen=True)
class TunedSpace:
    """The weights of a generator and its latent vectors, concatenated.

    Attributes
    ----------
    latent : LatentSpace
    """

    latent: LatentSpace

    def start(self, problems: int, count: int, generator: torch.Generator) -> torch.Tensor:
        """Return trained weights and latent vectors drawn as by :class:`LatentSpace`."""
        return self.beside(self.latent.start(problems, count, generator))

    def beside(self, latents: torch.Tensor) -> torch.Tensor:
        """Return trained weights concatenated with given latent vectors (problems, n, latent)."""
        weights = _flat_weights(self.latent.decoder)
        return torch.cat([weights.expand(len(latents), -1), latents.flatten(1)], dim=1)

    def images(self, values: torch.Tensor) -> torch.Tensor:
        """Return the images (n, colours, side, side)."""
        decoder = self.latent.decoder
        size = sum(p.numel() for p in decoder.parameters())
        return _call_with_weights(
            decoder, values[:size], values[size:].unflatten(0, (-1, decoder.latent))
        )


def generative_attack(
    network: nn.Module,
    released: Released,
    knowledge: Knowledge,
    *,
    generator: torch.Generator,
    latent: LatentSpace,
    objective: Objective = REGULARISED,
    iterations: int = 10_000,
    learning_rates: tuple[float, float] = (0.1, 1e-3),
    latent_share: float = 0.5,
    **settings,
) -> Inversion:
    """Invert updates in a generator's latent space, then in that of its weights: Jeon et al. 2021.

    Parameters
    ----------
    network, released, knowledge, generator, objective
        As in :func:`~reconrisk.attacks.invert_updates`.
    latent : LatentSpace
        Latent space of the generator.
    iterations : int
        Iterations of both stages together, >= 2.
    learning_rates : tuple of float
        Rates of Adam on latent vectors, and on weights.
    latent_share : float
        Share of the iterations for the first stage, in (0, 1).
    **settings
        Further arguments of :func:`~reconrisk.attacks.invert_updates`.

    Returns
    -------
    Inversion
    """
    arguments.real("latent_share", latent_share, 0, 1, low_open=True, high_open=True)
    first = min(iterations - 1, max(1, round(latent_share * iterations)))
    arguments.integer("iterations", iterations, 2)
    shared = {"generator": generator, "objective": objective, "signed": False, **settings}
    found = invert_updates(
        network,
        released,
        knowledge,
        space=latent,
        iterations=first,
        learning_rate=learning_rates[0],
        **shared,
    )
    tuned = TunedSpace(latent)
    assert found.values is not None  # an inversion with a space returns them
    return invert_updates(
        network,
        released,
        knowledge,
        space=tuned,
        start=tuned.beside(found.values),
        iterations=iterations - first,
        learning_rate=learning_rates[1],
        **shared,
    )


def _flat_weights(network: nn.Module) -> torch.Tensor:
    return torch.cat([p.detach().flatten() for p in network.parameters()])


def _call_with_weights(
    network: nn.Module, values: torch.Tensor, *inputs: torch.Tensor
) -> torch.Tensor:
    """Call a network with weights taken from a vector."""
    sizes = [p.numel() for p in network.parameters()]
    parts = values[: sum(sizes)].split(sizes)
    weights = {
        name: part.view(p.shape)
        for (name, p), part in zip(network.named_parameters(), parts, strict=True)
    }
    return functional_call(network, weights, inputs)

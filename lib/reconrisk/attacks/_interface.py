"""The one form of the attacks on deep networks: what goes in and what comes out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import nn

from reconrisk.attacks._inversion_problem import Inversion
from reconrisk.mechanisms import Released

__all__ = ["Attack", "ImageSpace", "Knowledge"]


@dataclass(frozen=True)
class Knowledge:
    """What an attacker has besides the network and the updates.

    Attributes
    ----------
    labels : Tensor of integers, shape (P, n)
        Of each batch, and so its size.
    shape : tuple of int
        Of one record, (channels, height, width) of a picture.
    aware : bool
        Whether the attacker allows for the defence: compares visible entries only, keeps dropped
        neurons out of its own network and repeats local steps. All of that shows in the update or
        is the server's protocol. An oblivious attacker takes the update for a plain gradient.
    statistics : tuple of pairs of Tensor, shape (P, channels), optional
        Means and variances of what enters each batch norm, of each private batch. None: those that
        the network stores.
    features : Tensor, shape (P, m, f), optional
        Recovered inputs of the wide layer, in any order, scale and sign; m >= n.
    """

    labels: torch.Tensor
    shape: tuple[int, ...]
    aware: bool = False
    statistics: tuple[tuple[torch.Tensor, torch.Tensor], ...] | None = None
    features: torch.Tensor | None = None

    def __post_init__(self) -> None:
        if self.labels.ndim != 2 or self.labels.is_floating_point():
            raise ValueError(
                f"labels must be integers of shape (P, n); got {tuple(self.labels.shape)}"
            )
        if self.features is not None:
            problems, count = self.labels.shape
            shape = tuple(self.features.shape)
            if len(shape) != 3 or shape[0] != problems or shape[1] < count:
                raise ValueError(
                    f"features must have shape ({problems}, {count} or more, f); got {shape}"
                )


class ImageSpace(Protocol):
    """Images as a function of other values, which are descended in place of pixels."""

    def start(self, problems: int, count: int, generator: torch.Generator) -> torch.Tensor:
        r"""Return first values (problems, \*values) for batches of ``count`` images."""

    def images(self, values: torch.Tensor) -> torch.Tensor:
        r"""Return the images (count, \*shape) of one problem's values; must bear ``vmap``."""


class Attack(Protocol):
    """Reconstruct P batches from P updates; settings are bound beforehand (``functools.partial``).

    :func:`~reconrisk.attacks.invert_updates`, :func:`~reconrisk.attacks.component_attack` and
    :func:`~reconrisk.attacks.imprint_attack` are attacks.
    """

    def __call__(
        self,
        network: nn.Module,
        released: Released,
        knowledge: Knowledge,
        *,
        generator: torch.Generator,
    ) -> Inversion:
        r"""Return reconstructions of shape (P, n, \*shape)."""

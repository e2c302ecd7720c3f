"""The common interface of the attacks on deep networks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import nn

from reconrisk.attacks._inversion_problem import Inversion
from reconrisk.mechanisms import Released
from reconrisk.training._networks import Loss

__all__ = ["Attack", "ImageSpace", "Knowledge"]


@dataclass(frozen=True)
class Knowledge:
    """What an attacker knows besides the network and the updates.

    Attributes
    ----------
    labels : Tensor, shape (P, n) of integers, or (P, n, ...) with another loss
        Labels of each batch, which also give its size.
    shape : tuple of int
        Shape of one record, (channels, height, width) of an image.
    aware : bool
        Whether the attacker accounts for the defence: compares visible entries only, drops the same
        neurons in its own network and repeats the local steps. All of that is visible in the update
        or part of the protocol. An oblivious attacker takes the update for a plain gradient.
    statistics : tuple of pairs of Tensor, shape (P, channels), optional
        Means and variances of the inputs of each batch norm, for each private batch. By default
        those that the network stores.
    features : Tensor, shape (P, m, f), optional
        Recovered inputs of the wide layer, in any order, scale and sign; m >= n.
    cosines : Tensor, shape (P, n), optional
        In [0, 1]: the cosine with the true ones that the attacker expects of ``features`` in the
        labels' order.
    loss : callable, optional
        What the clients minimise: maps outputs and labels to a scalar; by default the mean
        cross-entropy.
    """

    labels: torch.Tensor
    shape: tuple[int, ...]
    aware: bool = False
    statistics: tuple[tuple[torch.Tensor, torch.Tensor], ...] | None = None
    features: torch.Tensor | None = None
    cosines: torch.Tensor | None = None
    loss: Loss | None = None

    def __post_init__(self) -> None:
        exact = self.labels.ndim == 2 and not self.labels.is_floating_point()
        if not exact and (self.loss is None or self.labels.ndim < 2):
            raise ValueError(
                f"labels must be integers of shape (P, n); got {tuple(self.labels.shape)}"
            )
        if self.cosines is not None and self.cosines.shape != self.labels.shape[:2]:
            raise ValueError(
                f"cosines must have the labels' shape {tuple(self.labels.shape)}; "
                f"got {tuple(self.cosines.shape)}"
            )
        if self.features is not None:
            problems, count = self.labels.shape[:2]
            shape = tuple(self.features.shape)
            if len(shape) != 3 or shape[0] != problems or shape[1] < count:
                raise ValueError(
                    f"features must have shape ({problems}, {count} or more, f); got {shape}"
                )


class ImageSpace(Protocol):
    """A parametrisation of images; the parameters are optimised instead of the pixels."""

    def start(self, problems: int, count: int, generator: torch.Generator) -> torch.Tensor:
        r"""Return initial values (problems, \*values) for batches of ``count`` images."""

    def images(self, values: torch.Tensor) -> torch.Tensor:
        r"""Return the images (count, \*shape) of one problem's values; must work under ``vmap``."""


class Attack(Protocol):
    """Reconstruct P batches from P updates; bind other settings with ``functools.partial``.

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

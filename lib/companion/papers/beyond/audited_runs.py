"""Classifiers trained with canaries in their data, and what an attacker scores of those."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from reconrisk import DPSGD, training
from reconrisk.models import Classifier

CLASSES = 10
#: a canary's one bright pixel; its gradients are longer than the clipping norm
_BRIGHT = 10.0
_RATE = 1.0
#: of small runs: their noise hardly moves the weights, so that the candidates' gradients stay
_SLOW = 0.02


@dataclass(frozen=True)
class Canaries:
    """Dots beyond the margin of the images: a pixel for each, which no record uses.

    Attributes
    ----------
    labels : Tensor, shape (m,)
    inside : Tensor of bool, shape (m,)
        Whether each is among the records that are trained on.
    """

    labels: torch.Tensor
    inside: torch.Tensor

    def beside(self, images: torch.Tensor) -> torch.Tensor:
        """Images with the margin in which the canaries are dots."""
        return torch.cat([images, images.new_zeros(len(images), len(self.labels))], dim=1)

    def among(
        self, images: torch.Tensor, labels: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """The canaries that take part, and the images after them."""
        dots = _BRIGHT * torch.eye(len(self.labels))[self.inside]
        dots = torch.cat([dots.new_zeros(len(dots), images.shape[1]), dots], dim=1)
        kept = torch.cat([self.labels[self.inside], labels])
        return torch.cat([dots, self.beside(images)]), kept


class Scored:
    """What an attacker who sees every release makes of it, for canaries with any of ten labels.

    Attributes
    ----------
    scores : Tensor, shape (m, 10)
        Log-likelihood of each label against the canary's absence, as if the claim were true.
    distance : float
        The largest distance of two labels' clipped gradients, over the clipping norm.
    """

    def __init__(self, claim: DPSGD, count: int) -> None:
        self.claim, self.scores, self.distance = claim, torch.zeros(count, CLASSES), 0.0

    def see(self, column: torch.Tensor, bias: torch.Tensor, released: torch.Tensor) -> None:
        """Add a step: weights of the dots (..., 10, m), biases (..., 10), the dots' gradients."""
        chance = (_BRIGHT * column + bias[..., None]).softmax(dim=-2).mT
        squares = chance.square().sum(dim=-1, keepdim=True) - 2 * chance + 1
        clip = self.claim.max_grad_norm / (squares * (_BRIGHT**2 + 1)).sqrt()
        clip = _BRIGHT * clip.clamp(max=1)
        inner = clip * ((chance * released.mT).sum(dim=-1, keepdim=True) - released.mT)
        variance = (self.claim.noise_multiplier * self.claim.max_grad_norm) ** 2
        loss = (inner - 0.5 * squares * clip**2) / variance
        if self.claim.sampling_rate < 1:
            rate = torch.tensor(self.claim.sampling_rate)
            loss = torch.logaddexp((1 - rate).log(), rate.log() + loss)
        self.scores = self.scores + loss
        self._spread(chance.reshape(-1, CLASSES))

    def _spread(self, chance: torch.Tensor) -> None:
        ways = chance[:, None, :] - torch.eye(CLASSES)
        ways = ways / ways.norm(dim=-1, keepdim=True)
        self.distance = max(self.distance, float((2 - 2 * (ways @ ways.mT)).max()) ** 0.5)

    def presence(self, canaries: Canaries) -> tuple[np.ndarray, np.ndarray]:
        """Whether guesses about presence are right, the surest first, and the scores."""
        own = self.scores.gather(1, canaries.labels[:, None])[:, 0]
        right = (own > 0) == canaries.inside
        return right[own.abs().argsort(descending=True)].numpy(), own.numpy()

    def label(self, canaries: Canaries) -> np.ndarray:
        """Whether guesses of the label are right, the surest first."""
        best = self.scores.topk(2, dim=1)
        right = best.indices[:, 0] == canaries.labels
        return right[(best.values[:, 0] - best.values[:, 1]).argsort(descending=True)].numpy()


def train(
    run: DPSGD,
    claim: DPSGD,
    images: torch.Tensor,
    labels: torch.Tensor,
    canaries: Canaries,
    generator: torch.Generator,
) -> tuple[Scored, dict[str, torch.Tensor]]:
    """Train a linear classifier by ``run``; return scores as if it were ``claim``, and weights."""
    scored, size = Scored(claim, len(canaries.labels)), images.shape[1]
    inputs, all_labels = canaries.among(images, labels)

    def observe(step: int, weights: Any, released: Any, takes_part: torch.Tensor) -> None:
        column = weights["output.weight"][0, :, size:]
        scored.see(column, weights["output.bias"][0], released["output.weight"][0, :, size:])

    final = training.train_many(
        Classifier(inputs.shape[1], hidden=None, classes=CLASSES),
        run,
        inputs[:-1],
        all_labels[:-1],
        inputs[-1:],
        all_labels[-1:],
        learning_rate=_RATE,
        generator=generator,
        observe=observe,
        subtract_known=False,
    )
    return scored, {name: value[0] for name, value in final.items()}


def train_many(
    run: DPSGD,
    images: torch.Tensor,
    labels: torch.Tensor,
    canaries: Canaries,
    generator: torch.Generator,
) -> Scored:
    """Train one model for each canary, with it or without it, all with the same images."""
    count, size = len(canaries.labels), images.shape[1]
    scored = Scored(run, count)
    one = Canaries(torch.zeros(1, dtype=torch.long), torch.ones(1, dtype=torch.bool))
    inputs = one.among(images, labels)[0]  # the canary is the first
    for inside in (True, False):
        these = torch.nonzero(canaries.inside == inside)[:, 0]
        part = Scored(run, len(these))

        def observe(
            step: int,
            weights: Any,
            released: Any,
            takes_part: torch.Tensor,
            part: Scored = part,
        ) -> None:
            column = weights["output.weight"][:, :, size:]
            dot = released["output.weight"][:, :, size:]
            part.scores = part.scores[:, None]
            part.see(column, weights["output.bias"], dot)
            part.scores = part.scores[:, 0]

        # without the canary the last image takes the target's place
        known = slice(1, None) if inside else slice(1, -1)
        target = 0 if inside else -1
        training.train_many(
            Classifier(size + 1, hidden=None, classes=CLASSES),
            run,
            inputs[known],
            labels[: len(inputs[known])],
            inputs[[target]].expand(len(these), -1),
            canaries.labels[these] if inside else labels[[-1]].expand(len(these)),
            learning_rate=_SLOW,
            generator=generator,
            observe=observe,
        )
        scored.scores[these] = part.scores
        scored.distance = max(scored.distance, part.distance)
    return scored


def train_opacus(
    claim: DPSGD,
    images: torch.Tensor,
    labels: torch.Tensor,
    canaries: Canaries,
    generator: torch.Generator,
    delta: float,
) -> tuple[Scored, float]:
    """Train as :func:`train` with Opacus, full batches; return the epsilon that it reports."""
    from opacus import PrivacyEngine

    scored, size = Scored(claim, len(canaries.labels)), images.shape[1]
    inputs, all_labels = canaries.among(images, labels)
    model = torch.nn.Linear(inputs.shape[1], CLASSES)
    with torch.no_grad():
        for weights in model.parameters():
            weights.copy_(0.01 * torch.randn(weights.shape, generator=generator))
    data = torch.utils.data.TensorDataset(inputs, all_labels)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that its noise is not cryptographic
        engine = PrivacyEngine(accountant="rdp")
        private, optimizer, loader = engine.make_private(
            module=model,
            optimizer=torch.optim.SGD(model.parameters(), lr=_RATE),
            data_loader=torch.utils.data.DataLoader(data, batch_size=len(data)),
            noise_multiplier=claim.noise_multiplier,
            max_grad_norm=claim.max_grad_norm,
            poisson_sampling=False,
            noise_generator=generator,
        )
        for _ in range(claim.steps):
            for batch, its_labels in loader:
                column, bias = model.weight[:, size:].detach().clone(), model.bias.detach().clone()
                optimizer.zero_grad()
                torch.nn.functional.cross_entropy(private(batch), its_labels).backward()
                optimizer.step()
                # what a step releases is the mean over the batch
                scored.see(column, bias, len(data) * model.weight.grad[:, size:])
        return scored, float(engine.get_epsilon(delta))

"""Reconstruction from the final model alone: shadow models and a reconstructor network.

Balle et al. (2022), as Hayes et al. use it (Section 2.1, Appendix A): the adversary trains many
*shadow models*, each on the known records and one auxiliary record, from the same known first
weights, and then a network that maps a model's weights to the record it was trained with.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from reconrisk import arguments
from reconrisk.training import Weights

__all__ = [
    "LinearReconstructor",
    "Reconstructor",
    "Standardised",
    "flatten",
    "train_linear_reconstructor",
    "train_reconstructor",
]

#: smallest spread of a weight that is standardised to one, over the root mean square of all
#: spreads: a pixel that is black in every record leaves its weights untouched but for rounding,
#: and without the floor that rounding would be blown up to the size of everything else
SPREAD_FLOOR = 1e-2


def flatten(weights: Weights) -> torch.Tensor:
    """Return K models' weights as vectors, shape (K, P), in the order of their names."""
    return torch.cat([weights[name].flatten(1) for name in sorted(weights)], dim=1)


@dataclass(frozen=True)
class Standardised:
    """How a weight vector is centred and scaled before a reconstructor reads it.

    Attributes
    ----------
    mean, spread : Tensor, shape (P,)
    """

    mean: torch.Tensor
    spread: torch.Tensor

    @classmethod
    def of(cls, vectors: torch.Tensor) -> Standardised:
        """From shadow models (K, P): means and spreads, these no smaller than the floor."""
        spread = vectors.std(dim=0)
        floor = SPREAD_FLOOR * spread.square().mean().sqrt()
        tiny = torch.finfo(vectors.dtype).tiny
        return cls(vectors.mean(dim=0), spread.clamp(min=max(float(floor), tiny)))

    def __call__(self, vectors: torch.Tensor) -> torch.Tensor:
        return (vectors - self.mean) / self.spread


@dataclass(frozen=True)
class Reconstructor:
    """A fully connected network from weights to records.

    Attributes
    ----------
    standardised : Standardised
    layers : sequence of (weight, bias)
        ReLU between them, a logistic function at the end, so that values lie in (0, 1).
    held_out : sequence of float
        Mean squared error on the shadow models held out, before training and after each epoch.
    """

    standardised: Standardised
    layers: Sequence[tuple[torch.Tensor, torch.Tensor]]
    held_out: Sequence[float]

    def __call__(self, vectors: torch.Tensor) -> torch.Tensor:
        """Return the reconstructions (K, d) for models (K, P)."""
        with torch.no_grad():
            return _forward(self.layers, self.standardised(vectors)).sigmoid()


def train_reconstructor(
    vectors: torch.Tensor,
    records: torch.Tensor,
    *,
    generator: torch.Generator,
    hidden: Sequence[int] = (1000, 1000),
    epochs: int = 40,
    batch: int = 128,
    learning_rate: float = 1e-3,
    held_out: float = 0.1,
) -> Reconstructor:
    """Train the reconstructor network on shadow models.

    Parameters
    ----------
    vectors : Tensor, shape (K, P)
        Shadow models' weights, :func:`flatten`.
    records : Tensor, shape (K, d), in [0, 1]
        The record each was trained with.
    generator : torch.Generator
        Source of the first weights and of the order of the records.
    hidden : sequence of int
        Widths of the hidden layers. Balle et al. use fully connected layers of this size; widths
        and loss (mean squared plus mean absolute error) are our choice of what they leave open.
    epochs, batch, learning_rate
        Of Adam, the rate falling to zero along a cosine.
    held_out : float
        Share of the shadow models, in (0, 1), that is not trained on. The weights are those of
        the epoch with the least error on it: under noise a network soon learns its shadow models
        by heart, which does worse than guessing the mean record.

    Notes
    -----
    Cost: ``6 K epochs (P h_1 + h_1 h_2 + h_2 d)`` multiplications.
    """
    arguments.integer("epochs", epochs, 1)
    arguments.integer("batch", batch, 1)
    arguments.real("held_out", held_out, 0, 1, low_open=True, high_open=True)
    _check_pairs(vectors, records)
    standardised = Standardised.of(vectors)
    inputs = standardised(vectors)
    sizes = (vectors.shape[1], *hidden, records.shape[1])
    layers = [_layer(a, b, generator, vectors) for a, b in zip(sizes, sizes[1:], strict=False)]
    # starting at the mean record: the network then only learns how models tell records apart
    layers[-1][0].mul_(0.1)
    layers[-1][1].copy_(records.mean(dim=0).clamp(0.01, 0.99).logit())
    parameters = [p.requires_grad_() for layer in layers for p in layer]
    optimiser = torch.optim.Adam(parameters, lr=learning_rate)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, epochs)
    order = torch.randperm(len(inputs), generator=generator, device=generator.device)
    aside = max(1, int(held_out * len(order)))
    apart, trained = order[:aside], order[aside:]
    errors: list[float] = []
    kept: list[tuple[torch.Tensor, torch.Tensor]] = []
    for epoch in range(epochs + 1):
        with torch.no_grad():
            difference = _forward(layers, inputs[apart]).sigmoid() - records[apart]
        errors.append(float(difference.square().mean()))
        if errors[-1] <= min(errors):
            kept = [(w.detach().clone(), b.detach().clone()) for w, b in layers]
        if epoch == epochs:
            break
        mixed = torch.randperm(len(trained), generator=generator, device=generator.device)
        for chosen in trained[mixed].split(batch):
            optimiser.zero_grad()
            difference = _forward(layers, inputs[chosen]).sigmoid() - records[chosen]
            (difference.square().mean() + difference.abs().mean()).backward()
            optimiser.step()
        schedule.step()
    return Reconstructor(standardised, kept, errors)


def _layer(
    entering: int, leaving: int, generator: torch.Generator, like: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    weight = torch.randn(
        (leaving, entering), generator=generator, device=like.device, dtype=like.dtype
    )
    return weight * math.sqrt(2 / entering), like.new_zeros(leaving)


def _forward(
    layers: Sequence[tuple[torch.Tensor, torch.Tensor]], inputs: torch.Tensor
) -> torch.Tensor:
    *inner, last = layers
    for weight, bias in inner:
        inputs = torch.nn.functional.linear(inputs, weight, bias).relu()
    return torch.nn.functional.linear(inputs, *last)


@dataclass(frozen=True)
class LinearReconstructor:
    """Ridge regression from weights to records.

    Attributes
    ----------
    standardised : Standardised
    coefficients : Tensor, shape (P, d)
    mean : Tensor, shape (d,)
    penalty : float
        The one chosen.
    """

    standardised: Standardised
    coefficients: torch.Tensor
    mean: torch.Tensor
    penalty: float

    def __call__(self, vectors: torch.Tensor) -> torch.Tensor:
        """Return the reconstructions (K, d) for models (K, P), clipped to [0, 1]."""
        return (self.standardised(vectors) @ self.coefficients + self.mean).clamp(0, 1)


def train_linear_reconstructor(
    vectors: torch.Tensor,
    records: torch.Tensor,
    penalties: Sequence[float] = (1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0),
) -> LinearReconstructor:
    """Fit the ridge regression, its penalty by generalised cross-validation.

    What a reconstructor network must beat to be worth its training.

    Parameters
    ----------
    vectors : Tensor, shape (K, P)
    records : Tensor, shape (K, d), in [0, 1]
    penalties : sequence of float
        Tried, in units of the mean squared length of a standardised vector.

    Notes
    -----
    Cost: one eigendecomposition of a matrix of inner products with min(K, P) rows, and
    ``K P min(K, P)`` multiplications.
    """
    _check_pairs(vectors, records)
    standardised = Standardised.of(vectors)
    inputs = standardised(vectors).double()
    mean = records.double().mean(dim=0)
    centred = records.double() - mean
    count, size = inputs.shape
    # inner products of models with one another or of weights with one another: the fewer
    dual = count <= size
    values, directions = torch.linalg.eigh(inputs @ inputs.T if dual else inputs.T @ inputs)
    values = values.clamp(min=0)
    turned = directions.T @ (centred if dual else inputs.T @ centred)
    power = turned.square().sum(dim=1)
    unit = float(inputs.square().sum()) / count

    def score(penalty: float) -> float:
        left = penalty * unit / (values + penalty * unit)  # what the fit leaves of each direction
        if dual:
            rest, freedom = (left.square() * power).sum(), left.sum()
        else:
            explained = (2 * power - power * values / (values + penalty * unit)) / (
                values + penalty * unit
            )
            rest, freedom = centred.square().sum() - explained.sum(), count - size + left.sum()
        return float(rest / freedom.square() * count)

    best = min(penalties, key=score)
    solved = directions @ (turned / (values + best * unit)[:, None])
    coefficients = (inputs.T @ solved if dual else solved).to(vectors.dtype)
    return LinearReconstructor(standardised, coefficients, mean.to(vectors.dtype), best)


def _check_pairs(vectors: torch.Tensor, records: torch.Tensor) -> None:
    if vectors.ndim != 2 or records.ndim != 2 or len(vectors) != len(records):
        raise ValueError(
            "vectors and records must be matrices with as many rows; got shapes "
            f"{tuple(vectors.shape)} and {tuple(records.shape)}"
        )
    if len(vectors) < 2:
        raise ValueError(f"vectors must hold at least two models; got {len(vectors)}")

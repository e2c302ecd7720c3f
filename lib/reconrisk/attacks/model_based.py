"""Reconstruction from the final model alone: shadow models and a reconstructor network.

The attack of Balle et al. (2022), as Hayes et al. use it (Section 2.1, Appendix A): the adversary
trains many *shadow models*, each on the known records and one auxiliary record, from the same known
initial weights, and then a network that maps a model's weights to its auxiliary record.
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

#: Least spread by which a weight is divided, relative to the root mean square of all spreads.
#: A pixel that is black in every record changes its weights by rounding only; without the floor
#: standardisation would amplify that rounding to the size of the signal.
SPREAD_FLOOR = 1e-2


def flatten(weights: Weights) -> torch.Tensor:
    """Return K models' weights as vectors, shape (K, P), in the order of their names."""
    return torch.cat([weights[name].flatten(1) for name in sorted(weights)], dim=1)


@dataclass(frozen=True)
class Standardised:
    """The centring and scaling of weight vectors before a reconstructor.

    Attributes
    ----------
    mean, spread : Tensor, shape (P,)
    """

    mean: torch.Tensor
    spread: torch.Tensor

    @classmethod
    def of(cls, vectors: torch.Tensor) -> Standardised:
        """Return means and spreads of shadow models (K, P), the spreads at least the floor."""
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
        With ReLU between them and a logistic function at the end, so that values are in (0, 1).
    held_out : sequence of float
        Mean squared error on the held-out shadow models, before training and after each epoch.
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
        Source of the initial weights and of the order of the records.
    hidden : sequence of int
        Widths of the hidden layers. Balle et al. use fully connected layers of this size; where
        they leave widths and loss open, these and mean squared plus mean absolute error are ours.
    epochs, batch, learning_rate
        Of Adam, with a cosine schedule of the rate.
    held_out : float
        Share of the shadow models, in (0, 1), held out for early stopping: the weights are those
        of the epoch with the least error on it. Under noise a network soon overfits its shadow
        models, and then does worse than the mean record.

    Returns
    -------
    Reconstructor

    Raises
    ------
    ValueError
        If shapes do not fit or an argument is out of its range.

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
    # initialise the output at the mean record, so that only deviations from it are learned
    layers[-1][0].mul_(0.1)
    layers[-1][1].copy_(records.mean(dim=0).clamp(0.01, 0.99).logit())
    parameters = [p.requires_grad_() for layer in layers for p in layer]
    optimiser = torch.optim.Adam(parameters, lr=learning_rate)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, epochs)
    order = torch.randperm(len(inputs), generator=generator, device=generator.device)
    held_count = max(1, int(held_out * len(order)))
    held, trained = order[:held_count], order[held_count:]
    errors: list[float] = []
    kept: list[tuple[torch.Tensor, torch.Tensor]] = []
    for epoch in range(epochs + 1):
        with torch.no_grad():
            difference = _forward(layers, inputs[held]).sigmoid() - records[held]
        errors.append(float(difference.square().mean()))
        if errors[-1] <= min(errors):
            kept = [(w.detach().clone(), b.detach().clone()) for w, b in layers]
        if epoch == epochs:
            break
        shuffled = torch.randperm(len(trained), generator=generator, device=generator.device)
        for chosen in trained[shuffled].split(batch):
            optimiser.zero_grad()
            difference = _forward(layers, inputs[chosen]).sigmoid() - records[chosen]
            (difference.square().mean() + difference.abs().mean()).backward()
            optimiser.step()
        schedule.step()
    return Reconstructor(standardised, kept, errors)


def _layer(
    fan_in: int, fan_out: int, generator: torch.Generator, like: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    weight = torch.randn(
        (fan_out, fan_in), generator=generator, device=like.device, dtype=like.dtype
    )
    return weight * math.sqrt(2 / fan_in), like.new_zeros(fan_out)


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
        The penalty chosen.
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
    """Fit a ridge regression, with the penalty chosen by generalised cross-validation.

    The baseline for a reconstructor network.

    Parameters
    ----------
    vectors : Tensor, shape (K, P)
    records : Tensor, shape (K, d), in [0, 1]
    penalties : sequence of float
        Candidates, in units of the mean squared norm of a standardised vector.

    Returns
    -------
    LinearReconstructor

    Raises
    ------
    ValueError
        If shapes do not fit.

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
    # the Gram matrix of models or that of weights, whichever is smaller
    dual = count <= size
    values, directions = torch.linalg.eigh(inputs @ inputs.T if dual else inputs.T @ inputs)
    values = values.clamp(min=0)
    projected = directions.T @ (centred if dual else inputs.T @ centred)
    power = projected.square().sum(dim=1)
    unit = float(inputs.square().sum()) / count

    def score(penalty: float) -> float:
        left = (
            penalty * unit / (values + penalty * unit)
        )  # share of each direction that the fit leaves
        if dual:
            residual, freedom = (left.square() * power).sum(), left.sum()
        else:
            explained = (2 * power - power * values / (values + penalty * unit)) / (
                values + penalty * unit
            )
            residual, freedom = centred.square().sum() - explained.sum(), count - size + left.sum()
        return float(residual / freedom.square() * count)

    best = min(penalties, key=score)
    solved = directions @ (projected / (values + best * unit)[:, None])
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

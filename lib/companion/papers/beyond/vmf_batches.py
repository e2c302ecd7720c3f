"""Batches of real gradients with one unknown record, and an informed adversary's success on them.

The adversary knows the weights, all other records of the batch and n candidates for the missing
one. Under Gaussian noise it subtracts what it knows. Under von Mises-Fisher noise the batch's sum
is scaled to the sphere first; nothing can be subtracted, but each candidate's direction is known.
Noise levels of the two mechanisms are matched by the mean cosine of their releases.
"""

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from scipy import optimize

from companion.experiments import federated
from companion.study import Context, Parameter
from reconrisk import bounds, privacy
from reconrisk.attacks import candidate_directions, vmf_attack_success
from reconrisk.training import Release, release_gradients

__all__ = [
    "DIGITS",
    "PAIRS",
    "Batch",
    "clipped_gradients",
    "concentration_of_cosine",
    "draw_batches",
    "gaussian_success",
    "mean_length",
    "noise_of_cosine",
    "pictures_of",
    "vmf_success",
]

PAIRS = "fifteen, from 1.23 to .174 (Table IV)"
#: the parameter that names the pictures
DIGITS = Parameter("str", "MNIST-5000", "MNIST", "MNIST", "pictures, cropped: MNIST-5000 or MNIST")


@dataclass(frozen=True)
class Batch:
    """One batch without its target, and n candidates for it."""

    weights: dict[str, torch.Tensor]
    #: places of the known records, shape (B - 1,), and of the candidates, shape (n,)
    rows: torch.Tensor
    candidates: torch.Tensor
    #: sum of the known records' clipped gradients, shape (p,), and each candidate's, shape (n, p)
    known: torch.Tensor
    gradients: torch.Tensor

    @functools.cached_property
    def directions(self) -> torch.Tensor:
        """Direction of the batch's sum with each candidate, shape (n, p)."""
        return candidate_directions(self.known, self.gradients)

    @functools.cached_property
    def cosines(self) -> np.ndarray:
        """Cosines between those directions, shape (n, n)."""
        return _products(self.directions)

    @functools.cached_property
    def products(self) -> np.ndarray:
        """Inner products of the candidates' own gradients, shape (n, n)."""
        return _products(self.gradients)

    @functools.cached_property
    def length(self) -> float:
        """Length of the batch's sum with each candidate, on average."""
        return float((self.known + self.gradients).norm(dim=1).mean())


def _products(vectors: torch.Tensor) -> np.ndarray:
    exact = vectors.double()
    return (exact @ exact.mT).cpu().numpy()


def pictures_of(study: Context, dataset: str) -> federated.Standardised:
    """The network's pictures, from the study's folder and on its device."""
    return federated.standardised(dataset, str(study.data_root or ""), device=study.device)


def draw_batches(
    study: Context, dataset: str, batch_size: int, count: int, prior_size: int
) -> list[Batch]:
    """Draw batches, candidates and first weights; gradients are clipped as a whole to one."""
    data = pictures_of(study, dataset)
    generator = study.generator("batches", batch_size, count)
    batches = []
    for _ in range(count):
        weights = federated.NETWORK.initialise(generator)
        size = batch_size - 1 + prior_size
        rows = torch.randperm(len(data.labels), generator=generator, device=generator.device)[:size]
        own = clipped_gradients(weights, data.inputs[rows], data.labels[rows], generator)
        known, others = slice(batch_size - 1), slice(batch_size - 1, None)
        batches.append(
            Batch(weights, rows[known], rows[others], own[known].sum(dim=0), own[others])
        )
    return batches


def clipped_gradients(
    weights: dict[str, torch.Tensor],
    inputs: torch.Tensor,
    labels: torch.Tensor,
    generator: torch.Generator,
) -> torch.Tensor:
    """Every record's gradient, all layers as one vector clipped to length one, shape (n, p)."""
    clips = [Release("clip", by_layer=False)] * len(labels)
    batches = (weights, inputs[:, None], labels[:, None])
    released = release_gradients(*batches, clips, generator=generator)
    return torch.cat([g.flatten(1) for g in released.values()], dim=1)


def mean_length(batches: list[Batch]) -> float:
    """Root mean square of the sums' lengths."""
    return math.sqrt(float(np.mean([batch.length**2 for batch in batches])))


def vmf_success(
    batches: list[Batch], concentrations: Sequence[float], samples: int, rng: np.random.Generator
) -> np.ndarray:
    """Success of the best attack on each batch under VMF noise, simulated ``samples`` times."""
    pairs = zip(batches, concentrations, strict=True)
    dimension = federated.DIMENSION
    return np.array(
        [vmf_attack_success(b.cosines, dimension, k, samples, rng)[0] for b, k in pairs]
    )


def gaussian_success(
    batches: list[Batch], noise_multiplier: float, samples: int, rng: np.random.Generator
) -> np.ndarray:
    """The same under Gaussian noise, where the known records are subtracted."""
    scaled = (b.products / noise_multiplier**2 for b in batches)
    return np.array([bounds.bayes_success_simulated(s, samples, rng)[0] for s in scaled])


def noise_of_cosine(dimension: int, cosine: float) -> float:
    """Standard deviation of Gaussian noise on a unit vector that gives a mean cosine."""

    def excess(log_s: float) -> float:
        found = bounds.direction_cosine_gaussian(dimension, math.exp(log_s))
        return math.log(float(found)) - math.log(cosine)

    return math.exp(optimize.brentq(excess, math.log(1e-4), math.log(1e5), xtol=1e-13))


def concentration_of_cosine(dimension: int, noise_std: float) -> float:
    """Concentration that gives the mean cosine of Gaussian noise on a unit vector."""
    cosine = bounds.direction_cosine_gaussian(dimension, noise_std)
    return float(privacy.vmf_concentration(dimension, cosine))

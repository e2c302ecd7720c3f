"""Attacks of an adversary who knows all records but one, on models trained by full-batch DP-SGD.

A task of a sweep is one noise level: models are trained, attacked and measured within it. What it
draws depends on its own seeds only.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from companion.experiments.tools import as_numpy
from companion.papers.beyond.record_gradient import clipped_gradient
from reconrisk import DPSGD, datasets, privacy
from reconrisk.attacks import (
    StepScoresObserver,
    likelihood_score,
    linearised_information,
    linearised_variance,
    match_gradients,
    minimise_squares,
    sum_score,
)
from reconrisk.datasets import LabelledImages
from reconrisk.models import Classifier
from reconrisk.training import Trajectories, Weights, record_trajectories

__all__ = ["Scene", "attack_run", "candidates_preferred", "fit_record"]


@functools.lru_cache(maxsize=4)
def _images(name: str, data_root: str, side: int) -> LabelledImages:
    """The images a task names, kept for the process's next tasks."""
    part = "all" if name in ("digits", "patches") else "train"
    return datasets.classified(name, Path(data_root) if data_root else None, part, side=side)


@dataclass(frozen=True)
class Scene:
    """Who is known, who is attacked and who else there is, and the run."""

    images: LabelledImages
    order: np.ndarray
    classifier: Classifier
    run: DPSGD
    task: dict[str, Any]

    @classmethod
    def of(cls, task: dict[str, Any]) -> Scene:
        """Read the task's data, draw its records and tune its noise."""
        images = _images(task["data"], task["data_root"], task["side"])
        order = np.random.default_rng(task["selection_seed"]).permutation(len(images))
        sigma = privacy.noise_for_epsilon(task["epsilon"], task["delta"], steps=task["steps"])
        run = DPSGD(sigma, steps=task["steps"], max_grad_norm=task["max_grad_norm"])
        classifier = Classifier(images.dimension, task["hidden"] or None, images.classes)
        return cls(images, order, classifier, run, task)

    @property
    def pool(self) -> np.ndarray:
        """Positions of the records that candidates are drawn from, the targets first."""
        return self.order[self.task["known"] :][: self.task["pool"]]

    @property
    def targets(self) -> np.ndarray:
        """Positions of the records attacked."""
        return self.pool[self.task["first"] : self.task["first"] + self.task["count"]]

    def records(self, positions: np.ndarray) -> tuple[torch.Tensor, torch.Tensor]:
        """Pixels and labels."""
        device = self.task["device"]
        return (
            torch.as_tensor(self.images.inputs[positions], device=device),
            torch.as_tensor(self.images.labels[positions], device=device),
        )

    def generator(self, *purpose: int) -> torch.Generator:
        """A generator of this task for one purpose."""
        seed = np.random.SeedSequence([self.task["noise_seed"], *purpose]).generate_state(1)[0]
        return torch.Generator(device=self.task["device"]).manual_seed(int(seed))

    def initial(self) -> Weights:
        """The first weights, which the attacker knows and all models share."""
        drawn = torch.Generator().manual_seed(self.task["selection_seed"] % 2**32)
        return self.classifier.initialise(drawn)

    def train(self) -> Trajectories:
        """One model for each target, each step stored."""
        return record_trajectories(
            self.classifier,
            self.run,
            *self.records(self.order[: self.task["known"]]),
            *self.records(self.targets),
            learning_rate=self.task["training_rate"],
            generator=self.generator(1),
            initial=self.initial(),
        )


def attack_run(task: dict[str, Any]) -> dict[str, Any]:
    """Train models at one epsilon and carry out the informed adversary's attacks on each.

    Parameters
    ----------
    task : dict
        ``data``, ``data_root``, ``side``, ``hidden``, ``known``, ``pool``, ``first`` and ``count``
        (the targets), ``selection_seed``, ``noise_seed``, ``epsilon``, ``delta``, ``steps``,
        ``max_grad_norm``, ``training_rate``, ``iterations``, ``rate``, ``device``, and ``matched``
        and ``fitted``: how many of the targets are attacked by gradient matching, and by least
        squares.

    Returns
    -------
    dict
        ``mse`` (matched,) of gradient matching within the range of pixels; ``above sum``,
        ``above likelihood`` (targets,): candidates preferred to the target; ``bound`` (fitted, d):
        the Cramer-Rao bound on each pixel's variance; ``error`` (fitted, d): of least squares.
    """
    scene = Scene.of(task)
    stored = scene.train()
    pixels, labels = scene.records(scene.targets)
    some, few = slice(0, task["matched"]), slice(0, task["fitted"])
    rebuilt = as_numpy(
        match_gradients(
            _of(stored.weights, some),
            _of(stored.residuals, some),
            scene.run,
            labels[some],
            generator=scene.generator(2),
            iterations=task["iterations"],
            learning_rate=task["rate"],
        ).inputs
    )
    truth = as_numpy(pixels[some])
    wide, seen = (
        {name: w.double() for name, w in _of(part, few).items()}
        for part in (stored.weights, stored.residuals)
    )
    variance = linearised_variance(wide, pixels[few], labels[few], scene.run)
    errors = []
    for k, start in enumerate(rebuilt[few]):
        own, residual = ({n: w[:, k] for n, w in part.items()} for part in (wide, seen))
        norm = scene.run.max_grad_norm
        errors.append(fit_record(own, residual, labels[k], norm, start) - truth[k])
    return {
        "mse": np.mean((rebuilt - truth) ** 2, axis=1),
        **candidates_preferred(scene, stored),
        "bound": as_numpy(variance),
        "error": np.asarray(errors),
    }


def _of(part: Weights, targets: slice) -> Weights:
    return {name: w[:, targets] for name, w in part.items()}


def candidates_preferred(scene: Scene, stored: Trajectories) -> dict[str, np.ndarray]:
    """How many of the pool the prior-aware attack scores above each target, by its score."""
    observer = StepScoresObserver(*scene.records(scene.pool), scene.run, scene.classifier.classes)
    for step in range(scene.run.steps):
        weights, residual = (
            {name: w[step] for name, w in part.items()}
            for part in (stored.weights, stored.residuals)
        )
        observer(step, weights, residual, stored.takes_part[step])
    steps = observer.steps()
    own = np.arange(len(scene.targets))
    ranks = {}
    for name, score in (("sum", sum_score), ("likelihood", likelihood_score)):
        scores = as_numpy(score(steps, scene.run))  # (targets, pool)
        mine = scores[own, own + scene.task["first"]]
        ranks[f"above {name}"] = np.count_nonzero(scores > mine[:, None], axis=1)
    return ranks


def fit_record(
    weights: Weights,
    residuals: Weights,
    label: torch.Tensor,
    max_grad_norm: float,
    start: np.ndarray,
    *,
    iterations: int = 30,
) -> np.ndarray:
    """Fit a record to all steps' residuals by least squares, pixels of any size.

    Levenberg and Marquardt's method with the information of
    :func:`reconrisk.attacks.linearised_variance` in place of second derivatives. For small noise
    the result is unbiased, with the covariance of the Cramer-Rao bound.

    Parameters
    ----------
    weights, residuals : Weights, shape (T, ...), float64
    label : Tensor, scalar
    max_grad_norm : float
    start : ndarray, shape (d,)
    iterations : int

    Returns
    -------
    ndarray, shape (d,)
    """

    def squares(record: torch.Tensor) -> torch.Tensor:
        found = clipped_gradient(weights, record, label, max_grad_norm)
        return torch.stack([(g - residuals[n]).square().sum() for n, g in found.items()]).sum()

    def loss(point: np.ndarray) -> float:
        return float(squares(torch.as_tensor(point)))

    def normal(point: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
        record = torch.as_tensor(point).requires_grad_()
        value = squares(record)
        (slope,) = torch.autograd.grad(value, record)
        information = linearised_information(weights, record.detach(), label, max_grad_norm)
        return float(value.detach()), 0.5 * as_numpy(slope), as_numpy(information)

    return minimise_squares(normal, loss, start, iterations=iterations, enough=0.0)[0]

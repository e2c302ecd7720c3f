"""Models trained on known records and one unknown target, and what the informed adversary prefers.

A task of a sweep is one data set at one epsilon and some targets: models are trained, attacked and
measured within the task. What it draws depends on the seeds that it names only, so that exhibits
which look at the same reconstructions get the same ones.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from companion.experiments.tools import as_numpy
from reconrisk import DPSGD, bounds, datasets, privacy
from reconrisk.attacks import (
    SecondMoments,
    StepScores,
    StepScoresObserver,
    likelihood_score,
    linearised_information,
    second_moments,
    sum_score,
)
from reconrisk.datasets import LabelledImages
from reconrisk.models import Classifier
from reconrisk.training import Trajectories, Weights, record_trajectories


@functools.lru_cache(maxsize=4)
def images_of(name: str, data_root: str, side: int) -> LabelledImages:
    """The images that a task names, kept for the process's next tasks."""
    part = "all" if name in datasets.BUNDLED else "train"
    root = Path(data_root) if data_root else None
    return datasets.classified(name, root, part, side=side)


@dataclass(frozen=True)
class Scene:
    """Who is known, who is attacked and who else there is, as tensors on the device."""

    images: LabelledImages
    order: np.ndarray
    classifier: Classifier
    run: DPSGD
    feature_map: Any
    task: dict[str, Any]

    def positions(self, who: str) -> np.ndarray:
        """Positions of the ``"known"`` records, all ``"others"``, the ``"pool"`` or ``"targets"``.

        The pool is the records that candidates are drawn from, the targets first.
        """
        known, first, count = (self.task[name] for name in ("known", "first", "count"))
        if who == "known":
            return self.order[:known]
        others = self.order[known:]
        if who == "pool":
            return others[: self.task["pool"]]
        return others if who == "others" else others[first : first + count]

    def records(self, positions: np.ndarray) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Pixels, what the classifier is fed, and labels."""
        device = self.task["device"]
        pixels = torch.as_tensor(self.images.inputs[positions], device=device)
        labels = torch.as_tensor(self.images.labels[positions], device=device)
        return pixels, self.fed(pixels), labels

    def fed(self, pixels: torch.Tensor) -> torch.Tensor:
        """What the classifier is fed."""
        if self.feature_map is None:
            return pixels
        with torch.no_grad():
            return torch.cat([self.feature_map(part) for part in pixels.split(256)])

    def generator(self, *purpose: int) -> torch.Generator:
        """A generator of this task for one purpose."""
        seed = np.random.SeedSequence([self.task["noise_seed"], *purpose]).generate_state(1)[0]
        return torch.Generator(device=self.task["device"]).manual_seed(int(seed))

    def initial(self) -> Weights:
        """The first weights, which the attacker knows and all models share."""
        drawn = torch.Generator().manual_seed(self.task["selection_seed"] % 2**32)
        return self.classifier.initialise(drawn)


def scene_of(task: dict[str, Any]) -> Scene:
    """Set up a task.

    Parameters
    ----------
    task : dict
        ``data``, ``data_root``, ``side``, ``features`` (0: none) of a ``network``, ``hidden`` (0:
        none), ``known``, ``first`` and ``count`` (the targets), ``selection_seed``, ``noise_seed``,
        ``epsilon``, ``delta``, ``steps``, ``max_grad_norm``, ``training_rate`` and ``device``;
        ``pool`` for attacks with candidates.
    """
    images = images_of(task["data"], task["data_root"], task["side"])
    order = np.random.default_rng(task["selection_seed"]).permutation(len(images))
    sigma = privacy.noise_for_epsilon(task["epsilon"], task["delta"], steps=task["steps"])
    run = DPSGD(sigma, steps=task["steps"], max_grad_norm=task["max_grad_norm"])
    network, fed = None, images.dimension
    if task["features"]:
        root = Path(task["data_root"]) if task["data_root"] else None
        chosen = {"count": task["features"], "network": task["network"]}
        network = datasets.feature_map(images.shape, root, **chosen).to(task["device"])
        with torch.no_grad():
            fed = network(torch.zeros(1, images.dimension, device=task["device"])).shape[1]
    classifier = Classifier(fed, task["hidden"] or None, images.classes)
    return Scene(images, order, classifier, run, network, task)


def train_targets(scene: Scene) -> tuple[Trajectories, torch.Tensor, torch.Tensor]:
    """Train a model for each of a task's targets; their trajectories, pixels and labels."""
    pixels, fed, labels = scene.records(scene.positions("targets"))
    return _train(scene, fed, labels, 1), pixels, labels


def _train(scene: Scene, fed: torch.Tensor, labels: torch.Tensor, purpose: int) -> Trajectories:
    _, known, known_labels = scene.records(scene.positions("known"))
    return record_trajectories(
        scene.classifier,
        scene.run,
        known,
        known_labels,
        fed,
        labels,
        learning_rate=scene.task["training_rate"],
        generator=scene.generator(purpose),
        initial=scene.initial(),
    )


@dataclass(frozen=True)
class NormalImages:
    """Images of a normal law with the pool's mean and covariance, each trained with by itself."""

    moments: SecondMoments
    pixels: torch.Tensor
    labels: torch.Tensor
    stored: Trajectories


def normal_images(scene: Scene, labels: torch.Tensor) -> NormalImages:
    """Draw an image for each label and train models as with a task's targets."""
    pool, _, _ = scene.records(scene.positions("pool"))
    moments = second_moments(as_numpy(pool))
    draws = scene.generator(3)
    normal = as_numpy(torch.randn(len(labels), pool.shape[1], generator=draws, device=pool.device))
    pixels = moments.mean + (normal * moments.variances**0.5) @ moments.directions.T
    drawn = torch.as_tensor(pixels).to(pool)
    return NormalImages(moments, drawn, labels, _train(scene, scene.fed(drawn), labels, 4))


def van_trees_floor(scene: Scene, drawn: NormalImages, most: int = 8) -> tuple[float, float]:
    """Van Trees' bound on the mean squared error of any attack on such images, and its error.

    The information is averaged over the first ``most`` of them: it needs N x N matrices.

    The bound is convex in the information, so that the average over few images makes it too large:
    to first order by as much as the mean of the halves' bounds is above it, which is subtracted,
    down to zero.
    """
    informations = []
    for k, image in enumerate(drawn.pixels[:most].double()):
        own = {name: w[:, k].double() for name, w in drawn.stored.weights.items()}
        given = own, image, drawn.labels[k], scene.run.max_grad_norm, scene.feature_map
        informations.append(as_numpy(linearised_information(*given)))
    noise = scene.run.noise_multiplier * scene.run.max_grad_norm
    spread = drawn.moments.directions * drawn.moments.variances
    covariance = spread @ drawn.moments.directions.T

    def floor(part: list[np.ndarray]) -> float:
        error = bounds.van_trees_error(np.mean(part, axis=0), noise, covariance)
        return float(error) ** 2 / len(covariance)

    one, other = floor(informations[::2]), floor(informations[1::2])
    return max(2 * floor(informations) - (one + other) / 2, 0.0), abs(one - other) / 2


def replay_steps(stored: Trajectories, observer: StepScoresObserver) -> StepScores:
    """Show an observer the steps of trajectories that are stored; return its scores."""
    for step in range(stored.takes_part.shape[0]):
        weights = {name: w[step] for name, w in stored.weights.items()}
        residual = {name: r[step] for name, r in stored.residuals.items()}
        observer(step, weights, residual, stored.takes_part[step])
    return observer.steps()


def preferred_candidates(scene: Scene, stored: Trajectories) -> dict[str, np.ndarray]:
    """What the prior-aware attack makes of the pool's records, one entry per target.

    ``above sum`` and ``above likelihood``: how many it scores above the target; ``list floor``: the
    least mean squared error of any attack that is given the label, for targets from the pool.
    """
    pixels, fed, labels = scene.records(scene.positions("pool"))
    observer = StepScoresObserver(fed, labels, scene.run, scene.classifier.classes)
    steps = replay_steps(stored, observer)
    found = {}
    for name, score in (("sum", sum_score), ("likelihood", likelihood_score)):
        scores = as_numpy(score(steps, scene.run))  # (targets, pool)
        own = np.arange(len(scores))
        mine = scores[own, own + scene.task["first"]]
        found[f"above {name}"] = np.count_nonzero(scores > mine[:, None], axis=1)
    given = as_numpy(labels)
    same = given[own + scene.task["first"]][:, None] == given
    found["list floor"] = bounds.posterior_mse(np.where(same, scores, -np.inf), as_numpy(pixels))
    return found

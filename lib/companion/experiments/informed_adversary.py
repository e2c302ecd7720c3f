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
from reconrisk import DPSGD, datasets, privacy
from reconrisk.attacks import StepScoresObserver, likelihood_score, sum_score
from reconrisk.datasets import LabelledImages
from reconrisk.models import Classifier
from reconrisk.training import Trajectories, Weights, record_trajectories

__all__ = ["Scene", "images_of", "preferred_candidates", "scene_of", "train_targets"]


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
        if self.feature_map is None:
            return pixels, pixels, labels
        with torch.no_grad():
            fed = torch.cat([self.feature_map(part) for part in pixels.split(256)])
        return pixels, fed, labels

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
        ``data``, ``data_root``, ``side``, ``features`` (0: none), ``hidden`` (0: none), ``known``,
        ``first`` and ``count`` (the targets), ``selection_seed``, ``noise_seed``, ``epsilon``,
        ``delta``, ``steps``, ``max_grad_norm``, ``training_rate`` and ``device``; ``pool`` for
        attacks with candidates.
    """
    images = images_of(task["data"], task["data_root"], task["side"])
    order = np.random.default_rng(task["selection_seed"]).permutation(len(images))
    sigma = privacy.noise_for_epsilon(task["epsilon"], task["delta"], steps=task["steps"])
    run = DPSGD(sigma, steps=task["steps"], max_grad_norm=task["max_grad_norm"])
    network, fed = None, images.dimension
    if task["features"]:
        root = Path(task["data_root"]) if task["data_root"] else None
        network = datasets.feature_map(images.shape, root, count=task["features"])
        network = network.to(task["device"])
        with torch.no_grad():
            fed = network(torch.zeros(1, images.dimension, device=task["device"])).shape[1]
    classifier = Classifier(fed, task["hidden"] or None, images.classes)
    return Scene(images, order, classifier, run, network, task)


def train_targets(scene: Scene) -> tuple[Trajectories, torch.Tensor, torch.Tensor]:
    """Train a model for each of a task's targets; their trajectories, pixels and labels."""
    _, known, known_labels = scene.records(scene.positions("known"))
    pixels, fed, labels = scene.records(scene.positions("targets"))
    stored = record_trajectories(
        scene.classifier,
        scene.run,
        known,
        known_labels,
        fed,
        labels,
        learning_rate=scene.task["training_rate"],
        generator=scene.generator(1),
        initial=scene.initial(),
    )
    return stored, pixels, labels


def preferred_candidates(scene: Scene, stored: Trajectories) -> dict[str, np.ndarray]:
    """Count the pool's records that the prior-aware attack scores above each target, by score."""
    _, fed, labels = scene.records(scene.positions("pool"))
    observer = StepScoresObserver(fed, labels, scene.run, scene.classifier.classes)
    for step in range(scene.run.steps):
        weights = {name: w[step] for name, w in stored.weights.items()}
        residual = {name: r[step] for name, r in stored.residuals.items()}
        observer(step, weights, residual, stored.takes_part[step])
    steps = observer.steps()
    ranks = {}
    for name, score in (("sum", sum_score), ("likelihood", likelihood_score)):
        scores = as_numpy(score(steps, scene.run))  # (targets, pool)
        own = np.arange(len(scores))
        mine = scores[own, own + scene.task["first"]]
        ranks[f"above {name}"] = np.count_nonzero(scores > mine[:, None], axis=1)
    return ranks

"""The model-based attack of Balle et al.: shadow models, and a network that learns from them."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pandas as pd
import torch

from companion.exhibit import *
from companion.experiments.informed_adversary import Scene, images_of, scene_of
from companion.papers.hayes2023.gradient_reconstructions import GREY, reconstruction_task
from reconrisk.attacks import baselines, model_based
from reconrisk.datasets import LabelledImages
from reconrisk.training import train_many

__all__ = [
    "SHADOW_PARAMETERS",
    "attack_with_shadows",
    "baseline_errors",
    "shadowed",
    "shadowed_images",
]

#: shadow models trained together
CHUNK = 2000

SHADOW_PARAMETERS = {
    "shadows": Parameter("int", 700, 40000, "40,000", "shadow models, at most (repeats end early)"),
    "test_models": Parameter(
        "int", 100, 1000, "1,000", "models attacked by the model-based attack"
    ),
    "model_epsilons": Parameter(
        "floats",
        (10.0, 1000.0, 100000.0),
        (1.0, 10.0, 100.0, 1000.0, 10000.0, 100000.0),
        "not printed: a curve over epsilon",
        "epsilon of the model-based attack; each also of the gradient-based one",
        low=1e-3,
    ),
    "reconstructor": Parameter(
        "ints", (500,), (1000, 1000), "as Balle et al.", "widths of the reconstructor's layers"
    ),
    "epochs": Parameter("int", 30, 100, "as Balle et al.", "epochs of its training", low=1),
}


def attack_with_shadows(task: dict[str, Any]) -> dict[str, float]:
    """Train shadow models and the reconstructor, and measure it on further models.

    Parameters
    ----------
    task : dict
        As in :func:`~companion.experiments.informed_adversary.scene_of`, and ``shadows``,
        ``reconstructor``, ``epochs``; the models attacked are those of the ``count`` targets.

    Returns
    -------
    dict
        MSE and standard error of the reconstructor on the attacked models, its MSE on its own
        shadow models, the ridge regression's MSE, and how many shadow models there were.
    """
    scene = scene_of(task)
    tested = scene.positions("targets")
    auxiliary = scene.positions("others")[task["first"] + task["count"] :][: task["shadows"]]
    vectors, test_vectors = (
        torch.cat([_final_models(scene, part, purpose) for part in _chunks(who)])
        for who, purpose in ((auxiliary, 3), (tested, 4))
    )
    records, truth = scene.records(auxiliary)[0], scene.records(tested)[0]
    network = model_based.train_reconstructor(
        vectors,
        records,
        generator=scene.generator(5),
        hidden=task["reconstructor"],
        epochs=task["epochs"],
    )
    ridge = model_based.train_linear_reconstructor(vectors, records)
    errors = as_numpy((network(test_vectors) - truth).square().mean(dim=1))
    return {
        "model-based": float(errors.mean()),
        "standard error": float(errors.std(ddof=1) / math.sqrt(len(errors))),
        "on its shadows": float((network(vectors) - records).square().mean()),
        "ridge": float((ridge(test_vectors) - truth).square().mean()),
        "shadow models": len(auxiliary),
    }


def _chunks(values: np.ndarray) -> Iterable[np.ndarray]:
    return (values[start : start + CHUNK] for start in range(0, len(values), CHUNK))


def _final_models(scene: Scene, positions: np.ndarray, purpose: int) -> torch.Tensor:
    """The last weights of one model for each record, (K, P)."""
    _, known, known_labels = scene.records(scene.positions("known"))
    _, fed, labels = scene.records(positions)
    trained = train_many(
        scene.classifier,
        scene.run,
        known,
        known_labels,
        fed,
        labels,
        learning_rate=scene.task["training_rate"],
        generator=scene.generator(purpose, int(positions[0])),
        initial=scene.initial(),
    )
    return model_based.flatten(trained)


def shadowed(study: Context, which: str, epsilons: Sequence[float]) -> pd.DataFrame:
    """Run the model-based attack on one data set over epsilon, one row each."""
    p = study.parameters
    # where there are few records, most of them are better spent on shadow models
    others = len(shadowed_images(study, which)) - p[f"{which}_known"]
    count = min(p.test_models, others // 6)
    tasks = [
        reconstruction_task(
            study,
            which,
            epsilon=float(epsilon),
            count=count,
            shadows=p.shadows,
            reconstructor=list(p.reconstructor),
            epochs=p.epochs,
        )
        for epsilon in epsilons
    ]
    rows = study.sweep(attack_with_shadows, tasks, f"shadow models, {which} images")
    return pd.DataFrame(
        [{"epsilon": e, "models": count, **row} for e, row in zip(epsilons, rows, strict=True)]
    )


def baseline_errors(study: Context, which: str) -> dict[str, float]:
    """Errors of guesses that have seen nothing: MSE of nearest neighbours and of the mean image."""
    images = shadowed_images(study, which)
    return {
        "nearest neighbour": _nearest_neighbours(*_place(study, which)),
        "mean image": baselines.mean_record_mse(images.inputs),
    }


def _place(study: Context, which: str) -> tuple[str, str, int]:
    p = study.parameters
    return p[which], data_folder(study, p[which]), 32 if which == GREY else p.side


def shadowed_images(study: Context, which: str) -> LabelledImages:
    """The data set that known records, targets and shadow models' records are drawn from."""
    return images_of(*_place(study, which))


@functools.lru_cache(maxsize=4)
def _nearest_neighbours(name: str, data_root: str, side: int) -> float:
    return float(baselines.nearest_neighbour_mse(images_of(name, data_root, side).inputs).mean())

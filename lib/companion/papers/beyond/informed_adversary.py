"""Attacks of an adversary who knows all records but one, on models trained by full-batch DP-SGD.

A task of a sweep is one noise level: models are trained, attacked and measured within it. What it
draws depends on its own seeds only.
"""

from typing import Any

import numpy as np
import torch

from companion.experiments.informed_adversary import (
    preferred_candidates,
    scene_of,
    train_targets,
)
from companion.experiments.tools import as_numpy
from companion.papers.beyond.record_gradient import clipped_gradient
from reconrisk.attacks import (
    linearised_information,
    linearised_variance,
    match_gradients,
    minimise_squares,
)
from reconrisk.training import Weights

__all__ = ["attack_run", "fit_record"]


def attack_run(task: dict[str, Any]) -> dict[str, Any]:
    """Train models at one epsilon and carry out the informed adversary's attacks on each.

    Parameters
    ----------
    task : dict
        As in :func:`~companion.experiments.informed_adversary.scene_of`, and ``iterations`` and
        ``rate`` of gradient matching, ``matched`` and ``fitted``: how many of the targets are
        attacked by gradient matching, and by least squares.

    Returns
    -------
    dict
        ``mse`` (matched,) of gradient matching within the range of pixels; ``above sum``,
        ``above likelihood`` (targets,): candidates preferred to the target; ``bound`` (fitted, d):
        the Cramer-Rao bound on each pixel's variance; ``error`` (fitted, d): of least squares.
    """
    scene = scene_of(task)
    stored, pixels, labels = train_targets(scene)
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
        **preferred_candidates(scene, stored),
        "bound": as_numpy(variance),
        "error": np.asarray(errors),
    }


def _of(part: Weights, targets: slice) -> Weights:
    return {name: w[:, targets] for name, w in part.items()}


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

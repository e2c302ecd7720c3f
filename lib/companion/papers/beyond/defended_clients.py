"""Attacks on clients' defended updates by attackers who ignore the defence or know it.

The grid of attacks of Liu et al. in both readings, and an attack on noisy updates that uses the
size of the noise.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import torch
from scipy import stats

from companion.exhibit import *
from companion.experiments.client_grid import (
    GRID,
    Grid,
    all_settings,
    batches_of,
    network_of,
    run_grid,
    updates_of,
)
from companion.experiments.clients import Setting, pictures, pixel_search
from reconrisk.attacks import Knowledge, Objective, invert_updates
from reconrisk.metrics import psnr, rmse

OURS = "not printed: our own"
#: the attack that uses the size of the noise
LIKELIHOOD = "Likelihood"
_QUICK = "GradientInversion, Robbing The Fed"
_PAPER = "Ours, w/o FM, GradientInversion, CPA, Robbing The Fed"
_PRINTED = "Ours, GradientInversion, Robbing The Fed, CPA"

#: the grid, and the attacks that ignore the defence or allow for it
DEFENDED_GRID = {
    **GRID,
    "batch_sizes": Parameter("ints", (2, 4), (2, 4, 8), "2, 4, 8", "pictures per batch", low=1),
    "local_steps": Parameter(
        "ints", (3,), (3, 5), "3, 5", "local steps that aware attackers repeat", low=1
    ),
    "oblivious": Parameter(
        "str", f"{_QUICK}, Analytic", f"{_PAPER}, Analytic", _PRINTED, "attacks ignoring defences"
    ),
    "aware": Parameter("str", _QUICK, _PAPER, OURS, "attacks that allow for the defence"),
}


def names_of(text: str) -> list[str]:
    return [name.strip() for name in text.split(",")]


def settings_of(local_steps: Sequence[int]) -> list[Setting]:
    """The tables' settings, with only the given numbers of steps of local aggregation."""
    every = all_settings()
    return [s for s in every if s.defence != "LocalAggregation" or int(s.strength) in local_steps]


def short_title(setting: str) -> str:
    return setting.replace("LocalAggregation", "Local").replace("sigma0", r"$\sigma_0$")


def attacked_cells(
    study: Context, grid: Grid, attacks: Mapping[bool, Sequence[str]]
) -> pd.DataFrame:
    """Run the attacks that ignore the defence (False) and that know it (True), one row a picture.

    Under noise also :data:`LIKELIHOOD`.
    """
    p = study.parameters
    settings = settings_of(p.local_steps)
    parts = [
        run_grid(study, names, settings, p.batch_sizes, aware=(aware,), grid=grid)
        for aware, names in attacks.items()
    ]
    noises = [s for s in settings if s.defence == "GradNoise"]
    for n in p.batch_sizes:
        for s, found in attack_noise(study, grid, n, noises).items():
            errors, psnrs = np.asarray(found["RMSE"]), np.asarray(found["PSNR"])
            batch = np.repeat(np.arange(len(errors)), errors.shape[1])
            cell = {"attack": LIKELIHOOD, "aware": True, "batch size": n, "batch": batch}
            setting = {"defence": s.defence, "strength": s.strength, "setting": s.title}
            metrics = {"RMSE": errors.ravel(), "PSNR": psnrs.ravel()}
            parts.append(pd.DataFrame(cell | setting | metrics))
    return pd.concat(parts, ignore_index=True)


def attack_noise(
    study: Context, grid: Grid, batch_size: int, noises: Sequence[Setting]
) -> dict[Setting, dict[str, Any]]:
    """Results of :func:`attack_with_likelihood` at several strengths of the noise."""
    task = {"grid": dataclasses.asdict(grid), "batch_size": batch_size}
    tasks = [task | {"strength": s.strength} for s in noises]
    found = study.sweep(attack_with_likelihood, tasks, "likelihood", threads=1)
    return dict(zip(noises, found, strict=True))


def attack_with_likelihood(task: dict[str, Any]) -> dict[str, Any]:
    """Invert noisy updates by the most probable pictures under a prior on neighbours' differences.

    Under Gaussian noise, minus the log-likelihood is the squared distance over twice the noise's
    variance. The prior takes differences of neighbouring pixels to be independent and Laplacian,
    with their mean size in pictures of the same kind; that fixes the weight of the total variation.

    Parameters
    ----------
    task : dict
        ``grid``, whose seeds all attacks share, ``batch_size`` and ``strength`` of the noise.

    Returns
    -------
    dict
        ``"RMSE"`` and ``"PSNR"`` by batch and picture, the first batch's ``"pictures"``, and
        ``"weight"`` of the total variation, mean over the batches.
    """
    grid = Grid(**task["grid"])
    batches, network = batches_of(grid, task["batch_size"]), network_of(grid)
    released = updates_of(grid, network, batches, Setting("GradNoise", task["strength"]))
    images, _ = pictures(grid.data, grid.data_root, grid.side)
    sizes = torch.cat([images.diff(dim=d).abs().flatten() for d in (-1, -2)])
    rate = 1 / float(sizes.mean())
    norms = torch.stack([g.flatten(1).square().sum(dim=1) for g in released.gradient.values()])
    # one weight for all batches: their updates have nearly equal length
    squared = float(norms.sum(dim=0).mean())
    weight = 2 * task["strength"] ** 2 / squared * rate * batches.images[0].numel()
    found = invert_updates(
        network,
        released,
        Knowledge(batches.labels, tuple(batches.images.shape[2:]), aware=True),
        generator=grid.generator(grid.start_seed, task["batch_size"]),
        objective=Objective(distance="squared", total_variation=weight),
        iterations=grid.iterations,
        **pixel_search(grid.iterations),
    ).inputs
    x, y = (as_numpy(t.flatten(2)) for t in (batches.images, found))
    return {
        "RMSE": rmse(x, y),
        "PSNR": psnr(x, y, 1.0),
        "pictures": np.round(as_numpy(found[0].movedim(1, -1)), 4),
        "weight": weight,
    }


def with_interval(values: np.ndarray) -> tuple[float, float]:
    """Mean and half the width of its 95% interval (Student's); zero of a single value."""
    if len(values) < 2:
        return float(values.mean()), 0.0
    error = float(np.std(values, ddof=1)) / np.sqrt(len(values))
    return float(values.mean()), float(stats.t.ppf(0.975, len(values) - 1)) * error

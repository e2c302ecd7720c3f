"""Trainings under every defence, which Table 5 and Figure 3 share."""

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
import torch

from companion.exhibit import *
from companion.experiments.clients import (
    KEY,
    Setting,
    draw_batches,
    make_network,
    pictures,
    printed_rows,
    printed_settings,
    seed_generator,
)
from reconrisk.training import train_under_defences

NONE = Setting("None")
LOCAL = (Setting("LocalAggregation", 3), Setting("LocalAggregation", 5))
TRAINED = {
    "trained_network": Parameter(
        "str", "ConvNet", "ResNet-18", "ResNet-18", "ConvNet or ResNet-18", stand_in=True
    ),
    "trained_channels": Parameter("int", 8, 64, "64", "of its first stage", 1, stand_in=True),
    "trained_wide": Parameter(
        "int", 256, 16_384, "16,384", "neurons of its extra layer", 1, stand_in=True
    ),
    "trained_side": Parameter(
        "int", 16, 32, "32", "pixels a side of its pictures: 8, 16 or 32", 8, stand_in=True
    ),
    "records": Parameter("int", 128, 50_000, "50,000", "training pictures", 8),
    "epochs": Parameter("int", 3, 1, "1; also 200", "of each training", 1),
    "learning_rate": Parameter("float", 0.03, 0.1, "0.1", "of each training", 1e-6),
    "small_rate": Parameter("float", 0.01, 0.01, "not printed", "a second, smaller rate", 1e-6),
    "decay_every": Parameter(
        "int", 2, 0, "50 of 200", "epochs after which the rate falls to a tenth; 0: never", 0
    ),
    "runs": Parameter("int", 3, 3, "1", "trainings of each setting", 2),
    "mapped": Parameter(
        "int", 0, 1, "not printed", "settings trained in one task at most; 0 for all", 0
    ),
}


def trained_settings() -> tuple[Setting, ...]:
    """None, those of Table 5, and local aggregation, which the table omits."""
    return (NONE, *printed_settings("table5"), *LOCAL)


def printed_losses() -> pd.DataFrame:
    """Table 5, one row a cell: setting, defence, strength, batch size, loss."""
    columns = ["setting", "defence", "strength", "batch size", "value"]
    return printed_rows("table5")[columns].rename(columns={"value": "loss"})


def printed_after_training() -> dict[int, float]:
    """Appendix I: RMSE after epochs of training."""
    rows = registry.printed(f"{KEY}/text")
    epochs = rows["condition"].str.extract(r"after (\d+) epochs? of training")[0].dropna()
    return {int(n): float(rows["value"][row]) for row, n in epochs.items()}


def final_losses(study: Context) -> pd.DataFrame:
    """One row a training: setting, defence, strength, batch size, rate, run, loss."""
    p = study.parameters
    shared = dataclasses.replace(study, exhibit=f"{KEY}/table5")
    wanted = [
        [s.defence, s.strength, rate]
        for s in trained_settings()
        for rate in (p.learning_rate, p.small_rate)
    ]
    step = p.mapped or len(wanted)
    tasks = [
        {
            "data": p.data,
            "data_root": data_folder(study, p.data),
            "side": p.trained_side,
            "kind": p.trained_network,
            "channels": p.trained_channels,
            "wide": p.trained_wide,
            "records": p.records,
            "epochs": p.epochs,
            "decay_every": p.decay_every,
            "size": size,
            "runs": p.runs,
            "settings": wanted[low : low + step],
            "device": study.device,
            "seeds": {n: shared.seed_of(n) for n in ("networks", "pictures", "batches")},
        }
        for size in p.batch_sizes
        for low in range(0, len(wanted), step)
    ]
    results = study.sweep(train_settings, tasks, "training under defences")
    rows = [
        {
            "setting": Setting(name, strength).title,
            "defence": name,
            "strength": strength,
            "batch size": task["size"],
            "rate": rate,
            "run": run,
            "loss": curve[-1],
        }
        for task, result in zip(tasks, results, strict=True)
        for (name, strength, rate), curves in zip(task["settings"], result["losses"], strict=True)
        for run, curve in enumerate(curves)
    ]
    return pd.DataFrame(rows)


def train_settings(task: dict[str, Any]) -> dict[str, Any]:
    """Train networks under some settings at some rates.

    Parameters
    ----------
    task : dict
        ``data``, ``data_root``, ``side``, ``kind``, ``channels``, ``wide``, ``records``,
        ``epochs``, ``decay_every``, ``size``, ``runs``, ``settings`` (lists of defence, strength
        and learning rate), ``device`` and ``seeds`` of networks, pictures and batches, which all
        settings share.

    Returns
    -------
    dict
        ``"losses"`` (settings, runs, epochs), as of
        :class:`~reconrisk.training.DefendedTraining`.
    """
    images, labels = training_pictures(task)
    networks = [
        make_network(
            task["kind"],
            seed_generator(task["seeds"]["networks"], run, device=task["device"]),
            side=task["side"],
            channels=task["channels"],
            wide=task["wide"],
            activation="relu" if task["kind"] == "ResNet-18" else "elu",
        )
        for run in range(task["runs"])
    ]
    training = train_under_defences(
        networks,
        images,
        labels,
        [Setting(name, strength).parts for name, strength, _ in task["settings"]],
        generator=seed_generator(task["seeds"]["batches"], task["size"], device=task["device"]),
        epochs=task["epochs"],
        batch_size=task["size"],
        learning_rate=[rate for *_, rate in task["settings"]],
        decay_every=task["decay_every"] or None,
    )
    return {"losses": training.losses}


def training_pictures(task: Mapping[str, Any]) -> tuple[torch.Tensor, torch.Tensor]:
    """The pictures that a task's networks are trained on, and their labels."""
    images, labels = pictures(task["data"], task["data_root"], task["side"])
    rng = np.random.default_rng(task["seeds"]["pictures"])
    drawn = draw_batches(images, labels, 1, min(task["records"], len(labels)), rng)
    return drawn.images[0].to(task["device"]), drawn.labels[0].to(task["device"])


def mean_losses(losses: pd.DataFrame, rate: float) -> pd.DataFrame:
    """Mean, standard error and deviation over the runs at one rate, by cell."""
    own = losses[np.isclose(losses["rate"], rate)]
    grouped = own.groupby(["setting", "defence", "strength", "batch size"], sort=False)["loss"]
    table = grouped.agg(loss="mean", deviation=_deviation, runs="size").reset_index()
    return table.assign(error=table["deviation"] / np.sqrt(table["runs"]))


def _deviation(values: pd.Series) -> float:
    """Standard deviation; infinite where a run diverged."""
    return float(np.std(values, ddof=1)) if np.all(np.isfinite(values)) else math.inf

"""Networks of Biswas et al. 2024 trained at many noises together, and the readings of the text.

A task of a sweep is one data set at one batch size and one repetition: all its networks, of both
mechanisms, train together.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
import torch

from companion.experiments.federated import KEY, NETWORK, Pair, Standardised, load_standardised
from companion.experiments.tools import data_folder
from companion.study import Context, Parameter, registry
from companion.study.sweep import as_table
from reconrisk.models import SigmoidNetwork
from reconrisk.training import Release, network_accuracy, train_mini_batches

#: accuracy of guessing one of ten classes, as the paper counts
GUESSING = 0.1
#: data sets that have a column of printed numbers
PAPERS_NAMES = ("MNIST", "FashionMNIST")
#: of the eight pairs of Tables V and VI, their concentrations
LABELS = (75.0, 100.0, 150.0, 200.0, 250.0, 300.0, 350.0, 400.0)

#: parameters of every exhibit that trains: with the same values they share their runs
DATA = {
    "digits": Parameter(
        "str", "MNIST-5000", "MNIST", "MNIST", "data set of digits: MNIST-5000 or MNIST"
    ),
    "garments": Parameter(
        "str",
        "patches",
        "FashionMNIST",
        "Fashion-MNIST",
        "data set of garments, or patches of photographs: patches or FashionMNIST",
    ),
}
TRAINING = {
    "epochs": Parameter("int", 12, 3, "3", "passes over the training pictures", low=1),
    "repeats": Parameter(
        "int", 2, 3, "not printed: one, it seems", "networks trained with each setting", low=2
    ),
    "concentrations": Parameter(
        "floats",
        (75.0, 150.0, 400.0),
        LABELS,
        "75 to 400, eight pairs",
        "pairs of noises, named by their concentration",
        low=1.0,
    ),
}


@dataclass(frozen=True)
class Reading:
    """What the text leaves open about the training."""

    weight_decay: float = 0.1
    #: the decay shrinks the weights; otherwise it is added to the gradient
    decoupled: bool = True
    #: the gradient that it is added to is that of the sum of a batch's losses. Adam forgets the
    #: gradient's length, so that this is the mean's with a decay smaller by the batch size
    summed: bool = False
    #: the first weights are Glorot's, as in the attacks; otherwise PyTorch's
    glorot: bool = False
    #: standard deviation of the Gaussian noise of each coordinate, in sigma C
    noise_factor: float = 1.0
    #: batches are Poisson samples; otherwise parts of a shuffle
    poisson: bool = True
    #: pixels are standardised; otherwise in [0, 1]
    standardised: bool = True
    widths: tuple[int, ...] = NETWORK.widths


#: what the text says, and PyTorch does where it says nothing
AS_READ = "decoupled decay 0.1"
#: what comes nearest to Table V: the attacks' first weights, and the noise that Opacus adds when it
#: clips three layers to C each, sqrt(3) sigma C. It was chosen after its results were seen
NEAREST = "Glorot, noise sqrt(3) sigma"
READINGS = {
    AS_READ: Reading(),
    "decay 0.1 in the gradient": Reading(decoupled=False),
    "no decay": Reading(weight_decay=0.0),
    "noise sqrt(3) sigma": Reading(noise_factor=math.sqrt(3.0)),
    "shuffled batches": Reading(poisson=False),
    "pixels in [0, 1]": Reading(standardised=False),
    "layers 256-20-286-10": Reading(widths=(256, 20, 286, 10)),
    "decay 0.1 in the gradient of the sum": Reading(decoupled=False, summed=True),
    "Glorot's first weights": Reading(glorot=True),
    NEAREST: Reading(glorot=True, noise_factor=math.sqrt(3.0)),
    "Glorot, noise sqrt(3) sigma, decay of the sum": Reading(
        glorot=True, noise_factor=math.sqrt(3.0), decoupled=False, summed=True
    ),
}


def train_networks(task: dict[str, Any]) -> list[dict[str, Any]]:
    """Train one network at every noise, and one without, and measure their accuracy.

    Parameters
    ----------
    task : dict
        ``data``, ``data_root``, ``device``, ``batch_size``, ``epochs``, ``reading``, ``repeat``,
        ``train_seed``, ``by_layer``; ``labels`` (the paper's concentrations), ``sigmas`` and
        ``kappas``, a list each, the noise of the pair with that label.

    Returns
    -------
    list of dict
        ``mechanism``, ``label`` (zero without noise) and ``accuracy`` on the test pictures.
    """
    reading = READINGS[task["reading"]]
    where, by_layer = (task["data"], task["data_root"]), task["by_layer"]
    train, test = (load_standardised(*where, part, task["device"]) for part in ("train", "test"))
    releases = [
        *(Release("gaussian", s * reading.noise_factor, by_layer=by_layer) for s in task["sigmas"]),
        *(Release("vmf", kappa, by_layer=by_layer) for kappa in task["kappas"]),
        Release("none"),
    ]
    network, inputs = SigmoidNetwork(tuple(reading.widths)), _inputs(train, reading)
    generator = torch.Generator(device=task["device"]).manual_seed(task["train_seed"])
    first = network.initialise(generator, len(releases), inputs.dtype, glorot=reading.glorot)
    weights = train_mini_batches(
        network,
        inputs,
        train.labels,
        releases,
        batch_size=task["batch_size"],
        epochs=task["epochs"],
        generator=generator,
        initial=first,
        weight_decay=reading.weight_decay / (task["batch_size"] if reading.summed else 1),
        decoupled=reading.decoupled,
        poisson=reading.poisson,
    )
    accuracy = network_accuracy(weights, _inputs(test, reading), test.labels).tolist()
    names = [*product(("Gaussian", "VMF"), task["labels"]), ("none", 0.0)]
    return [
        {"mechanism": mechanism, "label": label, "accuracy": value}
        for (mechanism, label), value in zip(names, accuracy, strict=True)
    ]


def _inputs(pictures: Standardised, reading: Reading) -> torch.Tensor:
    if reading.standardised:
        return pictures.inputs
    return torch.as_tensor(pictures.images.inputs, device=pictures.inputs.device)


def training_task(
    study: Context,
    data: str,
    batch_size: int,
    repeat: int,
    pairs: Sequence[Pair],
    *,
    reading: str = AS_READ,
    by_layer: bool = True,
    kappas: Sequence[float] | None = None,
) -> dict[str, Any]:
    """One task; first weights and batches are the same for every reading and mechanism setting.

    Parameters
    ----------
    study : Context
        Whose parameters hold ``epochs``.
    data : str
        A name that :func:`~companion.experiments.federated.load_standardised` knows.
    kappas : sequence of float, optional
        Concentrations in place of the pairs' own.
    """
    shared = replace(study, exhibit=f"{KEY}/utility")
    return {
        "data": data,
        "data_root": data_folder(study, data),
        "device": study.device,
        "batch_size": int(batch_size),
        "epochs": study.parameters.epochs,
        "reading": reading,
        "repeat": repeat,
        "train_seed": shared.seed_of(data, int(batch_size), repeat),
        "by_layer": by_layer,
        "labels": [pair.concentration for pair in pairs],
        "sigmas": [pair.noise_multiplier for pair in pairs],
        "kappas": [pair.concentration for pair in pairs] if kappas is None else list(kappas),
    }


def train_tasks(study: Context, tasks: Sequence[dict[str, Any]]) -> pd.DataFrame:
    """Return every network's accuracy, one row each; nothing is trained twice in a process."""
    kept = ("data", "batch_size", "reading", "by_layer", "repeat")
    results = study.sweep(train_networks, tasks, "training", threads=1)
    return as_table([{key: task[key] for key in kept} for task in tasks], results)


def average_repeats(rows: pd.DataFrame, by: Sequence[str] = ()) -> pd.DataFrame:
    """Mean accuracy over the repetitions, with the spread of one run and the mean's error.

    Parameters
    ----------
    rows : DataFrame
        As :func:`train_tasks` returns it.
    by : sequence of str
        Further columns that distinguish settings.

    Returns
    -------
    DataFrame
        Columns ``data``, ``batch_size``, ``mechanism``, ``label``, those of ``by``, ``mean``,
        ``sd`` (pooled over the labels of a mechanism, because a setting has only a few runs),
        ``runs`` and ``error``, which is sd over the root of the number of runs.
    """
    setting = ["data", "batch_size", *by, "mechanism"]
    grouped = rows.groupby([*setting, "label"], sort=False)["accuracy"]
    table = grouped.agg(["mean", "var", "count"]).reset_index()
    table["sd"] = np.sqrt(table.groupby(setting, sort=False)["var"].transform("mean"))
    table["error"] = table["sd"] / np.sqrt(table["count"])
    return table.drop(columns=["var"]).rename(columns={"count": "runs"})


@registry.of_print
def printed_accuracies() -> pd.DataFrame:
    """Table V: ``data``, ``mechanism``, ``label``, ``batch_size``, ``printed``, ``text``."""
    rows = registry.printed(f"{KEY}/table5")
    return pd.DataFrame(
        {
            "data": rows["dataset"],
            "mechanism": rows["mechanism"].replace("Gauss", "Gaussian"),
            "label": rows["paired_kappa_vmf"].astype(float),
            "batch_size": rows["batch_size"].astype(int),
            "printed": rows["value"].astype(float),
            "text": rows["printed"],
        }
    )

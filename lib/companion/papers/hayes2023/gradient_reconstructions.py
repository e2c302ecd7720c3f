"""Reconstructions from all privatised gradients, which Figures 1, 6, 8 and 12 look at.

What a task draws depends on the study's seed and the task only, so that each figure alone gets the
same reconstructions, and within one process they are computed once.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from matplotlib.axes import Axes
from matplotlib.ticker import LogLocator, NullFormatter

from companion.exhibit import *
from companion.experiments.informed_adversary import (
    Scene,
    images_of,
    normal_images,
    preferred_candidates,
    scene_of,
    train_targets,
    van_trees_floor,
)
from companion.papers.hayes2023.stand_in_network import (
    NETWORK,
    RANDOM,
    network_stand_ins,
    stand_in_network,
)
from reconrisk import datasets, privacy
from reconrisk.attacks import linearised_variance, match_gradients, nearer_records
from reconrisk.datasets import LabelledImages
from reconrisk.training import Trajectories

#: targets trained and attacked in one task
CHUNK = 50
#: targets whose linearised error is averaged: it needs d x d matrices
LINEARISED = 8

#: how the two data sets' parameters are named
GREY, COLOUR = "grey", "colour"
#: the panels of the figures that show both
PANELS = ((GREY, "a"), (COLOUR, "b"))
#: epsilons between which the attack "starts to perform well", by Section 2.1
STARTS = {GREY: (1e2, 1e3), COLOUR: (1e3, 1e4)}

# Parameters --------------------------------------------------------------------------------------

_RANGE = "not printed: a curve over epsilon"
_TARGETS = "images attacked, a model each"
_KNOWN = "|D_-|, records known to the attacker"
_RATE = "learning rate of DP-SGD, on the mean clipped gradient"
_EPSILONS = (1.0, 10.0, 100.0, 1000.0, 10000.0, 100000.0)


def _grey_rate(quick: float) -> Parameter:
    printed = "swept between 0.001 and 100 for each epsilon"
    why = f"{_RATE}; at 2 every gradient on MNIST is clipped, as in the paper"
    return Parameter("float", quick, 2.0, printed, why, low=1e-9)


#: the attack on grey images
GREY_PARAMETERS = {
    "epsilons": Parameter(
        "floats",
        _EPSILONS,
        tuple(sorted({*_EPSILONS, 30.0, 300.0, 3000.0, 30000.0})),
        _RANGE,
        "epsilon of (epsilon, delta)-DP, smallest first",
        low=1e-3,
    ),
    "delta": Parameter("float", 1e-5, 1e-5, "1e-5", "delta of (epsilon, delta)-DP", low=1e-300),
    "steps": Parameter("int", 100, 100, "100", "T, full-batch steps", low=1),
    "iterations": Parameter(
        "int", 120, 400, "1,000,000 of gradient descent", "iterations of Adam", low=1
    ),
    "restarts": Parameter("int", 1, 2, "5", "first candidates per target", low=1),
    "rate": Parameter("float", 0.1, 0.05, "0.01", "learning rate of the attack", low=1e-9),
    "grey": Parameter("str", "MNIST-5000", "MNIST", "MNIST", "labelled data set of grey images"),
    "grey_targets": Parameter("int", 12, 1000, "1,000", _TARGETS, low=4),
    "grey_known": Parameter("int", 299, 999, "999", _KNOWN, low=1),
    "grey_clip": Parameter("float", 0.1, 0.1, "0.1", "C, clipping norm", low=1e-9),
    "hidden": Parameter("int", 10, 10, "10", "width of the hidden layer", low=1),
    "grey_training_rate": _grey_rate(2.0),
    "pool": Parameter(
        "int", 400, 2000, "the data set", "images that random priors are drawn from", low=200
    ),
}

#: the same where shadow models take part, of which MNIST would need 40,000, an hour of training
WITH_SHADOWS = GREY_PARAMETERS | {
    "grey": Parameter("str", "digits", "MNIST", "MNIST", "labelled data set of grey images"),
    "grey_targets": Parameter("int", 16, 1000, "1,000", _TARGETS, low=4),
    "grey_training_rate": _grey_rate(20.0),
}

#: the attack on colour images, through a frozen network
COLOUR_PARAMETERS = {
    "colour": Parameter(
        "str", "patches", "CIFAR-10", "CIFAR-10", "labelled data set of colour images"
    ),
    "side": Parameter("int", 8, 32, "32", "pixels a side of the patches", low=4),
    "features": Parameter(
        "int",
        192,
        640,
        "640 (WRN-28-10)",
        "features of the stand-in map; a weights file brings its own number",
        low=16,
    ),
    "network": NETWORK,
    "colour_targets": Parameter("int", 12, 1000, "1,000", _TARGETS, low=4),
    "colour_known": Parameter("int", 299, 499, "499", _KNOWN),
    "colour_clip": Parameter("float", 1.0, 1.0, "1", "C, clipping norm", low=1e-9),
    "colour_training_rate": Parameter("float", 2.0, 2.0, "swept for each epsilon", _RATE, low=1e-9),
    "colour_epsilons": Parameter(
        "floats",
        (10.0, 100.0, 1000.0, 10000.0, 100000.0),
        (1.0, 10.0, 30.0, 100.0, 300.0, 1000.0, 3000.0, 10000.0, 30000.0, 100000.0),
        _RANGE,
        "epsilon in the colour panels, smallest first",
        low=1e-3,
    ),
}

#: what the exhibits that attack images without candidates had to choose
CHOICES = {
    "weight of the L1 distance in eq. (1)": "a sum over coordinates as printed, or divided by "
    "the clipping norm, or averaged: C-007 compares them",
    "grey_training_rate, colour_training_rate": "swept from 0.001 to 100 for each epsilon, "
    "and the choices are not printed; one rate here",
    "to perform well": "no number is printed: from better than the mean image to as near as "
    "nearest neighbours are",
}
#: what would decide what the colour images show
NEEDS_NETWORK = (
    "the paper's pretrained network: random features, one for every value, determine the image, "
    "and fewer of another network may hide what the paper's 640 show"
)


def require(study: Context, **needed: Iterable[float]) -> None:
    """Refuse, before hours are spent, lists without the values that an exhibit is judged at."""
    for name, values in needed.items():
        given = study.parameters[name]
        missing = sorted(set(values) - set(given))
        if missing:
            raise ValueError(
                f"{name} must contain {', '.join(f'{v:g}' for v in missing)}, where "
                f"{study.exhibit} is judged; got {list(given)}"
            )


# Tasks -------------------------------------------------------------------------------------------


def match_targets(scene: Scene, stored: Trajectories, labels: torch.Tensor | None, **given: Any):
    """The gradient-based attack with the task's settings."""
    task = scene.task
    return match_gradients(
        stored.weights,
        stored.residuals,
        scene.run,
        labels,
        generator=scene.generator(2),
        iterations=given.pop("iterations", task["iterations"]),
        restarts=task["restarts"],
        learning_rate=task["rate"],
        feature_map=scene.feature_map,
        dimension=scene.images.dimension,
        **given,
    )


def attack_targets(task: dict[str, Any]) -> dict[str, Any]:
    """Train models, run the gradient-based attack with eq. (1), and rank the pool.

    Parameters
    ----------
    task : dict
        As in :func:`~companion.experiments.informed_adversary.scene_of`, and ``iterations``,
        ``restarts``, ``rate`` and ``pool``.

    Returns
    -------
    dict
        ``rebuilt`` (count, d); ``nearer``: pool images nearer to it than the target; and what
        :func:`~companion.experiments.informed_adversary.preferred_candidates` finds.
    """
    scene = scene_of(task)
    stored, pixels, labels = train_targets(scene)
    rebuilt = as_numpy(match_targets(scene, stored, labels).inputs)
    pool = scene.positions("pool")
    return {
        "rebuilt": np.round(rebuilt, 6),
        "nearer": nearer_records(rebuilt, as_numpy(pixels), scene.images.inputs[pool]),
        **preferred_candidates(scene, stored),
    }


def linearise_targets(task: dict[str, Any]) -> dict[str, float]:
    """What the likelihood of the first targets' gradients bounds.

    ``linearised``: the Cramer-Rao error of unbiased attacks, on the models of
    :func:`attack_targets`: training them again costs less than a search. ``van Trees``: a bound on
    every attack, on average over normal images with the pool's mean and covariance.
    """
    scene = scene_of(task)
    stored, pixels, labels = train_targets(scene)
    few = slice(0, LINEARISED)
    weights = {name: w[:, few] for name, w in stored.weights.items()}
    variance = as_numpy(
        linearised_variance(weights, pixels[few], labels[few], scene.run, scene.feature_map)
    )
    return {
        "linearised": float(variance.mean(axis=1).mean()),
        "van Trees": van_trees_floor(scene, normal_images(scene, labels[few]))[0],
    }


def reconstruction_task(study: Context, which: str, **given: Any) -> dict[str, Any]:
    """One task of a data set, completed from the exhibit's parameters."""
    p = study.parameters
    grey = which == GREY
    shared = dataclasses.replace(study, exhibit="hayes2023/gradients")
    key = (given["epsilon"], given.get("first", 0))
    return {
        "data": p[which],
        "data_root": data_folder(study, p[which]),
        "side": 32 if grey else p.side,
        "features": 0 if grey else p.features,
        "network": "" if grey else p.get("network", RANDOM),
        "hidden": p.hidden if grey else 0,
        "known": p[f"{which}_known"],
        "max_grad_norm": p[f"{which}_clip"],
        "training_rate": p[f"{which}_training_rate"],
        "selection_seed": shared.seed_of(which, "records"),
        "noise_seed": shared.seed_of(which, "noise", *key),
        "delta": p.delta,
        "steps": p.steps,
        "iterations": p.iterations,
        "restarts": p.restarts,
        "rate": p.rate,
        "pool": p.pool,
        "device": study.device,
        "first": 0,
        **given,
    }


# The attack over epsilon -------------------------------------------------------------------------


@dataclass(frozen=True)
class Attacked:
    """The gradient-based attack on one data set over epsilon.

    E epsilons, K targets.

    Attributes
    ----------
    images : LabelledImages
        The whole data set.
    targets : ndarray, shape (K, d)
    epsilons : ndarray, shape (E,)
    sigmas : ndarray, shape (E,)
    rebuilt : ndarray, shape (E, K, d)
    nearer, above_sum, above_likelihood : ndarray of int, shape (E, K)
    list_floor : ndarray, shape (E, K)
        What is left to any attack that knows the label, of targets from the pool.
    steps : int
        T.
    pool : ndarray of int
        Positions of the images that random priors are drawn from, the targets first.
    feature_map : str
        Name of the feature map, or empty.
    stand_ins : tuple of str
        What stands in for the pretrained network; empty if nothing does.
    """

    images: LabelledImages
    targets: np.ndarray
    epsilons: np.ndarray
    sigmas: np.ndarray
    rebuilt: np.ndarray
    nearer: np.ndarray
    above_sum: np.ndarray
    above_likelihood: np.ndarray
    list_floor: np.ndarray
    steps: int
    pool: np.ndarray
    feature_map: str = ""
    stand_ins: tuple[str, ...] = ()

    @property
    def others(self) -> int:
        """Images that a random prior is drawn from, besides the target."""
        return len(self.pool) - 1

    @property
    def errors(self) -> np.ndarray:
        """Each reconstruction's mean squared error, (E, K)."""
        return np.square(self.rebuilt - self.targets).mean(axis=2)

    @property
    def mse(self) -> np.ndarray:
        """Mean over targets, (E,)."""
        return self.errors.mean(axis=1)

    @property
    def standard_error(self) -> np.ndarray:
        """Of the mean over targets, (E,)."""
        return self.errors.std(axis=1, ddof=1) / math.sqrt(self.errors.shape[1])


def _tasks(study: Context, which: str, firsts: Iterable[int]) -> list[dict[str, Any]]:
    """A data set's tasks at every epsilon, of the chunks that begin at some targets."""
    p = study.parameters
    count = p[f"{which}_targets"]
    return [
        reconstruction_task(
            study, which, epsilon=epsilon, first=first, count=min(CHUNK, count - first)
        )
        for epsilon in (p.epsilons if which == GREY else p.colour_epsilons)
        for first in firsts
    ]


def linearised(study: Context, which: str) -> pd.DataFrame:
    """The linearised attack's errors at every epsilon, one row each."""
    tasks = _tasks(study, which, [0])
    return pd.DataFrame(study.sweep(linearise_targets, tasks, f"linearised, {which} images"))


def attacked(study: Context, which: str) -> Attacked:
    """Attack a data set's targets at every epsilon."""
    p = study.parameters
    epsilons = p.epsilons if which == GREY else p.colour_epsilons
    count, known = p[f"{which}_targets"], p[f"{which}_known"]
    if p.pool < count:
        raise ValueError(f"pool must hold the {count} targets; got {p.pool}")
    firsts = range(0, count, CHUNK)
    tasks = _tasks(study, which, firsts)
    results = study.sweep(attack_targets, tasks, f"{which} images")

    def joined(name: str) -> np.ndarray:
        parts = [np.asarray(result[name], dtype=float) for result in results]
        ends = range(0, len(parts), len(firsts))
        return np.stack([np.concatenate(parts[i : i + len(firsts)]) for i in ends])

    images = images_of(p[which], tasks[0]["data_root"], tasks[0]["side"])
    order = np.random.default_rng(tasks[0]["selection_seed"]).permutation(len(images))
    network: dict[str, Any] = {}
    if tasks[0]["features"]:
        root = Path(tasks[0]["data_root"]) if tasks[0]["data_root"] else None
        chosen = {"count": p.features, "network": p.get("network", RANDOM)}
        frozen = datasets.feature_map(images.shape, root, **chosen)
        network = {"feature_map": frozen.name, "stand_ins": network_stand_ins(frozen)}
    return Attacked(
        images=images,
        targets=images.inputs[order[known : known + count]].astype(float),
        epsilons=np.array(epsilons),
        sigmas=np.array([privacy.noise_for_epsilon(e, p.delta, steps=p.steps) for e in epsilons]),
        rebuilt=joined("rebuilt"),
        nearer=joined("nearer").astype(int),
        above_sum=joined("above sum").astype(int),
        above_likelihood=joined("above likelihood").astype(int),
        list_floor=joined("list floor"),
        steps=p.steps,
        pool=order[known:][: p.pool],
        **network,
    )


def attacked_both(study: Context) -> dict[str, Attacked]:
    """Attack the grey and the colour images."""
    return {which: attacked(study, which) for which in (GREY, COLOUR)}


def describe_attacked(found: Mapping[str, Attacked]) -> str:
    """What was attacked, on which images."""
    parts = []
    for a in found.values():
        count, dimension = a.targets.shape
        of = "" if a.images.name[0].islower() else "images of "
        what = f"{count:,} {of}{a.images.name}, {dimension:,} values each"
        parts.append(what + (f", through {a.feature_map}" if a.feature_map else ""))
    return "Gradient-based attack with eq. (1) on " + "; ".join(parts) + "."


def discount_stand_in(tables: Tables, which: str, held: bool | None) -> bool | None:
    """Return what was found, undecided where a stand-in's features bring it about by themselves.

    The paper's network has fewer features than values. Features as many as values determine the
    images: then success says nothing, failure speaks against the paper. Through another network's
    fewer features the attack can fail because other images have nearly the same: then failure says
    nothing.
    """
    count = stand_in_network(tables).partition(" ")[0]
    if which != COLOUR or not count:
        return held
    injective = int(count) >= 3 * int(tables.parameters.side) ** 2
    return settle(False, held is None or held) if injective else held or None


def stands_in(tables: Tables, which: str) -> Origin:
    """What the images of one kind are, ``"grey"`` or ``"colour"``."""
    network = which == COLOUR and stand_in_network(tables)
    return tables.stand_in if network else tables.origin_of(which)


# Drawing -----------------------------------------------------------------------------------------


def epsilon_axis(axes: Axes) -> None:
    """A logarithmic axis of epsilon, labelled at whole decades."""
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(LogLocator(numticks=12))
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.set_xlabel(r"$\varepsilon$ at $\delta = 10^{-5}$")


def points_with_intervals(
    axis: Axes, table: pd.DataFrame, value: str, colour: str, *, hollow: bool = False
) -> None:
    """Points with 95% intervals, joined: from ``low`` to ``high``, or by the standard error."""
    if "low" in table:
        errors = np.maximum([table[value] - table["low"], table["high"] - table[value]], 0)
    else:
        errors = 1.96 * table["standard error"]
    axis.errorbar(
        table["epsilon"],
        table[value],
        yerr=errors,
        color=colour,
        marker="s" if hollow else "o",
        markersize=4.5,
        markerfacecolor="white" if hollow else colour,
        linewidth=1.3,
        capsize=2.5,
        elinewidth=1,
        zorder=3,
    )


def power_of_ten(value: float) -> str:
    """A round number, from 10,000 on as a power of ten."""
    if value < 1e4:
        return f"{value:g}"
    power = int(np.floor(np.log10(value) + 1e-9))
    factor = round(value / 10.0**power, 6)
    return rf"$10^{{{power}}}$" if factor == 1 else rf"${factor:g}\cdot 10^{{{power}}}$"

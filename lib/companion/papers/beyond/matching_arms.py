"""What feature matching gains: features that enter the prior's network, and features that pull.

In print the attack without matching differs in more than the term of the objective: the features
also enter the untrained network that paints the pictures. Three arms take that apart, batch by
batch, from the same first weights. The objective at the true pictures says how far a search got.
"""

import dataclasses
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import torch
from matplotlib import pyplot as plt
from matplotlib.figure import Figure, SubFigure
from torch.nn import functional

from companion.exhibit import *
from companion.experiments.client_grid import GRID, Grid, batches_of, network_of, updates_of
from companion.experiments.clients import Setting, prior_rate, shared_values
from companion.papers.beyond.record_errors import name_row
from reconrisk.attacks import (
    PROPOSED,
    Knowledge,
    UntrainedSpace,
    fit_features,
    invert_updates,
)
from reconrisk.convnets import ImagePrior
from reconrisk.metrics import psnr

_SHARED = ("data", "side", "network", "channels", "wide", "trained_neurons", "weighting")
PARAMETERS = {
    **{name: GRID[name] for name in _SHARED},
    "images": Parameter("int", 8, 16, "50, stratified", "private pictures", low=2),
    "batch_size": Parameter("int", 4, 4, "2, 4, 8", "pictures a batch", low=1),
    "noises": Parameter(
        "floats", (0.01,), (0.0, 0.001, 0.01), "0 to 0.1", "noise on the gradient", low=0
    ),
    "iterations": Parameter("int", 80, 10_000, "10,000", "of each attack", low=20),
}
SETTLES = ("O-146",)
CELLS = ("noises", "noise")

WITHOUT, ENTERING, PULLING = "random vectors", "features enter", "features enter and pull"
ARMS = (WITHOUT, ENTERING, PULLING)
#: what one arm has more than another
STEPS = {
    "entering": (ENTERING, WITHOUT),
    "pulling": (PULLING, ENTERING),
    "both": (PULLING, WITHOUT),
}
#: points of a course
NOTED = 20
#: pictures shown of the first batch
PICTURED = 4

#: the least gain that counts, in dB, where 8 to 11 are printed
NOTABLE = 1.0
#: least cosine of fitted with true features: what is matched is right
RIGHT = 0.99

ALTERED = {
    "gains": {"PSNR": at("step == 'both'", "gains of matching [dB]")},
    "ends": {
        "cosine": "cosines of the fitted features",
        "objective": "objectives where the searches end",
    },
}


@measurement
def measure(study: Context) -> Tables:
    p = study.parameters
    shared = shared_values(Grid, study, "grid")
    grid = dataclasses.asdict(Grid(**shared, bins=0, space="untrained network", grouped=0))
    cells = [(n, arm, b) for n in p.noises for arm in ARMS for b in range(p.images // p.batch_size)]
    tasks = [
        {"grid": grid, "batch_size": p.batch_size, "noise": noise, "arm": arm, "batch": batch}
        | keep_searches(study)
        for noise, arm, batch in cells
    ]
    found = dict(zip(cells, study.sweep(attack_batch, tasks, "arms of matching"), strict=True))
    course, ends = [], []
    images: dict[str, np.ndarray] = {}
    for (noise, arm, batch), one in found.items():
        cell = {"noise": noise, "arm": arm, "batch": batch}
        course += [cell | {"iteration": k, "PSNR": v} for k, v in one["course"]]
        ends.append(cell | {k: one[k] for k in ("objective", "at the truth", "PSNR", "cosine")})
        if batch == 0:
            names = [f"{i} {noise:g} {arm}" for i in range(PICTURED)]
            images |= dict(zip(names, map(np.asarray, one["pictures"]), strict=False))
            images |= {f"{i} target": np.asarray(x) for i, x in enumerate(one["targets"])}
    table = pd.DataFrame(ends)
    by_arm = pd.DataFrame(course).groupby(["noise", "arm", "iteration"], sort=False)
    return Tables(
        {
            "course": by_arm["PSNR"].mean().reset_index(),
            "ends": table,
            "gains": _gains(table),
        },
        images=images,
        ran=f"{p.images} pictures of {shown_name(p.data)}, {p.side} pixels a side, in batches of "
        f"{p.batch_size}; {p.network} with random weights and first batch norm statistics, "
        f"{p.iterations} iterations of the weights of an untrained network.",
    )


def _gains(ends: pd.DataFrame) -> pd.DataFrame:
    """PSNR that one arm gains on another, mean over the batches, and its standard error."""
    rows = []
    for noise, own in ends.groupby("noise", sort=False):
        by_arm = own.pivot(index="batch", columns="arm", values="PSNR")
        for step, (more, less) in STEPS.items():
            gain, error = mean_and_error(by_arm[more] - by_arm[less])
            rows.append({"noise": noise, "step": step, "PSNR": gain, "standard error": error})
    return pd.DataFrame(rows)


def attack_batch(task: dict[str, Any]) -> dict[str, Any]:
    """Attack one batch in one arm.

    Parameters
    ----------
    task : dict
        ``grid`` (a :class:`~companion.experiments.client_grid.Grid` as a dict), ``batch_size``,
        ``noise``, ``arm`` of :data:`ARMS` and ``batch``, its position.

    Returns
    -------
    dict
        Mean ``"PSNR"`` of the pictures and its ``"course"``, pairs of iteration and value; the
        ``"objective"`` at the end and ``"at the truth"``; ``"cosine"`` of fitted and true features;
        ``"pictures"`` and ``"targets"``.
    """
    grid, one = Grid(**task["grid"]), slice(task["batch"], task["batch"] + 1)
    network, batches = network_of(grid), batches_of(grid, task["batch_size"])
    released = updates_of(grid, network, batches, Setting("GradNoise", task["noise"])).take(one)
    images, labels = batches.images[one], batches.labels[one]
    with torch.no_grad():
        traced = network(images[0], trace=True)
    fit = fit_features(network, released, labels)
    knowledge = Knowledge(
        labels,
        tuple(images.shape[2:]),
        statistics=tuple((mean[None], variance[None]) for mean, variance in traced.statistics),
        features=fit.features,
        cosines=fit.cosine,
    )
    pull = PROPOSED.features if task["arm"] == PULLING else 0.0
    count, entering = labels.shape[1], network.wide.in_features
    drawn = grid.generator(grid.start_seed, count, 1)
    painter = ImagePrior(drawn, side=grid.side, width=grid.channels or 64, features=entering)
    vectors = torch.randn((1, count, entering), generator=drawn, device=grid.device)
    kept = kept_search(task)
    course: dict[str, list[float]] = kept.notes if kept else {}
    course |= {"iteration": [], "PSNR": []}
    every = max(1, grid.iterations // NOTED)

    def watch(iteration: int, inputs: torch.Tensor, problems: slice) -> None:
        course["iteration"].append(iteration)
        course["PSNR"].append(_decibels(images, inputs[:, 0]))

    settings: dict[str, Any] = {
        "objective": replace(
            PROPOSED, weighting=grid.weighting, features=pull, feature_match="labels"
        ),
        # on a processor that multiplies such numbers the large network takes two thirds of the time
        "half": grid.network == "ResNet-18",
    }
    found = invert_updates(
        network,
        released,
        knowledge,
        generator=drawn,
        space=replace(
            UntrainedSpace.draw(painter, count, drawn),
            features=vectors if task["arm"] == WITHOUT else fit.features,
        ),
        iterations=grid.iterations,
        learning_rate=prior_rate(grid.iterations),
        signed=False,
        watch=watch,
        watch_every=every,
        kept=kept,
        **settings,
    )
    truth = invert_updates(
        network,
        released,
        knowledge,
        generator=drawn,
        start=images,
        iterations=1,
        learning_rate=1e-12,
        **settings,
    )
    if kept:
        kept.remove()
    pictures, targets = (as_numpy(t[0, :PICTURED].movedim(1, -1)) for t in (found.inputs, images))
    return {
        "PSNR": _decibels(images, found.inputs),
        "course": list(zip(course["iteration"], course["PSNR"], strict=True)),
        "objective": float(found.loss),
        "at the truth": float(truth.loss),
        "cosine": float(
            functional.cosine_similarity(fit.features[0], traced.features, dim=1).mean()
        ),
        "pictures": np.round(pictures, 4),
        "targets": np.round(targets, 4),
    }


def _decibels(truth: torch.Tensor, found: torch.Tensor) -> float:
    """Mean PSNR over the pictures."""
    x, y = (as_numpy(pictures.flatten(0, 1).flatten(1)) for pictures in (truth, found))
    return float(psnr(x, y, 1.0).mean())


def judge(tables: Tables) -> Iterator[Verdict]:
    ends = tables["ends"]
    least = ends["cosine"].min()
    yield check(
        "beyond/matching_arms",
        least > RIGHT,
        f"control: the features fitted to the gradient have a cosine of over {RIGHT:g} with the "
        "true ones",
        ours=f"at least {np.floor(1e4 * least) / 1e4:g}",
        stand_in=tables.stand_in,
    )
    gains = tables["gains"].query("step == 'both'")
    means = ends.groupby(["noise", "arm"], sort=False)[["objective", "at the truth"]].mean()
    above = means["objective"] / means["at the truth"] - 1
    found = ", ".join(
        f"{rounded(gain, error)} dB under noise of {noise:g}"
        for noise, _, gain, error in gains.itertuples(index=False)
    )
    reached = bool((above <= 0).all())
    more = clearly((gains["PSNR"] - NOTABLE, gains["standard error"])) if reached else None
    yield check(
        "O-146",
        more,
        "features that enter the network that paints the pictures, and pull, gain more than "
        f"{NOTABLE:g} dB on random vectors, and no search ends above the objective of the true "
        "pictures",
        ours=found,
        tolerance=f"{STANDARD_ERRORS:g} standard errors over the batches",
        stand_in=tables.stand_in,
        differs=f"They gain {found}." if more is False else "",
        decided_by="more batches"
        if reached
        else f"more iterations: after {tables.parameters.iterations:,} the mean objective is still "
        f"up to {rounded(above.max(), digits=2)} of the true pictures' above it",
    )


CURVES = (
    "What feature matching is made of, on the same batches from the same first weights: random "
    "vectors enter the untrained network that paints the pictures, recovered features enter it, "
    "and they pull in the objective, too. PSNR over the iterations"
)
PICTURES = ", and the first batch as each search leaves it"


def caption(tables: Tables) -> str:
    return CURVES + (PICTURES if pictures_at_hand(tables) else "") + "."


_LOOKS = {WITHOUT: (ORANGE, "--"), ENTERING: (BLUE, "-."), PULLING: (GREEN, "-")}


def alt(tables: Tables) -> str:
    means = tables["ends"].groupby(["noise", "arm"], sort=False)["PSNR"].mean()
    curves = "; ".join(
        f"{_title(noise)}, "
        + ", ".join(f"{value:.1f} dB ({arm})" for (_, arm), value in own.items())
        for noise, own in means.groupby(level="noise", sort=False)
    )
    pictures = ". Rows of pictures: the targets and what each arm rebuilds"
    return (
        f"Curves of PSNR over iterations, which end at, with {curves}"
        f"{pictures if pictures_at_hand(tables) else ''}."
    )


def _title(noise: float) -> str:
    return f"noise of {noise:g}" if noise else "no noise"


@drawing
def draw(tables: Tables) -> Figure:
    course = tables["course"]
    noises = list(dict.fromkeys(course["noise"]))
    if pictures := pictures_at_hand(tables):
        figure = plt.figure(figsize=(8.4, 3.4), layout="constrained")
        left, right = figure.subfigures(1, 2, width_ratios=(1.2 * len(noises), 1))
        _pictures(right, pictures, noises[-1])
    else:
        width = min(2.8 + 2.8 * len(noises), 8.4)
        figure = left = plt.figure(figsize=(width, 3.4), layout="constrained")
    for axis, noise in zip(
        np.atleast_1d(left.subplots(1, len(noises), sharey=True)), noises, strict=True
    ):
        for arm, (colour, style) in _LOOKS.items():
            own = course[(course["noise"] == noise) & (course["arm"] == arm)]
            axis.plot(own["iteration"], own["PSNR"], color=colour, linestyle=style, label=arm)
        axis.set_title(_title(noise), loc="left")
        axis.set(xlabel="iteration", ylabel="PSNR [dB]")
        axis.label_outer()
    axis.legend(fontsize=8)
    return figure


def _pictures(figure: SubFigure, pictures: dict[str, np.ndarray], noise: float) -> None:
    rows = {"target": "{} target"} | {arm: f"{{}} {noise:g} {arm}" for arm in ARMS}
    count = sum(f"{i} target" in pictures for i in range(PICTURED))
    axes = figure.subplots(len(rows), count, squeeze=False)
    for line, (name, pattern) in zip(axes, rows.items(), strict=True):
        for i, axis in enumerate(line):
            picture(axis, pictures[pattern.format(i)])
        name_row(line[0], name)

"""Algorithm 3 and the likelihood score on sub-sampled runs, one network trained for every trial."""

import dataclasses
import functools
import itertools
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from matplotlib.axes import Axes

from companion.exhibit import *
from companion.exhibit import BEST
from companion.papers.hayes2023.equal_epsilon import tuned_run
from companion.papers.hayes2023.equal_epsilon_curves import STEPS, gamma_enclosures, log_rates
from companion.papers.hayes2023.success_intervals import error_bars
from reconrisk import attacks, datasets
from reconrisk.models import Classifier

#: half-width of a 95% interval in standard errors
NORMAL_95 = 1.959964
#: Algorithm 3's score and the likelihood of Appendix G, as they are drawn
SCORES = {"top": (PURPLE, "o", "Algorithm 3"), "likelihood": (GREEN, "s", "likelihood")}


def attack_parameters(quick_trials: int, data: str = "MNIST-5000") -> dict[str, Parameter]:
    """Parameters of the networks and the attack."""
    return {
        "data": Parameter("str", data, "MNIST", "MNIST", "data set of labelled images"),
        "known": Parameter("int", 499, 999, "999 (training size 1,000)", "|D-|, known", low=2),
        "pool": Parameter("int", 798, 10000, "the data set", "records for candidates", low=100),
        "hidden": Parameter("int", 10, 10, "10", "hidden units of the network", low=1),
        "max_grad_norm": Parameter("float", 1.0, 1.0, "1", "C, clipping norm", low=1e-9),
        "steps": STEPS,
        "learning_rate": Parameter(
            *("float", 0.1, 0.1, "swept from 0.001 to 100"),
            "step on the mean clipped gradient; at 0.1 all are clipped, at 0.5 nine in ten",
            low=0,
        ),
        "trials": Parameter("int", quick_trials, 10000, "10,000", "networks, a point", low=20),
    }


def attack_run(task: dict[str, Any]) -> list[dict[str, Any]]:
    """Attack a task of :func:`attack_along`, with a network for every trial.

    A trial with many candidates is also one for every smaller prior: success is averaged over all
    choices of the other candidates. Returns a row for each prior size and score, with the success
    and its standard error.
    """
    device = task["device"]
    images = _images(task["data"], task["data_root"])
    order = np.random.default_rng(task["data_seed"]).permutation(len(images))
    known, pool = order[: task["known"]], order[task["known"] :][: task["pool"]]
    inputs = torch.as_tensor(images.inputs, device=device)
    labels = torch.as_tensor(images.labels, device=device)
    run = tuned_run(task["epsilon"], task["q"], task["steps"])
    guesses = attacks.prior_aware_attack(
        Classifier(images.dimension, task["hidden"], images.classes),
        dataclasses.replace(run, max_grad_norm=task["max_grad_norm"]),
        *(inputs[known], labels[known], inputs[pool], labels[pool]),
        prior_size=task["candidates"],
        trials=task["trials"],
        learning_rate=task["learning_rate"],
        generator=torch.Generator(device=device).manual_seed(task["noise_seed"]),
    )
    rows = []
    others, trials = task["candidates"] - 1, task["trials"]
    for score, n in itertools.product(SCORES, task["prior_sizes"]):
        values = guesses.scores[score]
        own = values.gather(1, guesses.target[:, None])
        below = (values < own).sum(dim=1).cpu().numpy()
        right = attacks.conversion_success(others - below, others, n)
        # at least the error of one doubtful trial, also where all trials agree
        error = max(float(right.std(ddof=1)), 1 / math.sqrt(trials)) / math.sqrt(trials)
        rows.append({"n": n, "score": score, "success": float(right.mean()), "error": error})
    return rows


@functools.lru_cache(maxsize=2)
def _images(data: str, data_root: str) -> datasets.LabelledImages:
    split = "all" if data == "digits" else "train"
    return datasets.classified(data, Path(data_root) if data_root else None, split)


def attack_along(
    study: Context,
    points: Sequence[tuple[float, float]],
    prior_sizes: Sequence[int],
    candidates: int,
) -> pd.DataFrame:
    """The attack at every (epsilon, q), with 95% intervals and the bound."""
    p = study.parameters
    shared = {name: p[name] for name in attack_parameters(0)} | {
        "data_root": data_folder(study, p.data),
        "data_seed": study.seed_of("records"),
        "prior_sizes": list(prior_sizes),
        "candidates": candidates,
        "device": study.device,
    }
    named = [{"epsilon": epsilon, "q": rate} for epsilon, rate in points]
    tasks = [
        shared | at | {"noise_seed": study.seed_of("attack", at["epsilon"], at["q"])}
        for at in named
    ]
    table = as_table(named, study.sweep(attack_run, tasks, threads=1))
    table["low"] = (table["success"] - NORMAL_95 * table["error"]).clip(lower=0)
    table["high"] = (table["success"] + NORMAL_95 * table["error"]).clip(upper=1)
    table["bound"] = [
        gamma_enclosures(tuned_run(e, q, p.steps), tuple(prior_sizes))[n][1]
        for e, q, n in zip(table["epsilon"], table["q"], table["n"], strict=True)
    ]
    return table


#: precision to which the text gives successes, with "about"
ABOUT = 0.02
#: the least rise of the success over q that counts as one: two numbers with "about" apart
RISE = 2 * ABOUT


def never_above(attack: pd.DataFrame) -> bool | None:
    """Whether no attack succeeds significantly more often than the bound allows.

    At no point, and on average over all points of a score and prior size, which tells more. None
    where even the average is not known to ``ABOUT``.
    """
    over = attack["success"] - attack["bound"]
    scores = attack.assign(over=over, square=attack["error"] ** 2).groupby(["score", "n"])
    mean, error = scores["over"].mean(), np.sqrt(scores["square"].sum()) / scores.size()
    return every(
        not (over >= STANDARD_ERRORS * attack["error"]).any(),
        not (mean > STANDARD_ERRORS * error).any(),
        settle((error < ABOUT).all(), possibly=True),
    )


def gain(attack: pd.DataFrame) -> tuple[float, float]:
    """The rise of Algorithm 3's success from the smallest q to the mean of the larger ones.

    The mean over epsilon, with its standard error. The means of the larger q are taken because the
    bound, a closed form, has three quarters of its rise between q = 0.01 and 0.1 at epsilon = 4 and
    ten candidates; single points are too noisy to be ordered.
    """
    rises, variances = [], []
    for _, top in attack[attack["score"] == "top"].sort_values("q").groupby("epsilon"):
        first, others = top.iloc[0], top.iloc[1:]
        rises.append(others["success"].mean() - first["success"])
        variances.append(first["error"] ** 2 + (others["error"] ** 2).sum() / len(others) ** 2)
    return float(np.mean(rises)), math.sqrt(sum(variances)) / len(variances)


def gains(attack: pd.DataFrame) -> bool | None:
    """Whether Algorithm 3 succeeds more often at larger q; None where the errors do not tell."""
    rise, error = gain(attack)
    return settle(rise > STANDARD_ERRORS * error, not rise + STANDARD_ERRORS * error < RISE)


def draw_over_rates(axes: Axes, bound: pd.DataFrame, attack: pd.DataFrame) -> None:
    """The bound, the best attack on orthogonal candidates and the measured scores over q."""
    axes.plot(bound["q"], bound["gamma"], color=BOUND, label="upper bound")
    axes.plot(bound["q"], bound["best attack"], "--", color=BEST, label="best attack (orthogonal)")
    for shift, (score, (colour, marker, label)) in zip((0.95, 1.05), SCORES.items(), strict=True):
        part = attack[attack["score"] == score]
        style = {"fmt": marker, "ms": 4, "color": colour, "capsize": 2, "elinewidth": 1}
        error_bars(axes, part["q"] * shift, part, label=label, **style)
    log_rates(axes)

"""Trials of the prior-aware attack on small trained networks, and the bounds on their success.

A task of a sweep is a number of trials at one setting. Every trial trains its own model on its own
target, drawn from its own prior; the task returns how often each score was right. It holds its
epsilon, not its noise, so that its seed depends on no computed number.
"""

import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from matplotlib.axes import Axes
from scipy import stats

from companion.exhibit import *
from companion.papers.hayes2023 import unprinted
from companion.papers.hayes2023.equal_epsilon import tuned_run
from companion.papers.hayes2023.success_intervals import error_bars
from reconrisk import DPSGD, bounds, datasets
from reconrisk.attacks import (
    SCORES,
    Guesses,
    StepScores,
    printed_likelihood_score,
    prior_aware_attack,
    shared_trajectory_attack,
    success_by_prior_size,
    success_interval,
)
from reconrisk.models import Classifier

#: level of a paired comparison or a test against a bound
RARELY = 1e-5
#: how far success may be above the bound, relative, in trials that share a trajectory: too
#: few models for a test, enough trials for a twentieth
ABOVE = 0.05
#: largest mean difference of success between trials with a model each and trials that share one
AGREE = 0.1
#: largest share of trials that only one of two equal scores names; they differ through rounding,
#: and where some gradients are not clipped (below 2% on MNIST)
UNLIKE = 0.03
#: how much less often than another score the likelihood may name the target in the same trials
BEHIND = 0.03
#: label of the axis of every picture
SUCCESS = "probability of success"
#: colour and name of each score
SCORE_STYLES = {
    "sum": (ORANGE, "Algorithm 2 (sum)"),
    "top": (PURPLE, "Algorithm 3 (top qT)"),
    "likelihood": (GREEN, "likelihood"),
}

Records = tuple[torch.Tensor, torch.Tensor]

# Parameters --------------------------------------------------------------------------------------

_NOT_PRINTED = "not printed"
#: why a learning rate of 5 (squared norms of the candidates' gradients: 0.98 C^2 in the mean)
CLIPPED = "5 keeps gradients clipped, to a hundredth of C, as the paper has it (Figure 13)"
PRIOR_SIZE = Parameter("int", 10, 10, "10", "n, candidates", low=2)
SHORTCUT = {
    "shortcut_trials": unprinted.count(10000, 100000, "trials that share a trajectory", low=100),
    "trajectories": unprinted.count(2, 8, "models whose gradients such trials share"),
}


def data_parameters(
    training_size: int, printed_size: int, pool_size: int = 600, dataset: str = "MNIST-5000"
) -> dict[str, Parameter]:
    """Which records, which network, and how it is trained."""
    return {
        "dataset": Parameter("str", dataset, "MNIST", "MNIST", "data set of labelled images"),
        "training_size": Parameter(
            *("int", training_size, printed_size, f"{printed_size:,}", "records with the target"),
            low=2,
        ),
        "pool_size": Parameter(
            *("int", pool_size, 4000, "the whole data set"),
            "unknown records that candidates are drawn from (at most all)",
            low=10,
        ),
        "hidden": Parameter("int", 10, 10, "10", "width of the hidden layer", low=1),
        "max_grad_norm": Parameter("float", 0.1, 0.1, "0.1", "C, clipping norm", low=1e-9),
        "delta": Parameter("float", 1e-5, 1e-5, "1e-5", "delta of the guarantee", low=1e-300),
    }


def learning_rate(value: float, why: str, quick: float | None = None) -> Parameter:
    return Parameter(
        *("float", value if quick is None else quick, value),
        "swept between .001 and 100 for each epsilon, choice not printed",
        f"step = this times the privatised sum over the expected batch size; {why}",
        low=0,
    )


def trials(quick: int, paper: int = 10000) -> Parameter:
    return Parameter("int", quick, paper, "10,000", "trials a point, each trains a model", low=50)


def batch(quick: int = 1000) -> Parameter:
    return unprinted.count(quick, 250, "trials of one task of the sweep", low=10)


def epsilons(
    quick: tuple[float, ...], paper: tuple[float, ...], printed: str = _NOT_PRINTED
) -> Parameter:
    return Parameter("floats", quick, paper, printed, "epsilon of the guarantee", low=1e-3)


def steps(quick: int, paper: int) -> Parameter:
    return Parameter("int", quick, paper, f"{paper:,}", "T, steps", low=1)


def sampling_rate(value: float, printed: str) -> Parameter:
    return Parameter("float", value, value, printed, "q, sampling rate", low=1e-6)


def describe_data(p: Settings) -> str:
    """How many of which images a model is trained on."""
    name = data_name(p.dataset)
    return f"{p.training_size} " + (f"{name} (8x8)" if p.dataset == "digits" else f"{name} images")


# Data and runs -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Split:
    """Known records, the pool that candidates and targets come from, and records for testing."""

    known: Records
    pool: Records
    test: Records


@functools.lru_cache(maxsize=4)
def split_records(
    dataset: str, data_root: str, seed: int, known: int, pool: int, device: str
) -> Split:
    """Draw known records and a pool at random; the test set (digits: the rest) is for testing.

    ``known`` and ``pool`` are their sizes; the pool is smaller if there are fewer records.
    """
    root = Path(data_root) if data_root else None
    digits = dataset == "digits"
    data = datasets.classified(dataset, root, "all" if digits else "train")
    order = np.random.default_rng(seed).permutation(len(data))
    test = data.take(order[known:]) if digits else datasets.classified(dataset, root, "test")

    def tensors(images: datasets.LabelledImages) -> Records:
        return (
            torch.as_tensor(images.inputs, dtype=torch.float32, device=device),
            torch.as_tensor(images.labels, dtype=torch.int64, device=device),
        )

    chosen = data.take(order[:known]), data.take(order[known : known + pool])
    return Split(*map(tensors, (*chosen, test)))


def trial_task(study: Context, purpose: str, **given: Any) -> dict[str, Any]:
    """A task with the exhibit's parameters; ``given`` overrides them and sets the draws' seed."""
    p = study.parameters
    names = ("dataset", "training_size", "pool_size", "hidden", "max_grad_norm", "delta", "steps")
    task = {name: p[name] for name in names} | {
        "sampling_rate": p.get("sampling_rate", 1.0),
        "data_root": data_folder(study, p.dataset),
        "device": study.device,
        "split": study.seed_of("split"),
        "draws": study.seed_of(purpose, *sorted(given.items())),
    }
    return task | given


def set_up(task: Mapping[str, Any]) -> tuple[Split, DPSGD, Classifier]:
    """The records of a task, its run of DP-SGD and its network."""
    seed, known = task["split"], task["training_size"] - 1
    place = task["dataset"], task["data_root"]
    split = split_records(*place, seed, known, task["pool_size"], task["device"])
    setting = (task[k] for k in ("epsilon", "sampling_rate", "steps", "max_grad_norm"))
    run = tuned_run(*setting, delta=task["delta"])
    return split, run, Classifier(split.known[0].shape[1], task["hidden"])


def generator_of(task: Mapping[str, Any]) -> torch.Generator:
    return torch.Generator(task["device"]).manual_seed(task["draws"])


# Tasks -------------------------------------------------------------------------------------------


def attack_task(task: dict[str, Any]) -> list[dict[str, Any]]:
    """Run trials of the attack at one setting, one row per score and prior size.

    Optional entries of a task are ``likeliest``, the prior probability of the first candidate (the
    others share the rest equally), and ``printed``, to add Appendix G as printed.
    """
    split, run, classifier = set_up(task)
    size = max(task["prior_sizes"])
    prior, scores = None, dict(SCORES)
    if "likeliest" in task:
        prior = np.full(size, (1 - task["likeliest"]) / (size - 1))
        prior[0] = task["likeliest"]
    if task.get("printed"):
        scores |= {"as printed": printed_likelihood_score, "printed, exactly": _printed_exactly}
    guesses = prior_aware_attack(
        *(classifier, run, *split.known, *split.pool),
        prior_size=size,
        trials=task["trials"],
        learning_rate=task["learning_rate"],
        generator=generator_of(task),
        scores=scores,
        prior=prior,
    )
    if prior is not None:
        # the likelihood alone, and multiplied by the prior as the paper prints
        plain = guesses.scores["likelihood"] - torch.as_tensor(np.log(prior))
        product = plain * torch.as_tensor(prior)
        more = {"without prior": plain, "times prior": product}
        guesses = Guesses(guesses.candidates, guesses.target, {**guesses.scores, **more})
    return _counted(guesses, task["prior_sizes"])


def shortcut_task(task: dict[str, Any]) -> list[dict[str, Any]]:
    """Run trials that share a few trajectories; otherwise like :func:`attack_task`."""
    split, run, classifier = set_up(task)
    guesses = shared_trajectory_attack(
        *(classifier, run, *split.known, *split.pool),
        prior_size=max(task["prior_sizes"]),
        trials=task["trials"],
        learning_rate=task["learning_rate"],
        generator=generator_of(task),
        trajectories=task["trajectories"],
    )
    return _counted(guesses, task["prior_sizes"])


def _printed_exactly(steps: StepScores, run: DPSGD) -> torch.Tensor:
    """A score with the order of Appendix G's as printed in exact arithmetic."""
    residual = steps.residual_squared_norms[..., None]
    distance = residual - 2 * steps.inner + steps.squared_norms
    exponent = -(distance + residual).double()
    return (exponent / (2 * run.noise_multiplier**2)).logsumexp(dim=0)


def _counted(guesses: Guesses, sizes: Sequence[int]) -> list[dict[str, Any]]:
    """How often each score was right, and how often only it or only the likelihood was."""

    def correct(name: str, size: int) -> torch.Tensor:
        if size == guesses.candidates.shape[1]:
            return guesses.correct(name)
        return success_by_prior_size(guesses, name, [size])[:, 0]

    rows = []
    for size in sizes:
        likelihood = correct("likelihood", size)
        for name in guesses.scores:
            right = correct(name, size)
            rows.append(
                {
                    "score": name,
                    "n": size,
                    "right": int(right.sum()),
                    "only likelihood": int((likelihood & ~right).sum()),
                    "only this": int((right & ~likelihood).sum()),
                }
            )
    return rows


# Points ------------------------------------------------------------------------------------------


def settings_at(p: Settings) -> list[dict[str, Any]]:
    """One setting for each epsilon of an exhibit."""
    return [
        {"epsilon": e, "learning_rate": p.learning_rate, "prior_sizes": [p.prior_size]}
        for e in p.epsilons
    ]


def attack_points(
    study: Context,
    settings: Sequence[dict[str, Any]],
    trials: int,
    function: Any = attack_task,
    batch: int | None = None,
) -> pd.DataFrame:
    """Run trials at several settings: a row for each setting, score and prior size, with intervals.

    The scalar entries of ``settings`` become columns.
    """
    size = batch or trials
    parts = [min(size, trials - start) for start in range(0, trials, size)]
    tasks = [
        trial_task(study, function.__name__, trials=part, part=index, **setting)
        for setting in settings
        for index, part in enumerate(parts)
    ]
    named = [
        {k: v for k, v in setting.items() if not isinstance(v, list)} | {"trials": part}
        for setting in settings
        for part in parts
    ]
    table = as_table(named, study.sweep(function, tasks, "trials"))
    counts = ["trials", "right", "only likelihood", "only this"]
    by = [column for column in table if column not in counts]
    total = table.groupby(by, sort=False)[counts].sum().reset_index()
    low, high = np.transpose(list(map(success_interval, total["right"], total["trials"])))
    return total.assign(success=total["right"] / total["trials"], low=low, high=high)


@functools.lru_cache(maxsize=1024)
def reference(run: DPSGD, prior_size: int) -> dict[str, float]:
    """The bound, and the best success if the candidates' gradients were orthogonal."""
    if run.sampling_rate == 1:
        signal = math.sqrt(run.steps) / run.noise_multiplier
        best = float(bounds.bayes_success(signal, prior_size))
    else:
        best = bounds.bayes_success_subsampled(run, prior_size)
    return {"bound": bounds.rero(run, 1 / prior_size).upper, "orthogonal": best}


def reference_at(p: Settings, epsilon: float, prior_size: int) -> dict[str, float]:
    """The same at an epsilon, for an exhibit's number of steps and sampling rate."""
    run = tuned_run(epsilon, p.get("sampling_rate", 1.0), p.steps, delta=p.delta)
    return reference(run, prior_size)


def with_reference(p: Settings, table: pd.DataFrame) -> pd.DataFrame:
    """Add columns sigma, bound and orthogonal to a table with columns epsilon and n."""
    rate, settings = p.get("sampling_rate", 1.0), zip(table["epsilon"], table["n"], strict=True)
    runs = [(tuned_run(e, rate, p.steps, delta=p.delta), int(n)) for e, n in settings]
    rows = [{"sigma": run.noise_multiplier, **reference(run, n)} for run, n in runs]
    return pd.concat([table.reset_index(drop=True), pd.DataFrame(rows)], axis=1)


# Judging -----------------------------------------------------------------------------------------


def p_value_above_bound(table: pd.DataFrame) -> float:
    """The smallest p-value of "the success is at most the bound", times the number of rows."""
    p = stats.binom.sf(table["right"] - 1, table["trials"], table["bound"].clip(upper=1.0))
    return float(np.min(p) * len(p))


def likelihood_ahead(row: pd.Series) -> float:
    """The one-sided p-value of "the likelihood is no better than this score", same trials."""
    return _sign_test(row["only likelihood"], row["only this"])


def _sign_test(wins: int, losses: int) -> float:
    return float(stats.binom.sf(wins - 1, wins + losses, 0.5))


def not_behind(table: pd.DataFrame) -> bool:
    """Whether the likelihood names about as many targets as each score does, in the same trials."""
    lead = (table["only likelihood"] - table["only this"]) / table["trials"]
    return bool((lead >= -BEHIND).all())


def unlike(table: pd.DataFrame) -> float:
    """The share of all trials in which a score and the likelihood are not right together."""
    return float((table["only likelihood"] + table["only this"]).sum() / table["trials"].sum())


def near_bound(shared: pd.DataFrame) -> bool:
    """Whether trials that share a trajectory stay below the bound, up to ``ABOVE``."""
    return bool((shared["success"] <= (1 + ABOVE) * shared["bound"]).all())


def agree(trained: pd.DataFrame, shared: pd.DataFrame) -> bool | None:
    """Whether success is the same with a model per trial, on average over all points.

    Points of one epsilon are of the same trials, so that their errors add.
    """
    by_setting = [table.set_index(["epsilon", "n"]) for table in (trained, shared)]
    off = (by_setting[0]["success"] - by_setting[1]["success"]).dropna()
    shares = [((t["right"] + 1) / (t["trials"] + 2)).loc[off.index] for t in by_setting]
    error = np.sqrt(
        sum(s * (1 - s) / t["trials"] for s, t in zip(shares, by_setting, strict=True)).loc[
            off.index
        ]
    )
    of_epsilon = error.groupby("epsilon").mean()
    return within(
        off.groupby("epsilon").mean().mean(),
        0.0,
        math.sqrt(float((of_epsilon**2).sum())) / len(of_epsilon),
        AGREE,
    )


def percent(row: pd.Series) -> str:
    """A share of successes to the digits that its trials support."""
    error = math.sqrt(max(row["success"] * (1 - row["success"]), 1e-9) / row["trials"])
    return rounded(row["success"], error)


def scored(table: pd.DataFrame, score: str) -> pd.DataFrame:
    """The rows of one score."""
    return table[table["score"] == score]


def score_rows(table: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """The rows of each of the three scores, by epsilon."""
    return {name: scored(table, name).set_index("epsilon") for name in SCORE_STYLES}


# Drawing -----------------------------------------------------------------------------------------


def epsilon_axis(axis: Axes, values: pd.Series) -> None:
    """A logarithmic axis with a label at every value."""
    axis.set(xscale="log", xlabel=r"$\varepsilon$")
    ticks = sorted(set(values))
    axis.set_xticks(ticks, [f"{value:g}" for value in ticks])
    axis.minorticks_off()


def success_points(
    axis: Axes, table: pd.DataFrame, x: str, colour: str, marker: str, shift: float = 1.0
) -> None:
    """Shares of successes with their 95% intervals."""
    style = {"fmt": marker, "color": colour, "markersize": 5, "capsize": 2.5, "linewidth": 1.1}
    error_bars(axis, table[x] * shift, table, **style)

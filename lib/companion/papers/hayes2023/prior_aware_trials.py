"""Trials of the prior-aware attack on small trained networks, and what they are held against.

A task of a sweep is a number of trials at one setting. Every trial trains its own model on its own
target, drawn from its own prior; what comes back is how often each score was right. A task names
its epsilon, not its noise, so that no computed number reaches its seed.
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
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator
from scipy import stats

from companion.papers.hayes2023.equal_epsilon import tuned_run
from companion.study import Context, Parameter
from companion.study.parameters import Settings
from companion.study.sweep import as_table
from companion.study.verdicts import rounded
from companion.style import GREEN, ORANGE, PURPLE
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

#: how often a paired comparison or a test against a bound may fail by chance
RARELY = 1e-5
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
#: why a learning rate of 5
CLIPPED = "5 keeps every gradient clipped, as the paper reports for C = 0.1 (Figure 13)"
PRIOR_SIZE = Parameter("int", 10, 10, "10", "n, candidates", low=2)
SHORTCUT = {
    "shortcut_trials": Parameter(
        "int", 10000, 100000, _NOT_PRINTED, "trials that share a trajectory", low=100
    ),
    "trajectories": Parameter(
        "int", 2, 8, _NOT_PRINTED, "models whose gradients such trials share", low=1
    ),
}


def data_parameters(
    training_size: int, printed_size: int, pool_size: int = 600
) -> dict[str, Parameter]:
    """Which records, which network, and how it is trained."""
    return {
        "dataset": Parameter(
            "str", "digits", "MNIST", "MNIST", "labelled images: digits (8x8) or MNIST (28x28)"
        ),
        "training_size": Parameter(
            "int",
            training_size,
            printed_size,
            f"{printed_size:,}",
            "records trained on, the target included",
            low=2,
        ),
        "pool_size": Parameter(
            "int",
            pool_size,
            4000,
            "the whole data set",
            "records that candidates are drawn from, apart from the known ones (at most all)",
            low=10,
        ),
        "hidden": Parameter("int", 10, 10, "10", "width of the hidden layer", low=1),
        "max_grad_norm": Parameter("float", 0.1, 0.1, "0.1", "C, clipping norm", low=1e-9),
        "delta": Parameter("float", 1e-5, 1e-5, "1e-5", "delta of the guarantee", low=1e-300),
    }


def learning_rate(value: float, why: str) -> Parameter:
    """The step on the privatised sum."""
    return Parameter(
        "float",
        value,
        value,
        "swept between .001 and 100 for each epsilon, choice not printed",
        f"step = this times the privatised sum over the expected batch size; {why}",
        low=0,
    )


def trials(quick: int, paper: int = 10000) -> Parameter:
    """Trials at each point."""
    return Parameter("int", quick, paper, "10,000", "trials a point, each trains a model", low=50)


def batch(quick: int = 1000) -> Parameter:
    """Trials of one task."""
    return Parameter("int", quick, 250, _NOT_PRINTED, "trials of one task of the sweep", low=10)


def epsilons(
    quick: tuple[float, ...], paper: tuple[float, ...], printed: str = _NOT_PRINTED
) -> Parameter:
    """The epsilons of the runs."""
    return Parameter("floats", quick, paper, printed, "epsilon of the guarantee", low=1e-3)


def steps(quick: int, paper: int) -> Parameter:
    """Steps of a run."""
    return Parameter("int", quick, paper, f"{paper:,}", "T, steps", low=1)


def sampling_rate(value: float, printed: str) -> Parameter:
    """The sampling rate of a run."""
    return Parameter("float", value, value, printed, "q, sampling rate", low=1e-6)


def describe_data(p: Settings) -> str:
    """How many of which images a model is trained on."""
    named = {"digits": "handwritten digits (8x8)", "MNIST": "MNIST images"}
    return f"{p.training_size} {named.get(p.dataset, 'images')}"


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
    """Draw known records and a pool at random; the rest (MNIST: the test set) is for testing.

    Parameters
    ----------
    dataset : {"digits", "MNIST"}
    data_root : str
        Folder of MNIST's files; empty for the digits, which are bundled.
    seed : int
        Of the draw.
    known, pool : int
        How many of each; the pool takes what there is if there are fewer.
    """
    root = Path(data_root) if data_root else None
    part = "all" if dataset == "digits" else "train"
    data = datasets.classified(dataset, root, part)
    order = np.random.default_rng(seed).permutation(len(data))
    chosen = data.take(order[:known]), data.take(order[known : known + pool])
    tested = data.take(order[known:]) if dataset == "digits" else None
    tested = tested or datasets.classified(dataset, root, "test")
    tensors = [
        (
            torch.as_tensor(images.inputs, dtype=torch.float32, device=device),
            torch.as_tensor(images.labels, dtype=torch.int64, device=device),
        )
        for images in (*chosen, tested)
    ]
    return Split(*tensors)


def trial_task(study: Context, purpose: str, **given: Any) -> dict[str, Any]:
    """One task, completed from the exhibit's parameters; what is given wins.

    Its draws depend on what is given, not on where the data lie.
    """
    p = study.parameters
    names = ("dataset", "training_size", "pool_size", "hidden", "max_grad_norm", "delta", "steps")
    root = study.read_root
    task = {name: p[name] for name in names} | {
        "sampling_rate": p.get("sampling_rate", 1.0),
        "data_root": str(root) if root else "",
        "device": study.device,
        "split": study.seed_of("split"),
        "draws": study.seed_of(purpose, *sorted(given.items())),
    }
    return task | given


def set_up(task: Mapping[str, Any]) -> tuple[Split, DPSGD, Classifier]:
    """The records of a task, its run of DP-SGD and its network."""
    split = split_records(
        task["dataset"],
        task["data_root"],
        task["split"],
        task["training_size"] - 1,
        task["pool_size"],
        task["device"],
    )
    run = tuned_run(
        task["epsilon"],
        task["sampling_rate"],
        task["steps"],
        task["max_grad_norm"],
        delta=task["delta"],
    )
    return split, run, Classifier(split.known[0].shape[1], task["hidden"])


def generator_of(task: Mapping[str, Any]) -> torch.Generator:
    """The generator of a task's draws."""
    return torch.Generator(task["device"]).manual_seed(task["draws"])


# Tasks -------------------------------------------------------------------------------------------


def attack_task(task: dict[str, Any]) -> list[dict[str, Any]]:
    """Run trials of the attack at one setting, one row per score and prior size.

    Parameters
    ----------
    task : dict
        Data and run as in :func:`set_up`; ``learning_rate``, ``trials``, ``prior_sizes``;
        optionally ``likeliest``, the prior probability of the first candidate (the others share
        the rest), and ``printed``, to add Appendix G as printed.
    """
    split, run, classifier = set_up(task)
    size = max(task["prior_sizes"])
    prior = None
    if "likeliest" in task:
        prior = np.full(size, (1 - task["likeliest"]) / (size - 1))
        prior[0] = task["likeliest"]
    scores = dict(SCORES)
    if task.get("printed"):
        scores |= {"as printed": printed_likelihood_score, "printed, exactly": _printed_exactly}
    guesses = prior_aware_attack(
        classifier,
        run,
        *split.known,
        *split.pool,
        prior_size=size,
        trials=task["trials"],
        learning_rate=task["learning_rate"],
        generator=generator_of(task),
        scores=scores | {"squared norm": lambda steps, run: steps.squared_norms.mean(dim=0)},
        prior=prior,
    )
    if prior is not None:
        guesses = _with_other_uses_of(prior, guesses)
    return _counted(guesses, task["prior_sizes"], float(guesses.scores["squared norm"].mean()))


def shortcut_task(task: dict[str, Any]) -> list[dict[str, Any]]:
    """Run trials that share a few trajectories, as :func:`attack_task` otherwise."""
    split, run, classifier = set_up(task)
    guesses = shared_trajectory_attack(
        classifier,
        run,
        *split.known,
        *split.pool,
        prior_size=max(task["prior_sizes"]),
        trials=task["trials"],
        learning_rate=task["learning_rate"],
        generator=generator_of(task),
        trajectories=task["trajectories"],
    )
    return _counted(guesses, task["prior_sizes"], math.nan)


def _printed_exactly(steps: StepScores, run: DPSGD) -> torch.Tensor:
    """Appendix G as printed, in exact arithmetic: only its order, which is that of the sum."""
    distance = steps.residual_squared_norms[..., None] - 2 * steps.inner + steps.squared_norms
    exponent = -(distance + steps.residual_squared_norms[..., None]).double()
    return (exponent / (2 * run.noise_multiplier**2)).logsumexp(dim=0)


def _with_other_uses_of(prior: np.ndarray, guesses: Guesses) -> Guesses:
    """Add the likelihood without the prior, and multiplied by it as the paper prints."""
    plain = guesses.scores["likelihood"] - torch.as_tensor(np.log(prior))
    product = plain * torch.as_tensor(prior)
    return Guesses(
        guesses.candidates,
        guesses.target,
        {**guesses.scores, "without prior": plain, "times prior": product},
    )


def _counted(guesses: Guesses, sizes: Sequence[int], norm: float) -> list[dict[str, Any]]:
    """How often each score was right, and how often it was where the likelihood was not."""
    rows = []
    names = [name for name in guesses.scores if name != "squared norm"]
    whole = guesses.candidates.shape[1]
    for size in sizes:
        right = {
            name: guesses.correct(name)
            if size == whole
            else success_by_prior_size(guesses, name, [size])[:, 0]
            for name in names
        }
        best = right["likelihood"]
        rows += [
            {
                "score": name,
                "n": size,
                "right": int(right[name].sum()),
                "only likelihood": int((best & ~right[name]).sum()),
                "only this": int((right[name] & ~best).sum()),
                "mean squared norm": norm,
            }
            for name in names
        ]
    return rows


# Points ------------------------------------------------------------------------------------------


def settings_at(p: Settings) -> list[dict[str, Any]]:
    """One setting for each epsilon of an exhibit with lists of one length."""
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

    ``settings`` holds what sets a task apart; its scalar entries become columns.
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
    by = [c for c in table.columns if c not in (*counts, "mean squared norm")]
    grouped = table.groupby(by, sort=False)
    total = grouped[counts].sum()
    total["mean squared norm"] = grouped["mean squared norm"].mean()
    total = total.reset_index()
    ends = [success_interval(r, t) for r, t in zip(total["right"], total["trials"], strict=True)]
    low, high = np.array(ends).T
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


def with_reference(p: Settings, table: pd.DataFrame) -> pd.DataFrame:
    """Add columns sigma, bound and orthogonal to a table with columns epsilon and n."""
    rows = []
    for epsilon, n in zip(table["epsilon"], table["n"], strict=True):
        rate = p.get("sampling_rate", 1.0)
        run = tuned_run(epsilon, rate, p.steps, p.max_grad_norm, delta=p.delta)
        rows.append({"sigma": run.noise_multiplier, **reference(run, int(n))})
    return pd.concat([table.reset_index(drop=True), pd.DataFrame(rows)], axis=1)


# Judging -----------------------------------------------------------------------------------------


def p_value_above_bound(table: pd.DataFrame) -> float:
    """The least p-value of "the success is at most the bound", times the number of rows."""
    upper = np.minimum(table["bound"].to_numpy(float), 1.0)
    p = stats.binom.sf(table["right"] - 1, table["trials"], upper)
    return float(np.min(p) * len(p))


def likelihood_ahead(row: pd.Series) -> float:
    """The one-sided p-value of "the likelihood is no better than this score", same trials."""
    return _sign_test(row["only likelihood"], row["only this"])


def likelihood_behind(row: pd.Series) -> float:
    """The one-sided p-value of "the likelihood is no worse than this score", same trials."""
    return _sign_test(row["only this"], row["only likelihood"])


def _sign_test(wins: int, losses: int) -> float:
    n = int(wins + losses)
    return float(stats.binom.sf(wins - 1, n, 0.5)) if n else 1.0


def percent(row: pd.Series) -> str:
    """A success to the digits that its trials support."""
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
    axis.set_xscale("log")
    axis.xaxis.set_major_locator(FixedLocator(sorted(set(values))))
    axis.xaxis.set_minor_locator(NullLocator())
    axis.xaxis.set_major_formatter(FuncFormatter(lambda v, _: f"{v:g}"))
    axis.set_xlabel(r"$\varepsilon$")


def success_points(
    axis: Axes, table: pd.DataFrame, x: str, colour: str, marker: str, shift: float = 1.0
) -> None:
    """Shares of successes with their 95% intervals."""
    errors = np.array([table["success"] - table["low"], table["high"] - table["success"]])
    axis.errorbar(
        table[x] * shift,
        table["success"],
        errors.clip(min=0),
        fmt=marker,
        color=colour,
        markersize=5,
        capsize=2.5,
        linewidth=1.1,
    )

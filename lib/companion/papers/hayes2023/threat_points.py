"""Points of Figures 2, 7, 9, 10 and 13: other networks, other priors, other knowledge.

Two kinds of points. *Own model*: every trial trains the model that it attacks, as the paper does.
*Shared*: many trials along the gradients of a few models
(:func:`~reconrisk.attacks.shared_trajectory_attack`), which a wide network or a fine grid needs.
A task of a sweep is one point, or one point's reconstructions; it holds no computed number, so
that its draws are the same everywhere.
"""

import functools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator, ScalarFormatter
from scipy import stats

from companion.papers.hayes2023.equal_epsilon import tuned_run
from companion.study import Context, Parameter, Tables
from companion.study.parameters import Settings
from companion.study.sweep import as_table
from companion.study.verdicts import rounded
from companion.style import GREY, panels
from reconrisk import DPSGD, bounds, datasets
from reconrisk.attacks import prior_aware_attack, shared_trajectory_attack, success_interval
from reconrisk.models import Classifier
from reconrisk.training import Weights, accuracy, gradient_factors, train_many

#: standard errors by which a difference has to exceed zero to count
CLEAR = 4.0
#: noise multiplier of training without privacy
NO_NOISE = 1e-9
#: trials whose models are trained together
CHUNK = 128

# Parameters --------------------------------------------------------------------------------------

EPSILONS = (1.0, 4.0, 10.0, 20.0, 40.0)
_AXIS = "not printed (read off an axis that the text does not give)"
_RATE = "swept over 0.001 to 100 for every epsilon"

CLIPPING_NORM = Parameter("float", 0.1, 0.1, "0.1", "C, clipping norm", low=1e-9)
LEARNING_RATE = Parameter(
    "float", 5.0, 5.0, _RATE, "step on the mean gradient; at 5 every gradient stays clipped", low=0
)


def data_parameter(quick: str = "digits", paper: str = "MNIST") -> Parameter:
    """The data set."""
    return Parameter(
        "str", quick, paper, paper, "data set: a name that study.datasets.classified knows"
    )


def epsilons(
    quick: tuple[float, ...], paper: tuple[float, ...] = EPSILONS, printed: str = _AXIS
) -> Parameter:
    """The epsilons of the runs."""
    return Parameter("floats", quick, paper, printed, "epsilon, at delta = 1e-5", low=1e-3)


def trials(quick: int, meaning: str) -> Parameter:
    """Trials with a model of their own."""
    return Parameter("int", quick, 10000, "10,000", meaning, low=20)


def learning_rates(
    quick: tuple[float, ...], paper: tuple[float, ...], chosen: str = ""
) -> Parameter:
    """Learning rates among which the accuracy decides."""
    meaning = f"learning rates tried; the one of best test accuracy {chosen}"
    return Parameter("floats", quick, paper, _RATE, meaning, low=1e-9)


def models(paper: int) -> Parameter:
    """Models whose accuracy decides."""
    return Parameter("int", 2, paper, "not printed", "models per learning rate", low=1)


def common_parameters(known: int = 999) -> dict[str, Parameter]:
    """Steps, records and candidates."""
    return {
        "steps": Parameter("int", 100, 100, "100", "T, steps", low=1),
        "known": Parameter(
            "int",
            known,
            known,
            f"{known} (training size {known + 1})",
            "|D-|, records that the adversary knows",
            low=2,
        ),
        "prior_size": Parameter("int", 10, 10, "10", "n, candidates", low=2),
    }


def shared_parameters() -> dict[str, Parameter]:
    """The shortcut: many trials along the gradients of a few models."""
    every = "not printed: every trial trains its own model"
    return {
        "trajectories": Parameter(
            "int", 3, 10, every, "models whose gradients the shortcut re-uses, a point", low=2
        ),
        "shared_trials": Parameter(
            "int", 3000, 20000, every, "trials of the shortcut, a point", low=100
        ),
        "pool": Parameter(
            "int",
            200,
            500,
            "not printed: the whole data set",
            "records that candidates are drawn from",
            low=20,
        ),
    }


def describe_run(p: Settings, what: str) -> str:
    """What was run, on which data."""
    return (
        f"Networks with one hidden layer on {p.data}, {p.known} known records and a target, "
        f"{p.steps} full-batch steps; {what}; lists of {p.prior_size}; {p.trials} trials with a "
        f"model of their own a point, {p.shared_trials} along {p.trajectories} shared models."
    )


# Data --------------------------------------------------------------------------------------------


@functools.lru_cache(maxsize=4)
def _images(name: str, data_root: str | None, side: int, split: str) -> datasets.LabelledImages:
    return datasets.classified(name, Path(data_root) if data_root else None, split, side=side)


@functools.lru_cache(maxsize=4)
def _features(
    name: str, data_root: str | None, side: int, split: str, count: int
) -> datasets.LabelledFeatures:
    images = _images(name, data_root, side, split)
    return datasets.features(images, Path(data_root) if data_root else None, count=count)


def images_of(task: Mapping[str, Any], split: str = "train") -> datasets.LabelledImages:
    """The images of a task, kept for the process's next tasks."""
    return _images(task["data"], task["data_root"], task["side"], split)


def features_of(task: Mapping[str, Any], split: str = "train") -> datasets.LabelledFeatures:
    """What the frozen network makes of a task's images, kept for the process's next tasks."""
    where = task["data"], task["data_root"], task["side"], split
    return _features(*where, task["features"])


def records_of(task: Mapping[str, Any], split: str = "train") -> tuple[torch.Tensor, torch.Tensor]:
    """Inputs (N, d) and labels (N,) of a task: images, or features if it names their number."""
    found = features_of(task, split) if task["features"] else images_of(task, split)
    device = task["device"]
    return torch.as_tensor(found.inputs).to(device), torch.as_tensor(found.labels).to(device)


def split_positions(
    task: Mapping[str, Any], labels: torch.Tensor, generator: torch.Generator
) -> tuple[torch.Tensor, torch.Tensor]:
    """Positions of the known records and of the pool that candidates come from, all distinct."""
    least = task["known"] + task["prior_size"]
    if len(labels) < least:
        raise ValueError(
            f"{task['data']} must hold at least {least} records for known = {task['known']} and "
            f"prior_size = {task['prior_size']}; it has {len(labels)}"
        )
    order = torch.randperm(len(labels), generator=generator, device=labels.device)
    return order[: task["known"]], order[task["known"] : task["known"] + task["pool"]]


def noise_prior(
    records: torch.Tensor, classes: int, generator: torch.Generator
) -> tuple[torch.Tensor, torch.Tensor]:
    """Draw as many noise images as there are records, as far apart as these are on average.

    Uniform and independent values around 1/2, of the width at which the mean squared distance of
    two noise images is that of two records; each is given a random label.

    Parameters
    ----------
    records : Tensor, shape (N, d)
        N >= 2.
    classes : int
        Number of labels.

    Returns
    -------
    inputs, labels : Tensor, shape (N, d) and (N,)

    Notes
    -----
    Hayes et al., Figure 9, ask for "the same intra-sample distance statistics" and say no more.
    Two uniform values of width w differ by w^2 / 6 in the mean square, two values of one pixel by
    twice its variance.
    """
    width = math.sqrt(12 * float(records.var(dim=0).mean()))
    device = records.device
    drawn = torch.rand(records.shape, generator=generator, device=device, dtype=records.dtype)
    labels = torch.randint(classes, (len(records),), generator=generator, device=device)
    return 0.5 + width * (drawn - 0.5), labels


# Tasks -------------------------------------------------------------------------------------------


def run_of(task: Mapping[str, Any]) -> DPSGD:
    """The full-batch run at a task's epsilon (None: without noise)."""
    if task["epsilon"] is None:
        return DPSGD(NO_NOISE, 1.0, task["steps"], task["max_grad_norm"])
    return tuned_run(task["epsilon"], 1.0, task["steps"], task["max_grad_norm"])


def generator_of(task: Mapping[str, Any], purpose: str) -> torch.Generator:
    """A task's generator for choosing records (``record_seed``) or all else (``draw_seed``)."""
    return torch.Generator(device=task["device"]).manual_seed(task[purpose])


def attack_point(task: dict[str, Any]) -> list[dict[str, Any]]:
    """Attack at one point, by models of their own or along shared ones; a row for each score.

    Parameters
    ----------
    task : dict
        ``method`` is ``"own model"`` or ``"shared"``; ``prior`` is ``"data"`` or ``"noise"``;
        ``subtract`` says whether known gradients are subtracted. ``record_seed`` chooses the known
        records and the pool, ``draw_seed`` everything else.

    Returns
    -------
    list of dict
        ``score``, ``success`` (a share), ``low`` and ``high`` (95%), ``trials``; for the
        likelihood ``gained`` and ``lost``, the trials that only it, or only the sum, got right.
    """
    run = run_of(task)
    chooser = generator_of(task, "record_seed")
    common = {
        "prior_size": task["prior_size"],
        "learning_rate": task["learning_rate"],
        "generator": generator_of(task, "draw_seed"),
    }
    groups = task["trajectories"] if task["method"] == "shared" else 0
    if groups:
        # known records and candidates anew for each trajectory, so that their spread is seen
        found = [
            shared_trajectory_attack(
                *_given(task, run, chooser),
                trajectories=1,
                trials=task["trials"] // groups,
                **common,
            )
            for _ in range(groups)
        ]
    else:
        found = [
            prior_aware_attack(
                *_given(task, run, chooser),
                subtract_known=task["subtract"],
                trials=task["trials"],
                chunk=CHUNK,
                **common,
            )
        ]
    right = {
        name: torch.cat([guesses.correct(name) for guesses in found]).cpu().numpy()
        for name in ("sum", "likelihood")
    }
    rows = []
    for name, values in right.items():
        success, low, high = interval(values, groups)
        rows.append(
            {"score": name, "success": success, "low": low, "high": high, "gained": 0, "lost": 0}
        )
    rows[-1]["gained"] = int((right["likelihood"] & ~right["sum"]).sum())
    rows[-1]["lost"] = int((right["sum"] & ~right["likelihood"]).sum())
    return rows


def _given(task: Mapping[str, Any], run: DPSGD, chooser: torch.Generator) -> tuple[Any, ...]:
    """What an attack is given: network, run, known records, pool of candidates."""
    inputs, labels = records_of(task)
    known, pool = split_positions(task, labels, chooser)
    classes = int(labels.max()) + 1
    candidates, candidate_labels = inputs[pool], labels[pool]
    if task["prior"] == "noise":
        candidates, candidate_labels = noise_prior(candidates, classes, chooser)
    network = Classifier(inputs.shape[1], task["width"] or None, classes)
    return network, run, inputs[known], labels[known], candidates, candidate_labels


def interval(right: np.ndarray, groups: int = 0) -> tuple[float, float, float]:
    """Share of trials that were right, with its 95% interval.

    Parameters
    ----------
    right : ndarray of bool, shape (trials,)
    groups : int
        0: independent trials (:func:`~reconrisk.attacks.success_interval`). Else, >= 2, the trials
        come in this many equal runs, each along one trajectory: Student's interval of the runs'
        shares, which holds the trajectories' own spread.
    """
    share = float(np.mean(right))
    if not groups:
        return share, *success_interval(int(np.sum(right)), len(right))
    shares = np.array([part.mean() for part in np.array_split(right, groups)])
    reach = float(stats.t.ppf(0.975, groups - 1) * shares.std(ddof=1)) / math.sqrt(groups)
    return share, max(share - reach, 0.0), min(share + reach, 1.0)


def measure_training(task: dict[str, Any]) -> dict[str, float]:
    """Train a few models and return their test accuracy and the known gradients' clipped norms.

    Parameters
    ----------
    task : dict
        As for :func:`attack_point`; ``models`` says how many.

    Returns
    -------
    dict
        ``accuracy``: share of test records classified rightly; ``mean norm``: mean of
        ``min(|g|, C)`` over the known records, steps and models; ``clipped``: share of gradients
        longer than C.
    """
    inputs, labels = records_of(task)
    run = run_of(task)
    known, pool = split_positions(task, labels, generator_of(task, "record_seed"))
    known_inputs, known_labels = inputs[known], labels[known]
    norms: list[float] = []
    clipped: list[float] = []

    def watch(step: int, weights: Weights, residual: Weights, takes_part: torch.Tensor) -> None:
        squared = gradient_factors(weights, known_inputs, known_labels).squared_norms()
        norms.append(float(squared.sqrt().clamp(max=run.max_grad_norm).mean()))
        clipped.append(float((squared > run.max_grad_norm**2).double().mean()))

    targets = pool[: task["models"]]
    final = train_many(
        Classifier(inputs.shape[1], task["width"] or None, int(labels.max()) + 1),
        run,
        known_inputs,
        known_labels,
        inputs[targets],
        labels[targets],
        learning_rate=task["learning_rate"],
        generator=generator_of(task, "draw_seed"),
        observe=watch,
    )
    return {
        "accuracy": float(accuracy(final, *records_of(task, "test")).mean()),
        "mean norm": float(np.mean(norms)),
        "clipped": float(np.mean(clipped)),
    }


def point_task(study: Context, **given: Any) -> dict[str, Any]:
    """One point's task. Points of one ``purpose`` share their known records and candidates."""
    p = study.parameters
    task: dict[str, Any] = {
        "data": p.data,
        "data_root": str(study.data_root) if study.data_root else None,
        "device": study.device,
        "side": p.get("side", 32),
        "features": p.get("features", 0),
        "width": 10,
        "steps": p.steps,
        "known": p.known,
        "pool": p.pool,
        "prior_size": p.prior_size,
        "max_grad_norm": p.get("max_grad_norm"),
        "learning_rate": p.get("learning_rate"),
        "prior": "data",
        "subtract": True,
        **given,
    }
    purpose = task.pop("purpose", "")
    key = (task.get("method", purpose), task["epsilon"], task["known"])
    task["record_seed"] = study.seed_of("records", *key)
    task["draw_seed"] = study.seed_of("draws", *key)
    return task


def attack_tasks(
    study: Context, epsilons: Iterable[float], method: str, **given: Any
) -> list[dict[str, Any]]:
    """Tasks of the attack at some epsilons, by one method."""
    p = study.parameters
    shared = method == "shared"
    return [
        point_task(
            study,
            epsilon=epsilon,
            method=method,
            trials=p.shared_trials if shared else p.trials,
            trajectories=p.trajectories if shared else 0,
            **given,
        )
        for epsilon in epsilons
    ]


def swept(
    study: Context, function: Callable[..., Any], tasks: Sequence[dict[str, Any]]
) -> pd.DataFrame:
    """Run tasks and return their rows without the columns that are the same for all."""
    hidden = ["data_root", "device", "record_seed", "draw_seed", "steps", "prior_size", "side"]
    return as_table(tasks, study.sweep(function, tasks)).drop(columns=hidden)


def best_rates(training: pd.DataFrame) -> dict[float, float]:
    """The learning rate of best accuracy at each epsilon; no privacy has the key nan."""
    return {
        float(epsilon): float(rows.loc[rows["accuracy"].idxmax(), "learning_rate"])
        for epsilon, rows in training.groupby("epsilon", dropna=False)
    }


# Theory ------------------------------------------------------------------------------------------


def theory(epsilons: Iterable[float], steps: int, prior_size: int) -> pd.DataFrame:
    """The bounds and the best success of orthogonal candidates over epsilon; no data."""
    rows = []
    for epsilon in epsilons:
        sigma = tuned_run(float(epsilon), 1.0, steps).noise_multiplier
        signal = math.sqrt(steps) / sigma
        rows.append(
            {
                "epsilon": float(epsilon),
                "noise multiplier": sigma,
                "bound": bounds.rero(DPSGD(sigma, 1.0, steps), 1 / prior_size).upper,
                "RDP bound": float(bounds.rero_rdp(sigma, 1 / prior_size, steps=steps)),
                "orthogonal": float(bounds.bayes_success(signal, prior_size)),
                "simplex": float(
                    bounds.bayes_success(signal, prior_size, cosine=-1 / (prior_size - 1))
                ),
            }
        )
    return pd.DataFrame(rows)


def points_and_curves(p: Settings) -> dict[str, pd.DataFrame]:
    """Theory at the figure's own epsilons, and as curves between them."""
    low, high = min(p.epsilons), max(p.epsilons)
    grid = np.geomspace(low, high, 41) if high > low else np.array([low])
    return {
        "points": theory(p.epsilons, p.steps, p.prior_size),
        "curves": theory(grid, p.steps, p.prior_size),
    }


# Judging -----------------------------------------------------------------------------------------


def select(table: pd.DataFrame, **values: Any) -> pd.DataFrame:
    """The rows of a table that have the given values."""
    for name, value in values.items():
        table = table[table[name] == value]
    return table


def one(table: pd.DataFrame, **values: Any) -> pd.Series:
    """The one row of a table that has the given values."""
    found = select(table, **values)
    if len(found) != 1:
        raise ValueError(f"{len(found)} rows for {values}; expected one")
    return found.iloc[0]


def error_of(row: Mapping[str, Any]) -> float:
    """Standard error: the 95% interval's, and at least that of as many independent trials.

    Three trajectories that agree by chance must not pass for certainty.
    """
    from_interval = (float(row["high"]) - float(row["low"])) / (2 * 1.96)
    trials = float(row.get("trials", math.nan))
    # as if one trial had gone the other way, so that no share is without an error
    share = min(max(float(row["success"]), 1 / trials), 1 - 1 / trials) if trials > 1 else 0.0
    return max(from_interval, math.sqrt(share * (1 - share) / trials) if share else 0.0, 1e-4)


def describe(row: Mapping[str, Any]) -> str:
    """A success to the digits that its error supports."""
    return rounded(float(row["success"]), error_of(row))


def never_above(success: pd.DataFrame, points: pd.DataFrame) -> bool:
    """Whether no point lies significantly above the bound; ``points`` by epsilon."""
    bound = points["bound"].loc[success["epsilon"]].to_numpy()
    errors = np.array([error_of(row) for _, row in success.iterrows()])
    return bool((success["success"].to_numpy() <= bound + CLEAR * errors).all())


# Drawing -----------------------------------------------------------------------------------------

POINTS_NOTE = (
    "Filled points: every trial trained its own model. Open points: trials along the gradients of "
    "a few models. Bars: 95%."
)


def success_figure(tables: Tables, series: Iterable[tuple], width: float = 6.2) -> Figure:
    """Success over epsilon: theory, and points as ``(values, label, colour, marker, shift)``."""
    success = tables["success"]
    figure, [[axes]] = panels(1, 1, width=width, height=3.4)
    theory_lines(axes, tables["curves"])
    for values, label, *look in series:
        success_points(axes, select(success, **values), label, *look)
    epsilon_axis(axes, success, 1 / tables.parameters.prior_size)
    axes.set_ylabel("success")
    figure.legend(loc="outside right upper")
    return figure


def epsilon_axis(axes: Axes, table: pd.DataFrame, chance: float | None = None) -> None:
    """Success over epsilon, logarithmic, labelled at the figure's own values."""
    axes.set(xscale="log", xlabel=r"$\varepsilon$", ylim=(-0.02, 1.04))
    axes.set_xticks(sorted(set(table["epsilon"])))
    axes.xaxis.set_major_formatter(ScalarFormatter())
    axes.xaxis.set_minor_locator(NullLocator())
    if chance is not None:
        axes.axhline(chance, color=GREY, linewidth=0.9, linestyle=":")


def theory_lines(axes: Axes, curves: pd.DataFrame) -> None:
    """The bound, and the best attack on orthogonal candidates."""
    for column, colour, style, label in (
        ("bound", "black", "-", "bound (Corollary 4)"),
        ("orthogonal", GREY, "--", "best attack, orthogonal candidates"),
    ):
        axes.plot(curves["epsilon"], curves[column], color=colour, linestyle=style, label=label)


def success_points(
    axes: Axes, rows: pd.DataFrame, label: str, colour: str, marker: str = "o", shift: float = 1.0
) -> None:
    """Success with its interval; ``shift`` multiplies epsilon, to keep points apart."""
    axes.plot([], [], color=colour, marker=marker, linestyle="none", markersize=4.5, label=label)
    for method, part in rows.groupby("method", sort=False):
        own = method != "shared"
        # rounding may put a share a hair outside its own interval
        below = (part["success"] - part["low"]).clip(lower=0)
        above = (part["high"] - part["success"]).clip(lower=0)
        axes.errorbar(
            part["epsilon"] * shift * (1.0 if own else 0.985),
            part["success"],
            yerr=[below, above],
            fmt=marker,
            markersize=4.5 if own else 5.5,
            markerfacecolor=colour if own else "white",
            color=colour,
            capsize=2,
            linewidth=1.1,
            zorder=4 if own else 3,
        )

"""Points of Figures 2, 7, 9, 10 and 13: other networks, other priors, other knowledge.

Two kinds of points. *Own model*: every trial trains the model that it attacks, as in the paper.
*Shared*: many trials use the gradients of a few models
(:func:`~reconrisk.attacks.shared_trajectory_attack`), as wide networks and fine grids need.
A task of a sweep is one point, or one point's reconstructions; its seed depends on no computed
number.
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
from scipy import stats

from companion.exhibit import *
from companion.exhibit import BEST
from companion.papers.hayes2023.equal_epsilon import tuned_run
from companion.papers.hayes2023.prior_aware_trials import ABOVE, UNLIKE
from companion.papers.hayes2023.success_intervals import error_bars
from reconrisk import DPSGD, bounds, datasets
from reconrisk.attacks import prior_aware_attack, shared_trajectory_attack, success_interval
from reconrisk.models import Classifier
from reconrisk.training import Weights, accuracy, gradient_factors, train_many

#: standard errors beyond which a difference counts
CLEAR = 4.0
#: largest distance of an attack from the bound that counts as close, or tight
CLOSE = 0.05
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
#: what the paper does at every point
EXACT = "every point: each trial trains its own model"


def data_parameter(quick: str = "MNIST-5000", paper: str = "MNIST") -> Parameter:
    return Parameter("str", quick, paper, paper, "data set of labelled images")


def epsilons(
    quick: tuple[float, ...], paper: tuple[float, ...] = EPSILONS, printed: str = _AXIS
) -> Parameter:
    return Parameter("floats", quick, paper, printed, "epsilon, at delta = 1e-5", low=1e-3)


def trials(quick: int, meaning: str) -> Parameter:
    return Parameter("int", quick, 10000, "10,000", meaning, low=20)


def learning_rates(
    quick: tuple[float, ...], paper: tuple[float, ...], chosen: str = ""
) -> Parameter:
    meaning = f"learning rates tried; the one of best test accuracy {chosen}"
    return Parameter("floats", quick, paper, _RATE, meaning, low=1e-9)


def models(paper: int) -> Parameter:
    return Parameter("int", 2, paper, "not printed", "models per learning rate", low=1)


def common_parameters(known: int = 999, quick: int = 0) -> dict[str, Parameter]:
    """Steps, records and candidates; ``quick`` known records in the quick profile, or as many."""
    return {
        "steps": Parameter("int", 100, 100, "100", "T, steps", low=1),
        "known": Parameter(
            "int",
            quick or known,
            known,
            f"{known} (training size {known + 1})",
            "|D-|, known records",
            low=2,
        ),
        "prior_size": Parameter("int", 10, 10, "10", "n, candidates", low=2),
    }


def shared_parameters() -> dict[str, Parameter]:
    """The shortcut: many trials along the gradients of a few models."""
    every = "not printed: every trial trains its own model"
    return {
        "trajectories": Parameter("int", 3, 10, every, "models that trials share, a point", low=2),
        "shared_trials": Parameter("int", 3000, 20000, every, "trials that share them", low=100),
        "pool": Parameter("int", 200, 500, "all (not printed)", "records for candidates", low=20),
    }


def describe_run(p: Settings, what: str) -> str:
    return (
        f"Networks with one hidden layer on {data_name(p.data)}, {p.known} known records and a "
        f"target, {p.steps} full-batch steps; {what}; lists of {p.prior_size}; {p.trials} trials "
        f"with a model of their own a point, {p.shared_trials} along {p.trajectories} shared "
        "models."
    )


# Data --------------------------------------------------------------------------------------------


@functools.lru_cache(maxsize=4)
def _images(name: str, data_root: str | None, side: int, split: str) -> datasets.LabelledImages:
    return datasets.classified(name, Path(data_root) if data_root else None, split, side=side)


@functools.lru_cache(maxsize=4)
def _features(
    name: str, data_root: str | None, side: int, split: str, count: int, network: str
) -> datasets.LabelledFeatures:
    images, root = _images(name, data_root, side, split), Path(data_root) if data_root else None
    return datasets.features(images, root, count=count, network=network)


def images_of(task: Mapping[str, Any], split: str = "train") -> datasets.LabelledImages:
    """The images of a task, cached in the process."""
    return _images(task["data"], task["data_root"], task["side"], split)


def features_of(task: Mapping[str, Any], split: str = "train") -> datasets.LabelledFeatures:
    """The frozen network's features of a task's images, cached in the process."""
    which = task["data"], task["data_root"], task["side"], split
    return _features(*which, task["features"], task["network"])


def records_of(task: Mapping[str, Any], split: str = "train") -> tuple[torch.Tensor, torch.Tensor]:
    """Inputs (N, d) and labels (N,) of a task: images, or features if it names their number."""
    found = features_of(task, split) if task["features"] else images_of(task, split)
    device = task["device"]
    return torch.as_tensor(found.inputs).to(device), torch.as_tensor(found.labels).to(device)


def split_positions(
    task: Mapping[str, Any], labels: torch.Tensor, generator: torch.Generator
) -> tuple[torch.Tensor, torch.Tensor]:
    """Positions of the known records and of the pool that candidates come from, all distinct."""
    known = task["known"]
    least = known + task["prior_size"]
    if len(labels) < least:
        raise ValueError(
            f"{task['data']} must hold at least {least} records for known = {known} and "
            f"prior_size = {task['prior_size']}; it has {len(labels)}"
        )
    order = torch.randperm(len(labels), generator=generator, device=labels.device)
    return order[:known], order[known : known + task["pool"]]


def noise_prior(
    records: torch.Tensor, classes: int, generator: torch.Generator
) -> tuple[torch.Tensor, torch.Tensor]:
    """Draw as many noise images (N, d) and labels (N,) as there are records.

    Pixels are uniform around 1/2, of the width at which two noise images are as far apart in the
    mean square as two records: two uniform values of width w differ by w^2 / 6 in the mean square,
    two values of one pixel by twice its variance. Hayes et al., Figure 9, ask for "the same
    intra-sample distance statistics" without details.
    """
    width = math.sqrt(12 * float(records.var(dim=0).mean()))
    given = {"generator": generator, "device": records.device}
    drawn = torch.rand(records.shape, dtype=records.dtype, **given)
    labels = torch.randint(classes, (len(records),), **given)
    return 0.5 + width * (drawn - 0.5), labels


# Tasks -------------------------------------------------------------------------------------------


def run_of(task: Mapping[str, Any]) -> DPSGD:
    """The full-batch run at a task's epsilon (None: without noise)."""
    if task["epsilon"] is None:
        return DPSGD(NO_NOISE, 1.0, task["steps"], task["max_grad_norm"])
    return tuned_run(task["epsilon"], 1.0, task["steps"], task["max_grad_norm"])


def generator_of(task: Mapping[str, Any], purpose: str) -> torch.Generator:
    """A task's generator, from ``record_seed`` (the choice of records) or ``draw_seed``."""
    return torch.Generator(device=task["device"]).manual_seed(task[purpose])


def attack_point(task: dict[str, Any]) -> list[dict[str, Any]]:
    """Attack at one point, with each trial's own model or shared ones; a row for each score.

    The task's ``method`` is ``"own model"`` or ``"shared"``, its ``prior`` ``"data"`` or
    ``"noise"``; ``subtract`` says whether known gradients are subtracted. Rows hold the success
    with its 95% interval, and ``gained`` and ``lost``, the trials that only the likelihood, or only
    the sum, got right.
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
        # new known records and candidates for each trajectory, so that intervals hold their spread
        common |= {"trajectories": 1, "trials": task["trials"] // groups}
        found = [
            shared_trajectory_attack(*_given(task, run, chooser), **common) for _ in range(groups)
        ]
    else:
        common |= {"subtract_known": task["subtract"], "trials": task["trials"], "chunk": CHUNK}
        found = [prior_aware_attack(*_given(task, run, chooser), **common)]
    plain, likely = (
        torch.cat([guesses.correct(name) for guesses in found]).cpu().numpy()
        for name in ("sum", "likelihood")
    )
    gained, lost = int((likely & ~plain).sum()), int((plain & ~likely).sum())
    columns = ("score", "success", "low", "high", "gained", "lost")
    return [
        dict(zip(columns, ("sum", *interval(plain, groups), gained, lost), strict=True)),
        dict(zip(columns, ("likelihood", *interval(likely, groups), gained, lost), strict=True)),
    ]


def _given(task: Mapping[str, Any], run: DPSGD, chooser: torch.Generator) -> tuple[Any, ...]:
    """The arguments of an attack: network, run, known records, pool of candidates."""
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

    Of independent trials; or, with ``groups`` equal runs of trials that each share a trajectory,
    Student's interval of the runs' shares, which includes the spread of the trajectories.
    """
    share = float(np.mean(right))
    if not groups:
        return share, *success_interval(int(np.sum(right)), len(right))
    shares = np.array([part.mean() for part in np.array_split(right, groups)])
    reach = float(stats.t.ppf(0.975, groups - 1) * shares.std(ddof=1)) / math.sqrt(groups)
    return share, max(share - reach, 0.0), min(share + reach, 1.0)


def measure_training(task: dict[str, Any]) -> dict[str, float]:
    """Train a few ``models`` and measure their test accuracy and the known gradients' norms.

    ``mean norm`` is the mean of ``min(|g|, C)`` over the known records, steps and models;
    ``clipped`` the share of gradients longer than C.
    """
    inputs, labels = records_of(task)
    run = run_of(task)
    known, pool = split_positions(task, labels, generator_of(task, "record_seed"))
    records = inputs[known], labels[known]
    norms: list[float] = []
    clipped: list[float] = []

    def watch(step: int, weights: Weights, residual: Weights, takes_part: torch.Tensor) -> None:
        squared = gradient_factors(weights, *records).squared_norms()
        norms.append(float(squared.sqrt().clamp(max=run.max_grad_norm).mean()))
        clipped.append(float((squared > run.max_grad_norm**2).double().mean()))

    targets = pool[: task["models"]]
    network = Classifier(inputs.shape[1], task["width"] or None, int(labels.max()) + 1)
    final = train_many(
        *(network, run, *records, inputs[targets], labels[targets]),
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
        **({"network": p.network} if "network" in p else {}),
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
    given |= (
        {"trials": p.shared_trials, "trajectories": p.trajectories}
        if method == "shared"
        else {"trials": p.trials, "trajectories": 0}
    )
    return [point_task(study, epsilon=epsilon, method=method, **given) for epsilon in epsilons]


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
    for epsilon in map(float, epsilons):
        run = tuned_run(epsilon, 1.0, steps)
        sigma, kappa = run.noise_multiplier, 1 / prior_size
        orthogonal, simplex = (
            float(bounds.bayes_success(math.sqrt(steps) / sigma, prior_size, cosine))
            for cosine in (0.0, -1 / (prior_size - 1))
        )
        rows.append(
            {
                "epsilon": epsilon,
                "noise multiplier": sigma,
                "bound": bounds.rero(run, kappa).upper,
                "RDP bound": float(bounds.rero_rdp(sigma, kappa, steps=steps)),
                "orthogonal": orthogonal,
                "simplex": simplex,
            }
        )
    return pd.DataFrame(rows)


def points_and_curves(p: Settings) -> dict[str, pd.DataFrame]:
    """Theory at the figure's own epsilons, and as curves between them."""
    grid = np.geomspace(min(p.epsilons), max(p.epsilons), 41)
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

    A few trajectories that agree by chance must not count as certain.
    """
    from_interval = (float(row["high"]) - float(row["low"])) / (2 * 1.96)
    trials = float(row.get("trials", math.nan))
    # one trial more or less, so that no share is without an error
    share = min(max(float(row["success"]), 1 / trials), 1 - 1 / trials) if trials > 1 else 0.0
    return max(from_interval, math.sqrt(share * (1 - share) / trials) if share else 0.0, 1e-4)


def describe(row: Mapping[str, Any]) -> str:
    """A success to the digits that its error supports."""
    return rounded(float(row["success"]), error_of(row))


def never_above(success: pd.DataFrame, points: pd.DataFrame) -> bool:
    """Whether no point lies above the bound; ``points`` by epsilon.

    Up to its error; that of points that share trajectories is uncertain, so that they must not be
    further above than ``ABOVE``.
    """
    bound = points["bound"].loc[success["epsilon"]].to_numpy()
    errors = np.array([error_of(row) for _, row in success.iterrows()])
    found = success["success"].to_numpy()
    shared = (success["method"] == "shared").to_numpy()
    near = found[shared] <= (1 + ABOVE) * bound[shared]
    return bool((found <= bound + CLEAR * errors).all() and near.all())


def same_trials(clipped: pd.DataFrame) -> bool:
    """Whether sum and likelihood are right in the same trials, where a table has the counts."""
    if "gained" not in clipped:  # records from before they were kept
        return True
    return bool(((clipped["gained"] + clipped["lost"]) / clipped["trials"] < UNLIKE).all())


# Drawing -----------------------------------------------------------------------------------------

POINTS_NOTE = (
    "Filled points: every trial trained its own model. Open points: trials share the gradients of "
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
    handles, _ = axes.get_legend_handles_labels()
    if "shared" in set(success["method"]):
        handles.append(legend_line("hollow: shared models", GREY, "", "o", markerfacecolor="white"))
    handles.append(legend_line("bars: 95% intervals", GREY, "", "|"))
    figure.legend(handles=handles, loc="outside lower center", ncols=2)
    return figure


def epsilon_axis(axes: Axes, table: pd.DataFrame, chance: float | None = None) -> None:
    """Success over epsilon, logarithmic, labelled at the figure's own values."""
    axes.set(xscale="log", xlabel=r"$\varepsilon$", ylim=(-0.02, 1.04))
    ticks = sorted(set(table["epsilon"]))
    axes.set_xticks(ticks, [f"{value:g}" for value in ticks])
    axes.minorticks_off()
    if chance is not None:
        axes.axhline(chance, color=GREY, linewidth=0.9, linestyle=":")


def theory_lines(axes: Axes, curves: pd.DataFrame) -> None:
    """The bound, and the best attack on orthogonal candidates."""
    for drawn, colour, style, label in (
        ("bound", BOUND, "-", "bound (Corollary 4)"),
        ("orthogonal", BEST, "--", "best attack, orthogonal candidates"),
    ):
        axes.plot(curves["epsilon"], curves[drawn], color=colour, linestyle=style, label=label)


def success_points(
    axes: Axes, rows: pd.DataFrame, label: str, colour: str, marker: str = "o", shift: float = 1.0
) -> None:
    """Success with its interval; ``shift`` multiplies epsilon, to keep points apart."""
    axes.plot([], [], color=colour, marker=marker, linestyle="none", markersize=4.5, label=label)
    own = {"markersize": 4.5, "markerfacecolor": colour, "zorder": 4}
    shared = {"markersize": 5.5, "markerfacecolor": "white", "zorder": 3}
    for method, part in rows.groupby("method", sort=False):
        x = part["epsilon"] * shift * (0.985 if method == "shared" else 1.0)
        style = {"fmt": marker, "color": colour, "capsize": 2, "linewidth": 1.1}
        style |= shared if method == "shared" else own
        error_bars(axes, x, part, **style)

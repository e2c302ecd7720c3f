"""Hayes et al. 2023, Figures 2, 7, 9, 10 and 13: other networks, other priors, other knowledge.

Two kinds of points. *Own model*: every trial trains the model that it attacks, as the paper does.
*Shared*: many trials along the gradients of a few models
(:func:`~reconrisk.attacks.shared_trajectory_attack`), which a wide network or a fine grid needs.
A task of a sweep is one point, or one point's reconstructions; it holds no computed number, so
that its draws are the same everywhere.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from scipy import stats

from reconrisk import DPSGD, bounds
from reconrisk.attacks import prior_aware_attack, shared_trajectory_attack, success_interval
from reconrisk.attacks.baselines import conversion_success, nearer_records
from reconrisk.attacks.gradient_matching import match_gradients
from reconrisk.models import Classifier
from reconrisk import datasets
from companion.study.computations import Context, computes
from companion.papers.hayes2023.equal_epsilon import tuned_run
from companion.experiments.tools import as_numpy
from companion.study.results import Result
from companion.study.sweep import as_table, run_sweep
from companion.study.verdicts import Verdict, check, not_run, refute, rounded
from reconrisk.training import (
    Weights,
    accuracy,
    gradient_factors,
    record_trajectories,
    train_many,
)

__all__ = [
    "attack_point",
    "interval",
    "measure_training",
    "noise_prior",
    "rebuild_point",
]

KEY = "hayes2023"

#: standard errors by which a difference has to exceed zero to count
CLEAR = 4.0
#: by how much more an attack has to miss the bound to have fallen behind
WIDER = 0.1
#: by how much one attack has to beat another to be far stronger
FAR = 0.25
#: noise multiplier of training without privacy
NO_NOISE = 1e-9
#: trials whose models are trained together
CHUNK = 128


# Data --------------------------------------------------------------------------------------------


@functools.lru_cache(maxsize=4)
def _images(name: str, data_root: str | None, side: int, split: str) -> datasets.LabelledImages:
    return datasets.classified(name, Path(data_root) if data_root else None, split, side=side)


@functools.lru_cache(maxsize=4)
def _features(
    name: str, data_root: str | None, side: int, split: str, count: int
) -> datasets.LabelledFeatures:
    """What the frozen network makes of the images, kept for the process's next tasks."""
    images = _images(name, data_root, side, split)
    return datasets.features(images, Path(data_root) if data_root else None, count=count)


def _records(task: Mapping[str, Any], split: str = "train") -> tuple[torch.Tensor, torch.Tensor]:
    """Inputs (N, d) and labels (N,) of a task: images, or features if it names their number."""
    where = task["data"], task["data_root"], task["side"], split
    found = _features(*where, task["features"]) if task["features"] else _images(*where)
    device = task["device"]
    return torch.as_tensor(found.inputs).to(device), torch.as_tensor(found.labels).to(device)


def _split(
    task: Mapping[str, Any], records: torch.Tensor, labels: torch.Tensor, generator: torch.Generator
) -> tuple[torch.Tensor, torch.Tensor]:
    """Positions of the known records and of the pool that candidates come from, all distinct."""
    wanted = task["known"] + task["pool"]
    if len(labels) < task["known"] + task["prior_size"]:
        raise ValueError(
            f"{task['data']} must hold at least {task['known'] + task['prior_size']} records for "
            f"known = {task['known']} and prior_size = {task['prior_size']}; it has {len(labels)}"
        )
    order = torch.randperm(len(labels), generator=generator, device=records.device)
    return order[: task["known"]], order[task["known"] : wanted]


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


def _run(task: Mapping[str, Any]) -> DPSGD:
    """The full-batch run at a task's epsilon (None: without noise)."""
    if task["epsilon"] is None:
        return DPSGD(NO_NOISE, 1.0, task["steps"], task["max_grad_norm"])
    return tuned_run(task["epsilon"], 1.0, task["steps"], task["max_grad_norm"])


def _generator(task: Mapping[str, Any], purpose: str) -> torch.Generator:
    return torch.Generator(device=task["device"]).manual_seed(task[purpose])


def attack_point(task: dict[str, Any], seed: int) -> list[dict[str, Any]]:
    """Attack at one point, by models of their own or along shared ones; a row for each score.

    Parameters
    ----------
    task : dict
        ``method`` is ``"own model"`` or ``"shared"``; ``prior`` is ``"data"`` or ``"noise"``;
        ``subtract`` says whether known gradients are subtracted. ``record_seed`` chooses the known
        records and the pool, ``draw_seed`` everything else.
    seed : int
        Not used: conditions that are compared share the task's seeds.

    Returns
    -------
    list of dict
        ``score``, ``success`` (a share), ``low`` and ``high`` (95%), ``trials``; for the
        likelihood ``gained`` and ``lost``, the trials that only it, or only the sum, got right.
    """
    run = _run(task)
    chooser, drawer = _generator(task, "record_seed"), _generator(task, "draw_seed")
    common = {
        "prior_size": task["prior_size"],
        "learning_rate": task["learning_rate"],
        "generator": drawer,
    }
    found = []
    if task["method"] == "shared":
        # known records and candidates anew for each trajectory, so that their spread is seen
        for _ in range(task["trajectories"]):
            trials = task["trials"] // task["trajectories"]
            given = _given(task, run, chooser)
            found.append(shared_trajectory_attack(*given, trajectories=1, trials=trials, **common))
    else:
        given = _given(task, run, chooser)
        found.append(
            prior_aware_attack(
                *given,
                subtract_known=task["subtract"],
                trials=task["trials"],
                chunk=CHUNK,
                **common,
            )
        )
    right = {
        name: torch.cat([guesses.correct(name) for guesses in found]).cpu().numpy()
        for name in ("sum", "likelihood")
    }
    groups = task["trajectories"] if task["method"] == "shared" else 0
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
    inputs, labels = _records(task)
    known, pool = _split(task, inputs, labels, chooser)
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


def measure_training(task: dict[str, Any], seed: int) -> dict[str, float]:
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
    inputs, labels = _records(task)
    test_inputs, test_labels = _records(task, "test")
    run = _run(task)
    known, pool = _split(task, inputs, labels, _generator(task, "record_seed"))
    known_inputs, known_labels = inputs[known], labels[known]
    classifier = Classifier(inputs.shape[1], task["width"] or None, int(labels.max()) + 1)
    norms: list[float] = []
    clipped: list[float] = []

    def watch(step: int, weights: Weights, residual: Weights, takes_part: torch.Tensor) -> None:
        squared = gradient_factors(weights, known_inputs, known_labels).squared_norms()
        norms.append(float(squared.sqrt().clamp(max=run.max_grad_norm).mean()))
        clipped.append(float((squared > run.max_grad_norm**2).double().mean()))

    targets = pool[: task["models"]]
    final = train_many(
        classifier,
        run,
        known_inputs,
        known_labels,
        inputs[targets],
        labels[targets],
        learning_rate=task["learning_rate"],
        generator=_generator(task, "draw_seed"),
        observe=watch,
    )
    right = float(accuracy(final, test_inputs, test_labels).mean())
    return {
        "accuracy": right,
        "mean norm": float(np.mean(norms)),
        "clipped": float(np.mean(clipped)),
    }


def rebuild_point(task: dict[str, Any], seed: int) -> dict[str, float]:
    """Reconstruct targets from a fine-tuned layer's gradients, and name them in random priors.

    The gradient-based attack of eq. (1) searches the image's pixels through the frozen feature map;
    the label is known, as in the paper. Success is averaged exactly over all priors that hold the
    target and ``prior_size - 1`` other images of the pool.

    Returns
    -------
    dict
        ``success``, ``low``, ``high`` (95%, normal, over targets), ``MSE`` of the pixels.
    """
    images = _images(task["data"], task["data_root"], task["side"], "train")
    inputs, labels = _records(task)
    run = _run(task)
    known, pool = _split(task, inputs, labels, _generator(task, "record_seed"))
    targets = pool[: task["targets"]]
    if len(targets) < task["targets"]:
        raise ValueError(f"targets must be at most {len(pool)}, the pool; got {task['targets']}")
    generator = _generator(task, "draw_seed")
    kept = record_trajectories(
        Classifier(inputs.shape[1], None, int(labels.max()) + 1),
        run,
        inputs[known],
        labels[known],
        inputs[targets],
        labels[targets],
        learning_rate=task["learning_rate"],
        generator=generator,
    )
    root = Path(task["data_root"]) if task["data_root"] else None
    network = datasets.feature_map(images.shape, root, count=task["features"])
    found = match_gradients(
        kept.weights,
        kept.residuals,
        run,
        labels[targets],
        generator=generator,
        iterations=task["iterations"],
        feature_map=network.to(task["device"]),
        dimension=images.dimension,
    )
    originals = images.inputs[pool.cpu().numpy()]
    rebuilt = as_numpy(found.inputs)
    nearer = nearer_records(rebuilt, originals[: len(targets)], originals)
    values = conversion_success(nearer, len(originals) - 1, task["prior_size"])
    reach = 1.96 * float(values.std(ddof=1)) / math.sqrt(len(values))
    success = float(values.mean())
    return {
        "success": success,
        "low": max(success - reach, 0.0),
        "high": min(success + reach, 1.0),
        "MSE": float(np.square(rebuilt - originals[: len(targets)]).mean()),
    }


# Points of a figure ------------------------------------------------------------------------------


def _task(context: Context, **given: Any) -> dict[str, Any]:
    """One point's task. Points of one ``purpose`` share their known records and candidates."""
    p = context.settings
    task: dict[str, Any] = {
        "data": p.data,
        "data_root": str(context.data_root) if context.data_root else None,
        "device": context.device,
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
    task["record_seed"] = context.seed_of("records", *key)
    task["draw_seed"] = context.seed_of("draws", *key)
    return task


def _attack_task(context: Context, epsilon: float, method: str, **given: Any) -> dict[str, Any]:
    p = context.settings
    shared = method == "shared"
    return _task(
        context,
        epsilon=epsilon,
        method=method,
        trials=p.shared_trials if shared else p.trials,
        trajectories=p.trajectories if shared else 0,
        **given,
    )


def _sweep(context: Context, function: Any, tasks: Sequence[dict[str, Any]]) -> pd.DataFrame:
    """Run tasks and return their rows without the columns that are the same for all."""
    results = run_sweep(
        function,
        tasks,
        seed=context.seed,
        workers=context.workers,
        scheduler=context.scheduler,
        store=context.checkpoints,
        label=context.exhibit,
    )
    hidden = ["data_root", "device", "record_seed", "draw_seed", "steps", "prior_size", "side"]
    return as_table(tasks, results).drop(columns=hidden)


def _theory(epsilons: Iterable[float], steps: int, prior_size: int) -> pd.DataFrame:
    """The bound and the best success of orthogonal candidates, finely in epsilon; no data."""
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


def _theory_of(context: Context) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Theory at the figure's own epsilons (indexed by them), and as curves between them."""
    p = context.settings
    points = _theory(p.epsilons, p.steps, p.prior_size)
    low, high = min(p.epsilons), max(p.epsilons)
    grid = np.geomspace(low, high, 41) if high > low else np.array([low])
    return points.set_index("epsilon", drop=False), _theory(grid, p.steps, p.prior_size)


def _select(table: pd.DataFrame, **values: Any) -> pd.DataFrame:
    for name, value in values.items():
        table = table[table[name] == value]
    return table


def _one(table: pd.DataFrame, **values: Any) -> pd.Series:
    found = _select(table, **values)
    if len(found) != 1:
        raise ValueError(f"{len(found)} rows for {values}; expected one")
    return found.iloc[0]


def _error(row: Mapping[str, Any]) -> float:
    """Standard error: the 95% interval's, and at least that of as many independent trials.

    Three trajectories that agree by chance must not pass for certainty.
    """
    from_interval = (float(row["high"]) - float(row["low"])) / (2 * 1.96)
    trials = float(row.get("trials", math.nan))
    # as if one trial had gone the other way, so that no share is without an error
    share = min(max(float(row["success"]), 1 / trials), 1 - 1 / trials) if trials > 1 else 0.0
    return max(from_interval, math.sqrt(share * (1 - share) / trials) if share else 0.0, 1e-4)


def _said(row: Mapping[str, Any]) -> str:
    return rounded(float(row["success"]), _error(row))


def _stand_in(context: Context) -> bool:
    """Whether the data are not the paper's."""
    return context.settings.data not in ("MNIST", "CIFAR-10")


# Figure 2: fine-tuning the last layer ------------------------------------------------------------

_WEIGHTS = (
    f"a WRN-28-10 that was trained on ImageNet at 32x32, as {datasets.WEIGHTS_FILE} in data_root, "
    "beside CIFAR-10"
)


@computes(f"{KEY}/fig2", "C-017", "C-018", "C-019", "C-020", "C-031", "E-C-14")
def figure2(context: Context) -> Result:
    """Two attacks against two bounds, on the last layer over a frozen network."""
    p = context.settings
    training = _tuned(context)
    rates = _best_rates(training)
    common = {"width": 0, "max_grad_norm": p.max_grad_norm}
    tasks = [
        _attack_task(context, e, method, learning_rate=rates[e], **common)
        for e in p.epsilons
        for method in ("own model", "shared")
    ]
    prior_aware = _select(_sweep(context, attack_point, tasks), score="sum")
    rebuilt = _sweep(
        context,
        rebuild_point,
        [
            _task(
                context,
                epsilon=e,
                purpose="gradient-based",
                learning_rate=rates[e],
                targets=p.targets,
                iterations=p.iterations,
                **common,
            )
            for e in p.epsilons
        ],
    ).assign(method="gradient-based")
    points, _ = _theory_of(context)
    success = pd.concat([prior_aware, rebuilt], ignore_index=True)
    success = success[["epsilon", "method", "success", "low", "high", "trials", "learning_rate"]]
    train = _features(p.data, _root(context), p.side, "train", p.features)
    stand_in = train.stand_in or _stand_in(context)
    return Result(
        context.exhibit,
        [
            _figure2_order(success, points, stand_in),
            *_figure2_bounds(points),
            _figure2_attacks(success, points, stand_in),
            _figure2_gap(success, points),
            *_figure2_accuracy(training, train),
        ],
        {"success": success, "bounds": points.reset_index(drop=True), "training": training},
        exact=("bounds",),
        ran=f"The last layer over {train.name}, {len(train)} images of {p.data}, trained on "
        f"{p.known} and a target for {p.steps} steps; the learning rate of best test accuracy.",
    )


def _root(context: Context) -> str | None:
    return str(context.data_root) if context.data_root else None


def _tuned(context: Context) -> pd.DataFrame:
    """Test accuracy at every epsilon, and without privacy (None), for every learning rate."""
    p = context.settings
    return _sweep(
        context,
        measure_training,
        [
            _task(
                context,
                epsilon=epsilon,
                purpose="training",
                width=0,
                max_grad_norm=p.max_grad_norm,
                learning_rate=rate,
                models=p.models,
            )
            for epsilon in (*p.epsilons, None)
            for rate in p.learning_rates
        ],
    )


def _best_rates(training: pd.DataFrame) -> dict[float, float]:
    """The learning rate of best accuracy at each epsilon; no privacy has the key nan."""
    best = {}
    for epsilon, rows in training.groupby("epsilon", dropna=False):
        best[float(epsilon)] = float(rows.loc[rows["accuracy"].idxmax(), "learning_rate"])
    return best


def _figure2_order(success: pd.DataFrame, points: pd.DataFrame, stand_in: bool) -> Verdict:
    """From below: gradient-based attack, prior-aware attack, new bound, RDP bound."""
    holds, said = True, []
    for epsilon, row in points.iterrows():
        oblivious = _one(success, epsilon=epsilon, method="gradient-based")
        aware = _one(success, epsilon=epsilon, method="shared")
        own = _one(success, epsilon=epsilon, method="own model")
        slack = CLEAR * math.hypot(_error(oblivious), _error(own))
        holds &= oblivious["success"] <= own["success"] + slack
        holds &= own["success"] <= row["bound"] + CLEAR * _error(own)
        holds &= aware["success"] <= row["bound"] + CLEAR * _error(aware)
        holds &= row["bound"] <= row["RDP bound"] + 1e-12
        said.append(
            f"{_said(oblivious)} / {_said(own)} / {row['bound']:.3f} / {row['RDP bound']:.3f} "
            f"at epsilon = {epsilon:g}"
        )
    return check(
        f"{KEY}/fig2",
        holds,
        "gradient-based attack <= prior-aware attack <= new bound <= RDP bound at every epsilon",
        ours="; ".join(said),
        stand_in=stand_in,
    )


def _figure2_bounds(points: pd.DataFrame) -> list[Verdict]:
    known = {e: points.loc[e] for e in (10.0, 100.0) if e in points.index}
    if len(known) < 2:
        needs = "epsilon = 10 and 100 among the parameter epsilons"
        return [not_run(t, "the RDP bound at 10 and 100", needs) for t in ("C-017", "E-C-14")]
    at10, at100 = known[10.0], known[100.0]
    better = bool((points["bound"] < points["RDP bound"] - 1e-3).any()) and bool(
        (points["bound"] <= points["RDP bound"] + 1e-12).all()
    )
    trivial = at10["RDP bound"] == 1 and at100["RDP bound"] == 1
    corrected = at10["RDP bound"] < 0.99 and at100["RDP bound"] == 1
    ours = (
        f"RDP bound {at10['RDP bound']:.4f} and {at100['RDP bound']:.4g}, new bound "
        f"{at10['bound']:.4f} and {at100['bound']:.4g} at epsilon = 10 and 100"
    )
    paper = "RDP bound trivial at epsilon = 10 and 100"
    return [
        refute(
            "C-017",
            "the new bound is far below the RDP bound, which is one at epsilon = 10 and 100",
            holds=trivial,
            corrected="The new bound is the lower one everywhere, but at epsilon = 10 the RDP "
            "bound still says something, 0.989; at 100 both are one.",
            corrected_holds=better and corrected,
            ours=ours,
            paper=paper,
        ),
        refute(
            "E-C-14",
            "eq. (2) is trivial at epsilon = 10 and 100",
            holds=trivial,
            corrected="At epsilon = 10 eq. (2) gives 0.989; it is one at 100.",
            corrected_holds=corrected,
            ours=ours,
            paper=paper,
        ),
    ]


def _figure2_attacks(success: pd.DataFrame, points: pd.DataFrame, stand_in: bool) -> Verdict:
    """The prior is worth a lot wherever the bound leaves room for it."""
    rows = []
    for epsilon in points.index[points["bound"] > 0.5]:
        aware = _one(success, epsilon=epsilon, method="shared")
        oblivious = _one(success, epsilon=epsilon, method="gradient-based")
        rows.append((epsilon, aware, oblivious))
    clear = all(a["success"] - o["success"] > FAR for _, a, o in rows)
    return check(
        "C-018",
        bool(rows) and clear,
        "with the list of candidates the attack is far stronger, by at least 0.25, wherever the "
        "bound leaves room",
        ours="; ".join(f"{_said(a)} against {_said(o)} at epsilon = {e:g}" for e, a, o in rows),
        stand_in=stand_in,
    )


def _figure2_gap(success: pd.DataFrame, points: pd.DataFrame) -> Verdict:
    """How close attack and bound are, and how close they could be."""
    shared = _select(success, method="shared").set_index("epsilon")
    gaps = points["bound"] - shared["success"]
    least = points["bound"] - points["simplex"]
    worst = float(gaps.idxmax())
    return check(
        "C-019",
        bool(gaps.max() <= 0.05),
        "attack and bound are at most 0.05 apart at every epsilon of the figure",
        ours="gaps "
        + ", ".join(
            f"{rounded(float(g), _error(shared.loc[e]))} at epsilon = {e:g}"
            for e, g in gaps.items()
        ),
        paper="very close to each other in all settings",
        differs=f"At epsilon = {worst:g} even candidates in the best geometry known, a regular "
        f"simplex, leave {least[worst]:.3f}, and orthogonal ones "
        f"{points['bound'][worst] - points['orthogonal'][worst]:.3f}; gradients that point in "
        "similar directions leave more. Only where the bound is near the prior or near one are the "
        "two close.",
    )


def _figure2_accuracy(training: pd.DataFrame, train: datasets.LabelledFeatures) -> list[Verdict]:
    """The printed accuracies can be judged with the pretrained network only."""
    best = {
        (None if math.isnan(float(e)) else float(e)): 100 * float(rows["accuracy"].max())
        for e, rows in training.groupby("epsilon", dropna=False)
    }
    ours = ", ".join(
        f"{value:.0f}% " + ("without privacy" if e is None else f"at epsilon = {e:g}")
        for e, value in best.items()
    )
    if train.stand_in:
        statement = f"accuracy on CIFAR-10; {train.name} reach {ours} here"
        return [not_run(target, statement, _WEIGHTS) for target in ("C-020", "C-031")]
    printed = {1.0: 61.88, 10.0: 89.09, 100.0: 91.27, None: 93.91}
    off = max(abs(best[e] - value) for e, value in printed.items())
    return [
        check(
            "C-020",
            off <= 3,
            "all four test accuracies within three points of the printed ones",
            ours=ours,
            paper=", ".join(f"{v}%" for v in printed.values()),
        ),
        check(
            "C-031",
            min(v for e, v in best.items() if e is None or e >= 10) > 89 - 3,
            "accuracy above 89% for epsilon >= 10, within three points",
            ours=ours,
            paper="> 89%",
        ),
    ]


# Figure 7: width ---------------------------------------------------------------------------------


@computes(f"{KEY}/fig7", "C-036", "C-037", "C-038", "E-C-12")
def figure7(context: Context) -> Result:
    """The same attack on networks of 10, 100 and 1,000 hidden units."""
    p = context.settings
    tasks = [
        _attack_task(context, e, "shared", width=w)
        for w in p.widths
        for e in (p.widest_epsilons if w == max(p.widths) else p.epsilons)
    ]
    tasks += [_attack_task(context, e, "own model", width=min(p.widths)) for e in p.epsilons]
    success = _select(_sweep(context, attack_point, tasks), score="sum")
    success = success[["epsilon", "width", "method", "success", "low", "high", "trials"]]
    points, curves = _theory_of(context)
    shared = _select(success, method="shared").pivot(
        index="epsilon", columns="width", values="success"
    )
    spread = shared.max(axis=1) - shared.min(axis=1)
    worst = float(spread.idxmax())
    widths = [w for w in p.widths if not math.isnan(shared[w][worst])]
    ours = f"largest difference {spread.max():.2f}, at epsilon = {worst:g}: " + ", ".join(
        f"{_said(_one(success, method='shared', epsilon=worst, width=w))} at width {w}"
        for w in widths
    )
    holds = bool(spread.max() < 0.1) and _never_above(success, points)
    return Result(
        context.exhibit,
        [
            check(
                target,
                holds,
                statement,
                ours=ours,
                tolerance="0.1",
                stand_in=_stand_in(context),
            )
            for target, statement in (
                (
                    f"{KEY}/fig7",
                    "the success hardly depends on the width and stays below the bound",
                ),
                ("C-036", "the model's size does not affect the attack's success"),
            )
        ]
        + _figure7_counts(),
        {"success": success, "points": points.reset_index(drop=True), "curves": curves},
        exact=("curves",),
        ran=_ran(context, f"hidden widths {', '.join(map(str, p.widths))}"),
    )


def _never_above(success: pd.DataFrame, points: pd.DataFrame) -> bool:
    """No point lies significantly above the bound."""
    bound = points["bound"].loc[success["epsilon"]].to_numpy()
    errors = np.array([_error(row) for _, row in success.iterrows()])
    return bool((success["success"].to_numpy() <= bound + CLEAR * errors).all())


def _figure7_counts() -> list[Verdict]:
    """Parameters of 784-h-10, counted."""
    counts = {width: Classifier(784, width).parameter_count for width in (10, 100, 1000)}
    ours = ", ".join(f"{c:,}" for c in counts.values())
    paper = "7,960, 79,600 and 796,000"
    return [
        check(
            "C-037",
            counts[10] == 784 * 10 + 10 + 10 * 10 + 10 == 7960,
            "784-10-10 has 7,960 parameters, biases included",
            ours=f"{counts[10]:,}",
            paper="7,960",
        ),
        check(
            "C-038",
            counts[100] == 79510 and counts[1000] == 795010,
            "784-100-10 and 784-1000-10 have other counts than the two printed larger ones",
            ours=ours,
            paper=paper,
        ),
        refute(
            "E-C-12",
            "ten times the width has ten times the parameters",
            holds=counts[100] == 79600 or counts[1000] == 796000,
            corrected="784-100-10 and 784-1000-10 have 79,510 and 795,010: the ten biases of the "
            "output do not grow with the width.",
            corrected_holds=counts[100] == 79510 and counts[1000] == 795010,
            ours=ours,
            paper=paper,
        ),
    ]


def _ran(context: Context, what: str) -> str:
    p = context.settings
    return (
        f"Networks with one hidden layer on {p.data}, {p.known} known records and a target, "
        f"{p.steps} full-batch steps; {what}; lists of {p.prior_size}; {p.trials} trials with a "
        f"model of their own a point, {p.shared_trials} along {p.trajectories} shared models."
    )


# Figure 9: a prior of noise ----------------------------------------------------------------------


@computes(f"{KEY}/fig9", "C-041")
def figure9(context: Context) -> Result:
    """Candidates from the data against candidates that are noise."""
    p = context.settings
    tasks = [
        _attack_task(context, e, method, prior=prior)
        for prior in ("data", "noise")
        for method, epsilons in (("shared", p.epsilons), ("own model", p.exact_epsilons))
        for e in epsilons
    ]
    success = _select(_sweep(context, attack_point, tasks), score="sum")
    success = success[["epsilon", "prior", "method", "success", "low", "high", "trials"]]
    points, curves = _theory_of(context)
    shared = _select(success, method="shared").pivot(
        index="epsilon", columns="prior", values="success"
    )
    apart = (shared["noise"] - shared["data"]).abs()
    below = (points["orthogonal"] - shared.min(axis=1)).max()
    worst = float(apart.idxmax())
    ours = (
        f"at most {apart.max():.2f} apart, at epsilon = {worst:g} (data "
        f"{_said(_one(success, method='shared', epsilon=worst, prior='data'))}, noise "
        f"{_said(_one(success, method='shared', epsilon=worst, prior='noise'))}); at most "
        f"{below:.2f} below orthogonal candidates, "
        f"{(points['bound'] - shared.min(axis=1)).max():.2f} below the bound"
    )
    stand_in = _stand_in(context)
    return Result(
        context.exhibit,
        [
            check(
                target,
                bool(apart.max() < 0.12) and bool(below < 0.15) and _never_above(success, points),
                statement,
                ours=ours,
                tolerance="0.12 apart, 0.15 below orthogonal candidates",
                stand_in=stand_in,
            )
            for target, statement in (
                (
                    f"{KEY}/fig9",
                    "candidates from the data and candidates of noise are named about as often",
                ),
                (
                    "C-041",
                    "the kind of prior makes little difference, and both come close to what "
                    "orthogonal candidates would allow",
                ),
            )
        ],
        {"success": success, "points": points.reset_index(drop=True), "curves": curves},
        exact=("curves",),
        ran=_ran(context, "candidates from the data, or uniform noise as far apart as they are"),
    )


# Figure 10: without knowing the others' gradients ------------------------------------------------


@computes(f"{KEY}/fig10", "C-042")
def figure10(context: Context) -> Result:
    """What it is worth to subtract the known records' gradients."""
    p = context.settings
    tasks = [
        _attack_task(context, e, "own model", known=known, subtract=subtract)
        for known in p.known_sizes
        for e in p.epsilons
        for subtract in (True, False)
    ]
    tasks += [_attack_task(context, e, "shared") for e in p.epsilons]
    success = _select(_sweep(context, attack_point, tasks), score="sum")
    success = success[
        ["epsilon", "known", "subtract", "method", "success", "low", "high", "trials"]
    ]
    points, curves = _theory_of(context)
    few, many = min(p.known_sizes), max(p.known_sizes)
    chance = 1 / p.prior_size

    def column(known: int, subtract: bool) -> pd.Series:
        return _select(success, known=known, subtract=subtract, method="own model").set_index(
            "epsilon"
        )["success"]

    def kept(known: int) -> float:
        """Share of the success beyond chance that is left without subtraction."""
        return float((column(known, False) - chance).sum() / (column(known, True) - chance).sum())

    loss = column(few, True) - column(few, False)
    lost = column(many, False)
    ours = (
        f"|D-| = {few}: {100 * kept(few):.0f}% of the success beyond chance is kept, the largest "
        f"loss is {loss.max():.2f}, at epsilon = {loss.idxmax():g}; |D-| = {many}: "
        f"{lost.mean():.2f} whatever epsilon, against up to {column(many, True).max():.2f} with "
        "subtraction"
    )
    stand_in = _stand_in(context)
    holds = (
        kept(few) > 0.5
        and loss.max() > 0.03
        and kept(many) < 0.25
        and lost[max(p.epsilons)] < chance + 0.2
        and _never_above(success, points)
    )
    return Result(
        context.exhibit,
        [
            check(target, holds, statement, ours=ours, stand_in=stand_in)
            for target, statement in (
                (
                    f"{KEY}/fig10",
                    "without subtraction a few other records do little harm, and many leave "
                    "little more than chance",
                ),
                (
                    "C-042",
                    "without subtraction the attack is a little worse at the smaller |D-|, and at "
                    "the larger loses nearly all, whatever epsilon; it stays a little above chance",
                ),
            )
        ],
        {"success": success, "points": points.reset_index(drop=True), "curves": curves},
        exact=("curves",),
        ran=_ran(context, f"|D-| = {few}, {many} and {p.known}, with and without subtraction"),
    )


# Figure 13: the clipping norm --------------------------------------------------------------------


@computes(f"{KEY}/fig13", f"{KEY}/fig13a", f"{KEY}/fig13b", "C-051", "C-052", "E-C-16")
def figure13(context: Context) -> Result:
    """A clipping norm that clips everything, and one that does not."""
    p = context.settings
    small, large = min(p.clipping_norms), max(p.clipping_norms)
    training = _figure13_training(context, small, large)
    rates = _best_rates(_select(training, max_grad_norm=large))
    own = _best_rates(
        _select(training, max_grad_norm=small)[
            lambda t: t["learning_rate"].isin(_scaled(p.learning_rates, large / small))
        ]
    )
    series = {
        f"C = {large:g}": (large, rates),
        f"C = {small:g}": (small, rates),
        f"C = {small:g}, rate of its own": (small, own),
    }
    success, norms = _figure13_points(context, series, training)
    points, curves = _theory_of(context)
    labels = list(series)
    return Result(
        context.exhibit,
        _figure13_verdicts(context, success, norms, training, points, labels, rates),
        {
            "success": success,
            "norms": norms,
            "training": training,
            "points": points.reset_index(drop=True),
            "curves": curves,
        },
        exact=("curves",),
        ran=_ran(context, f"C = {small:g} and {large:g}, learning rates chosen by test accuracy"),
    )


def _scaled(rates: Iterable[float], factor: float) -> list[float]:
    # rounded, because a product's last bit must not decide whether two rates are the same
    return [float(f"{factor * rate:.6g}") for rate in rates]


def _figure13_training(context: Context, small: float, large: float) -> pd.DataFrame:
    """Accuracy and norms over the learning rates; C = 0.1 with those of C = 1 and ten times them.

    While everything is clipped, C times the learning rate is all that matters to training.
    """
    p = context.settings
    wanted = {large: list(p.learning_rates)}
    wanted[small] = sorted({*p.learning_rates, *_scaled(p.learning_rates, large / small)})
    return _sweep(
        context,
        measure_training,
        [
            _task(
                context,
                epsilon=epsilon,
                purpose="training",
                max_grad_norm=clip,
                learning_rate=rate,
                models=p.models,
            )
            for clip, rates in wanted.items()
            for epsilon in p.epsilons
            for rate in rates
        ],
    )


def _figure13_points(
    context: Context,
    series: Mapping[str, tuple[float, dict[float, float]]],
    training: pd.DataFrame,
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Success and mean norms of every series at every epsilon."""
    p = context.settings
    tasks, names = [], []
    for name, (clip, rates) in series.items():
        exact = p.exact_epsilons if name == next(iter(series)) else ()
        for method, epsilons in (("shared", p.epsilons), ("own model", exact)):
            for e in epsilons:
                tasks.append(
                    _attack_task(context, e, method, max_grad_norm=clip, learning_rate=rates[e])
                )
                names.append(name)
    rows = _sweep(context, attack_point, tasks)
    # two rows a task, one for each score
    success = rows.assign(series=np.repeat(names, 2))
    norms = pd.DataFrame(
        [
            {
                "series": name,
                "epsilon": e,
                "learning rate": rates[e],
                **_one(training, max_grad_norm=clip, epsilon=e, learning_rate=rates[e])[
                    ["accuracy", "mean norm", "clipped"]
                ],
            }
            for name, (clip, rates) in series.items()
            for e in p.epsilons
        ]
    )
    columns = ["series", "epsilon", "method", "score", "success", "low", "high", "trials"]
    return success[[*columns, "gained", "lost"]], norms


def _figure13_verdicts(
    context: Context,
    success: pd.DataFrame,
    norms: pd.DataFrame,
    training: pd.DataFrame,
    points: pd.DataFrame,
    labels: Sequence[str],
    rates: Mapping[float, float],
) -> list[Verdict]:
    p = context.settings
    small, large = min(p.clipping_norms), max(p.clipping_norms)
    first, last = min(p.epsilons), max(p.epsilons)
    unclipped, clipped, tuned = labels
    stand_in = _stand_in(context)

    def norm(name: str, epsilon: float) -> float:
        return float(_one(norms, series=name, epsilon=epsilon)["mean norm"])

    def gap(name: str, epsilon: float) -> float:
        row = _one(success, series=name, epsilon=epsilon, method="shared", score="sum")
        return float(points["bound"][epsilon] - row["success"])

    at_small = _select(norms, series=clipped)["mean norm"]
    all_clipped = bool((at_small > 0.95 * small).all())
    drop = norm(unclipped, first) - norm(unclipped, last)
    falls = drop > 0.2 * large and norm(unclipped, last) < 0.65 * large
    fixed = _select(training, max_grad_norm=large, learning_rate=rates[first]).set_index("epsilon")
    steady = float(fixed["mean norm"][first] - fixed["mean norm"][last])
    by_rate = rates[last] > rates[first] and steady < drop / 2
    shared = _select(success, series=clipped, method="shared", score="sum").set_index("epsilon")
    short = float((points["orthogonal"] - shared["success"]).max())
    to_bound = float((points["bound"] - shared["success"]).max())
    wider = gap(unclipped, last) - gap(clipped, last)
    norms_said = (
        f"C = {small:g}: {at_small.min():.3f} to {at_small.max():.3f}; C = {large:g}: "
        f"{norm(unclipped, first):.2f} at epsilon = {first:g}, {norm(unclipped, last):.2f} at "
        f"{last:g}"
    )
    gaps_said = (
        f"gap to the bound at epsilon = {last:g}: {gap(unclipped, last):.2f} at C = {large:g}, "
        f"{gap(clipped, last):.2f} at C = {small:g}"
    )
    below = _never_above(success, points)
    return [
        check(
            f"{KEY}/fig13",
            all_clipped and falls and wider > WIDER and below,
            "where gradients are shorter than C the attack falls behind the bound",
            ours=gaps_said,
            stand_in=stand_in,
        ),
        check(
            f"{KEY}/fig13a",
            all_clipped and falls,
            f"the mean norm is C at C = {small:g} and falls with epsilon at C = {large:g}",
            ours=norms_said,
            paper="0.1 throughout; from 0.9 to 0.5",
            stand_in=stand_in,
        ),
        check(
            f"{KEY}/fig13b",
            wider > WIDER and below,
            f"the success at C = {large:g} is further below the bound than at C = {small:g}",
            ours=gaps_said,
            stand_in=stand_in,
        ),
        check(
            "C-051",
            all_clipped and short < 0.15,
            f"at C = {small:g} every gradient is clipped and the attack is close to what "
            "orthogonal candidates allow, if the learning rates are those chosen at "
            f"C = {large:g}; rates chosen at C = {small:g} itself leave many unclipped",
            ours=f"mean norm {at_small.min():.3f}; at most {short:.2f} below orthogonal "
            f"candidates, {to_bound:.2f} below the bound; with rates of its own the mean norm is "
            f"{norm(tuned, last):.3f} at epsilon = {last:g}",
            paper="mean norm 0.1, tight",
            tolerance="0.15 below orthogonal candidates",
            stand_in=stand_in,
        ),
        check(
            "C-052",
            falls and by_rate and wider > WIDER,
            f"at C = {large:g} the mean norm falls and the gap widens, because the learning rate "
            "chosen by accuracy grows with epsilon, not because of epsilon itself",
            ours=f"{norm(unclipped, first):.2f} to {norm(unclipped, last):.2f} with rates "
            f"{rates[first]:g} to {rates[last]:g}; at the fixed rate {rates[first]:g} it falls by "
            f"{steady:.2f} only",
            paper="0.9 to 0.5",
            stand_in=stand_in,
        ),
        _figure13_likelihood(context, success, points, unclipped),
    ]


def _figure13_likelihood(
    context: Context, success: pd.DataFrame, points: pd.DataFrame, name: str
) -> Verdict:
    """Which part of the gap is the score's, and which is there for every attack."""
    epsilon = max(context.settings.exact_epsilons)
    likely = _one(success, series=name, epsilon=epsilon, method="own model", score="likelihood")
    plain = _one(success, series=name, epsilon=epsilon, method="own model", score="sum")
    gained, lost = int(likely["gained"]), int(likely["lost"])
    chance = float(stats.binomtest(gained, max(gained + lost, 1), alternative="greater").pvalue)
    recovers = gained + lost > 0 and chance < 1e-3
    bound = float(points["bound"][epsilon])
    # and not all: fully clipped orthogonal candidates would be named more often
    remains = likely["high"] < points["orthogonal"][epsilon]
    return refute(
        "E-C-16",
        "the lower success with unclipped gradients is a real effect, not a weakness of the attack",
        holds=not recovers,
        corrected="Part of it is the attack's: the likelihood score, which subtracts half the "
        "squared norms, recovers that part. As it is the best score there is, only what it leaves "
        "is real.",
        corrected_holds=recovers and bool(remains),
        ours=f"epsilon = {epsilon:g}: sum {_said(plain)}, likelihood {_said(likely)}, bound "
        f"{bound:.3f}",
        paper="conjectured to be a real effect",
    )

"""A learnt prior on paper C's release: all gradients of a DP-SGD run, over epsilon.

Every attacker on the gradients is told the label. So the yardsticks know it too: the mean of other
digits of that label, which looks at no gradient, and a filter with their mean and covariance.
"""

import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
import pandas as pd
import torch
from matplotlib import pyplot as plt
from matplotlib.figure import Figure, SubFigure

from companion.exhibit import *
from companion.exhibit import BLACK
from companion.experiments.informed_adversary import replay_steps
from companion.papers.beyond.learnt_prior import recorded_denoiser
from companion.papers.beyond.record_errors import (
    draw_errors,
    list_ratios,
    name_row,
    ratio_of_means,
    ratios_at_least,
    ratios_at_most,
    standard_error,
)
from reconrisk import DPSGD, attacks, datasets, privacy
from reconrisk.models import Classifier
from reconrisk.training import Trajectories, record_trajectories

_OURS = "our own exhibit"
_PAPER = "as in paper C, Figure 1a"
PARAMETERS = {
    "dataset": Parameter("str", "MNIST-5000", "MNIST-5000", _OURS, "labelled data set of digits"),
    "first": Parameter("int", 4000, 4000, _OURS, "position of the first digit attacked", 10),
    "targets": Parameter("int", 24, 200, _OURS, "digits attacked, a run each", 10),
    "listed": Parameter(
        "int", 1000, 1000, _OURS, "digits from the first attacked on, the list of one attacker", 10
    ),
    "known": Parameter("int", 299, 999, _PAPER, "|D_-|, records known to the attacker", 1),
    "epsilons": Parameter(
        "floats",
        (10.0, 100.0, 1000.0, 10000.0),
        (1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0, 3000.0, 10000.0),
        _PAPER,
        "epsilon of (epsilon, delta)-DP",
        1e-3,
    ),
    "delta": Parameter("float", 1e-5, 1e-5, _PAPER, "delta of (epsilon, delta)-DP", 1e-300),
    "steps": Parameter("int", 100, 100, _PAPER, "T, full-batch steps", 1),
    "max_grad_norm": Parameter("float", 0.1, 0.1, _PAPER, "C, clipping norm", 1e-9),
    "hidden": Parameter("int", 10, 10, _PAPER, "units of the hidden layer", 1),
    "training_rate": Parameter(
        "float", 2.0, 2.0, _OURS, "learning rate; every gradient is clipped", 1e-9
    ),
    "iterations": Parameter("int", 120, 400, _OURS, "steps of eq. (1)'s search", 1),
    "rate": Parameter("float", 0.1, 0.05, _OURS, "learning rate of eq. (1)'s search", 1e-9),
    "shown": Parameter("int", 7, 7, _OURS, "position of the target that is shown", 0),
}
SETTLES = ("O-121", "O-122", "O-143")
#: targets of one task
CHUNK = 25
SEARCH, DIRECT, WIENER, LEARNT, LISTED, MEAN = (
    "eq. (1)",
    "no prior",
    "mean and covariance",
    "denoiser",
    "list with it",
    "mean image",
)
CLASS, BY_CLASS = "mean of the label", "covariance of the label"
_LOOKS = {
    SEARCH: (PURPLE, "P"),
    DIRECT: (GREEN, "D"),
    WIENER: (ORANGE, "^"),
    LEARNT: (BLUE, "s"),
    BY_CLASS: (SKY, "v"),
    LISTED: (RED, "o"),
    CLASS: (BLACK, ""),
    MEAN: (GREY, ""),
}
#: attackers compared record by record
PAIRS = (
    *((LEARNT, SEARCH), (LEARNT, WIENER), (LEARNT, MEAN), (SEARCH, MEAN)),
    *((LISTED, LEARNT), (LISTED, MEAN)),
    *((CLASS, MEAN), (LEARNT, CLASS), (BY_CLASS, CLASS), (LISTED, CLASS), (LEARNT, BY_CLASS)),
)
#: epsilons from which, and up to which, the denoiser is judged, and that up to which nobody gains
PAYS, NOTHING = (100.0, 1000.0), 10.0
#: most of the error of eq. (1)'s search, and of the mean image, that the denoiser leaves
OF_SEARCH, OF_MEAN = 0.5, 0.75
#: least of the error of the label's mean that is left where nobody gains
HIDDEN = 2 / 3
#: least of the mean image's error that a list leaves there, and most that it leaves where the
#: denoiser is judged; both set after a first run
LIST_HIDDEN, LIST_TELLS = 0.4, 0.15

ALTERED = {
    "pairs": {
        "ratio": (
            by(
                "other",
                "errors of the denoiser",
                each="over those of {}",
                where=f"one == '{LEARNT}'",
            ),
            at(f"one == '{BY_CLASS}'", "errors of the label's filter"),
            at(f"one == '{LISTED}'", "errors of the list"),
            at(f"one == '{SEARCH}'", "errors of the search over the mean image's"),
        )
    }
}
SCENARIOS = (
    scenario(
        "a run without the epsilon at which the search fails",
        frame("pairs", lambda t: t[t["epsilon"] != PAYS[0]]),
        *("", "O-121"),
    ),
)


@measurement
def measure(study: Context) -> Tables:
    p = study.parameters
    images = datasets.classified(p.dataset, None, "all")
    targets = images.inputs[p.first :][: p.targets]
    last = p.first + len(targets)
    if p.targets > p.listed:
        raise ValueError(f"targets must be at most the {p.listed} listed; got {p.targets}")
    parts = [slice(at, min(at + CHUNK, last)) for at in range(p.first, last, CHUNK)]
    runs = [
        DPSGD(
            privacy.noise_for_epsilon(epsilon, p.delta, steps=p.steps),
            steps=p.steps,
            max_grad_norm=p.max_grad_norm,
        )
        for epsilon in p.epsilons
    ]
    names = ("dataset", "first", "listed", "known", "hidden", "training_rate", "iterations", "rate")
    tasks = [
        {name: getattr(p, name) for name in names}
        | {
            "run": asdict(run),
            "records": (part.start, part.stop),
            "device": study.device,
            "seeds": {
                "run": study.seed_of("run", epsilon, part.start),
                "search": study.seed_of("search", part.start),
            },
        }
        for epsilon, run in zip(p.epsilons, runs, strict=True)
        for part in parts
    ]
    rebuilt = iter(study.sweep(rebuild, tasks, "rebuilding digits from runs"))
    mean = np.broadcast_to(images.inputs[: p.first].mean(axis=0), targets.shape)
    shown = {"record": images.pictures(targets[[p.shown]])[0]}
    errors, pairs = [], []
    for epsilon, run in zip(p.epsilons, runs, strict=True):
        own = [next(rebuilt) for _ in parts]
        found = {a: np.concatenate([part[a] for part in own]) for a in own[0]} | {MEAN: mean}
        squares = {a: np.square(e - targets).mean(axis=1) for a, e in found.items()}
        sigma = run.noise_multiplier
        errors += [(epsilon, sigma, a, e.mean(), standard_error(e)) for a, e in squares.items()]
        pairs += [(epsilon, *two, *ratio_of_means(*(squares[a] for a in two))) for two in PAIRS]
        shown |= {
            f"{epsilon:g} {a}": images.pictures(np.asarray(e[[p.shown]], dtype=float))[0]
            for a, e in found.items()
        }
    return Tables(
        {
            "errors": pd.DataFrame(
                errors, columns=["epsilon", "sigma", "attacker", "MSE", "standard error"]
            ),
            "pairs": pd.DataFrame(
                pairs, columns=["epsilon", "one", "other", "ratio", "standard error"]
            ),
        },
        images=shown,
        ran=f"{len(targets)} digits of {images.name}, each in a run of {p.steps} full-batch steps "
        f"with {p.known} known records, at {len(p.epsilons)} epsilons.",
    )


def rebuild(task: dict[str, Any]) -> dict[str, np.ndarray]:
    """Train with and rebuild some targets, each in a run of its own.

    Parameters
    ----------
    task : dict
        ``dataset``, ``first`` (records before it are learnt from, the first ``known`` train too),
        ``listed`` (records from ``first`` on that one attacker knows, the target among them),
        ``records`` (first and last + 1), ``run`` (fields of a ``DPSGD``), ``training_rate``,
        ``hidden``, ``iterations`` and ``rate`` of the search, ``device`` and ``seeds``.

    Returns
    -------
    dict of ndarray, shape (targets, N)
        By attacker.
    """
    device, run, known = task["device"], DPSGD(**task["run"]), task["known"]
    images = datasets.classified(task["dataset"], None, "all")
    moments = attacks.second_moments(images.inputs[: task["first"]])
    denoiser = recorded_denoiser().to(device)
    inputs = torch.as_tensor(images.inputs, dtype=torch.float32, device=device)
    labels = torch.as_tensor(np.asarray(images.labels), device=device).long()
    rows = slice(*task["records"])
    seen = record_trajectories(
        Classifier(inputs.shape[1], task["hidden"]),
        run,
        *(inputs[:known], labels[:known], inputs[rows], labels[rows]),
        learning_rate=task["training_rate"],
        generator=torch.Generator(device).manual_seed(task["seeds"]["run"]),
    )
    given = seen.weights, seen.residuals, run, labels[rows]

    learnt_from = as_numpy(labels[: task["first"]])
    of_label = {
        label: attacks.second_moments(images.inputs[: task["first"]][learnt_from == label])
        for label in set(labels[rows].tolist())
    }
    own = [of_label[label] for label in labels[rows].tolist()]
    priors: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
        DIRECT: lambda x_hat, std: x_hat,
        WIENER: functools.partial(_filtered, moments=[moments] * len(own)),
        BY_CLASS: functools.partial(_filtered, moments=own),
        LEARNT: lambda x_hat, std: attacks.denoise(x_hat, std, denoiser),
    }
    search = attacks.match_gradients(
        *given,
        generator=torch.Generator(device).manual_seed(task["seeds"]["search"]),
        iterations=task["iterations"],
        restarts=1,
        learning_rate=task["rate"],
    )
    start = attacks.rank_one_start(seen.residuals)
    found = {
        name: attacks.match_with_prior(*given, prior, start=start) for name, prior in priors.items()
    }
    means = torch.as_tensor(np.stack([of.mean for of in own]))
    found |= {SEARCH: search.inputs, LISTED: _from_list(task, inputs, labels, seen), CLASS: means}
    return {name: as_numpy(x) for name, x in found.items()}


def _filtered(
    x_hat: torch.Tensor, std: torch.Tensor, moments: Sequence[attacks.SecondMoments]
) -> torch.Tensor:
    """Filter each release with the moments of its own."""
    return torch.cat(
        [
            attacks.wiener_filter(x, float(s) / of.mean_square**0.5, of)
            for x, s, of in zip(x_hat.split(1), std, moments, strict=True)
        ]
    )


def _from_list(
    task: dict[str, Any], inputs: torch.Tensor, labels: torch.Tensor, seen: Trajectories
) -> torch.Tensor:
    """Posterior means given a list of digits with the target among them, and its label.

    No attack has a smaller mean squared error on digits drawn from the list.
    """
    run, listed = DPSGD(**task["run"]), slice(task["first"], task["first"] + task["listed"])
    classes = int(labels.max()) + 1
    observer = attacks.StepScoresObserver(inputs[listed], labels[listed], run, classes)
    scores = attacks.likelihood_score(replay_steps(seen, observer), run)
    own = labels[slice(*task["records"])][:, None] == labels[listed]
    return scores.masked_fill(~own, -torch.inf).softmax(dim=1) @ inputs[listed]


def judge(tables: Tables) -> Iterator[Verdict]:
    pairs = tables["pairs"]
    paying = pairs[pairs["epsilon"].between(PAYS[0] / 1.001, PAYS[1] * 1.001)]
    over = {(one, other): paying.query("one == @one and other == @other") for one, other in PAIRS}
    parts = [
        ratios_at_most(over[LEARNT, SEARCH], OF_SEARCH),
        ratios_at_most(over[LEARNT, MEAN], OF_MEAN),
        ratios_at_least(over[SEARCH, MEAN].query("epsilon == @PAYS[0]"), 1.0),
    ]
    both = set(PAYS) <= set(pairs["epsilon"])
    yield from shared_by(
        check(
            "O-121",
            every(both, *parts),
            ours=f"over the search: {list_ratios(over[LEARNT, SEARCH], 'epsilon')}; over the mean "
            f"image: {list_ratios(over[LEARNT, MEAN], 'epsilon')}",
            tolerance="4 standard errors",
            stand_in=tables.stand_in,
            decided_by="more targets",
        ),
        "beyond/prior_on_run",
    )
    hidden = pairs.query("other == @CLASS and epsilon <= @NOTHING")
    beside = {one: hidden.query("one == @one") for one in (LEARNT, BY_CLASS, LISTED)}
    if len(hidden):
        yield check(
            "O-122",
            every(
                ratios_at_least(beside[LEARNT], 1.0),
                *(ratios_at_least(beside[one], HIDDEN) for one in (BY_CLASS, LISTED)),
            ),
            ours="over the mean of the label: "
            + "; ".join(f"{one} {list_ratios(of, 'epsilon')}" for one, of in beside.items()),
            tolerance="4 standard errors",
            stand_in=tables.stand_in,
            decided_by="more targets",
        )
    else:
        claim = registry.claims()["O-122"].claim
        yield not_run("O-122", claim, "a run with the mean of the label")
    listed = pairs.query("one == @LISTED")
    over_mean = listed.query("other == @MEAN")
    few, rest = (
        over_mean.query("epsilon <= @NOTHING"),
        over_mean.query("epsilon >= @PAYS[0] / 1.001"),
    )
    yield check(
        "O-143",
        every(
            len(few) > 0 and len(rest) > 0,
            ratios_at_most(listed.query("other == @LEARNT"), 1.0),
            ratios_at_least(few, LIST_HIDDEN),
            ratios_at_most(rest, LIST_TELLS),
        ),
        ours=f"over the mean image: {list_ratios(over_mean, 'epsilon')}",
        tolerance="4 standard errors",
        stand_in=tables.stand_in,
        decided_by="more targets",
    )


def caption(tables: Tables) -> str:
    p, right = tables.parameters, "right, " if pictures_at_hand(tables) else ""
    return (
        f"A digit in runs of {p.steps} steps, as attackers rebuild it from all gradients: by paper "
        "C's search, from the first layer without a prior, with the mean and covariance of "
        f"{p.first:,} digits or of those of its label, with a denoiser learnt from others, and "
        f"with a list of {p.listed:,} that has it; {right}mean squared errors of {p.targets} "
        "digits with two standard errors. Lines without marks look at no gradient."
    )


def _looks(tables: Tables) -> dict[str, tuple[str, str]]:
    ran = set(tables["errors"]["attacker"])
    return {attacker: look for attacker, look in _LOOKS.items() if attacker in ran}


def _pictures(figure: SubFigure, tables: Tables, epsilons: Sequence[float]) -> None:
    looks = _looks(tables)
    axes = figure.subplots(len(looks), len(epsilons))
    for row, attacker in zip(axes, looks, strict=True):
        for axis, epsilon in zip(row, epsilons, strict=True):
            picture(axis, tables.images[f"{epsilon:g} {attacker}"])
        name_row(row[0], attacker)
    for axis, epsilon in zip(axes[0], epsilons, strict=True):
        axis.set_title(f"{epsilon:g}", fontsize=9)
    figure.suptitle("epsilon =", fontsize=10)


@drawing
def draw(tables: Tables) -> Figure:
    errors = tables["errors"]
    epsilons = sorted(errors["epsilon"].unique())
    if pictures_at_hand(tables):
        figure = plt.figure(figsize=(8.2, 4.8), layout="constrained")
        left, right = figure.subfigures(1, 2, width_ratios=(1, 1.05))
        _pictures(left, tables, epsilons)
    else:
        figure = right = plt.figure(figsize=(5.6, 4.0), layout="constrained")
    axis = right.subplots()
    draw_errors(axis, errors, "epsilon", _looks(tables), 4.5)
    axis.set(xlabel="epsilon", ylabel="mean squared error")
    # once a list names the record its error is that of rounding
    others = errors[errors["attacker"] != LISTED]["MSE"]
    axis.set_ylim(others.min() / 2, 30 * others.max())
    axis.legend(fontsize=8, loc="upper right")
    return figure

"""A learnt prior on paper C's release: all gradients of a DP-SGD run, over epsilon."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
import pandas as pd
import torch
from matplotlib import pyplot as plt
from matplotlib.figure import Figure, SubFigure

from companion.exhibit import *
from companion.experiments.informed_adversary import replayed
from companion.papers.beyond.learnt_prior import recorded_denoiser
from companion.papers.beyond.record_errors import (
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
_LOOKS = {
    SEARCH: (PURPLE, "P"),
    DIRECT: (GREEN, "D"),
    WIENER: (ORANGE, "^"),
    LEARNT: (BLUE, "s"),
    LISTED: (RED, "o"),
    MEAN: (GREY, ""),
}
#: attackers compared record by record
PAIRS = (
    *((LEARNT, SEARCH), (LEARNT, WIENER), (LEARNT, MEAN), (SEARCH, MEAN)),
    *((LISTED, LEARNT), (LISTED, MEAN)),
)
#: epsilons from which, and up to which, the denoiser is judged, and that up to which nobody gains
PAYS, NOTHING = (100.0, 1000.0), 10.0
#: most of the error of eq. (1)'s search, and of the mean image, that the denoiser leaves
OF_SEARCH, OF_MEAN = 0.5, 0.75
#: least of the mean image's error that is left where nobody gains
HIDDEN = 0.8
#: least of the mean image's error that a list leaves there, and most that it leaves where the
#: denoiser is judged; both set after a first run
LIST_HIDDEN, LIST_TELLS = 0.4, 0.15


def _of(one: str, other: str, where: str) -> str:
    """Select the rows of one comparison."""
    return f"one == '{one}' and other == '{other}' and {where}"


_PAYING = f"{PAYS[0]} <= epsilon <= {PAYS[1]}"
FALSIFIERS = (
    graded(
        "errors of the denoiser {} larger",
        column("pairs", "ratio", lambda c, by: c * (1 + by), _of(LEARNT, SEARCH, _PAYING)),
        *("", "O-121"),
        most=9,
    ),
    world(
        "a denoiser that returns the mean image",
        column("pairs", "ratio", lambda c: c * 0 + 1.0, _of(LEARNT, MEAN, _PAYING)),
        *("", "O-121"),
    ),
    world(
        "a search without prior that beats the mean image",
        column("pairs", "ratio", lambda c: c * 0 + 0.5, _of(SEARCH, MEAN, f"epsilon == {PAYS[0]}")),
        *("", "O-121"),
    ),
    world(
        "a run without the epsilon at which the search fails",
        frame("pairs", lambda t: t[t["epsilon"] != PAYS[0]]),
        *("", "O-121"),
    ),
    graded(
        "errors at a small epsilon {} smaller",
        column(
            "pairs",
            "ratio",
            lambda c, by: c * (1 - by),
            _of(LEARNT, MEAN, f"epsilon <= {NOTHING}"),
        ),
        "O-122",
    ),
    graded(
        "a list whose error is {} of the denoiser's more",
        column("pairs", "ratio", lambda c, by: c + by, _of(LISTED, LEARNT, "epsilon > 0")),
        "O-143",
        most=1.5,
        unit="",
    ),
    world(
        "a list that names every digit at any epsilon",
        column("pairs", "ratio", lambda c: c * 0, _of(LISTED, MEAN, f"epsilon <= {NOTHING}")),
        "O-143",
    ),
    world(
        "a list worth no more than the denoiser",
        column("pairs", "ratio", lambda c: c * 0 + 0.44, _of(LISTED, MEAN, _PAYING)),
        "O-143",
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

    def filtered(x_hat: torch.Tensor, std: torch.Tensor) -> torch.Tensor:
        shares = as_numpy(std) / moments.mean_square**0.5
        pairs = zip(x_hat.split(1), shares, strict=True)
        return torch.cat([attacks.wiener_filter(x, float(s), moments) for x, s in pairs])

    priors = {
        DIRECT: lambda x_hat, std: x_hat,
        WIENER: filtered,
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
    found |= {SEARCH: search.inputs, LISTED: _from_list(task, inputs, labels, seen)}
    return {name: as_numpy(x) for name, x in found.items()}


def _from_list(
    task: dict[str, Any], inputs: torch.Tensor, labels: torch.Tensor, seen: Trajectories
) -> torch.Tensor:
    """Posterior means given a list of digits with the target among them, and its label.

    No attack has a smaller mean squared error on digits drawn from the list.
    """
    run, listed = DPSGD(**task["run"]), slice(task["first"], task["first"] + task["listed"])
    classes = int(labels.max()) + 1
    observer = attacks.StepScoresObserver(inputs[listed], labels[listed], run, classes)
    scores = attacks.likelihood_score(replayed(seen, observer), run)
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
            "beyond/prior_on_run",
            every(both, *parts),
            f"at epsilon = {PAYS[0]:g}, where paper C's search errs more than the mean image, and "
            f"at {PAYS[1]:g}, a denoiser on the same gradients errs less than half as much as the "
            "search, and less than three quarters of the mean image",
            ours="over the search: " + _listing(over[LEARNT, SEARCH]) + "; over the mean image: "
            f"{_listing(over[LEARNT, MEAN])}",
            tolerance="4 standard errors",
            stand_in=tables.stand_in,
            decided_by="more targets",
        ),
        "O-121",
    )
    hidden = pairs.query("one == @LEARNT and other == @MEAN and epsilon <= @NOTHING")
    yield check(
        "O-122",
        every(len(hidden), ratios_at_least(hidden, HIDDEN)),
        f"up to epsilon = {NOTHING:g} the learnt prior is not worth much either: more than "
        f"{HIDDEN:.0%} of the mean image's error is left",
        ours=_listing(hidden),
        tolerance="4 standard errors",
        stand_in=tables.stand_in,
        decided_by="more targets",
    )
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
        "who has the record on a list, and its label, errs no more than the denoiser at any "
        f"epsilon; to epsilon = {NOTHING:g} even that leaves {LIST_HIDDEN:.0%} of the mean image's "
        f"error, and from {PAYS[0]:g} on less than {LIST_TELLS:.0%}",
        ours=f"over the mean image: {_listing(over_mean)}",
        tolerance="4 standard errors",
        stand_in=tables.stand_in,
        decided_by="more targets",
    )


def _listing(table: pd.DataFrame) -> str:
    return ", ".join(f"{r['ratio']:.2f} (epsilon = {r['epsilon']:g})" for _, r in table.iterrows())


def caption(tables: Tables) -> str:
    p, right = tables.parameters, "right, " if pictures_at_hand(tables) else ""
    return (
        f"A digit in runs of {p.steps} steps, as attackers rebuild it from all gradients: by paper "
        "C's search, from the first layer without a prior, with the mean and covariance of "
        f"{p.first:,} digits, with a denoiser learnt from others, and with a list of {p.listed:,} "
        f"that has it; {right}mean squared errors of {p.targets} digits with two standard errors."
    )


def _pictures(figure: SubFigure, tables: Tables, epsilons: Sequence[float]) -> None:
    axes = figure.subplots(len(_LOOKS), len(epsilons))
    for row, attacker in zip(axes, _LOOKS, strict=True):
        for axis, epsilon in zip(row, epsilons, strict=True):
            picture(axis, tables.images[f"{epsilon:g} {attacker}"])
        row[0].set_ylabel(
            attacker.replace(" ", "\n", 1), rotation=0, ha="right", va="center", fontsize=8
        )
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
    for attacker, (colour, mark) in _LOOKS.items():
        own = errors[errors["attacker"] == attacker]
        axis.errorbar(
            own["epsilon"],
            own["MSE"],
            2 * own["standard error"] if mark else None,
            color=colour,
            marker=mark,
            ls="-" if mark else "--",
            ms=4.5,
            label=attacker,
        )
    axis.set(xscale="log", yscale="log", xlabel="epsilon", ylabel="mean squared error")
    # once a list names the record its error is that of rounding
    others = errors[errors["attacker"] != LISTED]["MSE"]
    axis.set_ylim(others.min() / 2, 4 * others.max())
    axis.legend(fontsize=8, loc="upper right")
    return figure

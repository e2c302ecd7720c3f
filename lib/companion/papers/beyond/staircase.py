"""A staircase of knowledge: one noisy release of a digit, in the hands of ever better informed."""

import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from matplotlib import pyplot as plt
from matplotlib.figure import Figure

from companion.exhibit import STANDARD_ERRORS
from companion.experiments.tools import as_numpy, data_folder
from companion.papers.beyond.record_errors import (
    ratio_of_means,
    share_of_hits,
    standard_error,
)
from companion.study import Context, Parameter, Tables, Verdict, check, measurement
from companion.study.falsifiers import column, frame, graded, world
from companion.study.verdicts import rounded, within
from companion.style import BLUE, BOUND, RED, drawing, picture
from reconrisk import DPSGD, bounds, datasets, privacy
from reconrisk.attacks import (
    SecondMoments,
    known_scale,
    list_posterior,
    observe,
    posterior_on_sphere,
    second_moments,
    wiener_filter,
)

_OURS = "our own exhibit"
PARAMETERS = {
    "dataset": Parameter("str", "MNIST-5000", "MNIST", _OURS, "labelled images"),
    "others": Parameter("int", 4000, 20_000, _OURS, "other images that attackers know", 10),
    "targets": Parameter("int", 500, 1000, _OURS, "records attacked", 10),
    "repeats": Parameter("int", 4, 10, _OURS, "releases of each record", 1),
    "noise_multiplier": Parameter("float", 0.3, 0.3, _OURS, "sigma", 1e-4),
    "candidates": Parameter("int", 10, 10, _OURS, "records on the shortest list", 2),
    "shown": Parameter("int", 7, 7, _OURS, "position of the record that is shown", 0),
    "delta": Parameter("float", 1e-5, 1e-5, _OURS, "delta of the epsilon shown", 1e-12),
}
SETTLES = ("O-087", "O-088", "O-089")

NOTHING, NORM, MEAN, COVARIANCE = "nothing", "its norm", "the mean", "and covariance"
OTHERS, LISTED, FEW = "all the others", "a list with it", "a short list"
#: knowledge, from the least to the most
STAIRCASE = (NOTHING, NORM, MEAN, COVARIANCE, OTHERS, LISTED, FEW)
#: how near errors must come to their laws, relative, four standard errors included
MARGIN = 0.1

FALSIFIERS = (
    graded(
        "errors {} larger with more knowledge",
        column("stairs", "ratio", lambda c, by: c * (1 + by)),
        *("", "O-087"),
    ),
    world(
        "a covariance that is worth nothing",
        column("stairs", "ratio", lambda c: c.clip(lower=1.0), f"one == '{COVARIANCE}'"),
        *("", "O-087"),
    ),
    graded(
        "errors {} larger",
        column("steps", "MSE", lambda c, by: c * (1 + by), f"step == '{COVARIANCE}'"),
        "O-088",
    ),
    graded(
        "errors {} smaller",
        column("steps", "MSE", lambda c, by: c * (1 - by), f"step == '{NORM}'"),
        "O-088",
    ),
    graded("a bound {} lower", column("named", "bound", lambda c, by: c * (1 - by)), "O-089"),
    world(
        "a short list that is worth no more than a long one",
        frame("named", lambda t: t.assign(share=t["share"].min())),
        "O-089",
    ),
)


@measurement
def measure(study: Context) -> Tables:
    p = study.parameters
    folder = data_folder(study, p.dataset)
    images = datasets.classified(p.dataset, Path(folder) if folder else None, "all")
    known, targets = images.inputs[: p.others], images.inputs[p.others :][: p.targets]
    records = torch.as_tensor(targets, dtype=torch.float64, device=study.device)
    norms = records.norm(dim=1)
    run = DPSGD(p.noise_multiplier, max_grad_norm=0.1 * float(norms.min()))
    moments = second_moments(known)
    # the mean alone: every direction is as likely as any other
    size = moments.mean.size
    isotropic = SecondMoments(moments.mean, np.full(size, moments.variances.mean()), np.eye(size))
    chosen = study.rng("candidates").integers(p.others, size=(len(targets), p.candidates - 1))
    squares: dict[str, list[np.ndarray]] = {step: [] for step in STAIRCASE}
    hits: dict[str, list[np.ndarray]] = {LISTED: [], FEW: []}
    shown = {"original": images.pictures(targets[[p.shown]])[0]}
    for repeat in range(p.repeats):
        x_hat = known_scale(observe(records, run, study.generator("release", repeat)))
        rebuilt = {
            NOTHING: x_hat,
            NORM: posterior_on_sphere(x_hat, p.noise_multiplier, norms),
            MEAN: wiener_filter(x_hat, p.noise_multiplier, isotropic),
            COVARIANCE: wiener_filter(x_hat, p.noise_multiplier, moments),
            **_from_lists(x_hat, records, torch.as_tensor(known, dtype=torch.float64), chosen, run),
        }
        for step, estimate in rebuilt.items():
            squares[step].append(np.square(as_numpy(estimate) - targets).mean(axis=1))
            if repeat == 0:
                shown[step] = images.pictures(as_numpy(estimate)[[p.shown]])[0]
        for step, right in _named(x_hat, records, known, chosen, run).items():
            hits[step].append(right)
    of = {step: np.mean(values, axis=0) for step, values in squares.items()}
    laws = {
        NOTHING: p.noise_multiplier**2 * float(norms.square().mean()),
        NORM: float(
            np.mean(bounds.expected_mse_known_norm(size, p.noise_multiplier, norms.cpu().numpy()))
        ),
        MEAN: isotropic.expected_mse(p.noise_multiplier),
        COVARIANCE: moments.expected_mse(p.noise_multiplier),
    }
    steps = [(s, of[s].mean(), standard_error(of[s]), laws.get(s, math.nan)) for s in STAIRCASE]
    stairs = [
        (one, other, *ratio_of_means(of[one], of[other]))
        for other, one in zip(STAIRCASE[:-1], STAIRCASE[1:], strict=True)
    ]
    lengths = {LISTED: p.others + len(targets), FEW: p.candidates}
    named = [
        (s, n, *share_of_hits(np.stack(hits[s])), bounds.rero(run, 1 / n).upper)
        for s, n in lengths.items()
    ]
    return Tables(
        {
            "steps": pd.DataFrame(steps, columns=["step", "MSE", "standard error", "law"]),
            "stairs": pd.DataFrame(stairs, columns=["one", "other", "ratio", "standard error"]),
            "named": pd.DataFrame(
                named, columns=["step", "length", "share", "standard error", "bound"]
            ),
            "budget": pd.DataFrame({"epsilon": [privacy.epsilon(run, p.delta).upper]}),
        },
        images=shown,
        ran=f"{p.repeats} DP-SGD steps on each of {len(targets)} images of {images.name} at "
        f"sigma = {p.noise_multiplier:g}; attackers know up to {p.others:,} other images.",
    )


def _from_lists(
    x_hat: torch.Tensor,
    records: torch.Tensor,
    known: torch.Tensor,
    chosen: np.ndarray,
    run: DPSGD,
) -> dict[str, torch.Tensor]:
    """The posterior means of those who have the other images, all of them, or a few with it."""
    sigma = run.noise_multiplier
    known = known.to(x_hat.device)
    every = torch.cat([known, records])
    few = torch.stack(
        [
            list_posterior(one, sigma, listed) @ listed
            for one, listed in zip(x_hat, _short_lists(records, known, chosen), strict=True)
        ]
    )
    return {
        OTHERS: list_posterior(x_hat, sigma, known) @ known,
        LISTED: list_posterior(x_hat, sigma, every) @ every,
        FEW: few,
    }


def _short_lists(
    records: torch.Tensor, known: torch.Tensor, chosen: np.ndarray
) -> Iterator[torch.Tensor]:
    """Yield for each record a list of it and the others that were chosen; it comes first."""
    for record, places in zip(records, chosen, strict=True):
        yield torch.cat([record[None], known[torch.as_tensor(places)]])


def _named(
    x_hat: torch.Tensor, records: torch.Tensor, known: np.ndarray, chosen: np.ndarray, run: DPSGD
) -> dict[str, np.ndarray]:
    """Whether each release's record is named from the release alone, without its scale."""
    sigma = run.noise_multiplier
    # the private gradient has the record's direction, and the same noise whatever its length
    unit = _directions(records)
    others = _directions(torch.as_tensor(known, dtype=records.dtype, device=records.device))
    seen = x_hat / records.norm(dim=1, keepdim=True)
    own = torch.arange(len(others), len(others) + len(unit), device=unit.device)
    of_all = list_posterior(seen, sigma, torch.cat([others, unit])).argmax(dim=1) == own
    of_few = [
        int(list_posterior(one, sigma, listed).argmax()) == 0
        for one, listed in zip(seen, _short_lists(unit, others, chosen), strict=True)
    ]
    return {LISTED: as_numpy(of_all), FEW: np.array(of_few)}


def _directions(records: torch.Tensor) -> torch.Tensor:
    return records / records.norm(dim=1, keepdim=True)


def judge(tables: Tables) -> Iterator[Verdict]:
    steps, stairs, named = (tables[name] for name in ("steps", "stairs", "named"))
    mse = dict(zip(steps["step"], steps["MSE"], strict=True))
    spread = dict(zip(steps["step"], steps["standard error"], strict=True))
    fall = stairs["ratio"] + STANDARD_ERRORS * stairs["standard error"] < 1
    for target in ("beyond/staircase", "O-087"):
        yield check(
            target,
            fall.all(),
            "every step of knowledge lowers the mean squared error: the norm, the mean of such "
            "images, their covariance, the other images, a list with the record, a short one",
            ours=", ".join(f"{s} {rounded(mse[s], spread[s])}" for s in STAIRCASE),
            tolerance="4 standard errors",
            stand_in=tables.stand_in,
        )
    lawful = steps.dropna(subset="law")
    ratio, error = lawful["MSE"] / lawful["law"], lawful["standard error"] / lawful["law"]
    yield check(
        "O-088",
        within(ratio, 1.0, error, MARGIN),
        "whoever knows nothing, the norm, the mean or the covariance errs by what the law of that "
        "attacker says: no unbiased one does better by more than a few thousandths, none at its "
        "worst record, no affine one",
        ours="over the law: " + ", ".join(map(rounded, ratio, error)),
        paper="1",
        tolerance=f"{MARGIN:.0%}, 4 standard errors included",
        stand_in=tables.stand_in,
        decided_by="more targets",
    )
    long, few = (named[named["step"] == s].iloc[0] for s in (LISTED, FEW))
    yield check(
        "O-089",
        (named["share"] - STANDARD_ERRORS * named["standard error"] <= named["bound"]).all()
        and few["share"] - STANDARD_ERRORS * few["standard error"]
        > long["share"] + STANDARD_ERRORS * long["standard error"],
        "from the release alone a short list names the record more often than a long one, and "
        "neither more often than paper C's bound for its length allows",
        ours=", ".join(
            f"{row['length']:,} candidates: {rounded(row['share'], row['standard error'])} "
            f"(bound {row['bound']:.3f})"
            for _, row in named.iterrows()
        ),
        tolerance="4 standard errors",
        stand_in=tables.stand_in,
    )


#: what each attacker knows, below its picture
_LABELS = {
    NOTHING: "nothing",
    NORM: "its norm",
    MEAN: "the mean",
    COVARIANCE: "mean and\ncovariance",
    OTHERS: "{others:,}\nothers",
    LISTED: "{all:,}\nwith it",
    FEW: "{few} with it",
}


def caption(tables: Tables) -> str:
    p = tables.parameters
    return (
        f"One release of a digit at a noise multiplier of {p.noise_multiplier:g} (epsilon = "
        f"{tables['budget']['epsilon'][0]:.0f} at delta = {p.delta:g}), as attackers rebuild it "
        "who know more and more of what it may be. Middle: mean squared error over "
        f"{p.targets} records; black bars are what the law of that attacker says. Below: how "
        "often whoever has a list names the record from the release alone; black bars are paper "
        "C's bound for every attack."
    )


@drawing
def draw(tables: Tables) -> Figure:
    p, steps = tables.parameters, tables["steps"]
    figure = plt.figure(figsize=(8.4, 6.6), layout="constrained")
    grid = figure.add_gridspec(3, 8, height_ratios=(1.5, 2.2, 1.7))
    for column_, name in enumerate(("original", *STAIRCASE)):
        picture(figure.add_subplot(grid[0, column_]), tables.images[name])
    figure.axes[0].set_title("the digit", fontsize=9)
    sizes = {"others": p.others, "all": p.others + p.targets, "few": p.candidates}
    labels = [_LABELS[s].format(**sizes) for s in STAIRCASE]
    places = np.arange(len(STAIRCASE))
    errors = figure.add_subplot(grid[1, 1:])
    errors.bar(places, steps["MSE"], width=1, color=BLUE, alpha=0.35)
    errors.step(np.append(places, places[-1] + 1) - 0.5, [*steps["MSE"], steps["MSE"].iloc[-1]],
                where="post", color=BLUE)  # fmt: skip
    errors.hlines(steps["law"], places - 0.35, places + 0.35, color=BOUND, lw=2.4)
    for place, value in zip(places, steps["MSE"], strict=True):
        errors.annotate(f"{value:.2g}", (place, value), (0, 4), textcoords="offset points",
                        ha="center", fontsize=9)  # fmt: skip
    low, high = steps["MSE"].min(), steps["MSE"].max()
    errors.set(yscale="log", ylim=(low / 2, high * 3), xlim=(-0.5, len(places) - 0.5))
    errors.set(ylabel="mean squared error", xticks=places)
    errors.set_xticklabels(labels, fontsize=8.5)
    errors.set_xlabel("what the attacker knows besides the release", fontsize=9)
    shares = figure.add_subplot(grid[2, 1:])
    named = tables["named"].set_index("step").reindex(STAIRCASE)
    shares.bar(places, named["share"], 0.7, color=RED, alpha=0.6)
    shares.errorbar(places, named["share"], 2 * named["standard error"], color=RED, ls="", lw=1.4)
    shares.hlines(named["bound"], places - 0.35, places + 0.35, color=BOUND, lw=2.4)
    shares.set_xlabel("thin lines: two standard errors", fontsize=9)
    shares.annotate("no list,\nnothing to name", (2, 0.5), ha="center", va="center", fontsize=9)
    shares.set(ylim=(0, 1.05), xlim=(-0.5, len(places) - 0.5), ylabel="share named")
    shares.set(xticks=places, xticklabels=[""] * len(places))
    for axis in (errors, shares):
        axis.grid(False, axis="x")
    return figure

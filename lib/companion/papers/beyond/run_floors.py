"""What bounds every attack on a run's gradients, biased ones too, at two learning rates."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
import torch
from matplotlib.figure import Figure

from companion.experiments.informed_adversary import (
    Scene,
    normal_images,
    preferred_candidates,
    scene_of,
    train_targets,
    van_trees_floor,
)
from companion.experiments.tools import as_numpy, data_folder, jointly
from companion.papers.beyond.record_errors import (
    ratio_of_means,
    ratios_at_least,
    ratios_at_most,
    standard_error,
)
from companion.study import Context, Parameter, Tables, Verdict, check, measurement, shared_by
from companion.study.falsifiers import column, frame, graded, world
from companion.style import (
    BLUE,
    BOUND,
    GREEN,
    GREY,
    ORANGE,
    RED,
    drawing,
    legend_above,
    legend_line,
    panels,
)
from reconrisk.attacks import (
    LOSSES,
    SecondMoments,
    first_layer_release,
    linearised_variance,
    match_gradients,
    wiener_filter,
)
from reconrisk.training import Trajectories, accuracy, gradient_factors

_OURS, _PAPER = "our own exhibit", "as in paper C, Figure 1a"
_EPSILONS = (10.0, 100.0, 1000.0)
PARAMETERS = {
    "dataset": Parameter("str", "MNIST-5000", "MNIST", _PAPER, "labelled images"),
    "rates": Parameter("floats", (20.0, 2.0), (20.0, 2.0), "swept, 0.001 to 100", "of DP-SGD", 0),
    "epsilons": Parameter(
        *("floats", _EPSILONS, (1.0, *_EPSILONS, 1e4, 1e5), _PAPER),
        *("epsilon of (epsilon, delta)-DP", 1e-3),
    ),
    "targets": Parameter("int", 24, 1000, "1,000", "images attacked, a run each", 4),
    "searched": Parameter("int", 12, 1000, "1,000", "those that a search attacks", 4),
    "normal": Parameter("int", 48, 100, _OURS, "normal images, a run each", 8),
    "known": Parameter("int", 299, 999, "999", "|D_-|, records known to the attacker", 1),
    "pool": Parameter("int", 1000, 2000, _OURS, "the list: images that may be the target", 100),
    "tested": Parameter("int", 1000, 5000, _OURS, "images for the accuracy", 10),
    "delta": Parameter("float", 1e-5, 1e-5, _PAPER, "delta of (epsilon, delta)-DP", 1e-300),
    "steps": Parameter("int", 100, 100, _PAPER, "T, full-batch steps", 1),
    "max_grad_norm": Parameter("float", 0.1, 0.1, _PAPER, "C, clipping norm", 1e-9),
    "hidden": Parameter("int", 10, 10, _PAPER, "units of the hidden layer", 1),
    "iterations": Parameter("int", 80, 200, _OURS, "iterations of Adam", 1),
    "rate": Parameter("float", 0.1, 0.05, _OURS, "learning rate of Adam", 1e-9),
}
SETTLES = ("O-130", "O-131", "O-132")
SHOWN = ("runs",)
#: targets of one task
CHUNK = 25
#: targets whose Cramer-Rao error is averaged: it needs N x N matrices
LINEARISED = 2

PRINTED, SQUARED, WIENER = "eq. (1)", "squared distance", "mean and covariance"
LISTED, UNBIASED, NORMAL = "list floor", "Cramer-Rao", "van Trees"
#: most of a floor over an attacker's error, and least where the floor is close
MOST, CLOSE = 1.1, 0.6
#: epsilon up to which little is to be had, and from which whoever has the list has the image; what
#: is left of the mean image's error
NOTHING, NAMED, MUCH_LEFT, LITTLE_LEFT = 10.0, 1000.0, 0.5, 0.01
#: epsilon at which the rates are compared, and least ratio of the errors of eq. (1)
COMPARED, WORSE = 1000.0, 1.25
#: shares of clipped gradients that count as all, and as fewer
ALL, FEWER = 0.99, 0.9

FALSIFIERS = (
    graded(
        "errors of the attacks {} smaller",
        column("pairs", "ratio", lambda c, by: c / (1 - by), f"one == '{LISTED}'"),
        *("", "O-130"),
        most=0.99,
    ),
    world(
        "an attack that errs half as much as the list's posterior mean",
        column("pairs", "ratio", lambda c: c * 0 + 2.0, f"one == '{LISTED}'"),
        *("", "O-130"),
    ),
    world(
        "a list that says as little at every epsilon as at the smallest",
        frame("floors", lambda t: t.assign(**{LISTED: t[LISTED].max()})),
        *("", "O-130"),
    ),
    world(
        "a list that says as much at every epsilon as at the largest",
        frame("floors", lambda t: t.assign(**{LISTED: t[LISTED].min()})),
        *("", "O-130"),
    ),
    graded(
        "errors on normal images {} smaller",
        column("pairs", "ratio", lambda c, by: c / (1 - by), f"one == '{NORMAL}'"),
        "O-131",
        most=0.99,
    ),
    graded(
        "errors on normal images {} larger",
        column("pairs", "ratio", lambda c, by: c / (1 + by), f"one == '{NORMAL}'"),
        "O-131",
        most=9,
    ),
    world("the same errors at every rate", column("rates", "ratio", lambda c: c * 0 + 1), "O-132"),
    world(
        "all gradients clipped at every rate",
        column("runs", "clipped share", lambda c: c * 0 + 1),
        "O-132",
    ),
)


@measurement
def measure(study: Context) -> Tables:
    p = study.parameters
    settings = [(rate, epsilon) for rate in p.rates for epsilon in p.epsilons]
    firsts = range(0, p.targets, CHUNK)
    tasks = [
        _task(study, *setting, first=first, count=min(CHUNK, p.targets - first))
        for setting in settings
        for first in firsts
    ]
    found = iter(study.sweep(attack_targets, tasks, "attacks on runs"))
    few = [
        _task(study, *setting, first=0, count=min(LINEARISED, p.targets)) for setting in settings
    ]
    bound = study.sweep(bound_targets, few, "floors of runs")
    runs, errors, floors, pairs, searched = [], [], [], [], {}
    for setting, task, floor in zip(settings, few, bound, strict=True):
        parts = [next(found) for _ in firsts]
        by = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
        run = {name: float(by.pop(name).mean()) for name in ("clipped share", "norm", "accuracy")}
        runs.append((*setting, scene_of(task).run.noise_multiplier, *run.values()))
        left, normal = by.pop(LISTED), np.asarray(floor["errors"])
        errors += [(*setting, a, e.mean(), standard_error(e)) for a, e in by.items()]
        listed = left.mean(), standard_error(left)
        floors.append((*setting, *listed, floor[NORMAL], floor["error"], floor[UNBIASED]))
        pairs += [(*setting, LISTED, a, *ratio_of_means(left[: len(e)], e)) for a, e in by.items()]
        ratio = floor[NORMAL] / normal.mean()
        spread = np.hypot(standard_error(normal) / normal.mean(), floor["error"] / floor[NORMAL])
        pairs.append((*setting, NORMAL, WIENER, ratio, ratio * spread))
        searched[setting] = by[PRINTED]
    slow, fast = min(p.rates), max(p.rates)
    rates = [(e, *ratio_of_means(searched[fast, e], searched[slow, e])) for e in p.epsilons]
    scene = scene_of(tasks[0])
    of = ["rate", "epsilon"]
    return Tables(
        {
            "runs": pd.DataFrame(runs, columns=[*of, "sigma", "clipped share", "norm", "accuracy"]),
            "errors": pd.DataFrame(errors, columns=[*of, "attacker", "MSE", "standard error"]),
            "floors": pd.DataFrame(
                floors,
                columns=[*of, LISTED, f"{LISTED} error", NORMAL, f"{NORMAL} error", UNBIASED],
            ),
            "pairs": pd.DataFrame(pairs, columns=[*of, "one", "other", "ratio", "standard error"]),
            "rates": pd.DataFrame(rates, columns=["epsilon", "ratio", "standard error"]),
            "mean image": pd.DataFrame({"MSE": [_mean_image(scene, p.targets)]}),
        },
        ran=f"{p.targets} images of {scene.images.name}, a search for {p.searched} of them, each "
        f"in a run of {p.steps} full-batch steps with {p.known} known records at {len(p.rates)} "
        f"learning rates and {len(p.epsilons)} epsilons; a list of {p.pool:,} images, of which "
        f"attackers know the label; {p.normal} normal images.",
    )


def _task(study: Context, rate: float, epsilon: float, **given: int) -> dict[str, Any]:
    p = study.parameters
    names = ("hidden", "known", "pool", "tested", "normal", "searched", "delta", "steps")
    return {
        **{name: getattr(p, name) for name in (*names, "max_grad_norm", "iterations", "rate")},
        "data": p.dataset,
        "data_root": data_folder(study, p.dataset),
        **{"side": 32, "features": 0, "device": study.device},
        "training_rate": rate,
        "epsilon": epsilon,
        "selection_seed": study.seed_of("records"),
        "noise_seed": study.seed_of("noise", epsilon, given["first"]),
        **given,
    }


def _mean_image(scene: Scene, targets: int) -> float:
    """The error of the list's mean image."""
    listed = scene.images.inputs[scene.positions("pool")].astype(float)
    return float(np.square(listed[:targets] - listed.mean(axis=0)).mean())


def attack_targets(task: dict[str, Any]) -> dict[str, np.ndarray]:
    """Train with some targets, attack each, and find what the list leaves.

    Parameters
    ----------
    task : dict
        As for :func:`~companion.experiments.informed_adversary.scene_of`, and ``tested``,
        ``searched``, ``iterations`` and ``rate``.

    Returns
    -------
    dict of ndarray, shape (count,)
        Each attacker's squared error a pixel, a search's of the first ``searched``; ``list
        floor``; ``clipped share`` of the steps, mean ``norm`` of the clipped gradient over C, and
        the final model's ``accuracy``.
    """
    scene = scene_of(task)
    stored, pixels, labels = train_targets(scene)
    factors = gradient_factors(stored.weights, pixels[:, None], labels[:, None])
    norms = factors.squared_norms()[..., 0].sqrt() / scene.run.max_grad_norm
    test, _, answers = scene.records(scene.positions("others")[task["pool"] :][: task["tested"]])
    few = slice(0, max(0, task["searched"] - task["first"]))
    seen = [{n: t[:, few] for n, t in w.items()} for w in (stored.weights, stored.residuals)]
    found = {
        name: match_gradients(
            *(*seen, scene.run, labels[few]),
            generator=scene.generator(2),
            loss=LOSSES[name],
            iterations=task["iterations"],
            learning_rate=task["rate"],
        ).inputs
        for name in (PRINTED, SQUARED)
    }
    moments = normal_images(scene, labels[:0]).moments
    found[WIENER] = filtered(scene, stored, labels, moments).clamp(0, 1)
    return {
        **{a: as_numpy((x - pixels[: len(x)]).square().mean(dim=1)) for a, x in found.items()},
        LISTED: preferred_candidates(scene, stored)[LISTED],
        "clipped share": as_numpy((norms >= 1).double().mean(dim=0)),
        "norm": as_numpy(norms.clamp(max=1).mean(dim=0)),
        "accuracy": as_numpy(accuracy(stored.final, test, answers)),
    }


def bound_targets(task: dict[str, Any]) -> dict[str, Any]:
    """Bounds: Cramer-Rao's for the first targets, van Trees' for normal images, with an attack.

    Parameters
    ----------
    task : dict
        As for :func:`attack_targets`, and ``normal``, the number of normal images.
    """
    scene = scene_of(task)
    stored, pixels, labels = train_targets(scene)
    variance = linearised_variance(stored.weights, pixels, labels, scene.run)
    _, _, pool_labels = scene.records(scene.positions("pool"))
    drawn = normal_images(scene, pool_labels[: task["normal"]])
    floor, error = van_trees_floor(scene, drawn)
    estimate = filtered(scene, drawn.stored, drawn.labels, drawn.moments)
    errors = as_numpy((estimate - drawn.pixels).square().mean(dim=1))
    # the mean image's error, whose mean is known, takes most of the images' differences out
    blind = np.square(as_numpy(drawn.pixels) - drawn.moments.mean).mean(axis=1)
    blind_mean = drawn.moments.variances.mean()
    slope = np.cov(errors, blind)[0, 1] / blind.var(ddof=1)
    return {
        UNBIASED: float(variance.mean()),
        NORMAL: floor,
        "error": error,
        "errors": (errors - slope * (blind - blind_mean)).tolist(),
    }


def filtered(
    scene: Scene, stored: Trajectories, labels: torch.Tensor, moments: SecondMoments
) -> torch.Tensor:
    """What mean and covariance make of the first layer's residuals, in three turns, (K, N)."""
    first = stored.residuals["hidden.weight"]
    estimate = torch.as_tensor(moments.mean).to(first).expand(len(labels), -1)
    for _ in range(3):
        given = stored.weights, stored.residuals, scene.run, estimate, labels
        x_hat, std = first_layer_release(*given)
        shares = as_numpy(std) / moments.mean_square**0.5
        pairs = zip(x_hat.split(1), shares, strict=True)
        estimate = torch.cat([wiener_filter(x, float(share), moments) for x, share in pairs])
    return estimate


def judge(tables: Tables) -> Iterator[Verdict]:
    pairs, floors = tables["pairs"], tables["floors"]
    mean = tables["mean image"]["MSE"].iloc[0]
    listed = pairs[pairs["one"] == LISTED]
    early = floors[floors["epsilon"] <= NOTHING * 1.001]
    late = floors[floors["epsilon"] >= NAMED / 1.001]
    both = len(early) > 0 and len(late) > 0
    parts = [
        ratios_at_most(listed, MOST),
        both and ratios_at_least(_of_mean(early, mean), MUCH_LEFT),
        both and ratios_at_most(_of_mean(late, mean), LITTLE_LEFT),
    ]
    yield from shared_by(
        check(
            "beyond/run_floors",
            jointly(*parts),
            "at every rate and epsilon no attack errs less than the posterior of the list "
            f"leaves, which is over half of the mean image's error up to epsilon = {NOTHING:g}, "
            f"and below a hundredth from {NAMED:g} on",
            ours=f"the floor is at most {listed['ratio'].max():.2f} of an attack's error; over the "
            f"mean image's it is {early[LISTED].min() / mean:.2f} or more up to epsilon = "
            f"{NOTHING:g}, {late[LISTED].max() / mean:.1g} or less from {NAMED:g} on",
            tolerance=f"a floor up to {MOST:g} of the error, 4 standard errors included",
            stand_in=tables.stand_in,
            decided_by="more targets",
        ),
        "O-130",
    )
    normal = pairs[pairs["one"] == NORMAL]
    noisy = normal[normal["epsilon"] <= NOTHING * 1.001]
    parts = [ratios_at_most(normal, MOST), len(noisy) > 0 and ratios_at_least(noisy, CLOSE)]
    yield check(
        "O-131",
        jointly(*parts),
        "on normal images with the digits' mean and covariance, an attack that knows these errs by "
        f"no less than van Trees' bound, and up to epsilon = {NOTHING:g} at most "
        f"{1 / CLOSE:.1f} times as much",
        ours=f"bound over error: {normal['ratio'].min():.2f} to {normal['ratio'].max():.2f}",
        tolerance="4 standard errors",
        stand_in=tables.stand_in,
        decided_by="more normal images",
    )
    yield _rates(tables)


def _of_mean(floors: pd.DataFrame, mean: float) -> pd.DataFrame:
    """The list's floor over the mean image's error."""
    return pd.DataFrame(
        {"ratio": floors[LISTED] / mean, "standard error": floors[f"{LISTED} error"] / mean}
    )


def _rates(tables: Tables) -> Verdict:
    """O-132: short gradients are a weaker signal."""
    runs = tables["runs"]
    shares = runs[np.isclose(runs["epsilon"], COMPARED)].set_index("rate")["clipped share"]
    ratio = tables["rates"][np.isclose(tables["rates"]["epsilon"], COMPARED)]
    slow, fast = shares.get(shares.index.min()), shares.get(shares.index.max())
    clipped = len(shares) > 1 and slow >= ALL and fast < FEWER
    return check(
        "O-132",
        ratios_at_least(ratio, WORSE) if clipped else False,
        f"at epsilon = {COMPARED:g} the smaller rate has {ALL:.0%} of the targets' gradients "
        f"clipped, the larger one less than {FEWER:.0%}, and eq. (1) errs more at the larger one, "
        f"at least {WORSE:g} times as much",
        ours=f"{slow:.0%} and {fast:.0%} clipped; errors' ratio {ratio['ratio'].iloc[0]:.1f}"
        if len(shares) > 1
        else "",
        tolerance="4 standard errors",
        stand_in=tables.stand_in,
        decided_by="more targets",
    )


_LOOKS = {PRINTED: (BLUE, "o"), SQUARED: (GREEN, "s"), WIENER: (ORANGE, "^")}
_FLOORS = {UNBIASED: (BLUE, ":"), NORMAL: (RED, "-."), LISTED: (BOUND, "-")}


def caption(tables: Tables) -> str:
    p = tables.parameters
    return (
        f"Mean squared error of three attackers on the same runs, with two standard errors, for "
        f"{p.targets} targets ({p.searched} of a search), and what bounds them. Dotted: unbiased "
        "attacks (Cramer-Rao). Dash-dotted: every attack, on normal images with the digits' mean "
        f"and covariance (van Trees). Solid: every attack, on a digit from a list of {p.pool:,}, "
        "its label known (exact). Grey: the mean image."
    )


@drawing
def draw(tables: Tables) -> Figure:
    errors, floors, runs = tables["errors"], tables["floors"], tables["runs"]
    rates = list(dict.fromkeys(errors["rate"]))
    columns = min(len(rates), 2)
    figure, grid = panels(-(-len(rates) // columns), columns, width=4.4, height=3.5)
    axes = [axis for row in grid for axis in row]
    for axis in axes[len(rates) :]:
        axis.set_axis_off()
    lowest = 0.2 * min(errors["MSE"].min(), floors[NORMAL].min())
    for axis, rate in zip(axes, rates, strict=False):
        axis.axhline(tables["mean image"]["MSE"].iloc[0], color=GREY, linestyle="--", linewidth=1.2)
        own = floors[floors["rate"] == rate]
        for name, (colour, style) in _FLOORS.items():
            axis.plot(own["epsilon"], own[name], color=colour, linestyle=style, linewidth=1.5)
        for attacker, (colour, mark) in _LOOKS.items():
            mine = errors[(errors["rate"] == rate) & (errors["attacker"] == attacker)]
            axis.errorbar(
                mine["epsilon"],
                mine["MSE"],
                2 * mine["standard error"],
                color=colour,
                marker=mark,
                markersize=4.5,
                linewidth=1.2,
                capsize=2.5,
            )
        at = runs[(runs["rate"] == rate) & np.isclose(runs["epsilon"], COMPARED)]
        said = "".join(
            f"\nat epsilon = {row['epsilon']:g}: {row['clipped share']:.0%} clipped, "
            f"accuracy {row['accuracy']:.0%}"
            for _, row in at.iterrows()
        )
        axis.set_title(f"learning rate {rate:g}{said}", loc="left", fontsize=10)
        axis.set(xscale="log", yscale="log", xlabel="epsilon", ylim=(lowest, 4))
    for row in grid:
        row[0].set_ylabel("mean squared error")
    legend_above(
        figure,
        [
            *(legend_line(a, colour, "-", mark) for a, (colour, mark) in _LOOKS.items()),
            legend_line("Cramer-Rao: unbiased attacks", *_FLOORS[UNBIASED]),
            legend_line("van Trees: normal images", *_FLOORS[NORMAL]),
            legend_line("posterior: a list of digits", *_FLOORS[LISTED]),
            legend_line("mean image", GREY, "--"),
        ],
        3,
    )
    return figure

"""What the batch size permits: errors of several attacks, without noise and with little."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import pandas as pd
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from companion.experiments.batch_attacks import Drawn, attack_task, draw_batches
from companion.experiments.federated import DIMENSION, NETWORK, SIDE, Standardised, standardised
from companion.experiments.tools import as_numpy
from companion.papers.beyond.gradient_lengths import gradient_lengths
from companion.study import Context, Parameter, Tables, Verdict, check, measurement, shared_by
from companion.study.falsifiers import column, frame, graded, world
from companion.style import COLOURS, GREY, drawing, legend_above, legend_below, legend_line, panels
from reconrisk.attacks import (
    class_means,
    deep_leakage,
    gaussian_prior_attack,
    invert_gradients,
    span_attack,
)
from reconrisk.metrics import match
from reconrisk.training import Release, Weights, mean_gradient

_OURS = "not printed: our own"
_SIZES = (1, 2, 4, 8, 16, 32, 64, 128), (1, 2, 4, 8, 16, 24, 32, 40, 48, 64, 96, 128)
_NOISES = (0.0, 0.01), (0.0, 1e-3, 1e-2)

PARAMETERS = {
    "digits": Parameter("str", "MNIST-5000", "MNIST", "MNIST", "labelled data set of digits"),
    "batch_sizes": Parameter(
        "ints", *_SIZES, "16, 32, 64, 128", "records of a batch, smallest first", low=1
    ),
    "span_size": Parameter(
        "int", 16, 32, _OURS, "largest batch attacked in the span of the gradient", low=4
    ),
    "leakage_size": Parameter("int", 8, 16, "8", "largest batch attacked by deep leakage", low=1),
    "noises": Parameter(
        "floats", *_NOISES, _OURS, "length of the noise over the gradient's, starting with 0", low=0
    ),
    "draws": Parameter("int", 3, 4, _OURS, "batches attacked at each batch size", low=3),
    "iterations": Parameter("int", 200, 2000, "10,000", "iterations of the attack", low=10),
    "prior_rank": Parameter("int", 8, 15, _OURS, "principal directions in the prior", low=1),
    "prior_steps": Parameter("int", 3, 8, _OURS, "steps of the attack with a prior", low=1),
}
SETTLES = ("O-032",)
_BOTH = ("", "O-032")
FALSIFIERS = (
    world(
        "least squares in the span no better than the published attack",
        frame("errors", lambda t: _as_published(t)),
        *_BOTH,
    ),
    graded(
        "an MSE {} larger in the span of 16 records",
        column(
            "errors",
            "least",
            lambda c, by: c + by,
            "attack == 'least squares in the span' and noise == 0 and n == 16",
        ),
        *_BOTH,
        unit="",
    ),
    graded(
        "errors with a prior {} larger",
        column("errors", "by label", lambda c, by: c * (1 + by), "attack == 'with a prior'"),
        *_BOTH,
    ),
    graded(
        "errors of the published attack {} smaller",
        column("errors", "by label", lambda c, by: c * (1 - by), "attack == 'inverting gradients'"),
        *_BOTH,
    ),
    world("noise changes nothing", frame("errors", lambda t: _as_without_noise(t)), *_BOTH),
    world(
        "a first layer of rank one less",
        column("counts", "rank of the first layer", lambda c: c - 1),
        *_BOTH,
    ),
)

#: MSE in standardised units below which a picture is recovered exactly
_EXACT = 1e-6
#: factors by which the part outside the prior's basis may count more than white noise of its length
_FACTORS = (2.0, 8.0)
#: batch size up to which the search in the span finds what the counts allow
_RECOVERED = 16
#: share of the class means' error that the published attack leaves of the largest batches, at least
_LEFT = 0.5
#: how an attack is drawn: colour and marker
_ATTACKS = {
    "inverting gradients": (COLOURS[0], "o"),
    "the same without variation": (COLOURS[4], "v"),
    "deep leakage": (COLOURS[3], "^"),
    "least squares in the span": (COLOURS[1], "s"),
    "with a prior": (COLOURS[2], "v"),
}
_PUBLISHED, _PLAIN, _LEAKAGE, _SPAN, _PRIOR = _ATTACKS
#: guesses that use no gradient, with their line styles
_GUESSES = {"mean image": "--", "class means": ":", "zeros": "-."}


@measurement
def measure(study: Context) -> Tables:
    p = study.parameters
    if p.noises[0] != 0:
        raise ValueError(f"noises must begin with 0; got {p.noises[0]!r}")
    tasks = []
    budget = {"draws": p.draws, "iterations": p.iterations}
    limits = {k: p[k] for k in ("span_size", "leakage_size", "prior_rank", "prior_steps")}
    for size in p.batch_sizes:
        task = attack_task(study, p.digits, size, [Release("none")], **budget)
        # all noise levels share their random numbers
        task |= {"noise_key": study.seed_of("noise", size), **limits}
        tasks += [task | {"relative_noise": noise} for noise in p.noises]
    results = study.sweep(invert_in_many_ways, tasks, "many attacks")
    rows = [
        row for task, result in zip(tasks, results, strict=True) for row in _summaries(task, result)
    ]
    return Tables(
        {"errors": pd.DataFrame(rows), "counts": _counts(tasks, results)},
        exact=("counts",),
        ran=f"{p.draws} batches of each size of {p.digits}, noise of "
        f"{', '.join(f'{v:g}' for v in p.noises)} of the gradient's length, labels known.",
    )


# One task ----------------------------------------------------------------------------------------


def invert_in_many_ways(task: dict[str, Any]) -> dict[str, Any]:
    """Attack D batches of n records by every attack that is run at this batch size.

    Parameters
    ----------
    task : dict
        That of :func:`~companion.experiments.batch_attacks.attack_task`, and ``relative_noise``,
        ``noise_key``, ``span_size``, ``leakage_size``, ``prior_rank`` and ``prior_steps``.

    Returns
    -------
    dict
        ``"attacks"``: for every attack ``{"matched": (D,), "by label": (D,)}``, MSEs in
        standardised units after the best permutation of all records and of each label's;
        ``"guesses"``: MSEs (D,) of the mean picture, the classes' mean pictures and standardised
        zeros; ``"rank"``, (D,), of the first layer's gradient before noise.
    """
    data = standardised(task["data"], task["data_root"], device=task["device"])
    drawn = draw_batches(task, data)
    inputs = drawn.inputs.double()
    weights = {name: w.double() for name, w in drawn.weights.items()}
    generator = torch.Generator(device=task["device"]).manual_seed(task["noise_key"])
    truth = mean_gradient(weights, inputs, drawn.labels)
    released = add_noise(truth, task["relative_noise"], generator)
    prior = _NormalPrior.of(data, task["prior_rank"])
    rebuilt = _rebuilt(task, data, drawn, weights, released)
    rebuilt[_PRIOR] = prior.attack(
        weights,
        released,
        inputs,
        drawn.labels,
        task["relative_noise"],
        task["prior_steps"],
        generator,
    )
    originals, labels = as_numpy(inputs), as_numpy(drawn.labels)
    attacks = {
        name: {
            "matched": match(originals, as_numpy(found)).mse,
            "by label": matched_by_label(originals, as_numpy(found), labels),
        }
        for name, found in rebuilt.items()
    }
    mean = data.inputs.double().mean(dim=0)
    guessed = (mean, prior.means[drawn.labels], torch.zeros_like(inputs))
    return {
        "attacks": attacks,
        "guesses": {
            name: as_numpy((inputs - guess).square().mean(dim=(1, 2)))
            for name, guess in zip(_GUESSES, guessed, strict=True)
        },
        "rank": as_numpy(torch.linalg.matrix_rank(next(iter(truth.values())), rtol=1e-10)),
    }


def matched_by_label(originals: np.ndarray, found: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """MSE of D batches, (D, n, d), whose records of one label are in unknown order; shape (D,)."""
    return np.array(
        [
            np.concatenate([match(x[own == c], y[own == c]).errors for c in np.unique(own)]).mean()
            for x, y, own in zip(originals, found, labels, strict=True)
        ]
    )


def add_noise(gradients: Weights, relative: float, generator: torch.Generator) -> Weights:
    """Gradients with normal noise of ``relative`` times their length."""
    deviation = relative / math.sqrt(DIMENSION) * gradient_lengths(gradients)[:, None, None]
    return {
        name: g + deviation * torch.empty_like(g).normal_(0, 1, generator=generator)
        for name, g in gradients.items()
    }


def _rebuilt(
    task: Mapping[str, Any], data: Standardised, drawn: Drawn, weights: Weights, released: Weights
) -> dict[str, torch.Tensor]:
    """Reconstructions, (D, n, d), by every attack without a prior."""
    labels, start = drawn.labels, drawn.start
    network, gradient = ({k: t.float() for k, t in part.items()} for part in (weights, released))
    box = ((0 - data.mean) / data.std, (1 - data.mean) / data.std)
    unused = torch.Generator(device=task["device"])
    found = {}
    for name, variation in ((_PUBLISHED, task["total_variation"]), (_PLAIN, 0.0)):
        found[name] = invert_gradients(
            network,
            gradient,
            labels,
            generator=unused,
            iterations=task["iterations"],
            total_variation=variation,
            shape=(SIDE, SIDE),
            box=box,
            start=start,
        ).inputs
    if task["batch_size"] <= task["leakage_size"]:
        found[_LEAKAGE] = deep_leakage(
            weights, released, labels, generator=unused, start=start.double()
        ).inputs
    if task["batch_size"] <= task["span_size"]:
        means = class_means(data.inputs.double(), data.labels, int(data.labels.max()) + 1)
        found[_SPAN] = search_span(
            weights, released, labels, means[labels], start.double(), task["relative_noise"]
        )
    return found


def search_span(
    weights: Weights,
    released: Weights,
    labels: torch.Tensor,
    means: torch.Tensor,
    start: torch.Tensor,
    relative_noise: float,
) -> torch.Tensor:
    """Least squares in the span, (D, n, d), from near the class means and, where that fails, again.

    The attacker notices a failure: the remaining misfit is more than the noise explains.
    """
    inputs = torch.zeros_like(start)
    loss = start.new_full((len(start),), math.inf)
    for share in (0.3, 1.0):
        bad = (loss > 4 * relative_noise**2 + 1e-12).nonzero()[:, 0]
        if not len(bad):
            break
        network, gradient = ({k: t[bad] for k, t in part.items()} for part in (weights, released))
        first = means[bad] + share * start[bad]
        found = span_attack(network, gradient, labels[bad], first, iterations=100)
        better = found.loss < loss[bad]
        inputs[bad[better]] = found.inputs[better]
        loss[bad[better]] = found.loss[better]
    return inputs


@dataclass(frozen=True)
class _NormalPrior:
    """Normal distribution of a class's pictures: its own mean, common principal directions."""

    means: torch.Tensor
    basis: torch.Tensor
    std: torch.Tensor

    @classmethod
    def of(cls, data: Standardised, rank: int) -> Self:
        inputs = data.inputs.double()
        means = class_means(inputs, data.labels, int(data.labels.max()) + 1)
        rest = inputs - means[data.labels]
        values, vectors = torch.linalg.eigh(rest.mT @ rest / len(rest))
        return cls(means, vectors[:, -rank:].mT.contiguous(), values[-rank:].sqrt())

    def attack(
        self,
        weights: Weights,
        released: Weights,
        inputs: torch.Tensor,
        labels: torch.Tensor,
        relative_noise: float,
        steps: int,
        generator: torch.Generator,
    ) -> torch.Tensor:
        """Most probable batches.

        What the basis misses acts as noise in the gradient. The attacker learns its size, and by
        how much it counts more for not being white, from batches of its own, here the other draws.
        """
        means = self.means[labels]
        projected = (inputs - means) @ self.basis.mT @ self.basis + means
        full, part = (mean_gradient(weights, x, labels) for x in (inputs, projected))
        missed = gradient_lengths({name: full[name] - part[name] for name in full}).roll(1)
        noise = relative_noise * gradient_lengths(released)
        found = [
            gaussian_prior_attack(
                weights,
                released,
                labels,
                self.means,
                self.basis,
                self.std,
                noise_std=torch.hypot(factor * missed, noise) / math.sqrt(DIMENSION),
                generator=generator,
                iterations=steps,
            ).inputs
            for factor in _FACTORS
        ]
        errors = [matched_by_label(as_numpy(inputs), as_numpy(x), as_numpy(labels)) for x in found]
        of_others = np.sum(errors, axis=1, keepdims=True) - errors
        return torch.stack(
            [found[best][draw] for draw, best in enumerate(of_others.argmin(axis=0))]
        )


# Tables ------------------------------------------------------------------------------------------


def _summaries(task: Mapping[str, Any], result: Mapping[str, Any]) -> list[dict[str, Any]]:
    """One row per attack or guess: median, least and largest matched MSE over the draws."""
    measured = {name: (m["matched"], m["by label"]) for name, m in result["attacks"].items()}
    measured |= {name: (values, values) for name, values in result["guesses"].items()}
    return [
        {
            "n": task["batch_size"],
            "noise": task["relative_noise"],
            "attack": name,
            "median": float(np.median(matched)),
            "least": float(np.min(matched)),
            "largest": float(np.max(matched)),
            "by label": float(np.mean(by_label)),
        }
        for name, (matched, by_label) in measured.items()
    ]


def _counts(
    tasks: Sequence[Mapping[str, Any]], results: Sequence[Mapping[str, Any]]
) -> pd.DataFrame:
    """Equations and unknowns, of all records and within the span."""
    pairs = zip(tasks, results, strict=True)
    ranks = {task["batch_size"]: int(np.max(result["rank"])) for task, result in pairs}
    inputs, units = NETWORK.widths[:2]
    n = np.array(list(ranks))
    span = np.minimum(n, units)
    columns = {
        "n": n,
        "equations": DIMENSION,
        "unknowns": inputs * n,
        "rank of the first layer": list(ranks.values()),
        "in the span": n <= units,
        # the first layer in the span's coordinates, and the other layers
        "equations in the span": span * units + DIMENSION - inputs * units,
        "unknowns in the span": n * span,
    }
    return pd.DataFrame(columns)


# Verdicts ----------------------------------------------------------------------------------------


def judge(tables: Tables) -> Iterator[Verdict]:
    errors, counts = tables["errors"], tables["counts"]
    clean = errors[errors["noise"] == 0].set_index(["attack", "n"])
    noisy = errors[errors["noise"] == errors["noise"].max()].set_index(["attack", "n"])
    by_label, least = clean["by label"], clean["least"]
    top, tried, exact = counts["n"].max(), least[_SPAN].index.max(), _exact_up_to(least[_SPAN])
    enough = min(_RECOVERED, tried)
    published, by_class = by_label[_PUBLISHED, top], by_label["class means", top]
    middle = [n for n in counts["n"] if 8 <= n <= 64]
    helped = (by_label[_PRIOR] < by_label["class means"]).all()
    missed = min(least[name][[n for n in middle if n >= 16]].min() for name in (_PUBLISHED, _PLAIN))
    span = noisy["median"][_SPAN]
    ended = span.min() > _EXACT and span[enough] > 1e3 * _EXACT
    ranks = counts["rank of the first layer"]
    counted = (ranks == np.minimum(counts["n"], NETWORK.widths[1])).all()
    possible = counts.loc[counts["unknowns"] <= counts["equations"], "n"].max()
    verdict = check(
        "beyond/batch_limits",
        exact >= enough
        and (counted and helped and missed > 1e-3 and ended)
        and published > _LEFT * by_class,
        "the first layer's gradient has rank min(n, 50), so that its span leaves n^2 unknowns "
        f"instead of 256 n: without noise least squares in the span are exact up to n = {enough} "
        "at least, while the published attack recovers no batch of 16 or more; a prior helps at "
        f"every size; noise of {errors['noise'].max():g} of the gradient's length ends exact "
        f"recovery; at {top} the published attack leaves more than half of the error of the "
        "classes' mean pictures",
        ours=f"exact (MSE below {_EXACT:g}) up to n = {exact} of {tried} tried; unknowns exceed "
        f"equations beyond n = {possible}; at {top} the published attack {published:.1f}, with a "
        f"prior {by_label[_PRIOR, top]:.3f}, class means {by_class:.3f}",
        stand_in=tables.stand_in,
    )
    yield from shared_by(verdict, "O-032")


def _as_published(errors: pd.DataFrame) -> pd.DataFrame:
    """The published attack's least errors in the place of those in the span."""
    least = errors[errors["attack"] == _PUBLISHED].set_index(["noise", "n"])["least"]
    places = zip(errors["noise"], errors["n"], strict=True)
    published = [least[place] for place in places]
    return errors.assign(least=errors["least"].mask(errors["attack"] == _SPAN, published))


def _as_without_noise(errors: pd.DataFrame) -> pd.DataFrame:
    """The errors without noise at every noise."""
    clean = errors[errors["noise"] == 0].set_index(["attack", "n"])
    places = list(zip(errors["attack"], errors["n"], strict=True))
    same = {c: [clean[c][place] for place in places] for c in ("median", "least", "largest")}
    return errors.assign(**same)


def _exact_up_to(least: pd.Series) -> int:
    """Largest batch size up to which some batch of every size is recovered."""
    exact = (least.sort_index() < _EXACT).cummin()
    return int(exact[exact].index.max()) if exact.any() else 0


# Picture -----------------------------------------------------------------------------------------

#: smaller errors are drawn at this value
_FLOOR = 1e-12

CAPTION = (
    "MSE of reconstructed pictures over the batch size, known labels, without noise and with noise "
    "of a small share of the gradient's length (median over batches; values below 1e-12 are "
    "drawn there). Grey: guesses that use no gradient. Right: equations and "
    "unknowns, of all pixels and in the span of the first layer's gradient."
)


@drawing
def draw(tables: Tables) -> Figure:
    errors, counts = tables["errors"], tables["counts"]
    figure, (row,) = panels(1, 3, 2.8, 3.9)
    for axis, noise in zip(row, (0.0, errors["noise"].max()), strict=False):
        _errors_panel(axis, errors[errors["noise"] == noise])
        axis.set_title("without noise" if noise == 0 else f"noise {noise:g} of the gradient")
    inside = counts[counts["in the span"]]
    for table, suffix, colour, marker in (
        (counts, "", COLOURS[0], "o"),
        (inside, " in the span", COLOURS[1], "s"),
    ):
        for what, style in (("equations", "-"), ("unknowns", "--")):
            look = {"color": colour, "marker": marker, "ms": 3.5, "label": what + suffix}
            row[2].plot(table["n"], table[what + suffix], style, **look)
    row[2].set(yscale="log", ylabel="numbers")
    legend_below(row[2], 1)
    ticks = [n for n in counts["n"] if n & (n - 1) == 0]
    for axis in row:
        axis.set_xscale("log", base=2)
        axis.set_xticks(ticks, [str(n) for n in ticks])
        axis.minorticks_off()
        axis.set_xlabel("batch size")
    handles = [
        *(legend_line(name, colour, "-", m) for name, (colour, m) in _ATTACKS.items()),
        *(legend_line(name, GREY, style) for name, style in _GUESSES.items()),
    ]
    legend_above(figure, handles, 4)
    return figure


def _errors_panel(axes: Axes, errors: pd.DataFrame) -> None:
    for guess, style in _GUESSES.items():
        part = errors[errors["attack"] == guess]
        axes.plot(part["n"], part["by label"], color=GREY, linestyle=style, linewidth=1.2)
    for name, (colour, marker) in _ATTACKS.items():
        part = errors[errors["attack"] == name]
        axes.plot(part["n"], part["median"].clip(lower=_FLOOR), marker=marker, ms=4.5, color=colour)
    axes.set(yscale="log", ylim=(0.3 * _FLOOR, 30), ylabel="MSE, matched")

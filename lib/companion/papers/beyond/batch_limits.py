"""What a batch allows: error over the batch size by attack, without noise and with little."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from companion.experiments.batch_attacks import attack_task, draw_batches
from companion.experiments.federated import DIMENSION, NETWORK, SIDE, Standardised, standardised
from companion.experiments.tools import as_numpy
from companion.papers.beyond.gradient_lengths import gradient_lengths
from companion.study import Context, Parameter, Tables, Verdict, check, measurement
from companion.style import COLOURS, GREY, drawing, legend_above, legend_line, panels
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

PARAMETERS = {
    "digits": Parameter("str", "digits", "MNIST", "MNIST", "labelled data set of digits"),
    "batch_sizes": Parameter(
        "ints",
        (1, 2, 4, 8, 16, 32, 64, 128),
        (1, 2, 4, 8, 16, 24, 32, 40, 48, 64, 96, 128),
        "16, 32, 64, 128",
        "records of a batch, smallest first",
        low=1,
    ),
    "span_size": Parameter(
        "int", 16, 32, _OURS, "largest batch attacked in the span of the gradient", low=4
    ),
    "leakage_size": Parameter("int", 8, 16, "8", "largest batch attacked by deep leakage", low=1),
    "noises": Parameter(
        "floats",
        (0.0, 0.01),
        (0.0, 1e-3, 1e-2),
        _OURS,
        "length of the noise over that of the gradient, smallest first; 0 is the first",
        low=0.0,
    ),
    "draws": Parameter("int", 3, 4, _OURS, "batches attacked at each batch size", low=3),
    "iterations": Parameter("int", 200, 2000, "10,000", "iterations of the attack", low=10),
    "prior_rank": Parameter("int", 8, 15, _OURS, "principal directions in the prior", low=1),
    "prior_steps": Parameter("int", 3, 8, _OURS, "steps of the attack with a prior", low=1),
}
SETTLES = ("O-032",)

#: MSE in standardised units below which a picture is recovered exactly
_EXACT = 1e-6
#: how an attack is drawn: label, colour and marker
_ATTACKS = {
    "inverting gradients": ("inverting gradients", COLOURS[0], "o"),
    "the same without variation": ("the same without total variation", COLOURS[4], "v"),
    "deep leakage": ("deep leakage", COLOURS[3], "^"),
    "least squares in the span": ("least squares in the span", COLOURS[1], "s"),
    "with a prior": ("with a prior", COLOURS[2], "D"),
}
_PUBLISHED, _PLAIN, _LEAKAGE, _SPAN, _PRIOR = _ATTACKS


@measurement
def measure(study: Context) -> Tables:
    p = study.parameters
    if p.noises[0] != 0:
        raise ValueError(f"noises must begin with 0; got {p.noises[0]!r}")
    tasks = []
    budget = {"draws": p.draws, "iterations": p.iterations}
    for size in p.batch_sizes:
        shared = attack_task(study, p.digits, size, [Release("none")], **budget)
        # all noises share their random numbers
        shared["noise_key"] = study.seed_of("noise", size)
        for name in ("span_size", "leakage_size", "prior_rank", "prior_steps"):
            shared[name] = p[name]
        tasks += [shared | {"relative_noise": noise} for noise in p.noises]
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
    """Attack D batches of n records by every attack that batch size allows.

    Parameters
    ----------
    task : dict
        That of :func:`~companion.experiments.batch_attacks.attack_task`, and ``relative_noise``,
        ``noise_key``, ``span_size``, ``leakage_size``, ``prior_rank`` and ``prior_steps``.

    Returns
    -------
    dict
        ``"attacks"``: for every attack ``{"matched": (D,), "natural": (D,)}``, MSEs in standardised
        units after the best permutation and in the order of the labels; ``"guesses"``: natural MSEs
        (D,) of the mean picture, the classes' mean pictures and the networks' zero; ``"rank"``,
        (D,), of the first layer's gradient before noise.
    """
    data = standardised(task["data"], task["data_root"], device=task["device"])
    drawn = draw_batches(task, data)
    inputs = drawn.inputs.double()
    weights = {name: w.double() for name, w in drawn.weights.items()}
    generator = torch.Generator(device=task["device"]).manual_seed(task["noise_key"])
    truth = mean_gradient(weights, inputs, drawn.labels)
    released = add_noise(truth, task["relative_noise"], generator)
    prior = _NormalPrior.of(data, task["prior_rank"])
    rebuilt = _rebuilt(task, data, drawn.labels, weights, released, drawn.start)
    rebuilt[_PRIOR] = prior.attack(
        weights, released, inputs, drawn.labels, task["relative_noise"], task["prior_steps"]
    )
    originals, attacks = as_numpy(inputs), {}
    for name, found in rebuilt.items():
        values = as_numpy(found)
        natural = np.square(originals - values).mean(axis=(1, 2))
        attacks[name] = {"matched": match(originals, values).mse, "natural": natural}
    guesses = {
        "mean image": data.inputs.double().mean(dim=0),
        "class means": prior.means[drawn.labels],
        "zeros": torch.zeros_like(inputs),
    }
    return {
        "attacks": attacks,
        "guesses": {
            name: as_numpy((inputs - guess).square().mean(dim=(1, 2)))
            for name, guess in guesses.items()
        },
        "rank": as_numpy(torch.linalg.matrix_rank(next(iter(truth.values())), rtol=1e-10)),
    }


def add_noise(gradients: Weights, relative: float, generator: torch.Generator) -> Weights:
    """Gradients with normal noise whose length is a share of their own."""
    deviation = relative / math.sqrt(DIMENSION) * gradient_lengths(gradients)[:, None, None]
    noisy = {}
    for name, g in gradients.items():
        noise = torch.empty_like(g).normal_(0, 1, generator=generator)
        noisy[name] = g + deviation * noise
    return noisy


def _rebuilt(
    task: Mapping[str, Any],
    data: Standardised,
    labels: torch.Tensor,
    weights: Weights,
    released: Weights,
    start: torch.Tensor,
) -> dict[str, torch.Tensor]:
    """Reconstructions, (D, n, d), by every attack without a prior."""
    network, gradient = (
        {name: t.float() for name, t in side.items()} for side in (weights, released)
    )
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
    """Least squares in the span, (D, n, d), from the class means and, where that fails, elsewhere.

    The attacker sees a failure: the misfit left is more than the noise explains.
    """
    best = span_attack(weights, released, labels, means, iterations=100)
    inputs, loss = best.inputs, best.loss
    for share in (0.3, 1.0):
        left = (loss > 4 * relative_noise**2 + 1e-12).nonzero()[:, 0]
        if not len(left):
            break
        again = span_attack(
            {name: w[left] for name, w in weights.items()},
            {name: r[left] for name, r in released.items()},
            labels[left],
            means[left] + share * start[left],
            iterations=100,
        )
        better = again.loss < loss[left]
        inputs[left[better]] = again.inputs[better]
        loss[left[better]] = again.loss[better]
    return inputs


@dataclass(frozen=True)
class _NormalPrior:
    """Normal law of a class's pictures: mean of the class, common principal directions."""

    means: torch.Tensor
    basis: torch.Tensor
    std: torch.Tensor

    @classmethod
    def of(cls, data: Standardised, rank: int) -> _NormalPrior:
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
    ) -> torch.Tensor:
        """Most probable batches.

        What the basis leaves out disturbs the gradient too; how much, the attacker learns from
        batches of its own, here those of the other draws.
        """
        held = (inputs - self.means[labels]) @ self.basis.mT @ self.basis + self.means[labels]
        full, part = (mean_gradient(weights, x, labels) for x in (inputs, held))
        left = gradient_lengths({name: full[name] - part[name] for name in full}).roll(1)
        noise = relative_noise * gradient_lengths(released)
        return gaussian_prior_attack(
            weights,
            released,
            labels,
            self.means,
            self.basis,
            self.std,
            noise_std=torch.hypot(left, noise) / math.sqrt(DIMENSION),
            iterations=steps,
        ).inputs


# Tables ------------------------------------------------------------------------------------------


def _summaries(task: Mapping[str, Any], result: Mapping[str, Any]) -> list[dict[str, Any]]:
    """One row an attack or guess: median, least and largest matched MSE over the draws."""
    measured = {name: (m["matched"], m["natural"]) for name, m in result["attacks"].items()}
    measured |= {name: (values, values) for name, values in result["guesses"].items()}
    return [
        {
            "n": task["batch_size"],
            "noise": task["relative_noise"],
            "attack": name,
            "median": float(np.median(matched)),
            "least": float(np.min(matched)),
            "largest": float(np.max(matched)),
            "natural": float(np.mean(natural)),
        }
        for name, (matched, natural) in measured.items()
    ]


def _counts(
    tasks: Sequence[Mapping[str, Any]], results: Sequence[Mapping[str, Any]]
) -> pd.DataFrame:
    """Equations and unknowns, of all records and within the span."""
    ranks = {
        task["batch_size"]: int(np.max(result["rank"]))
        for task, result in zip(tasks, results, strict=True)
    }
    inputs, units = NETWORK.widths[:2]
    rows = [
        {
            "n": n,
            "equations": DIMENSION,
            "unknowns": inputs * n,
            "rank of the first layer": rank,
            "in the span": n <= units,
            # the first layer in the span's coordinates, and the other layers
            "equations in the span": min(n, units) * units + DIMENSION - inputs * units,
            "unknowns in the span": n * min(n, units),
        }
        for n, rank in ranks.items()
    ]
    return pd.DataFrame(rows)


# Verdicts ----------------------------------------------------------------------------------------


def judge(tables: Tables) -> Iterator[Verdict]:
    errors, counts = tables["errors"], tables["counts"]
    clean = errors[errors["noise"] == 0].set_index(["attack", "n"])
    noisy = errors[errors["noise"] == errors["noise"].max()].set_index(["attack", "n"])
    natural, least = clean["natural"], clean["least"]
    largest = max(n for n in counts["n"] if n <= tables.parameters.span_size)
    top = counts["n"].max()
    within = _exact_up_to(least[_SPAN]) == largest
    published, by_class = natural[_PUBLISHED, top], natural["class means", top]
    yield check(
        "beyond/batch_limits",
        within and published > by_class,
        "without noise, least squares in the span of the gradient recover batches of every size up "
        f"to {largest} exactly; at {top} the published attack is farther from the pictures than "
        "their classes' mean pictures",
        ours=f"published attack {published:.1f}, class means {by_class:.1f} at {top}",
        stand_in=tables.stand_in,
    )
    middle = [n for n in counts["n"] if 8 <= n <= 64]
    helped = (natural[_PRIOR][middle] < natural["class means"][middle]).all()
    missed = min(least[name][[n for n in middle if n >= 16]].min() for name in (_PUBLISHED, _PLAIN))
    undone = noisy["median"][_SPAN]
    ended = undone.min() > _EXACT and undone[largest] > 1e3 * _EXACT
    ranks = counts["rank of the first layer"]
    counted = (ranks == np.minimum(counts["n"], NETWORK.widths[1])).all()
    possible = counts.loc[counts["unknowns"] <= counts["equations"], "n"].max()
    yield check(
        "O-032",
        within and counted and helped and missed > 1e-3 and ended,
        "the first layer's gradient has rank min(n, 50), so that n^2 numbers are sought in place "
        f"of 256 n: exact up to n = {largest}, while the published attack recovers no batch of 16 "
        "or more; a prior helps where the span does not; noise of "
        f"{errors['noise'].max():g} of the gradient's length ends exact recovery",
        ours=f"exact: MSE below {_EXACT:g}; unknowns exceed equations beyond n = {possible}; at "
        f"{top} with a prior {natural[_PRIOR, top]:.3f}, class means {by_class:.3f}",
        stand_in=tables.stand_in,
    )


def _exact_up_to(least: pd.Series) -> int:
    """Largest batch size up to which some batch of every size is recovered."""
    exact = (least.sort_index() < _EXACT).cummin()
    return int(exact[exact].index.max()) if exact.any() else 0


# Picture -----------------------------------------------------------------------------------------

#: smaller errors are drawn here
_FLOOR = 1e-12

CAPTION = (
    "What a batch allows: MSE of reconstructed pictures over the batch size, known labels, without "
    "noise and with noise of a small share of the gradient's length (median over batches, bars "
    "from least to largest; values below 1e-12 are drawn there). Grey: guesses that see no "
    "gradient. Right: equations and unknowns, of all pixels and in the span of the first layer's "
    "gradient."
)


def alt(tables: Tables) -> str:
    errors, counts = tables["errors"], tables["counts"]
    clean = errors[errors["noise"] == 0].set_index(["attack", "n"])["least"]
    span, published, leakage = (_exact_up_to(clean[a]) for a in (_SPAN, _PUBLISHED, _LEAKAGE))
    enough = int(counts["equations"].iloc[0] / (counts["unknowns"] / counts["n"]).iloc[0])
    return (
        "Left: without noise, least squares in the span recover batches of up to "
        f"{span}, every size tried, exactly; deep leakage does {_up_to(leakage)}, inverting "
        f"gradients {_up_to(published)}, and their errors rise above the class means. Middle: with "
        "noise no attack is exact. Right: the number of pixels passes the "
        f"{counts['equations'].iloc[0]:,} equations beyond a batch of {enough}; unknowns in the "
        f"span stay below theirs up to {NETWORK.widths[1]}."
    )


def _up_to(size: int) -> str:
    return f"up to {size}" if size else "at no size"


@drawing
def draw(tables: Tables) -> Figure:
    errors, counts = tables["errors"], tables["counts"]
    figure, (row,) = panels(1, 3, 3.4, 3.3)
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
    row[2].legend(loc="lower right", fontsize=7.5)
    ticks = [n for n in counts["n"] if n & (n - 1) == 0]
    for axis in row:
        axis.set_xscale("log", base=2)
        axis.set_xticks(ticks, [str(n) for n in ticks])
        axis.minorticks_off()
        axis.set_xlabel("batch size")
    handles = [
        *(legend_line(label, colour, "-", m) for label, colour, m in _ATTACKS.values()),
        legend_line("mean picture", GREY, "--"),
        legend_line("class means", GREY, ":"),
        legend_line("zeros", GREY, "-."),
    ]
    legend_above(figure, handles, 4)
    return figure


def _errors_panel(axes: Axes, errors: pd.DataFrame) -> None:
    for guess, style in (("mean image", "--"), ("class means", ":"), ("zeros", "-.")):
        part = errors[errors["attack"] == guess]
        axes.plot(part["n"], part["natural"], color=GREY, linestyle=style, linewidth=1.2)
    for name, (_, colour, marker) in _ATTACKS.items():
        part = errors[errors["attack"] == name]
        middle, low, high = (
            np.maximum(part[column].to_numpy(), _FLOOR) for column in ("median", "least", "largest")
        )
        axes.errorbar(
            part["n"], middle, yerr=[middle - low, high - middle], color=colour, marker=marker,
            ms=4.5, capsize=2, elinewidth=0.9, linewidth=1.2,
        )  # fmt: skip
    axes.set(yscale="log", ylim=(0.3 * _FLOOR, 30), ylabel="MSE, matched")

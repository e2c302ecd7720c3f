"""Who is exact where: sparse directions, the tensor attack and least squares on one network."""

import dataclasses
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
import torch
from matplotlib import pyplot as plt
from matplotlib.figure import Figure

from companion.experiments.tools import MNIST
from companion.study import Context, Parameter, Tables, Verdict, check, measurement, shared_by
from companion.study.falsifiers import column, constant, graded, world
from companion.style import BLACK, BLUE, GREEN, GREY, ORANGE, drawing, legend_line
from reconrisk import attacks, bounds, datasets
from reconrisk.metrics import match
from reconrisk.two_layer import TwoLayer, gradient_jacobians, release_output_gradient

_OURS = "our own exhibit"
PARAMETERS = {
    "digits": Parameter("str", "MNIST-5000", "MNIST-5000", _OURS, "labelled data set of digits"),
    "side": Parameter("int", 7, 7, _OURS, "pixels a side, by averaging; divides 28", low=2),
    "batch_size": Parameter("int", 4, 4, _OURS, "records", low=2),
    "widths": Parameter(
        "ints",
        (128, 2048, 8192),
        (128, 256, 512, 1024, 2048, 8192, 32768, 131072),
        _OURS,
        "neurons of the network without noise",
        low=16,
    ),
    "width": Parameter("int", 8192, 8192, _OURS, "neurons of the network with noise", low=64),
    "seen_units": Parameter(
        "int", 1024, 1024, _OURS, "most neurons that sparse directions use", low=16
    ),
    "noises": Parameter(
        "floats",
        (1e-4, 1e-3, 1e-2, 0.1),
        (1e-5, 1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 0.1, 1.0),
        _OURS,
        "noise multipliers of one step",
        1e-9,
    ),
    "draws": Parameter("int", 2, 20, _OURS, "batches at each width and noise", low=2),
}
SETTLES = ("O-119", "O-120")
#: error of directions that is rounding; smaller ones are stored as _LEAST
EXACT, _LEAST = 1e-6, 1e-9
#: released entries to an unknown from which least squares are judged
ENTRIES = 10
#: error that no attack which is called inexact goes below
INEXACT = 0.01
#: how near errors of least squares come to the floor, and up to which floor; beyond it, wrong fits
#: explain some releases as well as the right one
FLOOR, SMALL = 0.25, 0.05
#: floor up to which least squares are of use
USEFUL = 0.2
#: noise multipliers up to which sparse directions are found, and from which they are refused
EASY, HOPELESS = 1e-4, 1e-2
SPARSE, TENSOR, SQUARES = "sparse directions", "tensor attack", "least squares"
_LOOK = {SPARSE: (BLUE, "o"), TENSOR: (ORANGE, "^"), SQUARES: (GREEN, "s")}


FALSIFIERS = (
    world("an exact tensor attack", column("widths", TENSOR, constant(_LEAST)), *("", "O-119")),
    world(
        "least squares that need no entries", column("widths", SQUARES, constant(_LEAST)), "O-119"
    ),
    world("least squares that never fit", column("widths", SQUARES, constant(0.3)), "O-119"),
    world("sparse directions that err", column("widths", SPARSE, constant(0.3)), *("", "O-119")),
    world(
        "sparse directions under any noise",
        column("noise", "certified", constant(1.0)),
        "O-120",
    ),
    world(
        "sparse directions under no noise",
        column("noise", "certified", constant(0.0)),
        "O-120",
    ),
    world("a tensor attack as good", column("noise", TENSOR, constant(_LEAST)), "O-120"),
    world(
        "least squares worse than the mean record",
        column("noise", SQUARES, constant(0.7), f"`noise multiplier` >= {HOPELESS}"),
        "O-120",
    ),
    graded(
        "least squares {} above their floor",
        column("noise", SQUARES, lambda c, by: c * (1 + by)),
        "O-120",
    ),
    graded(
        "least squares {} below their floor",
        column("noise", SQUARES, lambda c, by: c * (1 - by)),
        "O-120",
    ),
)


@dataclasses.dataclass(frozen=True)
class Batch:
    """A batch of digits and a network of ReLU neurons that is trained on it.

    Attributes
    ----------
    inputs : ndarray, shape (B, d)
        Pixels and a last entry of one, to which the neurons' biases belong, scaled to norm one.
    network : TwoLayer
    released : OutputGradient
        Of the output weights: paper E's release.
    inner : ndarray, shape (B, n)
        The loss's derivatives in the inputs of the first n neurons.
    weights : ndarray, shape (n, d)
        Of these neurons.
    """

    inputs: np.ndarray
    network: TwoLayer
    released: Any
    inner: np.ndarray
    weights: np.ndarray

    def error(self, found: np.ndarray) -> float:
        """Root mean square distance of directions in the best order, not below rounding."""
        directions = found / np.linalg.norm(found, axis=1, keepdims=True)
        # the last entry of a record is positive
        directions = directions * np.sign(directions[:, -1:])
        squared = float(match(self.inputs, directions).mse) * self.inputs.shape[1]
        return max(squared**0.5, _LEAST)


def draw_batch(study: Context, width: int, draw: int) -> Batch:
    """A batch of digits, half of them labelled 1 and half -1, and its gradient."""
    p = study.parameters
    if 28 % p.side:
        raise ValueError(f"side must divide 28; got {p.side}")
    images = np.asarray(datasets.classified(p.digits, study.data_root, "all").inputs, float)
    rng = study.rng("batch", width, draw)
    chosen = images[rng.permutation(len(images))[: p.batch_size]]
    block = 28 // p.side
    pixels = chosen.reshape(len(chosen), p.side, block, p.side, block).mean(axis=(2, 4))
    inputs = np.column_stack([pixels.reshape(len(chosen), -1), np.ones(len(chosen))])
    inputs /= np.linalg.norm(inputs, axis=1, keepdims=True)
    network = TwoLayer(inputs.shape[1], width, "relu", int(rng.integers(2**31)))
    labels = rng.permutation(np.resize([1.0, -1.0], len(inputs)))
    released = release_output_gradient(network, inputs, labels)
    some = next(part for all_ in network.neurons() for part in all_.split(p.seen_units))
    inner = some.outer * released.residuals[:, None] * (some.scores(inputs).T > 0)
    return Batch(inputs, network, released, inner, some.inner.astype(float))


@measurement
def measure(study: Context) -> Tables:
    p = study.parameters
    return Tables(
        {"widths": pd.DataFrame(_widths(study)), "noise": pd.DataFrame(_noisy(study))},
        subsets=(MNIST,),
        ran=f"{p.draws} batches of {p.batch_size} digits of {p.side} x {p.side} pixels at each of "
        f"{len(p.widths)} widths, and with {len(p.noises)} noises at {p.width:,} neurons.",
    )


def _widths(study: Context) -> Iterator[dict[str, Any]]:
    for width in study.parameters.widths:
        for draw in range(study.parameters.draws):
            batch = draw_batch(study, width, draw)
            yield {
                "neurons": width,
                "draw": draw,
                "unknowns": batch.inputs.size + len(batch.inputs),
                **_attacked(study, batch),
            }


def _noisy(study: Context) -> Iterator[dict[str, Any]]:
    """Errors under noise, the floor of who sees the output weights' gradient, the mean record."""
    p = study.parameters
    for draw in range(p.draws):
        batch = draw_batch(study, p.width, draw)
        outputs = np.concatenate([n.scores(batch.inputs) for n in batch.network.neurons()])
        longest = np.linalg.norm(np.maximum(outputs, 0) * batch.released.residuals, axis=0).max()
        rows = gradient_jacobians(batch.network, batch.inputs, batch.released, free_residuals=True)
        information = bounds.gradient_information(rows)
        mean = np.broadcast_to(batch.inputs.mean(axis=0), batch.inputs.shape)
        for noise in p.noises:
            std = float(noise * longest)
            floor = bounds.cramer_rao_error(information, std, batch.inputs, unit_norm=True)
            yield {
                "noise multiplier": noise,
                "draw": draw,
                **_attacked(study, batch, noise, std),
                "floor": float(floor),
                "mean record": batch.error(mean),
            }


def _attacked(
    study: Context, batch: Batch, noise: float = 0.0, std: float = 0.0
) -> dict[str, float]:
    """Errors of three attackers; the noise is over the largest record's part of what each sees."""
    gradient = batch.inner.T @ batch.inputs
    inner_std = float(noise * np.linalg.norm(batch.inner, axis=1).max())
    rng = study.rng("noise", noise)
    seen = gradient + inner_std * rng.standard_normal(gradient.shape)
    values = batch.released.values
    released = dataclasses.replace(
        batch.released, values=values + std * rng.standard_normal(values.shape)
    )
    count, seed = len(batch.inputs), study.seed_of("attack")
    start = attacks.tensor_attack(batch.network, released, count, seed=seed)
    fit = attacks.refine_records(batch.network, released, start, noise_std=std, hops=200, seed=seed)
    layer = (torch.as_tensor(part) for part in (seen[:, :-1], seen[:, -1]))
    known = (torch.as_tensor(part) for part in (batch.weights[:, :-1], batch.weights[:, -1]))
    sparse = attacks.sparse_batch_attack(
        *layer,
        *known,
        generator=study.generator("attack"),
        noise_std=inner_std,
        batch_size=count,
        # sampling needs fewer neurons, descent stands more noise
        search="descent" if noise else "sampling",
        trials=256 if noise else 20_000,
    )
    error = 1.0  # of who answers nothing
    if sparse.inputs is not None:
        error = batch.error(np.column_stack([sparse.inputs.numpy(), np.ones(count)]))
    return {
        SPARSE: error,
        "certified": float(sparse.certified),
        TENSOR: batch.error(start.inputs),
        SQUARES: batch.error(fit.inputs),
    }


def judge(tables: Tables) -> Iterator[Verdict]:
    widths = tables["widths"]
    many = widths["neurons"] >= ENTRIES * widths["unknowns"]
    few = widths["neurons"] < widths["unknowns"]
    tensor = widths.groupby("neurons")[TENSOR].mean()
    yield from shared_by(
        check(
            "beyond/exact_attackers",
            bool((widths[SPARSE] < EXACT).all() and (widths[SQUARES][many] < EXACT).all())
            and bool((widths[[TENSOR, SQUARES]][few] > INEXACT).all(axis=None))
            and bool((widths[TENSOR] > INEXACT).all()),
            "without noise, sparse directions of the first layer's gradient are exact at every "
            "width, also with fewer neurons than unknowns; of the output weights' gradient alone "
            f"least squares are from {ENTRIES} entries to an unknown, the tensor attack nowhere",
            ours=f"tensor attack {tensor.iloc[0]:.2f} at {tensor.index[0]:,} neurons, "
            f"{tensor.iloc[-1]:.2f} at {tensor.index[-1]:,}; exact errors are below {EXACT:g}",
            tolerance=f"distance of unit vectors; {EXACT:g} is exact, {INEXACT:g} is not",
        ),
        "O-119",
    )
    yield _under_noise(tables["noise"])


def _under_noise(noise: pd.DataFrame) -> Verdict:
    level = noise["noise multiplier"]
    easy, hopeless = noise[level <= EASY], noise[level >= HOPELESS]
    squares = noise.groupby("noise multiplier")[[SQUARES, "floor"]].agg(_root_mean_square)
    squares = squares[squares["floor"] < SMALL]
    ratio = squares[SQUARES] / squares["floor"]
    means = noise.groupby("noise multiplier")[[SQUARES, TENSOR, "mean record", "floor"]].mean()
    between = means[(means.index >= HOPELESS) & (means["floor"] < USEFUL)]
    better = between[SQUARES] < between[[TENSOR, "mean record"]].min(axis=1)
    return check(
        "O-120",
        bool((easy["certified"] == 1).all() and (hopeless["certified"] == 0).all())
        and bool(len(ratio) and ((ratio - 1).abs() < FLOOR).all() and len(between))
        and bool(better.all()),
        f"noise multipliers of {HOPELESS:g} end the search for sparse directions, which says so; "
        "least squares have the Cramer-Rao error of the output weights' gradient until it reaches "
        f"{SMALL:g}, and until {USEFUL:g} err less than the tensor attack and the mean record",
        ours=f"least squares {ratio.min():.2f} to {ratio.max():.2f} times the floor"
        + "".join(
            f"; at noise {level:g}: {row[SQUARES]:.2f}, mean record {row['mean record']:.2f}"
            for level, row in between.iterrows()
        ),
        tolerance=f"{FLOOR:.0%}",
    )


def _root_mean_square(values: pd.Series) -> float:
    return float((values**2).mean() ** 0.5)


def caption(tables: Tables) -> str:
    most, largest = tables["widths"]["neurons"].max(), tables["noise"]["noise multiplier"].max()
    return (
        "Distance of unit vectors, records and reconstructions, by attack. Left: without noise, "
        f"up to {most:,} neurons; the dotted line marks {ENTRIES} entries to an unknown. Right: "
        f"under noise of up to {largest:g} times the largest record's part; crosses: refused; "
        "black: the Cramer-Rao floor of who sees the output weights' gradient; dashed: the mean "
        "record."
    )


@drawing
def draw(tables: Tables) -> Figure:
    widths, noise = tables["widths"], tables["noise"]
    figure, (left, right) = plt.subplots(1, 2, figsize=(8, 3.4), sharey=True, layout="constrained")
    for axes, table, by in ((left, widths, "neurons"), (right, noise, "noise multiplier")):
        for name, (colour, mark) in _LOOK.items():
            answered = table[table["certified"] == 1] if name == SPARSE else table
            mean = answered.groupby(by)[name].mean()
            # least squares and sparse directions often lie on each other
            look = {"ms": 8, "mfc": "none"} if name == SQUARES else {"ms": 4.5}
            axes.plot(mean.index, mean, mark + "-", color=colour, lw=1.2, **look)
        axes.set(xscale="log", yscale="log", xlabel=by)
    left.axvline(ENTRIES * widths["unknowns"].iloc[0], color=GREY, ls=":")
    left.set_ylabel("distance of directions")
    floor, mean = (noise.groupby("noise multiplier")[c].mean() for c in ("floor", "mean record"))
    right.plot(floor.index, floor, "-", color=BLACK, lw=1.2)
    right.axhline(mean.iloc[0], color=GREY, ls="--")
    refused = noise[noise["certified"] == 0]
    right.plot(refused["noise multiplier"], refused[SPARSE], "x", color=BLUE, ms=6)
    entries = [legend_line(name, colour, "-", mark) for name, (colour, mark) in _LOOK.items()]
    entries += [legend_line("refused", BLUE, "", "x"), legend_line("floor", BLACK, "-")]
    entries += [legend_line("mean record", GREY, "--")]
    figure.legend(handles=entries, loc="outside upper center", ncols=3, fontsize=8)
    return figure

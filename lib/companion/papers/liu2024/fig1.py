"""Figure 1: reconstruction as an inverse problem, and a batch taken through all of its parts."""

from collections.abc import Iterator

import numpy as np
import pandas as pd
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch

from companion.exhibit import *
from reconrisk import bounds
from reconrisk.attacks import refine_records, tensor_attack
from reconrisk.metrics import match
from reconrisk.two_layer import (
    OutputGradient,
    TwoLayer,
    gradient_jacobians,
    release_output_gradient,
)

_NOT = "not printed"
PARAMETERS = {
    "dimension": Parameter("int", 16, 32, _NOT, "entries of a record", low=2),
    "width": Parameter("int", 4000, 32000, _NOT, "neurons of the network", low=100),
    "batch_size": Parameter("int", 3, 4, _NOT, "records of a batch", low=2),
    "noise_std": Parameter("float", 0.3, 0.3, _NOT, "of the noise, the defence", low=0.01),
    "draws": Parameter("int", 16, 16, _NOT, "batches, each with a network of its own", low=2),
}

ALTERED = {
    "chains": {
        "reordered": "changes by another order",
        "undefended": "errors without a defence",
        "defended": "errors under noise",
    }
}

#: an error below this is rounding
EXACT = 1e-6
#: the error over the draws is within this factor of the Cramer-Rao bound; sixteen batches of 48
#: unknowns scatter by 2.5% (one standard error)
NEAR = 1.1


@measurement
def measure(study: Context) -> Tables:
    p = study.parameters
    sizes = (p.dimension, p.width, p.batch_size)
    chains = [send_through(study.rng("chain", k), *sizes, p.noise_std) for k in range(p.draws)]
    return Tables(
        {"parts": parts(*sizes), "chains": pd.DataFrame(chains)},
        exact=("parts",),
        ran=f"{p.draws} batches of {p.batch_size} records in {p.dimension} dimensions, "
        f"{p.width:,} neurons, noise of standard deviation {p.noise_std:g}.",
    )


def send_through(
    rng: np.random.Generator, dimension: int, width: int, batch_size: int, noise_std: float
) -> dict[str, float]:
    """Draw a batch of a two-layer network, take its gradient, defend it, attack it, measure.

    Returns
    -------
    dict
        ``reordered``: largest relative change of an observed entry when the batch is put in
        another order. ``undefended``, ``defended``: root mean square distance of records and
        reconstructions, in the best order. ``bound``: the Cramér-Rao bound of the defended.
    """
    x = rng.standard_normal((batch_size, dimension))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    labels = rng.choice([-1.0, 1.0], batch_size)
    network = TwoLayer(dimension, width, "elu", int(rng.integers(2**31)))
    plain = release_output_gradient(network, x, labels)
    back = release_output_gradient(network, x[::-1], labels[::-1])
    noisy = release_output_gradient(network, x, labels, noise_std=noise_std, rng=rng)
    rows = gradient_jacobians(network, x, noisy, free_residuals=True)
    information = bounds.gradient_information(rows)
    return {
        "reordered": float(np.abs(back.values - plain.values).max() / np.abs(plain.values).max()),
        "undefended": _error(network, x, plain, 0.0),
        "defended": _error(network, x, noisy, noise_std),
        "bound": float(bounds.cramer_rao_error(information, noise_std, x, unit_norm=True)),
    }


def _error(network: TwoLayer, x: np.ndarray, released: OutputGradient, noise_std: float) -> float:
    """Error of the tensor attack followed by least squares, in the best order."""
    start = tensor_attack(network, released, len(x), removed=2)
    found = refine_records(network, released, start, noise_std=noise_std)
    return float(np.sqrt(np.mean(match(x, found.inputs).mse) * x.shape[1]))


def parts(dimension: int, width: int, batch_size: int) -> pd.DataFrame:
    """The parts of the diagram in order: what each is, its modules, how many numbers it gives."""
    signal, observed = batch_size * dimension, width
    rows = [
        ("batch", "S", "the unknown signal", "study", signal),
        ("gradient", "grad L(theta; S)", "the forward map", "two_layer, training", observed),
        ("defence", "D", "changes what is seen", "mechanisms", observed),
        ("attack", "A", "solves the inverse problem", "attacks", signal),
        ("error", "min over orders of d(S, pi(A))", "what is left", "metrics", 1),
        ("upper bound", "R_U", "one attack's error, from above", "bounds", 1),
        ("lower bound", "R_L", "every attack's error, from below", "bounds", 1),
    ]
    return pd.DataFrame(rows, columns=["part", "symbol", "role", "room", "numbers"])


def judge(tables: Tables) -> Iterator[Verdict]:
    chains = tables["chains"]
    mean_squares = chains[["defended", "bound"]].pow(2).mean()
    ratio = (mean_squares["defended"] / mean_squares["bound"]) ** 0.5
    yield check(
        "liu2024/fig1",
        chains["reordered"].max() < 1e-12
        and chains["undefended"].max() < EXACT
        and 1 / NEAR < ratio < NEAR,
        "The parts fit together: the gradient does not depend on the batch's order, without a "
        "defence the inverse problem is solved exactly, and with noise an attack's error is that "
        "of the Cramer-Rao bound",
        ours=f"change by order, and error without a defence, below {EXACT:g}; the error under "
        f"noise within a factor {NEAR:g} of the bound",
        paper="a diagram, no numbers",
    )


CAPTION = (
    "The paper draws data reconstruction as an inverse problem. Here its parts in order: "
    "the batch is the unknown signal, its gradient the forward map, a defence changes what is seen "
    "and an attack inverts it. The error is bounded from above by that of one algorithm and from "
    "below by the least error of any; the sizes are those of the batch that was run."
)


def alt(tables: Tables) -> str:
    signal, observed = _sizes(tables)
    return (
        "Diagram: batch, gradient, defence and attack in a row joined by arrows that carry "
        f"{signal:,} numbers into the gradient and {observed:,} from it to the attack; below, the "
        "error between an upper and a lower bound."
    )


def _sizes(tables: Tables) -> tuple[int, int]:
    """How many numbers the batch has, and the gradient."""
    numbers = tables["parts"].set_index("part")["numbers"]
    return int(numbers["batch"]), int(numbers["gradient"])


# Picture -----------------------------------------------------------------------------------------

_WIDTH, _HEIGHT, _GAP, _BELOW = 1.72, 1.0, 2.9, -1.6


@drawing
def draw(tables: Tables) -> Figure:
    signal, observed = (f"{count:,}\nnumbers" for count in _sizes(tables))
    figure, axes = plt.subplots(figsize=(8.4, 2.95), layout="constrained")
    axes.set(xlim=(-1.05, 9.75), ylim=(-2.2, 0.72), aspect="equal")
    axes.set_axis_off()
    left, middle, right = _GAP, 2 * _GAP, 3 * _GAP
    boxes = (
        (0, 0, "Batch", "unknown signal\n$S=(x_1,\\dots,x_B)$", BLUE),
        (left, 0, "Gradient", "forward map\n$\\nabla_\\Theta L(\\Theta;\\,S)$", BLUE),
        (middle, 0, "Defence", "clip, noise, prune,\ndrop, aggregate: $D$", ORANGE),
        (right, 0, "Attack", "inverse problem\n$\\hat S=A(D(\\nabla L))$", GREEN),
        (left, _BELOW, "Lower bound $R_L$", "least error of any\nalgorithm", PURPLE),
        (middle, _BELOW, "Error", "$\\min_\\pi d(S,\\pi(\\hat S))$,\nin the best order", GREY),
        (right, _BELOW, "Upper bound $R_U$", "error of one\nalgorithm", GREEN),
    )
    for box in boxes:
        _box(axes, *box)
    half = _WIDTH / 2 + 0.03
    for start, carried in ((0, signal), (left, observed), (middle, observed)):
        _arrow(axes, (start + half, 0), (start + _GAP - half, 0), carried)
    _arrow(axes, (left + half, _BELOW), (middle - half, _BELOW), r"$\leq$")
    _arrow(axes, (right - half, _BELOW), (middle + half, _BELOW), r"$\leq$")
    _arrow(axes, (right - 0.55, -0.55), (middle + 0.55, _BELOW + 0.55))
    _arrow(axes, (0.45, -0.55), (middle - 0.7, _BELOW + 0.55))
    return figure


def _box(axes: Axes, x: float, y: float, head: str, text: str, colour: str) -> None:
    """Draw a rounded box around its middle (x, y), with a heading and some lines below it."""
    corner = (x - _WIDTH / 2, y - _HEIGHT / 2)
    box = FancyBboxPatch(corner, _WIDTH, _HEIGHT, "round,pad=0.02,rounding_size=0.08")
    box.set(facecolor="white", edgecolor=colour, linewidth=1.6)
    axes.add_patch(box)
    axes.text(x, y + 0.27, head, ha="center", va="center", color=colour, weight="bold", fontsize=10)
    axes.text(x, y - 0.14, text, ha="center", va="center", fontsize=8.5, linespacing=1.35)


def _arrow(
    axes: Axes, start: tuple[float, float], end: tuple[float, float], label: str = ""
) -> None:
    """Draw an arrow with a label above its middle."""
    look = {"arrowstyle": "-|>", "color": GREY, "lw": 1.4, "shrinkA": 0}
    axes.annotate("", end, start, arrowprops=look)
    x, y = np.mean([start, end], axis=0)
    axes.text(x, y + 0.1, label, ha="center", va="bottom", fontsize=8.5, color=GREY)

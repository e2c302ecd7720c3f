"""Propositions 2.1 and A.1: the sensitivity of a two-layer gradient, and the noise for it."""

import math
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from scipy import optimize

from companion.exhibit import *
from companion.papers.liu2024 import gradient_floors as floors
from reconrisk import DPSGD, bounds, privacy, special
from reconrisk.two_layer import (
    TwoLayer,
    gradient_jacobians,
    inner_gradient_jacobians,
    release_output_gradient,
)

EXHIBITS = ("propA1", "prop2_1")

_EPSILONS = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0)
PARAMETERS = {
    "dimension": Parameter("int", 16, 64, floors.NOT_PRINTED, "d, values of a record", low=3),
    "widths": Parameter(
        "ints",
        (4000, 16000, 64000),
        (8000, 32000, 128000),
        floors.NOT_PRINTED,
        "m, neurons",
        low=100,
    ),
    "epsilons": Parameter(
        "floats", _EPSILONS, _EPSILONS, "any", "epsilons of the noise, smallest first", 1e-3
    ),
    "delta": Parameter("float", 1e-5, 1e-5, "any", "delta", low=1e-100),
}


def sensitivity(network: TwoLayer, rng: np.random.Generator, pairs: int) -> dict[str, float]:
    """Measure how far the gradient moves when one record of a batch is replaced.

    The residuals are ``2 (f - y)``. For the worst pair, ``|g - g'| <= |g| + |g'|``, and one record
    with labels 1 and -1 attains this but for the network's small outputs.

    Returns
    -------
    dict
        Squared distances of two records' gradients, over the number of neurons: means over random
        pairs with random labels (``random pair``) and with equal ones (``same label``); of the
        worst pair found (``worst pair``); a value that no pair exceeds (``no pair above``); and the
        ``inner weights' part`` of the worst pair's.
    """
    inner, outer = floors.weights_of(network)
    s, d, m = network.function, network.dimension, network.width
    x, other = floors.unit_rows(rng, pairs, d), floors.unit_rows(rng, pairs, d)
    y, label = (rng.choice([-1.0, 1.0], pairs) for _ in range(2))

    def gradient(points: np.ndarray, labels: np.ndarray) -> np.ndarray:
        values = s.value(points @ inner.T)
        return 2.0 * (values @ outer - labels)[:, None] * values

    def mean_square(labels: np.ndarray) -> float:
        gap = gradient(x, y) - gradient(other, labels)
        return float(np.mean(np.sum(gap**2, axis=1))) / m

    def squares(point: np.ndarray) -> tuple[float, np.ndarray]:
        z = inner @ point
        value = s.value(z)
        return float(value @ value) / m, 2.0 * (value * s.slope(z)) @ inner / m

    def output(point: np.ndarray) -> tuple[float, np.ndarray]:
        z = inner @ point
        value = float(outer @ s.value(z))
        return abs(value), np.sign(value) * (outer * s.slope(z)) @ inner

    peak, top = (_largest(function, floors.unit_rows(rng, 3, d)) for function in (squares, output))
    # the inner weights' part of the gradient, |r a_j s' x|^2 with the steepest slope everywhere
    steep = np.max(np.abs(s.slope(np.linspace(-12, 12, 4001))))
    inside = steep**2 * float(outer @ outer) / m
    return {
        "random pair": mean_square(label),
        "same label": mean_square(y),
        "worst pair": 16.0 * peak,
        "no pair above": float(16.0 * (1.0 + top) ** 2 * (peak + inside)),
        "inner weights' part": float(16.0 * inside),
    }


def _largest(
    function: Callable[[np.ndarray], tuple[float, np.ndarray]], starts: np.ndarray
) -> float:
    """The largest value of a function on the unit sphere, by ascent from each start."""

    def negative(point: np.ndarray) -> tuple[float, np.ndarray]:
        size = float(np.linalg.norm(point))
        unit = point / size
        value, slopes = function(unit)
        return -value, -(slopes - (slopes @ unit) * unit) / size

    found = (optimize.minimize(negative, s, jac=True, method="L-BFGS-B").x for s in starts)
    return max(function(point / np.linalg.norm(point))[0] for point in found)


def sensitivities(study: Context, activation: str, pairs: int) -> pd.DataFrame:
    """Squared distances of gradients over the width, one row a network."""
    dimension, rows = study.parameters.dimension, []
    function = special.activation(activation)
    limit = 16.0 * special.normal_mean(lambda z: function.value(z) ** 2, function.kinks)
    for m in study.parameters.widths:
        network = floors.draw_network(study, dimension, m, activation)
        found = sensitivity(network, study.rng("pairs", dimension, activation), pairs)
        rows.append({"activation": activation, "d": dimension, "m": m, **found})
    return pd.DataFrame(rows).assign(**{"limit of the worst": limit})


def noise_table(epsilons: Sequence[float], delta: float) -> pd.DataFrame:
    """Variance over the squared sensitivity: least, by moments, and two orders with constants."""
    log = math.log(1 / delta)
    rows = []
    for epsilon in epsilons:
        by_moments = float(privacy.noise_by_moments(epsilon, delta))
        first_power = math.sqrt(2 * log / epsilon)
        rows.append(
            {
                "epsilon": epsilon,
                "needed": privacy.noise_for_epsilon(epsilon, delta) ** 2,
                "by moments": by_moments**2,
                "2 L/epsilon^2": 2 * log / epsilon**2,
                "2 L/epsilon": 2 * log / epsilon,
                "epsilon at the moments' noise": privacy.epsilon(DPSGD(by_moments), delta).upper,
                "epsilon at 2 L/epsilon": privacy.epsilon(DPSGD(first_power), delta).upper,
            }
        )
    return pd.DataFrame(rows)


def noise_is_private(noise: pd.DataFrame) -> bool:
    """Whether an accountant finds no epsilon above the one that the moments promise."""
    return bool((noise["epsilon at the moments' noise"] <= noise["epsilon"]).all())


PARAMETERS_PROPA1 = {
    **PARAMETERS,
    "pairs": Parameter("int", 100, 400, floors.NOT_PRINTED, "random pairs of records", low=2),
}
SETTLES_PROPA1 = ("E-E-17",)
SHOWN_PROPA1 = ("sensitivity",)
ALTERED_PROPA1 = {
    "networks": {
        "worst pair": (
            "distances of worst pairs",
            at("m == m.min()", "distances of worst pairs of the narrowest networks"),
        ),
        "no pair above": "ceilings",
        "random pair": "distances of random pairs",
    },
    "noise": {
        "epsilon at the moments' noise": "epsilons of the moments' noise",
        "by moments": "the moments' variances",
    },
    "first power of epsilon": {"epsilon of the noise": "epsilons of noise by the first power"},
}
#: 1-Lipschitz, as the proposition requires
ACTIVATIONS = ("elu", "relu", "tanh")
#: factors of log(1/delta)/epsilon, each with an epsilon at which it is not enough
CONSTANTS = ((1.0, 0.1), (2.0, 0.1), (10.0, 0.01), (100.0, 0.001))


@floors.one_thread
def measure_propa1(study: Context) -> Tables:
    """Proposition A.1: the sensitivity of a two-layer gradient, and the noise by the moments."""
    p = study.parameters
    found = [sensitivities(study, activation, p.pairs) for activation in ACTIVATIONS]
    networks = pd.concat(found, ignore_index=True)
    first_power = []
    for constant, epsilon in CONSTANTS:
        noise = DPSGD(math.sqrt(constant * math.log(1 / p.delta) / epsilon))
        first_power.append((constant, epsilon, privacy.epsilon(noise, p.delta).upper))
    columns = ["constant", "epsilon", "epsilon of the noise"]
    return Tables(
        {
            "sensitivity": floors.round_digits(networks),
            "networks": networks,
            "noise": noise_table(p.epsilons, p.delta),
            "first power of epsilon": pd.DataFrame(first_power, columns=columns),
        },
        exact=("noise",),
        ran=f"{len(ACTIVATIONS)} activations, {min(p.widths):,} to {max(p.widths):,} neurons at "
        f"d = {p.dimension}; {p.pairs} random pairs and worst ones by ascent on the sphere.",
    )


def judge_propa1(tables: Tables) -> Iterator[Verdict]:
    networks, noise = tables["networks"], tables["noise"]
    excess = networks["worst pair"] / networks["limit of the worst"] - 1
    over = excess / np.sqrt(networks["d"] / networks["m"])
    by_activation = networks.groupby("activation")
    exponent = [
        floors.slope(part["m"], part["m"] * part["worst pair"]) for _, part in by_activation
    ]
    tight = networks["no pair above"] / networks["worst pair"]
    typical = networks["random pair"] / networks["worst pair"]
    private = noise_is_private(noise)
    yield check(
        "liu2024/propA1",
        private
        and over.between(-1, 4).all()
        and max(abs(e - 1) for e in exponent) < floors.EXPONENT
        and tight.between(1, 1.5).all()
        and (typical < 1).all(),
        "replacing one record moves the gradient by no more than a constant times sqrt(m): "
        "squared over m, the largest distance tends to 16 E[s(z)^2], one record with "
        "both labels; noise by the moments at that sensitivity is private",
        ours=f"exponents {floors.span(exponent, 3)} in m; a random pair is "
        f"{floors.span(typical)} of the worst",
        tolerance=f"{floors.EXPONENT:g} in the exponent",
    )
    low = noise[noise["epsilon"] <= math.log(1 / tables.parameters.delta)]
    tiny = tables["first power of epsilon"]
    yield check(
        "E-E-17",
        private
        and (low["by moments"] / low["2 L/epsilon^2"]).between(1, 1.46).all()
        and (noise["by moments"] * noise["epsilon"] > 0.5 * (1 - floors.ROUNDING)).all()
        and (tiny["epsilon of the noise"] > tiny["epsilon"]).all(),
        "the power of epsilon in the variance is the second for epsilon up to log(1/delta): that "
        "of the moments is private, and one of the first power is not for small epsilon, with a "
        "constant of up to 100",
        ours="epsilon at twice Delta^2 log(1/delta)/epsilon for epsilon = "
        f"{noise['epsilon'].iloc[0]:g}: {noise['epsilon at 2 L/epsilon'].iloc[0]:.2g}",
    )


PARAMETERS_PROP2_1 = {
    "activation": Parameter(
        "str", "elu", "elu", "any with bounded derivatives", "activation of the networks"
    ),
    **PARAMETERS,
    "batch_sizes": Parameter(
        "ints",
        (1, 2, 4),
        (1, 2, 4, 8),
        floors.NOT_PRINTED,
        "B of the linear network's batches",
        low=1,
    ),
    "draws": Parameter(
        "int", 4, 20, floors.NOT_PRINTED, "networks and batches at each point", low=2
    ),
}
SETTLES_PROP2_1 = ("E-001", "E-002")
SHOWN_PROP2_1 = ("linear",)
ALTERED_PROP2_1 = {
    "noise": {
        "epsilon at the moments' noise": "epsilons of the moments' noise",
        "by moments": "the moments' variances",
        "needed": at("epsilon == epsilon.min()", "least variances at the smallest epsilon"),
    },
    "price": {
        "variance, epsilon = 1": at("m == m.min()", "variances for the narrowest network"),
        "cosine at epsilon = 1": (
            "cosines",
            at("m == m.min()", "cosines for the narrowest network"),
        ),
    },
    "linear batches": {
        "rank": at("B > 1", "ranks of the information on batches"),
        "gradient moved by": "changes of the gradient",
        "records moved by": at("B > 1", "distances of other batches"),
    },
}
#: "destroys utility": the cosine of the private gradient with the true one is below this
USELESS = 0.01
#: "too much": times the variance that hides one record
EXCESS = 100
#: root mean square distance of another batch of unit records with the same gradient
FAR = 0.5
#: the activation that makes a network linear
LINEAR = special.Activation("linear", lambda z: z, np.ones_like, np.zeros_like)


@floors.one_thread
def measure_prop2_1(study: Context) -> Tables:
    """Proposition 2.1: the noise for differential privacy, and that against reconstruction."""
    p = study.parameters
    batches = pd.DataFrame(
        [_linear_batch(study, size, draw) for size in p.batch_sizes for draw in range(p.draws)]
    )
    return Tables(
        {
            "noise": noise_table(p.epsilons, p.delta),
            "price": _price(study),
            "linear": _summary(batches),
            "linear batches": batches,
        },
        exact=("noise",),
        ran=f"{p.activation} networks of {min(p.widths):,} to {max(p.widths):,} neurons at d = "
        f"{p.dimension}, worst pairs by ascent, bounds of one record.",
    )


def _price(study: Context) -> pd.DataFrame:
    """Over the width: the gradient, the noise of DP, and the noise that hides one record."""
    p = study.parameters
    found = sensitivities(study, p.activation, 2)
    rows = []
    for m, ceiling in zip(found["m"], found["no pair above"], strict=True):
        sensitivity = math.sqrt(ceiling * m)
        given = floors.problem(study, p.dimension, 1, int(m), activation=p.activation)
        # no better than guessing the zero vector, which is off by one
        hidden = 1.0 / floors.floor_of(given).unit
        noise = {e: privacy.noise_for_epsilon(e, p.delta) * sensitivity for e in (1.0, 10.0)}
        size = given.released.norm
        entries = int(m) * (p.dimension + 1)
        rows.append(
            {
                "m": int(m),
                "mean square of an entry": size**2 / m,
                "variance, epsilon = 1": noise[1.0] ** 2,
                "variance, epsilon = 10": noise[10.0] ** 2,
                "variance that hides": hidden**2,
                "epsilon where hidden": privacy.epsilon(DPSGD(hidden / sensitivity), p.delta).upper,
                "cosine at epsilon = 1": size / math.hypot(size, noise[1.0] * math.sqrt(entries)),
            }
        )
    return pd.DataFrame(rows)


def _linear_batch(study: Context, size: int, draw: int) -> dict[str, float]:
    """The rank of a linear network's information, and another batch with an equal gradient."""
    p = study.parameters
    given = floors.problem(study, p.dimension, size, min(p.widths), activation=LINEAR, draw=draw)
    outer, inner = (
        bounds.gradient_information(rows_of(given.network, given.inputs, given.released)).matrix
        for rows_of in (gradient_jacobians, inner_gradient_jacobians)
    )
    both = outer / np.trace(outer) + inner / np.trace(inner)
    other = another_batch(given, study.rng("reflection", size, draw))
    again = release_output_gradient(given.network, other, given.labels)
    moved = np.abs(again.values - given.released.values).max() / given.released.norm
    return {
        "B": size,
        "unknowns": both.shape[0],
        "rank": int(np.linalg.matrix_rank(both, tol=1e-9, hermitian=True)),
        "gradient moved by": float(moved),
        "records moved by": math.sqrt(float(np.mean(np.sum((other - given.inputs) ** 2, axis=1)))),
    }


def another_batch(given: floors.Problem, rng: np.random.Generator) -> np.ndarray:
    """Another batch of unit records with the same labels and the same gradient in both layers.

    The gradient of a linear network shows ``v = sum r_i x_i`` only, and its outputs are ``u.x_i``.
    Reflections in directions orthogonal to u and v change neither. The direction is random, in the
    records' own span where possible; d is at least 3.
    """
    x, r = given.inputs, given.released.residuals
    u = sum(part.outer @ part.inner.astype(float) for part in given.network.neurons())
    fixed = np.linalg.qr(np.stack([r @ x, u], axis=1))[0]
    free = x - (x @ fixed) @ fixed.T
    mixed = rng.standard_normal(len(x)) @ free
    if np.linalg.norm(mixed) < 1e-9:
        mixed = rng.standard_normal(x.shape[1])
        mixed -= fixed @ (fixed.T @ mixed)
    axis = mixed / np.linalg.norm(mixed)
    return x - 2.0 * np.outer(x @ axis, axis)


def _summary(batches: pd.DataFrame) -> pd.DataFrame:
    """One row a batch size, without the rounding errors."""
    kept = {"unknowns": "first", "rank": "max", "gradient moved by": "max"}
    table = batches.groupby("B", as_index=False).agg(kept | {"records moved by": "mean"})
    same = np.where(table["gradient moved by"] < floors.ROUNDING, "no", "yes")
    return table.drop(columns="gradient moved by").assign(
        **{"records moved by": table["records moved by"].round(3), "gradient moves": same}
    )


# Verdicts ----------------------------------------------------------------------------------------
def judge_prop2_1(tables: Tables) -> Iterator[Verdict]:
    noise, price, batches = tables["noise"], tables["price"], tables["linear batches"]
    in_width = floors.slope(price["m"], price["variance, epsilon = 1"])
    small = noise[noise["epsilon"] <= math.log(1 / tables.parameters.delta)]
    ratio = small["by moments"] / small["2 L/epsilon^2"]
    fine = noise[noise["epsilon"] <= 1]
    in_epsilon = floors.slope(fine["epsilon"], fine["needed"])
    excess = math.sqrt((noise["by moments"] / noise["needed"]).max())
    yield check(
        "liu2024/prop2_1",
        noise_is_private(noise)
        and abs(in_width - 1) < floors.EXPONENT
        and ratio.between(1, 1.5).all()
        and abs(in_epsilon + 2) < 2 * floors.EXPONENT,
        "noise of a variance of order m log(1/delta)/epsilon^2 makes the gradient private for "
        "every epsilon up to log(1/delta), and the least variance that does is of the same order "
        "in m and, for epsilon up to one, in epsilon",
        ours=f"exponents {in_width:.2f} in m and {in_epsilon:.2f} in epsilon; the moments' noise "
        f"is at most {excess:.2f} times the least",
        tolerance=f"{floors.EXPONENT:g} in m, {2 * floors.EXPONENT:g} in epsilon",
    )
    alone, many = batches[batches["B"] == 1], batches[batches["B"] > 1]
    sizes = batches.groupby("B")[["rank", "unknowns"]].max()
    apart = many.groupby("B")["records moved by"].mean()
    yield check(
        "E-001",
        (alone["rank"] == alone["unknowns"]).all()
        and (many["rank"] < many["unknowns"]).all()
        and (batches["gradient moved by"] < floors.ROUNDING).all()
        and (alone["records moved by"] < 1e-6).all()
        and (apart > FAR).all(),
        "a linear network shows one sum of the records, without noise and so without a finite "
        "epsilon: for batches of two and more unit records there are others, far away, with the "
        "same gradient in both layers; a single record is determined",
        ours="information of rank "
        + ", ".join(f"{r} of {q}" for r, q in zip(sizes["rank"], sizes["unknowns"], strict=True))
        + f"; another batch with the gradient unchanged to rounding is {floors.span(apart)} away "
        "on average",
    )
    cosine = price["cosine at epsilon = 1"]
    more = price["variance, epsilon = 1"] / price["variance that hides"]
    fall = floors.slope(price["m"], cosine)
    yield check(
        "E-002",
        (cosine < USELESS).all() and abs(fall + 0.5) < floors.EXPONENT and (more > EXCESS).all(),
        "at epsilon = 1 the noise hides the gradient, the more the wider the network, and exceeds "
        "by far the noise that hides a record from every unbiased attack",
        ours=f"cosine of the released gradient with the true one {floors.span(cosine)}, exponent "
        f"{fall:.2f} in m; at least {more.min():.0f} times the variance that hides a record, "
        f"which costs an epsilon of at least {price['epsilon where hidden'].min():.0f}",
        paper="variance of order m log(1/delta) over a power of epsilon",
        tolerance=f"a cosine of {USELESS:g}; {EXCESS} times the variance",
    )


# Picture -----------------------------------------------------------------------------------------
def caption_prop2_1(tables: Tables) -> str:
    return (
        "Left: variance of the noise over the squared sensitivity at delta of "
        f"{tables.parameters.delta:g}: the least that is private, that of the moments, and "
        "2 log(1/delta) over the first and the second power of epsilon. Right: over the width, a "
        "gradient entry's mean square, the variances that privacy requires, and the one at which "
        "no unbiased attack on one record is better than guessing zero. Not in the paper as a "
        "picture."
    )


@drawing
def draw_prop2_1(tables: Tables) -> Figure:
    figure, ((left, right),) = panels(1, 2, 4.3, 3.4)
    noise, price = tables["noise"], tables["price"]
    for name, label, colour, style in (
        ("by moments", "by the moments", ORANGE, "-"),
        ("needed", "least", BLUE, "-"),
        ("2 L/epsilon^2", r"$2\log(1/\delta)/\varepsilon^2$", GREY, "--"),
        ("2 L/epsilon", r"$2\log(1/\delta)/\varepsilon$", GREY, ":"),
    ):
        left.plot(noise["epsilon"], noise[name], color=colour, linestyle=style, label=label)
    left.set(xlabel=r"$\varepsilon$", ylabel="variance / squared sensitivity")
    left.legend(loc="upper right")
    for name, colour, label in (
        ("variance, epsilon = 1", ORANGE, r"private, $\varepsilon = 1$"),
        ("variance, epsilon = 10", PURPLE, r"private, $\varepsilon = 10$"),
        ("variance that hides", BLUE, "hides the record"),
        ("mean square of an entry", GREY, "gradient, mean square"),
    ):
        right.plot(price["m"], price[name], color=colour, marker="o", ms=4)
        start, above = (price["m"].iloc[0], price[name].iloc[0]), (0, 12)
        text = {"textcoords": "offset points", "fontsize": 8.5, "color": colour}
        right.annotate(label, start, xytext=above, **text)
    right.set(xlabel="width m", ylabel="variance of an entry's noise")
    for axis in (left, right):
        axis.set(xscale="log", yscale="log")
    right.set_xticks(price["m"], [f"{m:,}" for m in price["m"]])
    right.minorticks_off()
    right.margins(y=0.12)
    return figure

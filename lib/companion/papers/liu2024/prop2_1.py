"""Proposition 2.1: the noise for differential privacy, and that against reconstruction."""

import math
from collections.abc import Iterator

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from companion.exhibit import *
from companion.papers.liu2024 import gradient_sensitivity
from companion.papers.liu2024.floor_orders import EXPONENT, NOT_PRINTED
from companion.papers.liu2024.gradient_floors import (
    ROUNDING,
    Problem,
    floor_of,
    one_thread,
    problem,
    slope,
    span,
)
from companion.papers.liu2024.gradient_sensitivity import (
    noise_is_private,
    noise_table,
    sensitivities,
)
from reconrisk import DPSGD, bounds, privacy, special
from reconrisk.two_layer import (
    gradient_jacobians,
    inner_gradient_jacobians,
    release_output_gradient,
)

PARAMETERS = {
    "activation": Parameter(
        "str", "elu", "elu", "any with bounded derivatives", "activation of the networks"
    ),
    **gradient_sensitivity.PARAMETERS,
    "batch_sizes": Parameter(
        "ints", (1, 2, 4), (1, 2, 4, 8), NOT_PRINTED, "B of the linear network's batches", low=1
    ),
    "draws": Parameter("int", 4, 20, NOT_PRINTED, "networks and batches at each point", low=2),
}
SETTLES = ("E-001", "E-002")
SHOWN = ("linear",)

ALTERED = {
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


@measurement
@one_thread
def measure(study: Context) -> Tables:
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
        given = problem(study, p.dimension, 1, int(m), activation=p.activation)
        # no better than guessing the zero vector, which is off by one
        hidden = 1.0 / floor_of(given).unit
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
    given = problem(study, p.dimension, size, min(p.widths), activation=LINEAR, draw=draw)
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


def another_batch(given: Problem, rng: np.random.Generator) -> np.ndarray:
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
    same = np.where(table["gradient moved by"] < ROUNDING, "no", "yes")
    return table.drop(columns="gradient moved by").assign(
        **{"records moved by": table["records moved by"].round(3), "gradient moves": same}
    )


# Verdicts ----------------------------------------------------------------------------------------


def judge(tables: Tables) -> Iterator[Verdict]:
    noise, price, batches = tables["noise"], tables["price"], tables["linear batches"]
    in_width = slope(price["m"], price["variance, epsilon = 1"])
    small = noise[noise["epsilon"] <= math.log(1 / tables.parameters.delta)]
    ratio = small["by moments"] / small["2 L/epsilon^2"]
    fine = noise[noise["epsilon"] <= 1]
    in_epsilon = slope(fine["epsilon"], fine["needed"])
    excess = math.sqrt((noise["by moments"] / noise["needed"]).max())
    yield check(
        "liu2024/prop2_1",
        noise_is_private(noise)
        and abs(in_width - 1) < EXPONENT
        and ratio.between(1, 1.5).all()
        and abs(in_epsilon + 2) < 2 * EXPONENT,
        "noise of a variance of order m log(1/delta)/epsilon^2 makes the gradient private for "
        "every epsilon up to log(1/delta), and the least variance that does is of the same order "
        "in m and, for epsilon up to one, in epsilon",
        ours=f"exponents {in_width:.2f} in m and {in_epsilon:.2f} in epsilon; the moments' noise "
        f"is at most {excess:.2f} times the least",
        tolerance=f"{EXPONENT:g} in m, {2 * EXPONENT:g} in epsilon",
    )
    alone, many = batches[batches["B"] == 1], batches[batches["B"] > 1]
    sizes = batches.groupby("B")[["rank", "unknowns"]].max()
    apart = many.groupby("B")["records moved by"].mean()
    yield check(
        "E-001",
        (alone["rank"] == alone["unknowns"]).all()
        and (many["rank"] < many["unknowns"]).all()
        and (batches["gradient moved by"] < ROUNDING).all()
        and (alone["records moved by"] < 1e-6).all()
        and (apart > FAR).all(),
        "a linear network shows one sum of the records, without noise and so without a finite "
        "epsilon: for batches of two and more unit records there are others, far away, with the "
        "same gradient in both layers; a single record is determined",
        ours="information of rank "
        + ", ".join(f"{r} of {q}" for r, q in zip(sizes["rank"], sizes["unknowns"], strict=True))
        + f"; another batch with the gradient unchanged to rounding is {span(apart)} away on "
        "average",
    )
    cosine = price["cosine at epsilon = 1"]
    more = price["variance, epsilon = 1"] / price["variance that hides"]
    fall = slope(price["m"], cosine)
    yield check(
        "E-002",
        (cosine < USELESS).all() and abs(fall + 0.5) < EXPONENT and (more > EXCESS).all(),
        "at epsilon = 1 the noise hides the gradient, the more the wider the network, and exceeds "
        "by far the noise that hides a record from every unbiased attack",
        ours=f"cosine of the released gradient with the true one {span(cosine)}, exponent "
        f"{fall:.2f} in m; at least {more.min():.0f} times the variance that hides a record, "
        f"which costs an epsilon of at least {price['epsilon where hidden'].min():.0f}",
        paper="variance of order m log(1/delta) over a power of epsilon",
        tolerance=f"a cosine of {USELESS:g}; {EXCESS} times the variance",
    )


# Picture -----------------------------------------------------------------------------------------


def caption(tables: Tables) -> str:
    return (
        "Left: variance of the noise over the squared sensitivity at delta of "
        f"{tables.parameters.delta:g}: the least that is private, that of the moments, and "
        "2 log(1/delta) over the first and the second power of epsilon. Right: over the width, a "
        "gradient entry's mean square, the variances that privacy requires, and the one at which "
        "no unbiased attack on one record is better than guessing zero. Not in the paper as a "
        "picture."
    )


@drawing
def draw(tables: Tables) -> Figure:
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

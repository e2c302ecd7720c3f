"""Lemma E.3: the whole gradient pruned by size; the bound over the pruned share."""

from collections.abc import Iterator

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from companion.exhibit import *
from companion.papers.liu2024.floor_orders import around, problems
from companion.papers.liu2024.gradient_floors import (
    ROUNDING,
    Problem,
    one_thread,
    span,
    weights_of,
)
from reconrisk import bounds
from reconrisk.two_layer import gradient_jacobians, inner_gradient_jacobians

_SHARES = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98)
PARAMETERS = {
    **{k: v for k, v in around((8, 16), (2, 4), (4000, 8000)).items() if k != "activation"},
    "outer_shares": Parameter(
        "floats",
        _SHARES,
        _SHARES,
        "not printed: our own",
        "shares of the output weights' entries pruned beyond d/(d + 1)",
        low=0.0,
    ),
}
SETTLES = ("E-013",)
ALTERED = {
    "by differences": {"kept": "shares kept, by differences"},
    "runs": {
        "exact over loosened": "exact over loosened bounds",
        "exact": (
            at("`outer pruned` == 0", "bounds before output weights are pruned"),
            at("`outer pruned` > 0", "bounds after output weights are pruned"),
        ),
    },
}

#: relative error of derivatives by central differences, squared and summed
BY_DIFFERENCES = 1e-6
#: "does not change"; "without a jump", after a tenth of the next entries; "greatly", after nine
FLAT, NO_JUMP, GREATLY = 1.001, 1.15, 2.0

#: activation and labels of the networks, with their colour and name
KINDS = {
    ("elu", "mixed"): (BLUE, "elu, mixed labels"),
    ("elu", "equal"): (ORANGE, "elu, equal labels"),
    ("tanh", "mixed"): (GREEN, "tanh, mixed"),
    ("tanh", "equal"): (PURPLE, "tanh, equal"),
}


@measurement
@one_thread
def measure(study: Context) -> Tables:
    p, edge = study.parameters, _edge(study.parameters.dimension)
    shares = np.concatenate(
        [np.linspace(0, edge, 12), edge + np.asarray(p.outer_shares) / (p.dimension + 1)]
    )
    parts, checks = [], []
    for activation, labels in KINDS:
        drawn = problems(study, activation=activation, mixed=labels == "mixed")
        for draw, given in enumerate(drawn):
            found = pd.DataFrame(pruned_floors(given, shares))
            if draw == 0:
                kept = kept_by_differences(given, shares)
                trace = found["loosened"] / found["loosened"].iloc[0]
                own = {"activation": activation, "labels": labels, "kept": kept, "trace": trace}
                checks.append(pd.DataFrame({**own, "pruned": found["pruned"]}))
            known = {
                "activation": activation,
                "labels": labels,
                "draw": draw,
                "point": range(len(found)),
                "exact": found["exact"] / found["exact"].iloc[0],
                "trace": found["loosened"] / found["loosened"].iloc[0],
                "exact over loosened": found["exact"] / found["loosened"],
            }
            parts.append(found.assign(**known))
    runs = pd.concat(parts, ignore_index=True)
    columns = ["pruned", "outer pruned", "kept of the squared norm", "exact", "trace"]
    medians = runs.groupby(["activation", "labels", "point"])[columns].median().reset_index()
    return Tables(
        {
            "bounds": medians,
            "runs": runs,
            "by differences": pd.concat(checks, ignore_index=True),
        },
        ran=f"{p.draws} networks of each kind, d = {p.dimension}, B = {p.batch_size}, "
        f"m = {p.width:,}.",
    )


def _edge(dimension: int) -> float:
    """The share of all entries that are the inner weights', the threshold of Remark E.4."""
    return dimension / (dimension + 1)


def pruned_floors(given: Problem, shares: np.ndarray) -> list[dict[str, float]]:
    """Bounds of an undefended gradient, both layers, when its smallest entries are pruned.

    For each share of all ``m (d + 1)`` entries: the ``exact`` and the ``loosened`` bound, ``kept of
    the squared norm`` (of the Jacobian, the rho that Proposition 3.4 defines), and ``outer
    pruned``, the pruned share of the output weights' entries.
    """
    drawn = (given.network, given.inputs, given.released)
    chunks = [*gradient_jacobians(*drawn), *inner_gradient_jacobians(*drawn)]
    values, jacobian = (np.concatenate(parts) for parts in zip(*chunks, strict=True))
    order = np.argsort(np.abs(values))
    whole, width = float(np.sum(jacobian**2)), given.network.width
    found = []
    for share in np.asarray(shares, dtype=float):
        kept = order[round(share * len(order)) :]
        info = bounds.gradient_information([(values[kept], jacobian[kept])])
        found.append(
            {
                "pruned": float(share),
                "exact": float(bounds.cramer_rao_error(info, 1.0, given.inputs)),
                "loosened": float(bounds.cramer_rao_error_loosened(info, 1.0, given.inputs)),
                "kept of the squared norm": float(np.trace(info.matrix)) / whole,
                # the output weights' entries come first
                "outer pruned": 1.0 - np.count_nonzero(kept < width) / width,
            }
        )
    return found


def kept_by_differences(given: Problem, shares: np.ndarray) -> np.ndarray:
    """The kept share of the Jacobian's squared norm for each pruned share, without derivatives.

    The gradient of both layers at records moved by a small step in every coordinate.
    """
    x, step = given.inputs, 1e-5
    squares, values = 0.0, _both_layers(given, x)
    for place in np.ndindex(x.shape):
        move = np.zeros(x.shape)
        move[place] = step
        slopes = (_both_layers(given, x + move) - _both_layers(given, x - move)) / (2 * step)
        squares = squares + slopes**2
    order = np.argsort(np.abs(values))
    left = np.append(np.cumsum(squares[order][::-1])[::-1], 0.0)
    return np.array([left[round(share * len(order))] for share in shares]) / left[0]


def _both_layers(given: Problem, inputs: np.ndarray) -> np.ndarray:
    """The gradient of both layers at other records, the output weights' entries first."""
    inner, outer = weights_of(given.network)
    s, z = given.network.function, inner @ inputs.T
    residuals = 2.0 * (outer @ s.value(z) - given.labels)
    by_record = outer[:, None] * s.slope(z) * residuals
    return np.concatenate([s.value(z) @ residuals, (by_record @ inputs).ravel()])


def judge(tables: Tables) -> Iterator[Verdict]:
    runs, edge = tables["runs"], _edge(tables.parameters.dimension)
    # with rho the pruned share of the squared norm the loosened bound is the lemma's
    by_differences = tables["by differences"]
    lemma = (by_differences["trace"] * np.sqrt(by_differences["kept"]) - 1).abs().max()
    yield check(
        "liu2024/lemE3",
        lemma < BY_DIFFERENCES and (runs["exact over loosened"] >= 1 - ROUNDING).all(),
        "pruning by size divides the loosened bound by sqrt(1 - rho), with rho the pruned share of "
        "the squared Jacobian (here by differences of the gradient), and leaves it below the exact "
        "one",
        ours=f"exact over loosened {span(runs['exact over loosened'])}",
        paper="sigma sqrt(d/((1 - rho) m))",
        tolerance=f"{BY_DIFFERENCES:g}",
    )
    flat = runs.loc[runs["pruned"] <= edge, "exact"].max()
    after = runs[runs["pruned"] > edge]
    tenth, most = (
        after.loc[np.isclose(after["outer pruned"], share, atol=0.02), "exact"]
        for share in (0.1, 0.9)
    )
    yield check(
        "E-013",
        flat < FLAT and (most > GREATLY).all() and (tenth < NO_JUMP).all(),
        "the bound does not change until a share d/(d + 1) of all entries, those of the inner "
        "weights, is pruned, and grows beyond without a jump: the smallest of the output weights' "
        "entries carry little information",
        ours=f"up to d/(d + 1) by {flat - 1:.1%} at most; with a tenth of the output "
        f"weights' entries gone by {span(tenth, 3)}, with nine tenths by {span(most)}",
        paper="increases greatly after d/(d + 1)",
        tolerance=f"factors of {FLAT:g}, {NO_JUMP:g}, {GREATLY:g}",
    )


CAPTION = (
    "The bound on the reconstruction error when the smallest entries of the whole gradient "
    "are pruned: exact (solid) and by the paper's lemma (dashed), each over its value without "
    "defence, for labels of both signs and of one. Left: over the share of entries kept, with the "
    "threshold that Remark E.4 names; up to it the inner weights' entries go. Right: beyond it, "
    "over the share of the output weights' entries. Medians over networks. Not in the paper."
)


@drawing
def draw(tables: Tables) -> Figure:
    table, edge = tables["bounds"], _edge(tables.parameters.dimension)
    figure, (row,) = panels(1, 2, 4.3, 3.3)
    for (activation, labels), part in table.groupby(["activation", "labels"], sort=False):
        colour, _ = KINDS[activation, labels]
        exact = part["exact"].where(np.isfinite(part["exact"]))
        for axis, share in zip(row, (1 - part["pruned"], part["outer pruned"]), strict=True):
            axis.plot(share, exact, color=colour, marker="o", ms=2.5)
            axis.plot(share, part["trace"], color=colour, linestyle="--", linewidth=1.1)
    row[0].axvline(1 - edge, color=GREY, linestyle=":")
    row[0].text(1.08 * (1 - edge), 10, "1/(d+1)", ha="right", fontsize=9, color=GREY)
    row[0].set(xscale="log", xlabel="share of all entries kept")
    row[0].invert_xaxis()
    row[0].set(ylabel="bound / bound without defence")
    row[1].set(xlabel="share of the output weights' entries pruned")
    for axis in row:
        axis.set(yscale="log")
    lines = [legend_line(name, colour) for colour, name in KINDS.values()]
    lines += [legend_line("exact", GREY, "-", "o"), legend_line("by the lemma", GREY, "--")]
    legend_above(figure, lines, 6)
    return figure

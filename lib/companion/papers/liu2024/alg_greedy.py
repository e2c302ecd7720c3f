"""Greedy matching of features against the best of all permutations, on noisy copies."""

import math
from collections.abc import Iterator

import numpy as np
import pandas as pd
import torch
from matplotlib.figure import Figure
from scipy.optimize import linear_sum_assignment

from companion.exhibit import *
from reconrisk.attacks import greedy_matching

PARAMETERS = {
    "dimension": Parameter("int", 64, 512, "512", "of the features", low=2),
    "sets": Parameter("int", 200, 2000, "not printed", "sets of features for each setting", low=10),
}
SETTLES = ("E-035",)
ALTERED = {
    "matchings": {"greedy": "scores of greedy matching", "greedy right": "shares of right pairs"},
    "trap": {"greedy": "scores in the trap"},
}

#: scores of two features and two candidates: the greedy first pair costs more than it gains
TRAP = np.array([[0.9, 0.8], [0.8, 0.1]])


@measurement
def measure(study: Context) -> Tables:
    p = study.parameters
    rows = []
    for size in (2, 4, 8, 16, 32):
        for noise in (0.0, 0.2, 0.5, 1.0, 2.0, 4.0):
            rng = study.rng("features", size, int(10 * noise))
            # the common part gives cosines of about a third, as a network's features have
            common = rng.standard_normal((p.sets, 1, p.dimension)) * math.sqrt(0.5)
            true = _unit(rng.standard_normal((p.sets, size, p.dimension)) + common)
            added = rng.standard_normal(true.shape) * (noise / math.sqrt(p.dimension))
            scores = (true @ np.swapaxes(_unit(true + added), 1, 2)) ** 2
            rows.append({"size": size, "noise": noise, **_matched(scores)})
    return Tables(
        {
            "matchings": pd.DataFrame(rows),
            "trap": pd.DataFrame([_matched(TRAP[None])])[["greedy", "best"]],
        },
        ran=f"{p.sets} sets of 2 to 32 features of dimension {p.dimension} with a common part, and "
        "their copies with noise of 0 to 4 times their norm.",
    )


def _unit(features: np.ndarray) -> np.ndarray:
    return features / np.linalg.norm(features, axis=2, keepdims=True)


def _matched(scores: np.ndarray) -> dict[str, float]:
    """Mean score and share of right pairs of matrices (sets, n, n), greedily and at best."""
    pairings = {
        "greedy": greedy_matching(torch.as_tensor(scores)).numpy(),
        "best": np.stack([linear_sum_assignment(s, maximize=True)[1] for s in scores]),
    }
    own = np.arange(scores.shape[1])
    reached = {k: np.take_along_axis(scores, v[..., None], 2).mean() for k, v in pairings.items()}
    return reached | {f"{k} right": (v == own).mean() for k, v in pairings.items()}


def judge(tables: Tables) -> Iterator[Verdict]:
    table = tables["matchings"]
    trapped = tables["trap"].iloc[0]
    yield check(
        "liu2024/alg_greedy",
        (table["greedy"] <= table["best"] + 1e-12).all()
        and (2 * table["greedy"] >= table["best"]).all()
        and math.isclose(trapped["best"] - trapped["greedy"], 0.3),
        "greedy matching never beats the best permutation and always reaches half of it; its "
        "first pair can cost more than it gains",
        ours=f"scores {TRAP.tolist()}: {trapped['greedy']:.1f} against {trapped['best']:.1f} a "
        "pair",
    )
    share = table["greedy"] / table["best"]
    useful = table["noise"] <= 1.0
    fewer_right = (table["best right"] - table["greedy right"])[useful].max()
    yield check(
        "E-035",
        share[useful].min() >= 0.99 and fewer_right <= 0.02 and share.min() >= 0.9,
        "with noise up to the features' own norm greedy matching reaches at least 99% of the best "
        "permutation's squared cosine, and at most 2% fewer right pairs, for 2 to 32 features; "
        "with up to four times as much, at least 90%",
        ours=f"at worst {100 * share[useful].min():.0f}% and {100 * share.min():.0f}% of the "
        "squared cosine",
    )


CAPTION = (
    "Greedy matching of features to their noisy copies and the best of all permutations. Left: "
    "squared cosine of greedy matching over that of the best permutation. Right: share of right "
    "pairs, solid greedy, dashed best. With noise up to the features' own norm the two agree; "
    "with more, greedy matching finds fewer right pairs."
)


@drawing
def draw(tables: Tables) -> Figure:
    table = tables["matchings"]
    figure, ((left, right),) = panels(1, 2, width=4.2, height=3.0)
    handles = []
    for (size, rows), colour in zip(table.groupby("size"), COLOURS, strict=False):
        left.plot(rows["noise"], rows["greedy"] / rows["best"], "o-", color=colour, markersize=4)
        right.plot(rows["noise"], rows["greedy right"], "o-", color=colour, markersize=4)
        right.plot(rows["noise"], rows["best right"], "--", color=colour)
        handles.append(legend_line(f"{size} features", colour, "-", "o"))
    left.set(xlabel="noise over the features' norm", ylabel="squared cosine, greedy over best")
    right.set(xlabel="noise over the features' norm", ylabel="right pairs", ylim=(0, 1.03))
    legend_above(figure, [*handles, legend_line("best permutation", GREY, "--")], 6)
    return figure

"""Lemma 8: trade-off functions are convex; as Remark 3 defines them they would be zero."""

from collections.abc import Iterator

import numpy as np
import pandas as pd

from companion.exhibit import *
from companion.papers.hayes2023 import finite_mechanisms as finite
from companion.papers.hayes2023.unprinted import count

#: error of a linear program
PROGRAMMING = 1e-8

PARAMETERS = {"pairs": count(40, 1000, "random pairs of distributions")}
SETTLES = ("C-011", "E-C-05")
ALTERED = {
    "pairs": {
        "above a chord": "heights of trade-off functions above a chord",
        "from 1 - blow-up": "distances from one minus the blow-up",
        "Remark 3": "least probabilities over all events",
    }
}
SCENARIOS = (
    scenario(
        "events alone give a convex function as well",
        column("pairs", "events, above a chord", lambda c: 0 * c),
    ),
)


@measurement
def measure(study: Context) -> Tables:
    p, rng = study.parameters, study.rng("pairs")
    pairs = pd.DataFrame(_trade_off(*finite.random_pair(rng)) for _ in range(p.pairs))
    return Tables(
        {"pairs": pairs}, ran=f"{p.pairs} random pairs of distributions on up to 7 outputs."
    )


def _trade_off(mu: np.ndarray, nu: np.ndarray) -> dict[str, float]:
    """The trade-off function on a grid of kappa: over tests, over events, and as printed."""
    grid = np.linspace(0, 1, 21)
    trade_off = np.array([finite.trade_off_by_programming(mu, nu, kappa) for kappa in grid])
    level, power = finite.events(mu, nu)
    return {
        "above a chord": finite.above_chords(trade_off),
        "events, above a chord": finite.above_chords(1 - finite.blow_up_of_events(mu, nu, grid)),
        "from 1 - blow-up": float(np.abs(trade_off - 1 + finite.blow_up(mu, nu, grid)).max()),
        "Remark 3": max(float(power[level <= kappa].min()) for kappa in grid),
    }


def judge(tables: Tables) -> Iterator[Verdict]:
    worst = tables["pairs"].max()
    related = worst["from 1 - blow-up"] < PROGRAMMING
    yield check(
        "hayes2023/lem8",
        worst["above a chord"] < PROGRAMMING and worst["events, above a chord"] > 0.01,
        "the trade-off function over randomised tests is convex; over events alone it is not",
        ours=f"{len(tables['pairs'])} random pairs of distributions, each value a linear program",
        tolerance="1e-8 (linear programs)",
    )
    yield check(
        "C-011",
        related,
        "the trade-off function, read as the smallest type II error, is one minus the blow-up",
        ours="linear programs against the Neyman-Pearson lemma",
        tolerance="1e-8",
    )
    yield refute(
        "E-C-05",
        holds=worst["Remark 3"] > 0,
        corrected_holds=related,
        ours=f"as printed it is {worst['Remark 3']:g} at every kappa for all pairs: E may be empty",
    )

"""Lemma 9: the blow-up is concave in kappa, certified for runs of DP-SGD."""

from collections.abc import Iterator

import numpy as np
import pandas as pd
from scipy.special import ndtr

from companion.exhibit import *
from companion.papers.hayes2023 import finite_mechanisms as finite
from companion.papers.hayes2023 import unprinted
from reconrisk import DPSGD, bounds

#: slack for sums of a few probabilities
ROUNDING = 1e-10

STEPS = (1, 1, 100, 100, 1000, 100)
PARAMETERS = {
    "pairs": unprinted.count(100, 1000, "random pairs of distributions"),
    "points": unprinted.count(9, 17, "values of kappa for each run", low=5),
    "noise_multipliers": unprinted.noise_multipliers(0.5, 1.0, 10.0, 0.5, 1.0, 5.0),
    "sampling_rates": unprinted.sampling_rates(1.0, 0.3, 1.0, 0.02, 0.02, 0.5),
    "steps": unprinted.counts(STEPS, STEPS, "T, steps; one run for each entry of the lists", low=1),
}
SHOWN = ("runs",)
ALTERED = {"finite pairs": {"tests, below a chord": "depths of tests below a chord"}}
SCENARIOS = (
    scenario(
        "events alone are concave as well",
        column("finite pairs", "events, below a chord", lambda c: 0 * c),
    ),
    scenario(
        "runs whose gamma is {} lower between two values of kappa",
        column("heights", "least height above a chord", lambda c, by: c - by),
        unit="",
    ),
)


@measurement
def measure(study: Context) -> Tables:
    p, rng = study.parameters, study.rng("pairs")
    kappas = ndtr(np.linspace(-4, 4, p.points))
    settings = zip(p.noise_multipliers, p.sampling_rates, p.steps, strict=True)
    heights = pd.DataFrame(_height_above_chords(DPSGD(*run), kappas) for run in settings)
    least = heights["least height above a chord"].map("{:.2g}".format)
    pairs = [finite.random_pair(rng) for _ in range(p.pairs)]
    grid = np.linspace(0, 1, 101)
    chords = {
        f"{name}, below a chord": [finite.above_chords(-curve(mu, nu, grid)) for mu, nu in pairs]
        for name, curve in (("tests", finite.blow_up), ("events", finite.blow_up_of_events))
    }
    return Tables(
        {
            "heights": heights,
            "finite pairs": pd.DataFrame(chords),
            "runs": heights[["sigma", "q", "T"]].assign(**{least.name: least}),
        },
        ran=f"enclosures of gamma for {len(heights)} runs; {p.pairs} random finite pairs.",
    )


def _height_above_chords(run: DPSGD, kappas: np.ndarray) -> dict[str, float]:
    """A lower bound on the height of gamma above the chord of its neighbours."""
    lower, upper = bounds.rero_curve(run, kappas)
    share = (kappas[1:-1] - kappas[:-2]) / (kappas[2:] - kappas[:-2])
    chord = (1 - share) * upper[:-2] + share * upper[2:]
    return {
        "sigma": run.noise_multiplier,
        "q": run.sampling_rate,
        "T": run.steps,
        "least height above a chord": float((lower[1:-1] - chord).min()),
    }


def judge(tables: Tables) -> Iterator[Verdict]:
    heights, pairs = tables["heights"], tables["finite pairs"]
    tests, events = pairs["tests, below a chord"].max(), pairs["events, below a chord"].max()
    yield check(
        "hayes2023/lem9",
        (heights["least height above a chord"] > 0).all() and tests < ROUNDING and events > 0.01,
        "the blow-up is concave in kappa, for DP-SGD strictly; over events of a pair that is not "
        "testable it is not",
        ours=f"certified at {tables.parameters.points} values of kappa for {len(heights)} runs; "
        f"{len(pairs)} finite pairs, where events alone are below a chord by up to {events:.2f}",
    )

"""Lemma 9: the blow-up is concave in kappa, certified for runs of DP-SGD."""

from collections.abc import Iterator

import numpy as np
import pandas as pd
from scipy.special import ndtr

from companion.papers.hayes2023 import finite_mechanisms as finite
from companion.study import Context, Parameter, Tables, Verdict, check, measurement
from reconrisk import DPSGD, bounds

#: slack for sums of a few probabilities
ROUNDING = 1e-10

THEOREM = "not printed: a statement, not an experiment"
SIGMAS = (0.5, 1.0, 10.0, 0.5, 1.0, 5.0)
RATES = (1.0, 0.3, 1.0, 0.02, 0.02, 0.5)
STEPS = (1, 1, 100, 100, 1000, 100)
PARAMETERS = {
    "pairs": Parameter("int", 100, 1000, THEOREM, "random pairs of distributions", low=1),
    "points": Parameter("int", 9, 17, THEOREM, "values of kappa for each run", low=5),
    "noise_multipliers": Parameter(
        "floats", SIGMAS, SIGMAS, THEOREM, "sigma, noise multipliers", low=1e-3
    ),
    "sampling_rates": Parameter("floats", RATES, RATES, THEOREM, "q, sampling rates", low=1e-6),
    "steps": Parameter(
        "ints", STEPS, STEPS, THEOREM, "T, steps; one run for each entry of the three lists", low=1
    ),
}
SHOWN = ("runs",)


@measurement
def measure(study: Context) -> Tables:
    p = study.parameters
    kappas = ndtr(np.linspace(-4, 4, p.points))
    settings = zip(p.noise_multipliers, p.sampling_rates, p.steps, strict=True)
    heights = pd.DataFrame(_height_above_chords(DPSGD(*run), kappas) for run in settings)
    least = heights["least height above a chord"].map("{:.2g}".format)
    rng = study.rng("pairs")
    pairs = [finite.random_pair(rng) for _ in range(p.pairs)]
    grid = np.linspace(0, 1, 101)
    chords = [
        [finite.above_chords(-curve(mu, nu, grid)) for mu, nu in pairs]
        for curve in (finite.blow_up, finite.blow_up_of_events)
    ]
    return Tables(
        {
            "heights": heights,
            "finite pairs": pd.DataFrame(
                dict(zip(("tests, below a chord", "events, below a chord"), chords, strict=True))
            ),
            "runs": heights[["sigma", "q", "T"]].assign(**{least.name: least}),
        },
        ran=f"enclosures of gamma for {len(heights)} runs; {p.pairs} random finite pairs.",
    )


def _height_above_chords(run: DPSGD, kappas: np.ndarray) -> dict[str, float]:
    """The least height of gamma above the chord of its neighbours, by the ends that make it so."""
    lower, upper = bounds.rero_curve(run, kappas)
    share = (kappas[1:-1] - kappas[:-2]) / (kappas[2:] - kappas[:-2])
    chord = (1 - share) * upper[:-2] + share * upper[2:]
    return {
        "sigma": run.noise_multiplier,
        "q": run.sampling_rate,
        "T": run.steps,
        "least height above a chord": float((lower[1:-1] - chord).min()),
        "enclosure's width": float((upper - lower).max()),
    }


def judge(tables: Tables) -> Iterator[Verdict]:
    heights, pairs = tables["heights"], tables["finite pairs"]
    tests, alone = pairs["tests, below a chord"].max(), pairs["events, below a chord"].max()
    yield check(
        "hayes2023/lem9",
        (heights["least height above a chord"] > 0).all() and tests < ROUNDING and alone > 0.01,
        "the blow-up is concave in kappa, for DP-SGD strictly; by events of a pair that is not "
        "testable it is not",
        ours=f"certified at {tables.parameters.points} values of kappa for {len(heights)} runs; "
        f"{len(pairs)} finite pairs, where events alone miss a chord by up to {alone:.2f}",
    )

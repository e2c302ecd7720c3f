"""Lemma 12: the blow-up as an infimum of total variations, as printed and right."""

import itertools
from collections.abc import Callable, Iterator

import numpy as np
import pandas as pd
from scipy import optimize

from companion.papers.hayes2023 import finite_mechanisms as finite
from companion.papers.hayes2023.gaussian_pair import excess_of_mixture, excess_of_null
from companion.study import Context, Parameter, Tables, Verdict, check, measurement, refute
from reconrisk import DPSGD, bounds

#: slack for sums of a few probabilities, and for a minimum that a search finds
ROUNDING, SEARCH = 1e-10, 1e-9

THEOREM = "not printed: a statement, not an experiment"
KAPPAS = (1e-6, 0.01, 0.1, 0.5)
PARAMETERS = {
    "pairs": Parameter("int", 200, 10000, THEOREM, "random pairs of distributions", low=1),
    "noise_multipliers": Parameter(
        "floats", (0.5, 1.0, 3.0), (0.5, 1.0, 3.0), THEOREM, "sigma, noise multipliers", low=1e-3
    ),
    "sampling_rates": Parameter(
        "floats", (0.1, 0.5, 1.0), (0.1, 0.5, 1.0), THEOREM, "q, sampling rates", low=1e-6
    ),
    "kappas": Parameter(
        "floats", KAPPAS, KAPPAS, THEOREM, "kappa, prior probabilities of success", low=1e-12
    ),
}
SETTLES = ("E-C-07",)
SHOWN = ("blow-up and infima",)


@measurement
def measure(study: Context) -> Tables:
    p = study.parameters
    settings = itertools.product(p.noise_multipliers, p.sampling_rates, p.kappas)
    infima = pd.DataFrame(_infima(*setting) for setting in settings)
    rng = study.rng("pairs")
    pairs = pd.DataFrame(_finite_pair(*finite.random_pair(rng), rng) for _ in range(p.pairs))
    return Tables(
        {
            "infima": infima,
            "finite pairs": pairs,
            "blow-up and infima": infima.map("{:.4g}".format),
        },
        exact=("infima",),
        ran=f"minimisation over a for {len(infima)} one-step pairs; {p.pairs} random finite pairs.",
    )


def _infima(sigma: float, rate: float, kappa: float) -> dict[str, float]:
    """Both terms of the lemma on one step's dominating pair, least over a > 1."""
    first = _infimum(lambda a: a * kappa + excess_of_mixture(a, sigma, rate))
    printed_first = _infimum(lambda a: a * kappa + excess_of_null(a, sigma, rate))
    second = _infimum(lambda a: (kappa + a - 1 + excess_of_null(a, sigma, rate)) / a)
    closed = bounds.rero(DPSGD(sigma, rate), kappa)
    return {
        "sigma": sigma,
        "q": rate,
        "kappa": kappa,
        "blow-up": (closed.lower + closed.upper) / 2,
        "corrected": min(1.0, first, second),
        "printed": min(0.0, printed_first, second),
        "printed without the zero": min(printed_first, second),
    }


def _infimum(function: Callable[[np.ndarray], np.ndarray]) -> float:
    """The infimum over a > 1, by a grid in log(a - 1) and a search around its least value."""
    grid = np.linspace(-30, 60, 901)

    def at(u: float | np.ndarray) -> np.ndarray:
        return function(1 + np.exp(u))

    values = at(grid)
    best = int(np.argmin(values))
    low, high = grid[max(best - 1, 0)], grid[min(best + 1, len(grid) - 1)]
    found = optimize.minimize_scalar(
        lambda u: float(at(u)), bounds=(low, high), method="bounded", options={"xatol": 1e-12}
    )
    return float(min(values[best], found.fun))


def _finite_pair(mu: np.ndarray, nu: np.ndarray, rng: np.random.Generator) -> dict[str, float]:
    """The corrected formula and the blow-up of a finite pair, at a random kappa.

    Both terms are piecewise linear in a or 1/a, so that the infimum is at a ratio of the pair or
    at the ends of the range.
    """
    kappa = rng.random()
    with np.errstate(divide="ignore"):
        ratio = np.concatenate([mu / nu, [1.0, 1e300]])
    up = ratio[(ratio >= 1) & (ratio < 1e299)]
    down = 1 / ratio[(ratio <= 1) & (ratio > 0)]
    first = [a * kappa + np.clip(mu - a * nu, 0, None).sum() for a in up]
    # a without end: the second term tends to mu's whole mass where nu has some
    second = [(kappa + np.clip(a * mu - nu, 0, None).sum()) / a for a in down]
    corrected = float(min(1.0, *first, *second))
    blow_up = float(finite.blow_up(mu, nu, kappa))
    return {"kappa": kappa, "blow-up": blow_up, "corrected": corrected}


def judge(tables: Tables) -> Iterator[Verdict]:
    infima, pairs = tables["infima"], tables["finite pairs"]
    short = infima["blow-up"] - infima["printed without the zero"]
    most = infima.loc[short.idxmax()]
    corrected = (infima["corrected"] - infima["blow-up"]).abs().max() < SEARCH and (
        pairs["corrected"] - pairs["blow-up"]
    ).abs().max() < ROUNDING
    yield check(
        "hayes2023/lem12",
        corrected,
        "with min{1, ...} and the first term's arguments exchanged, the infimum is the blow-up",
        ours=f"{len(infima)} one-step pairs against the closed form, {len(pairs)} random finite "
        "pairs against the Neyman-Pearson lemma",
        tolerance="1e-9",
    )
    yield refute(
        "E-C-07",
        holds=(infima["printed"] >= infima["blow-up"]).any() or short.max() <= 1e-3,
        corrected_holds=corrected and (infima["printed"] == 0).all(),
        ours=f"{most['blow-up']:.4f} at sigma = {most['sigma']:g}, q = {most['q']:g}, kappa = "
        f"{most['kappa']:g}",
        paper=f"0; without the zero {most['printed without the zero']:.4f}",
    )

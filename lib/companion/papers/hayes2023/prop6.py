"""Proposition 6: how often the estimate of kappa from samples covers it."""

import itertools
import math
from collections.abc import Iterator

import numpy as np
import pandas as pd
from scipy import stats

from companion.exhibit import *
from companion.papers.hayes2023 import unprinted
from reconrisk import bounds

#: level at which the bound is solved for kappa
LEVEL = 0.95
#: how far below its level a coverage may be, its Monte Carlo error included: six standard errors of
#: 2,000 samples at a level of 95%, the four that are included and two for the estimate itself
MARGIN = 0.03
#: N, kappa and tau where the promise is almost attained, so that little more would break it: where
#: hardly a sample falls into the ball, and where the tail is that of Chernoff's exponent
ALMOST = ((1, 0.01, 0.9), (10**8, 0.01, 0.02))
#: radius of the balls on the line
RADIUS = 0.05
#: kappa of each prior
PRIORS = {"ten equal candidates": 0.1, "one likely candidate": 0.3, "uniform on a line": 0.1}

PARAMETERS = {
    "samples": unprinted.counts((50, 500), (50, 500, 5000), "N, samples of the prior", low=1),
    "kappas": unprinted.numbers(0.01, 0.1, 0.5, meaning="kappa", low=1e-9),
    "taus": unprinted.numbers(0.1, 0.3, 0.6, meaning="tau", low=1e-6),
    "repeats": unprinted.count(2000, 20000, "samples of each size", low=100),
}
SETTLES = ("C-055",)
SHOWN = ("one ball",)
ALTERED = {
    "exact": {"missed": "probabilities of a miss"},
    "simulated": {
        "covered": "shares of samples that cover the largest ball",
        "Clopper-Pearson": "shares of Clopper-Pearson limits that hold",
        "Chernoff": "shares of Chernoff limits that hold",
    },
}


@measurement
def measure(study: Context) -> Tables:
    p = study.parameters
    settings = (*itertools.product(p.samples, p.kappas, p.taus), *ALMOST)
    exact = pd.DataFrame(itertools.starmap(_one_ball, settings))
    simulated = pd.DataFrame(
        _largest_ball(study, *setting) for setting in itertools.product(PRIORS, p.samples, p.taus)
    )
    return Tables(
        {"exact": exact, "simulated": simulated, "one ball": exact.drop(columns="missed").round(4)},
        exact=("exact",),
        ran=f"{p.repeats} samples of each size from {len(PRIORS)} priors.",
    )


def _promised(count: int, kappa: float, tau: float) -> float:
    return 1 - math.exp(-count * tau**2 * kappa / 2)


def _one_ball(count: int, kappa: float, tau: float) -> dict[str, float]:
    """The binomial chance that kappa <= kappa-hat / (1 - tau) for one fixed ball."""
    least_hits = math.ceil((1 - tau) * kappa * count * (1 - 1e-12))
    return {
        "N": count,
        "kappa": kappa,
        "tau": tau,
        "promised": _promised(count, kappa, tau),
        "covered": float(stats.binom.sf(least_hits - 1, count, kappa)),
        "missed": float(stats.binom.cdf(least_hits - 1, count, kappa)),
    }


def _largest_ball(study: Context, prior: str, count: int, tau: float) -> dict[str, float | str]:
    """How often the estimate from the fullest ball of ``count`` samples covers a prior's kappa."""
    kappa = PRIORS[prior]
    rng = study.rng("samples", prior, count, tau)
    estimates = _estimates(rng, prior, count, study.parameters.repeats)
    values, back = np.unique(estimates, return_inverse=True)

    def coverage(method: str) -> float:
        upper = [bounds.prior_success_from_samples(v, count, LEVEL, method=method) for v in values]
        return float(np.mean(np.array(upper)[back] >= kappa))

    return {
        "prior": prior,
        "N": count,
        "tau": tau,
        "promised": _promised(count, kappa, tau),
        "covered": float(np.mean(estimates >= (1 - tau) * kappa * (1 - 1e-12))),
        "Clopper-Pearson": coverage("binomial"),
        "Chernoff": coverage("chernoff"),
    }


def _estimates(rng: np.random.Generator, prior: str, count: int, repeats: int) -> np.ndarray:
    """kappa-hat of many samples from a prior: the share of the fullest ball."""
    if prior == "uniform on a line":
        draws = np.sort(rng.random((repeats, count)), axis=1)
        return np.array([_fullest_window(row) for row in draws]) / count
    equal = prior == "ten equal candidates"
    weights = np.full(10, 0.1) if equal else np.array([PRIORS[prior]] + [0.7 / 90] * 90)
    return rng.multinomial(count, weights, size=repeats).max(axis=1) / count


def _fullest_window(points: np.ndarray) -> int:
    """Most points of a sorted row within ``RADIUS`` of one place on the line."""
    ends = np.searchsorted(points, points + 2 * RADIUS, side="right")
    return int((ends - np.arange(len(points))).max())


def judge(tables: Tables) -> Iterator[Verdict]:
    exact, simulated = tables["exact"], tables["simulated"]
    repeats = tables.parameters.repeats
    # failures are compared, because coverages round to one
    failing = np.exp(-exact["N"] * exact["tau"] ** 2 * exact["kappa"] / 2)
    one_ball = bool((exact["missed"] <= failing).all())
    largest = _at_least(simulated["covered"], simulated["promised"], repeats)
    solved = _at_least(simulated[["Clopper-Pearson", "Chernoff"]].min(axis=1), LEVEL, repeats)
    right = one_ball and largest
    for target, holds in (("hayes2023/prop6", right and solved), ("C-055", right)):
        yield check(
            target,
            holds,
            "kappa <= kappa-hat / (1 - tau) with probability at least 1 - e^(-N tau^2 kappa/2)",
            ours=f"exact for one ball in {len(exact)} settings, simulated for the largest of all "
            f"balls in {len(simulated)}; solved for the unknown kappa it is an upper bound at its "
            "level",
            tolerance=f"{MARGIN:g} of the simulated coverages, their Monte Carlo error included",
        )


def _at_least(coverage: pd.Series, level: pd.Series | float, repeats: int) -> bool | None:
    """Whether coverages are at their level; None if the number of samples does not tell."""
    return at_least(coverage, level - MARGIN, np.sqrt(level * (1 - level) / repeats))

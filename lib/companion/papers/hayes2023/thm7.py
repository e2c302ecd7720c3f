"""Theorem 7: every inequality of the proof on Gaussian mechanisms, and why it needs testability."""

from collections.abc import Iterator

import numpy as np
import pandas as pd
from scipy.special import ndtr, ndtri

from companion.exhibit import *
from companion.papers.hayes2023 import finite_mechanisms as finite
from companion.papers.hayes2023 import unprinted

#: slack for inequalities between values of the normal distribution function
ROUNDING = 1e-10
#: the proof's chain of upper bounds on the success, in its order
PROOF = ("success", "own blow-ups", "dominating blow-ups", "blow-up of their mean", "gamma")

PARAMETERS = {
    "mechanisms": unprinted.count(200, 10000, "random mechanisms per setting"),
    "noise_multipliers": unprinted.noise_multipliers(0.3, 0.6, 1.0, 2.0, 4.0),
}
SHOWN = ("opposite candidates",)
ALTERED = {
    "proof": {
        "success": "successes",
        "own blow-ups": "candidates' own blow-ups",
        "dominating blow-ups": "dominating blow-ups",
    },
    "opposite candidates": {"success": "successes with opposite candidates"},
    "not testable": {"by tests": "blow-ups by tests"},
}


@measurement
def measure(study: Context) -> Tables:
    p, rng = study.parameters, study.rng("means")
    opposite = np.array([-1.0, 1.0]), np.array([0.5, 0.5])
    proof = pd.DataFrame(
        gaussian_proof(means, prior, sigma)
        for sigma in p.noise_multipliers
        for means, prior in [opposite, *(candidates(rng) for _ in range(p.mechanisms))]
    )
    return Tables(
        {
            "proof": proof,
            "opposite candidates": proof[:: p.mechanisms + 1],
            "not testable": _not_testable(),
        },
        exact=("opposite candidates",),
        ran=f"{len(proof)} mechanisms that add Gaussian noise to one of up to seven numbers in "
        "[-1, 1], with the best attack on each.",
    )


def candidates(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Means in [-1, 1] and prior probabilities of two to seven candidates."""
    count = int(rng.integers(2, 8))
    return rng.uniform(-1, 1, count), rng.dirichlet(np.ones(count))


def gaussian_proof(means: np.ndarray, prior: np.ndarray, sigma: float) -> dict[str, float]:
    """Success of the best attack on ``N(mean, sigma^2)``, and the proof's upper bounds on it."""
    low, high = regions(means, prior, sigma)
    named = _normal_mass(low / sigma, high / sigma)  # how often each is named without the target
    hits = _normal_mass((low - means) / sigma, (high - means) / sigma)
    kappa = float(prior.max())
    values = (
        float(prior @ hits),
        float(prior @ _blow_up(named, np.abs(means) / sigma)),
        float(prior @ _blow_up(named, 1 / sigma)),
        float(_blow_up(prior @ named, 1 / sigma)),
        float(_blow_up(kappa, 1 / sigma)),
    )
    return {"sigma": sigma, "candidates": len(means), "kappa": kappa} | dict(
        zip(PROOF, values, strict=True)
    )


def regions(means: np.ndarray, prior: np.ndarray, sigma: float) -> tuple[np.ndarray, np.ndarray]:
    """Ends of the interval of outputs on which each candidate has the largest posterior."""
    gap = means[:, None] - means
    with np.errstate(divide="ignore", invalid="ignore"):
        crossing = (means[:, None] + means) / 2 + sigma**2 * np.log(prior / prior[:, None]) / gap
    low = np.max(crossing, axis=1, where=gap > 0, initial=-np.inf)
    high = np.min(crossing, axis=1, where=gap < 0, initial=np.inf)
    return np.minimum(low, high), high


def _normal_mass(low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """The standard normal mass of intervals, from the nearer tail to keep small masses exact."""
    flip = low > 0
    return ndtr(np.where(flip, -low, high)) - ndtr(np.where(flip, -high, low))


def _blow_up(kappa: np.ndarray | float, shift: np.ndarray | float) -> np.ndarray:
    return ndtr(ndtri(kappa) + shift)


def _not_testable() -> pd.DataFrame:
    """Three equally likely outputs name three of four candidates: no event has probability 1/4."""
    named = finite.symmetric_mechanism(3, 0.8)
    four = finite.Mechanism(
        np.full(4, 0.25), named.null, named.channel[[0, 1, 2, 2]], np.eye(4, dtype=bool)
    )
    kappa = finite.prior_success(four)
    by_events = max(finite.blow_up_of_events(row, four.null, kappa) for row in four.channel)
    return pd.DataFrame(
        {
            "kappa": [kappa],
            "by events": float(by_events),
            "best attack": finite.optimal_success(four),
            "by tests": float(np.interp(kappa, *finite.largest_blow_up(four))),
        }
    )


def judge(tables: Tables) -> Iterator[Verdict]:
    proof, tight = tables["proof"], tables["opposite candidates"]
    rises = (np.diff(proof[list(PROOF)], axis=1) > -ROUNDING).all()
    equal = (tight["gamma"] - tight["success"]).abs().max() < ROUNDING
    coarse = tables["not testable"].iloc[0]
    events, attack, tests = coarse[["by events", "best attack", "by tests"]]
    yield check(
        "hayes2023/thm7",
        rises and equal and events < attack <= tests + ROUNDING,
        "every inequality of the proof holds, with equality throughout for two opposite "
        "candidates; for a pair that is not testable, events alone give no bound",
        ours=f"{len(proof)} Gaussian mechanisms; three equally likely outputs, kappa = 1/4: "
        f"events give {events:.3f}, an attack reaches {attack:.3f}, tests bound it by {tests:.3f}",
    )

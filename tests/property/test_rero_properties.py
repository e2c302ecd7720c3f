"""What must hold of the certified success of any attack, whatever was run."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from reconrisk import DPSGD, bounds
from reconrisk.privacy._saddle import Mechanism
from reconrisk.privacy._tradeoff import success_curve

noises = st.floats(np.log(0.2), np.log(100)).map(lambda v: float(np.exp(v)))
rates = st.one_of(
    st.just(1.0), st.floats(np.log(1e-4), 0).map(lambda v: float(min(np.exp(v), 1.0)))
)
counts = st.floats(0, np.log(1e5)).map(lambda v: int(np.exp(v)))
priors = st.floats(np.log(1e-12), np.log(0.999)).map(lambda v: float(np.exp(v)))

few = settings(max_examples=25, deadline=None)
KAPPAS = np.array([1e-12, 1e-7, 1e-3, 0.05, 0.3, 0.7, 0.99])


@few
@given(noises, rates, counts)
def test_coarse_and_fine_enclosures_meet_and_stay_between_the_simple_bounds(sigma, q, steps):
    mechanism = Mechanism(1 / sigma, q, steps)
    lower, upper = success_curve(mechanism, KAPPAS, 1e-4)
    coarse = success_curve(mechanism, KAPPAS, 0.05)
    assert np.all(np.maximum(lower, coarse[0]) <= np.minimum(upper, coarse[1]))
    assert np.all(lower >= KAPPAS) and np.all(upper <= 1)
    assert np.all(lower <= bounds.rero_gaussian(sigma, KAPPAS, steps=steps) * (1 + 1e-12))
    assert np.all(lower <= 1 - (1 - q) ** steps * (1 - KAPPAS) + 1e-12)
    assert np.all(upper >= (1 - q) * KAPPAS + q * bounds.rero_gaussian(sigma, KAPPAS) - 1e-15)


@few
@given(noises, rates, counts, priors, st.floats(1.01, 3.0))
def test_more_exposure_more_risk(sigma, q, steps, kappa, factor):
    least = bounds.rero(DPSGD(sigma, q, steps), kappa).lower
    for more in (
        DPSGD(sigma / factor, q, steps),
        DPSGD(sigma, min(q * factor, 1.0), steps),
        DPSGD(sigma, q, int(np.ceil(steps * factor))),
    ):
        assert bounds.rero(more, kappa).upper >= least * (1 - 1e-14)
    assert bounds.rero(DPSGD(sigma, q, steps), min(kappa * factor, 1.0)).upper >= least


@few
@given(noises, rates, counts, priors, priors)
def test_concave_in_the_prior(sigma, q, steps, one, other):
    middle = 0.5 * (one + other)
    lower, upper = bounds.rero_curve(DPSGD(sigma, q, steps), [one, middle, other])
    assert upper[1] >= 0.5 * (lower[0] + lower[2]) * (1 - 1e-14)


@settings(max_examples=10, deadline=None)
@given(noises, rates, st.integers(1, 60), st.sampled_from([0.02, 0.1, 0.5]), st.integers(0, 99))
def test_agrees_with_samples(sigma, q, steps, kappa, seed):
    run = DPSGD(max(sigma, 0.4), q, steps)
    sampled = bounds.rero_monte_carlo(run, kappa, 4000, seed, confidence=1 - 1e-9)
    certified = bounds.rero(run, kappa)
    assert max(sampled.lower, certified.lower) <= min(sampled.upper, certified.upper)

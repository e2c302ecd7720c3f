"""Priors that knowledge changes: bounds that survive, and the attacks that attain them."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize
from scipy import special as sc

from reconrisk import DPSGD, bounds, privacy

SAMPLED = DPSGD(1.0, 0.05, 100)


def gaussian(mu: float, kappa: np.ndarray) -> np.ndarray:
    return sc.ndtr(sc.ndtri(kappa) + mu)


@pytest.mark.parametrize("mu", [0.1, 1.0, 3.0])
@pytest.mark.parametrize("p", [0.5, 0.7, 0.99])
def test_two_unequal_secrets_are_attained_by_opposite_gradients(mu, p):
    exact = float(bounds.bayes_success_two(mu, p))
    found = bounds.rero_secrets(DPSGD(1 / mu), [p, 1 - p])
    assert found == pytest.approx(exact, rel=1e-9)
    assert found >= exact * (1 - 1e-12)


@pytest.mark.parametrize("run", [DPSGD(1.0), DPSGD(3.0, steps=4), SAMPLED])
@pytest.mark.parametrize("n", [2, 10, 300])
def test_equal_secrets_have_the_bound_at_their_number(run, n):
    assert bounds.rero_secrets(run, np.full(n, 1 / n)) == pytest.approx(
        bounds.rero(run, 1 / n).upper, rel=1e-6 if run.sampling_rate == 1 else 1e-9
    )


def test_the_weighted_bound_is_the_maximum_over_blind_guesses():
    """The primal problem by another optimiser: sum pi_z gamma(q_z) over the simplex."""
    pi, mu = np.array([0.5, 0.2, 0.15, 0.1, 0.05]), 0.8
    found = optimize.minimize(
        lambda q: -pi @ gaussian(mu, np.clip(q, 1e-12, 1 - 1e-12)),
        pi,
        bounds=[(1e-9, 1)] * 5,
        constraints={"type": "eq", "fun": lambda q: q.sum() - 1},
        options={"ftol": 1e-14, "maxiter": 500},
    )
    assert bounds.rero_secrets(DPSGD(1 / mu), pi) == pytest.approx(-found.fun, rel=1e-7)


def test_near_matches_lie_between_the_best_mixture_and_the_ball():
    pi, mu = np.arange(1, 7.0) / 21, 1.0
    near = np.abs(np.subtract.outer(np.arange(6), np.arange(6))) <= 1
    found = optimize.minimize(
        lambda w: -pi @ gaussian(mu, np.clip(w @ near, 1e-12, 1 - 1e-12)),
        np.full(6, 1 / 6),
        bounds=[(0, 1)] * 6,
        constraints={"type": "eq", "fun": lambda w: w.sum() - 1},
        options={"ftol": 1e-14, "maxiter": 500},
    )
    bound = bounds.rero_secrets(DPSGD(1 / mu), pi, near)
    assert -found.fun * (1 - 1e-9) <= bound <= -found.fun * 1.02
    assert bound < bounds.rero(DPSGD(1 / mu), (near @ pi).max()).upper
    alone = bounds.rero_secrets(DPSGD(1 / mu), pi, np.eye(6, dtype=bool))
    assert alone == pytest.approx(bounds.rero_secrets(DPSGD(1 / mu), pi), rel=0.01)


@pytest.mark.parametrize(("mu", "average", "together"), [(1.0, 0.967, 0.921), (0.25, 0.690, 0.638)])
def test_the_average_over_an_earlier_release_is_above_the_bound_on_both(mu, average, together):
    """Opposite gradients: the bound on both releases is attained, and the average is not below."""
    edges = np.r_[-np.inf, np.linspace(-8, 8, 401), np.inf]
    joint = 0.5 * np.stack([np.diff(sc.ndtr(edges - sign * mu)) for sign in (1, -1)], axis=1)
    assert bounds.rero_given(DPSGD(1 / mu), joint / joint.sum()) == pytest.approx(average, abs=5e-4)
    both = bounds.rero(DPSGD(1 / mu, steps=2), 0.5).upper
    assert both == pytest.approx(together, abs=5e-4)
    assert both == pytest.approx(sc.ndtr(math.sqrt(2) * mu), rel=1e-6)


@settings(max_examples=30, deadline=None)
@given(
    weights=st.lists(st.floats(0.001, 1.0), min_size=2, max_size=8),
    mu=st.floats(0.05, 4.0),
    seed=st.integers(0, 1000),
)
def test_no_geometry_of_candidates_beats_it(weights, mu, seed):
    pi = np.array(weights) / np.sum(weights)
    directions = np.random.default_rng(seed).standard_normal((pi.size, 3))
    directions *= mu / np.linalg.norm(directions, axis=1, keepdims=True)
    attack, error = bounds.bayes_success_simulated(
        directions @ directions.T, 4000, np.random.default_rng(seed), prior=pi
    )
    bound = bounds.rero_secrets(DPSGD(1 / mu), pi)
    assert attack <= bound + 5 * error + 1e-9
    assert pi.max() <= bound <= bounds.rero(DPSGD(1 / mu), pi.max()).upper + 1e-12


def test_a_sampled_run_is_at_most_its_curve_and_at_least_its_attack():
    pi = np.array([0.6, 0.3, 0.1])
    bound = bounds.rero_secrets(SAMPLED, pi)
    kappa = np.linspace(0.0, 1.0, 401)[1:-1]
    lower = bounds.rero_curve(SAMPLED, kappa)[0]
    # any blind guess gives a sum that the bound must reach
    best = max(
        pi @ np.interp([a, b, 1 - a - b], kappa, lower)
        for a in kappa[::20]
        for b in kappa[::20]
        if a + b < 0.99
    )
    assert best <= bound < 1.02 * best


def test_knowledge_gives_the_mean_over_what_is_known():
    joint = np.array([[0.2, 0.1, 0.0], [0.1, 0.1, 0.5]])
    kappa, weights = bounds.prior_success_given(joint)
    np.testing.assert_allclose(kappa, [2 / 3, 5 / 7])
    np.testing.assert_allclose(weights, [0.3, 0.7])
    exact = weights @ gaussian(1.0, kappa)
    assert bounds.rero_given(DPSGD(1.0), joint) == pytest.approx(exact, rel=1e-9)
    near = np.array([[True, True, False], [False, True, True]])
    kappa, _ = bounds.prior_success_given(joint, near)
    np.testing.assert_allclose(kappa, [1.0, 6 / 7])


def test_knowing_the_pair_attains_its_bound_and_exceeds_the_old_one():
    """n pairs of opposite gradients: the pair is known, the record in it is not."""
    n, mu = 200, 1.5
    pairs = np.kron(np.eye(n), [[0.5 / n, 0.5 / n]])
    bound = bounds.rero_given(DPSGD(1 / mu), pairs)
    assert bound == pytest.approx(float(bounds.bayes_success_two(mu, 0.5)), rel=1e-9)
    assert bound > 3 * bounds.rero(DPSGD(1 / mu), 0.5 / n).upper


def test_independent_knowledge_changes_nothing():
    prior, knowledge = np.array([0.5, 0.3, 0.2]), np.array([0.25, 0.75])
    assert bounds.rero_given(SAMPLED, np.outer(knowledge, prior)) == pytest.approx(
        bounds.rero(SAMPLED, 0.5).upper, rel=1e-3
    )


@pytest.mark.parametrize("run", [SAMPLED, DPSGD(2.0, 0.1, 500)])
def test_a_gaussian_summary_lies_above_the_curve_and_touches_it(run):
    mu = bounds.gaussian_summary(run, smallest=1e-4)
    kappa = np.geomspace(1e-4, 0.9, 60)
    lower, upper = bounds.rero_curve(run, kappa)
    above = gaussian(mu, kappa)
    assert np.all(lower[above < 0.98] <= above[above < 0.98])
    nearest = np.max(sc.ndtri(upper) - sc.ndtri(kappa))
    assert nearest * (1 - 1e-4) <= mu < 1.002 * nearest
    assert mu < math.sqrt(run.steps) / run.noise_multiplier


def test_a_gaussian_summary_against_the_authors_of_the_proposal():
    """The README of gdpnum 0.1, which leaves out levels below 1e-10."""
    found = bounds.gaussian_summary(DPSGD(9.4, 0.328, 2000), smallest=1e-9)
    assert found == pytest.approx(1.5685621993129137, rel=5e-4)


def test_the_gain_is_at_most_the_total_variation():
    kappa = np.linspace(0.001, 0.999, 200)
    for run in (DPSGD(0.7), SAMPLED):
        most = privacy.delta(run, 0.0)
        gains = bounds.rero_curve(run, kappa)[0] - kappa
        assert 0.999 * most.lower < gains.max() <= most.upper


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: bounds.rero_given(SAMPLED, [0.5, 0.5]), "joint must have shape"),
        (lambda: bounds.rero_given(SAMPLED, [[0.5, 0.6]]), "sum"),
        (lambda: bounds.rero_secrets(SAMPLED, [0.5, 0.6]), "sum"),
        (lambda: bounds.rero_secrets(SAMPLED, [0.5, 0.5], np.ones((2, 2))), "near must be bool"),
        (lambda: bounds.gaussian_summary(SAMPLED, smallest=0.5), r"smallest must be in"),
    ],
)
def test_errors_name_argument_and_range(call, words):
    with pytest.raises(ValueError, match=words):
        call()

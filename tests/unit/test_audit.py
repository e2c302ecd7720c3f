"""Audits: lower bounds that hold as often as they say, and that nothing exceeds."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize, stats
from scipy import special as sc

from reconrisk import DPSGD, bounds, privacy
from reconrisk.bounds._audit import _level_of
from reconrisk.privacy._audit import refuted_by_guesses

#: m, guesses, right, risk, delta; epsilon of the Gaussian audit by the recursion that the authors
#: of 2410.22235 published, and by the code of Appendix D of 2305.08846 (both to nine digits)
PUBLISHED = [
    (1000, 1000, 750, 0.05, 1e-5, 1.81889558, 0.976367469),
    (1000, 100, 99, 0.05, 1e-5, 4.72671528, 3.00283237),
    (5000, 200, 200, 0.01, 1e-6, 5.54805217, 3.72867844),
    (100, 100, 75, 0.05, 1e-3, 1.04903788, 0.672984665),
]


@pytest.mark.parametrize(("m", "guesses", "right", "risk", "delta", "gaussian", "any_"), PUBLISHED)
def test_published_recursions_give_the_same(m, guesses, right, risk, delta, gaussian, any_):
    mu = privacy.audit_gaussian(right, guesses, canaries=m, confidence=1 - risk)
    assert privacy.epsilon(DPSGD(1 / mu), delta).lower == pytest.approx(gaussian, rel=1e-8)
    # the better of two theorems: never less than the one, and here hardly more
    found = privacy.audit_epsilon(right, guesses, delta, canaries=m, confidence=1 - risk)
    assert any_ * (1 - 1e-8) < found < 1.02 * any_


@pytest.mark.parametrize("k", [2, 3, 10, 1000])
@pytest.mark.parametrize(("right", "guesses"), [(60, 100), (100, 100), (999, 1000)])
def test_at_delta_nought_it_is_the_limit_of_clopper_and_pearson(right, guesses, k):
    chance = sc.betaincinv(right, guesses - right + 1.0, 0.05)
    exact = max(0.0, math.log(chance * (k - 1) / (1 - chance)))
    found = privacy.audit_epsilon(right, guesses, candidates=k)
    assert found == pytest.approx(exact, abs=1e-7)
    assert found <= exact


@pytest.mark.parametrize("k", [2, 10])
@pytest.mark.parametrize("epsilon", [0.3, 1.0, 3.0])
def test_randomised_response_is_covered_and_hardly_better(epsilon, k):
    """The probability of a bound above the truth, summed exactly."""
    n = 200
    chance = math.exp(epsilon) / (math.exp(epsilon) + k - 1)
    counts = np.arange(n + 1)
    over = [privacy.audit_epsilon(w, n, candidates=k) > epsilon for w in counts]
    missed = float(stats.binom.pmf(counts, n, chance) @ over)
    assert 0.02 < missed <= 0.05


def _exceeds(bound, truth, counts, weights):
    return float(sum(p for w, p in zip(counts, weights, strict=True) if bound(int(w)) > truth))


@pytest.mark.parametrize("mu", [0.5, 2.0])
def test_independent_gaussians_are_covered(mu):
    n = 300
    weights = stats.binom.pmf(np.arange(n + 1), n, sc.ndtr(mu / 2))
    assert _exceeds(lambda w: privacy.audit_gaussian(w, n), mu, range(n + 1), weights) <= 0.05


def test_a_mechanism_that_sometimes_tells_all_is_covered():
    """It is (0, delta)-private, and tells everything with probability delta."""
    n, delta = 200, 0.04
    weights = (1 - delta) * stats.binom.pmf(np.arange(n + 1), n, 0.5)
    weights[n] += delta

    def bound(w: int) -> float:
        return privacy.audit_epsilon(w, n, delta)

    assert _exceeds(bound, 0.0, range(n + 1), weights) <= 0.05
    # who forgets the delta is wrong too often
    assert _exceeds(lambda w: privacy.audit_epsilon(w, n), 0.0, range(n + 1), weights) > 0.05


def test_canaries_that_disturb_one_another_are_covered():
    """All canaries in one sum: the guesses are far from independent."""
    rng, mu, n, runs = np.random.default_rng(0), 1.0, 60, 2000
    bits = rng.integers(2, size=(runs, n))
    released = mu * bits.sum(axis=1) + rng.standard_normal(runs)
    guess = released > mu * n / 2
    right = (bits == guess[:, None]).sum(axis=1)
    limit = {int(w): privacy.audit_gaussian(w, n) for w in np.unique(right)}
    assert np.mean([limit[int(w)] > mu for w in right]) <= 0.05


@pytest.mark.parametrize("k", [2, 4])
@pytest.mark.parametrize(("m", "guesses", "right"), [(20, 20, 15), (24, 12, 11), (10, 10, 10)])
def test_the_recursion_solves_the_linear_program(m, guesses, right, k):
    """For a curve of straight pieces all inequalities are linear in the masses."""
    epsilon, delta = 0.7, 0.01
    lines = [(delta, math.exp(epsilon)), (1 - math.exp(-epsilon) * (1 - delta), math.exp(-epsilon))]

    def level(power: float) -> float:
        return max(0.0, *((power - start) / slope for start, slope in lines))

    j = np.arange(guesses + 1)

    def least_total(risk: float) -> float:
        rows, limits = [-(j >= right).astype(float)], [-risk]
        for i in range(1, guesses + 1):
            hit, miss = (j >= i) * j / m, (j >= i - 1) * (guesses - j) / m
            for start, slope in lines:
                rows.append(hit - slope * miss / (k - 1))
                limits.append(start)
        return optimize.linprog(np.ones(guesses + 1), np.array(rows), limits).fun

    low, high = 1e-9, 1.0
    while high / low > 1 + 1e-7:
        middle = math.sqrt(low * high)
        refuted = refuted_by_guesses(level, right, guesses, m, k, middle)
        low, high = (low, middle) if refuted else (middle, high)
    assert least_total(0.999 * low) < 1 < least_total(1.001 * high)


@settings(max_examples=40, deadline=None)
@given(
    guesses=st.integers(2, 300),
    share=st.floats(0.0, 1.0),
    k=st.integers(2, 20),
    confidence=st.floats(0.5, 0.999),
    delta=st.sampled_from([0.0, 1e-6, 1e-2]),
)
def test_more_right_guesses_rule_out_more(guesses, share, k, confidence, delta):
    right = min(int(share * guesses), guesses - 1)
    for audit in (
        lambda w, **more: privacy.audit_gaussian(w, guesses, **more),
        lambda w, **more: privacy.audit_epsilon(w, guesses, delta, **more),
    ):
        here = audit(right, candidates=k, confidence=confidence)
        near = 1e-7 * (1 + here)
        assert here <= audit(right + 1, candidates=k, confidence=confidence) + near
        assert here <= audit(right, candidates=k + 1, confidence=confidence) + near
        assert here + near >= audit(right, candidates=k, confidence=0.5 + 0.5 * confidence)
        assert here + near >= audit(right, candidates=k, confidence=confidence, canaries=400)


@pytest.mark.parametrize(("canaries", "guesses", "least"), [(10_000, 430, 0.7), (10**6, 2073, 0.8)])
def test_one_run_shows_more_of_mu_with_more_canaries(canaries, guesses, least):
    """Not about half whatever the attack: with mu = 1 three quarters, and five sixths."""
    shown = []
    for seed in range(5):
        rng = np.random.default_rng(seed)
        inside = rng.random(canaries) < 0.5
        seen = inside - 0.5 + rng.normal(size=canaries)
        surest = np.abs(seen).argpartition(-guesses)[-guesses:]
        right = int(((seen > 0) == inside)[surest].sum())
        shown.append(privacy.audit_gaussian(right, guesses, canaries=canaries))
    assert least < np.median(shown) < 1


def test_several_numbers_of_guesses_share_the_risk():
    both = privacy.audit_gaussian([99, 750], [100, 1000], confidence=0.9)
    alone = [
        privacy.audit_gaussian(w, r, canaries=1000, confidence=0.95)
        for w, r in ((99, 100), (750, 1000))
    ]
    assert both == pytest.approx(max(alone), rel=1e-8)


def test_many_runs_have_the_limits_of_two_rates():
    power = stats.binomtest(900, 1000).proportion_ci(0.95, "exact").low
    level = stats.binomtest(100, 1000).proportion_ci(0.95, "exact").high
    found = privacy.audit_epsilon_many_runs(900, 1000, 100, 1000, 0.01)
    assert found == pytest.approx(math.log((power - 0.01) / level), rel=1e-9)
    # read in the other direction: few alarms are missed where few are false
    rare = privacy.audit_epsilon_many_runs(999, 1000, 400, 1000)
    miss = stats.binomtest(1, 1000).proportion_ci(0.95, "exact").high
    quiet = stats.binomtest(600, 1000).proportion_ci(0.95, "exact").low
    assert rare == pytest.approx(math.log(quiet / miss), rel=1e-9)
    mu = privacy.audit_gaussian_many_runs(900, 1000, 100, 1000)
    assert mu == pytest.approx(stats.norm.ppf(power) - stats.norm.ppf(level), rel=1e-9)
    assert privacy.audit_gaussian_many_runs(5, 1000, 100, 1000) == 0.0
    assert privacy.audit_epsilon_many_runs(5, 10, 10, 10) == 0.0


def test_the_limit_of_a_success():
    low = stats.binomtest(480, 1000).proportion_ci(0.9, "exact").low
    assert bounds.audit_rero(480, 1000) == pytest.approx(low, rel=1e-9)
    assert bounds.audit_rero(0, 10) == 0.0


@pytest.mark.parametrize(("right", "guesses", "m"), [(75, 100, 100), (40, 40, 400)])
def test_a_claim_of_full_batches_inverts_the_gaussian_audit(right, guesses, m):
    mu = privacy.audit_gaussian(right, guesses, canaries=m, confidence=0.95)
    found = bounds.audit_claim(DPSGD(1 / mu), right, guesses, canaries=m)
    assert 0.05 <= found < 0.056


def _guessed(run: DPSGD, sigma: float, n: int, rng: np.random.Generator) -> int:
    """Right guesses about n canaries of orthogonal gradients, with the likelihood's sign."""
    bits = rng.integers(2, size=n)
    takes = rng.random((run.steps, n)) < run.sampling_rate
    seen = bits * takes + sigma * rng.standard_normal((run.steps, n))
    score = np.log1p(run.sampling_rate * np.expm1((seen - 0.5) / sigma**2)).sum(axis=0)
    return int(((score > 0) == bits).sum())


def test_claims_of_sampled_runs_stand_when_true_and_fall_when_not():
    run, rng = DPSGD(1.0, sampling_rate=0.1, steps=30), np.random.default_rng(1)
    true = [bounds.audit_claim(run, _guessed(run, 1.0, 500, rng), 500) for _ in range(3)]
    assert min(true) > 0.05
    assert bounds.audit_claim(run, _guessed(run, 0.3, 500, rng), 500) < 0.05


@pytest.mark.parametrize("canaries", [1, 2, 3])
@pytest.mark.parametrize(("sigma", "q"), [(0.3, 0.5), (0.05, 0.5), (1.0, 0.1)])
def test_a_claim_holds_for_the_best_guesses_about_one_sampled_step(sigma, q, canaries):
    """A threshold's guess is right with probability (1 + TV)/2; canaries do not disturb another."""
    chance = 0.5 * (1.0 + q * (2.0 * stats.norm.cdf(0.5 / sigma) - 1.0))
    found = bounds.audit_claim(DPSGD(sigma, q, 1), canaries, canaries)
    assert found >= chance**canaries
    if canaries == 1:
        assert found == pytest.approx(chance, rel=2e-3)
        assert bounds.audit_noise(1, 1, sampling_rate=q, steps=1, confidence=1 - chance) >= sigma


def test_the_curve_of_both_directions_is_a_hull():
    """Against tangents: the level of a power is at most that of (epsilon, delta), any epsilon."""
    sigma, q = 0.5, 0.3
    level = _level_of(DPSGD(sigma, q, 1))
    at = np.linspace(-40.0, 40.0, 80_001)
    without = stats.norm.sf(at)
    present = (1 - q) * without + q * stats.norm.sf(at - 1 / sigma)
    lift = np.exp(np.linspace(0.0, 6.0, 2001))[:, None]
    removed = np.max(present[::20] - lift * without[::20], axis=1)
    added = np.max((1 - without)[::20] - lift * (1 - present)[::20], axis=1)
    delta = np.maximum(removed, added)
    for power in np.linspace(0.02, 0.98, 13):
        # the hull's two sides mirror one another
        tangents = np.maximum((power - delta) / lift[:, 0], 1 - delta - (1 - power) * lift[:, 0])
        assert level(power) == pytest.approx(tangents.max(), rel=0.02, abs=1e-6)
        assert level(power) <= tangents.max() + 1e-6


@pytest.mark.parametrize("run", [DPSGD(0.6, 0.1, 20), DPSGD(2.0, 0.5, 5), DPSGD(1.0)])
def test_the_level_is_convex_and_below_both_directions(run):
    level = _level_of(run)
    powers = np.linspace(0, 1, 301)
    levels = np.array([level(power) for power in powers])
    assert np.all(np.diff(levels, 2) >= -1e-12)
    alphas = np.random.default_rng(0).uniform(0, 1, 200)
    lower = bounds.rero_curve(run, alphas)[0]
    removed = np.array([level(power) for power in lower])
    added = np.array([level(1 - alpha) for alpha in alphas])
    assert np.all(removed <= alphas + 1e-12)
    assert np.all(added <= 1 - lower + 1e-12)
    if run.sampling_rate == 1:  # one curve, which is its own hull
        np.testing.assert_allclose(removed, alphas, rtol=0.02, atol=1e-4)


def test_the_noise_of_a_run_is_bounded_from_above():
    """Full batches: by the Gaussian audit. Sampled ones: runs as claimed, and with less noise."""
    full = bounds.audit_noise(181, 200, sampling_rate=1.0, steps=10, canaries=2000)
    exact = math.sqrt(10) / privacy.audit_gaussian(181, 200, canaries=2000)
    assert exact <= full <= 1.02 * exact
    q, steps, rng = 0.1, 30, np.random.default_rng(1)
    for sigma in (1.0, 0.3):
        right = _guessed(DPSGD(1.0, q, steps), sigma, 500, rng)
        found = bounds.audit_noise(right, 500, sampling_rate=q, steps=steps)
        # the least noise at which a claim is refuted
        for noise, refuted in ((found, True), (found * 0.98, False)):
            assert sigma < found
            assert (bounds.audit_claim(DPSGD(noise, q, steps), right, 500) <= 0.0501) == refuted
    assert found < 1.0
    assert bounds.audit_noise(250, 500, sampling_rate=q, steps=steps) == math.inf


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: privacy.audit_gaussian(5, 4), "right must have one number"),
        (lambda: privacy.audit_gaussian([1, 2], 4), "right must have one number"),
        (lambda: privacy.audit_gaussian(3, 4, canaries=3), "canaries must be at least the 4"),
        (lambda: privacy.audit_epsilon(3, 4, 1.0), r"delta must be in \[0, 1\)"),
        (lambda: privacy.audit_epsilon(3, 4, candidates=1), r"candidates must be in \[2"),
        (lambda: privacy.audit_epsilon(3, 4, confidence=1.0), r"confidence must be in \(0, 1\)"),
        (lambda: privacy.audit_epsilon_many_runs(3, 2, 0, 2), r"detected must be in \[0, 2\]"),
        (lambda: bounds.audit_rero(3, 2), r"named must be in \[0, 2\]"),
    ],
)
def test_errors_name_argument_and_range(call, words):
    with pytest.raises(ValueError, match=words):
        call()

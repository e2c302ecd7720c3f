"""What must hold of the bounds for every argument."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from reconrisk import DPSGD, bounds, special

dimensions = st.one_of(
    st.integers(1, 12), st.integers(13, 10**4), st.sampled_from([150528, 10**6, 10**9])
)
many = st.one_of(st.integers(3, 12), st.integers(13, 10**4), st.sampled_from([150528, 10**9]))
noises = st.floats(-4, 3).map(lambda e: 10.0**e)
norms = st.floats(-2, 3).map(lambda e: 10.0**e)
counts = st.integers(1, 1000)
scores = st.floats(-40, 10)
log_priors = st.floats(-8, 5).map(lambda e: -(10.0**e))
growth = st.floats(1e-3, 3).map(lambda g: 1 + g)

quick = settings(max_examples=60, deadline=None)
# Log-probabilities may disagree in their last digits, here and by the rounding of the arguments.
SLACK = 1e-9


def threshold_at(score: float, n: int, sigma: float, norm: float) -> float:
    """Return a threshold that many standard deviations from the mean, wherever that is."""
    return float((sigma * norm) ** 2 * np.exp(score * np.sqrt(2 / n)))


def not_above(a: np.ndarray, b: np.ndarray) -> bool:
    if np.any(np.isneginf(b)):  # no slack around minus infinity
        return bool(np.all(a <= b))
    return bool(np.all(a <= b + SLACK * np.maximum(1.0, np.abs(b))))


@quick
@given(scores, dimensions, noises, norms, counts, growth)
def test_mse_tail_is_monotone_and_a_probability(score, n, sigma, norm, count, g):
    eta = threshold_at(score, n, sigma, norm)
    p = bounds.mse_tail(eta, n, sigma, norm, count, log=True)
    assert -np.inf < p <= 0
    assert not_above(p, bounds.mse_tail(eta * g, n, sigma, norm, count, log=True))
    assert not_above(bounds.mse_tail(eta, n, sigma * g, norm, count, log=True), p)
    assert not_above(bounds.mse_tail(eta, n, sigma, norm * g, count, log=True), p)
    assert not_above(p, bounds.mse_tail(eta, n, sigma, norm, count + 3, log=True))
    assert 0 <= bounds.mse_tail(eta, n, sigma, norm, count) <= 1


@quick
@given(st.floats(-1, 1), st.integers(2, 10**9), noises, counts, st.floats(0, 1), growth)
def test_ncc_tail_is_monotone_and_a_probability(c, n, sigma, count, contrast, g):
    p = bounds.ncc_tail(c, n, sigma, repeats=count, contrast=contrast, log=True)
    assert p <= 0 and not np.isnan(p)
    assert p > -np.inf or c == 1
    lower = bounds.ncc_tail(max(c / g, c * g, -1) if c < 0 else c / g, n, sigma, repeats=count,
                            contrast=contrast, log=True)  # fmt: skip
    if c > 0:
        assert not_above(p, lower)
    free = bounds.ncc_tail(c, n, sigma, repeats=count, log=True)
    assert not_above(p, free)
    assert not_above(bounds.ncc_tail(c, n, sigma * g, repeats=count, log=True), free)
    assert not_above(free, bounds.ncc_tail(c, n, sigma, repeats=count + 3, log=True))


@quick
@given(log_priors, dimensions, noises, norms)
def test_mse_quantile_inverts_the_tail(log_p, n, sigma, norm):
    if log_p + 0.5 * n * np.log(n + 1.0) < -500 * 0.5 * n:
        return  # the quantile would be below 1e-300
    eta = bounds.mse_quantile(None, n, sigma, norm, log_probability=log_p)
    low = bounds.mse_tail(eta * (1 - 1e-14), n, sigma, norm, log=True)
    high = bounds.mse_tail(eta * (1 + 1e-14), n, sigma, norm, log=True)
    slack = 1e-11 * abs(log_p)
    assert low - slack <= log_p <= high + slack


@quick
@given(log_priors, many, noises)
def test_ncc_quantile_inverts_the_tail(log_p, n, sigma):
    c = bounds.NCCLaw.of_record(n, sigma).isf(None, log_probability=log_p)
    low = bounds.ncc_tail(min(c + 1e-14 + 1e-14 * abs(c), 1.0), n, sigma, log=True)
    high = bounds.ncc_tail(max(c - 1e-14 - 1e-14 * abs(c), -1.0), n, sigma, log=True)
    slack = 1e-9 * abs(log_p) + 1e-13
    assert low - slack <= log_p <= high + slack


@quick
@given(st.floats(-6, 0.2), dimensions, st.floats(-3, 2), norms)
def test_sphere_bound_dominates_the_estimators_and_is_below_rero(e, n, log_sigma, norm):
    sigma = 10.0**log_sigma
    if n * sigma > 1e7:
        return
    eta = 10.0**e * norm**2 / n
    best = bounds.mse_tail_sphere(eta, n, sigma, norm, log=True)
    assert not_above(bounds.mse_tail(eta, n, sigma, norm, log=True), best)
    assert not_above(bounds.mse_tail_shrunk(eta, n, sigma, norm, log=True), best)
    assert not_above(best, bounds.rero_sphere(eta, n, sigma, norm, log=True))


@quick
@given(log_priors, noises, st.sampled_from([(1.0, 1), (1.0, 50), (0.3, 1), (1e-4, 1)]))
def test_rero_is_ordered(log_kappa, sigma, kind):
    q, steps = kind
    run = DPSGD(sigma, q, steps)
    value = bounds.rero(run, log_prior_success=log_kappa, log=True)
    assert log_kappa * (1 + 1e-15) <= value.lower <= value.upper <= 0
    more_noise = bounds.rero(DPSGD(2 * sigma, q, steps), log_prior_success=log_kappa, log=True)
    assert more_noise.lower <= value.upper
    if q == 1:
        point = bounds.rero_gaussian(sigma, log_prior_success=log_kappa, steps=steps, log=True)
        assert value.lower <= point <= value.upper


@quick
@given(st.floats(-3, 2), st.integers(1, 300), st.integers(1, 10**5), st.floats(-5, 0), growth)
def test_sampled_tail_lies_between_its_parts(e, n, steps, log_p, g):
    p, eta = 10.0**log_p, 10.0**e
    value = bounds.mse_tail_sampled(eta, n, 1.0, 1.0, steps, p, log=True)
    assert value <= 0
    assert not_above(value, bounds.mse_tail(eta, n, 1.0, 1.0, steps, log=True))
    seen = special.log1mexp(steps * np.log1p(-p)) if p < 1 else 0.0
    assert not_above(value, seen)
    assert not_above(seen + bounds.mse_tail(eta, n, 1.0, 1.0, log=True), value)
    assert not_above(value, bounds.mse_tail_sampled(eta * g, n, 1.0, 1.0, steps, p, log=True))


@quick
@given(st.integers(2, 10**9), noises, st.floats(0.01, 1), counts)
def test_expected_ncc_lies_between_the_bounds(n, sigma, contrast, count):
    value = bounds.expected_ncc(n, sigma, contrast, count)
    assert 0 < value <= 1
    # E[r] <= sqrt(E[r**2]) and r**2 has mean at most (delta**2 + 1)/(delta**2 + N - 1)
    delta2 = contrast**2 * count / sigma**2
    assert value <= np.sqrt((delta2 + 1) / (delta2 + n - 1)) * (1 + 1e-12)
    balanced = bounds.expected_ncc(n, sigma, 1.0, count)
    assert value <= balanced * (1 + 1e-12)
    # the printed "bound" lies below the expectation itself
    assert balanced >= bounds.ncc_bound_paper(n, sigma, count) * (1 - 1e-12)


@quick
@given(st.floats(-12, -0.3), st.integers(1, 10**9), st.floats(-2, 2))
def test_box_prior_is_monotone_and_scales(e, n, w):
    eta, width = 10.0**e, 10.0**w
    value = bounds.log_prior_success_box(eta, n)
    assert value <= 0
    assert not_above(value, bounds.log_prior_success_box(2 * eta, n))
    scaled = bounds.log_prior_success_box(eta * width**2, n, width)
    assert abs(scaled - value) <= 1e-6 * max(1.0, abs(value))

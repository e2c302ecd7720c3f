"""Estimators that beat the unbiased one, and what bounds every estimator."""

from __future__ import annotations

import mpmath as mp
import numpy as np
import pytest
from scipy import integrate, stats

from reconrisk import bounds, special


def noisy(x: np.ndarray, sigma: float, count: int, seed: int = 7) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return x + sigma * np.linalg.norm(x) * rng.normal(size=(count, x.size))


def mean_square(z: np.ndarray, x: np.ndarray) -> np.ndarray:
    return np.mean((z - x) ** 2, axis=1)


def agrees(sample: np.ndarray, value: float) -> bool:
    return abs(sample.mean() - value) < 4 * sample.std() / np.sqrt(sample.size)


@pytest.mark.parametrize(("n", "sigma"), [(1, 0.7), (4, 0.5), (50, 0.3), (300, 1.0)])
def test_shrinkage_by_simulation(n, sigma):
    x = np.random.default_rng(n).uniform(size=n)
    norm = np.linalg.norm(x)
    c = bounds.shrinkage_factor(n, sigma)
    mse = mean_square(c * noisy(x, sigma, 40_000), x)
    assert agrees(mse, bounds.expected_mse_shrunk(n, sigma, norm))
    for eta in np.quantile(mse, [0.01, 0.5, 0.95]):
        assert agrees((mse <= eta).astype(float), bounds.mse_tail_shrunk(eta, n, sigma, norm))


def test_shrinkage_is_the_best_factor_and_wins_by_exactly_one_plus_n_sigma_squared():
    n, sigma = np.array([1, 4, 1000, 150528]), np.array([3.0, 0.5, 0.1, 0.01])
    ratio = bounds.expected_mse_shrunk(n, sigma, 2.0) / bounds.expected_mse(sigma, 2.0)
    np.testing.assert_allclose(ratio, 1 / (1 + n * sigma**2), rtol=1e-13)
    c = bounds.shrinkage_factor(n, sigma)

    def risk(f):
        return (1 - f) ** 2 + f * f * n * sigma**2

    assert np.all(risk(c) < risk(c * 1.001)) and np.all(risk(c) < risk(c * 0.999))


def test_repeated_releases_count_as_less_noise():
    once, four = (bounds.expected_mse_shrunk(50, s, 2.0, k) for s, k in ((0.1, 1), (0.2, 4)))
    assert four == pytest.approx(once, rel=1e-14)
    assert bounds.expected_mse_shrunk(50, 0.2, 2.0) > 1.5 * four


def test_the_printed_bound_for_any_reconstruction_fails():
    """mean_to_extreme, Proposition 3, against the shrunk estimator: values of the erratum."""
    assert bounds.mse_tail(0.2, 4, 1.0, 1.0) == pytest.approx(0.0616, abs=5e-5)
    assert bounds.mse_tail_shrunk(0.2, 4, 1.0, 1.0) == pytest.approx(0.5456, abs=5e-5)
    assert bounds.mse_tail(0.02, 50, 0.3, 1.0) < 2e-9
    assert bounds.mse_tail_shrunk(0.02, 50, 0.3, 1.0) > 0.96


def test_james_stein_by_simulation_and_by_the_literature():
    x = np.array([0.2, -1.0, 0.4, 0.9, 0.1, 0.5])
    sigma, norm = 0.5, np.linalg.norm(x)
    z = noisy(x, sigma, 300_000)
    factor = 1 - 4 * (sigma * norm) ** 2 / np.sum(z * z, axis=1, keepdims=True)
    assert agrees(mean_square(factor * z, x), bounds.expected_mse_james_stein(6, sigma, norm))
    # E(1/Y) by Kummer's function
    with mp.workdps(30):
        for n, sigma in ((3, 0.5), (4, 1.0), (100, 0.1), (1000, 1.0), (10**6, 0.01)):
            half = 1 / mp.mpf(sigma) ** 2 / 2
            inverse = mp.hyp1f1(1, mp.mpf(n) / 2, -half) / (n - 2)
            exact = 1 - (mp.mpf(n) - 2) ** 2 / n * inverse
            ours = bounds.expected_mse_james_stein(n, sigma, 1.0) / sigma**2
            assert ours == pytest.approx(float(exact), rel=1e-11)


def test_james_stein_limits():
    # no signal: 2/N of the variance; strong signal: no gain
    assert bounds.expected_mse_james_stein(50, 1e6, 1.0) / 1e12 == pytest.approx(2 / 50, rel=1e-9)
    assert bounds.expected_mse_james_stein(50, 1e-6, 1.0) / 1e-12 == pytest.approx(1.0, rel=1e-9)


@pytest.mark.parametrize("std", [1e-3, 0.05, 0.6, 1e3, 1e8])
def test_clipping_to_the_range_by_integration(std):
    x = np.array([0.0, 0.2, 0.5, 0.97, 1.0])
    expected = []
    for v in x:
        inner = integrate.quad(
            lambda g, v=v: std**2 * g * g * stats.norm.pdf(g),
            max(-v / std, -12),
            min((1 - v) / std, 12),
            epsabs=0,
            epsrel=1e-12,
        )[0]
        ends = v**2 * stats.norm.cdf(-v / std) + (1 - v) ** 2 * stats.norm.sf((1 - v) / std)
        expected.append(inner + ends)
    ours = [bounds.expected_mse_clipped_to_range(v, std) for v in x]
    np.testing.assert_allclose(ours, expected, rtol=1e-10)
    assert bounds.expected_mse_clipped_to_range(x, std) == pytest.approx(np.mean(expected))


def test_clipping_keeps_the_shape_of_the_noise():
    out = bounds.expected_mse_clipped_to_range(np.linspace(0, 255, 10), [[1.0], [50.0]], 0, 255)
    assert out.shape == (2, 1)
    with pytest.raises(ValueError, match="signal must be in"):
        bounds.expected_mse_clipped_to_range([1.5], 0.1)


@pytest.mark.parametrize(("n", "sigma", "share"), [(1, 0.8, 0.3), (3, 0.6, 0.4), (40, 0.3, 0.8)])
def test_sphere_bound_is_attained(n, sigma, share):
    """By sqrt(r**2 - N eta) X_hat/|X_hat|, at any record of norm r."""
    x = np.random.default_rng(n).normal(size=n) * 2
    norm = np.linalg.norm(x)
    eta = share * norm**2 / n
    z = noisy(x, sigma, 200_000)
    best = np.sqrt(norm**2 - n * eta) * z / np.linalg.norm(z, axis=1, keepdims=True)
    p = bounds.mse_tail_sphere(eta, n, sigma, norm)
    hits = (mean_square(best, x) <= eta * (1 + 1e-12)).astype(float)
    assert abs(hits.mean() - p) < 4 * np.sqrt(p * (1 - p) / hits.size)


def test_sphere_bound_against_other_estimators_with_a_known_norm():
    n, sigma = 6, 0.5
    x = np.array([1.0, -2.0, 0.5, 0.0, 1.5, 0.3])
    norm = np.linalg.norm(x)
    z = noisy(x, sigma, 100_000)
    length = np.linalg.norm(z, axis=1, keepdims=True)
    for eta in (0.05, 0.3, 0.8, 1.2):
        bound = bounds.mse_tail_sphere(eta, n, sigma, norm)
        for estimate in (z, z / (1 + n * sigma**2), norm * z / length, 0.7 * norm * z / length):
            hit = mean_square(estimate, x) <= eta
            assert hit.mean() <= bound + 4 * np.sqrt(0.25 / hit.size)


def test_one_dimension_is_the_sign():
    assert bounds.mse_tail_sphere(0.0, 1, 0.8, 3.0) == pytest.approx(stats.norm.cdf(1 / 0.8))
    assert bounds.mse_tail_sphere(9.0, 1, 0.8, 3.0) == 1.0


def test_sphere_below_any_network_below_one():
    eta = np.array([1e-6, 1e-4, 1e-3, 1e-2])
    linear = bounds.mse_tail_sphere(eta, 50, 0.7, 1.0, log=True)
    anything = bounds.rero_sphere(eta, 50, 0.7, 1.0, log=True)
    assert np.all(linear < anything) and np.all(anything <= 0)
    np.testing.assert_allclose(
        bounds.rero_sphere(eta, 50, 1e9, 1.0, log=True),
        special.log_cosine_tail(np.sqrt(1 - 50 * eta), 50),
        rtol=1e-7,
    )


def test_tiny_caps_do_not_round_away():
    log_p = bounds.mse_tail_sphere(1e-40, 10, 1.0, 1.0, log=True)
    assert np.isfinite(log_p)
    slope = bounds.mse_tail_sphere(1e-38, 10, 1.0, 1.0, log=True) - log_p
    assert slope == pytest.approx(9 * np.log(10), rel=1e-9)


def test_box_prior_is_an_upper_bound():
    rng = np.random.default_rng(6)
    for n in (1, 2, 5, 20):
        distance = np.mean((rng.random(size=(100_000, n)) - 0.5) ** 2, axis=1)
        for eta in np.quantile(distance, [0.001, 0.05, 0.3, 0.7]):
            p = np.mean(distance <= eta)
            bound = np.exp(bounds.log_prior_success_box(eta, n))
            assert bound >= p - 4 * np.sqrt(p * (1 - p) / distance.size)
    # inside the cube the ball's volume is exact
    assert bounds.log_prior_success_box(0.01, 3) == pytest.approx(
        np.log(4 / 3 * np.pi * 0.03**1.5), rel=1e-10
    )
    assert bounds.log_prior_success_box(1 / 12, 100) == 0.0
    assert bounds.log_prior_success_box(0.0, 3) == -np.inf
    assert bounds.log_prior_success_box(0.04, 3, 2.0) == pytest.approx(
        bounds.log_prior_success_box(0.01, 3), rel=1e-12
    )


def test_box_prior_has_the_chernoff_exponent():
    """Exponent per entry of P(mean U**2 <= eta): its Legendre transform, by minimisation."""
    for eta in (0.03, 0.06, 0.08):
        t = np.linspace(0, 200, 400_001)[1:]
        rate = t * eta + np.log(np.sqrt(np.pi / t) * stats.norm.cdf(np.sqrt(t / 2)) * 2 / 1.0 / 1.0
                                - np.sqrt(np.pi / t))  # fmt: skip
        n = 10**6
        assert bounds.log_prior_success_box(eta, n) == pytest.approx(n * rate.min(), rel=1e-5)


def test_box_and_sphere_bounds_are_the_closed_form_at_their_priors():
    log_kappa = bounds.log_prior_success_box(1e-3, 784)
    assert bounds.rero_box(1e-3, 784, 0.2, steps=4, log=True) == bounds.rero_gaussian(
        0.2, log_prior_success=log_kappa, steps=4, log=True
    )
    assert bounds.rero_box(0.2, 784, 1.0) == 1.0


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: bounds.shrinkage_factor(0, 1.0), "dimension must be in"),
        (lambda: bounds.mse_tail_shrunk(-1.0, 4, 1.0, 1.0), "threshold must be in"),
        (lambda: bounds.mse_tail_shrunk(1.0, 10**9, 1.0, 1.0), "noncentrality must be in"),
        (lambda: bounds.expected_mse_james_stein(2, 1.0, 1.0), "dimension must be in"),
        (lambda: bounds.mse_tail_sphere(-0.1, 4, 1.0, 1.0), "threshold must be in"),
        (lambda: bounds.mse_tail_sphere(1.0, 4, 1e-9, 1e9), "noise_multiplier must be in"),
        (lambda: bounds.mse_tail_sphere(1e-300, 4, 1.0, 1e20), "threshold must be .* such that"),
        (lambda: bounds.log_prior_success_box(0.1, 4, 0.0), "width must be in"),
        (lambda: bounds.expected_mse_clipped_to_range([], 1.0), "at least one value"),
    ],
)
def test_refuses(call, message):
    with pytest.raises(ValueError, match=message):
        call()

"""Reconstruction robustness of von Mises-Fisher noise, best attacks, errors of a direction."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest
import torch
from scipy import integrate

from companion.study.verdicts import STANDARD_ERRORS
from reconrisk import DPSGD, attacks, bounds, privacy, special
from reconrisk.mechanisms import sample_vmf, vmf_cosines

P = 13_700


def three(kappa: float, prior: float) -> float:
    """The bound in three dimensions, where a coordinate's density is exponential."""
    edge = math.exp(-kappa) + prior * 2.0 * math.sinh(kappa)
    return (math.exp(kappa) - 1.0 / edge) / (2.0 * math.sinh(kappa))


def by_quadrature(kappa: float, p: int, prior: float) -> float:
    """One release in any dimension, in 30 digits."""
    with mpmath.workdps(30):

        def density(t):
            return mpmath.exp(-kappa * t) * (1 - t * t) ** (mpmath.mpf(p - 3) / 2)

        peak = -kappa / p
        width = 1 / math.sqrt(p)
        points = [-1] + [max(peak + k * width, -1 + 1e-9) for k in (-8, -4, 0, 4, 8)] + [1]
        points = sorted({min(max(x, -1), 1) for x in points})
        total = mpmath.quad(density, points)

        def tail(c):
            return mpmath.quad(density, [c, *[x for x in points if x > c]]) / total

        low, high = -1.0 + 1e-12, 1.0 - 1e-12
        for _ in range(60):
            middle = 0.5 * (low + high)
            low, high = (middle, high) if tail(middle) > prior else (low, middle)
        # under the mirror image the chance of t >= c is that of t <= -c
        return float(1 - tail(-high))


# The bound ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("kappa", [0.01, 0.5, 3.0, 12.0])
@pytest.mark.parametrize("prior", [1e-9, 1e-3, 0.2, 0.5, 0.97])
def test_one_release_in_three_dimensions(kappa, prior):
    found = bounds.rero_vmf(kappa, 3, prior)
    assert found.lower * (1 - 1e-13) <= three(kappa, prior) <= found.upper * (1 + 1e-13)
    assert found.width <= 1.01e-4 * found.upper


@pytest.mark.parametrize(("kappa", "p"), [(4.0, 8), (60.0, 400)])
def test_one_release_against_quadrature(kappa, p):
    for prior in (0.01, 0.4):
        found = bounds.rero_vmf(kappa, p, prior)
        assert found.lower <= by_quadrature(kappa, p, prior) <= found.upper


def test_one_sampled_step_is_a_mixture():
    prior, q = 0.1, 0.3
    full, sampled = (bounds.rero_vmf(3.0, 3, prior, sampling_rate=rate) for rate in (1.0, q))
    mixture = (1 - q) * prior + q * three(3.0, prior)
    assert sampled.lower <= mixture <= sampled.upper
    assert sampled.upper < full.lower


@pytest.mark.parametrize(("kappa", "p", "q", "steps"), [(2.0, 10, 0.3, 5), (30.0, 900, 1.0, 3)])
def test_many_steps_by_simulation(kappa, p, q, steps):
    trials = 40_000
    rng = np.random.default_rng(11)
    losses = {}
    for name, rate in (("without", 0.0), ("with", q)):
        t = -vmf_cosines(p, kappa, rng, trials * steps)[0]
        t = np.where(rng.random(t.size) < rate, -t, t)
        loss = np.log1p(q * np.expm1(2.0 * kappa * t))
        losses[name] = loss.reshape(trials, steps).sum(axis=1)
    level = np.quantile(losses["without"], 0.9)
    power = np.mean(losses["with"] > level)
    found = bounds.rero_vmf(kappa, p, 0.1, sampling_rate=q, steps=steps)
    # the level's own error, at the slope of the curve
    near = bounds.rero_vmf_curve(kappa, p, [0.09, 0.11], sampling_rate=q, steps=steps)
    slope = (near[1][1] - near[0][0]) / 0.02
    error = math.sqrt((power * (1 - power) + slope**2 * 0.09) / trials)
    assert found.lower - STANDARD_ERRORS * error < power < found.upper + STANDARD_ERRORS * error


def test_many_dimensions_are_gaussian():
    priors = [1e-4, 0.05, 0.5, 0.9]
    kappa, q, steps = 60.0, 0.01, 300
    for p, close in ((200_000, 3e-4), (13_700, 2e-3)):
        sigma = math.sqrt(p) / (2 * kappa)
        low, high = bounds.rero_vmf_curve(kappa, p, priors, sampling_rate=q, steps=steps)
        gaussian = np.mean(bounds.rero_curve(DPSGD(sigma, q, steps), priors), axis=0)
        assert np.allclose(0.5 * (low + high), gaussian, rtol=close)


def test_limits_and_monotonicity():
    assert bounds.rero_vmf(0.0, P, 0.3).upper == pytest.approx(0.3, rel=1e-12)
    assert bounds.rero_vmf(1e-9, P, 0.3, steps=100).upper == pytest.approx(0.3, rel=1e-6)
    assert bounds.rero_vmf(5.0, 10, 0.0) == bounds.rero_vmf(5.0, 10, log_prior_success=-np.inf)
    assert 1.0 in bounds.rero_vmf(5.0, 10, 1.0)
    previous = 0.0
    for kappa in (10.0, 40.0, 80.0, 160.0):
        found = bounds.rero_vmf(kappa, P, 0.1, sampling_rate=0.05, steps=50)
        assert found.lower > previous and found.lower >= 0.1
        previous = found.upper
    for dimensions in ((50, 100), (1000, 2000)):
        fewer, more = (bounds.rero_vmf(8.0, p, 0.1, steps=4) for p in dimensions)
        assert fewer.lower > more.upper
    fewer, more = (bounds.rero_vmf(30.0, P, 0.1, sampling_rate=0.1, steps=t) for t in (10, 40))
    assert fewer.upper < more.lower


def test_tiny_priors_and_logarithms():
    plain = bounds.rero_vmf(75.0, P, 1e-30)
    logs = bounds.rero_vmf(75.0, P, log_prior_success=math.log(1e-30), log=True)
    assert logs.lower == pytest.approx(math.log(plain.lower), rel=1e-6)
    deep = bounds.rero_vmf(2.0, 10, log_prior_success=-1e4, steps=3, log=True)
    assert (deep.lower, deep.upper) == (-1e4, pytest.approx(-1e4 + 12.0))


def test_delta_of_the_accountant_is_on_the_curve():
    # gamma(kappa) is at most exp(eps) kappa + delta, and touches that line somewhere
    delta, q, steps = 1e-3, 0.1, 20
    epsilon = privacy.vmf_epsilon(100.0, P, delta, q, steps).upper
    priors = np.geomspace(1e-6, 0.5, 60)
    low, high = bounds.rero_vmf_curve(100.0, P, priors, sampling_rate=q, steps=steps)
    line = np.exp(epsilon) * priors + delta
    assert np.all(low <= line)
    assert np.min(line - high) < 3e-3


@pytest.mark.parametrize(
    "bad",
    [
        dict(concentration=-1.0),
        dict(concentration=np.nan),
        dict(dimension=1),
        dict(sampling_rate=0.0),
        dict(steps=0),
        dict(prior_success=1.5),
        dict(prior_success=None),
        dict(tolerance=2.0),
    ],
)
def test_bad_arguments(bad):
    good = dict(concentration=5.0, dimension=10, prior_success=0.1)
    with pytest.raises(ValueError, match=r"must|give"):
        bounds.rero_vmf(**(good | bad))


def test_arrays_are_for_the_curve():
    with pytest.raises(TypeError, match="rero_vmf_curve"):
        bounds.rero_vmf(5.0, 10, np.array([0.1, 0.2]))
    low, high = bounds.rero_vmf_curve(5.0, 10, [[0.1, 0.2]])
    assert low.shape == high.shape == (1, 2)
    with pytest.raises(ValueError, match="prior_success"):
        bounds.rero_vmf_curve(5.0, 10, [2.0])


# One release against the uniform law --------------------------------------------------------------


def test_uniform_law_in_three_dimensions():
    priors = np.array([1e-4, 0.01, 0.3, 0.5, 0.99])
    kappa = 3.0
    edge = 1.0 - 2.0 * priors
    exact = (np.exp(kappa) - np.exp(kappa * edge)) / (2.0 * np.sinh(kappa))
    assert np.allclose(bounds.rero_vmf_one_release(kappa, 3, priors), exact, rtol=1e-11)
    logs = bounds.rero_vmf_one_release(kappa, 3, log_prior_success=np.log(priors), log=True)
    assert np.allclose(logs, np.log(exact), atol=1e-11)
    # a narrow cap: the density's peak, which bounds it
    assert bounds.rero_vmf_one_release(kappa, 3, 1e-9) == pytest.approx(
        1e-9 * kappa * np.exp(kappa) / np.sinh(kappa), rel=1e-8
    )


def test_uniform_law_is_sharper_and_gaussian_in_many_dimensions():
    priors = np.array([1e-6, 0.01, 0.2, 0.7])
    for kappa, p in ((2.0, 4), (30.0, 500), (200.0, P)):
        assert np.all(
            bounds.rero_vmf_one_release(kappa, p, priors)
            < bounds.rero_vmf_curve(kappa, p, priors)[0]
        )
    gaussian = bounds.rero_gaussian(math.sqrt(1e6) / 500.0, priors)
    assert np.allclose(bounds.rero_vmf_one_release(500.0, 10**6, priors), gaussian, rtol=1e-4)
    assert bounds.rero_vmf_one_release(0.0, 5, 0.3) == pytest.approx(0.3)
    assert list(bounds.rero_vmf_one_release(2.0, 5, [0.0, 1.0])) == [0.0, 1.0]


# The best attack ---------------------------------------------------------------------------------


@pytest.mark.parametrize(("kappa", "p"), [(0.7, 3), (6.0, 3), (8.0, 40), (150.0, P)])
def test_two_candidates_by_two_routes(kappa, p):
    series = bounds.bayes_success_vmf(kappa, p, 2)
    assert bounds.bayes_success_vmf_two(kappa, p, 0.0) == pytest.approx(series, rel=1e-10)
    opposite = bounds.bayes_success_vmf_two(kappa, p, -1.0)
    assert opposite == pytest.approx(bounds.rero_vmf_one_release(kappa, p, 0.5), rel=1e-10)
    assert bounds.bayes_success_vmf_two(kappa, p, 1.0) == pytest.approx(0.5)
    assert series < opposite


def test_gaussian_success_is_a_mixture_over_lengths():
    # given its length, a Gaussian output's direction is von Mises-Fisher of concentration m |y|
    p, n, m = 12, 5, 1.7

    def density(r: float) -> float:
        rise = float(special.log_iv_reduced(0.5 * p - 1.0, m * r))
        return math.exp((p - 1) * math.log(r) - 0.5 * r * r + rise - 0.5 * m * m)

    norm = 2.0 ** (0.5 * p - 1.0) * math.gamma(0.5 * p)
    total = integrate.quad(lambda r: density(r) / norm, 1e-9, 20.0)[0]
    assert total == pytest.approx(1.0, rel=1e-9)
    mixed = integrate.quad(
        lambda r: density(r) / norm * bounds.bayes_success_vmf(m * r, p, n), 1e-6, 15.0, epsrel=1e-9
    )[0]
    assert mixed == pytest.approx(float(bounds.bayes_success(m, n)), rel=1e-8)


def test_scores_without_long_vectors_have_their_law():
    rng = np.random.default_rng(2)
    mu = rng.standard_normal((4, 6))
    mu /= np.linalg.norm(mu, axis=1, keepdims=True)
    target = np.repeat(np.arange(4), 10_000)
    long = sum(sample_vmf(mu[target], 4.0, rng) @ mu.T for _ in range(2))
    short = attacks.draw_vmf_scores(mu @ mu.T, 6, 4.0, target, rng, 2)
    for j in range(4):
        a, b = long[target == j], short[target == j]
        error = np.sqrt((a.var(axis=0) + b.var(axis=0)) / 10_000)
        assert np.all(np.abs(a.mean(axis=0) - b.mean(axis=0)) < 4.5 * error)
        assert np.allclose(np.cov(a.T), np.cov(b.T), atol=0.05)


@pytest.mark.parametrize(("n", "p", "kappa"), [(2, 2, 1.5), (3, 3, 5.0), (10, P, 200.0)])
def test_simulated_success(n, p, kappa):
    rng = np.random.default_rng(n)
    value, error = attacks.vmf_attack_success(np.eye(n), p, kappa, 40_000, rng)
    assert abs(value - bounds.bayes_success_vmf(kappa, p, n)) < STANDARD_ERRORS * error
    assert value - STANDARD_ERRORS * error < bounds.rero_vmf_one_release(kappa, p, 1.0 / n)


def test_opposite_candidates_in_the_smallest_dimension():
    # nothing is left across the line on which both lie, up to one direction
    opposite = np.array([[1.0, -1.0], [-1.0, 1.0]])
    rng = np.random.default_rng(0)
    for p in (2, 5):
        value, error = attacks.vmf_attack_success(opposite, p, 2.0, 40_000, rng)
        assert abs(value - bounds.rero_vmf_one_release(2.0, p, 0.5)) < STANDARD_ERRORS * error


def test_bad_candidates():
    rng = np.random.default_rng(0)
    for bad in (np.eye(3)[:2], 2 * np.eye(2), np.array([[1.0, 0.9], [0.1, 1.0]]),
                np.array([[1, -0.9, -0.9], [-0.9, 1, -0.9], [-0.9, -0.9, 1]])):  # fmt: skip
        with pytest.raises(ValueError, match="cosines must"):
            attacks.draw_vmf_scores(bad, 10, 1.0, [0], rng)
    with pytest.raises(ValueError, match="dimension"):
        attacks.draw_vmf_scores(np.eye(5), 4, 1.0, [0], rng)
    with pytest.raises(ValueError, match="prior_size"):
        bounds.bayes_success_vmf(1.0, 3, 4)


# The direction -----------------------------------------------------------------------------------


def test_direction_under_gaussian_noise():
    for n, s in ((2, 0.4), (5, 0.3), (256, 0.1), (P, 2.0)):
        # the sample correlation in one more dimension has the law of the cosine
        assert bounds.direction_cosine_gaussian(n, s) == pytest.approx(
            float(bounds.expected_ncc(n + 1, s)), rel=1e-11
        )
    rng = np.random.default_rng(1)
    x = np.zeros(6)
    x[0] = 1.0
    y = x + 0.5 * rng.standard_normal((100_000, 6))
    length = np.linalg.norm(y, axis=1)
    best = special.bessel_ratio(2.0, length / 0.25)[:, None] * y / length[:, None]
    errors = np.sum((best - x) ** 2, axis=1)
    assert abs(errors.mean() - bounds.direction_error_gaussian(6, 0.5)) < 4 * errors.std() / 316


def unbiased_error(n, kappa, p):
    """Expected squared error of the output over its mean cosine."""
    cosine = float(privacy.vmf_mean_cosine(p, kappa))
    across = (p - 1) * cosine / kappa
    return (1 - across + across * (n - 1) / (p - 1)) / cosine**2 - 1


def test_direction_under_vmf_noise():
    assert bounds.direction_cosine_vmf(40, 9.0) == pytest.approx(
        float(privacy.vmf_mean_cosine(40, 9.0)), rel=1e-14
    )
    cosine = float(privacy.vmf_mean_cosine(40, 9.0))
    assert bounds.direction_error_vmf(40, 9.0) == pytest.approx(1 - cosine**2, rel=1e-13)
    assert bounds.direction_error_vmf(40, 0.0) == 1.0
    rng = np.random.default_rng(3)
    n, p, kappa = 4, 30, 25.0
    x = np.zeros(p)
    x[0] = 1.0
    z = sample_vmf(x, kappa, rng, 100_000)[:, :n]
    length = np.linalg.norm(z, axis=1)
    cosines = z[:, 0] / length
    exact = bounds.direction_cosine_vmf(n, kappa, p)
    assert abs(cosines.mean() - exact) < 4 * cosines.std() / 316
    best = special.bessel_ratio(0.5 * n - 1, kappa * length)[:, None] * z / length[:, None]
    errors = np.sum((best - x[:n]) ** 2, axis=1)
    assert abs(errors.mean() - bounds.direction_error_vmf(n, kappa, p)) < 4 * errors.std() / 316
    unbiased = np.sum((z / float(privacy.vmf_mean_cosine(p, kappa)) - x[:n]) ** 2, axis=1)
    assert abs(unbiased.mean() - unbiased_error(n, kappa, p)) < 4 * unbiased.std() / 316


def test_direction_is_known_better_with_more_signal():
    errors = bounds.direction_error_vmf(256, [10.0, 100.0, 1000.0], 12_800)
    assert np.all(np.diff(errors) < 0)
    assert np.all(np.diff(bounds.direction_error_gaussian(256, [0.05, 0.5, 5.0])) > 0)
    with pytest.raises(ValueError, match="ambient"):
        bounds.direction_error_vmf(256, 10.0, 100)
    with pytest.raises(ValueError, match="noise_std"):
        bounds.direction_cosine_gaussian(256, 0.0)


def test_inversion_of_turned_gradients():
    generator = torch.Generator().manual_seed(4)
    record = torch.rand(64, generator=generator, dtype=torch.float64)
    records = record.expand(400, -1).contiguous()
    kappa, rows = 600.0, 8
    seen = attacks.observe_vmf(records, kappa, generator, rows=rows)
    found = attacks.known_scale(seen)
    error = (found - records).square().sum(dim=1) / record.square().sum()
    exact = unbiased_error(64, kappa, 64 * rows)
    assert abs(float(error.mean()) - exact) < STANDARD_ERRORS * float(error.std()) / 20
    # the length of the record is no part of the output
    draws = [
        attacks.observe_vmf(f * records, kappa, torch.Generator().manual_seed(1)).row_mean
        for f in (1.0, 5.0)
    ]
    assert torch.allclose(draws[0], draws[1], atol=1e-12)
    biased = attacks.observe_vmf(records, 1e5, generator, rows=rows, bias=True)
    ratio = attacks.with_estimated_scale(biased).norm(dim=1).median() / record.norm()
    assert float(ratio) == pytest.approx(1.0, abs=0.02)
    with pytest.raises(ValueError, match="concentration"):
        attacks.observe_vmf(records, 0.0, generator)

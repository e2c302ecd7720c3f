"""Estimators with a prior: the Wiener filter and the posterior over a list."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import integrate, stats

from reconrisk import DPSGD, attacks, bounds


def draws(count: int, seed: int = 3) -> np.ndarray:
    mixing = np.array([[1.0, 0.5, 0.0], [0.0, 0.4, 0.3], [0.2, 0.0, 0.1]])
    return np.random.default_rng(seed).normal(size=(count, 3)) @ mixing + [1.0, 2.0, 0.5]


def released(records: np.ndarray, sigma: float, seed: int = 5) -> np.ndarray:
    noise = np.random.default_rng(seed).normal(size=records.shape)
    return records + sigma * np.linalg.norm(records, axis=1, keepdims=True) * noise


def test_moments_are_those_of_the_records():
    rows = draws(500)
    known = attacks.second_moments(rows)
    rebuilt = known.directions * known.variances @ known.directions.T
    np.testing.assert_allclose(rebuilt, np.cov(rows.T, bias=True), atol=1e-12)
    np.testing.assert_allclose(known.mean_square, np.mean((rows**2).sum(axis=1)), rtol=1e-12)


@pytest.mark.parametrize("sigma", [0.1, 0.5, 2.0])
def test_the_filter_is_least_squares_of_records_on_releases(sigma: float):
    rows = draws(400_000)
    x_hat = released(rows, sigma)
    # an independent route: regression on many releases
    design = np.column_stack([np.ones(len(rows)), x_hat])
    fitted, *_ = np.linalg.lstsq(design, rows, rcond=None)
    by_filter = attacks.wiener_filter(torch.as_tensor(x_hat), sigma, attacks.second_moments(rows))
    errors = np.square(by_filter.numpy() - rows).mean(), np.square(design @ fitted - rows).mean()
    assert errors[0] == pytest.approx(errors[1], rel=2e-3)
    expected = attacks.second_moments(rows).expected_mse(sigma)
    assert errors[0] == pytest.approx(expected, rel=1e-2)


def test_limits_of_the_filter():
    known = attacks.second_moments(draws(500))
    x_hat = torch.tensor([[1.0, -2.0, 4.0]], dtype=torch.float64)
    nothing = attacks.wiener_filter(x_hat, 1e6, known)
    np.testing.assert_allclose(nothing[0], known.mean, atol=1e-8)
    np.testing.assert_allclose(attacks.wiener_filter(x_hat, 1e-6, known), x_hat, atol=1e-6)
    assert known.expected_mse(0.0) == 0.0
    assert known.expected_mse(1e6) == pytest.approx(known.variances.mean())


def test_the_posterior_is_bayes_rule():
    listed = torch.tensor([[3.0, 4.0], [0.0, 2.0], [1.0, 1.0]], dtype=torch.float64)
    x_hat, sigma = np.array([2.0, 3.0]), 0.7
    laws = [
        stats.multivariate_normal(z, sigma**2 * z @ z * np.eye(2)).pdf(x_hat)
        for z in listed.numpy()
    ]
    found = attacks.list_posterior(torch.as_tensor(x_hat), sigma, listed)
    np.testing.assert_allclose(found, np.array(laws) / sum(laws), rtol=1e-12)


def test_two_opposite_records_are_named_as_often_as_the_bound_allows():
    """Of one length, the release has the success of paper C's Corollary 4 with equality."""
    listed = torch.tensor([[1.0, 0.0], [-1.0, 0.0]], dtype=torch.float64)
    sigma, count = 0.8, 200_000
    x_hat = torch.as_tensor(released(np.tile([1.0, 0.0], (count, 1)), sigma))
    share = float((attacks.list_posterior(x_hat, sigma, listed)[:, 0] > 0.5).double().mean())
    exact = float(stats.norm.cdf(1 / sigma))
    assert share == pytest.approx(exact, abs=4 * np.sqrt(exact * (1 - exact) / count))
    assert exact == pytest.approx(bounds.rero(DPSGD(sigma), 0.5).upper, rel=1e-9)


def test_the_posterior_mean_has_the_error_of_the_integral():
    """One value, two records: the expected conditional variance by quadrature."""
    listed, sigma = torch.tensor([[1.0], [2.0]], dtype=torch.float64), 0.5

    def integrand(y: float) -> float:
        laws = [stats.norm(z, sigma * z).pdf(y) / 2 for z in (1.0, 2.0)]
        return laws[0] * laws[1] / max(sum(laws), 1e-300)

    expected, _ = integrate.quad(integrand, -10, 14, limit=400)
    rows = np.repeat([[1.0], [2.0]], 200_000, axis=0)
    posterior = attacks.list_posterior(torch.as_tensor(released(rows, sigma)), sigma, listed)
    errors = np.square((posterior @ listed).numpy() - rows)
    assert errors.mean() == pytest.approx(expected, abs=4 * errors.std() / np.sqrt(len(rows)))


def test_what_is_refused():
    with pytest.raises(ValueError, match=r"records must have shape \(count, N\), count >= 2"):
        attacks.second_moments([1.0, 2.0])
    with pytest.raises(ValueError, match="records must not be zero"):
        attacks.list_posterior(torch.ones(2), 0.5, torch.zeros(1, 2))
    with pytest.raises(ValueError, match="noise_multiplier must"):
        attacks.wiener_filter(torch.ones(1, 1), 0.0, attacks.second_moments([[0.0], [1.0]]))

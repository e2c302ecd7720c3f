"""Fano's bounds: Table 2 of Hayes et al. to its printed digits, and two routes to each value."""

from __future__ import annotations

import mpmath as mp
import numpy as np
import pytest

from reconrisk import bounds

SIGMAS = np.array([0.5, 1, 1.5, 2, 2.5, 3])
PRINTED = {  # Guo et al. (2022b) in Table 2
    10: [0.976, 0.593, 0.380, 0.274, 0.213, 0.174],
    100: [0.861, 0.346, 0.195, 0.131, 0.097, 0.076],
}
EXACT = {  # with the exact mutual information in place of the Monte Carlo one
    10: [0.770730, 0.398781, 0.254754, 0.184861, 0.144400, 0.118217],
    100: [0.547133, 0.211358, 0.120614, 0.081916, 0.061140, 0.048390],
}


@pytest.mark.parametrize("n", [10, 100])
def test_table_2(n):
    closed = bounds.mutual_information_bound(SIGMAS, n, np.sqrt(2))
    ours = bounds.advantage(bounds.fano_success(closed, n), 1 / n)
    np.testing.assert_array_equal(np.round(ours, 3), PRINTED[n])
    exact = bounds.mutual_information_orthogonal(n, 1 / SIGMAS)
    assert np.all(exact < closed)
    ours = bounds.advantage(bounds.fano_success(exact, n), 1 / n)
    np.testing.assert_allclose(ours, EXACT[n], atol=6e-7)


def test_fano_solves_the_printed_equation():
    for n in (2, 10, 1000, 10**9):
        for information in np.array([1e-8, 1e-3, 0.3, 0.9]) * np.log(n):
            s = float(bounds.fano_success(information, n))
            with mp.workdps(40):
                t = 1 - mp.mpf(s)
                f = mp.log(n) - mp.mpf(information) + t * mp.log(t) + (1 - t) * mp.log(1 - t)
                f -= t * mp.log(n - 1)
                # relative to the slope: how far s is from the root
                slope = mp.log((1 - t) / t) + mp.log(n - 1)
                assert abs(f / slope) < 1e-12 * s, (n, information)


def test_fano_with_a_prior_that_is_not_uniform():
    p = np.array([0.5, 0.25, 0.125, 0.125])
    h = float(-(p * np.log(p)).sum())
    s = float(bounds.fano_success(0.1, 4, entropy=h))
    t = 1 - s
    f = h - 0.1 + t * np.log(t) + s * np.log(s) - t * np.log(3)
    assert abs(f) < 1e-12
    assert s > bounds.fano_success(0.1, 4)  # a prior of less entropy is easier to guess
    assert bounds.fano_success(0.1, 4, entropy=np.log(4)) == bounds.fano_success(0.1, 4)


def test_fano_limits_and_large_priors():
    assert bounds.fano_success(0.0, 10) == pytest.approx(0.1, rel=1e-15)
    assert bounds.fano_success(np.log(10), 10) == 1.0
    assert bounds.fano_success(50.0, 10) == 1.0
    # tiny information: the divergence is (s - 1/n)**2 / (2 p (1 - p))
    gain = float(bounds.fano_success(1e-20, 10)) - 0.1
    assert gain == pytest.approx(np.sqrt(2e-20 * 0.09), rel=1e-6)
    # sizes beyond floats: s log(n s) - s - (1 - s) log(1 - s) ... = I
    s = float(bounds.fano_success(10.0, log_prior_size=2000.0))
    assert s * (np.log(s) + 2000) + (1 - s) * np.log1p(-s) == pytest.approx(10.0, rel=1e-12)
    close = bounds.fano_success(3.0, 10**12, log=True)
    assert close == pytest.approx(
        float(bounds.fano_success(3.0, log_prior_size=np.log(1e12), log=True)), rel=1e-11
    )
    assert bounds.fano_success(0.0, log_prior_size=1e4, log=True) == pytest.approx(-1e4)


def test_fano_grows_with_the_information():
    grid = np.linspace(0, np.log(50), 200)
    assert np.all(np.diff(bounds.fano_success(grid, 50)) > 0)


def test_closed_bound():
    n, sigma, delta = 7, 1.3, 1.7
    expected = -np.log(1 / n + (1 - 1 / n) * np.exp(-(delta**2) / (2 * sigma**2)))
    assert bounds.mutual_information_bound(sigma, n, delta) == pytest.approx(expected, rel=1e-14)
    uniform = bounds.mutual_information_bound([0.1, sigma, 9.0], np.full(n, 1 / n), delta)
    np.testing.assert_allclose(
        uniform, bounds.mutual_information_bound([0.1, sigma, 9.0], n, delta), rtol=1e-12
    )
    # T steps are one step with sigma / sqrt(T)
    assert bounds.mutual_information_bound(6.0, n, delta, steps=9) == pytest.approx(
        float(bounds.mutual_information_bound(2.0, n, delta)), rel=1e-14
    )
    assert bounds.mutual_information_bound(1.0, n, 0.0) == 0.0
    assert bounds.mutual_information_bound(1e-6, n, 1.0) == pytest.approx(np.log(n), rel=1e-15)
    # p (1 - p) Delta**2 / (2 sigma**2) for small signals, without cancellation
    small = bounds.mutual_information_bound(1e8, 10**9, 1.0)
    assert small == pytest.approx(0.5e-16 * (1 - 1e-9), rel=1e-12)


def test_exact_information_of_two_signals_by_quadrature():
    """n = 2 is one dimensional: log 2 - E log(1 + exp(-d**2/2 - d Z)) at the distance d."""
    for m in (0.05, 0.7, 3.0):
        with mp.workdps(25):
            distance = mp.mpf(m * np.sqrt(2))
            loss = mp.quad(
                lambda z, d=distance: mp.npdf(z) * mp.log1p(mp.exp(-(d**2) / 2 - d * z)),
                [-30, -8, -4, -2, 0, 2, 4, 8, 12],
            )
            exact = float(mp.log(2) - loss)
        assert bounds.mutual_information_orthogonal(2, m) == pytest.approx(exact, abs=1e-12)


def test_exact_information_against_monte_carlo():
    for n, m in ((3, 1.0), (10, 0.5), (60, 2.0)):
        exact = float(bounds.mutual_information_orthogonal(n, m))
        rng = np.random.default_rng(n)
        value, error = bounds.mutual_information_monte_carlo(m * np.eye(n), 40_000, rng)
        assert abs(value - exact) < 4 * error
        assert error < 0.02 * exact + 0.01


def test_exact_information_limits():
    n = np.array([2, 10, 1000])
    assert np.all(bounds.mutual_information_orthogonal(n, 0.0) == 0)
    np.testing.assert_allclose(bounds.mutual_information_orthogonal(n, 15.0), np.log(n), rtol=1e-9)
    # (1 - 1/n) m**2 / 2 for weak signals
    np.testing.assert_allclose(
        bounds.mutual_information_orthogonal(n, 1e-2), (1 - 1 / n) * 0.5e-4, rtol=2e-4
    )
    assert np.all(np.diff(bounds.mutual_information_orthogonal(50, np.linspace(0, 6, 30))) > 0)


def test_monte_carlo_with_a_prior_and_in_any_geometry():
    """Opposite signals are n = 2 at distance 2 m; an impossible candidate changes nothing."""
    exact = float(bounds.mutual_information_orthogonal(2, 0.8 * np.sqrt(2)))
    candidates = np.array([[0.8], [-0.8], [30.0]])
    value, error = bounds.mutual_information_monte_carlo(
        candidates, 40_000, np.random.default_rng(0), prior=[0.5, 0.5, 0.0]
    )
    assert abs(value - exact) < 4 * error


def test_fano_bounds_the_bayes_success():
    for n in (2, 10, 100):
        for m in (0.2, 1.0, 3.0):
            fano = bounds.fano_success(bounds.mutual_information_orthogonal(n, m), n)
            assert bounds.bayes_success(m, n) <= fano * (1 + 1e-12)


def test_advantage():
    assert bounds.advantage(0.55, 0.1) == pytest.approx(0.5)
    assert bounds.advantage(0.05, 0.1) < 0
    np.testing.assert_allclose(bounds.advantage([0.1, 1.0], 0.1), [0, 1])


def test_refuses():
    with pytest.raises(ValueError, match="prior_success must be in"):
        bounds.advantage(0.5, 1.0)
    with pytest.raises(ValueError, match="exactly one of prior_size"):
        bounds.fano_success(1.0)
    with pytest.raises(ValueError, match="entropy must be at most"):
        bounds.fano_success(1.0, 4, entropy=2.0)
    with pytest.raises(ValueError, match="mutual_information must be in"):
        bounds.fano_success(-1.0, 4)
    with pytest.raises(ValueError, match="sum to one"):
        bounds.mutual_information_bound(1.0, [0.5, 0.4], 1.0)
    with pytest.raises(ValueError, match="at least 2 probabilities"):
        bounds.mutual_information_bound(1.0, [1.0], 1.0)
    with pytest.raises(ValueError, match="one entry per candidate"):
        bounds.mutual_information_monte_carlo(
            np.eye(3), 10, np.random.default_rng(0), prior=[0.5, 0.5]
        )

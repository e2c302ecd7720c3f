"""Bounds from Renyi and pure privacy, and on the mean squared error: values and orderings."""

from __future__ import annotations

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reconrisk import DPSGD, bounds

# sigma of (epsilon, 1e-5) at q = 1, T = 100: epsilon = 1, 4, 10, 32, 100
SIGMAS = np.array([37.306316348159, 10.811618495202, 4.9988861970901, 2.0493490025881,
                   0.94669907014746])  # fmt: skip


def test_eq2_at_the_settings_of_figure_2():
    np.testing.assert_allclose(
        bounds.rero_rdp(SIGMAS, 0.1, steps=100), [0.171481, 0.474514, 0.989468, 1, 1], atol=5e-7
    )
    np.testing.assert_allclose(
        bounds.rero_rdp(SIGMAS[:3], 0.01, steps=100), [0.021762, 0.107971, 0.585669], atol=5e-7
    )


def test_eq2_is_the_general_bound_at_the_best_order():
    for sigma, steps, kappa in ((5.0, 100, 0.1), (1.0, 1, 1e-9), (3.0, 7, 0.4)):
        orders = np.exp(np.linspace(1e-4, 6, 400_001))
        general = bounds.rero_renyi(orders, orders * steps / (2 * sigma**2), kappa)
        best = bounds.rero_rdp(sigma, kappa, steps=steps)
        assert general.min() == pytest.approx(best, rel=1e-8)
        assert np.all(general >= best * (1 - 1e-12))


def test_log_domain_at_the_papers_smallest_prior():
    log_kappa = -3072 * np.log(4)
    with mp.workdps(30):
        root = mp.sqrt(3072 * mp.log(4)) - mp.sqrt(mp.mpf(100) / (2 * mp.mpf(2) ** 2))
        exact = -(root**2)
    ours = bounds.rero_rdp(2.0, log_prior_success=log_kappa, steps=100, log=True)
    assert ours == pytest.approx(float(exact), rel=1e-14)
    assert bounds.rero_rdp(2.0, log_prior_success=log_kappa, steps=100) == 0.0


def test_pure_privacy():
    assert bounds.rero_pure(1.0, 0.1) == pytest.approx(np.e / 10, rel=1e-15)
    assert bounds.rero_renyi(np.inf, 1.0, 0.3) == pytest.approx(0.3 * np.e, rel=1e-15)
    # the corner of the trade-off curve, where both directions meet
    corner = 1 / (1 + np.e)
    assert bounds.rero_pure(1.0, corner) == pytest.approx(1 - corner, rel=1e-14)
    assert bounds.rero_pure(1.0, 0.9) == pytest.approx(1 - 0.1 / np.e, rel=1e-15)
    assert bounds.rero_pure(1.0, 0.9) < bounds.rero_renyi(np.inf, 1.0, 0.9) == 1.0
    # attained by randomised response: keep one of two answers with odds e
    keep = np.e / (1 + np.e)
    assert bounds.rero_pure(1.0, 1 - keep) == pytest.approx(keep, rel=1e-15)
    log = bounds.rero_pure(2.0, log_prior_success=-4000.0, log=True)
    assert log == pytest.approx(-3998.0, rel=1e-15)


@settings(max_examples=60, deadline=None)
@given(st.floats(-2, 2), st.integers(1, 10**4), st.floats(-12, -0.01))
def test_orderings(log_sigma, steps, log_kappa):
    sigma, kappa = 10.0**log_sigma, 10.0**log_kappa
    rdp = bounds.rero_rdp(sigma, kappa, steps=steps, log=True)
    exact = bounds.rero(DPSGD(sigma, steps=steps), kappa, log=True)
    assert exact.lower <= rdp + 1e-12  # the blow-up function is the smaller bound
    assert np.log(kappa) * (1 + 1e-12) <= rdp <= 0
    pure = bounds.rero_pure(0.7, kappa)
    assert kappa * (1 - 1e-15) <= pure <= bounds.rero_renyi(np.inf, 0.7, kappa) * (1 + 1e-15)


def test_mse_lower_bound():
    printed = [3.35590, 0.184837, 4.65588e-3, 1.14072e-11, 8.720e-50]
    np.testing.assert_allclose(bounds.mse_lower_bound(SIGMAS, 100), printed, rtol=5e-5)
    with mp.workdps(40):
        x = mp.mpf(100) / mp.mpf(0.01) ** 2
        exact = -mp.log(4) - mp.log(mp.expm1(x))
    assert bounds.mse_lower_bound(0.01, 100, log=True) == pytest.approx(float(exact), rel=1e-14)
    # no noise matters at all: 1/(4 (e**x - 1)) is close to 1/(4 x)
    assert bounds.mse_lower_bound(1e6) == pytest.approx(1e12 / 4, rel=1e-11)
    assert bounds.mse_lower_bound(1.0, diameter=2.0) == 4 * bounds.mse_lower_bound(1.0)
    assert bounds.mse_lower_bound_renyi(0.25) == pytest.approx(bounds.mse_lower_bound(2.0))


def test_mse_lower_bound_is_that_of_unbiased_attacks():
    """Averaging the full-batch outputs is unbiased and above it; the centre of the range is not."""
    assert bounds.mse_lower_bound(2.0) > 0.25  # what a guess of one half never exceeds
    # a record in [0, 1] released with noise sigma: its MSE is sigma**2
    sigma = np.array([0.5, 1.0, 5.0])
    assert np.all(bounds.mse_lower_bound(sigma) <= sigma**2)


def test_refuses():
    with pytest.raises(ValueError, match="exactly one of prior_success"):
        bounds.rero_rdp(1.0)
    with pytest.raises(ValueError, match="order must be in"):
        bounds.rero_renyi(1.0, 1.0, 0.1)
    with pytest.raises(ValueError, match="epsilon must be in"):
        bounds.rero_pure(-1.0, 0.1)
    with pytest.raises(ValueError, match="epsilon must be in"):
        bounds.mse_lower_bound_renyi(0.0)
    with pytest.raises(ValueError, match="noise_multiplier"):
        bounds.mse_lower_bound(0.0)

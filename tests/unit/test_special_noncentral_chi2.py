"""Non-central chi-square against its Poisson mixture and against a one-dimensional integral."""

from __future__ import annotations

import mpmath as mp
import numpy as np
import pytest
from scipy import integrate, stats

from reconrisk import special


def by_mixture(x: float, dof: float, noncentrality: float) -> float:
    """Return log P as a Poisson mixture of gamma laws, 40 digits, downward recursion."""
    with mp.workdps(40):
        y, a, m = mp.mpf(x) / 2, mp.mpf(dof) / 2, mp.mpf(noncentrality) / 2
        top = int(m + 18 * mp.sqrt(m) + 200)
        b = a + top
        weight = mp.exp(b * mp.log(y) - y - mp.loggamma(b + 1))
        term = total = mp.mpf(1)
        n = 0
        while term > total * mp.mpf(10) ** -38:
            n += 1
            term *= y / (b + n)
            total += term
        p = weight * total
        poisson = mp.exp(-m + top * mp.log(m) - mp.loggamma(top + 1))
        mixture = poisson * p
        for j in range(top, 0, -1):
            weight *= (a + j) / y
            p += weight
            poisson *= j / m
            mixture += poisson * p
        return float(mp.log(mixture))


@pytest.mark.parametrize("dof", [1, 2, 3, 10, 1000])
@pytest.mark.parametrize("noncentrality", [1e-3, 1.0, 30.0, 1500.0])
def test_against_the_mixture(dof, noncentrality):
    for ratio in (1e-8, 0.05, 0.5, 0.9, 0.99, 1.0, 1.01, 1.3, 3.0):
        x = ratio * (dof + noncentrality)
        exact = by_mixture(x, dof, noncentrality)
        ours = special.log_noncentral_chi2_cdf(x, dof, noncentrality)
        assert abs(ours - exact) <= 1e-12 + 2e-13 * abs(exact), ratio


@pytest.mark.parametrize("dof", [1.0, 2.0, 3.0, 784.0, 150528.0, 1e9])
def test_central_case_is_the_gamma_law(dof):
    x = dof * np.array([1e-9, 0.1, 0.9, 0.9999, 1.0, 1.0001, 1.1, 5.0])
    expected = special.log_gamma_lower(dof / 2, x / 2)
    ours = special.log_noncentral_chi2_cdf(x, dof, 0.0)
    np.testing.assert_allclose(ours, expected, rtol=1e-13, atol=1e-11)


@pytest.mark.parametrize(
    ("dof", "noncentrality"), [(10, 1e6), (1000, 1e6), (150528, 3e5), (10**9, 1e4), (10**9, 1e12)]
)
@pytest.mark.parametrize("score", [-25.0, -5.0, -0.3, 0.0, 0.4, 3.0])
def test_large_parameters_by_integration(dof, noncentrality, score):
    """Over one coordinate (chi-square law inside) or the others' length (normal law inside)."""
    x = dof + noncentrality + score * np.sqrt(2.0 * (dof + 2.0 * noncentrality))
    root = np.sqrt(noncentrality)
    if dof > noncentrality / 4:
        t = np.linspace(-40, 12, 20001)
        rest = np.maximum(x - (root + t) ** 2, 0.0)
        values = -0.5 * t * t - 0.5 * np.log(2 * np.pi)
        values = values + special.log_gamma_lower((dof - 1) / 2, rest / 2)
    else:
        t = np.sqrt(dof - 1) + np.linspace(-30, 30, 20001)
        t = t[t > 0]
        values = stats.chi.logpdf(t, dof - 1) if dof < 1e6 else -((t - np.sqrt(dof - 1)) ** 2)
        if dof >= 1e6:  # the chi law around its mode, log r**(k-1) - r**2/2, to third order
            k = dof - 1
            u = t / np.sqrt(k) - 1
            values = (k - 1) * np.log1p(u) - k * (u + 0.5 * u * u)
            values = values - np.log(np.sum(np.exp(values)) * (t[1] - t[0]))
        values = values + special.log_normal_cdf(
            (x - noncentrality - t * t) / (np.sqrt(x - t * t) + root)
        )
    values = np.maximum(values, -1e300)
    peak = values.max()
    exact = peak + np.log(integrate.trapezoid(np.exp(values - peak), x=t))
    ours = special.log_noncentral_chi2_cdf(x, dof, noncentrality)
    rounding = 1e-15 * abs(score) * (dof + noncentrality) / np.sqrt(2 * dof + 4 * noncentrality)
    assert abs(ours - min(exact, 0.0)) <= 5e-10 * max(1.0, abs(exact)) + rounding


def test_one_degree_of_freedom_is_a_normal_interval():
    x, lam = np.array([0.01, 0.5, 2.0, 9.0, 40.0]), np.array([0.0, 1.0, 4.0, 30.0, 25.0])
    a, b = np.sqrt(x), np.sqrt(lam)
    interval = stats.norm.cdf(a - b) - stats.norm.cdf(-a - b)
    np.testing.assert_allclose(
        np.exp(special.log_noncentral_chi2_cdf(x, 1, lam)), interval, rtol=1e-11
    )


def test_scipy_underflows_where_ours_is_a_number():
    assert stats.ncx2.cdf(10.0, 3, 2500.0) == 0.0
    exact = by_mixture(10.0, 3, 2500.0)
    assert special.log_noncentral_chi2_cdf(10.0, 3, 2500.0) == pytest.approx(exact, rel=1e-13)
    assert exact < -1000


def test_simulation():
    rng = np.random.default_rng(4)
    g = rng.normal(size=(200_000, 6))
    g[:, 0] += 3.0
    y = (g**2).sum(axis=1)
    for x in (5.0, 12.0, 16.0, 30.0):
        p = np.exp(special.log_noncentral_chi2_cdf(x, 6, 9.0))
        assert abs(np.mean(y <= x) - p) < 4 * np.sqrt(p * (1 - p) / len(y))


def test_ends_and_refusals():
    assert special.log_noncentral_chi2_cdf(0.0, 3, 1.0) == -np.inf
    assert special.log_noncentral_chi2_cdf(np.inf, 3, 1.0) == 0.0
    for args, name in (((-1, 3, 1), "x"), ((1, 0.5, 1), "dof"), ((1, 3, -1), "noncentrality")):
        with pytest.raises(ValueError, match=f"^{name} must be in"):
            special.log_noncentral_chi2_cdf(*args)

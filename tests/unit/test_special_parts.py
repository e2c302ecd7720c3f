"""The parts the special functions are made of."""

from __future__ import annotations

from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest
from scipy import stats

from reconrisk import special
from reconrisk.special import _roots, _stirling, _temme


def test_temme_coefficients_are_the_published_fractions():
    d = _temme.exact_coefficients()
    assert d[0][:5] == (
        Fraction(-1, 3),
        Fraction(1, 12),
        Fraction(-2, 135),
        Fraction(1, 864),
        Fraction(1, 2835),
    )
    assert d[1][:3] == (Fraction(-1, 540), Fraction(-1, 288), Fraction(1, 378))
    assert d[2][:2] == (Fraction(25, 6048), Fraction(-139, 51840))


@pytest.mark.parametrize("eta", [-0.9, -0.2, 0.3, 1.0])
def test_temme_first_coefficient_function(eta):
    """c_0(eta) = 1/mu - 1/eta with mu - log(1 + mu) = eta**2/2."""
    with mp.workdps(30):
        mu = mp.findroot(lambda m: m - mp.log1p(m) - mp.mpf(eta) ** 2 / 2, eta + eta**2 / 3)
        exact = float(1 / mu - 1 / mp.mpf(eta))
    series = sum(c * eta**n for n, c in enumerate(_temme.coefficients()[0]))
    assert series == pytest.approx(exact, rel=1e-14)


def test_divergence_and_exponential_remainder():
    x = np.concatenate([-(10.0 ** -np.arange(1, 18)), 10.0 ** -np.arange(0, 18), [-0.9, 5.0, 30.0]])
    with mp.workdps(60):
        d = [float(mp.mpf(v) - mp.log1p(mp.mpf(v))) for v in x]
        e = [float(mp.expm1(mp.mpf(v)) - mp.mpf(v)) for v in x]
    np.testing.assert_allclose(_stirling.divergence(x), d, rtol=2e-15)
    np.testing.assert_allclose(_stirling.exp_remainder(x), e, rtol=2e-15)


def test_stirling_remainder():
    z = np.array([0.1, 0.5, 1.0, 7.9, 8.0, 30.0, 1e5, 1e12])
    with mp.workdps(50):
        exact = [
            float(mp.loggamma(v) - ((v - 0.5) * mp.log(v) - v + mp.log(2 * mp.pi) / 2))
            for v in map(mp.mpf, z)
        ]
    np.testing.assert_allclose(_stirling.log_stirling_remainder(z), exact, rtol=1e-14, atol=1e-15)


def test_log1mexp():
    y = np.array([-1e-300, -1e-17, -0.5, -0.7, -40.0, -800.0])
    with mp.workdps(400):
        exact = [float(mp.log(1 - mp.exp(mp.mpf(v)))) for v in y]
    np.testing.assert_allclose(special.log1mexp(y), exact, rtol=1e-15)
    assert special.log1mexp(np.array(0.0)) == -np.inf


@pytest.mark.parametrize(
    ("k", "n", "p"),
    [(0, 10, 0.3), (10, 10, 0.3), (3, 10, 0.5), (1000, 10**6, 1e-3), (10, 10**6, 1e-3),
     (300_005_000, 10**9, 0.3), (5, 10**6, 1e-9), (999_999, 10**6, 0.5)],
)  # fmt: skip
def test_binomial(k, n, p):
    with mp.workdps(50):
        q = mp.mpf(p)
        exact = mp.loggamma(n + 1) - mp.loggamma(k + 1) - mp.loggamma(n - k + 1)
        exact = float(exact + k * mp.log(q) + (n - k) * mp.log1p(-q))
    assert special.log_binomial_pmf(k, n, p) == pytest.approx(exact, rel=3e-15, abs=1e-12)


def test_binomial_beats_differences_of_log_gamma():
    with mp.workdps(50):
        exact = mp.loggamma(10**9 + 1) - mp.loggamma(3 * 10**8 + 1) - mp.loggamma(7 * 10**8 + 1)
        exact += 3 * 10**8 * mp.log(mp.mpf(0.3)) + 7 * 10**8 * mp.log1p(-mp.mpf(0.3))
        exact = float(exact)
    ours = special.log_binomial_pmf(3 * 10**8, 10**9, 0.3)
    assert abs(ours - exact) < 1e-11 < abs(stats.binom.logpmf(3 * 10**8, 10**9, 0.3) - exact)


def test_binomial_ends_and_refusals():
    np.testing.assert_array_equal(special.log_binomial_pmf([0, 1], 1, 1.0), [-np.inf, 0.0])
    np.testing.assert_array_equal(special.log_binomial_pmf([0, 1], 1, 0.0), [0.0, -np.inf])
    for args, name in (((2, 1, 0.5), "k"), ((1, 2.5, 0.5), "trials"), ((1, 2, 1.5), "probability")):
        with pytest.raises(ValueError, match=f"^{name} must be"):
            special.log_binomial_pmf(*args)


def test_quadrature_of_a_gaussian_and_of_a_gamma_function():
    centre = np.array([-0.5, 0.0, 0.9])
    value = special.log_integral(
        lambda t, c: -0.5 * (t - c) ** 2, np.full(3, 0.7), centre
    ) - 0.5 * np.log(2 * np.pi)
    np.testing.assert_allclose(value, 0.0, atol=1e-15)
    a = np.array([1.0, 2.5, 30.0])
    value = special.log_integral(
        lambda t, a: a * (np.log(a) + t) - a * np.exp(t), 0.7 / np.sqrt(a + 24), a
    )
    with mp.workdps(30):
        np.testing.assert_allclose(value, [float(mp.loggamma(v)) for v in a], atol=1e-12)


def test_roots_of_many_functions():
    target = np.array([1e-6, 0.3, 2.0, 1e5])
    root = _roots.monotone_root(
        lambda t, i: t**3 - target[i], np.zeros(4), np.array([1.0, 1.0, 5.0, 1e3])
    )
    np.testing.assert_allclose(root, np.cbrt(target), rtol=1e-14)

"""Incomplete gamma functions against 50-digit series and continued fractions."""

from __future__ import annotations

from functools import lru_cache

import mpmath as mp
import numpy as np
import pytest
from scipy import special as sc

from reconrisk import special


@lru_cache
def reference(shape: float, x: float) -> tuple[float, float]:
    """Return (log P, log Q) from the series (x < a) or the continued fraction (x > a)."""
    with mp.workdps(50):
        a, y = mp.mpf(shape), mp.mpf(x)
        peak = a * mp.log(y) - y - mp.loggamma(a + 1)
        if y < a:
            term = total = mp.mpf(1)
            n = 0
            while term > total * mp.mpf(10) ** -32:
                n += 1
                term *= y / (a + n)
                total += term
            small = peak + mp.log(total)
            return float(small), float(mp.log1p(-mp.exp(small)))
        depth, old = 100, mp.mpf(0)
        while True:
            tail = y + 2 * depth + 1 - a
            for n in range(depth, 0, -1):
                tail = y + 2 * n - 1 - a + n * (a - n) / tail
            if abs(tail / (old or 1) - 1) < mp.mpf(10) ** -30:
                break
            depth, old = 2 * depth, tail
        small = peak + mp.log(a) - mp.log(tail)
        return float(mp.log1p(-mp.exp(small))), float(small)


def close(ours: float, exact: float) -> bool:
    """1e-12 relative in the probability, 1e-13 relative in its logarithm, whichever is wider."""
    return abs(ours - exact) <= max(1e-12 * min(1.0, max(abs(exact), 1e-300)), 1e-13 * abs(exact))


SHAPES = [0.5, 1.0, 1.5, 2.0, 5.0, 29.9, 30.1, 75.0, 500.0, 75264.0]
RATIOS = [1e-12, 1e-3, 0.2, 0.298, 0.31, 0.7, 0.95, 0.999, 1.0, 1.001, 1.05, 1.4, 2.3, 2.45, 9.0]


@pytest.mark.parametrize("shape", SHAPES)
def test_both_tails_match_50_digits(shape):
    for ratio in RATIOS:
        log_p, log_q = reference(shape, shape * ratio)
        assert close(special.log_gamma_lower(shape, shape * ratio), log_p), (shape, ratio)
        assert close(special.log_gamma_upper(shape, shape * ratio), log_q), (shape, ratio)


@pytest.mark.parametrize("ratio", [1 - 3e-4, 1 - 1.2e-3, 1 + 8e-4, 0.6, 3.0])
def test_a_billion_dimensions(ratio):
    shape = 5e8
    log_p, log_q = reference(shape, shape * ratio)
    ours = special.log_gamma_lower(shape, shape * ratio)
    # x itself is rounded: its last unit moves log P by |x - a| * 2**-53.
    conditioning = abs(shape * (ratio - 1)) * 2.0**-52
    assert abs(ours - log_p) <= 1e-12 * max(1.0, abs(log_p) / 10) + conditioning
    assert special.log_gamma_upper(shape, shape * ratio) == pytest.approx(log_q, rel=1e-11)


def test_scipy_loses_its_digits_where_ours_keeps_them():
    """The reason for this module; if it fails, SciPy has been repaired and the detour can go."""
    x = 5e8 * (1 - 3e-4)
    exact = np.exp(reference(5e8, x)[0])
    assert sc.gammainc(5e8, x) < 0.5 * exact
    assert np.exp(special.log_gamma_lower(5e8, x)) == pytest.approx(exact, rel=1e-10)


def test_exponential_law_is_exact():
    x = np.array([1e-300, 1e-8, 0.3, 1.0, 5.0, 700.0, 1e5])
    np.testing.assert_allclose(special.log_gamma_upper(1.0, x), -x, rtol=5e-14)
    np.testing.assert_allclose(
        special.log_gamma_lower(1.0, x), np.log(-np.expm1(-x)), rtol=5e-14, atol=1e-300
    )


def test_half_shape_is_the_error_function():
    z = np.array([1e-100, 1e-3, 0.5, 2.0, 8.0, 30.0])
    np.testing.assert_allclose(
        special.log_gamma_upper(0.5, z**2), np.log(sc.erfcx(z)) - z**2, rtol=1e-13, atol=1e-15
    )


def test_ends():
    assert special.log_gamma_lower(3.0, 0.0) == -np.inf
    assert special.log_gamma_upper(3.0, 0.0) == 0.0
    assert special.log_gamma_lower(3.0, np.inf) == 0.0
    assert special.log_gamma_upper(3.0, np.inf) == -np.inf


def test_broadcasts_like_numpy():
    shape, x = np.array([0.5, 40.0, 1e6])[:, None], np.array([0.1, 39.0, 1e6, 2e6])
    table = special.log_gamma_lower(shape, x)
    assert table.shape == (3, 4)
    for i in range(3):
        for j in range(4):
            assert table[i, j] == pytest.approx(
                special.log_gamma_lower(shape[i, 0], x[j]), rel=1e-14, abs=1e-300
            )
    assert special.log_gamma_lower(1.0, np.empty((0, 2))).shape == (0, 2)
    assert np.ndim(special.log_gamma_lower(2.0, 1.0)) == 0


def test_constant_and_varying_shapes_agree_across_blocks():
    x = np.linspace(60000.0, 90000.0, 20001)
    constant = special.log_gamma_lower(75264.0, x)
    varying = special.log_gamma_lower(np.full_like(x, 75264.0), x)
    np.testing.assert_allclose(constant, varying, rtol=1e-13, atol=1e-300)


@pytest.mark.parametrize("shape", [0.5, 1.0, 2.0, 20.0, 75264.0, 5e8, 1e12])
def test_quantile_inverts(shape):
    log_p = np.array([-1e5, -2000.0, -700.0, -30.0, -1.0, -0.7, -0.69, -0.1, -1e-9, -1e-300])
    # x**a/Gamma(a+1) must not take x below 1e-300.
    log_p = log_p[log_p + sc.gammaln(shape + 1) > -600.0 * shape]
    x = special.log_gamma_quantile(shape, log_p)
    below = special.log_gamma_lower(shape, x * (1 - 4e-16))
    above = special.log_gamma_lower(shape, x * (1 + 4e-16))
    slack = 2e-13 * np.abs(log_p)
    assert np.all(below - slack <= log_p) and np.all(log_p <= above + slack)


def test_quantile_ends_and_underflow():
    assert special.log_gamma_quantile(3.0, -np.inf) == 0.0
    assert special.log_gamma_quantile(3.0, 0.0) == np.inf
    with pytest.raises(ValueError, match="log_p"):
        special.log_gamma_quantile(0.5, -1e4)


def test_density_is_the_derivative():
    shape = np.array([0.5, 3.0, 400.0, 1e7])
    x = shape * np.array([0.4, 1.2, 0.9, 1.0002])
    h = 1e-6 / np.sqrt(shape)
    up, down = (special.log_gamma_lower(shape, x * (1 + s * h)) for s in (1, -1))
    slope = np.exp(up) * -np.expm1(down - up) / (2 * h * x)
    np.testing.assert_allclose(np.exp(special.log_gamma_density(shape, x)), slope, rtol=1e-6)


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: special.log_gamma_lower(0.0, 1.0), "shape"),
        (lambda: special.log_gamma_lower(2e12, 1.0), "shape"),
        (lambda: special.log_gamma_upper(1.0, -1.0), "x"),
        (lambda: special.log_gamma_upper(1.0, np.nan), "x"),
        (lambda: special.log_gamma_quantile(1.0, 0.1), "log_p"),
        (lambda: special.log_gamma_density(1.0, 0.0), "x"),
    ],
)
def test_refuses(call, name):
    with pytest.raises(ValueError, match=f"^{name} must be in"):
        call()

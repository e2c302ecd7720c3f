"""Bessel functions against a 50-digit series, a 50-digit integral, and what they must satisfy."""

from __future__ import annotations

from functools import lru_cache

import mpmath as mp
import numpy as np
import pytest
from scipy import special as sc

from reconrisk import special


@lru_cache
def by_series(order: float, x: float) -> mp.mpf:
    """Log of the reduced function from its power series, every term of which is positive."""
    with mp.workdps(50):
        nu, quarter = mp.mpf(order), mp.mpf(x) ** 2 / 4
        term = total = mp.mpf(1)
        m = 0
        while term > total * mp.mpf(10) ** -40 or quarter > m * (nu + m):
            m += 1
            term *= quarter / (m * (nu + m))
            total += term
        return mp.log(total)


@lru_cache
def by_integral(order: float, x: float) -> mp.mpf:
    """The same from DLMF 10.32.2 with ``t = tanh y``, by the trapezoidal rule."""
    with mp.workdps(50):
        nu, x = mp.mpf(order), mp.mpf(x)
        power = 2 * nu + 1
        top = (mp.sqrt(power**2 + 4 * x * x) - power) / (2 * x)
        y0 = mp.atanh(top)

        def exponent(y):
            return x * mp.tanh(y) - power * mp.log(mp.cosh(y))

        step = 1 / (4 * mp.sqrt((2 * x * top + power) * (1 - top * top)))
        peak, total = exponent(y0), mp.mpf(1)
        for sign in (1, -1):
            k, weight = 1, mp.mpf(1)
            while weight > mp.mpf(10) ** -42:
                weight = mp.exp(exponent(y0 + sign * k * step) - peak)
                total += weight
                k += 1
        log_ratio = mp.loggamma(nu + 1) - mp.loggamma(nu + mp.mpf(1) / 2) - mp.log(mp.pi) / 2
        return peak + mp.log(total * step) + log_ratio


def log_iv_of(order: float, x: float, reduced: mp.mpf) -> mp.mpf:
    with mp.workdps(50):
        nu = mp.mpf(order)
        return reduced + nu * mp.log(mp.mpf(x) / 2) - mp.loggamma(nu + 1)


def held_against(order: float, x: float, reduced: mp.mpf) -> tuple[float, float]:
    """Errors of the reduced function (relative) and of log I (relative, absolute below one)."""
    exact = log_iv_of(order, x, reduced)
    ours = float(special.log_iv_reduced(order, x)), float(special.log_iv(order, x))
    with mp.workdps(50):
        return (
            float(abs((ours[0] - reduced) / reduced)),
            float(abs(ours[1] - exact) / max(1, abs(exact))),
        )


RNG = np.random.default_rng(20240613)
SPREAD = np.column_stack([10 ** RNG.uniform(-3, 6, 150), 10 ** RNG.uniform(-6, 3.3, 150)])
SMALL = np.column_stack([RNG.uniform(0, 40, 60), RNG.uniform(0, 60, 60)])
ENDS = [(0.0, 1e-6), (0.0, 3.0), (0.0, 29.9), (0.0, 30.1), (0.5, 700.0), (1e6, 1e-6)]
PAPER = [(6849.0, k * m) for k in (25.0, 75.0, 500.0) for m in (1.0, 3.0, 9.0)]


def test_against_the_series():
    points = [*map(tuple, SPREAD), *map(tuple, SMALL), *ENDS, *PAPER]
    errors = np.array([held_against(nu, x, by_series(float(nu), float(x))) for nu, x in points])
    assert errors[:, 0].max() < 2e-15
    assert errors[:, 1].max() < 2e-14


LARGE = np.column_stack([10 ** RNG.uniform(0, 6, 60), 10 ** RNG.uniform(1.5, 6, 60)])
CORNERS = [(0.0, 1e6), (1e6, 1e6), (1e6, 2e3), (6849.0, 33650.0), (1e12, 1e15), (3.3, 1e9)]
# next to the zero of the exponent, where r and nu asinh(nu/x) cancel to the last digit
CROSSING = [
    (nu, nu * 0.662743419349181580974742 * (1 + d))
    for nu in (137.3, 6849.0, 1e6)
    for d in (-1e-3, -1e-7, 0.0, 1e-12, 3e-9, 1e-5)
]


def test_against_the_integral():
    assert abs(by_integral(50.0, 70.0) - by_series(50.0, 70.0)) < mp.mpf(10) ** -38
    points = [*map(tuple, LARGE), *CORNERS, *CROSSING]
    errors = np.array([held_against(nu, x, by_integral(float(nu), float(x))) for nu, x in points])
    assert errors[:, 0].max() < 2e-15
    assert errors[:, 1].max() < 5e-15


def test_against_scipy_where_that_works():
    nu, x = np.meshgrid([0.0, 0.5, 3.0, 80.0, 500.0], [1e-3, 0.7, 5.0, 90.0, 600.0])
    theirs = np.log(sc.ive(nu, x), where=sc.ive(nu, x) > 1e-290, out=np.full(nu.shape, np.nan)) + x
    shown = np.isfinite(theirs)
    assert shown.sum() > 18
    np.testing.assert_allclose(special.log_iv(nu, x)[shown], theirs[shown], rtol=1e-12, atol=1e-12)
    # and where it does not: SciPy's scaled function underflows at the paper's dimension
    assert sc.ive(6849.0, 500.0) == 0.0
    exact = float(log_iv_of(6849.0, 500.0, by_series(6849.0, 500.0)))
    assert special.log_iv(6849.0, 500.0) == pytest.approx(exact, rel=1e-15)


def test_half_orders_are_elementary():
    x = np.array([1e-5, 0.3, 4.0, 29.0, 31.0, 350.0])
    exact = np.log(np.sqrt(2 / (np.pi * x)) * np.sinh(x))
    np.testing.assert_allclose(special.log_iv(0.5, x), exact, rtol=1e-13, atol=2e-15)
    coth = 1 / np.tanh(x) - 1 / x
    np.testing.assert_allclose(special.bessel_ratio(0.5, x[1:]), coth[1:], rtol=1e-13)


def test_zero_and_limits():
    assert special.log_iv(0.0, 0.0) == 0.0
    assert special.log_iv(2.0, 0.0) == -np.inf
    assert special.log_iv_reduced(3.0, 0.0) == 0.0
    assert special.bessel_ratio(3.0, 0.0) == 0.0
    # x**2/(4 (nu + 1)), to the last digit, at the smallest arguments
    nu = np.array([0.0, 10.0, 6849.0, 1e6])
    np.testing.assert_allclose(special.log_iv_reduced(nu, 1e-9), 0.25e-18 / (nu + 1), rtol=1e-15)


@pytest.mark.parametrize("order", [0.0, 0.5, 3.7, 24.0, 28.5, 500.0, 6849.0, 1e6])
def test_ratio_is_that_of_neighbours_and_obeys_the_recurrence(order):
    x = np.concatenate([[1e-6, 1e-2, 1.0, 5.0], np.geomspace(10.0, 1e6, 30)])
    ratio = special.bessel_ratio(order, x)
    # I_n / I_(n+1) = 2 (n+1)/x + I_(n+2)/I_(n+1)
    again = 1 / (2 * (order + 1) / x + special.bessel_ratio(order + 1, x))
    np.testing.assert_allclose(ratio, again, rtol=2e-15)
    difference = special.log_iv(order + 1, x) - special.log_iv(order, x)
    room = 4e-14 * np.maximum(1.0, np.abs(special.log_iv(order, x)))
    assert np.all(np.abs(np.log(ratio) - difference) < room)
    assert np.all(np.diff(ratio) > 0)
    # Amos (1974)
    a = order + 0.5
    assert np.all(ratio <= x / (a + np.hypot(x, a)) * (1 + 1e-15))
    assert np.all(ratio >= x / (a + np.hypot(x, a + 1)) * (1 - 1e-15))


@pytest.mark.parametrize("order", [0.0, 0.5, 12.0, 6849.0, 1e6, 1e9])
def test_ratio_inverse(order):
    ratio = np.array([0.0, 1e-9, 1e-3, 0.2, 0.7, 0.99, 0.999, 1 - 1e-6])
    x = special.bessel_ratio_inverse(order, ratio)
    assert x[0] == 0.0
    np.testing.assert_allclose(special.bessel_ratio(order, x), ratio, rtol=3e-15)


def test_series_and_expansion_meet():
    # on both sides of r = 30, and of x**2/4 = 2 (nu + 1)
    for order in (0.0, 3.0, 17.0, 29.0):
        edge = np.sqrt(900.0 - order**2)
        pair = special.log_iv(order, edge * np.array([1 - 1e-13, 1 + 1e-13]))
        assert abs(pair[1] - pair[0]) < 1e-11
    for order in (100.0, 6849.0):
        edge = np.sqrt(8.0 * (order + 1.0))
        pair = special.log_iv_reduced(order, edge * np.array([1 - 1e-14, 1 + 1e-14]))
        assert pair[1] / pair[0] - 1 < 1e-13


def test_broadcasts_over_blocks():
    order = np.array([0.0, 6849.0])[:, None]
    x = np.geomspace(1e-3, 1e5, 9001)
    for function in (special.log_iv, special.log_iv_reduced, special.bessel_ratio):
        table = function(order, x)
        assert table.shape == (2, 9001)
        np.testing.assert_array_equal(table[1, 4321], function(6849.0, x[4321]))


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: special.log_iv(-0.1, 1.0), "order"),
        (lambda: special.log_iv(2e12, 1.0), "order"),
        (lambda: special.log_iv_reduced(1.0, -1.0), "x"),
        (lambda: special.bessel_ratio(1.0, np.nan), "x"),
        (lambda: special.bessel_ratio_inverse(1.0, 1.0), "ratio"),
    ],
)
def test_refuses(call, name):
    with pytest.raises(ValueError, match=f"^{name} must be in"):
        call()

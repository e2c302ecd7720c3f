"""Tail of the cosine between a Gaussian vector and its mean, by five independent routes."""

from __future__ import annotations

import mpmath as mp
import numpy as np
import pytest
from scipy import stats

from reconrisk import special
from reconrisk.special import _cosine


def by_quadrature(cosine: float, dimension: int, delta: float) -> tuple[float, float]:
    """Return the logs of the tail and its complement by 30-digit trapezoids in log R."""
    with mp.workdps(30):
        c, k, m = mp.mpf(cosine), mp.mpf(dimension - 1), mp.mpf(delta)
        tau = c / mp.sqrt((1 - c) * (1 + c))
        constant = (k / 2 - 1) * mp.log(2) + mp.loggamma(k / 2)
        values = []
        for side in (1, -1):

            def log_f(v, side=side):
                r = mp.exp(v)
                phi = mp.erfc(-side * (m - tau * r) / mp.sqrt(2)) / 2
                return k * v - r * r / 2 + mp.log(phi) - constant

            low, high = mp.mpf(-60), mp.log(mp.sqrt(k) + abs(m) + 40)
            for _ in range(70):
                third = (high - low) / 3
                if log_f(low + third) < log_f(high - third):
                    low += third
                else:
                    high -= third
            centre = low
            top = log_f(centre)
            edges = []
            for sign in (-1, 1):
                width = mp.mpf("1e-7")
                while log_f(centre + sign * width) - top > -50:
                    width *= mp.mpf("1.4")
                edges.append(centre + sign * width)
            n, old, total = 128, mp.mpf(1), mp.mpf(0)
            while abs(total / old - 1) > mp.mpf("1e-14"):
                n, old = 2 * n, total or mp.mpf(1)
                h = (edges[1] - edges[0]) / n
                total = h * mp.fsum(mp.exp(log_f(edges[0] + h * i) - top) for i in range(n + 1))
            values.append(float(top + mp.log(total)))
        return values[0], values[1]


CASES = [
    (0.3, 2, 1.0),
    (0.95, 2, 3.0),
    (-0.6, 3, 1.0),
    (-0.95, 3, -4.0),
    (0.5, 3, -20.0),
    (0.7, 10, 1.0),
    (0.999, 10, 1.0),
    (0.2, 100, 2.0),
    (-0.2, 100, -30.0),
    (0.9, 1000, 1.0),
    (0.5, 1000, 500.0),
    (0.01, 150527, 1.0),
    (0.3, 150527, 1.0),
    (0.09, 150527, 0.0),
    (1e-4, 10**9, 1.0),
    (1e-3, 10**9, 5.0),
]


@pytest.mark.parametrize(("cosine", "dimension", "delta"), CASES)
def test_against_30_digits(cosine, dimension, delta):
    log_p, log_q = by_quadrature(cosine, dimension, delta)
    # The reference keeps both tails; compare the smaller, through our two opposite calls.
    ours = special.log_cosine_tail(cosine, dimension, delta)
    opposite = special.log_cosine_tail(-cosine, dimension, -delta)
    assert ours == pytest.approx(log_p, rel=1e-12, abs=2e-11)
    assert opposite == pytest.approx(log_q, rel=1e-12, abs=2e-11)


def test_non_central_t_of_scipy_where_it_is_right():
    for d in (3, 4, 10, 100):
        for delta in (0.0, 0.5, 2.0):
            c = np.array([-0.5, -0.1, 0.05, 0.2, 0.6])
            t = c * np.sqrt(d - 1) / np.sqrt(1 - c**2)
            expected = stats.nct.sf(t, d - 1, delta)
            keep = expected > 1e-9
            ours = np.exp(special.log_cosine_tail(c, d, delta))
            np.testing.assert_allclose(ours[keep], expected[keep], rtol=2e-9)


@pytest.mark.parametrize("dimension", [2, 3, 7, 50, 5000])
def test_central_case_is_a_beta_law(dimension):
    c = np.array([0.02, 0.4, 0.9, 0.999])
    with mp.workdps(30):
        exact = [
            float(mp.log(mp.betainc((dimension - 1) / mp.mpf(2), 0.5, 0, 1 - mp.mpf(v) ** 2,
                                    regularized=True) / 2))
            for v in c
        ]  # fmt: skip
    np.testing.assert_allclose(special.log_cosine_tail(c, dimension), exact, rtol=1e-12)


def test_plane_without_a_mean_is_the_angle():
    angle = np.array([1e-3, 0.1, 1.0, 2.0, 3.0])
    np.testing.assert_allclose(
        np.exp(special.log_cosine_tail(np.cos(angle), 2)), angle / np.pi, rtol=1e-9
    )
    np.testing.assert_allclose(
        np.exp(special.log_cap_tail(np.sin(1e-30) ** 2, 2)), 1e-30 / np.pi, rtol=1e-12
    )


def test_the_two_quadratures_agree():
    """Over the transverse length and over the component along the mean: different integrands."""
    rng = np.random.default_rng(5)
    n = 3000
    k = np.concatenate([rng.integers(1, 12, n // 3), np.exp(rng.uniform(1, 18, n - n // 3)) // 1])
    tau = np.exp(rng.uniform(np.log(0.4), np.log(5.0), n))
    delta = tau * np.sqrt(k) + rng.normal(size=n) * np.where(rng.random(n) < 0.5, 3, 30)
    across = _cosine._shallow(tau, k, delta)
    along = _cosine._steep(tau, k, delta, np.ones(n, dtype=bool))
    gap = np.abs(across - along)
    conditioning = 2e-14 * np.abs(delta) * (1 + np.sqrt(2 * np.abs(across)))
    assert np.all(gap <= 1e-11 + 1e-13 * np.abs(across) + conditioning)


def test_simulation():
    rng = np.random.default_rng(11)
    z = rng.normal(size=(200_000, 5))
    z[:, 0] += 1.3
    cosine = z[:, 0] / np.linalg.norm(z, axis=1)
    for c in (-0.5, 0.0, 0.4, 0.9):
        p = np.exp(special.log_cosine_tail(c, 5, 1.3))
        assert abs(np.mean(cosine >= c) - p) < 4 * np.sqrt(p * (1 - p) / len(z))


def test_one_dimension_and_ends():
    for delta in (-3.0, 0.0, 2.0):
        log_phi = special.log_normal_cdf(delta)
        np.testing.assert_array_equal(
            special.log_cosine_tail([-1.0, -0.5, 0.0, 0.5, 1.0], 1, delta), [0.0] + [log_phi] * 4
        )
        assert special.log_cosine_tail(0.0, 7, delta) == log_phi
        np.testing.assert_array_equal(special.log_cosine_tail([-1, 1], 7, delta), [0, -np.inf])
    assert special.log_cap_tail(0.0, 1, 2.0) == special.log_normal_cdf(2.0)
    assert special.log_cap_tail(0.0, 2, 2.0) == -np.inf


def test_cap_continues_the_cosine():
    sine2 = np.array([1.0, 0.9, 0.3, 1e-6])
    np.testing.assert_allclose(
        special.log_cap_tail(sine2, 12, 3.0),
        special.log_cosine_tail(np.sqrt(1 - sine2), 12, 3.0),
        rtol=1e-9,
    )
    # Small caps: share of the sphere ~ sine**k / (k B(k/2, 1/2)).
    k = 11.0
    with mp.workdps(30):
        exact = k / 2 * np.log(1e-100) - float(mp.log(k * mp.beta(k / 2, 0.5)))
    assert special.log_cap_tail(1e-100, 12) == pytest.approx(exact, rel=1e-13)


@pytest.mark.parametrize("delta", [-1e6, -1e3, 1e3, 1e6])
@pytest.mark.parametrize("dimension", [2, 1000, 10**9])
def test_extreme_noncentralities_are_numbers(dimension, delta):
    c = np.array([-0.999999, -0.3, -1e-3, 1e-9, 0.1, 0.7, 1 - 1e-12])
    value = special.log_cosine_tail(c, dimension, delta)
    assert np.all(np.isfinite(value)) and np.all(np.diff(value) <= 0) and np.all(value <= 0)


def test_quantile_inverts():
    rng = np.random.default_rng(2)
    d = rng.choice([2, 3, 10, 1000, 150527, 10**9], 120)
    delta = rng.normal(size=120) * 10
    log_p = -(10.0 ** rng.uniform(-10, 3, 120))
    c = special.log_cosine_quantile(log_p, d, delta)
    inner = np.abs(c) < 1
    above = special.log_cosine_tail(np.nextafter(c, -1), d, delta)
    below = special.log_cosine_tail(np.nextafter(c, 1), d, delta)
    slack = 1e-11 * np.abs(log_p) + 1e-13
    assert inner.sum() > 80
    assert np.all((below - slack <= log_p)[inner]) and np.all((log_p <= above + slack)[inner])


def test_quantile_ends():
    np.testing.assert_array_equal(special.log_cosine_quantile([-np.inf, 0.0], 5, 1.0), [1, -1])
    log_phi = special.log_normal_cdf(1.0)
    np.testing.assert_array_equal(
        special.log_cosine_quantile([log_phi - 1e-9, log_phi + 1e-9], 1, 1.0), [1, -1]
    )


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: special.log_cosine_tail(1.1, 3, 1.0), "cosine"),
        (lambda: special.log_cosine_tail(0.1, 0, 1.0), "dimension"),
        (lambda: special.log_cosine_tail(0.1, 2.5, 1.0), "dimension"),
        (lambda: special.log_cosine_tail(0.1, 3, 1e9), "noncentrality"),
        (lambda: special.log_cap_tail(-0.1, 3, 1.0), "sine_squared"),
        (lambda: special.log_cap_tail(1e-290, 3, 1.0), "sine_squared"),
        (lambda: special.log_cosine_quantile(0.5, 3), "log_p"),
    ],
)
def test_refuses(call, name):
    with pytest.raises(ValueError, match=name):
        call()

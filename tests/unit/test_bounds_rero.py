"""Closed-form reconstruction robustness: digits, limits, certified enclosures."""

from __future__ import annotations

import mpmath as mp
import numpy as np
import pytest
from scipy import special as sc

from reconrisk import DPSGD, Enclosure, bounds


def exact_log_success(log_kappa: float, q: float, shift: float) -> mp.mpf:
    """Return log[(1-q) kappa + q Phi(Phi**-1(kappa) + shift)] at the working precision."""
    z = mp.mpf(float(sc.ndtri_exp(log_kappa)))
    for _ in range(4):
        value = log_phi(z)
        z -= (value - mp.mpf(log_kappa)) * mp.exp(value + z * z / 2) * mp.sqrt(2 * mp.pi)
    gamma = log_phi(z + mp.mpf(shift))
    if q == 1:
        return gamma
    q = mp.mpf(q)
    return gamma + mp.log(q + (1 - q) * mp.exp(mp.mpf(log_kappa) - gamma))


def log_phi(x: mp.mpf) -> mp.mpf:
    if x > -25:
        return mp.log(mp.erfc(-x / mp.sqrt(2)) / 2) if x < 3 else mp.log1p(-mp.ncdf(-x))
    tail = mp.mpf(0)
    for n in range(300, 0, -1):
        tail = n / (-x + tail)
    return -x * x / 2 - mp.log(2 * mp.pi) / 2 - mp.log(-x + tail)


def test_printed_and_known_values():
    # Ziller et al. 2024, Table 1, column "Worst-Case Success": rows 1, 4, 12, 16
    assert bounds.rero_gaussian(1.0, 0.1) == pytest.approx(0.389, abs=5e-4)
    assert bounds.rero_gaussian(100.0, 0.1) == pytest.approx(0.102, abs=5e-4)
    assert bounds.rero_gaussian(1.0, 0.1, steps=10) == pytest.approx(0.970, abs=5e-4)
    assert bounds.rero_gaussian(1.0, 1e-5) == pytest.approx(0.001, abs=5e-4)
    with mp.workdps(30):
        exact = mp.exp(exact_log_success(float(np.log(0.1)), 1, mp.mpf(1)))
    assert bounds.rero_gaussian(1.0, 0.1) == pytest.approx(float(exact), rel=1e-14)


@pytest.mark.parametrize("log_kappa", [-1e6, -4261.0, -1089.0, -30.0, -1.0, -0.1, -1e-6])
@pytest.mark.parametrize("sigma", [0.05, 0.5, 1.0, 10.0, 1e4])
@pytest.mark.parametrize("q", [1.0, 0.5, 0.01])
def test_enclosure_contains_the_exact_value(log_kappa, sigma, q):
    with mp.workdps(60):
        exact = exact_log_success(log_kappa, q, mp.mpf(1) / mp.mpf(sigma))
        run = DPSGD(sigma, sampling_rate=q)
        inner = bounds.rero(run, log_prior_success=log_kappa, log=True)
        assert mp.mpf(inner.lower) <= exact <= mp.mpf(inner.upper)
        outer = bounds.rero(run, log_prior_success=log_kappa)
        assert mp.mpf(outer.lower) <= mp.exp(exact) <= mp.mpf(outer.upper)
    # and is not vacuous: a thousandth of a millionth of the probability, 1e-13 of its logarithm
    assert inner.width <= 1e-9 + 1e-12 * abs(inner.lower)


def test_enclosure_over_many_steps_and_random_runs():
    rng = np.random.default_rng(0)
    for _ in range(150):
        sigma, steps = 10.0 ** rng.uniform(-1, 2), int(10.0 ** rng.uniform(0, 4))
        kappa = float(10.0 ** rng.uniform(-12, -0.001))
        with mp.workdps(50):
            log_kappa = mp.log(mp.mpf(kappa))
            z = mp.mpf(float(sc.ndtri(kappa)))
            for _ in range(4):
                value = log_phi(z)
                z -= (value - log_kappa) * mp.exp(value + z * z / 2) * mp.sqrt(2 * mp.pi)
            exact = mp.exp(log_phi(z + mp.sqrt(steps) / mp.mpf(sigma)))
            ours = bounds.rero(DPSGD(sigma, steps=steps), kappa)
            assert mp.mpf(ours.lower) <= exact <= mp.mpf(ours.upper), (sigma, steps, kappa)


def test_one_sampled_step_by_simulation():
    """The best test of N(0, 1) against the mixture is a threshold on the observation."""
    rng = np.random.default_rng(8)
    q, sigma, kappa = 0.3, 0.8, 0.05
    threshold = -sc.ndtri(kappa)
    mixture = rng.normal(size=400_000) + (rng.random(400_000) < q) / sigma
    ours = bounds.rero(DPSGD(sigma, sampling_rate=q), kappa)
    p = 0.5 * (ours.lower + ours.upper)
    assert abs(np.mean(mixture > threshold) - p) < 4 * np.sqrt(p * (1 - p) / 400_000)


def test_limits():
    assert bounds.rero_gaussian(1.0, 0.0) == 0.0
    assert bounds.rero_gaussian(1.0, 0.0, log=True) == -np.inf
    assert bounds.rero_gaussian(1.0, 1.0) == 1.0
    assert bounds.rero_gaussian(1e12, 0.3) == pytest.approx(0.3, rel=1e-11)
    assert bounds.rero_gaussian(1e-3, 0.3) == 1.0
    assert bounds.rero(DPSGD(1.0), 0.0) == Enclosure(0.0, 0.0)
    # far below the floats: between nothing and the smallest of them
    tiny = bounds.rero(DPSGD(1.0), log_prior_success=-1e6)
    assert tiny.lower == 0.0 < tiny.upper < 1e-320


def test_kappa_down_to_a_million_nats():
    """Mills' ratio cancels: log gamma - log kappa is close to |z|/sigma - 1/(2 sigma**2)."""
    value = bounds.rero_gaussian([0.5, 1.0, 7.0], log_prior_success=-1e6, log=True)
    z = np.sqrt(2e6)
    expected = -1e6 + z / np.array([0.5, 1.0, 7.0]) - 0.5 / np.array([0.5, 1.0, 7.0]) ** 2
    np.testing.assert_allclose(value, expected, atol=0.02)


def test_broadcasts():
    table = bounds.rero_gaussian(np.array([0.5, 1.0])[:, None], [1e-3, 0.1, 0.5])
    assert table.shape == (2, 3)
    assert table[1, 1] == bounds.rero_gaussian(1.0, 0.1)


def test_refuses():
    with pytest.raises(ValueError, match="exactly one of prior_success"):
        bounds.rero_gaussian(1.0)
    with pytest.raises(ValueError, match="exactly one of prior_success"):
        bounds.rero(DPSGD(1.0), 0.1, -1.0)
    with pytest.raises(ValueError, match="prior_success must be in"):
        bounds.rero_gaussian(1.0, 1.5)
    with pytest.raises(ValueError, match="noise_multiplier must be in"):
        bounds.rero_gaussian(0.0, 0.5)
    with pytest.raises(ValueError, match="steps"):
        bounds.rero_gaussian(1.0, 0.5, steps=1.5)
    with pytest.raises(ValueError, match="tolerance must be in"):
        bounds.rero(DPSGD(1.0, 0.1, 2), 0.5, tolerance=0.0)
    with pytest.raises(TypeError, match="DPSGD"):
        bounds.rero_curve(1.0, [0.5])  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="prior_success must be in"):
        bounds.rero_curve(DPSGD(1.0), [0.5, 1.5])
    with pytest.raises(TypeError, match="DPSGD"):
        bounds.rero(1.0, 0.1)
    with pytest.raises(TypeError, match="single number"):
        bounds.rero(DPSGD(1.0), [0.1, 0.2])

"""Noise by the moment bound of Liu et al.: closed form, limits, and what a certificate asks for."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import optimize

from reconrisk import privacy


def log_delta(sigma: float, epsilon: float) -> float:
    """The moment bound, minimised numerically over the order."""
    found = optimize.minimize_scalar(
        lambda x: np.exp(x) * (np.exp(x) + 1) / (2 * sigma**2) - np.exp(x) * epsilon,
        bounds=(-20, 20),
        method="bounded",
        options={"xatol": 1e-10},
    )
    return float(found.fun)


@pytest.mark.parametrize("epsilon", [0.01, 0.5, 3.0, 40.0])
@pytest.mark.parametrize("delta", [1e-9, 1e-5, 0.1])
def test_closed_form_against_direct_optimisation(epsilon, delta):
    ours = privacy.noise_by_moments(epsilon, delta)
    direct = optimize.brentq(
        lambda sigma: log_delta(sigma, epsilon) - np.log(delta), ours / 3, ours * 3, rtol=1e-12
    )
    assert ours == pytest.approx(direct, rel=1e-7)


@pytest.mark.parametrize("epsilon", [0.01, 0.5, 3.0, 40.0])
def test_never_less_than_a_certificate_asks_for(epsilon):
    delta = np.array([1e-9, 1e-5, 0.1])
    ours = privacy.noise_by_moments(epsilon, delta)
    least = np.array([privacy.noise_for_epsilon(epsilon, d) for d in delta])
    assert np.all(ours >= least)
    # and less than half as much again where delta is small
    assert ours[0] < 1.5 * least[0]


def test_limits_and_scaling():
    small = privacy.noise_by_moments(1e-6, 1e-5)
    assert small == pytest.approx(np.sqrt(2 * np.log(1e5)) / 1e-6, rel=1e-6)
    large = privacy.noise_by_moments(1e8, 1e-5)
    assert large == pytest.approx(1 / np.sqrt(2e8), rel=1e-3)
    assert privacy.noise_by_moments(1.0, 1e-5, 7.0) == pytest.approx(
        7 * privacy.noise_by_moments(1.0, 1e-5)
    )
    grid = privacy.noise_by_moments(np.logspace(-3, 3, 20)[:, None], np.array([1e-9, 1e-3]))
    assert np.all(np.diff(grid, axis=0) < 0) and np.all(np.diff(grid, axis=1) < 0)


@pytest.mark.parametrize(
    ("name", "values"),
    [("epsilon", (0, 0.1, 1)), ("delta", (1, 1, 1)), ("sensitivity", (1, 0.1, -1))],
)
def test_bad_arguments_are_refused_by_name(name, values):
    with pytest.raises(ValueError, match=name):
        privacy.noise_by_moments(*values)

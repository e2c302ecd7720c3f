"""Normal tails, their inverse and their shift, far beyond the floats."""

from __future__ import annotations

import mpmath as mp
import numpy as np
import pytest
from scipy import special as sc

from reconrisk import special


def log_phi(x: mp.mpf) -> mp.mpf:
    """Return log Phi(x) to the working precision (Laplace's continued fraction far out)."""
    x = mp.mpf(x)
    if x > -25:
        return mp.log(mp.erfc(-x / mp.sqrt(2)) / 2) if x < 3 else mp.log1p(-mp.ncdf(-x))
    tail = mp.mpf(0)
    for n in range(300, 0, -1):
        tail = n / (-x + tail)
    return -x * x / 2 - mp.log(2 * mp.pi) / 2 - mp.log(-x + tail)


def quantile(log_p: float) -> mp.mpf:
    """Return the exact quantile by Newton's method from SciPy's."""
    z = mp.mpf(float(sc.ndtri_exp(log_p)))
    for _ in range(4):
        value = log_phi(z)
        z -= (value - mp.mpf(log_p)) * mp.exp(value + z * z / 2) * mp.sqrt(2 * mp.pi)
    return z


LOG_P = [-1e-300, -1e-20, -1e-5, -0.1, -0.69, -0.7, -1.0, -5.0, -36.0, -700.0, -1e4, -1e6, -1e9]


@pytest.mark.parametrize("x", [-1e5, -1414.2, -40.0, -5.0, -1.0, 0.0, 0.5, 3.0, 8.0])
def test_cdf(x):
    with mp.workdps(40):
        exact = float(log_phi(x))
    assert special.log_normal_cdf(x) == pytest.approx(exact, rel=3e-14)


@pytest.mark.parametrize("log_p", LOG_P)
def test_quantile(log_p):
    with mp.workdps(60):
        exact = quantile(log_p)
    assert special.log_normal_quantile(log_p) == pytest.approx(float(exact), rel=1e-15, abs=1e-16)


def test_scipy_needs_the_newton_step():
    """At log p = -1e6 SciPy's quantile stands for a probability off by 1e-7 or more."""
    with mp.workdps(40):
        assert abs(log_phi(float(sc.ndtri_exp(-1e6))) + 10**6) > 1e-7


@pytest.mark.parametrize("log_p", LOG_P)
@pytest.mark.parametrize("shift", [0.0, 1e-9, 0.01, 1.0, 31.6, 1414.0, 2000.0])
def test_shift(log_p, shift):
    with mp.workdps(60):
        exact = log_phi(quantile(log_p) + mp.mpf(shift))
    ours = special.log_normal_cdf_shifted(log_p, shift)
    # 1e-12 in the probability, 1e-15 in the logarithm, and |z| shift units of rounding
    slack = 1e-12 + 2e-15 * abs(float(exact)) + 4e-16 * shift * np.sqrt(2 * abs(log_p))
    assert abs(ours - float(exact)) <= slack * min(1.0, max(abs(float(exact)), 1e-290))


def test_ends():
    assert special.log_normal_quantile(-np.inf) == -np.inf
    assert special.log_normal_quantile(0.0) == np.inf
    assert special.log_normal_cdf_shifted(-np.inf, 5.0) == -np.inf
    assert special.log_normal_cdf_shifted(0.0, 5.0) == 0.0
    assert special.log_normal_cdf(np.inf) == 0.0


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: special.log_normal_cdf(np.nan), "x"),
        (lambda: special.log_normal_quantile(1e-9), "log_p"),
        (lambda: special.log_normal_cdf_shifted(-1.0, -1.0), "shift"),
        (lambda: special.log_normal_cdf_shifted(-1.0, np.inf), "shift"),
    ],
)
def test_refuses(call, name):
    with pytest.raises(ValueError, match=f"^{name} must be in"):
        call()

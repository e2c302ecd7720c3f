"""The certified success of any attack against two routes that share no code with it."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest
from scipy import optimize
from scipy import special as sc

from reconrisk import DPSGD, bounds


def two_steps(sigma: float, q: float, level: float) -> tuple[mpmath.mpf, mpmath.mpf]:
    """P(log ratio of two steps > level) under both laws, by quadrature in 30 digits.

    Over the first step, in the logarithm of its distance to the value beyond which the second does
    not matter; there the integrand is not analytic, but everything decays.
    """
    with mpmath.workdps(30):
        a, rate, c = 1 / mpmath.mpf(sigma), mpmath.mpf(q), mpmath.mpf(level)

        def needed(log_ratio: mpmath.mpf) -> mpmath.mpf:
            return (mpmath.log(mpmath.expm1(log_ratio) / rate + 1) + a * a / 2) / a

        enough = needed(c - mpmath.log1p(-rate))
        without = mpmath.ncdf(-enough)
        with_record = (1 - rate) * without + rate * mpmath.ncdf(a - enough)
        step = mpmath.mpf(1) / 20
        for k in range(-1000, 80):
            distance = mpmath.exp(k * step)
            z = enough - distance
            plain, moved = mpmath.npdf(z), mpmath.npdf(z - a)
            second = needed(c - mpmath.log1p(rate * mpmath.expm1(a * z - a * a / 2)))
            tail, moved_tail = mpmath.ncdf(-second), mpmath.ncdf(a - second)
            without += step * distance * plain * tail
            mixed = (1 - rate) * plain + rate * moved
            with_record += step * distance * mixed * ((1 - rate) * tail + rate * moved_tail)
        return without, with_record


@pytest.mark.parametrize(
    ("sigma", "q", "level"), [(0.8, 0.3, 0.5), (0.8, 0.3, 3.0), (0.3, 0.05, 2.0), (0.3, 0.05, 12.0)]
)
def test_two_steps_lie_in_the_enclosure(sigma, q, level):
    kappa, gamma = two_steps(sigma, q, level)
    lower, upper = bounds.rero_curve(DPSGD(sigma, q, 2), float(kappa), tolerance=1e-6)
    assert lower <= gamma <= upper
    assert upper - lower <= 1e-6 * upper


class Inversion:
    """Tails of the sum from its tilted characteristic function, along one vertical line each."""

    def __init__(self, sigma: float, q: float, steps: int) -> None:
        a = 1 / sigma
        z = np.arange(-11.0, 19.0 + 3 * a, 0.02 * min(1.0, 4 * sigma))
        self.steps = steps
        self.loss = np.log1p(q * np.expm1(a * z - a * a / 2))
        self.log_weight = -0.5 * z * z + math.log((z[1] - z[0]) / math.sqrt(2 * math.pi))

    def tilted(self, tilt: float) -> tuple[float, np.ndarray, float, float]:
        exponent = self.log_weight + tilt * self.loss
        log_sum = float(sc.logsumexp(exponent))
        weight = np.exp(exponent - log_sum)
        mean = float(weight @ self.loss)
        spread = math.sqrt(self.steps * float(weight @ (self.loss - mean) ** 2))
        return log_sum, weight, self.steps * mean, spread

    def tail(self, tilt: float, pole: float, level: float) -> float:
        """P(sum > level) under nu (pole 0) or mu (pole 1)."""
        log_sum, weight, _, spread = self.tilted(tilt)
        away = tilt - pole
        distance = 2 * math.pi / (50 / abs(away) + 16 * spread)
        u = (np.arange(math.ceil(9 / (spread * distance))) + 0.5) * distance
        power = self.steps * (np.log(np.exp(1j * np.outer(u, self.loss)) @ weight) + log_sum)
        value = np.sum((np.exp(power - (away + 1j * u) * level) / (away + 1j * u)).real)
        return float(value) * distance / math.pi + (away < 0)

    def success(self, kappa: float, tilt: float) -> float:
        _, _, mean, spread = self.tilted(tilt)
        level = optimize.brentq(
            lambda c: math.log(max(self.tail(tilt, 0.0, c), 1e-300) / kappa),
            mean - 2 * spread,
            mean + 2 * spread,
            xtol=1e-14,
        )
        aside = tilt - 1 if abs(tilt - 1) * spread > 1 else 1 / spread
        return self.tail(1 + aside, 1.0, level)


@pytest.mark.parametrize(
    ("sigma", "q", "steps", "kappa", "gamma"),
    [
        (2.512, 0.02, 1000, 0.1, 0.154302602275),
        (1.0, 0.01, 10_000, 1e-4, 0.00830654032626),
        (5.0, 0.02, 100_000, 0.1, 0.498242249325),
    ],
)
def test_inversion_lies_in_the_enclosure(sigma, q, steps, kappa, gamma):
    law = Inversion(sigma, q, steps)
    # the tilt matters to the accuracy only: about that of the quantile in the normal limit
    spread = law.tilted(0.0)[3]
    tilt = max(-float(sc.ndtri(kappa)), 1.0) / spread
    found = law.success(kappa, tilt)
    assert found == pytest.approx(gamma, rel=1e-9)
    lower, upper = bounds.rero_curve(DPSGD(sigma, q, steps), kappa, tolerance=1e-6)
    assert lower <= found <= upper
    assert upper - lower <= 1e-6 * upper


def test_curve_lies_between_prior_and_full_batch_and_rises():
    kappa = np.geomspace(1e-12, 0.5, 25)
    for run in (DPSGD(0.9874, 0.02, 1000), DPSGD(0.2807, 0.01, 100)):
        lower, upper = bounds.rero_curve(run, kappa)
        full = bounds.rero_gaussian(run.noise_multiplier, kappa, steps=run.steps)
        assert (lower > kappa).all()
        assert (upper <= full * (1 + 1e-12)).all()
        assert (np.diff(upper) > 0).all()
        # the record may never have taken part
        assert (upper <= 1 - (1 - kappa) * (1 - run.sampling_rate) ** run.steps + 1e-3).all()

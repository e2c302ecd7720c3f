"""The certified trade-off curve of sub-sampled DP-SGD, held against routes that share no code."""

from __future__ import annotations

import dataclasses
import math

import mpmath as mp
import numpy as np
import pytest
from scipy import optimize, stats
from scipy import special as sc

from reconrisk import DPSGD, bounds, privacy
from reconrisk.privacy import _compose, _tradeoff
from reconrisk.privacy._compose import compose
from reconrisk.privacy._saddle import Mechanism
from reconrisk.privacy._step import Law, losses, one_step
from reconrisk.privacy._tradeoff import success_curve

KAPPAS = np.array([1e-12, 1e-9, 1e-4, 0.01, 0.1, 0.5, 0.9, 0.999])


def engine(sigma, q, steps, kappa, tolerance=1e-4):
    kappa = np.atleast_1d(np.array(kappa, dtype=float))
    return success_curve(Mechanism(1 / sigma, q, steps), kappa, tolerance)


def inversion(sigma: float, q: float, steps: int, kappa: float) -> float:
    """gamma by inverting the moment generating function of the loss along a vertical line.

    P(S > c) is the integral of M(u)**T exp(-u c)/(2 pi i u) over Re u = theta > 0, less what its
    pole at zero adds where theta < 0. Under mu the moments are those of nu one further on.
    """
    nodes, weights = np.polynomial.legendre.leggauss(400)
    low, high = -12.0, 1 / sigma + 12.0
    x = 0.5 * (high + low) + 0.5 * (high - low) * nodes
    mass = 0.5 * (high - low) * weights * stats.norm.pdf(x)
    loss = losses(x, 1 / sigma, q)

    def cumulants(theta: float) -> tuple[float, float, float]:
        tilted = mass * np.exp(theta * loss)
        total = tilted.sum()
        mean = (tilted @ loss) / total
        return math.log(total), mean, (tilted @ (loss - mean) ** 2) / total

    def tail(level: float, shift: float, theta: float) -> float:
        """P(S > level) under the law tilted by shift, along Re u = theta - shift."""
        log_norm, _, variance = cumulants(theta)
        base = cumulants(shift)[0]
        step = 0.04 / math.sqrt(steps * variance)
        omega = step * (np.arange(400) + 0.5)
        moments = np.exp(1j * np.outer(omega, loss)) @ (mass * np.exp(theta * loss) + 0j)
        exponent = steps * (np.log(moments) - base) - (theta - shift + 1j * omega) * level
        integral = (np.exp(exponent) / (theta - shift + 1j * omega)).real.sum() * step / math.pi
        return integral if theta > shift else 1.0 + integral

    def level_at(theta: float) -> float:
        return steps * cumulants(theta)[1]

    def excess(theta: float) -> float:
        return math.log(max(tail(level_at(theta), 0.0, theta), 1e-300)) - math.log(kappa)

    deviation = math.sqrt(steps * cumulants(0.0)[2])
    theta = optimize.brentq(excess, 0.05 / deviation, 12.0 / deviation, rtol=1e-14)
    level = level_at(theta)
    # well away from the pole
    return tail(level, 1.0, 1.0 + math.copysign(max(abs(theta - 1), 0.8 / deviation), theta - 1))


@pytest.mark.parametrize("sigma", [0.3, 1.0, 20.0])
@pytest.mark.parametrize("steps", [1, 3, 100, 10_000])
def test_lattice_at_full_batch(sigma, steps):
    """The lattice, not the closed form, on runs that have a closed form."""
    exact = bounds.rero_gaussian(sigma, KAPPAS, steps=steps)
    for tolerance in (1e-2, 1e-4, 1e-6):
        lower, upper = engine(sigma, 1.0, steps, KAPPAS, tolerance)
        assert np.all(lower <= exact) and np.all(exact <= upper)
        assert np.all(upper - lower <= 1.01 * tolerance * upper)


@pytest.mark.parametrize(("sigma", "q"), [(0.3, 1e-3), (0.5, 0.3), (2.0, 0.9), (50.0, 1e-4)])
def test_lattice_at_one_step(sigma, q):
    exact = (1 - q) * KAPPAS + q * bounds.rero_gaussian(sigma, KAPPAS)
    for tolerance in (1e-3, 1e-5):
        lower, upper = engine(sigma, q, 1, KAPPAS, tolerance)
        assert np.all(lower <= exact) and np.all(exact <= upper)
        assert np.all(upper - lower <= 1.5 * tolerance * upper)


@pytest.mark.parametrize(
    ("sigma", "q", "steps", "kappa"),
    [
        (1.0, 0.1, 100, 0.1),
        (1.0, 0.1, 100, 1e-6),
        (2.0, 0.02, 1000, 0.3),
        (0.8, 0.05, 1000, 1e-12),
        (10.0, 0.5, 10_000, 1e-3),
        (1.0, 0.01, 10_000, 1e-9),
    ],
)
def test_against_inversion_of_the_moments(sigma, q, steps, kappa):
    exact = inversion(sigma, q, steps, kappa)
    lower, upper = engine(sigma, q, steps, kappa, 1e-6)
    assert lower[0] <= exact <= upper[0] <= lower[0] * (1 + 1.1e-6)


@pytest.mark.parametrize(
    ("sigma", "q", "level"), [(1.0, 0.3, 0.4), (0.5, 0.1, 0.05), (3.0, 0.5, 0.6)]
)
def test_two_steps_by_quadrature(sigma, q, level):
    """gamma at the kappa of one level of the loss, each a nested integral with 25 digits."""
    with mp.workdps(25):
        a, rate, c = 1 / mp.mpf(sigma), mp.mpf(q), mp.mpf(level)

        def loss(x):
            return mp.log(1 - rate + rate * mp.exp(a * x - a * a / 2))

        def beyond(need):
            """The output whose loss is ``need``."""
            excess = mp.exp(need) - 1 + rate
            return (mp.log(excess / rate) + a * a / 2) / a if excess > 0 else -mp.inf

        def tails(x):
            y = beyond(c - loss(x))
            return mp.ncdf(-y), (1 - rate) * mp.ncdf(-y) + rate * mp.ncdf(a - y)

        top = beyond(c - mp.log(1 - rate))
        points = sorted({mp.mpf(-12), mp.mpf(0), top, *map(mp.mpf, (-4, -2, 2, 4, 8, 14))})
        kappa = mp.quad(lambda x: mp.npdf(x) * tails(x)[0], points)
        gamma = mp.quad(lambda x: mp.npdf(x) * mp.exp(loss(x)) * tails(x)[1], points)
    lower, upper = engine(sigma, q, 2, float(kappa), 1e-7)
    assert lower[0] <= float(gamma) <= upper[0] <= lower[0] * (1 + 1.1e-7)


@pytest.mark.parametrize(
    ("sigma", "q", "steps", "kappa", "gamma", "digits"),
    [
        (0.590501823, 0.01, 100, 0.1, 0.186773, 5e-7),
        (10.705414, 0.99, 100, 0.1, 0.360632, 5e-7),
        (0.5, 0.01, 20, 0.1, 0.15205638, 1e-8),
        (2.511988, 0.02, 1000, 0.1, 0.154303, 1e-6),
        (1.483607, 0.02, 1000, 0.1, 0.211837, 1e-6),
        (0.987386, 0.02, 1000, 0.1, 0.327393, 1e-6),
        (0.675777, 0.02, 1000, 0.1, 0.605705, 2e-6),
        (0.457558, 0.02, 1000, 0.1, 0.960019, 2e-6),
    ],
)
def test_known_values(sigma, q, steps, kappa, gamma, digits):
    found = bounds.rero(DPSGD(sigma, q, steps), kappa, tolerance=1e-7)
    assert found.lower - digits <= gamma <= found.upper + digits
    assert found.width < 2e-7


@pytest.mark.parametrize(
    ("sigma", "q", "steps"),
    [(1.0, 0.02, 100_000), (0.2, 1e-4, 100_000), (100.0, 1e-4, 100_000), (0.5, 0.01, 50)],
)
def test_widths_at_the_ends(sigma, q, steps):
    lower, upper = engine(sigma, q, steps, [1e-12, 0.1, 0.999])
    assert np.all(upper - lower <= 1e-4 * upper)


def test_a_prior_of_every_size():
    run = DPSGD(1.0, 0.02, 1000)
    assert bounds.rero(run, 0.0) == bounds.rero(run, log_prior_success=-np.inf)
    assert bounds.rero(run, 0.0).upper == 0.0
    assert bounds.rero(run, 1.0).lower == pytest.approx(1.0, abs=1e-14)
    deep = bounds.rero(run, 1e-100, log=True)
    assert deep.width < 2e-4 and deep.lower > math.log(1e-100)
    # not followed further down, but still enclosed
    deepest = bounds.rero(run, log_prior_success=-5000.0, log=True)
    assert -5000.0 < deepest.lower < deepest.upper < 0.0
    lower, upper = bounds.rero_curve(run, [[0.0, 1e-3], [0.5, 1.0]])
    assert lower.shape == upper.shape == (2, 2) and lower[0, 0] == upper[0, 0] == 0.0
    one = bounds.rero(run, 1e-3)
    assert max(one.lower, lower[0, 1]) <= min(one.upper, upper[0, 1])


def test_without_noise_to_speak_of():
    """A step that takes the record shows it: gamma = P(taken) + P(not) kappa."""
    lower, upper = engine(0.01, 0.1, 5, [1e-6, 0.3])
    exact = 1 - 0.9**5 * (1 - np.array([1e-6, 0.3]))
    np.testing.assert_allclose([lower, upper], [exact, exact], rtol=1e-6)
    assert np.all(lower <= exact * (1 + 1e-12)) and np.all(exact <= upper * (1 + 1e-12))


def test_one_step_conserves_both_laws_and_dominates():
    a, q, h = 2.0, 0.05, 0.01
    step = one_step(a, q, h, -12.0, 12.0)
    place = step.base + h * (step.above.first + np.arange(step.above.mass.size))
    assert step.above.mass.sum() == pytest.approx(1.0, abs=1e-14)
    under_mu = step.above.mass * np.exp(place)
    assert under_mu.sum() == pytest.approx(1.0, abs=1e-14)
    assert step.nu.mass.sum() == pytest.approx(1.0, abs=1e-14)
    assert step.mu.mass.sum() == pytest.approx(1.0, abs=1e-14)
    for epsilon in (-0.03, 0.2, 1.7):
        x = (math.log((math.exp(epsilon) - 1 + q) / q) + a * a / 2) / a
        exact = (1 - q) * sc.ndtr(-x) + q * sc.ndtr(a - x) - math.exp(epsilon) * sc.ndtr(-x)
        above = np.sum(np.maximum(under_mu - math.exp(epsilon) * step.above.mass, 0))
        below = np.sum(np.maximum(step.mu.mass - math.exp(epsilon) * step.nu.mass, 0))
        assert below <= exact <= above < below + 1e-4


@pytest.mark.parametrize("steps", [1, 2, 7, 40])
@pytest.mark.parametrize("rate", [0.0, 0.3, 2.0])
def test_composition_against_direct_convolution(steps, rate):
    rng = np.random.default_rng(steps)
    mass = rng.random(9) ** 6
    mass /= mass.sum()
    exact = np.array([1.0])
    for _ in range(steps):
        exact = np.convolve(exact, mass)
    found = compose(Law(-3, mass, np.zeros(9)), rate, steps, (1.0, 1.0), -30.0)
    index = -3 * steps + np.arange(exact.size)
    tilted = exact * np.exp(rate * index - found.log_norm)
    tails = np.cumsum(tilted[::-1])[::-1]
    place = np.clip(index - found.first, 0, found.size - 1)
    inside = index == found.first + place
    error = found.error_of_tail(0.0)
    assert error < 1e-10 and found.mass is not None
    got = found.rising(place, 0.0)
    assert np.all(np.abs(got - tails)[inside] <= error + found.relative * tails[inside])


def test_few_frequencies_are_as_good_as_all(monkeypatch):
    step = one_step(0.5, 0.1, 0.002, -9.0, 9.0)
    arguments = (step.nu, 0.0005, 100_000, (2e-4, 2e-4), -25.0)
    few = compose(*arguments)
    assert few.mass is None
    monkeypatch.setattr(_compose, "MOST_FREQUENCIES", 0)
    many = compose(*arguments)
    assert many.mass is not None and many.first == few.first
    place = np.linspace(0, few.size - 1, 200).astype(int)
    for decay in (0.0, 0.0005, 0.1):
        error = few.error_of_tail(decay) + many.error_of_tail(decay)
        for way in ("rising", "falling"):
            difference = getattr(few, way)(place, decay) - getattr(many, way)(place, decay)
            assert np.max(np.abs(difference)) <= error < 1e-6


def test_roundings_are_enclosed():
    """Transforms of 80-bit floats agree with the error that is stated."""
    if np.finfo(np.longdouble).eps > 1e-18:
        pytest.skip("no extended precision here")
    from scipy import fft

    step = one_step(1.0, 0.02, 0.002, -8.0, 9.0)
    found = compose(step.nu, 0.004, 2000, (0.01, 0.01), -40.0)
    assert found.mass is None or found.mass.size
    index = step.nu.first + np.arange(step.nu.mass.size)
    exact = np.array(step.nu.mass, dtype=np.longdouble) * np.exp(np.longdouble(0.004) * index)
    exact /= exact.sum()
    folded = np.zeros(found.size, dtype=np.longdouble)
    np.add.at(folded, index % found.size, exact)
    spectrum = fft.rfft(folded)
    power = spectrum
    for bit in bin(2000)[3:]:
        power = power * power * (spectrum if bit == "1" else 1)
    masses = np.roll(fft.irfft(power, found.size), -(found.first % found.size))
    place = np.arange(0, found.size, max(found.size // 400, 1))
    got = found.rising(place, 0.0)
    reference = np.cumsum(masses[::-1])[::-1][place]
    assert np.max(np.abs(got - reference)) <= found.error_of_tail(0.0) < 1e-8


def test_breaking_the_dominating_pair_is_noticed(monkeypatch):
    """With the statistic's law in place of the spread one the upper bound is too small."""
    genuine = _tradeoff.one_step

    def broken(*arguments):
        step = genuine(*arguments)
        lumped = Law(step.nu.first, step.nu.mass[:-1], step.nu.relative[:-1])
        return dataclasses.replace(step, above=lumped)

    exact = bounds.rero_gaussian(1.0, 0.1, steps=4)
    assert engine(1.0, 1.0, 4, 0.1, 1e-3)[1][0] > exact
    monkeypatch.setattr(_tradeoff, "one_step", broken)
    assert engine(1.0, 1.0, 4, 0.1, 1e-3)[1][0] < exact


def test_too_tight_a_tolerance_is_answered_honestly():
    lower, upper = engine(2.0, 0.5, 50, 1e-9, 1e-12)
    rough = engine(2.0, 0.5, 50, 1e-9, 1e-3)
    assert 1e-12 * upper[0] < upper[0] - lower[0] < 1e-6 * upper[0]
    assert rough[0][0] <= upper[0] and lower[0] <= rough[1][0]


@pytest.mark.parametrize("noise_multiplier", [1e-6, 1e6])
def test_a_thousand_million_steps_are_enclosed_or_left_open(noise_multiplier):
    """Beyond what cells of double precision resolve, the enclosure is wide and never wrong."""
    run = DPSGD(noise_multiplier, sampling_rate=1e-9, steps=10**9)
    epsilon = privacy.epsilon(run, 1e-5)
    assert 0 <= epsilon.lower <= epsilon.upper
    delta = privacy.delta(run, 1e-3)
    assert 0 <= delta.lower <= delta.upper <= 1

"""Bayes' capacity: 40-digit sums, integrals, simulation, discretised channels, the lemmas."""

from __future__ import annotations

import mpmath as mp
import numpy as np
import pytest

from reconrisk import bounds, privacy


def printed_formula(p: int, s: float, r: float) -> float:
    """Theorem 5 as printed, both terms, in 40 digits."""
    with mp.workdps(40):
        s, r, half = mp.mpf(s), mp.mpf(r), mp.mpf(p) / 2
        first = r**p / ((2 * s * s) ** half * mp.gamma(half + 1))
        rho = r / (s * mp.sqrt(2))
        gammas = [mp.sqrt(mp.pi), mp.mpf(1)]  # Gamma((k + 1)/2), k = 0, 1, ...
        binomial, power, second = mp.mpf(1), rho ** (p - 1), mp.mpf(0)
        for k in range(p):
            second += binomial * power * gammas[k]
            gammas.append(gammas[k] * (k + 1) / 2)
            binomial *= mp.mpf(p - 1 - k) / (k + 1)
            power /= rho
        return float(mp.log(first + second / mp.gamma(half)))


def by_integral(p: int, s: float, r: float) -> float:
    """The integral of the supremum over shells, in 30 digits."""
    with mp.workdps(30):
        s, r, half = mp.mpf(s), mp.mpf(r), mp.mpf(p) / 2
        area = 2 * mp.pi**half / mp.gamma(half)

        def shell(y):
            return y ** (p - 1) * mp.exp(-(max(y - r, 0) ** 2) / (2 * s * s))

        cuts = [0, r, r + s, r + 3 * s, r + 8 * s, r + 20 * s, r + 60 * s]
        return float(mp.log(area * mp.quad(shell, cuts) / (2 * mp.pi * s * s) ** half))


@pytest.mark.parametrize(
    ("p", "s", "r"), [(1, 1.0, 1.0), (2, 0.5, 1.0), (3, 2.0, 0.1), (7, 0.1, 1.7), (30, 1.0, 3.0)]
)
def test_gaussian_by_two_routes(p, s, r):
    ours = bounds.bayes_capacity_gaussian(p, s, r)
    assert ours == pytest.approx(by_integral(p, s, r), rel=1e-12)
    assert ours == pytest.approx(printed_formula(p, s, r), rel=1e-12)


@pytest.mark.parametrize("s", [1.23 / 128, 0.174 / 128, 1.23, 0.174])
def test_gaussian_at_the_papers_size(s):
    ours = bounds.bayes_capacity_gaussian(13_700, s, np.sqrt(3))
    assert ours == pytest.approx(printed_formula(13_700, s, np.sqrt(3)), rel=1e-12)


def test_gaussian_on_an_interval():
    # p = 1: the middle of the interval at the peak, two half bells outside
    s, r = 0.7, 2.0
    exact = np.log(2 * r / (s * np.sqrt(2 * np.pi)) + 1)
    assert bounds.bayes_capacity_gaussian(1, s, r) == pytest.approx(exact, rel=1e-14)


@pytest.mark.parametrize(("p", "s", "r"), [(2, 1.0, 1.0), (5, 0.8, 1.5)])
def test_gaussian_by_simulation(p, s, r):
    # the integral of sup_x f(y|x), with y drawn around the centre at twice the noise
    rng = np.random.default_rng(3)
    wide = 2.0 * s + r
    length = np.linalg.norm(wide * rng.standard_normal((400_000, p)), axis=1)
    away = np.maximum(length - r, 0.0)
    ratio = (wide / s) ** p * np.exp(0.5 * (length / wide) ** 2 - 0.5 * (away / s) ** 2)
    error = np.std(ratio) / np.sqrt(ratio.size)
    exact = np.exp(bounds.bayes_capacity_gaussian(p, s, r))
    assert abs(np.mean(ratio) - exact) < 5 * error
    assert error < 0.01 * exact


def test_gaussian_without_inputs_and_with_little_signal():
    assert bounds.bayes_capacity_gaussian(13_700, 1.0, 0.0) == 0.0
    # first order: the ball's surface times half a bell's mass
    small = bounds.bayes_capacity_gaussian(3, 1.0, 1e-9)
    assert small == pytest.approx(2 * 1e-9 / np.sqrt(np.pi / 2), rel=1e-8)


def test_gaussian_broadcasts():
    table = bounds.bayes_capacity_gaussian([[3], [40]], [0.5, 1.0, 2.0], 1.0)
    assert table.shape == (2, 3)
    assert table[1, 2] == bounds.bayes_capacity_gaussian(40, 2.0, 1.0)


@pytest.mark.parametrize("p", [2, 3, 50, 13_700])
@pytest.mark.parametrize("kappa", [0.0, 0.1, 7.0, 75.0, 500.0])
def test_vmf_is_peak_times_area(p, kappa):
    peak = privacy.vmf_log_density(1.0, p, kappa) - privacy.vmf_log_density(0.0, p, 0.0)
    ours = bounds.bayes_capacity_vmf(p, kappa)
    assert ours == pytest.approx(peak, rel=1e-11, abs=1e-10)


def test_vmf_on_the_ordinary_sphere():
    # kappa exp(kappa)/sinh(kappa) = 2 kappa/(1 - exp(-2 kappa))
    kappa = np.array([1e-3, 1.0, 20.0, 1e4])
    exact = np.log(2 * kappa) - np.log(-np.expm1(-2 * kappa))
    np.testing.assert_allclose(bounds.bayes_capacity_vmf(3, kappa), exact, rtol=1e-12)


def test_vmf_against_a_discretised_circle():
    kappa, exact = 6.0, bounds.bayes_capacity_vmf(2, 6.0)
    values = []
    for bins in (16, 64, 512):
        fine = 2 * np.pi * (np.arange(8 * bins) + 0.5) / (8 * bins)
        centres = fine.reshape(bins, 8).mean(axis=1)
        density = np.exp(privacy.vmf_log_density(np.cos(fine - centres[:, None]), 2, kappa))
        channel = density.reshape(bins, bins, 8).sum(axis=2)
        channel /= channel.sum(axis=1, keepdims=True)
        values.append(bounds.bayes_capacity_discrete(channel))
    # coarser outputs and fewer inputs leak less; the limit is the continuous capacity
    assert values[0] < values[1] < values[2] < exact
    assert values[2] == pytest.approx(exact, abs=1e-4)


def test_capacity_orders_as_it_should():
    s = np.geomspace(0.1, 5.0, 20)
    assert np.all(np.diff(bounds.bayes_capacity_gaussian(100, s, 1.0)) < 0)
    assert np.all(np.diff(bounds.bayes_capacity_gaussian(100, 1.0, s)) > 0)
    assert np.all(np.diff(bounds.bayes_capacity_gaussian(np.arange(1, 60), 1.0, 1.0)) > 0)
    assert np.all(np.diff(bounds.bayes_capacity_vmf(100, s)) > 0)
    assert np.all(np.diff(bounds.bayes_capacity_vmf(np.arange(2, 60), 5.0)) > 0)


# --- discrete channels ----------------------------------------------------------------------


def channel(rng: np.random.Generator, inputs: int, outputs: int) -> np.ndarray:
    return rng.dirichlet(np.full(outputs, 0.4), size=inputs)


def test_lemma_2_nothing_and_everything():
    assert bounds.bayes_capacity_discrete(np.ones((5, 1))) == 0.0
    assert bounds.bayes_capacity_discrete(np.tile([0.2, 0.8], (5, 1))) == 0.0
    assert bounds.bayes_capacity_discrete(np.eye(5)) == pytest.approx(np.log(5), rel=1e-15)


def test_lemmas_1_and_3_and_corollary_1():
    rng = np.random.default_rng(5)
    for _ in range(50):
        c = channel(rng, 6, 4)
        value = bounds.bayes_capacity_discrete(c)
        # deterministic pre-processing that reaches every row changes nothing
        onto = np.eye(6)[np.append(rng.permutation(6), rng.integers(0, 6, 3))]
        assert bounds.bayes_capacity_discrete(onto @ c) == pytest.approx(value, abs=1e-14)
        # one that does not reach them all is a restriction of the domain
        part = np.eye(6)[rng.choice(6, 4, replace=False)]
        assert bounds.bayes_capacity_discrete(part @ c) <= value + 1e-14
        # post-processing
        assert bounds.bayes_capacity_discrete(c @ channel(rng, 4, 7)) <= value + 1e-14


def test_equation_13_is_the_uniform_attackers_gain():
    # success after over success before, exact guessing, uniform prior: attained; and no other
    # prior or gain function does better
    rng = np.random.default_rng(6)
    for _ in range(50):
        c = channel(rng, 5, 6)
        most = np.exp(bounds.bayes_capacity_discrete(c))
        after = np.sum(np.max(c / 5, axis=0))
        assert after * 5 == pytest.approx(most, rel=1e-13)
        prior, gain = rng.dirichlet(np.ones(5)), rng.random((8, 5))
        before = np.max(gain @ prior)
        after = np.sum(np.max(gain @ (prior[:, None] * c), axis=0))
        assert after <= most * before * (1 + 1e-12)


def test_discrete_takes_stacks():
    stack = np.stack([np.eye(3), np.full((3, 3), 1 / 3)])
    np.testing.assert_allclose(bounds.bayes_capacity_discrete(stack), [np.log(3), 0], atol=1e-15)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: bounds.bayes_capacity_gaussian(0, 1.0, 1.0), "dimension must be in"),
        (lambda: bounds.bayes_capacity_gaussian(2.5, 1.0, 1.0), "dimension must be a whole"),
        (lambda: bounds.bayes_capacity_gaussian(2, 0.0, 1.0), "noise_std must be in"),
        (lambda: bounds.bayes_capacity_gaussian(2, 1.0, -1.0), "radius must be in"),
        (lambda: bounds.bayes_capacity_vmf(1, 1.0), "dimension must be in"),
        (lambda: bounds.bayes_capacity_vmf(3, np.nan), "concentration must be in"),
        (lambda: bounds.bayes_capacity_discrete([0.5, 0.5]), "channel must have shape"),
        (lambda: bounds.bayes_capacity_discrete([[0.5, 0.4]]), "sum of a row of channel"),
        (lambda: bounds.bayes_capacity_discrete([[1.5, -0.5]]), "channel must be in"),
    ],
)
def test_refuses(call, message):
    with pytest.raises(ValueError, match=message):
        call()

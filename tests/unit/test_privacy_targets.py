"""Epsilon, delta and calibrated noise, against closed forms and other accountants."""

from __future__ import annotations

import math

import mpmath as mp
import pytest

from reconrisk import DPSGD, bounds, privacy, risk
from reconrisk.privacy._profile import delta_enclosure, epsilon_enclosure
from reconrisk.privacy._refine import _invert
from reconrisk.privacy._saddle import Mechanism


def exact_delta(sigma: float, steps: int, epsilon: float) -> mp.mpf:
    with mp.workdps(40):
        mu, e = mp.sqrt(steps) / mp.mpf(sigma), mp.mpf(epsilon)
        return mp.ncdf(mu / 2 - e / mu) - mp.exp(e) * mp.ncdf(-mu / 2 - e / mu)


@pytest.mark.parametrize("sigma", [0.3, 1.0, 40.0])
@pytest.mark.parametrize("steps", [1, 100])
@pytest.mark.parametrize("epsilon", [0.0, 0.01, 1.0, 20.0])
def test_full_batch_delta(sigma, steps, epsilon):
    with mp.workdps(40):
        exact = exact_delta(sigma, steps, epsilon)
        log_exact = float(mp.log(exact))
    found = privacy.log_delta_gaussian(sigma, epsilon, steps)
    assert found == pytest.approx(log_exact, abs=1e-11, rel=1e-14)
    if log_exact > -600:
        closed = privacy.delta(DPSGD(sigma, 1.0, steps), epsilon)
        assert closed.lower <= float(exact) <= closed.upper
    if log_exact > -200:
        lower, upper = delta_enclosure(Mechanism(1 / sigma, 1.0, steps), epsilon, 1e-3)
        assert lower <= float(exact) <= upper <= lower * 1.0011


@pytest.mark.parametrize(("sigma", "steps", "delta"), [(1.0, 1, 1e-5), (5.0, 100, 1e-9)])
def test_full_batch_epsilon(sigma, steps, delta):
    run = DPSGD(sigma, 1.0, steps)
    closed = privacy.epsilon(run, delta)
    assert closed.width < 1e-9
    assert float(exact_delta(sigma, steps, closed.lower)) >= delta * (1 - 1e-9)
    assert float(exact_delta(sigma, steps, closed.upper)) <= delta * (1 + 1e-9)
    lower, upper = epsilon_enclosure(Mechanism(1 / sigma, 1.0, steps), delta, 1e-4)
    assert lower <= closed.upper and closed.lower <= upper <= lower * (1 + 1e-4)
    assert privacy.epsilon(DPSGD(1e6), 1e-5).upper == 0.0
    assert privacy.epsilon(DPSGD(1e4, 0.1, 3), 1e-3).upper == 0.0


@pytest.mark.parametrize(("sigma", "q"), [(1.0, 0.1), (0.5, 0.01), (3.0, 0.7)])
@pytest.mark.parametrize("epsilon", [0.05, 0.5])
def test_one_step_in_both_directions(sigma, q, epsilon):
    a = 1 / sigma

    def output(loss: float) -> float:
        return (math.log((math.exp(loss) - 1 + q) / q) + a * a / 2) / a

    x = output(epsilon)
    removed = (1 - q) * mp.ncdf(-x) + q * mp.ncdf(a - x) - math.exp(epsilon) * mp.ncdf(-x)
    added = mp.mpf(0)
    if math.exp(-epsilon) > 1 - q:
        y = output(-epsilon)
        added = mp.ncdf(y) - math.exp(epsilon) * ((1 - q) * mp.ncdf(y) + q * mp.ncdf(y - a))
    exact = float(max(removed, added))
    found = privacy.delta(DPSGD(sigma, q, 1), epsilon)
    assert found.lower <= exact <= found.upper <= found.lower * 1.0002


@pytest.mark.parametrize(
    ("sigma", "q", "steps", "delta"),
    [(1.0, 0.02, 1000, 1e-5), (0.6, 0.01, 100, 1e-5), (5.0, 0.3, 200, 1e-6)],
)
def test_against_other_accountants(sigma, q, steps, delta):
    found = privacy.epsilon(DPSGD(sigma, q, steps), delta)
    assert found.width <= 1e-4 * found.upper
    pld = pytest.importorskip("dp_accounting.pld.privacy_loss_distribution")
    for pessimistic in (True, False):
        law = pld.from_gaussian_mechanism(
            sigma,
            sampling_prob=q,
            value_discretization_interval=1e-3,
            pessimistic_estimate=pessimistic,
            use_connect_dots=pessimistic,
        ).self_compose(steps)
        value = law.get_epsilon_for_delta(delta)
        # its optimistic estimate is loose, and its pessimistic one good to a few 1e-5
        assert value >= found.lower if pessimistic else value <= found.upper
        if pessimistic:
            assert value == pytest.approx(found.upper, rel=2e-4)
    accountants = pytest.importorskip("opacus.accountants")
    rdp = accountants.RDPAccountant()
    rdp.history = [(sigma, q, steps)]
    assert found.upper < rdp.get_epsilon(delta) < 1.6 * found.upper + 0.3


def test_known_noise():
    """Calibrations that two other accountants agree on."""
    assert privacy.noise_for_epsilon(4, 1e-5, steps=100) == pytest.approx(10.8116184952, rel=1e-9)
    for epsilon, q, sigma in ((4, 0.01, 0.5905018), (4, 0.99, 10.705414)):
        noise = privacy.noise_for_epsilon(epsilon, 1e-5, sampling_rate=q, steps=100)
        assert noise == pytest.approx(sigma, rel=1e-4)
        assert privacy.epsilon(DPSGD(noise, q, 100), 1e-5).upper <= epsilon
    noise = privacy.noise_for_epsilon(1, 1e-5, sampling_rate=0.02, steps=1000)
    assert noise == pytest.approx(2.511988, rel=1e-4)


@pytest.mark.parametrize(
    ("success", "kappa", "q", "steps"),
    [(0.2, 0.1, 0.01, 100), (0.3, 0.1, 0.002, 10_000), (0.5, 1e-3, 0.02, 1000), (0.2, 0.1, 1, 50)],
)
def test_noise_for_success(success, kappa, q, steps):
    noise = privacy.noise_for_success(success, kappa, sampling_rate=q, steps=steps)
    assert bounds.rero(DPSGD(noise, q, steps), kappa).upper <= success
    assert bounds.rero(DPSGD(noise * 0.999, q, steps), kappa).upper > success


def test_noise_for_success_needs_no_noise_if_the_record_rarely_takes_part():
    assert privacy.noise_for_success(0.5, 0.1, sampling_rate=1e-3, steps=10) <= 1e-3


def test_refuses():
    with pytest.raises(ValueError, match="success must exceed prior_success"):
        privacy.noise_for_success(0.1, 0.1)
    with pytest.raises(ValueError, match="success must exceed prior_success"):
        privacy.noise_for_success(0.05, 0.1, sampling_rate=0.1, steps=10)
    with pytest.raises(ValueError, match="delta must be in"):
        privacy.noise_for_epsilon(1.0, 0.0)
    with pytest.raises(ValueError, match="epsilon must be in"):
        privacy.noise_for_epsilon(0.0, 1e-5)
    with pytest.raises(ValueError, match="sampling_rate must be in"):
        privacy.noise_for_epsilon(1.0, 1e-5, sampling_rate=0.0)
    with pytest.raises(ValueError, match="steps"):
        privacy.noise_for_epsilon(1.0, 1e-5, steps=1.5)
    with pytest.raises(TypeError, match="DPSGD"):
        privacy.epsilon(1.0, 1e-5)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="delta must be in"):
        privacy.epsilon(DPSGD(1.0), 1.5)
    with pytest.raises(ValueError, match="epsilon must be in"):
        privacy.delta(DPSGD(1.0), -1.0)


@pytest.mark.parametrize("plan", [(1e-3, 0.001, 100), (1e-6, 0.5, 10**5), (0.02, 1e-4, 44)])
def test_hardly_any_noise_is_answered_between_one_step_and_the_full_batch(plan):
    sigma, q, steps = plan
    found = privacy.epsilon(DPSGD(sigma, q, steps), 1e-5)
    assert 0 <= found.lower <= found.upper <= privacy.epsilon(DPSGD(sigma, 1.0, steps), 1e-5).upper
    assert found.lower >= privacy.epsilon(DPSGD(sigma, q, 1), 1e-5).lower * (1 - 1e-9)
    at = privacy.delta(DPSGD(sigma, q, steps), 10.0)
    assert 0 < at.lower <= at.upper <= 1


@pytest.mark.parametrize("q", [0.02, 0.5])
def test_one_step_and_full_batch_enclose_the_rest(q):
    one, many, full = (
        privacy.epsilon(DPSGD(0.8, rate, steps), 1e-5)
        for rate, steps in ((q, 1), (q, 50), (1.0, 50))
    )
    # amplification is exact for one step
    whole = privacy.epsilon(DPSGD(0.8), 1e-5 / q)
    assert one.lower <= math.log1p(q * math.expm1(whole.upper)) <= one.upper * (1 + 1e-4)
    assert one.upper < many.lower < many.upper < full.lower


# --- small sampling rates: rare large losses -----------------------------------------------------


def one_step_delta(sigma: float, q: float, epsilon: float) -> mp.mpf:
    """Delta of one sub-sampled step, for removing a record."""
    with mp.workdps(40):
        a, q, e = 1 / mp.mpf(sigma), mp.mpf(q), mp.mpf(epsilon)
        least = (mp.log((mp.exp(e) - 1 + q) / q) + a * a / 2) / a
        mixed = (1 - q) * mp.ncdf(-least) + q * mp.ncdf(a - least)
        return mixed - mp.exp(e) * mp.ncdf(-least)


@pytest.mark.parametrize(
    ("sigma", "q", "epsilon"),
    [(0.5, 1e-7, 0.1), (0.7, 1e-5, 0.01), (0.3, 1e-4, 2.0), (2.0, 1e-3, 1e-3)],
)
def test_one_step_at_small_rates(sigma, q, epsilon):
    """Two routes: the closed form, and the lattice with one large loss."""
    exact = one_step_delta(sigma, q, epsilon)
    lower, upper = delta_enclosure(Mechanism(1 / sigma, q, 1), epsilon, 1e-4)
    assert lower <= exact <= upper
    assert upper == pytest.approx(float(exact), rel=2e-3)
    low, high = epsilon_enclosure(Mechanism(1 / sigma, q, 1), float(exact), 1e-4)
    assert low <= epsilon <= high <= 1.01 * epsilon


@pytest.mark.parametrize("q", [1e-20, 1e-9, 1e-3, 0.5])
@pytest.mark.parametrize("epsilon", [0.0, 3e-10, 0.5])
def test_delta_of_one_step_has_a_closed_form(q, epsilon):
    exact = float(one_step_delta(1.0, q, epsilon))
    found = privacy.delta(DPSGD(1.0, q, 1), epsilon)
    assert found.lower * (1 - 1e-14) <= exact <= found.upper * (1 + 1e-14)
    assert found.width <= 1e-8 * found.upper + 1e-300


def test_zero_of_the_spectrum_in_one_step():
    """The sum of no small losses has the spectrum one where that of one of them is zero, too."""
    exact = one_step_delta(5.0, 0.05, 0.5)
    lower, upper = delta_enclosure(Mechanism(0.2, 0.05, 1), 0.5, 1e-4)
    assert lower <= exact <= upper <= 1e-30


@pytest.mark.parametrize(
    ("sigma", "q", "steps", "delta"),
    [
        (0.7, 1e-4, 10_000, 1e-6),
        (0.6, 1e-4, 30_000, 1e-6),
        (0.53, 2.9e-5, 87_000, 1e-6),
        (0.497, 1.64e-5, 60_873, 1.2e-7),
        (0.845, 1.99e-4, 54, 1.3e-9),
    ],
)
def test_epsilon_at_the_rates_of_language_models(sigma, q, steps, delta):
    found = privacy.epsilon(DPSGD(sigma, q, steps), delta)
    assert found.width <= 1e-3 * found.upper
    pld = pytest.importorskip("dp_accounting.pld.privacy_loss_distribution")
    law = pld.from_gaussian_mechanism(sigma, sampling_prob=q, value_discretization_interval=1e-4)
    # connecting the dots is pessimistic: above the truth, nearly that on so fine a lattice
    pessimistic = law.self_compose(steps).get_epsilon_for_delta(delta)
    assert found.lower <= pessimistic == pytest.approx(found.upper, rel=5e-3)


def test_delta_of_millions_of_steps_at_a_large_epsilon():
    found = privacy.delta(DPSGD(0.516, 6.7e-4, 2_818_333), 57.1)
    assert found.width <= 5e-3 * found.upper
    pld = pytest.importorskip("dp_accounting.pld.privacy_loss_distribution")
    law = pld.from_gaussian_mechanism(
        0.516, sampling_prob=6.7e-4, value_discretization_interval=2e-4
    )
    pessimistic = law.self_compose(2_818_333).get_delta_for_epsilon(57.1)
    assert found.lower <= pessimistic == pytest.approx(found.upper, rel=1e-2)


@pytest.mark.parametrize(
    ("sigma", "q", "steps", "delta"),
    [
        (1.0, 1e-5, 10_000, 1e-12),
        (0.5, 1e-7, 100, 1e-12),
        (0.5, 1e-6, 1_000_000, 1e-5),
        (100.0, 1e-3, 10_000_000, 1e-5),
        (1.0, 0.5, 10_000_000, 1e-5),
    ],
)
def test_epsilon_far_from_common_settings(sigma, q, steps, delta):
    """Nothing else answers these: delta at both ends of the enclosure is on either side."""
    found = privacy.epsilon(DPSGD(sigma, q, steps), delta)
    assert found.width <= max(0.01 * found.upper, 2e-3)
    if found.upper <= 500:
        run = DPSGD(sigma, q, steps)
        assert privacy.delta(run, found.lower, tolerance=1e-2).upper >= delta
        assert privacy.delta(run, found.upper, tolerance=1e-2).lower <= delta


@pytest.mark.parametrize(
    ("epsilon", "delta", "q", "steps"),
    [
        (1000.0, 1e-5, 1e-2, 1000),
        (1.0, 1e-6, 1e-4, 10_000),
        (0.05, 1e-6, 1e-4, 1000),
        (0.00778, 1e-6, 1.3e-5, 39_188),
    ],
)
def test_noise_at_small_rates(epsilon, delta, q, steps):
    sigma = privacy.noise_for_epsilon(epsilon, delta, sampling_rate=q, steps=steps)
    assert privacy.epsilon(DPSGD(sigma, q, steps), delta).upper <= epsilon * (1 + 1e-12)
    assert privacy.epsilon(DPSGD(0.999 * sigma, q, steps), delta).lower > epsilon * (1 - 1e-3)


def test_one_delta_and_one_epsilon_are_asked_at_a_time():
    run = DPSGD(1.1, 0.01, 1000)
    for bad in ([1e-5, 1e-6], "1e-5", True):
        with pytest.raises(TypeError, match="delta must be a single number; got"):
            privacy.epsilon(run, bad)
        with pytest.raises(TypeError, match="epsilon must be a single number; got"):
            privacy.delta(run, bad)


def test_what_a_description_releases_is_named():
    described = risk.training_run(noise_multiplier=1.1, sampling_rate=0.01, steps=1000)
    for ask in (lambda run: privacy.epsilon(run, 1e-5), lambda run: privacy.delta(run, 1.0)):
        with pytest.raises(TypeError, match=r"such as run\.releases; got a TrainingRun$"):
            ask(described)
        assert ask(described.releases) == ask(DPSGD(1.1, 0.01, 1000))


@pytest.mark.parametrize("end", [0.0, 1e-25, 1e-9, 0.3, 20.0, 5e8])
@pytest.mark.parametrize("jumps", [False, True])
def test_where_excess_ends_is_found_from_above(end, jumps):
    def excess(epsilon):
        return (1.0 if epsilon < end else -1.0) if jumps else end - epsilon

    found = _invert(excess)
    assert excess(found) <= 0.0
    assert found == pytest.approx(end, rel=1e-12, abs=1e-19)


def test_what_is_undefined_counts_as_excess():
    assert _invert(lambda epsilon: math.nan if epsilon < 0.2 else 0.3 - epsilon) >= 0.3
    assert _invert(lambda epsilon: math.nan) == _invert(lambda epsilon: 1e10 - epsilon) == math.inf

"""Every scale at which models are trained: narrow enclosures that no other accountant contradicts.

sigma from 0.3 to 100, q from 1e-7 to 1, T to 1e7, delta and kappa from 1e-12, drawn uniformly in
logarithms.
"""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reconrisk import DPSGD, Enclosure, bounds, privacy
from reconrisk.privacy import _profile, _total_variation
from reconrisk.privacy._saddle import Mechanism


def logarithmic(low, high):
    return st.floats(math.log(low), math.log(high)).map(math.exp)


runs = st.builds(
    DPSGD,
    logarithmic(0.3, 100.0),
    logarithmic(1e-7, 1.0).map(lambda q: min(q, 1.0)),
    logarithmic(1.0, 1e7).map(round),
)
in_box = settings(max_examples=16, deadline=None, derandomize=True)


@in_box
@given(runs, logarithmic(1e-12, 0.1))
def test_epsilon_is_narrow_and_between_the_simple_bounds(run, delta):
    found = privacy.epsilon(run, delta)
    assert found.width <= max(0.01 * found.upper, 2e-3)
    # more steps and less noise reveal more
    assert found.lower <= privacy.epsilon(DPSGD(run.noise_multiplier, 1.0, run.steps), delta).upper


@in_box
@given(runs, logarithmic(1e-12, 0.1))
def test_delta_inverts_epsilon(run, delta):
    found = privacy.epsilon(run, delta)
    if not 1e-6 < found.upper < 500.0:
        return
    at = privacy.delta(run, found.upper)
    assert at.width <= 0.01 * at.upper or at.upper < 1e-12
    assert at.lower <= delta
    assert privacy.delta(run, found.lower).upper >= delta * (1.0 - 1e-9)


@in_box
@given(runs, logarithmic(1e-12, 0.9))
def test_success_is_narrow_and_more_than_a_guess(run, kappa):
    found = bounds.rero(run, kappa)
    assert found.width <= 0.01 * found.upper
    assert kappa * (1.0 - 1e-9) <= found.upper


@settings(max_examples=5, deadline=None, derandomize=True)
@given(
    st.lists(
        st.builds(
            DPSGD,
            logarithmic(0.45, 5.0),
            logarithmic(1e-6, 1e-2),
            logarithmic(100.0, 3e5).map(round),
        ),
        min_size=2,
        max_size=3,
        unique=True,
    ),
    logarithmic(1e-9, 1e-4),
)
def test_phases_are_narrow_and_reveal_more_than_each(phases, delta):
    found, success = privacy.epsilon(phases, delta), bounds.rero(phases, 1e-3)
    assert found.width <= max(0.01 * found.upper, 2e-3)
    assert success.width <= 0.01 * success.upper
    for run in phases:
        assert privacy.epsilon(run, delta).lower <= found.upper
        assert bounds.rero(run, 1e-3).lower <= success.upper


@in_box
@given(
    st.builds(
        DPSGD,
        logarithmic(0.5, 20.0),
        logarithmic(1e-4, 0.3),
        logarithmic(10.0, 3000.0).map(round),
    ),
    logarithmic(1e-8, 1e-3),
)
def test_another_accountant_agrees(run, delta):
    """dp-accounting rounds the losses up for its pessimistic estimate, down for the optimistic."""
    pld = pytest.importorskip("dp_accounting.pld.privacy_loss_distribution")
    found = privacy.epsilon(run, delta)
    other = {
        pessimistic: pld.from_gaussian_mechanism(
            run.noise_multiplier,
            sampling_prob=run.sampling_rate,
            value_discretization_interval=1e-3,
            pessimistic_estimate=pessimistic,
            use_connect_dots=pessimistic,
        )
        .self_compose(run.steps)
        .get_epsilon_for_delta(delta)
        for pessimistic in (True, False)
    }
    assert found.lower <= other[True] * (1.0 + 1e-9) + 1e-9
    assert other[False] <= found.upper * (1.0 + 1e-9) + 1e-9


@pytest.mark.parametrize(
    ("run", "epsilon"),
    [
        (DPSGD(0.5, 1e-7, 10_000_000), 0.0),
        (DPSGD(0.78, 1.5e-7, 3), 0.0),
        (DPSGD(0.43, 4.5e-7, 5_500_000), 0.0),
        (DPSGD(0.43, 4.5e-7, 5_500_000), 0.028),
    ],
)
def test_losses_on_two_scales_are_resolved(run, epsilon):
    """The small losses are far below the range of the large ones over any number of cells."""
    found = privacy.delta(run, epsilon)
    assert found.width <= 0.01 * found.upper
    if epsilon == 0.0:  # the total variation is at most that of all steps together
        one = privacy.delta(DPSGD(run.noise_multiplier), 0.0).upper
        assert found.lower <= run.steps * run.sampling_rate * one


def test_two_steps_at_a_tiny_rate_by_quadrature():
    """With likelihood ratios 1 + q w, the total variation is q E|w + w'|/2 but for squares of q."""
    q, a = 1.5e-7, 1.0 / 0.78
    x, step = np.linspace(-9.0, 10.0, 3001, retstep=True)
    density = np.exp(-0.5 * x * x) / math.sqrt(2.0 * math.pi) * step
    w = np.expm1(a * x - 0.5 * a * a)
    mean = sum(p * float(density @ np.abs(w + v)) for p, v in zip(density, w, strict=True))
    found = privacy.delta(DPSGD(0.78, q, 2), 0.0)
    assert found.lower * (1.0 - 1e-4) <= 0.5 * q * mean <= found.upper * (1.0 + 1e-4)
    assert found.width <= 1e-3 * found.upper


#: sigma, q, T, delta, then prv_accountant's lower and upper epsilon
OF_ANOTHER_ACCOUNTANT = (
    (1.1, 0.004, 14_000, 1e-5, 2.2002200164166195, 2.2204903680823556),
    (1.0, 0.02, 1000, 1e-5, 3.888843759706116, 3.9093355978818836),
    (0.8, 0.05, 100, 1e-6, 6.720207639806498, 6.7410519439311525),
    (2.0, 0.2, 500, 1e-5, 12.610632357492563, 12.631798013677694),
    (0.7, 1e-3, 5000, 1e-6, 1.3703534081764417, 1.3907378827286703),
    (0.7, 1e-4, 10_000, 1e-6, 0.14954006664451436, 0.16961484962178577),
    (0.6, 1e-4, 30_000, 1e-6, 0.7028890401400937, 0.7232147596442285),
    (5.0, 0.1, 3000, 1e-8, 6.506823283875588, 6.52722472935183),
)


@pytest.mark.parametrize("setting", OF_ANOTHER_ACCOUNTANT)
def test_bounds_of_prv_accountant_enclose_ours(setting):
    """prv_accountant 0.2.0 (Gopi et al. 2021): eps_error 0.01, delta_error delta / 1000."""
    *run, delta, low, high = setting
    found = privacy.epsilon(DPSGD(*run), delta)
    assert low <= found.lower <= found.upper <= high


@pytest.mark.parametrize(
    ("run", "other"),
    [
        (DPSGD(1.1, 0.004, 14_000), 2.2103562608974214),
        (DPSGD(1.0, 0.02, 1000), 3.8990883964628233),
    ],
)
def test_an_upper_bound_by_dual_subsampling_is_not_below_ours(run, other):
    """PLD_accounting 2.0 (Feldman and Shenfeld 2026) on dp-accounting's Gaussian, grid 1e-4."""
    assert privacy.epsilon(run, 1e-5).lower <= other <= privacy.epsilon(run, 1e-5).upper * 1.001


@pytest.mark.parametrize(
    "run",
    [
        DPSGD(40.192664408099006, 2.079807967094903e-07, 1_657_267),
        DPSGD(48.86847930609203, 3.387758149466452e-06, 4_205_330),
        DPSGD(19.762742311966047, 4.2005948396808803e-07, 242_756),
        DPSGD(62.0, 2e-7, 5000),
    ],
)
def test_hardly_any_loss_has_a_normal_total_variation(run):
    """So many tiny losses: half of E|S|, normal, but for Berry and Esseen's and q's own size."""
    found = privacy.delta(run, 0.0)
    deviation = run.sampling_rate * math.sqrt(run.steps * math.expm1(run.noise_multiplier**-2))
    normal = deviation / math.sqrt(2.0 * math.pi)
    assert found.width <= 0.01 * found.upper
    assert found.lower * (1.0 - 2e-3) <= normal <= found.upper * (1.0 + 2e-3)


@pytest.mark.parametrize(
    ("run", "deviations"),
    [
        (DPSGD(7.539, 1.14e-7, 1_032_886), 3.69),
        (DPSGD(27.59, 1.33e-7, 2_004_247), 1.82),
        (DPSGD(6.752, 1.99e-7, 7_242_207), 3.01),
        (DPSGD(15.21, 8.18e-7, 8_841_528), 4.18),
    ],
)
def test_deltas_of_hardly_any_loss_are_narrow(run, deviations):
    """Far above the rounding errors of millions of steps; normal but for the losses' skewness."""
    x, c = (
        run.sampling_rate * math.sqrt(run.steps * math.expm1(run.noise_multiplier**-2)),
        deviations,
    )
    found = privacy.delta(run, c * x)
    normal = math.exp(-0.5 * c * c) / math.sqrt(2.0 * math.pi) - c * 0.5 * math.erfc(c / 2**0.5)
    assert found.width <= 0.006 * found.upper
    assert found.lower * (1.0 - 0.01) <= x * normal <= found.upper * (1.0 + 0.01)


@pytest.mark.parametrize("deviations", [0.0, 1.0, 4.5])
def test_sums_of_positive_terms_agree_with_differences_of_tails(monkeypatch, deviations):
    monkeypatch.setattr(_total_variation, "_ROUNDED", 0.0)
    for sigma, q, steps in [(2.0, 1e-3, 500), (10.0, 1e-4, 20_000), (1.2, 3e-5, 4), (5.0, 0.1, 3)]:
        spread = q * math.sqrt(steps * math.expm1(sigma**-2))
        mechanism, epsilon = Mechanism(1.0 / sigma, q, steps), deviations * spread
        low, high = _total_variation.small_losses_delta(mechanism, epsilon)
        low_end, high_end = refined_delta(mechanism, epsilon)
        assert low <= high_end and low_end <= high
        assert high - low <= (0.01 if deviations else 3e-3) * high


def refined_delta(mechanism, epsilon):
    """Delta by threshold tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_profile, "small_losses_delta", lambda *_: None)
        return _profile.delta_enclosure(mechanism, epsilon, 1e-4)


def test_an_epsilon_that_one_large_loss_makes_is_narrow():
    """Steps with large losses are so rare that the sum of all would need four million cells."""
    run = DPSGD(0.3, 3.9e-7, 23)
    found = privacy.epsilon(run, 2e-10)
    assert found.width <= 1e-4 * found.upper
    assert privacy.delta(run, found.upper).lower <= 2e-10 <= privacy.delta(run, found.lower).upper


def test_an_epsilon_whose_exponential_overflows_is_enclosed():
    run = DPSGD(1.343938276386692, 0.7048682702862267, 3_864_043)
    found = privacy.epsilon(run, 5.591752420609961e-09)
    assert found.width <= 1e-3 * found.upper
    # the mean loss is that of a step times their number, and deviations are far smaller
    x = np.linspace(-12.0, 12.0 + 1.0 / run.noise_multiplier, 20_001)
    a, q = 1.0 / run.noise_multiplier, run.sampling_rate
    loss = np.log1p(q * np.expm1(a * x - 0.5 * a * a))
    law = ((1.0 - q) * np.exp(-0.5 * x * x) + q * np.exp(-0.5 * (x - a) ** 2)) * (x[1] - x[0])
    law /= math.sqrt(2.0 * math.pi)
    mean = float(law @ loss)
    deviation = math.sqrt(float(law @ (loss - mean) ** 2) * run.steps)
    assert found.upper == pytest.approx(run.steps * mean + 5.71 * deviation, rel=2e-4)


def test_fewer_steps_than_could_tell_have_no_epsilon():
    assert privacy.epsilon(DPSGD(0.32, 3e-7, 1654), 0.05) == Enclosure(0.0, 0.0)


@pytest.mark.parametrize(
    ("run", "epsilon"),
    [
        (DPSGD(0.6683667325448002, 5.4041853431235315e-05, 3054), 0.40317207454149706),
        (DPSGD(0.7587159955278517, 3.10263476025128e-05, 3_859_572), 0.8305522215876766),
    ],
)
def test_a_delta_that_one_large_loss_makes_is_narrow(run, epsilon):
    found = privacy.delta(run, epsilon)
    assert found.width <= 0.01 * found.upper


def test_the_other_direction_does_not_hide_a_tiny_delta():
    """Cells wide enough for the likely losses are too wide for those of adding a record."""
    assert privacy.delta(DPSGD(2.163255534067954, 0.017738260578101198, 494), 5.88).upper < 1e-12
    assert privacy.delta(DPSGD(1.18, 1.7e-7, 25_517), 1.01e-3).upper < 1e-12


@pytest.mark.parametrize("kappa", [1e-40, 1e-27, 1e-20])
def test_success_at_remote_priors_is_narrow(kappa):
    found = bounds.rero(DPSGD(1.48218, 0.00180869, 199), kappa)
    assert found.width <= 0.01 * found.upper

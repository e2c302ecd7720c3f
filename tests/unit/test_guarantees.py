"""What guarantees alone say: closed forms, sharpness, other libraries, and the report."""

import doctest
import json
import math
import pickle
from dataclasses import replace

import numpy as np
import pytest
from dp_accounting import dp_event as events
from dp_accounting.pld import PLDAccountant
from dp_accounting.pld import privacy_loss_distribution as pld
from scipy import stats

from companion.study import registry
from reconrisk import DPSGD, bounds, privacy, risk
from reconrisk.risk import _dp_events

KAPPA = np.array([1e-300, 1e-6, 0.01, 0.1, 0.5, 0.9, 0.999])


def success(guarantee, kappa) -> float:
    found = guarantee.success(math.log(kappa))
    assert found.lower <= found.upper <= 0.0
    return math.exp(found.upper)


GUARANTEES = [
    bounds.ApproximateDP(1.0, 1e-5),
    bounds.ApproximateDP(0.7, adjacency="replace"),
    bounds.gaussian_dp(1.0),
    bounds.ZeroConcentratedDP(0.5),
    bounds.RenyiDP([2.0, 8.0, 32.0], [0.1, 0.4, 1.6]),
    bounds.TradeOff([0.0, 0.25, 1.0], [0.75, 0.25, 0.0]),
    bounds.LossDistribution(pld.from_laplace_mechanism(1.0, value_discretization_interval=1e-2)),
    bounds.Releases([privacy.Laplace(1.0)]),
    bounds.Releases([privacy.Atoms.randomised_response(0.5, 4, 3)]),
]


@pytest.mark.parametrize("guarantee", GUARANTEES, ids=lambda g: g.description)
def test_success_lies_between_the_guess_and_one_and_is_concave(guarantee):
    gamma = np.array([success(guarantee, k) for k in KAPPA])
    assert np.all(gamma >= KAPPA * (1.0 - 1e-9)) and np.all(gamma <= 1.0)
    slopes = np.diff(gamma) / np.diff(KAPPA)
    assert np.all(slopes >= -1e-9) and np.all(np.diff(slopes) <= 1e-6 * slopes[:-1])
    # a test of level kappa and power gamma is one against epsilon and delta
    delta = guarantee.delta(0.4)
    assert delta.upper >= np.max(gamma - math.exp(0.4) * KAPPA) - 1e-9
    assert 0.0 <= delta.lower <= delta.upper <= 1.0


def test_pure_and_approximate_privacy_in_closed_form():
    for epsilon, delta in ((0.0, 0.0), (1.0, 0.0), (1.0, 0.01), (5.0, 1e-6)):
        guarantee = bounds.ApproximateDP(epsilon, delta)
        e = math.exp(epsilon)
        for k in KAPPA:
            expected = min(1.0, delta + e * k, 1.0 - (1.0 - delta - k) / e)
            assert success(guarantee, k) == pytest.approx(expected, rel=1e-9)
        assert guarantee.epsilon(max(delta, 1e-12)).upper == pytest.approx(epsilon, abs=1e-6)
        assert guarantee.delta(epsilon).upper == pytest.approx(delta, abs=1e-12)
    # far below the range of floats
    assert bounds.ApproximateDP(1.0).success(-4260.0).upper == pytest.approx(-4259.0)


def test_randomised_response_attains_the_local_bound():
    share, k = 0.4, 10
    truth = 1.0 - share + share / k
    run = risk.from_guarantee({"random_answers": share, "categories": k})
    assert risk.assess(run)[f"rero[prior_size={k}]"].value == pytest.approx(truth, rel=1e-9)
    epsilon = math.log(truth * k / share)
    local = bounds.ApproximateDP(epsilon, adjacency="replace")
    assert success(local, 1.0 / k) == pytest.approx(truth, rel=1e-9)
    for kappa in KAPPA:
        assert success(local, kappa) <= success(bounds.ApproximateDP(epsilon), kappa) * (1 + 1e-9)
    answers = bounds.Releases([privacy.Atoms.randomised_response(share, k)])
    assert answers.epsilon(1e-12).upper == pytest.approx(epsilon, rel=1e-6)


def test_laplace_noise_in_closed_form():
    mu, noisy = 0.8, bounds.Releases([privacy.Laplace(1.25)])

    def exact(kappa):
        if kappa < 0.5 * math.exp(-mu):
            return math.exp(mu) * kappa
        if kappa <= 0.5:
            return 1.0 - math.exp(-mu) / (4.0 * kappa)
        return 1.0 - math.exp(-mu) * (1.0 - kappa)

    for kappa in KAPPA:
        found = noisy.success(math.log(kappa))
        assert found.lower <= math.log(exact(kappa)) + 1e-14 <= found.upper + 2e-14
    assert noisy.delta(0.3).upper == pytest.approx(1.0 - math.exp((0.3 - mu) / 2.0), rel=1e-4)
    # composed, against its own epsilon
    ten = bounds.Releases([privacy.Laplace(1.25, steps=10)])
    assert ten.success(-4000.0).upper == pytest.approx(-4000.0 + 8.0)


def test_divergences_bound_what_keeps_them_and_no_more():
    # a Gaussian mechanism of mu is mu**2/2-concentrated
    rho, gaussian = bounds.ZeroConcentratedDP(0.5), bounds.gaussian_dp(1.0)
    for kappa in KAPPA:
        assert success(gaussian, kappa) < success(rho, kappa)
    assert gaussian.epsilon(1e-5).upper < rho.epsilon(1e-5).lower
    # Canonne et al. and Bun and Steinke are the looser ends
    assert rho.epsilon(1e-5).upper <= 0.5 + 2.0 * math.sqrt(0.5 * math.log(1e5))
    # one coin keeps the divergence of one order with equality, both ways or one
    curve = bounds.RenyiDP([2.0], [0.1])
    for kappa in (0.01, 0.3, 0.8):
        gamma = success(curve, kappa)
        chi = [
            math.log(p * p / q + (1 - p) ** 2 / (1 - q))
            for p, q in ((gamma, kappa), (kappa, gamma))
        ]
        assert max(chi) == pytest.approx(0.1, rel=1e-8)
    more = bounds.RenyiDP([2.0, 3.0], [0.1, 0.12])
    assert success(more, 0.3) < success(curve, 0.3)
    assert success(curve, 0.1) <= math.exp(
        float(bounds.rero_renyi(2.0, 0.1, log_prior_success=math.log(0.1), log=True))
    )


def coin_excess(gamma, kappa, rho):
    """Largest divergence of two coins over ``rho a``, at dense orders, from logarithms."""
    a = 1.0 + np.geomspace(1e-3, 1e5, 40_001)
    worst = 0.0
    for p, q in ((gamma, kappa), (kappa, gamma)):
        one = a * math.log(p) + (1 - a) * math.log(q)
        other = a * math.log1p(-p) + (1 - a) * math.log1p(-q)
        worst = max(worst, float(np.max(np.logaddexp(one, other) / (a - 1) / (rho * a))))
    return worst


@pytest.mark.parametrize("rho", [1e-4, 0.02, 0.5, 3.0])
@pytest.mark.parametrize("kappa", [1e-6, 1e-3, 0.1, 0.5])
def test_the_lower_end_of_concentrated_privacy_is_a_coin_that_keeps_it(rho, kappa):
    found = bounds.ZeroConcentratedDP(rho).success(math.log(kappa))
    low, high = math.exp(found.lower), math.exp(found.upper)
    assert coin_excess(low, kappa, rho) <= 1.0 + 1e-10
    assert coin_excess(min(high + 1e-4 * (high - kappa), 1 - 1e-12), kappa, rho) > 1.0
    # so does the Gaussian mechanism, which says less than the best coin
    assert bounds.gaussian_dp(math.sqrt(2 * rho)).success(math.log(kappa)).upper <= found.upper


def test_concentrated_privacy_at_a_published_setting():
    """riskcal and a search at dense orders: 1.16341e-4; listed orders alone allow 1.16812e-4."""
    found = bounds.ZeroConcentratedDP(0.5).success(math.log(1e-6))
    assert math.exp(found.lower) == pytest.approx(1.16341e-4, rel=2e-5)
    assert bounds.ZeroConcentratedDP(1e6).success(-5.0).lower == pytest.approx(0.0, abs=1e-12)


def test_loss_distributions_agree_with_the_run_that_they_are_of():
    run = DPSGD(1.0, 0.1, 10)
    cells = {"value_discretization_interval": 1e-3}
    theirs = pld.from_gaussian_mechanism(1.0, sampling_prob=0.1, **cells).self_compose(10)
    found = bounds.LossDistribution(theirs)
    for kappa in (1e-6, 0.1, 0.9):
        assert success(found, kappa) >= bounds.rero(run, kappa).lower
        assert success(found, kappa) == pytest.approx(bounds.rero(run, kappa).upper, rel=1e-3)
    assert found.epsilon(1e-5).upper == pytest.approx(theirs.get_epsilon_for_delta(1e-5), rel=1e-6)
    assert found.delta(1.0).upper == pytest.approx(theirs.get_delta_for_epsilon(1.0), rel=1e-6)
    assert risk.assess(risk.from_guarantee(theirs))["epsilon"].ok


def test_a_trade_off_curve_of_gaussian_noise_is_read_back():
    alpha = np.concatenate([[0.0], np.geomspace(1e-6, 1.0, 400)])
    beta = stats.norm.cdf(stats.norm.ppf(1.0 - alpha) - 1.0)
    found = bounds.TradeOff(alpha, beta)
    assert success(found, 0.1) == pytest.approx(stats.norm.cdf(stats.norm.ppf(0.1) + 1.0), rel=1e-3)
    assert found.delta(1.0).upper == pytest.approx(0.12694, rel=1e-3)


def test_groups():
    values = {}
    for fields in ({"mu": 0.5}, {"epsilon": 0.5}, {"laplace_scale": 2.0}, {"rho": 0.125}):
        one, three = (
            success(risk.from_guarantee(fields, group_size=k).guarantee, 0.1) for k in (1, 3)
        )
        assert one < three
        values.update({next(iter(fields)): three})
    assert values["mu"] == pytest.approx(stats.norm.cdf(stats.norm.ppf(0.1) + 1.5), rel=1e-9)
    assert values["epsilon"] == pytest.approx(0.1 * math.exp(1.5), rel=1e-9)
    assert values["epsilon"] == pytest.approx(values["laplace_scale"], rel=1e-9)
    curve = {"false_positives": [0.0, 0.5, 1.0], "false_negatives": [1.0, 0.25, 0.0]}
    report = risk.assess(risk.from_guarantee(curve, group_size=2))
    assert report["rero[prior_size=10]"].value == pytest.approx(0.225)
    assert report["epsilon"].status == "out of range"
    # groups under Poisson sampling, in the report and from the accountant
    run = risk.training_run(noise_multiplier=1.0, sampling_rate=0.01, steps=100, group_size=3)
    found = privacy.epsilon([privacy.Group(DPSGD(1.0, 0.01, 100), 3)], 1e-5)
    assert risk.assess(run)["epsilon"].value == pytest.approx(found.upper, rel=1e-3)


def test_the_report_says_what_follows_and_what_does_not():
    report = risk.assess(
        risk.from_guarantee({"epsilon": 2.0, "delta": 1e-6}, dataset_size=1000),
        risk.record(dimension=784, data_range=1.0, data_norm=9.0),
    )
    answered = {e.kind for e in report if e.ok}
    assert {"epsilon", "power", "membership_advantage", "rero", "box_success"} <= answered
    assert report["epsilon"].value == pytest.approx(2.0) and report.run.delta == 1e-6
    assert report["epsilon"].direction == "upper bound on leakage"
    assert "needs the noise" in report["mse"].reason
    # what is assumed of the record and of those who guess does not depend on the mechanism
    assumed = {e.kind: " ".join(e.assumptions) for e in report if e.ok}
    assert all("nothing else is known of it" in words for words in assumed.values())
    assert "uniform on the sphere" in assumed["sphere_success"]
    assert "independent and uniform" in assumed["box_success"]
    assert "Candidates are equally likely" in assumed["rero"]
    assert not any("sampling rate" in words for words in assumed.values())
    assert "(2, 1e-06)" in report.run.notes[0]
    plain = json.loads(json.dumps(report.as_dict(), allow_nan=False))
    assert plain["run"]["guarantee"].startswith("(2, 1e-06)")
    with pytest.raises(risk.SettingError, match="a mechanism with noise"):
        risk.least_noise("epsilon", 1.0, report.run)
    # below the guarantee's delta no epsilon is finite
    lower = risk.assess(risk.from_guarantee({"epsilon": 2.0, "delta": 1e-6}, delta=1e-7))
    assert lower["epsilon"].status == "out of range" and "delta" in lower["epsilon"].reason


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"eps": 3}, "fields of one form: epsilon; or rho"),
        ({"epsilon": 3, "rho": 1}, "guarantee rho must be left out"),
        ({"epsilon": -1.0}, "guarantee epsilon must be in [0, 500]"),
        ({"epsilon": "three"}, "guarantee epsilon must be a real number"),
        ({"orders": [2.0]}, "guarantee divergences must be given with orders"),
        ({"orders": [2.0], "divergences": [0.1, 0.2]}, "two lists of one length"),
        ({"false_positives": [0, 1], "false_negatives": [1, 0.5]}, "fall to 0"),
        ({"rho": 0.0}, "guarantee rho must be a number in"),
        ({"random_answers": 0.5}, "guarantee categories must be given"),
        ({"epsilon": 1.0, "adjacency": "some"}, "add-remove"),
        (3, "a mapping of fields"),
    ],
)
def test_bad_guarantees_are_refused_by_field(fields, why):
    with pytest.raises(risk.SettingError) as error:
        risk.from_guarantee(fields)
    assert why in str(error.value)


def test_settings_that_a_guarantee_makes_void_are_refused():
    with pytest.raises(risk.SettingError, match="steps must be left out beside a guarantee"):
        risk.from_guarantee({"rho": 1.0}, steps=3)


# Events ------------------------------------------------------------------------------------------


def test_events_of_other_mechanisms_compose():
    laplace = events.SelfComposedDpEvent(events.LaplaceDpEvent(10.0), 20)
    run = risk.from_dp_event(events.ComposedDpEvent([laplace, events.GaussianDpEvent(5.0)]))
    theirs = pld.from_laplace_mechanism(10.0).self_compose(20)
    theirs = theirs.compose(pld.from_gaussian_mechanism(5.0)).get_epsilon_for_delta(1e-5)
    entry = risk.assess(run)["epsilon"]
    assert entry.lower <= theirs and entry.upper == pytest.approx(theirs, rel=1e-3)
    discrete = risk.from_dp_event(events.DiscreteLaplaceDpEvent(0.5, 2))
    theirs = pld.from_discrete_laplace_mechanism(0.5, 2).get_delta_for_epsilon(0.3)
    assert discrete.guarantee.delta(0.3).upper == pytest.approx(theirs, rel=1e-3)
    sampled = risk.from_dp_event(events.PoissonSampledDpEvent(0.1, events.LaplaceDpEvent(1.0)))
    assert sampled.guarantee.success(0.0).upper == 0.0
    tree = risk.from_dp_event(events.SingleEpochTreeAggregationDpEvent(2.0, 7))
    assert tree.noise_multiplier == pytest.approx(2.0 / math.sqrt(3))
    two = events.ComposedDpEvent([events.ZCDpEvent(0.1), events.GaussianDpEvent(1.0)])
    assert "0.6-zero-concentrated" in risk.from_dp_event(two).guarantee.description
    binomial = stats.binom.pmf(np.arange(4), 3, 0.01)
    mixture = events.MixtureOfGaussiansDpEvent(1.0, [0.0, 1.0, 2.0, 3.0], binomial.tolist())
    group = risk.from_dp_event(events.SelfComposedDpEvent(mixture, 100))
    expected = privacy.epsilon([privacy.Group(DPSGD(1.0, 0.01, 100), 3)], 1e-5)
    assert group.guarantee.epsilon(1e-5).upper == pytest.approx(expected.upper, rel=1e-4)


def test_adaptive_clipping_is_one_release_with_less_noise():
    both = events.ComposedDpEvent([events.GaussianDpEvent(1.1), events.GaussianDpEvent(10.0)])
    step = events.SelfComposedDpEvent(events.PoissonSampledDpEvent(0.01, both), 500)
    run = risk.from_dp_event(step)
    assert run.noise_multiplier == pytest.approx((1.1**-2 + 10.0**-2) ** -0.5) and run.steps == 500


# Settings ----------------------------------------------------------------------------------------


def test_phases_take_what_is_given_for_all():
    run = risk.training_run(
        batch_size=100,
        dataset_size=10_000,
        layers=4,
        phases=[
            {"noise_multiplier": 1.0, "epochs": 2},
            {"noise_multiplier": 2.0, "steps": 30, "batch_size": 200},
            {"noise_multiplier": 2.0, "steps": 30, "sampling_rate": 0.5},
            DPSGD(1.0, 0.01, 5),
        ],
    )
    assert [(p.noise_multiplier, p.sampling_rate, p.steps) for p in run.phases] == [
        (1.0, 0.01, 205), (2.0, 0.02, 30), (2.0, 0.5, 30),
    ]  # fmt: skip
    assert (run.noise_multiplier, run.sampling_rate, run.steps) == (1.0, 0.5, 265)
    halved = [DPSGD(0.5 * p.noise_multiplier, p.sampling_rate, p.steps) for p in run.phases]
    assert privacy.epsilon(run.releases, 1e-5) == privacy.epsilon(halved, 1e-5)
    report = risk.assess(run, risk.record(dimension=10, data_range=1.0, data_norm=1.0))
    assert "each phase by itself" in report["mse"].reason
    # information adds up over the phases
    each = [
        float(bounds.information_capacity(p.noise_multiplier, p.sampling_rate, p.steps))
        for p in halved
    ]
    secret = report["information_secret_steps"].value
    assert secret == pytest.approx(math.fsum(each), rel=1e-9)


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"phases": []}, "a list of phases"),
        ({"phases": {"steps": 3}}, "a list of phases"),
        ({"phases": [3]}, "phases[0] must be a mapping"),
        ({"phases": [{"sigma": 3}]}, "phases[0] sigma must be left out"),
        ({"phases": [{"steps": 3}]}, "phases[0] noise_multiplier must be given"),
        ({"phases": [{"noise_multiplier": -1.0, "steps": 3, "sampling_rate": 1.0}]},
         "phases[0] noise_multiplier must be a number in"),
        ({"phases": [{"steps": 1}], "concentration": 2.0, "parameters": 3},
             "mechanism must be 'gaussian' for several phases"),
    ],
)  # fmt: skip
def test_bad_phases_are_refused_by_number(settings, why):
    with pytest.raises(risk.SettingError) as error:
        risk.training_run(**settings)
    assert why in str(error.value)


def test_thousands_of_entries_make_one_line():
    noises = np.linspace(1.0, 1.05, 3000)
    run = risk.from_opacus([(float(s), 0.01, 1) for s in noises])
    assert len(run.phases) == 3000 and len(run.notes[0]) < 120
    assert "3,000 phases: sigma from 1 to 1.05" in run.notes[0]


def test_least_noise_scales_all_phases():
    run = risk.training_run(
        sampling_rate=0.01,
        phases=[{"noise_multiplier": 1.0, "steps": 100}, {"noise_multiplier": 2.0, "steps": 50}],
    )
    found = risk.least_noise("epsilon", 1.0, run)
    first, second = found.run.phases
    assert second.noise_multiplier == pytest.approx(2.0 * first.noise_multiplier)
    assert found.noise_multiplier == first.noise_multiplier
    assert 0.999 < found.entry.value <= 1.0


def test_the_page_s_examples_run():
    page = registry.project_root() / "book/api/risk.md"
    failed, tried = doctest.testfile(str(page), module_relative=False)
    assert tried >= 10 and not failed


def test_a_report_on_a_guarantee_alone_has_a_short_form():
    report = risk.assess(risk.from_guarantee({"mu": 1.0}))
    assert repr(report).startswith("<Report: guarantee, sampling rate 1, 1 steps")
    with pytest.raises(ValueError, match="notes must be a list of sentences; got 'hello'"):
        risk.from_guarantee({"mu": 1.0}, notes="hello")


def test_noise_whose_losses_overflow_is_assessed():
    run = risk.training_run(noise_multiplier=0.03, sampling_rate=0.01, steps=100)
    assert risk.assess(run)["epsilon"].value > 100


@pytest.mark.parametrize(
    "guarantee",
    [
        bounds.ApproximateDP(1.0, 1e-6),
        bounds.RenyiDP([2.0, 4.0], [1.0, 2.0]),
        bounds.ZeroConcentratedDP(0.5),
        bounds.TradeOff([0.0, 0.25, 1.0], [0.75, 0.25, 0.0]),
        bounds.Releases([privacy.Laplace(1.0)]),
        bounds.gaussian_dp(1.0),
    ],
)
def test_guarantees_are_values(guarantee):
    copy = pickle.loads(pickle.dumps(guarantee))
    assert copy == guarantee
    assert hash(copy) == hash(guarantee)
    assert guarantee != bounds.ApproximateDP(1.0)
    assert " object at " not in repr(guarantee)


def _of_event(event, **settings):
    run = risk.from_dp_event(event, **settings)
    return run.guarantee or bounds.Releases(run.releases)


@pytest.mark.parametrize(("most", "steps"), [(12, 3), (18, 3), (25, 3), (12, 1), (60, 3)])
def test_batches_cut_to_a_size(most, steps):
    """No less than the average over how many batches are cut, which says nothing of the record."""
    n, q, sigma = 200, 0.05, 1.0
    event = events.TruncatedSubsampledGaussianDpEvent(n, q, most, sigma)
    cut_run = _of_event(events.SelfComposedDpEvent(event, steps), delta=1e-3)
    full = stats.binom.sf(most - 1, n - 1, q)
    kinds = DPSGD(sigma, q), DPSGD(0.5 * sigma, q)
    for epsilon in (0.5, 2.0):
        found = cut_run.delta(epsilon)
        average, bounds_of_cut = 0.0, []
        for cut in range(steps + 1):
            counts = steps - cut, cut
            phases = [replace(r, steps=t) for r, t in zip(kinds, counts, strict=True) if t]
            bounds_of_cut.append(privacy.delta(phases, epsilon))
            average += stats.binom.pmf(cut, steps, full) * bounds_of_cut[-1].lower
        assert average <= found.upper * (1 + 1e-9)
        assert found.upper <= bounds_of_cut[-1].upper * (1 + 1e-3) + 1e-6
    if most == 60:
        assert found.upper == pytest.approx(bounds_of_cut[0].upper, rel=1e-3)


def test_where_every_batch_may_be_cut_no_value_is_exact():
    event = events.TruncatedSubsampledGaussianDpEvent(1000, 0.01, 20, 1.1)
    entry = risk.assess(risk.from_dp_event(events.SelfComposedDpEvent(event, 1)))["epsilon"]
    truth = PLDAccountant().compose(event).get_epsilon(1e-5)
    assert entry.direction.startswith("upper bound") and truth <= entry.upper


def test_batches_that_are_rarely_cut_against_dp_accounting():
    event = events.TruncatedSubsampledGaussianDpEvent(10_000, 0.01, 200, 1.0)
    many = events.SelfComposedDpEvent(event, 50)
    ours = _of_event(many).epsilon(1e-5)
    assert ours.upper == pytest.approx(PLDAccountant().compose(many).get_epsilon(1e-5), rel=2e-3)
    other = events.ComposedDpEvent([many, events.GaussianDpEvent(5.0)])
    more = _of_event(other).epsilon(1e-5)
    assert more.lower > ours.upper


def test_tails_of_binomials_beyond_32_bits():
    """Against the normal law with its skewness corrected; a count that another function errs at."""
    for n, q, least in ((2**31 + 1, 1e-6, 2148), (10**10, 1e-6, 10_050), (10**12, 1e-6, 10**6)):
        deviation = math.sqrt(n * q * (1 - q))
        z = (least - 0.5 - n * q) / deviation
        skewed = (1 - 2 * q) / deviation / 6 * (z**2 - 1) * stats.norm.pdf(z)
        found = _dp_events._upper_tail(least, n, q)
        assert found == pytest.approx(stats.norm.sf(z) + skewed, rel=1e-5)
    found = _dp_events._upper_tail(106_403_070, 786_115_345, 0.13535184674964962)
    assert found == pytest.approx(0.462377, abs=1e-6)


@pytest.mark.parametrize(
    "given", [{"epsilon": 1.0, "adjacency": "replace"}, {"random_answers": 0.5, "categories": 2}]
)
def test_tests_of_a_local_guarantee_reach_what_randomised_response_does(given):
    """Naming has a prior and a sharper bound; a test has neither."""
    run = risk.from_guarantee(given)
    epsilon = given.get("epsilon", math.log(3.0))
    report = risk.assess(run)
    for entry in (e for e in report.entries if e.kind == "power"):
        rate = entry.at[0][1]
        assert entry.upper == pytest.approx(min(math.exp(epsilon) * rate, 1.0), rel=1e-6)
    (named,) = (e for e in report.entries if e.kind == "rero" and e.at[0][1] == 10)
    odds = 0.1 * math.exp(epsilon)
    assert named.upper == pytest.approx(odds / (0.9 + odds), rel=1e-6)
    advantage = math.tanh(epsilon / 2)
    assert report["membership_advantage"].upper == pytest.approx(advantage, rel=1e-6)


@pytest.mark.parametrize("given", [{"epsilon": 12}, {"epsilon": 12, "delta": 1e-6}, {"rho": 10}])
def test_what_only_the_worst_mechanism_does_is_not_said_of_the_run(given):
    report = risk.assess(risk.from_guarantee(given))
    (judged,) = (j for j in report.judgements if j.key == "membership")
    assert judged.verdict == "weak protection"

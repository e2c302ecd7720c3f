"""Phases and other releases: limits, order, closed forms, and another accountant."""

import math
import random
import time
import tracemalloc

import numpy as np
import pytest
from dp_accounting.pld import common
from dp_accounting.pld import privacy_loss_distribution as pld
from scipy import stats

from reconrisk import DPSGD, bounds, privacy, risk
from reconrisk.privacy import Atoms, Group, Laplace, _phases

HALVES = [DPSGD(1.1, 0.01, 400), DPSGD(1.1, 0.01, 600)]
WHOLE = DPSGD(1.1, 0.01, 1000)
PHASES = [DPSGD(1.1, 0.01, 300), DPSGD(0.9, 0.02, 50), Laplace(20.0, steps=4)]
KAPPA = np.array([1e-9, 1e-3, 0.1, 0.7])


def overlap(one, other) -> bool:
    return one.lower <= other.upper and other.lower <= one.upper


def epsilon_by_cells(releases, delta=1e-5):
    """Epsilon by the composition even where the releases are one run."""
    return privacy._phases.Enclosure(
        *_phases._epsilon(_phases._Composition.of(releases), delta, 1e-4)
    )


def test_parts_of_a_run_are_the_run():
    assert privacy.epsilon(HALVES, 1e-5) == privacy.epsilon(WHOLE, 1e-5)
    assert bounds.rero(HALVES, 0.1) == bounds.rero(WHOLE, 0.1)
    found = epsilon_by_cells(HALVES)
    assert overlap(found, privacy.epsilon(WHOLE, 1e-5)) and found.width < 2e-4
    composition = _phases._Composition.of(HALVES)
    low, high = _phases._success(composition, KAPPA, 1e-4)
    lower, upper = bounds.rero_curve(WHOLE, KAPPA)
    assert np.all(low <= upper) and np.all(lower <= high) and np.all(high - low <= 1e-4 * high)
    found = _phases._delta(composition, 1.0, 1e-4)
    assert found[0] <= privacy.delta(WHOLE, 1.0).upper
    assert privacy.delta(WHOLE, 1.0).lower <= found[1] <= found[0] * (1.0 + 1.1e-4)


def test_full_batches_are_one_release_in_closed_form():
    runs = [DPSGD(3.0, steps=2), DPSGD(4.0, steps=5), DPSGD(1.7)]
    mu = math.sqrt(2 / 9 + 5 / 16 + 1 / 1.7**2)
    found = bounds.rero(runs, 0.01)
    exact = stats.norm.cdf(stats.norm.ppf(0.01) + mu)
    assert found.lower == pytest.approx(exact, rel=1e-12) == found.upper
    assert overlap(epsilon_by_cells(runs), privacy.epsilon(DPSGD(1.0 / mu), 1e-5))
    # infinite noise says nothing, at whatever rates
    silent = [DPSGD(math.inf, 0.5, 3), DPSGD(math.inf, 0.2, 2)]
    assert bounds.rero(silent, 0.1).upper == pytest.approx(0.1)
    assert privacy.epsilon(silent, 1e-5).upper < 1e-14


def test_the_order_of_phases_does_not_matter():
    mixed = random.Random(0).sample(PHASES, len(PHASES))
    one, other = (privacy.epsilon(p, 1e-6) for p in (PHASES, mixed))
    assert one.upper == pytest.approx(other.upper, rel=1e-9)
    assert bounds.rero(PHASES, 1e-3).upper == pytest.approx(bounds.rero(mixed, 1e-3).upper)


def test_more_phases_say_more():
    fewer, more = privacy.epsilon(PHASES[:2], 1e-5), privacy.epsilon(PHASES, 1e-5)
    assert fewer.upper < more.lower
    low, high = bounds.rero_curve(PHASES, KAPPA)
    below, above = bounds.rero_curve(PHASES[:2], KAPPA)
    assert np.all(KAPPA < below) and np.all(above < low) and np.all(low <= high)


def of_another(release) -> pld.PrivacyLossDistribution:
    """A pessimistic loss distribution of a release, by dp-accounting."""
    sampled = {"sampling_prob": release.sampling_rate, "value_discretization_interval": 1e-3}
    if isinstance(release, DPSGD):
        one = pld.from_gaussian_mechanism(release.noise_multiplier, **sampled)
    else:
        one = pld.from_laplace_mechanism(release.noise_multiplier, **sampled)
    return one.self_compose(release.steps)


@pytest.mark.parametrize(
    "phases",
    [
        PHASES,
        [DPSGD(1.1, 1.0, 5), DPSGD(1.1, 0.01, 1000)],
        [DPSGD(1.1, 0.004, 1000), DPSGD(0.8, 0.01, 10)],
        [Laplace(1.0, 0.05, 20), DPSGD(5.0)],
    ],
)
@pytest.mark.parametrize("delta", [1e-5, 1e-8])
def test_another_accountant_agrees(phases, delta):
    total = of_another(phases[0])
    for release in phases[1:]:
        total = total.compose(of_another(release))
    theirs = total.get_epsilon_for_delta(delta)
    found = privacy.epsilon(phases, delta)
    assert found.lower <= theirs
    assert found.upper == pytest.approx(theirs, rel=5e-3, abs=2e-3)
    assert found.width <= max(2e-3 * found.upper, 5e-4)


def test_rare_sampling_is_enclosed():
    found = privacy.epsilon([DPSGD(0.7, 2e-4, 5000), DPSGD(0.8, 4e-4, 5000)], 1e-6)
    assert found.width <= max(2e-3 * found.upper, 5e-4)
    # dp-accounting with cells of 1e-4 and 3e-5
    assert found.lower < 0.34978 and found.upper == pytest.approx(0.34978, abs=2e-3)


def test_outcomes_that_only_the_record_has_need_no_false_alarm():
    atoms = Atoms.approximate_dp(1.0, 0.1)
    for run, alone in (
        ([atoms], 0.1),
        ([Atoms.approximate_dp(1.0, 0.1, steps=2)], 0.19),
        ([Atoms.approximate_dp(1.0, 0.1, sampling_rate=0.5)], 0.05),
        ([atoms, DPSGD(1.0, 0.5, 10)], 0.1),
        ([Atoms.approximate_dp(1.0)], 0.0),
    ):
        found = bounds.rero(run, 0.0)
        assert found.lower <= alone + 1e-15 and alone <= found.upper + 1e-15
        assert found.width < 1e-11
        count = bounds.rero_count(run, 100, 0.0)
        assert count.expected == pytest.approx(100 * alone) and count.most >= 100 * alone


@pytest.mark.parametrize("percent", range(1, 100))
def test_randomised_response_of_two_has_a_law(percent):
    """Its third outcome has a probability of zero, whatever the rounding."""
    assert Atoms.randomised_response(percent / 100, 2).without[2] < 1e-15


def test_atoms_compose_as_another_accountant_says():
    gaussian = pld.from_gaussian_mechanism(5.0)
    answers = pld.from_randomized_response(0.5, 4).self_compose(30).compose(gaussian)
    found = privacy.epsilon([Atoms.randomised_response(0.5, 4, 30), DPSGD(5.0)], 1e-5)
    assert found.lower <= answers.get_epsilon_for_delta(1e-5)
    assert found.upper == pytest.approx(answers.get_epsilon_for_delta(1e-5), rel=2e-3)
    one = pld.from_privacy_parameters(common.DifferentialPrivacyParameters(0.1, 1e-8))
    ten = one.self_compose(10).compose(gaussian)
    found = privacy.epsilon([Atoms.approximate_dp(0.1, 1e-8, steps=10), DPSGD(5.0)], 1e-5)
    assert found.lower <= ten.get_epsilon_for_delta(1e-5)
    assert found.upper == pytest.approx(ten.get_epsilon_for_delta(1e-5), rel=2e-3)


def test_one_pure_release_has_its_closed_forms():
    release = Atoms.approximate_dp(1.0, 0.01)
    # delta(e) = delta + (1 - delta) (exp(eps) - exp(e))/(1 + exp(eps))
    exact = 0.01 + 0.99 * (math.e - math.exp(0.3)) / (1.0 + math.e)
    found = privacy.delta([release], 0.3)
    assert found.lower <= exact * (1.0 + 1e-9) and exact <= found.upper * (1.0 + 1e-9)
    assert found.upper == pytest.approx(exact, rel=1e-4)
    laplace = privacy.delta([Laplace(1.0)], 0.4)
    assert laplace.upper == pytest.approx(1.0 - math.exp((0.4 - 1.0) / 2.0), rel=1e-4)
    success = bounds.rero([Laplace(1.0)], 0.1)
    assert success.upper == pytest.approx(0.1 * math.e, rel=1e-4) and 0.1 * math.e in success


def test_groups():
    run = DPSGD(1.0, 0.01, 100)
    assert bounds.rero([Group(DPSGD(6.0, steps=4), 3)], 0.1) == bounds.rero(
        DPSGD(2.0, steps=4), 0.1
    )
    assert privacy.epsilon([Group(run, 1)], 1e-5) == privacy.epsilon(run, 1e-5)
    weights = stats.binom.pmf(np.arange(4), 3, 0.01)
    theirs = pld.from_mixture_gaussian_mechanism(
        1.0, np.arange(4.0), weights, value_discretization_interval=5e-3
    ).self_compose(100)
    found = privacy.epsilon([Group(run, 3)], 1e-5)
    assert found.lower <= theirs.get_epsilon_for_delta(1e-5)
    assert found.upper == pytest.approx(theirs.get_epsilon_for_delta(1e-5), rel=5e-3)
    # a mixture of one member, cut by the masses of its cells, is the run itself
    from reconrisk.privacy._releases import _MixturePart

    part = _phases._Composition((_MixturePart(1.0, 0.01, 1, 100),))
    low, high = _phases._epsilon(part, 1e-5, 1e-4)
    assert overlap(_phases.Enclosure(low, high), privacy.epsilon(run, 1e-5))


@pytest.mark.parametrize(("sigma", "size"), [(30.0, 100), (30.0, 300), (100.0, 1000)])
def test_large_groups_say_less_than_in_full_batches(sigma, size):
    tracemalloc.start()
    found = privacy.epsilon([Group(DPSGD(sigma, 0.5, 10), size)], 1e-5)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found.width < 1e-3 * found.upper and peak < 3e8
    if size == 100:  # theirs fails for larger groups
        members = np.arange(size + 1.0)
        theirs = pld.from_mixture_gaussian_mechanism(
            sigma, members, stats.binom.pmf(members, size, 0.5), value_discretization_interval=0.02
        ).self_compose(10)
        assert found.upper == pytest.approx(theirs.get_epsilon_for_delta(1e-5), rel=5e-3)
    full = privacy.epsilon([Group(DPSGD(sigma, 1.0, 10), size)], 1e-5)
    assert found.upper < 0.5 * full.lower


@pytest.mark.parametrize(("sigma", "size"), [(100.0, 300), (500.0, 1200), (5e3, 10_000)])
def test_one_step_of_a_large_group_is_a_mixture(sigma, size):
    # by quadrature: the total variation, and the power of a threshold on the output, which is best
    x = np.linspace(-12.0, 16.0, 200_001)
    members = np.arange(size + 1.0)
    weights = stats.binom.pmf(members, size, 0.5)
    near = weights > 1e-25
    present = sum(
        w * stats.norm.pdf(x, j / sigma)
        for w, j in zip(weights[near], members[near], strict=True)
    )  # fmt: skip
    distance = 0.5 * float(np.sum(np.abs(present - stats.norm.pdf(x)))) * (x[1] - x[0])
    group = [Group(DPSGD(sigma, 0.5, 1), size)]
    found = privacy.delta(group, 0.0)
    assert found.lower - 1e-8 <= distance <= found.upper + 1e-8
    assert found.width < 1e-3 * found.upper
    level = stats.norm.isf(0.01)
    power = float(weights @ stats.norm.sf(level - members / sigma))
    found = bounds.rero(group, 0.01)
    assert found.lower - 1e-9 <= power <= found.upper + 1e-9 and found.width < 1e-3 * found.upper


def test_groups_too_large_for_their_noise_are_not_composed():
    why = "size of a group must be so small .* more than 38 of .*got 100 at noise_multiplier 1.1"
    with pytest.raises(ValueError, match=why):
        _phases.part_of(Group(DPSGD(1.1, 0.5, 10), 100))


def test_groups_too_large_to_be_composed_say_less_than_in_full_batches():
    group, full = [Group(DPSGD(1.1, 0.5, 10), 100)], DPSGD(0.011, 1.0, 10)
    found = privacy.epsilon(group, 1e-5)
    assert found.lower == 0.0
    assert found.upper == pytest.approx(privacy.epsilon(full, 1e-5).upper, rel=1e-9)
    assert bounds.rero(group, 0.1).upper == 1.0 == privacy.delta(group, 0.0).upper
    for run, whole in ((group, full), ([Group(DPSGD(30.0, 0.5, 10), 300)], DPSGD(0.1, 1.0, 10))):
        bound = bounds.rero(run, log_prior_success=-1e6, log=True).upper
        most = bounds.rero(whole, log_prior_success=-1e6, log=True).upper
        assert bound == pytest.approx(most, rel=1e-9) and bound < -3e5


def test_what_a_description_releases_is_named():
    run = risk.training_run(noise_multiplier=1.1, sampling_rate=0.01, steps=10)
    with pytest.raises(TypeError, match=r"such as run\.releases; got a TrainingRun$"):
        bounds.rero(run, 0.1)


def test_long_schedules_are_grouped_and_enclosed(monkeypatch):
    monkeypatch.setattr(_phases, "MOST_PARTS", 8)
    schedule = [DPSGD(float(s), 0.02, 10) for s in np.linspace(1.0, 1.1, 100)]
    found = privacy.epsilon(schedule, 1e-5)
    ends = [privacy.epsilon(DPSGD(s, 0.02, 1000), 1e-5) for s in (1.1, 1.0)]
    assert ends[0].upper < found.lower and found.upper < ends[1].lower
    assert found.width < 0.03 * found.upper
    for safe in (True, False):
        few = _phases.group_neighbours(schedule, safe)
        assert len(few) <= 8 and sum(r.steps for r in few) == 1000


def test_long_schedules_of_groups_are_grouped_too(monkeypatch):
    monkeypatch.setattr(_phases, "MOST_PARTS", 6)
    schedule = [Group(DPSGD(float(s), 0.02, 10), 2) for s in np.linspace(2.0, 2.1, 40)]
    few = _phases.group_neighbours([*schedule, DPSGD(3.0, 0.02, 7), Laplace(20.0)], True)
    assert len(few) <= 6 and sum(r.run.steps for r in few if isinstance(r, Group)) == 400
    assert few[0] == Laplace(20.0) and DPSGD(3.0, 0.02, 7) in few


def test_few_frequencies_give_what_a_whole_transform_gives(monkeypatch):
    phases = [DPSGD(s, 0.02, 2000) for s in (1.0, 1.2, 1.5)]
    laws = [(_phases.part_of(p).step(2e-3, 1e-12).nu, 2000) for p in phases]
    sums = [_phases._sum_of(laws, 0.0, (0.02, 0.02), -30.0)]
    assert _phases.few_frequencies(
        [(_phases._centre(law.mass)[0], n) for law, n in laws], sums[0].size
    )
    monkeypatch.setattr(_phases, "few_frequencies", lambda *_: None)
    sums.append(_phases._sum_of(laws, 0.0, (0.02, 0.02), -30.0))
    few, whole = sums
    assert (few.first, few.size) == (whole.first, whole.size)
    assert np.max(np.abs(few.mass - whole.mass)) <= few.each + whole.each < 1e-9
    assert np.linalg.norm(few.mass - whole.mass) <= few.square + whole.square


def test_the_report_of_a_long_schedule_takes_seconds(monkeypatch):
    # every entry used to be composed anew at each question: minutes at 20,000 entries
    monkeypatch.setattr(_phases, "MOST_PARTS", 4)
    history = [(float(s), 0.004, 1) for s in np.linspace(1.5, 0.8, 20_000)]
    start = time.process_time()
    run = risk.from_opacus(history, dataset_size=60_000, parameters=1000)
    page = risk.assess(run).to_html()
    assert time.process_time() - start < 20.0
    assert "20,000 phases" in page and len(page) < 2e6


@pytest.mark.parametrize(
    ("releases", "why"),
    [
        (3, "run must be a DPSGD, or a list"),
        ([], "at least one"),
        ([DPSGD(1.0), 3], "got a int, 3"),
        ([DPSGD(0.01, 0.5, 2), DPSGD(1.0, 0.5)], "at least 1/35"),
    ],
)
def test_what_is_no_run_is_refused(releases, why):
    with pytest.raises((TypeError, ValueError), match=why):
        privacy.epsilon(releases, 1e-5)
    with pytest.raises((TypeError, ValueError), match=why):
        bounds.rero(releases, 0.1)


def test_bad_releases_are_refused():
    for bad, why in (
        (lambda: Laplace(0.001), "noise_multiplier must be in"),
        (lambda: Laplace(1.0, 0.0), "sampling_rate must be in"),
        (lambda: Atoms((0.5, 0.4), (0.5, 0.5)), "sum one"),
        (lambda: Atoms((0.5, 0.5), (1.0,)), "outcomes of without"),
        (lambda: Atoms.approximate_dp(-1.0), "epsilon must be in"),
        (lambda: Group(DPSGD(1.0), 0), "size must be in"),
        (lambda: Group(3, 2), "run must be a DPSGD"),
        (lambda: Group(DPSGD(1.0), True), "size must be a single number; got True"),
        (lambda: DPSGD("1", 0.1, 5), "noise_multiplier must be a single number; got '1'"),
        (lambda: DPSGD(True, 0.1, 5), "noise_multiplier must be a single number; got True"),
        (lambda: DPSGD(np.array([1.0, 2.0]), 0.1, 5), "noise_multiplier must be a single number"),
        (lambda: DPSGD(1.0, 0.1, [5]), r"steps must be a single number; got \[5\]"),
    ):
        with pytest.raises((TypeError, ValueError), match=why):
            bad()


def test_phases_have_one_clipping_norm():
    def run(*norms, **more):
        phases = [DPSGD(1.0 + i, 0.1, 10, max_grad_norm=c) for i, c in enumerate(norms)]
        return risk.training_run(phases=phases, **more)

    assert run(2.0, 2.0).max_grad_norm == run(2.0, 1.0, max_grad_norm=2.0).max_grad_norm == 2.0
    assert run(1.0, 1.0, max_grad_norm=3.0).max_grad_norm == 3.0
    for norms, more, why in (
        ((2.0, 0.5), {}, "same in all phases, 2 .*got 0.5"),
        ((1.0, 0.5), {}, "same in all phases, 1 .*got 0.5"),
        ((0.5, 0.5), {"max_grad_norm": 2.0}, "same in all phases, 2 .*got 0.5"),
        ((1.0, 1.0), {"max_grad_norm": -1.0}, "max_grad_norm must be a number .*got -1"),
    ):
        with pytest.raises(risk.SettingError, match=why):
            run(*norms, **more)


def test_notes_are_sentences():
    one = {"noise_multiplier": 1.0, "sampling_rate": 1.0, "steps": 1}
    phases = [{**one, "steps": t} for t in (1, 2)]
    for settings in (one, {"phases": phases}, {**one, "sampler": "shuffle"}):
        assert risk.training_run(**settings, notes=["hello"]).notes[-1] == "hello"
        for bad in ("hello", b"hello", 3, ["hello", 3]):
            with pytest.raises(risk.SettingError, match="notes must be a list of sentences; got"):
                risk.training_run(**settings, notes=bad)
    with pytest.raises(risk.SettingError, match="notes must be a list of sentences"):
        risk.from_opacus([(1.0, 1.0, 1)], notes="hello")

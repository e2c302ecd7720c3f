"""Samplers: enclosures held to closed forms, quadrature, simulation, other packages and limits."""

from __future__ import annotations

import math
import time

import mpmath
import numpy as np
import pytest
from scipy import integrate, stats
from scipy import special as sc

from reconrisk import DPSGD, bounds, privacy, risk
from reconrisk._types import order_ends
from reconrisk.privacy import Allocation, SampledRun
from reconrisk.privacy._fixed_size import FixedSizeBound
from reconrisk.privacy._outer import (
    _by_taken_batches,
    enclose_full_batch_delta,
    outer_delta,
)

DELTA = 1e-5


def close(found, value, relative):
    """Whether an enclosure holds a value, and is narrow."""
    slip = 1e-9 * abs(value)
    assert found.lower - slip <= value <= found.upper + slip
    assert found.width <= relative * value


# Random allocation -------------------------------------------------------------------------------


@pytest.mark.parametrize("epochs", [1, 7])
def test_one_batch_an_epoch_is_the_full_batch(epochs):
    run, full = [Allocation(1.3, 1, steps=epochs)], DPSGD(1.3, steps=epochs)
    close(privacy.epsilon(run, DELTA), privacy.epsilon(full, DELTA).upper, 3e-3)
    close(privacy.delta(run, 1.0), privacy.delta(full, 1.0).upper, 1e-2)
    close(bounds.rero(run, 0.01), bounds.rero(full, 0.01).upper, 3e-3)


def deltas_of_two(sigma, epsilon):
    """Delta of one epoch of two batches, removing and adding, by quadrature of a closed form."""
    a, bar = 1.0 / sigma, 2.0 * math.exp(epsilon)

    def normal(v, mean):
        return sc.ndtr(a * (mean - v))

    def removed(z):
        w = math.exp(a * z - a * a / 2)
        if w >= bar:
            value = w + 1.0 - bar
        else:
            x = math.log(bar - w) / a + a / 2
            value = sc.ndtr(a - x) - (bar - w) * sc.ndtr(-x)
        return 0.5 * value * stats.norm.pdf(z)

    def added(z):
        # 1 - exp(epsilon) (w + W)/2 where that is positive
        room = 2.0 * math.exp(-epsilon) - math.exp(a * z - a * a / 2)
        if room <= 0.0:
            return 0.0
        x = math.log(room) / a + a / 2
        return 0.5 * math.exp(epsilon) * (room * sc.ndtr(x) - sc.ndtr(x - a)) * stats.norm.pdf(z)

    ends = [(math.log(bar) / a + a / 2), (math.log(2.0 * math.exp(-epsilon)) / a + a / 2)]
    return [
        integrate.quad(f, -12, 14, points=[p], limit=400, epsabs=1e-14, epsrel=1e-11)[0]
        for f, p in zip((removed, added), ends, strict=True)
    ]


@pytest.mark.parametrize("sigma", [0.5, 1.0, 1.5])
@pytest.mark.parametrize("epsilon", [0.0, 0.3, 2.0])
def test_two_batches_by_quadrature(sigma, epsilon):
    exact = max(deltas_of_two(sigma, epsilon))
    close(privacy.delta([Allocation(sigma, 2)], epsilon), exact, 1e-2)


@pytest.mark.parametrize(
    ("batches", "epochs", "released"), [(10, 3, None), (7, 1, 4), (100, 5, None)]
)
def test_simulated_losses(batches, epochs, released):
    a, rng, trials = 1.0, np.random.default_rng(5), 50_000
    loss = np.zeros(trials)
    for _ in range(epochs):
        z = rng.standard_normal((trials, batches))
        z[np.arange(trials), rng.integers(batches, size=trials)] += a
        ratio = np.exp(a * z - a * a / 2)
        if released:
            ratio[:, released:] = 1.0
        loss += np.log(ratio.mean(axis=1))
    run = [Allocation(1.0 / a, batches, released, steps=epochs)]
    for epsilon in (0.1, 1.0):
        value = np.maximum(-np.expm1(epsilon - loss), 0.0)
        found, error = privacy.delta(run, epsilon), value.std() / math.sqrt(trials)
        assert found.width < 0.02 * found.upper
        assert found.lower - 4 * error < value.mean() < found.upper + 4 * error


def test_an_attack_reaches_the_success_of_random_allocation():
    """The likelihood ratio of fresh releases, thresholded on others without the record."""
    sigma, batches, epochs, kappa, trials = 0.7, 20, 4, 0.05, 40_000
    rng = np.random.default_rng(8)

    def scores(taken):
        total = np.zeros(trials)
        for _ in range(epochs):
            out = sigma * rng.standard_normal((trials, batches))
            if taken:
                out[np.arange(trials), rng.integers(batches, size=trials)] += 1.0
            total += sc.logsumexp(out / sigma**2, axis=1)
        return total

    bar = np.quantile(scores(False), 1.0 - kappa)
    success = float(np.mean(scores(True) > bar))
    found = bounds.rero(
        SampledRun(sigma, 1 / batches, batches * epochs, "random-allocation"), kappa
    )
    assert success == pytest.approx(found.upper, rel=0.03)


def test_random_allocation_against_pld_accounting():
    """Version 2.0, ``gaussian_allocation_epsilon_range`` at its default accuracy."""
    for sigma, batches, epochs, low, high in (
        (1.0, 2, 1, 3.655697772432379, 3.7367726495538904),
        (1.0, 100, 10, 1.6644107528241772, 1.7398246227821421),
    ):
        found = privacy.epsilon([Allocation(sigma, batches, steps=epochs)], DELTA)
        assert low <= found.lower <= found.upper <= high
        assert found.width < 0.05 * (high - low)


def test_much_noise_makes_an_epoch_a_gaussian_release():
    """The ratio's variance is then ``1/(b sigma**2)`` to first order: one release of that shift."""
    found = bounds.rero([Allocation(50.0, 16, steps=9)], 0.1)
    limit = bounds.rero(DPSGD(50.0 * 4.0 / 3.0), 0.1).upper
    assert found.upper - 0.1 == pytest.approx(limit - 0.1, rel=0.02)


def test_more_batches_and_noise_protect_and_more_released_ones_do_not():
    by_batches = [privacy.epsilon([Allocation(1.0, b)], DELTA).upper for b in (2, 8, 64)]
    assert by_batches == sorted(by_batches, reverse=True)
    by_released = [privacy.epsilon([Allocation(1.0, 32, r)], DELTA).upper for r in (4, 16, 32)]
    assert by_released == sorted(by_released)


# Fixed batch sizes -------------------------------------------------------------------------------


def hockey_stick(p, q, alpha):
    """``max P(A) - alpha Q(A)`` of two laws on a grid."""
    return float(np.maximum(p - alpha * q, 0.0).sum())


@pytest.mark.parametrize(
    ("adjacency", "q"),
    [("replace", 0.3), ("zero-out", 0.3), ("zero-out", 0.05), ("replace in Poisson samples", 0.3)],
)
def test_no_gradients_beat_the_bound_of_one_step(adjacency, q):
    """Any gradients of the record, its neighbour and the one it displaces, in a plane."""
    sigma, rng = 1.0, np.random.default_rng(3)
    run = [FixedSizeBound(sigma, q, adjacency)]
    side = np.linspace(-8, 8, 401)
    x, y = np.meshgrid(side, side)

    def density(mean):
        law = np.exp(-0.5 * ((x - mean[0]) ** 2 + (y - mean[1]) ** 2))
        return law / law.sum()

    def gradient():
        angle = rng.uniform(0, 2 * np.pi)
        return rng.uniform(0, 1) ** 0.3 * np.array([np.cos(angle), np.sin(angle)]) / sigma

    levels = [0.0, 0.2, 1.0, 2.0]
    most = np.array([privacy.delta(run, e).upper for e in levels])
    best = np.zeros(len(levels))
    cases = [(gradient(), gradient(), gradient()) for _ in range(60)]
    along = np.array([1.0, 0.0]) / sigma
    cases += [(along, -along, c * along) for c in (-1, 0, 1)]
    for here, there, displaced in cases:
        other = np.zeros(2) if "Poisson" in adjacency else displaced
        neighbour = np.zeros(2) if adjacency == "zero-out" else there
        p = (1 - q) * density(other) + q * density(here)
        n = (1 - q) * density(other) + q * density(neighbour)
        for i, e in enumerate(levels):
            best[i] = max(best[i], hockey_stick(p, n, np.exp(e)), hockey_stick(n, p, np.exp(e)))
    assert np.all(best <= most * (1 + 1e-3))
    # and some gradients reach it
    np.testing.assert_allclose(best, most, rtol=0.02)


@pytest.mark.parametrize("adjacency", ["replace", "zero-out"])
def test_whole_batches_are_the_full_batch(adjacency):
    apart = 0.5 if adjacency == "replace" else 1.0
    found = privacy.epsilon([FixedSizeBound(1.0, 1.0, adjacency, steps=10)], DELTA)
    close(found, privacy.epsilon(DPSGD(apart, steps=10), DELTA).upper, 1e-3)


@pytest.mark.parametrize("adjacency", ["replace", "zero-out"])
@pytest.mark.parametrize("q", [0.01, 0.2])
def test_one_step_of_fixed_size_is_attained(adjacency, q):
    run = SampledRun(1.0, q, 1, "fixed", adjacency)
    for found in (privacy.epsilon(run, DELTA), privacy.delta(run, 0.5), bounds.rero(run, 0.01)):
        assert found.width < 5e-3 * found.upper


def test_fixed_size_against_renyi_accounting():
    """dp-accounting has Wang, Balle and Kasiviswanathan's bound, for replaced records."""
    dp = pytest.importorskip("dp_accounting")
    from dp_accounting.rdp import RdpAccountant

    for sigma, size, steps in ((2.0, 10, 300), (4.0, 50, 100)):
        accountant = RdpAccountant(neighboring_relation=dp.NeighboringRelation.REPLACE_ONE)
        # their multiplier is relative to the sensitivity to replacement, two clipping norms
        event = dp.SampledWithoutReplacementDpEvent(1000, size, dp.GaussianDpEvent(0.5 * sigma))
        accountant.compose(event, steps)
        theirs = accountant.get_epsilon(DELTA)
        ours = privacy.epsilon(SampledRun(sigma, size / 1000, steps, "fixed", "replace"), DELTA)
        assert ours.upper < theirs < 3 * ours.upper


@pytest.mark.parametrize(
    "sigma, q, steps, delta, cell",
    [
        (1.1, 0.01, 1000, 1e-5, 1e-4),
        (0.3, 0.02, 50, 1e-6, 1e-3),
        (4.0, 0.5, 10, 1e-3, 1e-4),
        (0.1, 0.01, 3, 1e-4, 1e-3),
    ],
)
def test_a_record_replaced_in_poisson_samples_against_dp_accounting(sigma, q, steps, delta, cell):
    """Where losses are large, theirs is the same to seven digits in cells ten times as wide."""
    dp = pytest.importorskip("dp_accounting")
    from dp_accounting.pld import PLDAccountant

    accountant = PLDAccountant(dp.NeighboringRelation.REPLACE_ONE, cell)
    step = dp.PoissonSampledDpEvent(q, dp.GaussianDpEvent(sigma))
    theirs = accountant.compose(dp.SelfComposedDpEvent(step, steps)).get_epsilon(delta)
    ours = privacy.epsilon(SampledRun(sigma, q, steps, "poisson", "replace"), delta)
    assert ours.lower <= theirs * (1 + 1e-4) and theirs <= ours.upper * (1 + 1e-4)
    assert ours.width < 1e-3 * ours.upper


@pytest.mark.parametrize("sigma, q", [(1.0, 0.1), (0.2, 0.5), (3.0, 0.9)])
def test_one_poisson_sample_with_a_record_replaced_has_a_closed_form(sigma, q):
    run, (one, other) = SampledRun(sigma, q, 1, "poisson", "replace"), (1 / sigma, -1 / sigma)

    def above(threshold, shift):
        return (1 - q) * sc.ndtr(-threshold) + q * sc.ndtr(shift - threshold)

    for threshold in (-1.0, 0.0, 0.7, 3.0):
        kappa, truth = above(threshold, other), above(threshold, one)
        found = bounds.rero(run, kappa)
        assert found.lower <= truth <= found.upper < truth * (1 + 2e-4)
    whole = privacy.epsilon(SampledRun(sigma, 1.0, 3, "poisson", "replace"), DELTA)
    assert whole == privacy.epsilon(DPSGD(0.5 * sigma, 1.0, 3), DELTA)


@pytest.mark.parametrize("epsilon", [0.001, 0.01, 0.1, 0.5, 0.8])
def test_deltas_that_hardly_exist_are_enclosed(epsilon):
    """From 5e-6 to 6e-187: the test of one step in closed form, to 60 digits."""
    sigma, q = 4.074881806770186, 0.0010284479989906392
    with mpmath.workdps(60):
        a, odds = 1 / mpmath.mpf(sigma), mpmath.exp(-1 / (2 * mpmath.mpf(sigma) ** 2))

        def likely(x, side):
            return 1 - q + q * odds * mpmath.exp(side * a * x)

        least, most = mpmath.mpf(0), mpmath.mpf(4000)
        for _ in range(250):
            x = (least + most) / 2
            below = likely(x, 1) < mpmath.exp(epsilon) * likely(x, -1)
            least, most = (x, most) if below else (least, x)
        tail = [mpmath.erfc((x - shift) / mpmath.sqrt(2)) / 2 for shift in (0, a, -a)]
        lift = mpmath.exp(epsilon)
        truth = (1 - q) * (1 - lift) * tail[0] + q * tail[1] - q * lift * tail[2]
        found = privacy.delta(SampledRun(sigma, q, 1, "poisson", "replace"), epsilon)
        assert found.lower <= truth <= found.upper


def test_a_batch_of_fixed_size_says_far_more_than_a_poisson_sample():
    """Lebeda et al. (2024) warn of it: an epsilon below one becomes one above ten."""
    assert privacy.epsilon(DPSGD(0.8, 0.001, 10_000), 1e-6).upper < 1.0
    for adjacency in ("zero-out", "replace"):
        found = privacy.epsilon(SampledRun(0.8, 0.001, 10_000, "fixed", adjacency), 1e-6)
        assert found.lower > 10 and found.width < 0.1 * found.upper


def test_add_remove_is_poisson_at_half_the_noise():
    run = SampledRun(1.2, 0.02, 100, "fixed", "add-remove")
    assert privacy.epsilon(run, DELTA) == privacy.epsilon(DPSGD(0.6, 0.02, 100), DELTA)


# Shuffling ---------------------------------------------------------------------------------------


def test_the_largest_output_has_chua_s_closed_form():
    """One epoch: a threshold on the largest output, in closed form (Chua et al., 2024)."""
    sigma, b, epsilon = 0.5, 50, 3.0
    run = SampledRun(sigma, 1 / b, b, "shuffle")
    at = np.linspace(-2, 8, 20_001)

    def above(shift):
        return -np.expm1(sc.log_ndtr((at - shift) / sigma) + (b - 1) * sc.log_ndtr(at / sigma))

    best = float(np.max(above(2.0) - np.exp(epsilon) * above(1.0)))
    found = privacy.delta(run._largest_outputs(), epsilon)
    assert found.lower >= best * (1 - 1e-4)
    assert found.upper < 1.05 * max(best, privacy.delta(run, epsilon).lower)
    assert privacy.delta(run, epsilon).lower >= best * (1 - 1e-4)


def test_two_shuffled_batches_by_quadrature():
    """Others oppose the record: the batch it is in is shifted by two norms, or one."""
    sigma, side = 0.6, np.linspace(-4, 7, 1601)
    x, y = np.meshgrid(side, side)

    def law(shift):
        one = np.exp(-0.5 * (((x - shift) / sigma) ** 2 + (y / sigma) ** 2))
        return (one + one.T) / (2 * one.sum())

    run = SampledRun(sigma, 0.5, 2, "shuffle")
    for epsilon in (0.0, 1.0, 3.0):
        found = privacy.delta(run, epsilon)
        exact = hockey_stick(law(2.0), law(1.0), math.exp(epsilon))
        assert exact <= found.upper
        # the statistics that are composed lose little of it
        assert found.lower >= 0.7 * exact


def test_shuffling_lies_between_random_allocation_and_known_batches():
    for sigma, b, steps in ((0.8, 40, 120), (1.0, 10, 25)):
        shuffled = SampledRun(sigma, 1 / b, steps, "shuffle")
        least = privacy.epsilon(SampledRun(sigma, 1 / b, steps, "random-allocation"), DELTA)
        most = privacy.epsilon(SampledRun(sigma, 1 / b, steps, "cyclic"), DELTA)
        found = privacy.epsilon(shuffled, DELTA)
        assert least.lower <= found.lower <= found.upper <= most.upper
        assert (found.upper == most.upper) == (steps % b == 0)


# Runs --------------------------------------------------------------------------------------------


def test_every_sampler_is_the_full_batch_at_rate_one():
    full = DPSGD(2.0, 1.0, 5)
    for sampler in ("poisson", "fixed", "random-allocation", "shuffle", "cyclic"):
        run = SampledRun(2.0, 1.0, 5, sampler)
        assert privacy.epsilon(run, DELTA) == privacy.epsilon(full, DELTA)
        assert bounds.rero(run, 0.1) == bounds.rero(full, 0.1)


def test_a_last_epoch_may_be_cut_short():
    run = SampledRun(1.0, 1 / 8, 20, "random-allocation")
    assert run.dominating() == [Allocation(1.0, 8, steps=2), Allocation(1.0, 8, released=4)]
    assert SampledRun(1.0, 1 / 8, 20, "cyclic").epochs == 3
    whole, part, more = (
        privacy.epsilon(SampledRun(1.0, 1 / 8, t, "random-allocation"), DELTA) for t in (16, 20, 24)
    )
    assert whole.upper < part.lower and part.upper < more.lower


def gaussian_delta(mu: float, epsilon: float) -> float:
    """Return the delta of releases that move by so many deviations together."""
    if mu == 0.0:
        return 0.0
    near, far = 0.5 * mu - epsilon / mu, -0.5 * mu - epsilon / mu
    return float(stats.norm.cdf(near) - math.exp(epsilon) * stats.norm.cdf(far))


@pytest.mark.parametrize(
    "sigma, batches, steps", [(1.0, 8, 20), (0.3, 4, 2), (0.05, 10, 13), (30.0, 100, 40)]
)
def test_an_unfinished_epoch_tells_no_more_than_whether_it_took_the_record(sigma, batches, steps):
    """The mixture of one epoch more and one less has its delta in closed form."""
    run = SampledRun(sigma, 1 / batches, steps, "shuffle")
    whole, rest = divmod(steps, batches)
    share = rest / batches
    for epsilon in (0.0, 0.1, 1.0, 5.0):
        more, less = (gaussian_delta(math.sqrt(n) / sigma, epsilon) for n in (whole + 1, whole))
        truth = share * more + (1 - share) * less
        found = privacy.delta(run.dominating(), epsilon)
        assert found.lower <= truth * (1 + 1e-12) and truth <= found.upper * (1 + 1e-12)
        assert found.upper <= truth * 1.02 + 1e-12
        assert privacy.delta(run, epsilon).lower <= found.upper
    allocated = SampledRun(sigma, 1 / batches, steps, "random-allocation")
    for kappa in (1e-6, 0.01, 0.5):  # all other gradients zero
        assert bounds.rero(allocated, kappa).lower <= bounds.rero(run, kappa).upper
    # an attacker who knows the order and a longer epoch know more
    cyclic = privacy.epsilon(SampledRun(sigma, 1 / batches, steps, "cyclic"), DELTA)
    assert privacy.epsilon(run, DELTA).upper <= cyclic.upper * (1 + 1e-9)


@pytest.mark.parametrize("sampler", ["poisson", "fixed", "random-allocation", "shuffle", "cyclic"])
def test_the_curve_is_that_of_single_values(sampler):
    run, kappa = SampledRun(1.0, 0.1, 30, sampler), np.array([[1e-4, 0.01], [0.2, 0.9]])
    lower, upper = bounds.rero_curve(run, kappa)
    assert lower.shape == kappa.shape
    for k, low, high in zip(kappa.ravel(), lower.ravel(), upper.ravel(), strict=True):
        one = bounds.rero(run, float(k))
        assert low == pytest.approx(one.lower, rel=5e-3)
        assert high == pytest.approx(one.upper, rel=5e-3)
        assert k <= low <= high <= 1


def test_arguments():
    with pytest.raises(ValueError, match=r"sampler must be one of poisson, .*; got 'random'"):
        SampledRun(1.0, 0.1, 10, "random")
    with pytest.raises(ValueError, match=r'adjacency must be "zero-out" for .*shuffle'):
        SampledRun(1.0, 0.1, 10, "shuffle", "replace")
    with pytest.raises(ValueError, match=r'must be "zero-out" or "add-remove" for .*allocation'):
        SampledRun(1.0, 0.1, 10, "random-allocation", "replace")
    removed = SampledRun(1.0, 0.1, 10, "random-allocation", "add-remove")
    assert removed.dominating() == SampledRun(1.0, 0.1, 10, "random-allocation").dominating()
    with pytest.raises(ValueError, match="noise_multiplier must be in"):
        SampledRun(0.01, 0.1, 10, "shuffle")
    for kappa in ("0.1", True, [None], np.array(["0.1", 0.2], dtype=object)):
        with pytest.raises(TypeError, match="prior_success must be a real number"):
            bounds.rero_curve(removed, kappa)
    with pytest.raises(ValueError, match="released must be in"):
        Allocation(1.0, 10, 11)
    assert "an epoch has 10 batches" in SampledRun(1.0, 0.1, 10, "shuffle").assumption


def test_reports_take_a_sampler():
    from reconrisk import risk

    settings = {"noise_multiplier": 1.0, "sampling_rate": 0.1, "steps": 30, "layers": 4}
    report = risk.assess(risk.training_run(sampler="shuffle", **settings))
    run = SampledRun(0.5, 0.1, 30, "shuffle")
    known, found = privacy.epsilon(run, DELTA), report["epsilon"]
    assert found.lower == pytest.approx(known.lower, rel=1e-3)
    assert found.upper == pytest.approx(known.upper, rel=1e-3)
    chance = bounds.rero(run, 1 / 10).upper
    assert report["rero[prior_size=10]"].value == pytest.approx(chance, rel=1e-3)
    assert any("an epoch has 10 batches" in note for note in report.run.notes)
    assert risk.training_run(sampler="poisson", **settings) == risk.training_run(**settings)
    for more, word in (
        ({"group_size": 2}, "groups"),
        ({"sampler": "sorted"}, "one of poisson"),
        # as given, though the sensitivity of four parts is two
        ({"noise_multiplier": 0.09}, r"\[0.1, .*got 0.09"),
        ({"max_grad_norm": -5}, "max_grad_norm must be .*got -5"),
        ({"max_grad_norm": math.nan}, "max_grad_norm must be .*got nan"),
        ({"parameters": 0}, "parameters must be .*got 0"),
        ({"phases": [{"steps": 3}]}, "several phases"),
    ):
        with pytest.raises(risk.SettingError, match=word):
            risk.training_run(**{"sampler": "shuffle", **settings, **more})


def test_epochs_of_a_sampler_are_those_given():
    """A record is in one batch an epoch: fifteen epochs are fifteen full-batch releases."""
    from reconrisk import risk

    settings = {"noise_multiplier": 1.1, "batch_size": 256, "dataset_size": 60_000}
    fifteen, sixteen = (privacy.epsilon(DPSGD(1.1, 1.0, t), DELTA).upper for t in (15, 16))
    for sampler in ("shuffle", "cyclic"):
        # a loader makes 234 batches of equal size, or 235 with a smaller one
        for more in ({}, {"steps": 3510}, {"steps": 3516}, {"steps": 3525}):
            run = risk.training_run(sampler=sampler, epochs=15, **settings, **more)
            assert risk.assess(run)["epsilon"].upper == fifteen
            assert run.steps == more.get("steps", 3510)
            assert any("an epoch has 234 batches, and 15 begin" in note for note in run.notes)
    run = risk.training_run(sampler="random-allocation", epochs=15, **settings)
    assert run.releases.dominating() == [Allocation(1.1, 234, steps=15)]
    # without epochs the steps decide, of 234 an epoch
    begun = risk.training_run(sampler="cyclic", steps=3516, **settings)
    assert risk.assess(begun)["epsilon"].upper == sixteen
    half = risk.training_run(sampler="shuffle", epochs=2.5, **settings)
    assert half.steps == 585 and half.releases.epochs == 3
    # others take what a loader takes that keeps the last batch
    assert risk.training_run(sampler="fixed", epochs=15, **settings).steps == 3525
    with pytest.raises(risk.SettingError, match="steps must be epochs/sampling_rate"):
        risk.training_run(sampler="shuffle", epochs=15, steps=3527, **settings)


def test_a_run_keeps_its_settings_beside_a_sampler():
    from reconrisk import risk

    given = {
        "noise_multiplier": 1.1, "sampling_rate": 0.0042, "steps": 100, "batch_size": 256,
        "max_grad_norm": 3.0, "parameters": 50, "layers": 4, "delta": 1e-3, "sampler": "fixed",
    }  # fmt: skip
    run = risk.training_run(**given)
    assert given.items() <= run.as_dict().items()
    assert "sigma 1.1," in run.guarantee.description
    # what composes is the run with its sampler, never Poisson samples of the same settings
    report = risk.assess(run)
    assert run.releases == SampledRun(0.55, 0.0042, 100, "fixed")
    removed = SampledRun(0.55, 0.0042, 100, "fixed", "add-remove")
    assert privacy.epsilon(removed, 1e-3).upper == report["epsilon"].upper
    zeroed = risk.assess(risk.training_run(adjacency="zero-out", **given))["epsilon"].upper
    assert privacy.epsilon(run.releases, 1e-3).upper == zeroed
    for poisson in (lambda: run.dpsgd, lambda: run.each_phase, lambda: run.with_noise(2.0)):
        with pytest.raises(risk.SettingError, match="sampler must be 'poisson'.*got 'fixed'"):
            poisson()
    # 256 at this rate are of 60,952 records; nothing is said of Poisson samples
    (warning,) = report.warnings
    assert "delta = 0.001 is not below 1/n" in warning and "60,952" in warning
    known = risk.from_guarantee({"epsilon": 1.0}).as_dict()
    assert known["sampler"] is None


@pytest.mark.parametrize("word", ["sample_rate", "sampling_probability"])
@pytest.mark.parametrize(
    ("call", "settings"),
    [
        (DPSGD, {"noise_multiplier": 1.0}),
        (SampledRun, {"noise_multiplier": 1.0, "steps": 3, "sampler": "fixed"}),
        (privacy.Laplace, {"noise_multiplier": 1.0}),
        (privacy.Atoms, {"without": (0.5, 0.5), "present": (0.25, 0.75)}),
        (privacy.noise_for_epsilon, {"epsilon": 1.0, "delta": 1e-5}),
        (privacy.noise_for_success, {"success": 0.5, "prior_success": 0.1}),
        (bounds.audit_noise, {"right": 5, "guesses": 5, "steps": 3}),
    ],
)
def test_other_libraries_words_are_answered_with_ours(call, settings, word):
    with pytest.raises(TypeError, match=f"{call.__name__} calls it sampling_rate; got {word}"):
        call(**settings, **{word: 0.1})


# Closed forms above ------------------------------------------------------------------------------


@pytest.mark.parametrize("adjacency", ["zero-out", "replace"])
@pytest.mark.parametrize("sigma", [0.05, 1.0])
def test_fixed_batches_say_no_more_than_full_ones(sigma, adjacency):
    apart = 0.5 if adjacency == "replace" else 1.0
    for q, steps in ((0.01, 1000), (0.9999, 5)):
        found = privacy.epsilon(SampledRun(sigma, q, steps, "fixed", adjacency), DELTA)
        full = privacy.epsilon(DPSGD(apart * sigma, 1.0, steps), DELTA).upper
        assert found.lower <= found.upper <= full * (1 + 1e-9)


def test_any_other_record_includes_one_of_gradient_zero():
    for sigma in (0.05, 0.3):
        zero, other = (
            privacy.epsilon(SampledRun(sigma, 0.01, 100, "fixed", a), DELTA)
            for a in ("zero-out", "replace")
        )
        assert other.lower >= zero.lower * (1 - 1e-9)


def test_rare_records_of_fixed_batches_by_the_union_bound():
    """At q = 1e-9 a record is in one of ten batches at most, nearly: 1e-8 (2 Phi(1/2) - 1)."""
    found = privacy.delta(SampledRun(1.0, 1e-9, 10, "fixed"), 0.0)
    assert found.upper == pytest.approx(1e-8 * (2 * stats.norm.cdf(0.5) - 1), rel=1e-6)


@pytest.mark.parametrize(
    ("sigma", "q", "steps"),
    [(1.0, 1e-5, 1000), (1.0, 1e-5, 10), (1e6, 0.01, 1000), (2.0, 1e-4, 50), (0.5, 1e-3, 20)],
)
def test_dear_allocations_are_enclosed_quickly(sigma, q, steps):
    """Two routes from above: a step that took the record, which batch being told, and moments."""
    start = time.process_time()
    found = privacy.epsilon(SampledRun(sigma, q, steps, "random-allocation"), DELTA)
    assert time.process_time() - start < 5.0
    assert found.width < 5e-3
    whole, rest = divmod(steps, round(1 / q))
    if not whole:
        told = privacy.epsilon(DPSGD(sigma, rest * q, 1), DELTA)
        assert found.lower <= told.upper
        square = rest * q * q * math.expm1(sigma**-2)
        assert found.upper <= max(square / (4 * DELTA), 1e-12) * 1.01 or found.width < 1e-4


def test_the_mean_square_bounds_simulated_losses():
    rng = np.random.default_rng(3)
    batches, released, sigma = 400, 40, 1.0
    z = rng.standard_normal((100_000, released))
    ratio = 1 - released / batches + np.exp(z / sigma - 0.5 / sigma**2).sum(axis=1) / batches
    one = [Allocation(sigma, batches, released)]
    for epsilon in (0.0, 1e-3, 1e-2, 0.05):
        lift = math.exp(epsilon)
        for gains in (ratio - lift, 1 - lift * ratio):
            gained = np.maximum(gains, 0)
            assert gained.mean() - 4 * gained.std() / 300 <= outer_delta(one, epsilon)
    # and its success: a test on the likelihood ratio itself
    order = np.sort(ratio)[::-1]
    for kappa in (1e-3, 0.01, 0.1):
        power = order[: int(kappa * order.size)].sum() / order.size
        assert bounds.rero(one, kappa).upper >= power * (1 - 0.02)


def test_runs_of_other_samplers_compose():
    fixed, shuffled = (privacy.SampledRun(1.1, 0.01, 300, s) for s in ("fixed", "shuffle"))
    twice = privacy.epsilon(privacy.SampledRun(1.1, 0.01, 600, "fixed"), 1e-5)
    assert privacy.epsilon([fixed, fixed], 1e-5) == twice
    assert bounds.rero([shuffled], 0.01) == bounds.rero(shuffled, 0.01)
    gaussian = DPSGD(1.1, 0.01, 300)
    one, both = privacy.epsilon(fixed, 1e-5), privacy.epsilon([fixed, gaussian], 1e-5)
    assert one.upper < both.lower < both.upper < twice.lower
    poisson = privacy.SampledRun(1.1, 0.01, 300, "poisson")
    found, known = (privacy.delta(r, 1.0) for r in ([poisson, gaussian], DPSGD(1.1, 0.01, 600)))
    assert found == known
    lower, upper = bounds.rero_curve([fixed, gaussian], [0.01, 0.1])
    assert (lower < upper).all()
    both_known = bounds.Releases([fixed, gaussian])
    assert both_known.epsilon(1e-5) == both
    assert risk.assess(risk.from_guarantee(both_known))["epsilon"].value == both.upper
    other = privacy.SampledRun(1.1, 0.01, 300, "fixed", "replace")
    for wrong in ([fixed, other], [other, gaussian]):
        with pytest.raises(ValueError, match="adjacency of all runs"):
            privacy.epsilon(wrong, 1e-5)


@pytest.mark.parametrize("wrong", ["1", [1.0], True])
def test_a_sampled_run_has_single_numbers(wrong):
    with pytest.raises(TypeError, match="noise_multiplier must be a single number"):
        privacy.SampledRun(wrong, 0.1, 10, "fixed")


def test_more_batches_with_the_record_than_are_counted_tell_everything():
    """Twenty batches say nothing at this epsilon, 25 everything; the sum stops in between."""
    run, epsilon = DPSGD(0.05, 0.02, 50), 4500.0
    k = np.arange(1, 51)
    told = [enclose_full_batch_delta(math.sqrt(i) / 0.05, epsilon).lower for i in k]
    average = float(stats.binom.pmf(k, 50, 0.02) @ told)
    found = _by_taken_batches(run, epsilon, math.sqrt(50) / 0.05)
    assert 0.0 < average <= found


@pytest.mark.parametrize("adjacency", ["zero-out", "replace"])
@pytest.mark.parametrize(
    "rate, steps, kappa", [(0.5, 1, 0.3), (0.01, 100, 0.1), (0.1, 20, 0.1), (0.3, 2, 0.8)]
)
def test_who_sees_no_trace_of_either_record_accepts_all_that_the_level_allows(
    adjacency, rate, steps, kappa
):
    """With hardly any noise: in batches that take neither, which the level does not distinguish."""
    never = (1 - rate) ** steps
    truth = 1 - never + min(kappa, never)
    found = bounds.rero(SampledRun(0.05, rate, steps, "fixed", adjacency), kappa)
    assert truth * (1 - 1e-4) < found.lower <= truth <= found.upper < truth * (1 + 1e-4)
    if adjacency == "zero-out":  # an unfinished epoch that says whether it took the record
        rest = SampledRun(0.05, 0.2, 3, "shuffle").dominating()
        truth = 0.6 + min(kappa, 1 - 0.6)
        enclosed = bounds.rero(rest, kappa)
        assert enclosed.lower <= truth <= enclosed.upper < truth * (1 + 1e-4)
        assert bounds.rero([DPSGD(0.05, 1.0, 4), *rest], kappa).upper >= 1 - 1e-12


def test_bounds_that_contradict_each_other_are_not_hidden():
    ends = order_ends([0.1, 0.2 + 1e-13], [0.3, 0.2])
    np.testing.assert_array_equal(ends, [0.1, 0.2])
    assert order_ends(-1e-15, -2e-15, log=True) == -2e-15
    np.testing.assert_array_equal(order_ends([-np.inf, 1.0], [-np.inf, np.inf]), [-np.inf, 1.0])
    for lower, upper, log in ((0.2001, 0.2, False), (1e-12, 0.0, False), (-0.1, -0.101, True)):
        with pytest.raises(ArithmeticError, match="contradict each other"):
            order_ends(lower, upper, log=log)


@pytest.mark.parametrize("sampler", ["random-allocation", "shuffle"])
def test_more_batches_than_are_computed_are_refused_as_the_rate_that_was_given(sampler):
    with pytest.raises(ValueError, match=r"sampling_rate must be at least 1e-07 .*; got 1e-09"):
        SampledRun(1.0, 1e-9, 3, sampler)

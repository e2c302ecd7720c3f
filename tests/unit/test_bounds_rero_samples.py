"""Algorithm 1 and the sampled interval against closed forms."""

from __future__ import annotations

import math

import numpy as np
import pytest

from reconrisk import DPSGD, bounds

FULL = DPSGD(noise_multiplier=10.0, steps=100)  # signal one: gamma(0.1) = 0.3891436916...
ONE = DPSGD(noise_multiplier=0.8, sampling_rate=0.3)
MANY = DPSGD(noise_multiplier=1.0, sampling_rate=0.1, steps=30)


def estimates(run, kappa, samples, repeats, **more):
    rng = np.random.default_rng(5)
    return np.array(
        [bounds.rero_algorithm1(run, kappa, samples, rng, **more) for _ in range(repeats)]
    )


@pytest.mark.parametrize("run", [FULL, ONE, MANY], ids=["full batch", "one step", "sub-sampled"])
@pytest.mark.parametrize("normalisation", ["samples", "ratios", "complement"])
def test_algorithm_1_with_the_right_factor_is_near_the_truth(run, normalisation):
    truth = bounds.rero(run, 0.1)
    found = estimates(run, 0.1, 4000, 60, normalisation=normalisation)
    assert abs(found.mean() - truth.upper) < 5 * found.std(ddof=1) / np.sqrt(60) + 1e-3


def test_algorithm_1_as_printed_is_larger_by_one_over_kappa():
    printed = bounds.rero_algorithm1(
        FULL, 0.1, 5000, np.random.default_rng(1), normalisation="kept"
    )
    right = bounds.rero_algorithm1(FULL, 0.1, 5000, np.random.default_rng(1))
    assert printed == pytest.approx(10 * right, rel=1e-12)
    assert printed > 1


def test_algorithm_1_keeps_the_whole_prior_and_at_least_one_sample():
    assert estimates(FULL, 1.0, 100, 1, normalisation="ratios")[0] == pytest.approx(1, rel=1e-12)
    rng = np.random.default_rng(2)
    one = bounds.rero_algorithm1(FULL, 1e-9, 50, rng, normalisation="kept")
    z = np.random.default_rng(2).standard_normal(50).max()
    assert one == pytest.approx(np.exp(z - 0.5), rel=1e-12)


def test_algorithm_1_collapses_where_the_ratios_vary_too_much():
    # signal 8: gamma is one, and no sample under nu comes near the record's outputs
    run = DPSGD(noise_multiplier=1.0, steps=64)
    assert bounds.rero(run, 0.1).lower > 0.999999
    assert np.median(estimates(run, 0.1, 100_000, 5)) < 0.05


@pytest.mark.parametrize("signal", [2.0, 5.0, 10.0, 40.0])
@pytest.mark.parametrize("kappa", [0.1, 0.01])
def test_the_complement_of_algorithm_1_does_not_collapse(signal, kappa):
    run = DPSGD(noise_multiplier=1 / signal)
    found = estimates(run, kappa, 100_000, 5, normalisation="complement")
    # the ratios below the threshold are at most exp(z**2 / 2), 2.3 and 15
    assert np.abs(found - bounds.rero(run, kappa).upper).max() < 0.03


def test_the_complement_sums_the_other_ratios():
    found = estimates(FULL, 0.1, 50, 1, normalisation="complement")[0]
    z = np.sort(np.random.default_rng(5).standard_normal(50))[:45]
    assert found == pytest.approx(1 - np.exp(z - 0.5).sum() / 50, rel=1e-12)
    assert estimates(FULL, 1.0, 50, 1, normalisation="complement")[0] == 1


@pytest.mark.parametrize(
    ("run", "kappa"), [(FULL, 0.1), (ONE, 0.02), (MANY, 0.5)], ids=["full", "one step", "many"]
)
def test_the_interval_holds_as_often_as_stated(run, kappa):
    truth = bounds.rero(run, kappa)
    outside = 0
    for seed in range(150):
        found = bounds.rero_monte_carlo(run, kappa, 400, seed, confidence=0.8)
        outside += truth.upper < found.lower or truth.lower > found.upper
    # at most one fifth; five standard deviations of a Binomial(150, 0.2) are 24.5
    assert outside <= 30 + 25
    assert outside > 0  # an interval that never fails is not one at this level


def test_each_end_of_the_interval_misses_no_more_often_than_stated():
    # half of the risk is spent on each end; without either of its two parts an end misses in 3%
    run, draws = DPSGD(1.0), 3000
    exact = bounds.rero(run, 0.1)
    found = [bounds.rero_monte_carlo(run, 0.1, 300, seed, 0.98) for seed in range(draws)]
    allowed = 0.01 + 4 * math.sqrt(0.01 * 0.99 / draws)
    assert np.mean([f.upper < exact.lower for f in found]) < allowed
    assert np.mean([f.lower > exact.upper for f in found]) < allowed


def test_the_interval_narrows_and_is_certain_at_the_ends():
    widths = [bounds.rero_monte_carlo(FULL, 0.1, n, 0).width for n in (100, 10_000, 1_000_000)]
    assert widths[0] > widths[1] > widths[2]
    assert widths[2] < 0.01
    for kappa in (0.0, 1.0):
        found = bounds.rero_monte_carlo(FULL, kappa, 10, 0)
        assert (found.lower, found.upper) == (kappa, kappa)
    tiny = bounds.rero_monte_carlo(FULL, 1e-12, 1000, 0)
    assert tiny.lower == 1e-12 and bounds.rero(FULL, 1e-12).upper <= tiny.upper < 1


def test_the_interval_holds_where_algorithm_1_collapses():
    run = DPSGD(noise_multiplier=1.0, steps=64)
    found = bounds.rero_monte_carlo(run, 0.1, 10_000, 0)
    assert found.lower > 0.99 and found.upper == 1.0


def test_samples_are_reproducible():
    first = bounds.rero_monte_carlo(MANY, 0.1, 1000, 3)
    assert first == bounds.rero_monte_carlo(MANY, 0.1, 1000, 3)
    assert first != bounds.rero_monte_carlo(MANY, 0.1, 1000, 4)


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"prior_success": 1.2}, "prior_success"),
        ({"prior_success": float("nan")}, "prior_success"),
        ({"samples": 0}, "samples"),
        ({"seed": -1}, "seed"),
        ({"confidence": 1.0}, "confidence"),
    ],
)
def test_bad_arguments_of_the_interval_are_named(arguments, named):
    good = {"prior_success": 0.1, "samples": 10, "seed": 0}
    with pytest.raises(ValueError, match=named):
        bounds.rero_monte_carlo(FULL, **{**good, **arguments})


def test_bad_arguments_of_algorithm_1_are_named():
    rng = np.random.default_rng(0)
    with pytest.raises(ValueError, match="prior_success"):
        bounds.rero_algorithm1(FULL, 0.0, 10, rng)
    with pytest.raises(ValueError, match="normalisation"):
        bounds.rero_algorithm1(FULL, 0.1, 10, rng, normalisation="n")
    with pytest.raises(TypeError, match="run"):
        bounds.rero_algorithm1(1.0, 0.1, 10, rng)  # type: ignore[arg-type]

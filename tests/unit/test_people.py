"""How many of N records can be named at once: against exact laws, and runs that are simulated."""

from __future__ import annotations

import bisect
import itertools
import math

import numpy as np
import pytest
from scipy import special as sc
from scipy import stats

from reconrisk import DPSGD, bounds, risk
from reconrisk.bounds._count import most_successes


def _most(gamma, kappa: float, records: int, risk: float) -> int:
    """The bound for a success curve that is given as a function."""
    return most_successes(math.log(gamma(kappa)), math.log(gamma(risk * kappa)), records, risk).most


def _by_recursion(gamma, kappa: float, records: int, risk: float) -> int:
    """The largest count that ``t_m(v) <= (m/v) gamma(kappa t_(m-1)(v-1))`` does not rule out."""

    def tail(v: int) -> float:
        t = 1.0
        for j in range(v - 1, -1, -1):
            t = min(1.0, (records - j) / (v - j) * gamma(kappa * t))
        return t

    return bisect.bisect_left(range(1, records + 1), -risk, key=lambda v: -tail(v))


def test_the_closed_form_is_above_the_recursion_by_a_third_at_most() -> None:
    for mu, k, n in itertools.product((0.1, 0.4, 1.0), (2, 10, 1000), (1, 3, 40, 300)):

        def gamma(x: float, mu: float = mu) -> float:
            return float(sc.ndtr(sc.ndtri(x) + mu))

        found, exact = _most(gamma, 1 / k, n, 0.05), _by_recursion(gamma, 1 / k, n, 0.05)
        assert exact <= found <= max(4 * exact / 3, exact + 2), (mu, k, n)


def test_a_mechanism_without_noise_of_use_has_a_binomial_count() -> None:
    """Nothing is released: the count is binomial, and the bound lies above its quantile."""
    for k, n in ((2, 1000), (10, 1000), (100, 10**6)):
        quantile = stats.binom(n, 1 / k).ppf(0.95)
        found = most_successes(math.log(1 / k), math.log(0.05 / k), n, 0.05)
        assert found.expected == pytest.approx(n / k, rel=1e-12)
        assert quantile <= found.most <= n / k + 3.0 * math.sqrt(n / k)


def test_one_that_tells_everything_now_and_then_refutes_the_binomial_law() -> None:
    """All secrets are released with a probability of 0.06, those of absent records at random."""
    p, k, n = 0.06, 10, 1000

    def gamma(x: float) -> float:
        return min(k * x, p + (x - p / k))

    success = gamma(1 / k)
    assert success == pytest.approx(p + (1 - p) / k)
    # in 6 of 100 runs all are named: more than the binomial law of independent successes allows
    assert stats.binom(n, success).sf(n - 1) < 1e-300 and stats.binom(n, success).ppf(0.95) < 200
    assert _most(gamma, 1 / k, n, 0.05) == n
    assert _most(gamma, 1 / k, n, 0.07) < n


def test_randomised_response_of_three_people_by_enumeration() -> None:
    """Three bits, each kept with probability 3/4: the exact law of the best guesses."""
    keep, n = 0.75, 3

    def gamma(x: float) -> float:  # the run without a record releases a fair bit for it
        return min(2 * keep * x, 1.0 - 2 * (1 - keep) * (1 - x)) if x < 1.0 else 1.0

    exact = stats.binom(n, keep)
    for least in (0.05, 0.3, 0.5):
        found = most_successes(math.log(gamma(0.5)), math.log(gamma(0.5 * least)), n, least)
        assert found.expected == pytest.approx(n * keep, rel=1e-12)
        assert exact.sf(found.most) <= least


@pytest.mark.parametrize(("noise", "rate", "steps"), [(0.7, 1.0, 1), (2.0, 1.0, 4), (0.8, 0.3, 5)])
def test_an_attack_on_every_record_of_a_run_stays_below(noise, rate, steps) -> None:
    """A network that gives each candidate of each record a weight of its own, attacked optimally.

    The counts are then binomial with the success of the best attack on one record.
    """
    n, k, runs = 40, 5, 2000
    rng = np.random.default_rng(11)
    run = DPSGD(noise, rate, steps)
    secret = rng.integers(k, size=(runs, n))
    log_ratio = np.zeros((runs, n, k))
    for _ in range(steps):
        seen = noise * rng.standard_normal((runs, n, k))
        seen += np.eye(k)[secret] * (rng.random((runs, n)) < rate)[..., None]
        log_ratio += np.log1p(rate * np.expm1((seen - 0.5) / noise**2))
    counts = (log_ratio.argmax(axis=2) == secret).sum(axis=1)
    best = bounds.bayes_success_subsampled(run, k)
    error = counts.std() / math.sqrt(runs)
    assert abs(counts.mean() - n * best) < 4 * error
    bound = bounds.rero_count(run, n, 1 / k)
    assert (
        counts.mean() - 4 * error
        <= bound.expected
        == pytest.approx(n * bounds.rero(run, 1 / k).upper)
    )
    assert np.mean(counts > bound.most) <= 0.05
    assert stats.binom(n, best).ppf(0.95) <= bound.most


def test_errors_name_the_argument() -> None:
    run = DPSGD(1.0)
    for wrong, named in (
        ({"records": 0}, "records"),
        ({"records": 10, "confidence": 1.0}, "confidence"),
        ({"records": 10, "prior_success": 2.0}, "prior_success"),
        ({"records": 10, "prior_success": None}, "exactly one"),
    ):
        with pytest.raises(ValueError, match=named):
            bounds.rero_count(run, **{"prior_success": 0.1, **wrong})
    assert bounds.rero_count(run, 10, 0.0) == (0.0, 0)


def test_the_report_counts_people() -> None:
    run = risk.training_run(noise_multiplier=1.1, batch_size=256, dataset_size=60_000, epochs=15)
    report = risk.assess(run, risk.record(dimension=784, data_range=1.0))
    named = report["people_named[prior_size=10]"]
    one = report["rero[prior_size=10]"]
    assert named.upper == pytest.approx(60_000 * one.upper) and named.unit == "records"
    most = report["people_named_most[prior_size=1000]"].upper
    assert most == bounds.rero_count(run.dpsgd, 60_000, 1e-3).most == 231
    power = report["power[false_positive_rate=0.01]"].upper
    found = report["people_recognised[false_positive_rate=0.01]"].upper
    assert found == pytest.approx(60_000 * power)
    words = next(j for j in report.judgements if j.key == "people")
    assert "at most 9,640 are named on average, and in 95 of 100 runs 13,800" in words.text
    assert "How many of the records" in str(report)
    # without their number nothing is said; where all may be named, the row says nothing
    without = risk.assess(risk.training_run(noise_multiplier=1.0, sampling_rate=1.0, steps=1))
    assert all(e.missing == ("dataset_size",) for e in without.kind("people_named"))
    weak = risk.assess(
        risk.training_run(noise_multiplier=0.3, sampling_rate=1.0, steps=9, dataset_size=50)
    )
    assert "people_named_most[prior_size=10]" in {e.key for e in weak.nothing_useful}

"""Cross-checks and the run that five papers look at: parts by other routes, what breaks them."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from companion.papers.beyond import old_cross_checks as checks
from companion.papers.beyond import old_synthesis as synthesis
from companion.study import Study
from companion.study.verdicts import VerdictError
from reconrisk import DPSGD, bounds, risk

SMALL = {
    "beyond/one_run": {
        "known": 200, "pool": 60, "steps": 20, "sampling_rate": 0.3, "epsilon": 20.0,
        "training_rate": 2.0, "trials": 100, "tests": 100, "attacked": 4, "repeats": 50,
        "iterations": 30, "draws": 100, "prior_sizes": [2, 10, 40],
        "wide_width": 4000, "wide_batch": 2,
    },
    "beyond/worst_case": {"steps": [1], "samples": 5000},
}  # fmt: skip


def test_the_score_of_a_membership_test_is_normal_whatever_the_gradients_follow():
    run = DPSGD(2.0, steps=9)
    rng = np.random.default_rng(0)
    for present, mean in ((False, 0.0), (True, 1.5)):
        scores = checks.adaptive_scores(run, present, 4000, 5, rng)
        assert stats.kstest(scores - mean, "norm").pvalue > 1e-4


@pytest.mark.parametrize(("dimension", "sigma"), [(64, 0.5), (1000, 2.0)])
def test_capacity_and_robustness_meet_at_the_crossing_and_nowhere_else(dimension, sigma):
    nats = checks.crossing(dimension, sigma)
    capacity = float(bounds.bayes_capacity_gaussian(dimension, sigma, 1.0))
    for factor, sharper in ((0.9, "rero"), (1.1, "capacity")):
        by_rero = float(bounds.rero_gaussian(sigma, log_prior_success=-factor * nats, log=True))
        by_capacity = capacity - factor * nats
        assert (by_rero < by_capacity) == (sharper == "rero")


def test_limits_of_a_near_miss_are_in_order():
    for scale in (0.3, 1.0, 5.0):
        mean, shrunken, used, any_network = (checks._jump(law, scale) for law in checks._LAWS)
        assert any_network < shrunken == used < mean
        # two counts of information, as rates of distortion
        assert math.isclose(any_network, math.exp(-2 * (1 / (2 * scale**2))))
        assert math.isclose(used, math.exp(-math.log1p(1 / scale**2)))


def test_a_level_is_found_between_two_epsilons():
    found = synthesis.epsilon_of_level(np.array([1.0, 4.0]), np.array([0.2, 0.4]), 0.3)
    assert found == pytest.approx(2.0)
    assert synthesis.epsilon_of_level(np.array([1.0, 4.0]), np.array([0.2, 0.4]), 0.9) == math.inf


def test_a_small_run_settles_what_it_declares():
    result = Study(seed=2, overrides=SMALL).run("beyond/one_run")
    assert result.status == "holds on stand-in data"
    assert not result.tables["rows"].isna().to_numpy().any()
    assert result.tables["report"]["agrees"].all()


def test_a_wrong_report_is_noticed(monkeypatch):
    right = risk.assess

    def wrong(run, *rest):
        quieter = {"noise_multiplier": 1.01 * run.noise_multiplier}
        kept = ("sampling_rate", "steps", "max_grad_norm", "parameters", "delta")
        return right(risk.training_run(**quieter, **{k: getattr(run, k) for k in kept}), *rest)

    monkeypatch.setattr(synthesis.risk, "assess", wrong)
    with pytest.raises(VerdictError, match="O-058.*not epsilon"):
        Study(seed=2, overrides=SMALL).run("beyond/one_run")


def test_a_bound_that_is_too_small_is_noticed(monkeypatch):
    right = bounds.rero

    def wrong(run, *args, **more):
        found = right(run, *args, **more)
        return type(found)(0.7 * found.lower, 0.7 * found.upper)

    monkeypatch.setattr(checks.bounds, "rero", wrong)
    with pytest.raises(VerdictError, match="beyond/worst_case"):
        Study(overrides=SMALL).run("beyond/worst_case")


def test_the_landing_page_says_what_the_exhibit_computed():
    from companion.study import registry, stored

    page = " ".join((registry.project_root() / "book" / "index.md").read_text().split())
    assert "worse than the mean picture up to $\\varepsilon=100$" in page
    judged = stored.stored_results(registry.project_root())["beyond/epsilon_means"].content
    ours = next(v["ours"] for v in judged["verdicts"] if v["target"] == "O-060")
    values = dict(part.rsplit(" at epsilon ", 1) for part in ours.split(", "))
    # ", " also stands within "1,000 candidates" only without a blank
    assert float(values["RMSE (A)"]) > 100
    assert 7 < float(values["10 candidates"]) < 11  # half of the time at about eight

"""Cross-checks and the run that five papers look at: parts by other routes, what breaks them."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from companion.papers.beyond import (
    capacity_and_rero,
    epsilon_means,
    near_misses,
    one_run,
    orderings,
    worst_case,
)
from companion.study import registry, stored
from made_tables import made
from reconrisk import DPSGD, bounds

# Two papers at a time ----------------------------------------------------------------------------


def test_the_score_of_a_membership_test_is_normal_whatever_the_gradients_follow():
    run = DPSGD(2.0, steps=9)
    rng = np.random.default_rng(0)
    for present, mean in ((False, 0.0), (True, 1.5)):
        scores = worst_case.adaptive_scores(run, present, 4000, 5, rng)
        assert stats.kstest(scores - mean, "norm").pvalue > 1e-4


def test_limits_of_a_near_miss_are_in_order():
    for scale in (0.3, 1.0, 5.0):
        mean, shrunken, used, any_network = (limit(scale) for _, limit in near_misses.LAWS.values())
        assert any_network < shrunken == used < mean
        # two counts of information, as rates of distortion
        assert math.isclose(any_network, math.exp(-2 * (1 / (2 * scale**2))))
        assert math.isclose(used, math.exp(-math.log1p(1 / scale**2)))


@pytest.mark.parametrize(("dimension", "sigma"), [(64, 0.5), (1000, 2.0)])
def test_capacity_and_robustness_meet_at_the_crossing_and_nowhere_else(dimension, sigma):
    nats = capacity_and_rero.crossing(dimension, sigma)
    capacity = float(bounds.bayes_capacity_gaussian(dimension, sigma, 1.0))
    for factor, sharper in ((0.9, "rero"), (1.1, "capacity")):
        by_rero = float(bounds.rero_gaussian(sigma, log_prior_success=-factor * nats, log=True))
        by_capacity = capacity - factor * nats
        assert (by_rero < by_capacity) == (sharper == "rero")


# One run -----------------------------------------------------------------------------------------


def run_tables(third=0.3):
    answers = [
        ("advantage of a membership test", 0.5, "at most", "likelihood ratio", 0.4, 0.02),
        ("success with 2 candidates", 0.9, "at most", "prior-aware", 0.8, 0.02),
        ("the same, orthogonal gradients", 0.85, "-", "", 0.0, 0.0),
        ("mean MSE", 0.5, "equal", "analytic", 0.51, 0.01),
        ("mean MSE, shrunken", 0.2, "equal", "shrunken", 0.2, 0.01),
        ("least MSE of unbiased attacks (Guo et al.)", 0.1, "at least", "analytic", 0.51, 0.01),
        ("probability of a near miss", 0.4, "at most", "gradient matching", 0.0, 0.0),
        ("least RMSE of unbiased attacks (Cramer, Rao)", 0.6, "-", "", 0.0, 0.0),
    ]
    names = ["question", "bound", "holds", "attack", "measured", "standard error"]
    report = pd.DataFrame({"entry": [f"entry {i}" for i in range(10)], "report": 0.3, "here": 0.3})
    report.loc[3, "report"] = third
    report["report lower"] = report["here lower"] = [0.29] * 5 + [math.nan] * 5
    guesses = {"guess": ["mean picture", "nearest neighbour", "gradient matching"],
               "RMSE": [0.3, 0.25, 0.4]}  # fmt: skip
    return made(
        one_run,
        {
            "rows": pd.DataFrame(answers, columns=names),
            "report": report,
            "guesses": guesses,
            "accuracy": [{"test accuracy": 0.8, "classes": 10}],
        },
    )


def test_a_report_that_is_wrong_is_named():
    assert [v.ours for v in one_run.judge(run_tables(third=0.2))][
        1
    ] == "9 of 10 values agree; not entry 3"


def test_pictures_of_one_run():
    tables = run_tables()
    assert len(one_run.draw(tables).axes) == 2


def test_parts_of_the_run():
    assert one_run.share_and_error(np.array([True, False])) == (0.5, math.sqrt(0.5 / 2))
    assert one_run.share_and_error(np.zeros(4)) == (0.0, 0.25)
    row = one_run.Answer("C", "all", "what", 0.5, "at most", "attack", 0.4, 0.1)
    rows = [row, one_run.Answer("D", "", "x", 1.0)]
    shown = one_run.shown_answers(pd.DataFrame(rows, columns=one_run.ANSWER))
    assert shown["measured"].tolist() == ["≤ 0.4", ""]


# What an epsilon means, and orders ---------------------------------------------------------------


def test_a_level_is_found_between_two_epsilons():
    epsilons, values = [1.0, 4.0], [0.2, 0.4]
    assert epsilon_means.epsilon_of_level(epsilons, values, 0.3) == pytest.approx(2.0)
    assert epsilon_means.epsilon_of_level(epsilons, values, 0.9) == math.inf


def order_runs():
    rows = []
    for q, steps in ((1.0, 1), (0.1, 1000)):
        for sigma in (1.0, 2.0):
            risk = q * math.sqrt(steps) / sigma
            rows.append(
                {"q": q, "T": steps, "sigma": sigma, "epsilon": 1 / sigma / (1 + steps / 1000),
                 "advantage": 1 / sigma + (steps == 1), "prior-free": risk + 1}
            )  # fmt: skip
    return pd.DataFrame(rows)


def test_notions_that_order_runs_oppositely_are_found():
    found = {(a, b): told for a, b, told in orderings.reversals(order_runs())}
    assert ("epsilon", "prior-free") in found and ("advantage", "prior-free") in found
    first, second = found["epsilon", "prior-free"].split(" against ")
    assert first.startswith("q = 1, T = 1") and second.startswith("q = 0.1, T = 1,000")


def test_the_landing_page_says_what_the_exhibit_computed():
    page = " ".join((registry.project_root() / "book" / "index.md").read_text().split())
    assert "worse than the mean picture up to $\\varepsilon=100$" in page
    judged = stored.stored_results(registry.project_root())["beyond/epsilon_means"].content
    ours = next(v["ours"] for v in judged["verdicts"] if v["target"] == "O-060")
    values = dict(part.rsplit(" at epsilon ", 1) for part in ours.split(", "))
    # ", " also stands within "1,000 candidates" only without a blank
    assert float(values["RMSE (A)"]) > 100
    assert 7 < float(values["10 candidates"]) < 11  # half of the time at about eight

"""Hayes et al., Algorithms 2 and 3, Appendix G, Figures 3 and 4: what their verdicts notice."""

from __future__ import annotations

import pytest

from companion.papers.hayes2023 import alg2, alg3, appG_attack, fig3, fig4
from companion.papers.hayes2023.prior_aware_trials import split_records
from recorded_tables import altered, recorded, statuses

KEY = "hayes2023"
EXHIBITS = {"alg2": alg2, "alg3": alg3, "appG_attack": appG_attack, "fig3": fig3, "fig4": fig4}


def swap(one: str, other: str):
    """A change of a score's name: one for the other."""
    return lambda rows: rows["score"].replace({one: other, other: one})


def always_right(rows):
    return rows["trials"]


WORLDS = {
    "an attack above the bound": (
        "alg2", "trained", "epsilon == 4", {"right": always_right}, {"alg2"}
    ),
    "an attack no better than a guess": (
        "alg2", "trained", "epsilon == 4", {"low": 0.09}, {"alg2"}
    ),
    "trials that share a trajectory succeed too often": (
        "alg2", "shared trajectory", "epsilon == 10", {"success": lambda r: r["success"] + 0.15},
        {"alg2"},
    ),
    "inner products with another mean": (
        "alg2", "law", "", {"target": lambda r: r["target"] + 0.1 * r["sigma"]}, {"C-016"}
    ),
    "inner products with a wider law": (
        "alg2", "law", "", {"other": lambda r: 1.1 * r["other"]}, {"C-016"}
    ),
    "another candidate's mean is one, too": (
        "alg2", "law", "", {"other": lambda r: r["other"] - r["cosine"] + 1}, {"C-016"}
    ),
    "the sum is the better score under sub-sampling": (
        "alg3", "trained", "", {"score": swap("sum", "top")}, {"alg3"}
    ),
    "Algorithm 3 beats the bound": (
        "alg3", "trained", "epsilon == 4 and score == 'top'", {"right": always_right}, {"alg3"}
    ),
    "the likelihood is no better than the sum": (
        "appG_attack", "scores", "score == 'sum'", {"only_likelihood": 0}, {"appG_attack"}
    ),
    "the likelihood is behind Algorithm 3": (
        "appG_attack", "scores", "score == 'top'", {"only_this": 900}, {"appG_attack"}
    ),
    "the formula works as printed": (
        "appG_attack", "scores", "score == 'as printed'", {"right": lambda r: r["trials"] // 2},
        {"E-C-02", "C-043"},
    ),
    "the product with the prior is as good": (
        "appG_attack", "scores", "score == 'times prior'", {"only_likelihood": 0},
        {"E-C-03", "C-043"},
    ),
    "with the prior it is no better than the prior alone": (
        "appG_attack", "scores", "score == 'likelihood' and run == 'with a prior'", {"high": 0.65},
        {"E-C-03", "C-043"},
    ),
    "larger priors are easier": (
        "fig3", "shared trajectory", "epsilon == 10",
        {"right": lambda r: r["right"].to_numpy()[::-1]}, {"fig3", "C-021"},
    ),
    "trained trials above the bound": (
        "fig3", "trained", "epsilon == 1 and n == 64", {"right": always_right}, {"fig3"}
    ),
    "the gap widens at epsilon = 4": (
        "fig3", "shared trajectory", "epsilon == 4 and n > 2000", {"success": -0.1},
        {"C-022", "E-C-19"},
    ),
    "a wide gap at a small epsilon": (
        "fig3", "shared trajectory", "epsilon == 4 and n == 1024",
        {"success": lambda r: r["bound"] - 0.12}, {"C-023"},
    ),
    "models that classify well": ("fig3", "accuracy", "", {"test_accuracy": 0.92}, {"C-030"}),
    "Algorithm 2 is the better one at large epsilon": (
        "fig4", "trained", "", {"score": swap("sum", "top")}, {"fig4"}
    ),
    "the likelihood is behind the sum": (
        "fig4", "trained", "score == 'sum' and epsilon == 8", {"only_this": 900},
        {"fig4", "C-024", "E-C-15"},
    ),
    "Algorithm 3 is the better one at every epsilon": (
        "fig4", "curve", "", {"sum": 0.1}, {"C-024", "E-C-15"}
    ),
    "the likelihood is not the best in the exact model": (
        "fig4", "curve", "epsilon == 32", {"likelihood": 0.5}, {"C-024", "E-C-15"}
    ),
}  # fmt: skip


@pytest.mark.parametrize("exhibit", EXHIBITS)
def test_recorded_runs_are_judged_as_ever(exhibit):
    found = statuses(recorded(f"{KEY}/{exhibit}"))
    assert "failed" not in found.values()
    assert found[f"{KEY}/{exhibit}"] == "reproduced"


@pytest.mark.parametrize("world", WORLDS)
def test_a_world_in_which_a_claim_is_false_is_noticed(world):
    exhibit, table, rows, columns, expected = WORLDS[world]
    found = statuses(altered(recorded(f"{KEY}/{exhibit}"), table, rows, **columns))
    failed = {target.removeprefix(f"{KEY}/") for target, s in found.items() if s == "failed"}
    assert failed == expected


@pytest.mark.parametrize(("exhibit", "axes"), [("alg2", 2), ("alg3", 1), ("appG_attack", 3),
                                               ("fig3", 2), ("fig4", 1)])  # fmt: skip
def test_pictures_are_drawn_of_recorded_tables_and_described_by_them(exhibit, axes):
    module, tables = EXHIBITS[exhibit], recorded(f"{KEY}/{exhibit}")
    assert len(module.draw(tables).axes) == axes
    name, column = {
        "alg2": ("shared trajectory", "success"), "alg3": ("trained", "success"),
        "appG_attack": ("scores", "success"), "fig3": ("shared trajectory", "success"),
        "fig4": ("curve", "bound"),
    }[exhibit]  # fmt: skip
    lower = altered(tables, name, **{column: lambda rows: rows[column] / 2})
    assert module.alt(lower) != module.alt(tables)


def test_known_records_and_candidates_are_distinct_and_drawn_by_the_seed():
    split = split_records("digits", "", 3, 50, 40, "cpu")
    assert len(split.known[1]) == 50 and len(split.pool[1]) == 40
    shown = {tuple(x.tolist()) for x in (*split.known[0], *split.pool[0])}
    assert len(shown) == 90
    assert not (split_records("digits", "", 4, 50, 40, "cpu").known[0] == split.known[0]).all()

"""Hayes et al., Algorithms 2 and 3, Appendix G, Figures 3 and 4: records, pictures, data."""

from __future__ import annotations

import pytest

from companion.papers.hayes2023 import alg2, alg3, appG_attack, fig3, fig4
from companion.papers.hayes2023.prior_aware_trials import split_records
from companion.study.exhibits import describe_figure
from recorded_tables import altered, recorded, statuses

KEY = "hayes2023"
EXHIBITS = {"alg2": alg2, "alg3": alg3, "appG_attack": appG_attack, "fig3": fig3, "fig4": fig4}


@pytest.mark.parametrize("exhibit", EXHIBITS)
def test_recorded_runs_are_judged_as_ever(exhibit):
    found = statuses(recorded(f"{KEY}/{exhibit}"))
    assert "failed" not in found.values()
    # how tight Algorithm 3 is turns with the learning rate
    assert found[f"{KEY}/{exhibit}"] == ("not decided" if exhibit == "fig4" else "reproduced")


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
    assert describe_figure(module, lower) != describe_figure(module, tables)


def test_known_records_and_candidates_are_distinct_and_drawn_by_the_seed():
    split = split_records("digits", "", 3, 50, 40, "cpu")
    assert len(split.known[1]) == 50 and len(split.pool[1]) == 40
    shown = {tuple(x.tolist()) for x in (*split.known[0], *split.pool[0])}
    assert len(shown) == 90
    assert not (split_records("digits", "", 4, 50, 40, "cpu").known[0] == split.known[0]).all()

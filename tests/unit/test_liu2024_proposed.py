"""The exhibits of Liu et al.'s attack and its parts: their verdicts fail in other worlds."""

from __future__ import annotations

import numpy as np
import pytest

from altered_tables import altered, recorded, statuses, stored
from companion.papers.beyond import matching_arms
from companion.papers.liu2024 import alg_greedy, alg_reweight
from companion.papers.liu2024.proposed_runs import Bench, by_size, same_order
from companion.study import Study
from companion.study.registry import project_root


def test_the_attack_at_work():
    found = statuses(recorded("liu2024/alg_proposed"))
    assert found["liu2024/alg_proposed"] == {"holds on stand-in data"}
    assert (found["E-E-06"], found["E-E-07"]) == ({"not decided"}, {"misprint"})


def test_greedy_matching_holds_of_few_sets():
    study = Study(overrides={"liu2024/alg_greedy": {"sets": 10, "dimension": 64}})
    assert set.union(*statuses(alg_greedy.measure(study)).values()) == {"reproduced"}


def test_the_weights_count_every_parameter_once():
    settings = {"wide": 40, "trained_neurons": 8, "channels": 4}
    study = Study(overrides={"liu2024/alg_reweight": settings}).context("liu2024/alg_reweight")
    shares = alg_reweight._shares(study)
    network = Bench.of(study).model()
    entries = dict(zip(shares["layer"], shares["entries"] * network.parameter_count, strict=True))
    assert entries["wide layer"] == pytest.approx(network.wide.weight.numel() + 40)
    np.testing.assert_allclose(shares.drop(columns="layer").sum(), 1)


@pytest.mark.parametrize("exhibit", ["liu2024/table3", "liu2024/table6"])
def test_a_trained_distance_orders_methods_alike_otherwise_or_undecidedly(exhibit):
    tables = stored(exhibit)
    trained = tables["gaps"]["metric"] == "ST-LPIPS"

    def status(gap, error=0.1, sign=1):
        return same_order(
            altered(
                tables,
                {"gaps": lambda t: t.assign(gap=np.where(trained, sign, 1) * gap, error=error)},
            )
        ).status

    assert status(1.0) == "holds on stand-in data"
    assert status(1.0, sign=-1) == "failed"  # a quick run's outcome is known
    assert status(1.0, error=0.3) == status(0.3, sign=-1) == "not decided"


def test_runs_without_the_trained_distance_say_so():
    """Table 6's recorded run, and readers without the package."""
    tables = stored("liu2024/table3")
    untrained = altered(tables, {"gaps": lambda t: t[t["metric"] == "LPIPS"]})
    for one in (untrained, recorded("liu2024/table6")):
        assert same_order(one).status == "not run here"


def test_arms_are_judged_where_no_search_ends_above_the_truth():
    tables = stored("beyond/matching_arms")

    def status(gain, error=0.1, above=0.9, cosine=1.0):
        world = altered(
            tables,
            {
                "gains": lambda t: t.assign(**{"PSNR": gain, "standard error": error}),
                "ends": lambda t: t.assign(objective=above * t["at the truth"], cosine=cosine),
            },
        )
        found = {v.target: v.status for v in matching_arms.judge(world)}
        return found["O-146"], found["beyond/matching_arms"]

    assert status(3.0)[0] == "holds on stand-in data"
    assert status(0.0)[0] == "differs on stand-in data"
    # too few batches, and searches that have not finished
    assert status(3.0, error=1.0)[0] == status(3.0, above=1.01)[0] == "not decided"
    assert status(3.0, cosine=0.9)[1] == "failed"


def test_table_3_is_told_with_the_records_numbers():
    cells = by_size(recorded("liu2024/table3")["cells"], "ST-LPIPS")
    assert cells.loc[16].idxmin() == cells.loc[32].idxmax() == "Ours"
    script = project_root() / "notebooks" / "liu2024" / "04_the_proposed_attack.py"
    assert "the proposed attack is first in batches of 16 and last in 32." in script.read_text(
        encoding="utf-8"
    )

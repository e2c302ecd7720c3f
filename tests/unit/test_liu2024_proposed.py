"""The exhibits of Liu et al.'s attack and its parts: their verdicts fail in other worlds."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from altered_tables import altered, recorded, statuses
from companion.papers.liu2024 import alg_greedy, alg_proposed, alg_reweight, table3, table6
from companion.papers.liu2024.proposed_runs import Bench, strip
from companion.study import Study
from companion.study.exhibits import describe_figure

# The attack at work ------------------------------------------------------------------------------


@pytest.fixture
def at_work():
    """The recorded tables with what each method reached, which that run did not keep."""
    reached = {"Ours": 18.0, alg_proposed.PAINTED: 19.0, "grey pictures": 11.0}
    table = pd.DataFrame(reached.items(), columns=["method", "PSNR"])
    return altered(recorded("liu2024/alg_proposed"), {"reached": table})


def test_the_attack_at_work(at_work):
    found = statuses(at_work)
    assert found["liu2024/alg_proposed"] == {"holds on stand-in data"}
    assert (found["E-E-06"], found["E-E-07"]) == ({"not decided"}, {"misprint"})
    # the record itself kept the course of the first batch only
    assert statuses(recorded("liu2024/alg_proposed")) == found


def test_the_attack_at_work_is_drawn(at_work):
    images = {name: strip(np.zeros((4, 8, 8, 3))) for name in ("original", "Ours")}
    pictured = altered(at_work, {}, images=images)
    figure = alg_proposed.draw(pictured)
    assert sum(len(part.axes) for part in figure.subfigs) == 3 + len(images)
    assert "share inside" in describe_figure(alg_proposed, pictured)["alt"]


# Greedy matching ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def matchings():
    study = Study(overrides={"liu2024/alg_greedy": {"sets": 10, "dimension": 64}})
    return alg_greedy.measure(study)


def test_greedy_matching_is_judged_and_drawn(matchings):
    assert statuses(matchings) == {"liu2024/alg_greedy": {"reproduced"}, "E-035": {"reproduced"}}
    assert len(alg_greedy.draw(matchings).axes) == 2


# Reweighting and the ablation --------------------------------------------------------------------


def test_the_weights_count_every_parameter_once():
    settings = {"wide": 40, "trained_neurons": 8, "channels": 4}
    study = Study(overrides={"liu2024/alg_reweight": settings}).context("liu2024/alg_reweight")
    shares = alg_reweight._shares(study)
    network = Bench.of(study).model()
    entries = dict(zip(shares["layer"], shares["entries"] * network.parameter_count, strict=True))
    assert entries["wide layer"] == pytest.approx(network.wide.weight.numel() + 40)
    np.testing.assert_allclose(shares.drop(columns="layer").sum(), 1)


def test_the_ablations_are_drawn():
    assert len(alg_reweight.draw(recorded("liu2024/alg_reweight")).axes) == 2
    assert len(table6.draw(recorded("liu2024/table6")).axes) == 6
    images = {name: strip(np.zeros((8, 8, 8, 3)), 8) for name in ("original", "Ours")}
    assert table3.draw(altered(recorded("liu2024/table3"), {}, images=images)).subfigs

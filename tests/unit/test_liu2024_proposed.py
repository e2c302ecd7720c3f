"""The exhibits of Liu et al.'s attack and its parts: their verdicts fail in other worlds."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from altered_tables import altered, recorded, statuses
from companion.papers.liu2024 import alg_greedy, alg_proposed, alg_reweight, table3, table6
from companion.papers.liu2024.proposed_runs import Bench, strip
from companion.study import Study
from companion.study.exhibits import described


def _set(where: str, column: str, value: object):
    """Sets a column where a query holds."""

    def change(table: pd.DataFrame) -> pd.DataFrame:
        table.loc[table.query(where).index, column] = value
        return table

    return change


# The attack at work ------------------------------------------------------------------------------


@pytest.fixture
def at_work():
    """The recorded tables with what each method reached, which that run did not keep."""
    reached = {"Ours": 18.0, alg_proposed.PAINTED: 19.0, "grey pictures": 12.0}
    table = pd.DataFrame(reached.items(), columns=["method", "PSNR"])
    return altered(recorded("liu2024/alg_proposed"), {"reached": table})


def test_the_attack_at_work(at_work):
    found = statuses(at_work)
    assert found["liu2024/alg_proposed"] == {"holds on stand-in data"}
    assert found["E-E-06"] == found["E-E-07"] == found["E-E-19"] == {"refuted"}
    grey = altered(at_work, {"reached": _set("method == 'Ours'", "PSNR", 13.0)})
    assert statuses(grey)["liu2024/alg_proposed"] == {"failed"}
    published = _set("how == 'one sum, tensor' and `batch size` == 4", "cosine", 0.99)
    assert statuses(altered(at_work, {"features": published}))["liu2024/alg_proposed"] == {"failed"}
    missed = _set("how == 'all classes, order 2' and `batch size` == 8", "cosine", 0.7)
    assert statuses(altered(at_work, {"features": missed}))["liu2024/alg_proposed"] == {"failed"}


def test_a_regulariser_that_works_as_printed_is_noticed(at_work):
    last = "reading == 'printed: share inside' and iteration == 60"
    assert statuses(altered(at_work, {"regulariser": _set(last, "inside", 0.9)}))["E-E-19"] == {
        "failed"
    }
    corrected = "reading == 'corrected: share outside' and iteration == 60"
    idle = altered(at_work, {"regulariser": _set(corrected, "inside", 0.5)})
    assert statuses(idle)["E-E-19"] == {"failed"}


def test_the_attack_at_work_is_drawn(at_work):
    images = {name: strip(np.zeros((4, 8, 8, 3))) for name in ("original", "Ours")}
    figure = alg_proposed.draw(altered(at_work, {}, images=images))
    assert sum(len(part.axes) for part in figure.subfigs) == 3 + len(images)
    assert "as printed" in described(alg_proposed, at_work)["alt"]


# Greedy matching ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def matchings():
    study = Study(overrides={"liu2024/alg_greedy": {"sets": 10, "dimension": 64}})
    return alg_greedy.measure(study)


def test_greedy_matching_is_judged_and_drawn(matchings):
    assert statuses(matchings) == {"liu2024/alg_greedy": {"reproduced"}, "E-035": {"reproduced"}}
    assert len(alg_greedy.draw(matchings).axes) == 2
    better = altered(matchings, {"matchings": lambda t: t.assign(greedy=1.1 * t["best"])})
    assert statuses(better)["liu2024/alg_greedy"] == {"failed"}
    worse = altered(matchings, {"matchings": lambda t: t.assign(greedy=0.95 * t["best"])})
    assert statuses(worse)["E-035"] == {"failed"}
    wrong = _set("noise == 0.2", "greedy right", 0.5)
    assert statuses(altered(matchings, {"matchings": wrong}))["E-035"] == {"failed"}


# Reweighting and the ablation --------------------------------------------------------------------


def test_reweighting_fails_in_other_worlds():
    tables = altered(recorded("liu2024/alg_reweight"), {}, profile="quick")
    gained = altered(tables, {"cells": _set("method == 'count'", "value", 30.0)})
    assert statuses(gained)["E-027"] == {"holds on stand-in data"}
    lost = altered(tables, {"cells": _set("method == 'count'", "value", 5.0)})
    assert statuses(lost)["E-027"] == {"failed"}
    printed = altered(gained, {"printed": _set("method == 'w/o FM'", "value", 1.0)})
    assert statuses(printed)["E-027"] == {"failed"}
    alike = altered(tables, {"weights": _set("layer == 'convolutions'", "joint", 0.9)})
    assert statuses(alike)["liu2024/alg_reweight"] == {"failed"}
    assert len(alg_reweight.draw(tables).axes) == 2


def test_the_weights_count_every_parameter_once():
    settings = {"wide": 40, "trained_neurons": 8, "channels": 4}
    study = Study(overrides={"liu2024/alg_reweight": settings}).context("liu2024/alg_reweight")
    shares = alg_reweight._shares(study)
    network = Bench.of(study).model()
    entries = dict(zip(shares["layer"], shares["entries"] * network.parameter_count, strict=True))
    assert entries["wide layer"] == pytest.approx(network.wide.weight.numel() + 40)
    np.testing.assert_allclose(shares.drop(columns="layer").sum(), 1)


def test_the_ablation_fails_in_other_worlds():
    tables = altered(recorded("liu2024/table6"), {}, profile="quick")

    def ablation(table: pd.DataFrame) -> pd.DataFrame:
        """Every part improves every metric, larger batches are worse."""
        rank = table["method"].map({"w/o GR and FM": 0, "w/o FM": 1, "Ours": 2})
        size = np.log2(table["batch size"])
        sign = table["metric"].map({"PSNR": 1, "RMSE": -1, "LPIPS": -1})
        return table.assign(value=20 + sign * (rank - size))

    world = statuses(altered(tables, {"cells": ablation}))
    assert world["liu2024/table6"] == {"holds on stand-in data"}
    # known to differ: these would be news
    assert world["E-028"] == world["E-029"] == {"failed"}
    idle = altered(tables, {"cells": _set("method == 'w/o FM'", "value", 10.0)})
    assert statuses(idle)["liu2024/table6"] == {"failed"}

    def as_printed(sweep: pd.DataFrame) -> pd.DataFrame:
        chosen = np.isclose(sweep["value"], sweep["weight"].map(table6.CHOSEN))
        return sweep.assign(PSNR=np.where(chosen, 30.0, 20.0))

    assert statuses(altered(tables, {"sweep": as_printed}))["E-036"] == {"failed"}
    assert len(table6.draw(tables).axes) == 6


def test_table_3_fails_in_other_worlds():
    tables = altered(recorded("liu2024/table3"), {}, profile="quick")
    near = altered(tables, {"cells": _set("method == 'Ours'", "value", 0.1)})
    assert statuses(near) == {
        "liu2024/table3": {"holds on stand-in data"},
        "E-017": {"failed"},  # known to differ
    }
    far = altered(tables, {"cells": _set("method == 'Ours'", "value", 5.0)})
    assert statuses(far) == {"liu2024/table3": {"failed"}, "E-017": {"differs"}}
    images = {name: strip(np.zeros((8, 8, 8, 3)), 8) for name in ("original", "Ours")}
    assert table3.draw(altered(tables, {}, images=images)).subfigs

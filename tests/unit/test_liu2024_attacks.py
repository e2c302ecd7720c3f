"""Liu et al.'s tables of attacks: what is printed, what it can mean, and that checks can fail."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest

from altered_tables import add_to, altered, recorded, statuses
from companion.papers.liu2024 import defence_errors, fig2, fig4, table4, table7, table8
from companion.papers.liu2024.error_moments import (
    can_belong_together,
    largest_mean_psnr,
    least_mean_psnr,
)
from companion.study import Study, registry
from companion.study.exhibits import describe_figure
from companion.study.falsifiers import World, column

# Means and deviations of two errors ------------------------------------------------------------


@pytest.mark.parametrize("seed", range(6))
def test_what_pictures_really_have_is_possible(seed):
    rng = np.random.default_rng(seed)
    errors = np.clip(rng.lognormal(-1.8, 0.2 + 0.15 * seed, 50), 1e-4, 1)
    decibels = -20 * np.log10(errors)
    four = [errors.mean(), errors.std(ddof=1), decibels.mean(), decibels.std(ddof=1)]
    rounded = [round(float(v), 2) for v in four]
    assert can_belong_together(*rounded)
    assert least_mean_psnr(rounded[0]) <= rounded[2]
    assert rounded[2] <= largest_mean_psnr(rounded[0], rounded[1], rounded[3])


def test_jensens_bound_is_attained_by_equal_errors():
    assert least_mean_psnr(0.1 - 0.005) == pytest.approx(20)
    assert can_belong_together(0.1, 0.0, 20.0, 0.0)
    assert not can_belong_together(0.1, 0.0, 21.0, 0.0)
    assert not can_belong_together(0.1, 0.0, 19.0, 0.0)


def test_an_error_cannot_deviate_by_more_than_its_mean_allows():
    # numbers in [0, 1] with mean m: at most sqrt(m (1 - m)), over which sqrt(2) is forgiven
    assert not can_belong_together(0.31, 0.71, 10.54, 1.38)
    assert math.isnan(largest_mean_psnr(0.31, 0.71, 1.38))


def test_the_printed_columns_contradict_each_other():
    # Table 7, batch size 2, no defence: 0.15 (0.04) and 23.69 (5.69)
    assert not can_belong_together(0.15, 0.04, 23.69, 5.69)
    most = largest_mean_psnr(0.15, 0.04, 5.69)
    # two errors, one small enough to use up the spread of the PSNR, reach nearly that
    share = np.linspace(1e-3, 0.2, 400)[:, None]
    small = np.geomspace(1e-5, 0.1, 400)
    large = (0.155 - share * small) / (1 - share)
    spread = np.sqrt(share * (1 - share)) * 20 * np.log10(large / small)
    deviation = np.sqrt(share * (1 - share)) * (large - small)
    fits = (spread <= 5.695) & (deviation <= 0.045)
    mean = -20 * (share * np.log10(small) + (1 - share) * np.log10(large))
    assert 17 < mean[fits].max() <= most < 20


# What is printed ---------------------------------------------------------------------------------


def test_printed_tables_are_read_whole():
    read = defence_errors.printed_errors
    assert [len(read(f"table{k}")) for k in (4, 7, 8)] == [180, 45, 45]
    four = read("table4")
    assert set(four["attack"]) == set(table4.PRINTED)
    row = four[(four["attack"] == "CPA") & (four["batch size"] == 8)].set_index("setting")
    assert row.loc["GradPrune p=0.99", "RMSE"] == 0.33
    seven = read("table7").set_index(["batch size", "setting"])
    assert seven.loc[(8, "LocalAggregation steps=5"), "PSNR sd"] == 2.20
    assert seven.loc[(2, "None"), "RMSE"] == 0.15


# Judging -----------------------------------------------------------------------------------------


def test_both_errors_of_a_cell_are_bounded_as_recorded():
    tables = recorded("liu2024/table7")
    first = table7.bounded_psnr("table7", defence_errors.printed_errors("table7").head(1))
    pd.testing.assert_frame_equal(
        first, tables["both errors"].head(1).astype({"most PSNR": str}), check_dtype=False
    )


def test_table_7_is_judged_on_its_own_tables():
    tables = altered(recorded("liu2024/table7"), {}, profile="quick")
    fewer = altered(tables, {"ours": lambda table: table[table["batch size"] < 8]})
    assert statuses(fewer)["E-034"] == {"reproduced"}


def test_figure_2_sees_a_larger_difference_than_its_spread():
    tables = altered(recorded("liu2024/fig2"), {}, profile="quick")
    assert statuses(tables)["E-019"] == {"holds on stand-in data"}
    rng = np.random.default_rng(0)
    errors = 0.1 + 0.05 * rng.random(16)
    for scatter, found in ((0.05, "not decided"), (0.005, "holds on stand-in data")):
        other = errors + 0.01 + scatter * rng.standard_normal(16)
        pairs = pd.DataFrame({"GradientInversion": other, "Ours": errors})
        assert found in statuses(altered(tables, {"undefended": pairs}))["E-019"]
    pruned = "setting == 'GradPrune p=0.99'"
    assert statuses(tables)["E-018"] == {"failed"}
    unseen = altered(tables, {"errors": add_to("RMSE", 0.2, pruned)})
    assert statuses(unseen)["E-018"] == {"holds on stand-in data"}
    scattered = {"errors": lambda table: table.assign(**{"RMSE error": 0.1})}
    assert statuses(altered(unseen, scattered))["E-018"] == {"not decided"}


def test_units_of_the_rmse_are_found():
    rng = np.random.default_rng(0)
    errors = rng.uniform(0.1, 0.3, 40)
    decibels = 6.0 - 20 * np.log10(errors)  # the RMSE in units of half a pixel's range
    four = {"RMSE": errors, "PSNR": decibels}
    row = {name: round(v.mean(), 2) for name, v in four.items()}
    row |= {f"{name} sd": round(v.std(), 2) for name, v in four.items()}
    found = table7.in_other_units(pd.DataFrame([row])).set_index("dB")["possible"]
    assert found[6] == 1 and found[0] == 0


@pytest.mark.parametrize(
    ("larger", "status"),
    [(1.0, "holds on stand-in data"), (1.2, "not decided"), (3.0, "differs on stand-in data")],
)
def test_clipping_that_changes_errors_beyond_their_scatter_differs(larger, status):
    clipped = column("ours", "RMSE", lambda c: larger * c, "defence == 'GradClip'")
    tables = clipped(World(recorded("liu2024/table7"))).tables
    *_, control = (v for v in table7.judge(tables) if v.target == "liu2024/table7")
    assert control.status == status
    as_quick = altered(tables, {}, profile="quick")
    *_, control = (v for v in table7.judge(as_quick) if v.target == "liu2024/table7")
    assert control.status == ("failed" if larger > 1 else status)


def test_runs_with_other_parameters_are_judged_as_they_come_out():
    tables = recorded("liu2024/fig4")
    assert tables.profile == "paper"
    gained = altered(tables, {"gains": lambda table: table.assign(PSNR=1.0)})
    assert statuses(gained)["liu2024/fig4"] == {"reproduced", "holds on stand-in data"}
    fewer = {"control": lambda table: table.assign(**{"standard error": 0.3})}
    assert "not decided" in statuses(altered(gained, fewer))["liu2024/fig4"]
    genuine = altered(gained, {}, stand_ins=())
    assert statuses(genuine)["liu2024/fig4"] == {"reproduced"}


# What the page says ------------------------------------------------------------------------------


def test_the_page_has_the_records_numbers():
    page = (registry.project_root() / "book/papers/liu2024.md").read_text(encoding="utf-8")
    gains = recorded("liu2024/fig4")["gains"].set_index(["batch size", "defence", "strength"])
    gains = gains["PSNR"]
    noises = {n: [gains[n, "GradNoise", s] for s in (0.01, 0.05, 0.1)] for n in (2, 4, 8)}
    two, four, eight = (_listed(values) for values in noises.values())
    assert f"0.01, 0.05 and 0.1 {two} dB in batches of two, {four} in batches of four" in page
    assert f"{eight} in batches of eight" in page
    assert "it gains in 14 of 15 settings" in page
    assert (gains[8] > 0).sum() == 14 and len(gains[8]) == 15
    assert "costs up to 0.7 dB" in page and f"{-gains[[2, 4]].min():.1f}" == "0.7"
    for table in ("table7", "table8"):
        errors = recorded(f"liu2024/{table}")["ours"].set_index(["batch size", "setting"])["RMSE"]
        plain = errors.xs("None", level="setting")
        for c in (2, 4, 8):
            assert (errors.xs(f"GradClip C={c}", level="setting") - plain).abs().max() < 1e-3
    own = recorded("liu2024/table7")["ours"].set_index(["batch size", "setting"])["PSNR"]
    assert f"in batches of two is then {own[2, 'None']:.1f}" in page
    cells = recorded("liu2024/table6")["cells"].query("metric == 'PSNR'")
    wide = cells.pivot(index="batch size", columns="method", values="value")
    matched, random = (wide[name] - wide["w/o FM"] for name in ("Ours", "random vectors"))
    assert f"matching gains {_listed(matched)} dB at batch sizes 4, 8, 16 and 32" in page
    assert f"they gain {_listed(random)} dB." in page


def _listed(values):
    *first, last = (f"{value:.1f}" for value in values)
    return f"{', '.join(first)} and {last}"


# Drawing -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("module", [table4, table7, table8, fig4])
def test_batch_sizes_that_are_not_printed_are_drawn_without_their_numbers(module):
    tables = recorded(f"liu2024/{module.__name__.rpartition('.')[2]}")

    def other(table: pd.DataFrame) -> pd.DataFrame:
        return table.assign(**{"batch size": table["batch size"].replace(8, 16)})

    more = altered(tables, {"ours": other})
    assert len(module.draw(more).axes) == len(module.draw(tables).axes)
    assert describe_figure(module, more)["alt"]


def test_a_batch_of_two_pictures_is_drawn():
    tables = recorded("liu2024/fig2")
    names = ["original", *(f"{a}, {s.title}" for a in fig2.PAIR for s in fig2.SETTINGS)]
    images = {f"{name} {i}": np.full((8, 8, 3), 0.1 * i) for name in names for i in range(2)}
    figure = fig2.draw(altered(tables, {}, images=images))
    assert len(figure.axes) == 3 * len(fig2.SETTINGS)


# What is run -------------------------------------------------------------------------------------


def test_imprints_lose_more_records_in_larger_batches(monkeypatch):
    monkeypatch.setattr(table4, "BATCHES", 500)
    study = Study(overrides={"liu2024/table4": {"batch_sizes": [1, 8]}})
    found = table4.imprints_by_batch(study.context("liu2024/table4"))
    assert found["exact"].iloc[0] == 1
    assert (found["exact"].diff().dropna() < 0).all()
    gap = (found["exact"] - found["alone in a bin"]).abs()
    assert (gap <= 4 * found["exact error"] + 0.01).all()


def test_means_of_exact_pictures_are_finite():
    rows = pd.DataFrame(
        {
            "attack": "Analytic",
            "batch size": 2,
            "defence": "None",
            "strength": 0.0,
            "setting": "None",
            "aware": False,
            "RMSE": [0.0, 0.1],
            "PSNR": [np.inf, 20.0],
            "gradient norm": 1.0,
            "relative noise": 0.0,
        }
    )
    (row,) = defence_errors.mean_errors(rows).to_dict("records")
    assert row["PSNR"] == 60.0 and row["RMSE"] == pytest.approx(0.05)


def test_gains_are_taken_picture_by_picture():
    cell = {"batch size": 2, "defence": "None", "strength": 0.0, "setting": "None"}
    rows = [
        {**cell, "number": number, "attack": attack, "RMSE": error, "PSNR": -20 * math.log10(error)}
        for number, errors in enumerate(((0.1, 0.2), (0.3, 0.4)))
        for attack, error in zip(("Ours", "w/o FM"), errors, strict=True)
    ]
    (gain,) = defence_errors.gains_of_matching(pd.DataFrame(rows)).to_dict("records")
    assert gain["RMSE"] == pytest.approx(0.1) and gain["RMSE error"] == pytest.approx(0, abs=1e-12)
    assert gain["PSNR"] == pytest.approx((20 * math.log10(2) + 20 * math.log10(4 / 3)) / 2)

"""Fresh outputs against stored ones: equal, or as far off as other kernels are seen to be."""

from __future__ import annotations

import copy
import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from companion.book.refresh import store_spread
from companion.study import Study, Tables, check, find_exhibit
from companion.study.outputs import accept_other_kernels
from companion.study.records import FOLDER, write_record
from companion.study.results import RESULT_MIME
from companion.study.running import judge
from companion.study.spread import TIMES, compute_spread, find_departures, read_spread, write_spread

ERRORS = pd.DataFrame({"name": ["a", "b"], "mse": [1e-4, 2.0], "found": [True, False]})
STORED = Tables({"all errors": ERRORS}, exhibit="ziller2024/fig1")


def with_errors(**columns: object) -> Tables:
    return replace(STORED, frames={"all errors": ERRORS.assign(**columns)})


MOVED = {"own": with_errors(mse=[1.1e-4, 2.02]), "plain": with_errors(mse=[1e-4, 1.98])}
SPREAD = compute_spread(STORED, MOVED)


def test_the_spread_is_the_largest_difference_absolute_and_relative(tmp_path):
    (own, plain) = SPREAD["all-errors"]["mse"].values()
    assert own == pytest.approx((0.02, 1 - 1 / 1.1), rel=0.01)
    assert plain == pytest.approx((0.02, 0.01), rel=0.01)
    assert min(own[0], plain[0]) >= 0.02  # rounded up: what was measured is within it
    write_spread(SPREAD, tmp_path)
    assert {k: {c: {s: tuple(v) for s, v in by.items()} for c, by in t.items()}
            for k, t in read_spread(tmp_path).items()} == SPREAD  # fmt: skip
    write_spread({}, tmp_path)
    assert not list(tmp_path.iterdir()) and read_spread(tmp_path) == {}


def test_rounding_errors_have_no_spread():
    moved = with_errors(mse=np.nextafter(ERRORS["mse"], 1))
    assert compute_spread(STORED, {"own": moved}) == {}
    assert list(find_departures(STORED, moved, {})) == []


@pytest.mark.parametrize(
    ("mse", "accepted"),
    [
        ([1e-4, 2.0 + 0.02 * TIMES * 0.99], True),
        ([1e-4, 2.0 + 0.02 * TIMES * 1.02], False),
        ([1.3e-4, 2.0], True),
        ([3e-4, 2.0], False),  # a tiny number is held by its relative spread
        ([np.nan, 2.0], False),
        ([np.inf, 2.0], False),
    ],
)
def test_a_number_is_accepted_within_the_spread_of_its_column(mse, accepted):
    faults = list(find_departures(STORED, with_errors(mse=mse), SPREAD))
    assert (faults == []) is accepted
    assert all(fault.startswith("all errors, mse: off by") for fault in faults)


def test_a_difference_that_no_text_shows_is_allowed_where_kernels_move_a_column():
    """A thousandth of the largest number, and of each: no text has a fourth digit of it."""
    spread = {"all-errors": {"mse": {"own": (1e-9, 1e-9)}}}
    for mse, accepted in (
        ([1e-4, 2.0018], True),
        ([1e-4, 2.0022], False),
        ([1.0008e-4, 2.0], True),
        ([1.002e-4, 2.0], False),
    ):
        assert (not list(find_departures(STORED, with_errors(mse=mse), spread))) is accepted


def test_what_no_kernels_move_must_be_equal():
    for columns in ({"mse": [1e-4, 2.0 + 1e-8]}, {"name": ["a", "c"]}, {"found": [True, True]}):
        (fault,) = find_departures(STORED, with_errors(**columns), {})
        assert fault.endswith("other kernels do not move it")


def test_texts_move_by_the_share_of_their_rows():
    spread = compute_spread(STORED, {"own": with_errors(name=["a", "c"])})
    assert spread == {"all-errors": {"name": {"own": (1.0, 1.0)}}}  # twice a half
    assert list(find_departures(STORED, with_errors(name=["x", "y"]), spread)) == []


@pytest.mark.parametrize("table", [ERRORS.iloc[:1], ERRORS.rename(columns={"mse": "MSE"})])
def test_no_kernels_may_change_the_shape_of_a_table(table):
    other = replace(STORED, frames={"all errors": table})
    with pytest.raises(ValueError, match="ziller2024/fig1: with kernels own, all errors has"):
        compute_spread(STORED, {"own": other})
    assert len(list(find_departures(STORED, other, SPREAD))) == 1
    assert list(find_departures(STORED, replace(STORED, frames={}), SPREAD)) == [
        "tables on one side only: all-errors"
    ]


def test_a_verdict_that_turns_with_the_kernels_is_refused(project, tmp_path, monkeypatch):
    exhibit = find_exhibit("ziller2024/fig1")
    tables = exhibit.file.measure(Study())
    other = replace(tables, frames={"draws": tables["draws"].assign(value=-1.0)})
    write_record(tables, project.root / FOLDER / exhibit.id)
    write_record(other, tmp_path / "own" / exhibit.id)
    folders = {"own": tmp_path / "own"}
    assert store_spread(project.root, exhibit.id, folders)
    assert set(read_spread(project.root / FOLDER / exhibit.id)["draws"]) == {"value"}

    def judge_sign(tables):
        negative = bool((tables["draws"]["value"] == -1).all())
        for target in sorted(exhibit.targets):
            yield check(target, not negative, "some draws are positive")

    monkeypatch.setattr(exhibit.file, "judge", judge_sign)
    with pytest.raises(ValueError, match="with kernels own, B-001 is failed"):
        store_spread(project.root, exhibit.id, folders)


# --- the outputs of a cell ---------------------------------------------------------------------


@pytest.fixture
def cell(project, tmp_path):
    """Stored outputs of an exhibit's cell, and a folder for the tables of a fresh run."""
    exhibit = find_exhibit("ziller2024/fig1")
    tables = exhibit.file.measure(Study())
    write_record(tables, project.root / FOLDER / exhibit.id)
    return exhibit, tables, outputs_of(exhibit, tables), tmp_path / "kept"


def outputs_of(exhibit, tables):
    result = judge(exhibit.file, tables)
    data = {"text/plain": repr(result), RESULT_MIME: json.loads(json.dumps(result.as_dict()))}
    return [{"text/plain": "<Figure size 1x1>", "image/png": "..."}, data]


def ran_again(cell, factor):
    """Outputs of a run whose measured errors are larger by a factor, and its tables, kept."""
    exhibit, tables, _, kept = cell
    name, table = next(iter(tables.items()))
    column = table.select_dtypes("float").columns[-1]
    other = replace(
        tables, frames={**tables, name: table.assign(**{column: factor * table[column]})}
    )
    write_record(other, kept / exhibit.id)
    fresh = outputs_of(exhibit, other)
    fresh[1][RESULT_MIME]["verdicts"][0]["ours"] = "another number"
    return other, fresh


def test_outputs_of_other_kernels_become_the_stored_ones(cell, project):
    exhibit, tables, stored, kept = cell
    other, fresh = ran_again(cell, 1 + 1e-4)
    (fault,) = accept_other_kernels(copy.deepcopy(fresh), stored, kept)
    assert fault.endswith("other kernels do not move it")
    write_spread(compute_spread(tables, {"own": other}), project.root / FOLDER / exhibit.id)
    assert accept_other_kernels(fresh, stored, kept) == []
    assert fresh == stored


@pytest.mark.parametrize("change", ["number", "status", "ran", "text", "shown"])
def test_stored_outputs_must_be_what_the_stored_tables_give(cell, project, change):
    exhibit, tables, stored, kept = cell
    other, fresh = ran_again(cell, 1 + 1e-4)
    write_spread(compute_spread(tables, {"own": other}), project.root / FOLDER / exhibit.id)
    content = stored[1][RESULT_MIME]
    if change == "number":
        content["verdicts"][0]["ours"] += "1"
    elif change == "status":
        content["verdicts"][0]["status"] = "differs"
    elif change == "ran":
        content["ran"] += " and more"
    elif change == "text":
        stored[1]["text/plain"] = stored[1]["text/plain"].replace("reproduced", "refuted", 1)
    else:
        stored[0] = {"text/plain": "sigma  mse\n  0.1  0.2"}
    assert accept_other_kernels(fresh, stored, kept)


def test_other_cells_are_compared_to_the_letter(tmp_path):
    fresh, stored = [{"text/plain": "0.1"}], [{"text/plain": "0.2"}]
    assert accept_other_kernels(fresh, stored, tmp_path) == [] and fresh != stored

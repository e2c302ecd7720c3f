"""Recorded runs: shown below their exhibits, with what differs from the paper's settings."""

from __future__ import annotations

import dataclasses

import pandas as pd
import pytest

from reconrisk.cli._recorded import RECORDED, recorded_block, recorded_ids
from reconrisk.study import Study, computation
from reconrisk.study.records import RecordError, provenance, write_record
from reconrisk.study.results import Result
from reconrisk.study.verdicts import check

EXHIBIT = "ziller2024/fig1"


@pytest.fixture
def written(tmp_path):
    known = computation(EXHIBIT)
    session = Study(profile="paper", overrides={EXHIBIT: {"pictures": 7}}, data_root=tmp_path)
    result = Result(
        EXHIBIT,
        [check(EXHIBIT, True, "it holds", ours="1.25")],
        {
            "small": pd.DataFrame({"x": [1.23456, float("nan")]}),
            "long": pd.DataFrame({"x": [0] * 99}),
        },
        ran="a toy",
    )
    origin = dataclasses.replace(provenance(session, EXHIBIT, 90.0), commit="0123456789abcdef")
    write_record(result, tmp_path / RECORDED / EXHIBIT, provenance=origin)
    return known, tmp_path


def _block(known, project):
    return recorded_block(known, project, lambda path: f"there/{path}", lambda s: f"{s:g} s")


def test_nothing_is_shown_where_nothing_was_recorded(tmp_path):
    assert _block(computation(EXHIBIT), tmp_path) == ""
    assert recorded_ids(tmp_path) == []


def test_a_record_is_shown_with_what_ran_and_what_differs(written):
    known, project = written
    block = _block(known, project)
    assert recorded_ids(project) == [EXHIBIT]
    assert "Recorded run: a toy" in block and "in 90 s" in block and "`0123456789`" in block
    paper = known.parameters["pictures"].paper
    assert f"`pictures` 7 instead of {paper}" in block
    # the other parameters are as the paper's profile has them
    assert block.count(" instead of ") == 1
    assert "it holds" in block and "1\\.25" in block
    # short tables are printed, to four digits, and long ones linked
    assert "1.235" in block and "nan" not in block
    assert f"there/{RECORDED.as_posix()}/{EXHIBIT}/long.csv), 99 rows." in block


def test_a_table_that_was_changed_is_refused(written):
    known, project = written
    path = project / RECORDED / EXHIBIT / "small.csv"
    path.write_text(path.read_text().replace("1.23456", "1.3"))
    with pytest.raises(RecordError, match="not the file that was recorded"):
        _block(known, project)

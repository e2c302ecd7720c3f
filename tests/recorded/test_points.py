"""One point of each recorded run, computed again.

Records of runs that read the papers' data are computed again where the data are: with the option
``--data-root FOLDER`` or the environment variable ``RECONRISK_DATA_ROOT``; the folder or one just
below it must hold the files whose checksums the record has.
"""

from __future__ import annotations

import dataclasses
import functools
from pathlib import Path

import pytest

from companion.study import find_exhibit, registry
from companion.study.inputs import checksums
from companion.study.recorded import recorded_ids
from companion.study.records import RECORDED, Record, read_record
from recorded import points
from recorded.replay import context_of

ROOT = registry.project_root()
RECORDS = recorded_ids(ROOT)


@functools.cache
def record_of(exhibit: str) -> Record:
    return read_record(ROOT / RECORDED / exhibit)


def needs_data(exhibit: str) -> str:
    """The data that a record was made of, by name; empty if it read none."""
    cost = registry.costs().get(exhibit)
    return cost.needs_data if cost else ""


@functools.cache
def folder_of(exhibit: str, given: str) -> str:
    """Where the data of a record are: the folder given, or one just below it; empty if nowhere."""
    record, known = record_of(exhibit), find_exhibit(exhibit)
    root = Path(given)
    for folder in (root, *sorted(p for p in root.iterdir() if p.is_dir())):
        found = checksums(known, context_of(record, folder))
        if found and found == dict(record.provenance.inputs or found):
            return str(folder)
    return ""


def test_every_record_has_a_point() -> None:
    assert [exhibit for exhibit in RECORDS if exhibit not in points.POINTS] == []


@pytest.mark.parametrize("exhibit", RECORDS)
def test_one_point_agrees(exhibit: str, data_root: str) -> None:
    folder = ""
    if named := needs_data(exhibit):
        if not data_root:
            pytest.skip(f"needs {named}: give --data-root or RECONRISK_DATA_ROOT")
        folder = folder_of(exhibit, data_root)
        if not folder:
            pytest.skip(f"{data_root} does not hold the files that were read ({named})")
    found = points.POINTS[exhibit](record_of(exhibit), folder)
    assert found, "nothing was compared"
    assert [str(a) for a in found if not a.holds] == []
    # nor is every tolerance so wide that any number would do
    assert any(a.allowed < 0.5 * abs(a.recorded) for a in found), [str(a) for a in found]


def test_agreement_is_judged_within_what_is_allowed() -> None:
    near = points.Agreement("x", 1.05, 1.0, 0.1)
    assert near.holds and not dataclasses.replace(near, allowed=0.01).holds
    nan, inf = float("nan"), float("inf")
    assert points.Agreement("x", nan, nan, 0.0).holds
    assert points.Agreement("x", inf, inf, 0.0).holds
    assert not points.Agreement("x", nan, 1.0, 10.0).holds
    assert not points.Agreement("x", 1.0, nan, 10.0).holds
    assert not points.Agreement("x", 1.0, inf, 10.0).holds

"""Provenance of the recorded runs, and that what is tampered with is found."""

from __future__ import annotations

import contextlib
import json
import shutil
import subprocess
from pathlib import Path

import pytest

from companion.book.stage import stage
from companion.study import find_exhibit, registry
from companion.study.exhibits import describe_figure
from companion.study.files import seal
from companion.study.recorded import (
    judge_record,
    recorded_ids,
)
from companion.study.records import RECORDED, NoPicture, RecordError, read_record
from consistency import checks

ROOT = registry.project_root()
RECORDS = recorded_ids(ROOT)


def test_records_are_sound() -> None:
    """Schema, files, verdicts, and parameters that the exhibit takes as they were recorded."""
    assert RECORDS
    assert checks.unsound_records(ROOT) == []


#: a record whose verdicts need its table of norms
OLD = "ziller2024/fig1"


@pytest.mark.parametrize("exhibit", RECORDS)
def test_records_are_judged_again_and_drawn_from_their_tables(exhibit: str) -> None:
    record = read_record(ROOT / RECORDED / exhibit)
    found = find_exhibit(exhibit)
    judging = judge_record(exhibit, record)
    assert not judging.lacks
    assert {v.target for v in judging.verdicts} == found.targets
    assert [v for v in judging.verdicts if v.status == "failed"] == []
    if found.is_drawn:
        tables = record.tables
        with contextlib.suppress(NoPicture):
            found.draw(tables)
            words = describe_figure(found.file, tables)["alt"]
            assert len(words.split()) > 8 and words.endswith(".") and "nan" not in words.split()


def test_records_hold_tables_and_say_how_long_they_took() -> None:
    for exhibit in RECORDS:
        folder = ROOT / RECORDED / exhibit
        content = json.loads((folder / "record.json").read_text())
        assert content["provenance"]["seconds"] > 0, exhibit
        # no picture of a data set, and nothing that the record does not know
        assert {p.name for p in folder.iterdir()} == {"record.json", *content["files"]}, exhibit
        assert content["files"] and all(f.endswith(".csv") for f in content["files"]), exhibit


def test_records_read_data_that_is_known() -> None:
    assert checks.unknown_data(ROOT) == []


def test_records_were_made_by_code_that_is_known() -> None:
    if why := checks.without_history(ROOT):
        pytest.skip(why)
    assert checks.unknown_code(ROOT) == []


# --- tampering ------------------------------------------------------------------------------------


@pytest.fixture
def project(tmp_path: Path, monkeypatch) -> Path:
    """A copy with one record; the rest is linked."""
    for name in ("paper", "companion"):
        (tmp_path / "data").mkdir(exist_ok=True)
        (tmp_path / "data" / name).symlink_to(ROOT / "data" / name)
    shutil.copytree(ROOT / RECORDED / RECORDS[0], tmp_path / RECORDED / RECORDS[0])
    monkeypatch.setenv("RECONRISK_ROOT", str(tmp_path))
    assert checks.unsound_records(tmp_path) == []
    return tmp_path


def edit(project: Path, change, exhibit: str = RECORDS[0]) -> None:
    """Change a record as one would who mends its checksum as well."""
    path = project / RECORDED / exhibit / "record.json"
    content = json.loads(path.read_text())
    change(content)
    del content["sha256"]
    path.write_bytes(seal(content))


def test_a_stored_verdict_is_missed_only_where_it_stands(project: Path) -> None:
    # elsewhere verdicts are computed anew, and those stored with the run are history
    edit(project, lambda c: c["verdicts"].pop())
    assert checks.unsound_records(project) == []
    # a run from before a table that judging reads
    shutil.copytree(ROOT / RECORDED / OLD, project / RECORDED / OLD)
    (project / RECORDED / OLD / "metrics.csv").unlink()
    edit(project, lambda c: c["files"].pop("metrics.csv"), OLD)
    assert judge_record(OLD, read_record(project / RECORDED / OLD)).lacks
    assert checks.unsound_records(project) == []
    edit(project, lambda c: c["verdicts"].pop(), OLD)
    assert any("no verdict on" in problem for problem in checks.unsound_records(project))


def tables(project: Path) -> list[Path]:
    return sorted((project / RECORDED / RECORDS[0]).glob("*.csv"))


def test_a_changed_value_is_found(project: Path) -> None:
    path = tables(project)[0]
    text = path.read_text()
    place = max(i for i, c in enumerate(text) if c.isdigit())
    path.write_text(text[:place] + str((int(text[place]) + 1) % 10) + text[place + 1 :])
    assert len(checks.unsound_records(project)) == 1


def test_a_missing_table_is_found(project: Path) -> None:
    tables(project)[0].unlink()
    assert len(checks.unsound_records(project)) == 1


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda c: c["provenance"].update(seed=1), id="seed"),
        pytest.param(lambda c: c["provenance"].update(profile="quick"), id="profile"),
        pytest.param(lambda c: c["provenance"]["parameters"].popitem(), id="parameter"),
        pytest.param(lambda c: c["provenance"]["code"].popitem(), id="code"),
        pytest.param(lambda c: c["measured"].update(ran="more trials"), id="what ran"),
        pytest.param(lambda c: c["measured"].update(stand_ins=["patches"]), id="stand-in"),
        pytest.param(lambda c: c["verdicts"][0].update(status="reproduced!"), id="status"),
        pytest.param(lambda c: c["files"].popitem(), id="file"),
        pytest.param(lambda c: c.update(schema=1), id="schema"),
        pytest.param(lambda c: c.pop("sha256"), id="checksum"),
    ],
)
def test_edited_records_are_found(project: Path, change) -> None:
    path = project / RECORDED / RECORDS[0] / "record.json"
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))
    assert checks.unsound_records(project)


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda c: c["provenance"].update(exhibit="ziller2024/fig1"), id="exhibit"),
        pytest.param(lambda c: c["provenance"].pop("seed"), id="no seed"),
        pytest.param(lambda c: c["provenance"]["parameters"].popitem(), id="parameter taken"),
        pytest.param(lambda c: c["provenance"]["parameters"].update(new=1), id="parameter added"),
        pytest.param(lambda c: c["verdicts"][0].update(status="differs"), id="no reason"),
        pytest.param(lambda c: c.update(schema=1), id="schema"),
    ],
)
def test_edited_records_with_another_checksum_are_found(project: Path, change) -> None:
    edit(project, change)
    assert checks.unsound_records(project)


def test_an_unknown_checksum_is_found(project: Path) -> None:
    name, known = next(iter(checks.KNOWN_CHECKSUMS.items()))
    edit(project, lambda c: c["provenance"].update(inputs={name: known}))
    assert not [p for p in checks.unknown_data(project) if "is not known" in p]
    edit(project, lambda c: c["provenance"].update(inputs={name: "0" * 64}))
    assert [p for p in checks.unknown_data(project) if f"{name} with checksum 0000" in p]
    edit(project, lambda c: c["provenance"].update(inputs={"a guess": known}))
    assert [p for p in checks.unknown_data(project) if "a guess" in p]


def test_data_without_a_checksum_is_found(project: Path) -> None:
    edit(project, lambda c: c["provenance"].update(inputs={}))
    assert len(checks.unknown_data(project)) == bool(registry.costs()[RECORDS[0]].needs_data)


@pytest.mark.skipif(not shutil.which("git"), reason="git is not installed")
def test_code_that_is_not_known_is_found(project: Path) -> None:
    def git(*arguments: str) -> str:
        command = ["git", "-C", str(project), "-c", "user.name=t", "-c", "user.email=t@example.org"]
        ran = subprocess.run([*command, *arguments], capture_output=True, text=True, check=True)
        return ran.stdout.strip()

    assert checks.without_history(project) == "this tree is no git checkout"
    git("init", "-q")
    git("commit", "-q", "--allow-empty", "-m", "one")
    first = git("rev-parse", "HEAD")
    git("commit", "-q", "--allow-empty", "-m", "two")
    assert checks.without_history(project) == ""
    clean = {"commit": first, "dirty": False}
    edit(project, lambda c: c["provenance"].update(clean))
    assert checks.unknown_code(project) == []
    git("checkout", "-q", "--orphan", "elsewhere")
    git("commit", "-q", "--allow-empty", "-m", "three")
    assert "not among those before HEAD" in checks.unknown_code(project)[0]
    edit(project, lambda c: c["provenance"].update(commit="", dirty=True))
    assert len(checks.unknown_code(project)) == 2


def test_the_book_is_not_built_of_a_tampered_record(project: Path) -> None:
    (project / "book").mkdir()
    for name in ("_toc.yml", "_config.yml", "book/conf.py"):
        shutil.copy(ROOT / name, project / name)
    path = tables(project)[0]
    path.write_text(path.read_text() + "1\n")
    with pytest.raises(RecordError, match="not the file that was recorded"):
        stage(project, project / "notebooks", project / "staged")

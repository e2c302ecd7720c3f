"""Records: what is written can be read back, and every change that matters is noticed."""

from __future__ import annotations

import dataclasses
import gzip
import hashlib
import importlib
import json
import os
import subprocess

import numpy as np
import pandas as pd
import pytest

from companion.study import Study, find_exhibit, inputs, sources
from companion.study.files import seal
from companion.study.provenance import describe_run, explain, fingerprint, hash_by_folder
from companion.study.records import (
    RecordError,
    attach_provenance,
    read_record,
    read_tables,
    write_record,
)
from companion.study.sources import code_stamp, source_files
from companion.study.tables import Tables

FIG1 = "ziller2024/fig1"
MODULE = "companion.papers.ziller2024.fig1"


@pytest.fixture
def session(project):
    return Study()


def _reasons(stored, session):
    return {str(reason) for reason in explain(FIG1, stored, session)}


# the code a result rests on


def test_the_closure_follows_imports_and_packages(project):
    files = source_files(MODULE)
    assert files[MODULE] == project.experiment
    assert {
        "reconrisk",
        "reconrisk.plotting",
        "companion.study",
        "companion.study.session",
        "companion.study.results",
    } <= files.keys()
    assert not any(name.startswith("companion.cli") for name in files)
    assert "pandas" not in files


@pytest.mark.parametrize(
    "line",
    [
        "import reconrisk.risk",
        "from reconrisk import risk",
        "import reconrisk\n\ndef f():\n    return reconrisk.risk.assess",
        "def f():\n    from reconrisk.risk import _kinds",
    ],
)
def test_every_way_to_import_is_seen(project, line):
    assert "reconrisk.risk" not in source_files(MODULE)
    project.experiment.write_text(line)
    assert "reconrisk.risk" in source_files(MODULE)


def test_relative_imports_are_resolved(tmp_path, monkeypatch):
    package = tmp_path / "lib" / "reconrisk"
    for name, text in {
        "__init__.py": "from ._types import A",
        "_types.py": "A = 1",
        "room/__init__.py": "from .first import f",
        "room/first.py": "from . import second\nfrom .. import _types\nfrom .second import g as f",
        "room/second.py": "from ..other import *",
        "other.py": "import reconrisk.deep.leaf",
        "deep/__init__.py": "from reconrisk.deep import _run_on_import",
        "deep/_run_on_import.py": "",
        "deep/leaf.py": "",
        "apart.py": "",
    }.items():
        (package / name).parent.mkdir(parents=True, exist_ok=True)
        (package / name).write_text(text)
    monkeypatch.setattr(sources, "package_folder", lambda: package.parent)
    assert set(source_files("reconrisk.room.first")) == {
        "reconrisk",
        "reconrisk._types",
        "reconrisk.room",
        "reconrisk.room.first",
        "reconrisk.room.second",
        "reconrisk.other",
        "reconrisk.deep",
        "reconrisk.deep._run_on_import",
        "reconrisk.deep.leaf",
    }


def test_other_exhibits_do_not_outdate_a_result(project):
    code = fingerprint(find_exhibit(FIG1))["code"]
    assert {"companion/study", "reconrisk/datasets"} <= set(code)
    assert "ziller2024/fig1.py" in code
    assert "ziller2024/table1.py" not in code
    assert all(len(h) == 64 for h in code.values())


TASKS = """
from companion.study import verdicts
from reconrisk import datasets
SCALE = 2

class Scene:
    def width(self):
        return SCALE

def task(task):
    # doubles
    return {"y": helper(task["x"])}

def helper(x):
    '''Twice the input.'''
    return Scene().width() * x

def judge(rows):
    return verdicts.check("A-001", rows[0]["y"] == 2, "it is two")
"""


@pytest.mark.parametrize(
    ("before", "after", "same"),
    [
        ("# doubles", "# gives twice", True),
        ("Twice the input.", "Two times what comes in.", True),
        ("return Scene().width() * x", "return (\n        Scene().width() * x)", True),
        ("it is two", "it is the number two", True),
        ("from companion.study import verdicts", "from companion.study import tasks", False),
        ("SCALE = 2", "SCALE = 3", False),
        ("Scene().width() * x", "x * Scene().width()", False),
        ('task["x"]', 'task["z"]', False),
        ("return SCALE", "return SCALE + len(dir(datasets))", False),
        ("return SCALE", "from reconrisk.metrics import pixel\n        return SCALE", False),
    ],
)
def test_the_stamp_of_a_task_follows_the_code_that_it_runs(project, before, after, same):
    module = project.experiment.with_name("stamped_tasks.py")
    module.write_text(TASKS)
    stamped = importlib.import_module("companion.papers.ziller2024.stamped_tasks")
    first = code_stamp(stamped.task)
    assert before in TASKS and code_stamp(stamped.task) == first
    module.write_text(TASKS.replace(before, after))
    assert (code_stamp(stamped.task) == first) is same


@pytest.mark.parametrize(
    ("change", "same"),
    [
        ("def judge_lemc5(tables):\n    return 2", True),
        ("ALTERED_LEMC5 = {}", True),
        ("def judge_lemd1(tables):\n    return 2", False),  # not one of the family
        ("def draw_problem(task):\n    return 2", False),
    ],
)
def test_the_stamp_of_a_familys_task_leaves_out_what_judges_its_exhibits(project, change, same):
    module, text = project.experiment.with_name("stamped_family.py"), 'EXHIBITS = ("lemC5",)\n'
    module.write_text(text + TASKS)
    stamped = importlib.import_module("companion.papers.ziller2024.stamped_family")
    first = code_stamp(stamped.task)
    module.write_text(text + TASKS + change)
    assert (code_stamp(stamped.task) == first) is same


def test_the_stamp_of_a_task_follows_what_its_file_imports(tmp_path, monkeypatch):
    for name, text in {
        "reconrisk/__init__.py": "",
        "reconrisk/room/__init__.py": "from reconrisk.room.inner import f",
        "reconrisk/room/inner.py": "def f():\n    return 1",
        "companion/__init__.py": "",
        "companion/study/verdicts.py": "def check():\n    return 1",
        "companion/papers/a/fig1.py": "from reconrisk.room import f\n"
        "from companion.study.verdicts import check\n"
        "def task(task):\n    return f()\ndef judge(tables):\n    return 1",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(sources, "package_folder", lambda: tmp_path)

    def task(task):
        return {}

    monkeypatch.setattr(task, "__module__", "companion.papers.a.fig1")
    monkeypatch.setattr(task, "__qualname__", "task")
    stamp = code_stamp(task)
    exhibit, checks = tmp_path / "companion/papers/a/fig1.py", "companion/study/verdicts.py"
    exhibit.write_text(exhibit.read_text().replace("return 1", "return 2"))
    (tmp_path / checks).write_text("def check():\n    return 2")
    assert code_stamp(task) == stamp  # what judges is not what a task runs
    (tmp_path / "reconrisk/room/inner.py").write_text("def f():\n    return 2")
    assert code_stamp(task) != stamp


def test_the_inputs_of_a_run_are_hashed(tmp_path):
    folder = tmp_path / "MNIST" / "raw"
    folder.mkdir(parents=True)
    (folder / "train-images-idx3-ubyte.gz").write_bytes(gzip.compress(b"pixels"))
    (folder / "t10k-labels-idx1-ubyte").write_bytes(b"labels")
    known = find_exhibit("hayes2023/alg2")
    context = Study(profile="paper", data_root=tmp_path).context("hayes2023/alg2")
    assert inputs.checksums(known, context) == {
        "MNIST/t10k-labels-idx1-ubyte": hashlib.sha256(b"labels").hexdigest(),
        "MNIST/train-images-idx3-ubyte": hashlib.sha256(b"pixels").hexdigest(),
    }
    # the quick run's own images are in the packages that are installed
    quick = Study(data_root=tmp_path).context("hayes2023/alg2")
    ((name, checksum),) = inputs.checksums(known, quick).items()
    assert name.startswith("5,000 of MNIST's images:") and len(checksum) == 64
    figure = find_exhibit("ziller2024/fig1")
    assert inputs.data_sets(figure, Study(profile="paper").context(figure.id)) == ("photographs",)


@pytest.mark.parametrize(
    ("exhibit", "tables"),
    [
        (
            "biswas2024/fig2",
            {"biswas2024/table5", "biswas2024/table6"},
        ),  # its falsifiers alter them
        ("biswas2024/table5", {"biswas2024/fig2"}),  # read by a file that it shares
        ("liu2024/table8", {"liu2024/table6"}),
        ("beyond/joint_readings", {"biswas2024/table2"}),  # named by ``KEY``
    ],
)
def test_printed_tables_that_shared_files_read_are_data_of_a_result(exhibit, tables):
    data = fingerprint(find_exhibit(exhibit))["data"]
    assert {f"data/paper/{table}.csv" for table in tables} <= set(data)


def test_the_data_a_result_is_held_against(project):
    data = fingerprint(find_exhibit("ziller2024/table1"))["data"]
    assert set(data) == {
        "data/paper/ziller2024/table1.csv",
        "registry:ziller2024/table1",
        "registry:B-002",
        "registry:C-001",
    }


# provenance


def test_provenance_says_what_was_run(session):
    made = describe_run(session, "ziller2024/fig1_mse", 1.23456)
    assert made.exhibit == FIG1
    assert (made.profile, made.seed, made.device, made.seconds) == ("quick", 0, "cpu", 1.235)
    assert made.parameters == {"samples": 5, "scale": 0.5, "norms": [1.0, 2.0]}
    assert made.packages["numpy"] == np.__version__
    assert made.time.endswith("+00:00")


def test_provenance_names_no_machine(session):
    text = json.dumps(vars(describe_run(session, FIG1, 1.0)))
    assert os.sep + "home" not in text
    assert str(os.getcwd()) not in text


def test_git_commit_and_changes(project, session):
    assert describe_run(session, FIG1, 1.0).commit == ""
    assert describe_run(session, FIG1, 1.0).dirty is None
    git = ["git", "-C", str(project.root), "-c", "user.name=a", "-c", "user.email=a@b"]
    subprocess.run([*git, "init", "-q"], check=True)
    assert describe_run(session, FIG1, 1.0).commit == ""  # no commit yet
    subprocess.run([*git, "add", "."], check=True)
    subprocess.run([*git, "commit", "-qm", "first"], check=True)
    clean = describe_run(session, FIG1, 1.0)
    assert len(clean.commit) == 40
    assert clean.dirty is False
    (project.root / "new").write_text("")
    assert describe_run(session, FIG1, 1.0).dirty is True


# why


def test_nothing_has_changed(session):
    assert explain(FIG1, describe_run(session, FIG1, 1.0), session) == []
    assert explain("ziller2024/fig1_psnr", describe_run(session, FIG1, 1.0), session) == []


def test_nothing_is_recorded(session):
    (reason,) = explain(FIG1, None, session)
    assert reason.kind == "nothing recorded"


def test_changed_code_is_named(project, session):
    stored = describe_run(session, FIG1, 1.0)
    project.experiment.write_text(project.experiment.read_text() + "\n# changed")
    assert _reasons(stored, session) == {"code: ziller2024/fig1.py changed"}
    # so it is where other code made but the first of the runs that were put together
    before = [dataclasses.asdict(stored)] * 2
    joint = dataclasses.replace(describe_run(session, FIG1, 1.0), earlier=before)
    assert [str(reason) for reason in explain(FIG1, joint, session)] == [
        "code: ziller2024/fig1.py changed"
    ]
    was = project.experiment.read_text()
    project.experiment.write_text(was + "\nfrom reconrisk.risk import _kinds\n")
    assert "code: reconrisk/risk is new" in _reasons(stored, session)
    stored = describe_run(session, FIG1, 1.0)
    project.experiment.write_text(was)
    assert "code: reconrisk/risk is no longer used" in _reasons(stored, session)


def test_files_of_a_folder_share_a_hash_that_each_of_them_changes():
    code = {"reconrisk/a/x.py": "1", "reconrisk/a/y.py": "2", "companion/papers/k/fig1.py": "3"}
    found = hash_by_folder(code)
    assert found.keys() == {"reconrisk/a", "companion/papers/k/fig1.py"}
    for name in code:
        other = hash_by_folder(code | {name: "4"})
        assert {key for key in found if found[key] != other[key]} == {
            name if "papers" in name else "reconrisk/a"
        }


def test_changed_data_is_named(project):
    from companion.study import registry

    session = Study()
    table = describe_run(session, "ziller2024/table1", 1.0)
    figure = describe_run(session, FIG1, 1.0)
    printed = project.root / "data/paper/ziller2024/table1.csv"
    printed.write_text(printed.read_text().replace("38.9", "38.8"))
    claims = project.root / "data/paper/claims.csv"
    claims.write_text(claims.read_text().replace("grows with", "grows like"))
    registry.claims.cache_clear()
    reasons = {str(r) for r in explain("ziller2024/table1", table, session)}
    assert reasons == {"data: data/paper/ziller2024/table1.csv changed"}
    assert _reasons(figure, session) == {"data: registry:B-001 changed"}


def test_changed_requests_are_named(session):
    stored = describe_run(session, FIG1, 1.0)
    other = Study(seed=1, overrides={FIG1: {"samples": 6, "norms": "[1, 2]"}})
    assert _reasons(stored, other) == {
        "seed: 0 stored, 1 asked for",
        "parameters: samples was 5, is 6",
    }
    assert "profile: quick stored, paper asked for" in _reasons(stored, Study(profile="paper"))
    fewer = dataclasses.replace(stored, parameters={"samples": 5, "norms": [1.0, 2.0], "old": 1})
    assert _reasons(fewer, session) == {
        "parameters: scale is new (0.5)",
        "parameters: old no longer exists",
    }


# records


@pytest.fixture
def result(session):
    return session.run(FIG1)


def test_a_record_comes_back_exact(session, result, tmp_path):
    made = describe_run(session, FIG1, 1.0)
    path = write_record(
        result.tables,
        tmp_path / "a" / "b",
        provenance=made,
        verdicts=result.verdicts,
        figure=b"a picture",
    )
    assert path == tmp_path / "a" / "b" / "record.json"
    record = read_record(path.parent)
    assert record.provenance == made and record.verdicts == result.verdicts
    assert record.figure.read_bytes() == b"a picture"
    was, again = result.tables, record.tables
    pd.testing.assert_frame_equal(again["draws"], was["draws"], check_exact=True)
    names = ("exhibit", "profile", "seed", "ran", "exact", "stand_ins", "subsets", "shown")
    assert [getattr(again, n) for n in names] == [getattr(was, n) for n in names]
    assert dict(again.parameters) == dict(was.parameters)


def test_numbers_texts_and_missing_values_come_back_as_they_were(result, tmp_path):
    table = pd.DataFrame(
        {
            "text": ["0.5", "1e3"],
            "word": ["None", "b"],
            "x": [0.1 + 0.2, float("nan")],
            "n": [1, 2],
            "yes": [True, False],
        }
    )
    write_record(dataclasses.replace(result.tables, frames={"t": table}), tmp_path)
    pd.testing.assert_frame_equal(read_tables(tmp_path)["t"], table, check_exact=True)


def test_provenance_is_attached_to_a_record_that_is_there(session, result, tmp_path):
    write_record(result.tables, tmp_path)
    before = read_record(tmp_path)
    assert before.provenance.seconds is None and before.provenance.parameters["samples"] == 5
    checksum = attach_provenance(tmp_path, made := describe_run(session, FIG1, 2.0))
    after = read_record(tmp_path)
    assert after.provenance == made
    assert before.checksum != after.checksum == checksum
    assert attach_provenance(tmp_path, made) == checksum


def test_figures_are_written_as_png(result, tmp_path):
    from matplotlib.figure import Figure

    figure = Figure(figsize=(1, 1))
    figure.add_subplot().plot([0, 1])
    for name in "ab":
        write_record(result.tables, tmp_path / name, figure=figure)
    first = (tmp_path / "a" / "figure.png").read_bytes()
    assert first.startswith(b"\x89PNG")
    assert first == (tmp_path / "b" / "figure.png").read_bytes()


def test_writing_again_leaves_nothing_of_the_former_record(result, tmp_path):
    tmp_path = tmp_path / "out"
    write_record(result.tables, tmp_path, figure=b"x")
    (tmp_path / "mine.csv").write_text("a\n1\n")
    others = dataclasses.replace(result.tables, frames={"others": result.tables["draws"]})
    write_record(others, tmp_path)
    assert {p.name for p in tmp_path.iterdir()} == {"others.csv", "mine.csv", "record.json"}
    assert list(read_record(tmp_path).frames) == ["others"]


def test_damaged_records_are_refused(result, tmp_path):
    with pytest.raises(FileNotFoundError):
        read_record(tmp_path)
    path = write_record(result.tables, tmp_path)
    text = path.read_text()
    table = tmp_path / "draws.csv"
    kept = table.read_text()
    table.write_text(kept.replace("0", "1", 1))
    with pytest.raises(RecordError, match=r"draws\.csv is missing or not the file"):
        read_record(tmp_path)
    table.write_text(kept)
    read_record(tmp_path)
    for wrong, message in (
        (text[:-20], "is not a sound record: "),
        (text.replace('"schema": 2', '"schema": 1'), "layout 1, expected 2"),
        (text.replace('"seed": 0', '"seed": 1'), "its checksum does not match"),
        (text.replace('"sha256"', '"other"'), "it holds no checksum"),
    ):
        path.write_text(wrong)
        with pytest.raises(RecordError, match=message):
            read_record(tmp_path)


def test_a_record_without_a_part_is_refused(result, tmp_path):
    path = write_record(result.tables, tmp_path)
    content = json.loads(path.read_text())
    del content["sha256"], content["provenance"]["seed"]
    path.write_bytes(seal(content))
    with pytest.raises(RecordError, match="provenance is incomplete.*seed"):
        read_record(tmp_path)


def test_wrong_names_are_refused(session, result, tmp_path):
    with pytest.raises(ValueError, match=r"able to be a file's; got '../x'"):
        Tables({"../x": result.tables["draws"]})
    with pytest.raises(ValueError, match="is not that of ziller2024/table1"):
        write_record(
            Tables({}, exhibit="ziller2024/table1"),
            tmp_path,
            provenance=describe_run(session, FIG1, 1.0),
        )
    assert list(tmp_path.glob("record.json")) == []


def test_a_table_with_spaces_in_its_name_gets_a_file(tmp_path):
    tables = Tables({"any reconstruction": pd.DataFrame({"a": [1]})}, exhibit=FIG1)
    write_record(tables, tmp_path)
    assert (tmp_path / "any-reconstruction.csv").read_text() == "a\n1\n"
    assert list(read_record(tmp_path).frames) == ["any-reconstruction"]

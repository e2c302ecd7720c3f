"""The worked template of a paper: it runs in a copy of the project and fails when tampered with."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys

import pytest

from companion.study import registry
from consistency import checks

ROOT = registry.project_root()
NEEDED = ("lib", "data", "notebooks", "book", "templates")
#: everything that adding a paper with one exhibit touches
TOUCHED = [
    "_toc.yml",
    "book/papers/example2026.md",
    "data/paper/claims.csv",
    "data/paper/example2026/table1.csv",
    "data/paper/exhibits.csv",
    "lib/companion/papers/example2026/__init__.py",
    "lib/companion/papers/example2026/table1.py",
    "lib/companion/study/registry.py",
    "notebooks/example2026/01_response.py",
]


def add(copy):
    return subprocess.run(
        [sys.executable, copy / "templates/paper/add.py", copy],
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    """A copy of the project with the template's paper in it."""
    copy = tmp_path_factory.mktemp("copy")
    left_out = shutil.ignore_patterns("__pycache__", "recorded", "*.ipynb", "*.egg-info")
    for name in NEEDED:
        shutil.copytree(ROOT / name, copy / name, ignore=left_out)
    shutil.copy(ROOT / "_toc.yml", copy)
    done = add(copy)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == TOUCHED
    return copy


def python(copy, *arguments):
    environment = {**os.environ, "PYTHONPATH": str(copy / "lib"), "RECONRISK_ROOT": str(copy)}
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=copy,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


def run(copy, *arguments):
    return python(copy, "-m", "companion.cli", "run", "example2026/table1", *arguments)


def test_the_template_passes(checkout, tmp_path):
    done = run(checkout, "--out", str(tmp_path / "out"))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "reproduced" in done.stdout and "X-001" in done.stdout
    assert list((tmp_path / "out").rglob("*.png"))


def test_it_fails_when_a_printed_number_is_changed(checkout):
    numbers = checkout / "data/paper/example2026/table1.csv"
    right = numbers.read_text()
    try:
        numbers.write_text(right.replace("0.73,0.73", "0.75,0.75"))
        done = run(checkout, "--no-figure")
    finally:
        numbers.write_text(right)
    assert done.returncode != 0
    said = " ".join((done.stdout + done.stderr).split())
    assert "2 of 3 agree" in said and "0.75" in said


@pytest.mark.parametrize("changed", ["0.75,0.73", "0.73,0.75"])
def test_it_fails_when_one_column_of_a_number_is_changed(checkout, changed):
    numbers = checkout / "data/paper/example2026/table1.csv"
    right = numbers.read_text()
    try:
        numbers.write_text(right.replace("0.73,0.73", changed))
        done = run(checkout, "--no-figure")
    finally:
        numbers.write_text(right)
    assert done.returncode != 0
    printed, value = changed.split(",")
    assert f"printed {printed}, but its value is {value}" in done.stdout + done.stderr


FALSIFIED = """
from companion.papers.example2026 import table1
from companion.study import Study
from companion.study.perturbations import find_detections, smallest_detectable

tables = table1.measure(Study())
print(*(v.status for v in table1.judge(tables)))
print(*sorted({one.target for one in find_detections(table1, tables)}))
print(smallest_detectable(table1, tables)["X-001"])
"""


def test_its_verdicts_come_out_otherwise_where_they_are_false(checkout):
    done = python(checkout, "-c", FALSIFIED)
    statuses, moved, words = done.stdout.splitlines()
    assert statuses == "reproduced reproduced", done.stderr
    assert moved == "X-001 example2026/table1"
    change = re.fullmatch(r"shares of true answers at epsilon = 1 ([\d.]+)% larger", words)
    assert float(change[1]) < 3


def test_it_is_added_once_only(checkout):
    again = add(checkout)
    assert again.returncode != 0 and "already" in again.stderr


def test_its_notebook_runs_as_it_stands(checkout):
    """Cell after cell, as a reader would: the point by hand is the exhibit's own."""
    script = (checkout / "notebooks/example2026/01_response.py").read_text()
    assert 'tags=["exhibit:example2026/table1"]' in script
    done = python(checkout, "-c", f"display = print\n{script}")
    assert done.returncode == 0, done.stderr
    by_hand = re.search(r"by hand: (\S+)", done.stdout)
    in_table = re.search(r"in the table: (\S+)", done.stdout)
    assert by_hand and in_table and by_hand[1] == in_table[1]


def test_its_page_and_code_keep_the_rules(checkout):
    assert "<exhibit-example2026-table1>" in (checkout / "book/papers/example2026.md").read_text()
    assert "notebooks/example2026/01_response" in (checkout / "_toc.yml").read_text()
    assert checks.private_names(checkout / "lib/companion/papers/example2026") == []

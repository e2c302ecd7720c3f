"""The worked template of a paper: it runs in a copy of the project and fails when tampered with."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import pytest

from companion.study import registry

ROOT = registry.project_root()
NEEDED = ("lib", "data", "notebooks", "book", "templates")


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    """A copy of the project with the template's paper in it."""
    copy = tmp_path_factory.mktemp("copy")
    left_out = shutil.ignore_patterns("__pycache__", "recorded", "*.ipynb")
    for name in NEEDED:
        shutil.copytree(ROOT / name, copy / name, ignore=left_out)
    shutil.copy(ROOT / "_toc.yml", copy)
    subprocess.run([sys.executable, copy / "templates/paper/add.py", copy], check=True)
    return copy


def run(copy, *arguments):
    environment = {**os.environ, "PYTHONPATH": str(copy / "lib"), "RECONRISK_ROOT": str(copy)}
    return subprocess.run(
        [sys.executable, "-m", "companion.cli", "run", "example2026/table1", *arguments],
        cwd=copy,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


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


def test_it_is_added_once_only(checkout):
    again = subprocess.run(
        [sys.executable, checkout / "templates/paper/add.py", checkout],
        capture_output=True,
        text=True,
        check=False,
    )
    assert again.returncode != 0 and "already" in again.stderr


def test_its_notebook_and_page_are_whole(checkout):
    from consistency import checks

    script = (checkout / "notebooks/example2026/01_response.py").read_text()
    assert 'tags=["exhibit:example2026/table1"' in script
    assert "<exhibit-example2026-table1>" in (checkout / "book/papers/example2026.md").read_text()
    assert "notebooks/example2026/01_response" in (checkout / "_toc.yml").read_text()
    assert checks.wrong_imports(checkout / "lib" / "reconrisk") == []

"""What a change reaches: the files that ``make test-changed`` runs, and what it keeps of a run."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from companion.study import registry
from reach import PASSED, Reach, read_passed, write_passed

ROOT = registry.project_root()


@pytest.fixture(scope="module")
def reach() -> Reach:
    return Reach(ROOT, {})


def test_a_change_of_one_exhibit_reaches_its_own_notebook_and_no_other(reach: Reach) -> None:
    changed = ROOT / "lib/companion/papers/hayes2023/fig4.py"
    notebooks = [s for s in reach.scopes() if s.startswith("notebooks/")]
    reached = [name for name in notebooks if changed in reach.files(name)]
    assert reached == ["notebooks/hayes2023/02_prior_aware.ipynb"]


def test_every_test_of_the_project_as_a_whole_is_reached(reach: Reach) -> None:
    changed = ROOT / "lib/companion/papers/hayes2023/fig4.py"
    for scope in reach.scopes():
        whole = scope.startswith(("tests/consistency", "tests/headlines", "tests/recorded"))
        if whole and not scope.endswith("]"):
            assert changed in reach.files(scope), scope


def test_of_tests_of_all_exhibits_a_change_reaches_those_of_its_own(reach: Reach) -> None:
    changed = ROOT / "lib/companion/papers/hayes2023/fig4.py"
    parts = [s for s in reach.scopes() if s.endswith("]")]
    reached = {s.partition("[")[2][:-1] for s in parts if changed in reach.files(s)}
    assert len(parts) > 4 * 150 and "hayes2023/fig4" in reached and len(reached) < 4
    for name in ("lib/companion/study/perturbations.py", "data/paper/claims.csv"):
        assert all(ROOT / name in reach.files(s) for s in parts)
    tables = ROOT / "tests/tables/hayes2023/fig4/record.json"
    assert tables in reach.files("tests/consistency/test_tables.py[hayes2023/fig4]")
    assert tables not in reach.files("tests/consistency/test_tables.py[hayes2023/fig5]")


@pytest.mark.parametrize(
    ("changed", "scope", "is_reached"),
    [
        ("lib/reconrisk/bounds/_audit.py", "tests/unit/test_guarantees.py", True),
        ("lib/reconrisk/bounds/_audit.py", "tests/unit/test_metrics.py", False),
        ("lib/companion/study/verdicts.py", "notebooks/hayes2023/02_prior_aware.ipynb", True),
        ("tests/tables/hayes2023/fig4/record.json", "tests/unit/test_falsifiers.py", True),
        ("book/tour.md", "tests/book", True),
        ("book/tour.md", "notebooks/hayes2023/02_prior_aware.ipynb", False),
    ],
)
def test_what_a_change_reaches(reach: Reach, changed: str, scope: str, is_reached: bool) -> None:
    assert (ROOT / changed).is_file()
    assert (ROOT / changed in reach.files(scope)) == is_reached


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project of one notebook, one test and two papers."""
    for name in ("notebooks/hayes2023", "tests/unit", "data/paper", "data/companion"):
        (tmp_path / name).mkdir(parents=True)
    for paper in ("hayes2023", "liu2024"):
        (tmp_path / "lib/companion/papers" / paper).mkdir(parents=True)
    (tmp_path / "notebooks/hayes2023/01_a.py").write_text('run("hayes2023/fig99")\n')
    (tmp_path / "notebooks/hayes2023/01_a.ipynb").write_text("{}")
    (tmp_path / "tests/unit/test_a.py").write_text("def test_a():\n    pass\n")
    (tmp_path / "data/paper/claims.csv").write_text("id,paper\nC-1,hayes2023\nE-1,liu2024\n")
    (tmp_path / "conftest.py").write_text("")
    return tmp_path


def add_row(paper: str) -> Callable[[Path], None]:
    def change(project: Path) -> None:
        with (project / "data/paper/claims.csv").open("a") as file:
            file.write(f"X-2,{paper}\n")

    return change


def change_text(name: str) -> Callable[[Path], None]:
    return lambda project: (project / name).write_text('run("hayes2023/fig99")  # again\n')


@pytest.mark.parametrize(
    ("change", "notebook", "test"),
    [
        (add_row("hayes2023"), True, False),
        (add_row("liu2024"), False, False),
        (change_text("notebooks/hayes2023/01_a.py"), True, False),
        (change_text("lib/companion/papers/hayes2023/new.py"), True, False),
        (change_text("tests/unit/test_a.py"), False, True),
        (change_text("conftest.py"), True, True),
    ],
)
def test_fingerprints_change_with_what_is_reached(
    project: Path, change: Callable[[Path], None], notebook: bool, test: bool
) -> None:
    scopes = ("notebooks/hayes2023/01_a.ipynb", "tests/unit/test_a.py")
    before = [Reach(project, {}).fingerprint(scope) for scope in scopes]
    change(project)
    after = [Reach(project, {}).fingerprint(scope) for scope in scopes]
    assert [a != b for a, b in zip(after, before, strict=True)] == [notebook, test]


def test_other_kernels_and_another_place_of_the_project(project: Path, tmp_path: Path) -> None:
    scope = "tests/unit/test_a.py"
    fixed = Reach(project, {"kernels": "fixed"}).fingerprint(scope)
    assert Reach(project, {"kernels": "own"}).fingerprint(scope) != fixed
    moved = tmp_path / "moved"
    shutil.copytree(project, moved, ignore=shutil.ignore_patterns("moved"))
    assert Reach(moved, {"kernels": "fixed"}).fingerprint(scope) == fixed


def test_what_failed_is_forgotten(tmp_path: Path) -> None:
    assert read_passed(tmp_path) == {}
    write_passed(tmp_path, {"a": "1", "b": "2"}, [])
    write_passed(tmp_path, {"c": "3"}, ["a", "never ran"])
    assert read_passed(tmp_path) == {"b": "2", "c": "3"}
    assert (tmp_path / PASSED).is_file()

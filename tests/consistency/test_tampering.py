"""Break something on purpose and see it reported: a check that cannot fail checks nothing."""

from __future__ import annotations

import copy
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import nbformat
import pytest

from companion.study import registry, stored, verdicts
from companion.study.files import seal
from companion.study.records import FOLDER, RecordError, find_records, read_record
from companion.study.results import RESULT_MIME
from companion.study.sources import sha256
from consistency import checks

ROOT = registry.project_root()


@pytest.fixture()
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A copy of the project's notebooks and data, which the registry reads instead."""
    (tmp_path / "tests").mkdir()
    (tmp_path / FOLDER).symlink_to(ROOT / FOLDER)
    for folder in ("notebooks", "data"):
        shutil.copytree(ROOT / folder, tmp_path / folder)
    with monkeypatch.context() as patch:
        patch.setenv("RECONRISK_ROOT", str(tmp_path))
        registry.forget()
        yield tmp_path
    registry.forget()


def change(path: Path, edit: Callable[[nbformat.NotebookNode], None]) -> None:
    notebook = nbformat.read(path, as_version=4)
    edit(notebook)
    nbformat.write(notebook, path)


def any_notebook(project: Path) -> Path:
    return stored.notebooks(project)[0]


def first_exhibit(notebook: nbformat.NotebookNode) -> nbformat.NotebookNode:
    return next(iter(stored.exhibit_cells(notebook).values()))


def result_of(cell: nbformat.NotebookNode) -> dict:
    return next(o["data"] for o in cell["outputs"] if RESULT_MIME in o.get("data", {}))


# --- a page -----------------------------------------------------------------------------------


def test_a_statement_or_link_taken_off_a_page_is_missed(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "book" / "papers", tmp_path / "book" / "papers")
    assert checks.unstated(tmp_path) == []
    page = tmp_path / "book" / "papers" / "liu2024.md"
    text = page.read_text(encoding="utf-8")
    text = text.replace("prf-liu2024-lemB3\n", "prf-liu2024-stein\n")
    page.write_text(text.replace("<exhibit-liu2024-table5>", "<exhibit-liu2024-table4>"))
    assert checks.unstated(tmp_path) == [
        "liu2024/table5: no link on its paper's page",
        "liu2024/lemB3: no labelled statement on its paper's page",
    ]


# --- a golden number --------------------------------------------------------------------------


def cheapest() -> tuple[nbformat.NotebookNode, str]:
    """The notebook whose first exhibit is the quickest, cut off after it, and the exhibit's id."""
    options = []
    for path in stored.notebooks(ROOT):
        notebook = nbformat.read(path, as_version=4)
        cells = stored.exhibit_cells(notebook)
        if not cells:  # a tutorial
            continue
        exhibit_id, cell = next(iter(cells.items()))
        seconds = stored.read_provenances(ROOT, notebook)[exhibit_id].seconds
        options.append((seconds, path, notebook, exhibit_id, notebook.cells.index(cell)))
    _, _, notebook, exhibit_id, index = min(options, key=lambda o: o[:2])
    notebook.cells = notebook.cells[: index + 1]
    return notebook, exhibit_id


def with_another_digit(text: str) -> str:
    """The text with its last digit changed."""
    place = [m.start() for m in re.finditer(r"\d", text)][-1]
    return text[:place] + str((int(text[place]) + 1) % 10) + text[place + 1 :]


def test_nbval_fails_on_a_changed_number(tmp_path: Path) -> None:
    """As stored it passes; with one number changed, in the text or in the JSON, it fails."""
    good, exhibit_id = cheapest()
    in_text, in_json = copy.deepcopy(good), copy.deepcopy(good)
    data = result_of(stored.exhibit_cells(in_text)[exhibit_id])
    data["text/plain"] = with_another_digit(data["text/plain"])
    content = result_of(stored.exhibit_cells(in_json)[exhibit_id])[RESULT_MIME]
    content["seed"] += 1
    for name, notebook in (("good", good), ("text", in_text), ("json", in_json)):
        nbformat.write(notebook, tmp_path / f"{name}.ipynb")
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "conftest", "-p", "no:cacheprovider", "-rA"]
        + ["--nbval", "--nbval-current-env", "--nbval-sanitize-with", "tests/nbval.cfg"]
        + ["-c", "pyproject.toml", "--rootdir", str(tmp_path), "--color=no", str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 1, ran.stdout + ran.stderr
    failed = re.findall(r"^FAILED \S*?(\w+)\.ipynb", ran.stdout, re.M)
    passed = re.findall(r"^PASSED \S*?(\w+)\.ipynb", ran.stdout, re.M)
    assert sorted(failed) == ["json", "text"], ran.stdout
    code_cells = sum(c.cell_type == "code" for c in good.cells)
    assert passed.count("good") == code_cells


# --- a record ---------------------------------------------------------------------------------


@pytest.mark.parametrize("what", ["table", "table and hash", "provenance", "all and checksum"])
def test_a_changed_record_of_a_quick_run_is_caught(project: Path, what: str) -> None:
    """Also by one who mends the hash and the checksum: the notebook names another record."""
    (project / FOLDER).unlink()
    exhibit_id = find_records(ROOT / FOLDER)[0]
    shutil.copytree(ROOT / FOLDER, project / FOLDER)
    folder = project / FOLDER / exhibit_id
    content = json.loads((folder / "record.json").read_text(encoding="utf-8"))
    table = next(folder.glob("*.csv"))
    if what == "provenance":
        content["provenance"]["commit"] = "0" * 40
    else:
        table.write_text(with_another_digit(table.read_text()))
    if "hash" in what or "all" in what:
        content["files"][table.name] = sha256(table)
    if "all" in what:
        del content["sha256"]
        (folder / "record.json").write_bytes(seal(content))
    else:
        (folder / "record.json").write_text(json.dumps(content), encoding="utf-8")
    problems = stored.read(project).problems
    if what == "table":
        with pytest.raises(RecordError, match="not the file that was recorded"):
            read_record(folder)
    else:
        assert [p for p in problems if exhibit_id in p]


# --- a tolerance ------------------------------------------------------------------------------


def test_a_loosened_reading_of_printed_digits_is_caught(monkeypatch) -> None:
    exact = verdicts.half_unit
    monkeypatch.setattr(verdicts, "half_unit", lambda text: 10 * exact(text))
    # a number like 1e-1850 has no half unit that a float could hold
    finite = [text for _, text in checks.printed_numbers(ROOT) if checks.half_unit_again(text)]
    assert len(checks.loosened(ROOT)) == len(finite) > 800
    assert checks.misjudged()


def test_a_slightly_loosened_one_is_caught(monkeypatch) -> None:
    exact = verdicts.half_unit
    monkeypatch.setattr(verdicts, "half_unit", lambda text: 1.05 * exact(text))
    assert checks.loosened(ROOT)
    assert checks.misjudged()


def test_more_standard_errors_are_caught(monkeypatch) -> None:
    monkeypatch.setattr(verdicts, "STANDARD_ERRORS", 40.0)
    assert checks.edited_tolerances(ROOT)


def test_an_edited_stored_tolerance_is_caught(project: Path) -> None:
    compared = [
        (project / result.notebook, exhibit_id, number)
        for exhibit_id, result in stored.read(project).results.items()
        for number, verdict in enumerate(result.verdicts)
        if verdict.paper.endswith("printed numbers")
    ]
    assert compared, "no verdict on printed numbers is stored"
    assert checks.edited_tolerances(project) == []
    path, exhibit_id, number = compared[0]

    def edit(notebook: nbformat.NotebookNode) -> None:
        content = result_of(stored.exhibit_cells(notebook)[exhibit_id])[RESULT_MIME]
        content["verdicts"][number]["tolerance"] = "ten units of the last printed digit"

    change(path, edit)
    assert len(checks.edited_tolerances(project)) == 1


# --- an exhibit -------------------------------------------------------------------------------


def test_a_deleted_exhibit_is_missed(project: Path) -> None:
    path = any_notebook(project)
    exhibit_id = next(iter(stored.exhibit_cells(nbformat.read(path, as_version=4))))

    def edit(notebook: nbformat.NotebookNode) -> None:
        notebook.cells.remove(stored.exhibit_cells(notebook)[exhibit_id])

    before = checks.without_verdict(project)
    change(path, edit)
    after = set(checks.without_verdict(project)) - set(before)
    assert any(problem.startswith(f"{exhibit_id} ") for problem in after)
    assert checks.unpaired(project)  # and the script still has it
    assert checks.unexecuted("n", nbformat.read(path, as_version=4))  # and a count is missing


def test_an_added_row_is_missed(project: Path) -> None:
    table = project / "data" / "paper" / "exhibits.csv"
    row = "ziller2024/fig99,ziller2024,figure,Figure 99,A figure nobody drew,,,,,,,"
    with table.open("a") as stream:
        stream.write(row + "\n")
    registry.exhibits.cache_clear()
    assert any(p.startswith("ziller2024/fig99 ") for p in checks.without_verdict(project))


def test_an_added_claim_is_missed(project: Path) -> None:
    with (project / "data" / "paper" / "claims.csv").open("a") as stream:
        stream.write("B-999,ziller2024,Section 9,Nothing is as it seems,Look,stated in paper\n")
    registry.claims.cache_clear()
    assert any(p.startswith("B-999 ") for p in checks.without_verdict(project))


def test_a_misspelt_id_is_reported(project: Path) -> None:
    path = any_notebook(project)

    def edit(notebook: nbformat.NotebookNode) -> None:
        cell = first_exhibit(notebook)
        cell.metadata["tags"] = [t.replace("fig", "figg") + "x" for t in cell.metadata["tags"]]

    assert checks.unknown_ids(project) == []
    change(path, edit)
    assert checks.unknown_ids(project)


def test_a_stored_verdict_that_contradicts_its_result_is_reported(project: Path) -> None:
    path = any_notebook(project)

    def edit(notebook: nbformat.NotebookNode) -> None:
        result_of(first_exhibit(notebook))[RESULT_MIME]["status"] = "pending"

    assert checks.contradictions(project) == []
    change(path, edit)
    assert checks.contradictions(project)


# --- execution --------------------------------------------------------------------------------


def test_an_unexecuted_notebook_is_reported(project: Path) -> None:
    path = any_notebook(project)

    def edit(notebook: nbformat.NotebookNode) -> None:
        for cell in notebook.cells:
            if cell.cell_type == "code":
                cell.execution_count, cell.outputs = None, []

    change(path, edit)
    notebook = nbformat.read(path, as_version=4)
    assert len(checks.unexecuted("n", notebook)) >= 2
    assert stored.read(project).problems


def test_cells_run_out_of_order_are_reported() -> None:
    notebook = nbformat.read(any_notebook(ROOT), as_version=4)
    code = [c for c in notebook.cells if c.cell_type == "code"]
    code[0].execution_count, code[1].execution_count = 2, 1
    assert checks.unexecuted("n", notebook)


def test_other_parameters_are_reported(project: Path) -> None:
    for path in stored.notebooks(project):
        notebook = nbformat.read(path, as_version=4)
        for cell in stored.exhibit_cells(notebook).values():
            result_of(cell)[RESULT_MIME]["seed"] = 1
        nbformat.write(notebook, path)
    other_seed = [p for p in checks.outdated_parameters(project) if p.endswith("seed 1")]
    assert len(other_seed) == len(stored.read(project).results)


@pytest.mark.parametrize("mark", ["nbval-ignore-output", "nbval-skip", "raises-exception"])
def test_a_silenced_cell_is_reported(mark: str) -> None:
    notebook = nbformat.read(any_notebook(ROOT), as_version=4)
    first_exhibit(notebook).metadata["tags"].append(mark)
    assert checks.silenced("n", notebook)


def test_a_comment_that_silences_is_reported() -> None:
    notebook = nbformat.read(any_notebook(ROOT), as_version=4)
    first_exhibit(notebook).source += "\n# NBVAL_IGNORE_OUTPUT"
    assert checks.silenced("n", notebook)


@pytest.mark.parametrize("trace", ["path", "timing", "version"])
def test_traces_of_a_machine_are_reported(trace: str) -> None:
    notebook = nbformat.read(any_notebook(ROOT), as_version=4)
    if trace == "path":
        notebook.cells[0].source += " " + str(Path("/ho" + "me") / "someone" / "data")
    elif trace == "timing":
        notebook.cells[0].metadata["execution"] = {}
    else:
        notebook.metadata["language_info"] = {"name": "python", "version": "3.11.0"}
    assert checks.volatile("n", notebook)


def test_an_edited_script_is_reported(project: Path) -> None:
    script = any_notebook(project).with_suffix(".py")
    script.write_text(script.read_text() + "\n# %%\nprint(1)\n")
    assert checks.unpaired(project)


# --- code -------------------------------------------------------------------------------------


WRONG_IMPORTS = {
    "reconrisk/bounds/extra.py": "from companion.study import registry",
    "reconrisk/special/extra.py": "import reconrisk.metrics.pixel",
    "reconrisk/arguments.py": "def f():\n    from reconrisk import special",
    "companion/study/extra.py": "import companion.book.pages",
    "companion/papers/hayes2023/extra.py": "from companion.papers.liu2024 import own_runs",
}


def test_imports_to_the_right_break_every_contract(tmp_path: Path) -> None:
    left_out = shutil.ignore_patterns("__pycache__", "*.egg-info")
    shutil.copytree(ROOT / "lib", tmp_path / "lib", ignore=left_out)
    shutil.copy(ROOT / ".importlinter", tmp_path)
    for name, line in WRONG_IMPORTS.items():
        with (tmp_path / "lib" / name).open("a") as file:
            file.write(f"{line}\n")
    assert len(checks.broken_contracts(tmp_path)) == 4


def test_a_private_name_in_a_paper_is_reported(tmp_path: Path) -> None:
    (tmp_path / "fig1.py").write_text("from reconrisk.bounds import _mse\nimport numpy as np\n")
    assert len(checks.private_names(tmp_path)) == 1


def test_a_named_folder_of_one_machine_is_reported(tmp_path: Path) -> None:
    (tmp_path / "notes.md").write_text("see " + "/ho" + "me/someone/notes\n")
    assert len(checks.machine_paths(tmp_path)) == 1


def test_json_of_a_notebook_keeps_its_paths_visible() -> None:
    """The search for paths runs on JSON, which doubles a backslash but leaves slashes alone."""
    assert checks.MACHINE_PATHS.search(json.dumps("/ho" + "me/x"))

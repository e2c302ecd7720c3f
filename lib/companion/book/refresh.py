"""Run the notebooks anew and store their outputs, with nothing in them that one machine adds."""

from __future__ import annotations

import contextlib
import copy
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import jupytext
import nbformat
from nbformat import NotebookNode
from rich.console import Console

from companion.book.execute import Outcome, declared_parameters, execute
from companion.study.records import provenance
from companion.study.session import Study
from companion.study.stored import attach_provenance, exhibit_cells, stored_provenance
from companion.study.stored_tables import FOLDER, VARIABLE

__all__ = ["clean", "refresh_notebooks", "source_of"]

#: entries of a provenance that differ between two runs of the same thing.
CIRCUMSTANCES = {"commit", "dirty", "platform", "seconds", "time"}

#: what every stored notebook says about its kernel; versions would differ between machines.
METADATA = {
    "jupytext": {"formats": "ipynb,py:percent"},
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}


def source_of(script: Path) -> NotebookNode:
    """Return the notebook a ``.py`` file in the percent format describes, without outputs."""
    notebook = jupytext.read(script, fmt="py:percent")
    notebook.metadata = nbformat.from_dict(copy.deepcopy(METADATA))
    notebook.nbformat, notebook.nbformat_minor = 4, 5
    for number, cell in enumerate(notebook.cells, 1):
        cell["id"] = f"cell-{number:03d}"  # random ones would differ at every run
    return notebook


def clean(executed: NotebookNode, source: NotebookNode) -> NotebookNode:
    """Return ``source`` with the outputs of its execution and nothing else of it.

    Raises
    ------
    ValueError
        If the cells differ, or were not all executed in order.
    """
    cleaned = copy.deepcopy(source)
    if [c.source for c in cleaned.cells] != [c.source for c in executed.cells]:
        raise ValueError("the executed notebook has other cells than its source")
    counts = []
    for cell, ran in zip(cleaned.cells, executed.cells, strict=True):
        if cell.cell_type == "code":
            counts.append(ran.execution_count)
            cell.execution_count = ran.execution_count
            cell.outputs = [_output(o) for o in _merged(ran.outputs)]
    if counts != list(range(1, len(counts) + 1)):
        raise ValueError(f"the cells were not executed in order: {counts}")
    return cleaned


def _merged(outputs: Sequence[NotebookNode]) -> list[NotebookNode]:
    """Outputs with neighbouring pieces of one stream joined: how they are cut is chance."""
    merged: list[NotebookNode] = []
    for output in outputs:
        last = merged[-1] if merged else None
        if last is not None and output.output_type == "stream" == last.output_type:
            if output.name == last.name:
                last.text += output.text
                continue
        merged.append(copy.deepcopy(output))
    return merged


def _output(output: NotebookNode) -> NotebookNode:
    if "metadata" in output:
        output.metadata = NotebookNode()  # sizes of pictures, in screen pixels of the run
    return output


def refresh_notebooks(
    project: Path, names: Sequence[str], *, jobs: int, console: Console
) -> tuple[list[Outcome], list[str]]:
    """Run notebooks from their ``.py`` sources and store the outputs in their ``.ipynb``.

    Parameters
    ----------
    names : sequence of str
        Notebooks, as ``paper/NN_topic``.

    Returns
    -------
    outcomes : list of Outcome
        What became of each; those that failed keep their former outputs.
    changed : list of str
        Those whose file is another one now.
    """
    folder = project / "_build" / "refresh"
    sources = {}
    for name in names:
        sources[name] = source_of(project / "notebooks" / f"{name}.py")
        path = folder / "source" / f"{name}.ipynb"
        path.parent.mkdir(parents=True, exist_ok=True)
        nbformat.write(sources[name], path)
    paths = [(name, folder / "source" / f"{name}.ipynb") for name in names]
    tables = folder / "tables"
    with _tables_kept(tables):
        outcomes = execute(paths, folder / "notebooks", jobs=jobs, console=console)
    changed = []
    for outcome in outcomes:
        if outcome.failure is not None:
            continue
        executed = nbformat.read(outcome.path, as_version=4)
        stored = project / "notebooks" / f"{outcome.name}.ipynb"
        former = nbformat.read(stored, as_version=4) if stored.is_file() else None
        notebook = clean(executed, sources[outcome.name])
        attach_provenance(notebook, _provenances(notebook, executed, former, outcome.path))
        text = nbformat.writes(notebook) + "\n"
        for folder_name in (str(project), str(Path.home()) + "/"):
            if folder_name in text:
                raise ValueError(f"{outcome.name}: its outputs name a folder here, {folder_name}")
        for exhibit_id in exhibit_cells(executed):
            _take_over(tables / exhibit_id, project / FOLDER / exhibit_id)
        if former is None or stored.read_text(encoding="utf-8") != text:
            stored.write_text(text, encoding="utf-8")
            changed.append(outcome.name)
    return outcomes, changed


@contextlib.contextmanager
def _tables_kept(folder: Path) -> Iterator[None]:
    """Let the notebooks that run in this block keep the tables they judge."""
    shutil.rmtree(folder, ignore_errors=True)
    os.environ[VARIABLE] = str(folder.resolve())
    try:
        yield
    finally:
        del os.environ[VARIABLE]


def _take_over(fresh: Path, stored: Path) -> None:
    """Replace an exhibit's stored tables by fresh ones."""
    shutil.rmtree(stored, ignore_errors=True)
    shutil.copytree(fresh, stored)


def _provenances(
    notebook: NotebookNode, executed: NotebookNode, former: NotebookNode | None, path: Path
) -> dict[str, Mapping[str, Any]]:
    """The provenance of every exhibit; the former one where the same was run to the same end.

    So running twice changes nothing: when and how fast the first run was stays.
    """
    declared = declared_parameters(path)
    session = Study(**{k: v for k, v in declared.items() if k in Study.__dataclass_fields__})
    old_cells = exhibit_cells(former) if former is not None else {}
    old = stored_provenance(former) if former is not None else {}
    ran = exhibit_cells(executed)
    found = {}
    for exhibit_id, cell in exhibit_cells(notebook).items():
        seconds = ran[exhibit_id]["metadata"]["papermill"]["duration"]
        new = provenance(session, exhibit_id, seconds).as_dict()
        before = old.get(exhibit_id, {})
        same = exhibit_id in old_cells and old_cells[exhibit_id]["outputs"] == cell["outputs"]
        same = same and _lasting(before) == _lasting(new)
        found[exhibit_id] = before if same else new
    return found


def _lasting(entries: Mapping[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in entries.items() if k not in CIRCUMSTANCES}

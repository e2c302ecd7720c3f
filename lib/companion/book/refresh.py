"""Run the notebooks again and store their outputs, without anything that depends on the machine."""

import contextlib
import copy
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import jupytext
import nbformat
from nbformat import NotebookNode
from rich.console import Console

from companion.book.execute import Failure, Outcome, declared_parameters, execute
from companion.kernels import KERNELS, SAME_KERNELS, kernels_in_use
from companion.study.exhibits import find_exhibit, judge_tables
from companion.study.provenance import Provenance, describe_run
from companion.study.records import (
    FOLDER,
    PICTURES,
    VARIABLE,
    attach_provenance,
    read_tables,
)
from companion.study.results import RESULT_MIME
from companion.study.running import Study, judge
from companion.study.spread import compute_spread, read_spread, write_spread
from companion.study.stored import exhibit_cells, name_records, read_provenances
from companion.study.verdicts import failures_kept

__all__ = [
    "clean",
    "judge_again",
    "measure_spread",
    "refresh_notebooks",
    "source_of",
    "store_spread",
    "tables_kept",
]

#: the sets of kernels whose tables are compared with the stored ones
OTHERS = tuple(name for name in KERNELS if KERNELS[name] is not SAME_KERNELS)

#: entries of a provenance that may differ between two equal runs.
CIRCUMSTANCES = {"commit", "dirty", "platform", "seconds", "time"}

#: metadata of every stored notebook, without versions, which differ between machines.
METADATA = {
    "jupytext": {"formats": "ipynb,py:percent"},
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}


def source_of(script: Path) -> NotebookNode:
    """Return the notebook of a ``.py`` file in the percent format, without outputs."""
    notebook = jupytext.read(script, fmt="py:percent")
    notebook.metadata = nbformat.from_dict(copy.deepcopy(METADATA))
    notebook.nbformat, notebook.nbformat_minor = 4, 5
    for number, cell in enumerate(notebook.cells, 1):
        cell["id"] = f"cell-{number:03d}"  # random ones would differ at every run
    return notebook


def clean(executed: NotebookNode, source: NotebookNode) -> NotebookNode:
    """Return ``source`` with the outputs and execution counts of ``executed``, and nothing else.

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
            cell.outputs = _merged(ran.outputs)
    if counts != list(range(1, len(counts) + 1)):
        raise ValueError(f"the cells were not executed in order: {counts}")
    return cleaned


def _merged(outputs: Sequence[NotebookNode]) -> list[NotebookNode]:
    """Join neighbouring pieces of the same stream, which is cut at random places.

    Metadata are cleared: they hold sizes of pictures in screen pixels.
    """
    merged: list[NotebookNode] = []
    for output in outputs:
        last = merged[-1] if merged else None
        streams = last is not None and output.output_type == "stream" == last.output_type
        if last is not None and streams and output.name == last.name:
            last.text += output.text
        else:
            cleared = {"metadata": NotebookNode()} if "metadata" in output else {}
            merged.append(NotebookNode({**copy.deepcopy(output), **cleared}))
    return merged


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
        One for each notebook; those that failed, or whose outputs cannot be stored, keep their
        former ones.
    changed : list of str
        Names of the notebooks whose file changed.

    Raises
    ------
    ValueError
        If the environment has other kernels than those with which outputs are stored.
    """
    if others := {v: k for v, k in kernels_in_use().items() if k != SAME_KERNELS[v]}:
        raise ValueError(
            "outputs are stored with the kernels of companion.kernels.SAME_KERNELS; the "
            f"environment has {', '.join(f'{name}={value}' for name, value in others.items())}"
        )
    folder = project / "_build" / "refresh"
    paths = _written(project, names, folder / "source")
    sources = {name: nbformat.read(path, as_version=4) for name, path in paths}
    tables = folder / "tables"
    changed: set[str] = set()
    faults: dict[str, Failure] = {}

    def keep(outcome: Outcome) -> None:
        # At once: what is computed must not be lost when a later notebook is stopped.
        if outcome.failure is None:
            try:
                if _stored(project, outcome, sources[outcome.name], tables):
                    changed.add(outcome.name)
            except ValueError as error:
                faults[outcome.name] = Failure(0, "", str(error))

    with tables_kept(tables):
        outcomes = execute(paths, folder / "notebooks", jobs=jobs, console=console, finished=keep)
    outcomes = [replace(o, failure=faults.get(o.name, o.failure)) for o in outcomes]
    return outcomes, [name for name in names if name in changed]


def judge_again(project: Path, names: Sequence[str]) -> list[str]:
    """Judge the stored tables of notebooks again and store the results; run nothing.

    For what judges, falsifies or describes: as long as ``measure`` is the same, so are the tables.

    Parameters
    ----------
    names : sequence of str
        Notebooks, as ``paper/NN_topic``.

    Returns
    -------
    list of str
        Names of the notebooks whose file changed.
    """
    changed = []
    for name in names:
        path = project / "notebooks" / f"{name}.ipynb"
        before = path.read_text(encoding="utf-8")
        notebook = nbformat.reads(before, as_version=4)
        for exhibit_id, cell in exhibit_cells(notebook).items():
            tables = read_tables(project / FOLDER / exhibit_id)
            data = judge(find_exhibit(exhibit_id).file, tables)._repr_mimebundle_()
            for output in cell["outputs"]:
                if RESULT_MIME in output.get("data", {}):
                    output["data"] = nbformat.from_dict(data)
        after = nbformat.writes(notebook) + "\n"
        if after != before:
            path.write_text(after, encoding="utf-8")
            changed.append(name)
    return changed


def measure_spread(
    project: Path, names: Sequence[str], *, jobs: int, console: Console
) -> tuple[list[Outcome], list[str], list[str]]:
    """Run notebooks with every other set of kernels and store how far their tables are off.

    Parameters
    ----------
    names : sequence of str
        Notebooks, as ``paper/NN_topic``.

    Returns
    -------
    outcomes : list of Outcome
        One for each notebook and set of kernels. A notebook that fails under one has a verdict that
        turns with the kernels, or tables of no fixed shape.
    moved : list of str
        Ids of the exhibits whose tables differ.
    faults : list of str
        Why others keep their former spread, as sentences.
    """
    folder = project / "_build" / "spread"
    paths = _written(project, names, folder / "source")
    outcomes = []
    for kernels in OTHERS:
        console.print(f"With kernels {kernels}")
        with tables_kept(folder / kernels / "tables"):
            outcomes += execute(
                paths, folder / kernels, jobs=jobs, kernels=kernels, console=console
            )
    ran = [o.name for o in outcomes if o.failure is None]
    whole = [path for name, path in paths if ran.count(name) == len(OTHERS)]
    exhibits = [e for path in whole for e in exhibit_cells(nbformat.read(path, as_version=4))]
    folders = {kernels: folder / kernels / "tables" for kernels in OTHERS}
    moved, faults = [], []
    for exhibit_id in exhibits:
        try:
            if store_spread(project, exhibit_id, folders):
                moved.append(exhibit_id)
        except ValueError as error:
            faults.append(str(error))
    return outcomes, moved, faults


def store_spread(project: Path, exhibit_id: str, folders: Mapping[str, Path]) -> bool:
    """Store how far an exhibit's tables in some folders are off; return whether they are.

    Raises
    ------
    ValueError
        If a verdict turns with the kernels, so that it must be *not decided*; if a table has
        another shape with them.
    """
    folder, module = project / FOLDER / exhibit_id, find_exhibit(exhibit_id).file
    stored = read_tables(folder)
    others = {k: read_tables(path / exhibit_id) for k, path in folders.items()}
    with failures_kept():
        was = judge_tables(module, stored)
        for kernels, tables in others.items():
            now = judge_tables(module, tables)
            turned = [v for v, old in zip(now, was, strict=True) if v.status != old.status]
            if turned:
                raise ValueError(
                    f"{exhibit_id}: with kernels {kernels}, "
                    + ", ".join(f"{v.target} is {v.status}" for v in turned)
                )
    spread = compute_spread(stored, others)
    write_spread(spread, folder)
    return bool(spread)


def _written(project: Path, names: Sequence[str], folder: Path) -> list[tuple[str, Path]]:
    """Write notebooks without outputs, of their sources; return them with their names."""
    paths = []
    for name in names:
        path = folder / f"{name}.ipynb"
        path.parent.mkdir(parents=True, exist_ok=True)
        nbformat.write(source_of(project / "notebooks" / f"{name}.py"), path)
        paths.append((name, path))
    return paths


def _stored(project: Path, outcome: Outcome, source: NotebookNode, tables: Path) -> bool:
    """Store one notebook's outputs and tables; return whether its file changed."""
    executed = nbformat.read(outcome.path, as_version=4)
    stored = project / "notebooks" / f"{outcome.name}.ipynb"
    former = nbformat.read(stored, as_version=4) if stored.is_file() else None
    notebook = clean(executed, source)
    runs = _provenances(project, notebook, executed, former, outcome.path)
    name_records(notebook, {e: attach_provenance(tables / e, run) for e, run in runs.items()})
    text = nbformat.writes(notebook) + "\n"
    for folder in (str(project), str(Path.home()) + "/"):
        if folder in text:
            raise ValueError(f"{outcome.name}: its outputs name a folder here, {folder}")
    for exhibit_id in exhibit_cells(executed):
        kept = project / FOLDER / exhibit_id
        spread = read_spread(kept)  # of the run before, until it is measured again
        shutil.rmtree(kept, ignore_errors=True)
        shutil.copytree(tables / exhibit_id, kept, ignore=shutil.ignore_patterns(PICTURES))
        write_spread(spread, kept)
    if former is not None and stored.read_text(encoding="utf-8") == text:
        return False
    stored.write_text(text, encoding="utf-8")
    return True


@contextlib.contextmanager
def tables_kept(folder: Path) -> Iterator[None]:
    """Let the notebooks that run in this block write the tables that they judge to ``folder``."""
    shutil.rmtree(folder, ignore_errors=True)
    os.environ[VARIABLE] = str(folder.resolve())
    try:
        yield
    finally:
        del os.environ[VARIABLE]


def _provenances(
    project: Path,
    notebook: NotebookNode,
    executed: NotebookNode,
    former: NotebookNode | None,
    path: Path,
) -> dict[str, Provenance]:
    """Return the provenance of every exhibit; the former one where run and outputs are the same.

    So a second run changes nothing: date and duration of the first one stay.
    """
    declared = declared_parameters(path)
    session = Study(**{k: v for k, v in declared.items() if k in Study.__dataclass_fields__})
    old_cells = exhibit_cells(former) if former is not None else {}
    old: Mapping[str, Provenance] = {}
    if former is not None:
        with contextlib.suppress(OSError, ValueError):  # a refresh replaces unsound records
            old = read_provenances(project, former)
    ran = exhibit_cells(executed)
    found = {}
    for exhibit_id, cell in exhibit_cells(notebook).items():
        seconds = ran[exhibit_id]["metadata"]["papermill"]["duration"]
        new, before = describe_run(session, exhibit_id, seconds), old.get(exhibit_id)
        same = exhibit_id in old_cells and old_cells[exhibit_id]["outputs"] == cell["outputs"]
        if before is not None and same and _lasting(before) == _lasting(new):
            new = before
        found[exhibit_id] = new
    return found


def _lasting(run: Provenance) -> dict[str, Any]:
    return {k: v for k, v in vars(run).items() if k not in CIRCUMSTANCES}

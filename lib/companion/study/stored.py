"""The results stored in the notebooks, read without running anything.

An exhibit's cell carries the tag ``exhibit:<id>``. Its output holds the machine-readable part of
the result; the notebook's metadata holds the checksum of each exhibit's record in ``tests/tables``
(:mod:`~companion.study.records`), which has the tables and their provenance.
"""

import json
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from companion.study import registry
from companion.study.provenance import Provenance
from companion.study.records import FOLDER, RecordError, read_content
from companion.study.results import RESULT_MIME
from companion.study.verdicts import ACCUSING, STATUSES, UNJUDGED, Verdict, overall

#: a cell tagged ``exhibit:<id>`` makes that exhibit.
EXHIBIT_TAG = "exhibit:"
#: the statuses that need a reason.
_EXPLAINED = {*ACCUSING, *UNJUDGED}
#: statuses that no notebook may hold: nothing was judged, or the run should have stopped.
_NEVER_STORED = {"pending", "failed"}

Notebook = TypeVar("Notebook", bound=dict[str, Any])
Place = TypeVar("Place")


class StoredError(ValueError):
    """A notebook does not hold what its tags announce."""


@dataclass(frozen=True)
class StoredResult:
    """One exhibit's result as a notebook stores it.

    Attributes
    ----------
    content : mapping
        The machine-readable part (:meth:`Result.as_dict`).
    notebook : str
        Path relative to the project.
    provenance : Provenance or None
        That of its record, if the notebook names one.
    """

    content: Mapping[str, Any]
    notebook: str
    provenance: Provenance | None = None

    @property
    def verdicts(self) -> list[Verdict]:
        return [Verdict(**v) for v in self.content["verdicts"]]


@dataclass(frozen=True)
class Stored:
    """Everything the notebooks store, by exhibit id, and their faults as sentences."""

    results: Mapping[str, StoredResult]
    problems: tuple[str, ...] = ()


@dataclass(frozen=True)
class Target:
    """One exhibit, claim or erratum with its verdicts.

    Attributes
    ----------
    id, kind, paper_key, place, title : str
        From the registry; ``kind`` is that of the exhibit, ``claim`` or ``erratum``.
    status : str
        The worst of its verdicts; ``pending`` if there is none.
    verdicts : tuple of Verdict
    notebooks : tuple of str
        Where they were computed.
    """

    id: str
    kind: str
    paper_key: str
    place: str
    title: str
    status: str = "pending"
    verdicts: tuple[Verdict, ...] = ()
    notebooks: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "kind": self.kind,
            "paper": self.paper_key,
            "place": self.place,
            "title": self.title,
            "status": self.status,
            "notebooks": list(self.notebooks),
            "verdicts": [v.as_dict() for v in self.verdicts],
        }


def notebooks(root: str | Path) -> list[Path]:
    """Return the notebooks of a project, ``notebooks/<paper>/*.ipynb``, in the book's order."""
    order = {key: i for i, key in enumerate(registry.PAPERS)}
    found = Path(root).glob("notebooks/*/*.ipynb")
    return sorted(found, key=lambda p: (order.get(p.parent.name, len(order)), *p.parts[-2:]))


def exhibit_cells(nb: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Return a notebook's exhibit cells by exhibit id, in their order.

    Raises
    ------
    StoredError
        If a cell is tagged as two exhibits or an exhibit has two cells.
    """
    cells: dict[str, Mapping[str, Any]] = {}
    for cell in nb["cells"]:
        ids = [
            tag.removeprefix(EXHIBIT_TAG)
            for tag in cell.get("metadata", {}).get("tags", ())
            if tag.startswith(EXHIBIT_TAG)
        ]
        if len(ids) > 1:
            raise StoredError(f"one cell is tagged as several exhibits: {', '.join(ids)}")
        for exhibit_id in ids:
            if exhibit_id in cells:
                raise StoredError(f"two cells are tagged {EXHIBIT_TAG}{exhibit_id}")
            cells[exhibit_id] = cell
    return cells


def checksums_of(nb: Mapping[str, Any]) -> Mapping[str, str]:
    """Return the checksums of the records that a notebook names, by exhibit id."""
    return nb.get("metadata", {}).get("reconrisk", {}).get("records", {})


def name_records(nb: Notebook, checksums: Mapping[str, str]) -> Notebook:
    """Store the checksums of exhibits' records in a notebook's metadata, in place of earlier ones.

    Raises
    ------
    StoredError
        If the notebook has no cell of one of the exhibits.
    """
    foreign = sorted(checksums.keys() - exhibit_cells(nb).keys())
    if foreign:
        raise StoredError(f"the notebook has no cell for {', '.join(foreign)}")
    nb["metadata"]["reconrisk"] = {"records": dict(sorted(checksums.items()))}
    return nb


def read_provenances(root: str | Path, nb: Mapping[str, Any]) -> dict[str, Provenance]:
    """Return the provenances of the records that a notebook names, by exhibit id.

    Raises
    ------
    FileNotFoundError, RecordError
        If a record is missing, damaged, or another than the one that the notebook names.
    """
    found = {}
    for exhibit_id, checksum in checksums_of(nb).items():
        content = read_content(Path(root) / FOLDER / exhibit_id)
        if content["sha256"] != checksum:
            raise RecordError(f"it names another record of {exhibit_id} than {FOLDER} holds")
        found[exhibit_id] = content["provenance"]
    return found


def read(root: str | Path) -> Stored:
    """Read every notebook; report the faults of one without hiding the others."""
    root = Path(root)
    results: dict[str, StoredResult] = {}
    problems: list[str] = []
    for path in notebooks(root):
        name = path.relative_to(root).as_posix()
        try:
            nb = json.loads(path.read_text(encoding="utf-8"))
            cells = exhibit_cells(nb)
        except (ValueError, KeyError) as error:
            problems.append(f"{name}: {error}")
            continue
        provenances: Mapping[str, Provenance] = {}
        try:
            provenances = read_provenances(root, nb)
        except (OSError, ValueError) as error:
            problems.append(f"{name}: {error}")
        for exhibit_id, cell in cells.items():
            try:
                content = _stored_content(exhibit_id, cell)
            except StoredError as error:
                problems.append(f"{name}: {error}")
                continue
            if exhibit_id in results:
                problems.append(f"{name}: {exhibit_id} is in {results[exhibit_id].notebook} too")
                continue
            results[exhibit_id] = StoredResult(content, name, provenances.get(exhibit_id))
    return Stored(results, tuple(problems))


def _stored_content(exhibit_id: str, cell: Mapping[str, Any]) -> dict[str, Any]:
    if cell.get("cell_type") != "code":
        raise StoredError(f"the cell of {exhibit_id} is not a code cell")
    if cell.get("execution_count") is None:
        raise StoredError(f"the cell of {exhibit_id} was never executed")
    contents = [
        output["data"][RESULT_MIME]
        for output in cell.get("outputs", ())
        if RESULT_MIME in output.get("data", {})
    ]
    if len(contents) != 1:
        raise StoredError(f"the cell of {exhibit_id} stores {len(contents)} results; expected one")
    content = contents[0]
    try:
        verdicts = [Verdict(**verdict) for verdict in content["verdicts"]]
        shown = content["exhibit"]
    except (KeyError, TypeError) as error:
        raise StoredError(f"the result stored for {exhibit_id} is malformed: {error}") from None
    if shown != exhibit_id:
        raise StoredError(f"the cell of {exhibit_id} stores the result of {shown}")
    for problem in find_unknown_verdicts(verdicts, _NEVER_STORED):
        raise StoredError(f"{exhibit_id}: {problem}")
    return content


def find_unknown_verdicts(verdicts: Iterable[Verdict], excluded: Container[str]) -> Iterator[str]:
    """Yield as sentences the verdicts on unknown targets, or of unknown or excluded statuses."""
    known = targets()
    for verdict in verdicts:
        if verdict.target not in known:
            yield f"a verdict on {verdict.target!r}, which no CSV lists"
        if verdict.status not in STATUSES or verdict.status in excluded:
            yield f"{verdict.target} has the unknown verdict {verdict.status!r}"


def find_unexplained(verdicts: Iterable[Verdict]) -> Iterator[str]:
    """Yield as sentences the verdicts that lack a reason, or have one without need."""
    for verdict in verdicts:
        if verdict.status in _EXPLAINED and not verdict.why:
            yield f"{verdict.target} is {verdict.status!r} without saying why"
        if verdict.status not in _EXPLAINED and verdict.why:
            yield f"{verdict.target} is {verdict.status!r} but says {verdict.why!r}"


def targets() -> dict[str, Target]:
    """Return everything that needs a verdict, still pending: exhibits, claims and errata.

    Definitions, remarks and assumptions are left out: there is nothing to compute.
    """
    rows: dict[str, Target] = {
        e.id: Target(e.id, e.kind, e.paper_key, e.place, e.title)
        for e in registry.exhibits().values()
        if e.computable
    }
    for c in registry.claims().values():
        rows[c.id] = Target(c.id, "claim", c.paper_key, c.place, c.claim)
    for r in registry.errata().values():
        rows[r.id] = Target(r.id, "erratum", r.paper_key, r.place, r.printed)
    return rows


def group_by_target(
    results: Iterable[tuple[Place, Iterable[Verdict]]],
) -> dict[str, list[tuple[Place, Verdict]]]:
    """Return all verdicts by target, each with the place where it was computed."""
    judged: dict[str, list[tuple[Place, Verdict]]] = {}
    for place, verdicts in results:
        for verdict in verdicts:
            judged.setdefault(verdict.target, []).append((place, verdict))
    return judged


def verdicts_by_target(results: Iterable[tuple[str, Iterable[Verdict]]]) -> dict[str, Target]:
    """Return every target of the registry, in its order, with its verdicts.

    *pending* where nothing judges it. ``results`` are verdicts with where they were computed: a
    notebook's path, or an exhibit's id.

    Raises
    ------
    StoredError
        If the registry does not list the target of a verdict.
    """
    rows, judged = targets(), group_by_target(results)
    for target in judged.keys() - rows.keys():
        raise StoredError(f"{judged[target][0][0]}: a verdict on {target!r}, which no CSV lists")
    return {
        target: replace(
            row,
            status=overall(verdict for _, verdict in judged.get(target, ())),
            verdicts=tuple(verdict for _, verdict in judged.get(target, ())),
            notebooks=tuple(dict.fromkeys(place for place, _ in judged.get(target, ()))),
        )
        for target, row in rows.items()
    }


def find_inconsistencies(results: Mapping[str, StoredResult]) -> Iterator[str]:
    """Yield the contradictions within stored results, as sentences."""
    for exhibit_id, result in results.items():
        where = f"{result.notebook}: {exhibit_id}"
        verdicts = result.verdicts
        yield from (f"{where}: {problem}" for problem in find_unexplained(verdicts))
        status = overall(v for v in verdicts if v.target == exhibit_id)
        if result.content.get("status") != status:
            yield (
                f"{where}: its status is given as {result.content.get('status')!r}, "
                f"its verdicts make it {status!r}"
            )
        if result.provenance is None:
            continue
        for name, ran in (
            ("exhibit", exhibit_id),
            ("profile", result.content.get("profile")),
            ("seed", result.content.get("seed")),
            ("parameters", result.content.get("settings")),
        ):
            recorded = getattr(result.provenance, name)
            if recorded != ran:
                yield f"{where}: its provenance says {name} {recorded!r}, the result {ran!r}"

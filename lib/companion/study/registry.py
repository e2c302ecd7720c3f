"""The registry: exhibits, claims and printed numbers of the five papers, and our own.

Everything is read from CSV files under ``data/`` and cached; nothing is computed.
``data/paper`` holds the papers' exhibits, claims, settings and printed numbers;
``data/companion`` holds our own exhibits and claims and the errata.
"""

import contextlib
import functools
import math
import os
import re
import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, TypeVar

import pandas as pd

__all__ = [
    "PAPERS",
    "WEIGHTS",
    "Claim",
    "Cost",
    "Defence",
    "Erratum",
    "Exhibit",
    "NoCheckout",
    "claims",
    "costs",
    "defences",
    "errata",
    "exhibit",
    "exhibits",
    "forget",
    "of_print",
    "panels_of",
    "parent_of",
    "place_of",
    "printed",
    "printed_as",
    "project_root",
    "setting",
    "untouched",
]

#: paper key -> short title, in the book's order; ``beyond`` marks results of our own.
PAPERS = {
    "mean_to_extreme": "From Mean to Extreme",
    "ziller2024": "Ziller et al. 2024",
    "hayes2023": "Hayes et al. 2023",
    "biswas2024": "Biswas et al.",
    "liu2024": "Liu et al.",
    "beyond": "This companion",
}

#: what an erratum costs a paper -> heading on the page of errata, the heaviest first
WEIGHTS = {
    "result": "Results that fall",
    "condition": "Statements that need a condition",
    "misprint": "Misprints",
    "text": "Where our text of a paper may have lost a symbol",
}


class NoCheckout(FileNotFoundError):
    """There is no checkout of the project to read."""


@dataclass(frozen=True)
class Exhibit:
    """A figure, table, algorithm or theorem (or a part of one) and where it stands."""

    id: str
    paper_key: str
    kind: str
    place: str
    title: str
    x_axis: str = ""
    y_axis: str = ""
    series: str = ""
    dataset: str = ""
    model: str = ""
    parameters: str = ""
    headline_claims: str = ""

    @property
    def computable(self) -> bool:
        """False for definitions, remarks and assumptions, which the paper's page states."""
        return self.kind in {"figure", "table", "algorithm", "theorem"}

    @property
    def anchor(self) -> str:
        """The label of the exhibit in the book."""
        return "exhibit-" + self.id.replace("/", "-")


@dataclass(frozen=True)
class Claim:
    """One checkable statement and its place."""

    id: str
    paper_key: str
    place: str
    claim: str
    how_to_check: str
    origin: str


@dataclass(frozen=True)
class Defence:
    """What can be said for a statement whose verdict is *differs*, *misprint* or *refuted*.

    Attributes
    ----------
    id : str
        The exhibit, claim or erratum.
    reading : str
        How we read what is printed.
    defence : str
        The best that its authors could answer, their own concessions elsewhere included.
    stands_because : str
        Why the verdict stands nonetheless, with the computation.
    """

    id: str
    reading: str = ""
    defence: str = ""
    stands_because: str = ""


@dataclass(frozen=True)
class Untouched:
    """A target whose verdict no scale turns, of ``"a column"`` or of ``"all errors"``, and why."""

    target: str
    scaled: str
    why: str


@dataclass(frozen=True)
class Erratum(Defence):
    """A printed statement that is wrong, the corrected one, and the exhibit that computes it.

    ``weight`` is one of ``WEIGHTS``.
    """

    paper_key: str = ""
    place: str = ""
    printed: str = ""
    corrected: str = ""
    exhibit: str = ""
    weight: str = "result"


@dataclass(frozen=True)
class Cost:
    """The cost of an exhibit in the paper profile, as the CSV file has it.

    Attributes
    ----------
    seconds, memory_gb : str
        Wall time and peak memory of the process.
    device : str
        The cores or GPUs that it had.
    needs_data : str
        What it reads from the data folder (``"photographs"``, ``"MNIST"``, ...); may be empty.
    basis : str
        ``"measured"``, or the smaller run that it is extrapolated from.
    tasks : str
        The number of independent tasks of its first sweep; empty if not counted.
    """

    exhibit: str
    seconds: str
    memory_gb: str
    device: str
    needs_data: str
    basis: str
    tasks: str = ""

    @property
    def ceiling_gb(self) -> float:
        """An upper bound on the memory of a process in GB, with room for other library versions."""
        return 1.25 * float(self.memory_gb) + 0.25


@dataclass(frozen=True)
class StandIn:
    """What takes the place of the papers' data or networks in quick runs, and why it does.

    Attributes
    ----------
    match : str
        A regular expression of what ``Tables.stand_ins`` says of it. The last row's matches all:
        what a reader's own run was told to take.
    what, instead_of : str
        The stand-in and what it stands in for, in Markdown.
    why, lifted_by : str
        Why it is needed, and what would make it superfluous, in Markdown.
    """

    match: str
    what: str
    instead_of: str
    why: str
    lifted_by: str


def project_root() -> Path:
    """Return the folder that holds ``data/paper`` (a checkout of the project).

    It is named by ``RECONRISK_ROOT`` or found above this file or above the current folder. That a
    checkout is read in which this package does not lie is said on stderr, once.

    Raises
    ------
    NoCheckout
        If no such folder is found.
    """
    named = os.environ.get("RECONRISK_ROOT")
    package = Path(__file__).resolve().parents[1]
    starts = [Path(named)] if named else [package, Path.cwd().resolve()]
    for start in starts:
        for folder in (start, *start.parents):
            if (folder / "data" / "paper" / "exhibits.csv").is_file():
                if not named and folder not in package.parents:
                    _say_foreign(folder)
                return folder
    where = f"above {named}" if named else f"above {package} or the current folder"
    raise NoCheckout(
        "the companion reads its papers and verdicts from a checkout of the project, and there is "
        f"none {where} (no data/paper/exhibits.csv): run it inside one, or name one in "
        "RECONRISK_ROOT"
    )


@functools.cache
def _say_foreign(folder: Path) -> None:
    print(f"reading the checkout {folder}, of which this companion is no part", file=sys.stderr)


T = TypeVar("T", Exhibit, Claim, Erratum, Defence, Untouched, Cost, StandIn)
Identified = TypeVar("Identified", Exhibit, Claim, Erratum, Defence)


def forget() -> None:
    """Read the files again when they are next asked for."""
    readers = (exhibits, claims, errata, defences, untouched, costs, stand_ins, _read_printed)
    for reader in (*readers, *_OF_PRINT):
        reader.cache_clear()


def _read(kind: type[T], *names: str, optional: bool = False) -> Iterator[T]:
    wanted = {field.name for field in fields(kind)}
    for path in (project_root() / "data" / name for name in names):
        if optional and not path.is_file():
            continue
        table = pd.read_csv(path, dtype=str, keep_default_na=False)
        for row in table.to_dict("records"):
            yield kind(**{str(k): v for k, v in row.items() if k in wanted})


def _index(rows: Iterator[Identified]) -> dict[str, Identified]:
    indexed: dict[str, Identified] = {}
    for row in rows:
        if row.id in indexed:
            raise ValueError(f"the registry lists {row.id} twice")
        indexed[row.id] = row
    return indexed


@functools.cache
def exhibits() -> dict[str, Exhibit]:
    """Return all exhibits by id, the papers' first, in registry order.

    What a panel's row leaves empty is its figure's.
    """
    rows = _index(_read(Exhibit, "paper/exhibits.csv", "companion/exhibits.csv"))
    return {
        name: _complete_panel(row, rows[_find_parent(name, rows)]) for name, row in rows.items()
    }


#: what a panel shares with its figure
_SHARED = ("x_axis", "y_axis", "series", "dataset", "model", "parameters")


def _complete_panel(panel: Exhibit, figure: Exhibit) -> Exhibit:
    return replace(panel, **{c: getattr(panel, c) or getattr(figure, c) for c in _SHARED})


@functools.cache
def claims() -> dict[str, Claim]:
    """Return all claims by id."""
    return _index(_read(Claim, "paper/claims.csv", "companion/claims.csv"))


@functools.cache
def errata() -> dict[str, Erratum]:
    """Return all errata by id."""
    return _index(_read(Erratum, "companion/errata.csv"))


@functools.cache
def defences() -> dict[str, Defence]:
    """Return the defences by target: of errata, and of exhibits and claims that differ."""
    return {**errata(), **_index(_read(Defence, "companion/defences.csv"))}


@functools.cache
def untouched() -> tuple[Untouched, ...]:
    """Return the targets that no scale of what is measured touches, none if there is no file."""
    return tuple(_read(Untouched, "companion/untouched.csv", optional=True))


@functools.cache
def costs() -> dict[str, Cost]:
    """Return costs of the paper profile by exhibit (``benchmarks/paper_profile.py``)."""
    return {row.exhibit: row for row in _read(Cost, "companion/costs.csv", optional=True)}


@functools.cache
def stand_ins() -> tuple[StandIn, ...]:
    """Return every kind of stand-in, in the order of the CSV file; none if there is no file."""
    return tuple(_read(StandIn, "companion/stand_ins.csv", optional=True))


def stand_in(name: str) -> StandIn:
    """Return the kind of a stand-in, as ``Tables.stand_ins`` names it: the first that matches.

    Raises
    ------
    KeyError
        If no row of ``data/companion/stand_ins.csv`` matches the name.
    """
    for row in stand_ins():
        if re.fullmatch(row.match, name):
            return row
    raise KeyError(f"data/companion/stand_ins.csv does not say why {name!r} stands in")


def exhibit(exhibit_id: str) -> Exhibit:
    """Return one exhibit.

    Raises
    ------
    KeyError
        If it does not exist; the message names the most similar ids.
    """
    if exhibit_id in exhibits():
        return exhibits()[exhibit_id]
    import difflib

    near = difflib.get_close_matches(exhibit_id, exhibits(), n=3, cutoff=0.5)
    hint = f"; did you mean {' or '.join(near)}?" if near else "; `companion list` shows them all"
    raise KeyError(f"no exhibit {exhibit_id!r}{hint}")


def parent_of(exhibit_id: str) -> str:
    """Return the id of the exhibit a panel belongs to (itself when it is no panel).

    Panels are named after their figure: ``fig2_row1_mse`` is one of ``fig2``, ``fig5a`` one of
    ``fig5``.
    """
    return _find_parent(exhibit_id, exhibits())


def _find_parent(exhibit_id: str, ids: Collection[str]) -> str:
    head = exhibit_id
    while "_" in head.partition("/")[2]:
        head = head.rpartition("_")[0]
        if head in ids:
            return head
    head, letter = exhibit_id[:-1], exhibit_id[-1:]
    return head if letter.islower() and head[-1:].isdigit() and head in ids else exhibit_id


def panels_of(exhibit_id: str) -> list[Exhibit]:
    """Return the panels of a figure; empty for other exhibits."""
    return [e for e in exhibits().values() if e.id != exhibit_id == parent_of(e.id)]


def place_of(target: str) -> str:
    """Return the place in its paper of an exhibit, a claim or an erratum.

    Raises
    ------
    KeyError
        If the registry does not list the target.
    """
    for table in (exhibits(), claims(), errata()):
        if target in table:
            return table[target].place
    raise KeyError(f"{target!r} is neither an exhibit, a claim nor an erratum")


#: printed numbers that a block reads in the place of those on disk
_ALTERED: ContextVar[Mapping[str, pd.DataFrame] | None] = ContextVar("altered", default=None)


@contextlib.contextmanager
def printed_as(tables: Mapping[str, pd.DataFrame]) -> Iterator[None]:
    """Let :func:`printed` return other numbers in this block: a world where a paper prints them."""
    token = _ALTERED.set(tables)
    try:
        yield
    finally:
        _ALTERED.reset(token)


def printed(name: str) -> pd.DataFrame:
    """Return the printed numbers and settings of one exhibit, e.g. ``"ziller2024/table1"``.

    Raises
    ------
    KeyError
        If there is no CSV file of that name.
    ValueError
        If a row prints another number than its value, and has no notes that say why.
    """
    altered = _ALTERED.get() or {}
    return altered[name] if name in altered else _read_printed(name)


#: the tables that are made once for what is printed, by function
_OF_PRINT: list[Any] = []


def of_print(function: Callable[..., pd.DataFrame]) -> Callable[..., pd.DataFrame]:
    """Decorate what makes a table of printed numbers alone, which verdicts ask for again and again.

    It is made once, and anew where printed numbers are altered. Each caller gets a copy.
    """
    made = functools.cache(function)
    _OF_PRINT.append(made)

    @functools.wraps(function)
    def table(*given: str) -> pd.DataFrame:
        return function(*given) if _ALTERED.get() else made(*given).copy()

    return table


@functools.cache
def _read_printed(name: str) -> pd.DataFrame:
    path = project_root() / "data" / "paper" / f"{name}.csv"
    if not path.is_file():
        raise KeyError(f"no printed numbers are recorded for {name!r} ({path.name} is missing)")
    table = pd.read_csv(path, dtype={"printed": str, "value": str}, keep_default_na=False)
    _check_values(path, table)
    return table


def _check_values(path: Path, table: pd.DataFrame) -> None:
    """Refuse a number that is printed as one thing and judged as another, without a note."""
    for line, row in enumerate(table.to_dict("records"), start=2):
        text, value = str(row.get("printed", "")), str(row.get("value", ""))
        if not (_NUMBER.fullmatch(text) and _NUMBER.fullmatch(value)) or row.get("notes"):
            continue
        if not math.isclose(float(text), float(value), rel_tol=1e-9):
            raise ValueError(
                f"{path}, line {line}: printed {text}, but its value is {value}; they must agree, "
                "or notes say why not"
            )


_NUMBER = re.compile(r"[-+]?([0-9]+[.]?[0-9]*|[.][0-9]+)([eE][-+]?[0-9]+)?")


def setting(name: str, metric: str) -> str:
    """Return the printed value of one of the paper's settings, as text.

    Raises
    ------
    KeyError
        If not exactly one row has the metric.
    """
    table = printed(name)
    rows = table[table["metric"] == f"setting:{metric}"]
    if len(rows) != 1:
        raise KeyError(f"{name} prints {len(rows)} values of {metric!r}")
    return str(rows["value"].iloc[0])

"""An exhibit is one file, ``companion/papers/<paper>/<name>.py``, or one of a family's file.

The file holds ``PARAMETERS``, ``SETTLES``, ``measure(study) -> Tables``, ``judge(tables)`` and, if
there is a figure, ``draw(tables)``, ``CAPTION`` (or ``caption(tables)``); and ``alt(tables)`` where
words say what the alternative text read off the figure cannot.
``ALTERED`` names the columns whose changes a verdict must notice
(:mod:`~companion.study.perturbations`); ``SCENARIOS`` are altered tables on which
verdicts must come out otherwise (:mod:`~companion.study.falsifiers`). ``CHOICES`` names what
the paper does not print, with the range that it could have. ``SHOWN`` names the tables that a page
prints, ``THUMBNAIL`` the part of a figure that the gallery shows if the whole would be too small;
``PHOTOGRAPHS`` is true where the paper profile reads a folder of photographs.
Files are found by name: ``hayes2023/fig4`` is ``companion.papers.hayes2023.fig4``; and so is an
exhibit of a family, whose ``EXHIBITS`` says what is its own (:mod:`companion.papers`).
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from companion.study import registry
from companion.study.parameters import Parameter
from companion.study.tables import Tables
from companion.study.verdicts import Verdict, judge_own_images

if TYPE_CHECKING:
    from types import ModuleType

    from matplotlib.figure import Figure

__all__ = [
    "Exhibit",
    "all_exhibits",
    "describe_figure",
    "file_of",
    "find_exhibit",
    "id_of",
    "judge_tables",
    "papers_built",
    "targets_of",
]

_PAPERS = "companion.papers"


def id_of(module: ModuleType | str) -> str:
    """Return the id of the exhibit that a module holds."""
    name = module if isinstance(module, str) else module.__name__
    return "/".join(name.split(".")[-2:])


@functools.cache
def file_of(exhibit_id: str) -> ModuleType | None:
    """Import the file of an exhibit; None if there is none of that name."""
    name = f"{_PAPERS}.{exhibit_id.replace('/', '.')}"
    if exhibit_id not in registry.exhibits():
        return None
    try:
        found = importlib.util.find_spec(name)
    except ModuleNotFoundError as error:
        if str(error.name).startswith(_PAPERS):  # there is no folder of the paper
            return None
        raise  # a family needs a package that is not installed
    return importlib.import_module(name) if found is not None else None


@dataclass(frozen=True)
class Exhibit:
    """An exhibit's file and what it declares.

    Attributes
    ----------
    id : str
    file : module
        With ``measure``, ``judge`` and the rest, see :mod:`~companion.study.exhibits`.
    targets : frozenset of str
        Everything it settles.
    parameters : mapping
        Each :class:`Parameter` by name.
    photographs : bool
        Whether its paper profile reads a folder of photographs.
    """

    id: str
    file: ModuleType
    targets: frozenset[str]
    parameters: Mapping[str, Parameter]
    photographs: bool = False

    @property
    def module(self) -> str:
        """The full name of the module that holds its code: its own, or its family's."""
        return getattr(self.file, "FAMILY", self.file.__name__)

    @property
    def choices(self) -> Mapping[str, str]:
        """What the paper does not print and had to be chosen, with the range that it could have."""
        return getattr(self.file, "CHOICES", {})

    @property
    def shown(self) -> tuple[str, ...]:
        """Names of the tables that a page prints."""
        return tuple(getattr(self.file, "SHOWN", ()))

    @property
    def thumbnail(self) -> tuple[float, float, float, float]:
        """What the gallery shows of the figure: left, top, right, bottom, from 0 to 1."""
        return getattr(self.file, "THUMBNAIL", (0.0, 0.0, 1.0, 1.0))

    @property
    def is_drawn(self) -> bool:
        """Whether it has a figure (theorems and most tables have none)."""
        return hasattr(self.file, "draw")

    def draw(self, tables: Mapping[str, Any]) -> Figure | None:
        """Draw tables, live or recorded; return None if the exhibit has no figure."""
        return self.file.draw(tables) if self.is_drawn else None


@functools.cache
def find_file_exhibit(exhibit_id: str) -> Exhibit | None:
    """Return the exhibit with its own file; None if there is no file."""
    module = file_of(exhibit_id)
    if module is None:
        return None
    return Exhibit(
        exhibit_id,
        module,
        targets_of(module),
        getattr(module, "PARAMETERS", {}),
        getattr(module, "PHOTOGRAPHS", False),
    )


def all_exhibits(paper_key: str | None = None) -> dict[str, Exhibit]:
    """Return all exhibits that have a file (of one paper), by id, in registry order."""
    wanted = (e for e in registry.exhibits() if paper_key is None or e.startswith(f"{paper_key}/"))
    return {e: found for e in wanted if (found := find_file_exhibit(e)) is not None}


def papers_built() -> list[str]:
    """Return the keys of the papers that have a folder of exhibits, in the book's order."""
    return [p for p in registry.PAPERS if importlib.util.find_spec(f"{_PAPERS}.{p}") is not None]


def find_exhibit(exhibit_id: str) -> Exhibit:
    """Return an exhibit by its id; for a panel, the whole figure.

    Raises
    ------
    KeyError
        If there is no such exhibit, or it has no file yet.
    """
    row = registry.exhibit(exhibit_id)
    for candidate in (exhibit_id, registry.parent_of(exhibit_id)):
        found = find_file_exhibit(candidate)
        if found is not None:
            return found
    what = "is stated on its paper's page" if not row.computable else "is not built yet (pending)"
    raise KeyError(f"{exhibit_id} {what}; nothing computes it")


def targets_of(module: ModuleType) -> frozenset[str]:
    """Return what an exhibit settles: itself, its panels (``_left``), claims and errata.

    Raises
    ------
    KeyError
        If no CSV file lists one of them.
    """
    exhibit = id_of(module)
    named = getattr(module, "SETTLES", ())
    targets = {exhibit} | {exhibit + t if t.startswith("_") else t for t in named}
    for target in targets:
        registry.place_of(target)
    return frozenset(targets)


def judge_tables(module: ModuleType, tables: Tables) -> tuple[Verdict, ...]:
    """Return the verdicts on an exhibit's tables, failed ones among them.

    Raises
    ------
    RuntimeError
        If a declared target got no verdict or an undeclared one did.
    """
    verdicts = tuple(module.judge(tables))
    targets, judged_targets = targets_of(module), {v.target for v in verdicts}
    if judged_targets != targets:
        raise RuntimeError(
            f"{id_of(module)}: no verdict for {sorted(targets - judged_targets)}, "
            f"undeclared verdicts for {sorted(judged_targets - targets)}"
        )
    return tuple(judge_own_images(v) for v in verdicts) if tables.own_images else verdicts


def describe_figure(module: ModuleType, tables: Tables) -> dict[str, str]:
    """Return ``{"caption": ..., "alt": ...}`` of an exhibit's figure; empty if it has none."""
    if not hasattr(module, "draw"):
        return {}
    caption = module.CAPTION if hasattr(module, "CAPTION") else module.caption(tables)
    words = module.alt(tables) if hasattr(module, "alt") else module.draw.describe(tables)
    return {"caption": caption, "alt": words}

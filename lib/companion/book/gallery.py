"""The exhibits in a folder of executed notebooks: cells, pictures, results and verdicts.

Recorded runs are held beside them. Where an exhibit has one, its verdicts count.
"""

import base64
import functools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import nbformat

from companion.book.execute import notebooks_of
from companion.study import registry
from companion.study.recorded import Recorded
from companion.study.results import RESULT_MIME
from companion.study.stored import exhibit_cells, group_by_target
from companion.study.verdicts import Verdict, overall

__all__ = ["Gallery", "Shown", "gallery"]


@dataclass(frozen=True)
class Shown:
    """One exhibit's cell.

    Attributes
    ----------
    exhibit : str
        Its id.
    document : str
        The notebook, as named in the book's table of contents.
    result : mapping or None
        The machine-readable result among the cell's outputs; None if the cell did not finish.
    picture : bytes or None
        The first PNG among its outputs.
    """

    exhibit: str
    document: str
    result: Mapping[str, Any] | None
    picture: bytes | None

    @property
    def verdicts(self) -> Iterator[Verdict]:
        """The verdicts in the cell's result."""
        for fields in (self.result or {}).get("verdicts", ()):
            yield Verdict(**fields)

    @property
    def status(self) -> str:
        """The computed verdict on the exhibit itself."""
        return "pending" if self.result is None else str(self.result["status"])


@dataclass(frozen=True)
class Gallery:
    """All exhibits in a folder of notebooks, their records, and the verdicts of both."""

    shown: Mapping[str, Shown] = field(default_factory=dict)
    recorded: Recorded = field(default_factory=Recorded)

    def cell_of(self, exhibit_id: str) -> Shown | None:
        """Return the cell that shows an exhibit; for a panel, that of the whole figure."""
        return self.shown.get(exhibit_id) or self.shown.get(registry.parent_of(exhibit_id))

    def verdicts_for(self, target: str) -> list[tuple[Shown, Verdict]]:
        """Return every verdict on one target with the cell that reached it."""
        return self._judged.get(target, [])

    @functools.cached_property
    def _judged(self) -> dict[str, list[tuple[Shown, Verdict]]]:
        return group_by_target((shown, shown.verdicts) for shown in self.shown.values())

    def status(self, target: str) -> str:
        """Return the status that counts for a target, *pending* if nothing judges it.

        It is the worst over the exhibits that judge it, each by its recorded run if it has one and
        by its notebook's cell otherwise.
        """
        return self.recorded.counting(
            target, ((s.exhibit, v) for s, v in self.verdicts_for(target))
        )

    def shown_status(self, target: str) -> str:
        """Return the notebooks' worst status for a target, *pending* if nothing judges it."""
        return overall(v for _, v in self.verdicts_for(target))

    def profile(self, target: str) -> str:
        """Return the profile in which the notebooks judged a target."""
        named = {
            str((s.result or {}).get("profile", "quick")) for s, _ in self.verdicts_for(target)
        }
        return " and ".join(sorted(named)) or "quick"


def gallery(notebooks: Path) -> Gallery:
    """Read every notebook below a folder (``notebooks/<paper>/NN_topic.ipynb``).

    Raises
    ------
    ValueError
        If two cells show the same exhibit.
    """
    shown: dict[str, Shown] = {}
    for path in notebooks_of(notebooks):
        document = f"notebooks/{path.relative_to(notebooks).with_suffix('').as_posix()}"
        for exhibit, cell in exhibit_cells(nbformat.read(path, as_version=4)).items():
            if exhibit in shown:
                raise ValueError(f"{exhibit} is shown twice: {shown[exhibit].document}, {document}")
            shown[exhibit] = Shown(exhibit, document, *_outputs(cell))
    return Gallery(shown)


def _outputs(cell: Mapping[str, Any]) -> tuple[Mapping[str, Any] | None, bytes | None]:
    result = picture = None
    for output in cell["outputs"]:
        data = output.get("data", {})
        result = result or data.get(RESULT_MIME)
        if picture is None and "image/png" in data:
            picture = base64.b64decode(data["image/png"])
    return result, picture

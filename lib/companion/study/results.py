"""The judged result of an exhibit, and its display in a notebook."""

import hashlib
import html
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd

from companion.study import registry
from companion.study.parameters import plain
from companion.study.tables import Tables, file_stem
from companion.study.typeset import typeset
from companion.study.verdicts import Verdict, overall

#: the machine-readable part of a result in a notebook's stored output.
RESULT_MIME = "application/vnd.reconrisk.result+json"


def digest(table: pd.DataFrame, digits: int = 6) -> str:
    """Return a short hash of a table's values, numbers rounded to ``digits`` significant digits.

    nbval compares it in place of the figure, whose pixels differ between machines.
    """
    lines = [",".join(map(str, table.columns))]
    for row in table.itertuples(index=False):
        lines.append(",".join(_canonical(entry, digits) for entry in row))
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]


def _digest_of_files(tables: Tables) -> str:
    """Return one hash of the tables that are not exact, as their files hold them."""
    exact = set(map(file_stem, tables.exact))
    measured = {file_stem(n): t for n, t in tables.items() if file_stem(n) not in exact}
    files = (
        f"{n}\n{measured[n].to_csv(index=False, float_format='%.5e')}" for n in sorted(measured)
    )
    return hashlib.sha256("".join(files).encode()).hexdigest()[:16]


def _canonical(entry: Any, digits: int) -> str:
    if isinstance(entry, float | np.floating):
        return f"{float(entry) + 0.0:.{digits - 1}e}"
    return str(entry)


@dataclass(frozen=True)
class Result:
    """One exhibit, judged.

    Attributes
    ----------
    tables : Tables
        The data behind the figure, or the table itself, and how they were measured.
    verdicts : sequence of Verdict
        For the exhibit, its panels, and the claims and errata it settles.
    description : mapping
        Caption and alternative text of its picture.
    """

    tables: Tables
    verdicts: Sequence[Verdict]
    description: Mapping[str, str] = field(default_factory=dict)

    @property
    def exhibit(self) -> str:
        """Its id."""
        return self.tables.exhibit

    @property
    def status(self) -> str:
        """The verdict on the exhibit itself (the worst, if it was judged in several ways)."""
        return overall(self.of(self.exhibit))

    def of(self, target: str) -> Iterator[Verdict]:
        """The verdicts on one target."""
        return (v for v in self.verdicts if v.target == target)

    def as_dict(self) -> dict[str, Any]:
        """The part that is stored and compared: no array, no table, only digests of them."""
        tables = self.tables
        return {
            "exhibit": self.exhibit,
            "profile": tables.profile,
            "seed": tables.seed,
            "settings": plain(tables.parameters),
            "ran": tables.ran,
            "status": self.status,
            "verdicts": [v.as_dict() for v in self.verdicts],
            "digests": {name: digest(tables[name]) for name in tables.exact},
            "measured": _digest_of_files(tables),
            **self.description,
            "stand_ins": list(tables.stand_ins),
            "subsets": list(tables.subsets),
        }

    def __repr__(self) -> str:
        return "\n".join(_lines(self.as_dict()))

    def _repr_html_(self) -> str:
        return verdict_table(self.verdicts)

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        return {
            "text/plain": repr(self),
            "text/html": self._repr_html_(),
            RESULT_MIME: self.as_dict(),
        }


def verdict_table(verdicts: Iterable[Verdict]) -> str:
    """Return a table of verdicts as HTML, in one row those that differ in their target only."""
    rows = "".join(_row(targets, v) for targets, v in _rows(verdicts))
    return (
        '<div class="verdicts"><table><thead><tr><th>What</th><th>Verdict</th><th>Checked</th>'
        "<th>Ours</th><th>Paper</th></tr></thead><tbody>" + rows + "</tbody></table></div>"
    )


def _rows(verdicts: Iterable[Verdict]) -> Iterator[tuple[list[str], Verdict]]:
    """Group verdicts that differ only in their target: they share a row."""
    for _, alike in itertools.groupby(verdicts, lambda v: replace(v, target="")):
        group = list(alike)
        yield [v.target for v in group], group[0]


def _lines(result: Mapping[str, Any]) -> list[str]:
    """Return the plain text of a result, given as a dictionary."""
    lines = [f"{result['exhibit']}: {result['status']}"]
    for targets, v in _rows(Verdict(**fields) for fields in result["verdicts"]):
        values = "; ".join(
            f"{label} {value}"
            for label, value in (("ours", v.ours), ("paper", v.paper), ("within", v.tolerance))
            if value
        )
        lines.append(
            f"  {', '.join(targets)}: {v.outcome}: {v.told}" + (f" ({values})" * bool(values))
        )
        if v.why:
            lines.append(f"      {v.reason}")
        if v.notices:
            lines.append(f"      would have noticed: {v.notices}")
    return lines + [f"  data {name}: {known}" for name, known in result["digests"].items()]


def is_text_of(text: str, result: Mapping[str, Any]) -> bool:
    """Whether a text says what a result, as a dictionary, holds; a notebook sorts its digests."""
    return sorted(text.splitlines()) == sorted("\n".join(_lines(result)).splitlines())


def _row(targets: Iterable[str], verdict: Verdict) -> str:
    cells = [html.escape(typeset(part)) for part in (verdict.told, verdict.ours, verdict.paper)]
    if verdict.why:
        cells[0] += f'<div class="why">{html.escape(typeset(verdict.reason))}</div>'
    if verdict.notices:
        cells[0] += (
            f'<div class="why notices">would have noticed: {html.escape(typeset(verdict.notices))}'
            "</div>"
        )
    if verdict.tolerance:
        cells[2] += f'<div class="why">within {html.escape(typeset(verdict.tolerance))}</div>'
    part = f'<div class="why">on {html.escape(verdict.on)}</div>' if verdict.on else ""
    slug = verdict.status.replace(" ", "-")
    return (
        f"<tr><td>{'<br>'.join(html.escape(_label(target)) for target in targets)}</td>"
        f'<td><span class="verdict verdict-{slug}">{verdict.status}</span>{part}</td>'
        + "".join(f"<td>{cell}</td>" for cell in cells)
        + "</tr>"
    )


def _label(target: str) -> str:
    """An exhibit by its place in the paper, a claim or an erratum by its id."""
    exhibits = registry.exhibits()
    return exhibits[target].place if target in exhibits else target

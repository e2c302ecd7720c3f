"""Entries as text: rows and tables, at any width and in Markdown."""

from __future__ import annotations

import math
import re
import textwrap
from collections.abc import Iterable, Sequence

from reconrisk.risk._catalogue import KINDS
from reconrisk.risk._entries import DIRECTIONS, Entry
from reconrisk.risk._numbers import describe_value

__all__ = [
    "COLUMNS",
    "PAPERS",
    "basis",
    "by_kind",
    "capitalise",
    "columns",
    "quote",
    "is_never",
    "left_out",
    "markdown_table",
    "place",
    "row",
    "titles_of",
    "wrap",
]

PAPERS = {
    "mean_to_extreme": "A, From Mean to Extreme",
    "ziller2024": "B, Ziller et al.",
    "hayes2023": "C, Hayes et al.",
    "biswas2024": "D, Biswas et al.",
    "liu2024": "E, Liu et al.",
    "beyond": "this companion",
}
COLUMNS = ("what", "answer", "which is", "from")
#: least width of a table; below, its rows become paragraphs
_LEAST_TABLE = 72
#: log of a chance that nobody can tell from zero
_NEVER = -30.0 * math.log(10.0)


def place(entry: Entry, *, short: bool = False) -> str:
    """Return the source of an entry's formula: the paper, or its letter, and the place in it."""
    source = entry.source
    if source is None:
        return ""
    paper = PAPERS.get(source.paper, source.paper)
    if short:
        paper = "own" if source.paper == "beyond" else paper.partition(",")[0]
    return ": ".join(filter(None, (paper, source.place)))


def row(entry: Entry, *, short: bool = False) -> tuple[str, str, str, str]:
    """Return an entry as a row of a table: what, the answer, which is, from."""
    words = DIRECTIONS.get(entry.direction, entry.direction)
    return capitalise(entry.title), describe_value(entry), words, place(entry, short=short)


def left_out(entries: Iterable[Entry]) -> list[str]:
    """Return a sentence for each group of entries without a value: what is missing, or why."""
    needs: dict[tuple[str, ...], list[Entry]] = {}
    why: dict[str, list[Entry]] = {}
    for entry in entries:
        if entry.status == "ok":
            continue
        if entry.missing:
            needs.setdefault(tuple(entry.missing), []).append(entry)
        else:
            why.setdefault(entry.reason, []).append(entry)
    lines = [
        f"Not answered without {_join_fields(missing)}: {titles_of(own)}."
        for missing, own in needs.items()
    ]
    return lines + [f"{capitalise(titles_of(own))}: {reason}." for reason, own in why.items()]


def titles_of(entries: Iterable[Entry]) -> str:
    """Titles of kinds, without their points, each once."""
    found = dict.fromkeys(KINDS[entry.kind].title for entry in entries)
    return "; ".join(_AT.sub("", _AT_FIRST.sub("Within an error", title)) for title in found)


#: where a title has its point, and where it begins with it
_AT, _AT_FIRST = re.compile(r"(?: with| on| at|,) \{at\}"), re.compile(r"^\{at\}(?: hit)?")


def _join_fields(fields: Sequence[str]) -> str:
    names = [field.replace("_", " ") for field in fields]
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))


def is_never(entry: Entry) -> bool:
    """Whether a chance is below 1e-30, and nobody asked for a prior that small."""
    if entry.status != "ok" or "log_prior" in dict(entry.at):
        return False
    if entry.unit == "records":
        return entry.upper is not None and 0.0 < entry.upper < 1e-30
    if entry.unit != "probability":
        return False
    if entry.log_upper is not None:
        return entry.log_upper < _NEVER
    return entry.upper == 0.0


def by_kind(entries: Sequence[Entry]) -> list[tuple[str, list[Entry]]]:
    """Group entries by kind, each under its title without the point."""
    groups: dict[str, list[Entry]] = {}
    for entry in entries:
        groups.setdefault(entry.kind, []).append(entry)
    return [
        (capitalise(own[0].title if len(own) == 1 else KINDS[kind].title.format(at="…")), own)
        for kind, own in groups.items()
    ]


def basis(entry: Entry) -> str:
    """Return an entry's assumptions and tightness, which all entries of its kind share."""
    return " ".join((*entry.assumptions, entry.tightness))


def capitalise(text: str) -> str:
    """Capitalise the first letter."""
    return text[:1].upper() + text[1:]


def wrap(text: str, width: int, first: str = "", then: str = "") -> list[str]:
    """Return a text in lines of at most ``width`` characters, with the given indents."""
    return textwrap.wrap(text, width, initial_indent=first, subsequent_indent=then) or [""]


def columns(names: Sequence[str], rows: Iterable[Sequence[str]], width: int) -> list[str]:
    """Return a table in lines of at most ``width`` characters; as paragraphs if that is narrow.

    Parameters
    ----------
    names : sequence of str
        Headings of the columns.
    rows : iterable of sequences of str
    width : int
        Of the window.
    """
    rows = list(rows)
    count = len(names)
    if width < _LEAST_TABLE or (width - 2 * count) // count < 12:
        return [line for cells in rows for line in _paragraph(names, cells, width)]
    widest = [max(len(cell) for cell in column) for column in zip(names, *rows, strict=True)]
    free = width - 2 * (count - 1)
    # the widest column gives way until all fit
    while sum(widest) > free:
        widest[widest.index(max(widest))] -= 1
    lines = ["  ".join(n.ljust(w) for n, w in zip(names, widest, strict=True)).rstrip()]
    lines.append("─" * min(sum(widest) + 2 * (count - 1), width))
    for cells in rows:
        parts = [textwrap.wrap(c, w) or [""] for c, w in zip(cells, widest, strict=True)]
        for i in range(max(map(len, parts))):
            texts = [part[i] if i < len(part) else "" for part in parts]
            line = "  ".join(t.ljust(w) for t, w in zip(texts, widest, strict=True))
            lines.append(line.rstrip())
    return lines


def _paragraph(names: Sequence[str], cells: Sequence[str], width: int) -> list[str]:
    if tuple(names) == COLUMNS:
        lines = wrap(f"{cells[0]}: {cells[1]}", width, "", "  ")
        return lines + wrap(f"({cells[2]}; {cells[3]})", width, "  ", "  ")
    named = [f"{name}: {cell}" for name, cell in zip(names[1:], cells[1:], strict=True)]
    more = [line for text in named for line in wrap(text, width, "  ", "    ")]
    return wrap(cells[0], width) + more


def markdown_table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Return the lines of a table in Markdown, and an empty one."""
    lines = [list(columns), ["---"] * len(columns), *rows]
    return ["| " + " | ".join(map(quote, line)) + " |" for line in lines] + [""]


def quote(text: str) -> str:
    """Escape the characters that are special in Markdown."""
    for sign in "\\|*_<>`[]$":
        text = text.replace(sign, f"\\{sign}")
    return text.replace("\n", " ")

"""Pieces of MyST Markdown for the generated pages."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence

from companion.study import registry
from companion.study.typeset import typeset
from companion.study.verdicts import STATUSES, Verdict

__all__ = [
    "anchor",
    "badge",
    "checked",
    "escape",
    "exhibit_link",
    "list_table",
    "listed",
    "one_line",
    "slug",
    "tally",
]

_SPECIAL = re.compile(r"([\\`*_{}\[\]<>$|#~^&!:])")
_LIST_START = re.compile(r"^(\s*(?:\d+|))([-+.)])")


def escape(text: str) -> str:
    """Return plain text on one line, typeset and with Markdown's special characters escaped."""
    escaped = _SPECIAL.sub(r"\\\1", typeset(one_line(text)))
    return _LIST_START.sub(r"\1\\\2", escaped)


def one_line(text: str) -> str:
    """Return ``text`` with single spaces in place of all white space."""
    return " ".join(text.split())


def listed(value: object) -> str:
    """Return a parameter's value as text: the entries of a list with commas between them."""
    return ", ".join(map(str, value)) if isinstance(value, tuple | list) else str(value)


def slug(text: str) -> str:
    """Return ``text`` as an HTML id: lower-case letters and digits, joined by hyphens."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")


def anchor(kind: str, target: str) -> str:
    """Return the label of a claim or an erratum: ``claim-a-001``, ``erratum-e-a-01``."""
    return f"{kind}-{slug(target)}"


def badge(status: str) -> str:
    """Return a verdict as HTML that the style sheet colours."""
    return f'<span class="verdict verdict-{slug(status)}">{status}</span>'


def tally(statuses: Iterable[str]) -> str:
    """Return the number of verdicts of each status, from best to worst."""
    counts = Counter(statuses)
    return ", ".join(f"{counts[s]} {badge(s)}" for s in STATUSES if counts[s]) or "none"


def checked(verdicts: Iterable[Verdict]) -> str:
    """Return the words above folded verdicts: how many there are of each status."""
    counts = Counter(v.status for v in verdicts)
    return f"Checks: {', '.join(f'{n} {status}' for status, n in counts.items())}"


def exhibit_link(exhibit_id: str, text: str = "") -> str:
    """Return a cross-reference to an exhibit; its text is by default the place in the paper."""
    row = registry.exhibit(exhibit_id)
    words = re.sub(r"[`<>]", "", text or row.place)
    return f"{{ref}}`{words} <{row.anchor}>`"


def list_table(
    header: Sequence[str], rows: Sequence[Sequence[str]], *, widths: Sequence[int], classes: str
) -> str:
    """Return a table whose cells are Markdown; cells may have several paragraphs."""
    lines = [
        ":::{list-table}",
        ":header-rows: 1",
        f":class: {classes}",
        f":widths: {' '.join(map(str, widths))}",
        "",
    ]
    for row in (header, *rows):
        for column, cell in enumerate(row):
            first, *rest = cell.splitlines() or [""]
            lines.append(("* - " if column == 0 else "  - ") + first)
            lines += ["    " + line if line else "" for line in rest]
    return "\n".join([*lines, ":::", ""])

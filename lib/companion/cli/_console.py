"""Printing of verdicts."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from reconrisk.cli.console import print_table

if TYPE_CHECKING:
    from rich.text import Text

    from companion.study.verdicts import Verdict

_STYLES = {
    "reproduced": "green",
    "holds on stand-in data": "cyan",
    "not run here": "yellow",
    "not decided": "yellow",
    "differs on stand-in data": "magenta",
    "differs": "magenta",
    "refuted": "blue",
    "misprint": "blue",
    "pending": "dim",
    "stated": "dim",
    "failed": "bold red",
}


def status_text(status: str, words: str = "") -> Text:
    """Return a verdict, or other words for it, in its colour."""
    from rich.text import Text

    return Text(words or status, style=_STYLES.get(status, ""))


def print_verdicts(verdicts: Iterable[Verdict]) -> None:
    """Print verdicts with the statements and numbers that were compared."""
    print_table(
        ("what", "verdict", "checked", "ours", "paper"),
        [
            (
                v.target,
                status_text(v.status, v.outcome),
                v.told + (f"\n{v.reason}" if v.why else ""),
                v.ours,
                "\n".join(filter(None, [v.paper, v.tolerance and f"within {v.tolerance}"])),
            )
            for v in verdicts
        ],
    )

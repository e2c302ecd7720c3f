"""Output of the commands: tables on stdout, notes and errors on stderr."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

__all__ = [
    "FAILED",
    "MISTAKE",
    "chosen_from",
    "fail",
    "mistakes",
    "note",
    "print_json",
    "print_table",
    "show",
]

#: exit statuses: a check failed; the command or its input was wrong.
FAILED, MISTAKE = 1, 2

#: columns where stdout is not a terminal and COLUMNS is not set.
PIPE_WIDTH = 140


def _console() -> Console:
    from rich.console import Console

    known = sys.stdout.isatty() or "COLUMNS" in os.environ
    # quotations contain brackets and colons, which are not markup
    return Console(markup=False, highlight=False, emoji=False, width=None if known else PIPE_WIDTH)


def show(text: str | Table) -> None:
    """Print to stdout."""
    _console().print(text, soft_wrap=isinstance(text, str))


def note(text: str) -> None:
    """Print a line to stderr and flush it."""
    print(text, file=sys.stderr, flush=True)


def print_json(value: Any) -> None:
    """Print a value as JSON to stdout."""
    print(json.dumps(value, indent=2, ensure_ascii=False))


def fail(message: str, code: int) -> typer.Exit:
    """Print an error and return the exception that ends the command."""
    note(f"error: {message}")
    return typer.Exit(code)


@contextlib.contextmanager
def mistakes(
    debug: bool = False,
    kinds: tuple[type[Exception], ...] = (KeyError, TypeError, ValueError, OSError),
    hint: str = "",
) -> Iterator[None]:
    """Turn exceptions into a one-line error and exit status 2; with ``debug``, raise them.

    ``kinds`` are the exceptions to turn, by default all that the library raises on bad input.
    """
    try:
        yield
    except kinds as error:
        if debug:
            raise
        # the text of a KeyError is the repr of its message
        message = error.args[0] if isinstance(error, KeyError) and error.args else error
        raise fail(f"{message}{hint}", MISTAKE) from None


def print_table(
    columns: Iterable[str], rows: Iterable[Iterable[str | Text]], *, flexible: str = ""
) -> None:
    """Print a table; with ``flexible``, only the column of that name is wrapped to fit."""
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for name in columns:
        wide = not flexible or name == flexible
        table.add_column(name, overflow="fold", no_wrap=not wide, ratio=1 if wide else None)
    for row in rows:
        table.add_row(*row)
    show(table)


def chosen_from(name: str, given: Iterable[str] | None, known: Iterable[str]) -> list[str]:
    """Return the known values named on the command line, or all; raise ValueError for others."""
    known = list(known)
    if not given:
        return known
    chosen = []
    by_words = {k.replace("-", " "): k for k in known}
    for text in given:
        found = by_words.get(text.strip().lower().replace("-", " "))
        if found is None:
            raise ValueError(f"--{name} must be one of {', '.join(known)}; got {text!r}")
        chosen.append(found)
    return chosen

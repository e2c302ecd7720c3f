"""Output of the commands: tables on stdout, notes and errors on stderr."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import sys
import tempfile
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

__all__ = [
    "FAILED",
    "MISTAKE",
    "check_writable",
    "chosen_from",
    "fail",
    "usage_errors",
    "note",
    "print_json",
    "print_table",
    "said_when_slow",
    "show",
    "width_of",
    "write_out",
    "write_whole",
]

#: exit statuses: a check failed; the command or its input was wrong.
FAILED, MISTAKE = 1, 2

#: what a terminal without these signs is given
_PLAIN_SIGNS = str.maketrans({"─": "-", "−": "-", "×": "x", "≤": "<=", "≥": ">=", "…": "..."})
#: seconds after which a command says that it is still at work
_SLOW = 4.0
#: columns where stdout is not a terminal and COLUMNS is not set.
PIPE_WIDTH = 140
#: columns of plain text in a file or a pipe, and the fewest in a terminal.
PLAIN_WIDTH, _LEAST_WIDTH = 80, 20


def _console() -> Console:
    from rich.console import Console

    known = sys.stdout.isatty() or "COLUMNS" in os.environ
    # quotations contain brackets and colons, which are not markup
    return Console(markup=False, highlight=False, emoji=False, width=None if known else PIPE_WIDTH)


def width_of(out: Path | None = None) -> int:
    """Return the characters of a line of plain text: the terminal's, or :data:`PLAIN_WIDTH`."""
    if out is None and ("COLUMNS" in os.environ or (sys.stdout and sys.stdout.isatty())):
        return max(shutil.get_terminal_size((PLAIN_WIDTH, 24)).columns, _LEAST_WIDTH)
    return PLAIN_WIDTH


def check_writable(path: Path) -> None:
    """Raise OSError if :func:`write_whole` cannot write a file; nothing is changed."""
    if path.is_dir():
        raise OSError(f"{path} is a folder; a file can be written")
    if path.exists() and not path.is_file():
        return  # a device or a pipe: written as it stands
    try:
        with tempfile.NamedTemporaryFile(dir=path.resolve().parent, prefix=".reconrisk-"):
            pass
    except OSError as error:
        raise OSError(f"{path} cannot be written: {error.strerror}") from None


def write_whole(path: Path, text: str) -> None:
    """Write a file as a whole or not at all: on an error the old one stays as it was."""
    if path.exists() and not path.is_file():
        try:
            path.write_text(text, encoding="utf-8")
        except OSError as error:
            raise OSError(f"{path} cannot be written: {error.strerror}") from None
        return
    target = path.resolve()  # a link stays a link
    descriptor, name = tempfile.mkstemp(dir=target.parent, prefix=".reconrisk-")
    part = Path(name)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        # the old file's mode, or what the process gives new files
        part.chmod(target.stat().st_mode & 0o7777 if target.exists() else 0o666 & ~_mask())
        part.replace(target)
    except OSError as error:
        raise OSError(f"{path} cannot be written: {error.strerror}; it is as it was") from None
    finally:
        part.unlink(missing_ok=True)


def _mask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def write_out(text: str, *, utf8: bool = False) -> None:
    """Write a text to stdout, in UTF-8 or with plain signs for those that it cannot encode.

    Raises
    ------
    OSError
        If stdout is closed, or cannot be written.
    """
    if sys.stdout is None:
        raise OSError("it is closed")
    if utf8 and hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(encoding="utf-8")
    encoding = sys.stdout.encoding or "utf-8"
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        text = text.translate(_PLAIN_SIGNS).encode(encoding, "replace").decode(encoding)
    sys.stdout.write(text)
    sys.stdout.flush()


@contextlib.contextmanager
def said_when_slow(what: str) -> Iterator[None]:
    """Say once, in a terminal, that something is still at work after some seconds."""
    if sys.stderr is None or not sys.stderr.isatty():
        yield
        return
    timer = threading.Timer(_SLOW, note, (f"still {what} ...",))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def show(text: str | Table) -> None:
    """Print to stdout."""
    _console().print(text, soft_wrap=isinstance(text, str))


def note(text: str) -> None:
    """Print a line to stderr and flush it."""
    if sys.stderr is not None:
        print(text, file=sys.stderr, flush=True)


def print_json(value: Any) -> None:
    """Print a value as JSON to stdout."""
    print(json.dumps(value, indent=2, ensure_ascii=False))


def fail(message: str, code: int) -> typer.Exit:
    """Print an error and return the exception that ends the command."""
    note(f"error: {message}")
    return typer.Exit(code)


@contextlib.contextmanager
def usage_errors(
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

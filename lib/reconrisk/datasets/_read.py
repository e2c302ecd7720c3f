"""Reading of files, with errors that name the file, what was found and what was expected."""

from __future__ import annotations

import stat
from pathlib import Path

#: Bytes of the largest file or array that is read.
LARGEST = 2**31


def readable(path: Path, what: str, advice: str = "") -> Path:
    """Return ``path`` if it is a regular file; ``what`` and ``advice`` word the error.

    Raises
    ------
    FileNotFoundError, OSError
        If the file is missing or not accessible.
    ValueError
        If it is a folder or another file that is not regular.
    """
    path = Path(path)
    end = f". {advice}" if advice else ""
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        raise FileNotFoundError(f"{path} is missing; expected {what}{end}") from None
    except OSError as error:
        raise _unreadable(path, what, error) from None
    if not stat.S_ISREG(mode):
        found = "a folder" if stat.S_ISDIR(mode) else "not a regular file"
        raise ValueError(f"{path} is {found}; expected {what}, as a file{end}")
    return path


def contents(path: Path, what: str, advice: str = "", most: int = LARGEST) -> bytes:
    """Return a file's bytes, at most ``most`` of them; raises as :func:`readable`."""
    path = readable(path, what, advice)
    try:
        with path.open("rb") as file:
            data = file.read(most + 1)
    except OSError as error:
        raise _unreadable(path, what, error) from None
    if len(data) > most:
        raise ValueError(f"{path} has more than {most:,} bytes; expected {what}. {advice}".rstrip())
    return data


def _unreadable(path: Path, what: str, error: OSError) -> OSError:
    reason = error.strerror or str(error)
    return type(error)(f"{path} cannot be read ({reason}); expected {what}")

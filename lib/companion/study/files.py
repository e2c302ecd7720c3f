"""Files that are written whole or not at all, and JSON files that hold a checksum of themselves."""

import contextlib
import functools
import hashlib
import json
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from companion.study.tasks import canonical


def seal(body: Mapping[str, Any]) -> bytes:
    """Return a mapping as JSON with a checksum of all its entries, ``sha256``, as the last one."""
    text = json.dumps({**body, "sha256": _checksum(body)}, indent=1, ensure_ascii=False)
    return text.encode() + b"\n"


def unseal(data: bytes, schema: int) -> dict[str, Any]:
    """Return the mapping that :func:`seal` wrote, with its checksum.

    Raises
    ------
    ValueError
        If it is no JSON, was not sealed, has another layout than ``schema``, or was changed.
    """
    body = json.loads(data)
    if not isinstance(body, dict) or "sha256" not in body:
        raise ValueError("it holds no checksum")
    if body.get("schema") != schema:
        raise ValueError(f"layout {body.get('schema')!r}, expected {schema}")
    if _checksum({k: v for k, v in body.items() if k != "sha256"}) != body["sha256"]:
        raise ValueError("its checksum does not match")
    return body


def _checksum(body: Mapping[str, Any]) -> str:
    # as JSON gives it back: tuples and lists are the same
    return hashlib.sha256(canonical("a file", body, finite=False).encode()).hexdigest()


def write_atomically(path: Path, data: bytes) -> None:
    """Write a file whole or not at all, even if the machine stops.

    The bytes go to a temporary file beside it, which is flushed to the disk and then renamed.
    """
    handle, temporary = tempfile.mkstemp(prefix=f".{path.stem[:16]}-", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        os.chmod(temporary, 0o666 & ~_umask())
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        raise
    if os.name == "posix":  # the new name is on the disk only when its folder is
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


@functools.cache
def _umask() -> int:
    # a temporary file is readable by its owner only; the finished one follows the user's umask
    mask = os.umask(0)
    os.umask(mask)
    return mask

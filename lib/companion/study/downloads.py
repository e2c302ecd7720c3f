"""Fetching the data sets that may be fetched: asked for, verified, and whole or not at all.

The standard library downloads; torchvision's own downloader writes under the final name, so that an
interrupted one leaves half a file there, and needs PyTorch.
"""

from __future__ import annotations

import contextlib
import http.client
import os
import ssl
import tempfile
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from reconrisk.datasets import DataSet, KnownFile

__all__ = ["DownloadError", "fetch", "missing"]

#: seconds without an answer after which an address is given up.
TIMEOUT_SECONDS = 30.0
_CHUNK = 2**16


class DownloadError(OSError):
    """No address gave the file; the message says what each of them answered."""


def missing(known: DataSet, root: Path) -> list[KnownFile]:
    """Return the packed files of a data set that a folder holds neither packed nor unpacked.

    Raises
    ------
    ValueError, OSError
        If the data set is not for fetching, or a file is there that is not the official one.
    """
    if not known.mirrors:
        raise ValueError(f"{known.name} cannot be fetched from here. {known.advice(root)}")
    unpacked = {file.path: file for file in known.unpacked.values()}
    wanted = []
    for packed in known.packed:
        whole = unpacked.get(packed.path.removesuffix(".gz"))
        there = [f for f in (packed, whole) if f is not None and (root / f.path).exists()]
        for file in there:
            file.read(root, "Move it away before fetching.")
        if not there:
            wanted.append(packed)
    return wanted


def fetch(
    file: KnownFile,
    root: Path,
    mirrors: Sequence[str],
    progress: Callable[[int], None] = lambda done: None,
) -> Path:
    """Fetch one file to below ``root`` and return its path.

    Parameters
    ----------
    file : KnownFile
        Its name is appended to each address in turn, until one gives the file.
    root : Path
        The data root; made if it does not exist.
    mirrors : sequence of str
        Addresses of folders, ending in ``/``.
    progress : callable
        Told the bytes received so far, from 0 for each address.

    Raises
    ------
    DownloadError
        If no address gave the right file. Nothing is left behind then, nor after Ctrl-C.
    OSError
        If the folder cannot be written.
    """
    path = root / file.path
    faults = []
    with _folder(path.parent), _temporary(path) as part:
        for mirror in mirrors:
            address = f"{mirror.rstrip('/')}/{path.name}"
            try:
                _receive(address, part, file, progress)
            except _NETWORK as error:
                faults.append(f"{address}: {_reason(error)}")
                continue
            os.replace(part, path)
            return path
        raise DownloadError(f"{path.name} could not be fetched. " + "; ".join(faults))


class _WrongContent(Exception):
    """What was received is not the file."""


#: what a connection can end with; errors of the disk are not among them.
_NETWORK = (
    _WrongContent,
    urllib.error.URLError,
    http.client.HTTPException,
    ConnectionError,
    TimeoutError,
    ssl.SSLError,
    ValueError,  # an address that is none
)


def _receive(address: str, part: Path, file: KnownFile, progress: Callable[[int], None]) -> None:
    if not address.startswith(("http://", "https://")):
        raise _WrongContent("expected an address that starts with https:// or http://")
    request = urllib.request.Request(address, headers={"User-Agent": "reconrisk"})
    most = file.size
    done = 0
    progress(done)
    with (
        urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS) as answer,
        part.open("wb") as stream,
    ):
        while chunk := answer.read(_CHUNK):
            done += len(chunk)
            if most is not None and done > most:
                raise _WrongContent(f"found more than the expected {most:,} bytes")
            stream.write(chunk)
            progress(done)
    fault = file.fault(part.read_bytes())
    if fault:
        raise _WrongContent(fault)


def _reason(error: BaseException) -> str:
    if isinstance(error, TimeoutError):
        return f"no answer within {TIMEOUT_SECONDS:g} s"
    reason = getattr(error, "reason", None)
    code = getattr(error, "code", None)
    return " ".join(str(part) for part in (code, reason or error or type(error).__name__) if part)


@contextlib.contextmanager
def _temporary(path: Path) -> Iterator[Path]:
    """A file beside ``path`` under another name, gone afterwards unless renamed."""
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".part", dir=path.parent)
    os.close(handle)
    part = Path(name)
    part.chmod(0o644)  # not the owner's alone, as temporary files are
    try:
        yield part
    finally:
        part.unlink(missing_ok=True)


@contextlib.contextmanager
def _folder(path: Path) -> Iterator[None]:
    """Make a folder and its parents; take away again those that stayed empty after a failure."""
    made = [p for p in (path, *path.parents) if not p.exists()]
    try:
        path.mkdir(parents=True, exist_ok=True)
        yield
    except BaseException:
        for folder in made:
            with contextlib.suppress(OSError):
                folder.rmdir()
        raise

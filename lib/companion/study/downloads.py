"""Download data sets: verified, and whole or not at all.

torchvision's downloader needs PyTorch and writes under the final name, so that an interrupted
download leaves half a file there; this module uses the standard library.
"""

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

#: seconds without an answer after which the next address is tried.
TIMEOUT_SECONDS = 30.0
_CHUNK = 2**16


class DownloadError(OSError):
    """No address served the file; the message names the fault of each."""


def missing(known: DataSet, root: Path) -> list[KnownFile]:
    """Return the packed files of a data set that a folder holds neither packed nor unpacked.

    Raises
    ------
    ValueError, OSError
        If the data set has no download address, or a file in the folder is not the official one.
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
        Its name is appended to each address in turn, until one serves it.
    root : Path
        The data root; made if it does not exist.
    mirrors : sequence of str
        Addresses of folders, ending in ``/``.
    progress : callable
        Called with the bytes received so far, from 0 for each address.

    Raises
    ------
    DownloadError
        If no address served the right file. Nothing is left behind then, nor after Ctrl-C.
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
    """The received bytes are not the file."""


#: errors of a connection; those of the disk are not among them.
_NETWORK = (
    _WrongContent,
    urllib.error.URLError,
    http.client.HTTPException,
    ConnectionError,
    TimeoutError,
    ssl.SSLError,
    ValueError,  # an invalid address
)


def _receive(address: str, part: Path, file: KnownFile, progress: Callable[[int], None]) -> None:
    if not address.startswith(("http://", "https://")):
        raise _WrongContent("expected an address that starts with https:// or http://")
    request = urllib.request.Request(address, headers={"User-Agent": "reconrisk"})
    done = 0
    progress(done)
    with (
        urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS) as answer,
        part.open("wb") as stream,
    ):
        while chunk := answer.read(_CHUNK):
            done += len(chunk)
            if file.size is not None and done > file.size:
                raise _WrongContent(f"found more than the expected {file.size:,} bytes")
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
    """Yield a file beside ``path`` under another name; remove it afterwards unless renamed."""
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".part", dir=path.parent)
    os.close(handle)
    part = Path(name)
    part.chmod(0o644)  # a temporary file is readable by its owner only
    try:
        yield part
    finally:
        part.unlink(missing_ok=True)


@contextlib.contextmanager
def _folder(path: Path) -> Iterator[None]:
    """Make a folder and its parents; after a failure remove those that are empty."""
    made = [p for p in (path, *path.parents) if not p.exists()]
    try:
        path.mkdir(parents=True, exist_ok=True)
        yield
    except BaseException:
        for folder in made:
            with contextlib.suppress(OSError):
                folder.rmdir()
        raise

"""Download data sets: verified, whole or not at all, and resumed where they broke off.

torchvision's downloader needs PyTorch and writes under the final name, so that an interrupted
download leaves half a file there, and starts again. pooch starts a broken download again too, knows
one address of a file and takes as many bytes as a server sends. This module uses the standard
library.
"""

import contextlib
import http
import http.client
import ssl
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from companion.study.files import write_atomically
from reconrisk.datasets import DataSet, KnownFile

#: seconds without an answer after which the next address is tried.
TIMEOUT_SECONDS = 30.0
_CHUNK = 2**16


class DownloadError(OSError):
    """No address served the file; the message names the fault of each."""


def find_missing(known: DataSet, root: Path) -> list[KnownFile]:
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

    What a broken connection or Ctrl-C leaves is kept beside it, as ``.<name>.part``; the next
    address, or the next call, goes on from there. The whole is verified before it gets its name.

    Parameters
    ----------
    file : KnownFile
        Its name is appended to each address in turn, until one serves it.
    root : Path
        The data root; made if it does not exist.
    mirrors : sequence of str
        Addresses of folders, ending in ``/``.
    progress : callable
        Called with the bytes there so far, first with those kept, for each address.

    Raises
    ------
    DownloadError
        If no address served the right file. Wrong bytes are not kept.
    OSError
        If the folder cannot be written.
    """
    path = root / file.path
    part = path.with_name(f".{path.name}.part")
    faults = []
    with _folder(path.parent), _no_empty(part):
        for mirror in mirrors:
            address = f"{mirror.rstrip('/')}/{path.name}"
            try:
                whole = _receive(address, part, file, progress)
            except _NETWORK as error:
                faults.append(f"{address}: {_reason(error)}")
                continue
            # not by renaming: another fetch may have the same part open
            write_atomically(path, whole)
            part.unlink(missing_ok=True)
            return path
        raise DownloadError(f"{path.name} could not be fetched. " + "; ".join(faults))


class _WrongContent(Exception):
    """The received bytes are not the file."""


class _Incomplete(Exception):
    """The connection ended before the file did."""


#: errors of a connection; those of the disk are not among them.
_NETWORK = (
    _WrongContent,
    _Incomplete,
    urllib.error.URLError,
    http.client.HTTPException,
    ConnectionError,
    TimeoutError,
    ssl.SSLError,
    ValueError,  # an invalid address
)


def _receive(address: str, part: Path, file: KnownFile, progress: Callable[[int], None]) -> bytes:
    """Return the verified bytes of a file, going on from those in ``part``."""
    if not address.startswith(("http://", "https://")):
        raise _WrongContent("expected an address that starts with https:// or http://")
    kept = part.read_bytes() if part.exists() else b""
    if kept and not file.fault(kept):
        return kept
    progress(len(kept))
    headers = {"User-Agent": "reconrisk"} | ({"Range": f"bytes={len(kept)}-"} if kept else {})
    try:
        answer = urllib.request.urlopen(
            urllib.request.Request(address, headers=headers), timeout=TIMEOUT_SECONDS
        )
    except urllib.error.HTTPError as error:
        if not (kept and error.code == http.HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE):
            raise
        part.unlink()  # longer than the file
        return _receive(address, part, file, progress)
    with answer:
        # other servers send the whole
        resumed = (answer.headers["Content-Range"] or "").startswith(f"bytes {len(kept)}-")
        done = len(kept) if resumed else 0
        if kept and not resumed:
            progress(0)
        with part.open("ab" if resumed else "wb") as stream:
            while chunk := answer.read(_CHUNK):
                done += len(chunk)
                if file.size is not None and done > file.size:
                    break
                stream.write(chunk)
                progress(done)
        if answer.length and (file.size is None or done < file.size):
            raise _Incomplete(f"found {done:,} bytes, expected {done + answer.length:,}")
    too_many = file.size is not None and done > file.size
    whole = part.read_bytes()
    fault = f"found more than the expected {file.size:,} bytes" if too_many else file.fault(whole)
    if not fault:
        return whole
    part.unlink()
    if resumed:  # what was kept may be at fault
        return _receive(address, part, file, progress)
    raise _WrongContent(fault)


def _reason(error: BaseException) -> str:
    if isinstance(error, TimeoutError):
        return f"no answer within {TIMEOUT_SECONDS:g} s"
    reason = getattr(error, "reason", None)
    code = getattr(error, "code", None)
    return " ".join(str(part) for part in (code, reason or error or type(error).__name__) if part)


@contextlib.contextmanager
def _no_empty(part: Path) -> Iterator[None]:
    """Afterwards remove a part without content."""
    try:
        yield
    finally:
        if part.exists() and not part.stat().st_size:
            part.unlink()


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

"""The data sets' files in a folder: whether they are there, as published, and their checksums."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from reconrisk.datasets import _formats, _official
from reconrisk.datasets._classified import classified
from reconrisk.datasets._decode import image_files
from reconrisk.datasets._features import WEIGHTS_FILE
from reconrisk.datasets._known import CIFAR_ARCHIVE, CIFAR_FOLDER, CIFAR_SUBSET, DATA_SETS
from reconrisk.datasets._photographs import is_imagenet
from reconrisk.datasets._read import contents
from reconrisk.metrics._backbones import BACKBONES, SHIFT_TOLERANT, shift_tolerant

__all__ = ["LABELLED", "Finding", "check_folder", "check_set", "checksums"]

#: Labelled data sets that are read from files.
LABELLED = ("MNIST", "FashionMNIST", "CIFAR-10")
#: with more photographs in a folder (all of ImageNet has 150 GB), their names and sizes are hashed
#: instead of their contents.
_MOST_HASHED = 20_000


@dataclass(frozen=True)
class Finding:
    """The state of one file of a data set.

    Attributes
    ----------
    data_set, file : str
        The data set, and the file below ``data_root``.
    state : {"found", "missing", "damaged"}
    detail : str
        The fault of a damaged file, or the kind of one that was found.
    """

    data_set: str
    file: str
    state: str
    detail: str = ""


def check_folder(root: Path | str) -> list[Finding]:
    """Look for every data set below a folder and verify its files, without unpacking to disk.

    Photographs are only counted; reading a damaged one raises later.

    Raises
    ------
    FileNotFoundError
        If there is no such folder.
    """
    root = Path(root)
    if not root.is_dir():
        raise FileNotFoundError(f"data_root must be an existing folder; got {str(root)!r}")
    labelled = [finding for name in LABELLED for finding in check_set(name, root)]
    return [*labelled, _photographs_at(root), *_weights_at(root)]


def check_set(name: str, root: Path) -> list[Finding]:
    """Verify the files of one labelled data set below a folder, without unpacking to disk."""
    if name == "CIFAR-10":
        return _cifar_at(root)
    read = functools.partial(_official.idx_content, root, name)
    return [
        _check_file(root, name, file, functools.partial(read, file, ""))
        for file in DATA_SETS[name].unpacked
    ]


def _check_file(root: Path, name: str, file: str, read: Callable[[], object]) -> Finding:
    known = DATA_SETS.get(name)
    official = known.unpacked.get(file) if known else None
    path = official.path if official is not None else file
    try:
        read()
    except FileNotFoundError:
        return Finding(name, path, "missing")
    except (ValueError, OSError) as error:
        return Finding(name, path, "damaged", str(error).replace(f"{root}/", ""))
    return Finding(name, path, "found", "as published")


def _cifar_at(root: Path) -> list[Finding]:
    name = "CIFAR-10"
    official = DATA_SETS[name]
    if (root / CIFAR_FOLDER).exists():
        return [
            _check_file(root, name, file, functools.partial(known.read, root))
            for file, known in official.unpacked.items()
        ]
    if (root / CIFAR_ARCHIVE).exists():
        read = functools.partial(official.packed[0].read, root)
        return [_check_file(root, name, CIFAR_ARCHIVE, read)]
    if not (root / CIFAR_SUBSET).exists():
        return [Finding(name, f"{CIFAR_FOLDER} or {CIFAR_ARCHIVE}", "missing")]
    finding = _check_file(root, name, CIFAR_SUBSET, lambda: classified(name, root, "all"))
    if finding.state == "found":
        finding = replace(finding, detail="undamaged; a part of the set, no official file")
    return [finding]


def _photographs_at(root: Path) -> Finding:
    files = sorted(image_files(root))
    if not files:
        return Finding("photographs", "*/*.jpg", "missing")
    classes = len({p.parent for p in files})
    kind = "named as ImageNet's" if is_imagenet(root) else "not named as ImageNet's"
    detail = f"{len(files):,} in {classes:,} folders, {kind}"
    return Finding("photographs", "*/*.jpg", "found", detail)


def _weights_at(root: Path) -> list[Finding]:
    optional = "optional: a stand-in takes its place"
    there = (root / WEIGHTS_FILE).is_file()
    state, detail = ("found", "") if there else ("missing", optional)
    findings = [Finding("pretrained network", WEIGHTS_FILE, state, detail)]
    for known in BACKBONES.values():
        read = functools.partial(known.read, root / known.file)
        finding = _check_file(root, f"LPIPS on {known.name}", known.file, read)
        missing = finding.state == "missing"
        findings.append(replace(finding, detail=optional) if missing else finding)
    installed = _check_file(root, SHIFT_TOLERANT.name, "package stlpips-pytorch", shift_tolerant)
    missing = installed.state == "missing"
    return [*findings, replace(installed, detail="optional") if missing else installed]


# Checksums ----------------------------------------------------------------------------------------


def checksums(name: str, root: Path | str) -> dict[str, str]:
    """Return the SHA-256 of a data set's files below a folder, by name; empty if it has none.

    Parameters
    ----------
    name : str
        A labelled data set, ``"photographs"``, or ``"own images"``, which may be a single file.
    root : Path or str

    Returns
    -------
    dict
        ``{"MNIST/train-images-idx3-ubyte": sha256, ...}``: idx files and CIFAR-10's batches
        unpacked, so that packed and unpacked folders agree; ``"photographs (100 files)"``: one hash
        of all names and contents, or of names and sizes with more than 20,000 files.
    """
    root = Path(root)
    if name in ("photographs", "own images"):
        return _of_pictures(name, root)
    if name != "CIFAR-10":
        files = sorted((root / name / "raw").glob("*ubyte*"))
    elif (root / CIFAR_FOLDER).is_dir():
        files = sorted((root / CIFAR_FOLDER).glob("*_batch*"))
    elif (root / CIFAR_ARCHIVE).is_file():
        return dict(_of_archive(root, *_stamp(root / CIFAR_ARCHIVE)))
    else:
        files = [root / CIFAR_SUBSET]
    whole = (p for p in files if p.is_file() and not p.name.startswith("."))
    return {f"{name}/{p.name.removesuffix('.gz')}": _sha256(p) for p in whole}


def _of_pictures(name: str, root: Path) -> dict[str, str]:
    if root.is_file():
        return {f"{name} ({root.name})": _sha256(root)}
    files = sorted(image_files(root))
    files = files or sorted(p for p in root.rglob("*") if p.is_file())  # a set in another format
    whole = len(files) <= _MOST_HASHED
    summary: Callable[[Path], object] = _sha256 if whole else lambda p: p.stat().st_size
    listing = "".join(f"{p.relative_to(root).as_posix()} {summary(p)}\n" for p in files)
    what = f"{len(files)} files" if whole else f"{len(files)} files, names and sizes"
    return {f"{name} ({what})": hashlib.sha256(listing.encode()).hexdigest()}


def _stamp(path: Path) -> tuple[int, int]:
    status = path.stat()
    return status.st_size, status.st_mtime_ns


@functools.lru_cache(maxsize=4)
def _of_archive(root: Path, size: int, changed: int) -> tuple[tuple[str, str], ...]:
    names = list(DATA_SETS["CIFAR-10"].unpacked)
    batches = zip(names, _official.cifar_batches(root, names), strict=True)
    return tuple((f"CIFAR-10/{name}", hashlib.sha256(data).hexdigest()) for name, data in batches)


def _sha256(path: Path) -> str:
    return _hashed(path, *_stamp(path))


@functools.lru_cache(maxsize=32_768)
def _hashed(path: Path, size: int, changed: int) -> str:
    """Return the hash of a file's unpacked content; cached while size and time stay the same."""
    if path.suffix == ".gz":
        data = _formats.unpacked(contents(path, "a file of data"), path)
        return hashlib.sha256(data).hexdigest()
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()

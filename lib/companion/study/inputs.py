"""The data sets that a run reads, checksums of their files, and a check of a data folder."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from reconrisk import datasets
from reconrisk.datasets import _formats, _official
from reconrisk.datasets._decode import image_files
from reconrisk.datasets._known import CIFAR_ARCHIVE, CIFAR_FOLDER, CIFAR_SUBSET
from reconrisk.datasets._read import contents
from reconrisk.metrics._backbones import BACKBONES

if TYPE_CHECKING:
    from companion.study.exhibits import Exhibit
    from companion.study.session import Context

__all__ = ["KNOWN_CHECKSUMS", "Finding", "checksums", "data_sets", "files_at", "verify"]

#: labelled data sets that are read from files.
_LABELLED = ("MNIST", "FashionMNIST", "CIFAR-10")
#: with more photographs in a folder (all of ImageNet has 150 GB), their names and sizes are hashed
#: instead of their contents.
_MOST_HASHED = 20_000

#: SHA-256 of the data of recorded runs, named as by :func:`checksums`: the official idx files,
#: unpacked; a subset of CIFAR-10 (400 training images a class, the first 1,000 test images); a
#: hundred photographs, one of each of a hundred ImageNet classes, 224x224; and the parts of data
#: sets that come with packages.
KNOWN_CHECKSUMS = {
    f"{name}/{file}": official.sha256
    for name in ("MNIST", "FashionMNIST")
    for file, official in datasets.DATA_SETS[name].unpacked.items()
} | {
    "CIFAR-10/cifar10_subset.npz": (
        "8da76769db21804e30d334a3b8ecae39c077a9f91ad4c4fa64bc2e8986a89573"
    ),
    "photographs (100 files)": ("e7a0e328e86dbef4f4af5b419174237cda7523a8f6b75281980d1b216ca642e0"),
    **{f"{s.phrase}: {s.identity}": s.sha256 for s in datasets.SAMPLES.values()},
}


def data_sets(exhibit: Exhibit, context: Context) -> tuple[str, ...]:
    """Return the names of the data sets that a run reads from files, sorted.

    The run's parameters name the labelled ones; ``"photographs"`` stands for the images of an
    ImageNet-style folder, ``"own images"`` for a user's in place of either.
    """
    if context.own_images:
        return ("own images",)
    named = {v for v in context.parameters.values() if isinstance(v, str)}
    labelled = named & set(_LABELLED)
    reads_folder = exhibit.photographs and context.profile == "paper"
    return tuple(sorted(labelled | ({"photographs"} if reads_folder else set())))


# Checksums ----------------------------------------------------------------------------------------


def checksums(exhibit: Exhibit, context: Context) -> dict[str, str]:
    """Return the SHA-256 of all images that a run reads, but for the stand-ins.

    Returns
    -------
    dict
        ``{"MNIST/train-images-idx3-ubyte": sha256, ...}``: idx files and CIFAR-10's batches
        unpacked, so that packed and unpacked folders agree; ``"photographs (100 files)"``: one hash
        of all names and contents, or of names and sizes with more than 20,000 files; parts of data
        sets that come with packages, with the images' identity. Empty for a run that reads nothing.
    """
    if context.own_images:
        return _of_pictures("own images", Path(context.data_root or ""))
    named = {v for v in context.parameters.values() if isinstance(v, str)}
    used = [datasets.SAMPLES[name] for name in sorted(named & set(datasets.SAMPLES))]
    if exhibit.photographs and context.read_root is None:
        used.append(datasets.IMAGENET_SAMPLE)
    found = {f"{s.phrase}: {s.identity}": s.sha256 for s in used}
    if context.data_root is None:
        return found
    for name in data_sets(exhibit, context):
        found |= _of_set(name, Path(context.data_root))
    return found


def _of_set(name: str, root: Path) -> dict[str, str]:
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
    names = list(datasets.DATA_SETS["CIFAR-10"].unpacked)
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


# Checking a data folder -------------------------------------------------------------------------


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


def files_at(root: Path | str) -> list[Finding]:
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
    labelled = [finding for name in _LABELLED for finding in _labelled_at(root, name)]
    return [*labelled, _photographs_at(root), *_weights_at(root)]


def verify(exhibit: Exhibit, context: Context) -> None:
    """Raise if a data set that a run reads is damaged or missing.

    A data set with only some of its files passes: a run may need no others, and one that does names
    them.

    Raises
    ------
    ValueError
        If a file of a data set that the run reads is damaged.
    FileNotFoundError
        If none of its files exists.
    """
    root = context.data_root
    if root is None:
        return
    for name in [n for n in data_sets(exhibit, context) if n in _LABELLED]:
        findings = _labelled_at(Path(root), name)
        damaged = [f.detail for f in findings if f.state == "damaged"]
        advice = datasets.DATA_SETS[name].advice(root)
        if damaged:
            raise ValueError(f"{root}: {damaged[0]} {advice}")
        if not any(f.state == "found" for f in findings):
            raise FileNotFoundError(f"{root} holds nothing of {name}, which is read. {advice}")


def _labelled_at(root: Path, name: str) -> list[Finding]:
    if name == "CIFAR-10":
        return _cifar_at(root)
    read = functools.partial(_official.idx_content, root, name)
    return [
        _check_file(root, name, file, functools.partial(read, file, ""))
        for file in datasets.DATA_SETS[name].unpacked
    ]


def _check_file(root: Path, name: str, file: str, read: Callable[[], object]) -> Finding:
    known = datasets.DATA_SETS.get(name)
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
    official = datasets.DATA_SETS[name]
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
    finding = _check_file(root, name, CIFAR_SUBSET, lambda: datasets.classified(name, root, "all"))
    if finding.state == "found":
        finding = replace(finding, detail="undamaged; a part of the set, no official file")
    return [finding]


def _photographs_at(root: Path) -> Finding:
    files = sorted(image_files(root))
    if not files:
        return Finding("photographs", "*/*.jpg", "missing")
    classes = len({p.parent for p in files})
    kind = "named as ImageNet's" if datasets.is_imagenet(root) else "not named as ImageNet's"
    detail = f"{len(files):,} in {classes:,} folders, {kind}"
    return Finding("photographs", "*/*.jpg", "found", detail)


def _weights_at(root: Path) -> list[Finding]:
    optional = "optional: a stand-in takes its place"
    there = (root / datasets.WEIGHTS_FILE).is_file()
    state, detail = ("found", "") if there else ("missing", optional)
    findings = [Finding("pretrained network", datasets.WEIGHTS_FILE, state, detail)]
    for known in BACKBONES.values():
        read = functools.partial(known.read, root / known.file)
        finding = _check_file(root, f"LPIPS on {known.name}", known.file, read)
        missing = finding.state == "missing"
        findings.append(replace(finding, detail=optional) if missing else finding)
    return findings

"""Which data sets a run reads, checksums of their files for its provenance, and what is at hand."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from reconrisk import datasets
from reconrisk.datasets import _formats, _official
from reconrisk.datasets._decode import image_files
from reconrisk.datasets._known import CIFAR_ARCHIVE, CIFAR_FOLDER, CIFAR_SUBSET
from reconrisk.datasets._read import contents

if TYPE_CHECKING:
    from companion.study.computations import Computation, Context

__all__ = ["KNOWN_CHECKSUMS", "Finding", "checksums", "data_sets", "files_at", "readers", "verify"]

#: labelled sets that are read from files.
_LABELLED = ("MNIST", "FashionMNIST", "CIFAR-10")
#: photographs in a folder up to which their contents are hashed; of more (whole ImageNet, 150 GB)
#: names and sizes are.
_MOST_HASHED = 20_000

#: SHA-256 of the data of recorded runs, by the names that :func:`checksums` gives them: the
#: official idx files, unpacked; a subset of CIFAR-10 (400 training images a class, the first 1,000
#: test images); a hundred photographs, one of each of a hundred ImageNet classes, 224x224.
KNOWN_CHECKSUMS = {
    f"{name}/{file}": known.sha256
    for name in ("MNIST", "FashionMNIST")
    for file, known in datasets.DATA_SETS[name].unpacked.items()
} | {
    "CIFAR-10/cifar10_subset.npz": (
        "8da76769db21804e30d334a3b8ecae39c077a9f91ad4c4fa64bc2e8986a89573"
    ),
    "photographs (100 files)": ("e7a0e328e86dbef4f4af5b419174237cda7523a8f6b75281980d1b216ca642e0"),
}


def data_sets(known: Computation, context: Context) -> tuple[str, ...]:
    """Return the names of the data sets that a run reads from files, sorted.

    Labelled ones are named by the run's parameters; ``"photographs"`` stands for the pictures of
    an ImageNet-style folder, ``"own images"`` for a reader's in the place of either.
    """
    if context.own_images:
        return ("own images",)
    named = {v for v in context.settings.values() if isinstance(v, str)}
    labelled = named & set(_LABELLED)
    reads_folder = known.photographs and context.profile == "paper"
    return tuple(sorted(labelled | ({"photographs"} if reads_folder else set())))


def readers() -> dict[str, tuple[str, ...]]:
    """Return, for every data set that is read from files, the exhibits whose paper profile does."""
    from companion.study.computations import Study, all_computations

    study = Study(profile="paper")
    found: dict[str, list[str]] = {name: [] for name in datasets.DATA_SETS}
    for exhibit, known in all_computations().items():
        for name in data_sets(known, study.context(exhibit)):
            found[name].append(exhibit)
    return {name: tuple(exhibits) for name, exhibits in found.items()}


# Checksums ----------------------------------------------------------------------------------------


def checksums(known: Computation, context: Context) -> dict[str, str]:
    """Return the sha256 of everything a run reads from ``data_root``.

    Returns
    -------
    dict
        ``{"MNIST/train-images-idx3-ubyte": sha256, ...}``: idx files and CIFAR-10's batches
        unpacked, so that packed and unpacked folders agree; ``"photographs (100 files)"``: one hash
        of all names and contents, of names and sizes where there are more than 20,000 files. Empty
        for a run that reads nothing.
    """
    if context.data_root is None:
        return {}
    if context.own_images:
        return _of_pictures("own images", Path(context.data_root))
    found: dict[str, str] = {}
    for name in data_sets(known, context):
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
    return {f"{name}/{p.name.removesuffix('.gz')}": _sha256(p) for p in files if p.is_file()}


def _of_pictures(name: str, root: Path) -> dict[str, str]:
    if root.is_file():
        return {f"{name} ({root.name})": _sha256(root)}
    files = sorted(image_files(root))
    files = files or sorted(p for p in root.rglob("*") if p.is_file())  # a set in another format
    whole = len(files) <= _MOST_HASHED
    told: Callable[[Path], object] = _sha256 if whole else lambda p: p.stat().st_size
    listing = "".join(f"{p.relative_to(root).as_posix()} {told(p)}\n" for p in files)
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
    """The hash of a file's content, unpacked; kept while its size and time stay the same."""
    if path.suffix == ".gz":
        data = _formats.unpacked(contents(path, "a file of data"), path)
        return hashlib.sha256(data).hexdigest()
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


# What is at hand ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Finding:
    """What became of looking for a file.

    Attributes
    ----------
    data_set, file : str
        The set, and the file below ``data_root``.
    state : {"found", "missing", "damaged"}
    detail : str
        What is there instead, or how it was found.
    """

    data_set: str
    file: str
    state: str
    detail: str = ""


def files_at(root: Path | str) -> list[Finding]:
    """Look for every data set below a folder and verify what is there, without unpacking to disk.

    Of photographs only the names are listed; a damaged one is refused when it is read.

    Raises
    ------
    FileNotFoundError
        If there is no such folder.
    """
    root = Path(root)
    if not root.is_dir():
        raise FileNotFoundError(f"data_root must be an existing folder; got {str(root)!r}")
    labelled = [finding for name in _LABELLED for finding in _labelled_at(root, name)]
    return [*labelled, _photographs_at(root), _weights_at(root)]


def verify(known: Computation, context: Context) -> None:
    """Refuse damaged or missing data sets before a run computes anything.

    A set of which only some files are there passes: a run may need no others, and one that does
    names them.

    Raises
    ------
    ValueError
        If a file of a data set that the run reads is damaged.
    FileNotFoundError
        If there is none of its files.
    """
    root = context.data_root
    if root is None:
        return
    for name in [n for n in data_sets(known, context) if n in _LABELLED]:
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
    return [
        _looked_for(
            root, name, file, functools.partial(_official.idx_content, root, name, file, "")
        )
        for file in datasets.DATA_SETS[name].unpacked
    ]


def _looked_for(root: Path, name: str, file: str, read: Callable[[], object]) -> Finding:
    known = datasets.DATA_SETS[name].unpacked.get(file)
    path = known.path if known is not None else file
    try:
        read()
    except FileNotFoundError:
        return Finding(name, path, "missing")
    except (ValueError, OSError) as error:
        return Finding(name, path, "damaged", str(error).replace(f"{root}/", ""))
    return Finding(name, path, "found", "as published")


def _cifar_at(root: Path) -> list[Finding]:
    name = "CIFAR-10"
    known = datasets.DATA_SETS[name]
    if (root / CIFAR_FOLDER).exists():
        return [
            _looked_for(root, name, file, functools.partial(known.unpacked[file].read, root))
            for file in known.unpacked
        ]
    if (root / CIFAR_ARCHIVE).exists():
        read = functools.partial(known.packed[0].read, root)
        return [_looked_for(root, name, CIFAR_ARCHIVE, read)]
    if not (root / CIFAR_SUBSET).exists():
        return [Finding(name, f"{CIFAR_FOLDER} or {CIFAR_ARCHIVE}", "missing")]
    finding = _looked_for(
        root, name, CIFAR_SUBSET, functools.partial(datasets.classified, name, root, "all")
    )
    if finding.state != "found":
        return [finding]
    return [Finding(name, CIFAR_SUBSET, "found", "undamaged; a part of the set, no official file")]


def _photographs_at(root: Path) -> Finding:
    files = sorted(image_files(root))
    if not files:
        return Finding("photographs", "*/*.jpg", "missing")
    classes = len({p.parent for p in files})
    kind = "named as ImageNet's" if datasets.is_imagenet(root) else "not named as ImageNet's"
    return Finding(
        "photographs", "*/*.jpg", "found", f"{len(files):,} in {classes:,} folders, {kind}"
    )


def _weights_at(root: Path) -> Finding:
    there = (root / datasets.WEIGHTS_FILE).is_file()
    detail = "" if there else "optional: a stand-in takes its place"
    state = "found" if there else "missing"
    return Finding("pretrained network", datasets.WEIGHTS_FILE, state, detail)

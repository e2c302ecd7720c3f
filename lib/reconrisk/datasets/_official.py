"""The official files of MNIST, Fashion-MNIST and CIFAR-10, verified before they are read."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from reconrisk.datasets import _formats
from reconrisk.datasets._known import (
    CIFAR_ARCHIVE,
    CIFAR_FOLDER,
    CIFAR_SUBSET,
    DATA_SETS,
    KnownFile,
)
from reconrisk.datasets._labelled import LabelledImages, Part, part

_TITLES = {"FashionMNIST": "Fashion-MNIST"}


def official(name: str, root: Path, wanted: Sequence[str]) -> LabelledImages:
    """Return the requested parts of an official data set, concatenated.

    Parameters
    ----------
    name : {"MNIST", "FashionMNIST", "CIFAR-10"}
    root : Path
        Parent of the data set's folder.
    wanted : sequence of {"train", "test"}
    """
    if name == "CIFAR-10":
        return join_parts(_cifar(root, wanted), (32, 32, 3), name)
    parts = [_mnist(root, name, which) for which in wanted]
    return join_parts(parts, (28, 28), _TITLES.get(name, name))


def join_parts(parts: Sequence[Part], shape: tuple[int, ...], title: str) -> LabelledImages:
    """Concatenate parts of a data set."""
    inputs, labels = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    return LabelledImages(inputs, labels, shape, title)


def idx_content(root: Path, name: str, file: str, advice: str) -> bytes:
    """Return the verified content of an idx file below ``root``, packed or not.

    ``advice`` ends error messages.
    """
    whole = DATA_SETS[name].unpacked[file]
    if not (root / f"{whole.path}.gz").exists() or (root / whole.path).exists():
        return whole.read(root, advice)
    packed = _packed(name, f"{whole.path}.gz")
    path = root / packed.path
    content = _formats.unpacked(packed.read(root, advice), path, whole.size or 0)
    fault = whole.fault(content)
    if fault:
        raise ValueError(f"{path} does not hold the official file: {fault}. {advice}".rstrip())
    return content


def cifar_batches(root: Path, names: Sequence[str]) -> list[bytes]:
    """Return the verified content of CIFAR-10's batches, from their folder or archive."""
    known = DATA_SETS["CIFAR-10"]
    advice = known.advice(root)
    archive = root / CIFAR_ARCHIVE
    if (root / CIFAR_FOLDER).exists() or not archive.exists():
        return [known.unpacked[name].read(root, advice) for name in names]
    packed = _packed(known.name, CIFAR_ARCHIVE).read(root, advice)
    found = _formats.members(packed, [known.unpacked[name].path for name in names], archive)
    for name, data in zip(names, found, strict=True):
        fault = known.unpacked[name].fault(data)
        if fault:
            raise ValueError(f"{name} in {archive} is not the official file: {fault}. {advice}")
    return found


def _packed(name: str, path: str) -> KnownFile:
    return next(file for file in DATA_SETS[name].packed if file.path == path)


def _mnist(root: Path, name: str, which: str) -> Part:
    start = {"train": "train", "test": "t10k"}[which]
    folder = root / name / "raw"
    files = [f"{start}-images-idx3-ubyte", f"{start}-labels-idx1-ubyte"]
    advice = DATA_SETS[name].advice(root)
    images, labels = (
        _formats.idx(idx_content(root, name, file, advice), folder / file) for file in files
    )
    if images.shape[1:] != (28, 28) or images.shape[:1] != labels.shape or labels.max() > 9:
        raise ValueError(
            f"{folder}: found images {images.shape} and labels {labels.shape} in the {start}-* "
            "files; expected as many 28x28 images as labels, which are 0 to 9"
        )
    return part(images, labels, 255)


def _cifar(root: Path, wanted: Sequence[str]) -> list[Part]:
    subset = root / CIFAR_SUBSET
    official = (root / CIFAR_FOLDER).exists() or (root / CIFAR_ARCHIVE).exists()
    if not official and subset.exists():
        return [_subset_part(subset, which) for which in wanted]
    known = list(DATA_SETS["CIFAR-10"].unpacked)
    names = [n for which in wanted for n in known if n.startswith(_CIFAR_NAMES[which])]
    paths = [root / DATA_SETS["CIFAR-10"].unpacked[n].path for n in names]
    batches = cifar_batches(root, names)
    return [part(*_formats.cifar_batch(*b), 255) for b in zip(batches, paths, strict=True)]


_CIFAR_NAMES = {"train": "data_batch", "test": "test_batch"}


def _subset_part(path: Path, which: str) -> Part:
    images, labels = (_formats.npz_array(path, f"{which}_{what}") for what in ("images", "labels"))
    if images.shape[1:] != (32, 32, 3) or images.shape[:1] != labels.shape:
        raise ValueError(
            f"{path} must hold as many 32x32x3 images as labels; got {images.shape} and "
            f"{labels.shape}"
        )
    if images.dtype != np.uint8 or labels.dtype.kind not in "iu":
        raise ValueError(
            f"{path} must hold images of bytes and whole labels; got {images.dtype} and "
            f"{labels.dtype}"
        )
    if not len(labels) or not 0 <= labels.min() <= labels.max() <= 9:
        raise ValueError(f"{path} must hold labels from 0 to 9 in {which}_labels")
    return part(images, labels, 255)

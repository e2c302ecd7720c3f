"""Tiny files in the layouts of the papers' data sets, and checksums that take them for official."""

from __future__ import annotations

import dataclasses
import functools
import gzip
import hashlib
import io
import pickle
import tarfile
from pathlib import Path

import numpy as np
import pytest

from reconrisk import datasets

BATCHES = (*(f"data_batch_{i}" for i in range(1, 6)), "test_batch")


def idx(array: np.ndarray) -> bytes:
    """An array of bytes in the idx format."""
    sizes = b"".join(int(n).to_bytes(4, "big") for n in array.shape)
    return bytes([0, 0, 8, array.ndim]) + sizes + array.astype(np.uint8).tobytes()


def packed(data: bytes) -> bytes:
    """Bytes as gzip packs them, without the time."""
    return gzip.compress(data, mtime=0)


@functools.cache
def mnist_files(train: int = 12, test: int = 5) -> dict[str, bytes]:
    """The four files of MNIST, of so many images."""
    rng = np.random.default_rng(1)
    files = {}
    for part, count in (("train", train), ("t10k", test)):
        images, labels = rng.integers(0, 256, (count, 28, 28)), np.arange(count) % 10
        files[f"{part}-images-idx3-ubyte"] = idx(images)
        files[f"{part}-labels-idx1-ubyte"] = idx(labels)
    return files


def write_mnist(root: Path, name: str = "MNIST", *, also: bool = True) -> Path:
    """The files in torchvision's layout: the images packed, the labels packed unless ``also``."""
    raw = root / name / "raw"
    raw.mkdir(parents=True)
    for file, data in mnist_files().items():
        if "images" in file or not also:
            (raw / f"{file}.gz").write_bytes(packed(data))
        else:
            (raw / file).write_bytes(data)
    return raw


@functools.cache
def batch(count: int = 4) -> bytes:
    """A pickled batch of CIFAR-10."""
    rng = np.random.default_rng(2)
    data = rng.integers(0, 256, (count, 3072)).astype(np.uint8)
    labels = [3, 1, 4, 9, 2, 6][:count]
    return pickle.dumps({b"data": data, b"labels": labels}, protocol=2)


def write_cifar(root: Path, count: int = 4) -> Path:
    """The folder of CIFAR-10's batches."""
    folder = root / "cifar-10-batches-py"
    folder.mkdir()
    for name in BATCHES:
        (folder / name).write_bytes(batch(count))
    return folder


@functools.cache
def cifar_archive(count: int = 4) -> bytes:
    """CIFAR-10's archive."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        for name in BATCHES:
            member = tarfile.TarInfo(f"cifar-10-batches-py/{name}")
            member.size = len(batch(count))
            archive.addfile(member, io.BytesIO(batch(count)))
    return packed(stream.getvalue())


def publish(monkeypatch: pytest.MonkeyPatch, name: str, files: dict[str, bytes]) -> None:
    """Take ``files``, by path below the data root, for the official ones of a data set."""

    def known(file: datasets.KnownFile) -> datasets.KnownFile:
        data = files.get(file.path)
        if data is None:
            return file
        md5, sha256 = (hashlib.new(kind, data).hexdigest() for kind in ("md5", "sha256"))
        return datasets.KnownFile(file.path, md5, sha256, len(data))

    official = datasets.DATA_SETS[name]
    changed = dataclasses.replace(
        official,
        packed=tuple(known(file) for file in official.packed),
        unpacked={key: known(file) for key, file in official.unpacked.items()},
    )
    monkeypatch.setitem(datasets.DATA_SETS, name, changed)


def publish_mnist(monkeypatch: pytest.MonkeyPatch, name: str = "MNIST") -> None:
    """Take the tiny idx files for the official ones, packed and unpacked."""
    files = {f"{name}/raw/{file}": data for file, data in mnist_files().items()}
    packs = {f"{path}.gz": packed(data) for path, data in files.items()}
    publish(monkeypatch, name, files | packs)


def publish_cifar(monkeypatch: pytest.MonkeyPatch, count: int = 4) -> None:
    """Take the tiny batches and their archive for the official ones."""
    files = {f"cifar-10-batches-py/{name}": batch(count) for name in BATCHES}
    publish(monkeypatch, "CIFAR-10", files | {"cifar-10-python.tar.gz": cifar_archive(count)})

"""Decoding of idx files, CIFAR-10's pickles and ``.npz`` files to arrays.

The sizes that a header claims are checked against the bytes present before memory is allocated.
"""

from __future__ import annotations

import contextlib
import gzip
import io
import math
import pickle
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from reconrisk.datasets._read import LARGEST, readable


def unpacked(data: bytes, path: Path, most: int = LARGEST) -> bytes:
    """Return the content of a gzip file, cut after ``most + 1`` bytes."""
    with _refusing(path, "a whole gzip file"), gzip.GzipFile(fileobj=io.BytesIO(data)) as stream:
        return stream.read(most + 1)


def idx(data: bytes, path: Path) -> np.ndarray:
    """Decode an array in the idx format: two zero bytes, type 8 (bytes), rank, sizes, values."""
    rank = data[3] if data[:3] == b"\0\0\x08" and data[3:4] in (b"\1", b"\2", b"\3") else 0
    start = 4 + 4 * rank
    sizes = [int.from_bytes(data[i : i + 4], "big") for i in range(4, start, 4)]
    if not rank or len(data) != start + math.prod(sizes):
        claim = f"for an array of {'x'.join(map(str, sizes))}" if rank else "without its header"
        raise ValueError(
            f"{path} holds {len(data):,} bytes {claim}; expected an idx file of bytes, to its end"
        )
    return np.frombuffer(data, np.uint8, offset=start).reshape(sizes)


def cifar_batch(data: bytes, path: Path) -> tuple[np.ndarray, np.ndarray]:
    """Decode a pickled batch to images (n, 32, 32, 3) and labels (n,).

    Its rows hold 1,024 red, 1,024 green and 1,024 blue bytes. Pass verified bytes only; the
    restricted unpickler is a second line of defence.
    """
    with _refusing(path, "a pickled batch of CIFAR-10"):
        batch = _ArraysOnly(io.BytesIO(data), encoding="bytes").load()
        rows, labels = batch[b"data"], np.asarray(batch[b"labels"])
        if rows.dtype != np.uint8 or rows.shape != (len(labels), 3072):
            raise ValueError(f"{rows.dtype} {rows.shape} for {len(labels)} labels")
        if labels.dtype.kind not in "iu" or not np.all((labels >= 0) & (labels <= 9)):
            raise ValueError("labels that are not 0 to 9")
        return rows.reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1), labels


def members(data: bytes, names: list[str], path: Path) -> list[bytes]:
    """Return the named files of a ``.tar.gz`` archive, unpacked in memory."""
    found: dict[str, bytes] = {}
    with (
        _refusing(path, "a whole .tar.gz archive"),
        tarfile.open(fileobj=io.BytesIO(data), mode="r|gz") as archive,
    ):
        for member in archive:
            if member.name in names and member.isreg() and member.size <= LARGEST:
                found[member.name] = archive.extractfile(member).read()  # type: ignore[union-attr]
    missing = [name for name in names if name not in found]
    if missing:
        raise ValueError(f"{path} lacks what was expected in it: {', '.join(missing)}")
    return [found[name] for name in names]


class _ArraysOnly(pickle.Unpickler):
    """Unpickles dictionaries of arrays, and nothing that could run code."""

    def find_class(self, module: str, name: str) -> Any:
        root = module.partition(".")[0]
        harmless = {"_reconstruct", "ndarray", "dtype", "scalar", "_frombuffer"}
        if (root == "numpy" and name in harmless) or (module, name) == ("_codecs", "encode"):
            return super().find_class(module, name)
        raise ValueError(f"a CIFAR-10 batch must hold arrays only; found {module}.{name}")


def npz_shapes(path: Path) -> dict[str, tuple[int, ...]]:
    """Return names and shapes of the arrays in an ``.npz`` file, from their headers only."""
    with _archive(path) as archive:
        # all members, so that none with a damaged name is missing silently
        return {
            info.filename.removesuffix(".npy"): _header(archive, info, path)[0]
            for info in archive.infolist()
        }


def npz_array(path: Path, name: str) -> np.ndarray:
    """Return one array of an ``.npz`` file; verify its checksum and refuse pickled objects."""
    with _archive(path) as archive:
        try:
            info = archive.getinfo(f"{name}.npy")
        except KeyError:
            held = ", ".join(n.removesuffix(".npy") for n in archive.namelist()) or "nothing"
            raise ValueError(f"{path} holds {held}; expected an array {name} too") from None
        _header(archive, info, path)
        with _refusing(path, f"an undamaged array {name}"), archive.open(info) as stream:
            array = np.lib.format.read_array(stream, allow_pickle=False)
            if stream.read(1):  # reading to the end verifies the checksum
                raise ValueError("bytes after the array")
            return array


def _header(
    archive: zipfile.ZipFile, info: zipfile.ZipInfo, path: Path
) -> tuple[tuple[int, ...], np.dtype]:
    """Return an array's shape and type, checked against the bytes that follow the header."""
    what = f"a sound header of the array {info.filename.removesuffix('.npy')}"
    with _refusing(path, what), archive.open(info) as stream:
        version = np.lib.format.read_magic(stream)
        if version not in ((1, 0), (2, 0)):
            raise ValueError(f"layout {version}")
        read = (
            np.lib.format.read_array_header_1_0
            if version == (1, 0)
            else np.lib.format.read_array_header_2_0
        )
        shape, _, kind = read(stream)
        if kind.hasobject or kind.kind not in "biuf":
            raise ValueError(f"values of type {kind}, not numbers")
        if any(n < 0 for n in shape):
            raise ValueError(f"a shape of {shape}")
        claimed = math.prod(shape) * kind.itemsize
        there = info.file_size - stream.tell()
        if claimed != there:
            raise ValueError(f"a shape of {shape} needs {claimed:,} bytes, {there:,} follow")
        if claimed > LARGEST:
            raise ValueError(f"{claimed:,} bytes in one array; at most {LARGEST:,} are read")
        return shape, kind


@contextlib.contextmanager
def _archive(path: Path) -> Iterator[zipfile.ZipFile]:
    path = readable(path, "an .npz file")
    with _refusing(path, "an .npz file (numpy.savez makes one)"):
        archive = zipfile.ZipFile(path)
    with archive:
        yield archive


@contextlib.contextmanager
def _refusing(path: Path, expected: str) -> Iterator[None]:
    """Turn any exception of a decoder into a ValueError that names the file."""
    try:
        yield
    except Exception as error:  # decoders raise any exception
        found = str(error) or type(error).__name__
        raise ValueError(f"{path} is damaged: {found}; expected {expected}") from error

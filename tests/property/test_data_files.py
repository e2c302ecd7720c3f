"""Damaged data files: cut anywhere or with other bytes, in every layout.

A damaged file is refused by ``ValueError`` or ``OSError`` with its name, whatever a decoder raises,
or it holds what it held. The exceptions are image formats without checksums (JPEG, WebP, BMP),
which may decode to other pixels; there only cutting must be noticed.
"""

from __future__ import annotations

import functools
import io
import resource
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image

import tiny_data
from reconrisk import datasets
from reconrisk.datasets import LabelledImages, own_images

SETTINGS = settings(
    max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
#: what reading tiny files may take: a claim in a header must not be allocated
SPARE = 2**30


@pytest.fixture(autouse=True)
def little_memory() -> Iterator[None]:
    """Let the process take a GiB more than it has, where the system says how much that is."""
    statm = Path("/proc/self/statm")
    if not statm.exists():
        yield
        return
    pages = int(statm.read_text().split()[0])
    before = resource.getrlimit(resource.RLIMIT_AS)
    ceiling = pages * resource.getpagesize() + SPARE
    resource.setrlimit(resource.RLIMIT_AS, (ceiling, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_AS, before)


@st.composite
def damage(draw: st.DrawFn) -> Callable[[bytes], bytes]:
    """Cuts a file, replaces one to four bytes, swaps two parts, or appends a few."""
    kind = draw(st.sampled_from(["cut", "replace", "replace", "append", "repeat"]))
    places = draw(st.lists(st.floats(0, 1, exclude_max=True), min_size=1, max_size=4))
    # half of the time in the first or last bytes, where headers and directories are
    near = draw(st.sampled_from([None, 64, -160]))
    values = draw(st.binary(min_size=4, max_size=4))

    def change(data: bytes) -> bytes:
        start = len(data) + near if near is not None and near < 0 else 0
        length = len(data) if near is None else abs(near)
        spots = [min(max(start, 0) + int(p * length), len(data) - 1) for p in places]
        if kind == "cut":
            return data[: spots[0]]
        if kind == "append":
            return data + values
        if kind == "repeat":
            return data[: spots[0]] + data[spots[-1] :]
        changed = bytearray(data)
        for spot, value in zip(spots, values, strict=False):
            changed[spot] = value
        return bytes(changed)

    return change


def same(one: LabelledImages, other: LabelledImages) -> bool:
    return (
        one.shape == other.shape
        and np.array_equal(one.inputs, other.inputs)
        and np.array_equal(one.labels, other.labels)
    )


def refusal_of(read: Callable[[], LabelledImages], name: str) -> LabelledImages | None:
    """What a damaged file gives, or None if it is refused as it should be."""
    try:
        return read()
    except (ValueError, OSError) as error:
        # a decoder's own exception would not name the file, nor be of one of these two kinds alone
        assert type(error) in (ValueError, FileNotFoundError, OSError), repr(error)
        assert name in str(error) and "expected" in str(error).lower(), str(error)
        return None


def sound(images: LabelledImages) -> bool:
    """Whether images are what the rest of the library may rely on."""
    return (
        images.inputs.dtype == np.float32
        and images.inputs.shape == (len(images), images.dimension)
        and bool(np.all((images.inputs >= 0) & (images.inputs <= 1)))
        and images.labels.dtype == np.int64
        and images.labels.shape == (len(images),)
        and images.labels.min() >= 0
    )


# Files with published checksums -------------------------------------------------------------------

OFFICIAL = {
    "MNIST/raw/t10k-images-idx3-ubyte": "MNIST",
    "MNIST/raw/t10k-labels-idx1-ubyte": "MNIST",
    "MNIST/raw/t10k-images-idx3-ubyte.gz": "MNIST",
    "cifar-10-batches-py/test_batch": "CIFAR-10",
    "cifar-10-python.tar.gz": "CIFAR-10",
}


def write_official(root: Path, path: str, monkeypatch: pytest.MonkeyPatch) -> bytes:
    """The tiny data set around one file, taken for official; that file's bytes."""
    tiny_data.publish_mnist(monkeypatch)
    tiny_data.publish_cifar(monkeypatch)
    if path.startswith("MNIST"):
        raw = tiny_data.write_mnist(root, also=False)
        for file, data in tiny_data.mnist_files().items():
            if path.endswith(file):
                (raw / f"{file}.gz").unlink()
                (root / path).write_bytes(data)
        if path.endswith(".gz"):
            return (root / path).read_bytes()
    elif path.startswith("cifar-10-batches"):
        tiny_data.write_cifar(root)
    else:
        (root / path).write_bytes(tiny_data.cifar_archive())
    return (root / path).read_bytes()


@pytest.mark.parametrize("path", OFFICIAL)
@given(change=damage())
@SETTINGS
def test_any_change_of_an_official_file_is_refused(path, change, tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        root = tmp_path_factory.mktemp("official")
        data = write_official(root, path, patch)
        changed = change(data)
        (root / path).write_bytes(changed)
        read = refusal_of(
            lambda: datasets.classified(OFFICIAL[path], root, "test"), Path(path).name
        )
        assert (read is None) == (changed != data)


@pytest.mark.parametrize("path", OFFICIAL)
@given(change=damage())
@SETTINGS
def test_past_the_checksums_parsers_refuse_or_give_sound_images(path, change, tmp_path_factory):
    """As if the damaged file were the published one."""
    with pytest.MonkeyPatch.context() as patch:
        root = tmp_path_factory.mktemp("past")
        changed = change(write_official(root, path, patch))
        (root / path).write_bytes(changed)
        tiny_data.publish(patch, OFFICIAL[path], {path: changed})
        read = refusal_of(
            lambda: datasets.classified(OFFICIAL[path], root, "test"),
            Path(path).name.removesuffix("images-idx3-ubyte").removesuffix("labels-idx1-ubyte"),
        )
        assert read is None or sound(read)


# Files without ------------------------------------------------------------------------------------


@functools.cache
def tiny_npz(compressed: bool) -> bytes:
    stream = io.BytesIO()
    images = np.random.default_rng(8).integers(0, 256, (3, 5, 5)).astype(np.uint8)
    save = np.savez_compressed if compressed else np.savez
    save(stream, labels=np.array([2, 0, 1]), images=images)
    return stream.getvalue()


@functools.cache
def tiny_image(kind: str) -> bytes:
    corners = np.random.default_rng(9).integers(0, 256, (3, 3, 3)).astype(np.uint8)
    stream = io.BytesIO()
    Image.fromarray(corners).resize((12, 9), Image.Resampling.BILINEAR).save(stream, kind)
    return stream.getvalue()


@pytest.mark.parametrize("compressed", [False, True])
@given(change=damage())
@SETTINGS
def test_a_damaged_npz_is_refused_or_unharmed(compressed, change, tmp_path_factory):
    file = tmp_path_factory.mktemp("npz") / "mine.npz"
    file.write_bytes(tiny_npz(compressed))
    whole = own_images(file)
    file.write_bytes(change(file.read_bytes()))
    read = refusal_of(lambda: own_images(file), "mine.npz")
    assert read is None or same(read, whole)


@given(change=damage())
@SETTINGS
def test_a_damaged_png_is_refused_or_unharmed(change, tmp_path_factory):
    file = tmp_path_factory.mktemp("png") / "mine.png"
    file.write_bytes(tiny_image("PNG"))
    whole = own_images(file)
    file.write_bytes(change(file.read_bytes()))
    read = refusal_of(lambda: own_images(file), "mine.png")
    assert read is None or same(read, whole)


@pytest.mark.parametrize("kind", ["JPEG", "WEBP", "BMP"])
@given(change=damage())
@SETTINGS
def test_formats_without_checksums_are_refused_or_decode(kind, change, tmp_path_factory):
    file = tmp_path_factory.mktemp(kind) / "mine.jpg"
    file.write_bytes(change(tiny_image(kind)))
    read = refusal_of(lambda: own_images(file, side=8), "mine.jpg")
    assert read is None or sound(read)


@pytest.mark.parametrize("kind", ["JPEG", "WEBP", "BMP"])
def test_cut_images_are_refused_or_unharmed(kind, tmp_path):
    """At every byte."""
    file = tmp_path / "mine.jpg"
    data = tiny_image(kind)
    file.write_bytes(data)
    whole = own_images(file)
    for length in range(len(data)):
        file.write_bytes(data[:length])
        read = refusal_of(lambda: own_images(file), "mine.jpg")
        assert read is None or same(read, whole), length


def test_every_single_cut_of_an_npz_is_refused(tmp_path):
    file = tmp_path / "mine.npz"
    data = tiny_npz(True)
    for length in range(len(data)):
        file.write_bytes(data[:length])
        assert refusal_of(lambda: own_images(file), "mine.npz") is None, length


@pytest.mark.parametrize(("kind", "data"), [("npz", tiny_npz(False)), ("png", tiny_image("PNG"))])
def test_every_single_changed_byte_is_refused_or_harmless(kind, data, tmp_path):
    """Pillow alone lets every fifth changed byte of a PNG through, as other pixels."""
    file = tmp_path / f"mine.{kind}"
    file.write_bytes(data)
    whole = own_images(file)
    for place in range(len(data)):
        for flipped in (1, 255):
            changed = bytearray(data)
            changed[place] ^= flipped
            file.write_bytes(changed)
            read = refusal_of(lambda: own_images(file), file.name)
            assert read is None or same(read, whole), (place, flipped)

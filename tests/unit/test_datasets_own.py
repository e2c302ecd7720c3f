"""Images of the reader's own: every layout, what is said of it, and clear refusals."""

from __future__ import annotations

import os
import zlib
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import tiny_data
from reconrisk import datasets
from reconrisk.datasets import own_images


def picture(
    path: Path, height: int, width: int, *, grey: bool = False, seed: int = 0
) -> np.ndarray:
    """Write a smooth picture as PNG or JPEG and return its bytes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    corners = np.random.default_rng(seed).integers(0, 256, (3, 3) + (() if grey else (3,)))
    small = Image.fromarray(corners.astype(np.uint8))
    array = np.asarray(small.resize((width, height), Image.Resampling.BILINEAR))
    Image.fromarray(array).save(path)
    return array


@pytest.fixture
def album(tmp_path: Path) -> Path:
    """Two classes of pictures of mixed sizes, in colour."""
    root = tmp_path / "album"
    for i in range(7):
        picture(root / "cats" / f"{i}.png", 20 + i, 30, seed=i)
    for i in range(2):
        picture(root / "dogs" / "old" / f"{i}.jpg", 24, 24, seed=10 + i)
    (root / "dogs" / "notes.txt").write_text("not an image")
    (root / ".hidden").mkdir()
    (root / ".hidden" / "x.png").write_bytes(b"")
    return root


def test_a_folder_of_classes(album: Path):
    images = own_images(album, side=16)
    assert images.shape == (16, 16, 3) and len(images) == 9 and images.classes == 2
    # the first of every class, then the second of every class, so that a first part holds all
    assert images.labels.tolist() == [0, 1, 0, 1, 0, 0, 0, 0, 0]
    assert images.name == "own images (album)"
    assert images.source == (
        "the folder album (2 classes: cats, dogs), 9 images, 30x20 to 30x26 pixels, cut to the "
        "central square and resampled to 16x16, in colour"
    )
    with Image.open(album / "cats" / "0.png") as stored:
        square = stored.crop((5, 0, 25, 20)).resize((16, 16), Image.Resampling.LANCZOS)
    np.testing.assert_array_equal(images.inputs[0] * 255, np.float32(np.asarray(square).ravel()))


def test_linked_folders_are_followed_but_not_in_circles(album: Path, tmp_path):
    (tmp_path / "links").mkdir()
    (tmp_path / "links" / "felines").symlink_to(album / "cats")
    assert len(own_images(tmp_path / "links", side=8)) == 7
    assert len(datasets.pictures(8, 7, tmp_path / "links")) == 7
    (tmp_path / "links" / "round").symlink_to(tmp_path / "links")
    with pytest.raises(ValueError, match="round leads back to a folder"):
        own_images(tmp_path / "links", side=8)


def test_mixed_sizes_need_a_side(album: Path):
    with pytest.raises(ValueError, match=r"album.*30x20 \(0.png\) and 24x24 \(0.jpg\); give side"):
        own_images(album)


def test_only_the_returned_images_are_opened(album: Path, monkeypatch):
    (album / "cats" / "6.png").write_bytes(b"damaged")
    opened = []
    whole = Image.open
    monkeypatch.setattr(
        Image, "open", lambda path, **more: opened.append(path) or whole(path, **more)
    )
    assert len(own_images(album, side=8, most=3)) == 3
    assert {p.parent.name + p.name for p in opened} == {"cats0.png", "old0.jpg", "cats1.png"}
    with pytest.raises(ValueError, match="6.png cannot be read: .*Expected a whole JPEG"):
        own_images(album, side=8)


def test_every_sixth_of_a_class_is_for_testing(album: Path):
    train, test = (own_images(album, side=8, split=split) for split in ("train", "test"))
    assert len(train) == 8 and len(test) == 1 and test.labels.tolist() == [0]
    both = own_images(album, side=8)
    np.testing.assert_array_equal(test.inputs[0], both.inputs[both.labels == 0][5])
    assert "its part for testing, 1 image," in test.source
    with pytest.raises(ValueError, match="has no test part.*train and test"):
        own_images(album / "dogs", side=8, split="test")


def test_stated_parts_are_kept(tmp_path: Path):
    for part, classes in (("train", "ab"), ("Val", "bc")):
        for name in classes:
            picture(tmp_path / part / name / "1.png", 8, 8, seed=ord(name))
    train, test, both = (own_images(tmp_path, split=s) for s in ("train", "test", "all"))
    # classes are numbered over both parts
    assert train.labels.tolist() == [0, 1] and test.labels.tolist() == [1, 2]
    assert both.labels.tolist() == [0, 1, 1, 2]
    np.testing.assert_array_equal(train.inputs[1], test.inputs[0])
    only = own_images(tmp_path / "train")
    np.testing.assert_array_equal(only.inputs, train.inputs)


def test_grey_and_colour(tmp_path: Path):
    grey = picture(tmp_path / "grey" / "1.png", 8, 8, grey=True)
    colour = picture(tmp_path / "both" / "2.png", 8, 8)
    picture(tmp_path / "both" / "1.png", 8, 8, grey=True)
    alone = own_images(tmp_path / "grey")
    assert alone.shape == (8, 8) and alone.labels.tolist() == [0]
    np.testing.assert_allclose(alone.inputs[0], grey.ravel() / 255, atol=1e-7)
    mixed = own_images(tmp_path / "both")
    assert mixed.shape == (8, 8, 3)
    np.testing.assert_allclose(mixed.inputs[0], grey.repeat(3) / 255, atol=1e-7)
    np.testing.assert_allclose(mixed.inputs[1], colour.ravel() / 255, atol=1e-7)
    averaged = own_images(tmp_path / "both", colour=False)
    np.testing.assert_allclose(averaged.inputs[1], colour.mean(axis=2).ravel() / 255, atol=1e-6)
    assert own_images(tmp_path / "grey", colour=True).shape == (8, 8, 3)


def test_one_image_upright_as_its_camera_noted(tmp_path: Path):
    array = picture(tmp_path / "shot.png", 6, 9)
    turned = Image.Exif()
    turned[0x0112] = 6  # turn by 90 degrees clockwise
    Image.fromarray(array).save(tmp_path / "shot.png", exif=turned)
    image = own_images(tmp_path / "shot.png")
    assert image.shape == (9, 6, 3) and image.name == "own images (shot)"
    np.testing.assert_allclose(image.inputs[0], np.rot90(array, -1).ravel() / 255, atol=1e-7)
    one = own_images(tmp_path, side=8, colour=True)
    assert one.files == (str(tmp_path / "shot.png"),)
    np.testing.assert_allclose(datasets.pictures(8, 1, tmp_path), one.pictures(), atol=1e-7)


def test_values_that_are_no_bytes_are_refused(tmp_path: Path):
    """Pillow would clip them to white without a word."""
    Image.fromarray(np.full((4, 4), 40000, np.uint16)).save(tmp_path / "deep.png")
    with pytest.raises(ValueError, match="deep.png cannot be read: .*mode I;16, not bytes"):
        own_images(tmp_path / "deep.png")
    palette = Image.new("P", (4, 4), 1)
    palette.putpalette([0, 0, 0, 250, 120, 3])
    palette.save(tmp_path / "few.png", transparency=b"\0\0")
    few = own_images(tmp_path / "few.png").inputs[0, :3]
    np.testing.assert_allclose(few * 255, [250, 120, 3], atol=1e-4)


def test_npz_of_bytes_and_of_floats(tmp_path: Path):
    ramp = np.add.outer(np.arange(10) * 11, np.arange(10) * 9) + np.arange(7)[:, None, None] * 8
    images = np.stack([ramp, ramp, 255 - ramp], axis=3).astype(np.uint8)
    labels = np.array([2, 0, 1, 2, 2, 1, 0], np.uint8)
    np.savez(tmp_path / "bytes.npz", images=images, labels=labels)
    np.savez_compressed(tmp_path / "floats.npz", images=images / 255, labels=labels)
    whole, fractions = (own_images(tmp_path / f"{name}.npz") for name in ("bytes", "floats"))
    assert whole.shape == (10, 10, 3) and whole.labels.dtype == np.int64 and whole.classes == 3
    np.testing.assert_array_equal(whole.labels, labels)
    np.testing.assert_allclose(whole.inputs, fractions.inputs, atol=1e-7)
    assert whole.source == "the file bytes.npz (3 classes), 7 images, 10x10 pixels, in colour"
    small, smaller = (own_images(tmp_path / f"{n}.npz", side=6) for n in ("bytes", "floats"))
    np.testing.assert_allclose(small.inputs, smaller.inputs, atol=1.5 / 255)
    assert 0 <= smaller.inputs.min() and smaller.inputs.max() <= 1
    np.savez(tmp_path / "grey.npz", images=images[..., :1])
    grey = own_images(tmp_path / "grey.npz", most=2)
    assert grey.shape == (10, 10) and grey.classes == 1 and len(grey) == 2


def test_npz_with_parts_of_its_own(tmp_path: Path):
    images = np.random.default_rng(6).integers(0, 256, (5, 4, 4)).astype(np.uint8)
    file = tmp_path / "parts.npz"
    parts = {"train_images": images[:3], "train_labels": [0, 1, 1], "test_images": images[3:]}
    np.savez(file, **parts, test_labels=[1, 0])
    assert own_images(file, split="train").labels.tolist() == [0, 1, 1]
    assert own_images(file, split="test").labels.tolist() == [1, 0]
    np.testing.assert_allclose(own_images(file).inputs * 255, images.reshape(5, -1), atol=1e-4)


@pytest.mark.parametrize(
    ("arrays", "match"),
    [
        ({"pixels": np.zeros((2, 4, 4))}, "holds pixels; expected"),
        ({"images": np.zeros((2, 16))}, r"shape \(2, 16\); expected \(count, height, width\)"),
        ({"images": np.zeros((2, 4, 4, 4))}, r"shape \(2, 4, 4, 4\)"),
        ({"images": np.zeros((0, 4, 4), np.uint8)}, "at least one image"),
        ({"images": np.zeros((2, 4, 4), int)}, "holds int64; expected bytes"),
        ({"images": np.full((2, 4, 4), 255.0)}, "values from 255 to 255"),
        ({"images": np.full((2, 4, 4), np.nan)}, "values from nan to nan"),
        ({"images": np.array(["a", "b"])}, "values of type <U1, not numbers"),
        ({"images": np.array([None, {}], dtype=object)}, "values of type object"),
        ({"images": np.zeros((2, 4, 4)), "labels": [0.5, 1]}, "labels is float64"),
        ({"images": np.zeros((2, 4, 4)), "labels": [0, 1, 2]}, r"labels is int64 of shape \(3,\)"),
        ({"images": np.zeros((2, 4, 4)), "labels": [0, -1]}, "labels holds -1 to 0"),
        ({"images": np.zeros((2, 4, 4)), "labels": [0, 10**9]}, "below 100,000"),
    ],
)
def test_arrays_that_are_no_images_are_refused(tmp_path: Path, arrays, match: str):
    np.savez(tmp_path / "odd.npz", **arrays)
    with pytest.raises(ValueError, match=f"odd.npz.*{match}"):
        own_images(tmp_path / "odd.npz")


def test_a_data_root_and_the_sets_own_folders(tmp_path: Path, monkeypatch):
    tiny_data.publish_mnist(monkeypatch)
    tiny_data.publish_cifar(monkeypatch)
    raw = tiny_data.write_mnist(tmp_path)
    official = datasets.classified("MNIST", tmp_path, "all")
    for path in (tmp_path, raw.parent, raw):
        images = own_images(path)
        np.testing.assert_array_equal(images.inputs, official.inputs)
        np.testing.assert_array_equal(images.labels, official.labels)
        assert images.source == "MNIST (10 classes), 17 images, 28x28 pixels, in grey"
    folder = tiny_data.write_cifar(tmp_path)
    with pytest.raises(ValueError, match=f"holds MNIST, CIFAR-10; give one of them: {raw} or "):
        own_images(tmp_path)
    assert own_images(folder, split="test", side=8, colour=False).shape == (8, 8)


def test_what_is_no_data_is_refused(album: Path, tmp_path: Path):
    with pytest.raises(FileNotFoundError, match="nowhere is missing; expected an image"):
        own_images(tmp_path / "nowhere")
    (tmp_path / "table.csv").write_text("1,2")
    with pytest.raises(ValueError, match="table.csv ends in .csv; expected an image"):
        own_images(tmp_path / "table.csv")
    (tmp_path / "empty").mkdir()
    with pytest.raises(FileNotFoundError, match="no image in .*empty"):
        own_images(tmp_path / "empty")
    picture(album / "stray.png", 8, 8)
    with pytest.raises(ValueError, match=r"by themselves \(stray.png\) and in folders \(cats\)"):
        own_images(album, side=8)
    (tmp_path / "folder.npz").mkdir()
    with pytest.raises(FileNotFoundError, match="no image in .*folder.npz"):
        own_images(tmp_path / "folder.npz")
    os.mkfifo(tmp_path / "pipe.png")  # opening it would wait for ever
    with pytest.raises(ValueError, match="pipe.png is not a regular file"):
        own_images(tmp_path / "pipe.png")
    with pytest.raises(ValueError, match="side must be in"):
        own_images(album, side=1)
    with pytest.raises(ValueError, match="most must be in"):
        own_images(album, side=8, most=0)


def test_an_image_of_too_many_pixels_is_refused_by_its_header(tmp_path: Path):
    file = tmp_path / "bomb.png"
    Image.new("1", (4, 4)).save(file)
    data = bytearray(file.read_bytes())
    data[16:24] = (10**6).to_bytes(4, "big") * 2
    data[29:33] = zlib.crc32(data[12:29]).to_bytes(4, "big")
    file.write_bytes(data)
    with pytest.raises(ValueError, match=r"bomb.png cannot be read: .*1000000000000 pixels"):
        own_images(file)


def test_too_many_images_are_refused_before_they_are_read(tmp_path: Path, monkeypatch):
    from reconrisk.datasets import _own

    for i in range(3):
        picture(tmp_path / f"{i}.png", 8, 8)
    monkeypatch.setattr(_own, "_MOST_BYTES", 12 * 64 * 3 - 1)
    monkeypatch.setattr(_own, "resized_bytes", None)
    with pytest.raises(ValueError, match="3 images of 8x8 from .* need 0 GiB"):
        own_images(tmp_path)


def test_own_images_by_the_names_that_exhibits_use(album: Path):
    colour = datasets.classified("own colour", album, "train", side=8)
    np.testing.assert_array_equal(
        colour.inputs, own_images(album, side=8, colour=True, split="train").inputs
    )
    grey = datasets.classified("own grey", album, "all")
    np.testing.assert_array_equal(grey.inputs, own_images(album, side=28, colour=False).inputs)
    with pytest.raises(FileNotFoundError, match="path to your images"):
        datasets.classified("own grey")
    # the path's order; what lies in hidden folders is left out
    stored = datasets.pictures(16, 2, album)
    np.testing.assert_allclose(
        stored[1].ravel(), own_images(album / "cats" / "1.png", side=16).inputs[0], atol=1e-7
    )
    images = np.random.default_rng(7).integers(0, 256, (3, 16, 16, 3)).astype(np.uint8)
    np.savez(album / "three.npz", images=images)
    taken = datasets.pictures(16, 2, album / "three.npz")
    np.testing.assert_allclose(taken * 255, images[:2], atol=1e-4)
    with pytest.raises(ValueError, match="count must be at most 3"):
        datasets.pictures(16, 4, album / "three.npz")

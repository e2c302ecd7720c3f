"""The labelled data sets: splits, layouts on disk, and clear refusals."""

from __future__ import annotations

import gzip
import pickle
from pathlib import Path

import numpy as np
import pytest

from reconrisk.study import datasets


def _idx(array: np.ndarray) -> bytes:
    sizes = b"".join(int(n).to_bytes(4, "big") for n in array.shape)
    return bytes([0, 0, 8, array.ndim]) + sizes + array.astype(np.uint8).tobytes()


@pytest.fixture
def mnist_root(tmp_path: Path) -> Path:
    """Four small idx files in torchvision's layout, two of them packed."""
    raw = tmp_path / "MNIST" / "raw"
    raw.mkdir(parents=True)
    rng = np.random.default_rng(1)
    for part, count in (("train", 12), ("t10k", 5)):
        images = rng.integers(0, 256, (count, 28, 28))
        labels = np.arange(count) % 10
        (raw / f"{part}-images-idx3-ubyte.gz").write_bytes(gzip.compress(_idx(images)))
        (raw / f"{part}-labels-idx1-ubyte").write_bytes(_idx(labels))
    return tmp_path


@pytest.fixture
def cifar_root(tmp_path: Path) -> Path:
    folder = tmp_path / "cifar-10-batches-py"
    folder.mkdir()
    rng = np.random.default_rng(2)
    for name in (*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"):
        batch = {
            b"data": rng.integers(0, 256, (4, 3072)).astype(np.uint8),
            b"labels": [3, 1, 4, 9],
        }
        (folder / name).write_bytes(pickle.dumps(batch, protocol=2))
    return tmp_path


def test_digits_are_split_and_scaled():
    train, test, both = (datasets.classified("digits", split=s) for s in ("train", "test", "all"))
    assert (len(train), len(test), len(both)) == (1500, 297, 1797)
    assert train.shape == (8, 8) and train.dimension == 64 and train.classes == 10
    assert train.inputs.dtype == np.float32
    assert train.inputs.min() == 0 and train.inputs.max() == 1
    np.testing.assert_array_equal(both.inputs, datasets.digits().astype(np.float32))


def test_patches_hold_all_classes_and_no_even_ones():
    for side in (16, 32):
        train = datasets.classified("patches", side=side)
        test = datasets.classified("patches", split="test", side=side)
        assert train.shape == (side, side, 3)
        assert set(train.labels) == set(test.labels) == set(range(8))
        assert 4 < len(train) / len(test) < 6
        assert train.inputs.std(axis=1).min() > 0.0199
        assert 0 <= train.inputs.min() and train.inputs.max() <= 1
    # a fixed order: the first classes are the same wherever it runs
    again = datasets.classified("patches", side=32)
    np.testing.assert_array_equal(train.labels, again.labels)
    assert len(np.unique(train.labels[:100])) == 8


def test_pictures_and_taking():
    grey = datasets.classified("digits").take([5, 2])
    assert len(grey) == 2 and grey.pictures().shape == (2, 8, 8, 3)
    np.testing.assert_array_equal(grey.pictures()[0, :, :, 1].ravel(), grey.inputs[0])
    colour = datasets.classified("patches", side=8).take(range(3))
    np.testing.assert_array_equal(
        colour.pictures(colour.inputs[:1])[0], colour.inputs[0].reshape(8, 8, 3)
    )


def test_mnist_is_read_packed_and_unpacked(mnist_root: Path):
    before = sorted(p.name for p in mnist_root.rglob("*"))
    train = datasets.classified("MNIST", mnist_root)
    both = datasets.classified("MNIST", mnist_root, "all")
    assert train.inputs.shape == (12, 784) and len(both) == 17 and both.shape == (28, 28)
    np.testing.assert_array_equal(train.labels, np.arange(12) % 10)
    expected = np.random.default_rng(1).integers(0, 256, (12, 28, 28)).reshape(12, -1) / 255
    np.testing.assert_allclose(train.inputs, expected, atol=1e-7)
    assert sorted(p.name for p in mnist_root.rglob("*")) == before  # nothing was written


def test_mnist_refuses_what_is_missing_or_damaged(mnist_root: Path, tmp_path: Path):
    with pytest.raises(FileNotFoundError, match="data_root.*download=True"):
        datasets.classified("MNIST")
    file = mnist_root / "MNIST" / "raw" / "t10k-labels-idx1-ubyte"
    content = file.read_bytes()
    file.write_bytes(content[:-1])
    with pytest.raises(ValueError, match="cut short"):
        datasets.classified("MNIST", mnist_root, "test")
    file.write_bytes(_idx(np.zeros(3)))
    with pytest.raises(ValueError, match="as many 28x28 images as labels"):
        datasets.classified("MNIST", mnist_root, "test")
    file.unlink()
    with pytest.raises(FileNotFoundError, match="t10k-labels-idx1-ubyte"):
        datasets.classified("MNIST", mnist_root)


def test_fashion_mnist_lies_in_a_folder_of_its_own(mnist_root: Path):
    with pytest.raises(FileNotFoundError, match="FashionMNIST.raw.train-images"):
        datasets.classified("FashionMNIST", mnist_root)
    (mnist_root / "MNIST").rename(mnist_root / "FashionMNIST")
    garments = datasets.classified("FashionMNIST", mnist_root, "all")
    assert garments.inputs.shape == (17, 784) and garments.name == "Fashion-MNIST"
    with pytest.raises(FileNotFoundError, match="MNIST.raw.train-images"):
        datasets.classified("MNIST", mnist_root)


def test_grey_images_are_cropped_or_scaled():
    rng = np.random.default_rng(4)
    colour = datasets.LabelledImages(
        rng.random((3, 10 * 10 * 3), dtype=np.float32), np.arange(3), (10, 10, 3), "noise"
    )
    grey = colour.inputs.reshape(3, 10, 10, 3).mean(axis=3)
    cropped = datasets.grey_at(colour, 4, crop=True)
    assert cropped.shape == (4, 4) and cropped.inputs.dtype == np.float32
    np.testing.assert_allclose(cropped.inputs.reshape(3, 4, 4), grey[:, 3:7, 3:7], atol=1e-6)
    np.testing.assert_array_equal(cropped.labels, colour.labels)
    same = datasets.grey_at(colour, 10)
    np.testing.assert_allclose(same.inputs.reshape(3, 10, 10), grey, atol=1e-6)
    # a constant stays one at any size, and a ramp keeps its slope
    flat = datasets.LabelledImages(np.full((1, 64), 0.3, np.float32), np.zeros(1), (8, 8), "flat")
    for side in (3, 8, 16):
        np.testing.assert_allclose(datasets.grey_at(flat, side).inputs, 0.3, atol=1e-6)
    ramp = np.tile(np.arange(8, dtype=np.float32) / 8, (8, 1)).reshape(1, 64)
    large = datasets.grey_at(datasets.LabelledImages(ramp, np.zeros(1), (8, 8), "ramp"), 16)
    steps = np.diff(large.inputs.reshape(16, 16), axis=1)[:, 2:-2]
    np.testing.assert_allclose(steps, 1 / 16, atol=1e-6)
    with pytest.raises(ValueError, match="side must"):
        datasets.grey_at(colour, 11, crop=True)


def test_cifar_batches_have_colours_last(cifar_root: Path):
    train = datasets.classified("CIFAR-10", cifar_root)
    assert train.inputs.shape == (20, 3072) and train.shape == (32, 32, 3)
    raw = np.random.default_rng(2).integers(0, 256, (4, 3072)).astype(np.uint8)
    first = train.inputs[0].reshape(32, 32, 3)
    np.testing.assert_allclose(first[0, 1], raw[0, [1, 1025, 2049]] / 255, atol=1e-7)
    assert len(datasets.classified("CIFAR-10", cifar_root, "test")) == 4


def test_cifar_batches_cannot_run_code(cifar_root: Path):
    class Harmful:
        def __reduce__(self):
            return (print, ("ran",))

    harmful = pickle.dumps({b"data": Harmful()}, protocol=2)
    (cifar_root / "cifar-10-batches-py" / "test_batch").write_bytes(harmful)
    with pytest.raises(ValueError, match="arrays only"):
        datasets.classified("CIFAR-10", cifar_root, "test")


def test_cifar_subset_as_one_file(tmp_path: Path):
    with pytest.raises(FileNotFoundError, match="cifar10_subset.npz"):
        datasets.classified("CIFAR-10", tmp_path)
    images = np.random.default_rng(3).integers(0, 256, (6, 32, 32, 3)).astype(np.uint8)
    arrays = {"train_images": images, "train_labels": np.arange(6)}
    np.savez(tmp_path / "cifar10_subset.npz", **arrays, test_images=images, test_labels=[1, 2])
    with pytest.raises(ValueError, match="as many 32x32x3 images as labels"):
        datasets.classified("CIFAR-10", tmp_path)
    np.savez(tmp_path / "cifar10_subset.npz", **arrays, test_images=images[:2], test_labels=[1, 2])
    train = datasets.classified("CIFAR-10", tmp_path)
    np.testing.assert_allclose(train.inputs[3], images[3].ravel() / 255, atol=1e-7)
    assert train.labels.dtype == np.int64


def test_names_are_checked():
    with pytest.raises(ValueError, match="name must be one of digits, MNIST"):
        datasets.classified("SVHN")
    with pytest.raises(ValueError, match="split must be one of"):
        datasets.classified("digits", split="validation")


def test_features_come_from_the_stand_in_and_say_so():
    patches = datasets.classified("patches").take(range(20))
    made = datasets.features(patches)
    assert made.inputs.shape == (20, 640) and made.inputs.dtype == np.float32
    assert made.stand_in and "random" in made.name and made.classes == patches.classes
    np.testing.assert_array_equal(made.labels, patches.labels)


def test_features_come_from_a_weights_file_if_there_is_one(tmp_path: Path):
    import torch

    from reconrisk import feature_maps

    torch.manual_seed(0)
    narrow = feature_maps.WideResNet(depth=10, width=1)
    feature_maps.save(tmp_path / datasets.WEIGHTS_FILE, narrow, "WRN-10-1 (random)")
    made = datasets.features(datasets.classified("patches").take(range(3)), tmp_path)
    assert made.name == "WRN-10-1 (random)" and not made.stand_in
    assert made.inputs.shape == (3, 64)

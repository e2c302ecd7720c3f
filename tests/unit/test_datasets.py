"""The labelled data sets: splits, layouts on disk, checksums, and clear refusals."""

from __future__ import annotations

import dataclasses
import pickle
import zipfile
from pathlib import Path

import numpy as np
import pytest

import tiny_data
from reconrisk import datasets
from reconrisk.datasets import _formats, _official

RAW_LABELS = "t10k-labels-idx1-ubyte"


@pytest.fixture
def mnist_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Four small idx files in torchvision's layout, two of them packed, taken for official."""
    tiny_data.publish_mnist(monkeypatch)
    tiny_data.write_mnist(tmp_path)
    return tmp_path


@pytest.fixture
def cifar_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    tiny_data.publish_cifar(monkeypatch)
    tiny_data.write_cifar(tmp_path)
    return tmp_path


def test_digits_are_split_and_scaled():
    train, test, both = (datasets.classified("digits", split=s) for s in ("train", "test", "all"))
    assert (len(train), len(test), len(both)) == (1500, 297, 1797)
    assert train.shape == (8, 8) and train.dimension == 64 and train.classes == 10
    assert train.inputs.dtype == np.float32
    assert train.inputs.min() == 0 and train.inputs.max() == 1
    np.testing.assert_array_equal(both.inputs, datasets.digits().astype(np.float32))


def test_samples_are_the_official_images():
    mnist = datasets.classified("MNIST-5000", split="all")
    assert mnist.inputs.shape == (5000, 784) and mnist.name == "MNIST"
    np.testing.assert_array_equal(mnist.labels, np.arange(5000) % 10)
    # image 1 of the official training file is its first zero
    first = np.rint(255 * mnist.inputs[0]).astype(int)
    assert first.sum() == 31_095 and first.reshape(28, 28)[4, 15] == 51
    train, test = (datasets.classified("MNIST-5000", split=s) for s in ("train", "test"))
    assert (len(train), len(test)) == (4000, 1000)
    np.testing.assert_array_equal(np.vstack([train.inputs, test.inputs]), mnist.inputs)
    for name, labels in (("CIFAR-10-20", [3, 8, 8, 0, 6]), ("FashionMNIST-20", [9, 2, 1, 1, 6])):
        twenty = datasets.classified(name)
        assert len(twenty) == 20 and list(twenty.labels[:5]) == labels
    assert twenty.shape == (28, 28) and twenty.name == "Fashion-MNIST"


def test_a_sample_that_is_not_the_known_one_is_refused(monkeypatch: pytest.MonkeyPatch):
    sample = datasets.SAMPLES["CIFAR-10-20"]
    with pytest.raises(ValueError, match="must have the sha256 0; found 43cf17f5.*20 files"):
        dataclasses.replace(sample, sha256="0").files()
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ModuleNotFoundError, match=r"sample needs foolbox: pip install"):
        sample.files()


def test_pictures_are_imagenets_first():
    some, more = datasets.pictures(16, 3), datasets.pictures(16, 22)
    np.testing.assert_array_equal(some, more[:3])
    assert datasets.IMAGENET_SAMPLE.count == 20 and more.shape == (22, 16, 16, 3)
    assert len(np.unique(more.reshape(22, -1), axis=0)) == 22


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


# MNIST and Fashion-MNIST --------------------------------------------------------------------------


def test_mnist_is_read_packed_and_unpacked(mnist_root: Path):
    before = sorted(p.name for p in mnist_root.rglob("*"))
    train = datasets.classified("MNIST", mnist_root)
    both = datasets.classified("MNIST", mnist_root, "all")
    assert train.inputs.shape == (12, 784) and len(both) == 17 and both.shape == (28, 28)
    np.testing.assert_array_equal(train.labels, np.arange(12) % 10)
    expected = np.random.default_rng(1).integers(0, 256, (12, 28, 28)).reshape(12, -1) / 255
    np.testing.assert_allclose(train.inputs, expected, atol=1e-7)
    assert sorted(p.name for p in mnist_root.rglob("*")) == before  # nothing was written


def test_only_the_asked_part_is_opened(mnist_root: Path):
    for file in (mnist_root / "MNIST" / "raw").glob("t10k*"):
        file.write_bytes(b"not looked at")
    assert len(datasets.classified("MNIST", mnist_root)) == 12
    with pytest.raises(ValueError, match="t10k-images.*is not the official file"):
        datasets.classified("MNIST", mnist_root, "test")


def test_a_missing_file_says_how_to_get_it(mnist_root: Path):
    with pytest.raises(FileNotFoundError, match="give data_root.*data fetch MNIST --to DIR"):
        datasets.classified("MNIST")
    (mnist_root / "MNIST" / "raw" / RAW_LABELS).unlink()
    with pytest.raises(FileNotFoundError, match=f"{RAW_LABELS} is missing.*fetch MNIST --to /.*"):
        datasets.classified("MNIST", mnist_root, "test")


def test_a_changed_file_names_both_checksums(mnist_root: Path):
    file = mnist_root / "MNIST" / "raw" / RAW_LABELS
    content = file.read_bytes()
    file.write_bytes(content[:-1])
    with pytest.raises(ValueError, match=f"{RAW_LABELS} .*found 12 bytes, expected 13.*--data"):
        datasets.classified("MNIST", mnist_root, "test")
    file.write_bytes(content[:-1] + b"\7")
    sums = r"found md5 [0-9a-f]{32}, expected [0-9a-f]{32}"
    with pytest.raises(ValueError, match=f"{sums}.*images of your own"):
        datasets.classified("MNIST", mnist_root, "test")
    file.unlink()
    file.mkdir()
    with pytest.raises(ValueError, match="is a folder; expected the official file"):
        datasets.classified("MNIST", mnist_root, "test")


def test_what_a_packed_file_holds_is_verified_too(mnist_root: Path, monkeypatch):
    raw = mnist_root / "MNIST" / "raw"
    other = tiny_data.packed(tiny_data.idx(np.zeros((5, 28, 28))))
    tiny_data.publish(monkeypatch, "MNIST", {"MNIST/raw/t10k-images-idx3-ubyte.gz": other})
    (raw / "t10k-images-idx3-ubyte.gz").write_bytes(other)
    with pytest.raises(ValueError, match="t10k-images.*does not hold the official file"):
        datasets.classified("MNIST", mnist_root, "test")


@pytest.mark.parametrize(
    ("array", "found"),
    [
        (np.zeros((5, 27, 28)), r"\(5, 27, 28\)"),
        (np.zeros((4, 28, 28)), r"\(4, 28, 28\) and labels \(5,\)"),
    ],
)
def test_images_of_another_shape_are_refused(mnist_root: Path, monkeypatch, array, found):
    """Past the checksums, which in truth no such file passes."""
    data = tiny_data.idx(array)
    path = "MNIST/raw/t10k-images-idx3-ubyte"
    tiny_data.publish(monkeypatch, "MNIST", {path: data})
    (mnist_root / path).write_bytes(data)
    with pytest.raises(ValueError, match=f"found images {found}.*as many 28x28 images as"):
        datasets.classified("MNIST", mnist_root, "test")


def test_fashion_mnist_lies_in_a_folder_of_its_own(mnist_root: Path, monkeypatch):
    with pytest.raises(FileNotFoundError, match="FashionMNIST.raw.train-images"):
        datasets.classified("FashionMNIST", mnist_root)
    tiny_data.publish_mnist(monkeypatch, "FashionMNIST")
    (mnist_root / "MNIST").rename(mnist_root / "FashionMNIST")
    garments = datasets.classified("FashionMNIST", mnist_root, "all")
    assert garments.inputs.shape == (17, 784) and garments.name == "Fashion-MNIST"
    with pytest.raises(FileNotFoundError, match="MNIST.raw.train-images"):
        datasets.classified("MNIST", mnist_root)


# CIFAR-10 -----------------------------------------------------------------------------------------


def test_cifar_batches_have_colours_last(cifar_root: Path):
    train = datasets.classified("CIFAR-10", cifar_root)
    assert train.inputs.shape == (20, 3072) and train.shape == (32, 32, 3)
    raw = np.random.default_rng(2).integers(0, 256, (4, 3072)).astype(np.uint8)
    first = train.inputs[0].reshape(32, 32, 3)
    np.testing.assert_allclose(first[0, 1], raw[0, [1, 1025, 2049]] / 255, atol=1e-7)
    assert len(datasets.classified("CIFAR-10", cifar_root, "test")) == 4


def test_the_archive_of_cifar_is_read_as_it_is(tmp_path: Path, monkeypatch):
    tiny_data.publish_cifar(monkeypatch)
    tiny_data.write_cifar(tmp_path)
    unpacked = datasets.classified("CIFAR-10", tmp_path, "all")
    archive = tmp_path / "other" / "cifar-10-python.tar.gz"
    archive.parent.mkdir()
    archive.write_bytes(tiny_data.cifar_archive())
    read = datasets.classified("CIFAR-10", archive.parent, "all")
    np.testing.assert_array_equal(read.inputs, unpacked.inputs)
    np.testing.assert_array_equal(read.labels, unpacked.labels)
    assert [p.name for p in archive.parent.iterdir()] == [archive.name]
    archive.write_bytes(tiny_data.cifar_archive(count=3))
    with pytest.raises(ValueError, match="tar.gz is not the official file: found"):
        datasets.classified("CIFAR-10", archive.parent)


def test_no_pickle_is_loaded_before_its_checksum_is_verified(cifar_root: Path, monkeypatch):
    def never(*arguments):
        raise AssertionError("unpickled")

    monkeypatch.setattr(_official._formats, "cifar_batch", never)
    (cifar_root / "cifar-10-batches-py" / "test_batch").write_bytes(b"changed")
    with pytest.raises(ValueError, match="test_batch is not the official file"):
        datasets.classified("CIFAR-10", cifar_root, "test")


def test_a_pickle_cannot_run_code_even_with_the_right_checksum(cifar_root: Path, monkeypatch):
    class Harmful:
        def __reduce__(self):
            return (print, ("ran",))

    harmful = pickle.dumps({b"data": Harmful()}, protocol=2)
    path = "cifar-10-batches-py/test_batch"
    tiny_data.publish(monkeypatch, "CIFAR-10", {path: harmful})
    (cifar_root / path).write_bytes(harmful)
    with pytest.raises(ValueError, match="test_batch.*arrays only; found"):
        datasets.classified("CIFAR-10", cifar_root, "test")


def test_cifar_subset_as_one_file(tmp_path: Path):
    with pytest.raises(FileNotFoundError, match="data_batch_1 is missing.*cifar10_subset.npz"):
        datasets.classified("CIFAR-10", tmp_path)
    file = tmp_path / "cifar10_subset.npz"
    images = np.random.default_rng(3).integers(0, 256, (6, 32, 32, 3)).astype(np.uint8)
    arrays = {"train_images": images, "train_labels": np.arange(6), "test_labels": [1, 2]}

    def refused(match: str, **test: object) -> None:
        np.savez(file, **(arrays | test))
        with pytest.raises(ValueError, match=f"cifar10_subset.npz.*{match}"):
            datasets.classified("CIFAR-10", tmp_path, "test")

    refused("as many 32x32x3 images as labels", test_images=images)
    refused("images of bytes.*float64", test_images=images[:2] / 255)
    refused("labels from 0 to 9", test_images=images[:2], test_labels=[1, 10])
    refused("expected an array test_images too", test=1)
    refused("values of type object", test_images=np.array([None, 1], dtype=object))
    np.savez(file, **arrays, test_images=images[:2])
    train = datasets.classified("CIFAR-10", tmp_path)
    np.testing.assert_allclose(train.inputs[3], images[3].ravel() / 255, atol=1e-7)
    assert train.labels.dtype == np.int64
    file.write_bytes(file.read_bytes()[:-40])
    with pytest.raises(ValueError, match="cifar10_subset.npz is damaged: .*; expected an .npz"):
        datasets.classified("CIFAR-10", tmp_path)


def test_headers_that_claim_too_much_allocate_nothing(tmp_path: Path):
    with pytest.raises(ValueError, match="16 bytes .* 4294967295x4294967295x255; exp"):
        _formats.idx(b"\0\0\x08\3" + b"\xff" * 8 + b"\0\0\0\xff", Path("images"))
    header = (
        b"{'descr': '|u1', 'fortran_order': False, 'shape': (1000000, 1000, 1000), }".ljust(117)
        + b"\n"
    )
    with zipfile.ZipFile(tmp_path / "large.npz", "w") as archive:
        archive.writestr(
            "images.npy", b"\x93NUMPY\1\0" + len(header).to_bytes(2, "little") + header
        )
    with pytest.raises(ValueError, match="needs 1,000,000,000,000 bytes, 0 follow"):
        datasets.own_images(tmp_path / "large.npz")


# Others -------------------------------------------------------------------------------------------


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


def test_names_are_checked():
    with pytest.raises(ValueError, match="name must be one of digits, patches, MNIST-5000"):
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


def test_a_file_that_the_system_keeps_back_is_named(mnist_root: Path, monkeypatch):
    def refuse(path: Path, *mode: str):
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(PermissionError, match="t10k-images.*cannot be read .Permission denied."):
        datasets.classified("MNIST", mnist_root, "test")


def test_the_checksums_are_those_that_torchvision_verifies():
    """An independent copy of the published tables."""
    from reconrisk.metrics.perceptual import _import_torchvision

    known = _import_torchvision().datasets
    for name in ("MNIST", "FashionMNIST"):
        ours = {(Path(f.path).name, f.md5) for f in datasets.DATA_SETS[name].packed}
        assert ours == set(getattr(known, name).resources)
        assert set(getattr(known, name).mirrors) == set(datasets.DATA_SETS[name].mirrors)
    cifar = datasets.DATA_SETS["CIFAR-10"]
    theirs = known.CIFAR10.train_list + known.CIFAR10.test_list
    assert {name: file.md5 for name, file in cifar.unpacked.items()} == dict(theirs)
    assert cifar.packed[0].md5 == known.CIFAR10.tgz_md5
    assert cifar.mirrors[0] + cifar.packed[0].path == known.CIFAR10.url

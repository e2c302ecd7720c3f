"""The data of the experiments: bundled photographs and digits, or a folder of the paper's own.

Pictures are float arrays (count, height, width, 3) in [0, 1]; labelled images are flat vectors
with their labels (:class:`LabelledImages`).
"""

from __future__ import annotations

import functools
import gzip
import itertools
import math
import pickle
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from reconrisk import _check

if TYPE_CHECKING:
    from reconrisk.feature_maps import FeatureMap

__all__ = [
    "CLASSIFIED",
    "PHOTOGRAPHS",
    "LabelledFeatures",
    "LabelledImages",
    "classified",
    "digits",
    "feature_map",
    "features",
    "folder_photographs",
    "grey_at",
    "is_imagenet",
    "pictures",
]

#: colour photographs that scikit-image ships (none is fetched), as its data functions.
PHOTOGRAPHS = (
    "astronaut",
    "chelsea",
    "coffee",
    "rocket",
    "hubble_deep_field",
    "immunohistochemistry",
    "retina",
    "stereo_motorcycle",
)

#: labelled data sets by name; the first and the last are bundled, the others read from a folder.
CLASSIFIED = ("digits", "MNIST", "FashionMNIST", "CIFAR-10", "patches")

#: file of a pretrained wide ResNet below ``data_root``; its format: ``feature_maps.load``.
WEIGHTS_FILE = "wrn28_10_imagenet32.pt"

EXTENSIONS = {".jpg", ".jpeg", ".png", ".webp", ".bmp"}


def pictures(size: int, count: int, data_root: Path | None = None) -> np.ndarray:
    """Return ``count`` square colour pictures: bundled ones, or the first of a folder.

    Parameters
    ----------
    size : int
        Pixels a side, >= 8.
    count : int
        How many, >= 1; bundled ones: the first eight are whole photographs (their central
        square), further ones are quarters of those.
    data_root : Path, optional
        An ImageNet-style folder ``root/class/*.jpg`` (or of pictures without classes).

    Returns
    -------
    ndarray, shape (count, size, size, 3), in [0, 1]

    Raises
    ------
    ValueError
        If there are fewer pictures than asked for.
    """
    _check.integer("size", size, 8)
    _check.integer("count", count, 1)
    if data_root is not None:
        return folder_photographs(data_root, size, count)
    most = 5 * len(PHOTOGRAPHS)  # each whole, and its four quarters
    if count > most:
        raise ValueError(
            f"count must be at most {most} with the bundled photographs; got {count} "
            "(give data_root for more)"
        )
    squares = map(_bundled_square, PHOTOGRAPHS)
    quarters = (q for name in PHOTOGRAPHS for q in _quarters(_bundled_square(name)))
    chosen = itertools.islice(itertools.chain(squares, quarters), int(count))
    return np.stack([_resize(square, size) for square in chosen])


def folder_photographs(root: Path, size: int, count: int) -> np.ndarray:
    """Return the first ``count`` pictures below a folder, in the order of their paths.

    Raises
    ------
    FileNotFoundError
        If the folder holds no picture.
    ValueError
        If it holds too few, or one cannot be read (the message names it).
    """
    from PIL import Image, UnidentifiedImageError

    files = sorted(p for p in Path(root).rglob("*") if p.suffix.lower() in EXTENSIONS)
    if not files:
        raise FileNotFoundError(
            f"no picture below {root}: data_root must be a folder in the layout root/class/*.jpg"
        )
    if len(files) < count:
        raise ValueError(
            f"count must be at most {len(files)}, the pictures below {root}; got {count}"
        )
    taken = []
    for path in files[:count]:
        try:
            with Image.open(path) as picture:
                taken.append(np.asarray(picture.convert("RGB")))
        except (UnidentifiedImageError, OSError) as error:
            raise ValueError(f"the picture {path} cannot be read: {error}") from error
    return np.stack([_resize(_central_square(picture), size) for picture in taken])


def is_imagenet(root: Path | None) -> bool:
    """Say whether a folder's classes are named as ImageNet's, by WordNet ids (``n02088364``)."""
    if root is None:
        return False
    return any(re.match(r"n\d{8}(?!\d)", p.name) for p in Path(root).iterdir() if p.is_dir())


def digits() -> np.ndarray:
    """Return scikit-learn's 1,797 handwritten digits as (1797, 64) values in [0, 1]."""
    from sklearn.datasets import load_digits

    return load_digits().data / 16.0


# Labelled images ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class LabelledImages:
    """Images as flat vectors, with their classes.

    Attributes
    ----------
    inputs : ndarray, shape (N, d), float32
        Pixels in [0, 1], row by row, colours last.
    labels : ndarray, shape (N,), int64
        Classes, counted from 0.
    shape : tuple of int
        (height, width) of a grey image, (height, width, 3) of a colour one; d is its product.
    name : str
        For captions and axes.
    """

    inputs: np.ndarray
    labels: np.ndarray
    shape: tuple[int, ...]
    name: str

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def dimension(self) -> int:
        """d, values of an image."""
        return math.prod(self.shape)

    @property
    def classes(self) -> int:
        """Number of classes."""
        return int(self.labels.max()) + 1

    def take(self, chosen: Sequence[int] | np.ndarray) -> LabelledImages:
        """Return the images at the given positions, in that order."""
        positions = np.asarray(chosen, dtype=int)
        return LabelledImages(self.inputs[positions], self.labels[positions], self.shape, self.name)

    def pictures(self, vectors: np.ndarray | None = None) -> np.ndarray:
        """Return vectors (count, d), by default all images, as (count, height, width, 3)."""
        flat = self.inputs if vectors is None else np.asarray(vectors)
        grid = flat.reshape(len(flat), *self.shape[:2], -1)
        return np.broadcast_to(grid, (*grid.shape[:3], 3))


@dataclass(frozen=True)
class LabelledFeatures:
    """What a frozen network makes of labelled images; fine-tuning starts from these.

    Attributes
    ----------
    inputs : ndarray, shape (N, f), float32
    labels : ndarray, shape (N,), int64
    name : str
        The feature map's, for captions and axes.
    stand_in : bool
        Whether the map stands in for a pretrained network that is not to be had.
    """

    inputs: np.ndarray
    labels: np.ndarray
    name: str
    stand_in: bool

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def classes(self) -> int:
        """Number of classes."""
        return int(self.labels.max()) + 1


def classified(
    name: str, data_root: Path | None = None, split: str = "train", *, side: int = 32
) -> LabelledImages:
    """Return a labelled data set.

    Parameters
    ----------
    name : {"digits", "MNIST", "FashionMNIST", "CIFAR-10", "patches"}
        ``"digits"``: scikit-learn's 8x8 handwritten digits (1,500 train, 297 test; in ten
        classes). ``"patches"``: square colour patches of the bundled photographs, the class being
        the photograph (eight classes; every sixth patch is a test image). Both need no files.
        ``"MNIST"``, ``"FashionMNIST"``: the four idx files below ``data_root/MNIST/raw`` or
        ``data_root/FashionMNIST/raw``, packed (``.gz``) or not.
        ``"CIFAR-10"``: the pickled batches below ``data_root/cifar-10-batches-py``, or else a
        file ``data_root/cifar10_subset.npz`` with the arrays ``train_images`` (count, 32, 32, 3)
        of bytes, ``train_labels`` (count,), ``test_images`` and ``test_labels``.
    data_root : Path, optional
        Folder of the files; nothing is written there or fetched.
    split : {"train", "test", "all"}
        Which part; ``"all"`` is train followed by test.
    side : int
        Pixels a side of ``"patches"``, 4 to 128; no other data set has a choice.

    Raises
    ------
    FileNotFoundError
        If files are missing; the message says which, and how to get them.
    ValueError
        If a name is unknown or a file is not what it should be.
    """
    _check.one_of("name", name, CLASSIFIED)
    _check.one_of("split", split, ("train", "test", "all"))
    shape: tuple[int, ...]
    if name == "digits":
        train, test, shape = *_digits_parts(), (8, 8)
        title = "handwritten digits"
    elif name == "patches":
        _check.integer("side", side, 4, 128)
        train, test, shape = *_patch_parts(int(side)), (int(side), int(side), 3)
        title = f"photograph patches {side}x{side}"
    elif data_root is None:
        raise FileNotFoundError(f"{name} is read from files: give data_root. {_HOW_TO_GET[name]}")
    elif name in ("MNIST", "FashionMNIST"):
        train, test = (_mnist(Path(data_root), name, part) for part in ("train", "t10k"))
        shape, title = (28, 28), {"MNIST": name}.get(name, "Fashion-MNIST")
    else:
        train, test = _cifar(Path(data_root))
        shape, title = (32, 32, 3), name
    parts = {"train": (train,), "test": (test,), "all": (train, test)}[split]
    inputs, labels = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    return LabelledImages(inputs, labels, shape, title)


def grey_at(images: LabelledImages, side: int, *, crop: bool = False) -> LabelledImages:
    """Return images in grey at another size.

    Parameters
    ----------
    images : LabelledImages
        Square ones; colours are averaged.
    side : int
        New height and width, >= 2.
    crop : bool
        Whether to keep the central square as it is, which must be large enough, or to scale the
        whole image, bilinearly and without aliasing.
    """
    import torch

    _check.integer("side", side, 2, images.shape[0] if crop else np.inf)
    grey = images.inputs.reshape(len(images), *images.shape[:2], -1).mean(axis=3)
    if crop:
        top, left = ((length - side) // 2 for length in images.shape[:2])
        small = grey[:, top : top + side, left : left + side]
    else:
        stack = torch.as_tensor(grey)[:, None]
        small = torch.nn.functional.interpolate(
            stack, (side, side), mode="bilinear", antialias=True
        )[:, 0].numpy()
    flat = np.ascontiguousarray(small.reshape(len(images), -1), dtype=np.float32)
    return LabelledImages(flat, images.labels, (side, side), images.name)


def features(
    images: LabelledImages, data_root: Path | None = None, *, count: int = 640
) -> LabelledFeatures:
    """Return what the frozen network makes of labelled images, see :func:`feature_map`.

    Cost: one pass through the network, in batches of 256 images.
    """
    import torch

    network = feature_map(images.shape, data_root, count=count)
    with torch.no_grad():
        batches = torch.as_tensor(images.inputs).split(256)
        inputs = torch.cat([network(batch) for batch in batches]).numpy()
    return LabelledFeatures(inputs, images.labels, network.name, network.stand_in)


def feature_map(
    shape: Sequence[int], data_root: Path | None = None, *, count: int = 640
) -> FeatureMap:
    """Return the frozen network whose last layer is fine-tuned, differentiable in the pixels.

    Parameters
    ----------
    shape : tuple of int
        (height, width, 3) of the images.
    data_root : Path, optional
        If it holds ``wrn28_10_imagenet32.pt``, that wide ResNet is loaded (its format:
        :func:`reconrisk.feature_maps.load`); else a named stand-in with fixed random filters.
    count : int
        Features of the stand-in, >= 16 and a multiple of 16; WRN-28-10 has 640.
    """
    from reconrisk import feature_maps

    if data_root is not None and (Path(data_root) / WEIGHTS_FILE).is_file():
        return feature_maps.load(Path(data_root) / WEIGHTS_FILE)
    return feature_maps.random_features(tuple(shape), count)


_IDX_FILES = (
    "The folder must hold {0}/raw/ with train-images-idx3-ubyte, train-labels-idx1-ubyte, "
    "t10k-images-idx3-ubyte and t10k-labels-idx1-ubyte, each as it is or packed as .gz; "
    "torchvision.datasets.{0}(data_root, download=True) makes it."
)
_HOW_TO_GET = {
    "MNIST": _IDX_FILES.format("MNIST"),
    "FashionMNIST": _IDX_FILES.format("FashionMNIST"),
    "CIFAR-10": "The folder must hold cifar-10-batches-py/ with data_batch_1 to data_batch_5 and "
    "test_batch, which torchvision.datasets.CIFAR10(data_root, download=True) makes; or "
    "cifar10_subset.npz with train_images, train_labels, test_images and test_labels.",
}

_Part = tuple[np.ndarray, np.ndarray]


def _part(images: np.ndarray, labels: Any, largest: float) -> _Part:
    flat = images.reshape(len(images), -1).astype(np.float32) / np.float32(largest)
    return flat, np.asarray(labels, dtype=np.int64)


def _digits_parts() -> tuple[_Part, _Part]:
    from sklearn.datasets import load_digits

    loaded = load_digits()
    flat, labels = _part(loaded.data, loaded.target, 16)
    return (flat[:1500], labels[:1500]), (flat[1500:], labels[1500:])


def _mnist(root: Path, name: str, part: str) -> _Part:
    images = _idx(root, name, f"{part}-images-idx3-ubyte")
    labels = _idx(root, name, f"{part}-labels-idx1-ubyte")
    if images.shape[1:] != (28, 28) or len(images) != len(labels):
        raise ValueError(
            f"{name}'s {part} files below {root} must hold as many 28x28 images as labels; got "
            f"{images.shape} and {labels.shape}"
        )
    return _part(images, labels, 255)


def _idx(root: Path, name: str, file: str) -> np.ndarray:
    """An array in the idx format: two zero bytes, type 8 (bytes), rank, sizes, values."""
    path = root / name / "raw" / file
    packed = path.with_name(f"{file}.gz")
    if path.is_file():
        data = path.read_bytes()
    elif packed.is_file():
        data = gzip.decompress(packed.read_bytes())
    else:
        raise FileNotFoundError(f"{path} (or .gz) is missing. {_HOW_TO_GET[name]}")
    rank = data[3] if len(data) > 3 and data[:3] == b"\0\0\x08" else 0
    sizes = tuple(np.frombuffer(data, ">u4", rank, 4).astype(int)) if rank else ()
    if not rank or len(data) != 4 + 4 * rank + math.prod(sizes):
        raise ValueError(f"{path} is not an idx file of bytes, or is cut short")
    return np.frombuffer(data, np.uint8, offset=4 + 4 * rank).reshape(sizes)


def _cifar(root: Path) -> tuple[_Part, _Part]:
    folder, subset = root / "cifar-10-batches-py", root / "cifar10_subset.npz"
    if folder.is_dir():
        train = [_cifar_batch(folder / f"data_batch_{i}") for i in range(1, 6)]
        inputs, labels = (np.concatenate(arrays) for arrays in zip(*train, strict=True))
        return (inputs, labels), _cifar_batch(folder / "test_batch")
    if not subset.is_file():
        raise FileNotFoundError(f"{folder} is missing. {_HOW_TO_GET['CIFAR-10']}")
    with np.load(subset, allow_pickle=False) as arrays:
        found = [(arrays[f"{part}_images"], arrays[f"{part}_labels"]) for part in ("train", "test")]
    for images, labels in found:
        if images.shape[1:] != (32, 32, 3) or len(images) != len(labels):
            raise ValueError(
                f"{subset} must hold as many 32x32x3 images as labels; got {images.shape} and "
                f"{np.shape(labels)}"
            )
    return _part(*found[0], 255), _part(*found[1], 255)


def _cifar_batch(path: Path) -> _Part:
    """One pickled batch: rows of 1,024 red, 1,024 green and 1,024 blue bytes."""
    if not path.is_file():
        raise FileNotFoundError(f"{path} is missing. {_HOW_TO_GET['CIFAR-10']}")
    with path.open("rb") as file:
        batch = _ArraysOnly(file, encoding="bytes").load()
    rows = np.asarray(batch[b"data"]).reshape(-1, 3, 32, 32)
    return _part(rows.transpose(0, 2, 3, 1), batch[b"labels"], 255)


class _ArraysOnly(pickle.Unpickler):
    """Reads pickled dictionaries of arrays and nothing that could run code."""

    def find_class(self, module: str, name: str) -> Any:
        root = module.partition(".")[0]
        harmless = {"_reconstruct", "ndarray", "dtype", "scalar", "_frombuffer"}
        if (root == "numpy" and name in harmless) or (module, name) == ("_codecs", "encode"):
            return super().find_class(module, name)
        raise ValueError(f"a CIFAR-10 batch must hold arrays only; found {module}.{name}")


def _patch_parts(side: int) -> tuple[_Part, _Part]:
    """Patches of the bundled photographs at 12 sides a side, without the nearly even ones."""
    patches, labels = [], []
    for label, name in enumerate(PHOTOGRAPHS):
        square = _resize(_bundled_square(name), 12 * side)
        grid = square.reshape(12, side, 12, side, 3).swapaxes(1, 2).reshape(144, -1)
        kept = grid[grid.std(axis=1) > 0.02]  # black corners and plain sky are all alike
        patches.append(kept)
        labels += [label] * len(kept)
    flat, classes = _part(np.concatenate(patches), labels, 1)
    # classes are interleaved in a fixed order, so that a first part holds all of them
    order = np.random.default_rng(20231).permutation(len(classes))
    tested = np.arange(len(order)) % 6 == 5
    train, test = order[~tested], order[tested]
    return (flat[train], classes[train]), (flat[test], classes[test])


@functools.cache
def _bundled_square(name: str) -> np.ndarray:
    from skimage import data

    picture = getattr(data, name)()
    if isinstance(picture, tuple):  # the left of a stereo pair
        picture = picture[0]
    return _central_square(picture)


def _central_square(picture: np.ndarray) -> np.ndarray:
    side = min(picture.shape[:2])
    top, left = (picture.shape[0] - side) // 2, (picture.shape[1] - side) // 2
    return picture[top : top + side, left : left + side, :3]


def _quarters(square: np.ndarray) -> list[np.ndarray]:
    half = square.shape[0] // 2
    return [square[i : i + half, j : j + half] for i in (0, half) for j in (0, half)]


def _resize(square: np.ndarray, size: int) -> np.ndarray:
    from PIL import Image

    resized = Image.fromarray(square).resize((size, size), Image.Resampling.LANCZOS)
    return np.asarray(resized, dtype=float) / 255.0

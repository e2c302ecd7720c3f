"""The reader's own images: a folder, an ``.npz`` file, a single image or a data root."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from reconrisk import arguments
from reconrisk.datasets import _formats
from reconrisk.datasets._decode import (
    EXTENSIONS,
    central_square,
    image_files,
    resized_bytes,
    upright_picture,
)
from reconrisk.datasets._known import CIFAR_ARCHIVE, CIFAR_FOLDER, CIFAR_SUBSET
from reconrisk.datasets._labelled import LabelledImages
from reconrisk.datasets._official import official
from reconrisk.datasets._read import LARGEST, readable

#: Halves of the reader's images, for exhibits on two grey data sets.
HALVES = ("own grey 1 of 2", "own grey 2 of 2")
#: The reader's images in place of the 8x8 digits.
SMALL = "own grey 16x16"
#: The reader's images as a data set: in grey like MNIST, or in colour like the patches.
OWN = ("own grey", SMALL, *HALVES, "own colour")
#: Number of classes of the papers' networks.
MOST_OUTPUTS = 10
_GREY_SIDE = 28
SPLITS = ("train", "test", "all")
#: every sixth image of a class is a test image unless the data define a split.
_TEST_EVERY = 6
#: largest label plus one; a larger label is a mistake rather than a class.
_MOST_CLASSES = 100_000
_TEST_FOLDERS = ("test", "val", "valid", "validation")
_OFFICIAL = {
    "MNIST": ("MNIST/raw",),
    "FashionMNIST": ("FashionMNIST/raw",),
    "CIFAR-10": (CIFAR_FOLDER, CIFAR_ARCHIVE, CIFAR_SUBSET),
}
#: bytes of all images together, as float32
_MOST_BYTES = 4 * LARGEST
_LAYOUTS = (
    "an image (JPEG, PNG, WebP, BMP), a folder of images with or without a folder for each class, "
    "an .npz file with the arrays images and labels (or train_images, train_labels, test_images, "
    "test_labels), or a folder with one of MNIST, Fashion-MNIST and CIFAR-10 in torchvision's "
    "layout"
)


def own_images(
    path: Path | str,
    *,
    side: int | None = None,
    colour: bool | None = None,
    split: str = "all",
    most: int | None = None,
) -> LabelledImages:
    """Return labelled images from a file or folder.

    ============================  =================================================================
    ``path``                      images and classes
    ============================  =================================================================
    an image file                 that image; JPEG, PNG, WebP or BMP
    a folder of images            all below it, in the order of their paths; class 0
    a folder of folders           each folder directly in it is a class, in alphabetical order; the
                                  first image of every class, then the second of every class, ...
    folders ``train``, ``test``   two parts, each as above (``val`` or ``validation`` will do for
                                  ``test``); classes are numbered over both
    an ``.npz`` file              arrays ``images`` (count, height, width) or (count, height, width,
                                  3 or 1) of bytes or of floats in [0, 1], and ``labels`` (count,)
                                  of whole numbers, without which all are of class 0; or
                                  ``train_images``, ``train_labels``, ``test_images``,
                                  ``test_labels``
    a data root                   the one of MNIST, FashionMNIST and CIFAR-10 that it holds, as
                                  :func:`classified` reads it; the set's own folder will do
                                  (``root/MNIST``, ``root/cifar-10-batches-py``)
    ============================  =================================================================

    Parameters
    ----------
    path : Path or str
        File or folder. Folders are listed; only the images returned are opened.
    side : int, optional
        Pixels a side, >= 2: the central square of each image is resampled (Lanczos). Required if
        sizes differ; by default images keep their size.
    colour : bool, optional
        True: (height, width, 3), grey images with three equal colours. False: grey, the mean of the
        colours. By default grey if all images are stored in grey.
    split : {"all", "train", "test"}
        Part of the data. Unless the data define a split, every sixth image of each class is a test
        image.
    most : int, optional
        Return at most this many images, >= 1.

    Returns
    -------
    LabelledImages
        Its ``source`` describes what was found and how it was processed.

    Raises
    ------
    FileNotFoundError, OSError
        If the path, or an image in it, is missing or cannot be read.
    ValueError
        If something is damaged, not an image, of mixed sizes without ``side``, or too large.

    Notes
    -----
    Whether damage is detected depends on the format. PNG and ``.npz`` have checksums of their
    content, and a truncated file is always refused. A JPEG, WebP or BMP with changed bytes may
    decode to other pixels, because the formats have no checksum. Transparency is dropped, and
    images are rotated to their EXIF orientation.
    """
    if side is not None:
        arguments.integer("side", side, 2, 4096)
    if most is not None:
        arguments.integer("most", most, 1)
    arguments.one_of("split", split, SPLITS)
    source = _source(Path(path), split)
    if not len(source.items):
        raise ValueError(
            f"{path} has no {split} part: it holds {source.what}. A part for testing needs "
            f"folders train and test, arrays test_images and test_labels, or {_TEST_EVERY} images "
            "of a class"
        )
    items = source.items[: None if most is None else int(most)]
    images, stored_sizes = _read_all(items, source.read, Path(path), side)
    wants_colour = any(i.ndim == 3 for i in images) if colour is None else bool(colour)
    return LabelledImages(
        _stack(images, wants_colour),
        np.asarray(source.labels[: len(items)], dtype=np.int64),
        images[0].shape[:2] + ((3,) if wants_colour else ()),
        source.name,
        _describe_source(source, split, most, stored_sizes, side, wants_colour),
        tuple(str(item) for item in items if isinstance(item, Path)),
    )


def own_listing(path: Path | str, split: str = "all") -> tuple[np.ndarray, str]:
    """Return labels and a description of :func:`own_images`, without opening images of a folder.

    Parameters
    ----------
    path, split
        As in :func:`own_images`.

    Returns
    -------
    labels : ndarray of int, shape (N,)
    description : str
    """
    source = _source(Path(path), split)
    return np.asarray(source.labels, dtype=np.int64), source.what


def own_data_set(name: str, path: Path, split: str, *, side: int) -> LabelledImages:
    """Return own images as :func:`classified` names them; ``name`` is one of ``OWN``."""
    grey = name.startswith("own grey")
    fitted = 16 if name == SMALL else _GREY_SIDE if grey else side
    images = own_images(path, side=fitted, colour=not grey, split=split)
    images = dataclasses.replace(images, labels=images.labels % MOST_OUTPUTS)
    if name not in HALVES:
        return images
    half = images.take(np.flatnonzero(_index_in_class(images.labels) % 2 == HALVES.index(name)))
    return dataclasses.replace(half, name=f"{half.name}, {name.removeprefix('own grey ')}")


@dataclass(frozen=True)
class _Source:
    """The content of a path, listed but not read.

    ``items`` and ``labels`` are those of the requested part; ``read`` returns an item's image as
    bytes or as floats in [0, 1], (height, width) or (height, width, 3).
    """

    items: Sequence[Any] | np.ndarray
    labels: np.ndarray
    read: Callable[[Any], np.ndarray]
    name: str
    what: str


# Reading ------------------------------------------------------------------------------------------


def _read_all(
    items: Sequence[Any] | np.ndarray,
    read: Callable[[Any], np.ndarray],
    path: Path,
    side: int | None,
) -> tuple[list[np.ndarray], list[tuple[int, ...]]]:
    """Return the images, resampled to ``side``, and their stored sizes."""
    images: list[np.ndarray] = []
    sizes: dict[tuple[int, ...], Any] = {}
    for item in items:
        image = read(item)
        sizes.setdefault(image.shape[:2], item)
        if side is None and len(sizes) > 1:
            (one, first), (other, second) = sizes.items()
            raise ValueError(
                f"{path} holds images of several sizes, {_size(one)} ({_file(first)}) and "
                f"{_size(other)} ({_file(second)}); give side: each is then cut to its central "
                "square and resampled"
            )
        image = image if side is None else _fit(image, int(side))
        images.append(image)
        needed = 12 * image.shape[0] * image.shape[1] * len(items)
        if needed > _MOST_BYTES:
            raise ValueError(
                f"{len(items)} images of {_size(image.shape)} from {path} need "
                f"{needed / 2**30:.0f} GiB, more than {_MOST_BYTES / 2**30:.0f}; give a smaller "
                "side, or most"
            )
    return images, sorted(sizes)


def _fit(image: np.ndarray, side: int) -> np.ndarray:
    square = central_square(image)
    if square.shape[:2] == (side, side):
        return square
    if square.dtype == np.uint8:
        return resized_bytes(square, side)
    planes = np.atleast_3d(square).astype(np.float32)
    fitted = [
        resized_bytes(np.ascontiguousarray(plane), side) for plane in np.moveaxis(planes, 2, 0)
    ]
    # Lanczos overshoots at edges; for bytes Pillow clips
    clipped = np.clip(np.stack(fitted, axis=2), 0, 1)
    return clipped[..., 0] if square.ndim == 2 else clipped


def _stack(images: Sequence[np.ndarray], colour: bool) -> np.ndarray:
    rows = np.empty((len(images), *images[0].shape[:2], 3 if colour else 1), dtype=np.float32)
    for row, image in zip(rows, images, strict=True):
        values = image.astype(np.float32)
        if image.dtype == np.uint8:
            values /= np.float32(255)
        if values.ndim == 2:
            row[...] = values[..., None]
        else:
            row[...] = values if colour else values.mean(axis=2, keepdims=True)
    return rows.reshape(len(images), -1)


def _describe_source(
    source: _Source,
    split: str,
    most: int | None,
    sizes: Sequence[tuple[int, ...]],
    side: int | None,
    colour: bool,
) -> str:
    """Describe in words what was read and how it was processed."""
    words = [source.what]
    if split != "all":
        words.append(f"its part for {split}ing")
    words.append("1 image" if len(source.items) == 1 else f"{len(source.items):,} images")
    if most is not None and most < len(source.items):
        words.append(f"the first {most} of them")
    words.append(" to ".join(dict.fromkeys((_size(sizes[0]), _size(sizes[-1])))) + " pixels")
    if side is not None and set(sizes) != {(side, side)}:
        words.append(f"cut to the central square and resampled to {side}x{side}")
    words.append("in colour" if colour else "in grey")
    return ", ".join(words)


def _size(shape: Sequence[int]) -> str:
    """Format a shape (height, width, ...) as width x height."""
    return f"{shape[1]}x{shape[0]}"


def _file(item: Any) -> str:
    return item.name if isinstance(item, Path) else "an array"


# Content of a path --------------------------------------------------------------------------------


def _source(path: Path, split: str) -> _Source:
    official = _official(path)
    if official is not None:
        return _official_set(*official, split)
    if path.is_dir():
        return _folder(path, split)
    readable(path, _LAYOUTS)
    suffix = path.suffix.lower()
    if suffix == ".npz":
        return _npz(path, split)
    if suffix in EXTENSIONS:
        return _pictures(path, [path], np.zeros(1, int), f"the file {path.name}", split)
    raise ValueError(f"{path} ends in {suffix or 'nothing'}; expected {_LAYOUTS}")


def _official(path: Path) -> tuple[str, Path] | None:
    """Return the official data set that a path contains or is, and its data root."""
    path = path.absolute()
    if path.name in (CIFAR_FOLDER, CIFAR_ARCHIVE) and path.exists():
        return "CIFAR-10", path.parent
    for folder in (path, path.parent):
        if folder.name in ("MNIST", "FashionMNIST") and path in (folder, folder / "raw"):
            if (folder / "raw").is_dir():
                return folder.name, folder.parent
    held = [name for name, files in _OFFICIAL.items() if any((path / f).exists() for f in files)]
    if len(held) > 1:
        places = " or ".join(
            str(path / next(f for f in _OFFICIAL[n] if (path / f).exists())) for n in held
        )
        raise ValueError(f"{path} holds {', '.join(held)}; give one of them: {places}")
    return (held[0], path) if held else None


def _official_set(name: str, root: Path, split: str) -> _Source:
    images = official(name, root, ("train", "test") if split == "all" else (split,))
    rows = images.inputs.reshape(len(images), *images.shape)
    what = f"{images.name} ({images.classes} classes)"
    return _Source(rows, images.labels, np.asarray, images.name, what)


def _npz(path: Path, split: str) -> _Source:
    held = _formats.npz_shapes(path)
    if "images" in held:
        images, labels = _npz_part(path, held, "")
        chosen = _part_of(labels, split)
        images, labels = images[chosen], labels[chosen]
    elif {"train_images", "test_images"} & held.keys():
        names = [n for n in ("train", "test") if split in (n, "all") and f"{n}_images" in held]
        if not names:
            raise ValueError(f"{path} holds {', '.join(held)}; expected {split}_images too")
        parts = [_npz_part(path, held, f"{name}_") for name in names]
        if len({p[0].shape[1:] + (p[0].dtype,) for p in parts}) > 1:
            raise ValueError(f"{path} must hold train and test images of one size and type")
        images, labels = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    else:
        raise ValueError(f"{path} holds {', '.join(held) or 'no arrays'}; expected {_LAYOUTS}")
    classes = len(np.unique(labels))
    what = f"the file {path.name} ({'one class' if classes == 1 else f'{classes} classes'})"
    return _Source(images, labels, np.asarray, _own_name(path), what)


def _npz_part(
    path: Path, held: Mapping[str, tuple[int, ...]], prefix: str
) -> tuple[np.ndarray, np.ndarray]:
    name = f"{prefix}images"
    shape = held[name]
    fits = len(shape) == 3 or (len(shape) == 4 and shape[3] in (1, 3))
    if not fits or shape[0] < 1 or min(shape[1:3]) < 2:
        raise ValueError(
            f"{path}: {name} has the shape {shape}; expected (count, height, width), or the same "
            "with 3 colours or 1 last, of at least one image of 2x2"
        )
    images = _formats.npz_array(path, name)
    if images.dtype != np.uint8 and images.dtype.kind != "f":
        raise ValueError(f"{path}: {name} holds {images.dtype}; expected bytes or floats in [0, 1]")
    if images.dtype != np.uint8 and not (0 <= images.min() and images.max() <= 1):
        raise ValueError(
            f"{path}: {name} holds values from {images.min():g} to {images.max():g}; expected "
            "bytes (uint8) or floats in [0, 1]"
        )
    images = images[..., 0] if images.ndim == 4 and images.shape[3] == 1 else images
    if f"{prefix}labels" not in held:
        return images, np.zeros(len(images), int)
    labels = _formats.npz_array(path, f"{prefix}labels")
    if labels.shape != (len(images),) or labels.dtype.kind not in "iu":
        raise ValueError(
            f"{path}: {prefix}labels is {labels.dtype} of shape {labels.shape}; expected one whole "
            f"number for each of {len(images)} images"
        )
    if labels.min() < 0 or labels.max() >= _MOST_CLASSES:
        raise ValueError(
            f"{path}: {prefix}labels holds {labels.min()} to {labels.max()}; expected classes "
            f"counted from 0, below {_MOST_CLASSES:,}"
        )
    return images, labels


def _folder(path: Path, split: str) -> _Source:
    holding = _list_images(path)
    parts = {name.lower() for name in holding}
    if not holding:
        raise FileNotFoundError(f"no image in {path}; expected {_LAYOUTS}")
    if "" in holding and len(holding) > 1:
        raise ValueError(
            f"{path} holds images both by themselves ({holding[''][0].name}) and in folders "
            f"({next(name for name in holding if name)}); keep one kind, folders being classes"
        )
    if parts <= {"train", *_TEST_FOLDERS}:
        return _parted_folder(path, holding, split)
    classes = sorted(holding)
    files, labels = _interleave([holding[name] for name in classes])
    return _pictures(path, files, labels, _folder_text(path, classes), split)


def _parted_folder(path: Path, holding: Mapping[str, list[Path]], split: str) -> _Source:
    """List a folder with subfolders ``train`` and ``test``."""
    folders = {name.lower(): path / name for name in holding}
    tested = next((folders[name] for name in _TEST_FOLDERS if name in folders), None)
    asked = {"train": folders.get("train"), "test": tested}
    listed = {part: _list_images(folder) for part, folder in asked.items() if folder is not None}
    if any("" in one and len(one) > 1 for one in listed.values()):
        raise ValueError(f"{path} holds images both by themselves and in folders; keep one kind")
    classes = sorted({name for one in listed.values() for name in one})
    files: list[Path] = []
    labels: list[np.ndarray] = [np.zeros(0, int)]
    for part, one in listed.items():
        if split in (part, "all"):
            some, theirs = _interleave([one.get(name, []) for name in classes])
            files += some
            labels.append(theirs)
    what = _folder_text(path, classes)
    return _Source(files, np.concatenate(labels), upright_picture, _own_name(path), what)


def _list_images(path: Path) -> dict[str, list[Path]]:
    """Return the image files below a folder by its subfolder, ``""`` for files directly in it."""
    listed: dict[str, list[Path]] = {}
    for file in sorted(image_files(path)):
        below = file.relative_to(path).parts
        listed.setdefault(below[0] if len(below) > 1 else "", []).append(file)
    return listed


def _interleave(classes: Sequence[Sequence[Path]]) -> tuple[list[Path], np.ndarray]:
    """Return the first file of every class, then the second of every class, and so on; labels."""
    ordered = sorted((i, c) for c, files in enumerate(classes) for i in range(len(files)))
    return [classes[c][i] for i, c in ordered], np.array([c for _, c in ordered], dtype=int)


def _pictures(
    path: Path, files: Sequence[Path], labels: np.ndarray, what: str, split: str
) -> _Source:
    chosen = _part_of(labels, split)
    kept = [files[i] for i in chosen]
    return _Source(kept, labels[chosen], upright_picture, _own_name(path), what)


def _own_name(path: Path) -> str:
    path = path.absolute()
    return f"own images ({path.stem if path.is_file() else path.name})"


def _folder_text(path: Path, classes: Sequence[str]) -> str:
    shown = ", ".join(classes[:4]) + (", ..." if len(classes) > 4 else "")
    held = "one class" if len(classes) == 1 else f"{len(classes)} classes: {shown}"
    return f"the folder {path.absolute().name} ({held})"


def _part_of(labels: np.ndarray, split: str) -> np.ndarray:
    """Return the positions of a part; every sixth image of a class is a test image."""
    if split == "all":
        return np.arange(len(labels))
    # classes are merged modulo ten, as for the papers' networks
    tested = _index_in_class(labels % MOST_OUTPUTS) % _TEST_EVERY == _TEST_EVERY - 1
    return np.flatnonzero(tested if split == "test" else ~tested)


def _index_in_class(labels: np.ndarray) -> np.ndarray:
    """Return the index of each image within its class, from 0."""
    order = np.argsort(labels, kind="stable")
    _, first = np.unique(labels[order], return_index=True)
    starts = np.repeat(first, np.diff([*first, len(labels)]))
    places = np.empty(len(labels), dtype=int)
    places[order] = np.arange(len(labels)) - starts
    return places

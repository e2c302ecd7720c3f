"""The data of the experiments: bundled photographs and digits, or a folder of the paper's own.

Pictures are float arrays (count, height, width, 3) in [0, 1].
"""

from __future__ import annotations

import functools
import itertools
import re
from pathlib import Path

import numpy as np

from reconrisk import _check

__all__ = ["PHOTOGRAPHS", "digits", "folder_photographs", "is_imagenet", "pictures"]

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

_EXTENSIONS = {".jpg", ".jpeg", ".png", ".webp", ".bmp"}


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

    files = sorted(p for p in Path(root).rglob("*") if p.suffix.lower() in _EXTENSIONS)
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

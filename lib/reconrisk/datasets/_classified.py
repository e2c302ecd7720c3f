"""The labelled data sets by name: bundled, the papers' own, or the reader's images."""

from __future__ import annotations

from pathlib import Path

from reconrisk import arguments
from reconrisk.datasets._bundled import digits_parts, patch_parts
from reconrisk.datasets._known import DATA_SETS
from reconrisk.datasets._labelled import LabelledImages
from reconrisk.datasets._official import join_parts, official
from reconrisk.datasets._own import OWN, own_data_set
from reconrisk.datasets._samples import SAMPLES, sample

#: Names of the labelled data sets that come with packages; the others need files.
BUNDLED = ("digits", "patches", *SAMPLES)
#: Names of the labelled data sets.
CLASSIFIED = (*BUNDLED, "MNIST", "FashionMNIST", "CIFAR-10")


def classified(
    name: str, data_root: Path | None = None, split: str = "train", *, side: int = 32
) -> LabelledImages:
    """Return a labelled data set.

    Files of MNIST, Fashion-MNIST and CIFAR-10 must be the official ones: their checksums are
    verified before they are parsed. Only the files of the requested part are opened.

    Parameters
    ----------
    name : {"MNIST", "FashionMNIST", "CIFAR-10", "MNIST-5000", "FashionMNIST-20", "CIFAR-10-20", \
            "digits", "patches", "own grey", "own colour", ...}
        ``"MNIST-5000"``, ``"FashionMNIST-20"``, ``"CIFAR-10-20"``: the parts of the official files
        that come with packages, see :data:`SAMPLES`; of MNIST's, one of each digit in turn, the
        first 4,000 are for training and the last 1,000 for testing. They need no files.
        ``"digits"``: scikit-learn's 8x8 handwritten digits (1,500 train, 297 test; in ten
        classes). ``"patches"``: square colour patches of the bundled photographs, the class being
        the photograph (eight classes; every sixth patch is a test image). Both need no files.
        ``"MNIST"``, ``"FashionMNIST"``: the four idx files below ``data_root/MNIST/raw`` or
        ``data_root/FashionMNIST/raw``, packed (``.gz``) or not.
        ``"CIFAR-10"``: the pickled batches below ``data_root/cifar-10-batches-py``, or else packed
        in ``data_root/cifar-10-python.tar.gz`` (unpacked in memory, a second or two each time), or
        else a file ``data_root/cifar10_subset.npz`` with the arrays ``train_images`` (count, 32,
        32, 3) of bytes, ``train_labels`` (count,), ``test_images`` and ``test_labels``. The subset
        is not an official file: only its integrity is verified.
        ``"own grey"``, ``"own colour"``: the reader's own images, with ``data_root`` any path that
        :func:`own_images` accepts, in grey at 28x28 or in colour at ``side``; ``"own grey 16x16"``;
        ``"own grey 1 of 2"`` and ``"own grey 2 of 2"``: every other image of each class. Labels are
        taken modulo ten, because the papers' networks have ten classes.
    data_root : Path, optional
        Folder of the files; nothing is written or downloaded there.
    split : {"train", "test", "all"}
        Part of the data; ``"all"`` is the training part followed by the test part.
    side : int
        Pixels a side of ``"patches"`` and ``"own colour"``, 4 to 128; ignored for the others.

    Returns
    -------
    LabelledImages

    Raises
    ------
    FileNotFoundError
        If files are missing; the message names them and says how to get them.
    ValueError
        If the name is unknown or a file is damaged or not the official one.
    OSError
        If a file cannot be read.
    """
    arguments.one_of("name", name, CLASSIFIED + OWN)
    arguments.one_of("split", split, ("train", "test", "all"))
    wanted = ("train", "test") if split == "all" else (split,)
    if name in ("patches", "own colour"):
        arguments.integer("side", side, 4, 128)
    if name == "digits":
        return join_parts([digits_parts()[which] for which in wanted], (8, 8), "handwritten digits")
    if name in SAMPLES:
        return sample(name, split)
    if name == "patches":
        parts, shape = patch_parts(int(side)), (int(side), int(side), 3)
        title = f"photograph patches {side}x{side}"
        return join_parts([parts[which] for which in wanted], shape, title)
    if data_root is None:
        advice = DATA_SETS[name].advice() if name in DATA_SETS else "It is a path to your images."
        raise FileNotFoundError(f"{name} is read from files: give data_root. {advice}")
    if name in OWN:
        return own_data_set(name, Path(data_root), split, side=side)
    return official(name, Path(data_root), wanted)

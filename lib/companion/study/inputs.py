"""The data sets that a run reads, and checksums of their files."""

from __future__ import annotations

from pathlib import Path

from companion.study.exhibits import Exhibit
from companion.study.session import Context
from reconrisk import datasets
from reconrisk.datasets import files

#: SHA-256 of the data of recorded runs, named as by :func:`checksums`: the official idx files,
#: unpacked; a subset of CIFAR-10 (400 training images a class, the first 1,000 test images); a
#: hundred photographs, one of each of a hundred ImageNet classes, 224x224; and the parts of data
#: sets that come with packages.
KNOWN_CHECKSUMS = {
    f"{name}/{file}": official.sha256
    for name in ("MNIST", "FashionMNIST")
    for file, official in datasets.DATA_SETS[name].unpacked.items()
} | {
    "CIFAR-10/cifar10_subset.npz": (
        "8da76769db21804e30d334a3b8ecae39c077a9f91ad4c4fa64bc2e8986a89573"
    ),
    "photographs (100 files)": ("e7a0e328e86dbef4f4af5b419174237cda7523a8f6b75281980d1b216ca642e0"),
    **{f"{s.phrase}: {s.identity}": s.sha256 for s in datasets.SAMPLES.values()},
}


def data_sets(exhibit: Exhibit, context: Context) -> tuple[str, ...]:
    """Return the names of the data sets that a run reads from files, sorted.

    The run's parameters name the labelled ones; ``"photographs"`` stands for the images of an
    ImageNet-style folder, ``"own images"`` for a user's in place of either.
    """
    if context.own_images:
        return ("own images",)
    named = {v for v in context.parameters.values() if isinstance(v, str)}
    labelled = named & set(files.LABELLED)
    reads_folder = exhibit.photographs and context.profile == "paper"
    return tuple(sorted(labelled | ({"photographs"} if reads_folder else set())))


# Checksums ----------------------------------------------------------------------------------------


def checksums(exhibit: Exhibit, context: Context) -> dict[str, str]:
    """Return the SHA-256 of all images that a run reads, but for the stand-ins.

    Returns
    -------
    dict
        ``{"MNIST/train-images-idx3-ubyte": sha256, ...}``: idx files and CIFAR-10's batches
        unpacked, so that packed and unpacked folders agree; ``"photographs (100 files)"``: one hash
        of all names and contents, or of names and sizes with more than 20,000 files; parts of data
        sets that come with packages, with the images' identity. Empty for a run that reads nothing.
    """
    if context.own_images:
        return files.checksums("own images", Path(context.data_root or ""))
    named = {v for v in context.parameters.values() if isinstance(v, str)}
    used = [datasets.SAMPLES[name] for name in sorted(named & set(datasets.SAMPLES))]
    if exhibit.photographs and context.read_root is None:
        used.append(datasets.IMAGENET_SAMPLE)
    found = {f"{s.phrase}: {s.identity}": s.sha256 for s in used}
    if context.data_root is None:
        return found
    for name in data_sets(exhibit, context):
        found |= files.checksums(name, Path(context.data_root))
    return found


def verify(exhibit: Exhibit, context: Context) -> None:
    """Raise if a data set that a run reads is damaged or missing.

    A data set with only some of its files passes: a run may need no others, and one that does names
    them.

    Raises
    ------
    ValueError
        If a file of a data set that the run reads is damaged.
    FileNotFoundError
        If none of its files exists.
    """
    root = context.data_root
    if root is None:
        return
    for name in [n for n in data_sets(exhibit, context) if n in files.LABELLED]:
        findings = files.check_set(name, Path(root))
        damaged = [f.detail for f in findings if f.state == "damaged"]
        advice = datasets.DATA_SETS[name].advice(root)
        if damaged:
            raise ValueError(f"{root}: {damaged[0]} {advice}")
        if not any(f.state == "found" for f in findings):
            raise FileNotFoundError(f"{root} holds nothing of {name}, which is read. {advice}")

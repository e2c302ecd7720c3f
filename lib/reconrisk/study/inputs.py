"""Which data sets a run reads, and checksums of their files, for its provenance."""

from __future__ import annotations

import gzip
import hashlib
from pathlib import Path
from typing import TYPE_CHECKING

from reconrisk.study import datasets

if TYPE_CHECKING:
    from reconrisk.study.computations import Computation, Context

__all__ = ["checksums", "data_sets"]

_BUNDLED = ("digits", "patches")


def data_sets(known: Computation, context: Context) -> tuple[str, ...]:
    """Return the names of the data sets that a run reads from files, sorted.

    Labelled ones are named by the run's parameters; ``"photographs"`` stands for the pictures of
    an ImageNet-style folder.
    """
    named = {v for v in context.settings.values() if isinstance(v, str)}
    labelled = named & set(datasets.CLASSIFIED) - set(_BUNDLED)
    reads_folder = known.photographs and context.profile == "paper"
    return tuple(sorted(labelled | ({"photographs"} if reads_folder else set())))


def checksums(known: Computation, context: Context) -> dict[str, str]:
    """Return the sha256 of everything a run reads from ``data_root``.

    Returns
    -------
    dict
        ``{"MNIST/train-images-idx3-ubyte": sha256, ...}``: idx files unpacked, so that packed and
        unpacked folders agree; ``"photographs (100 files)"``: one hash of all names and contents.
        Empty for a run that reads nothing.
    """
    if context.data_root is None:
        return {}
    found: dict[str, str] = {}
    for name in data_sets(known, context):
        found |= _of_set(name, Path(context.data_root))
    return found


def _of_set(name: str, root: Path) -> dict[str, str]:
    if name == "photographs":
        files = sorted(p for p in root.rglob("*") if p.suffix.lower() in datasets.EXTENSIONS)
        listing = "".join(f"{p.relative_to(root).as_posix()} {_sha256(p)}\n" for p in files)
        total = hashlib.sha256(listing.encode()).hexdigest()
        return {f"photographs ({len(files)} files)": total}
    if name == "CIFAR-10":
        folder, subset = root / "cifar-10-batches-py", root / "cifar10_subset.npz"
        files = sorted(folder.glob("*_batch*")) if folder.is_dir() else [subset]
    else:
        files = sorted((root / name / "raw").glob("*ubyte*"))
    return {f"{name}/{p.name.removesuffix('.gz')}": _sha256(p) for p in files if p.is_file()}


def _sha256(path: Path) -> str:
    data = path.read_bytes()
    return hashlib.sha256(gzip.decompress(data) if path.suffix == ".gz" else data).hexdigest()

"""Tensors, data and statistics for the exhibits of several papers.

PyTorch is imported where it computes, so that closed forms run without it.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from companion.study.session import Context
from companion.study.tasks import UNFINISHED, task_key
from reconrisk import DPSGD, arguments, datasets

if TYPE_CHECKING:
    import torch

    from reconrisk.attacks import KeptSearch, Observation
    from reconrisk.metrics import PerceptualMetric

#: a fit is refused below this p-value; seeds are fixed, so a pass stays a pass
SIGNIFICANCE = 1e-3


def tensor(context: Context, values: np.ndarray, dtype: torch.dtype | None = None) -> torch.Tensor:
    """Records as a (count, N) tensor on the context's device; of float64 without a ``dtype``."""
    import torch

    flat = np.array(values, dtype=float).reshape(len(values), -1)
    return torch.as_tensor(flat, dtype=dtype or torch.float64, device=context.device)


def keep_searches(context: Context) -> dict[str, str]:
    """The entry by which tasks know where to keep their searches; empty without checkpoints."""
    return {UNFINISHED: str(context.checkpoints / UNFINISHED)} if context.checkpoints else {}


def kept_search(task: Mapping[str, Any]) -> KeptSearch | None:
    """Where a task's search is kept, in a file named by its parameters; None without a folder."""
    if not task.get(UNFINISHED):
        return None
    from reconrisk.attacks import KeptSearch

    return KeptSearch(Path(task[UNFINISHED]) / f"{task_key(kept_search, task, 0)}.pt")


def as_numpy(values: torch.Tensor) -> np.ndarray:
    """A tensor as a float64 array."""
    return values.detach().cpu().numpy().astype(float)


def attack_repeatedly(
    context: Context,
    record: np.ndarray,
    noise_multiplier: float,
    max_grad_norm: float,
    repeats: int,
    *,
    rows: int = 1,
    key: Sequence[object] = (),
) -> np.ndarray:
    """Rebuild one record from ``repeats`` independent DP-SGD steps, shape (repeats, N).

    Memory stays below about 100 MB for any number of rows.
    """
    from reconrisk.attacks import known_scale

    run = DPSGD(noise_multiplier, max_grad_norm=max_grad_norm)
    # no computed number in the key: the last bit of a norm would change every draw
    generator = context.generator("attack", *key, rows, record.size, repeats)
    parts = reconstructions(context, record, run, repeats, generator, known_scale, rows=rows)
    return np.concatenate(list(parts))


def reconstructions(
    context: Context,
    record: np.ndarray,
    run: DPSGD,
    count: int,
    generator: torch.Generator,
    reconstruct: Callable[[Observation], torch.Tensor],
    *,
    rows: int = 1,
) -> Iterator[np.ndarray]:
    """Rebuild one record from ``count`` independent DP-SGD steps, in chunks (chunk, N) of 32 MB."""
    from reconrisk.attacks import observe

    chunk = max(1, min(count, 4_000_000 // (rows * record.size)))
    for start in range(0, count, chunk):
        size = min(chunk, count - start)
        inputs = tensor(context, np.broadcast_to(record.ravel(), (size, record.size)))
        yield as_numpy(reconstruct(observe(inputs, run, generator, rows=rows)))


def mean_and_error(values: np.ndarray) -> tuple[float, float]:
    """Mean of independent values and its standard error."""
    return float(np.mean(values)), float(np.std(values, ddof=1) / np.sqrt(np.size(values)))


def ks_p_value(values: np.ndarray, cdf) -> float:
    """The p-value of a Kolmogorov-Smirnov test of values against a distribution function."""
    from scipy import stats  # takes most of a second to import

    return float(stats.kstest(np.ravel(values), cdf).pvalue)


def distance_to_law(values: np.ndarray, cdf) -> tuple[float, float]:
    """Kolmogorov's distance of values from a law, and its error.

    The error is the largest standard error of a point of the empirical distribution function,
    ``1/(2 sqrt(n))``: four of them exceed the distance of true draws in 999 cases of 1,000.
    """
    at = np.asarray(cdf(np.sort(np.ravel(values))))
    steps = np.arange(at.size + 1) / at.size
    distance = max((steps[1:] - at).max(), (at - steps[:-1]).max())
    return float(distance), 0.5 / float(np.sqrt(at.size))


#: what :func:`mnist` reads, for the tables' ``subsets``
MNIST = datasets.SAMPLES["MNIST-5000"].phrase


def mnist(count: int | None = None) -> np.ndarray:
    """The first of the 5,000 MNIST images that need no files, as rows of 784 values in [0, 1]."""
    return datasets.classified("MNIST-5000", split="all").inputs[:count].astype(float)


def photographs(context: Context, size: int, count: int) -> np.ndarray:
    """The context's photographs: ImageNet's that need no files in quick, the folder's in paper.

    Raises
    ------
    FileNotFoundError
        In the paper profile without ``data_root``.
    """
    if context.profile == "paper" and context.data_root is None:
        raise FileNotFoundError(
            f"{context.exhibit} in the paper profile needs the paper's photographs: give "
            "data_root, a folder in the layout root/class/*.jpg (ImageNet or a sample of it)"
        )
    return datasets.pictures(size, count, context.read_root)


def data_folder(context: Context, name: str) -> str:
    """The folder that a data set is read from, empty for a bundled one.

    Raises
    ------
    ValueError
        If there is no data set of that name.
    FileNotFoundError
        If the data set is not bundled and the context has no ``data_root``.
    """
    if name in datasets.BUNDLED:
        return ""
    arguments.one_of("data set", name, datasets.CLASSIFIED + datasets.OWN)
    if context.data_root is None:
        raise FileNotFoundError(
            f"{context.exhibit} reads {name} in this profile: give data_root, the folder in which "
            "torchvision keeps its data sets"
        )
    return str(context.data_root)


def data_name(name: str) -> str:
    """A data set's name in sentences: a part of one has the whole one's."""
    if name == "digits":
        return "handwritten digits"
    return datasets.SAMPLES[name].title if name in datasets.SAMPLES else name


def shown_name(data: str) -> str:
    """The name of a data set in figures and tables.

    Examples
    --------
    >>> shown_name("MNIST-5000"), shown_name("MNIST")
    ('MNIST (5,000 images)', 'MNIST')
    """
    sample = datasets.SAMPLES.get(data)
    title = "Fashion-MNIST" if data == "FashionMNIST" else data
    return f"{sample.title} ({sample.count:,} images)" if sample else title


@functools.lru_cache(maxsize=4)
def task_pictures(size: int, count: int, data_root: str | None) -> np.ndarray:
    """The pictures of a sweep's task, kept for the next tasks of the process."""
    return datasets.pictures(size, count, Path(data_root) if data_root else None)


@functools.cache
def perceptual(device: str, data_root: str | Path | None) -> PerceptualMetric:
    """The perceptual metric, loaded once in each process.

    With the weights that lie in ``data_root``, the folder that a run reads its data from, if they
    do; else as :func:`~reconrisk.metrics.perceptual.load_perceptual`.
    """
    from reconrisk.metrics import load_perceptual

    return load_perceptual(device, folder=data_root or None)


#: the trained perceptual distance beside that of :func:`perceptual`
ST_LPIPS = "ST-LPIPS"


@functools.cache
def perceptual_metrics(device: str, data_root: str | Path | None) -> dict[str, PerceptualMetric]:
    """:func:`perceptual` as ``"LPIPS"``, and :data:`ST_LPIPS` where its package is installed."""
    from reconrisk.metrics import load_shift_tolerant

    found = {"LPIPS": perceptual(device, data_root)}
    with contextlib.suppress(ModuleNotFoundError):  # tables without it say so
        found[ST_LPIPS] = load_shift_tolerant(device)
    return found

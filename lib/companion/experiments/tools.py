"""Tensors, data and statistics for the exhibits of several papers."""

import functools
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import torch
from scipy import stats

from companion.study.session import Context
from reconrisk import DPSGD, arguments, datasets
from reconrisk.attacks import Observation, known_scale, observe
from reconrisk.metrics import PerceptualMetric, load_perceptual

__all__ = [
    "SIGNIFICANCE",
    "as_numpy",
    "attack_repeatedly",
    "data_folder",
    "fits",
    "mean_and_error",
    "perceptual",
    "photographs",
    "reconstructions",
    "task_pictures",
    "tensor",
]

#: a fit is refused below this p-value; seeds are fixed, so a pass stays a pass
SIGNIFICANCE = 1e-3


def tensor(
    context: Context, values: np.ndarray, dtype: torch.dtype = torch.float64
) -> torch.Tensor:
    """Records as a (count, N) tensor on the context's device."""
    flat = np.array(values, dtype=float).reshape(len(values), -1)
    return torch.as_tensor(flat, dtype=dtype, device=context.device)


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
    chunk = max(1, min(count, 4_000_000 // (rows * record.size)))
    for start in range(0, count, chunk):
        size = min(chunk, count - start)
        inputs = tensor(context, np.broadcast_to(record.ravel(), (size, record.size)))
        yield as_numpy(reconstruct(observe(inputs, run, generator, rows=rows)))


def mean_and_error(values: np.ndarray) -> tuple[float, float]:
    """Mean of independent values and its standard error."""
    return float(np.mean(values)), float(np.std(values, ddof=1) / np.sqrt(np.size(values)))


def fits(values: np.ndarray, cdf) -> float:
    """The p-value of a Kolmogorov-Smirnov test of values against a distribution function."""
    return float(stats.kstest(np.ravel(values), cdf).pvalue)


def photographs(context: Context, size: int, count: int) -> np.ndarray:
    """The context's photographs: bundled ones in quick, the data folder's in paper.

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
    if name in ("digits", "patches"):
        return ""
    arguments.one_of("data set", name, datasets.CLASSIFIED + datasets.OWN)
    if context.data_root is None:
        raise FileNotFoundError(
            f"{context.exhibit} reads {name} in this profile: give data_root, the folder in which "
            "torchvision keeps its data sets"
        )
    return str(context.data_root)


@functools.lru_cache(maxsize=4)
def task_pictures(size: int, count: int, data_root: str | None) -> np.ndarray:
    """The pictures of a sweep's task, kept for the next tasks of the process."""
    return datasets.pictures(size, count, Path(data_root) if data_root else None)


@functools.cache
def perceptual(device: str) -> PerceptualMetric:
    """The perceptual metric, loaded once in each process."""
    return load_perceptual(device)

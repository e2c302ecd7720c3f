"""What the exhibits of Biswas et al. 2024 share: pairs of settings, pictures and the network.

Section VI trains a sigmoid network of 13,700 weights without biases on 16 x 16 pictures; Appendix C
pairs a concentration of von Mises-Fisher noise with a Gaussian noise multiplier at each epsilon.
"""

import functools
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from companion.study import registry
from reconrisk import datasets
from reconrisk.datasets import LabelledImages
from reconrisk.models import SigmoidNetwork

__all__ = [
    "BATCH_SIZE",
    "DELTA",
    "DIMENSION",
    "EPOCHS",
    "KEY",
    "NETWORK",
    "RECORDS",
    "SAMPLING_RATE",
    "SIDE",
    "STEPS",
    "Pair",
    "Standardised",
    "pairs",
    "standardised",
    "studied_pairs",
]

KEY = "biswas2024"

#: the sigmoid network of Section VI, and its number of weights p
NETWORK = SigmoidNetwork((256, 50, 15, 10))
DIMENSION = NETWORK.parameter_count
#: training records of MNIST and of Fashion-MNIST, and delta, its inverse (Section III-A)
RECORDS = 60_000
DELTA = 1 / RECORDS
BATCH_SIZE = 128
SAMPLING_RATE = BATCH_SIZE / RECORDS
EPOCHS = 3
#: mini-batches of three epochs
STEPS = EPOCHS * -(-RECORDS // BATCH_SIZE)

#: pixels a side (Section VI)
SIDE = 16
#: Section VI crops digits, whose margins are black, and scales garments
CROPPED = ("MNIST",)


@dataclass(frozen=True)
class Pair:
    """One column of Table IV: the settings that the paper holds to have one epsilon."""

    epsilon: float
    concentration: float
    noise_multiplier: float


@functools.cache
def pairs() -> tuple[Pair, ...]:
    """The fifteen columns of Table IV, as printed, by concentration."""
    rows = registry.printed(f"{KEY}/table4")
    column: dict[float, dict[str, float]] = {}
    for kappa, metric, value in zip(rows["kappa_vmf"], rows["metric"], rows["value"], strict=True):
        column.setdefault(float(kappa), {})[metric] = float(value)
    return tuple(
        Pair(column[kappa]["epsilon"], kappa, column[kappa]["sigma_gauss"])
        for kappa in sorted(column)
    )


@functools.cache
def studied_pairs() -> tuple[Pair, ...]:
    """The eight pairs of Tables V and VI, with which networks were trained and attacked."""
    rows = registry.printed(f"{KEY}/table5")
    chosen = {float(kappa) for kappa in rows["paired_kappa_vmf"]}
    return tuple(pair for pair in pairs() if pair.concentration in chosen)


@dataclass(frozen=True)
class Standardised:
    """16 x 16 pictures as the network sees them: less their mean pixel, over its deviation.

    Attributes
    ----------
    inputs : Tensor, shape (N, 256), float32
    labels : Tensor of integers, shape (N,)
    images : LabelledImages
        The same in [0, 1].
    mean, std : float
        Of all pixels of the training pictures before they were cropped or scaled, as is usual for
        these data sets (MNIST: 0.1307 and 0.3081).
    """

    inputs: torch.Tensor
    labels: torch.Tensor
    images: LabelledImages
    mean: float
    std: float

    def unit(self, values: np.ndarray) -> np.ndarray:
        """Standardised values back in units where black is 0 and white is 1."""
        return np.asarray(values) * self.std + self.mean


@functools.lru_cache(maxsize=8)
def standardised(
    name: str, data_root: str = "", split: str = "train", device: str = "cpu"
) -> Standardised:
    """The paper's pictures, or what stands in for them, kept for the process.

    Parameters
    ----------
    name : {"MNIST", "FashionMNIST", "digits", "patches"}
        The paper's two sets, or the bundled digits and grey photograph patches in their place.
    data_root : str
        Folder of the paper's sets.
    split : {"train", "test", "all"}
        Means and deviations are the training pictures' in any case.
    device : str
    """
    root = Path(data_root) if data_root else None
    train = datasets.classified(name, root, "train", side=SIDE)
    mean, std = float(train.inputs.mean()), float(train.inputs.std())
    chosen = train if split == "train" else datasets.classified(name, root, split, side=SIDE)
    small = datasets.grey_at(chosen, SIDE, crop=name in CROPPED)
    inputs = torch.as_tensor((small.inputs - mean) / std, dtype=torch.float32, device=device)
    labels = torch.as_tensor(small.labels, device=device)
    return Standardised(inputs, labels, small, mean, std)

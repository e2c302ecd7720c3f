"""Pairs of settings, pictures and the network of Biswas et al. 2024.

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
#: Section VI crops digits, whose margins are black, and rescales Fashion-MNIST
CROPPED = ("MNIST", "MNIST-5000")
#: mean and standard deviation of all pixels of Fashion-MNIST's training pictures, for a part of it
#: that is too small to tell
PIXELS = {"FashionMNIST-20": (0.2860, 0.3530)}


@dataclass(frozen=True)
class Pair:
    """One column of Table IV: the settings to which the paper assigns the same epsilon."""

    epsilon: float
    concentration: float
    noise_multiplier: float


@functools.cache
def pairs() -> tuple[Pair, ...]:
    """The fifteen columns of Table IV, as printed, by concentration."""
    rows = registry.printed(f"{KEY}/table4").astype({"kappa_vmf": float, "value": float})
    table = rows.pivot(index="kappa_vmf", columns="metric", values="value").reset_index()
    columns = table[["epsilon", "kappa_vmf", "sigma_gauss"]]
    return tuple(Pair(*row) for row in columns.to_numpy().tolist())


@functools.cache
def studied_pairs() -> tuple[Pair, ...]:
    """The eight pairs of Tables V and VI, for training and attacks."""
    rows = registry.printed(f"{KEY}/table5")
    chosen = {float(kappa) for kappa in rows["paired_kappa_vmf"]}
    return tuple(pair for pair in pairs() if pair.concentration in chosen)


@dataclass(frozen=True)
class Standardised:
    """16 x 16 pictures as inputs of the network: minus the mean pixel, over the standard deviation.

    Attributes
    ----------
    inputs : Tensor, shape (N, 256), float32
    labels : Tensor of integers, shape (N,)
    images : LabelledImages
        The same in [0, 1].
    mean, std : float
        Of all pixels of the training pictures before they are cropped or rescaled, as is usual for
        these data sets (MNIST: 0.1307 and 0.3081). Twenty pictures of Fashion-MNIST take those of
        the whole set.
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
def load_standardised(
    name: str, data_root: str = "", split: str = "train", device: str = "cpu"
) -> Standardised:
    """The paper's pictures, or their stand-ins, kept for the process.

    Parameters
    ----------
    name : {"MNIST", "FashionMNIST", "MNIST-5000", "FashionMNIST-20", "digits", "patches"}
        The paper's two sets, the parts of them that come with packages, or the bundled digits and
        grey photograph patches in their place.
    data_root : str
        Folder of the paper's sets.
    split : {"train", "test", "all"}
        Mean and standard deviation are always those of the training pictures.
    device : str
    """
    root = Path(data_root) if data_root else None
    train = datasets.classified(name, root, "train", side=SIDE)
    mean, std = PIXELS.get(name, (float(train.inputs.mean()), float(train.inputs.std())))
    chosen = train if split == "train" else datasets.classified(name, root, split, side=SIDE)
    small = datasets.grey_at(chosen, SIDE, crop=name in CROPPED)
    inputs = torch.as_tensor((small.inputs - mean) / std, dtype=torch.float32, device=device)
    labels = torch.as_tensor(small.labels, device=device)
    return Standardised(inputs, labels, small, mean, std)

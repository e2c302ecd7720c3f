"""Defences and their strengths, networks and batches of attacks on clients' updates.

Section 5.1 lists the defences, Appendix F the network: ResNet-18 with an extra linear layer of
16,384 neurons before the head, of which all but the first few thousand have random weights.
"""

import dataclasses
import functools
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

from companion.experiments.tools import data_folder
from companion.study import Context, registry
from reconrisk import datasets
from reconrisk.convnets import ConvNet, ResNet18, WideHead, randomise_neurons
from reconrisk.mechanisms import (
    Clipping,
    Defence,
    EntryDropout,
    LocalAggregation,
    Noise,
    Pruning,
)

KEY = "liu2024"
#: learning rate of local steps, which the paper does not print; at 0.1, the rate of its training,
#: five steps diverge because of the random neurons
LOCAL_RATE = 0.01
NETWORKS = ("ConvNet", "ResNet-18")
#: iterations up to which a search of pixels is brief
BRIEF = 150
#: iterations up to which a search of an untrained network's weights is brief: at the paper's rate,
#: which is for 10,000, it would not leave its start
BRIEF_PRIOR = 3000
#: by the names in the tables, the symbol of the strength
DEFENCES = {
    "None": "",
    "GradClip": "C",
    "GradNoise": "sigma0",
    "GradDrop": "p",
    "GradPrune": "p",
    "LocalAggregation": "steps",
}


@dataclass(frozen=True)
class Setting:
    """A defence with its strength (0 for none), as columns of Tables 2, 4, 5, 7 and 8 name it."""

    defence: str
    strength: float = 0.0

    def __post_init__(self) -> None:
        if self.defence not in DEFENCES:
            raise ValueError(f"defence must be one of {tuple(DEFENCES)}; got {self.defence!r}")

    @property
    def title(self) -> str:
        """For axes and tables."""
        if self.defence == "None":
            return "None"
        return f"{self.defence} {DEFENCES[self.defence]}={self.strength:g}"

    @property
    def parts(self) -> Defence:
        """The defence as :func:`reconrisk.training.client_updates` takes it."""
        match self.defence:
            case "None":
                return ()
            case "LocalAggregation":
                return (LocalAggregation(int(self.strength), LOCAL_RATE),)
            case "GradClip":
                return (Clipping(self.strength),)
            case "GradNoise":
                return (Noise(self.strength),)
            case "GradDrop":
                return (EntryDropout(self.strength),)
        return (Pruning(self.strength),)


@registry.of_print
def printed_rows(table: str) -> pd.DataFrame:
    """Rows of a printed table of defences (``"table4"``) with the names of our own tables.

    Columns ``setting``, ``defence``, ``strength``, ``batch size`` and ``value``, then the printed.
    """
    printed = registry.printed(f"{KEY}/{table}")
    names = printed["defense"].replace({"none": "None", "GradClipping": "GradClip"})
    strengths = pd.to_numeric(printed["parameter_value"]).where(names != "None", 0.0).astype(float)
    sizes = printed["batch_size" if "batch_size" in printed else "attack_batch_size"]
    titles = [Setting(n, s).title for n, s in zip(names, strengths, strict=True)]
    ours = {
        "setting": titles,
        "defence": names,
        "strength": strengths,
        "batch size": sizes.astype(int),
        "value": printed["value"].astype(float),
    }
    return pd.DataFrame(ours).join(printed.drop(columns="value"))


@functools.cache
def printed_settings(table: str) -> tuple[Setting, ...]:
    """The settings of a printed table (``"table4"``), in its order, each once."""
    rows = printed_rows(table)
    pairs = zip(rows["defence"], rows["strength"], strict=True)
    return tuple(dict.fromkeys(Setting(name, strength) for name, strength in pairs))


@functools.lru_cache(maxsize=4)
def pictures(name: str, data_root: str = "", side: int = 32) -> tuple[torch.Tensor, torch.Tensor]:
    """Training pictures (N, 3, side, side) in [0, 1], float32, and their labels (N,).

    Parameters
    ----------
    name : {"patches", "CIFAR-10"}
    data_root : str
        Folder of the files; empty for bundled pictures.
    side : int
        CIFAR-10 is averaged down to it: 8, 16 or 32.
    """
    if name == "patches":
        images = datasets.classified("patches", side=side)
    else:
        images = datasets.classified(name, Path(data_root) if data_root else None)
    tensor = torch.tensor(np.array(images.pictures()), dtype=torch.float32).permute(0, 3, 1, 2)
    if tensor.shape[-1] != side:
        tensor = torch.nn.functional.interpolate(tensor, size=(side, side), mode="area")
    return tensor.contiguous(), torch.tensor(images.labels)


@dataclass(frozen=True)
class Batches:
    """P batches of n pictures, shape (P, n, 3, side, side), float32, and their labels (P, n)."""

    images: torch.Tensor
    labels: torch.Tensor


def draw_batches(
    images: torch.Tensor, labels: torch.Tensor, count: int, size: int, rng: np.random.Generator
) -> Batches:
    """Draw batches as evenly from the classes as possible, without replacement.

    Parameters
    ----------
    images : Tensor, shape (N, 3, side, side)
    labels : Tensor of integers, shape (N,)
    count, size : int
        P and n, with P n <= N.
    rng : Generator
        Of the pictures; within a batch classes take turns, so that they differ while n is at most
        their number.
    """
    if count * size > len(labels):
        raise ValueError(f"count * size must be at most {len(labels)}; got {count} * {size}")
    known = labels.numpy()
    # the k-th picture of every class before the (k + 1)-th of any, classes in random order
    order = rng.permutation(len(known))
    turn = np.empty(len(known), dtype=int)
    turn[order] = pd.Series(known[order]).groupby(known[order]).cumcount()
    sequence = np.lexsort((rng.permutation(len(known)), turn))
    told_apart = size <= len(np.unique(known))
    for start in range(0, count * size if told_apart else 0, size):
        seen: set[int] = set()
        for i in range(start, start + size):
            others = (j for j in range(i, len(sequence)) if known[sequence[j]] not in seen)
            j = next(others, i)  # a round of classes may end within a batch
            sequence[[i, j]] = sequence[[j, i]]
            seen.add(known[sequence[i]])
    place = torch.from_numpy(sequence[: count * size].reshape(count, size))
    return Batches(images[place], labels[place])


def make_network(
    kind: str,
    generator: torch.Generator,
    *,
    side: int = 32,
    channels: int = 16,
    wide: int | None = None,
    random_neurons: int = 0,
    activation: str = "relu",
) -> WideHead:
    """A network of Section 5.1, or the small one of quick runs, with stored batch norm statistics.

    Parameters
    ----------
    kind : {"ConvNet", "ResNet-18"}
    generator : torch.Generator
    side : int
        Of the pictures.
    channels : int
        Of the first stage: 64 in the original ResNet-18.
    wide : int, optional
        Neurons of the extra layer.
    random_neurons : int
        How many of them, the last ones, have weights from which features are recovered.
    activation : str
    """
    if kind == "ConvNet":
        network: WideHead = ConvNet(
            generator, side=side, channels=channels, wide=wide, activation=activation
        )
    elif kind == "ResNet-18":
        network = ResNet18(generator, width=channels, wide=wide, activation=activation)
    else:
        raise ValueError(f"kind must be one of {NETWORKS}; got {kind!r}")
    if random_neurons:
        randomise_neurons(network, random_neurons, generator)
    return network.eval()


def seed_generator(seed: int, *key: int, device: str = "cpu") -> torch.Generator:
    """A generator for one purpose, named by integers."""
    state = np.random.SeedSequence([seed, *key]).generate_state(1, np.uint64)[0]
    return torch.Generator(device=device).manual_seed(int(state) >> 1)


def pixel_search(iterations: int) -> dict[str, Any]:
    """How an inversion searches pixels: the library's way, or a brief one.

    The schedule for thousands of iterations stops a search of some hundred early. With this
    one 80 iterations reach the errors that 200 of the other reach on the quick runs' networks.
    """
    return {"brief": True, "signed": False, "learning_rate": 0.4} if iterations <= BRIEF else {}


def prior_rate(iterations: int) -> float:
    """Learning rate of Adam on an untrained network's weights: the paper's, or a brief search's."""
    return 1e-5 if iterations > BRIEF_PRIOR else 3e-3


def shared_values(kind: type, study: Context, name: str) -> dict[str, Any]:
    """Values of a dataclass that exhibits share: equal parameters give equal values and seeds.

    Its fields are named as parameters, ``data_root``, ``device`` and seeds, ``<purpose>_seed``; the
    seeds depend on ``name`` instead of the exhibit's.
    """
    named = [f.name for f in dataclasses.fields(kind)]
    parameters = dict(study.parameters)
    shared = dataclasses.replace(study, exhibit=f"{KEY}/{name}")
    purposes = {f: f.removesuffix("_seed") for f in named if f.endswith("_seed")}
    return {
        **{name: parameters[name] for name in named if name in parameters},
        **{f: shared.seed_of({"selection": "pictures"}.get(p, p)) for f, p in purposes.items()},
        "data_root": data_folder(study, study.parameters.data),
        "device": study.device,
    }

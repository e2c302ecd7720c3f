"""Runs of the proposed attack with and without its parts, shared by several exhibits."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import torch

from companion.experiments.clients import (
    KEY,
    Batches,
    draw_batches,
    make_network,
    pictures,
    seeded,
    shared_values,
)
from companion.experiments.tools import as_numpy, perceptual
from companion.study import Context, Parameter, registry
from reconrisk.attacks import (
    Inversion,
    Knowledge,
    LatentSpace,
    Objective,
    UntrainedSpace,
    generative_attack,
    proposed_attack,
)
from reconrisk.convnets import Decoder, ImagePrior, WideHead, train_decoder
from reconrisk.mechanisms import Released
from reconrisk.metrics import psnr, rmse
from reconrisk.training import client_updates

__all__ = [
    "BENCH",
    "BEST",
    "METRICS",
    "Bench",
    "Variant",
    "attack_batches",
    "by_size",
    "measure_cells",
    "printed_cells",
    "run_variants",
    "signed",
    "strip",
    "variants",
    "what_ran",
]

#: what the runs share; exhibits with equal values share them
BENCH = {
    "data": Parameter("str", "patches", "CIFAR-10", "CIFAR-10", "labelled data set of pictures"),
    "side": Parameter("int", 8, 32, "32", "pixels a side: 8, 16 or 32", low=8, stand_in=True),
    "images": Parameter("int", 32, 64, "50, stratified", "private pictures", low=32),
    "network": Parameter(
        "str",
        "ConvNet",
        "ResNet-18",
        "ResNet-18",
        "attacked network: ConvNet or ResNet-18",
        stand_in=True,
    ),
    "channels": Parameter(
        "int", 24, 64, "64", "of the network's first stage", low=1, stand_in=True
    ),
    "wide": Parameter(
        "int", 896, 16_384, "16,384", "neurons of the extra layer", low=2, stand_in=True
    ),
    "trained_neurons": Parameter(
        "int", 128, 2048, "2,048; also 4,096", "of these, how many keep ordinary weights", low=1
    ),
    "activation": Parameter("str", "elu", "relu", "relu", "of the network"),
    "iterations": Parameter("int", 200, 10_000, "10,000", "of each attack", low=16),
    "painter": Parameter("int", 16, 64, "not printed", "width of the untrained image network", 1),
    "decoder_steps": Parameter(
        "int", 600, 20_000, "pretrained", "steps of training the image decoder", low=1
    ),
    "auxiliary": Parameter(
        "int", 512, 2048, "pretrained", "pictures that the image decoder is trained on", low=64
    ),
    "weighting": Parameter(
        "str",
        "count",
        "count",
        "a norm of the parameters, its index not legible",
        "of the layers' cosines under gradient reweighting: count or norm",
    ),
}
#: the metrics of Tables 3 and 6, and whether more is better
METRICS = {"PSNR": 1, "RMSE": -1, "LPIPS": -1}
#: the weights that the paper found best
BEST: dict[str, Any] = {"total_variation": 0.01, "statistics": 0.001, "features": 0.1}
#: pictures kept of each run
SHOWN = 8
#: of Adam, on the pixels' signs, on the weights of the untrained network
RATES = {"pixels": 0.1, "untrained": 3e-3}
#: the least side that the perceptual metric takes
LEAST_SIDE = 32


@dataclass(frozen=True)
class Bench:
    """What every run on the same pictures and network shares.

    Attributes
    ----------
    data, data_root, side, images
        Pictures: which, where from, pixels a side, how many are private.
    network, channels, wide, trained_neurons, activation
        Of :func:`~companion.experiments.clients.make_network`.
    iterations : int
    painter, decoder_steps, auxiliary : int
        Width of the untrained network; steps and pictures of the decoder's training.
    decoder_rates : tuple of float
        Of Adam on latent vectors and on the decoder's weights.
    selection_seed, network_seed, start_seed : int
    device : str
    """

    data: str
    data_root: str
    side: int
    images: int
    network: str
    channels: int
    wide: int
    trained_neurons: int
    activation: str
    iterations: int
    painter: int
    decoder_steps: int
    auxiliary: int
    selection_seed: int
    network_seed: int
    start_seed: int
    device: str = "cpu"

    @classmethod
    def of(cls, study: Context) -> Bench:
        """The bench of an exhibit; equal parameters give equal benches, whatever its name."""
        return cls(**shared_values(cls, study, "proposed"))

    @property
    def random_neurons(self) -> int:
        """Neurons whose gradients give features away."""
        return self.wide - self.trained_neurons

    def generator(self, *key: int) -> torch.Generator:
        """A generator for one purpose."""
        return seeded(self.start_seed, *key, device=self.device)

    def model(self) -> WideHead:
        """The attacked network."""
        return make_network(
            self.network,
            torch.Generator(device=self.device).manual_seed(self.network_seed),
            side=self.side,
            channels=self.channels,
            wide=self.wide,
            random_neurons=self.random_neurons,
            activation=self.activation,
        )

    def batches(self, size: int) -> Batches:
        """All private pictures in batches of a size; the same pictures at every size."""
        images, labels = pictures(self.data, self.data_root, self.side)
        rng = np.random.default_rng(self.selection_seed)
        drawn = draw_batches(images, labels, self.images // size, size, rng)
        return Batches(drawn.images.to(self.device), drawn.labels.to(self.device))

    def others(self) -> torch.Tensor:
        """Auxiliary pictures: none of them is private."""
        images, labels = pictures(self.data, self.data_root, self.side)
        rng = np.random.default_rng(self.selection_seed)
        drawn = draw_batches(images, labels, self.images, 1, rng).images[:, 0]
        # a private picture may also lie in the data set twice
        apart = torch.cdist(images.flatten(1), drawn.flatten(1)).amin(dim=1) > 1e-4
        return images[apart][: self.auxiliary].to(self.device)


@dataclass(frozen=True)
class Variant:
    """One way to attack: an objective and where images are sought.

    Attributes
    ----------
    weighting, total_variation, statistics, features
        Of :class:`~reconrisk.attacks.Objective`.
    match : str
        ``"cosine"``, ``"subspace"`` or ``""``, by batch.
    space : {"pixels", "untrained", "decoder"}
    shorter : int
        Divides the iterations.
    """

    weighting: str = "joint"
    total_variation: float = 0.01
    statistics: float = 0.001
    features: float = 0.0
    match: str = ""
    space: str = "pixels"
    shorter: int = 1

    @property
    def objective(self) -> Objective:
        """What is minimised."""
        return Objective(
            weighting=self.weighting,
            total_variation=self.total_variation,
            statistics=self.statistics,
            features=self.features,
        )


def variants(weighting: str) -> dict[str, Variant]:
    """The columns of Table 6, by their printed names."""
    return {
        "w/o GR and FM": Variant(),
        "w/o FM": Variant(weighting),
        "Ours": Variant(weighting, features=BEST["features"]),
    }


def run_variants(
    study: Context, wanted: Iterable[tuple[Variant, int]]
) -> dict[tuple[Variant, int], dict[str, Any]]:
    """Attack all batches of given sizes.

    Returns
    -------
    dict
        From (variant, batch size) to what :func:`attack_batches` returns.
    """
    bench = Bench.of(study)
    tasks = {
        (variant, size): {
            "bench": dataclasses.asdict(bench),
            "variant": dataclasses.asdict(variant),
            "batch_size": size,
        }
        for variant, size in wanted
    }
    results = study.sweep(attack_batches, [*tasks.values()], "inverting")
    return dict(zip(tasks, results, strict=True))


def measure_cells(
    study: Context, methods: Mapping[str, Variant], sizes: Sequence[int]
) -> pd.DataFrame:
    """One row for each method, batch size and metric: mean, sd and standard error over pictures."""
    wanted = {(v, size): name for name, v in methods.items() for size in sizes}
    parts = [
        pd.DataFrame({m: run[m] for m in METRICS}).assign(method=wanted[key], size=key[1])
        for key, run in run_variants(study, wanted).items()
    ]
    rows = pd.concat(parts, ignore_index=True).rename(columns={"size": "batch size"})
    long = rows.melt(["method", "batch size"], list(METRICS), "metric")
    grouped = long.groupby(["method", "batch size", "metric"], sort=False)["value"]
    cells = grouped.agg(["mean", "std", "count"]).reset_index()
    cells["error"] = cells["std"] / np.sqrt(cells["count"])
    return cells.rename(columns={"mean": "value", "std": "sd"}).drop(columns="count")


def printed_cells(table: str) -> pd.DataFrame:
    """The same of a printed table, ``"table3"`` or ``"table6"``."""
    rows = registry.printed(f"{KEY}/{table}")
    return pd.DataFrame(
        {
            "method": rows["method"],
            "batch size": rows["batch_size"].astype(int),
            "metric": rows["metric"],
            "value": rows["value"].astype(float),
            "sd": rows["sd"].astype(float),
        }
    )


def by_size(cells: pd.DataFrame, metric: str) -> pd.DataFrame:
    """One metric's means, batch sizes by methods."""
    own = cells[cells["metric"] == metric]
    return own.pivot(index="batch size", columns="method", values="value")


def signed(gains: pd.Series) -> str:
    """Gains by batch size in a sentence."""
    return ", ".join(f"{value:+.1f} dB at {size}" for size, value in gains.items())


def what_ran(study: Context, sizes: Sequence[int]) -> str:
    """One sentence for runs on the bench."""
    p = study.parameters
    return (
        f"{p.images} pictures of {p.data}, {p.side} pixels a side, in batches of "
        f"{', '.join(map(str, sizes))}; {p.network}, untrained, {p.wide} wide neurons, "
        f"{p.iterations} iterations."
    )


def strip(shown: Any, count: int = 4) -> np.ndarray:
    """The first pictures in a row, with a white line between them."""
    kept = np.asarray(shown, dtype=float)[:count]
    line = np.ones((kept.shape[1], 1, 3))
    parts = [part for one in kept for part in (one, line)]
    return np.concatenate(parts[:-1], axis=1)


def attack_batches(task: dict[str, Any]) -> dict[str, Any]:
    """Attack all batches of one size in one way.

    Parameters
    ----------
    task : dict
        ``bench`` (whose draws variants share), ``variant`` (as dicts) and ``batch_size``.

    Returns
    -------
    dict
        ``"PSNR"``, ``"RMSE"``, ``"LPIPS"`` by picture, ``"pictures"`` and ``"originals"`` of the
        first, and the course of the first batch: ``"iteration"`` with the same errors' mean.
    """
    bench, variant = Bench(**task["bench"]), Variant(**task["variant"])
    size = task["batch_size"]
    batches, network = bench.batches(size), bench.model()
    released = client_updates(network, batches.images, batches.labels, generator=bench.generator(0))
    knowledge = Knowledge(
        batches.labels, tuple(batches.images.shape[2:]), statistics=_statistics(network, batches)
    )
    course: dict[str, list[float]] = {"iteration": [], "PSNR by iteration": []}

    def watch(iteration: int, inputs: torch.Tensor, problems: slice) -> None:
        if problems.start == 0 and iteration in _noted(bench.iterations // variant.shorter):
            error = (inputs[:, 0] - batches.images[problems]).square().mean(dim=(2, 3, 4))
            course["iteration"].append(iteration)
            course["PSNR by iteration"].append(float(-10 * error.log10().mean()))

    found = _inverted(bench, variant, network, released, knowledge, watch)
    targets, images = (
        as_numpy(t.flatten(0, 1).movedim(1, -1)) for t in (batches.images, found.inputs)
    )
    return {
        **_errors(targets, images, bench.device),
        "pictures": np.round(images[:SHOWN], 4),
        "originals": np.round(targets[:SHOWN], 4),
        "loss": as_numpy(found.loss),
        **course,
    }


def _inverted(
    bench: Bench,
    variant: Variant,
    network: WideHead,
    released: Released,
    knowledge: Knowledge,
    watch: Any,
) -> Inversion:
    iterations = bench.iterations // variant.shorter
    shared: dict[str, Any] = {
        "generator": bench.generator(1),
        "objective": variant.objective,
        "iterations": iterations,
        "watch": watch,
        "block": len(released),
    }
    if variant.space == "decoder":
        return generative_attack(network, released, knowledge, latent=_latents(bench), **shared)
    if variant.space == "untrained":
        count = knowledge.labels.shape[1]
        painter = ImagePrior(bench.generator(2), side=bench.side, width=bench.painter)
        shared["space"] = UntrainedSpace.draw(painter, count, bench.generator(3))
        shared["signed"] = False
    return proposed_attack(
        network,
        released,
        knowledge,
        neurons=bench.random_neurons,
        match=variant.match or None,
        learning_rate=RATES[variant.space],
        **shared,
    )


@functools.lru_cache(maxsize=2)
def _latents(bench: Bench) -> LatentSpace:
    """A decoder trained on auxiliary pictures, in place of a pretrained generator."""
    decoder = Decoder(bench.generator(4), side=bench.side)
    known = train_decoder(
        decoder, bench.others(), generator=bench.generator(5), steps=bench.decoder_steps
    )
    return LatentSpace(decoder, known)


@torch.no_grad()
def _statistics(network: WideHead, batches: Batches):
    """Means and variances before each batch norm, of each private batch: known to the attacker."""
    found = [network(images, trace=True).statistics for images in batches.images]
    return tuple(
        (torch.stack([m for m, _ in layer]), torch.stack([v for _, v in layer]))
        for layer in zip(*found, strict=True)
    )


def _errors(targets: np.ndarray, images: np.ndarray, device: str) -> dict[str, np.ndarray]:
    distance = perceptual(device)
    truth, found = (values.reshape(len(values), -1) for values in (targets, images))
    pairs = zip(targets, images, strict=True)
    return {
        "PSNR": psnr(truth, found, data_range=1.0),
        "RMSE": rmse(truth, found),
        "LPIPS": np.array([distance(_enlarged(a), _enlarged(b)) for a, b in pairs]),
    }


def _enlarged(picture: np.ndarray) -> np.ndarray:
    """Every pixel as often as the perceptual metric needs."""
    times = -(-LEAST_SIDE // len(picture))
    return picture.repeat(times, axis=0).repeat(times, axis=1)


@functools.cache
def _noted(iterations: int) -> frozenset[int]:
    """Iterations at which a run's course is kept."""
    return frozenset(np.unique(np.linspace(0, iterations, 21).astype(int)).tolist())

"""Runs of the proposed attack with and without its parts, shared by several exhibits."""

import functools
import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Self

import numpy as np
import pandas as pd
import torch

from companion.exhibit import *
from companion.experiments.clients import (
    KEY,
    Batches,
    draw_batches,
    make_network,
    pictures,
    prior_rate,
    seed_generator,
    shared_values,
)
from companion.papers.liu2024.own_runs import check_run
from reconrisk import arguments
from reconrisk.attacks import (
    PROPOSED,
    Inversion,
    KeptSearch,
    Knowledge,
    LatentSpace,
    Objective,
    UntrainedSpace,
    best_objective,
    generative_attack,
    proposed_attack,
)
from reconrisk.convnets import Decoder, ImagePrior, WideHead, train_decoder
from reconrisk.mechanisms import Released
from reconrisk.metrics import psnr, rmse
from reconrisk.training import client_updates

#: parameters of the runs; exhibits with equal values share the runs
BENCH = {
    "data": Parameter("str", "patches", "CIFAR-10", "CIFAR-10", "labelled data set of pictures"),
    "side": Parameter("int", 8, 32, "32", "pixels a side: 8, 16 or 32", 8, stand_in=True),
    "images": Parameter("int", 32, 64, "50, stratified", "private pictures", 32),
    "network": Parameter(
        "str", "ConvNet", "ResNet-18", "ResNet-18", "ConvNet or ResNet-18", stand_in=True
    ),
    "channels": Parameter("int", 24, 64, "64", "of the network's first stage", 1, stand_in=True),
    "wide": Parameter("int", 896, 16_384, "16,384", "neurons of the extra layer", 2, stand_in=True),
    "trained_neurons": Parameter(
        "int", 128, 2048, "2,048; also 4,096", "of these, how many keep ordinary weights", 1
    ),
    "activation": Parameter("str", "elu", "relu", "relu", "of the network"),
    "iterations": Parameter("int", 200, 10_000, "10,000", "of each attack", 16),
    "painter": Parameter("int", 16, 64, "not printed", "width of the untrained image network", 1),
    "decoder_steps": Parameter(
        "int", 600, 20_000, "pretrained", "steps of training the image decoder", 1
    ),
    "auxiliary": Parameter(
        "int", 512, 2048, "pretrained", "pictures that the image decoder is trained on", 64
    ),
    "weighting": Parameter(
        "str", "count", "count", "a norm of the parameters, index not legible", "count or norm"
    ),
}
#: of Tables 3 and 6
SPACE = {
    "space": Parameter(
        "str",
        "pixels",
        "untrained network",
        "untrained network",
        "that the attack searches: pixels, or the weights of an untrained network",
    )
}
#: batch sizes of Table 3 and of the larger batches of Table 6
LARGE = {"batch_sizes": Parameter("ints", (16, 32), (16, 32), "16, 32", "pictures a batch", 1)}
#: the metrics of Tables 3 and 6: whether more is better
METRICS = {"PSNR": 1, "RMSE": -1, "LPIPS": -1}
#: perceptual distances, and what axes call them
DISTANCES = {"LPIPS": "perceptual distance", ST_LPIPS: ST_LPIPS}
#: the least gain of PSNR that counts as notable, in dB, where 2.3 and 4.8 are printed
NOTABLE = 1.0
#: the paper's choice of weights
BEST: dict[str, Any] = {"total_variation": 0.01, "statistics": 0.001, "features": 0.1}
#: the proposed attack with random vectors in the place of features
CONTROL = "random vectors"
#: Geiping et al.'s attack with the statistics that the paper grants every attack, and that lacks
GRANTED = "Geiping, statistics"
#: pictures kept of each run
SHOWN = 8
#: the smallest side that the perceptual metric accepts
LEAST_SIDE = 32


@dataclass(frozen=True)
class Bench:
    """What every run on the same pictures and network shares: :data:`BENCH`, seeds, device."""

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
    def of(cls, study: Context) -> Self:
        """The bench of an exhibit; equal parameters give equal benches, whatever its name."""
        return cls(**shared_values(cls, study, "proposed"))

    @property
    def random_neurons(self) -> int:
        """Neurons whose gradients reveal the features."""
        return self.wide - self.trained_neurons

    def generator(self, *key: int) -> torch.Generator:
        return seed_generator(self.start_seed, *key, device=self.device)

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

    def batches(self, size: int, count: int | None = None) -> Batches:
        """The private pictures in batches of a size (the first ``count``), alike at every size."""
        images, labels = pictures(self.data, self.data_root, self.side)
        rng = np.random.default_rng(self.selection_seed)
        drawn = draw_batches(images, labels, self.images // size, size, rng)
        return Batches(drawn.images[:count].to(self.device), drawn.labels[:count].to(self.device))

    def updates(self, network: WideHead, batches: Batches) -> Released:
        """The undefended gradients that the server sees."""
        return client_updates(network, batches.images, batches.labels, generator=self.generator(0))

    def others(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Auxiliary pictures, none of them private, and their labels."""
        images, labels = pictures(self.data, self.data_root, self.side)
        drawn = self.batches(1).images[:, 0].cpu()
        # the data set may hold copies of a private picture
        apart = torch.cdist(images.flatten(1), drawn.flatten(1)).amin(dim=1) > 1e-4
        kept = slice(self.auxiliary)
        return images[apart][kept].to(self.device), labels[apart][kept].to(self.device)

    def own_batches(self, size: int) -> Batches:
        """As many batches of auxiliary pictures, for the attacker to try an attack on."""
        images, labels = (values.cpu() for values in self.others())
        rng = np.random.default_rng([self.selection_seed, 1])
        drawn = draw_batches(images, labels, min(self.images, len(labels)) // size, size, rng)
        return Batches(drawn.images.to(self.device), drawn.labels.to(self.device))


@dataclass(frozen=True)
class Variant:
    """One way to attack: an objective, and where images are sought.

    Attributes
    ----------
    weighting, total_variation, statistics, features
        Of :class:`~reconrisk.attacks.Objective`.
    match : str
        ``"cosine"``, ``"subspace"`` or ``""``, by batch.
    space : {"pixels", "untrained", "random", "decoder"}
        ``"random"``: the untrained network, into whose blocks random vectors enter, not features.
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
        """What the attack minimises."""
        return Objective(
            weighting=self.weighting,
            total_variation=self.total_variation,
            statistics=self.statistics,
            features=self.features,
            feature_width=PROPOSED.feature_width,
        )


def variants(weighting: str, space: str = "pixels") -> dict[str, Variant]:
    """The columns of Table 6, by their printed names, searched as :data:`SPACE` says."""
    known = {"pixels": "pixels", "untrained network": "untrained"}
    where = known[arguments.one_of("space", space, tuple(known))]
    found = {
        "w/o GR and FM": Variant(space=where),
        "w/o FM": Variant(weighting, space=where),
        "Ours": Variant(weighting, features=BEST["features"], space=where),
    }
    # a network with further inputs is another network, whatever enters
    control = {CONTROL: Variant(weighting, space="random")} if where == "untrained" else {}
    return found | control


def run_variants(
    study: Context, methods: Mapping[Any, Variant], sizes: Iterable[int]
) -> dict[tuple[Any, int], dict[str, Any]]:
    """What :func:`attack_batches` returns, by method and batch size."""
    shared = {"bench": asdict(Bench.of(study)), **keep_searches(study)}
    tasks = {
        (name, size): {**shared, "variant": asdict(variant), "batch_size": size}
        for name, variant in methods.items()
        for size in sizes
    }
    results = study.sweep(attack_batches, [*tasks.values()], "inverting")
    return dict(zip(tasks, results, strict=True))


def run_trials(
    study: Context, variant: Variant, weights: Sequence[float], size: int
) -> pd.DataFrame:
    """PSNR of each weight of the total variation on the attacker's own pictures, and its error."""
    task = {"bench": asdict(Bench.of(study)), "variant": asdict(variant), "batch_size": size}
    (found,) = study.sweep(try_weights, [{**task, "weights": list(weights)}], "trying weights")
    return pd.DataFrame(found)


def measure_cells(
    study: Context, methods: Mapping[str, Variant], sizes: Iterable[int]
) -> pd.DataFrame:
    """One row for each method, batch size and metric: mean, sd and standard error over pictures."""
    keys = ["method", "batch size", "metric"]
    parts = [
        pd.DataFrame({m: run[m] for m in METRICS | DISTANCES if m in run}).assign(
            **{"method": name, "batch size": size}
        )
        for (name, size), run in run_variants(study, methods, sizes).items()
    ]
    long = pd.concat(parts, ignore_index=True).melt(keys[:2], var_name="metric")
    grouped = long.groupby(keys, sort=False)["value"]
    cells = grouped.agg(value="mean", sd="std", count="count").reset_index()
    return cells.assign(error=cells["sd"] / np.sqrt(cells.pop("count")))


def perceptual_gaps(
    study: Context, methods: Mapping[str, Variant], sizes: Iterable[int]
) -> pd.DataFrame:
    """How much farther the first of two methods is by each distance, paired, and the error."""
    runs = run_variants(study, methods, sizes)
    rows = [
        (f"{a} - {b}", size, name, *mean_and_error(gap))
        for a, b in itertools.combinations(methods, 2)
        for size in sizes
        for name in perceptual_metrics(study.device, study.read_root)
        for gap in [np.subtract(runs[a, size][name], runs[b, size][name])]
    ]
    return pd.DataFrame(rows, columns=["methods", "batch size", "metric", "gap", "error"])


def distances(table: pd.DataFrame) -> list[str]:
    """The perceptual distances of a table: older runs, and some readers, lack the trained one."""
    return [metric for metric in DISTANCES if metric in set(table["metric"])]


def same_order(tables: Tables, target: str = "O-145") -> Verdict:
    """Whether the trained distance orders methods as the other one does."""
    statement = (
        f"{ST_LPIPS}, trained and not LPIPS, orders every two methods at every batch size as the "
        "distance that stands in for LPIPS does"
    )
    if "gaps" not in tables or ST_LPIPS not in distances(tables["gaps"]):
        return not_run(target, statement, "a run with the package stlpips-pytorch")
    nearer = {
        metric: [clearly(pair) for pair in zip(rows["gap"], rows["error"], strict=True)]
        for metric, rows in tables["gaps"].groupby("metric", sort=False)
    }
    pairs = [*zip(*nearer.values(), strict=True)]
    same = [None if None in pair else pair[0] == pair[1] for pair in pairs]
    found = (
        f"of {len(same)} orders {sum(one is not None for one in nearer[ST_LPIPS])} are clear by "
        f"{ST_LPIPS}, by both {same.count(True)} alike and {same.count(False)} reversed"
    )
    return check_run(
        tables, target, every(*same), statement, ours=found, elsewhere=f"It is not so: {found}.",
        decided_by=f"more pictures: {found}",
    )  # fmt: skip


def guesses(study: Context) -> pd.DataFrame:
    """Mean PSNR, RMSE and perceptual distance of a grey picture and of the data's mean image."""
    return _guesses(Bench.of(study)).copy()


@functools.lru_cache(maxsize=2)
def _guesses(bench: Bench) -> pd.DataFrame:
    everything, _ = pictures(bench.data, bench.data_root, bench.side)
    truth = bench.batches(1).images[:, 0].cpu()
    rows = []
    for name, guess in (
        ("grey", torch.full_like(truth[0], 0.5)),
        ("mean image", everything.double().mean(dim=0).float()),
    ):
        targets, images = (as_numpy(t.movedim(1, -1)) for t in (truth, guess.expand_as(truth)))
        flat, same = (values.reshape(len(values), -1) for values in (targets, images))
        errors = {
            "PSNR": psnr(flat, same, data_range=1.0),
            "RMSE": rmse(flat, same),
            **_distances(bench, targets, images),
        }
        rows.append(
            {"attack": name, **{m: float(np.asarray(v, float).mean()) for m, v in errors.items()}}
        )
    return pd.DataFrame(rows)


def mean_image(tables: Mapping[str, pd.DataFrame], metric: str) -> float:
    """A metric of the mean image, of :func:`guesses`."""
    return float(tables["references"].set_index("attack").loc["mean image", metric])


@registry.of_print
def printed_cells(table: str) -> pd.DataFrame:
    """The same of a printed table, ``"table3"`` or ``"table6"``, without standard errors."""
    rows = registry.printed(f"{KEY}/{table}").rename(columns={"batch_size": "batch size"})
    types = {"batch size": int, "value": float, "sd": float}
    return rows[["method", "batch size", "metric", "value", "sd"]].astype(types)


def by_size(cells: pd.DataFrame, metric: str, values: str = "value") -> pd.DataFrame:
    """One metric's means, or their ``"error"``, batch sizes by methods."""
    own = cells[cells["metric"] == metric]
    return own.pivot(index="batch size", columns="method", values=values)


def signed(gains: pd.Series, digits: int = 1) -> str:
    """Gains by batch size in a sentence."""
    return ", ".join(f"{value:+.{digits}f} dB at {size}" for size, value in gains.items())


def what_ran(study: Context, sizes: Iterable[int]) -> str:
    """One sentence for runs on the bench."""
    p = study.parameters
    return (
        f"{p.images} pictures of {p.data}, {p.side} pixels a side, in batches of "
        f"{', '.join(map(str, sizes))}; {p.network}, untrained, {p.wide} wide neurons, "
        f"{p.iterations} iterations."
    )


def attack_batches(task: dict[str, Any]) -> dict[str, Any]:
    """Attack all batches of one size in one way.

    Parameters
    ----------
    task : dict
        ``bench`` (whose draws variants share), ``variant`` (as dicts) and ``batch_size``.

    Returns
    -------
    dict
        ``"PSNR"``, ``"RMSE"`` and :func:`perceptual_metrics` by picture, the first ``"originals"``,
        and the course of the first batch: ``"iteration"`` and ``"PSNR by iteration"``.
    """
    bench, variant = Bench(**task["bench"]), Variant(**task["variant"])
    batches, network = bench.batches(task["batch_size"]), bench.model()
    iterations = bench.iterations // variant.shorter
    noted = set(np.linspace(0, iterations, 21).astype(int).tolist())
    # the weights of a generator are searched after its latent vectors: two searches
    kept = kept_search(task) if variant.space != "decoder" else None
    course: dict[str, list[float]] = kept.notes if kept else {}
    course |= {"iteration": [], "PSNR by iteration": []}

    def watch(iteration: int, inputs: torch.Tensor, problems: slice) -> None:
        if problems.start == 0 and iteration in noted:
            error = (inputs[:, 0] - batches.images[problems]).square().mean(dim=(2, 3, 4))
            course["iteration"].append(iteration)
            course["PSNR by iteration"].append(float(-10 * error.log10().mean()))

    found = _invert(bench, variant, variant.objective, network, batches, watch, kept)
    if kept:
        kept.remove()
    targets, images = (
        as_numpy(t.flatten(0, 1).movedim(1, -1)) for t in (batches.images, found.inputs)
    )
    truth, rebuilt = (values.reshape(len(values), -1) for values in (targets, images))
    return {
        "PSNR": psnr(truth, rebuilt, data_range=1.0),
        "RMSE": rmse(truth, rebuilt),
        **_distances(bench, targets, images),
        "originals": np.round(targets[:SHOWN], 4),
        **course,
    }


def try_weights(task: dict[str, Any]) -> dict[str, list[float]]:
    """Attack the attacker's own pictures with each weight of the total variation.

    Parameters
    ----------
    task : dict
        As of :func:`attack_batches`, and ``weights``.

    Returns
    -------
    dict
        ``"value"``, and over the pictures the mean of ``"PSNR"`` and its standard ``"error"``.
    """
    bench, variant = Bench(**task["bench"]), Variant(**task["variant"])
    batches, network = bench.own_batches(task["batch_size"]), bench.model()
    tried = [replace(variant.objective, total_variation=weight) for weight in task["weights"]]
    _, errors = best_objective(
        tried, lambda goal: _invert(bench, variant, goal, network, batches).inputs, batches.images
    )
    means = [mean_and_error(values) for values in as_numpy(-10 * errors.flatten(1).log10())]
    return {"value": task["weights"], "PSNR": [m for m, _ in means], "error": [e for _, e in means]}


def _invert(
    bench: Bench,
    variant: Variant,
    objective: Objective,
    network: WideHead,
    batches: Batches,
    watch: Callable[[int, torch.Tensor, slice], None] | None = None,
    kept: KeptSearch | None = None,
) -> Inversion:
    """Attack all batches in one way."""
    released = bench.updates(network, batches)
    knowledge = Knowledge(
        batches.labels, tuple(batches.images.shape[2:]), statistics=_statistics(network, batches)
    )
    shared: dict[str, Any] = {
        "generator": bench.generator(1),
        "objective": objective,
        "iterations": bench.iterations // variant.shorter,
        "watch": watch,
        "block": len(released),
    }
    if variant.space == "decoder":
        return generative_attack(network, released, knowledge, latent=_latents(bench), **shared)
    if variant.space in ("untrained", "random"):
        # recovered features, or what takes their place, enter its blocks
        random = variant.space == "random"
        entering = network.wide.in_features if random or objective.features else 0
        painter = ImagePrior(
            bench.generator(2), side=bench.side, width=bench.painter, features=entering
        )
        space = UntrainedSpace.draw(painter, batches.labels.shape[1], bench.generator(3))
        if random:
            shape = (*batches.labels.shape, entering)
            drawn = torch.randn(shape, generator=bench.generator(6), device=bench.device)
            space = replace(space, features=drawn)
        rate = prior_rate(shared["iterations"])
        shared |= {"space": space, "signed": False, "learning_rate": rate}
    return proposed_attack(
        network,
        released,
        knowledge,
        kept=kept,
        neurons=bench.random_neurons,
        match=variant.match or None,
        **shared,
    )


@functools.lru_cache(maxsize=2)
def _latents(bench: Bench) -> LatentSpace:
    """A decoder trained on auxiliary pictures, in place of a pretrained generator."""
    decoder = Decoder(bench.generator(4), side=bench.side)
    known = train_decoder(
        decoder, bench.others()[0], generator=bench.generator(5), steps=bench.decoder_steps
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


def _distances(bench: Bench, targets: np.ndarray, images: np.ndarray) -> dict[str, np.ndarray]:
    """Perceptual distances; pixels are repeated to the side that these need."""
    times = -(-LEAST_SIDE // targets.shape[1])
    pair = [pictures.repeat(times, axis=1).repeat(times, axis=2) for pictures in (targets, images)]
    metrics = perceptual_metrics(bench.device, bench.data_root)
    return {name: metric(*pair) for name, metric in metrics.items()}

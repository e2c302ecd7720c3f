"""One grid of attacks on clients' updates, which the exhibits of Liu et al. and our own share.

A cell is an attack on one defence at one strength and batch size, oblivious of the defence or aware
of it. A task of the sweep is one attack at one batch size under a fixed group of settings, all of
whose problems are optimised together. The tasks do not depend on the cells that an exhibit needs,
so that exhibits share results.
"""

import dataclasses
import functools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, Self

import numpy as np
import pandas as pd
import torch
from torch import nn

from companion.experiments.clients import (
    Batches,
    Setting,
    draw_batches,
    make_network,
    pictures,
    pixel_search,
    printed_settings,
    prior_rate,
    seed_generator,
    shared_values,
)
from companion.experiments.tools import as_numpy, keep_searches, kept_search
from companion.study import Context, Parameter
from reconrisk import arguments
from reconrisk.attacks import (
    PROPOSED,
    Inversion,
    KeptSearch,
    Knowledge,
    analytic_attack,
    component_attack,
    imprint_attack,
    imprint_thresholds,
    invert_updates,
    proposed_attack,
)
from reconrisk.attacks.image_priors import UntrainedSpace
from reconrisk.convnets import ImagePrior, ImprintNetwork, WideHead
from reconrisk.mechanisms import Released
from reconrisk.metrics import match, psnr, rmse
from reconrisk.training import client_updates

#: by name; "w/o FM" is "Ours" without feature matching, as Table 8 has it
ATTACKS = ("Ours", "w/o FM", "GradientInversion", "CPA", "Robbing The Fed", "Analytic")
#: these insert a layer of their own instead of inverting the network
MANIPULATING = ("Robbing The Fed", "Analytic")
#: guesses without an attack
BASELINES = ("grey", "mean image")
#: pictures of the first batch that are kept for figures
SHOWN = 4
#: what inversions search: pixels, or the weights of an untrained network
SPACES = ("pixels", "untrained network")

#: what all cells share; exhibits with equal values share their runs
GRID = {
    "data": Parameter("str", "patches", "CIFAR-10", "CIFAR-10", "labelled data set of pictures"),
    "side": Parameter("int", 8, 32, "32", "pixels a side: 8, 16 or 32", 8, stand_in=True),
    "images": Parameter("int", 8, 50, "50, stratified", "private pictures", low=2),
    "network": Parameter(
        "str", "ConvNet", "ResNet-18", "ResNet-18", "ConvNet or ResNet-18", stand_in=True
    ),
    "channels": Parameter(
        "int", 16, 0, "64", "of the first stage; 0 for 64 (ConvNet: 16)", low=0, stand_in=True
    ),
    "wide": Parameter(
        "int",
        256,
        0,
        "16,384",
        "neurons of the extra layer; 0 for 16,384 (ConvNet: six for each feature)",
        low=0,
        stand_in=True,
    ),
    "trained_neurons": Parameter(
        "int",
        64,
        0,
        "2,048; also 4,096",
        "of these, how many keep ordinary weights; the others have weights from which features are "
        "recovered; 0 for the network's own number (2,048; ConvNet: one for each feature)",
        low=0,
    ),
    "bins": Parameter("int", 64, 100, "not printed", "neurons of Robbing the Fed's layer", low=2),
    "iterations": Parameter("int", 80, 10_000, "10,000", "of each attack", low=8),
    "weighting": Parameter(
        "str",
        "count",
        "count",
        "a norm of the parameters, its index not legible",
        "weights of the layers' cosines in the proposed attack: count of their entries, or norm",
    ),
    "space": Parameter(
        "str",
        "pixels",
        "untrained network",
        "untrained network",
        "that the attack searches",
    ),
    "grouped": Parameter(
        "int", 0, 1, "not printed", "settings in one task at most (0: all); changes rounding", low=0
    ),
}


@functools.cache
def all_settings() -> tuple[Setting, ...]:
    """Every defence and strength of Tables 4, 7 and 8, none first."""
    found = [s for table in ("table7", "table4") for s in printed_settings(table)]
    return tuple(dict.fromkeys(found))


@dataclass(frozen=True)
class Grid:
    """What all cells share: the values of :data:`GRID`, where the data are, and the seeds.

    There are ``images // n`` batches of n, nested. A zero in ``channels``, ``wide`` or
    ``trained_neurons`` stands for the network's own number.
    """

    data: str
    data_root: str
    side: int
    images: int
    network: str
    channels: int
    wide: int
    trained_neurons: int
    bins: int
    iterations: int
    weighting: str
    space: str
    grouped: int
    selection_seed: int
    network_seed: int
    noise_seed: int
    start_seed: int
    device: str = "cpu"

    def __post_init__(self) -> None:
        arguments.one_of("space", self.space, SPACES)

    @classmethod
    def of(cls, study: Context) -> Self:
        """The grid of an exhibit whose parameters include :data:`GRID`.

        Exhibits with equal parameters get equal grids, whatever their names.
        """
        return cls(**shared_values(cls, study, "grid"))

    def generator(self, seed: int, *key: int) -> torch.Generator:
        """A generator for one purpose."""
        return seed_generator(seed, *key, device=self.device)


# Asking for cells --------------------------------------------------------------------------------


def run_grid(
    study: Context,
    attacks: Sequence[str],
    settings: Sequence[Setting],
    batch_sizes: Sequence[int],
    *,
    aware: Sequence[bool] = (False,),
    grid: Grid | None = None,
) -> pd.DataFrame:
    """Run attacks and measure their errors, each cell once in a process.

    Parameters
    ----------
    study : Context
    attacks : sequence of str
        Of :data:`ATTACKS`.
    settings : sequence of Setting
        Of :func:`all_settings`.
    batch_sizes : sequence of int
    aware : sequence of bool
        Whether the attacker takes the defence into account.
    grid : Grid, optional
        By default ``Grid.of(study)``.

    Returns
    -------
    DataFrame
        One row per picture: ``attack``, ``defence``, ``strength``, ``setting`` (its title),
        ``batch size``, ``aware``, ``batch``, ``picture`` (within its batch), ``number`` (of the
        private picture, the same at every batch size), ``RMSE``, ``PSNR`` (range one), and of the
        batch ``gradient norm`` and ``relative noise``, the norm of the change by the defence over
        that norm.
    """
    grid = Grid.of(study) if grid is None else grid
    unknown = set(attacks) - set(ATTACKS) | set(settings) - set(all_settings())
    if unknown:
        raise ValueError(f"attacks and settings must be of the grid; got {unknown!r}")
    cells = list(product(batch_sizes, settings, attacks, aware))
    found = zip(_measure(study, grid, cells), cells, strict=True)
    return pd.concat([_rows(values, *cell) for values, cell in found], ignore_index=True)


def rebuild_pictures(
    study: Context,
    attack: str,
    setting: Setting,
    batch_size: int,
    *,
    aware: bool = False,
    grid: Grid | None = None,
) -> np.ndarray:
    """Reconstructions of the first batch's first pictures, (k, side, side, 3), k <= 4."""
    grid = Grid.of(study) if grid is None else grid
    (values,) = _measure(study, grid, [(batch_size, setting, attack, aware)])
    return values["pictures"]


def originals(grid: Grid, batch_size: int) -> np.ndarray:
    """The private pictures of every batch, (batches, n, side, side, 3)."""
    return as_numpy(batches_of(grid, batch_size).images.movedim(2, -1))


def baselines(grid: Grid) -> pd.DataFrame:
    """``attack``, ``number``, RMSE and PSNR of guesses without a gradient, as :func:`run_grid`.

    The mean image is that of all of the data set's pictures.
    """
    images, _ = pictures(grid.data, grid.data_root, grid.side)
    drawn = batches_of(grid, 1).images[:, 0]
    guesses = (torch.full_like(drawn[0], 0.5), images.double().mean(dim=0).float())
    parts = []
    for name, guess in zip(BASELINES, guesses, strict=True):
        errors, decibels = _errors(drawn.cpu(), guess.expand_as(drawn).cpu())
        values = {"number": range(len(errors)), "RMSE": errors, "PSNR": decibels}
        parts.append(pd.DataFrame({"attack": name, **values}))
    return pd.concat(parts, ignore_index=True)


#: batch size, setting, attack and whether it is aware of the defence
Cell = tuple[int, Setting, str, bool]


def _rows(
    values: Mapping[str, np.ndarray], n: int, setting: Setting, attack: str, aware: bool
) -> pd.DataFrame:
    errors = values["RMSE"]
    batch, picture = np.divmod(np.arange(errors.size), n)
    return pd.DataFrame(
        {
            "attack": attack,
            "defence": setting.defence,
            "strength": setting.strength,
            "setting": setting.title,
            "batch size": n,
            "aware": aware,
            "batch": batch,
            "picture": picture,
            "number": np.arange(errors.size),
            "RMSE": errors.ravel(),
            "PSNR": values["PSNR"].ravel(),
            "gradient norm": np.repeat(values["gradient norm"], n),
            "relative noise": np.repeat(values["relative noise"], n),
        }
    )


def _measure(study: Context, grid: Grid, cells: Sequence[Cell]) -> Iterator[dict[str, np.ndarray]]:
    """The measurements of each cell, out of those of its task."""
    homes = [_home(grid.grouped, *cell) for cell in cells]
    keys = list(dict.fromkeys(key for key, _ in homes))
    tasks = [
        {
            "grid": dataclasses.asdict(grid),
            "attack": attack,
            "batch_size": batch_size,
            "aware": aware,
            "settings": [[s.defence, s.strength] for s in group],
            **keep_searches(study),
        }
        for batch_size, group, attack, aware in keys
    ]
    rows = study.sweep(attack_clients, tasks, "attacking clients")
    by_key = dict(zip(keys, rows, strict=True))
    for key, place in homes:
        yield {name: np.asarray(values[place]) for name, values in by_key[key].items()}


def _home(
    grouped: int, batch_size: int, setting: Setting, attack: str, aware: bool
) -> tuple[tuple[int, tuple[Setting, ...], str, bool], int]:
    """What tells a cell's task from others, and the cell's place there."""
    # inversions can use what a defence shows: nothing under clipping and noise
    shows = setting.defence in ("GradDrop", "GradPrune", "LocalAggregation")
    aware = aware and attack != "Analytic" and (shows or attack in MANIPULATING)
    group = _group(grouped, attack, setting, aware)
    return (batch_size, group, attack, aware), group.index(setting)


@functools.cache
def _group(grouped: int, attack: str, setting: Setting, aware: bool) -> tuple[Setting, ...]:
    """The settings that are attacked together with a given one."""
    together = list(all_settings())
    if aware and attack not in MANIPULATING:
        # each number of local steps has another update function
        if setting.defence == "LocalAggregation":
            return (setting,)
        together = [s for s in together if s.defence in ("GradDrop", "GradPrune")]
    size = grouped or len(together)
    first = together.index(setting) // size * size
    return tuple(together[first : first + size])


def attack_clients(task: dict[str, Any]) -> dict[str, Any]:
    """Attack all batches of one size under some settings.

    Parameters
    ----------
    task : dict
        ``grid`` (a :class:`Grid` as a dict, whose seeds attacks share), ``attack``,
        ``batch_size``, ``aware`` and ``settings``, pairs of defence and strength.

    Returns
    -------
    dict
        By setting and batch: ``"RMSE"``, ``"PSNR"`` (of each picture), ``"gradient norm"`` (before
        the defence), ``"relative noise"``; and ``"pictures"`` by setting, of the first batch.
    """
    grid = Grid(**task["grid"])
    settings = [Setting(*pair) for pair in task["settings"]]
    batches = batches_of(grid, task["batch_size"])
    network = _list_manipulated(grid) if task["attack"] in MANIPULATING else network_of(grid)
    kept = kept_search(task)
    which = grid, task["attack"], network, batches, settings
    found = attack_network(*which, aware=bool(task["aware"]), kept=kept)
    if kept:
        kept.remove()
    return found


def attack_network(
    grid: Grid,
    attack: str,
    network: nn.Module,
    batches: Batches,
    settings: Sequence[Setting],
    *,
    aware: bool = False,
    kept: KeptSearch | None = None,
) -> dict[str, Any]:
    """Attack a given network's updates; returns what :func:`attack_clients` does.

    Parameters
    ----------
    grid : Grid
        Of which the objective's weights, the iterations and the seeds are used.
    attack : str
        Of :data:`ATTACKS`.
    network : Module
        The clients' network: a :class:`~reconrisk.convnets.WideHead`, or the imprint module of the
        :data:`MANIPULATING` attacks.
    batches : Batches
    settings : sequence of Setting
        Attacked together; for an aware attacker, all with one kind of knowledge.
    aware : bool
    kept : KeptSearch, optional
        Where inversions are kept while they run.
    """
    plain = updates_of(grid, network, batches, Setting("None"))
    released = [updates_of(grid, network, batches, setting) for setting in settings]
    inversion = _attack(grid, attack, network, batches, settings, released, aware, kept)
    shape = (len(settings), *batches.images.shape)
    targets = batches.images.expand(shape)
    found = inversion.inputs.view(shape)
    if attack in MANIPULATING:
        found = _match(targets, found)
    errors, decibels = _errors(targets, found)
    norm = _norms(plain.gradient)
    changes = [
        _norms({name: g - plain.gradient[name] for name, g in r.gradient.items()}) / norm
        for r in released
    ]
    return {
        "RMSE": errors,
        "PSNR": decibels,
        "gradient norm": as_numpy(norm.expand(len(settings), -1)),
        "relative noise": as_numpy(torch.stack(changes)),
        "pictures": np.round(as_numpy(found[:, 0, :SHOWN].movedim(2, -1)), 4),
    }


def batches_of(grid: Grid, size: int) -> Batches:
    """The private pictures in batches of one size, on the grid's device."""
    images, labels = pictures(grid.data, grid.data_root, grid.side)
    rng = np.random.default_rng(grid.selection_seed)
    drawn = draw_batches(images, labels, grid.images // size, size, rng)
    return Batches(drawn.images.to(grid.device), drawn.labels.to(grid.device))


def network_of(grid: Grid, *, random: bool = True) -> WideHead:
    """The attacked network, untrained.

    If ``random``, its last neurons have weights from which features are recovered; otherwise it can
    be trained.
    """
    channels, wide, random_neurons = _sizes(grid)
    return make_network(
        grid.network,
        grid.generator(grid.network_seed),
        side=grid.side,
        channels=channels,
        wide=wide,
        random_neurons=random_neurons if random else 0,
        activation="relu" if grid.network == "ResNet-18" else "elu",
    )


def _sizes(grid: Grid) -> tuple[int, int, int]:
    """Channels of the first stage, the wide layer's neurons and how many of them are random.

    Appendix F has 64, 16,384 and all but 2,048. The small network's wide layer has, for each
    feature, as many neurons as moments need, and one with ordinary weights.
    """
    channels, wide, trained = grid.channels or 64, 16_384, 2048
    if grid.network == "ConvNet":
        channels = grid.channels or 16
        trained = 2 * channels * (grid.side // 8) ** 2
        wide = 6 * trained
    wide = grid.wide or wide
    return channels, wide, max(1, wide - (grid.trained_neurons or trained))


def _list_manipulated(grid: Grid) -> ImprintNetwork:
    """Robbing the Fed's layer, with thresholds from the data set's pictures."""
    images, _ = pictures(grid.data, grid.data_root, grid.side)
    records = images.flatten(1).to(grid.device)
    measurement = torch.full_like(records[0], 1 / records.shape[1])
    return ImprintNetwork(measurement, imprint_thresholds(records @ measurement, grid.bins))


def updates_of(grid: Grid, network: nn.Module, batches: Batches, setting: Setting) -> Released:
    """What the server sees; all strengths of one defence share their random numbers."""
    names = sorted({s.defence for s in all_settings()})
    key = (names.index(setting.defence), batches.labels.shape[1])
    return client_updates(
        network,
        batches.images,
        batches.labels,
        setting.parts,
        generator=grid.generator(grid.noise_seed, *key),
        block=None if grid.device == "cpu" else 8,
    )


def _attack(
    grid: Grid,
    name: str,
    network: nn.Module,
    batches: Batches,
    settings: Sequence[Setting],
    released: Sequence[Released],
    aware: bool,
    kept: KeptSearch | None,
) -> Inversion:
    """Reconstructions (settings times batches, n, ...) by one attack."""
    labels = batches.labels
    shape = tuple(batches.images.shape[2:])
    generator = grid.generator(grid.start_seed, labels.shape[1])
    if name in MANIPULATING:
        knowledge = Knowledge(labels, shape, aware=aware)
        if name == "Analytic":
            parts = [analytic_attack(network, r, knowledge) for r in released]
        else:
            noises = [s.strength if aware and s.defence == "GradNoise" else 0.0 for s in settings]
            parts = [
                imprint_attack(network, r, knowledge, noise_std=noise)
                for r, noise in zip(released, noises, strict=True)
            ]
        return Inversion(torch.cat([p.inputs for p in parts]), torch.cat([p.loss for p in parts]))
    assert isinstance(network, WideHead)
    knowledge = Knowledge(
        labels.repeat(len(settings), 1),
        shape,
        aware=aware,
        statistics=_statistics(network, batches, len(settings)),
    )
    together = _join(released, aware)
    start = torch.rand(batches.images.shape, generator=generator, device=grid.device)
    return _invert(grid, name, network, together, knowledge, start, generator, kept)


def _join(released: Sequence[Released], aware: bool) -> Released:
    """Updates under several settings as one; an oblivious attacker needs the gradients only."""

    def joined(parts: Sequence[Mapping[str, torch.Tensor]]) -> dict[str, torch.Tensor]:
        return {name: torch.cat([part[name] for part in parts]) for name in parts[0]}

    gradient = joined([r.gradient for r in released])
    if not aware:
        return Released(gradient)
    visible = [r.visible for r in released if r.visible is not None]
    return Released(gradient, visible=joined(visible) if visible else None, local=released[0].local)


@torch.no_grad()
def _statistics(
    network: WideHead, batches: Batches, times: int
) -> tuple[tuple[torch.Tensor, torch.Tensor], ...]:
    """Means and variances at every batch norm, of each private batch, as Section 5.1 has it."""
    seen = [network(images, trace=True).statistics for images in batches.images]
    return tuple(
        (
            torch.stack([s[layer][0] for s in seen]).repeat(times, 1),
            torch.stack([s[layer][1] for s in seen]).repeat(times, 1),
        )
        for layer in range(len(seen[0]))
    )


# Attacks that invert the network -----------------------------------------------------------------


def _invert(
    grid: Grid,
    name: str,
    network: WideHead,
    released: Released,
    knowledge: Knowledge,
    start: torch.Tensor,
    generator: torch.Generator,
    kept: KeptSearch | None,
) -> Inversion:
    """Run one of the attacks that minimise the distance of gradients.

    All settings and attacks start alike, at the pictures ``start`` (batches, n, ...) or at as many
    first weights: the start explains no difference.
    """
    batches = len(start)
    start = start.repeat(len(knowledge.labels) // batches, 1, 1, 1, 1)
    ours = replace(PROPOSED, weighting=grid.weighting)
    given = {"generator": generator, "iterations": grid.iterations, "kept": kept}
    if grid.space == "pixels" or name == "GradientInversion":
        given |= pixel_search(grid.iterations)
    if name == "GradientInversion":
        objective = replace(ours, weighting="joint", features=0.0)
        return invert_updates(
            network, released, knowledge, objective=objective, start=start, **given
        )
    if grid.space == "pixels":
        given["start"] = start
    else:
        # the paper's attack searches the weights of an untrained network
        count, entering = knowledge.labels.shape[1], network.wide.in_features
        drawn = grid.generator(grid.start_seed, count, 1)
        painter = ImagePrior(drawn, side=grid.side, width=_sizes(grid)[0], features=entering)
        space = UntrainedSpace.draw(painter, count, drawn)
        # further inputs make a better prior, whatever enters: random vectors do where features do
        # not, so that no attack leads by them
        vectors = torch.randn((1, count, entering), generator=drawn, device=grid.device)
        given |= {
            "space": replace(space, features=vectors, distinct=batches),
            "learning_rate": prior_rate(grid.iterations),
            "signed": False,
        }
    if name == "CPA":
        # Appendix G: the paper's own attack with these features in place of its own
        theirs = replace(ours, feature_width=0.0)
        return component_attack(network, released, knowledge, objective=theirs, **given)
    return proposed_attack(
        network,
        released if knowledge.aware else Released(released.gradient),
        knowledge,
        neurons=_sizes(grid)[2],
        objective=ours if name == "Ours" else replace(ours, features=0.0),
        **given,
    )


# Errors ------------------------------------------------------------------------------------------


def _match(targets: torch.Tensor, found: torch.Tensor) -> torch.Tensor:
    """Reconstructions (settings, batches, n, ...) in the order of least squared error."""
    flat = as_numpy(found.flatten(3))
    ordered = match(as_numpy(targets.flatten(3)), flat).apply(flat)
    return torch.from_numpy(ordered).view(found.shape)


def _errors(targets: torch.Tensor, found: torch.Tensor) -> tuple[np.ndarray, np.ndarray]:
    """RMSE and PSNR of pictures (..., 3, side, side) in [0, 1]."""
    x, y = (as_numpy(t.flatten(-3)) for t in (targets, found))
    return rmse(x, y), psnr(x, y, 1.0)


def _norms(gradient: Mapping[str, torch.Tensor]) -> torch.Tensor:
    """Euclidean norms over all entries, shape (P,)."""
    squares = [g.flatten(1).double().square().sum(dim=1) for g in gradient.values()]
    return torch.stack(squares).sum(dim=0).sqrt()

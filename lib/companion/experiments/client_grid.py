"""One grid of attacks on clients' updates, which the exhibits of Liu et al. and our own share.

A cell is an attack on one defence at one strength and batch size, oblivious of the defence or aware
of it. A task of the sweep is one attack at one batch size under a canonical group of settings, all
of whose problems descend together; which cells an exhibit asks for changes no task, so that
exhibits share their results, and within one process get them from memory.
"""

import dataclasses
import functools
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
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
    printed_settings,
    seeded,
    shared_values,
)
from companion.experiments.tools import as_numpy
from companion.study import Context, Parameter
from reconrisk.attacks import (
    PROPOSED,
    Inversion,
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
from reconrisk.mechanisms import LocalAggregation, Released
from reconrisk.metrics import match, psnr, rmse
from reconrisk.training import client_updates

__all__ = [
    "ATTACKS",
    "BASELINES",
    "GRID",
    "MANIPULATING",
    "Grid",
    "all_settings",
    "attack_clients",
    "attack_network",
    "baselines",
    "batches_of",
    "network_of",
    "originals",
    "rebuilt",
    "run_grid",
    "updates_of",
]

#: by name; "w/o FM" is "Ours" without feature matching, as Table 8 has it
ATTACKS = ("Ours", "w/o FM", "GradientInversion", "CPA", "Robbing The Fed", "Analytic")
#: these put a layer of their own in front and invert no network
MANIPULATING = ("Robbing The Fed", "Analytic")
#: what one who attacks nothing may print
BASELINES = ("grey", "mean image")
#: pictures of the first batch that are kept for figures
SHOWN = 4

#: everything that the cells of the grid of attacks share; exhibits with these and equal values
#: share their runs
GRID = {
    "data": Parameter("str", "patches", "CIFAR-10", "CIFAR-10", "labelled data set of pictures"),
    "side": Parameter("int", 8, 32, "32", "pixels a side: 8, 16 or 32", 8, stand_in=True),
    "images": Parameter("int", 8, 50, "50, stratified", "private pictures", low=2),
    "network": Parameter(
        "str",
        "ConvNet",
        "ResNet-18",
        "ResNet-18",
        "attacked network: ConvNet or ResNet-18",
        stand_in=True,
    ),
    "channels": Parameter(
        "int",
        16,
        0,
        "64",
        "of the first stage; 0 for the network's own (64, ConvNet 16)",
        low=0,
        stand_in=True,
    ),
    "wide": Parameter(
        "int",
        256,
        0,
        "16,384",
        "neurons of the extra layer; 0 for the network's own (16,384; ConvNet: six a feature)",
        low=0,
        stand_in=True,
    ),
    "trained_neurons": Parameter(
        "int",
        64,
        0,
        "2,048; also 4,096",
        "of these, how many keep ordinary weights; the others get those that features are "
        "recovered from; 0 for the network's own number (2,048; ConvNet: one for each feature)",
        low=0,
    ),
    "bins": Parameter("int", 64, 100, "not printed", "neurons of Robbing the Fed's layer", low=2),
    "iterations": Parameter("int", 200, 10_000, "10,000", "of each attack", low=8),
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
        "where the proposed attack seeks images: pixels or untrained network",
    ),
    "grouped": Parameter(
        "int",
        0,
        1,
        "not printed",
        "settings attacked in one task at most; 0 for all. Changes rounding only",
        low=0,
    ),
}


@functools.cache
def all_settings() -> tuple[Setting, ...]:
    """Every defence and strength of Tables 4, 7 and 8, none first."""
    found = [s for table in ("table7", "table4") for s in printed_settings(table)]
    return tuple(dict.fromkeys(found))


@dataclass(frozen=True)
class Grid:
    """What is attacked and how long: everything that all cells share.

    Attributes
    ----------
    data : {"patches", "CIFAR-10"}
    data_root : str
    side : int
        Of the pictures.
    images : int
        Private pictures; batches of n are ``images // n``, nested.
    network : {"ConvNet", "ResNet-18"}
    channels, wide, trained_neurons : int
        Of the network (:func:`~companion.experiments.clients.make_network`), zero for its own; of
        the wide layer's neurons, all but ``trained_neurons`` get the weights that give features
        away.
    bins : int
        Neurons of the layer in front of :data:`MANIPULATING` attacks.
    iterations : int
    weighting : str
        Of the paper's attack, as :class:`~reconrisk.attacks.Objective` names it.
    space : {"pixels", "untrained network"}
        Where the paper's attack seeks images.
    grouped : int
        Settings attacked in one task at most; 0 for as many as can be.
    selection_seed, network_seed, noise_seed, start_seed : int
        Of everything random. No computed number is among them.
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

    @classmethod
    def of(cls, study: Context) -> Self:
        """The grid of an exhibit whose parameters include :data:`GRID`.

        Exhibits with equal parameters get equal grids, whatever their names.
        """
        return cls(**shared_values(cls, study, "grid"))

    def generator(self, seed: int, *key: int) -> torch.Generator:
        """A generator for one purpose."""
        return seeded(seed, *key, device=self.device)


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
    """Attack and judge, each cell once in a process.

    Parameters
    ----------
    study : Context
        Workers, checkpoints and the sweep's seed.
    attacks : sequence of str
        Of :data:`ATTACKS`.
    settings : sequence of Setting
        Of :func:`all_settings`.
    batch_sizes : sequence of int
        n.
    aware : sequence of bool
        Readings: whether the attacker allows for the defence.
    grid : Grid, optional
        By default ``Grid.of(study)``.

    Returns
    -------
    DataFrame
        One row per picture, in the order of the arguments: ``attack``, ``defence``, ``strength``,
        ``setting`` (its title), ``batch size``, ``aware``, ``batch``, ``picture`` (within its
        batch), ``number`` (of the private picture, the same at every batch size), ``RMSE``,
        ``PSNR`` (range one), and of the batch ``gradient norm`` and ``relative noise``, the norm
        of what the defence changed over that norm.
    """
    grid = Grid.of(study) if grid is None else grid
    unknown = set(attacks) - set(ATTACKS) | set(settings) - set(all_settings())
    if unknown:
        raise ValueError(f"attacks and settings must be of the grid; got {unknown!r}")
    results = _swept(study, grid, attacks, settings, batch_sizes, aware)
    parts = []
    for n in batch_sizes:
        for setting in settings:
            for attack in attacks:
                for reading in aware:
                    task, place = _home(grid, attack, n, setting, reading)
                    parts.append(_rows(results[_text(task)], place, attack, n, setting, reading))
    return pd.concat(parts, ignore_index=True)


def rebuilt(
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
    results = _swept(study, grid, [attack], [setting], [batch_size], [aware])
    task, place = _home(grid, attack, batch_size, setting, aware)
    return np.asarray(results[_text(task)]["pictures"][place])


def originals(grid: Grid, batch_size: int) -> np.ndarray:
    """The private pictures of every batch, (batches, n, side, side, 3)."""
    return as_numpy(batches_of(grid, batch_size).images.movedim(2, -1))


def baselines(grid: Grid) -> pd.DataFrame:
    """RMSE and PSNR of pictures that take no gradient: columns of :func:`run_grid` that make sense.

    The mean image is that of all of the data set's pictures.
    """
    images, _ = pictures(grid.data, grid.data_root, grid.side)
    drawn = batches_of(grid, 1).images[:, 0]
    guesses = (torch.full_like(drawn[0], 0.5), images.double().mean(dim=0).float())
    rows = []
    for name, guess in zip(BASELINES, guesses, strict=True):
        errors, decibels = _errors(drawn.cpu(), guess.expand_as(drawn).cpu())
        for number, (error, decibel) in enumerate(zip(errors, decibels, strict=True)):
            rows.append({"attack": name, "number": number, "RMSE": error, "PSNR": decibel})
    return pd.DataFrame(rows)


def _rows(
    result: Mapping[str, Any], place: int, attack: str, n: int, setting: Setting, aware: bool
) -> pd.DataFrame:
    errors = np.asarray(result["RMSE"][place])
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
            "PSNR": np.asarray(result["PSNR"][place]).ravel(),
            "gradient norm": np.repeat(result["gradient norm"][place], n),
            "relative noise": np.repeat(result["relative noise"][place], n),
        }
    )


def _swept(
    study: Context,
    grid: Grid,
    attacks: Iterable[str],
    settings: Iterable[Setting],
    batch_sizes: Iterable[int],
    aware: Iterable[bool],
) -> Mapping[str, dict[str, Any]]:
    """Results by task's text, of this and earlier calls."""
    settings, batch_sizes, aware = list(settings), list(batch_sizes), list(aware)
    wanted = [
        _text(_home(grid, attack, n, setting, reading)[0])
        for n in batch_sizes
        for attack in attacks
        for setting in settings
        for reading in aware
    ]
    tasks = [json.loads(text) for text in dict.fromkeys(wanted)]
    rows = study.sweep(attack_clients, tasks, "attacking clients")
    return dict(zip(map(_text, tasks), rows, strict=True))


def _home(
    grid: Grid, attack: str, batch_size: int, setting: Setting, aware: bool
) -> tuple[dict[str, Any], int]:
    """The task that a cell belongs to, and its place there."""
    # who inverts a network allows for what shows: nothing under clipping and noise
    if attack not in MANIPULATING:
        aware = aware and setting.defence in ("GradDrop", "GradPrune", "LocalAggregation")
    if attack == "Analytic":
        aware = False
    group = _group(grid.grouped, attack, setting, aware)
    task = {
        "grid": dataclasses.asdict(grid),
        "attack": attack,
        "batch_size": batch_size,
        "aware": aware,
        "settings": [[s.defence, s.strength] for s in group],
    }
    return task, group.index(setting)


@functools.cache
def _group(grouped: int, attack: str, setting: Setting, aware: bool) -> tuple[Setting, ...]:
    """The settings that are attacked together with one."""
    together = list(all_settings())
    if aware and attack not in MANIPULATING:
        if (
            setting.defence == "LocalAggregation"
        ):  # another update function for each number of steps
            return (setting,)
        together = [s for s in together if s.defence in ("GradDrop", "GradPrune")]
    size = grouped or len(together)
    first = together.index(setting) // size * size
    return tuple(together[first : first + size])


def _text(task: Mapping[str, Any]) -> str:
    return json.dumps(task, sort_keys=True)


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
    network = _manipulated(grid) if task["attack"] in MANIPULATING else network_of(grid)
    return attack_network(
        grid, task["attack"], network, batches, settings, aware=bool(task["aware"])
    )


def attack_network(
    grid: Grid,
    attack: str,
    network: nn.Module,
    batches: Batches,
    settings: Sequence[Setting],
    *,
    aware: bool = False,
) -> dict[str, Any]:
    """Attack a given network's updates; returns what :func:`attack_clients` does.

    Parameters
    ----------
    grid : Grid
        Whose weights of the objective, iterations and seeds are used.
    attack : str
        Of :data:`ATTACKS`.
    network : Module
        The clients' network: a :class:`~reconrisk.convnets.WideHead`, or the imprint module of the
        :data:`MANIPULATING` attacks.
    batches : Batches
    settings : sequence of Setting
        Attacked together; for an aware attacker, all with one kind of knowledge.
    aware : bool
    """
    plain = updates_of(grid, network, batches, Setting("None"))
    released = [updates_of(grid, network, batches, setting) for setting in settings]
    inversion = _attacked(grid, attack, network, batches, settings, released, aware)
    shape = (len(settings), *batches.images.shape)
    targets = batches.images.expand(shape)
    found = inversion.inputs.view(shape)
    if attack in MANIPULATING:
        found = _matched(targets, found)
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

    Parameters
    ----------
    grid : Grid
    random : bool
        Whether its last neurons have the weights that give features away; False leaves a network
        that can be trained.
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

    Appendix F has 64, 16,384 and all but 2,048. The small network's wide layer has as many neurons
    for each feature as moments need, and one with ordinary weights.
    """
    own, wide, trained = 64, 16_384, 2048
    if grid.network == "ConvNet":
        own = 16
        trained = 2 * (grid.channels or own) * (grid.side // 8) ** 2
        wide = 6 * trained
    wide = grid.wide or wide
    return grid.channels or own, wide, max(1, wide - (grid.trained_neurons or trained))


def _manipulated(grid: Grid) -> ImprintNetwork:
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


def _attacked(
    grid: Grid,
    name: str,
    network: nn.Module,
    batches: Batches,
    settings: Sequence[Setting],
    released: Sequence[Released],
    aware: bool,
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
            parts = [
                imprint_attack(network, r, knowledge, noise_std=_noise(s) if aware else 0.0)
                for s, r in zip(settings, released, strict=True)
            ]
        return Inversion(torch.cat([p.inputs for p in parts]), torch.cat([p.loss for p in parts]))
    assert isinstance(network, WideHead)
    knowledge = Knowledge(
        labels.repeat(len(settings), 1),
        shape,
        aware=aware,
        statistics=_statistics(network, batches, len(settings)),
    )
    together = _joined(released, aware)
    start = torch.rand(batches.images.shape, generator=generator, device=grid.device)
    # all settings and attacks begin with the same pictures: what differs is then not the start
    start = start.repeat(len(settings), 1, 1, 1, 1)
    return _invert(grid, name, network, together, knowledge, start, generator)


def _noise(setting: Setting) -> float:
    return setting.strength if setting.defence == "GradNoise" else 0.0


def _joined(released: Sequence[Released], aware: bool) -> Released:
    """Updates under several settings as one; an oblivious attacker needs the gradients only."""
    gradient = {
        name: torch.cat([r.gradient[name] for r in released]) for name in released[0].gradient
    }
    local: LocalAggregation | None = released[0].local if aware else None
    if not aware or released[0].visible is None:
        return Released(gradient, local=local)
    visible = {
        name: torch.cat([r.visible[name] for r in released if r.visible is not None])
        for name in gradient
    }
    return Released(gradient, visible=visible, local=local)


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

#: learning rate of Adam on the untrained network's weights (Appendix F)
PRIOR_RATE = 1e-5


def _invert(
    grid: Grid,
    name: str,
    network: WideHead,
    released: Released,
    knowledge: Knowledge,
    start: torch.Tensor,
    generator: torch.Generator,
) -> Inversion:
    """Run one of the attacks that descend the distance of gradients."""
    ours = replace(PROPOSED, weighting=grid.weighting)
    given = {"generator": generator, "iterations": grid.iterations}
    if name == "GradientInversion":
        objective = replace(ours, weighting="joint", features=0.0)
        return invert_updates(
            network, released, knowledge, objective=objective, start=start, **given
        )
    given |= (
        {"start": start} if grid.space == "pixels" else _searched(grid, knowledge.labels.shape[1])
    )
    if name == "CPA":
        # Appendix G: the paper's own attack with these features in place of its own
        return component_attack(network, released, knowledge, objective=ours, **given)
    return proposed_attack(
        network,
        released if knowledge.aware else Released(released.gradient),
        knowledge,
        neurons=_sizes(grid)[2],
        objective=ours if name == "Ours" else replace(ours, features=0.0),
        **given,
    )


def _searched(grid: Grid, count: int) -> dict[str, Any]:
    """The weights of the untrained network in which the paper's attack seeks images."""
    generator = grid.generator(grid.start_seed, count, 1)
    prior = ImagePrior(generator, side=grid.side)
    space = UntrainedSpace.draw(prior, count, generator)
    return {"space": space, "learning_rate": PRIOR_RATE, "signed": False}


# Errors ------------------------------------------------------------------------------------------


def _matched(targets: torch.Tensor, found: torch.Tensor) -> torch.Tensor:
    """Reconstructions (settings, batches, n, ...) in the order of least squared error."""
    matching = match(as_numpy(targets.flatten(3)), as_numpy(found.flatten(3)))
    ordered = matching.apply(as_numpy(found.flatten(3)))
    return torch.from_numpy(ordered).view(found.shape)


def _errors(targets: torch.Tensor, found: torch.Tensor) -> tuple[np.ndarray, np.ndarray]:
    """RMSE and PSNR of pictures (..., 3, side, side) in [0, 1]."""
    x, y = (as_numpy(t.flatten(-3)) for t in (targets, found))
    return rmse(x, y), psnr(x, y, 1.0)


def _norms(gradient: Mapping[str, torch.Tensor]) -> torch.Tensor:
    """Euclidean norms over all entries, shape (P,)."""
    return (
        torch.stack([g.flatten(1).double().square().sum(dim=1) for g in gradient.values()])
        .sum(dim=0)
        .sqrt()
    )

"""What each defence hides from gradient descent, and what it removes.

On a network small enough for its Jacobian, least squares and bounds tell them apart.
"""

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from companion.exhibit import *
from companion.exhibit import DEFENCES
from companion.experiments import client_grid
from companion.experiments.clients import Setting, pictures
from companion.papers.beyond.defended_clients import DEFENDED_GRID, OURS, short_title
from reconrisk import bounds
from reconrisk.attacks import Knowledge, NormalLaw, refine_updates
from reconrisk.mechanisms import Released
from reconrisk.metrics import rmse
from reconrisk.training import update_jacobian

PARAMETERS = {
    **client_grid.GRID,
    "local_steps": DEFENDED_GRID["local_steps"],
    "small_side": Parameter("int", 8, 8, OURS, "pixels a side for the small network", low=8),
    "small_channels": Parameter("int", 16, 16, OURS, "channels of its first stage", low=1),
    "small_wide": Parameter("int", 256, 256, OURS, "neurons of its wide layer", low=1),
    "small_images": Parameter("int", 8, 40, OURS, "private pictures of its batches", low=4),
    "ranked_sizes": Parameter(
        "ints", (2, 4), (1, 2, 4, 8), "2, 4, 8", "batch sizes whose rank is computed", low=1
    ),
    "fitted_size": Parameter("int", 2, 4, "2, 4, 8", "batch size of least squares", low=1),
    "fitted_batches": Parameter("int", 1, 10, OURS, "batches of least squares", low=1),
}
SETTLES = ("O-048", "O-049", "O-050")
_QUIET = "noise == 0 and setting != 'GradPrune p=0.99'"
ALTERED = {
    "fits": {
        "largest": at(_QUIET, "largest errors of least squares without noise"),
        "least squares": at("noise > 0", "errors of least squares under noise"),
        "oblivious inversion": at("noise > 0", "errors of inversion under noise"),
        "van Trees": at("noise > 0", "floors under noise"),
    },
}
SCENARIOS = (
    scenario(
        "an update that does not determine the batch is inverted nonetheless",
        column("fits", "largest", lambda c: 1e-4, "setting == 'GradPrune p=0.99'"),
    ),
    scenario(
        "99 per cent pruned still determine the batch",
        frame("ranks", lambda t: t.assign(rank=t["unknowns"], determined=1.0)),
        "O-049",
    ),
)

#: an error of pixels in [0, 1] below which a picture counts as recovered, a quarter of the step
#: between two of the 256 grey levels
RECOVERED = 1e-3
#: least squares are "near" their floor within this factor: the floor is one of the mean over a law,
#: and the errors are those of few batches
NEAR = 2.0
#: shares of an update that are removed where the rank is computed
SHARES = (0.0, 0.3, 0.5, 0.7, 0.8, 0.9, 0.95, 0.97, 0.98, 0.99, 0.995)


@measurement
def measure(study: Context) -> Tables:
    p = study.parameters
    small = dataclasses.replace(
        client_grid.Grid.of(study),
        side=p.small_side,
        network="ConvNet",
        channels=p.small_channels,
        wide=p.small_wide,
        trained_neurons=min(64, p.small_wide - 1),
        images=p.small_images,
    )
    return Tables(
        {
            "fits": fits(study, small),
            "ranks": ranks(small, p.ranked_sizes),
        },
        ran=f"{p.fitted_batches} batches of {p.fitted_size} pictures of {p.data}, "
        f"{p.small_side} pixels a side, by least squares on a ConvNet; gradient inversion as in "
        "beyond/aware_attackers.",
    )


# Least squares and bounds on a small network -----------------------------------------------------


def fitted_settings(local_steps: Sequence[int]) -> list[Setting]:
    """The settings that least squares attack, at the ends of each defence's range."""
    ends = {
        "None": (0.0,),
        "GradClip": (2.0,),
        "GradDrop": (0.9,),
        "GradPrune": (0.9, 0.99),
        "LocalAggregation": tuple(float(k) for k in local_steps[:1]),
        "GradNoise": (0.001, 0.01, 0.1),
    }
    return [Setting(defence, value) for defence, values in ends.items() for value in values]


def fits(study: Context, small: client_grid.Grid) -> pd.DataFrame:
    """Least squares, floors and gradient inversion of the same batches, by setting."""
    p, n = study.parameters, study.parameters.fitted_size
    settings = fitted_settings(p.local_steps)
    shared = {"grid": dataclasses.asdict(small), "batch_size": n, "batches": p.fitted_batches}
    tasks = [shared | {"setting": [s.defence, s.strength]} for s in settings]
    descended = client_grid.run_grid(
        study, ["GradientInversion"], settings, [n], aware=(False, True), grid=small
    ).query(f"batch < {p.fitted_batches}")
    inverted = descended.groupby(["setting", "aware"], sort=False)["RMSE"].mean()
    rows = []
    results = study.sweep(fit_and_bound, tasks, "fits", threads=1)
    for setting, found in zip(settings, results, strict=True):
        unit, errors = np.asarray(found["unit"]), np.asarray(found["RMSE"])
        determined = bool((unit >= 0).all())
        noise = setting.strength if setting.defence == "GradNoise" else 0.0
        rows.append(
            {
                "setting": setting.title,
                "entries": int(np.mean(found["entries"])),
                "unknowns": n * 3 * small.side**2,
                "determined": determined,
                "noise": noise,
                "Cramer-Rao": noise * float(unit.mean()) if determined else np.inf,
                "van Trees": found["floor"],
                "least squares": float(errors.mean()),
                "largest": float(errors.max()),
                "oblivious inversion": float(inverted[setting.title, False]),
                "aware inversion": float(inverted[setting.title, True]),
            }
        )
    return pd.DataFrame(rows)


def fit_and_bound(task: dict[str, Any]) -> dict[str, Any]:
    """Attack batches of one setting by least squares, in double precision, and bound any attack.

    Least squares start from the mean picture under a normal law of pictures, whose weight falls
    until only the update counts; under noise its weight follows from the noise.

    Returns lists by batch: ``"entries"`` visible, ``"unit"`` (Cramer-Rao error per pixel at noise
    of one; -1 where it is infinite), ``"RMSE"`` by picture; and ``"floor"``, van Trees' bound per
    pixel with the batches' mean information.
    """
    grid, setting = client_grid.Grid(**task["grid"]), Setting(*task["setting"])
    network = client_grid.network_of(grid).double()
    drawn = client_grid.batches_of(grid, task["batch_size"])
    images, labels = (part[: task["batches"]] for part in (drawn.images.double(), drawn.labels))
    some = dataclasses.replace(drawn, images=images, labels=labels)
    law = law_of_others(grid)
    released = client_grid.updates_of(grid, network, some, setting)
    known = [
        information(network, (images[k], labels[k]), released.take(slice(k, k + 1)), setting)
        for k in range(len(images))
    ]
    pixels = images[0, 0].numel()
    unit = [
        bounds.cramer_rao_error(info, 1.0, as_numpy(x.flatten(1))) / pixels**0.5
        for info, x in zip(known, images, strict=True)
    ]
    noise = setting.strength if setting.defence == "GradNoise" else 0.0
    mean = np.mean([info.matrix for info in known], axis=0)
    found = fitted(network, released, labels, tuple(images.shape[2:]), setting, law)
    return {
        "entries": [info.entries for info in known],
        "unit": [float(u) if np.isfinite(u) else -1.0 for u in unit],
        "RMSE": rmse(as_numpy(images.flatten(2)), as_numpy(found.flatten(2).clamp(0, 1))),
        "floor": float(bounds.van_trees_error(mean, noise, law.covariance)) / pixels**0.5,
    }


def law_of_others(grid: client_grid.Grid) -> NormalLaw:
    images, _ = pictures(grid.data, grid.data_root, grid.side)
    private = client_grid.batches_of(grid, 1).images.flatten(0, 1).cpu()
    theirs = (images[:, None] == private[None]).flatten(2).all(dim=2).any(dim=1)
    return NormalLaw.of(images[~theirs])


def information(
    network: torch.nn.Module,
    batch: tuple[torch.Tensor, torch.Tensor],
    released: Released,
    setting: Setting,
) -> bounds.GradientInformation:
    """Information of one update's visible entries on its pictures, at noise of one."""
    values, jacobian = update_jacobian(network, *batch, local=released.local)
    if released.visible is not None:
        seen = torch.cat([v.flatten() for v in released.visible.values()])
        values, jacobian = values[seen], jacobian[seen]
    info = bounds.gradient_information([(as_numpy(values), as_numpy(jacobian))])
    return info.clipped(setting.strength) if setting.defence == "GradClip" else info


def rank_of(matrix: np.ndarray) -> int:
    """Number of directions in pixels that change the update.

    Squared singular values are above 1e-12 of the largest, or rounding errors.
    """
    values = np.linalg.eigvalsh(matrix)
    return int(np.sum(values > 1e-13 * values[-1]))


#: standard deviations, in shares of the update's norm, and steps at each, where there is no noise
_STAGES = ((2e-4, 4), (2e-7, 5), (2e-10, 6))
_NOISY_STEPS = 5


def fitted(
    network: torch.nn.Module,
    released: Released,
    labels: torch.Tensor,
    shape: tuple[int, ...],
    setting: Setting,
    law: NormalLaw,
) -> torch.Tensor:
    """Most probable batches (P, n, ...)."""
    mean = torch.from_numpy(law.mean).to(labels.device).view(shape)
    found = mean.expand(*labels.shape, *shape).clone()
    norms = torch.stack([g.flatten(1).square().sum(dim=1) for g in released.gradient.values()])
    size = float(norms.sum(dim=0).mean().sqrt())
    stages = [(share * size, steps) for share, steps in _STAGES]
    if setting.defence == "GradNoise":
        stages = [(setting.strength, _NOISY_STEPS)]
    for std, steps in stages:
        found = refine_updates(
            network,
            released,
            Knowledge(labels, shape, aware=True),
            start=found,
            iterations=steps,
            max_grad_norm=setting.strength if setting.defence == "GradClip" else None,
            noise_std=std,
            law=law,
        ).inputs
    return found


def ranks(grid: client_grid.Grid, sizes: Sequence[int]) -> pd.DataFrame:
    """Rank of the first batch of each size over the share that is pruned or dropped."""
    network = client_grid.network_of(grid).double()
    rows = []
    for n in sizes:
        batches = client_grid.batches_of(grid, n)
        images, labels = batches.images[0].double(), batches.labels[0]
        values, jacobian = update_jacobian(network, images, labels)
        matrix, unknowns = as_numpy(jacobian), images.numel()
        # random places, the same at every share, as dropout has them
        order = torch.rand(len(values), generator=grid.generator(grid.noise_seed, n))
        for defence, score in (("GradPrune", values.abs()), ("GradDrop", order)):
            places = as_numpy(score.argsort()).astype(int)
            for share in SHARES:
                part = matrix[places[round(share * len(places)) :]]
                # the smaller of the two products has the same rank
                rank = rank_of(part.T @ part if len(part) > unknowns else part @ part.T)
                rows.append((n, defence, share, len(part), unknowns, rank, rank / unknowns))
    columns = ["batch size", "defence", "share", "entries", "unknowns", "rank", "determined"]
    return pd.DataFrame(rows, columns=columns)


def judge(tables: Tables) -> Iterator[Verdict]:
    p, table = tables.parameters, tables["fits"].set_index("setting")
    quiet, noisy = table[table["noise"] == 0], table[table["noise"] > 0]
    heavy, most = (
        table.loc[Setting(*setting).title] for setting in (("GradNoise", 0.1), ("GradPrune", 0.99))
    )
    exact = quiet["largest"] < RECOVERED
    floors = (noisy["van Trees"] > 0).all()
    yield check(
        "beyond/strongest_attack",
        (exact == quiet["determined"]).all() and floors and (noisy["Cramer-Rao"] > 0).all(),
        "without noise least squares recover every picture where the visible entries determine "
        "the batch, and no other; with noise the bounds are positive",
        ours=f"{exact.sum()} of {len(quiet)} settings without noise recovered",
    )
    yield check(
        "O-048",
        exact.drop(most.name).all(),
        ours=f"errors below {RECOVERED:g}, {p.fitted_batches * p.fitted_size} pictures in batches "
        f"of {p.fitted_size}",
    )
    kept = tables["ranks"].query("defence == 'GradPrune'")
    yield check(
        "O-049",
        (kept["rank"] <= kept[["entries", "unknowns"]].min(axis=1)).all()
        and (kept.loc[kept["share"] == 0.99, "determined"] < 1).all()
        and not most["determined"],
        ours=f"{int(most['entries'])} entries, {int(most['unknowns'])} pixels",
    )
    better = (noisy["least squares"] < 0.7 * noisy["oblivious inversion"]).all()
    over_floor = noisy["least squares"] / noisy["van Trees"]
    near = ((over_floor < NEAR) & (over_floor > 1 / NEAR)).all()
    yield check(
        "O-050",
        better and floors and near,
        ours=f"{over_floor.min():.1f} to {over_floor.max():.1f} times the floor of the mean; at .1 "
        f"{heavy['least squares']:.2f}, inversion {heavy['oblivious inversion']:.1f}; "
        f"{p.fitted_batches * p.fitted_size} pictures",
        stand_in=tables.stand_in,
    )


CAPTION = (
    "Left: errors of gradient inversion and of least squares on a small network, with the "
    "floor of the mean error over the pictures' normal law (a single batch may be below it; under "
    "pruning it holds to first order); what "
    "is zero, or below a millionth, stands at the left edge. Right: the share of the pixels' "
    "directions that an update still determines, over what is pruned or dropped of it."
)


#: lower end of the axis of errors, where those that are zero stand
_ZERO = 1e-6


@drawing
def draw(tables: Tables) -> Figure:
    figure, ((left, right),) = panels(1, 2, 4.9, 4.4)
    _floors(left, tables["fits"])
    _shares(right, tables["ranks"])
    handles = [
        legend_line("inversion, oblivious", GREY, "", "o"),
        legend_line("inversion, aware", ORANGE, "", "s"),
        legend_line("least squares", BLUE, "", "v"),
        legend_line("floor of the mean (van Trees)", GREEN, "", "|", markeredgewidth=2.5),
        legend_line("floor for the unbiased (Cramér-Rao)", "black", "", "|"),
    ]
    legend_above(figure, handles, 3)
    return figure


def _floors(axes: Axes, table: pd.DataFrame) -> None:
    places = np.arange(len(table))[::-1]

    def at(column: str) -> np.ndarray:
        return np.maximum(table[column].to_numpy(dtype=float), _ZERO)

    axes.plot(at("van Trees"), places, "|", color=GREEN, ms=15, mew=2.5, zorder=2)
    noisy = (table["noise"] > 0).to_numpy()
    axes.plot(at("Cramer-Rao")[noisy], places[noisy], "|", color="black", ms=15, zorder=2)
    for kind, colour, marker in (
        ("oblivious inversion", GREY, "o"),
        ("aware inversion", ORANGE, "s"),
        ("least squares", BLUE, "v"),
    ):
        axes.plot(at(kind), places, marker, color=colour, ms=5.5, zorder=3, clip_on=False)
    axes.set_yticks(places, [short_title(s) for s in table["setting"]])
    axes.set(xscale="log", xlabel="RMSE of a pixel", xlim=(_ZERO, 1.5))


def _shares(axes: Axes, table: pd.DataFrame) -> None:
    for (n, at_size), colour in zip(table.groupby("batch size"), COLOURS, strict=False):
        for defence, style in (("GradPrune", "-"), ("GradDrop", "--")):
            own = at_size[at_size["defence"] == defence]
            look: dict[str, Any] = {"color": colour, "marker": DEFENCES[defence]["marker"], "ms": 4}
            label = f"{defence}, n = {n}"
            axes.plot(1 - own["share"], own["determined"], style, label=label, **look)
        # as many entries as pixels: with fewer, no batch is determined
        equal = at_size["unknowns"].iloc[0] / at_size["entries"].max()
        axes.axvline(equal, color=colour, lw=0.9, ls=":")
    axes.set(xscale="log", xlabel="share of the entries left", ylabel="directions determined")
    axes.set_ylim(0, 1.04)
    axes.invert_xaxis()
    axes.legend(loc="lower left")

"""Our own: what the defences of Liu et al. 2024 leave to attackers who know them.

The paper attacks as if nothing had been done to the update. What was removed shows in it, local
steps are the server's protocol, and the size of noise is no secret: the same attacks are run again
with that knowledge. On a network small enough for its Jacobian, least squares then say what is
hidden and what is gone.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import torch
from scipy import stats

from companion.experiments.client_grid import (
    MANIPULATING,
    Grid,
    all_settings,
    batches_of,
    network_of,
    originals,
    rebuilt,
    run_grid,
    updates_of,
)
from companion.experiments.clients import KEY, Setting, pictures
from companion.experiments.tools import as_numpy, run_tasks
from companion.study import registry
from companion.study.computations import Context, computes
from companion.study.results import Result
from companion.study.verdicts import Verdict, check, refute
from reconrisk import bounds
from reconrisk.attacks import Knowledge, NormalLaw, Objective, invert_updates, refine_updates
from reconrisk.mechanisms import Released
from reconrisk.metrics import psnr, rmse
from reconrisk.training import update_jacobian
from reconrisk.two_layer import (
    LocalSteps,
    TwoLayer,
    gradient_jacobians,
    release_output_gradient,
)

__all__ = ["SHOWN", "attack_with_likelihood", "fit_and_bound", "least_squares_settings"]

#: attack that knows how large the noise is
LIKELIHOOD = "Likelihood"
#: settings whose reconstructions are shown
SHOWN = (
    Setting("None"),
    Setting("GradNoise", 0.1),
    Setting("GradDrop", 0.9),
    Setting("GradPrune", 0.9),
    Setting("GradPrune", 0.99),
    Setting("LocalAggregation", 3.0),
)
#: defences that an aware inversion allows for
_SEEN = ("GradDrop", "GradPrune", "LocalAggregation")
#: an error of pixels in [0, 1] below which a picture counts as recovered; where a direction is
#: hardly determined, least squares take long to end
RECOVERED = 1e-2


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",")]


def _settings(local_steps: Sequence[int]) -> list[Setting]:
    """The tables' settings, of local aggregation only the asked."""
    return [
        s
        for s in all_settings()
        if s.defence != "LocalAggregation" or int(s.strength) in local_steps
    ]


def _honest(names: Sequence[str]) -> list[str]:
    """Attacks of a server that is curious, and leaves the network as it is."""
    return [name for name in names if name not in MANIPULATING]


# Attackers who know the noise --------------------------------------------------------------------


def attack_with_likelihood(task: dict[str, Any], seed: int) -> dict[str, Any]:
    """Invert noisy updates by the most probable pictures under a prior on neighbours' differences.

    Gaussian noise makes the squared distance, over twice the noise's variance, minus the
    logarithm of the likelihood. The differences of neighbouring pixels are taken for independent
    and Laplacian, with the mean size that they have in pictures of the same kind: that fixes the
    weight of the total variation, and no constant is left to choose.

    Parameters
    ----------
    task : dict
        ``grid``, ``batch_size`` and ``strength`` of the noise.
    seed : int
        The sweep's own seed of this task; not used, so that attacks share their batches.

    Returns
    -------
    dict
        ``"RMSE"`` and ``"PSNR"`` by batch and picture, the first batch's ``"pictures"``, and
        ``"weight"`` of the total variation, mean over the batches.
    """
    del seed
    grid = Grid(**task["grid"])
    batches, network = batches_of(grid, task["batch_size"]), network_of(grid)
    released = updates_of(grid, network, batches, Setting("GradNoise", task["strength"]))
    images, _ = pictures(grid.data, grid.data_root, grid.side)
    sizes = torch.cat([images.diff(dim=d).abs().flatten() for d in (-1, -2)])
    rate = 1 / float(sizes.mean())
    norms = torch.stack([g.flatten(1).square().sum(dim=1) for g in released.gradient.values()])
    # one weight for all batches: their updates are of nearly one length
    squared = float(norms.sum(dim=0).mean())
    weight = 2 * task["strength"] ** 2 / squared * rate * batches.images[0].numel()
    found = invert_updates(
        network,
        released,
        Knowledge(batches.labels, tuple(batches.images.shape[2:]), aware=True),
        generator=grid.generator(grid.start_seed, task["batch_size"]),
        objective=Objective(distance="squared", total_variation=weight),
        iterations=grid.iterations,
    ).inputs
    x, y = (as_numpy(t.flatten(2)) for t in (batches.images, found))
    return {
        "RMSE": rmse(x, y),
        "PSNR": psnr(x, y, 1.0),
        "pictures": np.round(as_numpy(found[0].movedim(1, -1)), 4),
        "weight": weight,
    }


def _swept(context: Context, function: Any, tasks: Sequence[Mapping[str, Any]]) -> list[Any]:
    """Results of tasks, of this and earlier calls."""
    label = function.__name__.replace("_", " ")
    return run_tasks(context, function, tasks, "companion-defences", label)


def _likelihood_cells(context: Context, grid: Grid, sizes: Sequence[int]) -> pd.DataFrame:
    """Rows as :func:`~._client_grid.run_grid` makes them, of attackers who know the noise."""
    noises = [s for s in all_settings() if s.defence == "GradNoise"]
    tasks = [
        {"grid": dataclasses.asdict(grid), "batch_size": n, "strength": s.strength}
        for n in sizes
        for s in noises
    ]
    parts = []
    for task, result in zip(tasks, _swept(context, attack_with_likelihood, tasks), strict=True):
        errors = np.asarray(result["RMSE"])
        setting = Setting("GradNoise", task["strength"])
        parts.append(
            pd.DataFrame(
                {
                    "attack": LIKELIHOOD,
                    "defence": setting.defence,
                    "strength": setting.strength,
                    "setting": setting.title,
                    "batch size": task["batch_size"],
                    "aware": True,
                    "batch": np.repeat(np.arange(len(errors)), errors.shape[1]),
                    "RMSE": errors.ravel(),
                    "PSNR": np.asarray(result["PSNR"]).ravel(),
                }
            )
        )
    return pd.concat(parts, ignore_index=True)


def _cells(context: Context, grid: Grid, names: Mapping[bool, Sequence[str]]) -> pd.DataFrame:
    """All cells of both readings, one row a picture."""
    p = context.settings
    settings = _settings(p.local_steps)
    parts = [
        run_grid(context, attacks, settings, p.batch_sizes, aware=(aware,), grid=grid)
        for aware, attacks in names.items()
    ]
    parts.append(_likelihood_cells(context, grid, p.batch_sizes))
    return pd.concat(parts, ignore_index=True)


# Oblivious and aware -----------------------------------------------------------------------------


@computes("beyond/aware_attackers", "O-045", "O-046", "E-E-42")
def aware_attackers(context: Context) -> Result:
    """Lowest errors of oblivious and of aware attackers, by defence."""
    p = context.settings
    grid = Grid.of(context)
    names = {False: _honest(_names(p.oblivious)), True: _honest(_names(p.aware))}
    cells = _cells(context, grid, names)
    readings = _readings(cells)
    gains, by_defence, by_batch = _gains(cells)
    orders = _orders(readings)
    counted = _counted(context, grid, readings)
    return Result(
        "beyond/aware_attackers",
        _aware_verdicts(readings, by_defence, stand_in=p.data != "CIFAR-10"),
        {
            "lowest errors": readings,
            "gains": gains,
            "gains by defence": by_defence,
            "gains by batch": by_batch,
            "orders": orders,
            "entries and unknowns": counted,
        },
        images=_shown(context, grid),
        ran=f"{grid.images} pictures of {p.data} in batches of "
        f"{', '.join(map(str, p.batch_sizes))}, {p.network}, {p.iterations} iterations; oblivious: "
        f"{', '.join(names[False])}; aware: {', '.join(names[True])} and, of noise, the "
        "likelihood.",
    )


def _readings(cells: pd.DataFrame) -> pd.DataFrame:
    """The attack of lowest mean RMSE in both readings, one row a setting and batch size."""
    rows = []
    keys = ["batch size", "setting"]
    for (n, setting), own in cells.groupby(keys, sort=False):
        row: dict[str, Any] = {
            "batch size": n,
            "setting": setting,
            "defence": own["defence"].iloc[0],
            "strength": own["strength"].iloc[0],
        }
        # whoever knows can also ignore
        for reading, part in (("oblivious", own[~own["aware"]]), ("aware", own)):
            means = part.groupby(["attack", "aware"], sort=False)[["RMSE", "PSNR"]].mean()
            best = means["RMSE"].idxmin()
            row[f"{reading} attack"] = f"{best[0]}, aware" if best[1] else best[0]
            row[f"{reading} RMSE"] = float(means.loc[best, "RMSE"])
            row[f"{reading} PSNR"] = float(means.loc[best, "PSNR"])
        rows.append(row)
    return pd.DataFrame(rows)


def _gains(cells: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    """PSNR of gradient inversion that is aware less that is not: by setting, defence and batch.

    The same attack on the same updates from the same first candidates; under noise the likelihood
    takes the aware one's place. Intervals are Student's over batches. By defence, a batch's gain is
    averaged over the strengths.
    """
    one = cells[cells["attack"].isin(("GradientInversion", LIKELIHOOD))]
    one = one[~(one["aware"] & (one["defence"] == "GradNoise") & (one["attack"] != LIKELIHOOD))]
    keys = ["batch size", "setting", "defence", "batch"]
    means = one.groupby([*keys, "aware"], sort=False)["PSNR"].mean().unstack("aware")
    gain = (means[True] - means[False]).rename("gain").reset_index()
    gain["oblivious"], gain["aware"] = means[False].to_numpy(), means[True].to_numpy()
    rows = []
    for (n, setting), own in gain.groupby(["batch size", "setting"], sort=False):
        row = {"batch size": n, "setting": setting, "defence": own["defence"].iloc[0]}
        for reading in ("oblivious", "aware", "gain"):
            row[reading], row[f"{reading} room"] = _interval(own[reading].to_numpy())
        rows.append(row)
    pooled = gain.groupby(["defence", "batch size", "batch"], sort=False)["gain"].mean()
    by_defence = []
    for defence, values in pooled.groupby("defence", sort=False):
        value, room = _interval(values.to_numpy())
        by_defence.append(
            {
                "defence": defence,
                "gain": value,
                "low": value - room,
                "high": value + room,
                "batches": len(values),
            }
        )
    return pd.DataFrame(rows), pd.DataFrame(by_defence), gain


def _interval(values: np.ndarray) -> tuple[float, float]:
    """Mean and half the width of its 95% interval; zero of a single value."""
    if len(values) < 2:
        return float(values.mean()), 0.0
    error = float(np.std(values, ddof=1)) / np.sqrt(len(values))
    return float(values.mean()), float(stats.t.ppf(0.975, len(values) - 1)) * error


def _orders(readings: pd.DataFrame) -> pd.DataFrame:
    """Rank correlation of the settings' errors in the two readings, and with the printed ones."""
    printed = _printed_lowest()
    rows = []
    for n, own in readings.groupby("batch size", sort=False):
        own = own.set_index("setting")
        shared = [s for s in own.index if (n, s) in printed]
        paper = [printed[n, s] for s in shared]
        row: dict[str, Any] = {"batch size": n}
        both = own["oblivious RMSE"], own["aware RMSE"]
        row["oblivious with aware"] = _rank_correlation(*both)
        for reading in ("oblivious", "aware"):
            errors = own[f"{reading} RMSE"]
            row[f"{reading} with printed"] = _rank_correlation(errors[shared], paper)
            row[f"{reading}, largest"] = "; ".join(errors.sort_values().index[::-1][:3])
        rows.append(row)
    return pd.DataFrame(rows)


def _rank_correlation(one: Sequence[float], other: Sequence[float]) -> float:
    if len(one) < 3:
        return float("nan")
    return float(stats.spearmanr(one, other).statistic)


def _printed_lowest() -> dict[tuple[int, str], float]:
    """Lowest RMSE of Tables 4, 7 and 8 by batch size and setting."""
    lowest: dict[tuple[int, str], float] = {}
    for table in ("table4", "table7", "table8"):
        rows = registry.printed(f"{KEY}/{table}")
        sizes = rows["attack_batch_size"]
        columns = zip(
            sizes,
            rows["defense"],
            rows["parameter_value"],
            rows["metric"],
            rows["value"],
            strict=True,
        )
        for n, name, strength, metric, value in columns:
            name = {"none": "None", "GradClipping": "GradClip"}.get(name, name)
            if metric == "RMSE":
                title = Setting(name, 0.0 if name == "None" else float(strength)).title
                key = (int(n), title)
                lowest[key] = min(lowest.get(key, np.inf), float(value))
    return lowest


def _counted(context: Context, grid: Grid, readings: pd.DataFrame) -> pd.DataFrame:
    """Entries that a defence leaves against the pixels sought."""
    p = context.settings
    entries = sum(w.numel() for w in network_of(grid).parameters())
    rows = []
    for n in p.batch_sizes:
        for setting in _settings(p.local_steps):
            left = 1 - setting.strength if setting.defence in ("GradDrop", "GradPrune") else 1.0
            unknowns = n * 3 * grid.side**2
            rows.append(
                {
                    "batch size": n,
                    "setting": setting.title,
                    "entries": round(left * entries),
                    "unknowns": unknowns,
                    "entries per unknown": left * entries / unknowns,
                }
            )
    return pd.DataFrame(rows)


def _shown(context: Context, grid: Grid) -> dict[str, np.ndarray]:
    """The first picture of the first batch, and what both readings make of it."""
    p = context.settings
    n = p.batch_sizes[0]
    images = {"original": originals(grid, n)[0, 0]}
    tasks = [
        {"grid": dataclasses.asdict(grid), "batch_size": n, "strength": s.strength}
        for s in SHOWN
        if s.defence == "GradNoise"
    ]
    found = _swept(context, attack_with_likelihood, tasks)
    noisy = {task["strength"]: result for task, result in zip(tasks, found, strict=True)}
    for setting in SHOWN:
        if setting.defence == "LocalAggregation" and int(setting.strength) not in p.local_steps:
            continue
        for aware in (False, True):
            if aware and setting.defence == "GradNoise":
                found = np.asarray(noisy[setting.strength]["pictures"])
            else:
                found = rebuilt(context, "GradientInversion", setting, n, aware=aware, grid=grid)
            images[f"{setting.title}|{'aware' if aware else 'oblivious'}"] = found[0]
    return images


def _aware_verdicts(
    readings: pd.DataFrame, by_defence: pd.DataFrame, *, stand_in: bool
) -> list[Verdict]:
    gains = by_defence.set_index("defence")
    mean = readings.groupby(["defence", "strength"], sort=False)[
        ["oblivious RMSE", "aware RMSE"]
    ].mean()
    share = mean["aware RMSE"] / mean["oblivious RMSE"]
    random = [share[("GradDrop", p)] for p in (0.5, 0.7, 0.9)]
    local = share["LocalAggregation"].max()
    heavy = {
        "pruning of 99 per cent": share[("GradPrune", 0.99)],
        "noise of .05": share[("GradNoise", 0.05)],
        "noise of .1": share[("GradNoise", 0.1)],
    }
    helped = bool(max(random) < 0.85 and local < 0.9 and max(heavy.values()) < 0.9)
    nothing = bool((gains.loc[["None", "GradClip"], "gain"].abs() < 1e-9).all())
    told = f"{gains.loc['GradDrop', 'gain']:.0f} dB by entry dropout, "
    told += f"{gains.loc['LocalAggregation', 'gain']:.0f} dB by local aggregation"
    # what hides seven entries of ten at random, and what removes nine of ten by size
    random_, sized = mean.loc[("GradDrop", 0.7)], mean.loc[("GradPrune", 0.9)]
    before, after = random_ / sized
    return [
        check(
            "beyond/aware_attackers",
            helped and nothing,
            "the lowest error of those who know the defence is less by a tenth or more under "
            "entry dropout of half or more, local aggregation, pruning of 99 per cent and noise of "
            ".05 and more, and the same without a defence and under clipping",
            ours=f"shares of the oblivious attackers' error at most {max(random):.1f} (dropout), "
            f"{local:.1f} (local aggregation)",
            stand_in=stand_in,
        ),
        check(
            "O-045",
            bool(
                max(random) < 0.85
                and local < 0.9
                and gains.loc["GradDrop", "gain"] > 2
                and gains.loc["LocalAggregation", "gain"] > 1
                and heavy["pruning of 99 per cent"] < 0.9
            ),
            "gradient inversion gains more than 2 dB under entry dropout and 1 dB under local "
            "aggregation, on the same updates from the same first candidates; under pruning it "
            "gains where most entries are gone",
            stand_in=stand_in,
        ),
        check(
            "O-046",
            bool(before > 1 > after),
            "seven entries of ten dropped at random leave the oblivious a larger error than the "
            "nine smallest pruned, and the aware a smaller one",
            ours=f"by factors of {before:.1f} and {after:.1f}",
            stand_in=stand_in,
        ),
        refute(
            "E-E-42",
            "the error that the considered attacks leave is the defence's strength",
            holds=not helped,
            corrected="attackers who compare visible entries, repeat local steps and weigh by the "
            "noise leave less, on the same updates",
            corrected_holds=helped,
            ours=told if not stand_in else "",
        ),
    ]


# Hidden or gone ----------------------------------------------------------------------------------


def least_squares_settings(local_steps: Sequence[int]) -> list[Setting]:
    """The settings that least squares attack: the ends of every defence's range."""
    ends = {
        "None": (0.0,),
        "GradClip": (2.0,),
        "GradDrop": (0.9,),
        "GradPrune": (0.9, 0.99),
        "LocalAggregation": tuple(float(k) for k in local_steps[:1]),
        "GradNoise": (0.001, 0.01, 0.1),
    }
    return [Setting(defence, value) for defence, values in ends.items() for value in values]


def fit_and_bound(task: dict[str, Any], seed: int) -> dict[str, Any]:
    """Attack batches under one setting by least squares, and bound what any attack can do.

    In double precision. Least squares start from the mean picture, with a normal law of pictures
    whose weight is lowered until only the update counts; under noise with the weight that the
    noise's size gives it.

    Parameters
    ----------
    task : dict
        ``grid``, ``batch_size``, ``batches`` (how many) and ``setting``, defence and strength.
    seed : int
        The sweep's own seed of this task; not used, so that settings share their batches.

    Returns
    -------
    dict
        Lists by batch: ``"entries"`` visible, ``"rank"`` of the Jacobian, ``"unit"`` (Cramer-Rao
        error per pixel at noise of one; -1 where it is infinite), ``"RMSE"`` by picture; and
        ``"floor"``, van Trees' bound per pixel with the batches' mean information, and
        ``"spread"``, the law's own deviation per pixel.
    """
    del seed
    grid, setting = Grid(**task["grid"]), Setting(*task["setting"])
    network = network_of(grid).double()
    drawn = batches_of(grid, task["batch_size"])
    some = dataclasses.replace(
        drawn,
        images=drawn.images[: task["batches"]].double(),
        labels=drawn.labels[: task["batches"]],
    )
    law = _law(grid)
    released = updates_of(grid, network, some, setting)
    known = [
        _information(
            network, some.images[k], some.labels[k], released.take(slice(k, k + 1)), setting
        )
        for k in range(len(some.images))
    ]
    pixels = some.images[0, 0].numel()
    unit = [
        bounds.cramer_rao_error(info, 1.0, as_numpy(x.flatten(1))) / pixels**0.5
        for info, x in zip(known, some.images, strict=True)
    ]
    noise = setting.strength if setting.defence == "GradNoise" else 0.0
    mean = np.mean([info.matrix for info in known], axis=0)
    found = _fitted(network, released, some.labels, tuple(some.images.shape[2:]), setting, law)
    errors = rmse(as_numpy(some.images.flatten(2)), as_numpy(found.flatten(2).clamp(0, 1)))
    return {
        "entries": [info.entries for info in known],
        "rank": [_rank(info.matrix) for info in known],
        "unit": [float(u) if np.isfinite(u) else -1.0 for u in unit],
        "RMSE": errors,
        "floor": float(bounds.van_trees_error(mean, noise, law.covariance)) / pixels**0.5,
        "spread": float(np.sqrt(np.trace(law.covariance) / pixels)),
    }


def _law(grid: Grid) -> NormalLaw:
    """The normal law of the pictures that are not attacked."""
    images, _ = pictures(grid.data, grid.data_root, grid.side)
    private = batches_of(grid, 1).images.flatten(0, 1).cpu()
    theirs = (images[:, None] == private[None]).flatten(2).all(dim=2).any(dim=1)
    return NormalLaw.of(images[~theirs])


def _information(
    network: torch.nn.Module,
    images: torch.Tensor,
    labels: torch.Tensor,
    released: Released,
    setting: Setting,
) -> bounds.GradientInformation:
    """What the visible entries of one update say of its pictures, at noise of one."""
    values, jacobian = update_jacobian(network, images, labels, local=released.local)
    if released.visible is not None:
        seen = torch.cat([v.flatten() for v in released.visible.values()])
        values, jacobian = values[seen], jacobian[seen]
    info = bounds.gradient_information([(as_numpy(values), as_numpy(jacobian))])
    return info.clipped(setting.strength) if setting.defence == "GradClip" else info


def _rank(matrix: np.ndarray) -> int:
    """Directions in pixels that move the update: ranks of such networks leave no doubt.

    Squared singular values are either above 1e-12 of the largest or of rounding's size.
    """
    values = np.linalg.eigvalsh(matrix)
    return int(np.sum(values > 1e-13 * values[-1]))


#: standard deviations, in shares of the update's norm, and steps at each, where there is no noise
_STAGES = ((2e-4, 4), (2e-7, 5), (2e-10, 6))
_NOISY_STEPS = 5


def _fitted(
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


#: shares of a pruned update at which the rank is followed
PRUNED = (0.0, 0.3, 0.5, 0.7, 0.8, 0.9, 0.95, 0.97, 0.98, 0.99, 0.995)


def _ranks(grid: Grid, sizes: Sequence[int]) -> pd.DataFrame:
    """Rank over the share that is pruned or dropped, of the first batch of each size."""
    network = network_of(grid).double()
    rows = []
    for n in sizes:
        batches = batches_of(grid, n)
        images, labels = batches.images[0].double(), batches.labels[0]
        values, jacobian = update_jacobian(network, images, labels)
        size, matrix = values.abs(), as_numpy(jacobian)
        # random places, the same at every share, as dropout has them
        order = torch.rand(len(size), generator=grid.generator(grid.noise_seed, n))
        for defence, score in (("GradPrune", size), ("GradDrop", order)):
            for share in PRUNED:
                removed = round(share * len(score))
                kept = as_numpy(score.argsort()[removed:]).astype(int)
                part = matrix[kept]
                # the smaller of the two products has the same rank
                squared = part.T @ part if len(part) > part.shape[1] else part @ part.T
                rank = _rank(squared)
                rows.append(
                    {
                        "batch size": n,
                        "defence": defence,
                        "share": share,
                        "entries": len(part),
                        "unknowns": images.numel(),
                        "rank": rank,
                        "determined": rank / images.numel(),
                    }
                )
    return pd.DataFrame(rows)


def _small(context: Context) -> Grid:
    """The grid on a network and pictures that are small enough for least squares."""
    p = context.settings
    return dataclasses.replace(
        Grid.of(context),
        side=p.small_side,
        network="ConvNet",
        channels=p.small_channels,
        wide=p.small_wide,
        trained_neurons=min(64, p.small_wide - 1),
        images=p.small_images,
    )


def _leads(cells: pd.DataFrame) -> pd.DataFrame:
    """For every setting the attack of lowest mean RMSE, the next, and how far they are apart.

    Attackers of either reading; the lead's interval is Student's over the batches.
    """
    cells = cells.assign(name=cells["attack"].where(~cells["aware"], cells["attack"] + ", aware"))
    same = cells["aware"] & ~cells["defence"].isin((*_SEEN, "GradNoise"))
    rows = []
    for (n, setting), own in cells[~same].groupby(["batch size", "setting"], sort=False):
        by_batch = own.groupby(["name", "batch"], sort=False)["RMSE"].mean().unstack("batch")
        # who knows no more than the other is the same attack: count each result once
        by_batch = by_batch.round(12).drop_duplicates()
        order = by_batch.mean(axis=1).sort_values(kind="stable").index
        lead, room = _interval((by_batch.loc[order[1]] - by_batch.loc[order[0]]).to_numpy())
        rows.append(
            {
                "batch size": n,
                "setting": setting,
                "best": order[0],
                "RMSE": float(by_batch.loc[order[0]].mean()),
                "second": order[1],
                "second RMSE": float(by_batch.loc[order[1]].mean()),
                "lead": lead,
                "low": lead - room,
                "high": lead + room,
            }
        )
    return pd.DataFrame(rows)


def _two_layers(context: Context) -> pd.DataFrame:
    """Error per unit of noise on a two-layer network under each defence, infinite if undetermined.

    Labels are known, as they are to the attacks on deep networks.
    """
    width, count, dimension = context.settings.width, 2, 8
    network = TwoLayer(dimension, width, "elu", 0)
    rng = context.rng("two layers")
    x = rng.standard_normal((count, dimension))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    defences: dict[str, dict[str, Any]] = {
        "None": {},
        "GradClip": {"max_grad_norm": 2.0},
        "Dropout p=0.5": {"dropout": 0.5},
        "GradPrune p=0.9": {"pruned": 0.9},
        "LocalAggregation steps=3": {"local": LocalSteps(3, 0.01 / width, 0.01)},
    }
    rows = []
    for name, defence in defences.items():
        released = release_output_gradient(network, x, [1.0, -1.0], rng=rng, **defence)
        info = bounds.gradient_information(gradient_jacobians(network, x, released))
        if name == "GradClip":
            info = info.clipped(2.0)
        unit = float(bounds.cramer_rao_error(info, 1.0, x, unit_norm=True))
        rows.append(
            {
                "defence": name,
                "entries": info.entries,
                "unknowns": len(info.matrix),
                "error at unit noise": unit,
                "floor without noise": float(bounds.cramer_rao_error(info, 0.0, x, unit_norm=True)),
            }
        )
    return pd.DataFrame(rows)


@computes("beyond/strongest_attack", "O-047", "O-048", "O-049", "O-050", "E-E-43", "E-E-44")
def strongest_attack(context: Context) -> Result:
    """The best attack and its lead, the floor below which none can go, and what attains it."""
    p = context.settings
    names = {False: _names(p.oblivious), True: _names(p.aware)}
    leads = _leads(_cells(context, Grid.of(context), names))
    small = _small(context)
    fits = _fits(context, small)
    ranks = _ranks(small, p.ranked_sizes)
    layers = _two_layers(context)
    return Result(
        "beyond/strongest_attack",
        _strongest_verdicts(leads, fits, ranks, layers, stand_in=p.data != "CIFAR-10"),
        {"leads": leads, "fits": fits, "ranks": ranks, "two layers": layers},
        ran=f"{p.fitted_batches} batches of {p.fitted_size} pictures of {p.data}, "
        f"{p.small_side} pixels a side, by least squares on a ConvNet; the attacks as in "
        "beyond/aware_attackers.",
    )


def _fits(context: Context, small: Grid) -> pd.DataFrame:
    """Least squares and floors by setting, with gradient inversion of the same batches beside."""
    p = context.settings
    n = p.fitted_size
    settings = least_squares_settings(p.local_steps)
    tasks = [
        {
            "grid": dataclasses.asdict(small),
            "batch_size": n,
            "batches": p.fitted_batches,
            "setting": [s.defence, s.strength],
        }
        for s in settings
    ]
    descended = run_grid(
        context, ["GradientInversion"], settings, [n], aware=(False, True), grid=small
    )
    descended = descended[descended["batch"] < p.fitted_batches]
    inverted = descended.groupby(["setting", "aware"], sort=False)["RMSE"].mean().unstack("aware")
    rows = []
    for setting, result in zip(settings, _swept(context, fit_and_bound, tasks), strict=True):
        unit = np.asarray(result["unit"])
        determined = bool((unit >= 0).all())
        noise = setting.strength if setting.defence == "GradNoise" else 0.0
        errors = np.asarray(result["RMSE"])
        rows.append(
            {
                "setting": setting.title,
                "defence": setting.defence,
                "strength": setting.strength,
                "entries": int(np.mean(result["entries"])),
                "unknowns": n * 3 * small.side**2,
                "rank": int(np.min(result["rank"])),
                "determined": determined,
                "noise": noise,
                "Cramer-Rao": noise * float(unit.mean()) if determined else np.inf,
                "van Trees": result["floor"],
                "spread": result["spread"],
                "least squares": float(errors.mean()),
                "largest": float(errors.max()),
                "smallest": float(errors.min()),
                "oblivious inversion": float(inverted.loc[setting.title, False]),
                "aware inversion": float(inverted.loc[setting.title, True]),
            }
        )
    return pd.DataFrame(rows)


def _strongest_verdicts(
    leads: pd.DataFrame,
    fits: pd.DataFrame,
    ranks: pd.DataFrame,
    layers: pd.DataFrame,
    *,
    stand_in: bool,
) -> list[Verdict]:
    table = fits.set_index("setting")
    quiet = table[table["noise"] == 0]
    exact = quiet["largest"] < RECOVERED
    told_apart = bool((exact == quiet["determined"]).all())
    noisy = table[table["noise"] > 0]
    kept = ranks[ranks["defence"] == "GradPrune"]
    counted = bool((kept["rank"] <= kept[["entries", "unknowns"]].min(axis=1)).all())
    gone = kept[kept["share"] == 0.99]
    heavy = table.loc[Setting("GradNoise", 0.1).title]
    pruned = table.loc[Setting("GradPrune", 0.9).title]
    most = table.loc[Setting("GradPrune", 0.99).title]
    zero = bool((layers["floor without noise"] == 0).all())
    better = bool((noisy["least squares"] < 0.7 * noisy["oblivious inversion"]).all())
    floors = bool((noisy["van Trees"] > 0).all() and (noisy["Cramer-Rao"] > 0).all())
    return [
        check(
            "beyond/strongest_attack",
            told_apart and floors,
            "least squares recover every picture where the visible entries determine the batch, "
            "and no other; noise is what leaves a floor where the batch is determined",
            ours=f"{int(exact.sum())} of {len(quiet)} settings without noise recovered",
            stand_in=stand_in,
        ),
        check(
            "O-047",
            zero and bool((leads["lead"] >= 0).all()),
            "the best attack and its lead are given for every setting; on two-layer networks the "
            "floor without noise is zero under every defence",
            ours=f"{len(leads)} cells; {len(layers)} defences",
            stand_in=stand_in,
        ),
        check(
            "O-048",
            bool(exact[[s for s in exact.index if s != Setting("GradPrune", 0.99).title]].all()),
            "clipping, local steps, and the loss of 90 per cent of the entries, at random or "
            "the smallest, leave updates of a small convolutional network that determine the "
            "batch, and least squares recover it",
            ours=f"errors below {RECOVERED:g}",
            stand_in=stand_in,
        ),
        check(
            "O-049",
            counted and bool((gone["determined"] < 1).all()) and not most["determined"],
            "with 99 per cent pruned fewer entries than pixels are left, and the batch is not "
            "determined",
            ours=f"{int(most['entries'])} entries, {int(most['unknowns'])} pixels",
            stand_in=stand_in,
        ),
        check(
            "O-050",
            better and bool((noisy["van Trees"] > 0).all()),
            "where the batch is determined noise alone leaves a floor, for the unbiased, and for "
            "all on average over a normal law of pictures; knowing that law brings least squares "
            "to less than seven tenths of the error that inversion leaves",
            ours=f"at .1: {heavy['least squares']:.2f}, inversion "
            f"{heavy['oblivious inversion']:.1f}",
            stand_in=stand_in,
        ),
        refute(
            "E-E-43",
            "pruning of 90 per cent is among the defences with the best effect",
            holds=not exact[Setting("GradPrune", 0.9).title],
            corrected="on a small network it hides the batch from descent and removes nothing: "
            "least squares recover it",
            corrected_holds=bool(
                pruned["largest"] < RECOVERED
                and pruned["least squares"] < 0.1 * pruned["oblivious inversion"]
            ),
            ours=f"inversion {pruned['oblivious inversion']:.1f}, least squares below "
            f"{RECOVERED:g}",
        ),
        refute(
            "E-E-44",
            "the error left by the attacks considered measures what noise does",
            holds=not better,
            corrected="most of it is the attacks' lack of a prior: with a normal law of pictures "
            "least squares leave less than half of it at noise of .1",
            corrected_holds=bool(heavy["least squares"] < 0.5 * heavy["oblivious inversion"]),
            ours=f"inversion {heavy['oblivious inversion']:.1f}, least squares "
            f"{heavy['least squares']:.2f}",
        ),
    ]

"""Biswas et al. 2024, Sections VI and VII: reconstruction of batches from privatised gradients.

Tables II and VI and Figures 1, 3 and 4 look at the same attacks, which are computed once in a
process (:mod:`~._batch_attacks`). What the paper says about its printed tables is checked on the
printed numbers and again on ours.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import torch
from scipy import interpolate, optimize, stats

from reconrisk import DPSGD, bounds, privacy
from reconrisk.attacks import deep_leakage, invert_gradients
from companion.study import registry
from companion.study.computations import Context, computes
from companion.experiments.batch_attacks import (
    Attacked,
    Setting,
    attack_settings,
    attack_task,
    cosines,
    draw_batches,
    release_batches,
    repeated,
    ssim_of_many,
)
from companion.experiments.federated import (
    BATCH_SIZE,
    DELTA,
    DIMENSION,
    KEY,
    NETWORK,
    SAMPLING_RATE,
    SIDE,
    STEPS,
    Pair,
    pairs,
    standardised,
    studied_pairs,
)
from companion.experiments.tools import as_numpy, data_folder
from companion.study.results import Result
from companion.study.sweep import run_sweep
from companion.study.verdicts import (
    STANDARD_ERRORS,
    Verdict,
    check,
    compare,
    half_unit,
    not_run,
    refute,
    rounded,
)
from reconrisk.training import Release, release_gradients
from reconrisk.training._backpropagation import backward_pass, one_hot

__all__ = ["blind_direction", "leak_batches", "trace_attack"]

#: how the two data sets' parameters are named, and the sets of the paper
_SETS = {"digits": "MNIST", "garments": "FashionMNIST"}
_MECHANISMS = ("Gaussian", "VMF")
#: pictures of each problem that are kept for Figure 3
PICTURES = 8
#: decimals with which Tables II and VI are printed
_DECIMALS = {"MSE": 3, "SSIM": 4}
#: Gaussian noises below any in print, which find how much of it would give the printed errors
SMALLER = (0.02, 0.04, 0.07, 0.1, 0.14)
#: layers of the network, each clipped to one (Theorem 5's l)
LAYERS = len(NETWORK.shapes)

NONE, CLIP = Release("none"), Release("clip")


def _release(pair: Pair, mechanism: str) -> Release:
    if mechanism == "VMF":
        return Release("vmf", pair.concentration)
    return Release("gaussian", pair.noise_multiplier)


def _table2_releases() -> tuple[Release, ...]:
    """The six rows of Table II: nothing, clipping, the strongest pair, the lightest pair."""
    noisy = (_release(pair, m) for pair in (pairs()[0], pairs()[-1]) for m in _MECHANISMS)
    return (NONE, CLIP, *noisy)


def _named(release: Release) -> str:
    if release.kind == "gaussian":
        return f"Gaussian, sigma = {release.noise:g}"
    if release.kind == "vmf":
        return f"VMF, kappa = {release.noise:g}"
    return {"none": "no defence", "clip": "clipping only"}[release.kind]


def _stand_in(context: Context) -> bool:
    return any(context.settings[which] != name for which, name in _SETS.items())


# What the paper prints ---------------------------------------------------------------------------


@functools.cache
def _printed_table6() -> pd.DataFrame:
    """Table VI, one row a cell: data, batch size, mechanism, noise, pair, epsilon, MSE, SSIM."""
    cells = (
        _by_pair("table6")
        .pivot_table(
            index=["data", "batch size", "mechanism", "pair"], columns="metric", values="value"
        )
        .reset_index()
    )
    return _with_settings(cells)


def _by_pair(table: str) -> pd.DataFrame:
    """Printed cells of Table V or VI under our names, each with the number of its pair."""
    rows = _plain(table)
    return rows.assign(
        mechanism=rows["mechanism"].replace({"Gauss": "Gaussian"}),
        pair=rows["paired_kappa_vmf"].astype(float).rank(method="dense").astype(int) - 1,
        **{"batch size": rows["batch_size"].astype(int)},
    )


def _plain(table: str) -> pd.DataFrame:
    rows = registry.printed(f"{KEY}/{table}")
    known = {name: which for which, name in _SETS.items()}
    return rows.assign(data=rows["dataset"].map(known), value=rows["value"].astype(float))


def _with_settings(cells: pd.DataFrame) -> pd.DataFrame:
    """Add each cell's noise and epsilon, from its pair's number."""
    known = (*studied_pairs(), pairs()[-1])
    chosen = [known[int(i)] for i in cells["pair"]]
    noise = [_release(p, m).noise for p, m in zip(chosen, cells["mechanism"], strict=True)]
    return cells.assign(noise=noise, epsilon=[p.epsilon for p in chosen])


def _printed_rows(table: str, names: Sequence[str]) -> pd.DataFrame:
    """Table II or III, one row for each of its rows and data sets: data, row, MSE, SSIM."""
    rows = _plain(table)
    label = rows["mechanism"] + " " + rows["noise_parameter_printed"]
    rows["row"] = label.map(dict(zip(dict.fromkeys(label), names, strict=True)))
    cells = rows.pivot_table(index=["data", "row"], columns="metric", values="value")
    return cells.reset_index()


@functools.cache
def _printed_table2() -> pd.DataFrame:
    return _printed_rows("table2", [_named(r) for r in _table2_releases()])


@functools.cache
def _printed_table3() -> pd.DataFrame:
    return _printed_rows("table3", [_named(r) for r in _LEAKED])


@functools.cache
def _printed_figure1() -> pd.DataFrame:
    """The batch-128 columns of Table VI with Table II's lightest pair, nine pairs a series."""
    cells = _printed_table6()
    rows = cells[cells["batch size"] == BATCH_SIZE]
    last = _printed_table2()
    added = []
    for mechanism in _MECHANISMS:
        mine = last[last["row"] == _named(_release(pairs()[-1], mechanism))]
        added.append(mine.assign(mechanism=mechanism, pair=len(studied_pairs())))
    lightest = pd.concat(added).assign(**{"batch size": BATCH_SIZE}).drop(columns="row")
    return pd.concat([rows, _with_settings(lightest)], ignore_index=True)


# What we measure ---------------------------------------------------------------------------------


def _attacked(context: Context, sizes: Iterable[int]) -> dict[tuple[str, int], Attacked]:
    """Both data sets at some batch sizes under the eight pairs, at 128 also Table II's rows."""
    p = context.settings
    named = _table2_releases()
    every = tuple(_release(pair, m) for pair in studied_pairs() for m in _MECHANISMS)
    rest = tuple(release for release in every if release not in named)
    keys = [(which, size) for size in sizes for which in _SETS]
    settings = [
        Setting(p[which], size, (named, rest) if size == BATCH_SIZE else (every,))
        for which, size in keys
    ]
    return dict(zip(keys, attack_settings(context, settings, **_attack(context)), strict=True))


def _table2_runs(context: Context) -> dict[str, Attacked]:
    """Both data sets at batch size 128 under Table II's rows."""
    p = context.settings
    settings = [Setting(p[which], BATCH_SIZE, (_table2_releases(),)) for which in _SETS]
    return dict(zip(_SETS, attack_settings(context, settings, **_attack(context)), strict=True))


def _attack(context: Context) -> dict[str, Any]:
    p = context.settings
    return {
        "draws": p.draws,
        "iterations": p.iterations,
        "total_variation": p.total_variation,
        "initial": p.initial,
        "pictures": PICTURES,
    }


def _series(run: Attacked, name: str, mechanism: str, count: int | None = None) -> np.ndarray:
    """One measurement of a mechanism by pair, (pairs, D): the studied ones, then the lightest."""
    chosen = (*studied_pairs(), pairs()[-1])[:count]
    return np.stack([run.of(name, _release(pair, mechanism)) for pair in chosen])


def _error(values: np.ndarray) -> np.ndarray:
    """Standard error of the mean over the last axis."""
    return values.std(axis=-1, ddof=1) / math.sqrt(values.shape[-1])


def _measured(runs: dict[tuple[str, int], Attacked], count: int | None) -> pd.DataFrame:
    """Our cells as the printed ones, with standard errors and further measurements."""
    parts = []
    for (which, size), run in runs.items():
        for mechanism in _MECHANISMS:
            columns: dict[str, Any] = {}
            for column, name in _COLUMNS.items():
                values = _series(run, name, mechanism, count)
                columns[column] = values.mean(axis=1)
                columns[f"{column} error"] = _error(values)
            columns["pair"] = np.arange(len(values))
            parts.append(
                pd.DataFrame(columns).assign(
                    data=which, mechanism=mechanism, **{"batch size": size}
                )
            )
    return _with_settings(pd.concat(parts, ignore_index=True))


#: columns of our tables, and what they are called in a task's results
_COLUMNS = {
    "MSE": "mse",
    "SSIM": "ssim",
    "matched MSE": "matched mse",
    "matched SSIM": "matched ssim",
    "recognised": "recognised",
    "cosine": "cosine",
}


def _ahead(runs: dict[tuple[str, int], Attacked], count: int | None = 8) -> pd.DataFrame:
    """How much more VMF hides than Gaussian noise, pair by pair on the same batches."""
    rows = []
    for (which, size), run in runs.items():
        mse, ssim = (
            _series(run, name, "VMF", count) - _series(run, name, "Gaussian", count)
            for name in ("mse", "ssim")
        )
        for i in range(len(mse)):
            rows.append(
                {
                    "data": which,
                    "batch size": size,
                    "pair": i,
                    "MSE": float(mse[i].mean()),
                    "SSIM": float(-ssim[i].mean()),
                }
            )
    return pd.DataFrame(rows)


def _printed_ahead(cells: pd.DataFrame) -> pd.DataFrame:
    """The same of printed cells."""
    index = ["data", "batch size", "pair"]
    wide = cells.pivot_table(index=index, columns="mechanism", values=["MSE", "SSIM"])
    gaps = pd.DataFrame(
        {
            "MSE": wide["MSE"]["VMF"] - wide["MSE"]["Gaussian"],
            "SSIM": wide["SSIM"]["Gaussian"] - wide["SSIM"]["VMF"],
        }
    )
    return gaps.reset_index()


def _moves(cells: pd.DataFrame, metric: str) -> pd.Series:
    """How far protection falls from the first pair to the last, by data and mechanism.

    Positive: the MSE falls, or the SSIM rises.
    """
    sign = -1 if metric == "MSE" else 1
    last = cells["pair"].max()
    at = cells.set_index(["data", "mechanism", "pair"])[metric]
    return sign * (at.xs(last, level="pair") - at.xs(0, level="pair"))


def _ran(context: Context, sizes: Iterable[int]) -> str:
    p = context.settings
    named = ", ".join(str(size) for size in sizes)
    return (
        f"{p.draws} batches of {named} records of {p[_DIGITS]} and of {p[_GARMENTS]}, "
        f"{p.iterations} iterations, total variation {p.total_variation:g}, {p.initial} first "
        "weights."
    )


_DIGITS, _GARMENTS = _SETS


# The attack itself -------------------------------------------------------------------------------


def trace_attack(task: dict[str, Any], seed: int) -> dict[str, Any]:
    """Follow the attack on one batch size: error and distance over the iterations.

    Parameters
    ----------
    task : dict
        See :func:`~._batch_attacks.attack_task`.
    seed : int
        Not used.

    Returns
    -------
    dict
        ``"iteration"`` (K,), ``"mse"`` and ``"distance"`` (K, R, D): mean squared error in
        standardised units and one minus the cosine of the candidates' gradient with the released.
    """
    del seed
    data = standardised(task["data"], task["data_root"], device=task["device"])
    releases = [Release(**r) for r in task["releases"]]
    drawn = draw_batches(task, data)
    released, _ = release_batches(task, drawn, releases)
    weights = repeated(drawn.weights, len(releases))
    labels = drawn.labels.repeat(len(releases), 1)
    targets = drawn.inputs.repeat(len(releases), 1, 1)
    plain = [NONE] * len(labels)
    # nothing is drawn from it: neither noise nor restarts
    generator = torch.Generator(device=task["device"])
    shape = (len(releases), task["draws"])
    kept: dict[str, list] = {"iteration": [], "mse": [], "distance": []}

    def watch(iteration: int, inputs: torch.Tensor, problems: slice) -> None:
        if iteration not in _noted(task["iterations"]):
            return
        candidates = inputs[:, 0]
        fit = release_gradients(weights, candidates, labels, plain, generator=generator)
        kept["iteration"].append(iteration)
        error = (candidates - targets).square().mean(dim=(1, 2))
        kept["mse"].append(as_numpy(error).reshape(shape))
        kept["distance"].append(as_numpy(1 - cosines(fit, released)).reshape(shape))

    invert_gradients(
        weights,
        released,
        labels,
        generator=generator,
        iterations=task["iterations"],
        learning_rate=task["learning_rate"],
        total_variation=task["total_variation"],
        shape=(SIDE, SIDE),
        box=((0 - data.mean) / data.std, (1 - data.mean) / data.std),
        start=drawn.start.repeat(len(releases), 1, 1),
        watch=watch,
        block=len(labels),
    )
    return kept


@functools.cache
def _noted(iterations: int) -> frozenset[int]:
    """Iterations at which a trace is kept, evenly spaced in the logarithm."""
    spaced = np.unique(np.round(np.geomspace(1, iterations, 25)).astype(int))
    return frozenset({0, *spaced.tolist()})


def blind_direction(
    weights: dict[str, torch.Tensor],
    inputs: torch.Tensor,
    labels: torch.Tensor,
    generator: torch.Generator,
) -> torch.Tensor:
    """A change of a batch that no layer's averaged gradient and no activation shows.

    With first-layer weights W (h, d) and errors D (n, h) of the batch's records at that layer, add
    ``A B`` with ``D' A = 0`` and ``W B' = 0``: the second leaves every record's responses as they
    are, and with them D and all later layers; the first leaves ``D' X``, the first layer's
    gradient. That is a space of ``(n - h)(d - h)`` dimensions for every batch of more than h
    records.

    Parameters
    ----------
    weights : dict of Tensor, shape (rows, columns)
        One network's, in double precision.
    inputs : Tensor, shape (n, d)
    labels : Tensor of integers, shape (n,)
    generator : torch.Generator

    Returns
    -------
    Tensor, shape (n, d)
        Drawn from that space, with root mean square one.

    Raises
    ------
    ValueError
        If n is at most h.
    """
    first = next(iter(weights.values()))
    units, dimension = first.shape
    if len(inputs) <= units:
        raise ValueError(f"inputs must have more than {units} records; got {len(inputs)}")
    targets = one_hot(labels, list(weights.values())[-1].shape[0], inputs.dtype)
    deltas = backward_pass(weights, inputs[None], targets[None]).deltas[0][0]
    across = torch.linalg.svd(deltas, full_matrices=True).U[:, units:]
    within = torch.linalg.svd(first, full_matrices=True).Vh[units:]
    size = (len(inputs) - units, dimension - units)
    mixed = torch.randn(size, generator=generator, dtype=inputs.dtype, device=inputs.device)
    change = across @ mixed @ within
    return change / change.square().mean().sqrt()


def _blind(context: Context, which: str) -> dict[str, float]:
    """How much of a batch of 128 may change without any change of its gradient."""
    task = _trace_task(context, which, BATCH_SIZE, [NONE])
    data = standardised(task["data"], task["data_root"], device=context.device)
    drawn = draw_batches({**task, "draws": 1}, data)
    weights = {name: w[0].double() for name, w in drawn.weights.items()}
    inputs, labels = drawn.inputs[0].double(), drawn.labels[0]
    change = blind_direction(weights, inputs, labels, context.generator("blind"))
    batches = torch.stack([inputs, inputs + change])
    gradients = release_gradients(
        weights, batches, labels, [NONE, NONE], generator=context.generator("unused")
    )
    flat = torch.cat([g.flatten(1) for g in gradients.values()], dim=1)
    units = next(iter(weights.values())).shape[0]
    return {
        "records": BATCH_SIZE,
        "dimensions": (BATCH_SIZE - units) * (SIDE**2 - units),
        "change of the pictures": float(change.square().mean().sqrt()),
        "change of the gradient": float((flat[1] - flat[0]).norm() / flat[0].norm()),
    }


def _trace_task(
    context: Context, which: str, size: int, releases: Sequence[Release]
) -> dict[str, Any]:
    p = context.settings
    return attack_task(
        context,
        p[which],
        size,
        releases,
        draws=p.traced,
        iterations=p.iterations,
        total_variation=0.0,
        initial=p.initial,
    )


#: readings of what the paper leaves open, all but the first with one thing changed
_READINGS: dict[str, dict[str, Any]] = {
    "as used here": {},
    "no total variation": {"total_variation": 0.0},
    "total variation 0.01": {"total_variation": 0.01},
    "plain derivatives": {"signed": False},
    "PyTorch's first weights": {"initial": "default"},
    "trained for an epoch": {"epochs": 1},
    "pixels of any value": {"boxed": False},
}


@computes(f"{KEY}/alg_iga", "E-D-21")
def inverting_gradients(context: Context) -> Result:
    """The attack over its iterations, and what of its settings fits the printed numbers."""
    p = context.settings
    stand_in = _stand_in(context)
    lightest = _release(pairs()[-1], "Gaussian")
    tasks = [_trace_task(context, _DIGITS, size, [NONE, lightest]) for size in p.sizes]
    rows = run_sweep(
        trace_attack,
        tasks,
        seed=context.seed,
        workers=context.workers,
        scheduler=context.scheduler,
        label=f"{context.exhibit}: traces",
    )
    trace = pd.concat([_traced(task, row) for task, row in zip(tasks, rows, strict=True)])
    ends = trace[trace["iteration"] == p.iterations].set_index(["row", "batch size"])["MSE"]
    clean, noisy = ends.loc[_named(NONE)], ends.loc[_named(lightest)]
    blind = pd.DataFrame([_blind(context, _DIGITS)])
    readings = _readings(context)
    alone, most = min(p.sizes), max(p.sizes)
    found = clean[alone] < 1e-5
    verdicts = [
        check(
            f"{KEY}/alg_iga",
            bool(found and clean[most] > 0.05 and noisy[alone] > 0.05),
            f"without noise the attack rebuilds a single record to single precision; not so "
            f"{most} records at once, nor one record under the lightest noise of Table II",
            ours=f"MSE below 1e-5 for {alone}, {rounded(float(clean[most]), digits=1)} for {most}, "
            f"{rounded(float(noisy[alone]), digits=1)} for {alone} under noise",
            stand_in=stand_in,
        ),
        refute(
            "E-D-21",
            "the attack provably reconstructs what fully connected networks are fed, also "
            f"{BATCH_SIZE} records at once",
            holds=bool(clean[most] < 1e-3),
            corrected="one record can be read off, also without biases: the first layer's gradient "
            "is an outer product. With more records than the first layer has units "
            "(50), a batch can be changed in (n - 50)(256 - 50) dimensions without any change of "
            "any layer's gradient, and no attack can tell",
            corrected_holds=bool(
                found
                and blind["change of the gradient"].iloc[0] < 1e-10
                and blind["change of the pictures"].iloc[0] > 0.99
            ),
            ours=f"{BATCH_SIZE} records: {int(blind['dimensions'].iloc[0]):,} dimensions; a change "
            "of one standard deviation a pixel leaves the gradient as it was to ten digits",
        ),
    ]
    if not stand_in:
        verdicts.append(_nearest_reading(readings))
    return Result(
        f"{KEY}/alg_iga",
        verdicts,
        {"trace": trace, "readings": readings, "blind": blind.drop(columns=_ROUNDING)},
        exact=("blind",),
        ran=f"{p.traced} batches of {', '.join(map(str, p.sizes))} records of {p[_DIGITS]}, "
        f"{p.iterations} iterations; each reading on {p.compared} batches of {BATCH_SIZE}.",
    )


#: columns that hold nothing but rounding errors
_ROUNDING = ["change of the pictures", "change of the gradient"]


def _traced(task: dict[str, Any], row: dict[str, Any]) -> pd.DataFrame:
    """Medians over the draws: a single record in a few is not found from its first candidate."""
    parts = []
    for i, release in enumerate(task["releases"]):
        mse, distance = (np.median(np.asarray(row[n])[:, i], axis=1) for n in ("mse", "distance"))
        parts.append(
            pd.DataFrame(
                {
                    "row": _named(Release(**release)),
                    "batch size": task["batch_size"],
                    "iteration": row["iteration"],
                    "MSE": mse,
                    "distance": np.maximum(distance, 0.0),
                }
            )
        )
    return pd.concat(parts, ignore_index=True)


def _readings(context: Context) -> pd.DataFrame:
    """Table II under each reading of what is not stated, and how far from print it comes out."""
    p = context.settings
    printed = _printed_table2().set_index(["data", "row"])["MSE"]
    settings = [Setting(p[which], BATCH_SIZE, (_table2_releases(),)) for which in _SETS]
    given = {"total_variation": p.total_variation, "initial": p.initial}
    parts = []
    for reading, changed in _READINGS.items():
        runs = attack_settings(
            context,
            settings,
            draws=p.compared,
            iterations=p.iterations,
            **{**given, **changed},
        )
        for which, run in zip(_SETS, runs, strict=True):
            table = pd.DataFrame(
                {
                    "reading": reading,
                    "data": which,
                    "row": [_named(r) for r in run.releases],
                    "MSE": run.values["mse"].mean(axis=1),
                    "SSIM": run.values["ssim"].mean(axis=1),
                }
            )
            table["off"] = np.log(table["MSE"] / [printed[which, row] for row in table["row"]])
            parts.append(table)
    return pd.concat(parts, ignore_index=True)


def _nearest_reading(readings: pd.DataFrame) -> Verdict:
    """Whether the attack's settings are among those that can be the paper's."""
    off = readings.groupby("reading")["off"].apply(lambda v: float(np.sqrt(np.mean(v**2))))
    others = off[["trained for an epoch", "pixels of any value"]]
    return check(
        f"{KEY}/alg_iga",
        bool(off["as used here"] < 0.15 and others.min() > 2 * off["as used here"]),
        "with the settings used here the twelve MSEs of Table II come out within 15 per cent (root "
        "mean square); with a trained network, or pixels without limits, at least twice as far off",
        ours=", ".join(f"{name}: {value:.0%}" for name, value in off.items()),
    )


# Table II ----------------------------------------------------------------------------------------


@computes(f"{KEY}/table2", "D-027", "E-D-05", "E-D-08")
def table2(context: Context) -> Result:
    """No defence, clipping, and two noises of each mechanism at batch size 128."""
    runs = _table2_runs(context)
    printed, stand_in = _printed_table2(), _stand_in(context)
    ours = pd.concat(
        [_row_table(which, run) for which, run in runs.items()], ignore_index=True
    ).merge(printed, on=["data", "row"], suffixes=("", " printed"))
    guesses = pd.DataFrame(
        [
            {"data": which, "guess": name, "MSE": float(run.values[name].mean())}
            for which, run in runs.items()
            for name in ("mean image", "class means")
        ]
    )
    rows = ours.set_index(["data", "row"])
    same_order = all(
        list(rows.loc[which].sort_values("MSE").index)
        == list(rows.loc[which].sort_values("MSE printed").index)
        for which in _SETS
    )
    verdicts = [
        check(
            f"{KEY}/table2",
            same_order,
            "on both data sets the six rows come in the printed order of their MSEs: no defence, "
            "clipping, light and strong Gaussian noise, light and strong VMF noise",
            stand_in=stand_in,
        ),
        _clipping_alone(rows, stand_in),
        _misprinted_sigma(),
        _measures_disagree(),
    ]
    if not stand_in:
        verdicts += [_cell_by_cell(f"{KEY}/table2", ours), _table2_numbers(ours, guesses)]
    return Result(
        f"{KEY}/table2",
        verdicts,
        {"rows": ours, "guesses": guesses},
        ran=_ran(context, [BATCH_SIZE]),
    )


def _row_table(which: str, run: Attacked) -> pd.DataFrame:
    """One row for each of a run's releases."""
    columns: dict[str, Any] = {"data": which, "row": [_named(r) for r in run.releases]}
    for column, name in {**_COLUMNS, "SSIM in [0, 1]": "unit ssim"}.items():
        columns[column] = run.values[name].mean(axis=1)
        columns[f"{column} error"] = _error(run.values[name])
    return pd.DataFrame(columns)


def _clipping_alone(rows: pd.DataFrame, stand_in: bool) -> Verdict:
    """Reconstructions of clipped gradients look like their label, those under VMF noise do not."""
    vmf = _named(_release(pairs()[-1], "VMF"))
    printed = _printed_table2().set_index(["row", "data"])["SSIM"]
    seen = {which: rows.loc[which]["recognised"] for which in _SETS}
    holds = all(
        seen[which][_named(CLIP)] > 0.5 * seen[which][_named(NONE)]
        and seen[which][_named(CLIP)] > seen[which][vmf]
        and printed[_named(CLIP), which] > 0.5 * printed[_named(NONE), which]
        for which in _SETS
    )
    return check(
        "D-027",
        bool(holds and seen[_DIGITS][_named(CLIP)] > 0.5),
        "clipping takes less than half of the printed SSIM; with clipping alone at least half as "
        "many reconstructions as without are most like their own label's mean picture, more than "
        "under the lightest VMF noise, and of the digits more than half",
        ours=f"{_percent(seen[_DIGITS][_named(CLIP)])} of the digits with clipping, "
        f"{_percent(seen[_DIGITS][_named(NONE)])} without, {_percent(seen[_DIGITS][vmf])} under "
        "the lightest VMF noise",
        stand_in=stand_in,
    )


def _percent(share: float) -> str:
    """A share to ten per cent, which its spread over the batches supports."""
    return f"about {10 * round(10 * share)}%"


def _misprinted_sigma() -> Verdict:
    """The lightest Gaussian noise is .174 by its epsilon and by the errors it leads to."""
    lightest = pairs()[-1]
    sigma = lightest.noise_multiplier
    spent = {
        s: privacy.epsilon(DPSGD(s, sampling_rate=SAMPLING_RATE, steps=STEPS), DELTA)
        for s in (sigma, sigma / 10)
    }
    column = _printed_figure1().query("mechanism == 'Gaussian'")
    gaps = []
    for which in _SETS:
        mine = column[column["data"] == which].sort_values("noise", ascending=False)
        (first, second), goal = mine["MSE"].iloc[-3:-1], mine["MSE"].iloc[-1]
        far, near = np.log(mine["noise"].iloc[-3:-1])
        line = second + (second - first) * (math.log(sigma) - near) / (near - far)
        gaps.append(abs(line - goal))
    return refute(
        "E-D-05",
        f"the lightest Gaussian noise, of the printed epsilon {lightest.epsilon:g}, is "
        f"sigma = {sigma / 10:g}",
        holds=bool(spent[sigma / 10].lower < 5 * lightest.epsilon),
        corrected=f"it is {sigma:g}, as in Table IV: epsilon, as certified, is then "
        f"{spent[sigma].upper:.0f}, and the line through Table VI's two lightest noises "
        "leads to the printed MSEs",
        corrected_holds=bool(
            0.8 * lightest.epsilon < spent[sigma].lower < lightest.epsilon and max(gaps) < 0.03
        ),
        ours=f"epsilon at {sigma / 10:g} is at least {spent[sigma / 10].lower:,.0f}; the lines "
        f"miss the printed MSEs by {' and '.join(f'{gap:.3f}' for gap in gaps)}",
        paper=f"epsilon = {lightest.epsilon:g}",
    )


def _measures_disagree() -> Verdict:
    """By SSIM the printed defences improve the reconstruction of digits, by MSE they do not."""
    rows = _printed_table2().query("data == @_DIGITS").set_index("row")
    near = _printed_table6().query(
        "data == @_DIGITS and `batch size` == @BATCH_SIZE and mechanism == 'Gaussian' and pair == 7"
    )
    light = rows.loc[_named(_release(pairs()[-1], "Gaussian"))]
    defended = pd.DataFrame([rows.loc[_named(CLIP)], light, near.iloc[0]])[["MSE", "SSIM"]]
    bare = rows.loc[_named(NONE)]
    better = (defended["SSIM"] > bare["SSIM"]).to_numpy()
    worse = (defended["MSE"] > bare["MSE"]).to_numpy()
    return refute(
        "E-D-08",
        "the better defended the gradient, the worse the reconstruction, by SSIM as by MSE",
        holds=not better.any(),
        corrected="by SSIM the printed digits are rebuilt better from the clipped gradient, and "
        "under the two lightest noises, than from the plain one; by MSE all are worse. The "
        "numbers fit SSIMs of standardised pictures, whose mean pixel is zero: SSIM compares "
        "means by their ratio",
        corrected_holds=bool(better.all() and worse.all()),
        ours=f"SSIM {bare['SSIM']:.4f} without defence; "
        + ", ".join(f"{v:.4f}" for v in defended["SSIM"])
        + " with clipping and with the two lightest noises",
    )


def _table2_numbers(ours: pd.DataFrame, guesses: pd.DataFrame) -> Verdict:
    """On the paper's data: how near, and what not attacking at all would give."""
    off = np.abs(np.log(ours["MSE"] / ours["MSE printed"]))
    turned = ours["row"].str.startswith("VMF")
    best = guesses.groupby("data")["MSE"].min()
    beaten = [ours.loc[ours["data"] == d, "MSE printed"].min() > best[d] for d in best.index]
    return check(
        f"{KEY}/table2",
        bool(off[turned].max() < 0.05 and off.max() < 0.35 and all(beaten)),
        "the MSEs under VMF noise are within 5 per cent of the printed ones and all within 35; and "
        "no printed row, not even without defence, comes as near to the pictures as the mean "
        "pictures of their labels, which take no gradient",
        ours=f"VMF within {off[turned].max():.1%}, all within {off.max():.0%}; class means: "
        + ", ".join(f"{rounded(value, digits=3)} ({which})" for which, value in best.items()),
    )


# Table III ---------------------------------------------------------------------------------------

#: what is released in Table III
_LEAKED = (NONE, _release(pairs()[-1], "Gaussian"), _release(pairs()[-1], "VMF"))


#: largest batch that deep leakage is said to bear (Section VI)
LARGEST_LEAKED = 8


def leak_batches(task: dict[str, Any], seed: int) -> dict[str, Any]:
    """Run deep leakage from gradients on one batch size, from uniform pictures.

    Parameters
    ----------
    task : dict
        See :func:`~._batch_attacks.attack_task`.
    seed : int
        Not used.

    Returns
    -------
    dict
        ``"mse"`` and ``"ssim"`` (R, D) of pictures clipped to [0, 1], and ``"start mse"`` (D,).
    """
    del seed
    data = standardised(task["data"], task["data_root"], device=task["device"])
    releases = [Release(**r) for r in task["releases"]]
    drawn = draw_batches(task, data)
    released, _ = release_batches(task, drawn, releases)
    # uniform from normal draws, so that they are those of the other attack
    uniform = torch.special.ndtr(drawn.start)
    rebuilt = deep_leakage(
        repeated(drawn.weights, len(releases)),
        released,
        drawn.labels.repeat(len(releases), 1),
        generator=torch.Generator(device=task["device"]),  # no restarts: nothing is drawn
        iterations=task["iterations"],
        start=((uniform - data.mean) / data.std).repeat(len(releases), 1, 1),
    )
    truth = data.unit(as_numpy(drawn.inputs))
    found = data.unit(as_numpy(rebuilt.inputs)).reshape(len(releases), *truth.shape).clip(0, 1)
    return {
        "mse": np.square(found - truth).mean(axis=(2, 3)),
        "ssim": ssim_of_many(np.broadcast_to(truth, found.shape), found).mean(axis=2),
        "start mse": np.square(as_numpy(uniform) - truth).mean(axis=(1, 2)),
    }


@computes(f"{KEY}/table3", "D-031", "E-D-24")
def table3(context: Context) -> Result:
    """Deep leakage from gradients: batches up to a few records, and no noise."""
    p = context.settings
    keys = [(which, size) for which in _SETS for size in p.sizes]
    tasks = [
        attack_task(
            context,
            p[which],
            size,
            _LEAKED,
            draws=p.draws,
            iterations=p.iterations,
            initial=p.initial,
        )
        for which, size in keys
    ]
    rows = run_sweep(
        leak_batches,
        tasks,
        seed=context.seed,
        workers=context.workers,
        scheduler=context.scheduler,
        store=context.checkpoints / f"{KEY}-leakage" if context.checkpoints else None,
        label=f"{context.exhibit}: deep leakage",
    )
    table = pd.concat(
        [_leaked(*key, row) for key, row in zip(keys, rows, strict=True)], ignore_index=True
    )
    stand_in = _stand_in(context)
    uniform = pd.DataFrame([_uniform(context, which) for which in _SETS])
    verdicts = [*_leakage_verdicts(p, table, stand_in), _printed_noise(uniform, stand_in)]
    return Result(
        f"{KEY}/table3",
        verdicts,
        {"leakage": table, "uniform": uniform, "printed": _printed_table3()},
        exact=("printed",),
        ran=f"{p.draws} batches of {', '.join(map(str, p.sizes))} records, {p.iterations} steps "
        f"of L-BFGS, {p[_DIGITS]} and {p[_GARMENTS]}.",
    )


def _leaked(which: str, size: int, row: dict[str, Any]) -> pd.DataFrame:
    mse, ssim = (np.asarray(row[name]) for name in ("mse", "ssim"))
    return pd.DataFrame(
        {
            "data": which,
            "batch size": size,
            "row": [_named(release) for release in _LEAKED],
            "MSE": mse.mean(axis=1),
            "MSE error": _error(mse),
            "median MSE": np.median(mse, axis=1),
            "median SSIM": np.median(ssim, axis=1),
            "SSIM": ssim.mean(axis=1),
            "SSIM error": _error(ssim),
            "start": float(np.mean(row["start mse"])),
        }
    )


def _uniform(context: Context, which: str) -> dict[str, Any]:
    """Error of pictures of uniform noise, and its spread over pictures and noises.

    With v uniform in [-1/2, 1/2] and c a pixel's distance from one half, the squared error is
    ``(v + c)^2``, of mean ``1/12 + c^2`` and variance ``1/180 + c^2/3``.
    """
    name = context.settings[which]
    data = standardised(name, data_folder(context, name), device=context.device)
    squares = np.square(data.images.inputs.astype(float) - 0.5)
    each = squares.mean(axis=1) + 1 / 12
    noise = (1 / 180 + squares / 3).mean() / squares.shape[1]
    return {
        "data": which,
        "MSE": float(each.mean()),
        "spread": float(np.sqrt(each.var() + noise)),
    }


def _leakage_verdicts(p: Any, table: pd.DataFrame, stand_in: bool) -> list[Verdict]:
    cells = table.set_index(["row", "batch size", "data"])
    clean, gaussian, vmf = (cells.loc[_named(release)] for release in _LEAKED)
    small, large = min(p.sizes), max(p.sizes)
    alone = clean.loc[small]["median MSE"] < 0.1 * clean.loc[small]["start"]
    fails = [
        (noisy["median MSE"] > 0.5 * noisy["start"]).all() and (noisy["median SSIM"] < 0.3).all()
        for noisy in (gaussian, vmf)
    ]
    worse = clean.loc[large]["median MSE"] > 2 * clean.loc[small]["median MSE"]
    printed = _printed_table3().set_index(["row", "data"])["SSIM"]
    collapsed = all(
        printed[_named(r), which] < 0.1 * printed[_named(NONE), which]
        for r in _LEAKED[1:]
        for which in _SETS
    )
    statement = (
        "without noise deep leakage rebuilds "
        + ("one record" if small == 1 else f"{small} records")
        + "; under the lightest noise of either mechanism its median SSIM stays below .3 and its "
        "median error above half that of the uniform noise it starts from, at every batch size"
    )
    shown = "; ".join(
        f"{which}: median SSIM {clean['median SSIM'][small, which]:.1f} for "
        f"{small}, {clean['median SSIM'][large, which]:.1f} for {large}"
        for which in _SETS
    )
    return [
        check(
            f"{KEY}/table3",
            bool(alone.all() and all(fails) and collapsed),
            statement,
            ours=shown,
            paper="SSIM .45 and .51 without noise, at most .03 with it",
            stand_in=stand_in,
        ),
        check(
            "D-031",
            bool(alone.all() and worse.all() and all(fails) and collapsed),
            f"without noise its median error at least doubles from {small} to {large} records, and "
            "under the lightest noise it fails at all batch sizes",
            ours=shown,
            paper="works up to a batch of 8",
            stand_in=stand_in,
        ),
    ]


def _printed_noise(uniform: pd.DataFrame, stand_in: bool) -> Verdict:
    """The printed errors under noise are those of uniform pixels."""
    statement = "Table III compares how the two mechanisms' noise hinders deep leakage"
    if stand_in:
        return not_run(
            "E-D-24",
            statement + ": whether its rows under noise are other than uniform noise's",
            "MNIST and FashionMNIST in data_root: the error of uniform pixels depends on the data",
        )
    printed = _printed_table3().set_index(["row", "data"])["MSE"]
    known = uniform.set_index("data")
    scores = [
        (printed[_named(r), which] - known["MSE"][which])
        / (known["spread"][which] / math.sqrt(LARGEST_LEAKED))
        for r in _LEAKED[1:]
        for which in _SETS
    ]
    return refute(
        "E-D-24",
        statement,
        holds=bool(max(map(abs, scores)) > 2),
        corrected="its four MSEs under noise are those of pictures of uniform noise, within a "
        "batch's spread: the attack had not left its start, and there is nothing to compare",
        corrected_holds=bool(max(map(abs, scores)) < 1),
        ours=", ".join(f"{known['MSE'][which]:.4f} ({name})" for which, name in _SETS.items()),
        paper=", ".join(f"{printed[_named(r), which]:.4f}" for which in _SETS for r in _LEAKED[1:]),
    )


# Table VI ----------------------------------------------------------------------------------------


@computes(f"{KEY}/table6", "D-022", "D-032", "D-035", "D-036", "E-D-07")
def table6(context: Context) -> Result:
    """All batch sizes, both data sets, eight pairs."""
    p = context.settings
    runs = _attacked(context, p.batch_sizes)
    printed, stand_in = _printed_table6(), _stand_in(context)
    ours = _measured(runs, 8)
    gaps, printed_gaps = _ahead(runs), _printed_ahead(printed)
    verdicts = [
        _table6_verdict(ours, printed, gaps, stand_in),
        *_protects_better(gaps, printed_gaps, stand_in),
        _monotone(ours, printed, stand_in),
        _matched_utility(gaps, stand_in),
        _not_always(printed_gaps),
    ]
    tables = {"ours": ours, "printed": printed, "differences": gaps}
    if not stand_in:
        tables["fitted noise"] = _fitted_noise(context, runs)
        verdicts += [
            _cell_by_cell(f"{KEY}/table6", _beside(ours, printed)),
            _less_noise(tables["fitted noise"]),
        ]
    return Result(
        f"{KEY}/table6",
        verdicts,
        tables,
        exact=("printed",),
        ran=_ran(context, p.batch_sizes),
    )


def _table6_verdict(
    ours: pd.DataFrame, printed: pd.DataFrame, gaps: pd.DataFrame, stand_in: bool
) -> Verdict:
    if stand_in:
        mean = gaps.groupby(["data", "batch size"])[["MSE", "SSIM"]].mean()
        return check(
            f"{KEY}/table6",
            bool((mean["MSE"] > 0).all() and (mean["SSIM"].groupby("data").mean() > 0).all()),
            "averaged over the eight pairs, VMF has the larger MSE at every batch size and data "
            "set, and over all batch sizes the smaller SSIM",
            ours=f"{int((gaps['MSE'] > 0).sum())} of {len(gaps)} cells by MSE",
            stand_in=True,
        )
    both = _beside(ours, printed)
    off = np.abs(np.log(both["MSE"] / both["MSE printed"]))
    turned = both["mechanism"] == "VMF"
    return check(
        f"{KEY}/table6",
        bool(off[turned].max() < 0.08 and off[~turned].median() < 0.2),
        "the MSEs under VMF noise are within 8 per cent of the printed ones in all cells; under "
        "Gaussian noise the median is off by less than 20 per cent",
        ours=f"VMF within {off[turned].max():.1%}; Gaussian: median {off[~turned].median():.0%}, "
        f"at most {off[~turned].max():.0%}",
        paper=f"{len(both)} printed MSEs",
    )


def _beside(ours: pd.DataFrame, printed: pd.DataFrame) -> pd.DataFrame:
    index = ["data", "batch size", "mechanism", "pair"]
    return ours.merge(printed, on=index, suffixes=("", " printed"))


def _as_printed(metric: str, value: float) -> str:
    return f"{value:.{_DECIMALS[metric]}f}"


def _cell_by_cell(target: str, both: pd.DataFrame) -> Verdict:
    """Every printed number against ours, which differ at the paper's own settings."""
    cells = pd.concat(
        [
            pd.DataFrame(
                {
                    "ours": both[metric],
                    "error": both[f"{metric} error"],
                    "printed": both[f"{metric} printed"],
                    "text": [_as_printed(metric, value) for value in both[f"{metric} printed"]],
                }
            )
            for metric in _DECIMALS
        ]
    )
    return compare(
        target,
        "the printed MSEs and SSIMs come out one by one",
        cells["ours"],
        cells["printed"],
        list(cells["text"]),
        standard_error=cells["error"],
        differs="with VMF noise and with clipping alone nearly all agree, under Gaussian noise few "
        "do: in print it hides less than noise of its size does here, as if it were smaller (see "
        "Table VI). First weights, total variation and draws are not printed",
    )


def _fitted_noise(context: Context, runs: Mapping[tuple[str, int], Attacked]) -> pd.DataFrame:
    """The factor on the noise of each Gaussian series with which our MSEs are the printed ones.

    One row a series: the factor that fits our mean MSEs best, the factors that fit single draws (a
    printed number may rest on one), and of the printed MSEs how many are ours and how far off the
    farthest is, with the factor and without.
    """
    smaller = tuple(Release("gaussian", sigma) for sigma in SMALLER)
    settings = [Setting(context.settings[which], size, (smaller,)) for which, size in runs]
    rows = []
    for (which, size), more in zip(
        runs, attack_settings(context, settings, **_attack(context)), strict=True
    ):
        cells = _printed_table6().query(
            "data == @which and `batch size` == @size and mechanism == 'Gaussian'"
        )
        sigma, printed = cells["noise"].to_numpy(), cells["MSE"].to_numpy()
        measured = _series(runs[which, size], "mse", "Gaussian", len(sigma))
        noise = np.concatenate([SMALLER, sigma])
        order = np.argsort(noise)
        mse = np.concatenate([more.values["mse"], measured])[order]
        factor = _noise_factor(noise[order], mse.mean(axis=1), sigma, printed)
        single = [_noise_factor(noise[order], draw, sigma, printed) for draw in mse.T]
        row = {
            "data": which,
            "batch size": size,
            "factor": factor,
            "least of a draw": min(single),
            "most of a draw": max(single),
        }
        for suffix, scale in (("", factor), (" as printed", 1.0)):
            at = _over_noise(noise[order], mse.mean(axis=1), scale * sigma)
            allowed = STANDARD_ERRORS * _over_noise(noise[order], _error(mse), scale * sigma)
            allowed += half_unit(_as_printed("MSE", 0.0))
            row[f"agree{suffix}"] = int(np.sum(np.abs(at - printed) <= allowed))
            row[f"farthest{suffix}"] = float(np.abs(at / printed - 1).max())
        rows.append(row | {"cells": len(cells)})
    return pd.DataFrame(rows)


def _over_noise(noise: np.ndarray, values: np.ndarray, at: np.ndarray) -> np.ndarray:
    """Values measured at rising noises, between them."""
    return np.exp(interpolate.PchipInterpolator(np.log(noise), np.log(values))(np.log(at)))


def _noise_factor(
    noise: np.ndarray, mse: np.ndarray, sigma: np.ndarray, printed: np.ndarray
) -> float:
    """The factor in [.1, 1] on ``sigma`` with which MSEs measured at ``noise`` fit the print."""

    def off(log_factor: float) -> float:
        at = _over_noise(noise, mse, math.exp(log_factor) * sigma)
        return float(np.sum(np.log(at / printed) ** 2))

    reach = (math.log(0.1), 0.0)
    best = optimize.minimize_scalar(off, bounds=reach, method="bounded")
    return math.exp(best.x)


def _less_noise(fitted: pd.DataFrame) -> Verdict:
    """Whether one factor a series explains the Gaussian cells."""
    agree, before, cells = (int(fitted[c].sum()) for c in ("agree", "agree as printed", "cells"))
    return check(
        f"{KEY}/table6",
        bool(agree > 0.9 * cells > 0.5 * cells > before and fitted["factor"].max() < 1),
        "with the noise of each Gaussian series multiplied by a factor below one, the same for its "
        "eight cells, more than nine in ten printed MSEs are ours; as printed fewer than half are",
        ours=f"{agree} instead of {before} of {cells}, with factors "
        f"{fitted['factor'].min():.2f} to {fitted['factor'].max():.2f}; the farthest is off by "
        f"{fitted['farthest'].max():.0%} instead of {fitted['farthest as printed'].max():.0%}",
        tolerance=f"{STANDARD_ERRORS:g} standard errors",
    )


def _protects_better(
    gaps: pd.DataFrame, printed: pd.DataFrame, stand_in: bool
) -> Iterable[Verdict]:
    at = {
        name: table[table["batch size"] == BATCH_SIZE]
        for name, table in (("ours", gaps), ("printed", printed))
    }
    every = bool((at["printed"][["MSE", "SSIM"]] > 0).all(axis=None))
    mine = (at["ours"]["MSE"] > 0).all() and (at["ours"].groupby("data")["SSIM"].mean() > 0).all()
    yield check(
        "D-022",
        every and bool(mine),
        f"at batch size {BATCH_SIZE} VMF has the smaller SSIM and the larger MSE in all printed "
        "pairs and on both data sets; in ours the larger MSE in all pairs and the smaller SSIM on "
        "average",
        ours=f"SSIM smaller in {int((at['ours']['SSIM'] > 0).sum())} of {len(at['ours'])} pairs",
        stand_in=stand_in,
    )
    reversed_mse = printed[printed["MSE"] <= 0]
    yield check(
        "D-035",
        bool((printed["SSIM"] > 0).all() and len(reversed_mse) == 1)
        and bool((gaps["MSE"] > 0).mean() > 0.9),
        "in all printed cells VMF has the smaller SSIM, and in all but one the larger MSE; in ours "
        "the larger MSE in more than nine cells of ten",
        ours=f"larger MSE in {int((gaps['MSE'] > 0).sum())} of {len(gaps)} cells",
        paper=f"larger MSE in {int((printed['MSE'] > 0).sum())} of {len(printed)} cells",
        stand_in=stand_in,
    )


def _monotone(ours: pd.DataFrame, printed: pd.DataFrame, stand_in: bool) -> Verdict:
    series = ["data", "batch size", "mechanism"]
    steps = printed.sort_values("pair").groupby(series)[["MSE", "SSIM"]].diff().dropna()
    strict = bool((steps["MSE"] < 0).all() and (steps["SSIM"] > 0).all())
    ranks = {
        name: float(stats.spearmanr(group["pair"], group["MSE"]).statistic)
        for name, group in ours.groupby(series)
    }
    gaussian = [r for name, r in ranks.items() if name[2] == "Gaussian"]
    ends = [
        group.sort_values("pair")["MSE"].iloc[[0, -1]].to_numpy()
        for _, group in ours.groupby(series)
    ]
    falls = sum(bool(last < first) for first, last in ends)
    return check(
        "D-036",
        strict and max(gaussian) < -0.9 and falls >= 0.8 * len(ends),
        "as the noise falls SSIM rises and MSE falls in every printed series without exception; in "
        "ours the MSE falls with every Gaussian series' noise (rank correlation beyond .9), and in "
        "four fifths of all series from the first pair to the last",
        ours=f"{falls} of {len(ends)} series fall from end to end",
        stand_in=stand_in,
    )


def _matched_utility(gaps: pd.DataFrame, stand_in: bool) -> Verdict:
    """The printed pairs of one batch size whose accuracies are nearly equal."""
    accuracy = _by_pair("table5")
    cells = _printed_table6().merge(
        accuracy[["data", "mechanism", "pair", "batch size", "value"]],
        on=["data", "mechanism", "pair", "batch size"],
    )
    turned = cells[cells["mechanism"] == "VMF"]
    other = cells[cells["mechanism"] == "Gaussian"]
    matched = turned.merge(other, on=["data", "batch size"], suffixes=(" VMF", " Gaussian"))
    near = matched[(matched["value VMF"] - matched["value Gaussian"]).abs() < 0.02]
    by_ssim = near["SSIM VMF"] < near["SSIM Gaussian"]
    by_mse = near["MSE VMF"] > near["MSE Gaussian"]
    return refute(
        "D-032",
        "VMF protects more also where the utilities are matched",
        holds=bool(by_ssim.all() and by_mse.all() and (near["batch size"] == BATCH_SIZE).any()),
        corrected="no two printed runs of batch size 128 have equal accuracy. Two pairs of batch "
        "size 16 come within two per cent: by SSIM VMF protects more in both, by MSE in one of the "
        "two. Why the mechanism hardly matters at equal utility: "
        "companion, mechanism or calibration",
        corrected_holds=bool(
            len(near) == 2
            and (near["batch size"] == 16).all()
            and by_ssim.all()
            and by_mse.sum() == 1
        ),
        ours="; ".join(
            f"{row['data']}: accuracy {row['value VMF']:.4f} (VMF) and {row['value Gaussian']:.4f},"
            f" MSE {row['MSE VMF']:.3f} and {row['MSE Gaussian']:.3f}"
            for _, row in near.iterrows()
        ),
    )


def _not_always(printed: pd.DataFrame) -> Verdict:
    """Printed cells in which Gaussian noise protects better."""
    worse = printed[(printed["MSE"] <= 0) | (printed["SSIM"] <= 0)]
    leaked = _printed_table3().set_index(["row", "data"])
    gaussian, vmf = (leaked.loc[_named(release)] for release in _LEAKED[1:])
    turned = bool((gaussian["MSE"] > vmf["MSE"]).all() and (gaussian["SSIM"] < vmf["SSIM"]).all())
    only = len(worse) == 1 and tuple(worse.iloc[0][["data", "batch size", "pair"]]) == (
        _GARMENTS,
        16,
        0,
    )
    return refute(
        "E-D-07",
        "in every printed pair VMF protects better than Gaussian noise",
        holds=worse.empty and not turned,
        corrected="not in Table VI for garments at batch size 16 and the strongest noise, by MSE; "
        "nor in Table III, by either measure on either data set",
        corrected_holds=bool(only and turned),
        ours="; ".join(
            f"{row['data']}, batch size {row['batch size']}: MSE {values['VMF']:.3f} below "
            f"{values['Gaussian']:.3f}"
            for _, row in worse.iterrows()
            for values in [_cell(row)]
        ),
    )


def _cell(key: pd.Series) -> dict[str, float]:
    """Both mechanisms' printed MSE of one data set, batch size and pair."""
    cells = _printed_table6()
    chosen = (cells[["data", "batch size", "pair"]] == key[["data", "batch size", "pair"]]).all(
        axis=1
    )
    return dict(cells[chosen].set_index("mechanism")["MSE"])


# Figure 1 ----------------------------------------------------------------------------------------

_PANELS = {
    f"_{name.lower()}_{metric.lower()}": (which, metric)
    for which, name in _SETS.items()
    for metric in ("SSIM", "MSE")
}


@computes(f"{KEY}/fig1", *_PANELS, "D-023", "D-024", "D-025", "D-028", "E-D-15")
def figure1(context: Context) -> Result:
    """SSIM and MSE over epsilon at batch size 128."""
    runs = _attacked(context, [BATCH_SIZE])
    printed, stand_in = _printed_figure1(), _stand_in(context)
    ours = _measured(runs, None)
    gaps, printed_gaps = _ahead(runs, None), _printed_ahead(printed)
    verdicts = [
        _panel(suffix, which, metric, gaps, printed_gaps, stand_in)
        for suffix, (which, metric) in _PANELS.items()
    ]
    moved = {
        (name, metric): _moves(cells, metric)
        for name, cells in (("ours", ours), ("printed", printed))
        for metric in ("MSE", "SSIM")
    }
    verdicts += [
        _no_crossing(gaps, printed_gaps, stand_in),
        *_deterioration(moved, stand_in),
        *_second_decimal(moved["printed", "SSIM"]),
        _poor_predictor(ours, printed, stand_in),
    ]
    if not stand_in:
        verdicts.append(_cell_by_cell(f"{KEY}/fig1", _beside(ours, printed)))
    return Result(
        f"{KEY}/fig1",
        verdicts,
        {"ours": ours, "printed": printed},
        exact=("printed",),
        ran=_ran(context, [BATCH_SIZE]),
    )


def _panel(
    suffix: str,
    which: str,
    metric: str,
    gaps: pd.DataFrame,
    printed: pd.DataFrame,
    stand_in: bool,
) -> Verdict:
    mine, theirs = (t.loc[t["data"] == which, metric] for t in (gaps, printed))
    word = "above" if metric == "MSE" else "below"
    # garments' stand-ins are smooth patches, whose SSIM is next to zero under any noise
    every = metric == "MSE" or which == _DIGITS or not stand_in
    return check(
        f"{KEY}/fig1{suffix}",
        bool((theirs > 0).all() and (mine > 0).all() if every else mine.mean() > 0),
        f"VMF's {metric} is {word} the Gaussian's at all nine epsilons as printed, and "
        + ("so in ours" if every else "on average in ours"),
        ours=f"{int((mine > 0).sum())} of {len(mine)} epsilons",
        stand_in=stand_in,
    )


def _no_crossing(gaps: pd.DataFrame, printed: pd.DataFrame, stand_in: bool) -> Verdict:
    apart = bool((gaps["MSE"] > 0).all() and (printed[["MSE", "SSIM"]] > 0).all(axis=None))
    return check(
        f"{KEY}/fig1",
        apart,
        "the mechanisms' curves do not cross: VMF protects better at every printed epsilon",
        ours=f"least difference in MSE: {rounded(float(gaps['MSE'].min()), digits=1)}",
        paper=f"{printed['MSE'].min():.3f}",
        stand_in=stand_in,
    )


def _deterioration(moved: dict[tuple[str, str], pd.Series], stand_in: bool) -> Iterable[Verdict]:
    ratio = {
        key: moves.xs("Gaussian", level="mechanism") - moves.xs("VMF", level="mechanism")
        for key, moves in moved.items()
    }
    sharper = {
        name: moved[name, "MSE"].xs("Gaussian", level="mechanism")
        > 5 * moved[name, "MSE"].xs("VMF", level="mechanism")
        for name in ("ours", "printed")
    }
    falls = moved["ours", "MSE"]
    shown = "; ".join(
        f"MSE of {which}: by {rounded(float(falls[which, 'Gaussian']), digits=1)} (Gaussian), "
        f"{rounded(max(float(falls[which, 'VMF']), 0.0), digits=1)} (VMF)"
        for which in _SETS
    )
    yield check(
        "D-023",
        all(bool((gap > 0).all()) for gap in ratio.values()),
        "from the smallest to the largest epsilon Gaussian noise loses more protection than VMF, "
        "by both measures and on both data sets, as printed and in ours",
        ours=shown,
        stand_in=stand_in,
    )
    yield check(
        "D-025",
        all(bool(s.all()) for s in sharper.values()),
        "over the same range the MSE falls at least five times as far under Gaussian noise",
        ours=shown,
        stand_in=stand_in,
    )


def _second_decimal(moves: pd.Series) -> Iterable[Verdict]:
    wide = moves[moves >= 0.1]
    exception = list(wide.index) == [(_DIGITS, "Gaussian")]
    for target in ("D-024", "E-D-15"):
        yield refute(
            target,
            "over the range of epsilon no SSIM changes by as much as a tenth",
            holds=wide.empty,
            corrected="three of the four curves move by less than a tenth; digits under Gaussian "
            "noise by more",
            corrected_holds=exception,
            ours=", ".join(
                f"{which}, {mechanism}: {value:.3f}" for (which, mechanism), value in moves.items()
            ),
        )


def _poor_predictor(ours: pd.DataFrame, printed: pd.DataFrame, stand_in: bool) -> Verdict:
    """At the largest epsilon VMF's error is above the Gaussian's at the smallest."""
    holds, shown = [], []
    for name, cells in (("ours", ours), ("printed", printed)):
        at = cells.set_index(["data", "mechanism", "pair"])["MSE"]
        last = cells["pair"].max()
        for which in _SETS:
            start, end = (at[which, "VMF", i] for i in (0, last))
            holds += [abs(end / start - 1) < 0.05, end > at[which, "Gaussian", 0]]
            if name == "printed":
                shown.append(f"{end:.3f} above {at[which, 'Gaussian', 0]:.3f}")
    return check(
        "D-028",
        all(holds),
        "VMF's MSE moves by less than 5 per cent over the whole range and at the largest epsilon "
        "is above the Gaussian's at the smallest: epsilon does not order the MSE across mechanisms",
        paper="; ".join(shown),
        stand_in=stand_in,
    )


# Figure 3 ----------------------------------------------------------------------------------------


@computes(f"{KEY}/fig3", "D-026")
def figure3(context: Context) -> Result:
    """Originals and reconstructions under several settings."""
    p = context.settings
    runs = _attacked(context, [BATCH_SIZE])
    stand_in = _stand_in(context)
    shown = (
        NONE,
        CLIP,
        *(
            _release(pair, mechanism)
            for mechanism in ("VMF", "Gaussian")
            for pair in (pairs()[-1], studied_pairs()[2], pairs()[0])
        ),
    )
    images: dict[str, np.ndarray] = {}
    tables = []
    for which, run in ((key[0], run) for key, run in runs.items()):
        data = standardised(p[which], data_folder(context, p[which]), device=context.device)
        mean = data.unit(as_numpy(data.inputs.mean(dim=0)))
        for i in range(min(p.shown, PICTURES)):
            images[f"{which} {i} original"] = _picture(run.values["originals"][0, i])
            for release in shown:
                images[f"{which} {i} {_named(release)}"] = _picture(
                    run.of("pictures", release)[0, i]
                )
            images[f"{which} {i} mean picture"] = _picture(mean)
        tables.append(_row_table(which, run))
    table = pd.concat(tables, ignore_index=True)
    table = table[table["row"].isin([_named(r) for r in shown])]
    seen = table.set_index(["row", "data"])["recognised"]
    light, strong = (
        {m: seen[_named(_release(pair, m))] for m in _MECHANISMS}
        for pair in (pairs()[-1], pairs()[0])
    )
    holds = (light["Gaussian"] > light["VMF"]).all() and (
        light["Gaussian"][_DIGITS] > 2 * light["VMF"][_DIGITS]
    )
    milder = (strong["Gaussian"] < light["Gaussian"])[_DIGITS]
    verdicts = [
        check(
            target,
            bool(
                holds
                and milder
                and light["VMF"][_DIGITS] < 0.3
                and seen[_named(CLIP)][_DIGITS] > 0.5
            ),
            statement,
            ours=", ".join(
                f"{_percent(values[_DIGITS])} ({name})"
                for name, values in (
                    ("clipping", seen[_named(CLIP)]),
                    ("light VMF", light["VMF"]),
                    ("light Gaussian", light["Gaussian"]),
                    ("strong Gaussian", strong["Gaussian"]),
                )
            ),
            paper="judged by eye",
            stand_in=stand_in,
        )
        for target, statement in (
            (
                f"{KEY}/fig3",
                "digits are most like their label's mean picture with clipping alone in more than "
                "half of the cases, under the lightest VMF noise in less than three tenths",
            ),
            (
                "D-026",
                "at the lightest pair more reconstructions are recognised under Gaussian noise "
                "than under VMF, on both data sets, and more than twice as many digits; strong "
                "Gaussian noise hides more digits than light",
            ),
        )
    ]
    return Result(
        f"{KEY}/fig3",
        verdicts,
        {"recognised": table},
        images=images,
        ran=_ran(context, [BATCH_SIZE]),
    )


def _picture(values: np.ndarray) -> np.ndarray:
    """A vector of grey values as a picture (height, width, 3)."""
    return np.repeat(values.reshape(SIDE, SIDE, 1), 3, axis=2)


# Figure 4 ----------------------------------------------------------------------------------------


@computes(f"{KEY}/fig4", "D-029", "E-D-09")
def figure4(context: Context) -> Result:
    """MSE over Bayes' capacity, with rank correlations."""
    p = context.settings
    runs = _attacked(context, p.batch_sizes)
    stand_in = _stand_in(context)
    ours, printed = (_with_capacity(t) for t in (_measured(runs, 8), _printed_table6()))
    ranks = pd.concat([_printed_ranks(printed), _our_ranks(context, runs)], ignore_index=True)
    at = ranks.set_index(["source", "data", "batch size", "against"])["rank correlation"]
    whole = {s: [at[s, which, str(BATCH_SIZE), "capacity"] for which in _SETS] for s in _SOURCES}
    by_epsilon = [at[s, which, str(BATCH_SIZE), "epsilon"] for s in _SOURCES for which in _SETS]
    verdicts = [
        check(
            target,
            bool(max(whole["printed"]) < -0.999 and max(whole["ours"]) < -0.9)
            and (target == "D-029" or min(by_epsilon) > -0.8),
            statement,
            ours=", ".join(f"{value:.1f}" for value in whole["ours"]),
            paper=", ".join(f"{value:.3f}" for value in whole["printed"]),
            stand_in=stand_in,
        )
        for target, statement in (
            (
                "D-029",
                f"at batch size {BATCH_SIZE} the rank correlation of capacity and MSE over both "
                "mechanisms is -1 in print on both data sets and beyond -.9 in ours",
            ),
            (
                f"{KEY}/fig4",
                "there capacity orders the MSE across mechanisms, and epsilon does not: its rank "
                "correlation is weaker than -.8",
            ),
        )
    ]
    verdicts.append(_not_over_sizes(printed, at))
    return Result(
        f"{KEY}/fig4",
        verdicts,
        {"ours": ours, "printed": printed, "rank correlations": ranks},
        exact=("printed",),
        ran=_ran(context, p.batch_sizes),
    )


_SOURCES = ("ours", "printed")
#: batch sizes taken together, in the table of rank correlations
_ALL = "all"


def _with_capacity(cells: pd.DataFrame) -> pd.DataFrame:
    """Add the log capacity: Theorem 5 with averaging and layers clipped to one, or Theorem 6."""
    log_capacity = np.empty(len(cells))
    gaussian = (cells["mechanism"] == "Gaussian").to_numpy()
    averaged = cells["noise"].to_numpy() / cells["batch size"].to_numpy()
    log_capacity[gaussian] = bounds.bayes_capacity_gaussian(
        DIMENSION, averaged[gaussian], math.sqrt(LAYERS)
    )
    log_capacity[~gaussian] = bounds.bayes_capacity_vmf(
        DIMENSION, cells["noise"].to_numpy()[~gaussian]
    )
    return cells.assign(**{"log capacity": log_capacity})


def _ranks(cells: pd.DataFrame) -> dict[str, float]:
    """Rank correlations of capacity and of epsilon with the MSE."""
    return {
        name: float(stats.spearmanr(cells[column], cells["MSE"]).statistic)
        for name, column in (("capacity", "log capacity"), ("epsilon", "epsilon"))
    }


def _printed_ranks(cells: pd.DataFrame) -> pd.DataFrame:
    """By data set and batch size; intervals by drawing pairs again, with replacement."""
    rng = np.random.default_rng(0)
    rows = []
    for which, size, chosen in _slices(cells):
        again = []
        for _ in range(200):
            drawn = rng.integers(8, size=8)
            parts = [chosen[chosen["pair"] == i] for i in drawn]
            again.append(_ranks(pd.concat(parts)))
        rows += _rank_rows("printed", which, size, _ranks(chosen), again)
    return pd.DataFrame(rows)


def _our_ranks(context: Context, runs: dict[tuple[str, int], Attacked]) -> pd.DataFrame:
    """The same of ours; the draws are what is drawn again."""
    rng = context.rng("bootstrap")
    rows = []
    cells = _with_capacity(_measured(runs, 8))
    draws = context.settings.draws
    values = {
        (which, size, mechanism, i): column
        for (which, size), run in runs.items()
        for mechanism in _MECHANISMS
        for i, column in enumerate(_series(run, "mse", mechanism, 8))
    }
    keys = list(
        zip(cells["data"], cells["batch size"], cells["mechanism"], cells["pair"], strict=True)
    )
    table = np.stack([values[key] for key in keys])
    resampled = [table[:, rng.integers(draws, size=draws)].mean(axis=1) for _ in range(200)]
    for which, size, chosen in _slices(cells):
        again = [_ranks(chosen.assign(MSE=sample[chosen.index])) for sample in resampled]
        rows += _rank_rows("ours", which, size, _ranks(chosen), again)
    return pd.DataFrame(rows)


def _slices(cells: pd.DataFrame) -> Iterable[tuple[str, str, pd.DataFrame]]:
    for which, mine in cells.groupby("data"):
        for size, chosen in mine.groupby("batch size"):
            yield str(which), str(size), chosen
        yield str(which), _ALL, mine


def _rank_rows(
    source: str, which: str, size: str, ranks: dict[str, float], again: list[dict[str, float]]
) -> list[dict[str, Any]]:
    return [
        {
            "source": source,
            "data": which,
            "batch size": size,
            "against": name,
            "rank correlation": value,
            "low": float(np.nanquantile([a[name] for a in again], 0.025)),
            "high": float(np.nanquantile([a[name] for a in again], 0.975)),
        }
        for name, value in ranks.items()
    ]


def _not_over_sizes(printed: pd.DataFrame, ranks: pd.Series) -> Verdict:
    """Where the printed MSEs are not in the order of capacity."""
    inverted = {(which, size): _inversions(chosen) for which, size, chosen in _slices(printed)}
    alone = {key: n for key, n in inverted.items() if key[1] != _ALL and n}
    together = {which: ranks["printed", which, _ALL, "capacity"] for which in _SETS}
    return refute(
        "E-D-09",
        "smaller capacity goes with larger MSE, whatever the mechanism and the batch size",
        holds=not any(inverted.values()),
        corrected=f"it does at each batch size but for garments at 16 ("
        f"{inverted[_GARMENTS, '16']} of 120 pairs of runs); over batch sizes it does not, since "
        "the capacity under Gaussian noise grows with the batch while the reconstruction does not "
        "improve",
        corrected_holds=bool(list(alone) == [(_GARMENTS, "16")] and min(together.values()) > -0.99),
        ours="rank correlation over all batch sizes: "
        + ", ".join(f"{value:.2f} ({which})" for which, value in together.items()),
    )


def _inversions(cells: pd.DataFrame) -> int:
    """Pairs of runs of which the one of larger capacity has the larger MSE."""
    capacity, mse = cells["log capacity"].to_numpy(), cells["MSE"].to_numpy()
    order = np.argsort(capacity)
    later = mse[order][None, :] > mse[order][:, None]
    return int(np.triu(later, 1).sum())


# The empty slot ----------------------------------------------------------------------------------


@computes(f"{KEY}/figC_unreferenced")
def unreferenced(context: Context) -> Result:
    """The figure of Appendix C that no sentence speaks of."""
    return Result(
        f"{KEY}/figC_unreferenced",
        [
            not_run(
                f"{KEY}/figC_unreferenced",
                "what a figure shows that stands between Table IV and Section C-A",
                "the figure itself: the text at hand has an empty slot there, without a caption, "
                "and no sentence refers to it",
            )
        ],
    )

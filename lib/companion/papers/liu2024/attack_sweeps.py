"""The tensor attack and its Cramér-Rao bound over every factor of Table 1 (Liu et al. 2024).

A bound from above asks that the error grows *no faster* than it says. The paper runs no experiment
on it; here each order is measured as the exponent of a power law with its interval.
"""

import functools
import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pandas as pd

from companion.exhibit import *
from companion.papers.liu2024.power_laws import (
    REGIME,
    UNLIMITED,
    PowerLaw,
    fit_column,
    fit_levels,
)
from companion.papers.liu2024.tensor_errors import (
    NONE,
    attack_task,
    bound_task,
    problem_tasks,
    run_networks,
)
from reconrisk.special import activation, normal_mean

#: two runs of one network agree if their errors do within this share; they are in single precision
SAME = 1e-3
#: standard deviation of the noise in the sweeps with clipping
CLIPPED_NOISE = 0.5

#: defences that change next to nothing, tried on fewer networks
_UNCHANGED = ("clip", "local", "moving", "batches")
_FEW = 3

_OURS = "no experiment"
_NOISES = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0)
_WIDE = ((4096, 16384, 65536, 131072), (16384, 65536, 131072, 262144))
_CLIPPED = ((200.0, 100.0, 50.0, 25.0, 12.5, 8.0), (300.0, 150.0, 75.0, 37.5, 18.75, 12.0))
_DROPPED = (0.5, 0.75, 0.875)
#: exhibits on the attack's error share these, and with them the runs
PARAMETERS = {
    "activation": Parameter(
        "str", "relu_shifted", "relu_shifted", "any of orders 2, 3", "of all but pruned networks"
    ),
    "dense_activation": Parameter(
        "str", "elu", "elu", "any of orders 2, 3", "of pruned networks: its gradient has no zeros"
    ),
    "networks": Parameter("int", 6, 10, _OURS, "independent networks at each point", 2),
    "widths": Parameter("ints", *_WIDE, _OURS, "neurons m", 1024),
    "dimensions": Parameter(
        "ints", (16, 32, 64, 128), (16, 32, 64, 128, 256), _OURS, "input dimensions d", 8
    ),
    "batches": Parameter("ints", (2, 4, 8), (2, 3, 4, 6, 8), _OURS, "batch sizes B", 1),
    "noises": Parameter(
        "floats", _NOISES, _NOISES, _OURS, "standard deviations sigma_0 of the noise", 0.0
    ),
    "thresholds": Parameter("floats", *_CLIPPED, _OURS, "clipping thresholds C, noise 1/2", 0.0),
    "dropouts": Parameter("floats", _DROPPED, _DROPPED, _OURS, "shares p of dropped neurons", 0.0),
    "prunings": Parameter(
        "floats", (0.5, 0.9), (0.5, 0.7, 0.9), "0.3, 0.5, 0.7 (elsewhere)", "shares p pruned", 0.0
    ),
}


def what_ran(study: Context) -> str:
    """One sentence on the sweeps."""
    p = study.parameters
    return (
        f"{p.networks} networks ({p.activation}, orthonormal records) at each point, m from "
        f"{p.widths[0]} to {p.widths[-1]}, d from {p.dimensions[0]} to {p.dimensions[-1]}, B from "
        f"{p.batches[0]} to {p.batches[-1]}; exponents from points with an error below {REGIME}."
    )


# Sweeps ------------------------------------------------------------------------------------------


def attack_sweep(study: Context, name: str) -> pd.DataFrame:
    """Errors of the attack over one factor of Table 1, as :func:`_tasks` names it.

    One row for each network and defence, see :func:`.tensor_errors.attack_task`.
    """
    return run_networks(study, attack_task, _tasks(study, name), f"attacks, {name}")


def bound_sweep(study: Context, name: str) -> pd.DataFrame:
    """Cramér-Rao bounds at unit noise of two networks at each point of :func:`attack_sweep`.

    With random labels only: the bound sees the squares of the residuals.
    """
    tasks = [
        {**task, "defences": _observed(task["defences"])}
        for task in _tasks(study, name)
        if task["network"] < 2 and task["labels"] == "random"
    ]
    return run_networks(study, bound_task, tasks, f"bounds, {name}")


def _observed(defences: Mapping[str, Any]) -> dict[str, Any]:
    """Defences that change what is observed, without the noise."""
    return {
        name: {k: v for k, v in defence.items() if k != "noise_std"}
        for name, defence in defences.items()
        if set(defence) != {"noise_std"} and name not in ("moving", "batches")
    }


def _tasks(study: Context, name: str) -> list[dict[str, Any]]:
    """The tasks of one sweep: what varies, what is fixed, and under which defences."""
    p = study.parameters
    middle, large = p.widths[-2], p.widths[-1]
    clipped, use, networks = {"noise_std": CLIPPED_NOISE}, p.activation, p.networks
    match name:
        case "width":
            points = [_point(16, m, 3, _defences(use, m, 3)) for m in p.widths]
        case "dimension":
            some = {"noise": {"noise_std": 2.0}, "dropout": {"dropout": 0.5}}
            points = [_point(d, middle // 2, 2, some) for d in p.dimensions]
        case "batch":
            kinds = ("random", "equal")
            points = [_point(16, large, b, {}, labels=k) for k in kinds for b in p.batches]
        case "overlap":
            points = [_point(16, middle, 3, {}, overlap=o) for o in (0.0, 0.3, 0.5, 0.7)]
        case "pruned":
            use = p.dense_activation
            some = {f"{q:g}": {"pruned": q} for q in p.prunings}
            points = [_point(8, m, 2, some) for m in p.widths[1:]]
        case "clipped width":
            # the noise dominates the error of the data at every width, so that errors scatter
            networks = 3 * p.networks
            some = {"both": {"max_grad_norm": 15.0, **clipped}}
            points = [_point(16, m, 2, {}) | {"defences": some} for m in p.widths[1:]]
        case "noise":
            points = [_point(8, large, 2, {f"{s:g}": {"noise_std": s} for s in p.noises})]
        case "clipped":
            some = {f"{c:g}": {"max_grad_norm": c, **clipped} for c in p.thresholds}
            points = [_point(8, large, 2, some)]
        case "dropout":
            points = [_point(16, middle, 3, {f"{q:g}": {"dropout": q} for q in p.dropouts})]
    tasks = problem_tasks(points, networks, {"base": study.seed, "activation": use})
    for task in tasks:
        if task["network"] >= _FEW:
            task["defences"] = {k: v for k, v in task["defences"].items() if k not in _UNCHANGED}
    return tasks


def _point(d: int, m: int, b: int, defences: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    return {"dimension": d, "width": m, "batch": b, "defences": {NONE: {}, **defences}, **more}


def _defences(name: str, width: int, batch: int) -> dict[str, Any]:
    """The defences tried at every width; only the local rates depend on it."""
    s = activation(name)
    # halves the residuals of orthogonal records in one step
    rate = 0.25 / (width * normal_mean(lambda z: s.value(z) ** 2, s.kinks))
    slow = [2, 1.0 / width**2, 1.0]
    return {
        "clip": {"max_grad_norm": 1.0},
        "noise": {"noise_std": float(batch)},
        "dropout": {"dropout": 0.5},
        "local": {"local": slow},
        "moving": {"local": [2, float(f"{rate:.4g}"), 1.0]},
        "batches": {"local": slow, "first": 0.5},
    }


# Parts of a sweep --------------------------------------------------------------------------------


def of_defence(table: pd.DataFrame, defence: str = NONE) -> pd.DataFrame:
    """The rows of one defence."""
    return table[table["defence"] == defence].reset_index(drop=True)


def of_few(table: pd.DataFrame) -> pd.DataFrame:
    """The networks that were attacked under all defences."""
    return table[table["network"] < _FEW]


def of_levels(table: pd.DataFrame) -> pd.DataFrame:
    """A sweep whose defences are the levels of one number, the number as a column."""
    some = table[table["defence"] != NONE]
    return some.assign(level=some["defence"].astype(float), point=some["defence"])


def against_none(table: pd.DataFrame, *defences: str) -> pd.DataFrame:
    """Defended and undefended values of ``error`` and ``norm``, one row a network and defence."""
    keys, values = ["width", "network"], ["error", "norm"]
    defended = table.loc[table["defence"].isin(defences), ["defence", *keys, *values]]
    undefended = of_defence(table)[[*keys, *values]]
    return defended.merge(undefended, on=keys, suffixes=("", " without"))


def largest_change(pairs: pd.DataFrame, defence: str) -> float:
    """Largest change of the logarithm of the error among pairs of :func:`against_none`."""
    mine = of_defence(pairs, defence)
    return float(np.abs(np.log(mine["error"] / mine["error without"])).max())


def means_over(table: pd.DataFrame, over: str, column: str = "error") -> pd.DataFrame:
    """Geometric means with 95% intervals, one row for each value of ``over`` and defence."""
    rows = []
    keys = ["defence", *(k for k in ("labels",) if k in table), over]
    for key, part in table.groupby(keys, sort=False):
        logs = np.log(part[column].to_numpy())
        middle, half = float(logs.mean()), 1.96 * np.std(logs, ddof=1) / math.sqrt(len(logs))
        ends = {"error": middle, "low": middle - half, "high": middle + half}
        row = dict(zip(keys, key, strict=True))
        rows.append(row | {name: math.exp(value) for name, value in ends.items()})
    return pd.DataFrame(rows)


def by_ratio(table: pd.DataFrame) -> pd.DataFrame:
    """Means of a sweep over thresholds at their mean |G|/C."""
    some = _with_ratios(table)
    points = means_over(some, "level")
    ratios = some.groupby("level")["ratio"].mean()
    return points.assign(ratio=points["level"].map(ratios), defence="both")


def _with_ratios(table: pd.DataFrame) -> pd.DataFrame:
    """A sweep over thresholds with the measured ``max(1, |G|/C)``."""
    some = of_levels(table)
    return some.assign(ratio=np.maximum(1.0, some["norm"] / some["level"]))


def clipping_tables(study: Context) -> dict[str, pd.DataFrame]:
    """Means under clipping with noise, over the threshold and over the width."""
    return {
        "over the threshold": by_ratio(attack_sweep(study, "clipped")),
        "over the width": means_over(attack_sweep(study, "clipped width"), "width"),
    }


# Exponents ---------------------------------------------------------------------------------------


def attack_laws(study: Context, *names: str) -> dict[str, PowerLaw]:
    """Power laws of the attack's error by defence and factor, ``"noise sigma0"``.

    All of Table 1's upper row if none is named.
    """
    names = names or (
        *(f"{k} m" for k in (NONE, "noise", "dropout", "local", "moving", "batches", "clip")),
        *(f"{k} d" for k in (NONE, "noise", "dropout")),
        *("random B", "equal B", "noise sigma0", "both ratio", "both m", "dropout 1-p"),
        *(f"pruned {q:g} m" for q in study.parameters.prunings),
    )
    sweep = functools.partial(attack_sweep, study)
    return {name: _law(sweep, *name.rsplit(" ", 1), regime=REGIME) for name in names}


def bound_laws(study: Context, *names: str) -> dict[str, PowerLaw]:
    """Power laws of the Cramér-Rao bound, as :func:`attack_laws`; all of the lower row by default.

    Under pruning that of the loosened bound, also over the ``share`` of the squared norm kept.
    """
    names = names or (
        *(f"{k} m" for k in (NONE, "dropout", "local", "clip")),
        *("none d", "dropout d", "random B", "both ratio", "dropout 1-p"),
        *(f"pruned {q:g} m" for q in study.parameters.prunings),
        "pruned share",
    )
    sweep = functools.partial(bound_sweep, study)
    return {name: _law(sweep, *name.rsplit(" ", 1), regime=UNLIMITED) for name in names}


def _law(
    sweep: Callable[[str], pd.DataFrame], defence: str, factor: str, *, regime: float
) -> PowerLaw:
    """The power law over one factor; of the attack below a regime, of the bound without one."""
    bound = regime == UNLIMITED
    match factor:
        case "m" if defence.startswith("pruned "):
            table = of_defence(sweep("pruned"), defence.removeprefix("pruned "))
            column = "loosened" if bound else "error"
            return fit_column(table, "width", column, regime=UNLIMITED)
        case "m":
            table = sweep("clipped width" if defence == "both" else "width")
            return fit_column(of_defence(table, defence), "width", regime=regime)
        case "d":
            table = of_defence(sweep("dimension"), defence)
            return fit_column(table, "dimension", regime=regime)
        case "B":
            table = sweep("batch")
            return fit_column(table[table["labels"] == defence], "batch", regime=regime)
        case "sigma0":
            noise = of_levels(sweep("noise"))
            # where noise, not the data, makes the error: from twice the batch size on
            return fit_levels(noise[noise["level"] >= 4.0], "level", regime=regime)
        case "ratio":
            clipped = _with_ratios(sweep("clipped"))
            clear = clipped["ratio"] > 1.0 if bound else clipped["ratio"] * CLIPPED_NOISE >= 4.0
            return fit_levels(clipped[clear], "ratio", regime=regime)
        case "1-p":
            dropped = of_levels(sweep("dropout"))
            return fit_levels(dropped.assign(left=1 - dropped["level"]), "left", regime=regime)
        case "share":
            pruned = sweep("pruned")
            widest = pruned[pruned["width"] == pruned["width"].max()]
            shares = widest.assign(point=widest["defence"])
            return fit_levels(shares, "kept", "loosened", regime=regime)
    raise ValueError(f"no exponent of {factor!r} under {defence!r}")

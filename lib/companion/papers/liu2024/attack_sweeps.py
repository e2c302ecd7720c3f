"""The tensor attack and its Cramér-Rao bound over every factor of Table 1 (Liu et al. 2024).

A bound from above asks that the error grows *no faster* than it says. The paper runs no experiment
on it; here each order is measured as the exponent of a power law with its interval.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

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
from companion.study import Context, Parameter
from reconrisk.special import activation, normal_mean

__all__ = [
    "CLIPPED_NOISE",
    "PARAMETERS",
    "SAME",
    "against_none",
    "attack_laws",
    "attack_sweep",
    "bound_laws",
    "bound_sweep",
    "by_ratio",
    "clipping_tables",
    "largest_change",
    "means_over",
    "of_defence",
    "of_few",
    "of_levels",
    "what_ran",
]

#: two runs of one network agree if their errors do within this share
SAME = 0.01
#: standard deviation of the noise in the sweeps with clipping
CLIPPED_NOISE = 0.5

#: defences that change next to nothing, tried on fewer networks
_UNCHANGED = ("clip", "local", "moving", "batches")
_FEW = 3

_OURS = "no experiment"
_NOISES = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0)
#: exhibits that look at the attack's error share these, and with them the runs
PARAMETERS = {
    "activation": Parameter(
        "str",
        "relu_shifted",
        "relu_shifted",
        "any of orders 2, 3",
        "of all but the pruned networks",
    ),
    "dense_activation": Parameter(
        "str",
        "elu",
        "elu",
        "any of orders 2, 3",
        "of the pruned networks: one whose gradient has no zeros",
    ),
    "networks": Parameter("int", 6, 10, _OURS, "independent networks at each point", low=2),
    "widths": Parameter(
        "ints",
        (4096, 16384, 65536, 131072),
        (16384, 65536, 131072, 262144),
        _OURS,
        "neurons m",
        low=1024,
    ),
    "dimensions": Parameter(
        "ints", (16, 32, 64, 128), (16, 32, 64, 128, 256), _OURS, "input dimensions d", low=8
    ),
    "batches": Parameter("ints", (2, 4, 8), (2, 3, 4, 6, 8), _OURS, "batch sizes B", low=1),
    "noises": Parameter(
        "floats", _NOISES, _NOISES, _OURS, "standard deviations sigma_0 of the noise", low=0.0
    ),
    "thresholds": Parameter(
        "floats",
        (200.0, 100.0, 50.0, 25.0, 12.5, 8.0),
        (300.0, 150.0, 75.0, 37.5, 18.75, 12.0),
        _OURS,
        "clipping thresholds C, noise 1/2",
        low=0.0,
    ),
    "dropouts": Parameter(
        "floats",
        (0.5, 0.75, 0.875),
        (0.5, 0.75, 0.875),
        _OURS,
        "shares p of dropped neurons",
        low=0.0,
    ),
    "prunings": Parameter(
        "floats",
        (0.5, 0.9),
        (0.5, 0.7, 0.9),
        "0.3, 0.5, 0.7 (elsewhere)",
        "shares p of pruned entries",
        low=0.0,
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
    """Errors of the attack over one factor of Table 1.

    Parameters
    ----------
    study : Context
        Of an exhibit with :data:`PARAMETERS`.
    name : {"width", "dimension", "batch", "noise", "clipped", "clipped width", "dropout", \
"pruned", "overlap"}

    Returns
    -------
    DataFrame
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
    """Defences that leave something else to be observed, without the noise."""
    return {
        name: {k: v for k, v in defence.items() if k != "noise_std"}
        for name, defence in defences.items()
        if set(defence) != {"noise_std"} and name not in ("moving", "batches")
    }


def _tasks(study: Context, name: str) -> list[dict[str, Any]]:
    """The tasks of one sweep: what moves, what is held, and which defences are met."""
    p = study.parameters
    middle, large = p.widths[-2], p.widths[-1]
    at: list[dict[str, Any]]
    if name == "width":
        at = [
            {"dimension": 16, "width": m, "batch": 3, "defences": _defences(p.activation, m, 3)}
            for m in p.widths
        ]
    elif name == "dimension":
        some = {NONE: {}, "noise": {"noise_std": 2.0}, "dropout": {"dropout": 0.5}}
        at = [
            {"dimension": d, "width": middle // 2, "batch": 2, "defences": some}
            for d in p.dimensions
        ]
    elif name == "batch":
        at = [
            {"dimension": 16, "width": large, "batch": b, "labels": kind, "defences": {NONE: {}}}
            for kind in ("random", "equal")
            for b in p.batches
        ]
    elif name == "overlap":
        at = [
            {"dimension": 16, "width": middle, "batch": 3, "overlap": o, "defences": {NONE: {}}}
            for o in (0.0, 0.3, 0.5, 0.7)
        ]
    elif name == "pruned":
        some = {NONE: {}, **{f"{q:g}": {"pruned": q} for q in p.prunings}}
        at = [{"dimension": 8, "width": m, "batch": 2, "defences": some} for m in p.widths[1:]]
    elif name == "clipped width":
        # noise of the data is small against this one's at every width, and errors scatter
        some = {"both": {"max_grad_norm": 15.0, "noise_std": CLIPPED_NOISE}}
        at = [{"dimension": 16, "width": m, "batch": 2, "defences": some} for m in p.widths[1:]]
    else:
        some = {
            "noise": {f"{s:g}": {"noise_std": s} for s in p.noises},
            "clipped": {
                f"{c:g}": {"max_grad_norm": c, "noise_std": CLIPPED_NOISE} for c in p.thresholds
            },
            "dropout": {f"{q:g}": {"dropout": q} for q in p.dropouts},
        }[name]
        d, m, b = (16, middle, 3) if name == "dropout" else (8, large, 2)
        at = [{"dimension": d, "width": m, "batch": b, "defences": {NONE: {}, **some}}]
    use = p.dense_activation if name == "pruned" else p.activation
    networks = p.networks * (3 if name == "clipped width" else 1)
    tasks = problem_tasks(at, networks, {"base": study.seed, "activation": use})
    for task in tasks:
        if task["network"] >= _FEW:
            task["defences"] = {k: v for k, v in task["defences"].items() if k not in _UNCHANGED}
    return tasks


def _defences(name: str, width: int, batch: int) -> dict[str, Any]:
    """The defences that are tried at every width; only the local rates depend on it."""
    s = activation(name)
    # halves the residuals of orthogonal records in one step
    rate = 0.25 / (width * normal_mean(lambda z: s.value(z) ** 2, s.kinks))
    slow = [2, 1.0 / width**2, 1.0]
    return {
        NONE: {},
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
    """The networks that met all defences."""
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
        half = 1.96 * np.std(logs, ddof=1) / math.sqrt(len(logs))
        middle = float(logs.mean())
        rows.append(
            {
                **dict(zip(keys, key, strict=True)),
                "error": math.exp(middle),
                "low": math.exp(middle - half),
                "high": math.exp(middle + half),
            }
        )
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
    return {name: _attack_law(study, *name.rsplit(" ", 1)) for name in names or _upper_row(study)}


def _upper_row(study: Context) -> tuple[str, ...]:
    return (
        *(f"{k} m" for k in (NONE, "noise", "dropout", "local", "moving", "batches", "clip")),
        *(f"{k} d" for k in (NONE, "noise", "dropout")),
        *("random B", "equal B", "noise sigma0", "both ratio", "both m", "dropout 1-p"),
        *(f"pruned {q:g} m" for q in study.parameters.prunings),
    )


def _attack_law(study: Context, defence: str, factor: str) -> PowerLaw:
    match factor, defence:
        case "m", "both":
            table = attack_sweep(study, "clipped width")
            return fit_column(of_defence(table, "both"), "width")
        case "m", pruned if pruned.startswith("pruned "):
            table = of_defence(attack_sweep(study, "pruned"), pruned.removeprefix("pruned "))
            return fit_column(table, "width", regime=UNLIMITED)
        case "m", _:
            return fit_column(of_defence(attack_sweep(study, "width"), defence), "width")
        case "d", _:
            return fit_column(of_defence(attack_sweep(study, "dimension"), defence), "dimension")
        case "B", labels:
            table = attack_sweep(study, "batch")
            return fit_column(table[table["labels"] == labels], "batch")
        case "sigma0", _:
            noise = of_levels(attack_sweep(study, "noise"))
            # where noise, not the data, makes the error: from twice the batch size on
            return fit_levels(noise[noise["level"] >= 4.0], "level")
        case "ratio", _:
            clipped = _with_ratios(attack_sweep(study, "clipped"))
            return fit_levels(clipped[clipped["ratio"] * CLIPPED_NOISE >= 4.0], "ratio")
        case "1-p", _:
            dropped = of_levels(attack_sweep(study, "dropout"))
            return fit_levels(dropped.assign(left=1 - dropped["level"]), "left")
    raise ValueError(f"no exponent of {factor!r} under {defence!r}")


def bound_laws(study: Context, *names: str) -> dict[str, PowerLaw]:
    """Power laws of the Cramér-Rao bound, as :func:`attack_laws`; all of the lower row by default.

    Under pruning that of the loosened bound, also over the ``share`` of the squared norm kept.
    """
    return {name: _bound_law(study, *name.rsplit(" ", 1)) for name in names or _lower_row(study)}


def _lower_row(study: Context) -> tuple[str, ...]:
    return (
        *(f"{k} m" for k in (NONE, "dropout", "local", "clip")),
        *("none d", "dropout d", "random B", "both ratio", "dropout 1-p"),
        *(f"pruned {q:g} m" for q in study.parameters.prunings),
        "pruned share",
    )


def _bound_law(study: Context, defence: str, factor: str) -> PowerLaw:
    def over(table: pd.DataFrame, name: str, column: str = "error") -> PowerLaw:
        return fit_column(table, name, column, regime=UNLIMITED)

    match factor, defence:
        case "m", pruned if pruned.startswith("pruned "):
            table = of_defence(bound_sweep(study, "pruned"), pruned.removeprefix("pruned "))
            return over(table, "width", "loosened")
        case "m", _:
            return over(of_defence(bound_sweep(study, "width"), defence), "width")
        case "d", _:
            return over(of_defence(bound_sweep(study, "dimension"), defence), "dimension")
        case "B", _:
            return over(bound_sweep(study, "batch"), "batch")
        case "ratio", _:
            clipped = _with_ratios(bound_sweep(study, "clipped"))
            return fit_levels(clipped[clipped["ratio"] > 1.0], "ratio", regime=UNLIMITED)
        case "1-p", _:
            dropped = of_levels(bound_sweep(study, "dropout"))
            left = dropped.assign(left=1 - dropped["level"])
            return fit_levels(left, "left", regime=UNLIMITED)
        case "share", _:
            pruned = bound_sweep(study, "pruned")
            widest = pruned[pruned["width"] == pruned["width"].max()]
            shares = widest.assign(point=widest["defence"])
            return fit_levels(shares, "kept", "loosened", regime=UNLIMITED)
    raise ValueError(f"no exponent of {factor!r} under {defence!r}")

"""Attacks on batches, and their tables: what Tables II and VI and Figures 1, 3 and 4 share.

They use the same reconstructions, which are computed once in a process.
"""

import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pandas as pd

from companion.exhibit import *
from companion.experiments.batch_attacks import (
    Attacked,
    Setting,
    attack_settings,
    most_records,
)
from companion.experiments.federated import BATCH_SIZE, studied_pairs
from companion.papers.biswas2024.printed_reconstructions import (
    CLIP,
    MECHANISMS,
    NONE,
    SETS,
    judged_sets,
    label,
    nine_pairs,
    release_of,
    table2_releases,
    with_settings,
)
from reconrisk.training import Release

_OURS = "not printed"
_SIZES = (16, 32, 64, 128)

DATA = {
    "digits": Parameter("str", "MNIST-5000", "MNIST", "MNIST, cropped", "data set of digits"),
    "garments": Parameter(
        "str", "patches", "FashionMNIST", "FashionMNIST, scaled down", "data set of garments"
    ),
    "initial": Parameter(
        "str", "xavier", "xavier", _OURS, "first weights: xavier, or default for PyTorch's"
    ),
}
ATTACK = {
    **DATA,
    "iterations": Parameter("int", 200, 10000, "10,000", "iterations of the attack", low=8),
    "total_variation": Parameter(
        "float", 0.0025, 0.0025, _OURS, "weight of the total variation", low=0.0
    ),
}
#: of all exhibits that use the same attacks
DRAWN = {
    **ATTACK,
    "draws": Parameter("int", 3, 5, _OURS, "batches, each with a network of its own", low=2),
}
#: of those that attack batches of several sizes: twenty garments fill the smallest
OF_SIZES = {
    **DRAWN,
    "garments": Parameter(
        "str",
        "FashionMNIST-20",
        "FashionMNIST",
        "FashionMNIST, scaled down",
        "data set of garments, attacked in the batches that it can fill",
    ),
    "batch_sizes": Parameter(
        "ints", _SIZES, _SIZES, "16, 32, 64, 128", "records of a batch", low=16
    ),
}

#: pictures of each problem that are kept for Figure 3
PICTURES = 8
#: how far a series may be from print to count as the printed one, and whether in proportion to it:
#: less than a fifth of what is between the heaviest and the lightest Gaussian noise in print
MARGINS = {"MSE": (0.05, True), "SSIM": (0.01, False)}
#: decimals with which Tables II and VI are printed
DECIMALS = {"MSE": 3, "SSIM": 4}
#: columns of our tables, and what they are called in a task's results
_COLUMNS = {"MSE": "mse", "SSIM": "ssim", "recognised": "recognised", "cosine": "cosine"}


def attack_pairs(study: Context, sizes: Iterable[int]) -> dict[tuple[str, int], Attacked]:
    """Attack both data sets under the eight pairs; at batch size 128 under Table II's rows too."""
    named = table2_releases()
    every = tuple(release_of(pair, m) for pair in studied_pairs() for m in MECHANISMS)
    both = (named, tuple(release for release in every if release not in named))
    groups = {
        (which, size): both if size == BATCH_SIZE else (every,)
        for size in sizes
        for which in SETS
        if size <= most_records(study.parameters[which])
    }
    return attack_series(study, groups)


def attack_batch128(study: Context) -> dict[str, Attacked]:
    """Attack both data sets at batch size 128 under Table II's rows."""
    groups = {(which, BATCH_SIZE): (table2_releases(),) for which in SETS}
    return {which: run for (which, _), run in attack_series(study, groups).items()}


def attack_series(
    study: Context, groups: Mapping[tuple[str, int], tuple[tuple[Release, ...], ...]]
) -> dict[tuple[str, int], Attacked]:
    """Attack data sets at batch sizes under groups of releases, with the exhibit's parameters."""
    p = study.parameters
    settings = [Setting(p[which], size, own) for (which, size), own in groups.items()]
    options = {name: p[name] for name in ("draws", "iterations", "total_variation", "initial")}
    runs = attack_settings(study, settings, pictures=PICTURES, **options)
    return dict(zip(groups, runs, strict=True))


def series(run: Attacked, name: str, mechanism: str, count: int | None = None) -> np.ndarray:
    """Return one measurement of a mechanism by pair, (pairs, D): the studied, then the lightest."""
    return np.stack([run.of(name, release_of(p, mechanism)) for p in nine_pairs()[:count]])


def standard_error(values: np.ndarray) -> np.ndarray:
    """Return the standard error of the mean over the last axis."""
    return values.std(axis=-1, ddof=1) / math.sqrt(values.shape[-1])


def cells_of(runs: Mapping[tuple[str, int], Attacked], count: int | None) -> pd.DataFrame:
    """Return our cells as the printed ones, with standard errors and further measurements."""
    parts = []
    for (which, size), run in runs.items():
        for mechanism in MECHANISMS:
            values = {c: series(run, name, mechanism, count) for c, name in _COLUMNS.items()}
            own = _means(values)
            fixed = {"data": which, "mechanism": mechanism, "batch size": size}
            parts.append(own.assign(pair=np.arange(len(own)), **fixed))
    return with_settings(pd.concat(parts, ignore_index=True))


def rows_of(runs: Mapping[str, Attacked]) -> pd.DataFrame:
    """Return one row for each data set's releases."""
    parts = []
    for which, run in runs.items():
        named = pd.DataFrame({"data": which, "row": [label(r) for r in run.releases]})
        parts.append(named.join(_means({c: run.values[name] for c, name in _COLUMNS.items()})))
    return pd.concat(parts, ignore_index=True)


def controls_of(runs: Mapping[tuple[str, int], Attacked]) -> dict[str, pd.DataFrame]:
    """Return the table ``"controls"`` of attacks at batch size 128, none where none was attacked.

    One row for each data set and what bounds an attack: the error without defence and with clipping
    alone, and that of two guesses that take no gradient.
    """
    rows = []
    for (which, size), run in runs.items():
        if size == BATCH_SIZE:
            errors = {label(r): run.of("mse", r) for r in (NONE, CLIP)}
            errors |= {guess: run.values[guess] for guess in ("mean image", "class means")}
            rows += [
                {"data": which, "row": row, "MSE": float(mse.mean())} for row, mse in errors.items()
            ]
    return {"controls": pd.DataFrame(rows)} if rows else {}


def attack_works(tables: Tables) -> bool:
    """Return whether the attack of ``"ours"`` comes nearer without defence than under any noise.

    Otherwise a comparison of noises would say nothing. Older records have no controls.
    """
    if "controls" not in tables:
        return True
    ours, controls = tables["ours"], tables["controls"].set_index(["row", "data"])["MSE"]
    least = ours[ours["batch size"] == BATCH_SIZE].groupby("data")["MSE"].min()
    least = least[[which for which in judged_sets(tables)[0] if which in least]]
    return bool((controls[label(NONE)][least.index] < least).all())


def _means(values: Mapping[str, np.ndarray]) -> pd.DataFrame:
    """Means over the draws, each beside its standard error."""
    columns: dict[str, np.ndarray] = {}
    for name, of_draws in values.items():
        columns[name] = of_draws.mean(axis=1)
        columns[f"{name} error"] = standard_error(of_draws)
    return pd.DataFrame(columns)


def ran(p: Mapping[str, Any], sizes: Iterable[int]) -> str:
    """Return what was run, in a sentence."""
    return (
        f"{p['draws']} batches of {', '.join(map(str, sizes))} records of {p['digits']} and of "
        f"{p['garments']}, {p['iterations']} iterations, total variation "
        f"{p['total_variation']:g}, {p['initial']} first weights."
    )


def beside(ours: pd.DataFrame, printed: pd.DataFrame) -> pd.DataFrame:
    """Return our cells with the printed MSE and SSIM."""
    index = ["data", "batch size", "mechanism", "pair"]
    return ours.merge(printed, on=index, suffixes=("", " printed"))


def as_printed(metric: str, value: float) -> str:
    """Return a number with the digits that Tables II and VI print."""
    return f"{value:.{DECIMALS[metric]}f}"


def of_one_run(error: pd.Series, draws: int) -> pd.Series:
    """The error of one run's number beside the mean of ours, of the error of that mean."""
    return error * (1 + draws) ** 0.5


def cell_by_cell(target: str, both: pd.DataFrame, draws: int) -> Verdict:
    """Judge every printed number, which is one run's, against the mean of ``draws`` of ours."""
    columns = [[both[f"{m}{suffix}"] for m in DECIMALS] for suffix in ("", " error", " printed")]
    ours, errors, printed = (np.concatenate(values).tolist() for values in columns)
    return compare(
        target,
        "the printed MSEs and SSIMs come out one by one, within the spread of one run",
        ours,
        printed,
        [as_printed(metric, v) for metric in DECIMALS for v in both[f"{metric} printed"]],
        standard_error=of_one_run(pd.Series(errors), draws).tolist(),
        differs="nearly all that do not are of digits under Gaussian noise or without a defence: "
        "in print these are nearer to the pictures than here, as if the noise were smaller (see "
        "Table VI). First weights, total variation and draws are not printed",
    )


def of_series(both: pd.DataFrame, draws: int) -> pd.DataFrame:
    """Compare every series of cells with print as a whole, see :func:`jointly`.

    One row a data set, mechanism and metric: the margin, the mean difference from print in margins,
    how many cells lie below print of how many, and whether they agree.
    """
    rows = []
    for (which, mechanism), own in both.groupby(["data", "mechanism"]):
        for metric, (margin, is_relative) in MARGINS.items():
            printed = own[f"{metric} printed"]
            room = margin * (printed if is_relative else 1.0)
            gap = (own[metric] - printed) / room
            agree = jointly(gap, of_one_run(own[f"{metric} error"], draws) / room, 1.0)
            rows.append((which, mechanism, metric, margin, gap.mean(), (gap < 0).sum(), agree))
    columns = ["data", "mechanism", "metric", "margin", "off", "below", "agree"]
    cells = both.groupby(["data", "mechanism"]).size().rename("cells")
    table = pd.DataFrame(rows, columns=columns).astype({"agree": object})
    return table.join(cells, on=["data", "mechanism"])


def series_in_words(table: pd.DataFrame) -> str:
    """Return how far every series lies from print."""
    parts = []
    for _, row in table.iterrows():
        off = row["off"] * row["margin"]
        text = f"{off:+.1%}" if MARGINS[row["metric"]][1] else f"{off:+.3f}"
        name = f"{row['metric']} of {row['data']} ({row['mechanism']})"
        parts.append(f"{name} {text}, {row['below']} of {row['cells']} below print")
    return "; ".join(parts)


def about(share: float) -> str:
    """Return a share to ten per cent, as its spread over the batches allows."""
    return f"about {10 * round(10 * share)}%"

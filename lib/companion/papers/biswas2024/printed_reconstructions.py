"""What Tables II, III and VI print about reconstructions, under the names of our tables."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy import stats

from companion.exhibit import *
from companion.experiments.federated import BATCH_SIZE, KEY, Pair, pairs, studied_pairs
from reconrisk.training import Release

#: how the two data sets' parameters are named, and the sets of the paper
SETS = {"digits": "MNIST", "garments": "FashionMNIST"}
MECHANISMS = ("Gaussian", "VMF")
#: share recognised that counts as easily: three digits in four
EASILY = 0.75
NONE, CLIP = Release("none"), Release("clip")


def judged_sets(tables: Tables) -> tuple[tuple[str, ...], Origin, str]:
    """Return the data sets that claims about both are judged on, what they are, and in words.

    The digits alone where they are MNIST's and the garments are a stand-in: that is drawn beside
    them, is judged in its own panels, and says nothing of the paper's pictures.
    """
    alone = bool(tables.origin_of("garments")) and not tables.origin_of("digits")
    chosen = ("digits",) if alone else tuple(SETS)
    return chosen, tables.origin_of(*chosen), "the digits" if alone else "both data sets"


def release_of(pair: Pair, mechanism: str) -> Release:
    """Return what one mechanism of a pair releases."""
    if mechanism == "VMF":
        return Release("vmf", pair.concentration)
    return Release("gaussian", pair.noise_multiplier)


def label(release: Release) -> str:
    """Return the name of a release in tables and pictures."""
    if release.kind == "gaussian":
        return f"Gaussian, sigma = {release.noise:g}"
    if release.kind == "vmf":
        return f"VMF, kappa = {release.noise:g}"
    return {"none": "no defence", "clip": "clipping only"}[release.kind]


def nine_pairs() -> tuple[Pair, ...]:
    """Return the pairs that are attacked at batch size 128: the eight studied, and the lightest."""
    return (*studied_pairs(), pairs()[-1])


def table2_releases() -> tuple[Release, ...]:
    """Return the six rows of Table II: nothing, clipping, the strongest and the lightest pair."""
    noisy = (release_of(pair, m) for pair in (pairs()[0], pairs()[-1]) for m in MECHANISMS)
    return (NONE, CLIP, *noisy)


#: the three rows of Table III: nothing, the lightest pair
LEAKED = (NONE, *(release_of(pairs()[-1], mechanism) for mechanism in MECHANISMS))


def with_settings(cells: pd.DataFrame) -> pd.DataFrame:
    """Add each cell's noise and epsilon, from the number of its pair."""
    chosen = [nine_pairs()[int(i)] for i in cells["pair"]]
    noise = [release_of(p, m).noise for p, m in zip(chosen, cells["mechanism"], strict=True)]
    return cells.assign(noise=noise, epsilon=[p.epsilon for p in chosen])


def ahead(cells: pd.DataFrame) -> pd.DataFrame:
    """Return by how much VMF noise protects better than Gaussian, by MSE and by SSIM."""
    at = cells.set_index(["data", "batch size", "pair", "mechanism"])[["MSE", "SSIM"]].sort_index()
    gaps = at.xs("VMF", level="mechanism") - at.xs("Gaussian", level="mechanism")
    return gaps.assign(SSIM=-gaps["SSIM"]).reset_index()


@registry.of_print
def printed_table6() -> pd.DataFrame:
    """Return Table VI, one row a cell, with its settings."""
    setting = ["data", "batch size", "mechanism", "pair"]
    cells = printed_by_pair("table6").pivot_table(index=setting, columns="metric", values="value")
    return with_settings(cells.reset_index())


def printed_by_pair(table: str) -> pd.DataFrame:
    """Return the cells of Table V or VI under our names, each with the number of its pair."""
    rows = _cells(table)
    return rows.assign(
        mechanism=rows["mechanism"].replace({"Gauss": "Gaussian"}),
        pair=rows["paired_kappa_vmf"].astype(float).rank(method="dense").astype(int) - 1,
        **{"batch size": rows["batch_size"].astype(int)},
    )


def _cells(table: str) -> pd.DataFrame:
    rows = registry.printed(f"{KEY}/{table}")
    ours = {name: which for which, name in SETS.items()}
    return rows.assign(data=rows["dataset"].map(ours), value=rows["value"].astype(float))


def _rows(table: str, names: Sequence[str]) -> pd.DataFrame:
    """Table II or III, one row for each of its rows and data sets: data, row, MSE, SSIM."""
    rows = _cells(table)
    title = rows["mechanism"] + " " + rows["noise_parameter_printed"]
    rows["row"] = title.map(dict(zip(dict.fromkeys(title), names, strict=True)))
    return rows.pivot_table(index=["data", "row"], columns="metric", values="value").reset_index()


@registry.of_print
def printed_table2() -> pd.DataFrame:
    """Return Table II; its lightest Gaussian noise, .0174, is read as .174."""
    return _rows("table2", [label(r) for r in table2_releases()])


@registry.of_print
def printed_table3() -> pd.DataFrame:
    """Return Table III."""
    return _rows("table3", [label(r) for r in LEAKED])


@registry.of_print
def printed_figure1() -> pd.DataFrame:
    """Return Table VI at batch size 128 with Table II's lightest pair, nine pairs a series."""
    cells, rows = printed_table6(), printed_table2()
    lightest = {label(release_of(nine_pairs()[-1], m)): m for m in MECHANISMS}
    rows = rows.assign(mechanism=rows["row"].map(lightest), pair=len(nine_pairs()) - 1)
    added = rows.dropna().sort_values("mechanism", kind="stable").drop(columns="row")
    added = with_settings(added.assign(**{"batch size": BATCH_SIZE}))
    return pd.concat([cells[cells["batch size"] == BATCH_SIZE], added], ignore_index=True)


def rank_correlation(x: ArrayLike, y: ArrayLike) -> float:
    """Return Spearman's correlation, zero where either is constant."""
    if min(np.ptp(np.asarray(x)), np.ptp(np.asarray(y))) == 0:
        return 0.0
    return float(stats.spearmanr(x, y).statistic)

"""Accuracies over the labels of the noises, ours and printed, for Figure 2 and Table V.

A label is the concentration of a pair of Table IV; its epsilon is the paper's, whatever either
noise costs.
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from companion.exhibit import *
from companion.experiments import federated
from companion.experiments.federated import KEY, Pair
from companion.experiments.utility_runs import (
    AS_READ,
    GUESSING,
    NEAREST,
    PAPERS_NAMES,
    average_repeats,
    printed_accuracies,
    train_tasks,
    training_task,
)
from reconrisk import datasets

BATCH_SIZE = Parameter("int", 128, 128, "128", "records of a batch, expected", low=1)
#: standard errors that every comparison of mean accuracies must survive
CROSSING = 3.0
#: accuracy by which VMF noise would have to be ahead at a label for a crossing: less than a third
#: of the least printed gap, .162
CROSSED = 0.05
#: how far an accuracy may be from print on the paper's data: less than a fifth of the least
#: printed gap between the mechanisms, .162
NEAR = 0.03
#: what networks are trained with, in words
NOISES = {"none": "no noise", "Gaussian": "Gaussian noise", "VMF": "VMF noise"}
#: parameters that name the data sets, in the order of the paper's
SETS = ("digits", "garments")


def pairs_of(concentrations: Sequence[float]) -> list[Pair]:
    """Return the pairs of the given concentrations."""
    return [pair for pair in federated.studied_pairs() if pair.concentration in concentrations]


def titles(study: Context) -> dict[str, str]:
    """Return the name of each data set in figures."""
    names = [study.parameters[which] for which in SETS]
    return {
        n: shown_name(n)
        if n in datasets.SAMPLES
        else federated.load_standardised(n, data_folder(study, n)).images.name
        for n in names
    }


def reading_of(study: Context) -> str:
    """Return how the training is read: on the paper's own sets by what is nearest to its numbers.

    Other data are too few to train on in noise of sqrt(3) sigma, and have no printed numbers.
    """
    whole = [study.parameters[which] for which in SETS] == list(PAPERS_NAMES)
    return NEAREST if whole else AS_READ


def label_accuracies(
    study: Context,
    batch_sizes: Sequence[int],
    pairs: Sequence[Pair],
    repeats: int,
    *,
    sets: Sequence[str] = SETS,
    readings: Sequence[str] = (),
) -> pd.DataFrame:
    """Train at every label, average over the repeats and add the printed accuracies.

    Without ``readings`` the training is read as :func:`reading_of` says.

    Returns
    -------
    DataFrame
        One row a setting as :func:`average_repeats` gives it, by ``reading`` where there are
        several, with ``"paper's data"`` (the set in whose place the data stand), ``printed`` and
        its ``text``.
    """
    tasks = [
        training_task(study, study.parameters[which], size, repeat, pairs, reading=reading)
        for which in sets
        for size in batch_sizes
        for reading in readings or (reading_of(study),)
        for repeat in range(repeats)
    ]
    table = average_repeats(train_tasks(study, tasks), by=("reading",) if len(readings) > 1 else ())
    places = dict(zip(table["data"].unique(), PAPERS_NAMES, strict=False))
    keyed = table.assign(**{"paper's data": table["data"].map(places)})
    paper = printed_accuracies().rename(columns={"data": "paper's data"})
    joined = keyed.merge(paper, how="left", on=["paper's data", "mechanism", "label", "batch_size"])
    # Section VII-A has the accuracies without noise
    rows = registry.printed(f"{KEY}/fig2").query("series == 'non-private model'")
    printed = (rows.set_index("panel")["value"].astype(float) / 100).round(6)
    without = joined["mechanism"] == "none"
    joined.loc[without, "printed"] = joined.loc[without, "paper's data"].map(printed)
    return joined


def printed_gaps(data: str, batch_size: int = federated.BATCH_SIZE) -> np.ndarray:
    """Return the gaps of Table V (Gaussian less VMF) by label, smallest epsilon first."""
    own = printed_accuracies().query("data == @data and batch_size == @batch_size")
    wide = own.pivot(index="label", columns="mechanism", values="printed")
    return (wide["Gaussian"] - wide["VMF"]).to_numpy()


def gaps_of(table: pd.DataFrame) -> pd.DataFrame:
    """Return Gaussian less VMF at every label, with the standard error and the printed gap."""
    noisy = table[table["mechanism"] != "none"]
    wide = noisy.set_index(["data", "batch_size", "label", "mechanism"])
    mean, error, paper = (wide[c].unstack("mechanism") for c in ("mean", "error", "printed"))
    gap = pd.DataFrame(
        {
            "gap": mean["Gaussian"] - mean["VMF"],
            "error": np.hypot(error["Gaussian"], error["VMF"]),
            "printed": paper["Gaussian"] - paper["VMF"],
        }
    )
    # unstacking has sorted the data sets
    return gap.reindex(table["data"].unique(), level="data").reset_index()


def mean_gap(gaps: pd.DataFrame) -> tuple[float, float]:
    """Return the mean gap and its standard error."""
    return float(gaps["gap"].mean()), float(np.sqrt((gaps["error"] ** 2).sum()) / len(gaps))


def gaussian_ahead(gaps: pd.DataFrame) -> bool | None:
    """Return whether Gaussian noise trains the better networks: significantly so on average.

    For every data set and batch size; and at no label may VMF noise be ahead by ``CROSSED``, the
    Monte Carlo error included. None where the error is too large to tell.
    """
    means = [mean_gap(own) for _, own in gaps.groupby(["data", "batch_size"], sort=False)]
    room = CROSSING * gaps["error"]
    ahead = all(mean > CROSSING * error for mean, error in means)
    behind = any(mean <= 0 for mean, _ in means) or (gaps["gap"] + room < -CROSSED).any()
    return settle(ahead and (gaps["gap"] - room > -CROSSED).all(), not behind)


def trained_without_noise(table: pd.DataFrame) -> bool:
    """Return whether networks learn where there is no noise: the control of every comparison.

    For every data set and batch size their accuracy is at least twice that of guessing and above
    the mean of each mechanism.
    """
    by = ["data", "batch_size"]
    mean = table.groupby([*by, "mechanism"])["mean"].mean().unstack()
    noisy = mean.drop(columns="none").max(axis=1)
    return bool((mean["none"] > np.maximum(noisy, 2 * GUESSING)).all())


def least_gap(gaps: pd.DataFrame) -> str:
    """Return the smallest gap of all settings, with its error."""
    least = gaps.loc[gaps["gap"].idxmin()]
    return f"least gap {rounded(least['gap'], least['error'])} +- {least['error']:.1g}"


def spread_of_a_run(table: pd.DataFrame) -> np.ndarray:
    """Return the standard deviation of the difference between our mean and one run."""
    return np.hypot(table["sd"], table["error"]).to_numpy()

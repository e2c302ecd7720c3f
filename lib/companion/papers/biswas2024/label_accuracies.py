"""Accuracies over the labels of the noises, beside print: what Figure 2 and Table V have in common.

A label is the concentration of a pair of Table IV; its epsilon is the paper's, whatever either
noise costs.
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from companion.experiments import federated
from companion.experiments.federated import KEY, Pair
from companion.experiments.tools import data_folder
from companion.experiments.utility_runs import (
    AS_READ,
    PAPERS_NAMES,
    averaged,
    printed_accuracies,
    trained,
    training_task,
)
from companion.study import Context, Parameter, registry

BATCH_SIZE = Parameter("int", 128, 128, "128", "records of a batch, expected", low=1)
#: standard errors by which VMF noise must be ahead to count as a crossing
CROSSING = 3.0
#: parameters that name the data sets, in the order of the paper's
SETS = ("digits", "garments")


def pairs_of(concentrations: Sequence[float]) -> list[Pair]:
    """Return the pairs of the given concentrations."""
    return [pair for pair in federated.studied_pairs() if pair.concentration in concentrations]


def titles(study: Context) -> dict[str, str]:
    """Return what figures call each data set."""
    names = [study.parameters[which] for which in SETS]
    return {n: federated.standardised(n, data_folder(study, n)).images.name for n in names}


def label_accuracies(
    study: Context,
    batch_sizes: Sequence[int],
    pairs: Sequence[Pair],
    repeats: int,
    *,
    sets: Sequence[str] = SETS,
    readings: Sequence[str] = (AS_READ,),
) -> pd.DataFrame:
    """Train at every label; one row a setting, averaged over the repeats, beside print.

    Returns
    -------
    DataFrame
        As :func:`averaged` gives it, by ``reading`` where there are several, with
        ``"paper's data"``, ``printed`` and its ``text``: the number of the set in whose place the
        data stand.
    """
    tasks = [
        training_task(study, study.parameters[which], size, repeat, pairs, reading=reading)
        for which in sets
        for size in batch_sizes
        for reading in readings
        for repeat in range(repeats)
    ]
    several = ("reading",) if len(readings) > 1 else ()
    table = averaged(trained(study, tasks), by=several)
    places = dict(zip(table["data"].unique(), PAPERS_NAMES, strict=False))
    keyed = table.assign(**{"paper's data": table["data"].map(places)})
    paper = printed_accuracies().rename(columns={"data": "paper's data"})
    joined = keyed.merge(paper, how="left", on=["paper's data", "mechanism", "label", "batch_size"])
    without = joined["mechanism"] == "none"
    joined.loc[without, "printed"] = joined.loc[without, "paper's data"].map(_printed_without())
    return joined


def _printed_without() -> dict[str, float]:
    """Accuracy without noise, by the paper's data set (Section VII-A)."""
    rows = registry.printed(f"{KEY}/fig2")
    rows = rows[rows["series"] == "non-private model"]
    return {str(r["panel"]): round(float(r["value"]) / 100, 6) for _, r in rows.iterrows()}


def printed_gaps(data: str, batch_size: int = federated.BATCH_SIZE) -> np.ndarray:
    """Return the gaps of Table V (Gaussian less VMF) by label, smallest epsilon first."""
    rows = printed_accuracies()
    own = rows[(rows["data"] == data) & (rows["batch_size"] == batch_size)]
    wide = own.pivot_table(index="label", columns="mechanism", values="printed").sort_index()
    return (wide["Gaussian"] - wide["VMF"]).to_numpy()


def gaps_of(table: pd.DataFrame) -> pd.DataFrame:
    """Return Gaussian less VMF at every label, with the standard error and the printed gap."""
    setting = ["data", "batch_size", "label"]
    wide = table[table["mechanism"] != "none"].set_index([*setting, "mechanism"])
    mean, error, paper = (wide[c].unstack("mechanism") for c in ("mean", "error", "printed"))
    gap = pd.DataFrame(
        {
            "gap": mean["Gaussian"] - mean["VMF"],
            "error": np.hypot(error["Gaussian"], error["VMF"]),
            "printed": paper["Gaussian"] - paper["VMF"],
        }
    )
    # in the order of the data sets, which unstacking has lost
    order = {name: k for k, name in enumerate(table["data"].unique())}
    return gap.reset_index().sort_values(
        setting, key=lambda c: c.map(order) if c.name == "data" else c, ignore_index=True
    )


def mean_gap(gaps: pd.DataFrame) -> tuple[float, float]:
    """Return the mean gap and its standard error."""
    return float(gaps["gap"].mean()), float(np.sqrt((gaps["error"] ** 2).sum()) / len(gaps))


def behind(gaps: pd.DataFrame) -> int:
    """Return at how many settings Gaussian noise is significantly behind."""
    return int((gaps["gap"] < -CROSSING * gaps["error"]).sum())


def gaussian_ahead(gaps: pd.DataFrame) -> bool:
    """Whether Gaussian noise is ahead on average everywhere, and significantly behind nowhere."""
    means = [mean_gap(own) for _, own in gaps.groupby(["data", "batch_size"], sort=False)]
    return behind(gaps) == 0 and all(mean > CROSSING * error for mean, error in means)


def spread_of_a_run(table: pd.DataFrame) -> np.ndarray:
    """Return the spread of the difference between our mean and one run."""
    return np.hypot(table["sd"], table["error"]).to_numpy()

"""Lemma B.5: how far T(V, V, V) is from its mean, and so the sum that eq. (7) prints."""

from collections.abc import Iterator

import pandas as pd

from companion.exhibit import *
from companion.papers.liu2024 import moment_distances
from companion.papers.liu2024.power_laws import (
    EXPONENTS,
    UNLIMITED,
    check_exponents,
    fit_column,
    laws_of,
    listed,
)

PARAMETERS = moment_distances.PARAMETERS
SETTLES = ("E-E-22",)
ALTERED = {
    "exponents": EXPONENTS,
    "relative distances": {
        "mean over the neurons": "distances of the mean",
        "sum over the neurons": "distances of the sum",
    },
}

#: relative distance of the widest networks' mean over the neurons from its limit: a fifth of zero's
AT_LIMIT = 0.2


@measurement
def measure(study: Context) -> Tables:
    laws = moment_distances.moment_laws(study, "tensor")
    sweep = moment_distances.moment_sweep(study, "width")
    widest = sweep[sweep["width"] == sweep["width"].max()]
    relative = {
        "m": widest["width"].iloc[0],
        "mean over the neurons": (widest["tensor"] / widest["size"]).mean(),
        "sum over the neurons": (widest["total"] / widest["size"]).mean(),
        "exponent of the sum": fit_column(sweep, "width", "total", regime=UNLIMITED).exponent,
    }
    return Tables(
        {"exponents": listed(laws), "relative distances": pd.DataFrame([relative])},
        ran=moment_distances.what_ran(study),
    )


def judge(tables: Tables) -> Iterator[Verdict]:
    yield check_exponents(
        "liu2024/lemB5",
        laws_of(tables["exponents"]),
        "the distance of T(V, V, V) from its mean falls as the root of 1/m, does not depend on d, "
        "and grows no faster than B^(5/2), whether labels are random or equal",
        {"m": -0.5, "d": 0, "random": 2.5, "equal": 2.5},
        at_most=("random", "equal"),
    )
    width, mean, total, growth = tables["relative distances"].iloc[0]
    yield check(
        "E-E-22",
        mean < AT_LIMIT and total > 1 and growth > 0.5,
        "the mean over the neurons tends to the mean over one neuron, their sum does not",
        ours=f"relative distance at m = {width:.0f}: {mean:.1f} for the mean, "
        f"{'above 1000' if total > 1000 else format(total, '.0f')} for the sum",
        tolerance=f"{AT_LIMIT:g}",
    )

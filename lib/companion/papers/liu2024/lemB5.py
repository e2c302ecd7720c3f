"""Lemma B.5: how far T(V, V, V) is from its mean, and so the sum that eq. (7) prints."""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd

from companion.papers.liu2024 import moment_distances
from companion.papers.liu2024.power_laws import (
    NEAR,
    UNLIMITED,
    fit_column,
    laws_of,
    listed,
    slopes,
)
from companion.study import Context, Tables, Verdict, check, measurement, refute

PARAMETERS = moment_distances.PARAMETERS
SETTLES = ("E-E-22",)


@measurement
def measure(study: Context) -> Tables:
    laws = moment_distances.moment_laws(study, "tensor")
    sweep = moment_distances.moment_sweep(study, "width")
    widest = sweep[sweep["width"] == sweep["width"].max()]
    total = fit_column(sweep, "width", "total", regime=UNLIMITED)
    relative = {
        "m": widest["width"].iloc[0],
        "mean over the neurons": (widest["tensor"] / widest["size"]).mean(),
        "sum over the neurons": (widest["total"] / widest["size"]).mean(),
        "exponent of the sum": total.exponent,
    }
    return Tables(
        {"exponents": listed(laws), "relative distances": pd.DataFrame([relative])},
        ran=moment_distances.what_ran(study),
    )


def judge(tables: Tables) -> Iterator[Verdict]:
    laws = laws_of(tables["exponents"])
    in_batch = max(laws[labels].exponent for labels in ("random", "equal"))
    yield check(
        "liu2024/lemB5",
        laws["m"].near(-0.5, NEAR) and laws["d"].near(0.0, NEAR + 0.1) and in_batch <= 2.5 + NEAR,
        "the distance of T(V, V, V) from its mean goes as the root of 1/m whatever d, and "
        "grows no faster than B^(5/2)",
        ours=f"exponents: m {slopes(laws, 'm')}, d {slopes(laws, 'd')}, B "
        f"{slopes(laws, 'random')} (random labels), {slopes(laws, 'equal')} (equal)",
        paper="-1/2, 0, 5/2",
        tolerance=f"{NEAR:g}; {NEAR + 0.1:g} in d; one-sided in B",
    )
    width, mean, total, growth = tables["relative distances"].iloc[0]
    yield refute(
        "E-E-22",
        holds=total < 0.5,
        corrected_holds=mean < 0.5 and growth > 0.5,
        ours=f"relative distance at m = {width:.0f}: {mean:.1f} for the mean, "
        f"{'above 1000' if total > 1000 else format(total, '.0f')} for the sum",
        paper="a sum",
    )

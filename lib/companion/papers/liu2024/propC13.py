"""Proposition C.13: clipping with noise; the exponent of |G|/C, and the scaling as printed."""

from collections.abc import Iterator

import numpy as np
import pandas as pd

from companion.exhibit import *
from companion.papers.liu2024 import attack_sweeps
from companion.papers.liu2024.attack_sweeps import attack_laws, clipping_tables
from companion.papers.liu2024.power_laws import (
    EXPONENTS,
    check_exponents,
    laws_of,
    listed,
)

PARAMETERS = attack_sweeps.PARAMETERS
SETTLES = ("E-E-15",)
ALTERED = {
    "exponents": EXPONENTS,
    "scales": {"divided": "norms after division", "multiplied": "norms after multiplication"},
}


@measurement
def measure(study: Context) -> Tables:
    return Tables(
        {
            **clipping_tables(study),
            "exponents": listed(attack_laws(study, "both ratio")),
            "scales": _scales(study.rng("scales"), threshold=4.0, length=100.0),
        },
        ran=attack_sweeps.what_ran(study),
    )


def _scales(rng: np.random.Generator, threshold: float, length: float) -> pd.DataFrame:
    """Norms of one gradient, multiplied as it is printed and divided by max(1, |G|/C)."""
    gradient = rng.standard_normal(1000)
    gradient *= length / np.linalg.norm(gradient)
    factor = max(1.0, length / threshold)
    norms = {
        "C": threshold,
        "|G|": length,
        "multiplied": np.linalg.norm(gradient * factor),
        "divided": np.linalg.norm(gradient / factor),
    }
    return pd.DataFrame([norms])


def judge(tables: Tables) -> Iterator[Verdict]:
    statement = "clipping and noise: the error grows as sigma0 |G|/C"
    laws = laws_of(tables["exponents"])
    yield check_exponents("liu2024/propC13", laws, statement, {"both ratio": 1})
    scales = tables["scales"].iloc[0]
    yield check(
        "E-E-15",
        scales["divided"] <= scales["C"] * (1 + 1e-12) < scales["multiplied"],
        "a gradient divided by max(1, |G|/C) has a norm of at most C, one multiplied does not",
        ours=f"a norm of {scales['|G|']:g} becomes {scales['multiplied']:g} multiplied, "
        f"{scales['divided']:g} divided",
        paper=f"at most C = {scales['C']:g}",
    )

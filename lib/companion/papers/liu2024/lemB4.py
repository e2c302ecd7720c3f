"""Lemma B.4: how far P is from its mean, over m, d and B."""

from collections.abc import Iterator

from companion.exhibit import *
from companion.papers.liu2024 import moment_distances
from companion.papers.liu2024.power_laws import (
    EXPONENTS,
    check_exponents,
    laws_of,
    listed,
)

PARAMETERS = moment_distances.PARAMETERS
ALTERED = {"exponents": EXPONENTS}


@measurement
def measure(study: Context) -> Tables:
    laws = moment_distances.moment_laws(study, "matrix")
    return Tables({"exponents": listed(laws)}, ran=moment_distances.what_ran(study))


def judge(tables: Tables) -> Iterator[Verdict]:
    yield check_exponents(
        "liu2024/lemB4",
        laws_of(tables["exponents"]),
        "the distance of P from its mean grows as the root of d/m, and no faster than B, whether "
        "labels are random or equal",
        {"m": -0.5, "d": 0.5, "random": 1, "equal": 1},
        at_most=("random", "equal"),
    )

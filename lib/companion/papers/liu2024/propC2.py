"""Proposition C.2: two steps on two parts of a batch, against one step on all of it."""

from collections.abc import Iterator

from companion.exhibit import *
from companion.papers.liu2024 import attack_sweeps
from companion.papers.liu2024.attack_sweeps import (
    SAME,
    against_none,
    attack_laws,
    attack_sweep,
    largest_change,
    means_over,
    of_few,
)
from companion.papers.liu2024.power_laws import EXPONENTS, NEAR, laws_of, listed, slopes

PARAMETERS = attack_sweeps.PARAMETERS
ALTERED = {"exponents": EXPONENTS, "pairs": {"error": "errors of steps on two batches"}}


@measurement
def measure(study: Context) -> Tables:
    attacks = of_few(attack_sweep(study, "width"))
    return Tables(
        {
            "errors": means_over(attacks, "width"),
            "pairs": against_none(attacks, "batches"),
            "exponents": listed(attack_laws(study, "batches m")),
        },
        ran=attack_sweeps.what_ran(study),
    )


def judge(tables: Tables) -> Iterator[Verdict]:
    laws = laws_of(tables["exponents"])
    change = largest_change(tables["pairs"], "batches")
    yield check(
        "liu2024/propC2",
        change < SAME and laws["batches m"].near(-0.5, NEAR),
        "steps on two batches, of two records and of one, give the error of one step on N = 3",
        ours=f"to within {change:.0e}; exponent of m {slopes(laws, 'batches m')}",
        paper="N sqrt(d/m)",
        tolerance=f"{SAME:g}; {NEAR:g}",
    )

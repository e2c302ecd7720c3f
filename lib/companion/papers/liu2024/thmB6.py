"""Theorem B.6: the full statement, with the factors pi_min and B that the short one leaves out."""

from collections.abc import Iterator

from companion.exhibit import *
from companion.papers.liu2024 import attack_sweeps
from companion.papers.liu2024.attack_sweeps import attack_laws, attack_sweep, means_over
from companion.papers.liu2024.power_laws import (
    EXPONENTS,
    check_exponents,
    fit_column,
    laws_of,
    listed,
)

PARAMETERS = attack_sweeps.PARAMETERS
ALTERED = {"exponents": EXPONENTS}

#: of the sweep over the batch size
DIMENSION = 16


@measurement
def measure(study: Context) -> Tables:
    overlap = attack_sweep(study, "overlap")
    laws = attack_laws(study, "none m", "none d", "equal B")
    # records of equal inner products o have the smallest singular value (1 - o)^(1/2)
    laws["1/pi_min"] = fit_column(
        overlap.assign(inverse=(1 - overlap["overlap"]) ** -0.5), "inverse"
    )
    return Tables(
        {
            "exponents": listed(laws),
            "over pi_min": means_over(overlap, "overlap"),
            "over B": means_over(attack_sweep(study, "batch"), "batch"),
        },
        ran=attack_sweeps.what_ran(study),
    )


def judge(tables: Tables) -> Iterator[Verdict]:
    largest = tables["over B"]["batch"].max()
    yield check_exponents(
        "liu2024/thmB6",
        laws_of(tables["exponents"]),
        "the error grows as the root of d/m, and no faster than B and than 1/pi_min^2, also beyond "
        f"the batches of order d^(1/4) that the theorem covers: up to B = {largest} where d^(1/4) "
        f"is {DIMENSION**0.25:g}",
        {"none m": -0.5, "none d": 0.5, "equal B": 1, "1/pi_min": 2},
        at_most=("equal B", "1/pi_min"),
    )

"""Corollary C.6: residuals after one step stay of order one."""

from collections.abc import Iterator

import pandas as pd

from companion.exhibit import *
from companion.papers.liu2024 import step_changes
from companion.papers.liu2024.power_laws import EXPONENTS, laws_of, listed, slopes

PARAMETERS = step_changes.PARAMETERS
ALTERED = {"exponents": EXPONENTS, "largest": {"largest residual": "residuals"}}

#: the residual 2 (f - y) of a label of size one and a small output f
LARGEST = 2.2
#: of exponents that are to be zero: these values hardly scatter
FLAT = 0.03


@measurement
def measure(study: Context) -> Tables:
    largest = [
        {"over": over, "largest residual": step_changes.change_sweep(study, over)["later"].max()}
        for over in ("width", "dimension", "batch")
    ]
    return Tables(
        {
            "exponents": listed(step_changes.change_laws(study, "later")),
            "largest": pd.DataFrame(largest),
        },
        ran=f"{study.parameters.networks} networks at each point; labels of size one.",
    )


def judge(tables: Tables) -> Iterator[Verdict]:
    laws, largest = laws_of(tables["exponents"]), tables["largest"]["largest residual"].max()
    yield check(
        "liu2024/corC6",
        largest < LARGEST and all(law.near(0.0, FLAT) for law in laws.values()),
        "residuals after one step are of order one, whatever m, B and d",
        ours=f"at most {largest:.1f} in size; exponents of m, B, d: {slopes(laws, 'm', 'B', 'd')}",
        paper="O(1)",
        tolerance=f"below {LARGEST:g}; {FLAT:g}",
    )

"""Proposition C.11: clipping alone; the reconstruction does not depend on the gradient's scale."""

from collections.abc import Iterator

from companion.exhibit import *
from companion.papers.liu2024 import attack_sweeps
from companion.papers.liu2024.attack_sweeps import (
    SAME,
    against_none,
    attack_sweep,
    largest_change,
    means_over,
    of_few,
)

PARAMETERS = attack_sweeps.PARAMETERS
ALTERED = {"pairs": {"error": "errors under clipping", "norm": "norms over the threshold"}}


@measurement
def measure(study: Context) -> Tables:
    attacks = of_few(attack_sweep(study, "width"))
    return Tables(
        {"errors": means_over(attacks, "width"), "pairs": against_none(attacks, "clip")},
        ran=attack_sweeps.what_ran(study),
    )


def judge(tables: Tables) -> Iterator[Verdict]:
    pairs = tables["pairs"]
    change = largest_change(pairs, "clip")
    # gradients are clipped to norm one
    shrunk = pairs["norm"].min()
    yield check(
        "liu2024/propC11",
        change < SAME and shrunk > 2,
        "clipping multiplies P and T by one number: the reconstruction is the same",
        ours=f"errors agree to {'a thousandth' if change < SAME else f'{change:.0e}'} with "
        f"gradients shrunk {shrunk:.0f} times or more",
        paper="B sqrt(d/m), as without defence",
        tolerance=f"{SAME:g}, for single precision",
    )

"""Proposition C.11: clipping alone; the reconstruction does not depend on the gradient's scale."""

from collections.abc import Iterator

from companion.papers.liu2024 import attack_sweeps
from companion.papers.liu2024.attack_sweeps import against_none, attack_sweep, means_over, of_few
from companion.study import Context, Tables, Verdict, check, measurement

PARAMETERS = attack_sweeps.PARAMETERS


@measurement
def measure(study: Context) -> Tables:
    attacks = of_few(attack_sweep(study, "width"))
    return Tables(
        {"errors": means_over(attacks, "width"), "pairs": against_none(attacks, "clip")},
        ran=attack_sweeps.what_ran(study),
    )


def judge(tables: Tables) -> Iterator[Verdict]:
    pairs = tables["pairs"]
    change = (pairs["error"] / pairs["error without"] - 1).abs().max()
    # gradients are clipped to norm one
    shrunk = pairs["norm"].min()
    yield check(
        "liu2024/propC11",
        change < 1e-3 and shrunk > 2,
        "clipping multiplies P and T by one number: the reconstruction is the same",
        ours=f"errors agree to {'a thousandth' if change < 1e-3 else f'{change:.0e}'} with "
        f"gradients shrunk {shrunk:.0f} times or more",
        paper="B sqrt(d/m), as without defence",
        tolerance="1e-3, for single precision",
    )

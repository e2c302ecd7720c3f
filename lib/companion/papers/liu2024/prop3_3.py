"""Proposition 3.3: DP-SGD; clipping alone has no effect, and multiplies added noise by |G|/C."""

from collections.abc import Iterator

from companion.exhibit import *
from companion.papers.liu2024 import attack_sweeps
from companion.papers.liu2024.attack_sweeps import (
    SAME,
    against_none,
    attack_laws,
    attack_sweep,
    clipping_tables,
    largest_change,
    of_few,
)
from companion.papers.liu2024.power_laws import (
    EXPONENTS,
    NEAR,
    laws_of,
    listed,
    slopes,
)

PARAMETERS = attack_sweeps.PARAMETERS
SETTLES = ("E-008",)
ALTERED = {"exponents": EXPONENTS, "pairs": {"error": "errors under clipping"}}


@measurement
def measure(study: Context) -> Tables:
    return Tables(
        {
            **clipping_tables(study),
            "exponents": listed(attack_laws(study, "both ratio", "both m")),
            "pairs": against_none(of_few(attack_sweep(study, "width")), "clip"),
        },
        ran=attack_sweeps.what_ran(study),
    )


def judge(tables: Tables) -> Iterator[Verdict]:
    laws, pairs = laws_of(tables["exponents"]), tables["pairs"]
    alone = largest_change(pairs, "clip")
    verdict = check(
        "liu2024/prop3_3",
        alone < SAME and laws["both ratio"].near(1.0, NEAR) and laws["both m"].near(0.0, NEAR),
        "clipping alone changes nothing; with noise the error grows as sigma0 |G|/C. As |G| grows "
        "with the root of m, the error at fixed C and sigma0 does not fall with m",
        ours=f"alone: {'nothing' if alone < SAME else f'{alone:.0e}'}; exponent of |G|/C "
        f"{slopes(laws, 'both ratio')}; of m at fixed C {slopes(laws, 'both m')}",
        paper="no effect; max(1, |G|/C)",
        tolerance=f"{SAME:g}; {NEAR:g} in the exponents",
    )
    yield from shared_by(verdict, "E-008")

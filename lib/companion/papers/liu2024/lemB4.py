"""Lemma B.4: how far P is from its mean, over m, d and B."""

from __future__ import annotations

from collections.abc import Iterator

from companion.papers.liu2024 import moment_distances
from companion.papers.liu2024.power_laws import NEAR, laws_of, listed, slopes
from companion.study import Context, Tables, Verdict, check, measurement

PARAMETERS = moment_distances.PARAMETERS


@measurement
def measure(study: Context) -> Tables:
    laws = moment_distances.moment_laws(study, "matrix")
    return Tables({"exponents": listed(laws)}, ran=moment_distances.what_ran(study))


def judge(tables: Tables) -> Iterator[Verdict]:
    laws = laws_of(tables["exponents"])
    in_batch = max(laws[labels].exponent for labels in ("random", "equal"))
    yield check(
        "liu2024/lemB4",
        laws["m"].near(-0.5, NEAR) and laws["d"].near(0.5, NEAR) and in_batch <= 1 + NEAR,
        "the distance of P from its mean goes as the root of d/m and grows no faster than B",
        ours=f"exponents: m {slopes(laws, 'm')}, d {slopes(laws, 'd')}, B "
        f"{slopes(laws, 'random')} (random labels), {slopes(laws, 'equal')} (equal)",
        paper="-1/2, 1/2, 1",
        tolerance=f"{NEAR:g}; one-sided in B",
    )

"""Proposition 3.1: two local steps do not change the orders of both bounds."""

from collections.abc import Iterator

from companion.exhibit import *
from companion.papers.liu2024 import attack_sweeps
from companion.papers.liu2024.attack_sweeps import (
    SAME,
    against_none,
    attack_laws,
    attack_sweep,
    bound_laws,
    bound_sweep,
    largest_change,
    means_over,
    of_few,
)
from companion.papers.liu2024.power_laws import EXPONENTS, FACTORS, NEAR, laws_of, listed, slopes

PARAMETERS = attack_sweeps.PARAMETERS
SETTLES = ("E-005",)
ALTERED = {
    "upper exponents": EXPONENTS,
    "lower exponents": {"value": by("exponent of", "the bound's exponents", FACTORS)},
    "attack pairs": {"error": "errors of two steps"},
    "bound pairs": {"error": "bounds of two steps"},
}

#: the bound of two equal gradients is half of one's; the share by which it may be off
HALF = 0.01


@measurement
def measure(study: Context) -> Tables:
    attacks = of_few(attack_sweep(study, "width"))
    return Tables(
        {
            "errors": means_over(attacks, "width"),
            "attack pairs": against_none(attacks, "local"),
            "bound pairs": against_none(bound_sweep(study, "width"), "local"),
            "upper exponents": listed(attack_laws(study, "none m", "local m")),
            "lower exponents": listed(bound_laws(study, "none m", "local m")),
        },
        ran=attack_sweeps.what_ran(study),
    )


def judge(tables: Tables) -> Iterator[Verdict]:
    upper, lower = (laws_of(tables[f"{row} exponents"]) for row in ("upper", "lower"))
    change = largest_change(tables["attack pairs"], "local")
    bounds = tables["bound pairs"]
    halves = bounds["error"] / bounds["error without"]
    verdict = check(
        "liu2024/prop3_1",
        change < SAME
        and (2 * halves - 1).abs().max() < HALF
        and all(law.near(-0.5, NEAR) for law in (*upper.values(), *lower.values())),
        "two local steps at the stated rates change neither order",
        ours=f"error changes by at most {change:.0e}; exponents of m: {slopes(upper, 'local m')} "
        f"(attack), {slopes(lower, 'local m')} (Cramer-Rao, "
        f"{halves.mean():.2f} times that of one step)",
        paper="B sqrt(d/m); sigma sqrt(d/m)",
        tolerance=f"{SAME:g} in the error, {HALF:g} in the bound, {NEAR:g} in an exponent",
    )
    yield from shared_by(verdict, "E-005")

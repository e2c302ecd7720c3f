"""Proposition C.12: noise alone; its exponents, and where it does not show."""

from collections.abc import Iterator

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from companion.exhibit import *
from companion.papers.liu2024 import attack_sweeps
from companion.papers.liu2024.attack_sweeps import (
    against_none,
    attack_laws,
    attack_sweep,
    means_over,
)
from companion.papers.liu2024.power_laws import (
    EXPONENTS,
    NEAR,
    laws_of,
    listed,
    slopes,
)
from companion.papers.liu2024.tensor_errors import NONE
from reconrisk.special import normal_mean

PARAMETERS = attack_sweeps.PARAMETERS
SETTLES = ("E-006", "E-007", "E-E-16")

ALTERED = {
    "exponents": EXPONENTS,
    "growth": {("ratio", "low", "high"): by("sigma0", "errors over those without noise")},
    "second moment": {"by quadrature": "moments"},
}

#: records of the batches with added noise
BATCH = 2
#: "the same order": an error at most this factor above that without noise, with its 95% interval
SAME_ORDER = 2.0


@measurement
def measure(study: Context) -> Tables:
    sweep = attack_sweep(study, "noise")
    return Tables(
        {
            "growth": _growth(sweep),
            "errors": means_over(sweep.assign(x=0), "x"),
            "exponents": listed(attack_laws(study, "noise sigma0", "noise m", "noise d")),
            "second moment": _second_moment(),
        },
        ran=attack_sweeps.what_ran(study),
    )


def _growth(sweep: pd.DataFrame) -> pd.DataFrame:
    """The error over that without noise, by level."""
    pairs = against_none(sweep, *(set(sweep["defence"]) - {NONE}))
    ratios = pairs.assign(
        sigma0=pairs["defence"].astype(float), error=pairs["error"] / pairs["error without"]
    )
    growth = means_over(ratios.sort_values("sigma0", kind="stable"), "sigma0")
    return growth.drop(columns="defence").rename(columns={"error": "ratio"})


def _second_moment() -> pd.DataFrame:
    """E (a'(w w' - I) a)^2 for 16 entries of 1/4: drawn, in closed form and as eq. (23) sums it."""
    exact, summed = square_moment(np.full(16, 0.25))
    drawn = normal_mean(lambda z: (z * z - 1) ** 2)
    return pd.DataFrame([{"by quadrature": drawn, "exact": exact, "eq. (23)": summed}])


def square_moment(vector: ArrayLike) -> tuple[float, float]:
    """Return ``E (a'(w w' - I) a)^2`` for a unit vector, exactly and as eq. (23) sums it.

    Exactly ``2 |a|^4``; with every pair of different entries counted once,
    ``sum 2 a_i^4 + sum_{i != j} a_i^2 a_j^2``.
    """
    a = np.asarray(vector, dtype=float)
    total = float(a @ a) ** 2
    return 2.0 * total, float(np.sum(a**4)) + total


def judge(tables: Tables) -> Iterator[Verdict]:
    laws, growth = laws_of(tables["exponents"]), tables["growth"]
    orders = laws["noise m"].near(-0.5, NEAR) and laws["noise d"].near(0.5, NEAR)
    growing = check(
        "liu2024/propC12",
        orders and laws["noise sigma0"].near(1.0, NEAR),
        "where noise makes the error, it grows in proportion to sigma0, with the same factor root "
        "of d/m",
        ours=f"exponents: sigma0 {slopes(laws, 'noise sigma0')}, m {slopes(laws, 'noise m')}, "
        f"d {slopes(laws, 'noise d')}",
        paper="1, -1/2, 1/2",
        tolerance=f"{NEAR:g}",
    )
    yield from shared_by(growing, "E-006")
    by_noise = growth.set_index("sigma0")
    little, much = by_noise.loc[BATCH], by_noise.loc[8 * BATCH]
    yield check(
        "E-007",
        orders and little["high"] < SAME_ORDER < much["low"],
        "noise of sigma0 = B leaves the orders and the error's size; eight times that does not",
        ours=f"error {little['ratio']:.1f} and {much['ratio']:.0f} times that without noise; "
        f"exponents at sigma0 = B: m {slopes(laws, 'noise m')}",
        paper="the same order",
        tolerance=f"a factor of {SAME_ORDER:g}",
    )
    drawn, exact, summed = tables["second moment"].iloc[0]
    yield refute(
        "E-E-16",
        holds=abs(summed - drawn) < 1e-9,
        corrected_holds=abs(exact - drawn) < 1e-9,
        ours=f"{drawn:.4f}",
        paper=f"{summed:.4f} (16 entries of 1/4)",
    )

"""Proposition C.1: two steps on one batch, at the stated rates and at rates that move it."""

import math
from collections.abc import Iterator

import numpy as np
import pandas as pd

from companion.papers.liu2024 import attack_sweeps
from companion.papers.liu2024.attack_sweeps import (
    SAME,
    against_none,
    attack_laws,
    attack_sweep,
    largest_change,
    means_over,
    of_defence,
    of_few,
)
from companion.papers.liu2024.power_laws import NEAR, laws_of, listed, slopes
from companion.study import Context, Tables, Verdict, check, measurement, refute

PARAMETERS = attack_sweeps.PARAMETERS
SETTLES = ("E-E-14", "E-E-24")


@measurement
def measure(study: Context) -> Tables:
    attacks = of_few(attack_sweep(study, "width"))
    return Tables(
        {
            "errors": means_over(attacks, "width"),
            "pairs": against_none(attacks, "local", "moving"),
            "exponents": listed(attack_laws(study, "local m")),
            "two neurons": _two_neurons(),
        },
        ran=attack_sweeps.what_ran(study),
    )


def _two_neurons() -> pd.DataFrame:
    """Norms of sums of H_2(w_j) of two neurons whose moments cancel without signs."""
    w = math.sqrt(2.0) * np.eye(2)
    moments = w[:, :, None] * w[:, None, :] - np.eye(2)
    signed, unsigned = moments[0] - moments[1], moments[0] + moments[1]
    norms = {"signed": np.linalg.norm(signed, 2), "unsigned": np.linalg.norm(unsigned, 2)}
    return pd.DataFrame([norms])


def judge(tables: Tables) -> Iterator[Verdict]:
    laws, pairs = laws_of(tables["exponents"]), tables["pairs"]
    change = {name: largest_change(pairs, name) for name in ("local", "moving")}
    yield check(
        "liu2024/propC1",
        change["local"] < SAME and laws["local m"].near(-0.5, NEAR),
        "two steps on one batch leave the error unchanged",
        ours=f"changes by at most {change['local']:.0e}; exponent of m {slopes(laws, 'local m')}",
        paper="as without defence",
        tolerance=f"{SAME:g}; {NEAR:g}",
    )
    # how far the sum of two gradients falls short of twice the norm of the first
    short = pairs.assign(short=(2.0 - pairs["norm"] / pairs["norm without"]).abs())
    stated = of_defence(short, "local")["short"].max()
    larger = of_defence(short, "moving")["short"].min()
    yield refute(
        "E-E-14",
        holds=stated > 0.01,
        corrected_holds=stated < 0.01 and larger > 0.2 and change["moving"] < 0.1,
        ours=f"norm of the sum of both gradients short of twice the first's by {stated:.0e}, and "
        f"by {larger:.1f} at the larger rates, where the error changes by at most "
        f"{change['moving']:.0%}",
        paper="two steps",
    )
    signed, unsigned = tables["two neurons"].loc[0, ["signed", "unsigned"]]
    yield refute(
        "E-E-24",
        holds=signed <= unsigned,
        corrected_holds=math.isclose(signed, 2.0) and unsigned < 1e-12,
        ours=f"{signed:.0f} and {unsigned:.0f}",
        paper="signed <= unsigned",
    )

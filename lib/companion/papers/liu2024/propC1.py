"""Proposition C.1: two steps on one batch, at the stated rates and at rates that move it."""

import math
from collections.abc import Iterator

import numpy as np
import pandas as pd

from companion.exhibit import *
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
from companion.papers.liu2024.power_laws import EXPONENTS, NEAR, laws_of, listed, slopes

PARAMETERS = attack_sweeps.PARAMETERS
SETTLES = ("E-E-24",)
ALTERED = {
    "exponents": EXPONENTS,
    "pairs": {"error": "errors of two steps", "norm": "norms of the sum of gradients"},
    "two neurons": {"signed": "sums with signs", "unsigned": "sums without signs"},
}

#: by how much the second gradient must differ from the first at rates that move the network, and
#: the share by which the attack's error may change there
MOVES, AS_BEFORE = 0.2, 0.05


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
    # how far the sum of two gradients falls short of twice the norm of the first
    short = pairs.assign(short=(2.0 - pairs["norm"] / pairs["norm without"]).abs())
    stated = of_defence(short, "local")["short"].max()
    larger = of_defence(short, "moving")["short"].min()
    yield check(
        "liu2024/propC1",
        change["local"] < SAME
        and laws["local m"].near(-0.5, NEAR)
        and larger > MOVES
        and change["moving"] < AS_BEFORE,
        "two steps on one batch leave the error unchanged: at the stated rates, where the second "
        "gradient is the first, and at rates at which it is not",
        ours=f"changes by at most {change['local']:.0e}; exponent of m {slopes(laws, 'local m')}. "
        f"At the larger rates by at most {change['moving']:.0%}, the norm of both gradients' sum "
        f"short of twice the first's by {larger:.1f} (at the stated ones by {stated:.0e})",
        paper="as without defence",
        tolerance=f"{SAME:g}, {AS_BEFORE:g} at the larger rates; {NEAR:g} in the exponent",
    )
    signed, unsigned = tables["two neurons"].loc[0, ["signed", "unsigned"]]
    yield refute(
        "E-E-24",
        holds=signed <= unsigned,
        corrected_holds=math.isclose(signed, 2.0) and unsigned < 1e-12,
        ours=f"{signed:.0f} and {unsigned:.0f}",
        paper="signed <= unsigned",
    )

"""Lemma E.1: clipping; its factor, the effect of the lost length, and the width's exponent."""

from collections.abc import Iterator

import numpy as np
import pandas as pd

from companion.exhibit import *
from companion.papers.liu2024.floor_orders import EXPONENT, SWEPT, around, problems
from companion.papers.liu2024.gradient_floors import (
    ROUNDING,
    floor_of,
    geometric_mean,
    one_thread,
    round_digits,
    slope,
    span,
)

PARAMETERS = {
    **around((32, 64), (4, 8), (16000, 64000)),
    "widths": SWEPT["widths"],
    "shares": Parameter(
        "floats",
        (0.01, 0.1, 0.5, 0.9, 2.0),
        (0.01, 0.1, 0.5, 0.9, 2.0),
        "any",
        "C over the gradient's norm",
        low=1e-6,
    ),
    "max_grad_norm": Parameter(
        "float", 4.0, 4.0, "2, 4, 8", "C in the sweep over widths", low=1e-3
    ),
}
SHOWN = ("clipped over factor",)
ALTERED = {
    "draws": {"exact": "exact clipped bounds", "loosened": "loosened clipped bounds"},
    "at fixed C": {"exact": at("m == m.min()", "bounds for the narrowest network at fixed C")},
}

#: what the lost length of the gradient may add to the factor max(1, |G|/C), "a little"
LITTLE = 0.2


@measurement
@one_thread
def measure(study: Context) -> Tables:
    p = study.parameters
    draws = _clipped_over_factor(study)
    at_fixed_norm = [
        [floor_of(given, p.max_grad_norm).exact for given in problems(study, width=m)]
        for m in p.widths
    ]
    fixed = {"m": p.widths, "exact": [geometric_mean(found) for found in at_fixed_norm]}
    return Tables(
        {
            "clipped over factor": round_digits(draws.groupby("C / norm", as_index=False).mean()),
            "draws": draws,
            "at fixed C": pd.DataFrame(fixed),
        },
        ran=f"{p.draws} networks and batches around d = {p.dimension}, B = {p.batch_size}, "
        f"m = {p.width:,}.",
    )


def _clipped_over_factor(study: Context) -> pd.DataFrame:
    """Bounds under clipping over those without it, over max(1, |G|/C)."""
    rows = []
    for given in problems(study):
        plain = floor_of(given)
        for share in study.parameters.shares:
            clipped = floor_of(given, share * given.released.norm)
            factor = max(1.0, 1.0 / share)
            rows.append(
                {
                    "C / norm": share,
                    "exact": clipped.exact / (factor * plain.exact),
                    "loosened": clipped.loosened / (factor * plain.loosened),
                    "exact over loosened": clipped.exact / clipped.loosened,
                }
            )
    return pd.DataFrame(rows)


def judge(tables: Tables) -> Iterator[Verdict]:
    draws, fixed = tables["draws"], tables["at fixed C"]
    bounds = ["exact", "loosened"]
    cut, whole = draws[draws["C / norm"] < 1], draws[draws["C / norm"] >= 1]
    flat = slope(fixed["m"], fixed["exact"])
    yield check(
        "liu2024/lemE1",
        all(cut[name].between(1 - ROUNDING, 1 + LITTLE).all() for name in bounds)
        and np.allclose(whole[bounds], 1.0, rtol=1e-12)
        and abs(flat) < EXPONENT,
        "clipping to C multiplies the bound by max(1, |G|/C), and by a little more because the "
        "length is lost, whatever C is; |G| is of order sqrt(m), so that the bound does not "
        "depend on the width at fixed C and noise",
        ours=f"exact over that factor {span(cut['exact'], 4)}; exponent in m at C = "
        f"{tables.parameters.max_grad_norm:g}: {flat:.2f}",
        paper="sigma max(1, |G|/C) sqrt(d/m)",
        tolerance=f"{LITTLE:g}; {EXPONENT:g} in the exponent",
    )

"""Lemma C.7: what the change of the activations does to P, with and without absolute values."""

from collections.abc import Iterator

import pandas as pd

from companion.exhibit import *
from companion.papers.liu2024 import step_changes
from companion.papers.liu2024.power_laws import FACTORS, check_exponents, laws_of, listed

PARAMETERS = step_changes.PARAMETERS
ALTERED = {
    **step_changes.ALTERED,
    "signed": {"value": by("exponent of", "exponents without absolute values", FACTORS)},
    "signs": {"signed over unsigned": "sums without absolute values"},
}

#: up to a constant the signed sums must not be larger; 1 would be the inequality as printed
LARGER = 1.25


@measurement
def measure(study: Context) -> Tables:
    signed = listed(step_changes.change_laws(study, "signed"))
    signs = [_signed_over_unsigned(study, over) for over in ("width", "dimension", "batch")]
    return step_changes.change_tables(study, "P values", signed=signed, signs=pd.DataFrame(signs))


def _signed_over_unsigned(study: Context, over: str) -> dict[str, str | float]:
    """The largest ratio of the norms without and with absolute values in a sweep."""
    sweep = step_changes.change_sweep(study, over)
    ratio = sweep["signed"] / sweep["P values"]
    return {"over": over, "networks": len(ratio), "signed over unsigned": float(ratio.max())}


def judge(tables: Tables) -> Iterator[Verdict]:
    statement = "the change of the activations moves P by at most order B d/m"
    yield step_changes.grows_no_faster("liu2024/lemC7", tables, statement, batch=1, dimension=1)
    yield check_exponents(
        "liu2024/lemC7",
        laws_of(tables["signed"]),
        "without the absolute values as well, which the proof of Proposition C.1 needs",
        {"m": -1, "B": 1},
        at_most=("m", "B"),
    )
    signs = tables["signs"]
    most = signs["signed over unsigned"].max()
    yield check(
        "liu2024/lemC7",
        most < LARGER,
        "in random networks the sum without absolute values is no larger than the one with them, "
        "up to a constant",
        ours=f"at most {most:.2f} times as large in {signs['networks'].sum()} networks",
        tolerance=f"{LARGER:g}",
    )

"""Lemma C.7: what the change of the activations does to P, with and without absolute values."""

from __future__ import annotations

from collections.abc import Iterator

from companion.papers.liu2024 import step_changes
from companion.papers.liu2024.power_laws import NEAR, laws_of, listed, slopes
from companion.study import Context, Tables, Verdict, check, measurement

PARAMETERS = step_changes.PARAMETERS


@measurement
def measure(study: Context) -> Tables:
    signed = listed(step_changes.change_laws(study, "signed"))
    return step_changes.change_tables(study, "P values", signed=signed)


def judge(tables: Tables) -> Iterator[Verdict]:
    yield step_changes.grows_no_faster(
        "liu2024/lemC7",
        tables,
        "the change of the activations moves P by at most order B d/m",
        batch=1.0,
        dimension=1.0,
        paper="-1, 1, 1",
    )
    signed = laws_of(tables["signed"])
    yield check(
        "liu2024/lemC7",
        signed["m"].exponent <= -1 + NEAR and signed["B"].exponent <= 1 + NEAR,
        "without the absolute values, as the proof of Proposition C.1 needs it",
        ours=f"exponents: m {slopes(signed, 'm')}, B {slopes(signed, 'B')}, "
        f"d {slopes(signed, 'd')}",
        paper="-1, 1, 1",
        tolerance=f"{NEAR:g}, one-sided",
    )

"""Lemma C.8: what the change of the activations does to T(V, V, V)."""

from __future__ import annotations

from collections.abc import Iterator

from companion.papers.liu2024 import step_changes
from companion.study import Context, Tables, Verdict, measurement

PARAMETERS = step_changes.PARAMETERS


@measurement
def measure(study: Context) -> Tables:
    return step_changes.change_tables(study, "T values")


def judge(tables: Tables) -> Iterator[Verdict]:
    yield step_changes.grows_no_faster(
        "liu2024/lemC8",
        tables,
        "the change of the activations moves T(V, V, V) by at most order B^(5/2)/m",
        batch=2.5,
        dimension=0.0,
        paper="-1, 5/2, 0",
    )

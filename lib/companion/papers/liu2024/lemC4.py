"""Lemma C.4: how far one step moves an activation's value at the most."""

from __future__ import annotations

from collections.abc import Iterator

from companion.papers.liu2024 import step_changes
from companion.study import Context, Tables, Verdict, measurement

PARAMETERS = step_changes.PARAMETERS


@measurement
def measure(study: Context) -> Tables:
    return step_changes.change_tables(study, "values")


def judge(tables: Tables) -> Iterator[Verdict]:
    yield step_changes.grows_no_faster(
        "liu2024/lemC4",
        tables,
        "one step changes every activation by at most order B/m",
        batch=1.0,
        dimension=0.0,
        paper="-1, 1, 0",
    )

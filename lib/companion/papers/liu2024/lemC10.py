"""Lemma C.10: what the change of the residuals does to T(V, V, V)."""

from collections.abc import Iterator

from companion.exhibit import *
from companion.papers.liu2024 import step_changes

PARAMETERS = step_changes.PARAMETERS
ALTERED = step_changes.ALTERED


@measurement
def measure(study: Context) -> Tables:
    return step_changes.change_tables(study, "T residuals")


def judge(tables: Tables) -> Iterator[Verdict]:
    statement = "the change of the residuals moves T(V, V, V) by at most order B^(5/2)/m"
    yield step_changes.grows_no_faster("liu2024/lemC10", tables, statement, batch=2.5, dimension=0)

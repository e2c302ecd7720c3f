"""Lemma C.9: what the change of the residuals does to P."""

from collections.abc import Iterator

from companion.exhibit import *
from companion.papers.liu2024 import step_changes

PARAMETERS = step_changes.PARAMETERS
ALTERED = step_changes.ALTERED


@measurement
def measure(study: Context) -> Tables:
    return step_changes.change_tables(study, "P residuals")


def judge(tables: Tables) -> Iterator[Verdict]:
    statement = "the change of the residuals moves P by at most order B d/m"
    yield step_changes.grows_no_faster("liu2024/lemC9", tables, statement, batch=1, dimension=1)

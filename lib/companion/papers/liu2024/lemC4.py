"""Lemma C.4: by how much one step changes the value of an activation at most."""

from collections.abc import Iterator

from companion.exhibit import *
from companion.papers.liu2024 import step_changes

PARAMETERS = step_changes.PARAMETERS
ALTERED = step_changes.ALTERED


@measurement
def measure(study: Context) -> Tables:
    return step_changes.change_tables(study, "values")


def judge(tables: Tables) -> Iterator[Verdict]:
    statement = "one step changes every activation by at most order B/m"
    yield step_changes.grows_no_faster("liu2024/lemC4", tables, statement, batch=1, dimension=0)

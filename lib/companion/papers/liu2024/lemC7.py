"""Lemma C.7: what the change of the activations does to P, with and without absolute values."""

from collections.abc import Iterator

from companion.papers.liu2024 import step_changes
from companion.papers.liu2024.power_laws import check_exponents, laws_of, listed
from companion.study import Context, Tables, Verdict, measurement

PARAMETERS = step_changes.PARAMETERS


@measurement
def measure(study: Context) -> Tables:
    signed = listed(step_changes.change_laws(study, "signed"))
    return step_changes.change_tables(study, "P values", signed=signed)


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

"""What turns papers into a checked book: parameters, data, sweeps, records, verdicts, registry.

Knows no paper: exhibits are found as files of :mod:`companion.papers`.
"""

from companion.study.computations import Context, Study, all_computations, computation
from companion.study.exhibits import measurement
from companion.study.parameters import Parameter
from companion.study.results import Result
from companion.study.tables import MissingTable, Tables
from companion.study.verdicts import (
    Verdict,
    VerdictError,
    check,
    compare,
    failures_kept,
    not_run,
    refute,
)

__all__ = [
    "Context",
    "MissingTable",
    "Parameter",
    "Result",
    "Study",
    "Tables",
    "Verdict",
    "VerdictError",
    "all_computations",
    "check",
    "compare",
    "computation",
    "failures_kept",
    "measurement",
    "not_run",
    "refute",
]

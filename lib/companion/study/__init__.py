"""What turns papers into a checked book: parameters, data, sweeps, records, verdicts, registry.

Knows no paper: exhibits are found as files of :mod:`companion.papers`.
"""

from companion.kernels import take_products
from companion.study.exhibits import Exhibit, all_exhibits, find_exhibit
from companion.study.parameters import Parameter
from companion.study.results import Result
from companion.study.running import Study, measurement
from companion.study.session import Context
from companion.study.tables import MissingTable, Origin, Tables
from companion.study.verdicts import (
    Verdict,
    VerdictError,
    check,
    compare,
    failures_kept,
    not_run,
    refute,
    shared_by,
)

__all__ = [
    "Context",
    "Exhibit",
    "MissingTable",
    "Parameter",
    "Result",
    "Study",
    "Origin",
    "Tables",
    "Verdict",
    "VerdictError",
    "all_exhibits",
    "check",
    "compare",
    "failures_kept",
    "find_exhibit",
    "measurement",
    "not_run",
    "refute",
    "shared_by",
]

take_products()

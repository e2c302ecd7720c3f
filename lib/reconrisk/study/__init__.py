"""The study machinery: what is to be shown, with which parameters, and what became of it.

- :mod:`~reconrisk.study.registry`: the papers' exhibits, claims and printed numbers;
- :mod:`~reconrisk.study.profiles`: every exhibit's parameters in each profile;
- :mod:`~reconrisk.study.verdicts`: the comparison with what the papers print;
- :mod:`~reconrisk.study.computations`: which function computes which exhibit;
- :mod:`~reconrisk.study.sweep`: many tasks, with progress, processes and resume;
- :mod:`~reconrisk.study.records`: results on disk with their provenance;
- :mod:`~reconrisk.study.stored`: the results stored in the notebooks.
"""

from reconrisk.study.computations import Context, Study, all_computations, computation
from reconrisk.study.results import Result
from reconrisk.study.verdicts import (
    Verdict,
    VerdictError,
    check,
    compare,
    failures_kept,
    not_run,
    on_images_given,
    refute,
)

__all__ = [
    "Context",
    "Result",
    "Study",
    "Verdict",
    "VerdictError",
    "check",
    "compare",
    "computation",
    "all_computations",
    "failures_kept",
    "not_run",
    "on_images_given",
    "refute",
]

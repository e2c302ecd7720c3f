"""Parameters of our own exhibit on accuracy at equal epsilon."""

from __future__ import annotations

from companion.experiments.utility_runs import DATA, TRAINING
from companion.study.parameters import Parameter as P

__all__ = ["PARAMETERS"]

PARAMETERS: dict[str, dict[str, P]] = {
    "beyond/fair_utility": {
        "digits": DATA["digits"],
        **TRAINING,
        "repeats": P("int", 3, 5, "not printed: our comparison", "runs with each setting", low=2),
        "batch_size": P("int", 128, 128, "128", "records of a batch, expected", low=1),
    },
}

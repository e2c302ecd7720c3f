"""The example: how often a randomised answer is the true one."""

from __future__ import annotations

import numpy as np
import pandas as pd

from companion.study import registry
from companion.study.results import Result
from companion.study.session import Context
from companion.study.verdicts import STANDARD_ERRORS, check, compare

__all__: list[str] = []


@computes("example2026/table1", "X-001")
def table1(context: Context) -> Result:
    """The closed form against the printed numbers, and simulated answers against it."""
    printed = registry.printed("example2026/table1")
    epsilon = printed["epsilon"].astype(float).to_numpy()
    share = 1 / (1 + np.exp(-epsilon))
    answers = context.settings.answers
    # each answer is told truly with the chance that epsilon allows
    found = context.rng("answers").random((answers, len(share))) < share
    measured = found.mean(axis=0)
    error = np.sqrt(share * (1 - share) / answers)
    at_one = int(np.flatnonzero(epsilon == 1)[0])
    off = abs(measured[at_one] - share[at_one]) / error[at_one]
    return Result(
        "example2026/table1",
        [
            compare(
                "example2026/table1",
                "the shares of true answers are exp(epsilon)/(1 + exp(epsilon))",
                list(share),
                [float(v) for v in printed["value"]],
                list(printed["printed"]),
            ),
            check(
                "X-001",
                off < STANDARD_ERRORS and 0.7 < share[at_one] < 0.75,
                "at epsilon = 1 nearly three answers in four are true, simulated too",
                ours=f"{share[at_one]:.3f}",
                tolerance=f"{STANDARD_ERRORS:g} standard errors",
            ),
        ],
        {
            "shares": pd.DataFrame({"epsilon": epsilon, "share": share}),
            "simulated": pd.DataFrame({"epsilon": epsilon, "share": measured, "error": error}),
        },
        exact=("shares",),
        ran=f"the closed form, and {answers:,} simulated answers at each epsilon.",
    )

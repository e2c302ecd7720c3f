"""Theorem 2: the composition bound against exact composition of the least private mechanism."""

import itertools
import math
from collections.abc import Iterator

import numpy as np
import pandas as pd
from scipy import stats

from companion.exhibit import *
from reconrisk import privacy

_THEOREM = "not printed: a statement, not an experiment"
_EPSILONS, _DELTAS, _SLACKS = (0.01, 0.1, 1.0, 4.0), (1e-6, 1e-3), (0.0, 1e-6, 1e-3)
_STEPS = (1, 3, 40, 1407)

PARAMETERS = {
    "epsilons": Parameter("floats", _EPSILONS, _EPSILONS, _THEOREM, "epsilon of one run", 1e-6),
    "deltas": Parameter("floats", _DELTAS, _DELTAS, _THEOREM, "delta of one run", 1e-12),
    "steps": Parameter("ints", _STEPS, _STEPS, "3 (epochs)", "T, runs", 1),
    "slacks": Parameter(
        "floats", _SLACKS, _SLACKS, _THEOREM, "part of delta given to the composition", 0.0
    ),
}
ALTERED = {
    "compositions": {
        "delta of the bound": "the theorem's deltas",
        "exact": "exact deltas",
    }
}
SCENARIOS = (
    scenario(
        "a form that is smaller than the plain sum at T = 3",
        column("compositions", "plain", lambda c: False, "T == 3"),
    ),
    scenario(
        "a plain sum that is the smallest form at every T",
        column("compositions", "plain", lambda c: True),
    ),
)


@measurement
def measure(study: Context) -> Tables:
    p = study.parameters
    rows = []
    for epsilon, delta, steps, slack in itertools.product(p.epsilons, p.deltas, p.steps, p.slacks):
        bound, total = map(float, privacy.compose(epsilon, delta, steps, slack))
        # what is exact at the epsilon that the theorem names
        exact = composed_delta(epsilon, delta, steps, bound)
        plain = math.isclose(bound, steps * epsilon)
        rows.append((epsilon, delta, steps, slack, bound, total, exact, plain))
    columns = ["epsilon", "delta", "T", "slack", "bound", "delta of the bound", "exact", "plain"]
    return Tables(
        {"compositions": pd.DataFrame(rows, columns=columns)},
        exact=("compositions",),
        ran="randomised response that also fails with probability delta, composed by enumerating "
        "the number of answers of one kind.",
    )


def composed_delta(epsilon: float, delta: float, steps: int, at: float) -> float:
    """Return delta, at an epsilon, of T runs of the least private mechanism.

    It reveals the record with probability delta, and otherwise answers truly with probability
    ``e**epsilon/(1 + e**epsilon)``.
    """
    log_true = -math.log1p(math.exp(-epsilon))
    own, other = (
        stats.binom.logpmf(np.arange(steps + 1), steps, math.exp(log_chance))
        for log_chance in (log_true, -epsilon + log_true)
    )
    # a loss that exceeds the level by rounding alone adds nothing
    gap = np.where(own - other > at + 1e-12, -np.expm1(np.minimum(other - own + at, 0.0)), 0.0)
    seen = float(np.sum(np.exp(own) * gap))
    return 1 - (1 - delta) ** steps * (1 - seen)


def judge(tables: Tables) -> Iterator[Verdict]:
    table, most = tables["compositions"], max(tables.parameters.steps)
    room = table["delta of the bound"] - table["exact"]
    plain = table["plain"].astype(bool)
    # without slack both are exact at the plain sum
    without = table["slack"] == 0.0
    yield check(
        "biswas2024/thm2",
        (room > -1e-12).all()
        and room[without].abs().max() < 1e-12
        and plain[table["T"] == 3].all()
        and not plain[(table["T"] == most) & ~without].all(),
        "at the epsilon of the theorem, the exact delta of T runs of the least private mechanism "
        "is at most the theorem's; at T = 3 the plain sum is always the smallest of the three "
        "forms",
        ours=f"{len(table)} settings; without slack both are equal; at T = {most} the other forms "
        "are smaller",
    )

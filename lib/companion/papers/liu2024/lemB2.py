"""Lemma B.2: means of random matrices against the printed deviation."""

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd

from companion.exhibit import *
from reconrisk.attacks import success_interval

_OURS = "no experiment"
PARAMETERS = {
    "trials": Parameter("int", 200, 500, _OURS, "means drawn of each law", low=50),
    "dimensions": Parameter("ints", (4, 16), (4, 16, 64), _OURS, "sizes of the matrices", low=2),
    "count": Parameter("int", 2000, 5000, _OURS, "matrices in a mean", low=100),
}


ALTERED = {"deviations": {"exceeded": "shares of means beyond the deviation"}}
SCENARIOS = (
    scenario(
        "another {} of all means beyond twice the deviation",
        column("deviations", "twice", lambda c, by: (c + by).clip(upper=1.0)),
    ),
)


@measurement
def measure(study: Context) -> Tables:
    p = study.parameters
    tasks = [
        # in the lemma d is the sum of both sides of the matrix, and delta_1 at most 1/d
        {"law": law, "dimension": d, "count": p.count, "trials": p.trials, "share": 0.5 / d}
        for law in ("hermite", "shifted", "flat")
        for d in p.dimensions
    ]
    rows = study.sweep(bernstein_task, tasks, "means of matrices", threads=1)
    return Tables(
        {"deviations": as_table(tasks, rows)},
        ran=f"{p.trials} means of {p.count} matrices of three laws, sizes {list(p.dimensions)}.",
    )


def bernstein_task(task: dict[str, Any], seed: int) -> dict[str, float]:
    """Draw means of random matrices and count those further off than Lemma B.2 allows.

    Parameters
    ----------
    task : dict
        ``law``: "hermite" for ``e (w w' - I)`` with normal e and w, which noise adds to P;
        "shifted" for ``w w'``, whose mean is not zero; "flat" for a random sign times a random
        rank-one projection. ``dimension``, ``count`` (matrices in a mean), ``trials``, ``share``
        (delta_1).
    seed : int

    Returns
    -------
    dict
        ``bound``: the printed right-hand side; ``exceeded`` and ``twice``: shares of the means
        beyond it and beyond twice as much; ``needed``: how many matrices the lemma requires.
    """
    rng = np.random.default_rng(seed)
    law, d, m, trials, share = (task[k] for k in ("law", "dimension", "count", "trials", "share"))
    # quantities of the lemma: norm of the mean, variance, weak variance (L^2); below, the size M
    # that only a share delta_0 of the matrices exceed
    mean, variance, weak = {
        "hermite": (0.0, d + 1.0, 2.0),
        "shifted": (1.0, d + 2.0, 3.0),
        "flat": (0.0, 1.0 / d, 3.0 / (d * (d + 2.0))),
    }[law]
    distances, largest = np.empty(trials), np.empty(trials)
    for k in range(trials):
        w = rng.standard_normal((m, d))
        e = rng.standard_normal(m)
        lengths = np.einsum("na,na->n", w, w)
        if law == "hermite":
            off = ((w * e[:, None]).T @ w - e.sum() * np.eye(d)) / m
            sizes = np.abs(e) * np.maximum(lengths - 1.0, 1.0)
        elif law == "shifted":
            off, sizes = w.T @ w / m - np.eye(d), lengths
        else:
            off, sizes = (w * (np.sign(e) / lengths)[:, None]).T @ w / m, np.ones(m)
        distances[k] = np.linalg.norm(off, 2)
        largest[k] = sizes.max()
    size = float(np.quantile(largest, 1 - share))
    spread = variance + mean**2 + size * mean + share * weak
    bound = math.sqrt(math.log(1 / share) * spread / m)
    return {
        "exceeded": float(np.mean(distances > bound)),
        "twice": float(np.mean(distances > 2 * bound)),
        "bound": bound,
        "needed": size * math.log(1 / share),
    }


def judge(tables: Tables) -> Iterator[Verdict]:
    table = tables["deviations"]
    allowed = 2 * table["share"]
    enough = (table["count"] >= table["needed"]).all()
    ends = [_interval(table[name], table["trials"]) for name in ("twice", "exceeded")]
    (low, high), (once, _) = ends
    surely = (high <= allowed).all() and (once > allowed).any()
    possibly = (low <= allowed).all() and (high > allowed).any()
    yield check(
        "liu2024/lemB2",
        every(enough, settle(surely, possibly)),
        "the mean of m random matrices is within twice the printed deviation with probability "
        "1 - delta_1 - delta_0. (With a constant of one it is not.)",
        ours=f"beyond it: {table['twice'].max():.0%} at most; beyond once the deviation: up to "
        f"{table['exceeded'].max():.0%}",
        paper=f"at most {allowed.max():.0%}, a constant hidden",
        tolerance="95% intervals",
        decided_by="more means of each law",
    )


def _interval(shares: pd.Series, trials: pd.Series) -> tuple[np.ndarray, np.ndarray]:
    """Ends of the 95% intervals of shares of so many trials."""
    counts = zip((shares * trials).round().astype(int), trials, strict=True)
    low, high = zip(*(success_interval(count, of) for count, of in counts), strict=True)
    return np.array(low), np.array(high)

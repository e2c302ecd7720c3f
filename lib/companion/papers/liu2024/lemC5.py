"""Lemma C.5: by how much one step changes a residual; and which residual the gradient has."""

import math
from collections.abc import Iterator

import numpy as np
import pandas as pd

from companion.exhibit import *
from companion.papers.liu2024 import step_changes
from reconrisk.special import ACTIVATIONS

PARAMETERS = step_changes.PARAMETERS
SETTLES = ("E-E-23",)
ALTERED = {**step_changes.ALTERED, "derivative": {"by differences": "derivatives"}}


@measurement
def measure(study: Context) -> Tables:
    derivative = _derivative(study.rng("residual"))
    return step_changes.change_tables(study, "residuals", derivative=derivative)


def _derivative(rng: np.random.Generator) -> pd.DataFrame:
    """The loss's derivative in an output weight, by differences, and its two factors."""
    w, a, x, y = rng.standard_normal((5, 3)), rng.standard_normal(5), rng.standard_normal(3), 1.0
    values = ACTIVATIONS["elu"].value(w @ x)
    step = 1e-4 * np.eye(5)[0]
    above, below = (float((outer @ values - y) ** 2) for outer in (a + step, a - step))
    row = {
        "by differences": (above - below) / 2e-4,
        "f - y": float(a @ values - y),
        "s(w.x)": float(values[0]),
    }
    return pd.DataFrame([row])


def judge(tables: Tables) -> Iterator[Verdict]:
    statement = "one step changes every residual by at most order B/m"
    yield step_changes.grows_no_faster("liu2024/lemC5", tables, statement, batch=1, dimension=0)
    slope, gap, value = tables["derivative"].iloc[0]
    factor = slope / (gap * value)
    yield refute(
        "E-E-23",
        holds=math.isclose(factor, 1.0, rel_tol=1e-6),
        corrected_holds=math.isclose(factor, 2.0, rel_tol=1e-6),
        ours=f"{factor:.4f} (f - y)",
        paper="f - y; 2 (f - y)",
    )

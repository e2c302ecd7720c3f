"""Where SciPy's chi-squared distribution gives wrong tails of the MSE without a warning."""

import itertools
import math
from collections.abc import Iterator

import mpmath
import numpy as np
import pandas as pd
from scipy import stats

from companion.study import Context, Parameter, Tables, Verdict, check, measurement, shared_by
from companion.study.falsifiers import column, frame, graded, world
from reconrisk import bounds

_OURS = "our own exhibit"
_DIMENSIONS = (1000, 150_528, 10**7, 10**9)
_DEVIATIONS = (2.0, 5.0, 8.0, 20.0, 60.0)

PARAMETERS = {
    "dimensions": Parameter("ints", _DIMENSIONS, _DIMENSIONS, _OURS, "N", 1),
    "deviations": Parameter("floats", _DEVIATIONS, _DEVIATIONS, _OURS, "below the mean", 0.1),
}
SETTLES = ("O-011",)
FALSIFIERS = (
    graded(
        "a log tail of ours {} off",
        column("with SciPy", "log tail", lambda c, by: c * (1 + by)),
        "",
        "O-011",
    ),
    world(
        "SciPy's tails equal to the reference",
        frame("with SciPy", lambda t: t.assign(SciPy=t["reference"])),
        "",
        "O-011",
    ),
)
SHOWN = ("with SciPy",)

_AGREE = 1e-9


@measurement
def measure(study: Context) -> Tables:
    p = study.parameters
    rows = []
    for dimension, deviations in itertools.product(p.dimensions, p.deviations):
        share = 1 - deviations * math.sqrt(2 / dimension)
        if share <= 0:
            continue
        with np.errstate(all="ignore"):
            scipy = float(stats.chi2.logcdf(dimension * share, dimension))
        ours = float(bounds.mse_tail(share, dimension, 1.0, 1.0, log=True))
        reference = log_tail_by_quadrature(dimension, share)
        rows.append((dimension, deviations, share, ours, reference, scipy))
    columns = ["N", "deviations", "share of the mean", "log tail", "reference", "SciPy"]
    table = pd.DataFrame(rows, columns=columns)
    return Tables(
        {"tails": table.drop(columns="SciPy"), "with SciPy": table},
        exact=("tails",),
        ran="closed forms, and quadrature with 30 digits as the reference.",
    )


def log_tail_by_quadrature(dimension: int, share: float) -> float:
    """Log of P(chi2_N <= N share) by quadrature of its density around the end point."""
    with mpmath.workdps(30):
        a, x = mpmath.mpf(dimension) / 2, mpmath.mpf(dimension) * mpmath.mpf(share) / 2
        # exp of the exponent relative to its value at the end point, which is the largest
        slope = a / x - 1  # of a log t - t at t = x, positive below the mean

        def integrand(distance):
            t = x - distance
            return mpmath.exp((a - 1) * mpmath.log1p(-distance / x) + distance) if t > 0 else 0

        reach = min(x, 80 / slope if slope > 0 else x, 40 * mpmath.sqrt(a))
        area = mpmath.quad(integrand, [reach * k / 16 for k in range(17)])
        return float(mpmath.log(area) + (a - 1) * mpmath.log(x) - x - mpmath.loggamma(a))


def judge(tables: Tables) -> Iterator[Verdict]:
    table = tables["with SciPy"]
    agrees = (table["log tail"] - table["reference"]).abs().max() < _AGREE
    ratio = np.exp(table["SciPy"] - table["reference"])
    wrong = (ratio - 1).abs() > 0.01
    # of the largest dimension the first, where SciPy's value is wrong but finite
    worst = table.assign(ratio=ratio)[wrong & (table["N"] == table["N"].max())].head(1)
    verdict = check(
        "beyond/plain_tails",
        agrees and ((worst["ratio"] - 1).abs() > 0.1).any(),
        "our log tail agrees with 30-digit quadrature; SciPy's is off by more than 10% at N = 1e9",
        ours="; ".join(
            f"at {row.deviations:g} standard deviations below the mean SciPy gives "
            f"{row.ratio:.2f} of the true tail"
            for row in worst.itertuples()
        ),
        tolerance=f"{_AGREE:g} for ours",
        paper=f"SciPy: {wrong.sum()} of {len(table)} tails off by more than 1%",
    )
    yield from shared_by(verdict, "O-011")

"""Our own: where the usual implementation of the MSE's tail is silently wrong."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pandas as pd
from scipy import stats

from companion.study.computations import Context, computes
from companion.study.results import Result
from companion.study.verdicts import check
from reconrisk import bounds


@computes("beyond/plain_tails", "O-011")
def plain_tails(context: Context) -> Result:
    """P(MSE <= share of its mean) by SciPy's law, by ours, and by 30-digit quadrature."""
    p = context.settings
    rows = []
    for dimension in p.dimensions:
        for deviations in p.deviations:
            share = 1 - deviations * math.sqrt(2 / dimension)
            if share <= 0:
                continue
            with np.errstate(all="ignore"):
                plain = float(stats.chi2.logcdf(dimension * share, dimension))
            ours = float(bounds.mse_tail(share, dimension, 1.0, 1.0, log=True))
            rows.append((dimension, deviations, share, ours, _reference(dimension, share), plain))
    table = pd.DataFrame(
        rows,
        columns=["N", "deviations", "share of the mean", "log tail", "reference", "SciPy"],
    )
    ours_off = float((table["log tail"] - table["reference"]).abs().max())
    relative = np.expm1(table["SciPy"] - table["reference"])
    wrong = table[relative.abs() > 0.01]
    worst = wrong[wrong["N"] == max(p.dimensions)].iloc[0]
    ratio = math.exp(worst["SciPy"] - worst["reference"])
    return Result(
        "beyond/plain_tails",
        [
            check(
                "beyond/plain_tails",
                ours_off < 1e-9 and len(wrong) > 0,
                "our log tail agrees with 30-digit quadrature; SciPy's is off or minus infinity",
                ours=f"{len(table)} tails to within {1e-9:g}",
                paper=f"SciPy: {len(wrong)} of them off by more than 1%",
            ),
            check(
                "O-011",
                ours_off < 1e-9 and abs(ratio - 1) > 0.1,
                "at N = 1e9 the chi-squared law as SciPy computes it is silently wrong",
                ours=f"at {worst['deviations']:g} standard deviations below the mean SciPy gives "
                f"{ratio:.2f} of the true tail",
            ),
        ],
        {
            "tails": table[["N", "deviations", "share of the mean", "log tail", "reference"]],
            "with SciPy": table,
        },
        exact=("tails",),
        shown=("with SciPy",),
        ran="closed forms, and quadrature with 30 digits as the reference.",
    )


def _reference(dimension: int, share: float) -> float:
    """log P(chi2_N <= N share) by quadrature of its density around the end point."""
    with mpmath.workdps(30):
        a, x = mpmath.mpf(dimension) / 2, mpmath.mpf(dimension) * mpmath.mpf(share) / 2
        # exp of the exponent relative to its value at the end point, which is the largest
        slope = a / x - 1  # of a log t - t at t = x, positive below the mean

        def integrand(distance):
            t = x - distance
            return mpmath.exp((a - 1) * mpmath.log1p(-distance / x) + distance) if t > 0 else 0

        reach = min(x, 80 / slope if slope > 0 else x, 40 * mpmath.sqrt(a))
        points = [reach * k / 16 for k in range(17)]
        area = mpmath.quad(integrand, points)
        return float(mpmath.log(area) + (a - 1) * mpmath.log(x) - x - mpmath.loggamma(a))

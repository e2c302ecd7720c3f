"""Which means and deviations of RMSE and PSNR errors in [0, 1] can have, both at once.

PSNR is a function of RMSE, ``-20 log10 r``, and so the means and deviations of the two over one set
of pictures bind each other. Whether four printed numbers can belong to one set is a linear
programme in the shares of the pictures with each error.
"""

import functools
import math

import numpy as np
from scipy.optimize import linprog

__all__ = ["can_belong_together", "largest_mean_psnr", "least_mean_psnr"]

#: half a unit of the last digit that the tables print
HALF = 0.005
#: a sample's deviation, divided by n - 1 or by n: two pictures at least
_UNBIASED = math.sqrt(2)
#: errors that the programme mixes, 0.15 dB apart; smaller ones would only use up the spread
_ERRORS = np.geomspace(1e-5, 1.0, 667)
_DECIBELS = -20 * np.log10(_ERRORS)


def least_mean_psnr(mean: float) -> float:
    """Return the least mean PSNR, in dB, of errors whose mean RMSE is printed to two digits.

    By Jensen's inequality, since ``-20 log10`` is convex.
    """
    return -20 * math.log10(mean + HALF)


@functools.cache
def can_belong_together(
    mean: float, deviation: float, decibels: float, spread: float, slack: float = 0.1
) -> bool:
    """Return whether one set of errors in (0, 1] can have four printed numbers.

    Parameters
    ----------
    mean, deviation : float
        Of the RMSE, printed to two digits.
    decibels, spread : float
        Mean and deviation of the PSNR, in dB, printed to two digits.
    slack : float
        Further tolerance of the mean PSNR, in dB: more than the error of the programme's grid.

    Notes
    -----
    Moments may lie anywhere that rounding allows, and each deviation may be that of a sample,
    larger by up to ``sqrt(2)``: the answer "no" is on the safe side.
    """
    off = HALF + slack
    moments = np.stack([_ERRORS, _ERRORS**2, _DECIBELS, (_DECIBELS - decibels) ** 2])
    (low, high), (near, far) = _deviations(deviation), _deviations(spread)
    least = [mean - HALF, max(mean - HALF, 0) ** 2 + low**2, decibels - off, near**2]
    most = [mean + HALF, (mean + HALF) ** 2 + high**2, decibels + off, far**2 + off**2]
    # rows of one size, so that the solver's tolerance means the same in each
    size = np.array([1.0, 1.0, 100.0, 1000.0])[:, None]
    rows = np.vstack([moments / size, -moments / size])
    limits = np.concatenate([np.array(most) / size[:, 0], -np.array(least) / size[:, 0]])
    # minimise the amount by which all limits must be relaxed
    found = linprog(
        np.append(np.zeros(len(_ERRORS)), 1.0),
        A_ub=np.column_stack([rows, -np.ones(len(rows))]),
        b_ub=limits,
        A_eq=np.append(np.ones(len(_ERRORS)), 0.0)[None],
        b_eq=[1.0],
        bounds=(0, None),
        method="highs-ds",
        options={"presolve": False},  # takes as long as to solve it
    )
    if found.status != 0:
        raise RuntimeError(f"the linear programme ended with: {found.message}")
    return bool(found.fun < 1e-6)


@functools.cache
def largest_mean_psnr(mean: float, deviation: float, spread: float) -> float:
    """Return the largest mean PSNR that can stand beside a mean RMSE and both deviations, in dB.

    Rounded up to a tenth; ``nan`` if no mean can.
    """
    start = math.floor(10 * least_mean_psnr(mean)) / 10
    halves = [round(start + step, 1) for step in np.arange(0, 5, 0.5)]
    possible = [p for p in halves if can_belong_together(mean, deviation, p, spread)]
    if not possible:
        return math.nan
    tenths = [round(max(possible) + tenth / 10, 1) for tenth in range(1, 6)]
    beyond = (t for t in tenths if not can_belong_together(mean, deviation, t, spread))
    return next(beyond, tenths[-1])


def _deviations(printed: float) -> tuple[float, float]:
    """The range of the errors' own deviation, given a printed one."""
    return max(printed - HALF, 0) / _UNBIASED, printed + HALF

"""How many of N records an attacker can have right at once, on average and with a confidence.

The expectation needs no more than the bound on one record. The confidence needs more: under one run
the successes depend on each other, and the binomial law of N such records is no bound.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from scipy import special as sc

from reconrisk import arguments
from reconrisk._types import DPSGD
from reconrisk.bounds import _arguments as args
from reconrisk.bounds._rero import rero
from reconrisk.privacy import SampledRun
from reconrisk.privacy._releases import Release

__all__ = ["SuccessCount", "most_successes", "rero_count"]

#: margin for the rounding errors of logarithms of binomial coefficients, relative
_SLACK = 1e-14


class SuccessCount(NamedTuple):
    """Bounds on the number of records that an attacker has right.

    Parameters
    ----------
    expected : float
        On average over runs.
    most : int
        Exceeded with a probability of at most one minus the confidence.
    """

    expected: float
    most: int


def rero_count(
    run: DPSGD | SampledRun | Iterable[Release],
    records: int,
    prior_success: float | None = None,
    log_prior_success: float | None = None,
    *,
    confidence: float = 0.95,
) -> SuccessCount:
    """Bounds on how many of N records any attacker has right after one run on all of them.

    The attacker answers for every record, and a record counts if its answer is right: a named
    candidate, or a reconstruction within an error. The N records are drawn independently, each from
    a law that is known; all others are known. Without the run no answer for a record is right with
    a probability above ``kappa``.

    Parameters
    ----------
    run : DPSGD, or list of releases, or SampledRun
        As in :func:`rero`.
    records : int
        N, in [1, 1e12].
    prior_success : float, optional
        ``kappa`` in [0, 1], the largest of the N records.
    log_prior_success : float, optional
        ``log kappa`` in [-inf, 0] instead.
    confidence : float
        In (0, 1).

    Returns
    -------
    SuccessCount

    Raises
    ------
    TypeError, ValueError
        As :func:`rero`, and if an argument is out of its range.

    Notes
    -----
    On average ``N gamma(kappa)``. For the rest let ``t_N(v)`` be the largest probability of ``v``
    right answers or more. Take one record at random: it is right, and at least ``v`` are, with a
    probability of at least ``v/N`` times that. In the run without it, its answer is right with
    ``kappa`` whatever else happens, and ``v - 1`` others are right with ``t_{N-1}(v-1)`` at most:
    ``t_N(v) <= (N/v) gamma(kappa t_{N-1}(v-1))``. As ``gamma`` is concave, it lies below a line
    beyond ``kappa (1 - confidence)``, which turns the recursion into ratios of binomial
    coefficients. So for many records ``most`` is about ``N gamma(kappa r)/r``, with the risk ``r``
    of one minus the confidence, and a mechanism that rarely tells everything may attain it.
    Cost: that of two calls of :func:`rero`.

    Examples
    --------
    >>> from reconrisk import DPSGD, bounds
    >>> run = DPSGD(1.1, sampling_rate=256 / 60000, steps=3516)
    >>> average, most = bounds.rero_count(run, 60_000, 1e-3)
    >>> round(average), most
    (156, 231)
    """
    n = int(arguments.integer("records", records, 1, 1e12))
    sure = float(arguments.real("confidence", confidence, 0, 1, low_open=True, high_open=True))
    log_kappa = float(args.log_probability("prior_success", prior_success, log_prior_success))
    ends = [
        rero(run, log_prior_success=log_kappa + shift, log=True).upper
        for shift in (0.0, math.log1p(-sure))
    ]
    if ends[0] == -math.inf:
        return SuccessCount(0.0, 0)
    return most_successes(ends[0], ends[1], n, 1.0 - sure)


def most_successes(log_gamma: float, log_at_risk: float, records: int, risk: float) -> SuccessCount:
    """Return both bounds of :func:`rero_count` from two values of ``log gamma``.

    Parameters
    ----------
    log_gamma, log_at_risk : float
        At ``kappa`` and at ``risk * kappa``, or more.
    records : int
    risk : float
        One minus the confidence.
    """
    log_slope = log_at_risk - math.log(risk)
    low, high = 0, records  # as many are not ruled out; more than so many are, or there are no more
    while low < high:
        middle = low + (high - low + 1) // 2
        excluded = _log_tail(middle, records, log_gamma, log_slope) <= math.log(risk)
        low, high = (low, middle - 1) if excluded else (middle, high)
    return SuccessCount(records * math.exp(log_gamma), low)


def _log_tail(least: int, records: int, log_gamma: float, log_slope: float) -> float:
    """Return a bound on the log probability of so many successes or more, where it is below risk.

    ``t <- (m/v) min(gamma(kappa), slope t)``, from as few records on as these factors decrease.
    """
    slope = math.exp(log_slope)
    if slope >= 1.0 or least < records * slope:
        return 0.0
    depth = min(max(1, math.floor((least - records * slope) / (1.0 - slope))), least)
    terms = [sc.gammaln(records + 1.0), -sc.gammaln(records - depth + 1.0)]
    terms += [sc.gammaln(least - depth + 1.0), -sc.gammaln(least + 1.0)]
    total = float(np.sum(terms)) + depth * log_slope + min(log_gamma - log_slope, 0.0)
    return total + _SLACK * float(np.sum(np.abs(terms)))

"""The cost of tuning hyperparameters on private data: epsilon of the best of several runs."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from scipy import optimize

from reconrisk import arguments
from reconrisk._types import DPSGD, check_run
from reconrisk.privacy._conversions import (
    epsilon_from_renyi,
    log_delta_from_renyi,
    renyi_gaussian,
)
from reconrisk.privacy._targets import delta as delta_of
from reconrisk.privacy._targets import epsilon as epsilon_of

__all__ = ["tuned_epsilon"]

#: laws of the number of runs, with the shape of the negative binomial ones
_SHAPES = {"fixed": None, "geometric": 1.0, "logarithmic": 0.0, "poisson": math.inf}
_ORDERS = np.array([*range(2, 64), *(round(64.0 * 2.0 ** (i / 4.0)) for i in range(21))], float)
#: a margin for the roundings of sums of a few thousand terms
_ROUNDING = 1e-12
_NEAR = 2


def tuned_epsilon(run: DPSGD, delta: float, runs: float, law: str = "fixed") -> float:
    """Upper bound on epsilon if only the best of several runs is published, chosen on their data.

    The runs differ in hyperparameters that privacy does not depend on, or ``run`` is the one that
    says most. A *fixed* number of runs is composed: as if all were published, which is the plain
    answer, and also right if more than the best is shown. If the number is *drawn*, and kept
    secret, far less is said (Papernot and Steinke 2022, "Hyperparameter tuning with Renyi
    differential privacy": Theorem 2 for geometric and logarithmic numbers, Theorem 6 for Poisson's;
    with Poisson's there may be no run at all). In each run hyperparameters are drawn anew.

    Parameters
    ----------
    run : DPSGD
        One run.
    delta : float
        In (0, 1), at least 1e-100.
    runs : float
        Number of runs, at least 1; if it is drawn, its mean, more than 1.
    law : {"fixed", "geometric", "logarithmic", "poisson"}
        Of the number of runs.

    Returns
    -------
    float
        Nats. The least over integer orders for numbers that are drawn: not the smallest possible.

    Raises
    ------
    TypeError, ValueError
        If an argument has the wrong type or is out of its range.

    Examples
    --------
    >>> from reconrisk import DPSGD, privacy
    >>> run = DPSGD(1.1, sampling_rate=256 / 60_000, steps=3516)
    >>> round(privacy.epsilon(run, 1e-5).upper, 2)
    1.13
    >>> laws = ("fixed", "geometric", "logarithmic", "poisson")
    >>> [round(privacy.tuned_epsilon(run, 1e-5, 100, law), 2) for law in laws]
    [15.77, 3.41, 2.73, 7.59]
    """
    check_run(run)
    arguments.one_of("law", law, tuple(_SHAPES))
    arguments.real("delta", delta, 1e-100, 1, high_open=True)
    shape = _SHAPES[law]
    if shape is None:
        count = arguments.count("runs", runs, 1, 1e9)
        return epsilon_of(replace(run, steps=int(run.steps) * count), delta).upper
    mean = float(arguments.real("runs", runs, 1, 1e9, low_open=True))
    divergence = renyi_gaussian(run, _ORDERS)
    if shape == math.inf:
        return _poisson(run, delta, mean, divergence)
    # what does not depend on the order: the best second order
    share = _share(shape, mean)
    second = (1.0 - 1.0 / _ORDERS) * divergence + math.log(1.0 / share) / _ORDERS
    total = divergence + (1.0 + shape) * float(second.min()) + math.log(mean) / (_ORDERS - 1.0)
    return _least(total, delta)


def _least(divergence: np.ndarray, delta: float) -> float:
    found = float(np.min(epsilon_from_renyi(_ORDERS, divergence, delta)))
    return found * (1.0 + _ROUNDING) + _ROUNDING


def _poisson(run: DPSGD, delta: float, mean: float, divergence: np.ndarray) -> float:
    first = np.log1p(1.0 / (_ORDERS - 1.0))
    pairs = log_delta_from_renyi(_ORDERS[None, :], divergence[None, :], first[:, None])
    chance = np.minimum(np.exp(np.min(pairs, axis=1)), 1.0)

    def total() -> np.ndarray:
        return divergence + mean * chance + math.log(mean) / (_ORDERS - 1.0)

    best = int(np.argmin(epsilon_from_renyi(_ORDERS, total(), delta)))
    for i in range(max(best - _NEAR, 0), min(best + _NEAR + 1, _ORDERS.size)):
        chance[i] = min(chance[i], delta_of(run, float(first[i]), tolerance=1e-2).upper)
    return _least(total(), delta)


def _share(shape: float, mean: float) -> float:
    """Return gamma of the truncated negative binomial law with this mean."""

    def log_mean(log_share: float) -> float:
        more = math.expm1(-log_share)
        if shape == 0.0:
            return math.log(more / -log_share)
        return math.log(shape * more / -math.expm1(shape * log_share))

    found = optimize.brentq(lambda x: log_mean(x) - math.log(mean), -600.0, -1e-12, xtol=1e-14)
    return math.exp(found) * (1.0 - 1e-9)

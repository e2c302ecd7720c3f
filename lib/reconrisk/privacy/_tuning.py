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
_FRACTIONAL = np.array([1.01, 1.02, 1.05, *(1.0 + i / 10.0 for i in range(1, 100) if i % 10)])
#: noise multiplier from which moments of fractional orders take milliseconds
_LEAST_NOISE = 0.1
#: a margin for the roundings of sums of a few thousand terms
_ROUNDING = 1e-12
_NEAR = 2


@np.errstate(under="ignore")
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
        Nats. The least over a list of orders for numbers that are drawn: not the smallest possible.

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
    orders = _ORDERS
    if run.noise_multiplier >= _LEAST_NOISE:
        orders = np.sort(np.concatenate([_ORDERS, _FRACTIONAL]))
    if shape == math.inf:  # on a coarse grid the search for the best order goes further
        return min(_poisson(run, delta, mean, some) for some in (_ORDERS, orders))
    divergence = renyi_gaussian(run, orders)
    # what does not depend on the order: the best second order
    share = _share(shape, mean)
    second = (1.0 - 1.0 / orders) * divergence + math.log(1.0 / share) / orders
    total = divergence + (1.0 + shape) * float(second.min()) + math.log(mean) / (orders - 1.0)
    return _least(orders, total, delta)


def _least(orders: np.ndarray, divergence: np.ndarray, delta: float) -> float:
    found = float(np.min(epsilon_from_renyi(orders, divergence, delta)))
    return found * (1.0 + _ROUNDING) + _ROUNDING


def _poisson(run: DPSGD, delta: float, mean: float, orders: np.ndarray) -> float:
    divergence = renyi_gaussian(run, orders)
    first = np.log1p(1.0 / (orders - 1.0))
    pairs = log_delta_from_renyi(orders[None, :], divergence[None, :], first[:, None])
    chance = np.minimum(np.exp(np.min(pairs, axis=1)), 1.0)

    def total() -> np.ndarray:
        return divergence + mean * chance + math.log(mean) / (orders - 1.0)

    best = int(np.argmin(epsilon_from_renyi(orders, total(), delta)))
    for i in range(max(best - _NEAR, 0), min(best + _NEAR + 1, orders.size)):
        chance[i] = min(chance[i], delta_of(run, float(first[i]), tolerance=1e-2).upper)
    return _least(orders, total(), delta)


def _share(shape: float, mean: float) -> float:
    """Return gamma of the truncated negative binomial law with this mean."""

    def log_mean(log_share: float) -> float:
        more = math.expm1(-log_share)
        if shape == 0.0:
            return math.log(more / -log_share)
        return math.log(shape * more / -math.expm1(shape * log_share))

    found = optimize.brentq(lambda x: log_mean(x) - math.log(mean), -600.0, -1e-12, xtol=1e-14)
    return math.exp(found) * (1.0 - 1e-9)

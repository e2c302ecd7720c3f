"""Privacy from below: what the right guesses about one trained model, or many, rule out.

One run suffices if it holds many *canaries*: of each, one of k candidates is drawn at random and
put among the records (for k = 2 also: the canary or nothing), and an attacker who sees what the
run releases guesses which. A private run keeps the number of right guesses small, whatever the
attacker does. A guarantee under which as many as were counted have a probability of at most one
minus the confidence is refuted, and what is not refuted begins at the returned bound.

The guarantee is about replacing one candidate by another; with the canary or nothing, about adding
or removing a record. How many guesses are made is fixed before the run; about which canaries, may
depend on what it releases. Where several numbers are tried, give all of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import numpy as np
from numpy.typing import ArrayLike
from scipy import special as sc
from scipy import stats

from reconrisk import arguments
from reconrisk.special._confidence import lower_limit, upper_limit

__all__ = [
    "audit_epsilon",
    "audit_epsilon_many_runs",
    "audit_gaussian",
    "audit_gaussian_many_runs",
    "checked_counts",
    "refuted_by_guesses",
]

#: where the searches stop, and how near: the returned value is the end that is refuted
_MOST, _NEAR = 1e3, 1e-9
#: margin for the rounding errors of a sum over all counts, relative
_SLACK = 1e-9


def refuted_by_guesses(
    level: Callable[[float], float], right: int, guesses: int, canaries: int, k: int, risk: float
) -> bool:
    """Tell whether ``right`` or more of ``guesses`` have a probability of at most ``risk``.

    If a test of level ``kappa`` has a power of at most ``gamma(kappa)``, and ``p_j`` is the
    probability of ``j`` right guesses, then for every ``i``

        ``sum_{j>=i} j/m p_j <= gamma(sum_{j>=i-1} (r - j)/m p_j / (k - 1))``

    (Mahloujifar et al. 2024: a random canary is right and at least ``i`` are, against the same
    guess after the canary was replaced). Masses that start with ``risk`` at ``right`` and go down
    as slowly as these inequalities allow have a total above one only if ``risk`` is impossible.

    Parameters
    ----------
    level : callable
        The least level of a test with a given power, or less: ``gamma``'s inverse.
    canaries, k : int
        m canaries, k candidates for each.
    """
    hit, miss = risk * right / canaries, risk * (guesses - right) / canaries
    total = guesses / canaries * (1.0 + _SLACK)
    for i in range(right - 1, -1, -1):
        least = (k - 1.0) * level(min(hit, 1.0))
        if least <= miss:
            return False
        hit += i / (guesses - i) * (least - miss)
        miss = least
        if hit + miss > total:
            return True
    return False


def checked_counts(
    right: ArrayLike, guesses: ArrayLike, canaries: int | None, candidates: int, confidence: float
) -> tuple[list[tuple[int, int]], int, int, float]:
    """Return pairs of counts, m, k, and the risk that each pair may take."""
    r = np.atleast_1d(arguments.integer("guesses", guesses, 1, 1e6))
    w = np.atleast_1d(arguments.integer("right", right, 0))
    if w.shape != r.shape or w.ndim != 1 or np.any(w > r):
        raise ValueError(
            "right must have one number for each of guesses, and at most that; got "
            f"{arguments.shown(np.asarray(right).tolist())} of "
            f"{arguments.shown(np.asarray(guesses).tolist())}"
        )
    m = int(r.max()) if canaries is None else arguments.count("canaries", canaries, 1, 1e6)
    if m < r.max():
        raise ValueError(f"canaries must be at least the {int(r.max())} guesses; got {m}")
    k = arguments.count("candidates", candidates, 2, 1e9)
    risk = _risk(confidence) / r.size
    return [(int(a), int(b)) for a, b in zip(w, r, strict=True)], m, k, risk


def _risk(confidence: float) -> float:
    sure = arguments.real("confidence", confidence, 0, 1, low_open=True, high_open=True)
    return 1.0 - float(sure)


def _largest(is_refuted: Callable[[float], bool]) -> float:
    """Return the largest value found that is refuted, 0 if none is."""
    if not is_refuted(0.0):
        return 0.0
    low, high = 0.0, 1.0
    while is_refuted(high):
        low, high = high, 2.0 * high
        if high > _MOST:
            return low
    while high - low > _NEAR * max(high, 1e-3):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if is_refuted(middle) else (low, middle)
    return low


def audit_gaussian(
    right: ArrayLike,
    guesses: ArrayLike,
    *,
    canaries: int | None = None,
    candidates: int = 2,
    confidence: float = 0.95,
) -> float:
    """Lower bound on mu of Gaussian differential privacy from the guesses about one run.

    A run that keeps mu-Gaussian differential privacy has a larger bound with a probability of at
    most ``1 - confidence``. For a run that is one Gaussian release of unknown noise (full batches),
    it bounds the noise itself: ``mu = sqrt(steps)/sigma`` with the canary or nothing, times
    ``sqrt(2 (1 - rho))`` for candidates whose gradients have the cosine ``rho``.

    Parameters
    ----------
    right, guesses : int, or sequences of them
        How many guesses were right, of how many; 1 to 1e6 guesses. Of several pairs, from the same
        run, each takes an equal part of the risk, and the best bound is returned.
    canaries : int, optional
        m, those that were guessed and those that were not; by default as many as guesses.
    candidates : int
        k, equally likely candidates for each canary.
    confidence : float
        In (0, 1).

    Returns
    -------
    float
        In [0, 1000]; 0 if the guesses rule nothing out.

    Raises
    ------
    TypeError, ValueError
        If an argument is out of its range.

    Notes
    -----
    Mahloujifar et al. (2024), arXiv 2410.22235. Cost: about 40 passes over the right guesses.

    Examples
    --------
    >>> from reconrisk import privacy
    >>> round(privacy.audit_gaussian(750, 1000), 3)
    0.461
    >>> round(privacy.audit_gaussian([99, 750], [100, 1000]), 3)
    0.985
    """
    pairs, m, k, risk = checked_counts(right, guesses, canaries, candidates, confidence)

    def is_refuted(mu: float, w: int, r: int) -> bool:
        def level(power: float) -> float:
            return float(sc.ndtr(sc.ndtri(power) - mu))

        return refuted_by_guesses(level, w, r, m, k, risk)

    return max(_largest(partial(is_refuted, w=w, r=r)) for w, r in pairs)


def audit_epsilon(
    right: ArrayLike,
    guesses: ArrayLike,
    delta: float = 0.0,
    *,
    canaries: int | None = None,
    candidates: int = 2,
    confidence: float = 0.95,
) -> float:
    """Lower bound on epsilon at a delta from the guesses about one run, whatever its mechanism.

    At delta = 0 the number of right guesses is at most as large as a sum of independent ones that
    are right with probability ``e**epsilon/(e**epsilon + k - 1)``, which randomised response
    attains: the bound is tight. At other deltas it is the better of two theorems, that of Steinke
    et al. for k = 2 and that of Mahloujifar et al. for the curve of (epsilon, delta).

    Parameters
    ----------
    right, guesses, canaries, candidates, confidence
        As in :func:`audit_gaussian`.
    delta : float
        In [0, 1).

    Returns
    -------
    float
        Nats, in [0, 1000]; 0 if the guesses rule nothing out.

    Raises
    ------
    TypeError, ValueError
        If an argument is out of its range.

    Notes
    -----
    Steinke, Nasr and Jagielski (2023), arXiv 2305.08846, Theorem 5.2; Mahloujifar et al. (2024).
    A mechanism with one curve for all deltas, a Gaussian one say, is audited better as such
    (:func:`audit_gaussian`, then its epsilon).

    Examples
    --------
    >>> from reconrisk import privacy
    >>> round(privacy.audit_epsilon(100, 100), 2)  # all right: at least (1/20)**(1/100) of a coin
    3.49
    >>> round(privacy.audit_epsilon(750, 1000, 1e-5), 3)
    0.976
    """
    pairs, m, k, risk = checked_counts(right, guesses, canaries, candidates, confidence)
    d = float(arguments.real("delta", delta, 0, 1, high_open=True))

    def is_refuted(epsilon: float, w: int, r: int) -> bool:
        if d == 0.0 or k == 2:
            if _steinke(epsilon, d, w, r, m, k) <= risk:
                return True
            if d == 0.0:
                return False
        falls, rises = math.exp(-epsilon), math.exp(min(epsilon, 700.0))

        def level(power: float) -> float:
            return max(0.0, (power - d) * falls, 1.0 - d - (1.0 - power) * rises)

        return refuted_by_guesses(level, w, r, m, k, risk)

    return max(_largest(partial(is_refuted, w=w, r=r)) for w, r in pairs)


def _steinke(epsilon: float, delta: float, right: int, guesses: int, m: int, k: int) -> float:
    """Return the bound on the probability of ``right`` or more; for ``delta > 0`` only k = 2."""
    chance = 1.0 / (1.0 + (k - 1.0) * math.exp(-epsilon))
    tail = float(stats.binom.sf(right - 1, guesses, chance)) * (1.0 + _SLACK)
    if delta == 0.0 or right == 0:
        return tail
    below = np.cumsum(stats.binom.pmf(np.arange(right - 1, -1, -1), guesses, chance))
    steepest = float(np.max(below / np.arange(1, right + 1))) * (1.0 + _SLACK)
    return tail + 2.0 * m * delta * steepest


def _rates(
    detected: int, present: int, alarms: int, absent: int, confidence: float
) -> list[tuple[float, float]]:
    """Return a test's power, at least, and its level, at most, read in both directions."""
    inside = arguments.count("present", present, 1)
    outside = arguments.count("absent", absent, 1)
    hits = arguments.count("detected", detected, 0, inside)
    false = arguments.count("alarms", alarms, 0, outside)
    # two limits, each with half of the risk; both directions use the same two
    risk = 0.5 * _risk(confidence)
    power, level = lower_limit(hits, inside, risk), upper_limit(false, outside, risk)
    return [(power, level), (1.0 - level, 1.0 - power)]


def audit_epsilon_many_runs(
    detected: int,
    present: int,
    alarms: int,
    absent: int,
    delta: float = 0.0,
    *,
    confidence: float = 0.95,
) -> float:
    """Lower bound on epsilon at a delta from one guess about each of many independent runs.

    Some runs had a record, the others did not; a test fixed beforehand says which. Its error rates
    have the limits of Clopper and Pearson.

    Parameters
    ----------
    detected, present : int
        In how many of the runs with the record the test found it, and how many there were.
    alarms, absent : int
        In how many of the runs without it the test found it, and how many there were.
    delta : float
        In [0, 1).
    confidence : float
        In (0, 1).

    Returns
    -------
    float
        Nats, >= 0.

    Raises
    ------
    TypeError, ValueError
        If an argument is out of its range.

    Examples
    --------
    >>> from reconrisk import privacy
    >>> round(privacy.audit_epsilon_many_runs(900, 1000, 100, 1000), 3)
    1.99
    """
    d = float(arguments.real("delta", delta, 0, 1, high_open=True))
    found = [
        math.log(power - d) - math.log(level)
        for power, level in _rates(detected, present, alarms, absent, confidence)
        if power > d and level > 0.0
    ]
    return max([0.0, *found])


def audit_gaussian_many_runs(
    detected: int, present: int, alarms: int, absent: int, *, confidence: float = 0.95
) -> float:
    """Lower bound on mu of Gaussian differential privacy from many independent runs.

    As :func:`audit_epsilon_many_runs`: the distance between two Gaussians at which a test has the
    power and the level that it has at least and at most.

    Parameters
    ----------
    detected, present, alarms, absent, confidence
        As in :func:`audit_epsilon_many_runs`.

    Returns
    -------
    float
        At least 0.

    Raises
    ------
    TypeError, ValueError
        If an argument is out of its range.

    Examples
    --------
    >>> from reconrisk import privacy
    >>> round(privacy.audit_gaussian_many_runs(900, 1000, 100, 1000), 3)
    2.347
    """
    power, level = _rates(detected, present, alarms, absent, confidence)[0]
    if power == 0.0 or level == 1.0:
        return 0.0
    return max(0.0, float(sc.ndtri(power) - sc.ndtri(level)))

"""Success from below: a claimed run held against the guesses about a real one.

:mod:`reconrisk.privacy` has the lower bounds on epsilon and on mu; here are those on the success of
reconstruction, and the test of a claim about a sub-sampled run, which need the bounds from above.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from reconrisk import arguments, special
from reconrisk._types import DPSGD, check_run
from reconrisk.bounds._rero import rero_curve
from reconrisk.privacy._audit import checked_counts, refuted_by_guesses
from reconrisk.special._confidence import lower_limit

__all__ = ["audit_claim", "audit_noise", "audit_rero"]

#: levels at which a curve is computed, and the smallest probability that is returned
_LEVELS = np.concatenate([np.geomspace(1e-10, 0.5, 160), 1.0 - np.geomspace(0.5, 1e-8, 120)[1:]])
_LEAST = 1e-9
#: noise multipliers between which a search goes on, and how near
_LEAST_NOISE, _MOST_NOISE, _NEAR = 0.1, 1e3, 5e-3


def audit_rero(named: int, runs: int, *, confidence: float = 0.95) -> float:
    """Lower bound on the success of reconstruction, from attacks on independent runs.

    Whatever the mechanism, :func:`rero` at the prior success of these attacks is at least the limit
    of Clopper and Pearson with that confidence. One run cannot say as much without a family of
    curves: a mechanism that gives everything away once in 20 runs is rarely caught by one.

    Parameters
    ----------
    named, runs : int
        How many attacks succeeded, and how many runs were attacked, each once.
    confidence : float
        In (0, 1).

    Returns
    -------
    float
        In [0, 1].

    Raises
    ------
    TypeError, ValueError
        If an argument is out of its range.

    Examples
    --------
    >>> from reconrisk import bounds
    >>> round(bounds.audit_rero(480, 1000), 4)
    0.4536
    """
    n = arguments.count("runs", runs, 1, 1e15)
    hits = arguments.count("named", named, 0, n)
    sure = float(arguments.real("confidence", confidence, 0, 1, low_open=True, high_open=True))
    return lower_limit(hits, n, 1.0 - sure)


def audit_claim(
    run: DPSGD, right: ArrayLike, guesses: ArrayLike, *, canaries: int | None = None
) -> float:
    """Upper bound on the probability of so many right guesses, if the run is what it claims.

    Each canary was among the records with probability one half, and guesses say which were. A small
    value refutes the claim: there is less noise, or more of a record in a step, than it says. For
    runs with and without sub-sampling.

    Parameters
    ----------
    run : DPSGD
        The claim.
    right, guesses : int, or sequences of them
        As in :func:`~reconrisk.privacy.audit_gaussian`; of several pairs, the smallest value times
        their number.
    canaries : int, optional
        Those that were guessed and those that were not; by default as many as guesses.

    Returns
    -------
    float
        In [1e-9, 1].

    Raises
    ------
    TypeError, ValueError
        If an argument is out of its range.

    Notes
    -----
    The inequalities of Mahloujifar et al. (2024), arXiv 2410.22235, for the concave hull of the
    run's certified curves in both directions. Cost: that of 280 points of the curve, about half a
    second.

    Examples
    --------
    >>> from reconrisk import DPSGD, bounds
    >>> claim = DPSGD(4.0, sampling_rate=0.2, steps=50)
    >>> bounds.audit_claim(claim, 600, 1000) > 0.5, bounds.audit_claim(claim, 950, 1000) < 0.01
    (True, True)
    """
    check_run(run)
    pairs, m, _, _ = checked_counts(right, guesses, canaries, 2, 0.5)
    level = _level_of(run)

    def least_risk(w: int, r: int) -> float:
        low, high = math.log(_LEAST), 0.0
        if not refuted_by_guesses(level, w, r, m, 2, 1.0):
            return 1.0
        while high - low > 1e-3:
            middle = 0.5 * (low + high)
            low, high = (
                (low, middle)
                if refuted_by_guesses(level, w, r, m, 2, math.exp(middle))
                else (middle, high)
            )
        return math.exp(high)

    return min(len(pairs) * min(least_risk(w, r) for w, r in pairs), 1.0)


@arguments.names_sampling_rate
def audit_noise(
    right: ArrayLike,
    guesses: ArrayLike,
    *,
    sampling_rate: float,
    steps: int,
    canaries: int | None = None,
    confidence: float = 0.95,
) -> float:
    """Upper bound on the noise multiplier of a run of known sampling rate, from the guesses.

    For sub-sampled runs what :func:`~reconrisk.privacy.audit_gaussian` is for full batches: every
    larger noise multiplier is refuted, and epsilon and the success of reconstruction are at least
    those of a run with the returned one. A run has more noise with a probability of at most
    ``1 - confidence``.

    Parameters
    ----------
    right, guesses, canaries, confidence
        As in :func:`~reconrisk.privacy.audit_gaussian`, of canaries that were in or out.
    sampling_rate, steps : float, int
        q and T of the run.

    Returns
    -------
    float
        In [0.1, 1000]; infinity if the guesses rule nothing out.

    Raises
    ------
    TypeError, ValueError
        If an argument is out of its range.

    Notes
    -----
    As :func:`audit_claim`, for one noise multiplier after the other, to a half per cent. Cost: a
    dozen curves of 280 points, some seconds.

    Examples
    --------
    >>> from reconrisk import DPSGD, bounds, privacy
    >>> sigma = bounds.audit_noise(420, 500, sampling_rate=0.2, steps=30, canaries=2000)
    >>> round(sigma, 1), round(privacy.epsilon(DPSGD(sigma, 0.2, 30), 1e-5).lower, 1)
    (2.2, 2.4)
    """
    pairs, m, _, risk = checked_counts(right, guesses, canaries, 2, confidence)

    def is_refuted(noise: float) -> bool:
        level = _level_of(DPSGD(noise, sampling_rate, steps))
        return any(refuted_by_guesses(level, w, r, m, 2, risk) for w, r in pairs)

    low, high = _LEAST_NOISE, _MOST_NOISE
    if not is_refuted(high):
        return math.inf
    if is_refuted(low):
        return low
    while high > low * (1.0 + _NEAR):
        middle = math.sqrt(low * high)
        low, high = (low, middle) if is_refuted(middle) else (middle, high)
    return high


def _level_of(run: DPSGD) -> Callable[[float], float]:
    """Return the least level of a test with a given power, or less, in either direction or mixed.

    A canary was put in or left out by a coin, so tests of the two directions are mixed, and the
    curve that holds for all mixtures is the concave hull of both.
    """
    corners = _corners_above(*rero_curve(run, _LEVELS, tolerance=1e-5))
    both = np.vstack([corners, 1.0 - corners[:, ::-1]])
    hull = special.concave_hull(both)
    hull = hull[: int(np.argmax(hull[:, 1])) + 1]  # no level more for no more power

    def level(power: float) -> float:
        return float(np.interp(power, hull[:, 1], hull[:, 0]))

    return level


def _corners_above(lower: np.ndarray, upper: np.ndarray) -> np.ndarray:
    """Return the corners of a polygon above a concave curve that is enclosed at the levels.

    Between two levels the curve is below its chords on either side, continued.
    """
    a, u = np.r_[0.0, _LEVELS, 1.0], np.r_[0.0, np.maximum.accumulate(upper), 1.0]
    least = np.r_[0.0, lower, 1.0]
    # the steepest chord on the left of each level but the first, the flattest on the right
    left = np.minimum(u[1:] / a[1:], (u[1:] - least[:-1]) / np.diff(a))
    right = np.maximum(0.0, (least[1:] - u[:-1]) / np.diff(a))
    rise, fall = left[:-1], right[1:]  # at the levels: of the chords that end and begin there
    starts, ends = slice(1, -2), slice(2, -1)
    bend = np.where(rise[:-1] > fall[1:], rise[:-1] - fall[1:], np.inf)
    x = a[starts] + (u[ends] - u[starts] - fall[1:] * np.diff(a[1:-1])) / bend
    x = np.clip(x, a[starts], a[ends])
    y = np.maximum(u[starts] + rise[:-1] * (x - a[starts]), u[ends] - fall[1:] * (a[ends] - x))
    first = [0.0, max(0.0, u[1] - fall[0] * a[1])]
    last = [min(1.0, a[-2] + (1.0 - u[-2]) / rise[-1]), 1.0]
    inner = np.vstack([np.column_stack([a[1:-1], u[1:-1]]), np.column_stack([x, y])])
    return np.vstack([[0.0, 0.0], first, inner, last, [1.0, 1.0]])

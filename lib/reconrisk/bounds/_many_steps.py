"""The average of the reconstructions from many steps that sample the record with some probability.

``mean_to_extreme``, section 4.3, leaves the composition over steps open and prints a selection
probability that lacks the factor of the steps without the record. The number of steps that select
the record is ``K ~ Binomial(T, p)`` (``p = 1/|D|`` for batches of one), and the average of the K
reconstructions is distributed as with ``repeats = K``. If K = 0 there is no reconstruction, which
counts as failure. So the tail is exactly ``sum_k P(K = k) tail_k`` over k from 1 to T.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from reconrisk import arguments, special
from reconrisk.bounds import _arguments as args

__all__ = ["selection_log_pmf", "selection_probability_printed"]

MAX_STEPS = 1e9


def _checked_selection(
    steps: ArrayLike, selection_probability: ArrayLike
) -> tuple[np.ndarray, np.ndarray]:
    t = arguments.integer("steps", steps, 1, MAX_STEPS)
    return t, arguments.real("selection_probability", selection_probability, 0, 1, low_open=True)


def selection_log_pmf(k: ArrayLike, steps: ArrayLike, probability: ArrayLike) -> np.ndarray:
    """Log-probability that exactly k steps select the record: Binomial(steps, probability).

    Corrects ``mean_to_extreme``, section 4.3.

    Parameters
    ----------
    k : array_like
        Whole, in [0, steps].
    steps : array_like
        T in [1, 1e9].
    probability : array_like
        Probability that one step selects the record, in (0, 1]: ``1/|D|`` for batches of one.

    Returns
    -------
    ndarray or float
        In [-inf, 0].

    Examples
    --------
    >>> from reconrisk import bounds
    >>> round(float(bounds.selection_log_pmf(10, 100, 0.1)), 4)
    -2.026
    """
    t, p = _checked_selection(steps, probability)
    return special.log_binomial_pmf(k, t, p)


def selection_probability_printed(
    k: ArrayLike, steps: ArrayLike, probability: ArrayLike, *, log: bool = False
) -> np.ndarray:
    """The printed "probability" of ``k`` selections, ``binom(K, k) p**k``.

    ``mean_to_extreme``, section 4.3, with K steps and ``p = 1/|D|``. It lacks the factor
    ``(1 - p)**(K - k)``, can exceed one, and sums to ``(1 + p)**K`` over ``k``. For comparison with
    :func:`selection_log_pmf`.

    Parameters
    ----------
    k, steps, probability : array_like
        As in :func:`selection_log_pmf`, with ``probability`` below one.
    log : bool
        Return the natural logarithm.

    Returns
    -------
    ndarray or float
        >= 0 (or its logarithm).

    Raises
    ------
    ValueError
        If an argument is out of its range, or the value overflows and ``log`` is false.

    Examples
    --------
    >>> from reconrisk import bounds
    >>> bool(bounds.selection_probability_printed(10, 100, 0.1) < 1e-13)
    False
    """
    t, p = _checked_selection(steps, probability)
    arguments.real("probability", p, 0, 1, high_open=True)
    value = special.log_binomial_pmf(k, t, p) - (t - np.asarray(k, dtype=float)) * np.log1p(-p)
    if not log and np.any(value > 709.0):
        raise ValueError(
            "log must be True where the printed value exceeds 1e308; got a value of "
            f"exp({np.max(value):.6g})"
        )
    return args.probability(value, log)


def _mixture(
    log_tail: Callable[..., np.ndarray], t: np.ndarray, p: np.ndarray, *parameters: np.ndarray
) -> np.ndarray:
    """Return ``log sum_{k=1}^{T} P(K = k) exp(log_tail(k, ...))``, the terms log-concave in k.

    The sum runs outwards from its largest term, which may be far from ``T p``, until a geometric
    series bounds the rest below 1e-17 of it. Cost: about ``20 sqrt(T p (1 - p))`` terms.
    """
    shape = np.broadcast_shapes(t.shape, p.shape, *(q.shape for q in parameters))
    columns = [np.broadcast_to(v, shape).reshape(-1, 1) for v in (t, p, *parameters)]

    def term(k: np.ndarray, rows: np.ndarray) -> np.ndarray:
        t, p, *rest = (c[rows] for c in columns)
        with np.errstate(invalid="ignore"):
            value = special.log_binomial_pmf(np.minimum(k, t), t, p) + log_tail(k, *rest)
        return np.where(k <= t, value, -np.inf)

    size = columns[0].shape[0]
    if size == 0:
        return np.empty(shape)
    peak = _peak(term, columns[0][:, 0])
    top = term(peak[:, None], np.arange(size))[:, 0]
    total = np.where(np.isneginf(top), 0.0, 1.0)
    for direction in (1.0, -1.0):
        rows = np.flatnonzero(np.isfinite(top))
        start, block = 1.0, 16
        while rows.size:
            k = peak[rows, None] + direction * np.arange(start, start + block)
            valid = (k >= 1.0) & (k <= columns[0][rows])
            value = np.full(k.shape, -np.inf)
            for part in range(0, rows.size, max(1, 65536 // block)):
                cut = slice(part, part + max(1, 65536 // block))
                value[cut] = term(np.maximum(k[cut], 1.0), rows[cut])
            value = np.where(valid, value - top[rows, None], -np.inf)
            total[rows] += np.exp(value).sum(axis=1)
            last, before = value[:, -1], value[:, -2]
            with np.errstate(invalid="ignore", divide="ignore"):
                ratio = np.exp(np.minimum(last - before, 0.0))
                rest = last + np.log(ratio) - np.log1p(-ratio)
            done = ~valid[:, -1] | np.isneginf(last) | (rest < np.log(total[rows]) - 39.0)
            rows = rows[~done]
            start += block
            block = min(2 * block, 8192)
    with np.errstate(divide="ignore"):
        value = np.where(np.isneginf(top), -np.inf, top + np.log(total))
    return value.reshape(shape)


def _peak(term: Callable[[np.ndarray, np.ndarray], np.ndarray], t: np.ndarray) -> np.ndarray:
    """Return the k in [1, T] of the largest term, by bisection on the sign of the difference."""
    low, high = np.ones_like(t), t.copy()
    while True:
        rows = np.flatnonzero(low < high)
        if rows.size == 0:
            return low
        middle = np.floor(0.5 * (low[rows] + high[rows]))
        pair = term(np.stack([middle, middle + 1.0], axis=1), rows)
        rising = pair[:, 1] > pair[:, 0]
        # where both terms are zero, k is too small to reach the threshold: the peak is above
        rising |= np.isneginf(pair[:, 1])
        low[rows] = np.where(rising, middle + 1.0, low[rows])
        high[rows] = np.where(rising, high[rows], middle)

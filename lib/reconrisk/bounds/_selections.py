"""How many steps select a record, ``K ~ Binomial(T, p)``, and averages over it.

:func:`log_mean_selected` adds every term that counts, for many settings at once and to rounding;
:func:`selection_mean` does so for one setting and a value that need not be positive. Both cost
``sqrt(T)`` values, and the first needs terms that are log-concave. :func:`selection_log_enclosure`
needs no more than a value that increases with K, and encloses its mean from some hundreds of
values, however many steps there are: for values that are integrals themselves.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from reconrisk import arguments, special
from reconrisk._types import Enclosure
from reconrisk.bounds import _arguments as args

__all__ = [
    "check_selection",
    "log_mean_selected",
    "selection_log_enclosure",
    "selection_log_pmf",
    "selection_mean",
    "selection_probability_printed",
]

MAX_STEPS = 1e9
#: blocks of counts where the binomial law has its mass, elsewhere, and in total at most
_BLOCKS_NEAR, _BLOCKS_FAR, _MOST_BLOCKS = 128, 32, 1000
#: width of the mean's log at which refinement ends, and how far below it a block is negligible
_NARROW, _NEGLIGIBLE = 1e-6, 30.0

#: a function of an array of whole numbers
CountFunction = Callable[[np.ndarray], np.ndarray]
#: rows: first count, last count, lower and upper bound on the log of a block's share of the sum
Blocks = np.ndarray


def check_selection(
    steps: ArrayLike, selection_probability: ArrayLike
) -> tuple[np.ndarray, np.ndarray]:
    """Return the number of steps and the selection probability as arrays in their ranges."""
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

    Raises
    ------
    ValueError
        If an argument is nan or out of its range.

    Examples
    --------
    >>> from reconrisk import bounds
    >>> round(float(bounds.selection_log_pmf(10, 100, 0.1)), 4)
    -2.026
    """
    t, p = check_selection(steps, probability)
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
    t, p = check_selection(steps, probability)
    arguments.real("probability", p, 0, 1, high_open=True)
    value = special.log_binomial_pmf(k, t, p) - (t - np.asarray(k, dtype=float)) * np.log1p(-p)
    if not log and np.any(value > 709.0):
        raise ValueError(
            "log must be True where the printed value exceeds 1e308; got a value of "
            f"exp({np.max(value):.6g})"
        )
    return args.probability(value, log)


def selection_mean(
    value: CountFunction, steps: int, probability: float, *, least: int = 1
) -> float:
    """Mean of a smooth function of the number of selecting steps, given at least ``least``."""
    if probability == 1.0:
        return float(value(np.array([float(steps)]))[0])
    low, high = _window(steps, probability, 12.0, 40.0, float(least))
    counts = np.arange(low, high + 0.5)
    weights = np.exp(special.log_binomial_pmf(counts, float(steps), probability))
    if not weights.sum() > 0.0:
        raise ValueError("the record takes part too rarely for an average over its copies")
    return float(weights @ value(counts) / weights.sum())


def _window(
    steps: int, probability: float, deviations: float, margin: float, least: float = 1.0
) -> tuple[float, float]:
    """Least and most of the counts within some standard deviations of the mean, and a margin."""
    mean, spread = steps * probability, math.sqrt(steps * probability * (1.0 - probability))
    low = max(least, math.floor(mean - deviations * spread - margin))
    return low, min(float(steps), max(low, math.ceil(mean + deviations * spread + margin)))


def selection_log_enclosure(
    log_value: CountFunction, steps: int, probability: float, *, unselected: float = -np.inf
) -> Enclosure:
    """Enclose the log of the mean of a share that increases with the number of selecting steps.

    Without one the share is ``exp(unselected)``. Counts are grouped in blocks, bounded by the
    values at their ends; those that matter are halved until the enclosure is narrow or there are
    too many. Cost: some hundreds of values, and ``18 sqrt(T p (1 - p))`` binomial probabilities.
    """
    if probability == 1.0:
        value = float(log_value(np.array([float(steps)]))[0])
        return Enclosure(value, value)

    def bounded(first: np.ndarray, last: np.ndarray, low: np.ndarray, high: np.ndarray) -> Blocks:
        return np.stack([first, last, low + log_value(first), high + log_value(last)])

    with np.errstate(invalid="ignore"):
        blocks = bounded(*_blocks(steps, probability))
        while True:
            low, high = (np.logaddexp.reduce(row) for row in blocks[2:])
            wide = (blocks[1] > blocks[0]) & (blocks[3] > high - _NEGLIGIBLE)
            if high - low < _NARROW or not np.any(wide) or blocks.shape[1] > _MOST_BLOCKS:
                break
            halves = _halves(blocks[0, wide], blocks[1, wide])
            parts = bounded(*halves, *_block_mass(*halves, steps, probability))
            # halving a block helps only if one of its bounds gets tighter
            better = np.logaddexp.reduce(parts[3].reshape(2, -1), axis=0) < blocks[3, wide]
            better |= np.logaddexp.reduce(parts[2].reshape(2, -1), axis=0) > blocks[2, wide]
            if not np.any(better):
                break
            blocks = np.concatenate([blocks[:, ~wide], parts], axis=1)
    slack = 1e-11 * (1.0 + abs(float(high)) if high > -np.inf else 1.0)
    low, high = float(low) - slack, min(float(high) + slack, 0.0)
    if high < 0.0:
        none = steps * math.log1p(-probability) + unselected
        low, high = float(np.logaddexp(low, none)), float(np.logaddexp(high, none))
    return Enclosure(low, high)


def _halves(first: np.ndarray, last: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Split blocks in two, at the geometric mean of their ends where they are wide."""
    middle = np.floor(np.where(last > 4.0 * first, np.sqrt(first * last), 0.5 * (first + last)))
    return np.concatenate([first, middle + 1.0]), np.concatenate([middle, last])


def _block_mass(
    first: np.ndarray, last: np.ndarray, steps: int, probability: float
) -> tuple[np.ndarray, np.ndarray]:
    """Bounds on the log of each block's mass: number of counts times least and most probability."""
    mode = math.floor((steps + 1.0) * probability)
    ends = special.log_binomial_pmf(np.stack([first, last]), float(steps), probability)
    top = float(special.log_binomial_pmf(float(mode), float(steps), probability))
    most = np.where((first < mode) & (last > mode), top, ends.max(axis=0))
    log_count = np.log(last - first + 1.0)
    return log_count + ends.min(axis=0), log_count + most


def _blocks(
    steps: int, probability: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """First and last counts of blocks that cover 1, ..., T, and bounds on their log masses."""
    low, high = _window(steps, probability, 9.0, 10.0)
    near = np.arange(low, high + 0.5)
    log_pmf = special.log_binomial_pmf(near, float(steps), probability)
    starts = np.linspace(0, near.size, min(near.size, _BLOCKS_NEAR), endpoint=False).astype(int)
    mass = np.logaddexp.reduceat(log_pmf, starts)
    ends = np.unique(np.rint(np.geomspace(1.0, steps, _BLOCKS_FAR)))
    below = np.append(ends[ends < low], low)
    above = np.append(high, ends[ends > high])
    first = np.concatenate([below[:-1], above[:-1] + 1.0])
    last = np.concatenate([below[1:] - 1.0, above[1:]])
    far = _block_mass(first, last, steps, probability)
    return (
        np.concatenate([near[starts], first]),
        np.concatenate([near[starts[1:]] - 1.0, [high], last]),
        np.concatenate([mass, far[0]]),
        np.concatenate([mass, far[1]]),
    )


def log_mean_selected(
    log_tail: Callable[..., np.ndarray], t: np.ndarray, p: np.ndarray, *parameters: np.ndarray
) -> np.ndarray:
    """Return ``log sum_{k=1}^{T} P(K = k) exp(log_tail(k, ...))``, the terms log-concave in k."""
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

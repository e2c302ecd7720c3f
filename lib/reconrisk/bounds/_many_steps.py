"""The average of the reconstructions from many steps that sample the record with some probability.

``mean_to_extreme``, section 4.3, leaves the composition over steps open and prints a selection
probability that lacks the factor of the steps without the record. The number of steps that select
the record is ``K ~ Binomial(T, p)`` (``p = 1/|D|`` for batches of one), and the average of the K
reconstructions is distributed as with ``repeats = K``. If K = 0 there is no reconstruction, which
counts as failure. So the tail is exactly ``sum_k P(K = k) tail_k`` over k from 1 to T.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from reconrisk import arguments, special
from reconrisk.bounds import _arguments as args
from reconrisk.bounds._mse import gamma_argument, noise_std
from reconrisk.bounds._ncc import noncentrality
from reconrisk.bounds._psnr import mse_of_psnr
from reconrisk.bounds._selections import check_selection, log_mean_selected

__all__ = [
    "expected_mse_sampled",
    "mse_tail_sampled",
    "ncc_tail_sampled",
    "psnr_tail_sampled",
    "selection_probability_printed",
]


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


def mse_tail_sampled(
    threshold: ArrayLike,
    dimension: ArrayLike,
    noise_multiplier: ArrayLike,
    data_norm: ArrayLike,
    steps: ArrayLike,
    selection_probability: ArrayLike,
    *,
    log: bool = False,
) -> np.ndarray:
    """Probability that the MSE of the average over the selecting steps is at most a threshold.

    Parameters
    ----------
    threshold, dimension, noise_multiplier, data_norm : array_like
        As in :func:`reconrisk.bounds.mse_tail`.
    steps : array_like
        T in [1, 1e9].
    selection_probability : array_like
        Probability that one step selects the record, in (0, 1].
    log : bool
        Return the natural logarithm.

    Returns
    -------
    ndarray or float
        In [0, 1] (or its logarithm).

    Raises
    ------
    ValueError
        If an argument is nan or out of its range.

    Notes
    -----
    Both factors of a term are log-concave in k. The sum runs outwards from its largest term, which
    may be far from ``T p``, until a geometric series bounds the rest below 1e-17 of it. Cost: about
    ``20 sqrt(T p (1 - p))`` terms.

    Examples
    --------
    >>> from reconrisk import bounds
    >>> value = bounds.mse_tail_sampled(0.03, 784, 0.1, 5.0, 100, selection_probability=0.1)
    >>> round(float(value), 3)
    0.696
    """
    eta = arguments.real("threshold", threshold, 0)
    n = args.dimension(dimension)
    std = noise_std(noise_multiplier, data_norm, 1)
    x = gamma_argument(eta, n, std)
    t, p = check_selection(steps, selection_probability)
    value = log_mean_selected(lambda k, x, a: special.log_gamma_lower(a, k * x), t, p, x, 0.5 * n)
    return args.probability(value, log)


def psnr_tail_sampled(
    threshold: ArrayLike,
    dimension: ArrayLike,
    noise_multiplier: ArrayLike,
    data_norm: ArrayLike,
    data_range: ArrayLike,
    steps: ArrayLike,
    selection_probability: ArrayLike,
    *,
    log: bool = False,
) -> np.ndarray:
    """Probability that the PSNR of the average over the selecting steps is at least a threshold.

    Parameters
    ----------
    threshold, dimension, noise_multiplier, data_norm, data_range : array_like
        As in :func:`reconrisk.bounds.psnr_tail`.
    steps, selection_probability, log
        As in :func:`mse_tail_sampled`.

    Returns
    -------
    ndarray or float
        In [0, 1] (or its logarithm).

    Raises
    ------
    ValueError
        If an argument is nan or out of its range.

    Examples
    --------
    >>> from reconrisk import bounds
    >>> round(float(bounds.psnr_tail_sampled(15.0, 784, 0.1, 5.0, 1.0, 100, 0.1)), 4)
    0.7483
    """
    eta = mse_of_psnr(arguments.real("threshold", threshold, -1000, 1000), data_range)
    return mse_tail_sampled(
        eta, dimension, noise_multiplier, data_norm, steps, selection_probability, log=log
    )


def ncc_tail_sampled(
    threshold: ArrayLike,
    dimension: ArrayLike,
    noise_multiplier: ArrayLike,
    steps: ArrayLike,
    selection_probability: ArrayLike,
    signal: ArrayLike | None = None,
    *,
    contrast: ArrayLike | None = None,
    log: bool = False,
) -> np.ndarray:
    """Probability that the NCC of the average over the selecting steps is at least a threshold.

    Parameters
    ----------
    threshold, dimension, noise_multiplier, signal, contrast
        As in :func:`reconrisk.bounds.ncc_tail`; without signal and contrast, the largest
        probability over all records.
    steps, selection_probability, log
        As in :func:`mse_tail_sampled`.

    Returns
    -------
    ndarray or float
        In [0, 1] (or its logarithm).

    Raises
    ------
    ValueError
        If an argument is nan or out of its range.

    Examples
    --------
    >>> from reconrisk import bounds
    >>> round(float(bounds.ncc_tail_sampled(0.7, 784, 0.1, 100, 0.1)), 4)
    0.7849
    """
    c = arguments.real("threshold", threshold, -1, 1)
    n = args.dimension(dimension, 2)
    delta = noncentrality(n, noise_multiplier, signal, contrast, 1)
    t, p = check_selection(steps, selection_probability)
    arguments.real("sqrt(steps) / noise_multiplier", np.sqrt(t) * delta, 0, 1e8)
    value = log_mean_selected(
        lambda k, c, d, m: special.log_cosine_tail(c, d, np.sqrt(k) * m), t, p, c, n - 1.0, delta
    )
    return args.probability(value, log)


def expected_mse_sampled(
    noise_multiplier: ArrayLike,
    data_norm: ArrayLike,
    steps: ArrayLike,
    selection_probability: ArrayLike,
) -> np.ndarray:
    """Expected MSE of the average, given that at least one step selects the record.

    ``s**2 E[1/K | K >= 1]``; for K = 0 there is no reconstruction.

    Parameters
    ----------
    noise_multiplier, data_norm : array_like
        As in :func:`reconrisk.bounds.mse_tail`.
    steps, selection_probability : array_like
        As in :func:`mse_tail_sampled`.

    Returns
    -------
    ndarray or float
        > 0, squared data units.

    Raises
    ------
    ValueError
        If an argument is nan or out of its range.

    Examples
    --------
    >>> from reconrisk import bounds
    >>> round(float(bounds.expected_mse_sampled(0.1, 5.0, steps=100, selection_probability=0.1)), 4)
    0.0279
    """
    std = noise_std(noise_multiplier, data_norm, 1)
    t, p = check_selection(steps, selection_probability)
    with np.errstate(divide="ignore"):
        log_seen = special.log1mexp(t * np.log1p(-p))
    return (std * std * np.exp(log_mean_selected(lambda k: -np.log(k), t, p) - log_seen))[()]

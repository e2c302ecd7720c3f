"""Prior success probability kappa: the success of the best guess before seeing any output.

``kappa = sup over z0 of P(rho(Z, z0) <= eta)`` (``hayes2023``, Section 3.1): exact for discrete
priors, an upper confidence bound from samples (Proposition 6 and Appendix L), and exact in the log
domain for independent pixels (Appendix I).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from reconrisk import arguments, special
from reconrisk._types import Enclosure
from reconrisk.bounds._information import probabilities
from reconrisk.special._confidence import upper_limit

__all__ = [
    "log_prior_success_pixels",
    "log_prior_success_pixels_printed",
    "prior_success_ball",
    "prior_success_ball_any_centre",
    "prior_success_from_samples",
]

#: tolerance of ``hayes2023``, Appendix I, on a pixel in [0, 1]
PIXEL_TOLERANCE = 32.0 / 255.0


def _masses(distances: ArrayLike, threshold: float, weights: ArrayLike | None) -> np.ndarray:
    """Return the prior mass of the points within ``threshold`` of each centre."""
    d = arguments.real("distances", distances, 0)
    if d.ndim != 2:
        raise ValueError(f"distances must have shape (centres, points); got {d.shape}")
    points = d.shape[1]
    p = np.full(points, 1.0 / points) if weights is None else probabilities(weights, 1)
    if p.size != points:
        raise ValueError(f"weights must have one entry per point; got {p.size} for {points}")
    eta = float(arguments.real("threshold", threshold, 0))
    return (d <= eta) @ p


def prior_success_ball(
    distances: ArrayLike, threshold: float, weights: ArrayLike | None = None
) -> float:
    """Largest prior mass in a ball around one of the given centres.

    ``hayes2023``, Section 3.3, *Estimating kappa*. It equals ``kappa`` if a best guess is among the
    centres: always if only the centres may be guessed, or if every ball of that radius contains at
    most one point. Otherwise a guess between points may be better;
    :func:`prior_success_ball_any_centre` encloses its success.

    Parameters
    ----------
    distances : array_like, shape (centres, points)
        Errors ``rho(point, centre)`` >= 0, which need not be a metric.
    threshold : float
        ``eta`` >= 0, in the same unit.
    weights : array_like, shape (points,), optional
        Prior probabilities; uniform by default.

    Returns
    -------
    float
        In [0, 1].

    Raises
    ------
    ValueError
        If an argument is nan, out of its range or of a wrong shape.

    Notes
    -----
    Cost: ``centres * points`` comparisons.

    Examples
    --------
    >>> from reconrisk import bounds
    >>> distances = [[0.0, 0.2, 0.9], [0.2, 0.0, 0.9], [0.9, 0.9, 0.0]]
    >>> round(bounds.prior_success_ball(distances, threshold=0.5), 4)
    0.6667
    """
    return float(min(_masses(distances, threshold, weights).max(), 1.0))


def prior_success_ball_any_centre(
    distances: ArrayLike, threshold: float, weights: ArrayLike | None = None
) -> Enclosure:
    """Enclose the largest prior mass in a ball around any centre, from the points' distances.

    By the triangle inequality a ball of radius ``eta`` that contains a point lies in the ball of
    radius ``2 eta`` around that point. So ``kappa`` lies between the largest masses of balls of
    radius ``eta`` and of radius ``2 eta`` around points.

    Parameters
    ----------
    distances : array_like, shape (points, points)
        Distances in a *metric*: symmetric, zero on the diagonal. The mean squared error is not a
        metric; its square root is, with the square root of the threshold.
    threshold, weights
        As in :func:`prior_success_ball`.

    Returns
    -------
    Enclosure
        Contains ``kappa``.

    Raises
    ------
    ValueError
        If an argument is nan, out of its range or of a wrong shape, or ``distances`` is not
        symmetric with a zero diagonal.

    Examples
    --------
    >>> from reconrisk import bounds
    >>> distances = [[0.0, 0.2, 0.9], [0.2, 0.0, 0.9], [0.9, 0.9, 0.0]]
    >>> found = bounds.prior_success_ball_any_centre(distances, threshold=0.15)
    >>> round(found.lower, 4), round(found.upper, 4)
    (0.3333, 0.6667)
    """
    d = arguments.real("distances", distances, 0)
    if d.ndim != 2 or d.shape[0] != d.shape[1]:
        raise ValueError(f"distances must be square; got shape {d.shape}")
    slack = 1e-9 * (1.0 + np.max(d, initial=0.0))
    asymmetry, diagonal = (np.max(v, initial=0.0) for v in (np.abs(d - d.T), np.diag(d)))
    if asymmetry > slack or diagonal > slack:
        raise ValueError(
            "distances must be symmetric with a zero diagonal; got differences up to "
            f"{asymmetry:g} and a diagonal up to {diagonal:g}"
        )
    near = prior_success_ball(d, threshold, weights)
    wide = prior_success_ball(d, 2.0 * float(threshold) * (1.0 + 1e-12), weights)
    return Enclosure(near, max(near, wide))


def prior_success_from_samples(
    estimate: float, samples: int, confidence: float = 0.95, *, method: str = "binomial"
) -> float:
    """Upper confidence bound on ``kappa`` from its value on samples of the prior.

    ``estimate`` is ``kappa`` of the empirical distribution of N independent samples. The number of
    samples within the threshold of the true prior's best guess is Binomial(N, kappa), and at most N
    times the estimate, so that a one-sided binomial interval bounds ``kappa``.

    Parameters
    ----------
    estimate : float
        ``kappa_hat`` in [0, 1], the largest mass over all centres (the upper end of
        :func:`prior_success_ball_any_centre`).
    samples : int
        N >= 1.
    confidence : float
        In (0, 1): probability, over the samples, that the result is at least ``kappa``.
    method : {"binomial", "chernoff"}
        "binomial" is the exact interval of Clopper and Pearson (1934), which is never the larger.
        "chernoff" is ``hayes2023``, Proposition 6, solved for ``kappa``: from
        ``kappa (1 - tau) <= kappa_hat`` and ``exp(-N tau**2 kappa/2) = 1 - confidence`` follows
        ``(a + sqrt(a**2 + kappa_hat))**2`` with ``a**2 = log(1/(1 - confidence))/(2 N)``.

    Returns
    -------
    float
        In [kappa_hat, 1].

    Raises
    ------
    TypeError, ValueError
        If an argument has the wrong type or is out of its range.

    Examples
    --------
    >>> from reconrisk import bounds
    >>> 0.1 < bounds.prior_success_from_samples(0.1, 1000) < 0.13
    True
    """
    share = float(arguments.real("estimate", estimate, 0, 1))
    count = float(arguments.integer("samples", samples, 1))
    level = float(arguments.real("confidence", confidence, 0, 1, low_open=True, high_open=True))
    if arguments.one_of("method", method, ("binomial", "chernoff")) == "chernoff":
        a = np.sqrt(-np.log1p(-level) / (2.0 * count))
        return float(min((a + np.sqrt(a * a + share)) ** 2, 1.0))
    hits = np.ceil(share * count * (1.0 - 1e-12))
    return max(upper_limit(hits, count, 1.0 - level), share)


def log_prior_success_pixels(
    dimension: ArrayLike,
    share: ArrayLike = 1.0,
    tolerance: ArrayLike = PIXEL_TOLERANCE,
    *,
    probability: ArrayLike | None = None,
) -> np.ndarray:
    """Log prior success of matching a share of independent uniform pixels within a tolerance.

    ``log P(Bin(d, p) >= share d)``. For pixels uniform in [0, 1] no guess is within ``tolerance``
    with probability above ``p = min(2 tolerance, 1)``, so that this is ``log kappa`` exactly.
    ``hayes2023``, Appendix I, corrected for shares below one (see
    :func:`log_prior_success_pixels_printed`).

    Parameters
    ----------
    dimension : array_like
        d, whole, in [1, 1e7].
    share : array_like
        ``rho`` in [0, 1].
    tolerance : array_like
        ``delta`` in (0, 1]: largest error of a pixel that counts as matched.
    probability : array_like, optional
        ``p`` in (0, 1] instead of ``2 tolerance``; the paper has ``2 x 32/256 = 1/4``.

    Returns
    -------
    ndarray or float
        In [-inf, 0]; relative error of the probability below 1e-11 down to 1e-1850 (tested).

    Raises
    ------
    TypeError, ValueError
        If an argument has the wrong type or is out of its range.

    Notes
    -----
    Cost: about ``45 sqrt(d)`` terms of the tail for each set of arguments, at most d.

    Examples
    --------
    >>> from reconrisk import bounds
    >>> round(float(bounds.log_prior_success_pixels(784, 0.9, 0.125)))
    -750
    """
    d = arguments.integer("dimension", dimension, 1, 1e7)
    rho = arguments.real("share", share, 0, 1)
    if probability is None:
        p = np.minimum(2.0 * arguments.real("tolerance", tolerance, 0, 1, low_open=True), 1.0)
    else:
        p = arguments.real("probability", probability, 0, 1, low_open=True)
    # the rounding of a share k/d must not raise k to k + 1
    needed = np.ceil(rho * d * (1.0 - 4e-16 * 4.0))
    needed, d, p = np.broadcast_arrays(needed, d, p)
    flat = [
        _log_binomial_tail(float(k), float(n), float(c))
        for k, n, c in zip(needed.ravel(), d.ravel(), p.ravel(), strict=True)
    ]
    return np.array(flat).reshape(d.shape)[()]


def _log_binomial_tail(k: float, n: float, p: float) -> float:
    """Return ``log P(Bin(n, p) >= k)``, summing the smaller of the two tails."""
    if k <= 0 or p >= 1.0:
        return 0.0
    reach = 45.0 * np.sqrt(n) + 60.0
    if k > n * p:
        counts = np.arange(k, min(n, k + reach) + 0.5)
        return _log_sum(special.log_binomial_pmf(counts, n, p))
    counts = np.arange(max(0.0, k - 1.0 - reach), k - 0.5)
    return float(special.log1mexp(np.asarray(_log_sum(special.log_binomial_pmf(counts, n, p)))))


def _log_sum(logs: np.ndarray) -> float:
    top = float(np.max(logs))
    return min(top + float(np.log(np.exp(logs - top).sum())), 0.0)


def log_prior_success_pixels_printed(
    dimension: ArrayLike, share: ArrayLike = 1.0, probability: ArrayLike = 0.25
) -> np.ndarray:
    """The prior success as ``hayes2023``, Appendix I, prints it: ``log p**(share d)``.

    It counts only one fixed set of matching pixels. For a share below one
    :func:`log_prior_success_pixels` is larger, by hundreds of orders of magnitude at the paper's
    dimensions.

    Parameters
    ----------
    dimension : array_like
        d, whole, in [1, 1e7].
    share : array_like
        ``rho`` in [0, 1].
    probability : array_like
        ``p`` in (0, 1].

    Returns
    -------
    ndarray or float
        In (-inf, 0].

    Raises
    ------
    TypeError, ValueError
        If an argument has the wrong type or is out of its range.

    Examples
    --------
    >>> from reconrisk import bounds
    >>> round(float(bounds.log_prior_success_pixels_printed(784)))
    -1087
    """
    d = arguments.integer("dimension", dimension, 1, 1e7)
    rho = arguments.real("share", share, 0, 1)
    return (rho * d * np.log(arguments.real("probability", probability, 0, 1, low_open=True)))[()]

"""Bounds on reconstruction from Rényi or pure differential privacy alone.

Hayes et al. (2023) improve on these: reconstruction robustness from Rényi privacy (Balle et al.
2022) and from pure privacy, and the mean squared error of unbiased attacks (Guo et al. 2022a). All
are computed in the log domain.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from reconrisk import arguments, special
from reconrisk.bounds import _arguments as args

__all__ = [
    "mse_lower_bound",
    "mse_lower_bound_renyi",
    "rero_pure",
    "rero_rdp",
    "rero_renyi",
]


def rero_rdp(
    noise_multiplier: ArrayLike,
    prior_success: ArrayLike | None = None,
    *,
    steps: ArrayLike = 1,
    log_prior_success: ArrayLike | None = None,
    log: bool = False,
) -> np.ndarray:
    """Success of any attack on full-batch DP-SGD, from its Rényi privacy at the best order.

    ``exp(-max(0, sqrt(log 1/kappa) - sqrt(T/(2 sigma**2)))**2)``: ``hayes2023``, eq. (2), after
    Balle et al. (2022). It is :func:`rero_renyi` with ``epsilon = order T/(2 sigma**2)`` at
    ``order = sqrt(log(1/kappa)/(T/(2 sigma**2)))``.

    Parameters
    ----------
    noise_multiplier : array_like
        ``sigma`` > 0.
    prior_success : array_like, optional
        ``kappa`` in [0, 1]; zero gives zero.
    steps : array_like
        T, whole, >= 1.
    log_prior_success : array_like, optional
        ``log kappa`` in [-inf, 0] instead, for priors that underflow.
    log : bool
        Return ``log gamma``.

    Returns
    -------
    ndarray or float
        ``gamma`` in [kappa, 1] (or its logarithm); one if ``T/(2 sigma**2) >= log(1/kappa)``.

    Raises
    ------
    ValueError
        If an argument is nan or out of its range, or not exactly one prior is given.

    Examples
    --------
    >>> from reconrisk import bounds
    >>> round(float(bounds.rero_rdp(2.0, 0.01)), 4)
    0.0402
    """
    log_inverse_kappa = -args.log_probability("prior_success", prior_success, log_prior_success)
    sigma = args.positive("noise_multiplier", noise_multiplier)
    root = np.sqrt(0.5 * args.repeats(steps, "steps")) / sigma
    return args.probability(-(np.maximum(np.sqrt(log_inverse_kappa) - root, 0.0) ** 2), log)


def rero_renyi(
    order: ArrayLike,
    epsilon: ArrayLike,
    prior_success: ArrayLike | None = None,
    *,
    log_prior_success: ArrayLike | None = None,
    log: bool = False,
) -> np.ndarray:
    """Success of any attack on an ``(order, epsilon)``-Rényi private mechanism.

    ``min(1, (kappa exp(epsilon))**((order - 1)/order))``: Balle et al. (2022), Theorem 2, as stated
    in ``hayes2023``, Section 3.1. At ``order = inf`` it is ``min(1, kappa exp(epsilon))``, which
    ``hayes2023`` (after Theorem 2) gives for pure privacy; :func:`rero_pure` is tighter.

    Parameters
    ----------
    order : array_like
        ``alpha`` in (1, inf].
    epsilon : array_like
        The Rényi divergence of that order, >= 0, nats.
    prior_success, log_prior_success, log
        As in :func:`rero_rdp`.

    Returns
    -------
    ndarray or float
        ``gamma`` in [kappa, 1] (or its logarithm).

    Raises
    ------
    ValueError
        If an argument is nan or out of its range, or not exactly one prior is given.

    Examples
    --------
    >>> from reconrisk import bounds
    >>> round(float(bounds.rero_renyi(8.0, 1.0, 0.01)), 4)
    0.0427
    """
    log_kappa = args.log_probability("prior_success", prior_success, log_prior_success)
    alpha = arguments.real("order", order, 1, low_open=True)
    budget = arguments.real("epsilon", epsilon, 0, np.inf, high_open=True)
    share = 1.0 - 1.0 / alpha
    return args.probability(np.minimum(share * (log_kappa + budget), 0.0), log)


def rero_pure(
    epsilon: ArrayLike,
    prior_success: ArrayLike | None = None,
    *,
    log_prior_success: ArrayLike | None = None,
    log: bool = False,
) -> np.ndarray:
    """Success of any attack on an ``(epsilon, 0)``-differentially private mechanism.

    ``min(e**epsilon kappa, 1 - e**-epsilon (1 - kappa))``: the blow-up function of the worst pair
    with likelihood ratios in ``[e**-epsilon, e**epsilon]``, and so the tightest bound under pure
    privacy. ``hayes2023`` states the first term after Theorem 2. The second, which follows from the
    definition for the complement, is smaller for ``kappa > 1/(1 + e**epsilon)``.

    Parameters
    ----------
    epsilon : array_like
        >= 0, nats, between the data sets with and without the record, in both directions.
    prior_success, log_prior_success, log
        As in :func:`rero_rdp`.

    Returns
    -------
    ndarray or float
        ``gamma`` in [kappa, 1] (or its logarithm).

    Raises
    ------
    ValueError
        If an argument is nan or out of its range, or not exactly one prior is given.

    Examples
    --------
    >>> from reconrisk import bounds
    >>> round(float(bounds.rero_pure(1.0, 0.1)), 4)
    0.2718
    """
    log_kappa = args.log_probability("prior_success", prior_success, log_prior_success)
    budget = arguments.real("epsilon", epsilon, 0, np.inf, high_open=True)
    other = special.log1mexp(special.log1mexp(log_kappa) - budget)
    return args.probability(np.minimum(log_kappa + budget, other), log)


def mse_lower_bound(
    noise_multiplier: ArrayLike,
    steps: ArrayLike = 1,
    diameter: ArrayLike = 1.0,
    *,
    log: bool = False,
) -> np.ndarray:
    """Least mean squared error of an unbiased attack on full-batch DP-SGD.

    ``diameter**2/(4 (exp(T/sigma**2) - 1))``: Guo et al. (2022a), Theorem 1, with the order-2
    Rényi divergence ``T/sigma**2`` (``hayes2023``, Appendix J; Section 2.1 does not define its
    ``epsilon``).

    Parameters
    ----------
    noise_multiplier : array_like
        ``sigma`` > 0.
    steps : array_like
        T, whole, >= 1.
    diameter : array_like
        Width of the range of each coordinate, > 0, data units; if the widths differ, their root
        mean square.
    log : bool
        Return the natural logarithm, which does not underflow.

    Returns
    -------
    ndarray or float
        Mean over the coordinates, > 0, squared data units.

    Raises
    ------
    ValueError
        If an argument is nan or out of its range.

    Notes
    -----
    The bound holds only for unbiased attacks. Guessing the centre of the range has a mean squared
    error of at most ``diameter**2/4``, which is below the bound if ``T/sigma**2 < log 2``.

    Examples
    --------
    >>> from reconrisk import bounds
    >>> round(float(bounds.mse_lower_bound(1.0)), 4)
    0.1455
    """
    sigma = args.positive("noise_multiplier", noise_multiplier)
    return mse_lower_bound_renyi(args.repeats(steps, "steps") / sigma**2, diameter, log=log)


def mse_lower_bound_renyi(
    epsilon: ArrayLike, diameter: ArrayLike = 1.0, *, log: bool = False
) -> np.ndarray:
    """Least mean squared error of an unbiased attack, from the order-2 Rényi divergence.

    ``diameter**2/(4 (exp(epsilon) - 1))``: Guo et al. (2022a), Theorem 1.

    Parameters
    ----------
    epsilon : array_like
        The Rényi divergence of order two, > 0, nats. Not the ``epsilon`` of (epsilon, delta).
    diameter, log
        As in :func:`mse_lower_bound`.

    Returns
    -------
    ndarray or float
        Mean over the coordinates, > 0, squared data units.

    Raises
    ------
    ValueError
        If an argument is nan or out of its range.

    Examples
    --------
    >>> from reconrisk import bounds
    >>> round(float(bounds.mse_lower_bound_renyi(1.0)), 4)
    0.1455
    """
    divergence = arguments.real("epsilon", epsilon, 0, np.inf, low_open=True, high_open=True)
    width = args.positive("diameter", diameter)
    log_expm1 = divergence + special.log1mexp(-divergence)
    return args.probability(2.0 * np.log(width) - np.log(4.0) - log_expm1, log)

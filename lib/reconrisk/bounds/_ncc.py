"""The exact distribution of the normalised cross-correlation (NCC) of record and reconstruction.

Subtract the means from the record ``x`` and from ``x + s g``. Both then lie in a space of N - 1
dimensions, in which the noise is isotropic, and the NCC is the cosine of the angle between the
centred record and a Gaussian vector around it. So ``r sqrt(N-2)/sqrt(1-r**2)`` has the non-central
t distribution with N - 2 degrees of freedom and non-centrality ``|x - mean|/s``.
``mean_to_extreme`` (section 6 and Remark B.1) states that no probabilistic statement about the
sample NCC is possible; this is one. As ``|x - mean| <= |x|``, the non-centrality is at most
``sqrt(repeats)/sigma`` for every record, which gives a bound in terms of the dimension and the
noise multiplier only.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from reconrisk import arguments, special
from reconrisk.bounds import _arguments as args

__all__ = ["contrast_of", "expected_ncc", "ncc_bound_paper", "ncc_quantile", "ncc_tail"]

MAX_NONCENTRALITY = 1e8


def contrast_of(signal: ArrayLike) -> float:
    """Contrast of a record, ``|x - mean(x)| / |x|``.

    Parameters
    ----------
    signal : array_like
        All values of one record, of any shape.

    Returns
    -------
    float
        In (0, 1].

    Raises
    ------
    ValueError
        If the record is constant (its NCC with anything is 0/0), empty or not finite.

    Examples
    --------
    >>> from reconrisk import bounds
    >>> round(float(bounds.contrast_of([1.0, 1.0, 0.0, 0.0])), 4)
    0.7071
    """
    x = arguments.real("signal", signal, -np.inf, np.inf, low_open=True, high_open=True).ravel()
    if x.size == 0:
        raise ValueError("signal must have at least one value; got none")
    scale = np.max(np.abs(x))
    if np.all(x == x[0]):
        raise ValueError(f"signal must not be constant (its NCC is undefined); got {x.item(0)!r}")
    x = x / scale
    return min(1.0, float(np.linalg.norm(x - x.mean()) / np.linalg.norm(x)))


def noncentrality(
    n: np.ndarray,
    noise_multiplier: ArrayLike,
    signal: ArrayLike | None,
    contrast: ArrayLike | None,
    count: ArrayLike,
) -> np.ndarray:
    """Return ``contrast * sqrt(repeats)/noise_multiplier``, from a signal or its contrast."""
    if signal is not None and contrast is not None:
        raise ValueError(f"give signal or contrast, not both; got contrast = {contrast!r} too")
    if signal is not None:
        size = np.size(signal)
        if np.any(n != size):
            raise ValueError(f"dimension must equal the size of signal, {size}; got {n.tolist()!r}")
        contrast = contrast_of(signal)
    share = arguments.real("contrast", 1.0 if contrast is None else contrast, 0, 1)
    delta = share / args.effective_noise(noise_multiplier, count)
    return arguments.real(
        "contrast * sqrt(repeats) / noise_multiplier", delta, 0, MAX_NONCENTRALITY
    )


def ncc_tail(
    threshold: ArrayLike,
    dimension: ArrayLike,
    noise_multiplier: ArrayLike,
    signal: ArrayLike | None = None,
    repeats: ArrayLike = 1,
    *,
    contrast: ArrayLike | None = None,
    log: bool = False,
) -> np.ndarray:
    """Probability that the NCC of record and reconstruction is at least a threshold.

    Exact for a record given by ``signal`` or ``contrast``. Without either, the largest probability
    over all records, that of any record with mean zero.

    Parameters
    ----------
    threshold : array_like
        In [-1, 1].
    dimension : array_like
        Entries of a record, N in [2, 1e12]. At N = 2 the NCC is 1 or -1.
    noise_multiplier : array_like
        ``sigma`` > 0.
    signal : array_like, optional
        The N values of one record, in any shape.
    repeats : array_like
        Number of averaged reconstructions, whole, >= 1.
    contrast : array_like, optional
        ``|x - mean(x)|/|x|`` in [0, 1], instead of ``signal``.
    log : bool
        Return the natural logarithm, which does not underflow.

    Returns
    -------
    ndarray or float
        In [0, 1] (or its logarithm).

    Raises
    ------
    ValueError
        If an argument is nan or out of its range, both ``signal`` and ``contrast`` are given, the
        size of the signal is not ``dimension``, the signal is constant, or the non-centrality
        ``contrast sqrt(repeats)/noise_multiplier`` exceeds 1e8.

    Notes
    -----
    :func:`reconrisk.special.log_cosine_tail` in N - 1 dimensions, with its accuracy and cost.

    Examples
    --------
    >>> from reconrisk import bounds
    >>> round(float(bounds.ncc_tail(0.35, 784, 0.1)), 4)
    0.3335
    """
    c = arguments.real("threshold", threshold, -1, 1)
    n = args.dimension(dimension, 2)
    delta = noncentrality(n, noise_multiplier, signal, contrast, repeats)
    return args.probability(special.log_cosine_tail(c, n - 1.0, delta), log)


def ncc_quantile(
    probability: ArrayLike | None,
    dimension: ArrayLike,
    noise_multiplier: ArrayLike,
    signal: ArrayLike | None = None,
    repeats: ArrayLike = 1,
    *,
    contrast: ArrayLike | None = None,
    log_probability: ArrayLike | None = None,
) -> np.ndarray:
    """The largest NCC that is reached or exceeded with at least a given probability.

    Inverse of :func:`ncc_tail` in its first argument.

    Parameters
    ----------
    probability : array_like or None
        In [0, 1]; None if ``log_probability`` is given.
    dimension, noise_multiplier, signal, repeats, contrast
        As in :func:`ncc_tail`.
    log_probability : array_like, optional
        In [-inf, 0].

    Returns
    -------
    ndarray or float
        In [-1, 1].

    Raises
    ------
    ValueError
        As :func:`ncc_tail`, and if not exactly one probability is given.

    Examples
    --------
    >>> from reconrisk import bounds
    >>> round(float(bounds.ncc_quantile(0.5, 784, 0.1)), 4)
    0.3368
    """
    log_p = args.log_probability("probability", probability, log_probability)
    n = args.dimension(dimension, 2)
    delta = noncentrality(n, noise_multiplier, signal, contrast, repeats)
    return special.log_cosine_quantile(log_p, n - 1.0, delta)


def expected_ncc(
    dimension: ArrayLike,
    noise_multiplier: ArrayLike,
    contrast: ArrayLike = 1.0,
    repeats: ArrayLike = 1,
) -> np.ndarray:
    """Exact expectation of the sample NCC of record and reconstruction.

    With ``k = contrast sqrt(repeats)/sigma``,

        E[r] = k sqrt(2/pi) * integral_0^1 exp(-k**2 t**2/2) (1 - t**2)**((N-2)/2) dt

    (for N = 2, ``erf(k/sqrt 2)``). ``ziller2024``, Proposition 3, eq. (7)-(8), and
    ``mean_to_extreme``, Proposition 6, eq. (28), give a ratio of expectations instead
    (:func:`ncc_bound_paper`), which this exceeds at contrast 1 for every N.

    Parameters
    ----------
    dimension : array_like
        N in [2, 1e12].
    noise_multiplier : array_like
        ``sigma`` > 0.
    contrast : array_like
        In [0, 1]; 1 for a record with mean zero.
    repeats : array_like
        Whole, >= 1.

    Returns
    -------
    ndarray or float
        In [0, 1); relative error below 1e-12.

    Raises
    ------
    ValueError
        If an argument is nan or out of its range.

    Examples
    --------
    >>> from reconrisk import bounds
    >>> round(float(bounds.expected_ncc(784, 0.1)), 4)
    0.3365
    """
    n = args.dimension(dimension, 2)
    k = noncentrality(n, noise_multiplier, None, contrast, repeats)
    n, k = np.broadcast_arrays(n, k)
    flat_n, flat_k = n.reshape(-1), k.reshape(-1)
    step = 0.7 / np.sqrt(flat_k**2 + flat_n + 25.0)
    # with t = tanh u the integrand is even and analytic on the line; the integral is half of it
    log_value = special.log_integral(_log_ncc_integrand, step, 0.5 * flat_k**2, 0.5 * flat_n)
    value = flat_k * np.exp(log_value) / np.sqrt(2.0 * np.pi)
    return np.minimum(value, 1.0).reshape(n.shape)[()]


def _log_ncc_integrand(u: np.ndarray, half_k2: np.ndarray, half_n: np.ndarray) -> np.ndarray:
    return -half_k2 * np.tanh(u) ** 2 - half_n * np.log1p(np.sinh(u) ** 2)


def ncc_bound_paper(
    dimension: ArrayLike, noise_multiplier: ArrayLike, repeats: ArrayLike = 1
) -> np.ndarray:
    """The printed "bound" on the NCC, ``sqrt(1/(1 + N sigma**2/repeats))``.

    ``mean_to_extreme``, Proposition 6, eq. (28); ``ziller2024``, Proposition 3, eq. (8), and the
    column "Max E[NCC]" of its Table 1. It is a ratio of population moments, which a single
    reconstruction exceeds with probability ``ncc_tail(ncc_bound_paper(N, s), N, s)``; the expected
    NCC of a record with mean zero exceeds it too.

    Parameters
    ----------
    dimension : array_like
        N in [1, 1e12].
    noise_multiplier, repeats : array_like
        As in :func:`ncc_tail`.

    Returns
    -------
    ndarray or float
        In (0, 1).

    Raises
    ------
    ValueError
        If an argument is nan or out of its range.

    Examples
    --------
    >>> from reconrisk import bounds
    >>> round(float(bounds.ncc_bound_paper(784, 0.1)), 4)
    0.3363
    """
    n = args.dimension(dimension)
    noise = args.effective_noise(noise_multiplier, repeats)
    return (1.0 / np.hypot(1.0, np.sqrt(n) * noise))[()]

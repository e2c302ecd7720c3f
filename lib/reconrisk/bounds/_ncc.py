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

import dataclasses
from typing import ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy import special as sc

from reconrisk import arguments, special
from reconrisk.bounds import _arguments as args
from reconrisk.bounds._laws import ReleaseLaw

__all__ = [
    "NCCLaw",
    "contrast_of",
    "expected_ncc",
    "ncc_bound_paper",
    "ncc_tail",
    "ncc_tail_sampled",
]

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
    x = arguments.finite("signal", signal).ravel()
    if x.size == 0:
        raise ValueError("signal must have at least one value; got none")
    scale = np.max(np.abs(x))
    if np.all(x == x[0]):
        raise ValueError(f"signal must not be constant (its NCC is undefined); got {x.item(0)!r}")
    x = x / scale
    return min(1.0, float(np.linalg.norm(x - x.mean()) / np.linalg.norm(x)))


@dataclasses.dataclass(frozen=True, eq=False)
class NCCLaw(ReleaseLaw):
    """The law of the NCC: of the cosine between a Gaussian vector in N - 1 dimensions and its mean.

    Parameters
    ----------
    dimension : array_like
        Entries of a record, N in [2, 1e12]. At N = 2 the NCC is 1 or -1, and has no density.
    noncentrality : array_like
        ``|x - mean(x)|/s`` in [0, 1e8].

    Examples
    --------
    >>> from reconrisk import bounds
    >>> law = bounds.NCCLaw.of_record(784, noise_multiplier=0.1)
    >>> round(float(law.mean()), 4), round(float(law.isf(0.5)), 4), round(float(law.pdf(0.35)), 4)
    (0.3365, 0.3368, 11.9256)
    """

    dimension: ArrayLike
    noncentrality: ArrayLike
    _upper: ClassVar[bool] = True

    def __post_init__(self) -> None:
        args.dimension(self.dimension, 2)
        arguments.real("noncentrality", self.noncentrality, 0, MAX_NONCENTRALITY)
        if self.selection is not None:
            most = np.sqrt(self.selection[0]) * self.noncentrality
            arguments.real("sqrt(steps) * noncentrality", most, 0, MAX_NONCENTRALITY)

    @classmethod
    def of_record(
        cls,
        dimension: ArrayLike,
        noise_multiplier: ArrayLike,
        signal: ArrayLike | None = None,
        repeats: ArrayLike = 1,
        *,
        contrast: ArrayLike | None = None,
    ) -> Self:
        """The law for one record, or with the largest NCC; as :func:`reconrisk.bounds.ncc_tail`."""
        n = args.dimension(dimension, 2)
        if signal is not None and contrast is not None:
            raise ValueError(f"give signal or contrast, not both; got contrast = {contrast!r} too")
        if signal is not None:
            size = np.size(signal)
            if np.any(n != size):
                raise ValueError(
                    f"dimension must equal the size of signal, {size}; got {n.tolist()!r}"
                )
            contrast = contrast_of(signal)
        share = arguments.real("contrast", 1.0 if contrast is None else contrast, 0, 1)
        delta = share / args.effective_noise(noise_multiplier, repeats)
        name = "contrast * sqrt(repeats) / noise_multiplier"
        return cls(n, arguments.real(name, delta, 0, MAX_NONCENTRALITY))

    def _columns(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the N - 1 dimensions and the non-centrality as arrays."""
        return np.asarray(self.dimension) - 1.0, np.asarray(self.noncentrality, dtype=float)

    def _log_tail(self, threshold: ArrayLike) -> np.ndarray:
        c = arguments.real("threshold", threshold, -1, 1)
        return self._mix(
            lambda k, c, d, m: special.log_cosine_tail(c, d, np.sqrt(k) * m), c, *self._columns()
        )

    def _tail_quantile(self, log_p: np.ndarray) -> np.ndarray:
        if self.selection is None:
            return special.log_cosine_quantile(log_p, *self._columns())
        log_top = self._log_tail(1.0)
        sign = np.where(log_p <= log_top, 1.0, -1.0)
        return np.where(self._columns()[0] == 1.0, sign, self._solve(log_p, lambda y: -np.tanh(y)))

    def pdf(self, value: ArrayLike, *, log: bool = False) -> np.ndarray:
        """Density at a value in (-1, 1), or its natural logarithm; for N >= 3."""
        c = arguments.real("value", value, -1, 1, low_open=True, high_open=True)
        args.dimension(self.dimension, 3)
        return args.probability(self._mix(_log_density, c, *self._columns()), log)

    def mean(self) -> np.ndarray:
        """Expectation of the sample NCC of record and reconstruction.

        With ``k`` the non-centrality,

            E[r] = k sqrt(2/pi) * integral_0^1 exp(-k**2 t**2/2) (1 - t**2)**((N-2)/2) dt

        (for N = 2, ``erf(k/sqrt 2)``); relative error below 1e-12.
        """
        n, k = np.broadcast_arrays(np.asarray(self.dimension, dtype=float), self.noncentrality)
        log_mean = self._mix(_log_mean, n, k) - self._log_selected()
        return np.minimum(np.exp(log_mean), 1.0)[()]


def _log_mean(copies: np.ndarray, n: np.ndarray, delta: np.ndarray) -> np.ndarray:
    n, k = np.broadcast_arrays(n, np.sqrt(copies) * delta)
    flat_n, flat_k = n.reshape(-1), k.reshape(-1)
    step = 0.7 / np.sqrt(flat_k**2 + flat_n + 25.0)
    # with t = tanh u the integrand is even and analytic on the line; the integral is half of it
    log_value = special.log_integral(_log_mean_integrand, step, 0.5 * flat_k**2, 0.5 * flat_n)
    with np.errstate(divide="ignore"):
        return (np.log(flat_k) + log_value - 0.5 * np.log(2.0 * np.pi)).reshape(n.shape)


def _log_mean_integrand(u: np.ndarray, half_k2: np.ndarray, half_n: np.ndarray) -> np.ndarray:
    return -half_k2 * np.tanh(u) ** 2 - half_n * np.log1p(np.sinh(u) ** 2)


def _log_density(copies: np.ndarray, c: np.ndarray, d: np.ndarray, delta: np.ndarray) -> np.ndarray:
    """Return the log-density of the cosine, that of cosine and norm integrated over the norm."""
    c, d, delta = np.broadcast_arrays(c, d, np.sqrt(copies) * delta)
    shape, (c, d, delta) = c.shape, (v.reshape(-1) for v in (c, d, delta))
    pull = c * delta
    root = np.sqrt(pull * pull + 4.0 * d)
    peak = np.where(pull > 0.0, 0.5 * (pull + root), 2.0 * d / (root - np.minimum(pull, 0.0)))
    step = 0.7 / np.sqrt(peak * peak + d + 25.0)
    log_norms = special.log_integral(_log_norm_integrand, step, d, 0.5 * peak * peak, pull * peak)
    log_norms += d * np.log(peak) - 0.5 * peak * peak + pull * peak - 0.5 * delta * delta
    half = 0.5 * (d - 1.0)
    log_area = 0.5 * np.log(2.0 / np.pi) - half * np.log(2.0) - sc.gammaln(half)
    return (log_area + (half - 1.0) * np.log1p(-c * c) + log_norms).reshape(shape)


def _log_norm_integrand(
    t: np.ndarray, d: np.ndarray, half_square: np.ndarray, pull: np.ndarray
) -> np.ndarray:
    return d * t - half_square * np.expm1(2.0 * t) + pull * np.expm1(t)


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
    law = NCCLaw.of_record(dimension, noise_multiplier, signal, repeats, contrast=contrast)
    return law.sf(threshold, log=log)


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

    The law is :meth:`NCCLaw.sampled`; without signal and contrast, the largest probability over all
    records.

    Arguments and what it returns as in :func:`ncc_tail`; each of the steps has the record with
    ``selection_probability``.

    Examples
    --------
    >>> from reconrisk import bounds
    >>> round(float(bounds.ncc_tail_sampled(0.7, 784, 0.1, 100, 0.1)), 4)
    0.7849
    """
    law = NCCLaw.of_record(dimension, noise_multiplier, signal, contrast=contrast)
    return law.sampled(steps, selection_probability).sf(threshold, log=log)


def expected_ncc(
    dimension: ArrayLike,
    noise_multiplier: ArrayLike,
    contrast: ArrayLike = 1.0,
    repeats: ArrayLike = 1,
) -> np.ndarray:
    """Exact expectation of the sample NCC of record and reconstruction, :meth:`NCCLaw.mean`.

    ``ziller2024``, Proposition 3, eq. (7)-(8), and ``mean_to_extreme``, Proposition 6, eq. (28),
    give a ratio of expectations instead (:func:`ncc_bound_paper`), which this exceeds at contrast 1
    for every N. At contrast 1, that of a record with mean zero, it is largest.

    Arguments and what it returns as in :func:`ncc_tail`.

    Examples
    --------
    >>> from reconrisk import bounds
    >>> round(float(bounds.expected_ncc(784, 0.1)), 4)
    0.3365
    """
    return NCCLaw.of_record(dimension, noise_multiplier, None, repeats, contrast=contrast).mean()


def ncc_bound_paper(
    dimension: ArrayLike, noise_multiplier: ArrayLike, repeats: ArrayLike = 1
) -> np.ndarray:
    """The printed "bound" on the NCC, ``sqrt(1/(1 + N sigma**2/repeats))``.

    ``mean_to_extreme``, Proposition 6, eq. (28); ``ziller2024``, Proposition 3, eq. (8), and the
    column "Max E[NCC]" of its Table 1. It is a ratio of population moments, which a single
    reconstruction exceeds with probability ``ncc_tail(ncc_bound_paper(N, s), N, s)``; the expected
    NCC of a record with mean zero exceeds it too.

    Arguments and what it returns as in :func:`ncc_tail`.

    Examples
    --------
    >>> from reconrisk import bounds
    >>> round(float(bounds.ncc_bound_paper(784, 0.1)), 4)
    0.3363
    """
    n = args.dimension(dimension)
    noise = args.effective_noise(noise_multiplier, repeats)
    return (1.0 / np.hypot(1.0, np.sqrt(n) * noise))[()]

"""The law of the mean squared error of a reconstruction, and of its variants.

The error of a reconstruction is Gaussian, ``N(b, s**2 I)``, so that ``MSE = s**2/N * Y`` with Y
non-central chi-square, N degrees of freedom and non-centrality ``|b|**2/s**2``
(``mean_to_extreme``, Theorem 2, eq. 22; ``ziller2024``, Proposition 5, eq. 11).
"""

from __future__ import annotations

import dataclasses
from typing import ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from reconrisk import arguments, special
from reconrisk.bounds import _arguments as args
from reconrisk.bounds._laws import ReleaseLaw

__all__ = [
    "MSELaw",
    "expected_mse",
    "expected_mse_clipped",
    "expected_mse_sampled",
    "expected_mse_shrunk",
    "mse_quantile",
    "mse_tail",
    "mse_tail_clipped",
    "mse_tail_sampled",
    "mse_tail_shrunk",
    "shrinkage_factor",
]


def noise_std(noise_multiplier: ArrayLike, data_norm: ArrayLike, count: ArrayLike) -> np.ndarray:
    """Return ``s``, the standard deviation of one entry of the averaged reconstruction."""
    std = args.effective_noise(noise_multiplier, count) * args.positive("data_norm", data_norm)
    return arguments.real("noise_multiplier * data_norm / sqrt(repeats)", std, 1e-140, 1e140)


def in_floats(name: str, value: np.ndarray, threshold: np.ndarray) -> np.ndarray:
    """Return ``value``, a multiple of ``threshold``; raise where it overflows or underflows."""
    inner = (threshold > 0.0) & np.isfinite(threshold)
    wrong = inner & ((value < 1e-280) | (value > 1e300))
    if np.any(wrong):
        at = np.broadcast_to(threshold, wrong.shape)[wrong].item(0)
        raise ValueError(
            f"threshold must be 0, inf, or such that {name} is in [1e-280, 1e+300]; got {at!r}"
        )
    return value


@dataclasses.dataclass(frozen=True, eq=False)
class MSELaw(ReleaseLaw):
    """The law of the mean squared error where the error is ``N(b, s**2 I)`` in N dimensions.

    Parameters
    ----------
    dimension : array_like
        Entries of a record, N in [1, 1e12].
    noise_std : array_like
        ``s`` in [1e-140, 1e140], data units.
    shift : array_like
        ``|b|/s``; probabilities of biased reconstructions need it below 3e7.

    Examples
    --------
    >>> from reconrisk import bounds
    >>> law = bounds.MSELaw.unbiased(784, noise_multiplier=0.1, data_norm=5.0)
    >>> round(float(law.mean()), 6), round(float(law.ppf(0.5)), 4), round(float(law.pdf(0.25)), 4)
    (0.25, 0.2498, 31.5879)
    >>> round(float(law.sampled(100, 0.1).cdf(0.03)), 3)
    0.696
    """

    dimension: ArrayLike
    noise_std: ArrayLike
    shift: ArrayLike = 0.0
    _upper: ClassVar[bool] = False

    def __post_init__(self) -> None:
        args.dimension(self.dimension)
        args.positive("noise_std", self.noise_std)
        arguments.real("shift", self.shift, 0, 1e280)
        if self.selection is not None and np.any(self.shift):
            raise ValueError("shift must be 0 in an average over sampled steps; got another")

    @classmethod
    def unbiased(
        cls,
        dimension: ArrayLike,
        noise_multiplier: ArrayLike,
        data_norm: ArrayLike,
        repeats: ArrayLike = 1,
    ) -> Self:
        """The law for the analytic attack; parameters as in :func:`reconrisk.bounds.mse_tail`."""
        return cls(args.dimension(dimension), noise_std(noise_multiplier, data_norm, repeats))

    @classmethod
    def clipped(
        cls,
        dimension: ArrayLike,
        noise_multiplier: ArrayLike,
        max_grad_norm: ArrayLike,
        data_norm: ArrayLike,
        repeats: ArrayLike = 1,
    ) -> Self:
        """The law for the single-row attack, whose reconstruction clipping biases.

        With one row and one step the observed gradient is ``beta X + N(0, C**2 sigma**2 I)`` with
        ``beta = 1/max(1, |X|/C)`` (``ziller2024``, eq. 3), which the attack does not rescale, so
        that ``|b| = (1 - beta) |X| = max(|X| - C, 0)``.
        """
        clip = args.positive("max_grad_norm", max_grad_norm)
        bias = np.maximum(arguments.real("data_norm", data_norm, 0, 1e140) - clip, 0.0)
        std = noise_std(noise_multiplier, clip, repeats)
        return cls(args.dimension(dimension), std, bias / std)

    @classmethod
    def shrunk(
        cls,
        dimension: ArrayLike,
        noise_multiplier: ArrayLike,
        data_norm: ArrayLike,
        repeats: ArrayLike = 1,
    ) -> Self:
        """The law for ``c X_hat`` at the :func:`~reconrisk.bounds.shrinkage_factor` ``c``.

        ``c X_hat - X = c s (g - m)`` with ``g`` standard normal and
        ``|m| = (1-c)|X|/(c s) = N sigma/sqrt(repeats)``.
        """
        n, noise = args.dimension(dimension), args.effective_noise(noise_multiplier, repeats)
        std = noise / (1.0 + n * noise * noise) * args.positive("data_norm", data_norm)
        return cls(n, std, n * noise)

    def _gamma_argument(self, threshold: np.ndarray) -> np.ndarray:
        """Return ``N * threshold / (2 s**2)``."""
        std = np.asarray(self.noise_std)
        with np.errstate(over="ignore"):
            x = 0.5 * np.asarray(self.dimension) * (threshold / std / std)
        return in_floats("dimension * threshold / (2 s**2)", x, threshold)

    def _log_tail(self, threshold: ArrayLike) -> np.ndarray:
        eta, n = arguments.real("threshold", threshold, 0), np.asarray(self.dimension, dtype=float)
        x = self._gamma_argument(eta)
        if np.any(self.shift):
            return special.log_noncentral_chi2_cdf(2.0 * x, n, np.square(self.shift))
        return self._mix(lambda k, x, a: special.log_gamma_lower(a, k * x), x, 0.5 * n)

    def _tail_quantile(self, log_p: np.ndarray) -> np.ndarray:
        if self.selection is None and not np.any(self.shift):
            n = np.asarray(self.dimension, dtype=float)
            x = special.log_gamma_quantile(0.5 * n, log_p)
            std = np.asarray(self.noise_std)
            return x * (2.0 / n) * std * std
        return self._solve(log_p, lambda y: self.mean() * np.exp(y))

    def pdf(self, value: ArrayLike, *, log: bool = False) -> np.ndarray:
        """Density at a value in (0, inf), per squared data unit, or its natural logarithm."""
        y = arguments.real("value", value, 0, np.inf, low_open=True, high_open=True)
        n, x = np.asarray(self.dimension, dtype=float), self._gamma_argument(y)
        # per unit of log y, which does not overflow
        log_density = self._mix(
            lambda k, x, a: special.log_gamma_density(a, k * x) + np.log(k * x), x, 0.5 * n
        )
        return args.probability(log_density + self._log_rise(x) - np.log(y), log)

    def _log_rise(self, x: np.ndarray) -> np.ndarray:
        """Return the log of the non-central density over the central one, at ``Y = 2 x``."""
        if not np.any(self.shift):
            return np.zeros(())
        n, shift = np.asarray(self.dimension), np.asarray(self.shift)
        z = shift * np.sqrt(2.0 * x)
        rise = special.log_iv_reduced(np.maximum(0.5 * n - 1.0, 0.0), z)
        line = np.logaddexp(z, -z) - np.log(2.0)
        return np.where(n == 1, line, rise) - 0.5 * shift * shift

    def mean(self) -> np.ndarray:
        """Expectation, ``s**2 E[1/K] + |b|**2/N``, squared data units."""
        log_inverse = self._mix(lambda k: -np.log(k)) - self._log_selected()
        square = np.square(np.asarray(self.noise_std) * self.shift) / self.dimension
        return (np.square(self.noise_std) * np.exp(log_inverse) + square)[()]


def mse_tail(
    threshold: ArrayLike,
    dimension: ArrayLike,
    noise_multiplier: ArrayLike,
    data_norm: ArrayLike,
    repeats: ArrayLike = 1,
    *,
    log: bool = False,
) -> np.ndarray:
    """Probability that the reconstruction's mean squared error is at most a threshold.

    ``P(MSE <= eta) = P(N/2, N eta repeats / (2 sigma**2 |X|**2))`` with the regularised lower
    incomplete gamma function: ``mean_to_extreme``, Theorem 2, eq. (23), and (with the smallest norm
    in the data) the bound of Proposition 3, eq. (24); ``ziller2024``, Proposition 6. It holds for
    the unbiased reconstruction, not for every estimator: for those see
    :func:`reconrisk.bounds.mse_tail_sphere`.

    Parameters
    ----------
    threshold : array_like
        ``eta`` in [0, inf], squared data units.
    dimension : array_like
        Entries of a record, N in [1, 1e12].
    noise_multiplier : array_like
        ``sigma`` > 0: noise standard deviation over clipping norm.
    data_norm : array_like
        Euclidean norm of the record, > 0, data units; the clipping norm for the second bound of
        eq. (24).
    repeats : array_like
        Number of averaged reconstructions, whole, >= 1.
    log : bool
        Return the natural logarithm, which does not underflow.

    Returns
    -------
    ndarray or float
        In [0, 1] (or its logarithm).

    Notes
    -----
    Relative error below 1e-11 down to 1e-300, besides that from rounding of the arguments: the
    condition number of the logarithm's absolute error is ``|N eta/(2 s**2) - N/2|``. About 0.1 s
    per million.

    Examples
    --------
    >>> from reconrisk import bounds
    >>> log_tail = bounds.mse_tail(0.02, 150_528, 0.001, 150.0, log=True)
    >>> round(float(log_tail) / 2.302585, 1)
    -220.0
    """
    return MSELaw.unbiased(dimension, noise_multiplier, data_norm, repeats).cdf(threshold, log=log)


def mse_quantile(
    probability: ArrayLike | None,
    dimension: ArrayLike,
    noise_multiplier: ArrayLike,
    data_norm: ArrayLike,
    repeats: ArrayLike = 1,
    *,
    log_probability: ArrayLike | None = None,
) -> np.ndarray:
    """The ``threshold`` at which :func:`mse_tail` has this value, or this logarithm.

    Give ``probability`` or ``log_probability``; other arguments as in :func:`mse_tail`.

    Examples
    --------
    >>> from reconrisk import bounds
    >>> middle = bounds.mse_quantile(0.5, 784, 0.1, 5.0)
    >>> round(float(bounds.mse_tail(middle, 784, 0.1, 5.0)), 6)
    0.5
    """
    law = MSELaw.unbiased(dimension, noise_multiplier, data_norm, repeats)
    return law.ppf(probability, log_probability=log_probability)


def expected_mse(
    noise_multiplier: ArrayLike, data_norm: ArrayLike, repeats: ArrayLike = 1
) -> np.ndarray:
    """Expected mean squared error of the attack's reconstruction, ``sigma**2 |X|**2 / repeats``.

    ``mean_to_extreme``, Proposition 2, eq. (21); with the clipping norm for ``data_norm`` it is the
    lower bound of ``ziller2024``, Proposition 1, eq. (5). It does not depend on the dimension.

    Arguments and what is returned as in :func:`mse_tail`.

    Examples
    --------
    >>> from reconrisk import bounds
    >>> round(float(bounds.expected_mse(0.1, data_norm=5.0, repeats=25)), 6)
    0.01
    """
    return MSELaw.unbiased(1, noise_multiplier, data_norm, repeats).mean()


def mse_tail_clipped(
    threshold: ArrayLike,
    dimension: ArrayLike,
    noise_multiplier: ArrayLike,
    max_grad_norm: ArrayLike,
    data_norm: ArrayLike,
    repeats: ArrayLike = 1,
    *,
    log: bool = False,
) -> np.ndarray:
    """Probability that the mean squared error of the single-row attack is at most a threshold.

    The law is :meth:`MSELaw.clipped` (``ziller2024``, Proposition 5, eq. 11).

    Arguments and what it returns as in :func:`mse_tail`, with the clipping norm ``max_grad_norm``.

    Examples
    --------
    >>> from reconrisk import bounds
    >>> round(float(bounds.mse_tail_clipped(0.03, 784, 0.1, 1.0, 5.0)), 4)
    0.3634
    """
    law = MSELaw.clipped(dimension, noise_multiplier, max_grad_norm, data_norm, repeats)
    return law.cdf(threshold, log=log)


def expected_mse_clipped(
    data_norm: ArrayLike,
    dimension: ArrayLike,
    noise_multiplier: ArrayLike,
    max_grad_norm: ArrayLike,
    repeats: ArrayLike = 1,
) -> np.ndarray:
    """Expected mean squared error of the single-row attack's reconstruction.

    ``(1 - beta)**2 |X|**2/N + C**2 sigma**2/repeats``, the mean of :meth:`MSELaw.clipped`:
    ``ziller2024``, Proposition 1, eq. (4); for the average of several steps, Proposition 4, eq.
    (10).

    Arguments and what it returns as in :func:`mse_tail`, with the clipping norm ``max_grad_norm``.

    Examples
    --------
    >>> from reconrisk import bounds
    >>> round(float(bounds.expected_mse_clipped(5.0, 784, 0.1, max_grad_norm=1.0)), 4)
    0.0304
    """
    return MSELaw.clipped(dimension, noise_multiplier, max_grad_norm, data_norm, repeats).mean()


def shrinkage_factor(
    dimension: ArrayLike, noise_multiplier: ArrayLike, repeats: ArrayLike = 1
) -> np.ndarray:
    """The factor ``1/(1 + N sigma**2/repeats)`` that minimises the error of ``c X_hat``.

    ``E |c X_hat - X|**2 = (1-c)**2 |X|**2 + c**2 N sigma**2 |X|**2``: because the noise grows with
    the record's norm, the minimiser does not depend on the record.

    Arguments and what it returns as in :func:`mse_tail`.

    Examples
    --------
    >>> from reconrisk import bounds
    >>> round(float(bounds.shrinkage_factor(100, 0.1)), 6)
    0.5
    """
    n = args.dimension(dimension)
    return (1.0 / (1.0 + n * args.effective_noise(noise_multiplier, repeats) ** 2))[()]


def mse_tail_shrunk(
    threshold: ArrayLike,
    dimension: ArrayLike,
    noise_multiplier: ArrayLike,
    data_norm: ArrayLike,
    repeats: ArrayLike = 1,
    *,
    log: bool = False,
) -> np.ndarray:
    """Probability that the mean squared error of the shrunk reconstruction is at most a threshold.

    The law is :meth:`MSELaw.shrunk`, for ``N sigma/sqrt(repeats)`` up to 3e7.

    Arguments and what is returned as in :func:`mse_tail`.

    Examples
    --------
    >>> from reconrisk import bounds
    >>> round(float(bounds.mse_tail_shrunk(0.0285, 784, 0.1, 5.0)), 3)
    0.632
    """
    return MSELaw.shrunk(dimension, noise_multiplier, data_norm, repeats).cdf(threshold, log=log)


def expected_mse_shrunk(
    dimension: ArrayLike,
    noise_multiplier: ArrayLike,
    data_norm: ArrayLike,
    repeats: ArrayLike = 1,
) -> np.ndarray:
    """Expected mean squared error of ``c X_hat`` at the :func:`shrinkage_factor` ``c``: ``c s**2``.

    Arguments and what is returned as in :func:`mse_tail`.

    Examples
    --------
    >>> from reconrisk import bounds
    >>> unbiased = bounds.expected_mse(0.1, data_norm=5.0)
    >>> round(float(unbiased / bounds.expected_mse_shrunk(784, 0.1, 5.0)), 6)
    8.84
    """
    return MSELaw.shrunk(dimension, noise_multiplier, data_norm, repeats).mean()


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

    The law is :meth:`MSELaw.sampled`.

    Arguments and what it returns as in :func:`mse_tail`, and those of :meth:`MSELaw.sampled`:
    ``steps``, each of which has the record with ``selection_probability``.

    Examples
    --------
    >>> from reconrisk import bounds
    >>> value = bounds.mse_tail_sampled(0.03, 784, 0.1, 5.0, 100, selection_probability=0.1)
    >>> round(float(value), 3)
    0.696
    """
    law = MSELaw.unbiased(dimension, noise_multiplier, data_norm)
    return law.sampled(steps, selection_probability).cdf(threshold, log=log)


def expected_mse_sampled(
    noise_multiplier: ArrayLike,
    data_norm: ArrayLike,
    steps: ArrayLike,
    selection_probability: ArrayLike,
) -> np.ndarray:
    """Expected MSE of the average, given that at least one step selects the record.

    ``s**2 E[1/K | K >= 1]``; for K = 0 there is no reconstruction.

    Arguments and what it returns as in :func:`mse_tail`, and those of :meth:`MSELaw.sampled`:
    ``steps``, each of which has the record with ``selection_probability``.

    Examples
    --------
    >>> from reconrisk import bounds
    >>> round(float(bounds.expected_mse_sampled(0.1, 5.0, steps=100, selection_probability=0.1)), 4)
    0.0279
    """
    law = MSELaw.unbiased(1, noise_multiplier, data_norm)
    return law.sampled(steps, selection_probability).mean()

"""The law of the peak signal-to-noise ratio, ``10 log10(range**2 / MSE)`` in decibel."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike
from scipy import special as sc

from reconrisk import arguments, special
from reconrisk.bounds import _arguments as args
from reconrisk.bounds._laws import Law
from reconrisk.bounds._mse import MSELaw, noise_std

__all__ = ["PSNRLaw", "expected_psnr", "psnr_bound_paper", "psnr_tail", "psnr_tail_sampled"]

_DECIBEL = 10.0 / np.log(10.0)


def _span(data_range: ArrayLike) -> np.ndarray:
    return arguments.real("data_range", data_range, 1e-50, 1e50)


@dataclasses.dataclass(frozen=True, eq=False)
class PSNRLaw(Law):
    """The law of the PSNR, by that of the mean squared error.

    A PSNR of ``eta`` is an MSE of ``data_range**2 10**(-eta/10)``: ``mean_to_extreme``,
    Proposition 4 (eta-tilde), which translates statements on the one into statements on the other;
    ``ziller2024``, eq. (14).

    Parameters
    ----------
    mse : MSELaw
        Of the same reconstruction.
    data_range : array_like
        Largest minus smallest value, in [1e-50, 1e50], data units.

    Examples
    --------
    >>> from reconrisk import bounds
    >>> law = bounds.PSNRLaw(bounds.MSELaw.unbiased(784, 0.01, 5.0), data_range=1.0)
    >>> round(float(law.mean()), 2), round(float(law.isf(0.5)), 4), round(float(law.pdf(26.0)), 4)
    (26.03, 26.0243, 1.8103)
    """

    mse: MSELaw
    data_range: ArrayLike
    _upper: ClassVar[bool] = True

    def __post_init__(self) -> None:
        _span(self.data_range)

    def _error(self, name: str, psnr: ArrayLike) -> np.ndarray:
        """Return the mean squared error at a PSNR in [-1000, 1000] dB."""
        value = arguments.real(name, psnr, -1000, 1000)
        return np.square(self.data_range) * 10.0 ** (-value / 10.0)

    def _log_tail(self, threshold: ArrayLike) -> np.ndarray:
        return self.mse._log_tail(self._error("threshold", threshold))

    def _tail_quantile(self, log_p: np.ndarray) -> np.ndarray:
        with np.errstate(divide="ignore"):
            log_error = np.log(self.mse.ppf(None, log_probability=log_p))
        return _DECIBEL * (2.0 * np.log(self.data_range) - log_error)

    def pdf(self, value: ArrayLike, *, log: bool = False) -> np.ndarray:
        """Density at a value in [-1000, 1000] dB, per decibel, or its natural logarithm."""
        y = self._error("value", value)
        return args.probability(self.mse.pdf(y, log=True) + np.log(y) - np.log(_DECIBEL), log)

    def mean(self) -> np.ndarray:
        """Expectation, in decibel.

        ``10 log10(range**2/s**2) + (10/ln 10) (ln(N/2) - digamma(N/2))`` for an unbiased
        reconstruction, because the logarithm of a chi-square variable has mean
        ``ln 2 + digamma(N/2)``; plus ``10 E log10 K`` for K releases.
        """
        law, a = self.mse, 0.5 * np.asarray(self.mse.dimension, dtype=float)
        gain = _log_minus_digamma(a) - _log_gain(a, 0.5 * np.square(law.shift))
        if law.selection is not None:
            with np.errstate(divide="ignore"):
                log_log = law._mix(lambda k: np.log(np.log(k))) - law._log_selected()
            gain = gain + np.exp(log_log)
        return (_DECIBEL * (2.0 * np.log(np.asarray(self.data_range) / law.noise_std) + gain))[()]


def _log_minus_digamma(a: np.ndarray) -> np.ndarray:
    """Return ``ln a - digamma(a)``, by DLMF 5.11.2 where the two nearly cancel."""
    large = np.maximum(a, 10.0)
    w = 1.0 / (large * large)
    series = 1 / 12 - w * (1 / 120 - w * (1 / 252 - w * (1 / 240 - w * (1 / 132))))
    direct = np.log(a) - sc.digamma(a)
    return np.where(a > 10.0, 0.5 / large + w * series, direct)


def _log_gain(a: np.ndarray, m: np.ndarray) -> np.ndarray:
    """Return by how much non-centrality ``2 m`` raises the mean log of chi-square, ``a = N/2``.

    The mean of ``digamma(a + J) - digamma(a)`` over Poisson ``J`` of mean ``m``, which is
    ``integral_0^1 (1 - u)**(a-1) (1 - exp(-m u))/u du``.
    """
    if not np.any(m):
        return np.zeros(())
    a, m = np.broadcast_arrays(a, np.maximum(m, 1e-300))
    # u = 1/(1 + exp(-w - centre)): the integrand is analytic, and no narrower than about one
    centre = np.log(np.log1p(m / a) / m)

    def log_integrand(w: np.ndarray, centre, a, m) -> np.ndarray:
        log_u = -np.logaddexp(0.0, -w - centre)
        return np.log(-np.expm1(-m * np.exp(log_u))) - a * np.logaddexp(0.0, w + centre)

    flat = [v.reshape(-1) for v in (centre, a, m)]
    log_value = special.log_integral(log_integrand, np.full(a.size, 0.125), *flat)
    return np.exp(log_value).reshape(a.shape)


def psnr_tail(
    threshold: ArrayLike,
    dimension: ArrayLike,
    noise_multiplier: ArrayLike,
    data_norm: ArrayLike,
    data_range: ArrayLike,
    repeats: ArrayLike = 1,
    *,
    log: bool = False,
) -> np.ndarray:
    """Probability that the PSNR of the attack's reconstruction is at least a threshold.

    ``P(PSNR >= eta) = P(N/2, N eta~ repeats/(2 sigma**2 |X|**2))``,
    ``eta~ = data_range**2 10**(-eta/10)``: ``mean_to_extreme``, Proposition 4, eq. (25);
    ``ziller2024``, Proposition 7, states the complement.

    Parameters
    ----------
    threshold : array_like
        ``eta`` in [-1000, 1000] dB.
    dimension, noise_multiplier, data_norm, repeats : array_like
        As in :func:`reconrisk.bounds.mse_tail`.
    data_range : array_like
        Largest minus smallest value, in [1e-50, 1e50], data units.
    log : bool
        Return the natural logarithm.

    Returns
    -------
    ndarray or float
        In [0, 1] (or its logarithm).

    Examples
    --------
    >>> from reconrisk import bounds
    >>> round(float(bounds.psnr_tail(26.0, 784, 0.01, 5.0, data_range=1.0)), 4)
    0.5441
    """
    errors = MSELaw.unbiased(dimension, noise_multiplier, data_norm, repeats)
    return PSNRLaw(errors, data_range).sf(threshold, log=log)


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

    The law is that of :meth:`MSELaw.sampled`.

    Arguments and what it returns as in :func:`psnr_tail`; each of the steps has the record with
    ``selection_probability``.

    Examples
    --------
    >>> from reconrisk import bounds
    >>> round(float(bounds.psnr_tail_sampled(15.0, 784, 0.1, 5.0, 1.0, 100, 0.1)), 4)
    0.7483
    """
    errors = MSELaw.unbiased(dimension, noise_multiplier, data_norm)
    return PSNRLaw(errors.sampled(steps, selection_probability), data_range).sf(threshold, log=log)


def expected_psnr(
    dimension: ArrayLike,
    noise_multiplier: ArrayLike,
    data_norm: ArrayLike,
    data_range: ArrayLike,
    repeats: ArrayLike = 1,
) -> np.ndarray:
    """Exact expected PSNR of the attack's reconstruction, :meth:`PSNRLaw.mean`.

    The printed upper bound of ``ziller2024``, Proposition 2, eq. (6), lacks the term
    ``ln(N/2) - digamma(N/2)``, about ``4.34/N`` dB, and so is too small.

    Arguments and what it returns as in :func:`psnr_tail`.

    Examples
    --------
    >>> from reconrisk import bounds
    >>> round(float(bounds.expected_psnr(784, 0.01, 5.0, data_range=1.0)), 2)
    26.03
    """
    errors = MSELaw.unbiased(dimension, noise_multiplier, data_norm, repeats)
    return PSNRLaw(errors, data_range).mean()


def psnr_bound_paper(
    noise_multiplier: ArrayLike,
    data_norm: ArrayLike,
    data_range: ArrayLike,
    repeats: ArrayLike = 1,
) -> np.ndarray:
    """The printed "upper bound" on the expected PSNR, ``10 log10(range**2/s**2)``.

    ``ziller2024``, Proposition 2, eq. (6), and the column "Max E[PSNR]" of its Table 1 (with the
    clipping norm for ``data_norm``). Jensen's inequality is applied there in the wrong direction:
    without clipping it is a lower bound. For comparison with :func:`expected_psnr`.

    Arguments and what it returns as in :func:`psnr_tail`.

    Examples
    --------
    >>> from reconrisk import bounds
    >>> round(float(bounds.psnr_bound_paper(0.1, 5.0, data_range=1.0)), 4)
    6.0206
    """
    std = noise_std(noise_multiplier, data_norm, repeats)
    return (2.0 * _DECIBEL * np.log(_span(data_range) / std))[()]

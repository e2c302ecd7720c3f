"""Reconstruction robustness (ReRo) of DP-SGD where it has a closed form.

``(eta, gamma)``-ReRo: no attack reconstructs a record within error ``eta`` with more than
probability ``gamma`` (Balle et al. 2022, Definition 2). For the Gaussian mechanism the trade-off
curve between the outputs without and with the record turns the probability ``kappa`` of success
before seeing the output into ``gamma`` (Hayes et al. 2023, Theorem 2; Kaissis et al. 2023).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from reconrisk import special
from reconrisk._types import DPSGD, Enclosure
from reconrisk.bounds import _arguments as args

__all__ = ["rero", "rero_gaussian"]

_ULP = 2.0**-52


def rero_gaussian(
    noise_multiplier: ArrayLike,
    prior_success: ArrayLike | None = None,
    *,
    log_prior_success: ArrayLike | None = None,
    steps: ArrayLike = 1,
    log: bool = False,
) -> np.ndarray:
    """Largest success of any attack on full-batch DP-SGD, ``Phi(Phi**-1(kappa) + sqrt(T)/sigma)``.

    Hayes et al. (2023), Theorem 2 and Corollary 4 at sampling rate one, where the likelihood ratio
    is monotone and the bound is exact for its trade-off curve; ``ziller2024``, Table 1, column
    "Worst-Case Success".

    Parameters
    ----------
    noise_multiplier : array_like
        ``sigma`` > 0.
    prior_success : array_like, optional
        ``kappa`` in [0, 1]; zero gives zero.
    log_prior_success : array_like, optional
        ``log kappa`` in [-inf, 0] instead, for priors that underflow (tested to -1e6).
    steps : array_like
        T, whole, >= 1.
    log : bool
        Return ``log gamma``.

    Returns
    -------
    ndarray or float
        ``gamma`` in [kappa, 1] (or its logarithm).

    Raises
    ------
    ValueError
        If an argument is nan or out of its range, or not exactly one prior is given.
    """
    log_kappa = args.log_probability(
        "prior_success", prior_success, log_prior_success, "log_prior_success"
    )
    sigma = args.positive("noise_multiplier", noise_multiplier)
    shift = np.sqrt(args.repeats(steps, "steps")) / sigma
    return args.probability(special.log_normal_cdf_shifted(log_kappa, shift), log)


def rero(
    run: DPSGD,
    prior_success: float | None = None,
    log_prior_success: float | None = None,
    *,
    log: bool = False,
) -> Enclosure:
    """Certified success of any attack on a run of DP-SGD, where there is a closed form.

    - sampling rate 1, any number of steps: ``Phi(Phi**-1(kappa) + sqrt(T)/sigma)``;
    - one step, any sampling rate q: ``(1 - q) kappa + q Phi(Phi**-1(kappa) + 1/sigma)``, because
      the likelihood ratio of the mixture is an increasing function of that at q = 1.

    One-sided as in Hayes et al. (2023): the record is added to a fixed data set.

    Parameters
    ----------
    run : DPSGD
        What was run; the clipping norm does not matter.
    prior_success : float, optional
        ``kappa`` in [0, 1].
    log_prior_success : float, optional
        ``log kappa`` in [-inf, 0] instead.
    log : bool
        Enclose ``log gamma`` instead of ``gamma``.

    Returns
    -------
    Enclosure
        Contains ``gamma``; its half-width is a bound on the rounding errors of the closed form,
        ``2**-52 (64 + 8 (1 + mu)(|z| + mu) + 8 |log gamma|)`` relative to ``gamma``, with
        ``z = Phi**-1(kappa)`` and ``mu = sqrt(T)/sigma`` (the last two without effect where
        ``Phi`` has reached one).

    Raises
    ------
    TypeError
        If ``run`` is not a :class:`~reconrisk.DPSGD` or a prior is not a single number.
    ValueError
        If not exactly one prior is given or it is out of range, or if the run has a sampling rate
        below one and more than one step: the sub-sampled composition has no closed form.
    """
    if not isinstance(run, DPSGD):
        raise TypeError(f"run must be a DPSGD; got {run!r}")
    log_kappa = args.log_probability(
        "prior_success", prior_success, log_prior_success, "log_prior_success"
    )
    if log_kappa.ndim:
        raise TypeError("the prior success of rero must be a single number; see rero_gaussian")
    if run.sampling_rate < 1 and run.steps > 1:
        raise ValueError(
            "rero has closed forms for sampling_rate = 1 or steps = 1 only; the sub-sampled "
            f"composition at sampling_rate = {run.sampling_rate!r}, steps = {run.steps!r} is not "
            "computed here"
        )
    if log_kappa == -np.inf:
        return Enclosure(-np.inf, -np.inf) if log else Enclosure(0.0, 0.0)
    shift = np.sqrt(float(run.steps)) / float(run.noise_multiplier)
    log_gamma = float(special.log_normal_cdf_shifted(log_kappa, shift))
    error = _rounding(float(log_kappa), shift, log_gamma)
    q = float(run.sampling_rate)
    if q < 1.0:
        log_gamma = float(np.logaddexp(np.log1p(-q) + log_kappa, np.log(q) + log_gamma))
        error += _ULP * (16.0 + 4.0 * (abs(np.log(q)) + abs(np.log1p(-q)) + abs(float(log_kappa))))
    # gamma lies between kappa and one, whatever the rounding.
    low = float(max(log_gamma - error, float(log_kappa) * (1.0 + _ULP)))
    high = float(min(log_gamma + error, 0.0))
    if log:
        return Enclosure(low, high)
    smallest = 5e-324
    return Enclosure(
        max(float(np.exp(low)) * (1.0 - 4.0 * _ULP) - smallest, 0.0),
        min(float(np.exp(high)) * (1.0 + 4.0 * _ULP) + smallest, 1.0),
    )


def _rounding(log_kappa: float, shift: float, log_gamma: float) -> float:
    """Return a bound on the absolute error of the computed ``log gamma``.

    The quantile's rounding, a few units of ``|z|``, moves ``log Phi(z + mu)`` by the inverse Mills
    ratio at ``z + mu`` (at most ``|z| + 1``, less ``mu``) without the deep branch, and by at most
    ``1 + mu`` with it; the rest are roundings of the terms themselves.
    """
    z = float(special.log_normal_quantile(log_kappa))
    top = z + shift
    mills = np.exp(-0.5 * top * top - log_gamma) if top > -30.0 else abs(top) + 1.0
    sensitivity = min(1.0 + shift, mills + 1e-300) if z < -5.0 and top < 0.0 else mills
    terms = 64.0 + 8.0 * sensitivity * (abs(z) + shift) + 8.0 * abs(log_gamma)
    if log_gamma > -1e-3:
        # Relative to the small 1 - gamma every term shrinks; the constant stays for safety.
        terms = 64.0 + 8.0 * sensitivity * (abs(z) + shift)
    return _ULP * terms

"""Reconstruction robustness from samples: Algorithm 1, and a confidence interval.

Under ``nu`` each step's output is noise. Under ``mu`` the record's gradient is added with
probability q. The log-likelihood ratio of ``mu`` to ``nu``, a sufficient statistic, is the sum over
the steps of ``log(1 - q + q exp(z / sigma - 1 / (2 sigma**2)))``.
"""

from __future__ import annotations

import math

import numpy as np
from scipy import special as sc

from reconrisk import arguments
from reconrisk._types import DPSGD, Enclosure, check_run
from reconrisk.special._confidence import lower_limit, upper_limit

__all__ = ["rero_algorithm1", "rero_monte_carlo"]

NORMALISATIONS = ("samples", "kept", "ratios", "complement")

#: numbers drawn at a time: 16 MB
_CHUNK = 2_000_000
#: beyond them the draws of one call take gigabytes
_MOST_SAMPLES = 10**9


def rero_algorithm1(
    run: DPSGD,
    prior_success: float,
    samples: int,
    rng: np.random.Generator,
    *,
    normalisation: str = "samples",
) -> float:
    """Estimate ``gamma`` by Algorithm 1 of Hayes et al. (2023), Section 3.3.

    Draws N outputs without the record and sums the ``ceil(kappa N)`` largest likelihood ratios of
    ``mu`` to ``nu``.

    Parameters
    ----------
    run : DPSGD
    prior_success : float
        ``kappa`` in (0, 1].
    samples : int
        N >= 1.
    rng : numpy.random.Generator
        Source of the draws.
    normalisation : {"samples", "kept", "ratios", "complement"}
        Divisor of the sum: N, for an unbiased estimate of the probability of the kept event; the
        number kept, as printed, which estimates ``gamma / kappa``; or the sum of all ratios, whose
        expectation is N. With ``"complement"`` one minus the sum of all other ratios over N.

    Returns
    -------
    float
        The estimate, neither an upper nor a lower bound on ``gamma``.

    Raises
    ------
    TypeError, ValueError
        If an argument has the wrong type or is out of its range.

    Notes
    -----
    N T normal draws for q < 1, N for q = 1, where the log-ratio is normal. The variance
    under ``nu`` grows like ``exp(T / sigma**2)`` at q = 1: beyond ``sqrt(T) / sigma`` of about
    three, a million samples miss most of ``gamma``. The complement does not: it sums only ratios
    below the threshold, which at q = 1 is at most ``exp(z**2 / 2)`` with z the normal quantile of
    ``1 - kappa``, whatever sigma and T. Its error is the smallest where ``gamma`` is large, and
    larger than that of the others where ``gamma`` is near ``kappa``.

    Examples
    --------
    >>> import numpy as np
    >>> from reconrisk import DPSGD, bounds
    >>> found = bounds.rero_algorithm1(DPSGD(1.0), 0.1, 50_000, np.random.default_rng(0))
    >>> abs(found - 0.389) < 0.05
    True
    """
    samples = _check_arguments(run, prior_success, samples)
    if not prior_success > 0:
        raise ValueError(f"prior_success must be in (0, 1]; got {arguments.shown(prior_success)}")
    arguments.one_of("normalisation", normalisation, NORMALISATIONS)
    log_ratios = _log_ratios(run, samples, rng, with_record=False)
    kept = math.ceil(prior_success * samples)
    if normalisation == "complement":
        others = np.partition(log_ratios, samples - kept)[: samples - kept]
        return 1.0 - float(np.exp(others).sum()) / samples
    log_sum = float(sc.logsumexp(np.partition(log_ratios, samples - kept)[samples - kept :]))
    log_total = {
        "samples": math.log(samples),
        "kept": math.log(kept),
        "ratios": float(sc.logsumexp(log_ratios)),
    }
    return math.exp(log_sum - log_total[normalisation])


def rero_monte_carlo(
    run: DPSGD,
    prior_success: float,
    samples: int,
    seed: int,
    confidence: float = 0.999,
) -> Enclosure:
    """Confidence interval for ``gamma``, by the Neyman-Pearson lemma.

    Two thresholds of the log-likelihood ratio come from N draws under ``nu``: order statistics
    whose levels are above and below ``kappa``. (The ratio's distribution is continuous, so that the
    level of the k-th largest has a beta distribution.) Independent draws under ``mu`` estimate the
    power of both tests, with Clopper-Pearson limits; ``gamma`` lies between the two powers. Each of
    the four ways to fail has probability at most ``(1 - confidence)/4``.

    Parameters
    ----------
    run : DPSGD
    prior_success : float
        ``kappa`` in [0, 1].
    samples : int
        N >= 1, under each of ``nu`` and ``mu``.
    seed : int
        Non-negative.
    confidence : float
        In (0, 1): probability that both ends are valid.

    Returns
    -------
    Enclosure
        Within ``[kappa, 1]``. Unlike the error of Algorithm 1, its width does not depend on the
        second moment of the ratio; it is proportional to ``1 / sqrt(N)`` once ``kappa N`` is well
        above one.

    Raises
    ------
    TypeError, ValueError
        If an argument has the wrong type or is out of its range.

    Notes
    -----
    2 N T normal draws for q < 1, 2 N for q = 1.

    Examples
    --------
    >>> from reconrisk import DPSGD, bounds
    >>> found = bounds.rero_monte_carlo(DPSGD(1.0), 0.1, samples=20_000, seed=0)
    >>> found.lower < float(bounds.rero_gaussian(1.0, 0.1)) < found.upper
    True
    """
    samples = _check_arguments(run, prior_success, samples)
    seed = arguments.count("seed", seed, 0)
    arguments.real("confidence", confidence, 0, 1, low_open=True, high_open=True)
    kappa = float(prior_success)
    if kappa in (0.0, 1.0):
        return Enclosure(kappa, kappa)
    from scipy import stats  # takes half a second to import

    rng = np.random.default_rng(seed)
    without = np.sort(_log_ratios(run, samples, rng, with_record=False))[::-1]
    power = np.sort(_log_ratios(run, samples, rng, with_record=True))
    risk = (1.0 - confidence) / 4.0
    level = stats.binom(samples, kappa)
    # the k-th largest has level at least kappa with probability P(Bin(N, kappa) <= k - 1)
    above = int(level.isf(risk)) + 1
    # and at most kappa with probability P(Bin(N, kappa) >= k)
    below = int(level.ppf(risk))
    upper, lower = 1.0, kappa
    if above <= samples:
        upper = upper_limit(samples - np.searchsorted(power, without[above - 1]), samples, risk)
    if below >= 1:
        passed = samples - np.searchsorted(power, without[below - 1], side="right")
        lower = max(lower_limit(passed, samples, risk), kappa)
    return Enclosure(min(lower, 1.0), max(upper, lower))


def _check_arguments(run: DPSGD, prior_success: float, samples: int) -> int:
    """Check the arguments and return the number of samples."""
    check_run(run)
    arguments.real("prior_success", prior_success, 0, 1)
    return arguments.count("samples", samples, 1, _MOST_SAMPLES)


def _log_ratios(
    run: DPSGD, samples: int, rng: np.random.Generator, *, with_record: bool
) -> np.ndarray:
    """Draw the log-likelihood ratio of a run, without or with the record, shape (samples,)."""
    q, steps, shift = run.sampling_rate, int(run.steps), 1.0 / run.noise_multiplier
    if q == 1.0:
        # the sum over the steps is one normal variable
        whole = math.sqrt(steps) * shift
        return whole * rng.standard_normal(samples) + (0.5 if with_record else -0.5) * whole**2
    out = np.empty(samples)
    rows = max(1, _CHUNK // steps)
    for start in range(0, samples, rows):
        stop = min(start + rows, samples)
        noise = rng.standard_normal((stop - start, steps))
        if with_record:
            noise += shift * (rng.random(noise.shape) < q)
        # log(1 - q + q e^x) with x = shift * noise - shift**2 / 2
        noise *= shift
        noise += math.log(q) - math.log1p(-q) - 0.5 * shift**2
        out[start:stop] = np.logaddexp(noise, 0.0).sum(axis=1) + steps * math.log1p(-q)
    return out

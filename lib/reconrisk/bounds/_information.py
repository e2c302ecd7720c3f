"""Bounds through mutual information: Fano's inequality after Guo et al. (2022b).

``hayes2023``, Appendix H, eqs. (4) and (5), and what the comparison needs: the advantage, the
closed-form bound on the mutual information of a Gaussian mechanism, its Monte Carlo estimate, and
its exact value for orthogonal candidates. All in nats.

A candidate is the mean output of the mechanism for one possible record; with clipping norm one and
noise multiplier ``sigma`` it is a vector of norm at most ``1/sigma`` in units of the noise. Table 2
of ``hayes2023`` has orthonormal candidates, at a distance of ``sqrt(2)/sigma``.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy import special as sc

from reconrisk import arguments
from reconrisk.bounds import _arguments as args
from reconrisk.special._roots import monotone_root
from reconrisk.special._stirling import divergence

__all__ = [
    "advantage",
    "fano_success",
    "information_success",
    "mutual_information_bound",
    "mutual_information_monte_carlo",
    "mutual_information_orthogonal",
]


def advantage(success: ArrayLike, prior_success: ArrayLike) -> np.ndarray:
    """Advantage of an attack over the best guess, ``(s - kappa)/(1 - kappa)``.

    ``hayes2023``, eq. (4).

    Parameters
    ----------
    success : array_like
        s in [0, 1]: a bound or a measured frequency.
    prior_success : array_like
        ``kappa`` in [0, 1).

    Returns
    -------
    ndarray or float
        At most one; negative if ``s < kappa``.

    Raises
    ------
    ValueError
        If an argument is nan or out of its range.

    Examples
    --------
    >>> from reconrisk import bounds
    >>> round(float(bounds.advantage(0.55, 0.1)), 6)
    0.5
    """
    s = arguments.real("success", success, 0, 1)
    kappa = arguments.real("prior_success", prior_success, 0, 1, high_open=True)
    return ((s - kappa) / (1.0 - kappa))[()]


@np.errstate(under="ignore")
def fano_success(
    mutual_information: ArrayLike,
    prior_size: ArrayLike | None = None,
    *,
    log_prior_size: ArrayLike | None = None,
    entropy: ArrayLike | None = None,
    log: bool = False,
) -> np.ndarray:
    """Bound on the success of naming one of n candidates by Fano's inequality.

    One minus the smallest ``t`` with ``H - I + t log t + (1 - t) log(1 - t) - t log(n - 1) <= 0``:
    ``hayes2023``, eq. (5), after Guo et al. (2022b). In terms of the success ``s = 1 - t`` it is
    the largest ``s`` whose binary divergence from ``1/n`` is ``I + log n - H``.

    Parameters
    ----------
    mutual_information : array_like
        ``I`` >= 0, or an upper bound on it, nats.
    prior_size : array_like, optional
        n, whole, in [2, 1e300].
    log_prior_size : array_like, optional
        ``log n`` >= log 2 instead, for sizes that overflow (``n - 1`` is then ``n``).
    entropy : array_like, optional
        ``H`` of the prior, in [0, log n], nats; by default ``log n``, that of the uniform prior.
    log : bool
        Return ``log s``.

    Returns
    -------
    ndarray or float
        In [1/n, 1] (or its logarithm); relative error about 1e-13. For n up to 1e7 a small
        difference from ``1/n`` has a relative error of about 1e-8.

    Raises
    ------
    ValueError
        If an argument is nan or out of its range, or not exactly one size is given.

    Examples
    --------
    >>> from reconrisk import bounds
    >>> round(float(bounds.fano_success(1.0, prior_size=100)), 4)
    0.3573
    """
    information = arguments.real(
        "mutual_information", mutual_information, 0, np.inf, high_open=True
    )
    if (prior_size is None) == (log_prior_size is None):
        given = "neither" if prior_size is None else "both"
        raise ValueError(f"give exactly one of prior_size and log_prior_size; got {given}")
    if log_prior_size is None:
        assert prior_size is not None
        log_n = np.log(arguments.integer("prior_size", prior_size, 2, 1e300))
    else:
        log_n = arguments.real("log_prior_size", log_prior_size, np.log(2.0), 1e15)
    missing = np.zeros(())
    if entropy is not None:
        # tolerate the rounding error of a uniform prior's entropy
        slack = 1e-12 * (1.0 + log_n)
        h = arguments.real("entropy", entropy, 0)
        if np.any(h > log_n + slack):
            raise ValueError(f"entropy must be at most log n; got {float(np.max(h))!r}")
        missing = np.maximum(log_n - h, 0.0)
    target, log_n = np.broadcast_arrays(information + missing, log_n)
    return _largest_success(target, log_n, log)


@np.errstate(under="ignore")
def information_success(
    mutual_information: ArrayLike,
    prior_success: ArrayLike | None = None,
    *,
    log_prior_success: ArrayLike | None = None,
    log: bool = False,
) -> np.ndarray:
    """Bound on any attack's success through mutual information, for any prior and any success.

    The largest ``s`` whose binary divergence from ``kappa`` is at most I. The event "the attack
    succeeds" has the probability s with the output of the record itself, and at most ``kappa`` with
    an independent one: I is the divergence of the two laws, and the event has no larger one. With
    ``kappa = 1/n`` it is :func:`fano_success`.

    Parameters
    ----------
    mutual_information : array_like
        ``I`` >= 0 of record and output, or an upper bound on it, nats.
    prior_success, log_prior_success : array_like
        ``kappa`` in (0, 1], or its logarithm >= -1e15: the largest success without the output.
    log : bool
        Return ``log s``.

    Returns
    -------
    ndarray or float
        In [kappa, 1] (or its logarithm); relative error about 1e-13.

    Raises
    ------
    ValueError
        If an argument is nan or out of its range, or not exactly one prior success is given.

    Examples
    --------
    >>> from reconrisk import bounds
    >>> round(float(bounds.information_success(1.0, 0.01)), 4)
    0.3573
    >>> round(float(bounds.information_success(5000.0, log_prior_success=-8000.0)), 4)
    0.6251
    """
    information = arguments.real(
        "mutual_information", mutual_information, 0, np.inf, high_open=True
    )
    log_kappa = args.log_probability("prior_success", prior_success, log_prior_success)
    arguments.real("log_prior_success", log_kappa, -1e15, 0)
    nats, log_n = np.broadcast_arrays(information, -log_kappa)
    return _largest_success(nats, log_n, log)


def _largest_success(information: np.ndarray, log_n: np.ndarray, log: bool) -> np.ndarray:
    """Return the largest success whose divergence from ``exp(-log_n)`` is at most ``information``.

    Both arrays have one shape.
    """
    excess = _advantage_at(information.ravel(), log_n.ravel()).reshape(log_n.shape)
    p = np.exp(-log_n)
    with np.errstate(divide="ignore"):
        log_s = np.where(p > 1e-290, np.log(p + excess * (1.0 - p)), np.log(excess))
    log_s = np.maximum(log_s, -log_n)
    return args.probability(np.minimum(log_s, 0.0), log)


def _divergence_from_uniform(excess: np.ndarray, log_n: np.ndarray) -> np.ndarray:
    """Return the binary divergence of ``s = 1/n + a (1 - 1/n)`` from ``1/n``, ``a`` the advantage.

    ``p psi(s/p) + (1 - p) psi(1 - a)`` with ``p = 1/n`` and ``psi(x) = x log x - x + 1``. Both
    terms are positive, and computed from ``mu - log(1 + mu)`` near ``x = 1``.
    """
    p = np.exp(-log_n)
    gain = excess * (1.0 - p)
    s = p + gain
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        ratio = np.where(p > 0, gain / np.maximum(p, 1e-300), np.inf)
        near = ratio < 1.0
        mu = np.where(near, ratio, 0.0)
        close = p * (mu * mu - (1.0 + mu) * divergence(mu))
        far = np.where(s > 0, s * (np.log(s) + log_n), 0.0) - gain
    rest = (1.0 - p) * _entropy_term(-excess)
    return np.where(near, close, far) + rest


def _entropy_term(mu: np.ndarray) -> np.ndarray:
    """Return ``(1 + mu) log(1 + mu) - mu`` for ``mu`` in [-1, 0]."""
    inner = np.maximum(mu, -1.0 + 1e-16)
    return np.where(mu <= -1.0, 1.0, inner * inner - (1.0 + inner) * divergence(inner))


def _advantage_at(target: np.ndarray, log_n: np.ndarray) -> np.ndarray:
    """Return the advantage at which the divergence from uniform is ``target``."""
    out = np.zeros(target.size)
    out[target >= log_n] = 1.0
    inside = np.flatnonzero((target > 0) & (target < log_n))
    if inside.size:
        value, size = target[inside], log_n[inside]

        def function(log_a: np.ndarray, index: np.ndarray) -> np.ndarray:
            return _divergence_from_uniform(np.exp(log_a), size[index]) - value[index]

        low = np.full(inside.size, -740.0)
        out[inside] = np.exp(monotone_root(function, low, np.zeros(inside.size)))
    return out


def mutual_information_bound(
    noise_multiplier: ArrayLike, prior: ArrayLike, sensitivity: ArrayLike, steps: ArrayLike = 1
) -> np.ndarray:
    """Upper bound on the mutual information of the candidate and a Gaussian mechanism's output.

    ``-sum_i p_i log(p_i + (1 - p_i) exp(-T Delta**2/(2 sigma**2)))``: Guo et al. (2022b), as stated
    in ``hayes2023``, Appendix H.

    Parameters
    ----------
    noise_multiplier : array_like
        ``sigma`` > 0.
    prior : int or array_like, shape (n,)
        A whole number n >= 2 for the uniform prior on n candidates, or n probabilities.
    sensitivity : array_like
        ``Delta`` >= 0: the largest distance of two candidates' clipped gradients, in units of the
        clipping norm; ``sqrt(2)`` for orthogonal ones, 2 for opposite ones.
    steps : array_like
        T full-batch steps, whole, >= 1.

    Returns
    -------
    ndarray or float
        In [0, H(prior)], nats.

    Raises
    ------
    ValueError
        If an argument is nan or out of its range, or the probabilities do not sum to one.

    Examples
    --------
    >>> from reconrisk import bounds
    >>> round(float(bounds.mutual_information_bound(2.0, 10, sensitivity=2.0)), 4)
    0.4371
    """
    sigma = args.positive("noise_multiplier", noise_multiplier)
    delta = arguments.real("sensitivity", sensitivity, 0, 1e140)
    with np.errstate(over="ignore"):
        gap = 0.5 * args.repeats(steps, "steps") * (delta / sigma) ** 2
    if np.ndim(prior) == 0:
        n = arguments.integer("prior", prior, 2, 1e300)
        # log(p + (1 - p) e^-gap) = log1p((1 - p)(e^-gap - 1)), accurate for small gaps; for large
        # ones the log of the sum, without cancellation
        small = -np.log1p((1.0 - 1.0 / n) * np.expm1(-np.minimum(gap, 0.5)))
        large = np.log(n) - np.log1p((n - 1.0) * np.exp(-gap))
        return np.where(gap < 0.5, small, large)[()]
    p = probabilities(prior)
    p = p[p > 0].reshape((-1,) + (1,) * gap.ndim)
    return -(p * np.log(p + (1.0 - p) * np.exp(-gap))).sum(axis=0)[()]


def probabilities(prior: ArrayLike, least: int = 2) -> np.ndarray:
    """Return ``prior`` as at least ``least`` probabilities that sum to one."""
    p = arguments.real("prior", prior, 0, 1)
    if p.ndim != 1 or p.size < least:
        raise ValueError(f"prior must be a list of at least {least} probabilities; got {prior!r}")
    if abs(p.sum() - 1.0) > 1e-9:
        raise ValueError(f"prior must sum to one; got a sum of {float(p.sum())!r}")
    return p / p.sum()


def mutual_information_monte_carlo(
    candidates: ArrayLike,
    samples: int,
    rng: np.random.Generator,
    *,
    prior: ArrayLike | None = None,
) -> tuple[float, float]:
    """Monte Carlo estimate of the mutual information of a candidate and its noisy output.

    The average, over ``samples`` draws of a candidate from the prior and of standard normal noise,
    of the log-ratio of the output's conditional to its marginal density. Guo et al. (2022b);
    ``hayes2023``, Table 2, rows "MC", with ``candidates = identity/sigma``.

    Parameters
    ----------
    candidates : array_like, shape (n, d)
        Mean outputs in units of the noise.
    samples : int
        Number of draws, >= 2.
    rng : numpy.random.Generator
        Source of the draws.
    prior : array_like, shape (n,), optional
        Probabilities; uniform by default.

    Returns
    -------
    estimate, error : float
        Estimate and its standard error, nats.

    Raises
    ------
    ValueError
        If an argument is nan or out of its range.

    Notes
    -----
    Cost: ``samples * n * d`` operations; memory for 8 MB of scores at a time.

    Examples
    --------
    >>> import numpy as np
    >>> from reconrisk import bounds
    >>> rng = np.random.default_rng(0)
    >>> found, error = bounds.mutual_information_monte_carlo(np.eye(4), 20_000, rng)
    >>> abs(found - float(bounds.mutual_information_orthogonal(4, 1.0))) < 5 * error
    True
    """
    means = np.atleast_2d(arguments.real("candidates", candidates, -1e140, 1e140))
    n, dimension = means.shape
    count = arguments.count("samples", samples, 2)
    p = np.full(n, 1.0 / n) if prior is None else probabilities(prior)
    if p.size != n:
        raise ValueError(f"prior must have one entry per candidate; got {p.size} for {n}")
    with np.errstate(divide="ignore"):
        offset = np.log(p) - 0.5 * (means * means).sum(axis=1)
    chunk = max(1, 2**20 // max(n, dimension))
    values = []
    for start in range(0, count, chunk):
        size = min(chunk, count - start)
        chosen = rng.choice(n, size=size, p=p)
        output = means[chosen] + rng.standard_normal((size, dimension))
        # log of p_i times the density, up to a term that does not depend on i
        scores = output @ means.T + offset
        own = np.take_along_axis(scores, chosen[:, None], axis=1)[:, 0] - np.log(p[chosen])
        values.append(own - sc.logsumexp(scores, axis=1))
    drawn = np.concatenate(values)
    return float(drawn.mean()), float(drawn.std(ddof=1) / np.sqrt(count))


# Trapezoidal rules in x, with t = e**x, and in the noise z. The integrands are analytic where
# exp(-e**(x + m z)) does not grow: in a strip of half-width pi/2 in x and pi/(2 m) in z, where
# these steps leave errors of about exp(-2 pi (pi/2)/0.25) = 1e-17.
_STEP = 0.25
_REACH = 9.0


def mutual_information_orthogonal(prior_size: ArrayLike, signal: ArrayLike) -> np.ndarray:
    """Mutual information of one of n equally likely orthogonal candidates and its noisy output.

    By quadrature: with ``L_j = exp(m Y_j - m**2/2)`` it is ``m**2/2 - E log(mean of L_j)`` under
    the first candidate, and ``E log S = integral of (e**-t - E e**(-t S))/t dt`` requires only the
    Laplace transforms of log-normal variables.

    Parameters
    ----------
    prior_size : array_like
        n, whole, in [2, 1e12].
    signal : array_like
        ``m = sqrt(T)/sigma`` in [0, 40]: norm of a candidate in units of the noise.

    Returns
    -------
    ndarray or float
        In [0, log n], nats; absolute error below 1e-11.

    Raises
    ------
    ValueError
        If an argument is nan or out of its range.

    Notes
    -----
    Cost: about ``4 (m**2 + 18 m + 45 + log n) * max(180, 72 m)`` exponentials for each pair of
    arguments, 10 ms at m = 2 and 5 s at m = 40.

    Examples
    --------
    >>> from reconrisk import bounds
    >>> round(float(bounds.mutual_information_orthogonal(4, 1.0)), 4)
    0.33
    """
    n = arguments.integer("prior_size", prior_size, 2, 1e12)
    m = arguments.real("signal", signal, 0, 40)
    n, m = np.broadcast_arrays(n, m)
    flat = [_orthogonal_one(float(a), float(b)) for a, b in zip(n.ravel(), m.ravel(), strict=True)]
    return np.array(flat).reshape(n.shape)[()]


def _orthogonal_one(n: float, m: float) -> float:
    if m == 0.0:
        return 0.0
    # the mean of the L_j lies between exp(-m**2/2 - 9 m)/n and exp(m**2/2 + 9 m)
    reach = 0.5 * m * m + _REACH * m
    x = np.arange(-reach - 40.0, reach + np.log(n) + 5.0, _STEP)
    z = np.linspace(-_REACH, _REACH, 1 + 2 * int(np.ceil(_REACH / min(0.1, _STEP / m))))
    weight = np.exp(-0.5 * z * z)
    weight /= weight.sum()
    total = 0.0
    for block in np.array_split(x, 1 + x.size * z.size // 2**20):
        u = block[:, None] - np.log(n) + m * z
        with np.errstate(over="ignore", under="ignore"):
            # one minus each transform, for the accuracy of the power n - 1
            others = -np.expm1(-np.exp(u - 0.5 * m * m)) @ weight
            own = -np.expm1(-np.exp(u + 0.5 * m * m)) @ weight
            rest = np.log1p(-np.minimum(others, 1.0 - 1e-16))
            transform = np.maximum(1.0 - own, 0.0) * np.exp((n - 1.0) * rest)
            total += float((np.exp(-np.exp(block)) - transform).sum())
    value = 0.5 * m * m - total * _STEP
    return float(min(max(value, 0.0), np.log(n)))

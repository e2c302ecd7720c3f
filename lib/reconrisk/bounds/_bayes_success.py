"""Success of the best attack that names one of n candidates.

The prior-aware attacks of ``hayes2023`` (Algorithms 2 and 3, Appendix G) compare candidates by
inner products with noisy gradients. A candidate's clipped gradients over T steps have norm at most
``m = sqrt(T)/sigma`` in units of the noise. The success depends on the geometry of the candidates:

- equicorrelated candidates, full batch: :func:`bayes_success`;
- two candidates with any prior: :func:`bayes_success_two`;
- any geometry and prior, full batch, by simulation: :func:`bayes_success_simulated`;
- orthogonal candidates under Poisson sub-sampling: :func:`bayes_success_subsampled` for the
  likelihood score, which is optimal, and :func:`sum_score_success` for Algorithm 2;
- an upper bound for any candidates from their smallest cosine: :func:`equicorrelated_bound`.

The book's page on our own results has statements and proofs.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy import special as sc

from reconrisk import arguments, special
from reconrisk._types import DPSGD, check_run
from reconrisk.bounds._information import probabilities
from reconrisk.bounds._rero import rero
from reconrisk.bounds._sampled_scores import likelihood_success
from reconrisk.special._roots import monotone_root

__all__ = [
    "bayes_success",
    "bayes_success_simulated",
    "bayes_success_subsampled",
    "bayes_success_two",
    "equicorrelated_bound",
    "smallest_cosine",
    "sum_score_success",
]

_HALF_LOG_2PI = 0.91893853320467274178
#: distance of the nodes: Phi**(n-1) is analytic and bounded in a strip of half-width
#: pi/(2 sqrt(2 log n)), 0.24 at n = 1e9, so that the trapezoidal rule has an error of
#: exp(-2 pi 0.24/0.04) = 1e-16
_STEP = 0.04
#: margin for the rounding error of a bound
_SLACK = 1e-11


def bayes_success(signal: ArrayLike, prior_size: ArrayLike, cosine: ArrayLike = 0.0) -> np.ndarray:
    """Success of the best attack on n equally likely, equicorrelated candidates, full batch.

    The integral over x of ``phi(x - m sqrt(1 - rho)) Phi(x)**(n - 1)``: orthogonal gradients at
    cosine 0, the regular simplex at ``-1/(n - 1)``, opposite gradients at -1 for n = 2 (where it is
    ``Phi(m)``, the bound of ``hayes2023``, Corollary 4). Algorithm 2 attains it.

    Parameters
    ----------
    signal : array_like
        ``m = sqrt(T)/sigma`` in [0, 1e4]: norm of a candidate in units of the noise; for
        gradients of norm ``a_t C``, ``sqrt(sum a_t**2)/sigma``.
    prior_size : array_like
        n, whole, in [1, 1e9].
    cosine : array_like
        ``rho`` in [-1, 1]. Below ``-1/(n - 1)`` no such candidates exist. The value is then the
        success for a simplex with edges ``sqrt(2 (1 - rho))``, longer than clipping permits, and
        bounds the success for all candidates with shorter distances
        (:func:`equicorrelated_bound`).

    Returns
    -------
    ndarray or float
        In [1/n, 1]; relative error about 1e-13 (tested to n = 1e9 and m = 50).

    Raises
    ------
    ValueError
        If an argument is nan or out of its range.

    Notes
    -----
    Cost: about 450 evaluations of the normal distribution function for each set of arguments.

    Examples
    --------
    >>> from reconrisk import bounds
    >>> round(float(bounds.bayes_success(1.0, 10)), 4)
    0.3409
    >>> bool(bounds.bayes_success(1.0, 10) < bounds.rero_gaussian(1.0, 0.1))
    True
    """
    m = arguments.real("signal", signal, 0, 1e4)
    n = arguments.integer("prior_size", prior_size, 1, 1e9)
    rho = arguments.real("cosine", cosine, -1, 1)
    shift, size = np.broadcast_arrays(m * np.sqrt(1.0 - rho), n)
    others = size.ravel() - 1.0
    a = shift.ravel()
    peak = _peak(a, others)
    step = np.full(a.size, _STEP)
    log_p = special.log_integral(_log_density, step, a, others, peak)
    value = np.exp(np.minimum(log_p, 0.0)).reshape(size.shape)
    return np.clip(value, 1.0 / size, 1.0)[()]


def _log_density(
    t: np.ndarray, shift: np.ndarray, others: np.ndarray, peak: np.ndarray
) -> np.ndarray:
    x = peak + t
    return -0.5 * (x - shift) ** 2 - _HALF_LOG_2PI + others * sc.log_ndtr(x)


def _peak(shift: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Return the maximiser of ``phi(x - shift) Phi(x)**others``, which is log-concave."""

    def slope(x: np.ndarray, index: np.ndarray) -> np.ndarray:
        mills = np.exp(-0.5 * x * x - _HALF_LOG_2PI - sc.log_ndtr(x))
        return others[index] * mills - (x - shift[index])

    # the peak for 1e9 normal variables is below 9, and a shift moves it by at most the shift
    return monotone_root(slope, shift - 1e-9, shift + 10.0, 1e-6)


def bayes_success_two(
    signal: ArrayLike, prior_success: ArrayLike, cosine: ArrayLike = -1.0
) -> np.ndarray:
    """Success of the best attack on two candidates with any prior, full batch.

    ``p Phi(d/2 + log(p/(1 - p))/d) + (1 - p) Phi(d/2 - log(p/(1 - p))/d)`` with the candidates'
    distance ``d = m sqrt(2 (1 - rho))``: the attack adds the log-prior to the log-likelihood.

    Parameters
    ----------
    signal : array_like
        ``m = sqrt(T)/sigma`` in [0, 1e4].
    prior_success : array_like
        ``p`` in [0, 1], the prior probability of one of them.
    cosine : array_like
        ``rho`` in [-1, 1] between their gradients.

    Returns
    -------
    ndarray or float
        In [max(p, 1 - p), 1].

    Raises
    ------
    ValueError
        If an argument is nan or out of its range.

    Examples
    --------
    >>> from reconrisk import bounds
    >>> round(float(bounds.bayes_success_two(1.0, 0.5, cosine=-1.0)), 4)
    0.8413
    """
    m = arguments.real("signal", signal, 0, 1e4)
    p = arguments.real("prior_success", prior_success, 0, 1)
    d = m * np.sqrt(2.0 * (1.0 - arguments.real("cosine", cosine, -1, 1)))
    blind = np.maximum(p, 1.0 - p)
    p, d = np.broadcast_arrays(p, d)
    inside = (p > 0) & (p < 1) & (d > 1e-150)
    safe_p, safe_d = np.where(inside, p, 0.5), np.where(inside, d, 1.0)
    with np.errstate(over="ignore"):
        lean = (np.log(safe_p) - np.log1p(-safe_p)) / safe_d
    value = safe_p * sc.ndtr(0.5 * safe_d + lean) + (1.0 - safe_p) * sc.ndtr(0.5 * safe_d - lean)
    return np.where(inside, np.clip(value, blind, 1.0), blind)[()]


def bayes_success_simulated(
    gram: ArrayLike,
    samples: int,
    rng: np.random.Generator,
    *,
    prior: ArrayLike | None = None,
) -> tuple[float, float]:
    """Success of the best attack on candidates of any geometry and prior, full batch.

    The average over simulated outputs of the largest posterior probability, which has a smaller
    variance than the success.

    Parameters
    ----------
    gram : array_like, shape (n, n)
        Inner products of the candidates' gradients, summed over the steps, in units of the squared
        noise: ``sum_t <g_i, g_j>/(C sigma)**2``. Symmetric and positive semi-definite.
    samples : int
        Number of simulated outputs, >= 2.
    rng : numpy.random.Generator
        Source of the draws.
    prior : array_like, shape (n,), optional
        Probabilities; uniform by default.

    Returns
    -------
    estimate, error : float
        Estimate of the success and its standard error.

    Raises
    ------
    ValueError
        If an argument is nan, of a wrong shape, or the matrix is not positive semi-definite.

    Notes
    -----
    Cost: ``samples * n**2`` operations; memory for 8 MB of scores at a time.

    Examples
    --------
    >>> import numpy as np
    >>> from reconrisk import bounds
    >>> gram = np.eye(3)  # orthogonal candidates, one step
    >>> found, error = bounds.bayes_success_simulated(gram, 20_000, np.random.default_rng(0))
    >>> abs(found - float(bounds.bayes_success(1.0, 3))) < 5 * error
    True
    """
    g = arguments.real("gram", gram, -1e140, 1e140)
    # the tolerance admits matrices computed in single precision
    slack = 1e-6 * float(np.max(np.abs(g), initial=0.0))
    if g.ndim != 2 or g.shape[0] != g.shape[1] or np.any(np.abs(g - g.T) > slack):
        raise ValueError(f"gram must be a symmetric matrix; got shape {g.shape}")
    g = 0.5 * (g + g.T)
    n = g.shape[0]
    count = arguments.count("samples", samples, 2)
    p = np.full(n, 1.0 / n) if prior is None else probabilities(prior, 1)
    if p.size != n:
        raise ValueError(f"prior must have one entry per candidate; got {p.size} for {n}")
    values, vectors = np.linalg.eigh(g)
    if values[0] < -n * slack:
        raise ValueError(f"gram must be positive semi-definite; got an eigenvalue {values[0]:g}")
    # the symmetric root does not depend on the choice of eigenvectors
    root = (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
    with np.errstate(divide="ignore"):
        offset = np.log(p) - 0.5 * np.diag(g)
    best = []
    chunk = max(1, 2**20 // n)
    for start in range(0, count, chunk):
        size = min(chunk, count - start)
        chosen = rng.choice(n, size=size, p=p)
        scores = g[chosen] + rng.standard_normal((size, n)) @ root + offset
        top = scores.max(axis=1)
        best.append(1.0 / np.exp(scores - top[:, None]).sum(axis=1))
    drawn = np.concatenate(best)
    return float(drawn.mean()), float(drawn.std(ddof=1) / np.sqrt(count))


def sum_score_success(run: DPSGD, prior_size: int) -> float:
    """Success of Algorithm 2 on n equally likely orthogonal candidates under Poisson sub-sampling.

    Given the number k of steps that sampled the target, the sums of inner products are distributed
    as for the full batch with signal ``k/(sigma sqrt(T))``; k is Binomial(T, q).

    Parameters
    ----------
    run : DPSGD
        The run; all gradients have norm C.
    prior_size : int
        n, whole, in [1, 1e9].

    Returns
    -------
    float
        In [1/n, 1]; at most :func:`bayes_success_subsampled`.

    Raises
    ------
    TypeError
        If ``run`` is not a :class:`~reconrisk.DPSGD`.
    ValueError
        If ``prior_size`` is out of its range.

    Examples
    --------
    >>> from reconrisk import DPSGD, bounds
    >>> round(float(bounds.sum_score_success(DPSGD(1.0, 0.1, 100), 10)), 4)
    0.3454
    """
    check_run(run)
    q, steps = float(run.sampling_rate), float(run.steps)
    mean, spread = q * steps, np.sqrt(steps * q * (1.0 - q))
    low = max(0.0, np.floor(mean - 12.0 * spread - 40.0))
    counts = np.arange(low, min(steps, np.ceil(mean + 12.0 * spread + 40.0)) + 0.5)
    weights = np.exp(special.log_binomial_pmf(counts, steps, q))
    signal = counts / (float(run.noise_multiplier) * np.sqrt(steps))
    values = bayes_success(np.minimum(signal, 1e4), prior_size)
    return float(min(weights @ values / weights.sum(), 1.0))


@np.errstate(under="ignore")
def bayes_success_subsampled(run: DPSGD, prior_size: int) -> float:
    """Success of the best attack on n equally likely orthogonal candidates under sub-sampling.

    The likelihood score of ``hayes2023``, Appendix G (with its sign corrected), against the n - 1
    independent scores of the other candidates. The distributions of the scores, sums of T privacy
    losses, are computed from their characteristic functions; the success is then one integral.

    Parameters
    ----------
    run : DPSGD
        The run; all gradients have norm C. The attacker observes every step and knows the gradients
        of all other records.
    prior_size : int
        n, whole, in [1, 1e6].

    Returns
    -------
    float
        In [1/n, 1]; absolute error below ``1e-11 + 1e-15 n`` (tested).

    Raises
    ------
    TypeError
        If ``run`` is not a :class:`~reconrisk.DPSGD`.
    ValueError
        If ``prior_size`` is out of its range, or ``sampling_rate * steps`` is so small (at q =
        0.01, for 2 <= T < 50 or so) that the densities need more than a million frequencies.

    Notes
    -----
    Cost, independent of T: 20 to 200 ms at the settings of ``hayes2023``, up to 3 s and 300 MB
    where ``sampling_rate * steps`` is small.

    Examples
    --------
    >>> from reconrisk import DPSGD, bounds
    >>> run = DPSGD(1.0, sampling_rate=0.1, steps=100)
    >>> round(float(bounds.bayes_success_subsampled(run, 10)), 4)
    0.4104
    """
    check_run(run)
    n = float(arguments.integer("prior_size", prior_size, 1, 1e6))
    sigma, q, steps = float(run.noise_multiplier), float(run.sampling_rate), float(run.steps)
    if q == 1.0:
        return float(bayes_success(min(np.sqrt(steps) / sigma, 1e4), n))
    if steps == 1.0:
        # the score increases with the inner product: the ranking is that of the full batch
        return float((1.0 - q) / n + q * bayes_success(min(1.0 / sigma, 1e4), n))
    return likelihood_success(sigma, q, steps, n)


def smallest_cosine(gram: ArrayLike, max_grad_norm: float = 1.0, *, sampled: bool = False) -> float:
    """Cosine of equicorrelated candidates that bound those with given inner products.

    Full batch: ``1 - max |g_i - g_j|**2/(2 C**2)``, because only the distances between candidates
    matter. Sub-sampled: the smallest
    ``<g_i, g_j>/(C**2 - sqrt((C**2 - |g_i|**2)(C**2 - |g_j|**2)))``. If all gradients have norm C,
    both are the smallest cosine; if some are shorter and it is negative, both are at least that.

    Parameters
    ----------
    gram : array_like, shape (..., n, n)
        Inner products of the candidates' clipped gradients at each step; the result is the minimum
        over the steps.
    max_grad_norm : float
        ``C`` > 0.
    sampled : bool
        Whether the run is sub-sampled.

    Returns
    -------
    float
        In [-1, 1].

    Raises
    ------
    ValueError
        If an argument is nan or of a wrong shape, or a norm exceeds C by more than 1e-6 of it.

    Examples
    --------
    >>> import numpy as np
    >>> from reconrisk import bounds
    >>> bounds.smallest_cosine(np.array([[1.0, 0.5], [0.5, 1.0]]))
    0.5
    """
    c = float(arguments.real("max_grad_norm", max_grad_norm, 0, np.inf, low_open=True))
    g = arguments.real("gram", gram) / c**2
    if g.ndim < 2 or g.shape[-1] != g.shape[-2] or g.shape[-1] < 2:
        raise ValueError(f"gram must have shape (..., n, n) with n >= 2; got {g.shape}")
    squared = np.diagonal(g, axis1=-2, axis2=-1)
    if np.any(squared > (1.0 + 1e-6) ** 2):
        longest = c * float(np.sqrt(squared.max()))
        raise ValueError(f"gradients must be clipped to max_grad_norm; got a norm of {longest!r}")
    rows, columns = np.triu_indices(g.shape[-1], 1)
    inner = g[..., rows, columns]
    one, other = squared[..., rows], squared[..., columns]
    if not sampled:
        cosine = 1.0 - 0.5 * (one + other - 2.0 * inner)
    else:
        rest = np.sqrt(np.maximum(1.0 - one, 0.0) * np.maximum(1.0 - other, 0.0))
        # two gradients of norm zero are the same candidate
        cosine = np.where(rest < 1.0, inner / np.maximum(1.0 - rest, 1e-300), 1.0)
    return float(np.clip(cosine.min(), -1.0, 1.0))


def equicorrelated_bound(run: DPSGD, prior_size: int, smallest_cosine: float) -> float:
    """Upper bound on the success on n equally likely candidates, from their smallest cosine.

    If at every step, for all previous outputs, all pairs of candidates have a cosine of at least
    ``rho`` in the sense of :func:`smallest_cosine`, then no attack is better than the best attack
    on candidates whose cosines all equal ``rho``. Where such candidates exist, this is at most the
    bound of ``hayes2023``, Corollary 4; the smaller of the two is returned.

    Parameters
    ----------
    run : DPSGD
    prior_size : int
        n, whole, in [2, 1e9]; in [2, 1e6] for a sub-sampled run.
    smallest_cosine : float
        ``rho`` in [-1, 1]. For a full batch it is enough that the average over the steps of
        ``max |g_i - g_j|**2/(2 C**2)`` never exceeds ``1 - rho``.

    Returns
    -------
    float
        In (1/n, 1]. Full batch: ``bayes_success(sqrt(T)/sigma, n, rho)``. Sub-sampled: if
        ``rho >= 0`` the value at cosine zero (that at ``rho`` is smaller, but has no closed form),
        else the bound of Corollary 4.

    Raises
    ------
    TypeError
        If ``run`` is not a :class:`~reconrisk.DPSGD`.
    ValueError
        If an argument is out of its range.

    Examples
    --------
    >>> from reconrisk import DPSGD, bounds
    >>> round(float(bounds.equicorrelated_bound(DPSGD(1.0), 10, 0.5)), 4)
    0.2533
    """
    check_run(run)
    rho = float(arguments.real("smallest_cosine", smallest_cosine, -1, 1))
    n = float(arguments.integer("prior_size", prior_size, 2, 1e9))
    any_geometry = rero(run, 1.0 / n).upper
    if run.sampling_rate == 1.0:
        m = min(np.sqrt(float(run.steps)) / float(run.noise_multiplier), 1e4)
        bound = float(bayes_success(m, n, rho)) * (1.0 + _SLACK)
    elif rho >= 0.0:
        bound = bayes_success_subsampled(run, prior_size) + _SLACK + 1e-15 * n
    else:
        return any_geometry
    return min(bound, any_geometry, 1.0)

"""Success of attackers who know something of the record, and of secrets of unequal probability.

The bound ``gamma(kappa)`` of :func:`~reconrisk.bounds.rero` takes ``kappa`` from what is known
*before* the release. Whoever also knows a label, a part of the record or an older release has
another prior, and another ``kappa``; the bound holds for that one and not for the old one. What
survives for each kind of knowledge:

- knowledge ``a`` drawn with the record: the mean of ``gamma(kappa(a))`` (:func:`rero_given`);
- an earlier release about the record: the composition, ``rero([earlier, run], kappa)``;
- records that are copies of it or depend on it: ``rero([privacy.Group(run, size)], kappa)``;
- secrets with unequal weights, or near matches: :func:`rero_secrets`, below ``gamma(kappa)``;
- any of these, about the gain alone: ``gamma - kappa`` is at most ``privacy.delta(run, 0)``.

The book's page on our own results has statements, proofs and the attacks that attain them.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy import optimize
from scipy import special as sc

from reconrisk import arguments, privacy
from reconrisk._types import DPSGD, check_run
from reconrisk.bounds._information import probabilities
from reconrisk.bounds._rero import rero, rero_curve

__all__ = ["gaussian_summary", "prior_success_given", "rero_given", "rero_secrets"]

#: margin for the rounding errors of sums of probabilities
_SLACK = 1e-12
#: levels at which the curve of a sampled run is computed, and steps of the search for a mixture
_POINTS, _ROUNDS = 300, 400
#: relative widths of that curve: chords of it are slopes
_FINE = 1e-5
#: power up to which one Gaussian curve must lie above a run's
_MOST_POWER = 0.99


def prior_success_given(
    joint: ArrayLike, near: ArrayLike | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Prior success of an attacker who knows something that is drawn together with the secret.

    Parameters
    ----------
    joint : array_like, shape (knowledge, secrets)
        Probabilities that sum to one: of knowing this while the secret is that.
    near : array_like of bool, shape (guesses, secrets), optional
        Which guess is near enough to which secret; by default only the secret itself.

    Returns
    -------
    kappa : ndarray, shape (knowledge,)
        The success of the best guess for each knowledge; 0 where it never occurs.
    weights : ndarray, shape (knowledge,)
        Probability of each knowledge.

    Raises
    ------
    TypeError, ValueError
        If an argument is out of its range or of a wrong shape.

    Examples
    --------
    >>> from reconrisk import bounds
    >>> kappa, weights = bounds.prior_success_given([[0.3, 0.1, 0.0], [0.0, 0.3, 0.3]])
    >>> kappa.round(2).tolist(), weights.round(2).tolist()
    ([0.75, 0.5], [0.4, 0.6])
    """
    p = arguments.real("joint", joint, 0, 1)
    if p.ndim != 2:
        raise ValueError(f"joint must have shape (knowledge, secrets); got {p.shape}")
    probabilities(p.ravel(), 1)
    weights = p.sum(axis=1)
    best = (p if near is None else p @ _matches(near, p.shape[1]).T).max(axis=1)
    kappa = np.divide(best, weights, out=np.zeros_like(best), where=weights > 0)
    return np.minimum(kappa, 1.0), weights


def _matches(near: ArrayLike, secrets: int) -> np.ndarray:
    matches = np.asarray(near)
    if matches.ndim != 2 or matches.shape[1] != secrets or matches.dtype != bool:
        raise ValueError(
            f"near must be booleans of shape (guesses, {secrets}); got {matches.dtype} of shape "
            f"{matches.shape}"
        )
    return matches.astype(float)


def rero_given(run: DPSGD, joint: ArrayLike, near: ArrayLike | None = None) -> float:
    """Upper bound on the success of an attacker who knows something drawn with the secret.

    ``E gamma(kappa(A))``: given what the attacker knows, the record has its posterior as prior,
    and Theorem 2 of ``hayes2023`` holds for that one. The other records may depend on what he
    knows, not otherwise on the secret.

    Parameters
    ----------
    run : DPSGD
    joint, near
        As in :func:`prior_success_given`.

    Returns
    -------
    float
        At most ``gamma`` of the mean prior success, because ``gamma`` is concave.

    Raises
    ------
    TypeError, ValueError
        If an argument is out of its range or of a wrong shape.

    Examples
    --------
    >>> import numpy as np
    >>> from reconrisk import DPSGD, bounds
    >>> pairs = np.kron(np.eye(50), [[0.01, 0.01]])  # knows which pair it is
    >>> run = DPSGD(1.0)
    >>> round(bounds.rero(run, 0.01).upper, 3), round(bounds.rero_given(run, pairs), 3)
    (0.092, 0.841)
    """
    check_run(run)
    kappa, weights = prior_success_given(joint, near)
    levels, index = np.unique(kappa, return_inverse=True)
    upper = rero_curve(run, levels)[1][index]
    return float(min(weights @ upper * (1.0 + _SLACK), 1.0))


def rero_secrets(run: DPSGD, prior: ArrayLike, near: ArrayLike | None = None) -> float:
    """Upper bound on the success of any attack on secrets with unequal prior probabilities.

    With ``q_z`` the probability that an attacker who sees a release *without* the record is right
    about secret z, he is right with at most ``sum_z pi_z gamma(q_z)``. Without the record nobody
    is right about two secrets at once: the ``q_z`` add up to one (for near matches, they are a
    mixture of the rows of ``near``). The largest such sum is at most ``gamma(kappa)``, and far
    below it for a prior that is far from uniform. By duality it is at most

        ``sum_z pi_z H(s_z) + max_w sum_z near[w, z] pi_z s_z``

    for all multipliers ``s_z >= 0``, with ``H(s) = sup_q gamma(q) - s q``, the hockey-stick
    divergence: what is returned, for multipliers that a Gaussian curve makes nearly best. For two
    candidates with opposite gradients and full batches the attack that adds the log-prior attains
    it.

    Parameters
    ----------
    run : DPSGD
    prior : array_like, shape (secrets,)
        Probabilities that sum to one.
    near : array_like of bool, shape (guesses, secrets), optional
        Which guess is near enough to which secret; by default only the secret itself.

    Returns
    -------
    float
        In [kappa, gamma(kappa)].

    Raises
    ------
    TypeError, ValueError
        If an argument is out of its range or of a wrong shape.

    Notes
    -----
    Cost: a divergence for each different weight, of sampled runs 300 points of their curve; with
    ``near`` 400 products with that matrix.

    Examples
    --------
    >>> from reconrisk import DPSGD, bounds
    >>> run = DPSGD(1.0)
    >>> round(bounds.rero(run, 0.9).upper, 4), round(bounds.rero_secrets(run, [0.9, 0.1]), 4)
    (0.9887, 0.9299)
    >>> round(float(bounds.bayes_success_two(1.0, 0.9)), 4)  # attained
    0.9299
    """
    check_run(run)
    pi = probabilities(prior, 1)
    pi = pi / pi.sum()
    matches = None if near is None else _matches(near, pi.size)
    kappa = float(min(np.max(pi if matches is None else matches @ pi), 1.0))
    most = rero(run, kappa).upper
    if kappa in (0.0, 1.0) or most >= 1.0:
        return most
    mu = float(max(sc.ndtri(most) - sc.ndtri(kappa), 1e-6))
    used = pi > 0.0
    pi, matches = pi[used], None if matches is None else matches[:, used]
    s = _multipliers(pi, mu) if matches is None else _multipliers_near(pi, matches, mu)
    weight = pi * s
    limit = float(np.max(weight if matches is None else matches @ weight))
    bound = (float(pi @ _hockey_stick(run, s)) + limit) * (1.0 + _SLACK)
    return float(max(min(bound, most), kappa))


def _multipliers(pi: np.ndarray, mu: float) -> np.ndarray:
    """Return ``lambda/pi``, for which the Gaussian curve's ``q_z`` add up to one."""

    def excess(log_lambda: float) -> float:
        return float(sc.ndtr((np.log(pi) - log_lambda) / mu - 0.5 * mu).sum() - 1.0)

    low, high = np.log(pi).min() - 1.0, np.log(pi).max() + 1.0
    while excess(low) < 0.0:
        low -= 1.0 + mu * mu
    while excess(high) > 0.0:
        high += 1.0 + mu * mu
    return np.exp(optimize.brentq(excess, low, high) - np.log(pi))


def _multipliers_near(pi: np.ndarray, matches: np.ndarray, mu: float) -> np.ndarray:
    """Return slopes of the Gaussian curve at a nearly best mixture of guesses."""
    worth = matches @ pi
    mixture = worth / worth.sum()
    best, best_slopes = np.inf, np.ones(pi.size)
    for n in range(_ROUNDS):
        q = np.clip(mixture @ matches, 1e-300, 1.0 - 1e-16)
        z = sc.ndtri(q)
        slopes = np.exp(np.minimum(-mu * z - 0.5 * mu * mu, 600.0))
        gain = matches @ (pi * slopes)
        # the dual's value under the Gaussian curve
        value = float(pi @ (sc.ndtr(z + mu) - slopes * q) + gain.max())
        if value < best:
            best, best_slopes = value, slopes
        step = np.exp((gain / gain.max() - 1.0) * 2.0 / np.sqrt(n + 1.0))
        mixture = mixture * step
        mixture /= mixture.sum()
    return best_slopes


def _hockey_stick(run: DPSGD, s: np.ndarray) -> np.ndarray:
    """Return upper bounds on ``sup_q gamma(q) - s q``."""
    values, index = np.unique(s, return_inverse=True)
    if run.sampling_rate < 1.0:
        kappa, upper = _corners(run, 1e-12, _POINTS)
        return np.array([float(np.max(upper - v * kappa)) for v in values])[index]

    def at(value: float) -> float:
        # beyond e**500 nothing is lost by the smaller multiplier; the curve is symmetric
        epsilon = float(np.clip(np.log(value), -500.0, 500.0))
        upper = privacy.delta(run, abs(epsilon)).upper
        return upper if epsilon >= 0.0 else min(1.0, 1.0 - value + value * upper)

    return np.array([at(v) for v in values])[index]


def _corners(run: DPSGD, smallest: float, points: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the corners of a polygon that lies above the run's curve, by rising level.

    Between two levels a < b a concave curve from the origin is at most its value at b, at most the
    ray through its value at a, and at most the chords of the next levels outside, extended. The
    polygon is made of the lowest of these lines, from 0 to 1.
    """
    z = np.linspace(sc.ndtri(smallest), -sc.ndtri(smallest), points)
    kappa = np.concatenate([[0.0], sc.ndtr(z), [1.0]])
    lower, upper = rero_curve(run, kappa[:-1], tolerance=_FINE)
    lower, upper = np.append(lower, 1.0), np.append(np.minimum(upper, 1.0), 1.0)
    upper = np.maximum.accumulate(upper)
    # at a, what rises from there: the ray, or the chord that ends there; the first cell has none
    ray = upper[1:-1] / kappa[1:-1]
    rise = (upper[1:-1] - lower[:-2]) / np.diff(kappa[:-1])
    rise = np.concatenate([[np.inf], np.minimum(ray, rise)])
    # at b, what falls back from there: the chord that begins there, or a level line
    fall = np.append(np.maximum(lower[2:] - upper[1:-1], 0.0) / np.diff(kappa[1:]), 0.0)
    # where the two lines meet: b - t
    gap = rise * np.diff(kappa) + upper[:-1] - upper[1:]
    gap[0] = np.inf
    with np.errstate(invalid="ignore"):
        t = np.where(rise > fall, gap / (rise - fall), 0.0)
    t[0] = kappa[1]
    t = np.clip(t, 0.0, np.diff(kappa))
    corners, heights = kappa[1:] - t, upper[1:] - t * fall
    corners = np.concatenate([corners, kappa[1:]])
    heights = np.concatenate([heights, upper[1:]])
    order = np.argsort(corners, kind="stable")
    return corners[order] * (1.0 - _SLACK), heights[order]


def gaussian_summary(run: DPSGD, *, smallest: float = 1e-6) -> float:
    """A ``mu`` whose curve lies above the run's: Gaussian differential privacy.

    For levels from ``smallest`` on, up to a power of 99 per cent, no test of the run has more power
    than one of a Gaussian release with that ``mu``: certified, for the removal of a record as in
    :func:`rero`. Smaller levels need a larger ``mu``, for a sampled run up to that without
    sampling.

    Parameters
    ----------
    run : DPSGD
    smallest : float
        In [1e-9, 0.1].

    Returns
    -------
    float
        ``mu`` > 0; a thousandth or less above the smallest one.

    Raises
    ------
    TypeError, ValueError
        If an argument is out of its range.

    Notes
    -----
    As Gomez et al. (2025), arXiv 2503.10945, propose for reporting, with the largest difference of
    the two curves as a measure of what is lost. Cost: that of 300 points of the curve, under a
    second.

    Examples
    --------
    >>> from reconrisk import DPSGD, bounds
    >>> round(bounds.gaussian_summary(DPSGD(2.0, steps=16)), 6)  # sqrt(16)/2
    2.0
    >>> round(bounds.gaussian_summary(DPSGD(2.0, 0.1, 500), smallest=1e-3), 1)
    1.2
    """
    check_run(run)
    least = float(arguments.real("smallest", smallest, 1e-9, 0.1))
    if run.sampling_rate == 1.0:
        return float(np.sqrt(run.steps) / run.noise_multiplier * (1.0 + _SLACK))
    kappa, upper = _corners(run, 0.5 * least, _POINTS)
    upper = np.maximum.accumulate(upper)
    # a curve that is concave lies above a polygon from one corner to another if it does at both
    first = int(np.searchsorted(kappa, least)) - 1
    last = int(np.searchsorted(upper, _MOST_POWER))
    if first >= last:
        raise ValueError(f"smallest must be at a level of less power; got {smallest!r} for {run}")
    share = (_MOST_POWER - upper[last - 1]) / (upper[last] - upper[last - 1])
    end = kappa[last - 1] + share * (kappa[last] - kappa[last - 1])
    kappa, upper = np.append(kappa[first:last], end), np.append(upper[first:last], _MOST_POWER)
    mu = float(np.max(sc.ndtri(upper) - sc.ndtri(kappa)))
    return mu * (1.0 + _SLACK)

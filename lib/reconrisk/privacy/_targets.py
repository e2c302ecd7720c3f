"""Epsilon and delta of a run, and the noise multiplier for a given epsilon or success."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from functools import cache

import numpy as np
from scipy import optimize

from reconrisk import arguments, special
from reconrisk._types import DPSGD, Enclosure, check_not_described, check_run
from reconrisk.privacy._gaussian import ERROR, log_delta_of_shift
from reconrisk.privacy._outer import enclose_full_batch_delta, outer_delta
from reconrisk.privacy._phases import (
    Release,
    as_run_or_releases,
    composed_delta,
    composed_epsilon,
)
from reconrisk.privacy._profile import delta_enclosure, epsilon_enclosure, rough_log_delta
from reconrisk.privacy._releases import STEEPEST, TooDear, full_batch_shift
from reconrisk.privacy._saddle import Mechanism
from reconrisk.privacy._samplers import SampledRun, bracket
from reconrisk.privacy._tradeoff import SMALLEST, success_curve

__all__ = ["delta", "epsilon", "mechanism_of", "noise_for_epsilon", "noise_for_success"]

#: relative margin added to the root of a closed form
_MARGIN = 1e-10

#: largest logarithm of the ratio of a bound to its target that is told from infinity
_FARTHEST = 50.0

#: delta of several releases that is only bounded
_LEAST_DELTA = 1e-100
#: sampling rates and shifts below which closed forms are as good as a lattice
_LEAST_RATE, _LEAST_SHIFT = 1e-13, 1e-7

#: default relative width of enclosures
TOLERANCE = 1e-4
#: relative accuracy of the noise for a target
_CLOSE = 1e-3
#: where the rate is larger and steps are fewer, enclosures are cheap
_LARGE_RATE, _MANY_STEPS = 1e-3, 20_000
#: range of noise multipliers that is searched
_LEAST_NOISE, _MOST_NOISE = 1e-3, 1e7


def mechanism_of(run: DPSGD) -> Mechanism:
    """Return the parameters of a run on which its privacy depends."""
    check_run(run)
    return Mechanism(1.0 / float(run.noise_multiplier), float(run.sampling_rate), int(run.steps))


@np.errstate(under="ignore")
def epsilon(
    run: DPSGD | SampledRun | Iterable[Release | SampledRun],
    delta: float,
    *,
    tolerance: float = TOLERANCE,
) -> Enclosure:
    """Certified epsilon of a run at ``delta``, in both directions.

    A record is added or removed; of a :class:`~reconrisk.privacy.SampledRun`, what its
    ``adjacency`` says, by default that a record's gradient is set to zero or back.

    A closed form at sampling rate one (Balle and Wang 2018), and for one step. Otherwise
    discretised privacy-loss distributions, from above and from below, with bounds on all rounding
    errors.

    Parameters
    ----------
    run : DPSGD or SampledRun, or list of DPSGD, Laplace, Atoms, Group, Allocation and SampledRun
        Poisson sampling at ``run.sampling_rate``; the clipping norm does not matter. A list is a
        run of several phases, or several mechanisms on the same records: their losses add up, in
        any order. Other samplers than Poisson's are a :class:`~reconrisk.privacy.SampledRun`, whose
        enclosure may be wide: it goes from the best attack known to what is proven.
    delta : float
        In (0, 1), at least 1e-100 below sampling rate one.
    tolerance : float
        Target width, relative to epsilon or to 1e-3 if that is larger.

    Returns
    -------
    Enclosure
        Contains the smallest epsilon >= 0 at which the run is (epsilon, delta)-private, in nats. It
        is wider than the target where memory or rounding errors require it. For a sub-sampled run
        with sigma below 1/35, and mostly below 1/28, it ranges from the epsilon of one step to that
        of the full batch.

    Raises
    ------
    TypeError, ValueError
        If ``run`` is not a :class:`~reconrisk.DPSGD` or an argument is out of its range.

    Notes
    -----
    Cost: six compositions of one discretised step, for two or three cell widths: about a tenth of a
    second, almost independent of T; up to two seconds where q is below 1e-4. At small q the width
    is at most the larger of one per cent and 2e-3.
    Random allocations whose losses are spread too little for a lattice, as with a first hundredth
    of an epoch or a noise multiplier of 1e6, are enclosed by closed forms: [0.0005, 0.0043] for
    1000 steps at sigma = 1, q = 1e-5, delta = 1e-5. Batches of fixed size and shuffled ones have
    the width that is between attacks and proofs.
    A list costs as much for each of its different phases; more than 48 are grouped, neighbours by
    their worst for the upper end and by their best for the lower: 20,000 different ones take
    two seconds, and epsilon is 2.85 to 2.94 where noise falls from 1.5 to 0.8.

    Examples
    --------
    >>> from reconrisk import DPSGD, privacy
    >>> found = privacy.epsilon(DPSGD(1.1, sampling_rate=0.004, steps=3000), delta=1e-5)
    >>> f"{found.lower:.3f} {found.upper:.3f}"
    '0.973 0.973'

    Full batches first, then a thousand small ones:

    >>> found = privacy.epsilon([DPSGD(1.1, steps=5), DPSGD(1.1, 0.01, 1000)], delta=1e-5)
    >>> f"{found.lower:.2f} {found.upper:.2f}"
    '10.40 10.40'
    """
    check_not_described(run)
    arguments.single("delta", delta)
    arguments.real("delta", delta, 0, 1, low_open=True, high_open=True)
    arguments.real("tolerance", tolerance, 1e-12, 1)
    sampled = bracket(run)
    if sampled is not None:
        return sampled.enclosure(lambda releases: epsilon(releases, delta, tolerance=tolerance))
    one = as_run_or_releases(run)  # type: ignore[arg-type]
    if not isinstance(one, DPSGD):
        arguments.real("delta", delta, 1e-100, 1)
        most = math.inf
        if full_batch_shift(one) < math.inf:
            most = _largest(lambda e: outer_delta(one, e) > delta) * (1.0 + 1e-12) + 1e-15
            if most <= 1e-3 * tolerance:
                return Enclosure(0.0, most)
        return _cap_enclosure(most, lambda: composed_epsilon(one, float(delta), float(tolerance)))
    mechanism = mechanism_of(one)
    if mechanism.sampling_rate < 1.0:
        arguments.real("delta", delta, 1e-100, 1, high_open=True)
        outer = _outer_epsilon(mechanism, float(delta))
        if mechanism.steps == 1 or mechanism.inverse_noise > STEEPEST:
            return outer
        lower, upper = epsilon_enclosure(mechanism, float(delta), float(tolerance))
        return Enclosure(max(lower, outer.lower), min(upper, outer.upper))
    return _full_batch_epsilon(math.sqrt(mechanism.steps) * mechanism.inverse_noise, delta)


def _cap_enclosure(most: float, composed: Callable[[], Enclosure]) -> Enclosure:
    """Return an enclosure cut at a bound, which is all that is known where composing is refused."""
    try:
        found = composed()
    except TooDear:
        return Enclosure(0.0, most)
    return Enclosure(min(found.lower, most), min(found.upper, most))


def _full_batch_epsilon(shift: float, delta: float) -> Enclosure:
    target = math.log(delta)
    low = _largest(lambda e: log_delta_of_shift(e, shift) - _slack(e, shift) > target)
    high = _largest(lambda e: log_delta_of_shift(e, shift) + _slack(e, shift) > target)
    return Enclosure(low, high * (1.0 + 1e-12) + (1e-15 if high > 0 else 0.0))


def _outer_epsilon(mechanism: Mechanism, delta: float) -> Enclosure:
    """Enclose epsilon between one sub-sampled step and all steps on the full batch, in closed form.

    For removing the record, one sub-sampled step is (log(1 + q (e^eps - 1)), q delta)-private if
    and only if one step on the full batch is (eps, delta)-private. Adding it shows no more in one
    step: with ``x = e^eps - 1`` the two deltas are the largest values of ``q P - (q + x) Q`` and,
    reflected, of that less ``x (1 - q) (P - Q)``, over the same half-lines.
    """
    q, a = mechanism.sampling_rate, mechanism.inverse_noise
    upper = _full_batch_epsilon(math.sqrt(mechanism.steps) * a, delta).upper
    if delta >= q:
        return Enclosure(0.0, 0.0 if mechanism.steps == 1 else upper)
    one = _full_batch_epsilon(a, delta / q * (1.0 + 1e-15)).lower
    if mechanism.steps == 1:
        most = _full_batch_epsilon(a, delta / q * (1.0 - 1e-15)).upper
        upper = min(upper, _sampled_epsilon(most, q) * (1.0 + 1e-12))
    lower = _sampled_epsilon(one, q)
    return Enclosure(max(lower * (1.0 - 1e-12), 0.0), upper)


def _sampled_epsilon(full: float, q: float) -> float:
    return math.log1p(q * math.expm1(full)) if full < 600.0 else full + math.log(q)


def _slack(epsilon: float, shift: float) -> float:
    return ERROR + 4e-15 * abs(log_delta_of_shift(epsilon, shift))


def _largest(holds: Callable[[float], bool]) -> float:
    """Return the largest epsilon >= 0 up to which a condition holds, zero if it never does."""
    if not holds(0.0):
        return 0.0
    low, high = 0.0, 1.0
    while holds(high):
        low, high = high, 2.0 * high
    while high - low > 1e-14 * high:
        middle = 0.5 * (low + high)
        if middle in (low, high):
            break
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


@np.errstate(under="ignore")
def delta(
    run: DPSGD | SampledRun | Iterable[Release | SampledRun],
    epsilon: float,
    *,
    tolerance: float = TOLERANCE,
) -> Enclosure:
    """Certified delta of a run at ``epsilon``, in both directions, as :func:`epsilon`.

    Parameters
    ----------
    run : DPSGD or SampledRun, or list of DPSGD, Laplace, Atoms, Group, Allocation and SampledRun
        As in :func:`epsilon`.
    epsilon : float
        In [0, 500], nats.
    tolerance : float
        Target width, relative to delta.

    Returns
    -------
    Enclosure
        Contains the smallest delta at which the run is (epsilon, delta)-private. Below sampling
        rate one and with more than one step it is wider than the target where memory or rounding
        errors require it, mostly up to one per cent; a delta below about 1e-20, and of several
        releases one below 1e-100, may only be bounded, from above.

    Raises
    ------
    TypeError, ValueError
        As :func:`epsilon`.

    Notes
    -----
    Cost: up to about two seconds.

    Examples
    --------
    >>> from reconrisk import DPSGD, privacy
    >>> found = privacy.delta(DPSGD(1.0), epsilon=1.0)
    >>> f"{found.lower:.5f} {found.upper:.5f}"
    '0.12694 0.12694'
    """
    check_not_described(run)
    arguments.single("epsilon", epsilon)
    arguments.real("epsilon", epsilon, 0, 500)
    arguments.real("tolerance", tolerance, 1e-12, 1)
    sampled = bracket(run)
    if sampled is not None:
        return sampled.enclosure(lambda releases: delta(releases, epsilon, tolerance=tolerance))
    one = as_run_or_releases(run)  # type: ignore[arg-type]
    if not isinstance(one, DPSGD):
        most = outer_delta(one, float(epsilon))
        if most <= _LEAST_DELTA:
            return Enclosure(0.0, most)
        return _cap_enclosure(most, lambda: composed_delta(one, float(epsilon), float(tolerance)))
    mechanism = mechanism_of(one)
    if mechanism.inverse_noise == 0.0:
        return Enclosure(0.0, 0.0)
    if mechanism.sampling_rate < 1.0:
        outer = _outer_delta(mechanism, float(epsilon))
        if mechanism.steps == 1 or mechanism.inverse_noise > STEEPEST:
            return outer
        if mechanism.sampling_rate < _LEAST_RATE or mechanism.inverse_noise < _LEAST_SHIFT:
            closed = outer_delta([one], float(epsilon))
            return Enclosure(min(outer.lower, closed), min(outer.upper, closed))
        lower, upper = delta_enclosure(mechanism, float(epsilon), float(tolerance))
        return Enclosure(max(lower, outer.lower), min(upper, outer.upper))
    return enclose_full_batch_delta(
        math.sqrt(mechanism.steps) * mechanism.inverse_noise, float(epsilon)
    )


def _outer_delta(mechanism: Mechanism, epsilon: float) -> Enclosure:
    """Enclose delta as :func:`_outer_epsilon` does epsilon."""
    q, a = mechanism.sampling_rate, mechanism.inverse_noise
    lift = math.expm1(epsilon)
    at = math.log1p(lift / q) if lift < 1e300 * q else math.log(lift) - math.log(q)
    lower = q * enclose_full_batch_delta(a, at * (1.0 + 1e-14)).lower * (1.0 - 1e-14)
    upper = enclose_full_batch_delta(math.sqrt(mechanism.steps) * a, epsilon).upper
    if mechanism.steps == 1:
        one = q * enclose_full_batch_delta(a, at * (1.0 - 1e-14)).upper * (1.0 + 1e-14)
        upper = min(upper, one + 5e-324)
    return Enclosure(lower, upper)


@arguments.names_sampling_rate
@np.errstate(under="ignore")
def noise_for_epsilon(
    epsilon: float, delta: float, *, sampling_rate: float = 1.0, steps: int = 1
) -> float:
    """Smallest noise multiplier at which a run is certified to be (epsilon, delta)-private.

    Parameters
    ----------
    epsilon : float
        In (0, 1000], nats; at sampling rate one in (0, inf).
    delta : float
        In (0, 1).
    sampling_rate : float
        q in (0, 1].
    steps : int
        T >= 1.

    Returns
    -------
    float
        sigma with ``privacy.epsilon(DPSGD(sigma, q, T), delta).upper <= epsilon``; larger than the
        smallest such sigma by a relative 1e-3 at most, at sampling rate one 1e-10.

    Raises
    ------
    TypeError, ValueError
        If an argument is out of its range, no noise multiplier up to 1e7 is enough, or the least
        one cannot be told from one that is smaller by a thousandth.

    Examples
    --------
    >>> from reconrisk import privacy
    >>> round(privacy.noise_for_epsilon(8.0, 1e-5, sampling_rate=0.01, steps=1000), 4)
    0.5863
    """
    limit = np.inf if sampling_rate == 1 else 1000
    arguments.real("epsilon", epsilon, 0, limit, low_open=True, high_open=sampling_rate == 1)
    arguments.real("delta", delta, 0, 1, low_open=True, high_open=True)
    q, count = _checked_sampling(sampling_rate, steps)
    target, log_delta = float(epsilon), math.log(delta)

    def full_batch(log_noise: float) -> float:
        return log_delta_of_shift(target, math.sqrt(count) / math.exp(log_noise)) - log_delta

    if full_batch(math.log(_MOST_NOISE)) > 0.0:
        raise ValueError(
            f"epsilon and delta must need a noise multiplier of at most {_MOST_NOISE:g}; got "
            f"epsilon = {epsilon!r}, delta = {delta!r}"
        )
    # without sub-sampling more noise is needed
    most = _root(full_batch, math.log(_LEAST_NOISE), math.log(_MOST_NOISE), 1e-13)
    noise = math.exp(most) * (1.0 + _MARGIN)
    if q == 1.0:
        return noise

    def enclose(sigma: float, tolerance: float) -> tuple[float, float]:
        return epsilon_enclosure(Mechanism(1.0 / sigma, q, count), float(delta), tolerance)

    if q > _LARGE_RATE and count < _MANY_STEPS:
        return _calibrate(enclose, target, noise, "epsilon")

    # where enclosures are dear, the search begins at a saddle point's answer
    def rough(log_noise: float, log_epsilon: float = math.log(target)) -> float:
        sigma = max(math.exp(log_noise), 1.0 / STEEPEST)
        mechanism = Mechanism(1.0 / sigma, q, count)
        return rough_log_delta(mechanism, math.exp(log_epsilon), log_delta) - log_delta

    at = _root(rough, math.log(_LEAST_NOISE), most + 0.05, 1e-3)
    by_noise = rough(at + 0.01) - rough(at - 0.01)
    by_epsilon = rough(at, math.log(target) + 0.01) - rough(at, math.log(target) - 0.01)
    slope = -by_noise / by_epsilon if by_epsilon < 0.0 else -1.0
    return _nearest(enclose, target, at, min(slope, -0.1), 2e-4, "epsilon", noise)


@arguments.names_sampling_rate
@np.errstate(under="ignore")
def noise_for_success(
    success: float, prior_success: float, *, sampling_rate: float = 1.0, steps: int = 1
) -> float:
    """Smallest noise multiplier at which the success of any attack is certified.

    The inverse of :func:`reconrisk.bounds.rero` in the noise multiplier: calibration to a
    reconstruction risk instead of to epsilon.

    Parameters
    ----------
    success : float
        gamma in (kappa, 1).
    prior_success : float
        kappa in (0, 1), at least 1e-200 below sampling rate one.
    sampling_rate : float
        q in (0, 1].
    steps : int
        T >= 1.

    Returns
    -------
    float
        sigma with ``bounds.rero(DPSGD(sigma, q, T), kappa).upper <= success``; 1e-3 if no noise is
        needed.

    Raises
    ------
    TypeError, ValueError
        If an argument is out of its range; if ``success <= prior_success``, which no noise can
        achieve; if no noise multiplier up to 1e7 is enough; or if success hardly depends on it,
        so that the least one cannot be told from one that is smaller by a thousandth.

    Notes
    -----
    Cost: about twenty enclosures of gamma, 10 to 50 milliseconds each; at one step none.

    Examples
    --------
    >>> from reconrisk import privacy
    >>> round(privacy.noise_for_success(0.2, 0.1, sampling_rate=0.01, steps=1000), 4)
    0.9697
    """
    arguments.real("prior_success", prior_success, 0, 1, low_open=True, high_open=True)
    arguments.real("success", success, 0, 1, low_open=True, high_open=True)
    if success <= prior_success:
        raise ValueError(
            "success must exceed prior_success, which is reached without any output; got success = "
            f"{success!r}, prior_success = {prior_success!r}"
        )
    q, count = _checked_sampling(sampling_rate, steps)
    gain = special.log_normal_quantile(math.log(success)) - special.log_normal_quantile(
        math.log(prior_success)
    )
    noise = math.sqrt(count) / float(gain) * (1.0 + 1e-9)
    if not noise <= _MOST_NOISE:
        raise ValueError(
            f"success must need a noise multiplier of at most {_MOST_NOISE:g}; got success = "
            f"{success!r}, prior_success = {prior_success!r}"
        )
    if q == 1.0:
        return noise
    kappa = np.array([arguments.real("prior_success", prior_success, SMALLEST, 1)])

    gained = float(success - kappa[0])

    def enclose(sigma: float, tolerance: float) -> tuple[float, float]:
        """What is gained over the prior success; to a share of the gain."""
        share = min(max(3.0 * tolerance * gained / success, 1e-8), max(tolerance, TOLERANCE))
        lower, upper = success_curve(Mechanism(1.0 / sigma, q, count), kappa, share)
        return float(lower[0] - kappa[0]), float(upper[0] - kappa[0])

    if 1.0 - (1.0 - q) ** count * (1.0 - kappa[0]) <= success:
        # holds even without noise: the record must be in a batch, or the guess be lucky
        return _LEAST_NOISE
    if count == 1:  # success is (1 - q) kappa + q Phi(Phi**-1(kappa) + 1/sigma)
        full = (success - (1.0 - q) * prior_success) / q
        shift = special.log_normal_quantile(math.log(full)) - special.log_normal_quantile(
            math.log(prior_success)
        )
        return 1.0 / float(shift) * (1.0 + 1e-9)
    return _calibrate(enclose, gained, noise, "success")


def _checked_sampling(sampling_rate: float, steps: int) -> tuple[float, int]:
    q = float(arguments.real("sampling_rate", sampling_rate, 0, 1, low_open=True))
    return q, arguments.count("steps", steps, 1)


def _root(excess: Callable[[float], float], low: float, high: float, tolerance: float) -> float:
    """Return the root of a decreasing function of the logarithm of the noise multiplier."""
    known = cache(excess)
    if known(high) > 0.0:
        raise ValueError(
            "the target must be met by a noise multiplier that is certified to be enough; "
            f"{math.exp(high):g} is not"
        )
    # search downwards, further where the bound is far below: small noise makes lattices long
    top, least = high, 0.5
    while top > low:
        bottom = max(top - float(np.clip(-0.5 * known(top), least, 2.5)), low)
        if known(bottom) > 0.0:
            return float(optimize.brentq(known, bottom, top, xtol=tolerance, rtol=1e-14))
        top, least = bottom, 1.5 * least
    return low


def _calibrate(
    enclose: Callable[[float, float], tuple[float, float]], target: float, most: float, name: str
) -> float:
    """Return the smallest noise multiplier whose certified upper bound is at most the target.

    First the root of bounds at a coarse tolerance, then secant steps at the final one. Raises
    ValueError if less noise, by a thousandth, is not certain to be too little.
    """
    rough, start = 1e-2, math.log(most)

    def excess(log_noise: float) -> float:
        return _excess(enclose, target, log_noise, rough)

    if excess(start) > 0.0:
        rough = 1e-3
    at = _root(excess, math.log(_LEAST_NOISE), start + 0.05, 1e-3)
    slope = min((excess(at + 0.01) - excess(at - 0.01)) / 0.02, -1e-9)
    return _nearest(enclose, target, at, slope, 1e-5, name, most)


def _excess(
    enclose: Callable[[float, float], tuple[float, float]],
    target: float,
    log_noise: float,
    tolerance: float,
) -> float:
    """The logarithm of the bound over the target, nearly linear in that of the noise."""
    sigma = math.exp(log_noise)
    bound = enclose(sigma, tolerance)[1] if sigma >= 1.0 / STEEPEST else math.inf
    return float(np.clip(math.log(max(bound / target, 1e-30)), -_FARTHEST, _FARTHEST))


def _nearest(
    enclose: Callable[[float, float], tuple[float, float]],
    target: float,
    at: float,
    slope: float,
    close: float,
    name: str,
    most: float,
) -> float:
    """Return the noise that is enough, by secant steps from a guess and the excess's slope there.

    It exceeds the smallest one that would be certified by a relative ``close`` at most.
    """
    best, value = math.log(most), _excess(enclose, target, at, TOLERANCE)
    for _ in range(10):
        if value <= 0.0:
            best = min(best, at)
            if value > -close * min(-slope, 1.0):
                break
        aim = value + 0.2 * close * min(-slope, 1.0)
        new = at - float(np.clip(aim / slope, -0.1, 0.1))
        if new == at or abs(new - at) < 1e-9:
            break
        new_value = _excess(enclose, target, new, TOLERANCE)
        if new_value != value and (new_value - value) / (new - at) < 0.0:
            slope = (new_value - value) / (new - at)
        at, value = new, new_value
    else:
        if value <= 0.0:
            best = min(best, at)
    sigma = math.exp(best)
    less = sigma * (1.0 - _CLOSE)
    if less >= 1.0 / STEEPEST and not enclose(less, TOLERANCE)[0] > target:
        raise ValueError(
            f"{name} must change enough with the noise for its least multiplier to be found to "
            f"{_CLOSE:g} of it, which sampling_rate and steps prevent; {sigma:.6g} is certified to "
            "be enough"
        )
    return sigma

"""Deltas of many steps that hardly lose anything, as sums of positive terms.

As a difference of two tails they drown in the tails' rounding errors. On the lattice of the
dominating pair they are ``sum over l > epsilon of nu(l) (exp(l) - exp(epsilon))`` (the record is
removed) and ``sum over l < -epsilon of nu(l) (1 - exp(l + epsilon))`` (it is added): roundings of
the masses are relative to delta itself. Each sum is tilted to where its terms are.

From below, the pair's likelihood ratio is ``R' = R Z``, where ``R`` is the steps' and ``Z`` the
product of independent factors of mean one, by which ratios are spread over the ends of their cells.
For ``K = exp(+-epsilon)`` the pair's delta exceeds the steps' by the mean of ``(R' - K)_+`` where
``R <= K`` and of ``(K - R')_+`` where ``R > K``. By Hoeffding's lemma ``log Z`` has tails below
``exp(-v**2/(2 V))``, but for a drift of ``V/2``, with ``V = T h**2/4``. So that mean is at most
``E G(|log R/K|)``, ``G(d) = K exp(V/2) sqrt(2 pi V) Q((d - V)/sqrt(V))``, of second order in the
cells' width. With probability one half ``|log Z| <= w``, so that it is at most
``2 E G((|log R'/K| - w)_+)``, another sum on the lattice. Where most steps hardly lose anything and
few lose much, half of ``E|R' - R| <= sqrt((E r'^2)^T - (E r^2)^T)`` may be less, of first order.
"""

from __future__ import annotations

import math

import numpy as np
from scipy import special as sc

from reconrisk.privacy._compose import LONGEST, Sum, TooLong, compose
from reconrisk.privacy._saddle import MOST_CELLS, Mechanism, Saddle, reach, saddle
from reconrisk.privacy._step import UNIT, Step, losses, one_step
from reconrisk.privacy._tails import loosening

__all__ = ["small_losses_delta"]

#: cells to a standard deviation of one step's likelihood ratio: the most, those with which windows
#: are longer than is cheap, and the fewest that are worth while
_FINEST, _FINE, _COARSEST = 800.0, 200.0, 60.0
_CHEAP = 1 << 21
#: ratio of the root of the steps to that deviation beyond which tails' rounding errors dominate
_ROUNDED = 3e8
#: logarithm of the tilted mass outside the window, and its length in deviations of the sum
_LOG_OUTSIDE, _WINDOW = math.log(1e-6), 12.0
#: largest epsilon, in these deviations: the normal delta is 1e-14 of one deviation there
_FARTHEST = 7.0
#: deviations beyond which a normal variable never is: its tail is below 1e-349
_NEVER = 40.0


def small_losses_delta(mechanism: Mechanism, epsilon: float) -> tuple[float, float] | None:
    """Enclose delta to less than one per cent, where tails' roundings swamp it.

    None elsewhere, and where losses are too unequal for a lattice that is so fine.

    Notes
    -----
    Cost: one discretisation of a step and a pair of transforms for each direction, at most 2**22
    long: a second at T = 1e7, milliseconds at T = 1e4.
    """
    a, q, steps = mechanism.inverse_noise, mechanism.sampling_rate, mechanism.steps
    if a * a > 700.0:  # such losses are not small, and their mean square overflows
        return None
    chi_square = q * q * math.expm1(a * a)
    spread = math.sqrt(steps * chi_square)
    rounded = math.sqrt(steps / chi_square) >= _ROUNDED
    if q == 1.0 or not rounded or spread > 0.1 or epsilon > _FARTHEST * spread:
        return None
    far = epsilon / spread
    normal = math.exp(-0.5 * far * far) / math.sqrt(2.0 * math.pi) - far * float(sc.ndtr(-far))
    low, high = reach(mechanism, 1e-5 * spread * normal)
    window = _WINDOW * math.sqrt(steps)
    fine = min(max(_CHEAP / window, _FINE), _FINEST)
    width = math.sqrt(chi_square) * max(1.0 / fine, window / LONGEST)
    ends = losses(np.array([low, high]), a, q)
    width = max(width, float(ends[1] - ends[0]) / MOST_CELLS)
    if width * _COARSEST > math.sqrt(chi_square):
        return None
    step, guide = one_step(a, q, width, low, high), saddle(mechanism, low, high)
    spreading = 0.5 * _spreading(step, mechanism)
    outside = 2.0 * steps * (step.at_infinity + step.at_minus_infinity) * math.exp(epsilon)
    lower = upper = 0.0
    # without an epsilon both directions have the same delta
    for sign in (1, -1) if epsilon > 0.0 else (1,):
        try:
            least, most = _on_lattice(step, guide, spread, spreading, epsilon, sign)
        except TooLong:
            return None
        lower, upper = max(lower, least - outside), max(upper, most + outside)
    return lower, upper


def _on_lattice(
    step: Step, guide: Saddle, spread: float, spreading: float, epsilon: float, sign: int
) -> tuple[float, float]:
    """Enclose delta of all steps in one direction, up to what is at infinity."""
    steps, h, level = guide.steps, step.width, sign * epsilon
    theta = max(sign * float(guide.tilt(np.array(sign * max(epsilon, spread)))), 2.0)
    log_outside = _LOG_OUTSIDE + min(math.log(theta * spread), 0.0)
    slope = math.sqrt(-2.0 * log_outside) * h / spread
    total = compose(step.above, sign * theta * h, steps, (slope, slope), log_outside, whole=True)
    base = steps * step.base
    lowest = base + total.first * h - level
    # a mass is that of nu, times this, times exp(-theta sign (l - level))
    log_scale = total.log_norm - sign * theta * (level - base)
    if log_scale > 1.0:
        raise TooLong("the tilt is not for this level")
    scale = math.exp(log_scale)
    slack = loosening(steps, step)
    # of a loss and of its label; the profile is convex
    slip = 4.0 * UNIT * (abs(base) + epsilon + h * (abs(total.first) + total.size))
    slip += math.log(slack)

    places = np.clip(math.floor(-lowest / h) + np.array([0, 2]), 0, total.size)
    part = slice(int(places[0]), None) if sign > 0 else slice(0, int(places[1]))
    beyond = lowest + h * np.arange(total.size)[part]
    tilted = np.exp(-sign * theta * beyond)
    rise = np.expm1(beyond)
    lift = math.exp(level) if sign > 0 else 1.0
    # x exp(-theta x) is at most 1/(e theta), (exp(x) - 1) exp(-theta x) hardly more
    most = 1.01 / (math.e * (theta - 1.0))
    low, high = _mean(total, part, np.maximum(sign * rise, 0.0) * tilted, most)
    slipped = 1.01 * slip * _mean(total, part, (1.0 + rise) * tilted, 1.01)[1]
    gap = _gap(total, lowest, -sign * theta, steps * h * h, slip, h)
    gap = min(scale * lift * gap, spreading if sign > 0 else math.exp(epsilon) * spreading)
    low, high = (scale * lift * value for value in (low - slipped, high + slipped))
    return (low - gap) / slack, high * slack


def _gap(
    total: Sum, lowest: float, rate: float, squares: float, slip: float, width: float
) -> float:
    """Bound how much a tilted sum for the pair exceeds that for the steps, relative to ``K``.

    ``lowest`` is the window's lowest loss relative to ``log K``; masses are tilted by
    ``exp(rate * l)``.
    """
    variance = 0.25 * squares * (1.0 + 1e-9)
    root = math.sqrt(variance)
    near = 0.5 * variance + root * math.sqrt(2.0 * math.log(4.0)) + slip
    factor = 2.0 * math.exp(0.5 * variance) * math.sqrt(2.0 * math.pi) * root
    reach = near + variance + _NEVER * root
    first, last = (math.floor((d - lowest) / width) for d in (-reach, reach))
    part = slice(min(max(first, 0), total.size), min(max(last + 2, 0), total.size))
    away = lowest + width * np.arange(total.size)[part]
    distance = np.maximum(np.abs(away) - near, 0.0)
    weight = factor * sc.ndtr((variance - distance) / root) * np.exp(rate * away)
    return _mean(total, part, weight, 2.0 * float(weight.max(initial=0.0)))[1]


def _spreading(step: Step, mechanism: Mechanism) -> float:
    """Bound ``E|prod r' - prod r|`` over outputs that are cut into cells."""
    a, q, steps = mechanism.inverse_noise, mechanism.sampling_rate, mechanism.steps
    ratio = np.exp(step.base + step.nu.points * step.width)
    # outputs rounded to a point lie in the cells on either side of it
    widths = ratio * math.expm1(step.width)
    added = 0.25 * float(step.nu.mass @ (widths * widths)) * (1.0 + 1e-6)
    square = math.log1p(q * q * math.expm1(a * a) + added)
    return math.sqrt(steps * added) * math.exp(0.5 * (steps - 1) * square) * (1.0 + 1e-6)


def _mean(total: Sum, part: slice, weight: np.ndarray, most: float) -> tuple[float, float]:
    """Enclose the sum of tilted masses times their weights, which are at most ``most`` anywhere."""
    assert total.mass is not None
    found = float(total.mass[part] @ weight)
    square = total.square * math.sqrt(float(weight @ weight))
    error = min(total.each * float(weight.sum()), square) + total.folded * most
    error += found * (total.relative + UNIT * (16.0 + total.size))
    return found - error, found + error

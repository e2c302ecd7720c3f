"""The total variation of many steps that hardly lose anything, as one sum of positive terms.

As a difference of two tails near one half it drowns in their rounding errors. On the lattice of the
dominating pair it is ``S(0)``, ``S(c) = sum over l <= c of nu(l) (1 - exp(l - c))``: roundings
of the masses are relative to the total variation itself. Deltas near it are ``S(-epsilon)`` (the
record is added) and ``exp(epsilon) S(epsilon) + 1 - exp(epsilon)`` (it is removed).

From below, the pair's likelihood ratio is the steps' ``r`` spread over two lattice points without
changing its mean, ``E[r' | x] = r``. So their deltas differ by at most half of
``E|prod r' - prod r| <= sqrt((E r'^2)^T - (E r^2)^T)``, which is in proportion to the cells' width
(and ``exp(epsilon)`` times that).
"""

from __future__ import annotations

import math

import numpy as np

from reconrisk.privacy._compose import LONGEST, TooLong, compose
from reconrisk.privacy._saddle import MOST_CELLS, Mechanism, reach
from reconrisk.privacy._step import UNIT, Step, losses, one_step
from reconrisk.privacy._tails import loosening

__all__ = ["small_losses_delta"]

#: cells to a standard deviation of one step's likelihood ratio, for an enclosure of 0.1 per cent
_FINE = 800.0
#: ratio of the root of the steps to that deviation beyond which tails' rounding errors dominate
_ROUNDED = 3e8
#: relative width, about, of cells of one deviation, and the largest that is worth while
_OF_ONE, _WIDEST = 0.63, 8e-3
#: length of the window in deviations of the sum
_WINDOW = 16.0
#: largest epsilon, in these deviations
_NEAR = 2.0


def small_losses_delta(mechanism: Mechanism, epsilon: float) -> tuple[float, float] | None:
    """Enclose delta to less than one per cent of ``delta(0)``, where tails' roundings swamp it.

    None elsewhere, and where losses are too unequal for a lattice that is so fine.

    Notes
    -----
    Cost: one discretisation of a step and one pair of transforms, at most 2**22 long: a second at
    T = 1e7, milliseconds at T = 1e4.
    """
    a, q, steps = mechanism.inverse_noise, mechanism.sampling_rate, mechanism.steps
    chi_square = q * q * math.expm1(a * a)
    spread = math.sqrt(steps * chi_square)
    rounded = math.sqrt(steps / chi_square) >= _ROUNDED
    if q == 1.0 or not rounded or spread > 0.1 or epsilon > _NEAR * spread:
        return None
    low, high = reach(mechanism, 1e-6 * spread)
    width = math.sqrt(chi_square) * max(1.0 / _FINE, _WINDOW * math.sqrt(steps) / LONGEST)
    ends = losses(np.array([low, high]), a, q)
    width = max(width, float(ends[1] - ends[0]) / MOST_CELLS)
    if width * _OF_ONE > _WIDEST * math.sqrt(chi_square):
        return None
    step = one_step(a, q, width, low, high)
    try:
        least, most = _on_lattice(step, steps, spread, epsilon)
    except TooLong:
        return None
    slack, scale = loosening(steps, step), math.exp(epsilon)
    outside = scale * steps * (step.at_infinity + step.at_minus_infinity)
    lower = least - 0.5 * scale * (slack - 1.0 + _spreading(step, mechanism)) - outside
    return max(lower, 0.0), slack * (most + scale * math.log(slack)) + outside


def _on_lattice(step: Step, steps: int, spread: float, epsilon: float) -> tuple[float, float]:
    """Enclose the larger delta of the steps' dominating pair, up to what is at infinity."""
    log_outside = math.log(1e-6 * spread)
    slope = math.sqrt(-2.0 * log_outside) * step.width / spread
    total = compose(step.above, 0.0, steps, (slope, slope), log_outside, whole=True)
    assert total.mass is not None
    base = steps * step.base

    def below(level: float) -> tuple[float, float]:
        """Enclose ``S(level)``."""
        count = math.floor((level - base) / step.width) - total.first + 1
        count = min(max(count, 0), total.size)
        loss = base + (total.first + np.arange(count)) * step.width
        weight = np.maximum(-np.expm1(loss - level), 0.0)
        mass = math.exp(total.log_norm) * total.mass[:count]
        found = float(mass @ weight)
        square = total.square * math.sqrt(float(weight @ weight))
        error = min(total.each * float(weight.sum()), square)
        error += total.folded + found * (total.relative + UNIT * (16.0 + count))
        # of the losses
        error += 4.0 * UNIT * (abs(base) + epsilon + step.width * (abs(total.first) + count))
        return found - error, found + error

    added = below(-epsilon)
    if epsilon == 0.0:
        return added
    excess, scale = math.expm1(epsilon), math.exp(epsilon)
    removed = [scale * value - excess for value in below(epsilon)]
    slip = 4.0 * UNIT * (excess + scale)
    return max(added[0], removed[0] - slip), max(added[1], removed[1] + slip)


def _spreading(step: Step, mechanism: Mechanism) -> float:
    """Bound ``E|prod r' - prod r|`` over outputs that are cut into cells."""
    a, q, steps = mechanism.inverse_noise, mechanism.sampling_rate, mechanism.steps
    ratio = np.exp(step.base + step.nu.points * step.width)
    # outputs rounded to a point lie in the cells on either side of it
    widths = ratio * math.expm1(step.width)
    added = 0.25 * float(step.nu.mass @ (widths * widths)) * (1.0 + 1e-6)
    square = math.log1p(q * q * math.expm1(a * a) + added)
    return math.sqrt(steps * added) * math.exp(0.5 * (steps - 1) * square) * (1.0 + 1e-6)

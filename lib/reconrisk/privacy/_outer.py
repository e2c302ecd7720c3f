"""Closed forms above what releases say, for where composing takes too long or rounds too much."""

from __future__ import annotations

import math
from collections.abc import Sequence

from reconrisk._types import Enclosure
from reconrisk.privacy._gaussian import ERROR, log_delta_of_shift
from reconrisk.privacy._releases import Release, full_batch_shift, log_mean_square, taken

__all__ = ["enclose_full_batch_delta", "outer_delta"]

#: relative margin for the roundings of a few terms
_MARGIN = 1e-12
#: largest expected number of batches with the record for which they are counted, and their most
_FEW, _MOST = 1.0, 20
#: epsilon beyond which the mean square says nothing
_FAR = 300.0


def outer_delta(releases: Sequence[Release], epsilon: float) -> float:
    """Return the least of three upper bounds on delta; it falls with ``epsilon >= 0``.

    An attacker who is told the batches sees Gaussian releases: that of all steps on the full batch,
    or, of one kind of release, that of the steps that took the record, averaged over their number.
    And with the mean square of the likelihood ratio ``R``, whose mean is one, ``E (R - K)_+`` is at
    most half of ``sqrt(v + (K - 1)**2) - (K - 1)``, ``v`` being its variance (Scarf 1958); likewise
    ``E (1 - K R)_+``, with ``K**2 v``.
    """
    shift = full_batch_shift(releases)
    if shift == math.inf:
        return 1.0
    found = min(enclose_full_batch_delta(shift, epsilon).upper, _by_mean_square(releases, epsilon))
    if len(releases) == 1:
        found = min(found, _by_taken_batches(releases[0], epsilon, shift))
    return min(found, 1.0)


def enclose_full_batch_delta(shift: float, epsilon: float) -> Enclosure:
    """Enclose the delta of one Gaussian release with a shift of so many deviations."""
    value = log_delta_of_shift(epsilon, shift)
    if value == -math.inf:
        return Enclosure(0.0, 5e-324 if shift > 0.0 else 0.0)
    slack = ERROR + 4e-15 * abs(value)
    return Enclosure(math.exp(value - slack), min(math.exp(value + slack) + 5e-324, 1.0))


def _by_taken_batches(release: Release, epsilon: float, shift: float) -> float:
    steps, share = taken(release)
    mean = steps * share
    if not mean <= _FEW:
        return 1.0
    one = shift / math.sqrt(steps) * (1.0 + _MARGIN)
    most = min(_MOST, steps)
    # binomial weights are at most those; beyond the most, everything counts
    total = 0.0 if most == steps else mean ** (most + 1) / math.factorial(most + 1)
    for k in range(1, most + 1):
        weight = mean**k / math.factorial(k) * math.exp(-share * (steps - k))
        total += weight * enclose_full_batch_delta(math.sqrt(k) * one, epsilon).upper
    return total * (1.0 + _MARGIN) + 5e-324


def _by_mean_square(releases: Sequence[Release], epsilon: float) -> float:
    log_square = log_mean_square(releases) * (1.0 + _MARGIN)
    if epsilon > _FAR or log_square > _FAR:
        return 1.0
    gain, lift = math.expm1(epsilon) * (1.0 - _MARGIN), math.exp(epsilon)
    spread = lift * lift * math.expm1(log_square)
    root = math.sqrt(spread + gain * gain)
    # nothing is lost where nothing is said
    return 0.5 * spread / (root + gain) * (1.0 + _MARGIN) + 5e-324 if root else 0.0

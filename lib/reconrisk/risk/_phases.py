"""A run in several phases: grouped, and one run of DP-SGD where that is exact."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from reconrisk import arguments
from reconrisk._types import DPSGD

__all__ = ["Phase", "merge_equal_phases", "describe_phases", "one_run", "phase_of_history"]

Phase = tuple[float, float, int]
#: phases that a note spells out
_MOST_LISTED = 4


def merge_equal_phases(phases: Iterable[Phase]) -> tuple[DPSGD, ...]:
    """Return phases with the steps of equal noise and sampling rate added up.

    Raises
    ------
    TypeError, ValueError
        If there is no phase, or a value is out of the range of :class:`~reconrisk.DPSGD`.
    """
    merged: dict[tuple[float, float], int] = {}
    for sigma, q, steps in phases:
        run = DPSGD(sigma, q, steps)
        key = (float(run.noise_multiplier), float(run.sampling_rate))
        merged[key] = merged.get(key, 0) + int(run.steps)
    if not merged:
        raise ValueError("phases must hold at least one step of training; got none")
    return tuple(DPSGD(sigma, q, steps) for (sigma, q), steps in merged.items())


def one_run(phases: Sequence[DPSGD]) -> DPSGD | None:
    """Return the one run that gathered phases are equivalent to, None if there is none.

    Phases at sampling rate one are merged: Gaussian releases of the same record with noise
    multipliers ``sigma_i`` are equivalent to ``T`` releases with ``sigma`` where ``T / sigma**2``
    is the sum of ``1 / sigma_i**2``.
    """
    if len(phases) == 1:
        return phases[0]
    if any(phase.sampling_rate < 1.0 for phase in phases):
        return None
    return DPSGD(equivalent_noise(phases), 1.0, sum(int(p.steps) for p in phases))


def equivalent_noise(phases: Sequence[DPSGD]) -> float:
    """Return the noise multiplier of as many equal steps that say as much of every record."""
    least = min(float(p.noise_multiplier) for p in phases)
    total = sum(int(p.steps) for p in phases)
    information = math.fsum(int(p.steps) * (least / float(p.noise_multiplier)) ** 2 for p in phases)
    return least * math.sqrt(total / information)


def describe_phases(phases: Sequence[DPSGD]) -> str:
    """Return phases in words, of any number, in one line."""
    words = [
        f"sigma {p.noise_multiplier:g}, q {p.sampling_rate:g}, {p.steps:,} steps" for p in phases
    ]
    if len(words) <= _MOST_LISTED:
        return "; ".join(words)
    sigma, q = (
        [float(getattr(p, n)) for p in phases] for n in ("noise_multiplier", "sampling_rate")
    )
    return (
        f"sigma from {min(sigma):g} to {max(sigma):g}, q from {min(q):g} to {max(q):g}, "
        f"{sum(int(p.steps) for p in phases):,} steps"
    )


def phase_of_history(name: str, entry: object) -> Phase:
    """Validate one entry of an accountant's history; return it as ``(sigma, q, steps)``."""
    if not isinstance(entry, list | tuple) or len(entry) != 3:
        raise TypeError(
            f"{name} must be (noise_multiplier, sample_rate, steps), three numbers; got {entry!r}"
        )
    if any(isinstance(value, bool) for value in entry):
        raise TypeError(f"{name} must hold three numbers; got {entry!r}")
    sigma = arguments.real(f"{name}, noise_multiplier,", entry[0], 0, math.inf, low_open=True)
    q = arguments.real(f"{name}, sample_rate,", entry[1], 0, 1, low_open=True)
    steps = arguments.integer(f"{name}, steps,", entry[2], 1, 1e15)
    if sigma.ndim or q.ndim or steps.ndim:
        raise TypeError(f"{name} must hold three single numbers; got {entry!r}")
    return float(sigma), float(q), int(steps)

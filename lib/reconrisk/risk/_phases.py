"""A run in several phases as one run of DP-SGD: exactly where possible, else an upper bound."""

from __future__ import annotations

import math
from collections.abc import Iterable

from reconrisk import arguments
from reconrisk._types import DPSGD

__all__ = ["one_run"]

Phase = tuple[float, float, int]


def one_run(phases: Iterable[Phase], max_grad_norm: float = 1.0) -> tuple[DPSGD, str]:
    """Return one run of DP-SGD that reveals at least what the phases reveal.

    - Phases of equal noise multiplier and sampling rate are one run; their steps are added.
    - Phases at sampling rate one are merged exactly: Gaussian releases of the same record with
      noise multipliers ``sigma_i`` are equivalent to ``T`` releases with ``sigma`` where
      ``T / sigma**2`` is the sum of ``1 / sigma_i**2``.
    - Otherwise the result has the least noise, the largest sampling rate and all steps. A step of
      a phase is a step of this run with noise added and, with some probability, the record left
      out. An upper bound for this run therefore holds for the phases.

    Parameters
    ----------
    phases : iterable of (noise_multiplier, sampling_rate, steps)
        In any order; each as :class:`~reconrisk.DPSGD` takes them.
    max_grad_norm : float
        Clipping norm.

    Returns
    -------
    run : DPSGD
    note : str
        How the phases were merged; empty if they are one run already.

    Raises
    ------
    TypeError, ValueError
        If there is no phase, or a value is out of the range of :class:`~reconrisk.DPSGD`.
    """
    merged: dict[tuple[float, float], int] = {}
    for sigma, q, steps in phases:
        run = DPSGD(sigma, q, steps, max_grad_norm)
        key = (float(run.noise_multiplier), float(run.sampling_rate))
        merged[key] = merged.get(key, 0) + int(run.steps)
    if not merged:
        raise ValueError("phases must hold at least one step of training; got none")
    total = sum(merged.values())
    if len(merged) == 1:
        ((sigma, q),) = merged
        return DPSGD(sigma, q, total, max_grad_norm), ""
    noises, rates = zip(*merged, strict=True)
    listed = "; ".join(f"sigma {s:g}, q {r:g}, {t:,} steps" for (s, r), t in merged.items())
    if set(rates) == {1.0}:
        least = min(noises)
        information = math.fsum(t * (least / s) ** 2 for (s, _), t in merged.items())
        sigma = least * math.sqrt(total / information)
        note = f"{len(merged)} phases at sampling rate 1 ({listed}), exactly one run"
        return DPSGD(sigma, 1.0, total, max_grad_norm), note
    note = (
        f"{len(merged)} phases ({listed}) bounded from above by one run with the least noise and "
        "the largest sampling rate: every success and epsilon is at most what is reported, every "
        "error at least; what is called exact is so for that run"
    )
    return DPSGD(min(noises), max(rates), total, max_grad_norm), note


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

"""One-sided confidence limits of a success probability (Clopper and Pearson)."""

from __future__ import annotations

from scipy import special as sc

__all__ = ["lower_limit", "upper_limit"]


def upper_limit(successes: float, trials: float, risk: float) -> float:
    """Return what the probability exceeds with at most probability ``risk``."""
    if successes >= trials:
        return 1.0
    return float(sc.betaincinv(successes + 1.0, trials - successes, 1.0 - risk))


def lower_limit(successes: float, trials: float, risk: float) -> float:
    """Return what the probability falls short of with at most probability ``risk``."""
    if successes <= 0:
        return 0.0
    return float(sc.betaincinv(successes, trials - successes + 1.0, risk))

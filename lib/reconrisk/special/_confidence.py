"""One-sided confidence limits of a success probability (Clopper and Pearson)."""

from __future__ import annotations

from scipy import special as sc

__all__ = ["lower_limit", "upper_limit"]


def upper_limit(successes: float, trials: float, risk: float) -> float:
    """Return the upper limit; the probability exceeds it with probability at most ``risk``."""
    if successes >= trials:
        return 1.0
    return float(sc.betaincinv(successes + 1.0, trials - successes, 1.0 - risk))


def lower_limit(successes: float, trials: float, risk: float) -> float:
    """Return the lower limit; the probability is below it with probability at most ``risk``."""
    if successes <= 0:
        return 0.0
    return float(sc.betaincinv(successes, trials - successes + 1.0, risk))

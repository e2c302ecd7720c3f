"""Clipping makes noise |G|/C times as strong: what Propositions 3.3 and C.13 share."""

from __future__ import annotations

from companion.papers.liu2024.power_laws import NEAR, PowerLaw, slopes
from companion.study import Verdict, check

__all__ = ["grows_with_ratio"]


def grows_with_ratio(target: str, laws: dict[str, PowerLaw]) -> Verdict:
    """Judge the exponent of |G|/C under clipping with noise."""
    return check(
        target,
        laws["both ratio"].near(1.0, NEAR),
        "clipping and noise: the error grows as sigma0 |G|/C",
        ours=f"exponent of |G|/C: {slopes(laws, 'both ratio')}",
        paper="1",
        tolerance=f"{NEAR:g}",
    )

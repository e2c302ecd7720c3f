"""What calibrated runs are worth: their noise is right to a relative 1e-5, so four digits are."""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["FOUR_DIGITS", "four_digits"]

#: what rounding to four digits may undo of a monotone order, relative
FOUR_DIGITS = 1e-3


def four_digits(values: Mapping[str, float]) -> dict[str, float]:
    """Round to the digits that the calibrations' tolerance supports on every machine."""
    return {name: float(f"{value:.4g}") for name, value in values.items()}

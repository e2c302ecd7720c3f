"""Rounding of roots and calibrations to the digits on which all machines agree."""

from collections.abc import Mapping

__all__ = ["FOUR_DIGITS", "four_digits", "significant"]

#: relative error allowed in a monotone order of values rounded to four digits
FOUR_DIGITS = 1e-3


def significant(value: float, digits: int) -> float:
    """Round to significant digits."""
    return float(f"{value:.{digits}g}")


def four_digits(values: Mapping[str, float]) -> dict[str, float]:
    """Round each of many to four digits: calibrated noise is right to a relative 1e-5."""
    return {name: significant(value, 4) for name, value in values.items()}

"""Rounding of roots and calibrations to the digits on which all machines agree."""

from collections.abc import Mapping
from decimal import ROUND_CEILING, ROUND_FLOOR, Context

from reconrisk import Enclosure

#: relative error allowed in a monotone order of values rounded to four digits
FOUR_DIGITS = 1e-3


def significant(value: float, digits: int) -> float:
    return float(f"{value:.{digits}g}")


def outwards(found: Enclosure) -> tuple[float, float]:
    """Round both ends to four digits, the lower down and the upper up."""
    ends = ((found.lower, ROUND_FLOOR), (found.upper, ROUND_CEILING))
    low, high = (
        float(Context(prec=4, rounding=way).create_decimal(repr(float(end)))) for end, way in ends
    )
    return low, high


def four_digits(values: Mapping[str, float]) -> dict[str, float]:
    """Round each of many to four digits: calibrated noise is right to a relative 1e-5."""
    return {name: significant(value, 4) for name, value in values.items()}

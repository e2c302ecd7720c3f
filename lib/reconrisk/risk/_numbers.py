"""The numbers of a report as text, rounded to the safe side."""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Context, Decimal

from reconrisk.risk._entries import Entry
from reconrisk.risk._settings import Record

__all__ = ["chance", "count", "describe_value", "number", "says_nothing", "share", "short"]

_DIGITS = 3
_ROUNDINGS = {"up": ROUND_CEILING, "down": ROUND_FLOOR, "nearest": ROUND_HALF_EVEN}
#: units left out because the title names them
_UNITS = dict.fromkeys(("probability", "ratio", "correlation", "order"), "")


def number(value: float, way: str = "nearest", log: float | None = None) -> str:
    """Return a number with three significant digits, rounded ``"up"``, ``"down"`` or to nearest.

    With ``log``, its natural logarithm, a number that underflows is written too: ``3.2e-1850``.

    >>> number(0.19421253, "up"), number(1500000.0, "up"), number(0.0, "up", log=-4258.0)
    ('0.195', '1.5e+06', '5.95e-1850')
    """
    if log is not None and math.isfinite(log) and (value == 0.0 or abs(value) < 1e-290):
        return _from_log(log, way)
    exact = Decimal(repr(float(value)))
    digits = _DIGITS
    if 0.999 < value < 1.0:  # keep the digits of 1 - value
        digits = min(-(1 - exact).adjusted(), 8)
    rounded = Context(prec=digits, rounding=_ROUNDINGS[way]).create_decimal(exact)
    if rounded == 0:
        return "0"
    exponent = rounded.adjusted()
    if -4 <= exponent < 6:
        return _plain(rounded)
    return f"{_plain(rounded.scaleb(-exponent))}e{exponent:+03d}"


def _from_log(log: float, way: str) -> str:
    decimal = log / math.log(10.0)
    exponent = math.floor(decimal)
    # the logarithm's rounding error limits the digits; none is left at 1e-1e15
    loss = abs(decimal) * 4e-16
    if loss > 1e-3:
        return f"10^{_rounded_outwards(decimal, way):.6g}"
    mantissa = 10.0 ** (decimal - exponent)
    slack = 1.0 + 3.0 * loss
    mantissa = mantissa * slack if way == "up" else mantissa / slack if way == "down" else mantissa
    digits = Context(prec=_DIGITS, rounding=_ROUNDINGS[way]).create_decimal(Decimal(mantissa))
    if digits >= 10:
        digits, exponent = digits / 10, exponent + 1
    elif digits < 1:
        digits, exponent = digits * 10, exponent - 1
    return f"{_plain(digits)}e{exponent:+03d}"


def _plain(value: Decimal) -> str:
    text = f"{value:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def _rounded_outwards(value: float, way: str) -> float:
    margin = abs(value) * 1e-5
    return value + margin if way == "up" else value - margin if way == "down" else value


def short(value: float | int | None) -> str:
    """Return a setting as text: whole numbers without decimals, others with up to six digits."""
    if value is None:
        return ""
    if float(value).is_integer() and abs(value) < 1e15:
        return f"{int(value):,}" if abs(value) >= 10_000 else f"{int(value)}"
    return f"{value:.6g}"


def describe_value(entry: Entry) -> str:
    """Return an entry's value as text: ``at most 0.195``, ``between 1 and 2``, ``0.0225``.

    Bounds are rounded outwards, and so is the value for the worst record, which bounds that of all;
    other values known to three digits are written as they are. A vacuous bound is marked: ``at
    most 1: says nothing``.
    """
    if entry.status != "ok":
        return entry.status
    unit = "" if entry.kind == "epsilon" else _UNITS.get(entry.unit, f" {entry.unit}")
    low, high = (
        None if value is None else number(value, way, log)
        for value, way, log in (
            (entry.lower, "down", entry.log_lower),
            (entry.upper, "up", entry.log_upper),
        )
    )
    if "upper bound" in entry.direction:
        if entry.unit == "probability" and entry.upper is not None and entry.upper >= 1.0:
            return "at most 1: says nothing"
        return "no bound" if high is None else f"at most {high}{unit}"
    if "lower bound" in entry.direction:
        if low == "0":
            return "at least 0: says nothing"
        return "no bound" if low is None else f"at least {low}{unit}"
    if low is None or high is None:
        known = f"at least {low}{unit}" if high is None else f"at most {high}{unit}"
        return "no bound" if low is high else known
    if entry.lower is not None and entry.upper is not None:
        near = number(entry.lower, "nearest", entry.log_lower)
        nearest = number(entry.upper, "nearest", entry.log_upper)
        # where an exact value's ends are near, a rounding may still fall between them
        exact = entry.direction.startswith("exact")
        if near == nearest or (exact and entry.upper - entry.lower <= 0.01 * abs(entry.upper)):
            # the value of the worst record is a bound for all: "at most 1.14"
            return f"{high if entry.direction == 'exact' else nearest}{unit}"
    return f"between {low} and {high}{unit}"


def chance(probability: float) -> str:
    """Return a probability as people say it, rounded up: ``16.1%``, ``1 in 231,000``.

    >>> chance(0.16081), chance(4.32e-6), chance(0.99999), chance(1.0), chance(1e-40)
    ('16.1%', '1 in 231,000', '99.999%', '100%', '1 in 10^40')
    """
    if probability >= 1.0:
        return "100%"
    if probability >= 0.01:
        share = float(Context(prec=10).create_decimal(Decimal(repr(probability)) * 100))
        return f"{number(share, 'up')}%" if share < 99.9 else _near_certain(probability)
    if probability <= 0.0:
        return "0%"
    one_in = 1.0 / probability
    if one_in >= 1e15:
        return f"1 in 10^{math.floor(-math.log10(probability) + 1e-9)}"
    return f"1 in {int(float(number(one_in, 'down'))):,}"


def share(probability: float) -> str:
    """Return a probability that is attained, rounded down: ``16%``, ``1 in 240``.

    >>> share(0.16081), share(0.0042)
    ('16%', '1 in 239')
    """
    if probability >= 0.01:
        return f"{number(100.0 * probability, 'down')}%"
    return f"1 in {int(float(number(1.0 / probability, 'up'))):,}" if probability > 0.0 else "0%"


def count(records: float, way: str = "up") -> str:
    """Return a number of records, with three significant digits, whole from a hundred on.

    >>> count(57321.2), count(0.2588), count(0.0), count(9154.9, "down")
    ('57,400', '0.259', '0', '9,150')
    """
    rounded = number(records, way)
    return f"{int(float(rounded)):,}" if records >= 100.0 else rounded


def _near_certain(probability: float) -> str:
    """A percentage just below a hundred, with the digits of what is missing."""
    missing = 100 * (1 - Decimal(repr(probability)))
    digits = -missing.adjusted()
    if digits > 6:
        return "100%"
    rounded = missing.quantize(Decimal(1).scaleb(-digits), rounding=ROUND_FLOOR)
    return f"{_plain(100 - rounded)}%"


#: sizes beyond which a number means nothing to anybody, as powers of e
_LARGEST_LOG = 30.0 * math.log(10.0)
#: bits of a value, at which information about a record stops
_BITS = 8.0


def says_nothing(entry: Entry, record: Record, records: int | None = None) -> bool:
    """Whether an entry's bound is always true, or out of any range that a person can use.

    Parameters
    ----------
    entry : Entry
    record : Record
        Of the same report.
    records : int, optional
        How many there are.
    """
    if entry.status != "ok":
        return False
    value, log = entry.value, entry.log_value
    if entry.unit == "records":
        return value is None or (records is not None and value >= records)
    if entry.unit == "probability":
        # a wide interval, such as 1e-312 to 1, says as little as a bound of one
        certain = entry.upper is not None and entry.upper >= 1.0
        wide = entry.lower is None or entry.lower < 0.5
        return certain and ("upper bound" in entry.direction or wide)
    if value is None:
        return True
    if entry.unit == "nats" and entry.kind != "epsilon":
        at = dict(entry.at)
        most = math.log(at["prior_size"]) if "prior_size" in at else None
        if entry.threat_model == "capacity":
            most = _LARGEST_LOG
        elif entry.threat_model == "any_attack" and record.dimension is not None:
            most = record.dimension * _BITS * math.log(2.0)
        return most is not None and value >= most * (1.0 - 1e-3)
    if "lower bound" in entry.direction:
        if value <= 0.0:
            return log is None or log < -_LARGEST_LOG
        span = record.data_range if "data units" in entry.unit and record.data_range else 1.0
        scale = 2.0 * math.log(span) if entry.unit == "squared data units" else math.log(span)
        return math.log(value) - scale < -_LARGEST_LOG
    return False

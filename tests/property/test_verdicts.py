"""The printed precision of any number, in any of the notations the papers use."""

from __future__ import annotations

from decimal import Decimal

from hypothesis import given
from hypothesis import strategies as st

from companion.study.verdicts import (
    STATUSES,
    Verdict,
    compare,
    half_unit,
    overall,
    rounded,
)

DIGITS = st.tuples(
    st.sampled_from(["", "-"]), st.integers(0, 10**6), st.integers(0, 6), st.integers(0, 10**6)
).map(lambda t: f"{t[0]}{t[1]}" + (f".{t[3]:0{t[2]}d}"[: t[2] + 1] if t[2] else ""))
EXPONENTS = st.integers(-200, 200)
POWERS = st.sampled_from([r"{}\cdot 10^{{{}}}", r"{} \times 10^{{{}}}", "{} x 10^{}", "{}e{}"])


def unit(digits: str) -> Decimal:
    """One unit of the last digit, by decimal arithmetic."""
    return Decimal(1).scaleb(int(Decimal(digits).as_tuple().exponent))


@given(DIGITS, st.sampled_from(["", "%", r"\%"]))
def test_half_a_unit_is_exactly_half_of_the_last_digit(digits, sign):
    assert half_unit(digits + sign) == float(unit(digits) / 2)


@given(DIGITS, EXPONENTS, POWERS)
def test_powers_of_ten_scale_the_unit(digits, exponent, notation):
    expected = float((unit(digits) / 2).scaleb(exponent))
    assert half_unit(notation.format(digits, exponent)) == expected


@given(DIGITS, st.floats(-0.999, 0.999))
def test_whatever_rounds_to_the_printed_number_agrees(digits, share):
    value = float(Decimal(digits) + Decimal(share) * unit(digits) / 2)
    assert compare("A-001", "", [value], [float(digits)], [digits]).status == "reproduced"


@given(DIGITS, st.floats(1.001, 1e3), st.sampled_from([-1, 1]))
def test_whatever_does_not_round_to_it_fails(digits, share, side):
    value = float(Decimal(digits) + side * Decimal(share) * unit(digits) / 2)
    assert compare("A-001", "", [value], [float(digits)], [digits]).status == "failed"


@given(DIGITS, st.floats(0, 3.999), st.sampled_from([-1, 1]), st.floats(1e-3, 1e3))
def test_monte_carlo_errors_are_allowed_for(digits, errors, side, scale):
    error = scale * float(unit(digits))
    value = float(digits) + side * errors * error
    arguments = ("A-001", "", [value], [float(digits)], [digits])
    assert compare(*arguments, standard_error=error).status == "reproduced"


@given(st.lists(st.sampled_from(STATUSES), min_size=1))
def test_the_worst_verdict_decides_in_any_order(statuses):
    verdicts = [Verdict("A-001", s, "") for s in statuses]
    assert overall(verdicts) == overall(reversed(verdicts))
    assert STATUSES.index(overall(verdicts)) == max(map(STATUSES.index, statuses))


@given(st.floats(-1e6, 1e6), st.floats(1e-6, 1e3))
def test_rounding_moves_a_value_by_less_than_its_standard_error(value, error):
    assert abs(float(rounded(value, error)) - value) <= 0.5 * error * (1 + 1e-6)

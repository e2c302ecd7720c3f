"""Enclosures as users take them: printed, rounded and compared on the safe side."""

import math
import re
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import special

from reconrisk import DPSGD, Enclosure, privacy

FINITE = st.floats(-1e12, 1e12, allow_subnormal=False)


@given(FINITE, FINITE, st.sampled_from([".0f", ".3f", ".2e", ".4g", ".1%", "12.5f", ",.2f", "g"]))
def test_printed_ends_lie_outside_and_are_at_most_a_digit_off(a, b, spec):
    low, high = min(a, b), max(a, b)
    shown = format(Enclosure(low, high), spec)
    texts = re.fullmatch(r"\[ *(\S+), +(\S+)\]", shown).groups()
    for text, end, sign in zip(texts, (low, high), (-1, 1), strict=True):
        unit = Decimal("0.01") if text.endswith("%") else Decimal(1)
        printed = Decimal(text.rstrip("%").replace(",", ""))
        exact = Decimal(end) / unit
        assert (printed - exact) * sign >= 0
        digit = Decimal(1).scaleb(printed.as_tuple().exponent)
        assert abs(printed - exact) < 11 * digit


@given(FINITE, FINITE, st.integers(0, 6))
def test_rounding_goes_outwards(a, b, digits):
    found = Enclosure(min(a, b), max(a, b))
    rounded = round(found, digits)
    unit = Decimal(1).scaleb(-digits)
    ends = Decimal(repr(rounded.lower)), Decimal(repr(rounded.upper))
    if abs(found.lower) < 1e6 and abs(found.upper) < 1e6:
        assert ends[0] <= Decimal(found.lower) and Decimal(found.upper) <= ends[1]
        assert Decimal(found.lower) - ends[0] <= unit and ends[1] - Decimal(found.upper) <= unit


def test_examples():
    found = Enclosure(0.9727, 0.9731)
    assert f"{found:.3f}" == "[0.972, 0.974]"
    assert f"{found:.1%}" == "[97.2%, 97.4%]"
    assert f"{Enclosure(0.25, float('inf')):.2f}" == "[0.25, inf]"
    assert f"{found}" == str(found)
    assert round(found) == Enclosure(0.0, 1.0)
    with pytest.raises(ValueError, match="has no format 'x'|Unknown format code"):
        f"{found:x}"


def test_comparisons_are_decided_or_refused():
    found = Enclosure(1.0, 2.0)
    assert found < 2.5 and found > 0.5 and found <= 2.0 and found >= 1 and not found < 1.0
    assert found < Enclosure(2.1, 3.0) and Enclosure(2.1, 3.0) > found and 0.5 < found
    assert not found > Enclosure(2.0, 3.0)
    for undecided in (
        lambda: found < 1.5,
        lambda: found > Enclosure(1.5, 3.0),
        lambda: found < 2.0,
    ):
        with pytest.raises(ValueError, match="does not overlap"):
            undecided()
    with pytest.raises(ValueError, match="does not overlap"):
        found < float("nan")  # noqa: B015
    with pytest.raises(TypeError, match="not supported"):
        found < "1"  # noqa: B015
    with pytest.raises(TypeError, match="take .lower"):
        float(found)


def test_general_formats_move_by_a_unit_of_their_precision():
    assert f"{Enclosure(0.1999999999, 0.2):g}" == "[0.199999, 0.200001]"
    assert f"{Enclosure(0.999999, 0.9999999):.3g}" == "[0.999, 1]"
    low, high = f"{Enclosure(999999.4, 1000001):.3g}"[1:-1].split(", ")
    assert (float(low), float(high)) == (999_000, 1_010_000)
    assert round(Enclosure(0.1234, 0.1251), 2000) == Enclosure(0.1234, 0.1251)
    assert -(10**400) < Enclosure(0.0, 1.0) < 10**400
    with pytest.raises(ValueError, match="overlap"):
        assert Enclosure(0.0, 1.0) < float("nan")


@pytest.mark.parametrize("run", [DPSGD(1.0, 1e-20, 3), DPSGD(1e100, 0.5, 3), DPSGD(1e8, 0.5, 3)])
def test_delta_of_hardly_any_loss_is_enclosed(run):
    # T steps add up to at most T times one, and one is attained
    q, a = run.sampling_rate, 1.0 / run.noise_multiplier
    one = q * (2.0 * special.ndtr(0.5 * a) - 1.0) if a > 1e-6 else q * a / math.sqrt(2.0 * math.pi)
    found = privacy.delta(run, 0.0)
    assert one * (1 - 1e-9) <= found.upper <= 3 * one * (1 + 1e-9)
    assert found.lower <= 3 * one
    assert privacy.delta(DPSGD(math.inf, 0.5, 3), 1.0) == Enclosure(0.0, 0.0)

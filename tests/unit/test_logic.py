"""Three-valued logic: Kleene's tables, and errors that decide less the larger they are."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from companion.study.logic import (
    any_of,
    at_least,
    at_most,
    clearly,
    every,
    jointly,
    negate,
    not_above,
    settle,
    within,
)

#: Kleene's logic is that of least and largest numbers
ORDER = {False: 0, None: 1, True: 2}
VALUES = {place: value for value, place in ORDER.items()}

numbers = st.floats(-2, 2)
errors = st.floats(0, 1)


@pytest.mark.parametrize("held", [h for n in range(4) for h in itertools.product(ORDER, repeat=n)])
def test_every_any_and_not_are_least_largest_and_mirrored(held):
    places = [ORDER[one] for one in held]
    assert every(*held) is VALUES[min(places, default=2)]
    assert any_of(*held) is VALUES[max(places, default=0)]
    assert [negate(one) for one in held] == [VALUES[2 - place] for place in places]


def test_truth_of_numpy_and_of_counts_is_that_of_python():
    assert every(np.True_, 3) is True and every(np.False_, None) is False and every(0) is False
    assert any_of(np.False_, np.True_) is True and negate(np.True_) is False
    assert settle(np.True_, False) is True and settle(np.False_, np.False_) is False


@given(numbers, numbers, errors, errors, errors)
def test_a_larger_error_decides_less(value, expected, margin, one, other):
    small, large = sorted((one, other))
    for decide in (
        lambda error: within(value, expected, error, margin),
        lambda error: clearly((value - expected, error)),
        lambda error: at_most(value, expected, error),
        lambda error: at_least(value, expected, error),
    ):
        assert decide(large) in (decide(small), None)


@given(st.lists(st.tuples(numbers, errors), min_size=1, max_size=40), st.floats(1, 9))
def test_larger_errors_decide_less_of_many_together(estimates, times):
    gaps, of_each = np.array(estimates).T
    assert jointly(gaps, times * of_each, 0.3) in (jointly(gaps, of_each, 0.3), None)


def test_a_bias_within_the_error_of_each_is_one_of_all():
    """Of 64 printed accuracies 59 lay above ours, each within four standard deviations of a run."""
    below, spread = np.where(np.arange(64) < 59, -0.01, 0.01), 0.02
    assert within(below, 0.0, spread, 0.1) is True and jointly(below, spread, 0.1) is False
    assert jointly(below, 3 * spread, 0.1) is False  # signs need no error
    # nine alike are too few for signs; how far they are off decides
    nine = np.full(9, 1.0)
    found = [jointly(nine, error, margin=0.2) for error in (0.2, 0.8)]
    assert found == [False, None] and jointly(0.1 * nine, 0.01, margin=0.2) is True


@pytest.mark.parametrize("errors", [np.ones(30), np.geomspace(0.01, 3, 30)])
def test_chance_alone_is_rarely_taken_for_a_difference(errors):
    rng = np.random.default_rng(0)
    found = [jointly(errors * rng.standard_normal(30), errors, 1e-6) for _ in range(2000)]
    assert found.count(False) <= 2  # 0.13 expected of signs, fewer of the rest


@given(numbers, numbers, errors, errors)
def test_what_is_clearly_above_is_never_taken_for_not_above(value, limit, error, known_to):
    found = not_above(value, limit, error, known_to)
    assert (found is False) == (at_most(value, limit, error) is False)
    assert found is not True or at_most(value, limit + known_to, error)


@given(numbers, numbers, errors)
def test_below_and_above_are_mirrored(value, limit, error):
    assert at_least(value, limit, error) is at_most(-value, -limit, error)


def test_an_estimate_is_inside_a_margin_with_its_error_or_outside_or_neither():
    assert within([1.0, 1.02], 1.0, [0.005, 0.005], 0.05) is True
    assert within([1.0, 1.2], 1.0, 0.005, 0.05) is False
    # a larger error decides less, and never turns a false claim into a true one
    assert [within(1.2, 1.0, error, 0.05) for error in (0.01, 0.1, 10.0)] == [False, None, None]
    assert [within(1.0, 1.0, error, 0.05) for error in (0.01, 0.1)] == [True, None]


def test_a_gap_is_clear_by_its_error_or_not_at_all():
    assert [clearly((1.0, error)) for error in (0.2, 0.3, 3.0)] == [True, None, None]
    assert [clearly((-1.0, error)) for error in (0.2, 0.3, 3.0)] == [False, None, None]
    assert clearly(([1.0, -1.0], [10.0, 0.1]), (5.0, 0.1)) is False  # one below is enough
    assert clearly((1.0, 0.1), ([2.0, 0.3], 0.1)) is None
    assert clearly((0.0, 0.0)) is True  # printed numbers that tie
    for gap, error in ((math.nan, 0.1), (1.0, math.nan)):
        assert clearly((gap, error)) is None

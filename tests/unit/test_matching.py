"""Matching of unordered reconstructions: against brute force, and its invariances."""

from __future__ import annotations

from itertools import permutations, product

import numpy as np
import pytest

from reconrisk.metrics import match, mse


def _brute_force(x: np.ndarray, y: np.ndarray, signs: bool) -> float:
    choices = product((1, -1), repeat=len(x)) if signs else [(1,) * len(x)]
    turned = [np.array(s)[:, None] for s in choices]
    orders = permutations(range(len(y)), len(x))
    return min(mse(x, s * y[list(o)]).mean() for o in orders for s in turned)


@pytest.mark.parametrize("signs", [False, True])
@pytest.mark.parametrize("n, m", [(1, 1), (3, 3), (4, 4), (3, 5)])
def test_the_matching_is_the_best_of_all(n, m, signs):
    rng = np.random.default_rng(n + 10 * m)
    for _ in range(5):
        x, y = rng.standard_normal((n, 6)), rng.standard_normal((m, 6))
        found = match(x, y, signs=signs)
        assert found.mse == pytest.approx(_brute_force(x, y, signs), rel=1e-12)
        np.testing.assert_allclose(mse(x, found.apply(y)), found.errors, rtol=1e-12)
        assert len(set(found.order)) == n


@pytest.mark.parametrize("signs", [False, True])
def test_a_shuffled_copy_is_put_in_order_exactly(signs):
    rng = np.random.default_rng(3)
    x = rng.standard_normal((2, 128, 30))
    order = np.stack([rng.permutation(128) for _ in range(2)])
    y = np.empty_like(x)
    for batch in range(2):
        y[batch, order[batch]] = x[batch]
    if signs:
        y[:, ::3] *= -1
    found = match(x, y, signs=signs)
    np.testing.assert_array_equal(found.order, order)
    np.testing.assert_array_equal(found.errors, 0)
    np.testing.assert_array_equal(found.apply(y), x)
    assert found.mse.shape == (2,)


def test_errors_near_rounding_do_not_drown_in_the_expanded_square():
    x = 1e3 + np.random.default_rng(0).random((5, 40))
    found = match(x, x[::-1] + 1e-9)
    np.testing.assert_array_equal(found.order, [4, 3, 2, 1, 0])
    np.testing.assert_allclose(found.errors, 1e-18, rtol=1e-3)


def test_signs_are_free_only_when_asked_for():
    x = np.eye(3)
    np.testing.assert_allclose(match(x, -x, signs=True).errors, 0)
    np.testing.assert_array_equal(match(x, -x, signs=True).signs, -1)
    assert match(x, -x).mse > 0.5


def test_shapes_that_cannot_be_matched_are_refused():
    with pytest.raises(ValueError, match="at least as many"):
        match(np.zeros((3, 4)), np.zeros((2, 4)))
    with pytest.raises(ValueError, match="shapes"):
        match(np.zeros((3, 4)), np.zeros((3, 5)))
    with pytest.raises(ValueError, match="shapes"):
        match(np.zeros(4), np.zeros(4))
    with pytest.raises(ValueError, match="finite"):
        match(np.zeros((1, 2)), np.full((1, 2), np.nan))

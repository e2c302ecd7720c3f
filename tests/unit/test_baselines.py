"""Baselines, and the conversion of reconstructions to successes against brute force."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy import stats

from reconrisk.attacks import baselines


def test_uniform_vectors_differ_by_a_sixth():
    rng = np.random.default_rng(0)
    a, b = rng.random((2, 2000, 50))
    assert np.square(a - b).mean() == pytest.approx(baselines.UNIFORM_MSE, abs=2e-3)
    assert baselines.UNIFORM_MSE == 1 / 6


def test_nearest_neighbours_by_brute_force():
    records = np.random.default_rng(1).random((57, 6))
    expected = [
        min(np.square(r - s).mean() for j, s in enumerate(records) if j != i)
        for i, r in enumerate(records)
    ]
    for block in (7, 57, 1000):
        found = baselines.nearest_neighbour_mse(records, block)
        np.testing.assert_allclose(found, expected, rtol=1e-9)
    with pytest.raises(ValueError, match="two or more rows"):
        baselines.nearest_neighbour_mse(records[:1])


def test_duplicates_are_neighbours_at_distance_zero():
    records = np.vstack([np.full((2, 3), 0.3), np.ones((1, 3))])
    np.testing.assert_allclose(baselines.nearest_neighbour_mse(records), [0, 0, 0.49], atol=1e-15)


def test_the_mean_record():
    records = np.random.default_rng(2).random((40, 5))
    expected = np.square(records - records.mean(axis=0)).mean()
    assert baselines.mean_record_mse(records) == pytest.approx(expected, rel=1e-12)


def test_nearer_records_leave_out_the_target_itself():
    pool = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 3.0], [0.0, 0.0]])
    rebuilt = np.array([[0.9, 0.0], [0.0, 0.0]])
    targets = pool[[0, 2]]
    np.testing.assert_array_equal(baselines.nearer_records(rebuilt, targets, pool), [1, 3])
    # an exact reconstruction has nothing nearer, whatever the rounding
    many = np.random.default_rng(3).random((50, 700))
    np.testing.assert_array_equal(baselines.nearer_records(many, many, many), np.zeros(50))


def test_conversion_equals_counting_all_priors():
    others, size = 7, 4
    for nearer in range(others + 1):
        priors = list(itertools.combinations(range(others), size - 1))
        wins = sum(min(prior) >= nearer for prior in priors)
        found = baselines.conversion_success(np.array(nearer), others, size)
        assert float(found) == pytest.approx(wins / len(priors), abs=1e-14)


def test_conversion_equals_the_hypergeometric_law():
    others, size = 59_999, 128
    nearer = np.array([0, 1, 10, 1000, 59_000])
    expected = stats.hypergeom.pmf(0, others, nearer, size - 1)
    found = baselines.conversion_success(nearer, others, size)
    np.testing.assert_allclose(found, expected, rtol=1e-9)
    assert found[0] == 1.0


def test_conversion_of_a_random_guess_is_one_over_n():
    """A reconstruction that knows nothing has a uniform rank, and success 1/n on average."""
    others = 399
    for size in (2, 8, 128):
        mean = baselines.conversion_success(np.arange(others + 1), others, size).mean()
        assert mean == pytest.approx(1 / size, rel=1e-11)


def test_conversion_refuses_what_cannot_be():
    with pytest.raises(ValueError, match="nearer must be in"):
        baselines.conversion_success(np.array([8]), 7, 2)
    with pytest.raises(ValueError, match="prior_size must be in"):
        baselines.conversion_success(np.array([1]), 7, 9)
    with pytest.raises(ValueError, match="nearer must be a whole number"):
        baselines.conversion_success(np.array([0.5]), 7, 2)
    assert math.isclose(float(baselines.conversion_success(np.array(7), 7, 8)), 0.0)

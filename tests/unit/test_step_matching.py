"""Steps without labels: exact without noise, at chance beyond the limit."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from reconrisk import DPSGD, attacks


def _released(sigma, steps, records, seed=0):
    rng = np.random.default_rng(seed)
    drawn = rng.integers(len(records), size=steps)
    run = DPSGD(sigma, max_grad_norm=float(np.linalg.norm(records, axis=1).max()))
    inputs = torch.as_tensor(records)[drawn]
    seen = attacks.observe(inputs, run, torch.Generator().manual_seed(seed))
    return attacks.unscaled(seen), drawn


def _same(labels):
    return labels[:, None] == labels


RECORDS = np.random.default_rng(5).random((5, 300))


def test_with_little_noise_every_pair_is_told_apart():
    released, drawn = _released(0.01, 60, RECORDS)
    found = attacks.match_steps(released, 5, np.random.default_rng(0))
    assert (_same(found) == _same(drawn)).all()
    torch.testing.assert_close(
        attacks.average_matched(released, found, 5).sum(dim=0),
        attacks.average_matched(released, drawn, 5).sum(dim=0),
    )


def test_matching_succeeds_below_the_limit_and_fails_beyond_it():
    norm = np.linalg.norm(RECORDS, axis=1).max()
    limit = attacks.matching_limit(RECORDS, 400) / norm
    agreement = {}
    for share in (0.2, 1.5):
        released, drawn = _released(share * limit, 400, RECORDS)
        found = attacks.match_steps(released, 5, np.random.default_rng(0))
        pairs = np.corrcoef(_same(found).ravel(), _same(drawn).ravel())[0, 1]
        agreement[share] = pairs
    assert agreement[0.2] > 0.98
    assert abs(agreement[1.5]) < 0.05


def test_the_limit_is_where_the_largest_eigenvalue_leaves_the_noise():
    """Of two records the component is seen below it and has no direction above it."""
    records = np.random.default_rng(1).random((2, 2000))
    axis = records[0] - records[1]
    axis /= np.linalg.norm(axis)
    limit = attacks.matching_limit(records, 500)
    overlap = {}
    for share in (0.6, 1.4):
        rng = np.random.default_rng(2)
        drawn = rng.integers(2, size=500)
        released = records[drawn] + share * limit * rng.normal(size=(500, 2000))
        centred = released - released.mean(axis=0)
        overlap[share] = float(np.linalg.svd(centred, full_matrices=False)[2][0] @ axis) ** 2
    assert overlap[0.6] > 0.3
    assert overlap[1.4] < 0.05


@pytest.mark.parametrize("above", [1.25, 1.6])
def test_the_leading_component_stands_out_as_theory_says(above):
    """Two opposite records: the squared cosine of the component with the signs, by the limit."""
    steps, values, rng = 400, 2000, np.random.default_rng(0)
    squares = []
    for _ in range(8):
        record, signs = rng.standard_normal(values), rng.choice([-1.0, 1.0], steps)
        noise = attacks.matching_limit(np.stack([record, -record]), steps) / above
        seen = np.outer(signs, record) + noise * rng.standard_normal((steps, values))
        leading = np.linalg.eigh((seen - seen.mean(axis=0)) @ (seen - seen.mean(axis=0)).T)[1][
            :, -1
        ]
        squares.append((leading @ signs) ** 2 / steps)
    expected = (1 - above**-4) / (1 + math.sqrt(steps / values) / above**2)
    assert np.mean(squares) == pytest.approx(expected, abs=0.08)


def test_the_limit_grows_with_the_fourth_root_of_steps():
    low, high = (attacks.matching_limit(RECORDS, steps) for steps in (100, 1600))
    assert high / low == pytest.approx(2, rel=1e-12)


def test_one_record_and_an_empty_cluster():
    released = torch.arange(6.0).reshape(3, 2)
    assert attacks.match_steps(released, 1, np.random.default_rng(0)).tolist() == [0, 0, 0]
    averages = attacks.average_matched(released, np.array([0, 0, 0]), 2)
    assert averages.tolist() == [[2.0, 3.0], [2.0, 3.0]]


def test_bad_arguments_raise():
    rng = np.random.default_rng(0)
    for call in (
        lambda: attacks.match_steps(torch.zeros(3), 1, rng),
        lambda: attacks.match_steps(torch.zeros(3, 2), 4, rng),
        lambda: attacks.match_steps(torch.zeros(3, 2), 2, rng, restarts=0),
        lambda: attacks.matching_limit(np.zeros((1, 3)), 10),
        lambda: attacks.matching_limit(np.full((2, 3), math.nan), 10),
        lambda: attacks.matching_limit(np.zeros((2, 3)), 0),
    ):
        with pytest.raises(ValueError, match="must"):
            call()

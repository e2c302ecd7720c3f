"""Correlated noise: encoders, sensitivity, what a run says; closed forms and other routes."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from reconrisk import DPSGD, bounds, privacy
from reconrisk.privacy import MatrixMechanism, square_root_encoder, tree_encoder

PREFIXES = np.tril(np.ones((40, 40)))


def test_the_square_root_squared_is_the_matrix_of_prefix_sums():
    root = square_root_encoder(40)
    np.testing.assert_allclose(root @ root, PREFIXES, rtol=0, atol=1e-13)
    central = [math.comb(2 * k, k) / 4**k for k in range(40)]
    np.testing.assert_allclose(root[:, 0], central, rtol=1e-14)


def test_bands_are_diagonals():
    whole, banded = square_root_encoder(10), square_root_encoder(10, 3)
    np.testing.assert_array_equal(banded, np.triu(whole, -2))
    np.testing.assert_array_equal(square_root_encoder(10, 1), np.eye(10))
    assert [MatrixMechanism(square_root_encoder(10, b), 1.0).bands for b in (1, 3, 10)] == [
        1,
        3,
        10,
    ]


@pytest.mark.parametrize(("steps", "depth"), [(1, 1), (2, 2), (8, 4), (9, 4), (1024, 11)])
def test_a_tree_s_sensitivity_is_the_root_of_its_depth(steps, depth):
    assert MatrixMechanism(tree_encoder(steps), 1.0).sensitivity == pytest.approx(depth**0.5)


def test_noise_in_prefix_sums_has_the_decoder_s_norms():
    # the square root decodes by itself
    root = square_root_encoder(40)
    np.testing.assert_allclose(
        MatrixMechanism(root, 2.5).prefix_errors(), 2.5 * np.linalg.norm(root, axis=1), rtol=1e-12
    )
    steps = np.arange(1, 41)
    np.testing.assert_allclose(MatrixMechanism(np.eye(40), 1.0).prefix_errors(), steps**0.5)
    # least squares on two leaves and their sum
    two = MatrixMechanism(tree_encoder(2), 1.0).prefix_errors()
    np.testing.assert_allclose(two, math.sqrt(2 / 3))
    tree = tree_encoder(40)
    decoder = np.cumsum(np.linalg.pinv(tree), axis=0)
    np.testing.assert_allclose(
        MatrixMechanism(tree, 1.0).prefix_errors(), np.linalg.norm(decoder, axis=1), rtol=1e-10
    )


@pytest.mark.parametrize("period", [3, 4, 12])
@pytest.mark.parametrize("encoder", [square_root_encoder(12), square_root_encoder(12, 3)])
def test_no_gradients_move_a_release_further_than_its_sensitivity(encoder, period):
    run = MatrixMechanism(encoder, 1.0, period)
    generator = np.random.default_rng(0)
    most = 0.0
    for _ in range(300):
        gradients = generator.standard_normal((12, 5))
        gradients /= np.linalg.norm(gradients, axis=1, keepdims=True)
        for start in range(period):
            own = np.zeros_like(gradients)
            own[start::period] = gradients[start::period]
            most = max(most, float(np.linalg.norm(encoder @ own)))
    aligned = [np.linalg.norm(encoder[:, j::period].sum(axis=1)) for j in range(period)]
    assert run.sensitivity == pytest.approx(max(aligned))
    assert most <= run.sensitivity * (1 + 1e-12)
    # signs other than all alike move it less, too
    for signs in itertools.product((-1, 1), repeat=len(range(0, 12, period))):
        moved = np.linalg.norm(encoder[:, ::period] @ np.array(signs))
        assert moved <= run.sensitivity * (1 + 1e-12)


@pytest.mark.parametrize("period", [1, 2, 3, 4, 5, 6, 11, 12])
@pytest.mark.parametrize(
    "encoder", [square_root_encoder(12), square_root_encoder(12, 2), tree_encoder(12), np.eye(12)]
)
def test_no_order_moves_a_release_further_than_the_sensitivity_in_any_order(encoder, period):
    run = MatrixMechanism(encoder, 1.0, period)
    epochs = [range(start, min(start + period, 12)) for start in range(0, 12, period)]
    products = encoder.T @ encoder
    most = max(products[np.ix_(own, own)].sum() for own in itertools.product(*epochs)) ** 0.5
    assert run.sensitivity <= most * (1 + 1e-12)
    assert most <= run.sensitivity_in_any_order * (1 + 1e-12)
    assert run.sensitivity_in_any_order < 1.05 * most
    # two epochs, or columns two epochs apart that have no row in common
    far = products[np.subtract.outer(range(12), range(12)) > period]
    if len(epochs) <= 2 or not far.any():
        assert run.sensitivity_in_any_order == pytest.approx(most, rel=1e-12)


def test_a_tree_in_two_shuffled_epochs():
    tree = tree_encoder(468)
    run = MatrixMechanism(tree, 4.0, period=234)
    most = max(np.linalg.norm(tree[:, [i]] + tree[:, 234:], axis=0).max() for i in range(234))
    assert run.sensitivity_in_any_order == pytest.approx(most) == pytest.approx(32**0.5)
    assert run.sensitivity == pytest.approx(20**0.5)  # in the same order


def test_independent_noise_is_dp_sgd_without_sampling():
    run = MatrixMechanism(np.eye(60), 3.0, period=20)
    again = DPSGD(3.0, 1.0, 3)
    assert bounds.rero(run.gaussian(), 0.1).upper == pytest.approx(bounds.rero(again, 0.1).upper)
    assert privacy.epsilon(run.gaussian(), 1e-5).upper == pytest.approx(
        privacy.epsilon(again, 1e-5).upper, rel=1e-6
    )
    assert run.amplified(0.05) == DPSGD(3.0, 0.05, 60)


def test_the_tree_s_epsilon_is_just_below_that_of_renyi_accounting():
    dp = pytest.importorskip("dp_accounting")
    theirs = dp.rdp.RdpAccountant(neighboring_relation=dp.NeighboringRelation.REPLACE_SPECIAL)
    theirs.compose(dp.SingleEpochTreeAggregationDpEvent(8.0, 256))
    ours = privacy.epsilon(MatrixMechanism(tree_encoder(256), 8.0).gaussian(), 1e-5)
    assert 0.8 < ours.upper / theirs.get_epsilon(1e-5) < 1.0


def test_amplification_composes_the_rounds_in_which_a_record_may_take_part():
    run = MatrixMechanism(square_root_encoder(12, 3), 2.0)
    length = math.sqrt(1 + 0.5**2 + 0.375**2)
    assert run.amplified(0.2) == DPSGD(2.0 / length, 0.2, 4)
    # without chance, it is at least what the same participation says without sampling
    known = MatrixMechanism(run.encoder, 2.0, period=3)
    assert known.gaussian().noise_multiplier >= run.amplified(1.0).noise_multiplier / 2.0
    assert bounds.rero(run.amplified(0.2), 0.1).upper < bounds.rero(run.amplified(1.0), 0.1).upper


def test_the_estimate_of_a_record_has_the_noise_of_its_gaussian():
    generator = np.random.default_rng(1)
    run = MatrixMechanism(square_root_encoder(20), 0.7, period=10)
    gradients = np.zeros((20, 200_000))
    gradients[4::10] = 1.0
    found = run.contribution(run.release(gradients, generator), 4)
    sigma = run.gaussian(4).noise_multiplier
    assert found.mean() == pytest.approx(1.0, abs=5 * sigma / math.sqrt(found.size))
    assert found.std() == pytest.approx(sigma, rel=0.01)
    assert run.gaussian(4).noise_multiplier > run.gaussian().noise_multiplier


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (([[1.0, -1.0], [0.0, 1.0]], 1.0), "must not be negative"),
        (([[1.0, 1.0], [1.0, 1.0]], 1.0), "full column rank"),
        ((np.ones((1, 2)), 1.0), "full column rank"),
        ((np.ones(3), 1.0), "finite matrix"),
        (([[math.inf]], 1.0), "encoder must be finite"),
        ((np.eye(2), 0.0), "noise_multiplier must be in"),
        ((np.eye(2), math.inf), "noise_multiplier must be in"),
        ((np.eye(2), 1.0, 3), "period must be in"),
    ],
)
def test_what_is_refused(arguments, said):
    with pytest.raises(ValueError, match=said):
        MatrixMechanism(*arguments)


def test_refused_questions_name_what_was_asked():
    run = MatrixMechanism(square_root_encoder(4), 1.0, period=2)
    for ask in (run.gaussian, lambda at: run.contribution(np.zeros((4, 1)), at)):
        with pytest.raises(ValueError, match="position"):
            ask(2)
    with pytest.raises(ValueError, match="square lower triangular"):
        MatrixMechanism(tree_encoder(4), 1.0).amplified(0.1)
    with pytest.raises(ValueError, match="sampling_rate"):
        run.amplified(0.0)
    with pytest.raises(ValueError, match="bands"):
        square_root_encoder(4, 5)
    with pytest.raises(ValueError, match="steps"):
        tree_encoder(0)

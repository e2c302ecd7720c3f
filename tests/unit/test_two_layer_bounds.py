"""Bounds for two-layer networks: the orders of Table 1 and the exact Cramer-Rao bound."""

from __future__ import annotations

import numpy as np
import pytest

from reconrisk import bounds
from reconrisk.attacks import refine_records, tensor_attack
from reconrisk.metrics import match
from reconrisk.two_layer import (
    LocalSteps,
    OutputGradient,
    TwoLayer,
    gradient_jacobians,
    inner_gradient_jacobians,
    release_output_gradient,
)


def problem(dimension, count, width, activation="elu", seed=0, second=-1.0, **defences):
    """A network, random directions, and the gradient for labels 1, second, 1, second ..."""
    rng = np.random.default_rng([seed, 1])
    directions = rng.standard_normal((count, dimension))
    x = directions / np.sqrt(np.sum(directions**2, axis=1))[:, None]
    network = TwoLayer(dimension, width, activation, seed)
    y = np.where(np.arange(count) % 2, second, 1.0)
    return network, x, release_output_gradient(network, x, y, rng=rng, **defences)


def information(rng, entries=60, unknowns=8):
    return bounds.gradient_information(
        [(rng.standard_normal(entries), rng.standard_normal((entries, unknowns)))]
    )


def test_orders_scale_as_the_table_says():
    upper, lower = bounds.tensor_attack_order, bounds.cramer_rao_order
    assert upper(64, 10**4, 4) == pytest.approx(4 * 0.08)
    assert upper(64, 10**4, 4, noise_std=2.0) == pytest.approx(6 * 0.08)
    # clipping alone does nothing; with noise it multiplies the noise
    assert upper(64, 10**4, 4, grad_norm=30, max_grad_norm=10) == pytest.approx(4 * 0.08)
    clipped = {"grad_norm": 30, "max_grad_norm": 10}
    assert upper(64, 10**4, 4, noise_std=2.0, **clipped) == pytest.approx(10 * 0.08)
    assert lower(64, 10**4, 2.0, **clipped) == pytest.approx(6 * 0.08)
    assert lower(64, 10**4, 2.0, grad_norm=3, max_grad_norm=10) == pytest.approx(2 * 0.08)
    assert upper(64, 10**4, 4, dropout=0.75) == pytest.approx(8 * 0.08)
    assert lower(64, 10**4, 1.0, dropout=0.75, pruned=0.75) == pytest.approx(4 * 0.08)
    assert upper(64, 10**4, 4, coefficient=0.5, singular_value=0.5, condition=3) == pytest.approx(
        24 * 4 * 0.08
    )
    assert np.all(lower([16, 64], 10**4, 0.0) == 0)


def test_known_information():
    x = np.array([[1.0, 0, 0], [0, 1, 0]])
    equal = bounds.GradientInformation(25 * np.eye(6), np.zeros(6), 1.0, 100)
    expected = 0.3 * np.sqrt(3 / 25)
    assert bounds.cramer_rao_error(equal, 0.3, x) == pytest.approx(expected)
    assert bounds.cramer_rao_error_loosened(equal, 0.3, x) == pytest.approx(expected)
    # a known norm takes one of three directions away
    known = bounds.cramer_rao_error(equal, 0.3, x, unit_norm=True)
    assert known == pytest.approx(0.3 * np.sqrt(2 / 25))


def test_against_the_plain_inverse_and_the_projected_one():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((2, 3))
    for _ in range(10):
        info = information(rng)
        inverse = np.linalg.inv(info.matrix)
        exact = bounds.cramer_rao_error(info, 1.0, x)
        # two nuisances, whose uncertainty counts for the rest
        assert exact == pytest.approx(np.sqrt(np.trace(inverse[:6, :6]) / 2))
        assert bounds.cramer_rao_error_loosened(info, 1.0, x) <= exact
        # the constraint's gradients, and the textbook's projection
        across = np.zeros((2, 8))
        across[0, :3], across[1, 3:6] = x
        middle = np.linalg.inv(across @ inverse @ across.T)
        reduced = inverse - inverse @ across.T @ middle @ across @ inverse
        known = bounds.cramer_rao_error(info, 1.0, x, unit_norm=True)
        assert known == pytest.approx(np.sqrt(np.trace(reduced[:6, :6]) / 2))
        assert known < exact


def test_clipped_information_against_differences():
    rng = np.random.default_rng(1)
    g, jacobian = rng.standard_normal(30), rng.standard_normal((30, 4))

    def clipped(point):
        moved = g + jacobian @ point
        return moved / max(1.0, np.linalg.norm(moved) / 2.0)

    moves = 1e-6 * np.eye(4)
    slopes = np.stack([(clipped(e) - clipped(-e)) / 2e-6 for e in moves], axis=1)
    info = bounds.gradient_information([(g, jacobian)]).clipped(2.0)
    assert info.matrix == pytest.approx(slopes.T @ slopes, rel=1e-7, abs=1e-8)
    assert info.squared_norm == pytest.approx(4)
    # once clipped, a second clipping to half of it is a scale alone
    assert info.clipped(1.0).matrix == pytest.approx(info.matrix / 4)
    assert info.clipped(3.0) is info


def test_chunks_add_up_and_more_entries_say_more():
    rng = np.random.default_rng(2)
    g, jacobian = rng.standard_normal(90), rng.standard_normal((90, 6))
    rows = [(g[s], jacobian[s]) for s in (slice(0, 20), slice(20, 21), slice(21, 90))]
    whole = bounds.gradient_information(rows)
    assert whole.matrix == pytest.approx(jacobian.T @ jacobian)
    assert whole.pull == pytest.approx(jacobian.T @ g) and whole.entries == 90
    x = rng.standard_normal((2, 3))
    part = bounds.gradient_information(rows[:2])
    assert bounds.cramer_rao_error(part, 1.0, x) > bounds.cramer_rao_error(whole, 1.0, x)


def test_undetermined_records_are_infinitely_uncertain():
    rng = np.random.default_rng(3)
    x = rng.standard_normal((2, 4))
    few = information(rng, entries=7)
    assert np.array_equal(bounds.cramer_rao_error(few, [0.0, 1.0], x), [np.inf, np.inf])
    jacobian = rng.standard_normal((50, 8))
    jacobian[:, 7] = jacobian[:, 0]
    singular = bounds.gradient_information([(np.ones(50), jacobian)])
    assert bounds.cramer_rao_error(singular, 1.0, x) == np.inf
    assert bounds.cramer_rao_error_loosened(singular, 1.0, x) < np.inf
    nothing = bounds.GradientInformation(np.zeros((8, 8)), np.zeros(8), 0.0, 50)
    assert bounds.cramer_rao_error_loosened(nothing, 1.0, x) == np.inf


@pytest.mark.parametrize("activation", ["elu", "relu", "tanh"])
def test_trace_tends_to_its_limit(activation):
    network, x, released = problem(16, 3, 100_000, activation)
    info = bounds.gradient_information(gradient_jacobians(network, x, released))
    limit = bounds.information_trace_limit(activation, 16, 100_000, released.residuals)
    assert np.trace(info.matrix) == pytest.approx(limit, rel=0.02)
    exact = bounds.cramer_rao_error(info, 0.1, x)
    loosened = bounds.cramer_rao_error_loosened(info, 0.1, x)
    # three records can be taken for each other, which the trace does not see
    assert 1.1 * loosened < exact < 5 * loosened


def test_error_falls_with_the_width_and_inner_weights_say_little():
    errors = []
    for width in (1000, 16_000):
        network, x, released = problem(8, 2, width)
        info = bounds.gradient_information(gradient_jacobians(network, x, released))
        errors.append(bounds.cramer_rao_error(info, 1.0, x))
    assert errors[0] / errors[1] == pytest.approx(4, rel=0.15)
    inner = bounds.gradient_information(inner_gradient_jacobians(network, x, released))
    assert np.trace(inner.matrix) < 1e-5 * np.trace(info.matrix)


@pytest.mark.parametrize(
    "defences", [{"pruned": 0.6}, {"dropout": 0.6}, {"local": LocalSteps(2, 2e-5, 1.0)}]
)
def test_defences_and_information(defences):
    network, x, plain = problem(6, 2, 3000)
    _, _, released = problem(6, 2, 3000, **defences)
    infos = [
        bounds.gradient_information(gradient_jacobians(network, x, r)) for r in (plain, released)
    ]
    assert infos[1].entries == released.count
    assert infos[1].squared_norm == pytest.approx(released.norm**2)
    none, defended = (bounds.cramer_rao_error(i, 1.0, x) for i in infos)
    if "local" in defences:
        # two steps' gradients added up: nearly twice the signal
        assert defended == pytest.approx(none / 2, rel=0.1)
    else:
        assert none < defended < 4 * none


def test_pruning_can_take_the_records_apart_away():
    """Labels of one sign: what is kept is where all records are in elu's straight half."""
    errors = {}
    for second in (1.0, -1.0):
        network, x, released = problem(16, 2, 16_000, second=second, pruned=0.95)
        rows = gradient_jacobians(network, x, released, free_residuals=True)
        info = bounds.gradient_information(rows)
        errors[second] = bounds.cramer_rao_error(info, 1.0, x, unit_norm=True)
        # the trace, that is the paper's bound, sees nothing of it
        assert bounds.cramer_rao_error_loosened(info, 1.0, x) < 0.1
    assert errors[1.0] > 5 * errors[-1.0]


@pytest.mark.parametrize("unit_norm", [False, True])
def test_least_squares_reach_the_bound_at_small_noise(unit_norm):
    """Neither below it, nor (norms free) above: eighty draws, a standard error of 2 per cent."""
    network, x, clean = problem(6, 2, 800, seed=1)
    rows = gradient_jacobians(network, x, clean, free_residuals=True)
    info = bounds.gradient_information(rows)
    sigma = 1e-3
    bound = bounds.cramer_rao_error(info, sigma, x, unit_norm=unit_norm)
    start = tensor_attack(network, clean, 2)
    rng = np.random.default_rng(5)
    squares = []
    for _ in range(80):
        noisy = clean.values + sigma * rng.standard_normal(800)
        released = OutputGradient(noisy, None, None, clean.local, clean.residuals, clean.norm)
        found = refine_records(
            network, released, start, noise_std=sigma, unit_norm=unit_norm, restarts=2
        )
        assert found.fitted
        squares.append(np.mean(match(x, found.inputs).mse) * 6)
    measured = np.sqrt(np.mean(squares))
    assert 0.92 * bound < measured < (1.25 if unit_norm else 1.08) * bound


def test_bad_arguments_are_refused_by_name():
    info = information(np.random.default_rng(0))
    x = np.ones((2, 4))
    for name, call in {
        "noise_std": lambda: bounds.cramer_rao_error(info, -1.0, x),
        "inputs": lambda: bounds.cramer_rao_error(info, 1.0, np.ones((3, 4))),
        "rows": lambda: bounds.gradient_information([]),
        "max_grad_norm": lambda: info.clipped(0.0),
        "width": lambda: bounds.information_trace_limit("elu", 4, 0, [1.0]),
        "batch_size": lambda: bounds.tensor_attack_order(4, 100, 0),
        "dropout": lambda: bounds.tensor_attack_order(4, 100, 1, dropout=1.0),
        "pruned": lambda: bounds.cramer_rao_order(4, 100, 1.0, pruned=1.0),
    }.items():
        with pytest.raises(ValueError, match=name):
            call()
    with pytest.raises(ValueError, match=r"rows must be \(n,\) and \(n, q\)"):
        bounds.gradient_information([(np.ones(3), np.ones((4, 2)))])
    with pytest.raises(ValueError, match="inputs"):
        release_output_gradient(TwoLayer(4, 10), np.ones((2, 3)), [1.0, 1.0])

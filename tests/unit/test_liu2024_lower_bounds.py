"""Lower bounds of Liu et al.: their parts against other routes, and verdicts that can fail."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from scipy import integrate, stats

from altered_tables import altered, stored
from companion.papers.liu2024 import gradient_floors as floors
from companion.papers.liu2024 import (
    gradient_sensitivity,
    lemA2,
    lemD6,
    lemE3,
    prop2_1,
)
from companion.study import Study
from reconrisk import DPSGD, bounds, privacy
from reconrisk.two_layer import (
    LocalSteps,
    TwoLayer,
    gradient_jacobians,
    inner_gradient_jacobians,
    release_output_gradient,
)


@pytest.fixture
def study():
    """The context of an exhibit; its draws are those of seed 2."""
    return Study(seed=2).context("liu2024/lemE3")


def test_moments_of_a_sampled_step_against_adaptive_quadrature():
    sigma, q, order = 1.3, 0.2, 3.0
    mixture, alone = (
        lambda x: (1 - q) * stats.norm.pdf(x, 0, sigma) + q * stats.norm.pdf(x, 1, sigma),
        lambda x: stats.norm.pdf(x, 0, sigma),
    )
    values = [
        integrate.quad(lambda x, p=p, r=r: p(x) * (p(x) / r(x)) ** order, -15, 25)[0]
        for p, r in ((mixture, alone), (alone, mixture))
    ]
    found = lemA2.log_moments(sigma, q, np.array([order]))
    assert found == pytest.approx(math.log(max(values)), rel=1e-6)
    full = lemA2.log_moments(sigma, 1.0, np.array([order]))
    assert full == pytest.approx(order * (order + 1) / (2 * sigma**2))


def test_moments_give_a_valid_delta_and_its_inverse():
    orders = np.geomspace(1e-2, 1e3, 4001)
    for epsilon, delta in ((0.5, 1e-5), (3.0, 1e-3)):
        sigma = float(privacy.noise_by_moments(epsilon, delta))
        by_moments = lemA2.moment_delta(lemA2.log_moments(sigma, 1.0, orders), orders, epsilon)
        assert by_moments == pytest.approx(delta, rel=1e-3)
        assert privacy.delta(DPSGD(sigma), epsilon).upper < delta


def test_two_batches_move_the_gradient_as_their_jacobian_says():
    """Local steps in which records take turns: derivatives by differences, labels known."""
    rng = np.random.default_rng(1)
    x = floors.unit_rows(rng, 3, 5)
    y = np.array([1.0, -1.0, 1.0])
    network = TwoLayer(5, 60, "elu", seed=3)
    active = np.array([[1, 1, 0], [0, 0, 1]])
    given = {"local": LocalSteps(2, 1e-3, 5.0), "active": active}

    def values(point):
        return release_output_gradient(network, point.reshape(3, 5), y, **given).values

    released = release_output_gradient(network, x, y, **given)
    # the third record's residual at the first weights, though it takes part in the second step
    alone = release_output_gradient(network, x, y)
    assert released.residuals == pytest.approx(alone.residuals, abs=1e-12)
    rows = list(gradient_jacobians(network, x, released, active=active))
    steps = 1e-6 * np.eye(15)
    expected = np.stack(
        [(values(x.ravel() + e) - values(x.ravel() - e)) / 2e-6 for e in steps], axis=1
    )
    assert np.concatenate([v for v, _ in rows]) == pytest.approx(released.values, abs=1e-12)
    assert np.concatenate([j for _, j in rows]) == pytest.approx(expected, abs=1e-7)


def test_worst_pair_by_brute_force():
    """In two dimensions every pair of records can be gone through."""
    network = TwoLayer(2, 400, "elu", seed=7)
    found = gradient_sensitivity.sensitivity(network, np.random.default_rng(0), 50)
    angle = np.linspace(0, 2 * np.pi, 121)
    points = np.repeat(np.stack([np.cos(angle), np.sin(angle)], axis=1), 2, axis=0)
    labels = np.tile([1.0, -1.0], len(angle))
    gradients = np.stack(
        [
            release_output_gradient(network, x[None], [y]).values
            for x, y in zip(points, labels, strict=True)
        ]
    )
    gram = gradients @ gradients.T
    squares = np.diag(gram)[:, None] + np.diag(gram) - 2 * gram
    assert squares.max() / 400 <= found["no pair above"]
    assert found["worst pair"] == pytest.approx(squares.max() / 400, rel=0.02)
    assert found["inner weights' part"] < 1e-3 * found["worst pair"]


def test_another_batch_shows_the_same_sum(study):
    for count in (2, 3):
        given = floors.problem(study, 6, count, 300, activation=prop2_1.LINEAR)
        other = prop2_1.another_batch(given, np.random.default_rng(count))
        assert np.linalg.norm(other, axis=1) == pytest.approx(1)
        inner = [
            np.concatenate([v for v, _ in inner_gradient_jacobians(given.network, x, r)])
            for x, r in (
                (given.inputs, given.released),
                (other, release_output_gradient(given.network, other, given.labels)),
            )
        ]
        assert inner[0] == pytest.approx(inner[1], abs=1e-12)
        assert np.max(np.abs(other - given.inputs)) > 0.05
    alone = floors.problem(study, 6, 1, 300, activation=prop2_1.LINEAR)
    assert prop2_1.another_batch(alone, np.random.default_rng(0)) == pytest.approx(alone.inputs)


def test_pruning_of_nothing_is_the_whole_gradient(study):
    given = floors.problem(study, 5, 2, 1000)
    none, most = lemE3.pruned_floors(given, np.array([0.0, 0.95]))
    outer = bounds.gradient_information(
        gradient_jacobians(given.network, given.inputs, given.released)
    )
    only = float(bounds.cramer_rao_error(outer, 1.0, given.inputs))
    assert only * 0.999 < none["exact"] <= only * (1 + 1e-9)
    assert none["kept of the squared norm"] == pytest.approx(1)
    assert most["exact"] > none["exact"] and most["outer pruned"] > 0.6
    assert most["loosened"] / none["loosened"] == pytest.approx(
        most["kept of the squared norm"] ** -0.5
    )


def test_one_record_is_solved_exactly_without_noise():
    network = TwoLayer(6, 400, "elu", seed=1)
    for seed, label in ((0, 1.0), (1, -1.0)):
        x = floors.unit_rows(np.random.default_rng(seed), 1, 6)
        values = release_output_gradient(network, x, [label]).values
        assert lemD6.solve_one_record(network, label, values) == pytest.approx(x[0], abs=1e-6)


def test_slopes_of_power_laws():
    assert floors.slope([1, 2, 4], [3, 12, 48]) == pytest.approx(2)


# Pictures ----------------------------------------------------------------------------------------


def test_an_infinite_bound_is_not_drawn():
    def lose(bounds: pd.DataFrame) -> pd.DataFrame:
        return bounds.assign(exact=bounds["exact"].mask(bounds["pruned"] > 0.9, math.inf))

    lines = lemE3.draw(altered(stored("liu2024/lemE3"), {"bounds": lose})).axes[0].lines
    drawn = np.concatenate([line.get_ydata() for line in lines]).astype(float)
    assert not np.isinf(drawn).any() and np.isnan(drawn).any()

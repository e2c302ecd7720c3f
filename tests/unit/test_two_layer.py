"""Two-layer networks: weights, the released gradient under each defence, and its derivatives."""

from __future__ import annotations

import numpy as np
import pytest

from reconrisk.two_layer import (
    LocalSteps,
    TwoLayer,
    gradient_jacobians,
    inner_gradient_jacobians,
    release_output_gradient,
    simulate,
)


def problem(dimension: int, count: int, seed: int = 0):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((count, dimension))
    return x / np.linalg.norm(x, axis=1, keepdims=True), rng.choice([-1.0, 1.0], count)


def weights(network: TwoLayer):
    parts = list(network.neurons())
    inner = np.concatenate([some.inner for some in parts]).astype(float)
    return inner, np.concatenate([some.outer for some in parts])


def test_weights_have_their_law_and_do_not_depend_on_the_chunk():
    inner, outer = weights(TwoLayer(5, 40_000, seed=3))
    deviation = 5 / np.sqrt(inner.size)
    assert abs(inner.mean()) < deviation and abs(inner.var() - 1) < 2 * deviation
    assert np.std(outer) * 40_000 == pytest.approx(1, abs=5 / np.sqrt(2 * 40_000))
    # no correlation between the blocks' streams, or of inner with outer weights
    assert abs(np.mean(inner[1024:2048] * inner[:1024])) < 5 / np.sqrt(5 * 1024)
    assert abs(np.mean(inner[:, 0] * outer) * 40_000) < 5 / np.sqrt(40_000)
    for chunk in (1, 1500, 10**6):
        again = weights(TwoLayer(5, 40_000, seed=3, chunk=chunk))
        assert np.array_equal(again[0], inner) and np.array_equal(again[1], outer)
    narrow, _ = weights(TwoLayer(5, 1500, seed=3))
    assert np.array_equal(narrow, inner[:1500])
    assert not np.array_equal(weights(TwoLayer(5, 1500, seed=4))[0], narrow)
    # later passes over a small network are given the weights of the first, which nobody can change
    (first,), (later,) = (list(TwoLayer(5, 1500, seed=3).neurons()) for _ in range(2))
    assert later.inner is first.inner and not first.inner.flags.writeable


def test_release_is_the_gradient_of_the_loss():
    network = TwoLayer(6, 50, "silu", seed=1)
    x, y = problem(6, 3)
    w, a = weights(network)
    s = network.function.value

    def loss(outer):
        return np.sum((s(x @ w.T) @ outer - y) ** 2)

    steps = 1e-6 * np.eye(50)
    differences = [(loss(a + e) - loss(a - e)) / 2e-6 for e in steps]
    released = release_output_gradient(network, x, y)
    assert released.values == pytest.approx(differences, abs=1e-7)
    assert released.norm == pytest.approx(np.linalg.norm(differences))
    assert network.outputs(x) == pytest.approx(s(x @ w.T) @ a)


def test_local_steps_are_those_of_gradient_descent():
    network = TwoLayer(6, 50, "tanh", seed=1)
    x, y = problem(6, 3)
    w, a = weights(network)
    local, s = LocalSteps(3, 0.3 / 150, 2.0), network.function
    total, first = np.zeros(50), a
    for _ in range(local.count):
        scores = x @ w.T
        r = 2 * (s.value(scores) @ a - y)
        gradient = s.value(scores).T @ r
        inner = (r[:, None] * s.slope(scores) * a).T @ x
        total += gradient
        a, w = a - local.outer_rate * gradient, w - local.inner_rate * inner
    released = release_output_gradient(network, x, y, local=local)
    assert released.values == pytest.approx(total, abs=1e-12)
    assert released.values == pytest.approx((first - a) / local.outer_rate, abs=1e-9)


def test_each_defence_does_what_it_must():
    network = TwoLayer(6, 5000, seed=2)
    x, y = problem(6, 2)
    rng = np.random.default_rng(0)
    plain = release_output_gradient(network, x, y)
    pruned = release_output_gradient(network, x, y, pruned=0.7)
    assert pruned.count == 1500
    assert np.array_equal(pruned.seen, plain.values[pruned.kept])
    assert np.abs(pruned.seen).min() >= np.abs(plain.values[~pruned.kept]).max()
    clipped = release_output_gradient(network, x, y, max_grad_norm=1.0)
    assert clipped.values == pytest.approx(plain.values / plain.norm)
    loose = release_output_gradient(network, x, y, max_grad_norm=2 * plain.norm)
    assert np.array_equal(loose.values, plain.values)
    noisy = release_output_gradient(network, x, y, pruned=0.7, noise_std=0.5, rng=rng)
    noise = noisy.values - pruned.values
    assert np.all(noise[~pruned.kept] == 0)
    assert noise[pruned.kept].std() == pytest.approx(0.5, rel=5 / np.sqrt(2 * 1500))
    dropped = release_output_gradient(network, x, y, dropout=0.4, pruned=0.5, rng=rng)
    assert np.all(dropped.present | ~dropped.kept)
    assert dropped.present.mean() == pytest.approx(0.6, abs=5 * 0.49 / np.sqrt(5000))
    assert dropped.count == round(0.5 * dropped.present.sum())
    # the network without the neurons that are gone has other outputs, and other residuals
    assert not np.allclose(dropped.residuals, plain.residuals, rtol=1e-12)


def test_release_does_not_depend_on_the_chunk():
    x, y = problem(6, 2)
    local = LocalSteps(2, 1e-5, 1.0)
    one, other = (
        release_output_gradient(TwoLayer(6, 5000, chunk=c), x, y, local=local) for c in (1024, 5000)
    )
    assert one.values == pytest.approx(other.values, abs=1e-12)


def differences(function, point, step=1e-5):
    moves = step * np.eye(len(point))
    return np.stack([(function(point + e) - function(point - e)) / (2 * step) for e in moves], -1)


@pytest.mark.parametrize("local", [LocalSteps(), LocalSteps(3, 0.3 / 120, 2.0)])
@pytest.mark.parametrize("dropout", [0, 0.4])
def test_jacobians_against_differences(local, dropout):
    x, y = problem(5, 3)
    network = TwoLayer(5, 40, "silu", seed=3)

    def release(flat):
        rng = np.random.default_rng(1)
        return release_output_gradient(
            network, flat.reshape(3, 5), y, dropout=dropout, local=local, rng=rng
        )

    released = release(x.ravel())
    kept = slice(None) if released.kept is None else released.kept
    rows = list(gradient_jacobians(network, x, released))
    assert np.concatenate([v for v, _ in rows]) == pytest.approx(released.values[kept], abs=1e-12)
    expected = differences(lambda p: release(p).values, x.ravel())[kept]
    assert np.concatenate([j for _, j in rows]) == pytest.approx(expected, abs=1e-7)

    def free(point):
        steps = simulate(
            network,
            point[:15].reshape(3, 5),
            local,
            present=released.present,
            first_residuals=point[15:],
        )
        return np.concatenate([steps.values(some) for some in network.neurons()])

    rows = list(gradient_jacobians(network, x, released, free_residuals=True))
    expected = differences(free, np.concatenate([x.ravel(), released.residuals]))[kept]
    assert np.concatenate([j for _, j in rows]) == pytest.approx(expected, abs=1e-7)


def test_inner_jacobian_against_differences():
    x, y = problem(4, 2)
    network = TwoLayer(4, 12, "elu", seed=5)
    w, a = weights(network)
    s = network.function

    def inner(flat):
        x = flat.reshape(2, 4)
        scores = x @ w.T
        r = 2 * (s.value(scores) @ a - y)
        return ((r[:, None] * s.slope(scores) * a).T @ x).ravel()

    rows = list(inner_gradient_jacobians(network, x, release_output_gradient(network, x, y)))
    assert np.concatenate([v for v, _ in rows]) == pytest.approx(inner(x.ravel()), abs=1e-12)
    expected = differences(inner, x.ravel())
    assert np.concatenate([j for _, j in rows]) == pytest.approx(expected, abs=1e-7)


def test_records_that_sit_out_a_step_leave_nothing_in_it():
    x, y = problem(5, 3)
    network = TwoLayer(5, 40, "silu", seed=3)
    active = np.array([[1, 1, 0]])
    with_two = release_output_gradient(network, x, y, active=active)
    two = release_output_gradient(network, x[:2], y[:2])
    assert with_two.values == pytest.approx(two.values, abs=1e-12)


def test_bad_arguments_are_refused_by_name():
    network = TwoLayer(5, 40)
    x, y = problem(5, 3)
    with pytest.raises(ValueError, match="inputs"):
        release_output_gradient(network, x[:, :4], y)
    with pytest.raises(ValueError, match="labels"):
        release_output_gradient(network, x, y[:2])
    with pytest.raises(ValueError, match="rng"):
        release_output_gradient(network, x, y, noise_std=1.0)
    with pytest.raises(ValueError, match="active"):
        release_output_gradient(network, x, y, active=np.ones((2, 3)))
    with pytest.raises(ValueError, match="activation"):
        TwoLayer(5, 40, "sine")
    with pytest.raises(ValueError, match="released"):
        list(gradient_jacobians(TwoLayer(5, 41), x, release_output_gradient(network, x, y)))

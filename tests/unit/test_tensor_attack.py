"""The tensor attack and the least squares after it: moments, errors, exact recovery."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from numpy.polynomial import hermite_e

from reconrisk import special
from reconrisk.attacks import (
    gradient_moments,
    project_tensor,
    refine_in_span,
    refine_records,
    tensor_attack,
)
from reconrisk.attacks._cp_decomposition import decompose_cubes
from reconrisk.metrics import match, projection_error
from reconrisk.two_layer import (
    LocalSteps,
    OutputGradient,
    TwoLayer,
    gradient_jacobians,
    release_output_gradient,
)


def problem(dimension, count, width, activation="elu", seed=0, chunk=None, **defences):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((count, dimension))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    network = TwoLayer(dimension, width, activation, seed, chunk)
    labels = rng.choice([-1.0, 1.0], count)
    return network, x, release_output_gradient(network, x, labels, rng=rng, **defences)


def error(targets, found, signs=False):
    """Root mean square of the distances."""
    return float(np.sqrt(np.mean(match(targets, found, signs=signs).mse) * targets.shape[1]))


# Moments -----------------------------------------------------------------------------------------


def power(x, order):
    """Sum of outer powers, given records and the weights in front."""
    letters = "abcd"[:order]
    return lambda r: np.einsum(
        f"i,{','.join('i' + c for c in letters)}->{letters}", r, *[x] * order
    )


@pytest.mark.parametrize(
    ("activation", "orders", "removed"),
    [
        ("elu", (2, 3), 0),
        ("elu", (2, 3), 2),
        ("elu", (2, 3), 3),
        ("sigmoid_shifted", (2, 4), 2),
        ("relu", (2, 4), 0),
        ("relu", (2, 4), 3),
        ("tanh", (3, 3), 0),
        ("tanh", (3, 3), 2),
    ],
)
def test_moments_have_the_means_of_stein(activation, orders, removed):
    """Of 25 networks of 20,000 neurons: every entry within five standard errors of its mean."""
    second, third = (special.hermite_coefficient(activation, k) for k in orders)
    basis = np.linalg.qr(np.random.default_rng(8).standard_normal((5, 3)))[0].T
    gaps = []
    for seed in range(25):
        network, x, released = problem(5, 3, 20_000, activation, seed)
        found = gradient_moments(
            network, released, orders[0], removed=removed, contract=orders[1] == 4
        )
        tensor = project_tensor(network, released, found, basis, orders[1], removed=removed)
        along, r = x @ found.contraction, released.residuals
        matrix = power(x, 2)(second * r * (along if orders[0] == 3 else 1))
        cubes = power(x @ basis.T, 3)(third * r * (along if orders[1] == 4 else 1))
        gaps.append(np.concatenate([(found.matrix - matrix).ravel(), (tensor - cubes).ravel()]))
        assert found.matrix == pytest.approx(found.matrix.T)
        assert tensor == pytest.approx(tensor.transpose(2, 0, 1), abs=1e-12)
    scores = np.mean(gaps, axis=0) / (np.std(gaps, axis=0, ddof=1) / np.sqrt(len(gaps)))
    assert np.abs(scores).max() < 5
    assert np.std(gaps, axis=0).max() < 0.2


def hermite_tensor(w, order):
    """Tensor of probabilists' Hermite polynomials, entry by entry, (n, d, ..., d)."""
    d = w.shape[1]
    single = [
        [hermite_e.hermeval(w[:, c], [0] * k + [1]) for k in range(order + 1)] for c in range(d)
    ]
    tensor = np.empty((len(w), *[d] * order))
    for index in product(range(d), repeat=order):
        tensor[:, *index] = np.prod([single[c][index.count(c)] for c in range(d)], axis=0)
    return tensor


@pytest.mark.parametrize("removed", [0, 1, 2])
@pytest.mark.parametrize("order", [3, 4])
def test_moments_against_hermite_tensors_entry_by_entry(order, removed):
    network, _, released = problem(3, 2, 300, "silu", 4)
    w = np.concatenate([some.inner for some in network.neurons()]).astype(float)
    found = gradient_moments(network, released, 2, removed=removed, contract=True)
    cubic = gradient_moments(network, released, 3, removed=removed)
    g = released.values - (found.mean if removed else 0)
    g = g - (w @ found.linear if removed == 2 else 0)
    assert found.linear == pytest.approx((released.values - found.mean) @ w / 300, abs=1e-5)
    assert np.linalg.norm(found.contraction) == pytest.approx(1)
    moment = np.einsum("n,nab->ab", g, hermite_tensor(w, 2)) / 300
    assert found.matrix == pytest.approx(moment, abs=1e-5)
    moment = np.einsum("n,nabc,c->ab", g, hermite_tensor(w, 3), cubic.contraction) / 300
    assert cubic.matrix == pytest.approx(moment, abs=1e-5)
    basis = np.linalg.qr(np.random.default_rng(1).standard_normal((3, 2)))[0].T
    moment = np.einsum("n,n...->...", g, hermite_tensor(w, order)) / 300
    if order == 4:
        moment = moment @ found.contraction
    expected = np.einsum("abc,ia,jb,kc->ijk", moment, basis, basis, basis)
    tensor = project_tensor(network, released, found, basis, order, removed=removed)
    assert tensor == pytest.approx(expected, abs=1e-5)


def test_a_tensor_of_cubes_is_decomposed():
    rng = np.random.default_rng(3)
    vectors = rng.standard_normal((6, 6))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    weights = np.array([1.0, -2.0, 0.5, 3.0, -0.7, 1.5])
    found = decompose_cubes(power(vectors, 3)(weights), rng)
    assert found.misfit < 1e-9
    rebuilt = found.weights[:, None] * found.vectors**3
    order = match(weights[:, None] * vectors**3, rebuilt).order
    assert rebuilt[order] == pytest.approx(weights[:, None] * vectors**3, abs=1e-8)


# The attack --------------------------------------------------------------------------------------


def test_error_falls_like_the_root_of_the_width():
    errors = {}
    for removed in (0, 2):
        for width in (16_000, 256_000):
            runs = []
            for seed in range(3):
                network, x, released = problem(16, 2, width, seed=seed)
                found = tensor_attack(network, released, 2, removed=removed)
                assert found.signed and found.orders == (2, 3)
                assert np.linalg.norm(found.inputs, axis=1) == pytest.approx(1)
                runs.append(error(x, found.inputs))
            errors[removed, width] = np.sqrt(np.mean(np.square(runs)))
    # a factor of four expected; the noise of three runs is about a third of it
    assert 2.5 < errors[2, 16_000] / errors[2, 256_000] < 6.5
    assert errors[0, 256_000] < errors[0, 16_000]
    # the published attack is the weaker one
    assert all(errors[0, width] > 1.5 * errors[2, width] for width in (16_000, 256_000))


@pytest.mark.parametrize(
    ("activation", "orders"),
    [("relu", (2, 4)), ("tanh", (3, 3)), ("sigmoid_shifted", (2, 4)), ("elu", (2, 4))],
)
def test_other_orders_find_the_records_too(activation, orders):
    for seed in range(2):
        network, x, released = problem(8, 2, 200_000, activation, seed)
        found = tensor_attack(network, released, 2, orders=orders)
        assert found.orders == orders and found.signed == (orders[0] == 2)
        assert error(x, found.inputs, signs=not found.signed) < 0.12
        assert projection_error(x, found.span) < 0.06
        # P is indefinite, and its eigenvalues are sorted by size
        assert np.all(np.diff(np.abs(found.eigenvalues)) <= 0)


def test_result_does_not_depend_on_the_chunk():
    found = []
    for chunk in (1024, 6000, None):
        network, _, released = problem(8, 2, 30_000, "relu", 2, chunk, dropout=0.3)
        found.append(tensor_attack(network, released, 2, removed=3))
    for other in found[1:]:
        assert other.inputs == pytest.approx(found[0].inputs, abs=1e-4)
        assert other.eigenvalues == pytest.approx(found[0].eigenvalues, abs=1e-5)


def test_one_record():
    network, x, released = problem(8, 1, 100_000)
    assert error(x, tensor_attack(network, released, 1).inputs) < 0.05


# Least squares -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("activation", "width", "defences"),
    [
        ("elu", 2000, {}),
        ("relu", 4000, {}),
        ("tanh", 4000, {}),
        ("sigmoid", 4000, {}),
        ("elu", 2000, {"max_grad_norm": 1.0}),
        ("elu", 4000, {"pruned": 0.5}),
        ("silu", 16_000, {"pruned": 0.9}),
        ("elu", 4000, {"dropout": 0.5}),
        ("elu", 4000, {"dropout": 0.3, "pruned": 0.3, "max_grad_norm": 0.1}),
        ("elu", 2000, {"local": LocalSteps(3, 0.3 / 4000, 1.0)}),
    ],
)
def test_refinement_is_exact_without_noise(activation, width, defences):
    for seed in range(3):
        network, x, released = problem(16, 2, width, activation, seed, **defences)
        start = tensor_attack(network, released, 2)
        found = refine_records(network, released, start)
        assert found.fitted
        assert error(x, found.inputs, signs=activation == "tanh") < 1e-9
        assert error(x, start.inputs, signs=True) > 0.01
        if activation == "tanh":
            continue
        order = match(x, found.inputs).order
        scale = min(1.0, defences.get("max_grad_norm", np.inf) / released.norm)
        assert found.residuals[order] == pytest.approx(scale * released.residuals, rel=1e-6)


def test_norms_are_found_too():
    network, x, _ = problem(8, 2, 3000)
    x = x * np.array([[0.7], [1.4]])
    released = release_output_gradient(network, x, [1.0, -1.0])
    start = tensor_attack(network, released, 2)
    assert error(x, refine_records(network, released, start, unit_norm=False).inputs) < 1e-9


def test_exact_in_a_known_span_even_where_some_chunks_have_lost_all_entries():
    network, x, released = problem(12, 3, 6000, chunk=1024)
    kept = np.arange(6000) >= 3100
    released = OutputGradient(
        np.where(kept, released.values, 0), kept, kept, released.local, released.residuals, 1.0
    )
    start = tensor_attack(network, released, 3)
    span = np.linalg.qr(x.T)[0].T
    known = type(start)(start.inputs, span, start.eigenvalues, start.weights, 0, True, (2, 3))
    fits = refine_in_span(network, released, known, restarts=8)
    assert len(fits) == 9 and [f.loss for f in fits] == sorted(f.loss for f in fits)
    assert error(x, fits[0].inputs) < 1e-9 and fits[0].fitted


@pytest.mark.parametrize("seed", [4, 6])
def test_hops_tell_similar_records_apart(seed):
    """Two pairs of similar records: the first fits end in shallow minima and say so."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((4, 12))
    x[[1, 3]] = x[[0, 2]] + 0.15 * rng.standard_normal((2, 12))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    network = TwoLayer(12, 1500, "relu", seed)
    released = release_output_gradient(network, x, [1.0, 1.0, -1.0, -1.0])
    start = tensor_attack(network, released, 4)
    assert not refine_records(network, released, start).fitted
    found = refine_records(network, released, start, hops=200)
    assert found.fitted and error(x, found.inputs) < 1e-7


def test_noise_is_recognised_and_a_wrong_batch_size_is_not_a_fit():
    network, _, released = problem(12, 2, 4000, noise_std=0.1)
    start = tensor_attack(network, released, 2)
    found = refine_records(network, released, start, noise_std=0.1)
    assert found.fitted
    assert found.loss * np.sum(released.values**2) == pytest.approx(0.01 * 4000, rel=0.12)
    assert not refine_records(network, released, start, noise_std=0.01).fitted
    network, _, released = problem(12, 3, 4000)
    too_few = tensor_attack(network, released, 2)
    assert not refine_records(network, released, too_few).fitted


# Errors ------------------------------------------------------------------------------------------


def test_bad_arguments_are_refused_by_name():
    network, _, released = problem(6, 2, 2000, "relu")
    with pytest.raises(ValueError, match="orders.*order 3 does for relu"):
        tensor_attack(network, released, 2, orders=(2, 3))
    with pytest.raises(ValueError, match="orders must be one of"):
        tensor_attack(network, released, 2, orders=(3, 4))
    with pytest.raises(ValueError, match="batch_size"):
        tensor_attack(network, released, 7)
    with pytest.raises(ValueError, match="removed"):
        tensor_attack(network, released, 2, removed=4)
    with pytest.raises(ValueError, match="released"):
        tensor_attack(TwoLayer(6, 2001, "relu"), released, 2)
    with pytest.raises(ValueError, match="released"):
        nothing = OutputGradient(np.zeros(2000), None, None, LocalSteps(), np.zeros(2), 0.0)
        tensor_attack(network, nothing, 2)
    odd = problem(6, 2, 2000, "tanh")
    with pytest.raises(ValueError, match="removed"):
        tensor_attack(odd[0], odd[2], 2, removed=3)
    start = tensor_attack(network, released, 2)
    for name in ("restarts", "attempts", "iterations", "hops", "noise_std"):
        with pytest.raises(ValueError, match=name):
            refine_records(network, released, start, **{name: -1})
    with pytest.raises(ValueError, match="released"):
        next(gradient_jacobians(network, np.eye(6)[:3], released))

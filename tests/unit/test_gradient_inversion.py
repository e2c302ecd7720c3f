"""Gradient inversion of whole batches: derivatives, exact recoveries, and what must not matter."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from reconrisk.attacks._inversion_problem import Problem
from reconrisk.attacks._lbfgs import limited_memory_bfgs
from reconrisk.attacks.gradient_inversion import (
    _Descent,
    cosine_distance,
    deep_leakage,
    invert_gradients,
    squared_distance,
)
from reconrisk.attacks.least_squares_inversion import (
    class_means,
    span_attack,
)
from reconrisk.metrics import match
from reconrisk.models import SigmoidNetwork
from reconrisk.training import Release, mean_gradient, release_gradients

NETWORK = SigmoidNetwork((30, 20, 8, 5))
DOUBLE = torch.float64


def _generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def _problems(count: int, size: int, seed: int = 1):
    """Networks, records, labels and the records' average gradients."""
    generator = _generator(seed)
    weights = NETWORK.initialise(generator, count, DOUBLE)
    records = torch.rand((count, size, 30), generator=generator, dtype=DOUBLE)
    labels = torch.randint(5, (count, size), generator=generator)
    return weights, records, labels, mean_gradient(weights, records, labels)


def _error(records: torch.Tensor, found: torch.Tensor) -> np.ndarray:
    return match(records.numpy(), found.numpy()).mse


@pytest.mark.parametrize("variation", [0.0, 0.3])
@pytest.mark.parametrize("distance", [cosine_distance, squared_distance])
def test_the_loss_and_its_derivative_equal_autograds(distance, variation):
    weights, _, labels, released = _problems(3, 4)
    descent = _Descent(Problem.of(weights, released, labels), distance, variation, (5, 6))
    candidates = torch.randn((3, 4, 30), generator=_generator(2), dtype=DOUBLE).requires_grad_()
    gradients = mean_gradient(weights, candidates, labels)
    inner = sum((g * released[name]).sum(dim=(1, 2)) for name, g in gradients.items())
    norms = sum(g.square().sum(dim=(1, 2)) for g in gradients.values())
    own = sum(r.square().sum(dim=(1, 2)) for r in released.values())
    if distance is cosine_distance:
        expected = 1 - inner / (norms * own).sqrt()
    else:
        expected = (norms - 2 * inner + own) / own
    pictures = candidates.unflatten(2, (5, 6))
    rough = pictures.diff(dim=2).abs().mean(dim=(1, 2, 3))
    rough = rough + pictures.diff(dim=3).abs().mean(dim=(1, 2, 3))
    expected = expected + variation * rough
    (slope,) = torch.autograd.grad(expected.sum(), candidates)
    loss, found = descent.evaluate(candidates.detach())
    torch.testing.assert_close(loss, expected.detach(), rtol=1e-11, atol=1e-12)
    torch.testing.assert_close(found, slope, rtol=1e-9, atol=1e-13)


def test_the_schedule_is_that_of_signed_adam_with_three_drops():
    """Against PyTorch's own optimiser, schedule and autograd, one problem after the other."""
    weights, _, labels, released = _problems(2, 3)
    start = torch.randn((2, 3, 30), generator=_generator(3), dtype=DOUBLE)
    for signed in (True, False):
        found = invert_gradients(
            weights,
            released,
            labels,
            generator=_generator(),
            iterations=24,
            signed=signed,
            box=(0.0, 1.0),
            start=start,
        )
        for k in range(2):
            module = NETWORK.module({name: w[k] for name, w in weights.items()})
            candidate = start[k].clone().requires_grad_()
            optimiser = torch.optim.Adam([candidate], lr=0.1)
            schedule = torch.optim.lr_scheduler.MultiStepLR(optimiser, [9, 15, 21], gamma=0.1)
            seen = torch.cat([r[k].flatten() for r in released.values()])
            for _ in range(24):
                loss = torch.nn.functional.cross_entropy(module(candidate), labels[k])
                parts = torch.autograd.grad(loss, list(module.parameters()), create_graph=True)
                flat = torch.cat([g.flatten() for g in parts])
                distance = 1 - torch.nn.functional.cosine_similarity(flat, seen, dim=0)
                (slope,) = torch.autograd.grad(distance, candidate)
                candidate.grad = slope.sign() if signed else slope
                optimiser.step()
                schedule.step()
                with torch.no_grad():
                    candidate.clamp_(0, 1)
            torch.testing.assert_close(found.inputs[k], candidate.detach(), rtol=1e-6, atol=1e-6)


def test_one_record_without_noise_is_recovered_exactly():
    weights, records, labels, released = _problems(4, 1)
    found = invert_gradients(
        weights, released, labels, generator=_generator(), iterations=1500, box=(0.0, 1.0)
    )
    assert _error(records, found.inputs).max() < 1e-6
    assert float(found.loss.max()) < 1e-6
    leaked = deep_leakage(weights, released, labels, generator=_generator())
    assert _error(records, leaked.inputs).max() < 1e-8
    mean = torch.full((1, 30), 0.5, dtype=DOUBLE)
    assert _error(records, span_attack(weights, released, labels, mean).inputs).max() < 1e-20


@pytest.mark.parametrize("limit", [None, 0.02])
@pytest.mark.parametrize("size", [2, 4])
def test_the_span_attack_is_exact_without_noise_also_when_gradients_are_clipped(size, limit):
    weights, records, labels, released = _problems(5, size)
    if limit is not None:
        released = mean_gradient(weights, records, labels, max_grad_norm=limit)
        plain = mean_gradient(weights, records, labels)
        assert not torch.allclose(plain["layer1.weight"], released["layer1.weight"])
    start = torch.rand((5, size, 30), generator=_generator(4), dtype=DOUBLE)
    found = span_attack(weights, released, labels, start, max_grad_norm=limit)
    errors = _error(records, found.inputs)
    # a start may lead to a local minimum, and its loss then says so
    assert np.median(errors) < 1e-16
    assert np.all((errors < 1e-16) == (found.loss.numpy() < 1e-20))


def test_noise_of_either_mechanism_costs_quality():
    """The more noise, the further from the records; with hardly any, the records themselves."""
    weights, records, labels, _ = _problems(1, 2)
    weights = {name: w[0] for name, w in weights.items()}
    records, labels = records.expand(9, 2, 30), labels.expand(9, 2)
    for kind, levels in (("gaussian", (1e-9, 1e-3, 1.0)), ("vmf", (1e12, 1e6, 30.0))):
        releases = [Release(kind, level, max_grad_norm=100) for level in levels for _ in range(3)]
        released = release_gradients(weights, records, labels, releases, generator=_generator(7))
        found = invert_gradients(
            weights,
            released,
            labels,
            generator=_generator(),
            iterations=800,
            box=(0.0, 1.0),
            restarts=3,
        )
        low, middle, high = _error(records, found.inputs).reshape(3, 3).mean(axis=1)
        assert low < 1e-4 < high
        assert low < middle < high


def test_results_do_not_depend_on_blocks_and_a_seed_decides_everything():
    weights, _, labels, released = _problems(5, 2)
    settings = dict(iterations=30, restarts=2, total_variation=0.01, shape=(5, 6))
    whole = invert_gradients(weights, released, labels, generator=_generator(), **settings)
    again = invert_gradients(weights, released, labels, generator=_generator(), **settings)
    assert torch.equal(whole.inputs, again.inputs) and torch.equal(whole.loss, again.loss)
    parts = invert_gradients(weights, released, labels, generator=_generator(), block=2, **settings)
    torch.testing.assert_close(parts.inputs, whole.inputs, rtol=1e-6, atol=1e-6)
    other = invert_gradients(weights, released, labels, generator=_generator(1), **settings)
    assert not torch.allclose(other.inputs, whole.inputs)


def test_of_several_restarts_the_one_with_the_least_loss_is_returned():
    weights, _, labels, released = _problems(3, 4)
    last = {}

    def watch(iteration: int, inputs: torch.Tensor, problems: slice) -> None:
        for k in range(*problems.indices(3)):
            last[iteration, k] = inputs[k - problems.start].clone()

    found = invert_gradients(
        weights, released, labels, generator=_generator(), iterations=20, restarts=4, watch=watch
    )
    assert sorted({iteration for iteration, _ in last}) == list(range(21))
    for k in range(3):
        own = {name: w[k : k + 1].expand(4, *w.shape[1:]) for name, w in weights.items()}
        seen = {name: r[k : k + 1].expand(4, *r.shape[1:]) for name, r in released.items()}
        problem = Problem.of(own, seen, labels[k : k + 1].expand(4, -1))
        losses = _Descent(problem, cosine_distance).loss(last[20, k])
        assert float(found.loss[k]) == pytest.approx(float(losses.min()), rel=1e-6)
        torch.testing.assert_close(found.inputs[k], last[20, k][losses.argmin()])


def testlimited_memory_bfgs_minimises_several_functions_at_once():
    scales = torch.logspace(0, 3, 12, dtype=DOUBLE) * torch.tensor([[1.0], [1e-6]], dtype=DOUBLE)
    centre = torch.randn((2, 12), generator=_generator(), dtype=DOUBLE)

    def quadratic(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return 0.5 * (scales * (x - centre) ** 2).sum(dim=1), scales * (x - centre)

    point, value = limited_memory_bfgs(quadratic, torch.zeros_like(centre), 200, 10)
    torch.testing.assert_close(point, centre, rtol=1e-6, atol=1e-6)
    assert float(value.max()) < 1e-10

    def rosenbrock(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        a, b = x[:, 0], x[:, 1]
        value = (1 - a) ** 2 + 100 * (b - a * a) ** 2
        slope = torch.stack([2 * (a - 1) - 400 * a * (b - a * a), 200 * (b - a * a)], dim=1)
        return value, slope

    start = torch.tensor([[-1.2, 1.0], [0.0, 0.0]], dtype=DOUBLE)
    point, _ = limited_memory_bfgs(rosenbrock, start, 200, 10)
    torch.testing.assert_close(point, torch.ones_like(point), rtol=1e-6, atol=1e-6)


def test_class_means_are_means_of_classes():
    inputs = torch.tensor([[1.0, 2.0], [3.0, 4.0], [10.0, 20.0]])
    means = class_means(inputs, torch.tensor([1, 1, 0]), 2)
    torch.testing.assert_close(means, torch.tensor([[10.0, 20.0], [2.0, 3.0]]))
    with pytest.raises(ValueError, match="every class"):
        class_means(inputs, torch.tensor([1, 1, 1]), 2)


def test_arguments_out_of_range_are_refused():
    weights, records, labels, released = _problems(2, 3)
    rows = labels.new_zeros((2, 21))

    def attack(**changed) -> None:
        arguments = {"weights": weights, "released": released, "labels": labels}
        invert_gradients(**(arguments | {"generator": _generator()} | changed))

    with pytest.raises(ValueError, match="labels must be integers"):
        attack(labels=labels[0])
    with pytest.raises(ValueError, match="released.*must have shape"):
        attack(labels=labels[:1])
    with pytest.raises(ValueError, match="must be finite"):
        attack(released={name: r / 0 for name, r in released.items()})
    with pytest.raises(ValueError, match="must not vanish"):
        attack(released={name: 0 * r for name, r in released.items()})
    with pytest.raises(ValueError, match="product 30"):
        attack(total_variation=0.1, shape=(4, 4))
    with pytest.raises(ValueError, match="box must be"):
        attack(box=(1.0, 0.0))
    with pytest.raises(ValueError, match="start must have shape"):
        attack(start=records[:, :2])
    with pytest.raises(ValueError, match="iterations"):
        attack(iterations=0)
    with pytest.raises(ValueError, match="at most 20 records a batch"):
        span_attack(weights, released, rows, records[0, :1])
    with pytest.raises(ValueError, match="start must have shape"):
        span_attack(weights, released, labels, records[0, :2])

"""Paper D's training: gradients against autograd, both algorithms' conventions, the batches."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest
import torch

from reconrisk.mechanisms import clip
from reconrisk.models import SigmoidNetwork
from reconrisk.training import (
    Release,
    mean_gradient,
    network_accuracy,
    per_example_gradients,
    release_gradients,
    train_mini_batches,
)
from reconrisk.training._adam import Adam
from reconrisk.training._backpropagation import backward_pass, one_hot
from reconrisk.training._mini_batches import _shuffled_batches, poisson_batches

NETWORK = SigmoidNetwork((12, 7, 5, 4))
DOUBLE = torch.float64


def _generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def _batches(count: int, size: int, seed: int = 1) -> tuple[torch.Tensor, torch.Tensor]:
    generator = _generator(seed)
    inputs = torch.randn((count, size, 12), generator=generator, dtype=DOUBLE)
    return inputs, torch.randint(4, (count, size), generator=generator)


def _flat(gradient: dict[str, torch.Tensor]) -> torch.Tensor:
    return torch.cat([g.flatten(1) for g in gradient.values()], dim=1)


def test_the_papers_network_has_13700_parameters():
    network = SigmoidNetwork()
    assert network.parameter_count == 13_700
    weights = network.initialise(_generator(), 3)
    assert {name: w.shape[1:] for name, w in weights.items()} == network.shapes
    module = network.module({name: w[1] for name, w in weights.items()})
    assert sum(p.numel() for p in module.parameters()) == 13_700
    for name, shape in network.shapes.items():
        bound = shape[1] ** -0.5
        assert 0.99 * bound < float(weights[name].abs().max()) <= bound or shape[0] * shape[1] < 200
    with pytest.raises(ValueError, match="at least two"):
        SigmoidNetwork((3,))


@pytest.mark.parametrize("widths", [(12, 4), (12, 7, 4), (12, 7, 5, 4), (12, 6, 6, 5, 4)])
def test_closed_form_gradients_equal_autograd(widths):
    network = SigmoidNetwork(widths)
    weights = network.initialise(_generator(), 3, DOUBLE)
    inputs, labels = _batches(3, 6)
    gradients = mean_gradient(weights, inputs, labels)
    for k in range(3):
        module = network.module({name: w[k] for name, w in weights.items()})
        torch.nn.functional.cross_entropy(module(inputs[k]), labels[k]).backward()
        for name, parameter in module.named_parameters():
            torch.testing.assert_close(gradients[name][k], parameter.grad, rtol=1e-12, atol=1e-15)
    shared = {name: w[1] for name, w in weights.items()}  # one network for all batches
    for name, g in mean_gradient(shared, inputs, labels).items():
        torch.testing.assert_close(g[1], gradients[name][1], rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("widths", [(12, 4), (12, 7, 4), (12, 7, 5, 4)])
def test_the_pull_back_by_hand_equals_a_second_differentiation(widths):
    network = SigmoidNetwork(widths)
    weights = network.initialise(_generator(), 3, DOUBLE)
    inputs, labels = _batches(3, 6)
    inputs.requires_grad_()
    run = backward_pass(weights, inputs, one_hot(labels, 4, DOUBLE))
    cotangents = [
        torch.randn(w.shape, generator=_generator(2), dtype=DOUBLE) for w in weights.values()
    ]
    pairs = zip(run.gradients(1.0), cotangents, strict=True)
    (expected,) = torch.autograd.grad(sum((g * v).sum() for g, v in pairs), inputs)
    with torch.no_grad():
        torch.testing.assert_close(run.pull_back(cotangents), expected, rtol=1e-11, atol=1e-14)


@pytest.mark.parametrize("by_layer", [True, False])
@pytest.mark.parametrize("limit", [None, 0.05, 0.3])
def test_derivatives_along_directions_equal_autograds(limit, by_layer):
    weights = NETWORK.initialise(_generator(), 2, DOUBLE)
    weights = {name: 4 * w for name, w in weights.items()}
    inputs, labels = _batches(2, 3)
    directions = torch.randn((2, 4, 12), generator=_generator(3), dtype=DOUBLE)
    run = backward_pass(weights, inputs, one_hot(labels, 4, DOUBLE))
    found = run.along(directions, limit, by_layer)
    layers = list(weights)
    for b in range(2):
        own = {name: w[b] for name, w in weights.items()}
        for i in range(3):

            def gradient(record, own=own, label=labels[b, i : i + 1]):
                parts = mean_gradient(
                    own, record[None], label, max_grad_norm=limit, by_layer=by_layer
                )
                return tuple(parts.values())

            jacobian = torch.autograd.functional.jacobian(gradient, inputs[b, i])
            for layer in range(len(layers)):
                expected = torch.einsum("rcd,kd->krc", jacobian[layer], directions[b])
                torch.testing.assert_close(found[layer][b, i], expected, rtol=1e-9, atol=1e-13)


@pytest.mark.parametrize("limit", [0.05, 0.3, 10.0])
def test_clipping_equals_clipping_each_records_gradient(limit):
    weights = NETWORK.initialise(_generator(), 2, DOUBLE)
    weights = {name: 4 * w for name, w in weights.items()}  # gradients of different lengths
    inputs, labels = _batches(2, 9)
    flat = mean_gradient(weights, inputs, labels, max_grad_norm=limit, by_layer=False)
    layers = mean_gradient(weights, inputs, labels, max_grad_norm=limit)
    for k in range(2):
        module = NETWORK.module({name: w[k] for name, w in weights.items()})
        single = [
            per_example_gradients(
                module,
                lambda out, label=label: torch.nn.functional.cross_entropy(out, label.expand(1)),
                x[None, None],
            )
            for x, label in zip(inputs[k], labels[k], strict=True)
        ]
        each = {name: torch.cat([s[name] for s in single]) for name in weights}
        for name, g in clip(each, limit)[0].items():
            torch.testing.assert_close(flat[name][k], g.mean(dim=0), rtol=1e-9, atol=1e-14)
        for name, g in each.items():
            alone = clip({name: g}, limit)[0][name]
            torch.testing.assert_close(layers[name][k], alone.mean(dim=0), rtol=1e-9, atol=1e-14)


def test_algorithm_1_averages_the_sum_and_its_noise():
    """Every coordinate is the clipped average plus N(0, (C sigma / batch size)^2)."""
    models, sigma, limit = 400, 1.3, 0.2
    weights = NETWORK.initialise(_generator(), dtype=DOUBLE)
    inputs, labels = _batches(1, 8)
    release = Release("gaussian", sigma, max_grad_norm=limit)
    released = release_gradients(
        weights, inputs[0], labels[0], [release] * models, generator=_generator(5)
    )
    clipped = mean_gradient(weights, inputs[0], labels[0], max_grad_norm=limit)
    noise = _flat(released) - torch.cat([g.flatten() for g in clipped.values()])
    expected = limit * sigma / 8
    draws = noise.numel()
    assert float(noise.mean()) == pytest.approx(0, abs=5 * expected / math.sqrt(draws))
    assert float(noise.std()) == pytest.approx(expected, rel=5 / math.sqrt(2 * draws))


def test_algorithm_2_turns_the_average_of_clipped_gradients_once():
    """A unit vector around the clipped average's direction, whatever the average's length."""
    models = 200
    weights = NETWORK.initialise(_generator(), dtype=DOUBLE)
    inputs, labels = _batches(1, 8)
    clipped = mean_gradient(weights, inputs[0], labels[0], max_grad_norm=0.2)
    direction = torch.cat([g.flatten() for g in clipped.values()])
    direction /= direction.norm()
    concentrations = [0.0, 300.0, 1e7]
    releases = [Release("vmf", k, max_grad_norm=0.2) for k in concentrations for _ in range(models)]
    released = _flat(
        release_gradients(weights, inputs[0], labels[0], releases, generator=_generator(6))
    )
    torch.testing.assert_close(released.norm(dim=1), torch.ones(3 * models, dtype=DOUBLE))
    cosines = (released @ direction).view(3, models)
    p = NETWORK.parameter_count
    # the mean cosine is I_{p/2}(k) / I_{p/2-1}(k)
    from scipy.special import ive

    for row, k in zip(cosines.numpy(), concentrations, strict=True):
        mean = 0.0 if k == 0 else ive(p / 2, k) / ive(p / 2 - 1, k)
        assert row.mean() == pytest.approx(mean, abs=5 * row.std() / math.sqrt(models) + 1e-12)


def test_releases_of_one_call_do_not_touch_one_another():
    weights = NETWORK.initialise(_generator(), 5, DOUBLE)
    inputs, labels = _batches(5, 6)
    releases = [
        Release("none"),
        Release("clip", max_grad_norm=0.1),
        Release("gaussian", 0.5),
        Release("vmf", 50.0),
        Release("clip", max_grad_norm=0.1, by_layer=False),
    ]
    released = release_gradients(weights, inputs, labels, releases, generator=_generator(1))
    plain = mean_gradient(weights, inputs, labels)
    layers = mean_gradient(weights, inputs, labels, max_grad_norm=0.1)
    flat = mean_gradient(weights, inputs, labels, max_grad_norm=0.1, by_layer=False)
    for name, g in released.items():
        for k, expected in ((0, plain), (1, layers), (4, flat)):
            torch.testing.assert_close(g[k], expected[name][k], rtol=1e-12, atol=1e-15)
    assert float(_flat(released)[3].norm()) == pytest.approx(1)
    assert float(_flat(released)[2].norm()) > float(_flat(plain)[2].norm())
    again = release_gradients(weights, inputs, labels, releases, generator=_generator(1))
    torch.testing.assert_close(_flat(again), _flat(released), rtol=0, atol=0)


def test_padding_takes_no_part_and_sums_are_divided_by_the_expected_size():
    weights = NETWORK.initialise(_generator(), 2, DOUBLE)
    inputs, labels = _batches(2, 6)
    taken = torch.tensor([[1, 1, 1, 1, 0, 0], [1, 1, 1, 1, 1, 0]], dtype=torch.bool)
    released = release_gradients(
        weights,
        inputs,
        labels,
        [Release("clip")] * 2,
        generator=_generator(),
        batch_size=5.5,
        takes_part=taken,
    )
    for k, size in enumerate((4, 5)):
        own = {name: w[k] for name, w in weights.items()}
        expected = mean_gradient(own, inputs[k, :size], labels[k, :size], max_grad_norm=1.0)
        for name, g in expected.items():
            torch.testing.assert_close(released[name][k], g * size / 5.5)


def testpoisson_batches_hold_every_record_independently_with_the_same_probability():
    count, size, models, steps = 40, 6, 50, 400
    hits = torch.zeros(count)
    sizes = []
    together = 0
    for rows, taken in poisson_batches(count, size, models, steps, _generator(3)):
        for k in range(models):
            chosen = rows[k][taken[k]]
            assert len(set(chosen.tolist())) == len(chosen)
            hits[chosen] += 1
            sizes.append(len(chosen))
            together += int((chosen == 7).any() and (chosen == 8).any())
    draws = models * steps
    rate = size / count
    error = math.sqrt(rate * (1 - rate) / draws)
    assert np.abs(hits.numpy() / draws - rate).max() < 5 * error
    assert np.var(sizes) == pytest.approx(count * rate * (1 - rate), rel=5 * math.sqrt(2 / draws))
    assert together / draws == pytest.approx(rate**2, abs=5 * rate / math.sqrt(draws))
    ((rows, taken),) = poisson_batches(5, 5, 2, 1, _generator())  # all records take part
    assert taken is None and rows.tolist() == [[0, 1, 2, 3, 4]] * 2


def test_an_epoch_of_shuffled_batches_holds_every_record_once():
    batches = [rows for rows, _ in _shuffled_batches(10, 4, 3, 6, _generator())]
    assert [rows.shape[1] for rows in batches] == [4, 4, 2, 4, 4, 2]
    for epoch in (batches[:3], batches[3:]):
        for own in torch.cat(epoch, dim=1):
            assert sorted(own.tolist()) == list(range(10))
    assert not torch.equal(batches[0], batches[3])


@pytest.mark.parametrize("decoupled", [True, False])
def test_one_network_without_noise_is_trained_as_pytorch_would(decoupled):
    inputs, labels = (t[0] for t in _batches(1, 20))
    first = NETWORK.initialise(_generator(4), dtype=DOUBLE)
    trained = train_mini_batches(
        NETWORK,
        inputs,
        labels,
        [Release("none")] * 2,
        batch_size=20,
        epochs=7,
        generator=_generator(),
        initial=first,
        decoupled=decoupled,
        poisson=False,
    )
    module = NETWORK.module(first)
    method = torch.optim.AdamW if decoupled else torch.optim.Adam
    optimiser = method(module.parameters(), lr=0.005, weight_decay=0.1)
    for _ in range(7):
        optimiser.zero_grad()
        torch.nn.functional.cross_entropy(module(inputs), labels).backward()
        optimiser.step()
    for name, parameter in module.named_parameters():
        for k in range(2):
            torch.testing.assert_close(trained[name][k], parameter.detach(), rtol=1e-9, atol=1e-12)
        assert trained[name].grad is None


@pytest.mark.parametrize("decoupled", [True, False])
@pytest.mark.parametrize("fused", [True, False])
def test_adam_is_pytorchs_to_the_bit(decoupled, fused):
    generator = torch.Generator().manual_seed(0)
    ours = [torch.randn(shape, generator=generator) for shape in ((3, 5, 4), (7,))]
    theirs = [v.clone() for v in ours]
    method = torch.optim.AdamW if decoupled else torch.optim.Adam
    reference = method(theirs, weight_decay=0.1, fused=fused)
    adam = Adam(ours, weight_decay=0.1, decoupled=decoupled, fused=fused)
    for step in range(5):
        slopes = [torch.randn(v.shape, generator=generator) for v in ours]
        reference.param_groups[0]["lr"] = rate = 0.1 / (1 + step)
        for value, slope in zip(theirs, slopes, strict=True):
            value.grad = slope
        reference.step()
        adam.step(slopes, rate)
    assert all(torch.equal(a, b) for a, b in zip(ours, theirs, strict=True))


def test_noise_costs_accuracy_and_a_seed_decides_everything():
    from sklearn.datasets import load_digits

    digits = load_digits()
    inputs = torch.tensor(digits.data / 16, dtype=torch.float32)
    inputs = (inputs - inputs.mean()) / inputs.std()
    labels = torch.tensor(digits.target)
    network = SigmoidNetwork((64, 30, 10))
    releases = [Release("none"), Release("gaussian", 1.0), Release("gaussian", 50.0)]
    releases += [Release("vmf", 2000.0), Release("vmf", 10.0)]

    def train(seed: int, epochs: int) -> dict[str, torch.Tensor]:
        return train_mini_batches(
            network,
            inputs[:1200],
            labels[:1200],
            releases,
            batch_size=64,
            epochs=epochs,
            generator=_generator(seed),
        )

    weights = train(2, 12)
    none, light, heavy, tight, loose = network_accuracy(
        weights, inputs[1200:], labels[1200:]
    ).tolist()
    assert none > 0.85
    assert none >= light - 0.05 and light > heavy + 0.2
    assert tight > loose + 0.2
    first, again, other = train(2, 1), train(2, 1), train(3, 1)
    for name, w in first.items():
        torch.testing.assert_close(again[name], w, rtol=0, atol=0)
        assert not torch.equal(other[name], w)


def test_opacus_clips_by_layer_alike_and_its_noise_is_sqrt_3_times_ours():
    """The optimiser for layers multiplies by the norm of all layers' limits."""
    opacus = pytest.importorskip("opacus")
    from opacus.optimizers import DPPerLayerOptimizer

    network, size, limit, sigma = SigmoidNetwork((40, 30, 20, 4)), 8, 0.1, 0.7
    generator = _generator(3)
    first = network.initialise(generator, dtype=DOUBLE)
    inputs = torch.randn((size, 40), generator=generator, dtype=DOUBLE)
    labels = torch.randint(4, (size,), generator=generator)

    def gradient(noise: float) -> torch.Tensor:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of PyTorch's hooks, not of ours
            module = opacus.GradSampleModule(network.module(first))
            optimiser = DPPerLayerOptimizer(
                torch.optim.SGD(module.parameters(), lr=1.0),
                noise_multiplier=noise,
                max_grad_norm=[limit] * 3,
                expected_batch_size=size,
                loss_reduction="mean",
                generator=_generator(1),
            )
            optimiser.zero_grad()
            torch.nn.functional.cross_entropy(module(inputs), labels).backward()
            optimiser.pre_step()
        return torch.cat([p.grad.flatten() for p in module.parameters()])

    release = Release("clip", max_grad_norm=limit)
    ours = release_gradients(first, inputs, labels, [release], generator=_generator())
    # Opacus adds 1e-6 to every norm before it divides
    clipped = _flat(ours)[0]
    assert float((gradient(0.0) - clipped).norm() / clipped.norm()) < 1e-4
    noise = gradient(sigma) - gradient(0.0)
    expected = math.sqrt(3) * sigma * limit / size
    assert float(noise.std()) == pytest.approx(expected, rel=5 / math.sqrt(2 * noise.numel()))


def test_arguments_out_of_range_are_refused():
    with pytest.raises(ValueError, match="kind must be one of"):
        Release("laplace")
    with pytest.raises(ValueError, match="noise must be 0"):
        Release("clip", 0.1)
    with pytest.raises(ValueError, match="noise must be in"):
        Release("vmf", -1.0)
    with pytest.raises(ValueError, match="max_grad_norm"):
        Release("clip", max_grad_norm=0)
    inputs, labels = (t[0] for t in _batches(1, 6))

    def train(**changed) -> None:
        arguments = {
            "network": NETWORK,
            "inputs": inputs,
            "labels": labels,
            "releases": [Release("none")],
            "batch_size": 3,
            "epochs": 1,
            "generator": _generator(),
        }
        train_mini_batches(**(arguments | changed))

    with pytest.raises(ValueError, match="inputs must have shape"):
        train(inputs=inputs[:, :5])
    with pytest.raises(ValueError, match="labels must have shape"):
        train(labels=labels[:5])
    with pytest.raises(ValueError, match="batch_size must be in"):
        train(batch_size=7)
    with pytest.raises(ValueError, match="releases must not be empty"):
        train(releases=[])
    with pytest.raises(ValueError, match="initial"):
        train(initial={name: w[:2] for name, w in NETWORK.initialise(_generator()).items()})

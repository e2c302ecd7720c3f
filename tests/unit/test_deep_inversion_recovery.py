"""Inversion of deep networks: what is recovered of photographs, with and without defences."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch.nn import functional

from reconrisk.attacks import Inversion, Knowledge, Objective, invert_updates
from reconrisk.convnets import ConvNet, ResNet18
from reconrisk.datasets import classified
from reconrisk.mechanisms import (
    Clipping,
    EntryDropout,
    LocalAggregation,
    NeuronDropout,
    Pruning,
)
from reconrisk.training import client_updates


def _generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def _problems(problems: int, size: int, side: int, **settings):
    """A network, batches of photographs and their labels."""
    network = ConvNet(_generator(), side=side, **settings).eval()
    data = classified("patches")
    chosen = torch.randperm(len(data), generator=_generator(1))[: problems * size]
    pictures = torch.tensor(data.pictures()[chosen.numpy()], dtype=torch.float32).permute(
        0, 3, 1, 2
    )
    images = functional.interpolate(pictures, size=(side, side), mode="area")
    labels = torch.tensor(data.labels[chosen.numpy()]).view(problems, size)
    return network, images.unflatten(0, (problems, size)), labels


def _attack(network, released, knowledge, iterations=300, **settings):
    settings.setdefault("objective", Objective(total_variation=1e-4))
    return invert_updates(
        network, released, knowledge, generator=_generator(2), iterations=iterations, **settings
    )


def _psnr(images: torch.Tensor, found: Inversion) -> torch.Tensor:
    return -10 * (images - found.inputs).square().mean(dim=(1, 2, 3, 4)).log10()


def test_single_images_are_recovered_and_the_loss_falls_by_orders():
    network, images, labels = _problems(4, 1, 8)
    released = client_updates(network, images, labels, generator=_generator())
    first: list[torch.Tensor] = []

    def watch(iteration, inputs, problems):
        if iteration == 0:
            first.append(inputs[:, 0].clone())

    knowledge = Knowledge(labels, (3, 8, 8))
    exact = _attack(network, released, knowledge, 200, objective=Objective(), watch=watch)
    # a step that goes nowhere, for the loss at the start
    still = _attack(
        network,
        released,
        knowledge,
        1,
        objective=Objective(),
        start=first[0],
        learning_rate=1e-12,
    )
    assert (exact.loss < 1e-4 * still.loss).all()
    assert _psnr(images, exact).min() > 30


@pytest.mark.parametrize(
    ("defence", "gain"),
    [
        (Pruning(0.7), 10),
        (EntryDropout(0.5), 12),
        (LocalAggregation(3, 0.5), 12),
        (NeuronDropout(0.5), 8),
    ],
)
def test_an_aware_attacker_beats_an_oblivious_one(defence, gain):
    wide = 128 if isinstance(defence, NeuronDropout) else None
    network, images, labels = _problems(2, 1, 8, wide=wide)
    released = client_updates(network, images, labels, [defence], generator=_generator())
    oblivious = Knowledge(labels, (3, 8, 8))
    aware = replace(oblivious, aware=True)
    iterations = 300 if isinstance(defence, Pruning) else 120
    without = _psnr(images, _attack(network, released, oblivious, iterations))
    with_it = _psnr(images, _attack(network, released, aware, iterations))
    assert (with_it - without).mean() > gain


def test_clipping_is_no_defence_and_awareness_no_use_without_one():
    network, images, labels = _problems(2, 1, 8)
    plain = client_updates(network, images, labels, generator=_generator())
    clipped = client_updates(network, images, labels, [Clipping(0.01)], generator=_generator())
    knowledge = Knowledge(labels, (3, 8, 8))
    reference = _attack(network, plain, knowledge, 40)
    other = _attack(network, clipped, knowledge, 40)
    aware = _attack(network, plain, replace(knowledge, aware=True), 40)
    torch.testing.assert_close(reference.inputs, aware.inputs)
    assert (_psnr(images, reference) - _psnr(images, other)).abs().max() < 3


@pytest.mark.parametrize("match", ["cosine", "subspace"])
def test_inverted_features_agree_with_the_given_ones(match):
    network, images, labels = _problems(2, 3, 8, wide=20)
    features = torch.stack([network(batch, trace=True).features for batch in images]).detach()
    # in another order, with other signs and scales
    given = features.flip(1) * torch.tensor([-2.0, 0.5, -1.0])[:, None]
    released = client_updates(network, images, labels, generator=_generator())
    objective = Objective(gradient=0.0, features=1.0, feature_match=match)
    knowledge = Knowledge(labels, (3, 8, 8), features=given)
    found = _attack(network, released, knowledge, 150, objective=objective)
    assert (found.loss < 1e-3).all()
    for batch, target in zip(found.inputs, features, strict=True):
        reached = network(batch, trace=True).features.detach()
        cosines = functional.cosine_similarity(reached[:, None], target[None], dim=2)
        if match == "cosine":
            assert (cosines.abs().amax(dim=1) > 0.99).all()


def test_residual_networks_can_be_inverted_too():
    network = ResNet18(_generator(), width=2, wide=16, activation="elu").eval()
    _, images, labels = _problems(2, 1, 32)
    released = client_updates(network, images, labels, generator=_generator())
    objective = Objective(total_variation=1e-2, statistics=1e-3, weighting="norm")
    knowledge = Knowledge(labels, (3, 32, 32))
    start = torch.full(images.shape, 0.5)
    loss = [
        _attack(network, released, knowledge, n, start=start, objective=objective).loss
        for n in (1, 15)
    ]
    assert (loss[1] < loss[0]).all()


def test_the_papers_resnet_18_takes_a_step():
    network = ResNet18(_generator(), wide=16_384).eval()
    _, images, labels = _problems(1, 1, 32)
    released = client_updates(network, images, labels, generator=_generator())
    found = _attack(network, released, Knowledge(labels, (3, 32, 32)), 1)
    assert torch.isfinite(found.inputs).all() and torch.isfinite(found.loss).all()

"""Unmixing a linear layer's gradient: independent sources, spans, and the attack built on it."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from reconrisk.attacks import Knowledge, component_attack, row_space, stretch, unmix
from reconrisk.convnets import ConvNet
from reconrisk.mechanisms import Noise, Pruning
from reconrisk.metrics import projection_error
from reconrisk.training import client_updates


def _generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def _sources(kind: str, problems: int, count: int, values: int) -> torch.Tensor:
    drawn = torch.rand((problems, count, values), generator=_generator(1)).double()
    if kind == "uniform":
        return drawn
    return -torch.log(drawn.clamp(min=1e-12))  # exponential: skewed and heavier in the tail


def _correlations(sources: torch.Tensor, found: torch.Tensor) -> torch.Tensor:
    """Largest correlation of each source with any component, shape (P, n)."""
    one, other = (
        functional.normalize(t.double() - t.double().mean(dim=2, keepdim=True), dim=2)
        for t in (sources, found)
    )
    return (one @ other.mT).abs().amax(dim=2)


@pytest.mark.parametrize("kind", ["uniform", "exponential"])
@pytest.mark.parametrize("count", [1, 2, 8])
def test_independent_sources_are_told_apart(kind, count):
    sources = _sources(kind, 3, count, 4000)
    mixing = torch.randn((3, 30, count), generator=_generator(2)).double()
    found = unmix(mixing @ sources, count, generator=_generator(3))
    assert found.converged.all()
    assert _correlations(sources, found.sources).min() > 0.99
    # of variance one, their means kept with a positive sign: the sources themselves, scaled
    torch.testing.assert_close(
        found.sources.var(dim=2, correction=0), torch.ones(3, count).double()
    )
    exact = sources / sources.std(dim=2, correction=0, keepdim=True)
    nearest = torch.cdist(exact, found.sources).amin(dim=2) / np.sqrt(4000)
    assert nearest.max() < 0.2


def test_components_span_exactly_what_the_sources_span():
    sources = _sources("uniform", 2, 5, 60)
    mixed = torch.randn((2, 12, 5), generator=_generator(2)).double() @ sources
    basis = row_space(mixed, 5)
    torch.testing.assert_close(basis @ basis.mT, torch.eye(5).double().expand(2, 5, 5))
    found = unmix(mixed, 5, generator=_generator(3)).sources
    for estimate in (basis, found):
        assert projection_error(sources.numpy(), estimate.numpy()).max() < 1e-10


def test_problems_do_not_depend_on_their_company_and_the_seed_decides():
    mixed = torch.randn((2, 9, 3), generator=_generator(2)).double() @ _sources(
        "exponential", 2, 3, 500
    )
    both = unmix(mixed, 3, generator=_generator(3)).sources
    again = unmix(mixed, 3, generator=_generator(3)).sources
    alone = unmix(mixed[:1], 3, generator=_generator(3)).sources
    assert torch.equal(both, again)
    torch.testing.assert_close(both[:1], alone, rtol=1e-5, atol=1e-5)


def test_a_first_layer_gives_its_images_back():
    """A batch of images whose pixels are independent, from the gradient of a real network."""
    images = _sources("uniform", 2, 4, 3 * 20 * 20).float().view(2, 4, 3, 20, 20)
    labels = torch.tensor([[0, 1, 2, 3]] * 2)

    class Network(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.wide = nn.Linear(1200, 64, device="meta")
            weight = torch.randn((64, 1200), generator=_generator(4)) / 30
            self.wide.weight = nn.Parameter(weight)
            self.wide.bias = nn.Parameter(torch.zeros(64))
            head = torch.randn((10, 64), generator=_generator(5)) / 8
            self.register_buffer("head", head)

        def forward(self, batch: torch.Tensor) -> torch.Tensor:
            return functional.elu(self.wide(batch.flatten(1))) @ self.head.T

    network = Network()
    released = client_updates(network, images, labels, generator=_generator())
    knowledge = Knowledge(labels, (3, 20, 20))
    found = component_attack(network, released, knowledge, generator=_generator(6))
    assert (found.loss == 0).all() and found.inputs.shape == images.shape
    assert 0 <= found.inputs.min() and found.inputs.max() <= 1
    gaps = torch.cdist(images.flatten(2), found.inputs.flatten(2)).amin(dim=2).square() / 1200
    assert gaps.max() < 0.01  # the prior's variance is 0.083
    noisy = client_updates(network, images, labels, [Noise(1.0)], generator=_generator())
    lost = component_attack(network, noisy, knowledge, generator=_generator(6))
    assert _correlations(images.flatten(2), lost.inputs.flatten(2)).max() < 0.5


def test_recovered_features_are_inverted():
    network = ConvNet(_generator(), side=8, channels=4, wide=60).eval()
    images = torch.rand((2, 2, 3, 8, 8), generator=_generator(1))
    labels = torch.tensor([[0, 1], [2, 3]])
    released = client_updates(network, images, labels, generator=_generator())
    knowledge = Knowledge(labels, (3, 8, 8))
    found = component_attack(network, released, knowledge, generator=_generator(2), iterations=60)
    assert found.inputs.shape == images.shape and (found.loss < 0.2).all()
    # a layer that pruning emptied: random directions take its place, and nothing breaks
    bare = client_updates(network, images, labels, [Pruning(0.99)], generator=_generator())
    assert torch.linalg.matrix_rank(bare.gradient["wide.weight"]).min() < 2
    lost = component_attack(network, bare, knowledge, generator=_generator(2), iterations=1)
    assert torch.isfinite(lost.inputs).all()
    with pytest.raises(ValueError, match="layer"):
        component_attack(network, released, knowledge, generator=_generator(), layer="head.bias")


def test_stretch_fills_the_range():
    drawn = torch.randn((3, 50), generator=_generator())
    filled = stretch(drawn, -1, 2)
    torch.testing.assert_close(filled.amin(dim=1), torch.full((3,), -1.0))
    torch.testing.assert_close(filled.amax(dim=1), torch.full((3,), 2.0))
    with pytest.raises(ValueError, match="low"):
        stretch(drawn, 1, 0)


@pytest.mark.parametrize(
    ("mixtures", "count", "argument"),
    [
        (torch.ones(4, 5), 1, "mixtures"),
        (torch.ones(1, 4, 5), 5, "count"),
        (torch.full((1, 4, 5), float("nan")), 2, "mixtures"),
        (torch.rand(1, 1, 9).expand(1, 4, 9), 2, "mixtures must span"),
    ],
)
def test_bad_arguments_are_refused_by_name(mixtures, count, argument):
    with pytest.raises(ValueError, match=argument):
        unmix(mixtures, count, generator=_generator())

"""The networks' sizes and parts, and what clients send of them, against plain autograd."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.func import vmap
from torch.nn import functional

from reconrisk.convnets import BatchNorm, ConvNet, ImprintNetwork, ResNet18, randomise_neurons
from reconrisk.convnets._classifiers import convolution, draw_weights
from reconrisk.mechanisms import LocalAggregation, NeuronDropout, Pruning, SecureAggregation
from reconrisk.training import client_updates


def _generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def _batches(problems: int, size: int, side: int = 8):
    generator = _generator(1)
    images = torch.rand((problems, size, 3, side, side), generator=generator).double()
    return images, torch.randint(10, (problems, size), generator=generator)


def _network(**settings) -> ConvNet:
    return ConvNet(_generator(), side=8, channels=4, **settings).double().eval()


def _plain(network: nn.Module, images, labels, *units) -> dict[str, torch.Tensor]:
    """One batch's gradient, as one would write it."""
    loss = functional.cross_entropy(network(images, *units), labels)
    names, parameters = zip(*network.named_parameters(), strict=True)
    return dict(zip(names, torch.autograd.grad(loss, parameters), strict=True))


def test_resnet_18_has_the_size_of_the_original_and_of_the_paper():
    assert ResNet18(_generator()).parameter_count == 11_173_962
    wide = ResNet18(_generator(), wide=16_384)
    extra = 512 * 16_384 + 16_384 + 16_384 * 10 + 10 - (512 * 10 + 10)
    assert wide.parameter_count == 11_173_962 + extra
    assert sum(isinstance(m, nn.Conv2d) for m in wide.modules()) == 20
    assert sum(isinstance(m, BatchNorm) for m in wide.modules()) == 20


def test_networks_draw_from_their_generator_alone():
    torch.manual_seed(0)
    one, same = _network(wide=20), _network(wide=20)
    other = ConvNet(_generator(5), side=8, channels=4, wide=20).double()
    for (name, p), q, r in zip(
        one.named_parameters(), same.parameters(), other.parameters(), strict=True
    ):
        assert torch.equal(p, q)
        assert torch.equal(p, r) == name.startswith("norms")


@pytest.mark.parametrize("side", [2, 5, 8, 12])
@pytest.mark.parametrize(("size", "stride"), [(3, 1), (3, 2), (1, 1), (1, 2)])
def test_convolutions_of_small_maps_agree_with_pytorchs(side, size, stride):
    own = convolution(3, 4, stride, size, bias=True).double()
    draw_weights(own, _generator())
    own = own.double()
    maps = torch.randn((2, 3, side, side), generator=_generator(1)).double().requires_grad_()
    expected = functional.conv2d(maps, own.weight, own.bias, stride, size // 2)
    found = own(maps)
    assert found.shape == expected.shape
    slopes = []
    for values in (found, expected):
        slope = torch.autograd.grad(values.square().sum(), [maps, own.weight], create_graph=True)
        slopes += [*slope, *torch.autograd.grad(slope[1].square().sum(), maps)]
    torch.testing.assert_close(found, expected)
    for ours, theirs in zip(slopes[:3], slopes[3:], strict=True):
        torch.testing.assert_close(ours, theirs)


def test_batch_norm_agrees_with_pytorchs():
    maps = torch.randn((6, 5, 4, 4), generator=_generator()).double()
    ours, theirs = BatchNorm(5).double(), nn.BatchNorm2d(5, momentum=1.0).double()
    for mode in (True, False):
        ours.train(mode), theirs.train(mode)
        seen: list = []
        torch.testing.assert_close(ours(maps, seen), theirs(maps))
        torch.testing.assert_close(seen[0][0], maps.mean(dim=(0, 2, 3)))
        torch.testing.assert_close(seen[0][1], maps.var(dim=(0, 2, 3), correction=0))
        # theirs has stored the unbiased variance, ours what it is given
        ours.mean.copy_(theirs.running_mean), ours.variance.copy_(theirs.running_var)


def test_absorbed_statistics_make_both_modes_agree():
    network = _network()
    images = _batches(1, 20)[0][0]
    network.train()
    trained = network(images, trace=True)
    network.absorb(trained.statistics, momentum=1.0)
    torch.testing.assert_close(network.eval()(images), trained.outputs)
    with pytest.raises(ValueError):
        network.absorb(trained.statistics[:2])


def test_features_are_what_enters_the_wide_layer():
    network = _network(wide=12)
    images = _batches(1, 3)[0][0]
    trace = network(images, trace=True)
    answers = functional.elu(network.wide(trace.features))
    torch.testing.assert_close(trace.outputs, network.head(answers))
    units = torch.zeros(12).double()
    torch.testing.assert_close(network(images, units), network.head.bias.expand(3, -1))


def test_random_neurons_take_the_last_places():
    network = _network(wide=5000)
    before = network.wide.weight[:1000].clone()
    randomise_neurons(network, 4000, _generator(3))
    assert torch.equal(network.wide.weight[:1000], before)
    inner = network.wide.weight[1000:]
    assert abs(inner.mean()) < 0.02 and abs(inner.std() - 1) < 0.02
    assert (network.wide.bias[1000:] == 0).all() and (network.wide.bias[:1000] != 0).any()
    torch.testing.assert_close(
        network.head.weight[:, 1000:].sum(dim=1), torch.arange(1.0, 11).double()
    )
    for wrong in (_network(), _network(wide=10)):
        with pytest.raises(ValueError, match="wide|count"):
            randomise_neurons(wrong, 20, _generator())


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("block", [None, 2])
def test_updates_are_the_gradients_of_each_batch(training, block):
    network = _network(wide=12).train(training)
    images, labels = _batches(5, 3)
    released = client_updates(network, images, labels, generator=_generator(), block=block)
    for k in range(5):
        for name, g in _plain(network, images[k], labels[k]).items():
            torch.testing.assert_close(released.gradient[name][k], g)


def test_local_aggregation_is_gradient_descent_over_its_length():
    network = _network(wide=12)
    images, labels = _batches(2, 3)
    local = LocalAggregation(3, 0.2)
    released = client_updates(network, images, labels, [local], generator=_generator())
    assert released.local == local
    for k in range(2):
        client = _network(wide=12)
        optimiser = torch.optim.SGD(client.parameters(), lr=0.2)
        for _ in range(3):
            optimiser.zero_grad()
            functional.cross_entropy(client(images[k]), labels[k]).backward()
            optimiser.step()
        for (name, p), q in zip(network.named_parameters(), client.parameters(), strict=True):
            torch.testing.assert_close(released.gradient[name][k], (p - q).detach() / 0.6)


def test_dropped_neurons_show_as_rows_of_zeros():
    network = _network(wide=40)
    images, labels = _batches(3, 2)
    released = client_updates(network, images, labels, [NeuronDropout(0.5)], generator=_generator())
    assert released.units is not None
    rows = (released.gradient["wide.weight"] != 0).any(dim=2)
    assert torch.equal(rows, released.units != 0) and 0 < rows.float().mean() < 1
    for name, g in _plain(network, images[1], labels[1], released.units[1]).items():
        torch.testing.assert_close(released.gradient[name][1], g)
    with pytest.raises(ValueError, match="wide layer"):
        client_updates(_network(), images, labels, [NeuronDropout(0.5)], generator=_generator())


def test_secure_aggregation_releases_the_gradient_of_all_records():
    network = _network()
    images, labels = _batches(4, 2)
    released = client_updates(
        network, images, labels, [SecureAggregation(4)], generator=_generator()
    )
    whole = _plain(network, images.flatten(0, 1), labels.flatten())
    for name, g in whole.items():
        torch.testing.assert_close(released.gradient[name][0], g)


def test_updates_under_a_defence_can_be_taken_apart():
    network = _network(wide=12)
    images, labels = _batches(4, 2)
    defence = [NeuronDropout(0.2), LocalAggregation(2, 0.1), Pruning(0.5)]
    released = client_updates(network, images, labels, defence, generator=_generator())
    part = released.take(slice(1, 3))
    assert len(part) == 2 and len(part.units) == 2 and part.local == released.local
    assert torch.equal(part.visible["head.bias"], released.visible["head.bias"][1:3])


def test_gradients_can_be_mapped_through_the_residual_network():
    network = ResNet18(_generator(), width=4, wide=30).double().eval()
    images, labels = _batches(3, 2, side=16)
    released = client_updates(network, images, labels, generator=_generator())
    for name, g in _plain(network, images[2], labels[2]).items():
        torch.testing.assert_close(released.gradient[name][2], g)
    outputs = vmap(network)(images)
    torch.testing.assert_close(outputs[1], network(images[1]))


def test_imprint_neurons_reach_the_outputs_alike():
    network = ImprintNetwork(torch.full((12,), 1 / 12), torch.tensor([0.1, 0.3, 0.5, 0.9]))
    outputs = network(torch.full((1, 3, 2, 2), 0.6))
    expected = torch.arange(1, 11) / 40 * (0.5 + 0.3 + 0.1)
    torch.testing.assert_close(outputs[0], expected)
    with pytest.raises(ValueError, match="thresholds must increase"):
        ImprintNetwork(torch.ones(3), torch.tensor([0.1, 0.1]))
    with pytest.raises(ValueError, match="vectors"):
        ImprintNetwork(torch.ones(3, 2), torch.tensor([0.1, 0.2]))


@pytest.mark.parametrize(
    ("make", "argument"),
    [
        (lambda: ConvNet(_generator(), side=12), "side"),
        (lambda: ConvNet(_generator(), activation="sine"), "activation"),
        (lambda: ConvNet(_generator(), classes=1), "classes"),
        (lambda: ResNet18(_generator(), width=0), "width"),
        (lambda: _network()(torch.rand(1, 3, 8, 8).double(), torch.ones(3)), "units"),
        (
            lambda: client_updates(_network(), *_batches(2, 2)[::-1], generator=_generator()),
            "images and labels",
        ),
    ],
)
def test_bad_arguments_are_refused_by_name(make, argument):
    with pytest.raises(ValueError, match=argument):
        make()

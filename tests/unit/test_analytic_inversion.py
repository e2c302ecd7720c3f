"""The analytic attack on clients' updates: exact for one record, a mean for several."""

from __future__ import annotations

import pytest
import torch

from reconrisk.attacks import Knowledge, analytic_attack, imprint_thresholds, layer_ratio
from reconrisk.convnets import ConvNet, ImprintNetwork
from reconrisk.mechanisms import Clipping, Pruning
from reconrisk.training import client_updates

SHAPE = (3, 8, 8)


def _generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def _batches(problems: int, size: int) -> tuple[torch.Tensor, torch.Tensor]:
    images = torch.rand((problems, size, *SHAPE), generator=_generator(1))
    return images, torch.randint(10, (problems, size), generator=_generator(2))


def _imprint() -> ImprintNetwork:
    measurement = torch.full((192,), 1 / 192)
    records = torch.rand((500, 192), generator=_generator(3))
    return ImprintNetwork(measurement, imprint_thresholds(records @ measurement, 16))


def test_the_ratio_of_a_rank_one_gradient_is_its_record_and_zero_without_any():
    record = torch.randn((3, 7), generator=_generator())
    biases = torch.randn((3, 5), generator=_generator(1)) * torch.tensor([1.0, 1e-20, 0.0])[:, None]
    found = layer_ratio(biases[:, :, None] * record[:, None], biases)
    torch.testing.assert_close(found[:2], record[:2], rtol=1e-5, atol=1e-6)
    assert (found[2] == 0).all()


@pytest.mark.parametrize("defence", [(), (Clipping(1e-3),)])
def test_one_record_is_exact_through_the_first_layer_also_when_clipped(defence):
    images, labels = _batches(4, 1)
    network = _imprint()
    released = client_updates(network, images, labels, defence, generator=_generator())
    found = analytic_attack(network, released, Knowledge(labels, SHAPE))
    torch.testing.assert_close(found.inputs, images, rtol=1e-4, atol=1e-5)
    assert (found.loss < 1e-8).all()


def test_several_records_come_out_as_one_mean_between_them():
    images, labels = _batches(3, 4)
    network = _imprint()
    released = client_updates(network, images, labels, generator=_generator())
    found = analytic_attack(network, released, Knowledge(labels, SHAPE), box=None)
    assert (found.inputs == found.inputs[:, :1]).all()
    # an affine combination of the records: least squares in their span leave nothing
    records = torch.cat([images.flatten(2), torch.ones((3, 4, 1))], dim=2)
    target = torch.cat([found.inputs[:, 0].flatten(1), torch.ones((3, 1))], dim=1)
    weights = torch.linalg.lstsq(records.mT, target[..., None]).solution
    torch.testing.assert_close((records.mT @ weights)[..., 0], target, rtol=1e-3, atol=1e-3)
    assert (found.loss > 1e-6).all()


def test_pruned_rows_break_the_ratio():
    images, labels = _batches(4, 1)
    network = _imprint()
    released = client_updates(network, images, labels, [Pruning(0.9)], generator=_generator())
    found = analytic_attack(network, released, Knowledge(labels, SHAPE))
    assert (found.inputs - images).square().mean() > 1e-2


def test_the_wide_layer_gives_features_that_are_inverted():
    network = ConvNet(_generator(), side=8, channels=4, wide=24).eval()
    images, labels = _batches(2, 1)
    released = client_updates(network, images, labels, generator=_generator())
    features = network(images[:, 0], trace=True).features.detach()
    weights, biases = released.gradient["wide.weight"], released.gradient["wide.bias"]
    torch.testing.assert_close(layer_ratio(weights, biases), features, rtol=1e-3, atol=1e-5)
    knowledge = Knowledge(labels, SHAPE)
    found = analytic_attack(
        network, released, knowledge, generator=_generator(), layer="wide", iterations=60
    )
    reached = network(found.inputs[:, 0], trace=True).features.detach()
    assert (torch.nn.functional.cosine_similarity(reached, features, dim=1).abs() > 0.9).all()


def test_errors():
    images, labels = _batches(2, 1)
    network = ConvNet(_generator(), side=8, channels=4, wide=24).eval()
    released = client_updates(network, images, labels, generator=_generator())
    with pytest.raises(ValueError, match="linear layer with biases"):
        analytic_attack(network, released, Knowledge(labels, SHAPE))
    with pytest.raises(ValueError, match="generator must be given"):
        analytic_attack(network, released, Knowledge(labels, SHAPE), layer="wide")
    with pytest.raises(ValueError, match="weights and biases"):
        layer_ratio(torch.zeros(2, 3, 4), torch.zeros(2, 4))

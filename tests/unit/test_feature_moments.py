"""The wide layer's inputs from moments of the head's gradient."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from reconrisk.attacks import recover_feature_span, recover_features
from reconrisk.attacks._cp_decomposition import decompose_jointly
from reconrisk.convnets import ConvNet, randomise_neurons
from reconrisk.mechanisms import Pruning
from reconrisk.metrics import projection_error
from reconrisk.training import client_updates

NEURONS = 2048


def _generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def _problems(size: int, problems: int = 2, neurons: int = NEURONS, **settings):
    """A network, its true features and its updates on random images of distinct labels."""
    settings.setdefault("activation", "relu")
    network = ConvNet(_generator(), side=8, channels=16, wide=neurons + 64, **settings)
    randomise_neurons(network, neurons, _generator(1))
    network.eval()
    images = torch.rand((problems, size, 3, 8, 8), generator=_generator(2))
    labels = torch.arange(size).expand(problems, -1)
    released = client_updates(network, images, labels, generator=_generator())
    with torch.no_grad():
        # a scale at which the softmax is not saturated; the direction does not depend on it
        features = torch.stack([network(batch, trace=True).features for batch in images])
    return network, features, released


def _cosines(true: torch.Tensor, found: torch.Tensor) -> torch.Tensor:
    return (torch.nn.functional.normalize(true, dim=2) @ found.mT).abs()


def _error(true: torch.Tensor, found: torch.Tensor) -> float:
    return float(np.mean(projection_error(true.double().numpy(), found.double().numpy())))


def test_one_joint_decomposition_finds_the_vectors_of_every_slice():
    rng = np.random.default_rng(3)
    vectors = rng.standard_normal((5, 5))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    slices = np.einsum("ki,ia,ib->kab", rng.standard_normal((4, 5)), vectors, vectors)
    found = decompose_jointly(slices, rng)
    cosines = np.abs(found @ vectors.T)
    np.testing.assert_allclose(cosines.max(axis=1), 1, atol=1e-9)
    assert sorted(cosines.argmax(axis=1)) == list(range(5))
    np.testing.assert_array_equal(decompose_jointly(slices[:, :1, :1], rng), [[1.0]])


def test_one_feature_is_found_by_every_way_and_from_the_layer_exactly():
    network, features, released = _problems(1)
    ways = ({}, {"method": "tensor"}, {"whitened": False}, {"span": "layer"})
    errors = [
        _error(features, recover_features(network, released, 1, neurons=NEURONS, **way))
        for way in ways
    ]
    assert max(errors[:3]) < 0.3 and errors[3] < 1e-4
    assert errors[0] < errors[2]


def test_the_error_falls_with_the_neurons_and_hardly_grows_with_the_batch():
    errors = {}
    for neurons in (1024, 4096):
        for size in (1, 4):
            network, features, released = _problems(size, neurons=neurons)
            found = recover_feature_span(network, released, size, neurons=neurons)
            torch.testing.assert_close(found @ found.mT, torch.eye(size).expand(2, -1, -1))
            errors[neurons, size] = _error(features, found)
    for size in (1, 4):
        assert 1.5 < errors[1024, size] / errors[4096, size] < 2.7
    assert errors[4096, 4] < 1.5 * errors[4096, 1]


def test_features_of_distinct_labels_are_told_apart_where_one_sum_does_not():
    network, features, released = _problems(6)
    found = recover_features(network, released, 6, neurons=NEURONS)
    cosines = _cosines(features, found)
    torch.testing.assert_close(found.norm(dim=2), torch.ones(2, 6))
    assert all(sorted(c.argmax(dim=1).tolist()) == list(range(6)) for c in cosines)
    published = recover_features(
        network, released, 6, neurons=NEURONS, method="tensor", removed=0, whitened=False
    )
    assert cosines.amax(dim=2).mean() > 0.9
    assert _cosines(features, published).amax(dim=2).mean() < cosines.amax(dim=2).mean() - 0.2


def test_scale_and_batching_of_what_is_released_do_not_matter():
    network, _, released = _problems(3)
    found = recover_features(network, released, 3, neurons=NEURONS)
    scaled = {name: 5 * g for name, g in released.gradient.items()}
    again = recover_features(network, type(released)(scaled), 3, neurons=NEURONS)
    torch.testing.assert_close((found * again).sum(dim=2).abs(), torch.ones(2, 3))
    alone = recover_features(network, released.take(slice(1, 2)), 3, neurons=NEURONS)
    torch.testing.assert_close(found[1:], alone)


def test_half_pruned_gradients_still_give_the_span():
    network, features, _ = _problems(2)
    images = torch.rand((2, 2, 3, 8, 8), generator=_generator(2))
    labels = torch.arange(2).expand(2, -1)
    pruned = client_updates(network, images, labels, [Pruning(0.5)], generator=_generator())
    found = recover_feature_span(network, pruned, 2, neurons=NEURONS)
    assert _error(features, found) < 0.5


def test_bad_input_is_refused():
    network, _, released = _problems(1, neurons=128)
    plain = ConvNet(_generator(), side=8)
    for settings, text in (
        ({"neurons": 0}, "neurons"),
        ({"neurons": 16}, "white"),
        ({"neurons": 128, "method": "guess"}, "method"),
        ({"neurons": 128, "span": "guess"}, "span"),
        ({"neurons": 128, "removed": 3}, "removed"),
    ):
        with pytest.raises(ValueError, match=text):
            recover_features(network, released, 1, **settings)
    with pytest.raises(ValueError, match="wide layer"):
        recover_features(plain, released, 1, neurons=1)
    with pytest.raises(ValueError, match="count"):
        recover_feature_span(network, released, 1000, neurons=128)
    empty = {name: torch.zeros_like(g) for name, g in released.gradient.items()}
    with pytest.raises(ValueError, match="zero"):
        recover_features(network, type(released)(empty), 1, neurons=128)
    broken = {name: g * float("nan") for name, g in released.gradient.items()}
    with pytest.raises(ValueError, match="finite"):
        recover_features(network, type(released)(broken), 1, neurons=128)

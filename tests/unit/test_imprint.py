"""Robbing the Fed: exact where a record is alone in its bin, and how often that is."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from reconrisk.attacks import (
    Knowledge,
    imprint_attack,
    imprint_thresholds,
    isolated_share,
    read_imprints,
)
from reconrisk.convnets import ImprintNetwork
from reconrisk.mechanisms import Noise, Pruning
from reconrisk.training import client_updates

SHAPE = (3, 8, 8)
MEASUREMENT = torch.full((192,), 1 / 192)


def _generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def _images(problems: int, size: int, seed: int = 1) -> torch.Tensor:
    """Random textures of different brightness, as pictures are."""
    generator = _generator(seed)
    level = torch.rand((problems, size, 1, 1, 1), generator=generator)
    texture = torch.rand((problems, size, *SHAPE), generator=generator)
    return 0.8 * level + 0.2 * texture


def _gaps(images: torch.Tensor, found: torch.Tensor) -> torch.Tensor:
    """Mean squared error of each image and its nearest reconstruction, shape (P, n)."""
    return torch.cdist(images.flatten(2), found.flatten(2)).amin(dim=2).square() / 192


def _attack(images, bins=64, defence=(), **settings):
    thresholds = imprint_thresholds(_images(1, 5000, 9).flatten(2)[0] @ MEASUREMENT, bins)
    network = ImprintNetwork(MEASUREMENT, thresholds)
    labels = torch.randint(10, images.shape[:2], generator=_generator(2))
    released = client_updates(network, images, labels, defence, generator=_generator(3))
    return imprint_attack(network, released, Knowledge(labels, SHAPE), **settings)


def test_a_record_alone_in_its_bin_is_exact():
    images = _images(6, 8)
    # brightness in steps that no two records share
    images = images - images.mean(dim=(2, 3, 4), keepdim=True)
    images = images + (torch.arange(8) / 10 + 0.15).view(8, 1, 1, 1)
    found = _attack(images, box=None)
    assert (found.loss == 0).all()
    assert _gaps(images, found.inputs).max() < 1e-8
    assert found.inputs.shape == images.shape


def test_records_that_share_a_bin_come_out_as_a_weighted_mean():
    images = _images(1, 2)
    images = images - images.mean(dim=(2, 3, 4), keepdim=True) + 0.5
    found = _attack(images, bins=4, box=None)
    assert found.loss.item() == 0.5  # one bin for two records
    mixed = found.inputs[0].flatten(1)
    best = mixed[mixed.square().sum(dim=1).argmax()]
    share = torch.linalg.lstsq(images[0].flatten(1).T, best[:, None]).solution[:, 0]
    assert share.sum().item() == pytest.approx(1, abs=1e-3)
    torch.testing.assert_close(share @ images[0].flatten(1), best, atol=1e-4, rtol=0)


@pytest.mark.parametrize(("size", "bins"), [(4, 16), (16, 64), (32, 32)])
def test_the_exact_share_is_that_of_independent_records(size, bins):
    problems = 60
    images = _images(problems, size)
    exact = (_gaps(images, _attack(images, bins).inputs) < 1e-6).float().mean(dim=1)
    expected = float(isolated_share(size, bins))
    error = exact.std().item() / np.sqrt(problems)
    # and a quantile of 5,000 auxiliary records is not quite the law's
    assert exact.mean().item() == pytest.approx(expected, abs=4 * error + 0.01)


def test_the_share_formula_against_simulation():
    rng = np.random.default_rng(0)
    for n, p in ((8, np.full(128, 1 / 128)), (20, np.array([0.5, 0.2, 0.1, 0.05]))):
        edges = np.concatenate([p, [1 - p.sum()]]).clip(0)
        counts = rng.multinomial(n, edges / edges.sum(), size=20_000)[:, : len(p)]
        alone = (counts == 1).sum(axis=1) / n
        error = alone.std() / np.sqrt(len(alone))
        assert float(isolated_share(n, p)) == pytest.approx(alone.mean(), abs=4 * error)
    assert float(isolated_share(64, 128)) == pytest.approx((1 - 1 / 128) ** 63)
    shares = isolated_share([1, 2, 3], np.full(4, 0.25))
    assert shares == pytest.approx(isolated_share([1, 2, 3], 4)) == [1, 0.75, 0.5625]


def test_small_noise_leaves_records_and_larger_noise_empties_the_bins():
    images = _images(4, 4)
    clean = _gaps(images, _attack(images).inputs).median()
    small = _gaps(images, _attack(images, defence=[Noise(1e-7)], noise_std=1e-7).inputs).median()
    large = _attack(images, defence=[Noise(1.0)], noise_std=1.0)
    assert clean < 1e-8 and small < 1e-4
    # four standard deviations: hardly a bin of noise alone
    assert large.loss.mean() > 0.9
    assert (large.inputs == 0.5).float().mean() > 0.9
    naive = _attack(images, defence=[Noise(1.0)])
    assert (naive.loss == 0).all()


def test_pruning_spoils_the_differences():
    images = _images(4, 4)
    pruned = _attack(images, defence=[Pruning(0.9)])
    assert _gaps(images, pruned.inputs).median() > 1e-3


def test_thresholds_split_auxiliary_records_evenly():
    measured = torch.rand(3000, generator=_generator())
    thresholds = imprint_thresholds(measured, 10)
    assert (thresholds.diff() > 0).all() and thresholds[0] < measured.min()
    counts = torch.histogram(measured, torch.cat([thresholds, torch.tensor([2.0])])).hist
    assert (counts - 300).abs().max() <= 2
    with pytest.raises(ValueError, match="measured"):
        imprint_thresholds(torch.ones(50), 10)
    with pytest.raises(ValueError, match="measured"):
        imprint_thresholds(torch.ones(2, 2), 2)


def test_bad_arguments_are_refused_by_name():
    weights, biases = torch.zeros(2, 3, 4), torch.zeros(2, 3)
    with pytest.raises(ValueError, match="weights and biases"):
        read_imprints(weights, biases[:1])
    with pytest.raises(ValueError, match="noise_std"):
        read_imprints(weights, biases, noise_std=-1.0)
    with pytest.raises(ValueError, match="probabilities"):
        isolated_share(3, [0.6, 0.6])
    with pytest.raises(ValueError, match="batch_size"):
        isolated_share(0, 3)
    with pytest.raises(ValueError, match="batch size"):
        _attack(_images(1, 5), bins=4)
    assert not read_imprints(weights, biases).found.any()

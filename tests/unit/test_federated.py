"""What the exhibits of Biswas et al. 2024 share: its pairs, pictures and network."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from companion.experiments import federated as federated
from reconrisk import datasets


def test_the_papers_constants():
    assert federated.DIMENSION == 13_700
    assert federated.STEPS == 1407 == 3 * 469
    assert federated.DELTA * federated.RECORDS == 1.0
    assert federated.SAMPLING_RATE == pytest.approx(128 / 60_000)


def test_pairs_are_the_columns_of_table_4():
    pairs = federated.pairs()
    assert len(pairs) == 15
    assert pairs[0] == federated.Pair(0.49, 75.0, 1.23)
    assert pairs[-1] == federated.Pair(173.0, 500.0, 0.174)
    for one, next_one in zip(pairs, pairs[1:], strict=False):
        assert one.epsilon < next_one.epsilon
        assert one.concentration < next_one.concentration
        assert one.noise_multiplier > next_one.noise_multiplier
    studied = federated.studied_pairs()
    assert [p.concentration for p in studied] == [75, 100, 150, 200, 250, 300, 350, 400]
    assert set(studied) < set(pairs)


@pytest.mark.parametrize("name", ["digits", "patches"])
def test_pictures_are_standardised_by_the_training_pixels(name):
    train = federated.load_standardised(name)
    test = federated.load_standardised(name, split="test")
    both = federated.load_standardised(name, split="all")
    assert train.inputs.shape[1] == 256 and train.inputs.dtype == torch.float32
    assert (test.mean, test.std) == (train.mean, train.std) == (both.mean, both.std)
    assert len(both.labels) == len(train.labels) + len(test.labels)
    torch.testing.assert_close(both.inputs[: len(train.labels)], train.inputs)
    # scaling keeps the mean; it can only smooth
    assert abs(float(train.inputs.mean())) < 0.02
    assert 0.7 < float(train.inputs.std()) < 1.01
    np.testing.assert_allclose(train.unit(train.inputs.numpy()), train.images.inputs, atol=1e-6)
    assert train is federated.load_standardised(name)  # kept


def test_digits_of_28_pixels_are_cropped_and_garments_scaled(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    pictures = datasets.LabelledImages(
        rng.random((6, 784), dtype=np.float32), np.arange(6), (28, 28), "made up"
    )
    monkeypatch.setattr(datasets, "classified", lambda *args, **more: pictures)
    federated.load_standardised.cache_clear()
    try:
        cropped = federated.load_standardised("MNIST", str(tmp_path)).images.inputs
        scaled = federated.load_standardised("FashionMNIST", str(tmp_path)).images.inputs
    finally:
        federated.load_standardised.cache_clear()
    centre = pictures.inputs.reshape(6, 28, 28)[:, 6:22, 6:22].reshape(6, 256)
    np.testing.assert_allclose(cropped, centre, atol=1e-7)
    assert scaled.shape == (6, 256) and not np.allclose(scaled, centre, atol=0.05)
    np.testing.assert_allclose(
        scaled.mean(axis=1), pictures.inputs.mean(axis=1), atol=0.01
    )  # nothing is cut off

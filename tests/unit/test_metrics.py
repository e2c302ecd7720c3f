"""Metrics: definitions, limits, and agreement with independent implementations."""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import sys
import types
import warnings
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats
from skimage.metrics import normalized_mutual_information, peak_signal_noise_ratio

from reconrisk import datasets, metrics
from reconrisk.datasets import files


@pytest.fixture
def pair() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(7)
    target = rng.random((5, 60))
    return target, target + 0.2 * rng.standard_normal(target.shape)


def test_mse_is_the_mean_of_squares(pair):
    x, y = pair
    assert metrics.mse([0.0, 0.0], [3.0, 4.0]) == 12.5
    np.testing.assert_allclose(metrics.rmse(x, y) ** 2, metrics.mse(x, y), rtol=1e-14)


def test_psnr_agrees_with_scikit_image_and_uses_the_targets_own_range(pair):
    x, y = pair
    for a, b, value in zip(x, y, metrics.psnr(x, y), strict=True):
        assert value == pytest.approx(
            peak_signal_noise_ratio(a, b, data_range=np.ptp(a)), rel=1e-12
        )
    assert metrics.psnr([0.0, 1.0], [0.0, 1.0]) == np.inf
    # scaling the data by a and the range with it changes nothing; scaling the data alone does
    assert metrics.psnr(10 * x, 10 * y, 10.0) == pytest.approx(metrics.psnr(x, y, 1.0))
    np.testing.assert_allclose(
        metrics.psnr(10 * x, 10 * y, 1.0), metrics.psnr(x, y, 1.0) - 20, rtol=1e-12
    )


def test_ncc_is_pearsons_correlation_and_ignores_positive_affine_maps(pair):
    x, y = pair
    for a, b, value in zip(x, y, metrics.ncc(x, y), strict=True):
        assert value == pytest.approx(stats.pearsonr(a, b).statistic, abs=1e-13)
    np.testing.assert_allclose(metrics.ncc(3 * x + 1, 0.5 * y - 2), metrics.ncc(x, y), rtol=1e-12)
    np.testing.assert_allclose(metrics.ncc(x, -y), -metrics.ncc(x, y), rtol=1e-12)


def test_ncc_of_a_constant_is_refused():
    with pytest.raises(ValueError, match="constant"):
        metrics.ncc([0.5, 0.5], [0.1, 0.2])
    with pytest.raises(ValueError, match="0/0"):
        metrics.ncc([0.3], [0.4])  # N = 1


@pytest.mark.parametrize("bins", [2, 10, 100])
def test_nmi_equals_scikit_image(bins):
    rng = np.random.default_rng(3)
    x = rng.random((40, 40, 3))
    y = x + 0.3 * rng.standard_normal(x.shape)
    expected = normalized_mutual_information(x, y, bins=bins)
    assert metrics.nmi(x, y, bins) == pytest.approx(expected, rel=1e-12)


def test_nmi_runs_from_two_for_equal_pictures_towards_one_for_unrelated_ones():
    rng = np.random.default_rng(4)
    x = rng.random((200, 200))
    assert metrics.nmi(x, x) == pytest.approx(2, rel=1e-12)
    unrelated = metrics.nmi(x, rng.random(x.shape), bins=10)
    # the plug-in bias of the mutual information is (bins - 1)^2 / (2 N) nats of 2 ln(bins)
    assert 0 < unrelated - 1 < 3 * 81 / (2 * x.size) / (2 * np.log(10))


def test_nmi_of_nothing_or_of_what_is_no_number_is_refused():
    x = np.random.default_rng(6).random((8, 8))
    bad = x.copy()
    bad[3, 4] = np.nan
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for one, other, why in (
            (x[:0], x[:0], r"must hold values; got shape \(0, 8\)"),
            (bad, x, "target must be finite; got nan"),
            (x, bad, "reconstruction must be finite; got nan"),
            (x, np.full_like(x, -np.inf), "reconstruction must be finite; got -inf"),
        ):
            with pytest.raises(ValueError, match=why):
                metrics.nmi(one, other)


def test_ssim_of_equal_pictures_is_one_and_falls_with_noise():
    rng = np.random.default_rng(5)
    x = rng.random((32, 32, 3))
    values = [metrics.ssim(x, x + s * rng.standard_normal(x.shape)) for s in (0, 0.05, 0.2, 1)]
    assert values[0] == pytest.approx(1)
    assert all(a > b for a, b in zip(values, values[1:], strict=False))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: metrics.mse([1.0, 2.0], [1.0]), "last axis"),
        (lambda: metrics.psnr([0.0, 1.0], [0.0, 0.5], 0.0), "data_range must be in"),
        (lambda: metrics.nmi(np.zeros((3, 3)), np.zeros((2, 2))), "share a shape"),
        (lambda: metrics.nmi(np.eye(3), np.eye(3), bins=1), "bins must be in"),
        (lambda: metrics.nmi(np.ones((3, 3)), np.ones((3, 3))), "constant"),
        (lambda: metrics.ssim(np.zeros((3, 3)), np.zeros((3, 3))), "7x7"),
    ],
)
def test_bad_input_is_refused_by_name(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_the_perceptual_stand_in_says_so_and_orders_noise(monkeypatch, tmp_path):
    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    measure = metrics.load_perceptual()
    assert measure.stand_in and "untrained" in measure.name
    rng = np.random.default_rng(6)
    picture = rng.random((64, 64, 3))
    noise = rng.standard_normal(picture.shape)
    values = [measure(picture, picture + s * noise) for s in (0.0, 0.02, 0.1, 0.5)]
    assert values[0] == pytest.approx(0, abs=1e-6)
    assert all(a < b for a, b in zip(values, values[1:], strict=False))
    assert metrics.load_perceptual()(picture, picture + 0.1 * noise) == values[2]  # seeded
    stack = picture + np.multiply.outer([0.0, 0.02, 0.1, 0.5], noise)
    np.testing.assert_allclose(measure(picture, stack), values, rtol=1e-4, atol=1e-5)
    with pytest.raises(ValueError, match="must be pictures"):
        measure(np.clip(stack, 0, 1), picture)
    with pytest.raises(ValueError, match="32x32"):
        measure(picture[:8, :8], picture[:8, :8])


@pytest.mark.parametrize("given", [True, False], ids=["in a folder", "where torchvision keeps it"])
@pytest.mark.parametrize(("network", "name"), [("squeeze", "SqueezeNet"), ("alex", "AlexNet")])
def test_with_a_backbone_in_place_the_same_loader_gives_lpips(
    monkeypatch, tmp_path, network, name, given
):
    """A verified file in the place of the weights is loaded: here one with known weights."""
    import torch

    monkeypatch.setenv("TORCH_HOME", str(tmp_path / "hub"))
    metrics.load_perceptual()  # makes torchvision importable
    import lpips
    from torchvision.models import alexnet, squeezenet1_1

    from reconrisk.metrics import perceptual

    torch.manual_seed(11)
    backbone = {"alex": alexnet, "squeeze": squeezenet1_1}[network](weights=None)
    kept = perceptual.backbone_file(network)
    file = tmp_path / "data" / kept.name if given else kept
    file.parent.mkdir(parents=True)
    torch.save(backbone.state_dict(), file)
    load = functools.partial(metrics.load_perceptual, folder=tmp_path / "data" if given else None)
    with pytest.raises(ValueError, match=f"{file.name} is not {name} .* sha256 must begin with"):
        load()
    start = hashlib.sha256(file.read_bytes()).hexdigest()[:8]
    published = {network: replace(perceptual.BACKBONES[network], sha256=start)}
    monkeypatch.setattr(perceptual, "BACKBONES", perceptual.BACKBONES | published)
    state = torch.random.get_rng_state()
    measure = load()
    assert torch.equal(torch.random.get_rng_state(), state)  # no draw of the caller's is used up
    assert (measure.name, measure.stand_in) == (f"LPIPS ({name})", False)
    assert metrics.load_perceptual().stand_in == given
    # LPIPS' own package, which reads its weights where torchvision keeps them, gives the same
    kept.parent.mkdir(parents=True, exist_ok=True)
    kept.write_bytes(file.read_bytes())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        monkeypatch.setattr(  # it verifies the published checksum
            "torchvision.models._api.load_state_dict_from_url",
            lambda *_, **__: torch.load(kept, weights_only=True),
        )
        other = perceptual.PerceptualMetric("", False, lpips.LPIPS(net=network, verbose=False))
    rng = np.random.default_rng(6)
    picture = rng.random((64, 64, 3))
    noisy = picture + 0.1 * rng.standard_normal(picture.shape)
    assert measure(picture, picture) == pytest.approx(0, abs=1e-6)
    assert measure(picture, noisy) == other(picture, noisy) > 0


@pytest.mark.parametrize(
    ("one", "two", "size"), [(0.3, 0.3, 784), (0.6, 0.9, 784), (0.3, 0.7, 1000)]
)
def test_constant_pictures_have_no_correlation_whatever_their_grey(one, two, size):
    with pytest.raises(ValueError, match="must not be constant"):
        metrics.ncc(np.full(size, one), np.full(size, two))


def test_the_perceptual_distance_refuses_targets_of_another_range():
    measure = metrics.load_perceptual()
    picture = np.random.default_rng(0).random((32, 32, 3))
    for target in (np.round(255 * picture), picture * np.nan, picture - 0.5):
        with pytest.raises(ValueError, match=r"target must be in \[0, 1\]"):
            measure(target, picture)
    with pytest.raises(ValueError, match="reconstruction must be finite"):
        measure(picture, picture * np.nan)
    with pytest.raises(ValueError, match="must be pictures"):
        measure(picture, picture[:, :, :1])
    assert measure(picture, 2.0 * picture) == measure(picture, np.minimum(2.0 * picture, 1.0))


@pytest.fixture(scope="module")
def photograph() -> np.ndarray:
    return datasets.pictures(65, 1)[0]


def test_shift_tolerant_lpips_is_a_distance_of_pictures_and_stacks(photograph):
    measure = metrics.load_shift_tolerant()
    assert (measure.name, measure.stand_in) == ("ST-LPIPS", False)
    noise = np.random.default_rng(6).standard_normal(photograph.shape)
    noisy = photograph + np.multiply.outer([0.0, 0.02, 0.1, 0.5], noise)
    targets = np.broadcast_to(photograph, noisy.shape)
    values = measure(targets, noisy)
    np.testing.assert_allclose(values, [0, 0.003041, 0.2392, 0.7521], rtol=2e-4, atol=1e-9)
    for same in ([measure(photograph, one) for one in noisy], measure(photograph, noisy)):
        np.testing.assert_allclose(values, same, rtol=1e-4, atol=1e-9)
    symmetric = measure(np.clip(noisy, 0, 1), targets)
    np.testing.assert_allclose(values, symmetric, rtol=1e-4, atol=1e-9)


def test_shift_tolerant_lpips_is_what_its_package_computes(monkeypatch, photograph):
    """Its own code, whose undeclared import of torchsummary is met by an empty module."""
    import torch

    measure = metrics.load_shift_tolerant()
    metrics.load_perceptual()  # makes torchvision importable
    stub = types.ModuleType("torchsummary")
    monkeypatch.setattr(stub, "summary", None, raising=False)
    monkeypatch.setitem(sys.modules, "torchsummary", stub)
    from stlpips_pytorch import stlpips

    theirs = stlpips.LPIPS(net="alex", variant="shift_tolerant", verbose=False)
    for size in (32, 33, 65):
        target = photograph[:size, :size]
        noisy = np.clip(target + 0.1 * np.random.default_rng(1).standard_normal(target.shape), 0, 1)
        pair = (torch.from_numpy(p.transpose(2, 0, 1)[None]).float() for p in (target, noisy))
        with torch.no_grad():
            expected = float(theirs(*pair, normalize=True))
        assert measure(target, noisy) == pytest.approx(expected, rel=1e-5)


def test_shift_tolerant_lpips_hardly_sees_a_shift_by_a_pixel(photograph):
    """As its paper claims; to the untrained distance the shift is as much as noise of 0.1."""
    moved, still = photograph[:-1, 1:], photograph[:-1, :-1]
    noisy = still + 0.1 * np.random.default_rng(6).standard_normal(still.shape)
    tolerant, untrained = (
        measure(still, moved) / measure(still, noisy)
        for measure in (metrics.load_shift_tolerant(), metrics.load_perceptual())
    )
    assert tolerant < 0.05 and untrained > 0.7


def test_only_the_published_weights_of_shift_tolerant_lpips_are_read(monkeypatch, tmp_path):
    from reconrisk.metrics import _backbones

    other = replace(_backbones.SHIFT_TOLERANT, sha256="0" * 64)
    monkeypatch.setattr(_backbones, "SHIFT_TOLERANT", other)
    with pytest.raises(ValueError, match="as stlpips-pytorch publishes it: its sha256 must begin"):
        metrics.load_shift_tolerant()
    assert files.check_folder(tmp_path)[-1].state == "damaged"


def test_without_its_package_shift_tolerant_lpips_is_named(monkeypatch, tmp_path):
    assert files.check_folder(tmp_path)[-1].detail == "as published"
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if "stlpips" in name else find(name)
    )
    with pytest.raises(ModuleNotFoundError, match=r"stlpips_pytorch: .*reconrisk\[stlpips\]"):
        metrics.load_shift_tolerant()
    missing = files.check_folder(tmp_path)[-1]
    assert (missing.data_set, missing.state, missing.detail) == ("ST-LPIPS", "missing", "optional")

"""The learnt prior: a denoiser, its estimates and its draws, against exact posteriors."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from reconrisk import attacks
from reconrisk.convnets import Denoiser, train_denoiser


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def affine(mean: float, spread: float, side: int = 4) -> Denoiser:
    """A denoiser without its network: exact for independent normal pixels."""
    denoiser = Denoiser(generator(), side=side, width=4)
    for parameter in denoiser.last.parameters():
        torch.nn.init.zeros_(parameter)
    denoiser.mean.fill_(mean)
    denoiser.spread.fill_(spread)
    return denoiser


def test_without_its_network_a_denoiser_is_exact_for_independent_normal_pixels():
    x = torch.randn(3, 16, generator=generator(1), dtype=torch.float64)
    std = torch.tensor([0.1, 1.0, 7.0], dtype=torch.float64)
    found = attacks.denoise(x, std, affine(0.5, 2.0))
    expected = 0.5 + 4 / (4 + std[:, None] ** 2) * (x - 0.5)
    torch.testing.assert_close(found, expected, atol=1e-6, rtol=1e-6)


def test_draws_have_the_law_of_the_posterior():
    x_hat = torch.full((4000, 16), 2.0)
    std = torch.full((4000,), 1.5)
    drawn = attacks.posterior_sample(
        x_hat, std, affine(0.5, 2.0), generator(2), steps=150, least_std=0.01
    )
    gain = 4 / (4 + 1.5**2)
    count = drawn.numel()
    mean, variance = 0.5 + gain * 1.5, gain * 1.5**2
    assert float(drawn.mean()) == pytest.approx(mean, abs=5 * math.sqrt(variance / count))
    # 150 steps leave two per cent of the variance out
    assert float(drawn.var()) == pytest.approx(variance, rel=0.02 + 5 * math.sqrt(2 / count))


def test_more_steps_come_nearer_to_the_posterior():
    x_hat, std = torch.zeros(2000, 16), torch.ones(2000)
    spreads = [
        float(
            attacks.posterior_sample(
                x_hat, std, affine(0.0, 1.0), generator(3), steps=steps, least_std=0.01
            ).var()
        )
        for steps in (1, 4, 16, 64)
    ]
    assert spreads == sorted(spreads)
    assert spreads[-1] < 0.5  # of the posterior


def test_a_trained_denoiser_is_the_posterior_mean_of_its_images():
    images = torch.stack([torch.full((1, 4, 4), value) for value in (0.1, 0.9)])
    denoiser = Denoiser(generator(4), side=4, width=8)
    train_denoiser(
        denoiser, images, generator=generator(5), steps=600, batch_size=64, noise_stds=(0.1, 5.0)
    )
    std = torch.full((400,), 1.2)
    clean = images.flatten(1)[torch.arange(400) % 2]
    x_hat = clean + 1.2 * torch.randn(clean.shape, generator=generator(6))
    logs = -(x_hat[:, None] - images.flatten(1)).square().sum(dim=2) / (2 * 1.2**2)
    exact = torch.softmax(logs, dim=1) @ images.flatten(1)
    gain = 0.16 / (0.16 + 1.2**2)
    estimates = {
        "exact": exact,
        "learnt": attacks.denoise(x_hat, std, denoiser),
        "affine": 0.5 + gain * (x_hat - 0.5),
    }
    error = {name: float((e - clean).square().mean()) for name, e in estimates.items()}
    # it knows that an image is all dark or all bright, which no affine map of single pixels does
    assert error["exact"] < error["learnt"]
    assert error["learnt"] - error["exact"] < 0.2 * (error["affine"] - error["exact"])


def test_the_mean_and_spread_are_the_images():
    images = torch.rand(50, 1, 8, 8, generator=generator(7))
    denoiser = Denoiser(generator(), side=8, width=4)
    losses: list[float] = []
    train_denoiser(
        denoiser,
        images,
        generator=generator(8),
        steps=3,
        watch=lambda step, loss: losses.append(loss),
    )
    torch.testing.assert_close(denoiser.mean[0], images.mean(dim=0))
    assert float(denoiser.spread) == pytest.approx(
        float(images.std(dim=0).square().mean() ** 0.5), rel=0.02
    )
    assert len(losses) == 3
    assert losses[0] == pytest.approx(1.0, abs=0.5)  # what an affine estimate has


def test_equal_seeds_train_equal_networks():
    images = torch.rand(20, 1, 8, 8, generator=generator(9))
    found = []
    for _ in range(2):
        denoiser = Denoiser(generator(1), side=8, width=4)
        train_denoiser(denoiser, images, generator=generator(2), steps=5, batch_size=8)
        found.append(denoiser(images, torch.ones(20)))
    assert torch.equal(*found)


@pytest.mark.parametrize("sigma", [0.02, 0.5])
def test_the_noise_is_told_from_the_release(sigma: float):
    records = torch.rand(50, 784, generator=generator(3), dtype=torch.float64)
    length = records.norm(dim=1)
    noise = torch.randn(records.shape, generator=generator(4), dtype=torch.float64)
    found = attacks.noise_of(records + sigma * length[:, None] * noise, sigma)
    share = (found / (sigma * length)).numpy()
    assert np.abs(share - 1).max() < 4 * math.sqrt(1 / (2 * 784)) + 4 * sigma / math.sqrt(784)


@pytest.mark.parametrize(
    "call, name",
    [
        (lambda d: attacks.denoise(torch.zeros(2, 15), torch.ones(2), d), "x_hat"),
        (lambda d: attacks.denoise(torch.zeros(2, 16), torch.ones(3), d), "noise_std"),
        (lambda d: attacks.denoise(torch.zeros(2, 16), torch.zeros(2), d), "noise_std"),
        (
            lambda d: attacks.posterior_sample(
                torch.zeros(1, 16), torch.ones(1), d, generator(), steps=0
            ),
            "steps",
        ),
        (lambda d: attacks.noise_of(torch.ones(1, 16), 0.0), "noise_multiplier"),
        (lambda d: Denoiser(generator(), side=10), "side"),
        (
            lambda d: train_denoiser(
                d, torch.ones(1, 1, 4, 4), generator=generator(), steps=1, noise_stds=(0.0, 1.0)
            ),
            "noise_stds",
        ),
    ],
)
def test_bad_arguments_are_named(call, name: str):
    with pytest.raises(ValueError, match=name):
        call(affine(0.0, 1.0))

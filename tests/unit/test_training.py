"""DP-SGD steps: gradients against autograd, clipping, noise, and the manipulated network."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy import stats

from reconrisk import DPSGD
from reconrisk.mechanisms import add_gaussian_noise, clip, global_norm
from reconrisk.models import AttackLayer, PrependedNetwork, sum_of_outputs
from reconrisk.training import per_example_gradients, single_record_steps


def _records(count: int, dimension: int, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.rand(count, dimension, dtype=torch.float64, generator=generator)


def test_per_example_gradients_equal_autograd_record_by_record():
    records = _records(7, 12)
    network = PrependedNetwork(12, 3, 5, torch.Generator().manual_seed(1)).double()
    together = per_example_gradients(network, sum_of_outputs, records)
    assert set(together) == {name for name, _ in network.named_parameters()}
    for index, record in enumerate(records):
        network.zero_grad()
        network(record).sum().backward()
        for name, parameter in network.named_parameters():
            torch.testing.assert_close(together[name][index], parameter.grad)
        alone = per_example_gradients(network, sum_of_outputs, record[None])  # the other route
        for name in together:
            torch.testing.assert_close(alone[name][0], together[name][index])


def test_every_row_of_the_attack_layer_holds_the_record():
    records = _records(3, 9)
    layer = AttackLayer(9, 4, bias=True, dtype=torch.float64)
    gradient = per_example_gradients(layer, sum_of_outputs, records)
    torch.testing.assert_close(gradient["weight"], records[:, None].expand(3, 4, 9))
    torch.testing.assert_close(gradient["bias"], torch.ones(3, 4, dtype=torch.float64))


@pytest.mark.parametrize("factor", [0.5, 0.999, 1.0, 3.0])
def test_clipping_scales_long_gradients_to_the_norm_and_leaves_short_ones(factor):
    gradient = {"a": _records(4, 6), "b": _records(4, 2, seed=1)[:, :, None]}
    norms = global_norm(gradient)
    limit = factor * float(norms.min())
    clipped, beta = clip(gradient, limit)
    torch.testing.assert_close(beta, torch.clamp(limit / norms, max=1))
    assert bool((global_norm(clipped) <= limit * (1 + 1e-12)).all()) or factor > 1
    torch.testing.assert_close(clipped["b"], gradient["b"] * beta[:, None, None])


def test_the_norm_is_summed_in_double_precision():
    """1.5e8 single-precision entries: a single-precision sum would be more than 1% short."""
    gradient = {"w": torch.full((1, 30_000_000), 0.1)}
    exact = float(torch.tensor(0.1)) * math.sqrt(30_000_000)
    assert float(global_norm(gradient)) == pytest.approx(exact, rel=1e-9)


def test_noise_has_the_stated_law_and_comes_from_the_seed():
    zeros = {"w": torch.zeros(1, 200_000, dtype=torch.float64)}
    noise = add_gaussian_noise(zeros, 1.7, torch.Generator().manual_seed(3))["w"]
    again = add_gaussian_noise(zeros, 1.7, torch.Generator().manual_seed(3))["w"]
    assert torch.equal(noise, again)
    assert stats.kstest(noise.numpy().ravel() / 1.7, stats.norm.cdf).pvalue > 1e-3
    assert torch.equal(add_gaussian_noise(zeros, 0.0, torch.Generator())["w"], zeros["w"])


def test_a_step_is_clipped_gradient_plus_noise_of_c_sigma():
    records = _records(500, 20)
    layer = AttackLayer(20, 3, dtype=torch.float64)
    run = DPSGD(noise_multiplier=0.4, max_grad_norm=2.0)
    released, beta = single_record_steps(
        layer, sum_of_outputs, records, run, torch.Generator().manual_seed(0)
    )
    expected = 1 / np.maximum(1, math.sqrt(3) * records.norm(dim=1).numpy() / 2.0)
    np.testing.assert_allclose(beta.numpy(), expected, rtol=1e-12)
    noise = released["weight"] - beta[:, None, None] * records[:, None]
    assert stats.kstest(noise.numpy().ravel() / 0.8, stats.norm.cdf).pvalue > 1e-3


def test_the_offset_and_scale_are_applied_before_the_layer():
    offset = torch.full((5,), 0.5, dtype=torch.float64)
    layer = AttackLayer(5, 1, offset=offset, input_scale=3.0, dtype=torch.float64)
    records = _records(2, 5)
    gradient = per_example_gradients(layer, sum_of_outputs, records)
    torch.testing.assert_close(gradient["weight"][:, 0], 3 * records - 0.5)


@pytest.mark.parametrize("value", [0.0, -1.0, float("nan")])
def test_bad_settings_are_refused_by_name(value):
    gradient = {"a": torch.ones(1, 2)}
    with pytest.raises(ValueError, match=r"max_grad_norm must be in \(0, inf"):
        clip(gradient, value)
    with pytest.raises(ValueError, match="noise_multiplier must be in"):
        DPSGD(noise_multiplier=value)
    if value != 0:
        with pytest.raises(ValueError, match="noise_std must be in"):
            add_gaussian_noise(gradient, value, torch.Generator())

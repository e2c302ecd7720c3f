"""Von Mises-Fisher draws: the exact law of the cosine, SciPy's sampler, the tangent's uniformity.

Kolmogorov-Smirnov distances with fixed seeds are held against the 1e-4 quantile of their law.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import stats

from reconrisk import privacy, special
from reconrisk.mechanisms import add_vmf_noise, global_norm, sample_vmf, vmf_cosines

UNLIKELY = 1e-4


def cosine_cdf(p: int, kappa: float):
    """Distribution function of the cosine ``w``, tabulated in ``v = artanh w``."""
    v = np.linspace(-60.0, 60.0, 600_001)
    # with w = tanh(v): dw (1 - w**2)**((p-3)/2) = (1 - w**2)**((p-1)/2) dv
    log_across = 2 * (np.log(2.0) - np.abs(v) - np.log1p(np.exp(-2 * np.abs(v))))
    below_one = np.exp(-np.logaddexp(0.0, 2 * v)) * 2  # 1 - tanh v
    log_weight = 0.5 * (p - 1) * log_across - kappa * below_one
    weight = np.exp(log_weight - log_weight.max())
    total = np.concatenate([[0.0], np.cumsum(0.5 * (weight[1:] + weight[:-1]))])
    # artanh w = log((1 + w)/sine), also where w rounds to one
    return lambda cosine, sine: np.interp(np.log((1 + cosine) / sine), v, total / total[-1])


@pytest.mark.parametrize("p", [2, 3, 10, 13_700])
@pytest.mark.parametrize("kappa", [0.0, 0.3, 5.0, 75.0, 500.0, 1e6])
def test_cosines_follow_their_exact_law(p, kappa):
    cosine, sine = vmf_cosines(p, kappa, np.random.default_rng(11), 20_000)
    np.testing.assert_allclose(np.hypot(cosine, sine), 1.0, rtol=1e-15)
    u = cosine_cdf(p, kappa)(cosine, sine)
    assert stats.kstest(u, "uniform").pvalue > UNLIKELY


@pytest.mark.parametrize("p", [2, 4, 300, 13_700])
@pytest.mark.parametrize("kappa", [1.0, 75.0, 1e3, 1e6])
def test_mean_cosine_is_the_bessel_ratio(p, kappa):
    cosine, _ = vmf_cosines(p, kappa, np.random.default_rng(12), 20_000)
    mean = special.bessel_ratio(p / 2 - 1, kappa)
    variance = 1 - mean**2 - (p - 1) / kappa * mean
    error = np.sqrt(max(variance, 0.0) / cosine.size) + 1e-15
    assert abs(np.mean(cosine) - mean) < 4.5 * error
    # the divergence between opposite directions is the mean privacy loss 2 kappa cos
    assert 2 * kappa * mean == pytest.approx(privacy.vmf_kl(p, kappa), rel=1e-14)


@pytest.mark.parametrize(("p", "kappa"), [(2, 3.0), (3, 0.7), (3, 50.0), (8, 12.0)])
def test_against_scipy(p, kappa):
    mu = np.arange(1.0, p + 1.0)
    ours = sample_vmf(mu, kappa, 13, 20_000)
    unit = mu / np.linalg.norm(mu)
    theirs = stats.vonmises_fisher(unit, kappa, seed=14).rvs(20_000)
    # the cosine, and every coordinate
    assert stats.ks_2samp(ours @ unit, theirs @ unit).pvalue > UNLIKELY
    for axis in range(p):
        assert stats.ks_2samp(ours[:, axis], theirs[:, axis]).pvalue > UNLIKELY


@pytest.mark.parametrize("p", [3, 63, 64, 200])
def test_tangent_is_uniform_across_the_mean(p):
    kappa, mu = 20.0, np.eye(p)[1]
    x = sample_vmf(mu, kappa, 15, 20_000)
    across = np.delete(x, 1, axis=1)
    across /= np.linalg.norm(across, axis=1, keepdims=True)
    # one coordinate of a uniform direction in p - 1 dimensions
    share = stats.beta(0.5, 0.5 * (p - 2)) if p > 3 else stats.beta(0.5, 0.5)
    for axis in (0, p - 2):
        assert stats.kstest(across[:, axis] ** 2, share.cdf).pvalue > UNLIKELY
        signs = np.sum(across[:, axis] > 0)
        assert stats.binomtest(int(signs), 20_000).pvalue > UNLIKELY
    # and independent of the cosine
    rank = stats.spearmanr(x[:, 1], across[:, 0] ** 2)
    assert rank.pvalue > UNLIKELY


@pytest.mark.parametrize("kappa", [0.0, 75.0, 1e6])
def test_unit_vectors_at_the_papers_size(kappa):
    rng = np.random.default_rng(16)
    mu = rng.standard_normal(13_700) * 1e-3
    x = sample_vmf(mu, kappa, rng, 64)
    assert x.shape == (64, 13_700)
    np.testing.assert_allclose(np.linalg.norm(x, axis=1), 1.0, rtol=1e-14)
    cosine = x @ mu / np.linalg.norm(mu)
    mean = special.bessel_ratio(6849.0, kappa)
    assert abs(np.mean(cosine) - mean) < 5 / np.sqrt(13_700 * 64)


@pytest.mark.parametrize("p", [2, 3, 70])
@pytest.mark.parametrize("axis", [0, -1])
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_directions_along_an_axis_are_no_special_case(p, axis, sign):
    mu = np.zeros(p)
    mu[axis] = sign
    x = sample_vmf(mu, 1e5, 17, 300)
    np.testing.assert_allclose(np.linalg.norm(x, axis=1), 1.0, rtol=1e-14)
    assert np.all(x[:, axis] * sign > 1 - 1e-2)


def test_shapes_seeds_and_lengths():
    one = sample_vmf([3.0, 4.0, 0.0], 10.0, 1)
    assert one.shape == (3,)
    np.testing.assert_array_equal(one, sample_vmf([3.0, 4.0, 0.0], 10.0, 1, 1)[0])
    np.testing.assert_allclose(one, sample_vmf([3e-200, 4e-200, 0.0], 10.0, 1), rtol=1e-14)
    np.testing.assert_allclose(one, sample_vmf([3e200, 4e200, 0.0], 10.0, 1), rtol=1e-14)
    assert sample_vmf([1.0, 0.0], 1.0, 1, 0).shape == (0, 2)
    # a direction and a concentration for each row
    mu = np.eye(4)[[0, 1, 2, 3, 0]]
    rows = sample_vmf(mu, [1e9, 1e9, 1e9, 1e9, 0.0], 2)
    np.testing.assert_allclose(np.sum(rows[:4] * mu[:4], axis=1), 1.0, atol=1e-6)
    rng = np.random.default_rng(3)
    assert not np.array_equal(sample_vmf(mu, 1.0, rng), sample_vmf(mu, 1.0, rng))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: sample_vmf([0.0, 0.0], 1.0, 1), "mean_direction must be finite and not zero"),
        (lambda: sample_vmf([np.nan, 1.0], 1.0, 1), "mean_direction must be finite"),
        (lambda: sample_vmf([1.0], 1.0, 1), "mean_direction must have shape"),
        (lambda: sample_vmf([1.0, 0.0], -1.0, 1), "concentration must be in"),
        (lambda: sample_vmf(np.eye(3), 1.0, 1, 3), "size must be None"),
        (lambda: vmf_cosines(1, 1.0, np.random.default_rng(1), 3), "dimension must be in"),
    ],
)
def test_refuses(call, message):
    with pytest.raises(ValueError, match=message):
        call()


# --- tensors ------------------------------------------------------------------------------------


def gradient(examples: int, dtype: torch.dtype = torch.float32) -> dict[str, torch.Tensor]:
    g = torch.Generator().manual_seed(4)
    return {
        "hidden.weight": torch.randn(examples, 50, 20, generator=g, dtype=dtype),
        "output.weight": torch.randn(examples, 10, 5, generator=g, dtype=dtype),
    }


def flat(mapping: dict[str, torch.Tensor]) -> np.ndarray:
    return torch.cat([g.flatten(1) for g in mapping.values()], dim=1).double().numpy()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("kappa", [0.0, 75.0, 2e3, 1e6])
def test_tensors_follow_the_same_law(dtype, kappa):
    true = gradient(4000, dtype)
    kept = {name: g.clone() for name, g in true.items()}
    noisy = add_vmf_noise(true, kappa, torch.Generator().manual_seed(5))
    assert list(noisy) == list(true)
    for name, g in noisy.items():
        assert g.shape == true[name].shape and g.dtype == dtype
        assert torch.equal(true[name], kept[name])
    room = 1e-6 if dtype == torch.float32 else 1e-14
    np.testing.assert_allclose(global_norm(noisy).numpy(), 1.0, rtol=room)
    mu, x = flat(true), flat(noisy)
    mu /= np.linalg.norm(mu, axis=1, keepdims=True)
    cosine = np.sum(mu * x, axis=1)
    if kappa < 1e5:
        direct, _ = vmf_cosines(mu.shape[1], kappa, np.random.default_rng(6), 20_000)
        assert stats.ks_2samp(cosine, direct).pvalue > UNLIKELY
    # across the mean, uniform: a fixed direction's share of the square
    other = np.roll(mu, 1, axis=1)
    other -= np.sum(other * mu, axis=1, keepdims=True) * mu
    other /= np.linalg.norm(other, axis=1, keepdims=True)
    across = x - cosine[:, None] * mu
    share = np.sum(across * other, axis=1) ** 2 / np.sum(across**2, axis=1)
    law = stats.beta(0.5, 0.5 * (mu.shape[1] - 2))
    assert stats.kstest(share, law.cdf).pvalue > UNLIKELY


def test_tensors_in_few_dimensions():
    true = {"a": torch.eye(2, dtype=torch.float64)[[0] * 500 + [1] * 500]}
    noisy = add_vmf_noise(true, 50.0, torch.Generator().manual_seed(7))["a"].numpy()
    np.testing.assert_allclose(np.linalg.norm(noisy, axis=1), 1.0, rtol=1e-14)
    angle = np.arctan2(noisy[:, 1], noisy[:, 0]) - np.repeat([0.0, np.pi / 2], 500)
    assert stats.kstest(angle, stats.vonmises(50.0).cdf).pvalue > UNLIKELY


def test_tensors_repeat_with_the_seed_and_refuse_zero():
    true = gradient(3)
    first, second, third = (
        add_vmf_noise(true, 9.0, torch.Generator().manual_seed(seed)) for seed in (1, 1, 2)
    )
    assert all(torch.equal(first[n], second[n]) for n in first)
    assert not torch.equal(first["output.weight"], third["output.weight"])
    true["hidden.weight"][1] = 0
    true["output.weight"][1] = 0
    with pytest.raises(ValueError, match="gradient must be finite and not zero"):
        add_vmf_noise(true, 9.0, torch.Generator())

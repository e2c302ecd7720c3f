"""The analytic attack and the reconstructions that beat it, against their exact laws."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy import stats

from reconrisk import DPSGD, attacks, bounds, metrics


def _record(dimension: int, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.rand(dimension, dtype=torch.float64, generator=generator)


def _rebuild(record: torch.Tensor, sigma: float, count: int, **options) -> np.ndarray:
    run = DPSGD(sigma, max_grad_norm=0.2 * float(record.norm()))
    inputs = record.expand(count, -1)
    observed = attacks.observe(inputs, run, torch.Generator().manual_seed(5), **options)
    return attacks.known_scale(observed).numpy()


@pytest.mark.parametrize("rows", [1, 7])
def test_the_attack_has_the_law_of_equation_20(rows):
    record, sigma = _record(12), 0.3
    rebuilt = _rebuild(record, sigma, 3000, rows=rows)
    noise = (rebuilt - record.numpy()) / (sigma * float(record.norm()))
    assert stats.kstest(noise.ravel(), stats.norm.cdf).pvalue > 1e-3
    correlation = np.corrcoef(noise.T) - np.eye(12)
    assert np.abs(correlation).max() < 5 / math.sqrt(3000)


def test_without_noise_the_record_comes_back_by_every_route():
    record = _record(9)
    run = DPSGD(1e-100, max_grad_norm=0.1)
    observed = attacks.observe(
        record[None], run, torch.Generator(), rows=3, bias=True, keep_rows=True
    )
    for rebuilt in (
        attacks.known_scale(observed)[0],
        attacks.with_estimated_scale(observed)[0],
        *attacks.ratio_by_row(observed)[0],
    ):
        torch.testing.assert_close(rebuilt, record)


def test_offset_and_input_scale_are_undone():
    record = _record(9)
    run = DPSGD(1e-100, max_grad_norm=0.1)
    offset = torch.full((9,), 0.5, dtype=torch.float64)
    observed = attacks.observe(record[None], run, torch.Generator(), offset=offset, input_scale=2.0)
    torch.testing.assert_close(attacks.known_scale(observed)[0], record)


def test_the_unclipped_release_is_what_ziller_et_al_reconstruct():
    record = _record(6)
    run = DPSGD(1e-100, max_grad_norm=100.0)
    observed = attacks.observe(record[None], run, torch.Generator())
    torch.testing.assert_close(attacks.unscaled(observed)[0], record)
    short = DPSGD(1e-100, max_grad_norm=0.5)
    clipped = attacks.unscaled(attacks.observe(record[None], short, torch.Generator()))[0]
    assert float(clipped.norm()) == pytest.approx(0.5)


@pytest.mark.parametrize(("clipping", "norm", "rows"), [(10, 1, 100), (5000, 224, 499), (1, 2, 1)])
def test_rows_for_least_noise_is_the_squared_ratio(clipping, norm, rows):
    assert attacks.rows_for_least_noise(clipping, norm) == rows


@pytest.mark.parametrize("sigma", [0.05, 0.5, 2.0])
def test_shrinking_has_its_exact_share_of_the_error_and_its_exact_tail(sigma):
    record = _record(16)
    norm = float(record.norm())
    rebuilt = _rebuild(record, sigma, 20_000)
    errors = metrics.mse(record.numpy(), attacks.shrink(torch.tensor(rebuilt), sigma).numpy())
    expected = (sigma * norm) ** 2 / (1 + 16 * sigma**2)
    assert errors.mean() == pytest.approx(expected, abs=5 * errors.std() / math.sqrt(20_000))
    threshold = float(np.median(errors))
    exact = float(bounds.mse_tail_shrunk(threshold, 16, sigma, norm))
    assert exact == pytest.approx(0.5, abs=5 * 0.5 / math.sqrt(20_000))


def test_james_stein_has_its_exact_expectation_before_the_positive_part():
    record, sigma = _record(10), 0.5
    norm = float(record.norm())
    rebuilt = torch.tensor(_rebuild(record, sigma, 50_000))
    plain = 1 - 8 * (sigma * norm) ** 2 / rebuilt.square().sum(dim=1)
    errors = metrics.mse(record.numpy(), (plain[:, None] * rebuilt).numpy())
    exact = float(bounds.expected_mse_james_stein(10, sigma, norm))
    assert errors.mean() == pytest.approx(exact, abs=5 * errors.std() / math.sqrt(50_000))
    positive = metrics.mse(record.numpy(), attacks.james_stein(rebuilt, sigma * norm).numpy())
    assert positive.mean() <= errors.mean()
    with pytest.raises(ValueError, match="at least 3"):
        attacks.james_stein(rebuilt[:, :2], 1.0)


def test_the_scaled_direction_attains_the_sphere_bound_and_nothing_tried_exceeds_it():
    record, sigma = _record(8), 0.6
    norm, count = float(record.norm()), 40_000
    rebuilt = torch.tensor(_rebuild(record, sigma, count))
    for share in (0.2, 0.5, 0.8):
        threshold = share * norm**2 / 8
        exact = float(bounds.mse_tail_sphere(threshold, 8, sigma, norm))
        error = 4 * math.sqrt(exact * (1 - exact) / count)
        best = attacks.scaled_direction(rebuilt, norm, threshold).numpy()
        hits = np.mean(metrics.mse(record.numpy(), best) <= threshold)
        assert hits == pytest.approx(exact, abs=error)
        for other in (rebuilt, attacks.shrink(rebuilt, sigma)):
            assert np.mean(metrics.mse(record.numpy(), other.numpy()) <= threshold) <= exact + error


def test_clipping_to_the_range_never_hurts_and_has_its_exact_expectation():
    record, sigma = _record(10), 0.3
    rebuilt = torch.tensor(_rebuild(record, sigma, 20_000))
    own = metrics.mse(record.numpy(), rebuilt.numpy())
    clipped = metrics.mse(record.numpy(), attacks.clip_to_range(rebuilt).numpy())
    assert bool((clipped <= own + 1e-15).all())
    exact = float(
        bounds.expected_mse_clipped_to_range(record.numpy(), sigma * float(record.norm()))
    )
    assert clipped.mean() == pytest.approx(exact, abs=5 * clipped.std() / math.sqrt(20_000))


def test_the_same_seed_gives_the_same_reconstruction():
    record = _record(5)
    assert np.array_equal(_rebuild(record, 0.1, 10), _rebuild(record, 0.1, 10))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: attacks.observe(torch.ones(3), DPSGD(1.0), torch.Generator()), r"\(examples, N\)"),
        (
            lambda: attacks.observe(torch.ones(1, 3), DPSGD(1.0), torch.Generator(), rows=0),
            "rows must be in",
        ),
        (lambda: attacks.rows_for_least_noise(0.0, 1.0), "max_grad_norm must be in"),
        (lambda: attacks.clip_to_range(torch.ones(2), 1.0, 0.0), "low must be below high"),
        (
            lambda: attacks.with_estimated_scale(
                attacks.observe(torch.ones(1, 3), DPSGD(1.0), torch.Generator())
            ),
            "bias=True",
        ),
        (
            lambda: attacks.ratio_by_row(
                attacks.observe(torch.ones(1, 3), DPSGD(1.0), torch.Generator(), bias=True)
            ),
            "keep_rows=True",
        ),
    ],
)
def test_bad_input_is_refused_by_name(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_every_declared_bound_exists():
    """The threat-model table names functions of the library; a renamed one must not linger."""
    import re

    names = {
        word
        for model in attacks.THREAT_MODELS
        for word in re.findall(r"[a-z]+(?:_[a-z]+)+", model.bound)
    }
    assert names and all(hasattr(bounds, name) for name in names)

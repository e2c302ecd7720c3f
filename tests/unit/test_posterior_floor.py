"""What a posterior leaves: lists against quadrature and simulation, runs against attacks."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import integrate, stats

from reconrisk import DPSGD, attacks, bounds
from reconrisk.models import Classifier
from reconrisk.training import record_trajectories


def releases(records: np.ndarray, noise: float, repeats: int) -> tuple[np.ndarray, np.ndarray]:
    """Noisy records, every one as often, and the list's log likelihoods."""
    draws = np.random.default_rng(5).standard_normal((repeats, *records.shape))
    seen = records + noise * draws  # the same draws at every noise
    distance = np.square(seen[:, :, None] - records).sum(axis=3)
    return seen, -distance / (2 * noise**2)


@pytest.mark.parametrize("gap", [0.3, 1.0, 4.0])
def test_two_records_leave_what_quadrature_finds(gap: float):
    # records 0 and gap in noise one: the posterior variance is gap^2 / (4 cosh^2) of half the score
    def density(r: float) -> float:
        p = 1 / (1 + np.exp(gap * (gap / 2 - r)))
        return gap**2 * p * (1 - p) * (stats.norm.pdf(r) + stats.norm.pdf(r - gap)) / 2

    expected, _ = integrate.quad(density, -12, 12 + gap)
    r = np.concatenate([stats.norm.ppf((np.arange(4000) + 0.5) / 4000) + m for m in (0.0, gap)])
    records = np.array([[0.0], [gap]])
    left = bounds.posterior_mse(-np.square(r[:, None] - records.T) / 2, records)
    assert left.mean() == pytest.approx(expected, rel=1e-3)


def test_the_posterior_mean_attains_it_and_nothing_errs_less():
    records = np.random.default_rng(0).uniform(size=(12, 6))
    floors = []
    for noise in (0.02, 0.1, 0.3, 1.0, 30.0):
        seen, logs = releases(records, noise, 800)
        left = bounds.posterior_mse(logs, records)
        floors.append(left.mean())
        weights = np.exp(logs - logs.max(axis=2, keepdims=True))
        mean = weights @ records / weights.sum(axis=2, keepdims=True)

        def excess(estimate: np.ndarray, left: np.ndarray = left) -> tuple[float, float]:
            """Mean error above the floor, and four standard errors."""
            gap = np.square(estimate - records).mean(axis=2) - left
            return gap.mean(), 4 * gap.std() / np.sqrt(gap.size) + 1e-15

        attained, spread = excess(mean)
        assert abs(attained) < spread
        for other in (seen, seen.clip(0, 1), records[logs.argmax(axis=2)]):
            assert np.subtract(*excess(other)) > -2 * excess(other)[1]
    # more noise leaves more, nothing at first and the list's variance at last
    assert np.all(np.diff(floors) > 0)
    assert floors[0] < 1e-6
    assert floors[-1] == pytest.approx(records.var(axis=0).mean(), rel=1e-2)


def test_excluded_records_and_tiny_rests():
    records = np.array([[0.0, 0.0], [3.0, 4.0], [9.0, 9.0]])
    rest = bounds.posterior_mse([0.0, -600.0, -np.inf], records)
    assert rest == pytest.approx(25 / 2 * np.exp(-600.0), rel=1e-12)
    assert bounds.posterior_mse(np.zeros((4, 2, 1)), records[:1]).shape == (4, 2)


@pytest.mark.parametrize(
    ("logs", "records", "argument"),
    [
        ([0.0, 1.0], [[0.0]], "log_likelihood must have shape"),
        ([-np.inf], [[0.0]], "log_likelihood must be finite"),
        ([np.nan], [[0.0]], "log_likelihood"),
        ([0.0], [[np.inf]], "records"),
    ],
)
def test_bad_input_names_the_argument(logs, records, argument):
    with pytest.raises(ValueError, match=argument):
        bounds.posterior_mse(logs, records)


def trained(records: torch.Tensor, labels: torch.Tensor, run: DPSGD):
    """Runs of a linear classifier with one of the records each."""
    draws = torch.Generator().manual_seed(3)
    known = torch.rand(20, records.shape[1], generator=draws, dtype=records.dtype)
    return record_trajectories(
        Classifier(records.shape[1], None, 3),
        run,
        *(known, torch.arange(20) % 3, records, labels),
        learning_rate=1.0,
        generator=draws,
    )


@pytest.mark.parametrize("noise", [1.0, 4.0])
def test_no_biased_attack_on_a_run_errs_less_than_van_trees(noise: float):
    # records of a normal prior, which the attack knows and shrinks to
    draws, count, d = torch.Generator().manual_seed(0), 2000, 4
    root = torch.randn(d, d, generator=draws, dtype=torch.float64) / 3
    records = torch.randn(count, d, generator=draws, dtype=torch.float64) @ root.T + 1
    run, labels = DPSGD(noise, steps=8, max_grad_norm=0.1), torch.arange(count) % 3
    seen = trained(records, labels, run)
    per_record = torch.stack(
        [
            attacks.linearised_information(
                {name: w[:, k] for name, w in seen.weights.items()}, records[k], labels[k], 0.1
            )
            for k in range(100)
        ]
    )
    floor = bounds.van_trees_error(per_record.mean(dim=0), 0.1 * noise, root @ root.T) ** 2 / d
    estimate = torch.ones(count, d, dtype=torch.float64)
    prior = torch.linalg.inv(root @ root.T)
    for _ in range(4):
        x_hat, std = attacks.first_layer_release(
            seen.weights, seen.residuals, run, estimate, labels
        )
        precision = std.double()[:, None, None] ** -2 * torch.eye(d)
        gain = torch.linalg.inv(precision + prior) @ precision
        estimate = 1 + (gain @ (x_hat.double() - 1)[:, :, None])[:, :, 0]
    errors = (estimate - records).square().mean(dim=1)
    assert float(errors.mean()) > floor - 4 * float(errors.std()) / count**0.5
    # where the prior counts it is close to what the attack leaves
    assert float(errors.mean()) < 1.3 * floor


def test_information_has_a_derivative_where_the_weights_want_one():
    # at weights of a module, say; without one NumPy makes the products
    records, labels = torch.rand(2, 4, generator=torch.Generator().manual_seed(5)), torch.arange(2)
    weights = trained(records.double(), labels, DPSGD(1.0, steps=3, max_grad_norm=0.1)).weights
    own = {name: w[:, 0] for name, w in weights.items()}
    given = records[0].double(), labels[0], 0.1
    plain = attacks.linearised_information(own, *given)
    wanted = {name: w.clone().requires_grad_() for name, w in own.items()}
    found = attacks.linearised_information(wanted, *given)
    torch.testing.assert_close(found.detach(), plain, rtol=1e-10, atol=1e-14)
    found.trace().backward()
    assert wanted["output.weight"].grad.abs().max() > 0

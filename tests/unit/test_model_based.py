"""The model-based attack: standardising, the network and the ridge regression."""

from __future__ import annotations

import pytest
import torch

from reconrisk import DPSGD
from reconrisk.attacks import model_based
from reconrisk.models import Classifier
from reconrisk.training import train_many


def _linear_world(count: int = 300) -> tuple[torch.Tensor, torch.Tensor]:
    """Vectors of which the records are a linear function, with one dead coordinate."""
    generator = torch.Generator().manual_seed(0)
    records = torch.rand(count, 5, generator=generator)
    mixing = torch.randn(5, 12, generator=generator)
    vectors = records @ mixing
    dead = 1e-9 * torch.randn(count, 1, generator=generator)
    return torch.cat([vectors, dead], dim=1), records


def test_dead_coordinates_are_not_blown_up():
    vectors, _ = _linear_world()
    standardised = model_based.Standardised.of(vectors)(vectors)
    spreads = standardised.std(dim=0)
    torch.testing.assert_close(spreads[:-1], torch.ones(12), atol=1e-4, rtol=0)
    assert spreads[-1] < 1e-5


def test_flatten_keeps_every_weight_in_the_order_of_names():
    weights = {"b": torch.ones(2, 3), "a": torch.zeros(2, 2, 2)}
    flat = model_based.flatten(weights)
    assert flat.shape == (2, 7)
    torch.testing.assert_close(flat[0], torch.tensor([0.0, 0, 0, 0, 1, 1, 1]))


def test_ridge_regression_finds_a_linear_map():
    vectors, records = _linear_world()
    found = model_based.train_linear_reconstructor(vectors[:200], records[:200], (1e-8, 1.0))
    assert found.penalty == 1e-8
    assert float((found(vectors[200:]) - records[200:]).square().mean()) < 1e-7


@pytest.mark.parametrize("count", [50, 9])  # more and fewer models than weights
def test_ridge_regression_is_the_solution_of_the_normal_equations(count: int):
    vectors, records = _linear_world(count)
    noisy = records + 0.1 * torch.randn(count, 5, generator=torch.Generator().manual_seed(1))
    found = model_based.train_linear_reconstructor(vectors, noisy, (0.3,))
    inputs = found.standardised(vectors).double()
    weight = 0.3 * float(inputs.square().sum(dim=1).mean())
    target = (noisy - noisy.mean(dim=0)).double()
    expected = torch.linalg.solve(
        inputs.T @ inputs + weight * torch.eye(13, dtype=torch.float64), inputs.T @ target
    )
    torch.testing.assert_close(found.coefficients.double(), expected, atol=1e-5, rtol=0)


@pytest.mark.parametrize("count", [40, 9])
def test_the_penalty_is_chosen_by_generalised_cross_validation(count: int):
    vectors, records = _linear_world(count)
    noisy = vectors + 2 * torch.randn(vectors.shape, generator=torch.Generator().manual_seed(6))
    penalties = (1e-3, 1e-2, 1e-1, 1.0, 10.0)
    found = model_based.train_linear_reconstructor(noisy, records, penalties)
    inputs = found.standardised(noisy).double()
    target = (records - records.mean(dim=0)).double()
    scores = []
    for penalty in penalties:
        weight = penalty * float(inputs.square().sum(dim=1).mean())
        gram = inputs.T @ inputs + weight * torch.eye(13, dtype=torch.float64)
        hat = inputs @ torch.linalg.solve(gram, inputs.T)
        left = torch.eye(count, dtype=torch.float64) - hat
        scores.append(float((left @ target).square().sum() / left.trace().square()))
    assert found.penalty == penalties[scores.index(min(scores))]


def test_the_penalty_chosen_grows_with_the_noise():
    vectors, records = _linear_world(60)
    generator = torch.Generator().manual_seed(4)
    noisy = vectors + 5 * torch.randn(vectors.shape, generator=generator)
    quiet, loud = (model_based.train_linear_reconstructor(v, records) for v in (vectors, noisy))
    assert quiet.penalty < loud.penalty


def test_the_network_learns_and_is_reproducible():
    vectors, records = _linear_world()
    first, second = (
        model_based.train_reconstructor(
            vectors[:250],
            records[:250],
            generator=torch.Generator().manual_seed(3),
            hidden=(64,),
            epochs=60,
            learning_rate=5e-3,
        )
        for _ in range(2)
    )
    rebuilt = first(vectors[250:])
    torch.testing.assert_close(rebuilt, second(vectors[250:]), atol=0, rtol=0)
    assert float((rebuilt - records[250:]).square().mean()) < 0.2 * float(records.var())
    assert len(first.held_out) == 61 and min(first.held_out) < 0.2 * first.held_out[0]
    assert rebuilt.min() >= 0 and rebuilt.max() <= 1


def test_shadow_models_without_noise_reveal_their_record():
    """End to end: models that differ in one record, and the reconstructor beats the mean."""
    generator = torch.Generator().manual_seed(7)
    classifier = Classifier(8, 4, 3)
    run = DPSGD(1e-6, steps=20, max_grad_norm=1.0)
    known = torch.rand(20, 8, generator=generator)
    known_labels = torch.randint(3, (20,), generator=generator)
    records = torch.rand(400, 8, generator=generator)
    labels = torch.randint(3, (400,), generator=generator)
    models = train_many(
        classifier, run, known, known_labels, records, labels,
        learning_rate=2.0, generator=generator,
    )  # fmt: skip
    vectors = model_based.flatten(models)
    ridge = model_based.train_linear_reconstructor(vectors[:300], records[:300])
    error = float((ridge(vectors[300:]) - records[300:]).square().mean())
    assert error < 0.7 * float(records.var())


def test_what_cannot_be_learned_is_answered_by_the_mean():
    """Vectors that say nothing: the epoch kept is one of the first, near the mean record."""
    generator = torch.Generator().manual_seed(8)
    records, vectors = (
        torch.rand(200, 5, generator=generator),
        torch.randn(200, 9, generator=generator),
    )
    found = model_based.train_reconstructor(vectors, records, generator=generator, hidden=(64,))
    fresh = torch.rand(300, 5, generator=generator)
    error = float((found(torch.randn(300, 9, generator=generator)) - fresh).square().mean())
    assert error < 1.1 * float(records.var(dim=0).mean())


def test_arguments_are_checked():
    with pytest.raises(ValueError, match="as many rows"):
        model_based.train_linear_reconstructor(torch.zeros(3, 2), torch.zeros(4, 2))
    with pytest.raises(ValueError, match="at least two models"):
        model_based.train_linear_reconstructor(torch.zeros(1, 2), torch.zeros(1, 2))

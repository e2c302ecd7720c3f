"""The gradient-based attack: losses against plain gradients, exactness without noise, the bound."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from companion.papers.hayes2023 import alg_gradient_based as exhibit
from reconrisk import DPSGD, feature_maps
from reconrisk.attacks import gradient_matching as matching
from reconrisk.models import Classifier
from reconrisk.training import Trajectories, record_trajectories

CLIP = 0.1


def _trajectories(
    hidden: int | None = 6, noise: float = 0.05, targets: int = 4, steps: int = 12, d: int = 10
) -> tuple[Trajectories, torch.Tensor, torch.Tensor, DPSGD, Classifier]:
    generator = torch.Generator().manual_seed(3)
    classifier = Classifier(d, hidden, 5)
    run = DPSGD(noise, steps=steps, max_grad_norm=CLIP)
    inputs = torch.rand(40 + targets, d, generator=generator, dtype=torch.float64)
    labels = torch.randint(5, (40 + targets,), generator=generator)
    stored = record_trajectories(
        classifier,
        run,
        inputs[targets:],
        labels[targets:],
        inputs[:targets],
        labels[:targets],
        learning_rate=5.0,
        generator=generator,
    )
    return stored, inputs[:targets], labels[:targets], run, classifier


def _plain(
    classifier: Classifier, stored: Trajectories, k: int, candidate: torch.Tensor, label: int
) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Clipped gradient and residual of one target at every step, through autograd, over C."""
    pairs = []
    for step in range(len(stored.takes_part)):
        network = classifier.module({n: w[step, k] for n, w in stored.weights.items()}).double()
        loss = torch.nn.functional.cross_entropy(network(candidate[None]), torch.tensor([label]))
        names = [n for n, _ in network.named_parameters()]
        gradient = torch.autograd.grad(loss, list(network.parameters()))
        flat = torch.cat([g.flatten() for g in gradient])
        clipped = flat / max(1.0, float(flat.norm()) / CLIP)
        residual = torch.cat([stored.residuals[n][step, k].flatten() for n in names])
        pairs.append((clipped / CLIP, residual / CLIP))
    return pairs


@pytest.mark.parametrize("hidden", [6, None])
def test_losses_equal_those_of_plain_gradients(hidden: int | None):
    stored, _, _, _, classifier = _trajectories(hidden)
    generator = torch.Generator().manual_seed(1)
    candidates = torch.rand(4, 3, 10, generator=generator, dtype=torch.float64)
    labels = torch.randint(5, (4, 3), generator=generator)
    one_hot = torch.nn.functional.one_hot(labels, 5).double().mT[:, None]
    evidence = matching._Evidence(stored.weights, stored.residuals, CLIP)
    losses = exhibit.readings(stored.residuals, CLIP) | matching.LOSSES
    values = {n: loss(evidence.fit(candidates, one_hot)) for n, loss in losses.items()}
    for k, r in ((0, 0), (2, 1), (3, 2)):
        pairs = _plain(classifier, stored, k, candidates[k, r], int(labels[k, r]))
        inner = sum(float(g @ s) for g, s in pairs)
        absolute = sum(float((g - s).abs().sum()) for g, s in pairs)
        squared = sum(float((g - s).square().sum() - s.square().sum()) for g, s in pairs)
        cosine = np.mean([1 - float(g @ s / (g.norm() * s.norm())) for g, s in pairs])
        expected = {
            "eq. (1)": absolute / CLIP - inner,
            exhibit.OVER_C: absolute - inner,
            exhibit.AVERAGED: absolute / CLIP / len(pairs[0][0]) - inner,
            "squared distance": squared,
            "cosine": cosine,
            "L1 distance": absolute,
            "inner product": -inner,
        }
        assert expected.keys() == values.keys() == exhibit.LOOKS.keys()
        for name, value in expected.items():
            assert float(values[name][k, r]) == pytest.approx(value, rel=1e-9), name


@pytest.mark.parametrize("hidden", [6, None])
@pytest.mark.parametrize("name", ["eq. (1)", "squared distance"])
def test_descent_directions_equal_finite_differences(hidden: int | None, name: str):
    stored, _, labels, _, _ = _trajectories(hidden)
    generator = torch.Generator().manual_seed(2)
    candidates = torch.rand(4, 1, 10, dtype=torch.float64, generator=generator)
    one_hot = torch.nn.functional.one_hot(labels[:, None], 5).double().mT[:, None]
    evidence = matching._Evidence(stored.weights, stored.residuals, CLIP)

    def loss(x: torch.Tensor) -> torch.Tensor:
        return matching.LOSSES[name](evidence.fit(x, one_hot)).sum()

    assert torch.autograd.gradcheck(loss, candidates.requires_grad_(), eps=1e-7, atol=1e-3)


def test_without_noise_the_record_is_found_exactly():
    stored, inputs, labels, run, _ = _trajectories(noise=1e-9)
    start = matching.rank_one_start(stored.residuals)
    torch.testing.assert_close(start, inputs, atol=1e-6, rtol=0)
    found = matching.match_gradients(
        stored.weights,
        stored.residuals,
        run,
        labels,
        generator=torch.Generator().manual_seed(1),
        loss=matching.squared_distance,
        iterations=300,
        restarts=2,
    )
    assert float((found.inputs - inputs).square().mean()) < 1e-3
    # from the rank-one start it can only stay or improve
    better = matching.match_gradients(
        stored.weights,
        stored.residuals,
        run,
        labels,
        generator=torch.Generator().manual_seed(1),
        loss=matching.squared_distance,
        iterations=20,
        start=start,
    )
    assert float((better.inputs - inputs).square().mean()) < 1e-9


def test_labels_are_searched_or_read_off():
    stored, inputs, labels, run, _ = _trajectories(noise=0.01)
    torch.testing.assert_close(matching.infer_labels(stored.residuals), labels)
    found = matching.match_gradients(
        stored.weights,
        stored.residuals,
        run,
        None,
        generator=torch.Generator().manual_seed(1),
        loss=matching.squared_distance,
        iterations=150,
    )
    torch.testing.assert_close(found.labels, labels)
    assert float((found.inputs - inputs).square().mean()) < 0.02


def test_results_do_not_depend_on_the_block_and_the_best_candidate_is_kept():
    stored, _, labels, run, _ = _trajectories()
    seen: list[float] = []

    def watch(iteration: int, best: matching.Reconstruction, targets: slice) -> None:
        if targets.start == 0:
            seen.append(float(best.loss[0]))

    whole, split = (
        matching.match_gradients(
            stored.weights,
            stored.residuals,
            run,
            labels,
            generator=torch.Generator().manual_seed(1),
            iterations=40,
            block=block,
            watch=watch if block == 4 else None,
        )
        for block in (4, 1)
    )
    torch.testing.assert_close(whole.inputs, split.inputs, atol=1e-8, rtol=0)
    assert len(seen) == 40 and all(np.diff(seen) <= 0)
    assert whole.inputs.min() >= 0 and whole.inputs.max() <= 1


def test_a_feature_map_is_looked_through():
    network = feature_maps.random_features((4, 4), 32)
    classifier = Classifier(32, None, 3)
    generator = torch.Generator().manual_seed(5)
    images = torch.rand(24, 16, generator=generator)
    labels = torch.randint(3, (24,), generator=generator)
    run = DPSGD(0.02, steps=20)
    fed = network(images)
    stored = record_trajectories(
        classifier, run, fed[4:], labels[4:], fed[:4], labels[:4],
        learning_rate=1.0, generator=generator,
    )  # fmt: skip
    found = matching.match_gradients(
        stored.weights,
        stored.residuals,
        run,
        labels[:4],
        generator=generator,
        iterations=300,
        feature_map=network,
        dimension=16,
    )
    assert float((found.inputs - images[:4]).square().mean()) < 0.01
    with pytest.raises(ValueError, match="dimension must be given"):
        matching.match_gradients(
            stored.weights, stored.residuals, run, None, generator=generator, feature_map=network
        )


@pytest.mark.parametrize("hidden", [6, None])
def test_linearised_variance_equals_that_of_the_full_jacobian(hidden: int | None):
    stored, inputs, labels, run, classifier = _trajectories(hidden)
    found = matching.linearised_variance(stored.weights, inputs, labels, run)
    for k in (0, 3):

        def gradients(x: torch.Tensor, k: int = k) -> torch.Tensor:
            parts = _plain(classifier, stored, k, x, int(labels[k]))
            return torch.cat([g for g, _ in parts])

        # central differences: an independent route
        rows = []
        for j in range(10):
            step = torch.zeros(10, dtype=torch.float64)
            step[j] = 1e-6
            change = gradients(inputs[k] + step) - gradients(inputs[k] - step)
            rows.append(change.detach() / 2e-6)
        jacobian = torch.stack(rows, dim=1)
        expected = run.noise_multiplier**2 * torch.linalg.inv(jacobian.T @ jacobian).diagonal()
        np.testing.assert_allclose(found[k], expected, rtol=1e-5)


def test_least_squares_attains_the_linearised_variance_for_small_noise():
    """Over repeated noise the squared distance's error is what the bound says."""
    stored, inputs, labels, run, _ = _trajectories(noise=1e-3, targets=1)
    repeats = 60
    generator = torch.Generator().manual_seed(9)
    inner = inputs.clamp(0.2, 0.8)  # away from the range's ends, where clipping helps
    evidence = {n: w.expand(-1, repeats, *w.shape[2:]) for n, w in stored.weights.items()}
    from reconrisk.training import gradient_factors

    factors = gradient_factors(
        {n: w[:, 0] for n, w in stored.weights.items()}, inner[None].expand(12, 1, 10),
        labels[None].expand(12, 1),
    )  # fmt: skip
    clean = factors.weighted_sum(factors.clip_factors(CLIP))
    noisy = {
        n: g[:, None]
        + CLIP
        * run.noise_multiplier
        * torch.randn(12, repeats, *g.shape[1:], generator=generator, dtype=torch.float64)
        for n, g in clean.items()
    }
    found = matching.match_gradients(
        evidence,
        noisy,
        run,
        labels.expand(repeats),
        generator=generator,
        loss=matching.squared_distance,
        iterations=400,
        learning_rate=0.01,
        start=inner.expand(repeats, 10),
    )
    measured = (found.inputs - inner).square().mean(dim=0)
    bound = matching.linearised_variance(stored.weights, inner, labels, run)[0]
    assert float(measured.mean() / bound.mean()) == pytest.approx(1.0, abs=0.35)


def test_arguments_are_checked():
    stored, _, labels, run, _ = _trajectories()
    generator = torch.Generator()
    given = (stored.weights, stored.residuals)
    with pytest.raises(ValueError, match="sampling_rate 1"):
        matching.match_gradients(*given, DPSGD(1.0, 0.5, 12), labels, generator=generator)
    with pytest.raises(ValueError, match="labels must have shape"):
        matching.match_gradients(*given, run, labels[:2], generator=generator)
    with pytest.raises(ValueError, match="start must have shape"):
        matching.match_gradients(*given, run, labels, generator=generator, start=torch.zeros(4, 3))


@pytest.mark.parametrize("ratio", [0.0, -0.3, 2.0])
def test_blocks_and_all_at_once_give_value_and_slopes(
    monkeypatch: pytest.MonkeyPatch, ratio: float
):
    generator = torch.Generator().manual_seed(0)
    u, x, g = (
        torch.randn(*shape, generator=generator, dtype=torch.float64)
        for shape in ((3, 7, 2), (3, 2, 5), (3, 14, 5))
    )
    given = u.requires_grad_(), x.requires_grad_(), g[:, 7:]  # a part of a larger tensor
    outer = u.mT[..., None] * x[:, :, None]  # (3, 2, 7, 5)
    residual = given[2][:, None]
    expected = ((outer - residual).abs() + ratio * outer * residual).sum(dim=(2, 3))
    slopes = torch.autograd.grad(expected.sum(), given[:2])
    with torch.no_grad():
        results = [matching._all_at_once(*given, ratio)]
        for block in (1, 15, 2**17):
            monkeypatch.setattr(matching, "_BLOCK", block)
            results.append(matching._in_blocks(*given, ratio))
    for found in results:
        for one, other in zip(found, (expected, *slopes), strict=True):
            torch.testing.assert_close(one, other.detach())

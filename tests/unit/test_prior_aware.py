"""The prior-aware attack: its scores by definition, its success where it is known exactly."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch
from scipy import integrate, stats
from torch.nn.functional import cross_entropy

from reconrisk import DPSGD
from reconrisk.attacks import (
    SCORES,
    Guesses,
    StepScores,
    StepScoresObserver,
    draw_priors,
    likelihood_score,
    printed_likelihood_score,
    prior_aware,
    prior_aware_attack,
    shared_trajectory_attack,
    success_by_prior_size,
    success_interval,
    sum_score,
    top_score,
)
from reconrisk.mechanisms import clip
from reconrisk.models import Classifier
from reconrisk.training import per_example_gradients, record_trajectories, train_many

CLASSIFIER = Classifier(8, 4, 3)


def _generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def _records(count, seed=0, dtype=torch.float64):
    generator = _generator(seed)
    inputs = torch.rand(count, 8, dtype=dtype, generator=generator)
    return inputs, torch.randint(3, (count,), generator=generator)


def _orthogonal(run: DPSGD, size: int, trials: int, seed: int = 0) -> tuple[StepScores, int]:
    """Scores of orthogonal candidates of norm C, the first of which is the target."""
    generator = _generator(seed)
    shape = (run.steps, trials, size)
    inner = run.noise_multiplier * torch.randn(shape, dtype=torch.float64, generator=generator)
    rolled = torch.rand(shape[:2], dtype=torch.float64, generator=generator)
    inner[:, :, 0] += (rolled < run.sampling_rate).double()
    squares = torch.ones_like(inner)
    return StepScores(inner, squares, (inner**2).sum(dim=2)), 0


def _orthogonal_success(signal: float, size: int) -> float:
    """E Phi(z + m)^(n - 1): the largest of n normal scores is the one with mean m."""
    return integrate.quad(
        lambda z: stats.norm.pdf(z) * stats.norm.cdf(z + signal) ** (size - 1), -9, 9
    )[0]


# Scores ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rate", [1.0, 0.4])
def test_the_observer_collects_inner_products_of_clipped_gradients(rate):
    run = DPSGD(0.6, rate, steps=3, max_grad_norm=0.3)
    inputs, labels = _records(30)
    own, own_labels = inputs[10:22].reshape(3, 4, 8), labels[10:22].reshape(3, 4)
    arguments = (CLASSIFIER, run, inputs[:10], labels[:10], own[:, 0], own_labels[:, 0])
    observer = StepScoresObserver(own, own_labels, run, 3)
    train_many(*arguments, learning_rate=1.0, generator=_generator(1), observe=observer)
    kept = record_trajectories(*arguments, learning_rate=1.0, generator=_generator(1))
    steps = observer.steps()
    names = list(kept.final)
    for t, k, i in itertools.product(range(3), range(3), range(4)):
        network = CLASSIFIER.module({n: kept.weights[n][t, k] for n in names})
        label = own_labels[k, i : i + 1]
        gradient = per_example_gradients(
            network, lambda out, y=label: cross_entropy(out[None], y), own[k, i : i + 1]
        )
        clipped, _ = clip(gradient, run.max_grad_norm)
        candidate = torch.cat([clipped[n].flatten() for n in names]) / 0.3
        residual = torch.cat([kept.residuals[n][t, k].flatten() for n in names]) / 0.3
        assert float(steps.inner[t, k, i]) == pytest.approx(float(candidate @ residual))
        assert float(steps.squared_norms[t, k, i]) == pytest.approx(float(candidate @ candidate))
        assert float(steps.residual_squared_norms[t, k]) == pytest.approx(
            float(residual @ residual)
        )


def test_candidates_may_be_shared_by_all_attacks():
    run = DPSGD(0.6, steps=2, max_grad_norm=0.3)
    inputs, labels = _records(30)
    shared = StepScoresObserver(inputs[10:14], labels[10:14], run, 3)
    own = StepScoresObserver(inputs[10:14].repeat(5, 1, 1), labels[10:14].repeat(5, 1), run, 3)
    for observer in (shared, own):
        train_many(
            CLASSIFIER,
            run,
            inputs[:10],
            labels[:10],
            inputs[10:15],
            labels[10:15],
            learning_rate=1.0,
            generator=_generator(1),
            observe=observer,
        )
    torch.testing.assert_close(shared.steps().inner, own.steps().inner)
    torch.testing.assert_close(shared.steps().squared_norms, own.steps().squared_norms)


def test_the_three_scores_by_hand():
    inner = torch.tensor([[[1.0, 0.0]], [[0.5, 2.0]], [[-1.0, 1.5]]], dtype=torch.float64)
    squares = torch.tensor([[[1.0, 0.5]], [[1.0, 1.0]], [[0.25, 1.0]]], dtype=torch.float64)
    steps = StepScores(inner, squares, torch.full((3, 1), 9.0, dtype=torch.float64))
    run = DPSGD(2.0, 0.5, steps=3)
    assert sum_score(steps, run).tolist() == [[0.5, 3.5]]
    assert top_score(steps, run).tolist() == [[1.5, 3.5]]  # qT = 1.5 is rounded to two
    assert top_score(steps, DPSGD(2.0, 0.1, steps=3)).tolist() == [[1.0, 2.0]]  # at least one
    assert top_score(steps, DPSGD(2.0, 1.0, steps=3)).tolist() == [[0.5, 3.5]]
    expected = sum(
        math.log(0.5 + 0.5 * math.exp((2 * a - s) / 8)) for a, s in ((1, 1), (0.5, 1), (-1, 0.25))
    )
    assert float(likelihood_score(steps, run)[0, 0]) == pytest.approx(expected, rel=1e-14)
    full = likelihood_score(steps, DPSGD(2.0, steps=3))
    assert float(full[0, 0]) == pytest.approx((2 * 0.5 - 2.25) / 8, rel=1e-14)
    prior = torch.tensor([0.3, 0.7], dtype=torch.float64)
    shifted = likelihood_score(steps, run, prior.log())
    torch.testing.assert_close(shifted, likelihood_score(steps, run) + prior.log())


@pytest.mark.parametrize("rate", [1.0, 0.3])
def test_the_likelihood_score_is_the_log_ratio_of_densities(rate):
    """In three dimensions the densities are there to be evaluated."""
    rng = np.random.default_rng(0)
    run = DPSGD(0.7, rate, steps=4)
    candidates, residuals = rng.normal(size=(4, 5, 3)) / 3, rng.normal(size=(4, 3))
    inner = np.einsum("tnp,tp->tn", candidates, residuals)[:, None]
    steps = StepScores(
        torch.tensor(inner),
        torch.tensor(np.square(candidates).sum(axis=2)[:, None]),
        torch.tensor(np.square(residuals).sum(axis=1)[:, None]),
    )
    law = stats.multivariate_normal(cov=run.noise_multiplier**2 * np.eye(3))
    with_target = np.stack([law.pdf(residuals - candidates[:, i]) for i in range(5)], axis=1)
    without = law.pdf(residuals)[:, None]
    expected = np.log((1 - rate) + rate * with_target / without).sum(axis=0)
    np.testing.assert_allclose(likelihood_score(steps, run)[0].numpy(), expected, rtol=1e-10)
    # the printed exponent has the wrong sign before the residual's norm
    distance = np.square(residuals[:, None] - candidates).sum(axis=2)
    exponent = -(distance + np.square(residuals).sum(axis=1)[:, None]) / (2 * 0.7**2)
    printed = np.log(1 - rate + rate * np.exp(exponent)).sum(axis=0)
    np.testing.assert_allclose(printed_likelihood_score(steps, run)[0].numpy(), printed, rtol=1e-10)


def test_the_likelihood_score_neither_overflows_nor_underflows():
    inner = torch.tensor([[[1e5, -1e5, 0.0]]], dtype=torch.float64)
    steps = StepScores(inner, torch.ones_like(inner), torch.ones(1, 1, dtype=torch.float64))
    score = likelihood_score(steps, DPSGD(0.01, 0.1))
    expected = [math.log(0.1) + (2e5 - 1) / 2e-4, math.log(0.9), math.log(0.9)]
    np.testing.assert_allclose(score[0].numpy(), expected, rtol=1e-12)


def test_the_printed_likelihood_ties_in_as_many_coordinates_as_a_network_has():
    run = DPSGD(1.0, 0.1, steps=5)
    steps, _ = _orthogonal(run, 4, 3)
    steps = StepScores(steps.inner, steps.squared_norms, steps.residual_squared_norms + 7960)
    score = printed_likelihood_score(steps, run)
    assert bool((score == score[0, 0]).all())
    assert float(score[0, 0]) == pytest.approx(5 * math.log(0.9))


# Success where it is known exactly ---------------------------------------------------------------


@pytest.mark.parametrize(("signal", "size"), [(0.5, 2), (2.0, 10), (1.0, 50)])
def test_all_scores_reach_the_exact_success_on_orthogonal_candidates(signal, size):
    run = DPSGD(math.sqrt(5) / signal, steps=5)
    trials = 20000 if size < 20 else 4000
    steps, target = _orthogonal(run, size, trials)
    expected = _orthogonal_success(signal, size)
    for name, score in SCORES.items():
        hits = int((score(steps, run).argmax(dim=1) == target).sum())
        assert stats.binomtest(hits, trials, expected).pvalue > 1e-4, name


def test_under_sub_sampling_the_likelihood_beats_both_other_scores():
    run = DPSGD(0.7, 0.05, steps=200)
    steps, target = _orthogonal(run, 10, 4000)
    right = {name: score(steps, run).argmax(dim=1) == target for name, score in SCORES.items()}
    for other in ("sum", "top"):
        gained = int((right["likelihood"] & ~right[other]).sum())
        lost = int((~right["likelihood"] & right[other]).sum())
        assert stats.binomtest(gained, gained + lost, 0.5, alternative="greater").pvalue < 1e-6


def test_unclipped_candidates_need_their_norms_subtracted():
    """A short target among long candidates: the sum is biased, the likelihood is not."""
    run = DPSGD(3.0, steps=16)
    generator = _generator(1)
    norms = torch.tensor([0.3, 1.0, 1.0, 1.0], dtype=torch.float64)
    shape = (16, 4000, 4)
    inner = 3.0 * norms * torch.randn(shape, dtype=torch.float64, generator=generator)
    inner[:, :, 0] += 0.09
    steps = StepScores(inner, (norms**2).expand(shape), torch.zeros(16, 4000))
    success = {n: float((s(steps, run).argmax(1) == 0).double().mean()) for n, s in SCORES.items()}
    assert success["likelihood"] > success["sum"] + 0.05


def test_a_prior_is_added_as_its_logarithm():
    """Two candidates, prior p: exact success p Phi(m/2 + l/m) + (1 - p) Phi(m/2 - l/m)."""
    prior, distance = 0.8, 1.2
    run = DPSGD(math.sqrt(2) / distance, steps=1)  # orthogonal candidates are sqrt(2) C apart
    generator = _generator(2)
    trials = 40000
    target = (torch.rand(trials, generator=generator) > prior).long()
    inner = run.noise_multiplier * torch.randn(
        1, trials, 2, dtype=torch.float64, generator=generator
    )
    inner[0, torch.arange(trials), target] += 1
    steps = StepScores(inner, torch.ones_like(inner), torch.zeros(1, trials))
    log_prior = torch.tensor([prior, 1 - prior], dtype=torch.float64).log()
    odds = math.log(prior / (1 - prior)) / distance
    phi = stats.norm.cdf
    expected = prior * phi(distance / 2 + odds) + (1 - prior) * phi(distance / 2 - odds)
    hits = int((likelihood_score(steps, run, log_prior).argmax(dim=1) == target).sum())
    assert stats.binomtest(hits, trials, expected).pvalue > 1e-4
    plain = int((likelihood_score(steps, run).argmax(dim=1) == target).sum())
    assert plain < hits


# Attacks on trained models -----------------------------------------------------------------------


def _attack(attack=prior_aware_attack, noise=2.0, seed=3, **options):
    inputs, labels = _records(120, dtype=torch.float32)
    return attack(
        CLASSIFIER,
        DPSGD(noise, options.pop("rate", 1.0), steps=options.pop("steps", 12), max_grad_norm=0.1),
        inputs[:40],
        labels[:40],
        inputs[40:],
        labels[40:],
        **{
            "prior_size": 5,
            "trials": 600,
            "learning_rate": 1.0,
            "generator": _generator(seed),
            **options,
        },
    )


def test_the_attack_finds_the_target_without_noise_and_guesses_with_much():
    sure = _attack(noise=1e-3, trials=50)
    for name in SCORES:
        assert sure.success(name) == 1.0
    lost = _attack(noise=1e4)
    for name in SCORES:
        hits = int(lost.correct(name).sum())
        assert stats.binomtest(hits, 600, 0.2).pvalue > 1e-4
    assert stats.chisquare(torch.bincount(lost.target, minlength=5).numpy()).pvalue > 1e-4


def test_a_seed_gives_one_outcome_and_progress_is_told():
    told: list[int] = []
    first = _attack(trials=50, chunk=20, progress=told.append)
    again = _attack(trials=50, chunk=20)
    assert told == [20, 40, 50]
    for name in SCORES:
        assert torch.equal(first.scores[name], again.scores[name])
    assert not torch.equal(first.target, _attack(trials=50, seed=4).target)


def test_the_shortcut_agrees_with_trained_trials():
    exact, short = _attack(trials=3000), _attack(shared_trajectory_attack, trials=20000)
    for name in ("sum", "likelihood"):
        p, r = exact.success(name), short.success(name)
        assert abs(p - r) < 4 * math.sqrt(p * (1 - p) / 3000) + 0.01, (name, p, r)
    assert 0.3 < exact.success("sum") < 0.9


def test_the_shortcut_has_the_success_of_orthogonal_candidates(monkeypatch):
    # gradients that are orthogonal in every step sum to an orthogonal Gram matrix
    steps, size, trials = 25, 5, 200_000
    monkeypatch.setattr(prior_aware, "_summed_gram", lambda *_: steps * torch.eye(80).double())
    outcome = _attack(shared_trajectory_attack, trials=trials, noise=4.0, steps=steps)
    expected = _orthogonal_success(math.sqrt(steps) / 4.0, size)
    for name in ("sum", "likelihood"):
        # noise 5% smaller gains 0.02
        assert abs(outcome.success(name) - expected) < 4 * math.sqrt(0.25 / trials), name


def test_the_shortcut_refuses_sub_sampling():
    with pytest.raises(ValueError, match="must have sampling_rate 1"):
        _attack(shared_trajectory_attack, rate=0.5)


def test_without_subtraction_the_attack_is_worse():
    assert _attack(noise=0.5).success("sum") > _attack(noise=0.5, subtract_known=False).success(
        "sum"
    )


def test_a_sharp_prior_helps_the_likelihood_only():
    prior = [0.8, 0.05, 0.05, 0.05, 0.05]
    outcome = _attack(noise=20.0, prior=prior)
    assert outcome.success("likelihood") > 0.75
    assert outcome.success("sum") < 0.4
    share = torch.bincount(outcome.target, minlength=5).numpy()
    assert stats.chisquare(share, 600 * np.array(prior)).pvalue > 1e-4
    short = _attack(shared_trajectory_attack, noise=20.0, prior=prior)
    assert short.success("likelihood") > 0.75


def test_smaller_priors_are_read_off_one_attack():
    outcome = _attack(noise=4.0)
    right = success_by_prior_size(outcome, "sum", [2, 3, 5])
    assert torch.equal(right[:, 2], outcome.correct("sum"))
    assert bool((right[:, :-1] >= right[:, 1:]).all())
    score = outcome.scores["sum"]
    for trial in range(20):
        own = int(outcome.target[trial])
        others = [i for i in range(5) if i != own][:2]
        expected = all(score[trial, own] > score[trial, i] for i in others)
        assert bool(right[trial, 1]) is expected
    with pytest.raises(ValueError, match="prior_sizes must be in"):
        success_by_prior_size(outcome, "sum", [6])


# Priors and intervals ----------------------------------------------------------------------------


def test_priors_are_uniform_draws_without_replacement():
    drawn = draw_priors(12, 4, 3000, _generator())
    assert all(len(set(row)) == 4 for row in drawn.tolist())
    for column in drawn.T:
        assert stats.chisquare(torch.bincount(column, minlength=12).numpy()).pvalue > 1e-4


def test_priors_can_share_the_targets_label():
    labels = torch.tensor([0] * 30 + [1] * 10)
    drawn = draw_priors(40, 5, 2000, _generator(), labels=labels)
    assert bool((labels[drawn] == labels[drawn][:, :1]).all())
    assert all(len(set(row)) == 5 for row in drawn.tolist())
    ones = int(labels[drawn][:, 0].sum())  # a class is drawn as often as its records are
    assert stats.binomtest(ones, 2000, 0.25).pvalue > 1e-4
    with pytest.raises(ValueError, match="prior_size must be at most 10"):
        draw_priors(40, 11, 1, _generator(), labels=labels)


@pytest.mark.parametrize("truth", [0.003, 0.1, 0.97])
def test_intervals_cover(truth):
    hits = np.random.default_rng(0).binomial(200, truth, size=2000)
    inside = [low <= truth <= high for low, high in (success_interval(int(h), 200) for h in hits)]
    assert np.mean(inside) > 0.94
    low, high = success_interval(20, 200)
    assert stats.binom.sf(19, 200, low) == pytest.approx(0.025)
    assert stats.binom.cdf(20, 200, high) == pytest.approx(0.025)
    assert success_interval(0, 10)[0] == 0.0 and success_interval(10, 10)[1] == 1.0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"prior_size": 81}, "prior_size must be at most 80"),
        ({"trials": 0}, "trials must be in"),
        ({"chunk": 0}, "chunk must be in"),
        ({"prior": [0.5, 0.5]}, r"prior must have shape \(5,\)"),
        ({"prior": [0.5] * 5}, "prior must sum to one"),
        ({"prior": [0.0, 0.25, 0.25, 0.25, 0.25]}, "prior must be in"),
    ],
)
def test_bad_arguments_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        _attack(**options)
    with pytest.raises(ValueError, match="successes must be in"):
        success_interval(3, 2)


def test_a_tie_counts_as_a_miss_of_the_smaller_prior():
    ties = Guesses(torch.zeros(1, 3), torch.tensor([1]), {"sum": torch.ones(1, 3)})
    assert success_by_prior_size(ties, "sum", [2, 3]).tolist() == [[False, False]]


# The simulation of Algorithm 3 -------------------------------------------------------------------


def test_algorithm_3_by_order_statistics_is_algorithm_3():
    from companion.papers.hayes2023.fig4 import orthogonal_top_success
    from reconrisk import bounds

    run = DPSGD(0.7, 0.05, steps=200)
    quick, error = orthogonal_top_success(run, 10, 20000, np.random.default_rng(0))
    steps, target = _orthogonal(run, 10, 4000)
    hits = int((top_score(steps, run).argmax(dim=1) == target).sum())
    spread = math.sqrt(error**2 + quick * (1 - quick) / 4000)
    assert abs(hits / 4000 - quick) < 4 * spread
    full = DPSGD(5.0, steps=100)
    success, error = orthogonal_top_success(full, 10, 20000, np.random.default_rng(1))
    assert abs(success - float(bounds.bayes_success(2.0, 10))) < 4 * error

"""No score of the prior-aware attack, and no exact batch, beats the certified bound."""

from __future__ import annotations

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy import stats

from reconrisk import DPSGD, bounds
from reconrisk.attacks import SCORES, prior_aware_attack, sparse_batch_attack
from reconrisk.models import Classifier

TRIALS = 400
#: chance of a false alarm per attack, if its success were the bound itself
LEVEL = 1e-6


def p_values(run: DPSGD, prior_size: int, hidden: int | None, learning_rate: float, seed: int):
    """Each score's p-value of "the success is at most the bound"."""
    generator = torch.Generator().manual_seed(seed)
    inputs = torch.rand(90, 6, generator=generator)
    labels = torch.randint(3, (90,), generator=generator)
    outcome = prior_aware_attack(
        Classifier(6, hidden, 3),
        run,
        inputs[:20],
        labels[:20],
        inputs[20:],
        labels[20:],
        prior_size=prior_size,
        trials=TRIALS,
        learning_rate=learning_rate,
        generator=generator,
    )
    upper = bounds.rero(run, 1 / prior_size).upper
    return {
        name: float(stats.binom.sf(int(outcome.correct(name).sum()) - 1, TRIALS, min(1.0, upper)))
        for name in SCORES
    }


@settings(max_examples=40, deadline=None, derandomize=True)
@given(
    signal=st.floats(0.1, 4.0),
    rate=st.one_of(st.just(1.0), st.floats(0.05, 0.95)),
    steps=st.integers(1, 25),
    max_grad_norm=st.floats(-2, 2).map(lambda e: 10.0**e),
    prior_size=st.sampled_from([2, 3, 10, 60]),
    hidden=st.sampled_from([None, 5]),
    learning_rate=st.sampled_from([0.0, 0.1, 1.0, 10.0]),
    seed=st.integers(0, 2**32),
)
@example(2.0, 1.0, 10, 0.1, 2, None, 0.0, 0)  # two candidates come nearest to the bound
@example(2.0, 0.5, 1, 0.1, 2, None, 0.0, 0)
def test_success_is_not_above_the_bound(
    signal, rate, steps, max_grad_norm, prior_size, hidden, learning_rate, seed
):
    noise = (rate * steps) ** 0.5 / signal
    run = DPSGD(noise, rate, steps, max_grad_norm)
    assert min(p_values(run, prior_size, hidden, learning_rate, seed).values()) > LEVEL


def test_the_test_would_notice(monkeypatch):
    """With the bound of a fifth of the prior, the attack on two candidates is above it."""
    true = bounds.rero
    monkeypatch.setattr(bounds, "rero", lambda run, prior: true(run, 0.2 * prior))
    assert min(p_values(DPSGD(1.6, 1.0, 10, 0.1), 2, None, 0.0, 0).values()) < LEVEL


@pytest.mark.parametrize(("others", "trials"), [(0, 300), (1, 40)])
@pytest.mark.parametrize("noise", [0.02, 0.1, 0.3, 1.0])
def test_naming_a_record_of_an_exact_batch_is_not_above_the_bound(noise, others, trials):
    """One of 60 candidates is in the batch; a refused batch is answered with the first of them."""
    prior, generator, correct = 60, torch.Generator().manual_seed(0), 0
    for _ in range(trials):
        candidates, rest = (
            torch.randn(count, 2, generator=generator, dtype=torch.float64)
            for count in (prior, others)
        )
        weights = torch.randn(3 + 20 * others, 3, generator=generator, dtype=torch.float64)
        target = int(torch.randint(prior, (), generator=generator))
        records = torch.cat([candidates[[target]], rest])
        records = torch.cat([records, torch.ones(len(records), 1).double()], dim=1)
        signals = torch.randn(len(weights), len(records), generator=generator).double()
        signals = signals * (weights @ records.T > 0)
        # clipped to the norm one, each record as a whole
        norms = signals.norm(dim=0) * records.norm(dim=1)
        gradient = (signals / norms.clamp(min=1.0)) @ records
        gradient += noise * torch.randn(gradient.shape, generator=generator, dtype=torch.float64)
        found = sparse_batch_attack(
            *(gradient[:, :-1], gradient[:, -1], weights[:, :-1], weights[:, -1]),
            generator=generator,
            trials=128,
            noise_std=noise,
            least_agreement=0.0,
        ).inputs
        named = 0 if found is None else int(torch.cdist(candidates, found).amin(dim=1).argmin())
        correct += named == target
    upper = min(1.0, bounds.rero(DPSGD(noise, 1.0, 1), 1 / prior).upper)
    assert float(stats.binom.sf(correct - 1, trials, upper)) > LEVEL
    if noise == 0.02 and not others:
        assert correct > 0.5 * trials  # an attack, not a guess

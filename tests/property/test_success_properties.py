"""No attack beats its bounds: random candidates, priors, runs and adaptive training."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from reconrisk import DPSGD, bounds

#: a paired comparison of a simulation with a bound, over all examples of this file
ERRORS = 5.0
TRIALS = 3000


def best_attack(candidates_at, prior, run: DPSGD, rng) -> tuple[float, float]:
    """Average of the largest posterior probability, and its standard error.

    ``candidates_at(log_posterior)`` returns the clipped gradients (trials, n, d) over C; it may
    look at what was released, as real training does.
    """
    n, sigma, q = len(prior), run.noise_multiplier, run.sampling_rate
    log_posterior = np.broadcast_to(np.log(prior), (TRIALS, n)).copy()
    target = rng.choice(n, size=TRIALS, p=prior)
    for _ in range(run.steps):
        g = candidates_at(log_posterior) / sigma
        there = rng.random(TRIALS) < q
        own = g[np.arange(TRIALS), target] * there[:, None]
        output = own + rng.standard_normal(own.shape)
        inner = np.einsum("tnd,td->tn", g, output) - 0.5 * (g**2).sum(axis=2)
        with np.errstate(divide="ignore"):
            log_posterior += np.logaddexp(np.log1p(-q), np.log(q) + inner)
    best = 1 / np.exp(log_posterior - log_posterior.max(axis=1, keepdims=True)).sum(axis=1)
    return float(best.mean()), float(best.std(ddof=1) / np.sqrt(TRIALS))


def clipped(vectors: np.ndarray) -> np.ndarray:
    return vectors / np.maximum(np.linalg.norm(vectors, axis=-1, keepdims=True), 1.0)


@settings(max_examples=25, deadline=None, derandomize=True)
@given(
    n=st.integers(2, 7),
    dimension=st.integers(1, 6),
    steps=st.integers(1, 12),
    sigma=st.floats(0.4, 6.0),
    rate=st.sampled_from([1.0, 1.0, 0.9, 0.5, 0.2]),
    lean=st.floats(0.0, 2.0),
    adaptive=st.booleans(),
    seed=st.integers(0, 10**6),
)
def test_no_attack_beats_its_bounds(n, dimension, steps, sigma, rate, lean, adaptive, seed):
    rng = np.random.default_rng(seed)
    run = DPSGD(sigma, rate, steps)
    base = clipped(rng.standard_normal((n, dimension)) * rng.uniform(0.3, 2) + lean)
    turned = clipped(rng.standard_normal((n, dimension)) + lean)

    def candidates_at(log_posterior):
        # one of two geometries, by what was released
        if not adaptive:
            return np.broadcast_to(base, (TRIALS, n, dimension))
        first = log_posterior.argmax(axis=1) % 2 == 0
        return np.where(first[:, None, None], base, turned)

    prior = np.full(n, 1 / n)
    value, error = best_attack(candidates_at, prior, run, rng)
    free = bounds.rero(run, 1 / n).upper
    assert value <= free + ERRORS * error
    both = np.stack([g @ g.T for g in ((base, turned) if adaptive else (base,))])
    cosine = bounds.smallest_cosine(both, sampled=rate < 1)
    bound = bounds.equicorrelated_bound(run, n, cosine)
    assert bound <= free
    assert value <= bound + ERRORS * error


@settings(max_examples=15, deadline=None, derandomize=True)
@given(
    n=st.integers(2, 5),
    steps=st.integers(1, 8),
    sigma=st.floats(0.5, 4.0),
    rate=st.sampled_from([1.0, 0.5, 0.1]),
    seed=st.integers(0, 10**6),
)
def test_no_attack_beats_the_bound_at_any_prior(n, steps, sigma, rate, seed):
    rng = np.random.default_rng(seed)
    prior = rng.dirichlet(np.ones(n))
    vectors = clipped(2 * rng.standard_normal((n, 3)))
    value, error = best_attack(
        lambda _: np.broadcast_to(vectors, (TRIALS, n, 3)), prior, DPSGD(sigma, rate, steps), rng
    )
    kappa = float(np.max(prior))
    assert value <= bounds.rero(DPSGD(sigma, rate, steps), kappa).upper + ERRORS * error
    if rate == 1:
        gram = steps * vectors @ vectors.T / sigma**2
        exact, its_error = bounds.bayes_success_simulated(gram, 3000, rng, prior=prior)
        assert abs(value - exact) <= ERRORS * np.hypot(error, its_error)

"""The best attack on n candidates: closed forms, simulations, and the bound from the cosines."""

from __future__ import annotations

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import special as sc

from reconrisk import DPSGD, bounds


def equicorrelated(n: int, rho: float) -> np.ndarray:
    return (1 - rho) * np.eye(n) + rho * np.ones((n, n))


# Full batch --------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [2, 10, 10**6, 10**9])
@pytest.mark.parametrize("m", [0.0, 0.3, 2.0, 7.0, 50.0])
def test_integral_against_mpmath(n, m):
    with mp.workdps(30):
        a = mp.mpf(m) * mp.sqrt(mp.mpf(0.8))
        points = sorted({*range(-12, 17, 2), *(float(a) + k for k in range(-8, 9, 2))})
        exact = mp.quad(lambda x: mp.npdf(x - a) * mp.ncdf(x) ** (n - 1), points)
    assert bounds.bayes_success(m, n, 1 - 0.8) == pytest.approx(float(exact), rel=2e-12)


def test_two_opposite_candidates_attain_the_bound():
    m = np.linspace(0, 8, 33)
    ours = bounds.bayes_success(m, 2, -1.0)
    np.testing.assert_allclose(ours, sc.ndtr(m), rtol=1e-13)
    np.testing.assert_allclose(ours[1:], bounds.rero_gaussian(1 / m[1:], 0.5), rtol=1e-13)
    np.testing.assert_allclose(bounds.bayes_success(m, 2, 0.0), sc.ndtr(m / np.sqrt(2)), rtol=1e-13)


def test_nothing_else_attains_it():
    m = np.linspace(0.2, 6, 30)[:, None]
    n = np.array([3, 4, 10, 100, 10**4])
    simplex = bounds.bayes_success(m, n, -1 / (n - 1))
    gamma = bounds.rero_gaussian(1 / m, 1 / n)
    assert np.all(simplex < gamma)
    assert np.all(bounds.bayes_success(m, n) < simplex)


def test_values_of_the_two_geometries():
    # eps = 10, delta = 1e-5, T = 100: m = 10/4.9988861970901
    m = 10 / 4.9988861970901
    np.testing.assert_allclose(
        bounds.bayes_success(m, [2, 10, 2048]), [0.921397, 0.673783, 0.085168], atol=6e-7
    )
    np.testing.assert_allclose(
        bounds.bayes_success(m, [10, 2048], [-1 / 9, -1 / 2047]), [0.706308, 0.085241], atol=6e-7
    )


def test_simulated_success_agrees_in_every_geometry():
    for n, rho, m in ((2, -1.0, 1.0), (3, -0.5, 1.5), (5, 0.0, 2.0), (10, 0.6, 3.0)):
        gram = m**2 * equicorrelated(n, rho)
        value, error = bounds.bayes_success_simulated(gram, 40_000, np.random.default_rng(n))
        assert abs(value - bounds.bayes_success(m, n, rho)) < 4 * error


def test_simulated_attack_itself():
    """Name the candidate with the largest inner product, in coordinates, with real noise."""
    rng = np.random.default_rng(1)
    n, m, trials = 6, 1.7, 40_000
    simplex = (np.eye(n) - 1 / n) * np.sqrt(n / (n - 1)) * m
    target = rng.integers(n, size=trials)
    output = simplex[target] + rng.standard_normal((trials, n))
    share = np.mean((output @ simplex.T).argmax(axis=1) == target)
    p = float(bounds.bayes_success(m, n, -1 / (n - 1)))
    assert abs(share - p) < 4 * np.sqrt(p * (1 - p) / trials)


def test_two_candidates_with_a_prior():
    for p, rho, m in ((0.5, -1.0, 1.0), (0.7, 0.0, 1.2), (0.95, 0.3, 2.0)):
        exact = bounds.bayes_success_two(m, p, rho)
        value, error = bounds.bayes_success_simulated(
            m**2 * equicorrelated(2, rho), 60_000, np.random.default_rng(7), prior=[p, 1 - p]
        )
        assert abs(value - exact) < 4 * error
        assert max(p, 1 - p) <= exact <= bounds.rero_gaussian(1 / m, max(p, 1 - p))
        assert exact == pytest.approx(float(bounds.bayes_success_two(m, 1 - p, rho)), rel=1e-14)
    np.testing.assert_allclose(bounds.bayes_success_two([0.0, 1.0], [0.7, 1.0]), [0.7, 1.0])
    assert bounds.bayes_success_two(1.3, 0.5) == pytest.approx(float(sc.ndtr(1.3)), rel=1e-14)


@settings(max_examples=30, deadline=None)
@given(st.floats(0.001, 20), st.integers(2, 10**9 - 1), st.floats(-1, 1), st.floats(0.01, 1))
def test_monotone_and_ordered(m, n, rho, step):
    value, stronger, closer, more = bounds.bayes_success(
        [m, m + step, m, m], [n, n, n, n + 1], [rho, rho, min(rho + step, 1.0), rho]
    )
    assert 1 / n <= value <= 1
    assert max(closer, more) * (1 - 1e-12) <= value <= stronger * (1 + 1e-12)
    if rho >= -1 / (n - 1):
        assert value <= bounds.rero_gaussian(1 / m, 1 / n) * (1 + 1e-12)


# Sub-sampled -------------------------------------------------------------------------------------


def losses(z: np.ndarray, sigma: float, q: float) -> np.ndarray:
    return np.logaddexp(np.log1p(-q), np.log(q) + z / sigma - 0.5 / sigma**2)


def test_two_steps_by_nested_quadrature():
    """F_nu(S) = E Phi(inverse loss of S - l(z)): no characteristic function is involved."""
    for sigma, q, n in ((1.0, 0.5, 2), (1.0, 0.5, 10), (2.0, 0.3, 4)):
        z = np.arange(-8.5, 8.5 + 1 / sigma, 0.06)
        loss = losses(z, sigma, q)
        nu = np.exp(-0.5 * z * z)
        moved = np.exp(-0.5 * (z - 1 / sigma) ** 2)
        nu, moved = nu / nu.sum(), moved / moved.sum()
        mu = (1 - q) * nu + q * moved

        def below(s, loss=loss, nu=nu, q=q, sigma=sigma):
            rest = np.exp(s[:, None] - loss) - (1 - q)
            position = np.log(np.maximum(rest, 1e-300) / q) * sigma + 0.5 / sigma
            return np.where(rest > 0, sc.ndtr(position), 0.0) @ nu

        exact = sum(
            weight * (mu @ below(one + loss) ** (n - 1))
            for one, weight in zip(loss, mu, strict=True)
        )
        ours = bounds.bayes_success_subsampled(DPSGD(sigma, q, 2), n)
        assert ours == pytest.approx(exact, abs=1e-9)


def test_one_step_and_full_batch_limits():
    for n in (2, 10, 10**6):
        full = float(bounds.bayes_success(2.0, n))
        assert bounds.bayes_success_subsampled(DPSGD(5.0, 1.0, 100), n) == full
        # the general route, where the sampling rate is one but for rounding
        almost = bounds.bayes_success_subsampled(DPSGD(5.0, 1 - 1e-13, 100), n)
        assert almost == pytest.approx(full, abs=2e-12)
        one = bounds.bayes_success_subsampled(DPSGD(0.7, 0.3, 1), n)
        expected = 0.7 / n + 0.3 * float(bounds.bayes_success(1 / 0.7, n))
        assert one == pytest.approx(expected, rel=1e-14)


@pytest.mark.parametrize(
    ("run", "n"),
    [
        (DPSGD(0.987386, 0.02, 1000), 10),
        (DPSGD(0.5, 0.05, 60), 5),
        (DPSGD(2.0, 0.5, 30), 40),
        (DPSGD(0.3, 0.01, 200), 3),
    ],
)
def test_against_simulated_runs(run, n):
    """Simulated scores of a target and of n - 1 others, likelihood and plain sum."""
    rng = np.random.default_rng(0)
    trials = 4000
    sigma, q, steps = run.noise_multiplier, run.sampling_rate, run.steps
    likelihood = np.empty((n, trials))
    plain = np.empty((n, trials))
    for i in range(n):
        noise = rng.standard_normal((trials, steps))
        if i == 0:
            noise += (rng.random((trials, steps)) < q) / sigma
        likelihood[i] = losses(noise, sigma, q).sum(axis=1)
        plain[i] = noise.sum(axis=1)
    # given its score the target wins with the probability that the others stay below it
    for scores, exact in (
        (likelihood, bounds.bayes_success_subsampled(run, n)),
        (plain, bounds.sum_score_success(run, n)),
    ):
        hit = np.mean(scores[0] > scores[1:].max(axis=0))
        assert abs(hit - exact) < 4 * np.sqrt(exact * (1 - exact) / trials)


def test_known_values_of_figure_4s_setting():
    """q = 0.02, T = 1000, n = 10; sigma for eps = 1, 4, 10, 32."""
    sigma = (2.511988, 0.987386, 0.675777, 0.457558)
    best = [0.146603, 0.290168, 0.531522, 0.925361]
    plain = [0.14460, 0.23678, 0.32329, 0.46883]
    for s, b, p in zip(sigma, best, plain, strict=True):
        run = DPSGD(s, 0.02, 1000)
        assert bounds.bayes_success_subsampled(run, 10) == pytest.approx(b, abs=2e-6)
        assert bounds.sum_score_success(run, 10) == pytest.approx(p, abs=2e-5)


def test_subsampled_orderings():
    for sigma, q, steps in ((1.0, 0.1, 50), (0.6, 0.02, 300), (3.0, 0.5, 1000)):
        for n in (2, 10, 1000):
            run = DPSGD(sigma, q, steps)
            best = bounds.bayes_success_subsampled(run, n)
            assert 1 / n < bounds.sum_score_success(run, n) < best
            assert best < bounds.bayes_success(np.sqrt(steps) / sigma, n)
            assert best < bounds.bayes_success_subsampled(DPSGD(sigma, q, 2 * steps), n)


def test_ten_thousand_steps():
    value = bounds.bayes_success_subsampled(DPSGD(10.0, 0.1, 10_000), 10)
    # many small losses: nearly Gaussian, with variance T q**2 (exp(1/sigma**2) - 1)
    m = 0.1 * 100 * np.sqrt(np.expm1(0.01))
    assert value == pytest.approx(float(bounds.bayes_success(m, 10)), abs=2e-3)


# Any candidates ----------------------------------------------------------------------------------


def best_success(game, n: int, steps: int, trials: int, q: float, rng) -> tuple[float, float]:
    """Average of the largest posterior over an adaptive game, with its standard error.

    ``game(log_likelihood)`` returns candidates (trials, n, d) in units of the noise.
    """
    log_likelihood = np.zeros((trials, n))
    target = rng.integers(n, size=trials)
    for _ in range(steps):
        candidates = game(log_likelihood)
        there = rng.random(trials) < q
        own = candidates[np.arange(trials), target] * there[:, None]
        output = own + rng.standard_normal(own.shape)
        inner = np.einsum("tnd,td->tn", candidates, output)
        inner -= 0.5 * (candidates**2).sum(axis=2)
        with np.errstate(divide="ignore"):
            log_likelihood += np.logaddexp(np.log1p(-q), np.log(q) + inner)
    posterior = np.exp(log_likelihood - log_likelihood.max(axis=1, keepdims=True))
    best = 1 / posterior.sum(axis=1)
    return float(best.mean()), float(best.std(ddof=1) / np.sqrt(trials))


def gram_of(candidates: np.ndarray) -> np.ndarray:
    return candidates @ np.swapaxes(candidates, -1, -2)


def separate_the_leaders(edge: float, n: int):
    """An adaptive game: the two likeliest candidates as far apart as allowed, the rest between."""

    def game(log_likelihood: np.ndarray) -> np.ndarray:
        order = np.argsort(-log_likelihood, axis=1)
        where = np.zeros((len(log_likelihood), n, 1))
        np.put_along_axis(where[..., 0], order[:, :1], edge / 2, axis=1)
        np.put_along_axis(where[..., 0], order[:, 1:2], -edge / 2, axis=1)
        return where

    return game


@pytest.mark.parametrize("n", [3, 6])
def test_bound_from_distances_holds_for_an_adaptive_game(n):
    rng = np.random.default_rng(n)
    sigma, steps = 1.5, 6
    run = DPSGD(sigma, steps=steps)
    game = separate_the_leaders(1.2 / sigma, n)
    cosine = bounds.smallest_cosine(sigma**2 * gram_of(game(np.zeros((1, n)))))
    assert cosine == pytest.approx(1 - 1.2**2 / 2)
    value, error = best_success(game, n, steps, 20_000, 1.0, rng)
    assert value <= bounds.equicorrelated_bound(run, n, cosine) + 4 * error
    assert bounds.equicorrelated_bound(run, n, cosine) < bounds.rero(run, 1 / n).upper


@pytest.mark.parametrize("seed", range(6))
def test_bound_for_random_candidates(seed):
    """Random directions, some of them short; full batch and sub-sampled."""
    rng = np.random.default_rng(seed)
    n, d, steps, sigma = 5, 4, 6, 0.9
    vectors = rng.standard_normal((n, d)) + rng.uniform(0, 2)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    vectors *= np.where(rng.random(n) < 0.4, rng.random(n), 1.0)[:, None]
    gram = vectors @ vectors.T

    def game(log_likelihood):
        return np.broadcast_to(vectors / sigma, (len(log_likelihood), n, d))

    full = DPSGD(sigma, steps=steps)
    value, error = best_success(game, n, steps, 10_000, 1.0, rng)
    exact, its_error = bounds.bayes_success_simulated(steps * gram / sigma**2, 20_000, rng)
    assert abs(value - exact) < 4 * np.hypot(error, its_error)
    bound = bounds.equicorrelated_bound(full, n, bounds.smallest_cosine(gram))
    assert value <= bound + 4 * error

    sampled = DPSGD(sigma, 0.4, steps)
    value, error = best_success(game, n, steps, 10_000, 0.4, rng)
    cosine = bounds.smallest_cosine(gram, sampled=True)
    if cosine >= 0:
        assert value <= bounds.equicorrelated_bound(sampled, n, cosine) + 4 * error


def test_more_cosine_less_success_under_sub_sampling():
    """Common cosines rho: simulated success falls with rho and equals the exact value at zero."""
    sigma, q, steps, n = 0.8, 0.4, 6, 5
    values = []
    for rho in (-0.2, 0.0, 0.4, 0.8):
        root = np.linalg.cholesky(equicorrelated(n, rho) + 1e-12 * np.eye(n)) / sigma

        def game(log_likelihood, root=root):
            return np.broadcast_to(root, (len(log_likelihood), n, n))

        values.append(best_success(game, n, steps, 20_000, q, np.random.default_rng(5)))
    exact = bounds.bayes_success_subsampled(DPSGD(sigma, q, steps), n)
    assert abs(values[1][0] - exact) < 4 * values[1][1]
    for (above, e), (below, f) in zip(values, values[1:], strict=False):
        assert below < above - 4 * np.hypot(e, f)


def test_smallest_cosine():
    vectors = np.array([[1.0, 0.0], [0.6, 0.8], [0.0, 1.0]])
    gram = vectors @ vectors.T
    assert bounds.smallest_cosine(gram) == pytest.approx(0.0, abs=1e-15)
    assert bounds.smallest_cosine(9 * gram, 3.0) == pytest.approx(0.0, abs=1e-15)
    assert bounds.smallest_cosine(gram, sampled=True) == pytest.approx(0.0, abs=1e-15)
    # many steps: the worst of them
    assert bounds.smallest_cosine(np.stack([gram, np.ones((3, 3))])) == pytest.approx(0.0, abs=1e-9)
    # short gradients: only distances count in a full batch
    short = np.array([[0.01, 0.0], [-0.01, 0.0]])
    assert bounds.smallest_cosine(short @ short.T) == pytest.approx(1 - 2e-4)
    # where one of them has norm C it is the inner product; where norms are equal, the cosine
    pair = np.array([[1.0, 0.0], [0.3, 0.4]])
    assert bounds.smallest_cosine(pair @ pair.T, sampled=True) == pytest.approx(0.3)
    equal = 0.5 * np.array([[1.0, 0.0], [0.6, 0.8]])
    assert bounds.smallest_cosine(equal @ equal.T, sampled=True) == pytest.approx(0.6)
    assert bounds.smallest_cosine(np.zeros((2, 2)), sampled=True) == 1.0


def test_equicorrelated_bound_is_the_smaller_one():
    run = DPSGD(5.0, steps=100)
    free = bounds.rero(run, 0.1).upper
    assert bounds.equicorrelated_bound(run, 10, -1.0) == free
    assert bounds.equicorrelated_bound(run, 10, 0.0) == pytest.approx(
        float(bounds.bayes_success(2.0, 10)), rel=1e-10
    )
    assert bounds.equicorrelated_bound(run, 10, 1.0) == pytest.approx(0.1, rel=1e-10)
    grid = [bounds.equicorrelated_bound(run, 10, r) for r in np.linspace(-1, 1, 41)]
    assert np.all(np.diff(grid) <= 0)
    # two opposite candidates: both bounds are the same
    assert bounds.equicorrelated_bound(run, 2, -1.0) == pytest.approx(float(sc.ndtr(2.0)))


def test_refuses():
    with pytest.raises(ValueError, match="cosine must be in"):
        bounds.bayes_success(1.0, 3, -1.5)
    with pytest.raises(ValueError, match="prior_size"):
        bounds.bayes_success(1.0, 2.5)
    with pytest.raises(TypeError, match="DPSGD"):
        bounds.sum_score_success(1.0, 10)
    with pytest.raises(ValueError, match="sampling_rate \\* steps must be larger"):
        bounds.bayes_success_subsampled(DPSGD(0.5, 0.001, 2), 10)
    with pytest.raises(ValueError, match="positive semi-definite"):
        bounds.bayes_success_simulated(-np.eye(2), 10, np.random.default_rng(0))
    with pytest.raises(ValueError, match="symmetric"):
        bounds.bayes_success_simulated([[1.0, 2.0], [0.0, 1.0]], 10, np.random.default_rng(0))
    with pytest.raises(ValueError, match="clipped"):
        bounds.smallest_cosine(4 * np.eye(2))
    with pytest.raises(ValueError, match="smallest_cosine must be in"):
        bounds.equicorrelated_bound(DPSGD(1.0), 3, 2.0)

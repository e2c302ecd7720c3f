"""Success before seeing anything: discrete priors, balls, samples, pixels."""

from __future__ import annotations

import mpmath as mp
import numpy as np
import pytest

from reconrisk import bounds


def test_balls():
    points = np.array([0.0, 1.0, 2.0, 10.0])
    distances = np.abs(points[:, None] - points[None, :])
    assert bounds.prior_success_ball(distances, 0.5) == 0.25
    assert bounds.prior_success_ball(distances, 1.0) == 0.75
    assert bounds.prior_success_ball(distances, 0.5, [0.1, 0.1, 0.1, 0.7]) == pytest.approx(0.7)
    # a centre between two points holds both at half their distance
    between = bounds.prior_success_ball_any_centre(distances, 0.5)
    assert between.lower == 0.25 and between.upper == 0.75
    centres = np.linspace(-1, 11, 1201)[:, None]
    best = bounds.prior_success_ball(np.abs(centres - points), 0.5 + 1e-9)
    assert best == 0.5 and best in between


def test_balls_in_the_plane_enclose_a_search_over_centres():
    rng = np.random.default_rng(3)
    points = rng.random((40, 2))
    distances = np.linalg.norm(points[:, None] - points[None], axis=2)
    grid = np.stack(np.meshgrid(*[np.linspace(0, 1, 201)] * 2), axis=-1).reshape(-1, 2)
    for eta in (0.02, 0.1, 0.3):
        best = bounds.prior_success_ball(np.linalg.norm(grid[:, None] - points, axis=2), eta)
        assert best <= bounds.prior_success_ball_any_centre(distances, eta).upper
        assert bounds.prior_success_ball(distances, eta) <= 1


def exact_log_tail(d: int, share: float, p: mp.mpf) -> float:
    with mp.workdps(50):
        needed = int(np.ceil(share * d - 1e-9))
        terms = (mp.binomial(d, k) * p**k * (1 - p) ** (d - k) for k in range(needed, d + 1))
        return float(mp.log(mp.fsum(terms)))


@pytest.mark.parametrize("d", [1, 10, 784, 3072])
@pytest.mark.parametrize("share", [0.0, 0.1, 0.3, 0.6, 0.9, 1.0])
def test_pixels_against_exact_sums(d, share):
    for p, ours in (
        (mp.mpf(1) / 4, bounds.log_prior_success_pixels(d, share, probability=0.25)),
        (mp.mpf(64 / 255), bounds.log_prior_success_pixels(d, share)),
    ):
        assert ours == pytest.approx(exact_log_tail(d, share, p), rel=1e-12, abs=1e-15)


def test_pixels_printed_values():
    decades = bounds.log_prior_success_pixels_printed([784, 3072]) / np.log(10)
    np.testing.assert_allclose(10 ** (decades - [-473, -1850]), [9.66, 2.96], atol=5e-3)
    # at share one the sum has one term and both agree
    np.testing.assert_allclose(
        bounds.log_prior_success_pixels([784, 3072], probability=0.25), decades * np.log(10)
    )
    # below one, the paper's power is hundreds of orders of magnitude too small
    sixty = bounds.log_prior_success_pixels([784, 3072], 0.6, probability=0.25) / np.log(10)
    np.testing.assert_allclose(10 ** (sixty - [-96, -368]), [8.74, 2.58], atol=5e-3)
    power = bounds.log_prior_success_pixels_printed([784, 3072], 0.6) / np.log(10)
    assert np.all(sixty - power > [188, 742])
    # 64/255 instead of 1/4
    assert 10 ** (bounds.log_prior_success_pixels(784) / np.log(10) + 471) == pytest.approx(
        2.08, abs=5e-3
    )


def test_pixels_by_simulation_and_limits():
    rng = np.random.default_rng(5)
    records = rng.random((200_000, 12))
    hits = (np.abs(records - 0.5) < 32 / 255).sum(axis=1)
    for share in (0.25, 0.5, 1 / 3):
        measured = np.mean(hits >= 12 * share - 1e-9)
        p = np.exp(bounds.log_prior_success_pixels(12, share))
        assert abs(measured - p) < 4 * np.sqrt(p * (1 - p) / 200_000)
    assert bounds.log_prior_success_pixels(784, 0.0) == 0.0
    assert bounds.log_prior_success_pixels(784, 1.0, 0.5) == 0.0
    shares = np.linspace(0, 1, 50)
    assert np.all(np.diff(bounds.log_prior_success_pixels(784, shares)) <= 0)
    # a share that is k/d exactly must ask for k, whatever its rounding
    for k in range(1, 50):
        assert bounds.log_prior_success_pixels(49, k / 49) == bounds.log_prior_success_pixels(
            49, (k - 1e-6) / 49
        )


@pytest.mark.parametrize("method", ["binomial", "chernoff"])
def test_confidence_from_samples_covers(method):
    rng = np.random.default_rng(11)
    for kappa in (0.005, 0.1, 0.6):
        shares = rng.binomial(150, kappa, 4000) / 150
        upper = {
            s: bounds.prior_success_from_samples(s, 150, 0.9, method=method) for s in set(shares)
        }
        covered = np.mean([upper[s] >= kappa for s in shares])
        assert covered > 0.9 - 4 * np.sqrt(0.09 / 4000)


def test_confidence_bounds_are_ordered_and_solve_proposition_6():
    for share in (0.0, 0.01, 0.2, 0.9):
        exact = bounds.prior_success_from_samples(share, 500)
        chernoff = bounds.prior_success_from_samples(share, 500, method="chernoff")
        assert share <= exact <= chernoff <= 1
        if chernoff < 1:
            tau = np.sqrt(2 * np.log(20) / (500 * chernoff))
            assert np.exp(-500 * tau**2 * chernoff / 2) == pytest.approx(0.05)
            assert chernoff * (1 - tau) == pytest.approx(share, abs=1e-12)
    assert bounds.prior_success_from_samples(1.0, 20) == 1.0
    assert bounds.prior_success_from_samples(0.0, 100) == pytest.approx(1 - 0.05 ** (1 / 100))


def test_refuses():
    with pytest.raises(ValueError, match="sum to one"):
        bounds.prior_success_ball(np.zeros((2, 2)), 1.0, [0.5, 0.6])
    with pytest.raises(ValueError, match="shape"):
        bounds.prior_success_ball([1.0, 2.0], 1.0)
    with pytest.raises(ValueError, match="symmetric"):
        bounds.prior_success_ball_any_centre([[0.0, 1.0], [2.0, 0.0]], 1.0)
    with pytest.raises(ValueError, match="one entry per point"):
        bounds.prior_success_ball(np.zeros((2, 2)), 1.0, [1.0])
    with pytest.raises(ValueError, match="method must be one of"):
        bounds.prior_success_from_samples(0.1, 10, method="exact")
    with pytest.raises(ValueError, match="share must be in"):
        bounds.log_prior_success_pixels(784, 1.1)

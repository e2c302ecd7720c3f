"""Bounds that lie on the safe side to their last digit, against enclosures and 40 digits."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
from scipy.special import ndtr

from reconrisk import DPSGD, bounds, privacy
from reconrisk.privacy._phases import grouped_runs

SAMPLED = DPSGD(1.0, 0.05, 100)


@pytest.mark.parametrize("run", [DPSGD(1.0), SAMPLED])
def test_what_an_attacker_knows_is_bounded_by_the_curve_s_upper_ends(run):
    joint = np.array([[0.3, 0.1, 0.0], [0.0, 0.3, 0.3]])
    kappa, weights = bounds.prior_success_given(joint)
    lower, upper = bounds.rero_curve(run, kappa)
    assert bounds.rero_given(run, joint) >= weights @ upper > weights @ lower


@pytest.mark.parametrize("mu", [0.5, 1.0, 2.0])
@pytest.mark.parametrize("p", [0.8, 0.9, 0.95])
def test_two_unequal_secrets_are_no_more_likely_than_their_bound(mu, p):
    """The likelihood ratio test of two opposite gradients, in 40 digits."""
    with mpmath.workdps(40):
        likely, far = mpmath.mpf(p), 2 * mpmath.mpf(mu)
        shift = mpmath.log(likely / (1 - likely)) / far
        exact = likely * mpmath.ncdf(far / 2 + shift) + (1 - likely) * mpmath.ncdf(far / 2 - shift)
        assert mpmath.mpf(bounds.rero_secrets(DPSGD(1 / mu), [p, 1 - p])) >= exact


@pytest.mark.parametrize(("sigma", "q", "steps"), [(0.3, 1e-6, 1000), (0.4, 1e-5, 500)])
def test_rare_large_losses_are_counted(sigma, q, steps):
    """Guess that a record took part if any step is above a threshold: no bound is below that."""
    threshold = np.linspace(0, 3, 301)
    outsider, taken = (ndtr(-(threshold - shift) / sigma) for shift in (0.0, 1.0))
    member = (1 - q) * outsider + q * taken
    any_step = [-np.expm1(steps * np.log1p(-rate)) for rate in (outsider, member)]
    attained, most = np.max(any_step[1] - any_step[0]), steps * q * (2 * ndtr(0.5 / sigma) - 1)
    found = privacy.delta(DPSGD(sigma, q, steps), 0.0)
    assert attained <= found.upper <= 1.01 * found.lower and found.lower <= most


def test_phases_that_are_grouped_keep_their_side():
    phases = [DPSGD(1 + 0.02 * i, 0.001 * (1 + i % 7), 1 + i % 5) for i in range(200)]

    def spent(runs):
        return sum(r.steps * (r.sampling_rate / r.noise_multiplier) ** 2 for r in runs)

    safe, other = (grouped_runs(phases, side) for side in (True, False))
    assert max(len(safe), len(other)) < len(phases)
    assert spent(safe) >= spent(phases) >= spent(other)
    for runs in (safe, other):
        assert sum(r.steps for r in runs) == sum(r.steps for r in phases)
    for pick, name in ((min, "noise_multiplier"), (max, "sampling_rate")):
        own, grouped = ({getattr(r, name) for r in runs} for runs in (phases, safe))
        assert grouped <= own and pick(grouped) == pick(own)


def test_a_group_in_full_batches_is_one_release_with_less_noise():
    pair = privacy.epsilon([privacy.Group(DPSGD(4.0), 2)], 1e-5)
    one = privacy.epsilon(DPSGD(2.0), 1e-5)
    assert pair.lower <= one.upper and one.lower <= pair.upper

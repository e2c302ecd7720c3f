"""Facts by other routes: safe sides to the last digit, rounded bits, fresh draws, right labels."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
import torch
from scipy.special import ndtr

from reconrisk import DPSGD, attacks, bounds, datasets, mechanisms, privacy
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


# Bits, draws and labels --------------------------------------------------------------------------


def test_the_union_bound_of_a_polar_code_counts_every_block():
    code = attacks.polar_code(energy=1e4, bits=2000, length=256)
    chances = attacks.bhattacharyya(code.length, code.energy)[code.information] / 2
    assert code.blocks > 1
    assert code.error_bound == pytest.approx(code.blocks * chances.sum())


def test_a_half_is_rounded_up():
    assert attacks.pixel_bits(torch.tensor([0.5]), depth=2).tolist() == [[1.0], [0.0]]


def test_a_sampler_s_draws_have_their_own_cosines():
    generator = torch.Generator().manual_seed(1)
    gradient = {"weight": torch.ones(1, 50)}
    cosines = {
        float(mechanisms.add_vmf_noise(gradient, 20.0, generator)["weight"].sum()) for _ in range(4)
    }
    assert len(cosines) == 4


def test_labels_are_those_of_the_pictures_beside_them():
    digits = datasets.classified("digits", split="all")
    means = np.stack([digits.inputs[digits.labels == label].mean(axis=0) for label in range(10)])
    nearest = np.square(digits.inputs[:, None] - means).sum(axis=2).argmin(axis=1)
    assert np.mean(nearest == digits.labels) > 0.85

"""Biswas et al. 2024 on accounting: the routes it is checked by, and what its verdicts notice."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy.special import logsumexp

from companion.experiments import fair_pairs as fair
from companion.experiments import federated
from companion.papers.biswas2024 import (
    opacus_accounting,
    prop4,
    sphere_quadrature,
    table4,
    thm2,
    vmf_accounts,
)
from reconrisk import DPSGD, privacy

# Gaussian noise by Rényi divergence --------------------------------------------------------------


@pytest.mark.parametrize(("sigma", "q"), [(1.23, 0.0021), (0.3, 0.01), (2.0, 0.5), (0.8, 1.0)])
def test_gaussian_divergence_at_whole_orders(sigma, q):
    orders = np.array([2.0, 3.0, 7.0, 20.0])
    ours = opacus_accounting.gaussian_renyi(sigma, q, orders)
    for order, value in zip(orders, ours, strict=True):
        if q == 1:
            assert value == pytest.approx(order / (2 * sigma**2), rel=1e-12)
            continue
        count = np.arange(order + 1)
        log_binomial = np.array([math.log(math.comb(int(order), int(k))) for k in count])
        weight = count * math.log(q) + (order - count) * math.log1p(-q)
        terms = log_binomial + weight + count * (count - 1) / (2 * sigma**2)
        assert value == pytest.approx(logsumexp(terms) / (order - 1), rel=1e-9)


@pytest.mark.filterwarnings("ignore:Optimal order is:UserWarning")
@pytest.mark.parametrize("sigma", [1.23, 0.42, 0.174])
@pytest.mark.parametrize("steps", [3, 1407])
def test_gaussian_account_is_that_of_opacus(sigma, steps):
    accountants = pytest.importorskip("opacus.accountants")
    theirs = accountants.RDPAccountant()
    theirs.history = [(sigma, 1 / 469, steps)]
    ours = opacus_accounting.renyi_epsilon(sigma, steps)
    assert ours == pytest.approx(theirs.get_epsilon(federated.DELTA), rel=1e-6)
    certified = privacy.epsilon(DPSGD(sigma, 1 / 469, steps), federated.DELTA)
    assert certified.upper < ours


@pytest.mark.filterwarnings("ignore:Optimal order is:UserWarning")
def test_search_for_a_noise_multiplier_is_that_of_opacus():
    utils = pytest.importorskip("opacus.accountants.utils")
    theirs = utils.get_noise_multiplier(
        target_epsilon=10.9,
        target_delta=federated.DELTA,
        sample_rate=1 / 469,
        steps=1407,
        accountant="rdp",
    )
    assert opacus_accounting.searched_noise(10.9) == pytest.approx(theirs, abs=1e-12)
    assert table4.truncated(theirs) == 0.420


def test_truncation_keeps_digits():
    assert table4.truncated(0.66099) == 0.66
    assert table4.truncated(1.2305) == 1.23


# Criteria and routes -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("printed", "ours", "approach", "fits"),
    [
        ("0.49", 0.4804, 1, True),
        ("0.49", 0.4649, 1, False),
        ("0.49", 0.4951, 1, False),
        ("7.97", 7.9659, 2, True),
        ("7.97", 8.176, 2, False),
        ("7.97", 7.94, 2, False),
        ("10.9", 10.893, 2, True),
    ],
)
def test_a_printed_number_may_only_lie_above_the_optimum(printed, ours, approach, fits):
    assert vmf_accounts.fits(printed, ours, approach) is fits


@pytest.mark.parametrize(("epsilon", "delta", "steps"), [(0.5, 0.0, 3), (0.2, 0.01, 4)])
def test_composition_by_counting_is_that_by_enumeration(epsilon, delta, steps):
    truth = math.exp(epsilon) / (1 + math.exp(epsilon))
    for at in (0.0, 0.3, epsilon * steps * 0.6, epsilon * steps):
        total = 0.0
        for answers in itertools.product((0, 1), repeat=steps):
            true = sum(answers)
            own = truth**true * (1 - truth) ** (steps - true)
            other = truth ** (steps - true) * (1 - truth) ** true
            total += max(own - math.exp(at) * other, 0.0)
        exact = 1 - (1 - delta) ** steps * (1 - total)
        found = thm2.composed_delta(epsilon, delta, steps, at)
        assert found == pytest.approx(exact, abs=1e-13)


@pytest.mark.parametrize("kappa", [25.0, 300.0])
def test_quadrature_over_latitudes_lies_in_the_enclosure(kappa):
    loss, log_mass = sphere_quadrature.latitudes(kappa)
    assert np.sum(np.exp(log_mass + loss)) == pytest.approx(1.0, abs=1e-9)
    exact = prop4.exact_epsilon(loss, log_mass, 1e-4)
    value = privacy.vmf_epsilon(kappa, federated.DIMENSION, 1e-4, tolerance=1e-6)
    assert value.lower * (1 - 1e-7) <= exact <= value.upper * (1 + 1e-7)


@pytest.mark.parametrize("dimension", [2, 3])
def test_points_on_the_sphere_weigh_its_area(dimension):
    points, weights = sphere_quadrature.points_on_sphere(dimension)
    assert np.linalg.norm(points, axis=1) == pytest.approx(1.0)
    assert weights.sum() == pytest.approx(2 * math.pi if dimension == 2 else 4 * math.pi)
    second = points.T @ (weights[:, None] * points)
    np.testing.assert_allclose(second, weights.sum() / dimension * np.eye(dimension), atol=1e-12)


@pytest.mark.parametrize("sigma", [1.23, 0.42, 0.174])
def test_both_halves_of_a_fair_pair_cost_the_same(sigma):
    pair = fair.fair_pair(sigma)
    assert fair.middle(pair.vmf) == pytest.approx(fair.middle(pair.gaussian), rel=3e-5)
    closed = math.sqrt(federated.DIMENSION) / (2 * sigma)
    assert pair.concentration == pytest.approx(closed, rel=5e-4)
    assert fair.fair_concentration(sigma) == pair.concentration
    # a per cent more concentration costs clearly more
    more = privacy.vmf_epsilon(
        1.01 * pair.concentration,
        federated.DIMENSION,
        federated.DELTA,
        federated.SAMPLING_RATE,
        federated.STEPS,
    )
    assert more.lower > pair.gaussian.upper


def test_accounts_name_the_better_approach():
    for kappa, winner in ((75.0, 1), (100.0, 1), (125.0, 2), (400.0, 2), (500.0, 1)):
        found = vmf_accounts.accounts(kappa)
        assert found.winner == winner
        assert found.best == min(found.first, found.second)
        certified = privacy.vmf_epsilon(*vmf_accounts.setting(kappa), tolerance=1e-2)
        assert certified.upper < found.best

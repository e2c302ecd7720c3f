"""Bayes' capacity of Biswas et al.: the independent routes, and what the exhibits rest on."""

from __future__ import annotations

import math

import mpmath as mp
import numpy as np
import pandas as pd
import pytest
from scipy import integrate

from altered_tables import worst_statuses
from companion.experiments import capacity_routes as routes
from companion.experiments import federated
from companion.papers.biswas2024 import capacity_at_paper_size as paper_size
from companion.papers.biswas2024 import fig5, lem3, random_channels, thm4
from companion.study import Study, find_exhibit
from reconrisk import bounds

# --- the routes, where the answer is known ------------------------------------------------------


def test_log_integral_of_narrow_and_wide_bells():
    for width in (1e-3, 0.1, 2.0):
        found = routes.log_integral(lambda x, w=width: -0.5 * (x / w) ** 2, -20.0, 20.0)
        assert found == pytest.approx(math.log(width * math.sqrt(2 * math.pi)), abs=1e-10)


def test_shells_on_an_interval_and_on_its_two_ends():
    s, r = 0.7, 2.0
    bells = math.log(2 * r / (s * math.sqrt(2 * math.pi)) + 1)
    assert routes.gaussian_by_shells(1, s, r) == pytest.approx(bells, rel=1e-12)
    # two points 2r apart: twice the chance to fall on one's own side
    ends = math.log(1 + math.erf(r / s / math.sqrt(2)))
    assert routes.gaussian_by_shells(1, s, r, surface=True) == pytest.approx(ends, rel=1e-10)


@pytest.mark.parametrize("surface", [False, True])
def test_shells_in_the_plane_against_a_double_integral(surface):
    s, r = 0.3, 1.2

    def density(y, x):
        away = math.hypot(x, y) - r
        away = abs(away) if surface else max(away, 0.0)
        return math.exp(-0.5 * (away / s) ** 2) / (2 * math.pi * s**2)

    value, _ = integrate.dblquad(density, 0, 4, 0, 4, epsabs=1e-6)
    found = routes.gaussian_by_shells(2, s, r, surface=surface)
    assert math.exp(found) == pytest.approx(4 * value, rel=1e-5)


def test_the_surface_has_less_than_the_ball_but_not_in_many_dimensions():
    small = [routes.gaussian_by_shells(3, 0.2, 1.0, surface=x) for x in (True, False)]
    assert small[0] < small[1] - 0.1
    large = [routes.gaussian_by_shells(13_700, 1.0, 1.0, surface=x) for x in (True, False)]
    assert large[0] == pytest.approx(large[1], rel=1e-12)


@pytest.mark.parametrize(("p", "kappa"), [(2, 3.0), (5, 40.0), (300, 700.0)])
def test_the_angle_against_mpmath(p, kappa):
    with mp.workdps(30):
        nu = mp.mpf(p) / 2 - 1
        c = mp.mpf(kappa) ** nu * mp.exp(kappa)
        c /= 2**nu * mp.gamma(mp.mpf(p) / 2) * mp.besseli(nu, kappa)
        exact = float(mp.log(c))
    assert routes.vmf_by_angle(p, kappa) == pytest.approx(exact, rel=1e-11)
    assert float(bounds.bayes_capacity_vmf(p, kappa)) == pytest.approx(exact, rel=1e-11)


def test_sampling_routes_agree_with_the_closed_forms():
    rng = np.random.default_rng(8)
    cases = [
        (
            routes.gaussian_by_sampling(rng, (4,), 0.3, (1.0,), 50_000),
            bounds.bayes_capacity_gaussian(4, 0.3, 1.0),
        ),
        (
            routes.gaussian_by_sampling(rng, (3, 1), 0.3, (1.0, 2.0), 50_000),
            bounds.bayes_capacity_gaussian((3, 1), 0.3, (1.0, 2.0)).sum(),
        ),
        (routes.vmf_by_sampling(rng, 20, 5.0, 50_000), bounds.bayes_capacity_vmf(20, 5.0)),
        (routes.vmf_by_uniform_sampling(rng, 20, 5.0, 50_000), bounds.bayes_capacity_vmf(20, 5.0)),
    ]
    for (value, error), exact in cases:
        assert error < 0.01
        assert abs(value - float(exact)) < 4.5 * error


# --- the layers and the square law -------------------------------------------------------------


def test_the_papers_layers():
    assert routes.LAYER_SIZES == (12_800, 750, 150)
    assert sum(routes.LAYER_SIZES) == federated.DIMENSION == 13_700


@pytest.mark.parametrize("s", [0.2, 0.5, 1.2])
def test_the_square_law_in_many_dimensions(s):
    gaps = []
    for p in (10_000, 1_000_000):
        gauss = float(bounds.bayes_capacity_gaussian(p, s, 1.0))
        vmf = float(bounds.bayes_capacity_vmf(p, math.sqrt(p) / (2 * s)))
        assert gauss == pytest.approx(
            math.sqrt(p) / s - 1 / (4 * s * s), abs=3 / math.sqrt(p) / s**3
        )
        gaps.append(abs(gauss - 2 * vmf))
    assert gaps[1] < gaps[0] / 5


def test_averaging_is_a_change_of_unit():
    s = np.array([0.2, 1.0])
    np.testing.assert_allclose(
        bounds.bayes_capacity_gaussian(500, s / 64, 1.3),
        bounds.bayes_capacity_gaussian(500, s, 64 * 1.3),
        rtol=1e-12,
    )


def test_number_of_batches():
    assert math.exp(paper_size.log_batches(6, 2)) == pytest.approx(15)
    assert paper_size.log_batches() == pytest.approx(911.73, abs=0.01)


# --- the exhibits' parts ------------------------------------------------------------------------


def test_maps_reach_what_they_should():
    rng = np.random.default_rng(3)
    for onto in (True, False):
        matrix = random_channels.random_map(rng, 7, 4, onto=onto)
        np.testing.assert_array_equal(matrix.sum(axis=1), np.ones(7))
        assert np.count_nonzero(matrix.sum(axis=0)) == (4 if onto else 3)


def test_rounded_outputs_tend_to_the_interval_and_to_nothing():
    exact = float(bounds.bayes_capacity_gaussian(1, 0.5, 1.0))
    assert lem3.rounded_outputs(0.5, 1e-3) == pytest.approx(exact, abs=1e-6)
    assert lem3.rounded_outputs(0.5, 50.0) == pytest.approx(0.0, abs=1e-12)


def test_finitely_many_gradients():
    table = thm4.finite_gradients((2, 5000), 0.1)
    first, last = table.iloc[0], table.iloc[1]
    away = np.linalg.norm(np.diff(thm4.sunflower(2), axis=0))
    two = math.log(1 + math.erf(away / 2 / 0.1 / math.sqrt(2)))
    assert first["log capacity"] == pytest.approx(two, abs=1e-4)
    assert last["log capacity"] < last["ball"]
    assert last["log capacity"] == pytest.approx(last["ball"], abs=0.05)


def test_discordant_pairs():
    table = pd.DataFrame(
        {"g": [1.0, 3.0], "v": [2.0, 2.0], "Gaussian": [10.0, 11.0], "VMF": [1.0, 2.0]}
    )
    # of the four pairs the two with the smaller epsilon for the Gaussian are against the order
    assert fig5.discordant(table, "g", "v") == 0.5


# --- what the verdicts notice --------------------------------------------------------------------


def status_of(exhibit: str) -> str:
    """The status of a small run."""
    study = Study(overrides={exhibit: {"samples": 10_000}})
    return worst_statuses(find_exhibit(exhibit).file.measure(study))[exhibit]


def test_a_wrong_closed_form_is_seen(monkeypatch):
    right = bounds.bayes_capacity_vmf
    monkeypatch.setattr(bounds, "bayes_capacity_vmf", lambda p, k: right(p, k) * (1 + 1e-7))
    assert status_of("biswas2024/thm6") == "failed"


def test_a_wrong_domain_is_seen(monkeypatch):
    right = bounds.bayes_capacity_gaussian
    monkeypatch.setattr(
        bounds, "bayes_capacity_gaussian", lambda p, s, r: right(p, s, np.multiply(r, 1.01))
    )
    assert status_of("biswas2024/thm5") == "failed"

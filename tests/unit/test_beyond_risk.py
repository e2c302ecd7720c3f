"""The certified success of any attack against two routes that share no code with it."""

from __future__ import annotations

import numpy as np
import pytest

from companion.papers.beyond.independent_success import (
    success_by_inversion,
    success_in_closed_form,
    two_steps_by_quadrature,
)
from reconrisk import DPSGD, bounds


@pytest.mark.parametrize("run", [DPSGD(2.05, 1.0, 100), DPSGD(0.5, 0.01, 1)])
def test_the_closed_form_lies_in_the_enclosure(run):
    for kappa in (0.5, 1e-4, 1e-12):
        lower, upper = bounds.rero_curve(run, kappa, tolerance=1e-6)
        assert lower <= success_in_closed_form(run, kappa) <= upper


@pytest.mark.parametrize(
    ("sigma", "q", "level"), [(0.8, 0.3, 0.5), (0.8, 0.3, 3.0), (0.3, 0.05, 2.0), (0.3, 0.05, 12.0)]
)
def test_two_steps_lie_in_the_enclosure(sigma, q, level):
    kappa, gamma = two_steps_by_quadrature(sigma, q, level)
    lower, upper = bounds.rero_curve(DPSGD(sigma, q, 2), float(kappa), tolerance=1e-6)
    assert lower <= gamma <= upper
    assert upper - lower <= 1e-6 * upper


@pytest.mark.parametrize(
    ("sigma", "q", "steps", "kappa", "gamma"),
    [
        (2.512, 0.02, 1000, 0.1, 0.154302602275),
        (1.0, 0.01, 10_000, 1e-4, 0.00830654032626),
        (5.0, 0.02, 100_000, 0.1, 0.498242249325),
    ],
)
def test_inversion_lies_in_the_enclosure(sigma, q, steps, kappa, gamma):
    run = DPSGD(sigma, q, steps)
    found = success_by_inversion(run, kappa)
    assert found == pytest.approx(gamma, rel=1e-9)
    lower, upper = bounds.rero_curve(run, kappa, tolerance=1e-6)
    assert lower <= found <= upper
    assert upper - lower <= 1e-6 * upper


def test_curve_lies_between_prior_and_full_batch_and_rises():
    kappa = np.geomspace(1e-12, 0.5, 25)
    for run in (DPSGD(0.9874, 0.02, 1000), DPSGD(0.2807, 0.01, 100)):
        lower, upper = bounds.rero_curve(run, kappa)
        full = bounds.rero_gaussian(run.noise_multiplier, kappa, steps=run.steps)
        assert (lower > kappa).all()
        assert (upper <= full * (1 + 1e-12)).all()
        assert (np.diff(upper) > 0).all()
        # the record may never have taken part
        assert (upper <= 1 - (1 - kappa) * (1 - run.sampling_rate) ** run.steps + 1e-3).all()

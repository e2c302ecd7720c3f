"""Extreme arguments of the doors of privacy and bounds: a number, or one error in plain words."""

import math
import warnings

import pytest

from reconrisk import DPSGD, bounds, privacy

EXTREME = [0.0, -1.0, 1e-320, 1e-300, math.inf, math.nan, 10**400, "x", None]
DOORS = {
    "noise": lambda v: privacy.epsilon(DPSGD(v), 1e-5),
    "noise, sampled": lambda v: bounds.rero(DPSGD(v, 0.1, 3), 0.1),
    "rate": lambda v: privacy.delta(DPSGD(1.0, v, 1), 1.0),
    "steps": lambda v: privacy.epsilon(DPSGD(1.0, 1.0, v), 1e-5),
    "delta": lambda v: privacy.epsilon(DPSGD(1.0), v),
    "epsilon": lambda v: privacy.delta(DPSGD(1.0, 0.1, 1), v),
    "target": lambda v: privacy.noise_for_epsilon(v, 1e-5),
    "success": lambda v: privacy.noise_for_success(v, 0.1),
    "fixed, noise": lambda v: privacy.epsilon(privacy.SampledRun(v, 0.1, 3, "fixed"), 1e-5),
    "fixed, rate": lambda v: privacy.delta(privacy.SampledRun(1.0, v, 3, "fixed"), 1.0),
    "shuffled, rate": lambda v: privacy.SampledRun(1.0, v, 3, "shuffle").batches,
    "allocation": lambda v: privacy.Allocation(1.0, v),
    "Laplace": lambda v: privacy.epsilon([privacy.Laplace(v)], 1e-5),
    "pure": lambda v: bounds.ApproximateDP(v).success(-1.0),
    "pure, prior": lambda v: bounds.ApproximateDP(1.0).success(v),
    "pure, delta": lambda v: bounds.ApproximateDP(1.0, 1e-6).epsilon(v),
    "pure, epsilon": lambda v: bounds.ApproximateDP(1.0, 1e-6).delta(v),
    "concentrated": lambda v: bounds.ZeroConcentratedDP(v).success(-1.0),
    "concentrated, prior": lambda v: bounds.ZeroConcentratedDP(1.0).success(v),
    "audit": lambda v: privacy.audit_gaussian(1, v),
    "claim": lambda v: bounds.audit_claim(DPSGD(v), 1, 1),
    "tuning": lambda v: privacy.tuned_epsilon(DPSGD(v, 0.1), 1e-5, 3, "geometric"),
}


@pytest.mark.parametrize("value", EXTREME, ids=lambda v: repr(v)[:9])
@pytest.mark.parametrize("door", DOORS)
def test_extreme_arguments_have_a_number_or_an_error_that_names_them(door, value):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            found = DOORS[door](value)
        except (TypeError, ValueError) as error:
            assert " must " in str(error)
        else:
            assert "nan" not in repr(found)


def test_whole_numbers_may_be_floats():
    run = DPSGD(1.0, 0.1, 10)
    assert bounds.rero_monte_carlo(run, 0.1, 1e3, 0) == bounds.rero_monte_carlo(run, 0.1, 1000, 0)
    for encoder in (privacy.tree_encoder, privacy.square_root_encoder):
        assert (encoder(8.0) == encoder(8)).all()


@pytest.mark.parametrize(("noise", "epsilon", "log_delta"), [
    (1.0, 1e160, -math.inf), (1e-80, 1e10, 0.0), (1.0, 1e60, -0.5e120), (math.inf, 0.0, -math.inf),
])  # fmt: skip
def test_the_gaussian_profile_far_out(noise, epsilon, log_delta):
    assert privacy.log_delta_gaussian(noise, epsilon) == pytest.approx(log_delta)

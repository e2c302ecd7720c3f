"""The names that others may rely on come with an example that runs (`make test` runs them all)."""

from __future__ import annotations

import doctest

import pytest

import reconrisk
from reconrisk import bounds, mechanisms, metrics, privacy, risk, special

PUBLIC_FACE = [
    reconrisk.DPSGD,
    reconrisk.Enclosure,
    bounds.rero,
    bounds.rero_monte_carlo,
    bounds.mse_tail,
    bounds.psnr_tail,
    bounds.ncc_tail,
    bounds.bayes_capacity_gaussian,
    bounds.bayes_capacity_vmf,
    privacy.epsilon,
    privacy.delta,
    privacy.noise_for_epsilon,
    privacy.noise_for_success,
    privacy.vmf_renyi,
    privacy.vmf_epsilon,
    mechanisms.sample_vmf,
    special.log_iv,
    metrics.mse,
    metrics.psnr,
    metrics.ncc,
    risk.assess,
    risk.least_noise,
    risk.training_run,
    risk.from_opacus,
    risk.from_dp_event,
    risk.from_guarantee,
]


@pytest.mark.parametrize("thing", PUBLIC_FACE, ids=lambda thing: thing.__qualname__)
def test_it_has_an_example_with_an_output(thing) -> None:
    examples = doctest.DocTestParser().get_examples(thing.__doc__)
    assert any(example.want for example in examples)
    assert "Examples\n" in thing.__doc__


def test_nearly_all_bounds_have_one() -> None:
    named = [getattr(bounds, name) for name in bounds.__all__]
    functions = [f for f in named if callable(f) and not isinstance(f, type)]
    with_one = [f for f in functions if "Examples\n" in (f.__doc__ or "")]
    assert len(with_one) >= 0.9 * len(functions), len(with_one) / len(functions)

"""Figures 1, 6, 8 and 12 of Hayes et al.: what is refused early, and the clipped linear error."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy import integrate, stats

from reconrisk.study import Study
from reconrisk.study.experiments.hayes2023_gradients import _projected


@pytest.mark.parametrize("spread", [1e-3, 0.3, 50.0])
def test_error_of_a_clipped_pixel_is_the_integral(spread):
    def squared_error(noise: float) -> float:
        off = np.clip(0.2 + noise, 0, 1) - 0.2
        return float(off**2 * stats.norm.pdf(noise, scale=spread))

    far = 40 * spread
    bends = [-far, max(-0.2, -far), 0.0, min(0.8, far), far]
    expected = sum(integrate.quad(squared_error, *ends)[0] for ends in itertools.pairwise(bends))
    found = _projected(np.array([0.2]), np.array([spread**2]))
    assert found == pytest.approx(expected, rel=1e-6)


def test_endless_noise_clips_every_pixel_to_one_end():
    record = np.array([0.0, 0.2, 1.0])
    expected = np.mean((record**2 + (1 - record) ** 2) / 2)
    assert _projected(record, np.full(3, math.inf)) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(
    ("exhibit", "given", "message"),
    [
        ("fig1", {"epsilons": [10, 1e5]}, "epsilons must contain 1000, where hayes2023/fig1 is"),
        ("fig1", {"colour_epsilons": [10, 1e3]}, "colour_epsilons must contain 10000, 100000"),
        ("fig1", {"model_epsilons": [1e3, 1e5]}, "model_epsilons must start at 10 or below"),
        ("fig6", {"colour_epsilons": [1e4]}, "colour_epsilons must contain 10, where"),
        ("fig8", {"epsilons": [1, 1e3]}, "epsilons must contain one from 10 to 100"),
    ],
)
def test_epsilons_without_those_judged_are_refused_before_anything_is_attacked(
    exhibit, given, message
):
    exhibit = f"hayes2023/{exhibit}"
    with pytest.raises(ValueError, match=message):
        Study(overrides={exhibit: given}).run(exhibit)

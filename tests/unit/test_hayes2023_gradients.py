"""Figures 1, 6, 8 and 12 of Hayes et al.: what is refused early, and the clipped linear error."""

from __future__ import annotations

import itertools
import math
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import integrate, stats

from reconrisk.attacks import baselines
from companion.study import Study
from companion.papers.hayes2023.old_gradients import _projected, _told_from_one


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


def test_labels_of_those_mistaken_for_the_target_are_told_pair_by_pair():
    draws = np.random.default_rng(3)
    images, labels = draws.random((40, 5)), draws.integers(3, size=40)
    pool, rebuilt = draws.permutation(40)[:30], draws.random((8, 5))
    targets = images[pool[:8]]
    attacked = SimpleNamespace(
        images=SimpleNamespace(inputs=images, labels=labels),
        pool=pool,
        others=29,
        targets=targets,
        rebuilt=rebuilt[None],
        nearer=baselines.nearer_records(rebuilt, targets, images[pool])[None],
        epsilons=np.array([1.0]),
    )
    farther: dict[bool, list[bool]] = {True: [], False: []}
    for k, other in itertools.product(range(8), range(30)):
        if other != k:
            own, far = (np.linalg.norm(rebuilt[k] - images[pool[i]]) for i in (k, other))
            farther[labels[pool[other]] == labels[pool[k]]].append(far > own)
    told = _told_from_one(attacked)
    assert f"same label {np.mean(farther[True]):.0%} of the time" in told
    assert f"another label {np.mean(farther[False]):.0%}" in told

"""Upper bounds of Liu et al.: fits of exponents, the tasks behind them, verdicts that can fail."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest

from companion.papers.liu2024 import (
    attack_sweeps,
    lemB2,
    lemB3,
    moment_distances,
    power_laws,
    propC12,
    step_changes,
    thmB1,
)
from companion.papers.liu2024 import tensor_errors as errors
from reconrisk import special
from reconrisk.two_layer import LocalSteps

BASE = {
    "base": 3,
    "activation": "relu_shifted",
    "dimension": 8,
    "width": 4096,
    "batch": 2,
    "labels": "random",
    "network": 0,
}


# Fits --------------------------------------------------------------------------------------------


def test_a_power_law_is_found_exactly():
    x = [1.0, 4.0, 16.0]
    law = power_laws.power_law(x, [np.array([3 * v**-0.5] * 2) for v in x])
    assert law.exponent == pytest.approx(-0.5, abs=1e-9)
    assert law.near(-0.5, 1e-6) and not law.near(-0.4, 0.05)


def test_intervals_hold_the_exponent_as_often_as_they_say():
    rng = np.random.default_rng(0)
    x = [1.0, 4.0, 16.0, 64.0]
    laws = [
        power_laws.power_law(x, [v**0.7 * np.exp(0.2 * rng.standard_normal(6)) for v in x])
        for _ in range(400)
    ]
    inside = np.mean([law.low <= 0.7 <= law.high for law in laws])
    assert 0.91 <= inside <= 1.0


def test_points_off_the_line_widen_the_interval():
    rng = np.random.default_rng(1)
    noise = [np.exp(0.01 * rng.standard_normal(5)) for _ in range(4)]
    straight = power_laws.power_law([1, 2, 4, 8], noise)
    bent = power_laws.power_law(
        [1, 2, 4, 8], [n * c for n, c in zip(noise, (1, 2, 1, 2), strict=True)]
    )
    assert bent.error > 10 * straight.error


@pytest.mark.parametrize(
    ("x", "values"),
    [
        ([1.0], [np.ones(3)]),
        ([1.0, 2.0], [np.ones(3), np.ones(1)]),
        ([1.0, 2.0], [np.ones(3), np.zeros(3)]),
        ([1.0, 2.0], [np.ones(3)]),
    ],
)
def test_a_fit_refuses_what_has_no_line(x, values):
    with np.errstate(divide="ignore"), pytest.raises(ValueError, match="x"):
        power_laws.power_law(x, values)


def test_only_points_in_the_regime_are_fitted():
    table = pd.DataFrame(
        {"width": np.repeat([1, 4, 16], 3), "error": np.repeat([1.4, 0.2, 0.1], 3), "point": 0}
    )
    table["point"] = table["width"]
    law = power_laws.fit_column(table, "width")
    assert law.exponent == pytest.approx(-0.5)
    with pytest.raises(ValueError, match="fewer than two points"):
        power_laws.fit_column(table, "width", regime=0.15)


def test_levels_are_fitted_network_by_network():
    rows = [
        {"network": k, "point": f"{x:g}", "level": x, "error": 0.01 * (k + 1) * x}
        for k in range(4)
        for x in (1.0, 2.0, 4.0)
    ]
    law = power_laws.fit_levels(pd.DataFrame(rows), "level")
    assert law.exponent == pytest.approx(1.0)
    assert law.high - law.low < 1e-9


# Problems and tasks ------------------------------------------------------------------------------


@pytest.mark.parametrize("overlap", [0.0, 0.5, 0.9])
def test_records_have_the_inner_products_asked_for(overlap):
    x = errors.draw_problem({**BASE, "batch": 3, "overlap": overlap}).inputs
    gram = overlap + (1 - overlap) * np.eye(3)
    assert x @ x.T == pytest.approx(gram, abs=1e-12)
    smallest = np.linalg.svd(x, compute_uv=False)[-1]
    assert smallest == pytest.approx(math.sqrt(1 - overlap), abs=1e-9)


def test_defences_meet_the_same_network_and_clipping_changes_nothing():
    defences = {
        "none": {},
        "clip": {"max_grad_norm": 1.0},
        "dropout": {"dropout": 0.5},
        "local": {"local": [2, 1.0 / 4096**2, 1.0]},
        "batches": {"local": [2, 1.0 / 4096**2, 1.0], "first": 0.5},
    }
    rows = {r["defence"]: r for r in errors.attack_task({**BASE, "defences": defences})}
    assert rows["clip"]["error"] == pytest.approx(rows["none"]["error"], rel=1e-4)
    assert rows["local"]["error"] == pytest.approx(rows["none"]["error"], rel=1e-2)
    assert rows["local"]["norm"] == pytest.approx(2 * rows["none"]["norm"], rel=1e-2)
    assert rows["batches"]["norm"] == pytest.approx(rows["none"]["norm"], rel=1e-2)
    assert rows["dropout"]["count"] == pytest.approx(2048, abs=200)
    assert rows["none"]["span"] <= rows["none"]["error"] + 1e-9


def test_bounds_of_known_proportions():
    defences = {
        "none": {},
        "local": {"local": [2, 0.0, 0.0]},
        "clip": {"max_grad_norm": 1.0},
        "pruned": {"pruned": 0.9},
    }
    rows = {r["defence"]: r for r in errors.bound_task({**BASE, "defences": defences})}
    # two steps that move nothing are the gradient twice
    assert rows["local"]["error"] == pytest.approx(rows["none"]["error"] / 2, rel=1e-9)
    assert all(r["loosened"] <= r["error"] for r in rows.values())
    assert rows["clip"]["error"] > rows["none"]["error"] * rows["none"]["norm"] * 0.999
    kept = rows["pruned"]["kept"]
    ratio = rows["pruned"]["loosened"] / rows["none"]["loosened"]
    assert 0 < kept < 1 and ratio == pytest.approx(kept**-0.5)


def test_moments_come_nearer_with_the_width_but_their_sums_do_not():
    narrow, wide = (moment_distances.moment_task({**BASE, "width": m}) for m in (2048, 131072))
    assert wide["matrix"] < narrow["matrix"] / 3
    assert wide["tensor"] < narrow["tensor"] / 2
    assert wide["total"] > 100 * wide["size"]


# Lemmas ------------------------------------------------------------------------------------------


def test_undisturbed_moments_give_the_records():
    task = {**BASE, "matrix": 0.0, "tensor": 0.0, "residual_ratio": 3.0, "overlap": 0.4, "batch": 3}
    found = thmB1.decomposition_task(task)
    assert found["error"] < 1e-6
    assert thmB1.decomposition_task({**task, "matrix": 0.05})["error"] > 1e-3


@pytest.mark.parametrize("name", ["elu", "relu", "relu_shifted", "gelu", "tanh", "leaky_relu"])
@pytest.mark.parametrize("order", [1, 2, 3, 4])
def test_stein_with_kinks(name, order):
    assert lemB3.derivative_mean(name, order) == pytest.approx(
        special.hermite_coefficient(name, order), abs=1e-10
    )


def test_the_second_moment_of_a_quadratic_form():
    exact, printed = propC12.square_moment([1.0, 0.0])
    assert exact == printed == 2.0
    exact, printed = propC12.square_moment([0.6, 0.8])
    w = np.random.default_rng(0).standard_normal((400_000, 2))
    a = np.array([0.6, 0.8])
    drawn = np.mean(((w @ a) ** 2 - 1) ** 2)
    assert exact == pytest.approx(2.0) and drawn == pytest.approx(2.0, abs=0.06)
    assert printed == pytest.approx(1 + 0.6**4 + 0.8**4)


def test_changes_of_a_step_against_a_plain_loop():
    task = {**BASE, "activation": "elu", "width": 1024, "overlap": 0.5, "labels": "equal"}
    found = step_changes.change_task(task)
    problem = errors.draw_problem(task)
    network, x, y = problem.network, problem.inputs, problem.labels
    (chunk,) = network.neurons()
    w, a, s = chunk.inner.astype(float), chunk.outer, network.function
    m = network.width
    r = 2 * (a @ s.value(w @ x.T) - y)
    moved_w = w - np.einsum("i,ji,id->jd", r, a[:, None] * s.slope(w @ x.T), x)
    moved_a = a - (s.value(w @ x.T) @ r) / m**2
    after = 2 * (moved_a @ s.value(moved_w @ x.T) - y)
    change = s.value(moved_w @ x.T) - s.value(w @ x.T)
    assert found["values"] == pytest.approx(np.abs(change).max())
    assert found["residuals"] == pytest.approx(np.abs(after - r).max())
    moments = np.einsum("ja,jb->jab", w, w) - np.eye(8)
    norms = [
        np.linalg.norm(np.einsum("j,jab->ab", after[i] * np.abs(change[:, i]), moments) / m, 2)
        for i in range(2)
    ]
    assert found["P values"] == pytest.approx(max(norms))


def test_a_random_mean_exceeds_the_deviation_of_lemma_b2_but_not_twice_that():
    task = {"law": "hermite", "dimension": 8, "count": 500, "trials": 60, "share": 1 / 16}
    found = lemB2.bernstein_task(task, 1)
    assert found["twice"] == 0.0 < found["exceeded"]
    assert found["bound"] == pytest.approx(math.sqrt(math.log(16) * (9 + 2 / 16) / 500))


def test_rates_that_move_the_weights_are_seen(monkeypatch):
    task = {**BASE, "activation": "elu", "width": 1024, "labels": "equal"}
    small = step_changes.change_task(task)["second"]
    monkeypatch.setattr(step_changes, "LocalSteps", lambda *_: LocalSteps(2, 1e-4, 1.0))
    assert step_changes.change_task(task)["second"] > 20 * small


# Made tables -------------------------------------------------------------------------------------


def law(exponent):
    return power_laws.PowerLaw(exponent, exponent - 0.01, exponent + 0.01, 0.005)


def test_a_law_survives_its_table():
    laws = {"none m": law(-0.5), "1/pi_min": law(2.0)}
    assert power_laws.laws_of(power_laws.listed(laws)) == laws


def test_defended_networks_are_held_against_themselves():
    sweep = pd.DataFrame(
        {
            "defence": ["none", "clip", "none", "clip"],
            "width": 4096,
            "network": [0, 0, 1, 1],
            "error": [1.0, 1.1, 2.0, 2.0],
            "norm": [3.0, 3.0, 4.0, 4.0],
        }
    )
    found = attack_sweeps.against_none(sweep, "clip")
    assert list(found["error without"]) == [1.0, 2.0]
    assert attack_sweeps.largest_change(found, "clip") == pytest.approx(math.log(1.1))


def test_every_exponent_is_fitted_over_its_own_factor(monkeypatch):
    """Sweeps whose errors are known powers of what moves in them."""
    over = {
        "width": ("width", {"none": -0.5, "clip": -0.4}),
        "clipped width": ("width", {"both": 0.1}),
        "pruned": ("width", {"0.9": 0.2}),
        "dimension": ("dimension", {"none": 0.5}),
    }

    def sweep(study, name):
        factor, powers = over[name]
        rows = [
            {"defence": defence, factor: x, "point": x, "network": k}
            | {"error": 1e-3 * (1 + 0.1 * k) * x**power}
            for defence, power in powers.items()
            for x in (8.0, 64.0)
            for k in range(2)
        ]
        return pd.DataFrame(rows)

    monkeypatch.setattr(attack_sweeps, "attack_sweep", sweep)
    expected = {"none m": -0.5, "clip m": -0.4, "both m": 0.1, "pruned 0.9 m": 0.2, "none d": 0.5}
    found = attack_sweeps.attack_laws(None, *expected)
    assert {k: v.exponent for k, v in found.items()} == pytest.approx(expected)
    with pytest.raises(ValueError, match="no exponent of 'x'"):
        attack_sweeps.attack_laws(None, "none x")

"""Upper bounds of Liu et al.: fits of exponents, the tasks behind them, verdicts that can fail."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest

from reconrisk import special
from companion.study.exhibits import find_exhibit
from companion.study.session import Context
from companion.papers.liu2024 import tensor_errors as errors
from companion.papers.liu2024 import tensor_lemmas as lemmas
from companion.papers.liu2024 import old_upper_bounds as upper
from companion.study.parameters import resolve
from companion.study.verdicts import VerdictError
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
    law = errors.power_law(x, [np.array([3 * v**-0.5] * 2) for v in x])
    assert law.exponent == pytest.approx(-0.5, abs=1e-9)
    assert law.factor == pytest.approx(3.0)
    assert law.points == 3
    assert law.near(-0.5, 1e-6) and not law.near(-0.4, 0.05)


def test_intervals_hold_the_exponent_as_often_as_they_say():
    rng = np.random.default_rng(0)
    x = [1.0, 4.0, 16.0, 64.0]
    laws = [
        errors.power_law(x, [v**0.7 * np.exp(0.2 * rng.standard_normal(6)) for v in x])
        for _ in range(400)
    ]
    inside = np.mean([law.low <= 0.7 <= law.high for law in laws])
    assert 0.91 <= inside <= 1.0


def test_points_off_the_line_widen_the_interval():
    rng = np.random.default_rng(1)
    noise = [np.exp(0.01 * rng.standard_normal(5)) for _ in range(4)]
    straight = errors.power_law([1, 2, 4, 8], noise)
    bent = errors.power_law([1, 2, 4, 8], [n * c for n, c in zip(noise, (1, 2, 1, 2), strict=True)])
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
        errors.power_law(x, values)


def test_only_points_in_the_regime_are_fitted():
    table = pd.DataFrame(
        {"width": np.repeat([1, 4, 16], 3), "error": np.repeat([1.4, 0.2, 0.1], 3), "point": 0}
    )
    table["point"] = table["width"]
    law = errors.fit_column(table, "width")
    assert law.points == 2
    assert law.exponent == pytest.approx(-0.5)
    with pytest.raises(ValueError, match="fewer than two points"):
        errors.fit_column(table, "width", regime=0.15)


def test_levels_are_fitted_network_by_network():
    rows = [
        {"network": k, "point": f"{x:g}", "level": x, "error": 0.01 * (k + 1) * x}
        for k in range(4)
        for x in (1.0, 2.0, 4.0)
    ]
    law = errors.fit_levels(pd.DataFrame(rows), "level")
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
    rows = {r["defence"]: r for r in errors.attack_task({**BASE, "defences": defences}, 0)}
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
    rows = {r["defence"]: r for r in errors.bound_task({**BASE, "defences": defences}, 0)}
    # two steps that move nothing are the gradient twice
    assert rows["local"]["error"] == pytest.approx(rows["none"]["error"] / 2, rel=1e-9)
    assert all(r["loosened"] <= r["error"] for r in rows.values())
    assert rows["clip"]["error"] > rows["none"]["error"] * rows["none"]["norm"] * 0.999
    kept = rows["pruned"]["kept"]
    ratio = rows["pruned"]["loosened"] / rows["none"]["loosened"]
    assert 0 < kept < 1 and ratio == pytest.approx(kept**-0.5)


def test_moments_come_nearer_with_the_width_but_their_sums_do_not():
    narrow, wide = (errors.moment_task({**BASE, "width": m}, 0) for m in (2048, 131072))
    assert wide["matrix"] < narrow["matrix"] / 3
    assert wide["tensor"] < narrow["tensor"] / 2
    assert wide["total"] > 100 * wide["size"]


# Lemmas ------------------------------------------------------------------------------------------


def test_undisturbed_moments_give_the_records():
    task = {**BASE, "matrix": 0.0, "tensor": 0.0, "residual_ratio": 3.0, "overlap": 0.4, "batch": 3}
    found = lemmas.decomposition_task(task, 0)
    assert found["error"] < 1e-6
    assert lemmas.decomposition_task({**task, "matrix": 0.05}, 0)["error"] > 1e-3


@pytest.mark.parametrize("name", ["elu", "relu", "relu_shifted", "gelu", "tanh", "leaky_relu"])
@pytest.mark.parametrize("order", [1, 2, 3, 4])
def test_stein_with_kinks(name, order):
    assert lemmas.derivative_mean(name, order) == pytest.approx(
        special.hermite_coefficient(name, order), abs=1e-10
    )


def test_the_second_moment_of_a_quadratic_form():
    exact, printed = lemmas.square_moment([1.0, 0.0])
    assert exact == printed == 2.0
    exact, printed = lemmas.square_moment([0.6, 0.8])
    w = np.random.default_rng(0).standard_normal((400_000, 2))
    a = np.array([0.6, 0.8])
    drawn = np.mean(((w @ a) ** 2 - 1) ** 2)
    assert exact == pytest.approx(2.0) and drawn == pytest.approx(2.0, abs=0.06)
    assert printed == pytest.approx(1 + 0.6**4 + 0.8**4)


def test_changes_of_a_step_against_a_plain_loop():
    task = {**BASE, "activation": "elu", "width": 1024, "overlap": 0.5, "labels": "equal"}
    found = lemmas.change_task(task, 0)
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
    found = lemmas.bernstein_task(task, 1)
    assert found["twice"] == 0.0 < found["exceeded"]
    assert found["bound"] == pytest.approx(math.sqrt(math.log(16) * (9 + 2 / 16) / 500))


# Verdicts ----------------------------------------------------------------------------------------


def entry(exponent, paper=-0.5, **more):
    law = errors.PowerLaw(exponent, exponent - 0.01, exponent + 0.01, 0.005, 1.0, 4)
    return upper._Entry("B" if more else "m", law, paper, **more)


def test_words_of_a_cell():
    assert upper._words([entry(-0.48)]) == "agrees"
    assert upper._words([entry(-0.2)]) == "differs"
    assert upper._words([entry(0.5, 1.0, at_most=True)]) == "agrees, not tight in B"
    assert upper._words([entry(1.3, 1.0, at_most=True)]) == "differs"
    assert upper._words([entry(0.01, 0.0, none=True)]) == "none, indeed"


def run(name, **overrides):
    known = find_exhibit(f"liu2024/{name}")
    settings = resolve(known.id, known.parameters, "quick", overrides)
    return known.run(Context(known.id, settings))


@pytest.mark.parametrize("name", ["thmB1", "lemB3"])
def test_cheap_exhibits_hold(name):
    assert run(name).status == "reproduced"


def test_local_lemmas_hold_with_few_networks():
    few = {"networks": 2, "widths": [2048, 16384], "dimensions": [8, 16], "batches": [2, 4]}
    assert run("lemC5", **few).status == "reproduced"
    assert run("corC6", **few).status == "reproduced"


def test_a_wrong_moment_is_seen(monkeypatch):
    monkeypatch.setattr(upper, "square_moment", lambda a: (1.0625, 1.0625))
    with pytest.raises(VerdictError, match="E-E-16"):
        upper._fourth_moment()


def test_rates_that_move_the_weights_are_seen(monkeypatch):
    task = {**BASE, "activation": "elu", "width": 1024, "labels": "equal"}
    small = lemmas.change_task(task, 0)["second"]
    monkeypatch.setattr(lemmas, "LocalSteps", lambda *_: LocalSteps(2, 1e-4, 1.0))
    assert lemmas.change_task(task, 0)["second"] > 20 * small

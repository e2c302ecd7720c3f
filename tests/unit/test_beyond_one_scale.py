"""One scale for all notions: the parts against other routes, and what makes its verdicts fail."""

from __future__ import annotations

import functools
import math

import numpy as np
import pandas as pd
import pytest
import torch

from companion.experiments.informed_adversary import preferred_candidates, scene_of, train_targets
from companion.papers.beyond import one_scale
from companion.papers.beyond.defended_records import read_first_layer
from companion.papers.beyond.guesses import Guesses
from companion.papers.beyond.informed_adversary import attack_run, fit_record
from companion.papers.beyond.record_gradient import clipped_gradient
from companion.study import Study
from made_tables import made
from reconrisk import DPSGD, bounds
from reconrisk.attacks import linearised_variance
from reconrisk.models import Classifier
from reconrisk.training import gradient_factors

GUESSES = Guesses(mean=0.28, neighbour=0.2, threshold=0.01, kappa=0.02)


def weights_of(seed, count=3, dimension=6):
    generator = torch.Generator().manual_seed(seed)
    one = [Classifier(dimension, 4, 3).initialise(generator, torch.float64) for _ in range(count)]
    return {name: torch.stack([w[name] for w in one]) for name in one[0]}


# Verdicts ----------------------------------------------------------------------------------------


@functools.cache
def scale_tables():
    sigma = np.array([0.1, 1.0, 10.0])
    flat = dict.fromkeys(
        ("prior-aware error", "prior-aware, sum error", "RMSE error", "analytic RMSE error",
         "analytic near error", "least squares over bound error"), 0.01
    )  # fmt: skip
    notions = pd.DataFrame(
        {
            "sigma": sigma,
            "epsilon": [100.0, 2.0, 0.1],
            "log capacity": [50.0, 20.0, 3.0],
            "ReRo": [1.0, 0.5, 0.15],
            "ReRo of a near miss": [1.0, 0.3, 0.03],
            "prior-aware": [0.99, 0.45, 0.12],
            "prior-aware, sum": [0.9, 0.4, 0.12],
            "RMSE": [0.05, 0.15, 0.5],
            "near": [0.9, 0.2, 0.0],
            "near, surely": [0.7, 0.1, 0.0],
            "analytic RMSE": 0.2 * sigma,
            "analytic, expected": 0.2 * sigma,
            "analytic near": [1.0, 0.2, 0.0],
            "analytic near, exact": [1.0, 0.2, 0.0],
            "prior-free tail": [1.0, 0.3, 0.0],
            "Cramer-Rao": [0.02, 0.2, 2.0],
            "least squares": [0.02, 0.2, 2.0],
            "least squares over bound": [1.0, 0.8, 0.7],
            **flat,
        }
    )
    defences = pd.DataFrame(
        {
            "defence": ["none", "clipping", "local aggregation, 5 steps", "pruning 0.5"],
            "right candidate": 1.0,
            "values read": [1.0, 1.0, 1.0, 0.6],
            "largest error of those": 1e-12,
            "RMSE": [1e-12, 1e-12, 1e-12, 0.1],
            "Cramer-Rao": [0.0, 0.0, 0.0, math.inf],
        }
    )
    curves = one_scale.bound_curves(
        made(one_scale, {}).parameters, notions["sigma"], 760, GUESSES, 64, 2.0
    )
    thresholds = one_scale.thresholds(
        made(one_scale, {}).parameters, notions, 760, GUESSES, 64, 2.0
    )
    guesses = {"guess": ["mean image", "nearest neighbour"], "RMSE": [0.28, 0.2]}
    return made(
        one_scale,
        {
            "notions": notions,
            "curves": curves,
            "thresholds": thresholds,
            "defences": defences,
            "guesses": guesses,
        },
    )


def test_pictures_of_one_scale():
    tables = scale_tables()
    assert "no error for none, clipping, local aggregation, 5 steps" in one_scale.alt(tables)
    assert len(one_scale.draw(tables).axes) == 6


def test_thresholds_are_where_the_curves_say():
    tables = scale_tables()
    sigma, curves = tables["thresholds"].set_index("notion")["sigma"], tables["curves"]
    assert (curves.drop(columns="sigma").diff().dropna() <= 1e-12).all().all()
    at = np.interp(math.log(sigma["ReRo, near miss"]), np.log(curves["sigma"]),
                   curves["ReRo of a near miss"])  # fmt: skip
    assert at == pytest.approx(GUESSES.kappa + one_scale.NONE, abs=0.01)
    own = float(bounds.rero_gaussian(sigma["ReRo, candidates"], 1 / 8, steps=20))
    assert own == pytest.approx(1 / 8 + one_scale.NONE, abs=1e-6)
    assert sigma["epsilon = 1"] > sigma["epsilon = 10"] > sigma["ReRo, near miss"] * 0.01


def test_crossings():
    sigma, values = pd.Series([0.1, 1.0, 10.0]), pd.Series([0.0, 1.0, 2.0])
    assert one_scale.crossing(sigma, values, 0.5) == pytest.approx(math.sqrt(0.1))
    # outside of what was run: the nearest level
    assert one_scale.crossing(sigma, values, 3.0) == pytest.approx(10.0)
    assert one_scale.crossing(sigma, values, -1.0) == pytest.approx(0.1)


# The informed adversary --------------------------------------------------------------------------


def small_task(epsilon=1e5):
    small = {
        "known": 30, "pool": 50, "targets": 8, "ranked": 12, "fitted": 4, "steps": 3,
        "epsilons": (epsilon,), "iterations": 60,
    }  # fmt: skip
    study = Study(seed=1, overrides={"beyond/one_scale": small}).context("beyond/one_scale")
    return one_scale.run_tasks(study)[0]


def test_a_task_without_noise_to_speak_of_finds_its_records():
    task = small_task()
    found = attack_run(task)
    assert np.shape(found["mse"]) == (8,) and np.shape(found["error"]) == (4, 64)
    assert (found["above likelihood"] == 0).all()
    assert np.mean(np.square(found["error"])) < 10 * np.mean(found["bound"])


def test_candidates_preferred_are_counted_without_the_target():
    scene = scene_of(small_task(epsilon=1.0))
    found = preferred_candidates(scene, train_targets(scene)[0])
    floor = found.pop("list floor")
    assert floor.shape == (12,) and (floor > 0).all()
    assert set(found) == {"above sum", "above likelihood"}
    for above in found.values():
        assert above.shape == (12,) and ((above >= 0) & (above < 50)).all()


def test_the_gradient_against_the_library_and_against_autograd():
    weights = weights_of(0)
    generator = torch.Generator().manual_seed(5)
    record, label = torch.rand(6, generator=generator, dtype=torch.float64), torch.tensor(2)
    found = clipped_gradient(weights, record, label)
    squares = sum(g.flatten(1).square().sum(dim=1) for g in found.values())
    factors = gradient_factors(weights, record[None], label[None])
    assert torch.allclose(squares, factors.squared_norms()[:, 0])

    def loss(w):
        hidden = torch.nn.functional.elu(w["hidden.weight"] @ record + w["hidden.bias"])
        logits = w["output.weight"] @ hidden + w["output.bias"]
        return torch.nn.functional.cross_entropy(logits[None], label[None])

    expected = torch.func.grad(loss)({name: w[1] for name, w in weights.items()})
    for name, g in found.items():
        assert torch.allclose(g[1], expected[name])
    clipped = clipped_gradient(weights, record, label, 0.01)
    norms = sum(g.flatten(1).square().sum(dim=1) for g in clipped.values()).sqrt()
    assert torch.allclose(norms, torch.full((3,), 0.01, dtype=torch.float64))


def test_least_squares_finds_the_record_and_scatters_as_the_bound_says():
    weights = weights_of(1)
    generator = torch.Generator().manual_seed(6)
    record, label = torch.rand(6, generator=generator, dtype=torch.float64), torch.tensor(1)
    clean = clipped_gradient(weights, record, label, 0.1)
    start = record.numpy() + 0.05
    exact = fit_record(weights, clean, label, 0.1, start)
    assert exact == pytest.approx(record.numpy(), abs=1e-7)
    run = DPSGD(1e-3, steps=3, max_grad_norm=0.1)
    stacked = {name: w[:, None] for name, w in weights.items()}
    variance = linearised_variance(stacked, record[None], label[None], run)[0].numpy()
    errors = []
    for _ in range(25):
        noisy = {
            name: g + 1e-4 * torch.randn(g.shape, generator=generator, dtype=torch.float64)
            for name, g in clean.items()
        }
        errors.append(fit_record(weights, noisy, label, 0.1, start) - record.numpy())
    ratio = np.mean(np.square(errors) / variance)
    assert 0.5 < ratio < 1.7


def test_the_first_layer_is_read_where_it_is_visible():
    weights = {name: w[:1] for name, w in weights_of(2).items()}
    record = torch.tensor([0.0, 0.2, 0.9, 0.5, 0.0, 1.0], dtype=torch.float64)
    found = clipped_gradient(weights, record, torch.tensor(0))
    gradient = {name: g[0] for name, g in found.items()}
    whole, read, limit = read_first_layer(gradient)
    assert whole == pytest.approx(record.numpy()) and read.all() and np.isinf(limit).all()
    size = {name: g.abs() for name, g in gradient.items()}
    cut = 0.3 * float(size["hidden.bias"].max())
    visible = {name: s >= cut for name, s in size.items()}
    kept = {name: torch.where(visible[name], g, 0.0 * g) for name, g in gradient.items()}
    some, read, limit = read_first_layer(kept, visible, pruned=True)
    assert 0 < read.sum() < 6
    assert some[read] == pytest.approx(record.numpy()[read])
    assert (np.abs(record.numpy()[~read]) <= limit[~read]).all()
    nothing = {name: torch.zeros_like(v) for name, v in visible.items()}
    _, read, limit = read_first_layer(kept, nothing, pruned=True)
    assert not read.any() and np.isinf(limit).all()

"""One scale for all notions: the parts against other routes, and what makes its verdict fail."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from companion.papers.beyond import old_one_scale as ours
from companion.study import Study
from companion.study.verdicts import VerdictError
from reconrisk import DPSGD
from reconrisk.attacks import linearised_variance
from reconrisk.models import Classifier
from reconrisk.training import gradient_factors

SMALL = {
    "beyond/one_scale": {
        "known": 60, "pool": 60, "targets": 8, "ranked": 40, "fitted": 4, "steps": 5,
        "epsilons": (1.0, 50.0, 1e5), "iterations": 120, "analytic_repeats": 20,
    }
}  # fmt: skip


@pytest.fixture(scope="module")
def small():
    return Study(seed=1, overrides=SMALL).run("beyond/one_scale")


def weights_of(seed, count=3, dimension=6):
    generator = torch.Generator().manual_seed(seed)
    one = [Classifier(dimension, 4, 3).initialise(generator, torch.float64) for _ in range(count)]
    return {name: torch.stack([w[name] for w in one]) for name in one[0]}


def test_a_small_run_settles_what_it_declares(small):
    assert small.status == "reproduced"
    for table in small.tables.values():
        assert not table.isna().to_numpy().any()
    defences = small.tables["defences"].set_index("defence")
    assert defences.loc["none", "values read"] == 1
    assert defences.loc["pruning 0.9", "RMSE"] > defences.loc["pruning 0.5", "RMSE"] > 0
    assert (small.tables["curves"].drop(columns="sigma").diff().dropna() <= 1e-12).all().all()


def test_thresholds_are_where_the_curves_say(small):
    found = small.tables["thresholds"].set_index("notion")["sigma"]
    curves = small.tables["curves"]
    level = 1 / 8 + ours.NONE
    at = np.interp(math.log(found["ReRo, candidates"]), np.log(curves["sigma"]), curves["ReRo"])
    assert at == pytest.approx(level, abs=0.01)
    assert found["epsilon = 1"] > found["epsilon = 10"] > found["ReRo, near miss"] * 0.01


@pytest.mark.parametrize(
    ("column", "factor"),
    [
        ("ReRo", 0.3),
        ("ReRo of a near miss", 0.0),
        ("log capacity", 0.0),
        ("analytic, expected", 1.5),
        ("analytic near, exact", 0.5),
        ("least squares over bound", 0.3),
    ],
)
def test_a_wrong_bound_is_seen(small, column, factor):
    table = small.tables["notions"].copy()
    table.attrs = {"guess": 1 / 8, "delta": 1e-5, "parameters": 760}
    assert ours._bounds_verdict(table, True).status == "holds on stand-in data"
    table[column] *= factor
    with pytest.raises(VerdictError):
        ours._bounds_verdict(table, True)


def test_the_gradient_against_the_library_and_against_autograd():
    weights = weights_of(0)
    generator = torch.Generator().manual_seed(5)
    record, label = torch.rand(6, generator=generator, dtype=torch.float64), torch.tensor(2)
    found = ours.clipped_gradient(weights, record, label)
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
    clipped = ours.clipped_gradient(weights, record, label, 0.01)
    norms = sum(g.flatten(1).square().sum(dim=1) for g in clipped.values()).sqrt()
    assert torch.allclose(norms, torch.full((3,), 0.01, dtype=torch.float64))


def test_least_squares_finds_the_record_and_scatters_as_the_bound_says():
    weights = weights_of(1)
    generator = torch.Generator().manual_seed(6)
    record, label = torch.rand(6, generator=generator, dtype=torch.float64), torch.tensor(1)
    clean = ours.clipped_gradient(weights, record, label, 0.1)
    start = record.numpy() + 0.05
    exact = ours.fit_record(weights, clean, label, 0.1, start)
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
        errors.append(ours.fit_record(weights, noisy, label, 0.1, start) - record.numpy())
    ratio = np.mean(np.square(errors) / variance)
    assert 0.5 < ratio < 1.7


def test_the_first_layer_is_read_where_it_is_visible():
    weights = {name: w[:1] for name, w in weights_of(2).items()}
    record = torch.tensor([0.0, 0.2, 0.9, 0.5, 0.0, 1.0], dtype=torch.float64)
    found = ours.clipped_gradient(weights, record, torch.tensor(0))
    gradient = {name: g[0] for name, g in found.items()}
    whole, read, limit = ours.read_first_layer(gradient)
    assert whole == pytest.approx(record.numpy()) and read.all() and np.isinf(limit).all()
    size = {name: g.abs() for name, g in gradient.items()}
    cut = 0.3 * float(size["hidden.bias"].max())
    visible = {name: s >= cut for name, s in size.items()}
    kept = {name: torch.where(visible[name], g, 0.0 * g) for name, g in gradient.items()}
    some, read, limit = ours.read_first_layer(kept, visible, pruned=True)
    assert 0 < read.sum() < 6
    assert some[read] == pytest.approx(record.numpy()[read])
    assert (np.abs(record.numpy()[~read]) <= limit[~read]).all()
    nothing = {name: torch.zeros_like(v) for name, v in visible.items()}
    _, read, limit = ours.read_first_layer(kept, nothing, pruned=True)
    assert not read.any() and np.isinf(limit).all()


def test_crossings():
    import pandas as pd

    sigma, values = pd.Series([0.1, 1.0, 10.0]), pd.Series([0.0, 1.0, 2.0])
    assert ours._crossing(sigma, values, 0.5) == pytest.approx(math.sqrt(0.1))
    # outside of what was run: the nearest level
    assert ours._crossing(sigma, values, 3.0) == pytest.approx(10.0)
    assert ours._crossing(sigma, values, -1.0) == pytest.approx(0.1)

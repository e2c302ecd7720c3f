"""The grid of attacks: what its cells hold, that they are shared, and that nothing else decides."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from companion.experiments import client_grid
from companion.experiments.client_grid import (
    ATTACKS,
    GRID,
    Grid,
    all_settings,
    baselines,
    network_of,
    originals,
    rebuild_pictures,
    run_grid,
)
from companion.experiments.clients import Setting, draw_batches, pictures, printed_settings
from companion.study import Context, Study, find_exhibit, session
from companion.study.parameters import resolve
from companion.study.running import stand_ins

SMALL = {"images": 4, "wide": 40, "trained_neurons": 8, "channels": 4, "iterations": 8, "bins": 32}
NONE, CLIP = Setting("None"), Setting("GradClip", 2)
PRUNED, NOISY = Setting("GradPrune", 0.9), Setting("GradNoise", 0.01)


@pytest.fixture
def context() -> Context:
    return Context("liu2024/table4", resolve("liu2024/table4", GRID, "quick", SMALL))


@pytest.fixture(autouse=True)
def _forget():
    session._FINISHED.clear()
    yield
    session._FINISHED.clear()


def test_the_settings_are_those_of_the_three_tables():
    found = all_settings()
    assert len(found) == len(set(found)) == 19
    assert found[0] == NONE
    for table in ("table4", "table7", "table8"):
        assert set(printed_settings(table)) <= set(found)


def test_every_attack_has_a_row_for_each_picture_and_all_share_the_gradient(context):
    errors = run_grid(context, ATTACKS, [NONE, PRUNED], [2, 4])
    assert len(errors) == 2 * 2 * len(ATTACKS) * 4
    assert np.isfinite(errors["RMSE"]).all() and (errors["RMSE"] <= 1).all()
    exact = errors["RMSE"] == 0
    np.testing.assert_allclose(
        errors["PSNR"][~exact], -20 * np.log10(errors["RMSE"][~exact]), rtol=1e-9
    )
    # the imprint module is another network than the one that is inverted
    one = errors[errors["attack"].isin(("Ours", "w/o FM", "GradientInversion", "CPA"))]
    norms = one.groupby(["batch size", "batch"])["gradient norm"].nunique()
    assert (norms == 1).all()
    assert (errors[errors["setting"] == "None"]["relative noise"] == 0).all()
    assert (errors[errors["setting"] == PRUNED.title]["relative noise"] > 0).all()


def test_a_cell_does_not_depend_on_what_else_is_asked_for_and_is_computed_once(
    context, monkeypatch
):
    alone = run_grid(context, ["GradientInversion"], [PRUNED], [4])
    monkeypatch.setattr(client_grid, "attack_network", None)  # would fail if called
    again = run_grid(context, ["GradientInversion"], [NONE, PRUNED, CLIP], [4])
    mine = again[again["setting"] == PRUNED.title].reset_index(drop=True)
    assert mine.equals(alone)


def test_the_same_seed_gives_the_same_and_another_other_pictures(context):
    first = run_grid(context, ["w/o FM"], [NOISY], [2])
    session._FINISHED.clear()
    assert run_grid(context, ["w/o FM"], [NOISY], [2]).equals(first)
    other = replace(context, seed=1)
    assert not run_grid(other, ["w/o FM"], [NOISY], [2])["RMSE"].equals(first["RMSE"])
    # which exhibit asks makes no difference
    assert Grid.of(replace(context, exhibit="beyond/aware_attackers")) == Grid.of(context)


def test_settings_in_tasks_of_their_own_agree_up_to_rounding(context):
    whole = Grid.of(context)
    apart = replace(whole, grouped=1)
    one, other = (
        run_grid(context, ["GradientInversion"], [CLIP], [2], grid=grid) for grid in (whole, apart)
    )
    np.testing.assert_allclose(one["RMSE"], other["RMSE"], atol=1e-3)


def test_the_networks_that_attacks_search_differ_in_nothing_but_what_enters(context, monkeypatch):
    searched = []

    def seen(attack):
        def spy(*args, **given):
            searched.append(given["space"])
            return attack(*args, **given)

        return spy

    for name in ("proposed_attack", "component_attack"):
        monkeypatch.setattr(client_grid, name, seen(getattr(client_grid, name)))
    grid = replace(Grid.of(context), space="untrained network", iterations=2, grouped=1)
    run_grid(context, ["Ours", "w/o FM", "CPA"], [NONE], [2], grid=grid)
    ours, *others = searched
    assert ours.features.shape == (1, 2, network_of(grid).wide.in_features)
    assert len(others) == 2
    for other in others:
        assert torch.equal(ours.features, other.features)
        assert torch.equal(ours.noise, other.noise)
        pairs = zip(ours.network.parameters(), other.network.parameters(), strict=True)
        assert all(torch.equal(a, b) for a, b in pairs)


def test_a_space_that_is_none_is_refused(context):
    with pytest.raises(ValueError, match="space must be one of pixels, untrained network; got 'x'"):
        replace(Grid.of(context), space="x")


def test_awareness_changes_nothing_where_nothing_shows(context):
    same = run_grid(context, ["GradientInversion"], [NONE, CLIP, NOISY], [2], aware=(False, True))
    sides = [same[same["aware"] == side]["RMSE"].to_numpy() for side in (False, True)]
    assert (sides[0] == sides[1]).all()
    shows = [PRUNED, Setting("GradDrop", 0.5), Setting("LocalAggregation", 3)]
    both = run_grid(context, ["GradientInversion"], shows, [2], aware=(False, True))
    for setting in shows:
        cell = both[both["setting"] == setting.title]
        sides = [cell[cell["aware"] == side]["RMSE"].to_numpy() for side in (False, True)]
        assert not np.array_equal(*sides)


def test_relative_noise_is_the_noise_over_the_gradient(context):
    errors = run_grid(context, ["GradientInversion"], [NOISY], [4])
    network = network_of(Grid.of(context))
    expected = 0.01 * math.sqrt(network.parameter_count) / errors["gradient norm"]
    np.testing.assert_allclose(errors["relative noise"], expected, rtol=0.1)


def test_one_record_is_exact_by_the_analytic_attack_and_by_imprints(context):
    errors = run_grid(context, ["Analytic", "Robbing The Fed"], [NONE, CLIP], [1])
    assert errors["RMSE"].max() < 1e-3


def test_pictures_and_baselines(context):
    grid = Grid.of(context)
    shown = rebuild_pictures(context, "GradientInversion", NONE, 4)
    truth = originals(grid, 4)[0]
    assert shown.shape == truth.shape == (4, 8, 8, 3)
    errors = run_grid(context, ["GradientInversion"], [NONE], [4])
    ours = np.sqrt(np.square(shown - truth).mean(axis=(1, 2, 3)))
    np.testing.assert_allclose(ours, errors["RMSE"], atol=1e-3)
    found = baselines(grid).set_index(["attack", "number"])["RMSE"]
    grey = np.sqrt(np.square(truth - 0.5).mean(axis=(1, 2, 3)))
    np.testing.assert_allclose(found["grey"], grey, rtol=1e-5)
    mean = pictures("patches", "", 8)[0].mean(dim=0).permute(1, 2, 0).numpy()
    expected = np.sqrt(np.square(truth - mean).mean(axis=(1, 2, 3)))
    np.testing.assert_allclose(found["mean image"], expected, rtol=1e-4)


def test_what_is_not_of_the_grid_is_refused(context):
    with pytest.raises(ValueError, match="must be of the grid"):
        run_grid(context, ["Guessing"], [NONE], [2])
    with pytest.raises(ValueError, match="must be of the grid"):
        run_grid(context, ["Ours"], [Setting("GradClip", 3)], [2])


@pytest.mark.parametrize(
    ("exhibit", "smaller"),
    [
        ("liu2024/table2", {"side": 16, "channels": 16}),
        ("liu2024/table4", {"side": 16, "network": "ConvNet", "channels": 16, "wide": 256}),
        ("liu2024/table5", {"trained_network": "ConvNet", "trained_side": 16, "trained_wide": 64}),
        ("liu2024/table6", {"network": "ConvNet", "wide": 256}),
    ],
)
def test_only_the_papers_pictures_and_network_are_the_papers(exhibit, smaller):
    def taking_its_place(**other) -> tuple[str, ...]:
        study = Study("paper", overrides={exhibit: other})
        return stand_ins(find_exhibit(exhibit), study.context(exhibit))

    assert taking_its_place() == taking_its_place(data="CIFAR-10") == ()
    for name, value in (smaller | {"data": "patches"}).items():
        assert taking_its_place(**{name: value}) == (f"{name} = {value}",)


def test_labels_differ_within_a_batch_and_classes_are_drawn_evenly():
    """Also where a round of the ten classes ends within a batch: 8 does not divide 10."""
    images, labels = torch.zeros(200, 3, 8, 8), torch.arange(200) % 10
    for size in (2, 3, 4, 8, 10):
        for seed in range(20):
            rng = np.random.default_rng(seed)
            drawn = draw_batches(images, labels, 100 // size, size, rng).labels
            assert all(len(set(batch)) == size for batch in drawn.tolist())
            counts = torch.bincount(drawn.flatten(), minlength=10)
            assert counts.max() - counts.min() <= 1

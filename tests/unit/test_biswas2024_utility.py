"""Facts about Biswas et al. 2024, Algorithms 1 and 2, Figure 2 and Table V, and equal epsilon."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pandas as pd
import pytest
import torch

from companion import study
from companion.experiments import federated as federated
from companion.experiments import utility_runs as runs
from companion.papers.biswas2024 import algorithm_lines as lines
from companion.papers.biswas2024 import old_utility as utility
from companion.study.verdicts import VerdictError
from reconrisk.training import Release

PAIRS = [federated.studied_pairs()[k] for k in (0, 7)]


def _context(exhibit: str = "biswas2024/fig2", seed: int = 0, **given):
    return study.Study(seed=seed, overrides={exhibit: given} if given else {}).context(exhibit)


def _batch(size: int = 12, seed: int = 0) -> lines.Batch:
    pictures = federated.standardised("digits")
    generator = torch.Generator().manual_seed(seed)
    return lines.draw_batch(pictures.inputs, pictures.labels, size, generator)


# The lines ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [0, 1])
def test_every_line_holds(seed):
    generator = torch.Generator().manual_seed(seed)
    batch = _batch(seed=seed)
    first = lines.algorithm1_lines(batch, 1.23, 0.05, generator, 1e-6)
    second = lines.algorithm2_lines(batch, 400.0, 100, generator, 1e-6)
    assert all(line.holds for line in first + second)
    table = lines.as_table(first)
    assert list(table["line"]) == ["4", "5-6", "7", "8-10", "12"]


def test_lines_see_noise_of_the_wrong_size(monkeypatch):
    def too_much(batch, release, generator, times=1):
        if release.kind == "gaussian":
            release = dataclasses.replace(release, noise=1.02 * release.noise)
        if release.kind == "vmf":
            release = Release("vmf", release.noise / 20)
        return original(batch, release, generator, times)

    original = lines._released
    monkeypatch.setattr(lines, "_released", too_much)
    generator = torch.Generator().manual_seed(0)
    first = lines.algorithm1_lines(_batch(), 1.23, 0.05, generator, 1e-6)
    assert [line.line for line in first if not line.holds] == ["8-10"]
    second = lines.algorithm2_lines(_batch(), 4000.0, 100, generator, 1e-6)
    assert [line.does for line in second if not line.holds] == ["turn by VMF(kappa): angle"]


def test_layers_clipped_one_by_one_reach_further():
    by_layer, whole = lines.record_reach(_batch(), 0.01)
    assert by_layer == pytest.approx(math.sqrt(3), rel=1e-12)
    assert whole == pytest.approx(1, rel=1e-12)
    by_layer, whole = lines.record_reach(_batch(), 1e6)  # nothing is clipped
    assert by_layer == pytest.approx(whole) and by_layer < 1


def test_the_law_of_the_cosine_has_the_moments_of_its_closed_form():
    from reconrisk import privacy

    law = lines._cosine_law(400.0)
    t = np.linspace(-0.1, 0.2, 100_001)
    mean = float((0.5 * (t[1:] + t[:-1]) * np.diff(law(t))).sum())
    expected = float(privacy.vmf_mean_cosine(federated.DIMENSION, 400.0))
    assert mean == pytest.approx(expected, rel=1e-5)


# Runs --------------------------------------------------------------------------------------------


def test_a_task_is_trained_once_and_every_seed_differs(monkeypatch):
    context = _context(epochs=1)
    task = runs.training_task(context, "digits", 128, 0, PAIRS)
    table = runs.trained(context, [task])
    assert list(table["mechanism"]) == ["Gaussian"] * 2 + ["VMF"] * 2 + ["none"]
    assert list(table["label"]) == [75, 400, 75, 400, 0]

    def refused(*args, **more):
        raise AssertionError("trained again")

    monkeypatch.setattr(runs, "train_mini_batches", refused)
    pd.testing.assert_frame_equal(runs.trained(context, [task]), table)
    other = [
        runs.training_task(context, "digits", 128, 1, PAIRS),
        runs.training_task(context, "digits", 64, 0, PAIRS),
        runs.training_task(_context(seed=1, epochs=1), "digits", 128, 0, PAIRS),
    ]
    assert len({t["train_seed"] for t in [task, *other]}) == 4
    # readings are compared on the same first weights and batches
    reading = runs.training_task(context, "digits", 128, 0, PAIRS, reading="no decay")
    assert reading["train_seed"] == task["train_seed"]


def test_decay_in_the_gradient_leaves_networks_guessing():
    context = _context(epochs=15)
    tasks = [
        runs.training_task(context, "digits", 128, 0, PAIRS[1:], reading=name)
        for name in (runs.AS_READ, "decay 0.1 in the gradient")
    ]
    table = runs.trained(context, tasks)
    best = table.groupby("reading")["accuracy"].max()
    assert best["decay 0.1 in the gradient"] < 0.2 < 0.6 < best[runs.AS_READ]


def test_averages_pool_the_spread_of_a_mechanisms_runs():
    rows = pd.DataFrame(
        {
            "data": "digits",
            "batch_size": 128,
            "mechanism": "VMF",
            "label": [75.0, 75.0, 100.0, 100.0],
            "accuracy": [0.1, 0.3, 0.5, 0.5],
        }
    )
    table = runs.averaged(rows)
    np.testing.assert_allclose(table["mean"], [0.2, 0.5])
    np.testing.assert_allclose(table["sd"], 0.1)  # of variances 0.02 and 0
    np.testing.assert_allclose(table["error"], 0.1 / math.sqrt(2))


def test_the_papers_data_need_a_folder():
    context = _context()
    with pytest.raises(FileNotFoundError, match="data_root"):
        runs.training_task(context, "MNIST", 128, 0, PAIRS)


# Printed numbers ---------------------------------------------------------------------------------


def test_table_5_is_read_whole():
    table = runs.printed_accuracies()
    assert len(table) == 2 * 2 * 8 * 4
    assert table["printed"].between(0.1, 1).all()
    assert utility._printed_gaps("MNIST") == pytest.approx(
        [0.5359, 0.4698, 0.3684, 0.3052, 0.2532, 0.2151, 0.1868, 0.1624]
    )
    assert utility._printed_protection() == {"SSIM": (64, 64), "MSE": (63, 64)}


def test_verdicts_on_printed_numbers_can_fail(monkeypatch):
    assert utility._rises_first().status == "refuted"
    assert utility._missing_point().status == "refuted"
    monkeypatch.setattr(utility, "_printed_gaps", lambda *_: np.linspace(0.5, 0.1, 8))
    with pytest.raises(VerdictError, match="E-D-22"):
        utility._rises_first()


def _gaps(shift: float) -> pd.DataFrame:
    return pd.DataFrame(
        {"data": "digits", "batch_size": 128, "gap": 0.2 + shift, "error": 0.02}, index=range(8)
    )


def test_a_significant_crossing_is_seen():
    gaps = _gaps(0.0)
    assert utility._gaussian_ahead(gaps) and utility._behind(gaps) == 0
    gaps.loc[3, "gap"] = -0.07
    assert not utility._gaussian_ahead(gaps) and utility._behind(gaps) == 1
    assert not utility._gaussian_ahead(_gaps(-0.2))


def test_epsilons_of_a_pair_change_with_the_batch_size():
    table = utility._epsilons(PAIRS[:1], (16, 128))
    assert list(table["steps"]) == [11250, 1407]
    printed = table.iloc[1]["VMF, the paper's way"]
    assert 0.97 * 0.49 < printed < 0.49  # Table I, whose grid is coarse
    assert utility._one_epsilon_a_row(table).status == "refuted"
    same = table.assign(**{c: 1.0 for c in table.columns if "VMF" in c or "Gaussian" in c})
    with pytest.raises(VerdictError, match="E-D-06"):
        utility._one_epsilon_a_row(same)

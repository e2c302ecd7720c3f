"""Facts about Hayes et al. 2023, Figures 2, 7, 9, 10 and 13."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from companion import figures, study
from reconrisk import datasets
from companion.papers.hayes2023 import old_threat as threat
from companion.study.verdicts import VerdictError

KEY = "hayes2023"
SMALL = {"steps": 5, "known": 60, "pool": 60, "shared_trials": 300, "trajectories": 2, "trials": 40}


def run(exhibit: str, seed: int = 0, **overrides):
    exhibit = f"{KEY}/{exhibit}"
    given = {exhibit: {**SMALL, **overrides}}
    return study.Study(seed=seed, overrides=given).run(exhibit)


def task(exhibit: str = "fig9", epsilon: float = 10.0, method: str = "own model", **given):
    context = study.Study(overrides={f"{KEY}/{exhibit}": SMALL}).context(f"{KEY}/{exhibit}")
    return threat._attack_task(context, epsilon, method, **given)


# The parts ---------------------------------------------------------------------------------------


def test_noise_is_as_far_apart_as_the_data_in_the_mean_square():
    records = torch.as_tensor(datasets.classified("digits").inputs)
    noise, labels = threat.noise_prior(records, 10, torch.Generator().manual_seed(0))
    assert noise.shape == records.shape and set(labels.tolist()) == set(range(10))

    def mean_squared_distance(x: torch.Tensor) -> float:
        return float(torch.cdist(x[:700].double(), x[700:1400].double()).square().mean())

    assert mean_squared_distance(noise) == pytest.approx(mean_squared_distance(records), rel=0.01)
    # the noise stays within the pixels' range, so that nobody can call it out of range
    assert noise.min() >= 0 and noise.max() <= 1
    assert float(noise.mean()) == pytest.approx(0.5, abs=0.005)


def test_intervals_cover_and_hold_the_trajectories_spread():
    right = np.arange(200) % 5 == 0
    share, low, high = threat.interval(right)
    assert share == 0.2 and low < 0.2 < high
    assert high - low == pytest.approx(2 * 1.96 * math.sqrt(0.2 * 0.8 / 200), rel=0.1)
    # two runs that disagree: Student's interval of two numbers, 12.7 standard errors a side
    runs = np.repeat([True, False, False, False], [60, 40, 40, 60])
    share, low, high = threat.interval(runs, 2)
    assert (share, low, high) == (0.3, 0.0, 1.0)
    assert threat.interval(np.ones(10, dtype=bool))[1:] == (pytest.approx(0.692, abs=1e-3), 1.0)


def test_points_that_agree_by_chance_keep_the_error_of_their_trials():
    row = {"success": 0.5, "low": 0.5, "high": 0.5, "trials": 100}
    assert threat._error(row) == pytest.approx(0.05)
    assert threat._error({**row, "success": 1.0, "low": 1.0, "high": 1.0}) > 0.009
    assert threat._error({"success": 0.5, "low": 0.4, "high": 0.6}) == pytest.approx(0.2 / 3.92)


def test_conditions_that_are_compared_share_records_and_draws():
    with_it, without = (task(subtract=s) for s in (True, False))
    assert with_it["record_seed"] == without["record_seed"]
    assert with_it["draw_seed"] == without["draw_seed"]
    assert task(epsilon=1.0)["draw_seed"] != with_it["draw_seed"]
    assert task(method="shared")["draw_seed"] != with_it["draw_seed"]


def test_known_records_and_candidates_are_distinct():
    given = task()
    inputs, labels = threat._records(given)
    known, pool = threat._split(given, inputs, labels, torch.Generator().manual_seed(1))
    assert len(known) == 60 and len(pool) == 60
    assert len({*known.tolist(), *pool.tolist()}) == 120
    with pytest.raises(ValueError, match="must hold at least 100010 records"):
        threat._split({**given, "known": 100_000}, inputs, labels, torch.Generator())


def test_without_noise_every_target_is_named_and_with_much_noise_hardly_any():
    clear = task(epsilon=1e4, known=20)
    hidden = task(epsilon=1e-3, known=20)
    rows = {name: threat.attack_point({**t, "steps": 20}, 0) for name, t in
            (("clear", clear), ("hidden", hidden))}  # fmt: skip
    likelihood = {name: r[1]["success"] for name, r in rows.items()}
    assert [r[0]["score"] for r in rows.values()] == ["sum", "sum"]
    assert likelihood["clear"] > 0.95
    assert likelihood["hidden"] < 0.4


def test_gained_and_lost_account_for_the_difference_of_the_scores():
    plain, likely = threat.attack_point(
        {**task("fig13", epsilon=40.0), "max_grad_norm": 1.0, "learning_rate": 5.0, "steps": 60}, 0
    )
    difference = (likely["success"] - plain["success"]) * SMALL["trials"]
    assert likely["gained"] - likely["lost"] == pytest.approx(difference, abs=1e-9)


def test_clipped_norms_are_c_where_everything_is_clipped():
    context = study.Study(overrides={f"{KEY}/fig13": SMALL}).context(f"{KEY}/fig13")
    common = {"epsilon": 10.0, "purpose": "training", "models": 2, "learning_rate": 1.0}
    small, large = (
        threat.measure_training(threat._task(context, max_grad_norm=c, **common), 0)
        for c in (1e-3, 1e3)
    )
    assert small["clipped"] == 1 and small["mean norm"] == pytest.approx(1e-3, rel=1e-5)
    assert large["clipped"] == 0 and 0 < large["mean norm"] < 1e3
    assert 0 <= small["accuracy"] <= 1


def test_theory_has_the_known_values_at_epsilon_ten():
    row = threat._theory([10.0], 100, 10).iloc[0]
    assert row["noise multiplier"] == pytest.approx(4.9988862, rel=1e-6)
    assert row["bound"] == pytest.approx(0.763897, abs=1e-6)
    assert row["RDP bound"] == pytest.approx(0.989468, abs=1e-6)
    assert row["orthogonal"] == pytest.approx(0.673783, abs=1e-6)
    assert row["simplex"] == pytest.approx(0.706308, abs=1e-6)


# The exhibits ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def width():
    return run("fig7", widths=[3, 5], epsilons=[1.0, 10.0], widest_epsilons=[10.0])


def test_widths_are_counted_and_the_printed_counts_refuted(width):
    verdicts = {v.target: v for v in width.verdicts}
    assert verdicts["C-037"].status == "reproduced"
    assert verdicts["E-C-12"].status == "refuted"
    assert verdicts["C-038"].ours == "7,960, 79,510, 795,010"


def test_the_result_is_that_of_the_seed(width):
    again = run("fig7", widths=[3, 5], epsilons=[1.0, 10.0], widest_epsilons=[10.0])
    assert again.tables["success"].equals(width.tables["success"])
    assert again.as_dict() == width.as_dict()


def test_every_figure_is_drawn(width):
    figure = figures.draw(width)
    assert [a.get_xlabel() for a in figure.axes] == [r"$\varepsilon$"]


def test_a_larger_width_effect_than_allowed_is_noticed(monkeypatch):
    def lopsided(task, seed):
        rows = honest(task, seed)
        for row in rows:
            row["success"] = 0.5 if task["width"] == 3 else 0.7
        return rows

    honest = threat.attack_point
    monkeypatch.setattr(threat, "attack_point", lopsided)
    monkeypatch.setattr(threat, "_never_above", lambda *_: True)
    monkeypatch.setattr(
        threat, "run_sweep", lambda function, tasks, **_: [function(t, 0) for t in tasks]
    )
    with pytest.raises(VerdictError, match="hardly depends on the width"):
        run("fig7", widths=[3, 5], epsilons=[10.0], widest_epsilons=[10.0])


def test_an_attack_above_the_bound_is_noticed():
    points = threat._theory([1.0], 100, 10).set_index("epsilon", drop=False)
    import pandas as pd

    good = pd.DataFrame(
        [{"epsilon": 1.0, "success": 0.15, "low": 0.14, "high": 0.16, "trials": 9999}]
    )
    assert threat._never_above(good, points)
    assert not threat._never_above(good.assign(success=0.2, low=0.19, high=0.21), points)


def test_accuracies_are_judged_only_with_the_pretrained_network():
    import pandas as pd

    printed = {1.0: 0.6188, 10.0: 0.8909, 100.0: 0.9127, math.nan: 0.9391}
    training = pd.DataFrame(
        [{"epsilon": e, "accuracy": a - 0.01, "learning_rate": 1.0} for e, a in printed.items()]
    )

    def features(stand_in: bool) -> datasets.LabelledFeatures:
        return datasets.LabelledFeatures(np.zeros((2, 3)), np.zeros(2, int), "a map", stand_in)

    statuses = [v.status for v in threat._figure2_accuracy(training, features(True))]
    assert statuses == ["not run here"] * 2
    real = threat._figure2_accuracy(training, features(False))
    assert [v.status for v in real] == ["reproduced"] * 2
    worse = training.assign(accuracy=training["accuracy"] - 0.05)
    with pytest.raises(VerdictError, match="C-020"):
        threat._figure2_accuracy(worse, features(False))


def test_the_rdp_bound_is_judged_only_at_the_printed_epsilons():
    points = threat._theory([1.0, 10.0, 100.0], 100, 10).set_index("epsilon", drop=False)
    assert [v.status for v in threat._figure2_bounds(points)] == ["refuted"] * 2
    assert [v.status for v in threat._figure2_bounds(points.loc[[1.0]])] == ["not run here"] * 2


def test_reconstructions_of_a_fine_tuned_layer_are_named_without_noise():
    context = study.Study(
        overrides={f"{KEY}/fig2": {**SMALL, "side": 8, "features": 192, "known": 40, "pool": 30}}
    ).context(f"{KEY}/fig2")
    common = {
        "width": 0, "max_grad_norm": 1.0, "learning_rate": 1.0, "targets": 3, "iterations": 60,
        "purpose": "gradient-based",
    }  # fmt: skip
    clear = threat.rebuild_point(threat._task(context, epsilon=1e8, **common), 0)
    hidden = threat.rebuild_point(threat._task(context, epsilon=0.1, **common), 0)
    assert clear["MSE"] < hidden["MSE"]
    assert clear["success"] > 0.7
    assert 0 <= hidden["low"] <= hidden["success"] <= hidden["high"] <= 1
    with pytest.raises(ValueError, match="targets must be at most 30"):
        threat.rebuild_point(threat._task(context, epsilon=1.0, **{**common, "targets": 31}), 0)

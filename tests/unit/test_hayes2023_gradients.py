"""Hayes et al., Figures 1, 6, 8 and 12 and their attacks: their parts, verdicts and pictures."""

from __future__ import annotations

import dataclasses
import itertools
import math
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from altered_tables import add_to, altered, recorded, worst_statuses
from companion.papers.hayes2023 import (
    alg_gradient_based,
    fig1,
    fig6,
    fig8,
    fig12,
    gradient_reconstructions,
)
from companion.papers.hayes2023.gradient_reconstructions import stands_in
from companion.study import Study, Tables
from companion.study.registry import project_root
from reconrisk.attacks import nearer_records

KEY = "hayes2023"

# The parts ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("exhibit", "given", "message"),
    [
        ("fig1", {"epsilons": [10, 1e5]}, "epsilons must contain 1000, where hayes2023/fig1 is"),
        ("fig1", {"colour_epsilons": [10, 1e3]}, "colour_epsilons must contain 10000, 100000"),
        ("fig1", {"model_epsilons": [1e3, 1e5]}, "model_epsilons must start at 10 or below"),
        ("fig6", {"colour_epsilons": [1e4]}, "colour_epsilons must contain 10, 1000, where"),
        ("fig8", {"epsilons": [1, 1e3]}, "epsilons must contain one from 10 to 100"),
    ],
)
def test_epsilons_without_those_judged_are_refused_before_anything_is_attacked(
    exhibit, given, message
):
    exhibit = f"{KEY}/{exhibit}"
    with pytest.raises(ValueError, match=message):
        Study(overrides={exhibit: given}).run(exhibit)


@pytest.mark.parametrize("profile", ["quick", "paper"])
@pytest.mark.parametrize("exhibit", [fig1, fig6, fig12], ids=["fig1", "fig6", "fig12"])
def test_no_profile_refuses_its_own_epsilons(monkeypatch, exhibit, profile):
    """Every check before the attack passes on the profile's values; the attack reads the data."""

    class Reached(Exception):
        pass

    def attacked(study):
        raise Reached

    monkeypatch.setattr(gradient_reconstructions, "attacked_both", attacked)
    context = Study(profile=profile).context(f"{KEY}/{exhibit.__name__.rpartition('.')[2]}")
    with pytest.raises(Reached):
        exhibit.measure.__wrapped__(context)


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
        nearer=nearer_records(rebuilt, targets, images[pool])[None],
        epsilons=np.array([1.0]),
    )
    farther: dict[bool, list[bool]] = {True: [], False: []}
    for k, other in itertools.product(range(8), range(30)):
        if other != k:
            own, far = (np.linalg.norm(rebuilt[k] - images[pool[i]]) for i in (k, other))
            farther[labels[pool[other]] == labels[pool[k]]].append(far > own)
    (shares,) = fig8.compare_labels(attacked).to_dict("records")
    expected = {"same label": np.mean(farther[True]), "another label": np.mean(farther[False])}
    assert shares == pytest.approx({"epsilon": 1.0, **expected})


def test_the_attack_passes_a_level_between_two_epsilons():
    errors = pd.Series({10.0: 0.1, 100.0: 0.12, 1000.0: 0.01})  # a rise is no step back
    assert fig1.crossing_epsilon(errors, math.sqrt(0.1 * 0.01)) == pytest.approx(
        math.sqrt(100 * 1000)
    )


def test_a_data_set_stands_in_by_itself_a_network_for_the_colour_images():
    tables = recorded(f"{KEY}/fig1")
    assert tables.stand_in
    assert not stands_in(tables, "grey") and stands_in(tables, "colour")
    assert stands_in(Tables({}, stand_ins=("grey = digits",)), "grey")
    assert not stands_in(Tables({}, stand_ins=("grey = digits",)), "colour")


# The verdicts ------------------------------------------------------------------------------------


def test_panels_have_stand_ins_of_their_own():
    found = worst_statuses(recorded(f"{KEY}/fig6"))
    assert found[f"{KEY}/fig6a"] == found["C-003"] == "reproduced"
    assert found[f"{KEY}/fig6b"] == "not decided"
    assert worst_statuses(recorded(f"{KEY}/fig1"))["C-005"] == "reproduced"


def test_what_a_stand_ins_features_bring_about_by_themselves_is_not_decided():
    told = gradient_reconstructions.discount_stand_in
    recorded_run = recorded(f"{KEY}/fig6")

    def through(*names: str) -> Tables:
        places = [f"{name} in place of the pretrained network" for name in names]
        return dataclasses.replace(recorded_run, stand_ins=tuple(places))

    injective, fewer = through("3072 random convolutional features"), through("640 features of X")
    assert told(injective, "colour", True) is None
    assert told(injective, "colour", False) is False  # it would fail in spite of the map
    assert told(fewer, "colour", True) is True  # it would succeed in spite of the map
    assert told(fewer, "colour", False) is told(fewer, "colour", None) is None
    for held in (True, False, None):
        assert told(through(), "colour", held) is told(fewer, "grey", held) is held


def test_figure_12_decides_nothing_of_images_of_which_none_fits():
    tables = recorded(f"{KEY}/fig12")
    nearer = tables["nearer"].set_index("data")

    def statuses(which: str, share: float) -> list[str]:
        table = nearer.assign(
            **{fit: nearer[fit].where(nearer.index != which, share) for fit in nearer}
        )
        frames = dict(tables.frames) | {"nearer": table.reset_index()}
        found = worst_statuses(dataclasses.replace(tables, frames=frames))
        return [found[target] for target in (f"{KEY}/fig12c", f"{KEY}/fig12d", "C-049")]

    assert statuses("colour", math.nan)[1:] == ["not decided", "not decided"]
    assert statuses("grey", math.nan)[0] == statuses("grey", math.nan)[2] == "not decided"


def test_the_puzzle_of_figure_1_is_told_with_the_records_numbers():
    script = project_root() / "notebooks" / KEY / "03_without_candidates.py"
    text = " ".join(script.read_text(encoding="utf-8").replace("\n# ", " ").split())
    errors = recorded(f"{KEY}/alg_gradient_based")["errors"].query("epsilon == 1000")
    squared = errors.set_index("loss")["mean"]["squared distance"]
    assert f"the likelihood's own loss, leaves {squared:.3f}, and" in text
    attack = recorded(f"{KEY}/fig1")["attack"].query("data == 'grey'").set_index("epsilon")
    assert f"equation (1) leaves {attack.loc[1000.0, 'MSE']:.3f} at" in text
    mean = recorded(f"{KEY}/fig1")["baselines"].set_index("data").loc["grey", "mean image"]
    assert 0.5 < attack.loc[10.0, "list floor"] / mean < 1
    assert attack.loc[10.0, "MSE"] > 2 * mean > attack.loc[100.0, "MSE"] > mean
    assert attack.loc[100.0, "list floor"] < 0.1 * mean
    found = recorded(f"{KEY}/fig6")["found"].query("data == 'grey'").set_index("epsilon")
    nearest = 100 * found.loc[100.0, "target is nearest"]
    assert f"{nearest:.0f} in a hundred are nearest to their target" in text
    assert "all but five at" in text
    assert round(1000 * (1 - found.loc[1000.0, "target is nearest"])) == 5
    lines = recorded(f"{KEY}/fig1")["baselines"].set_index("data")
    assert f"the line itself, {lines.loc['grey', 'nearest neighbour']:.3f}." in text


def test_figure_1_is_told_with_the_records_numbers():
    tables = recorded(f"{KEY}/fig1")
    script = project_root() / "notebooks" / KEY / "03_without_candidates.py"
    text = " ".join(script.read_text(encoding="utf-8").replace("\n# ", " ").split())
    attack, models = (
        tables[name].set_index(["data", "epsilon"])[error]
        for name, error in (("attack", "MSE"), ("model-based", "model-based"))
    )
    lines = tables["baselines"].set_index("data")
    assert f"are {models['grey', 1e5] / attack['grey', 1e5]:.0f}-fold apart, two orders" in text
    assert max(models["grey", 1e5], attack["grey", 1e5]) < lines.loc["grey", "mean image"]
    assert "EfficientNet-lite0, neither does at any" in text
    mean, error = lines.loc["colour", "mean image"], tables["model-based"]["standard error"].max()
    assert attack["colour"].min() > mean and models["colour"].min() > mean - 2 * error
    crossing = fig1.crossing_epsilon(attack["grey"], lines.loc["grey", "nearest neighbour"])
    assert round(crossing, -2) == 1700 and "neighbours' near $1{,}700$" in text
    assert f"it is {attack['grey', 1e3]:.3f}, three quarters" in text
    assert f"the model-based one's {models['grey', 1e3]:.3f}." in text
    assert attack["grey", 1e3] / models["grey", 1e3] == pytest.approx(0.75, abs=0.02)


def test_the_best_loss_is_decided_where_a_reading_leads_every_other_loss_visibly():
    def status(shift: float, *rows: str) -> str:
        change = {"log ratio": add_to("mean", shift, *rows)}
        return worst_statuses(altered(recorded(f"{KEY}/alg_gradient_based"), change))["C-007"]

    averaged = f"reading == '{alg_gradient_based.AVERAGED}'"
    assert status(0.0) == "not decided"
    assert status(-0.02, averaged) == "reproduced"  # one reading suffices
    assert status(-0.005, averaged) == "not decided"  # no figure shows half a per cent
    assert status(-0.02, f"{averaged} and rival != 'cosine'") == "not decided"
    assert status(0.02, averaged) == "differs"  # the others are behind already
    assert status(-0.5, "reading == 'eq. (1)'") == "reproduced"


def test_losses_are_told_as_the_record_has_them():
    wide = recorded(f"{KEY}/alg_gradient_based")["errors"].pivot(
        index="epsilon", columns="loss", values="mean"
    )
    over = wide.div(wide["squared distance"], axis=0)
    averaged, over_c = over[alg_gradient_based.AVERAGED], over[alg_gradient_based.OVER_C]
    # the prose of the notebook, in its order
    assert (over["eq. (1)"] > 1.05).all() and (over_c < over["eq. (1)"]).all()
    assert (averaged - 1).abs().max() < 0.002
    assert wide.loc[1e4, "rank-one start"] < 0.8 * wide.loc[1e4, "eq. (1)"]
    log = (project_root() / "CHANGELOG.md").read_text(encoding="utf-8")
    for told in (over["eq. (1)"], over_c):
        assert f"{told.min():.2f} to {told.max():.2f} times" in log

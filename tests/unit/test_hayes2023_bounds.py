"""Facts about the exhibits of Hayes et al. 2023 on bounds and on hyperparameters."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pandas as pd
import pytest
from scipy import special, stats

from companion import study
from reconrisk import bounds
from companion.study import registry
from companion.papers.hayes2023 import finite as finite
from companion.experiments import (
    hayes2023_bounds,
    hayes2023_hyperparameters,
    hayes2023_theorems,
)

KEY = "hayes2023"
MODULES = (hayes2023_theorems, hayes2023_bounds, hayes2023_hyperparameters)


def run(exhibit: str, seed: int = 0, **overrides):
    exhibit = f"{KEY}/{exhibit}"
    return study.Study(seed=seed, overrides={exhibit: overrides} if overrides else {}).run(exhibit)


def text_of(result, target: str) -> str:
    return " ".join(v.ours + v.paper + v.why for v in result.of(target))


# finite mechanisms -------------------------------------------------------------------------------


def test_the_best_attack_by_output_is_the_best_of_all_attacks():
    rng = np.random.default_rng(0)
    for _ in range(20):
        mechanism = finite.random_mechanism(rng, 3, 4)
        best = finite.exhaustive_success(mechanism)
        assert finite.optimal_success(mechanism) == pytest.approx(best, abs=1e-15)
        assert best >= finite.prior_success(mechanism) - 1e-15


def test_blow_up_of_a_known_pair():
    # three outputs with ratios 4, 1, 1/4: the first is bought first
    mu, nu = np.array([0.4, 0.5, 0.1]), np.array([0.1, 0.5, 0.4])
    assert finite.blow_up(mu, nu, 0.05) == pytest.approx(0.2)
    assert finite.blow_up(mu, nu, 0.35) == pytest.approx(0.65)
    assert finite.blow_up_of_events(mu, nu, 0.35) == pytest.approx(0.4)
    assert finite.blow_up_of_events(mu, nu, np.array([0.0, 0.6])) == pytest.approx([0.0, 0.9])
    assert finite.trade_off_by_programming(mu, nu, 0.35) == pytest.approx(0.35)


def test_an_output_that_only_the_target_gives_costs_nothing():
    mu, nu = np.array([0.3, 0.7]), np.array([0.0, 1.0])
    assert finite.blow_up(mu, nu, 0.0) == pytest.approx(0.3)
    assert finite.blow_up(mu, nu, 0.5) == pytest.approx(0.65)


def test_private_mechanisms_are_private():
    rng = np.random.default_rng(1)
    for epsilon in (0.1, 1.0, 5.0):
        mechanism = finite.random_mechanism(rng, 4, 6, epsilon=epsilon)
        loss = np.log(mechanism.channel / mechanism.null)
        assert np.abs(loss).max() <= epsilon


def test_the_dominating_curve_is_concave_and_above_every_candidate():
    rng = np.random.default_rng(2)
    grid = np.linspace(0, 1, 57)
    for _ in range(20):
        mechanism = finite.random_mechanism(rng, 4, 5)
        curve = np.interp(grid, *finite.largest_blow_up(mechanism))
        assert np.diff(curve, 2).max() < 1e-12
        for row in mechanism.channel:
            assert (curve >= finite.blow_up(row, mechanism.null, grid) - 1e-12).all()


# the exhibits' own pieces ------------------------------------------------------------------------


@pytest.mark.parametrize("shift, kappa", [(0.3, 0.1), (1.0, 0.1), (1.5, 0.01), (2.0, 0.3)])
def test_the_spread_of_algorithm_1_against_quadrature(shift, kappa):
    threshold = math.exp(-shift * special.ndtri(kappa) - shift**2 / 2)
    z = np.linspace(-14, 14 + 2 * shift, 400001)
    weight = stats.norm.pdf(z) * (z[1] - z[0])
    ratio = np.exp(shift * z - shift**2 / 2)
    excess = np.maximum(ratio - threshold, 0)
    gamma = special.ndtr(special.ndtri(kappa) + shift)

    def deviation(values):
        return math.sqrt(weight @ values**2 - (weight @ values) ** 2)

    found = hayes2023_bounds._spread(shift, kappa)
    assert float(found[0]) == pytest.approx(deviation(excess), rel=1e-6)
    assert float(found[1]) == pytest.approx(deviation(excess - gamma * ratio), rel=1e-6)


def test_the_second_moment_of_the_ratio():
    assert hayes2023_bounds._second_moment(1.0, 1.0) == pytest.approx(math.e, rel=1e-10)
    assert hayes2023_bounds._second_moment(0.5, 0.1) == pytest.approx(1.5359815, rel=1e-7)


def test_total_variations_of_one_step_have_a_closed_form():
    pair = hayes2023_theorems._lone(1.0, 0.4, 1.0, 0.3)
    found = hayes2023_theorems._total_variations(pair)
    assert found == pytest.approx(hayes2023_theorems._dominating(1.0, 0.3), abs=2e-5)


def test_total_variations_of_two_full_batch_steps_are_those_of_one_with_less_noise():
    two = hayes2023_theorems._dominating_two_steps(1.0, 1.0)
    assert two == pytest.approx(hayes2023_theorems._dominating(math.sqrt(0.5), 1.0), abs=1e-9)


def test_regions_of_the_best_guess_cover_the_line_once():
    rng = np.random.default_rng(3)
    for _ in range(50):
        means, prior = hayes2023_theorems._candidates(rng)
        low, high = hayes2023_theorems._regions(means, prior, 0.7)
        w = rng.normal(size=200) * 3
        inside = (low <= w[:, None]) & (w[:, None] < high)
        assert (inside.sum(axis=1) == 1).all()
        best = np.argmax(np.log(prior) - (w[:, None] - means) ** 2 / (2 * 0.7**2), axis=1)
        assert (inside.argmax(axis=1) == best).all()


def test_a_trial_with_many_candidates_is_one_with_few():
    others, n = 12, 4
    rng = np.random.default_rng(4)
    scores = rng.normal(size=others)
    for own in (-0.5, 0.3, 5.0, -5.0):
        below = np.array([(scores < own).sum()])
        by_hand = np.mean(
            [max(scores[list(c)]) < own for c in itertools.combinations(range(others), n - 1)]
        )
        found = hayes2023_hyperparameters.beats_random_others(below, others, n)
        assert found[0] == pytest.approx(by_hand, abs=1e-12)
    full = hayes2023_hyperparameters.beats_random_others(np.array([others, others - 1]), others, 13)
    assert full == pytest.approx([1.0, 0.0])


# what each verdict rests on ----------------------------------------------------------------------


def test_every_target_is_settled_once():
    settled = [
        target
        for known in study.all_exhibits(KEY).values()
        if known.module in {m.__name__ for m in MODULES}
        for target in known.targets
    ]
    assert len(settled) == len(set(settled))
    mine = {"C-001", "C-008", "C-010", "C-011", "C-012", "C-013", "C-014", "C-015", "C-025"}
    mine |= {"C-026", "C-027", "C-028", "C-029", "C-032", "C-033", "C-044", "C-045", "C-046"}
    mine |= {"C-047", "C-053", "C-054", "C-055", "C-056", "C-057"}
    mine |= {f"E-C-{i:02}" for i in (1, 5, 6, 7, 8, 9, 10, 11)}
    assert {t for t in settled if "/" not in t} == mine


def test_errata_are_settled_where_the_registry_says():
    for known in study.all_exhibits(KEY).values():
        for target in known.targets & set(registry.errata()):
            assert registry.errata()[target].exhibit == known.id


@pytest.mark.parametrize("exhibit", ["thm2", "thm7", "lem8", "lem11", "lem12", "prop6", "table1"])
def test_theorems_hold_for_another_seed(exhibit):
    assert run(exhibit, seed=11).status == "reproduced"


def test_an_attack_that_beats_the_bound_fails_theorem_2(monkeypatch):
    honest = finite.optimal_success
    monkeypatch.setattr(finite, "optimal_success", lambda m: min(1.0, 1.3 * honest(m)))
    with pytest.raises(study.VerdictError, match="thm2"):
        run("thm2")


def test_a_curve_below_the_candidates_fails_theorem_2(monkeypatch):
    def without_last(mechanism):
        x, y = finite.vertices(mechanism.channel[0], mechanism.null)
        return x, y

    monkeypatch.setattr(finite, "largest_blow_up", without_last)
    with pytest.raises(study.VerdictError, match="thm2"):
        run("thm2")


def test_longer_gradients_fail_lemma_11(monkeypatch):
    monkeypatch.setattr(hayes2023_theorems, "_CLIPPING", 2.0)
    with pytest.raises(study.VerdictError, match="lem11"):
        run("lem11", data_sets=2)


def test_the_exchange_of_arguments_matters_in_lemma_12(monkeypatch):
    """With the printed order of the arguments the corrected infimum is off as well."""
    monkeypatch.setattr(
        hayes2023_theorems, "_excess_of_mixture", hayes2023_theorems._excess_of_null
    )
    with pytest.raises(study.VerdictError, match="lem12"):
        run("lem12")


def test_the_constant_of_proposition_6_matters(monkeypatch):
    """A promise of exp(-8 N tau^2 kappa) is broken."""
    monkeypatch.setattr(hayes2023_theorems.math, "exp", lambda x: np.exp(16 * x))
    with pytest.raises(study.VerdictError, match="prop6"):
        run("prop6", repeats=200)


def test_table_2_by_hand_and_an_altered_number_is_noticed(monkeypatch):
    result = run("table2", samples=1000)
    assert result.status == "differs"
    cells = result.tables["table"].set_index(["n", "bound", "sigma"])["exact"]
    assert cells[10, "Ours", 1.0] == pytest.approx(0.321271, abs=1e-6)
    assert cells[100, "Guo et al. (2022b)", 3.0] == pytest.approx(0.075810, abs=1e-6)
    assert cells[10, "Guo et al. (2022b) (MC)", 0.5] == pytest.approx(0.770730, abs=1e-6)
    printed = registry.printed(f"{KEY}/table2")
    row = printed.index[printed["method"] == "Guo et al. (2022b)"][3]
    altered = printed.copy()
    altered.loc[row, ["value", "printed"]] = "0.284", "0.284"
    monkeypatch.setattr(registry, "printed", lambda name: altered)
    with pytest.raises(study.VerdictError, match="C-047"):
        run("table2", samples=1000)


def test_exact_values_in_place_of_the_printed_ones_refute_the_erratum(monkeypatch):
    printed = registry.printed(f"{KEY}/table2").copy()
    for index, row in printed[printed["method"] == "Ours"].iterrows():
        sigma, n = float(row["sigma_noise_multiplier"]), int(row["prior_size"])
        gamma = bounds.rero_gaussian(sigma, 1 / n)
        text = f"{bounds.advantage(gamma, 1 / n):.3f}"
        printed.loc[index, ["value", "printed"]] = text, text
    monkeypatch.setattr(registry, "printed", lambda name: printed)
    with pytest.raises(study.VerdictError, match="holds after all|printed statement holds"):
        run("table2", samples=1000)


def test_figure_11_needs_the_bound_to_be_the_lowest(monkeypatch):
    assert "0.362" in text_of(run("fig11"), f"{KEY}/fig11")
    honest = bounds.rero_gaussian
    monkeypatch.setattr(bounds, "rero_gaussian", lambda s, kappa: honest(s / 2, kappa))
    with pytest.raises(study.VerdictError, match="fig11"):
        run("fig11")


def test_a_changed_profile_is_noticed_by_table_1(monkeypatch):
    from companion.study.parameters import Parameter
    from companion.study.exhibits import parameters_of

    altered = dict(parameters_of(f"{KEY}/fig5"))
    altered["steps"] = Parameter("int", 100, 101, "100", "T, steps", low=1)
    monkeypatch.setitem(PARAMETERS, f"{KEY}/fig5", altered)
    with pytest.raises(study.VerdictError, match="Figure 5"):
        run("table1")


@pytest.mark.parametrize(
    "printed, values, same",
    [
        ("0.1", (0.1,), True),
        ("0.1", (0.2,), False),
        ("5;129;1000", (1000.0, 5.0, 129.0), True),
        ("5;129;1000", (5.0, 129.0), False),
        ("0.01-0.99", (0.01, 0.5, 0.99), True),
        ("0.01-0.99", (0.01, 0.5), False),
        ("2..16 (powers of two 2^1 to 2^4)", (2.0, 4.0, 8.0, 16.0), True),
        ("2..16 (powers of two 2^1 to 2^4)", (2.0, 8.0, 16.0), False),
    ],
)
def test_printed_settings_are_read(printed, values, same):
    assert hayes2023_bounds._same_settings(printed, values) is same


# runs of equal epsilon ---------------------------------------------------------------------------

TASK = {
    "epsilon": 500.0,
    "q": 1.0,
    "steps": 20,
    "max_grad_norm": 1.0,
    "data": "digits",
    "data_root": "",
    "known": 50,
    "pool": 100,
    "data_seed": 1,
    "hidden": 10,
    "learning_rate": 0.5,
    "trials": 20,
    "prior_sizes": [2, 10],
    "candidates": 20,
    "noise_seed": 2,
    "device": "cpu",
}


def test_without_much_noise_the_attack_names_the_target():
    rows = hayes2023_hyperparameters.attack_point(TASK, 0)
    assert [(r["score"], r["n"]) for r in rows] == [
        (score, n) for score in ("top", "likelihood") for n in (2, 10)
    ]
    success = {(r["score"], r["n"]): r["success"] for r in rows}
    assert success["likelihood", 2] > 0.9
    assert success["top", 10] <= success["top", 2]
    noisy = {**TASK, "epsilon": 8.0}
    rows = hayes2023_hyperparameters.attack_point(noisy, 0)
    assert hayes2023_hyperparameters.attack_point(noisy, 5) == rows
    assert hayes2023_hyperparameters.attack_point({**noisy, "noise_seed": 3}, 0) != rows


def swept(values):
    """A table of bounds as ``_bound_rows`` makes it, from ``{(T, q): gamma}``."""
    rows = [
        {"epsilon": 4.0, "T": steps, "q": q, "gamma from": gamma, "gamma to": gamma + 1e-8}
        for (steps, q), gamma in values.items()
    ]
    return pd.DataFrame(rows)


def test_a_bound_that_falls_with_q_or_with_steps_is_noticed():
    rising = {(1, 0.1): 0.15, (1, 0.9): 0.30, (100, 0.1): 0.32, (100, 0.9): 0.36}
    assert hayes2023_hyperparameters._grows_with_steps(swept(rising), 10).status == "reproduced"
    for place, value in (((1, 0.9), 0.14), ((100, 0.1), 0.149), ((100, 0.9), 0.37)):
        with pytest.raises(study.VerdictError, match="C-027"):
            hayes2023_hyperparameters._grows_with_steps(swept({**rising, place: value}), 10)


def test_what_the_text_gives_with_about_is_held_to_two_hundredths():
    def judged(bound, success):
        row = pd.Series({"success": success, "error": 0.005})
        return hayes2023_hyperparameters._as_printed("C-025", 0.01, bound, row, True)

    assert [v.status for v in judged(0.1868, 0.14)] == ["reproduced", "holds on stand-in data"]
    for wrong in ((0.179, 0.14), (0.1868, 0.20)):
        with pytest.raises(study.VerdictError, match="C-025"):
            judged(*wrong)


def test_the_curves_of_figure_15_are_refused_without_their_named_ends():
    with pytest.raises(ValueError, match="one row was expected"):
        hayes2023_hyperparameters._at(swept({(1, 0.1): 0.15}), q=0.01)

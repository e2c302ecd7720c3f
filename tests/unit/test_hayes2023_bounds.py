"""The exhibits of Hayes et al. 2023 on theorems, bounds and hyperparameters."""

from __future__ import annotations

import functools
import math

import numpy as np
import pytest
from scipy import integrate, special, stats

from altered_tables import altered, recorded, statuses
from companion.papers.hayes2023 import (
    algorithm1_estimates,
    blow_up_lemmas,
    fig5,
    lem11,
    prop5,
    subsampled_attack,
    table1,
    thm7,
)
from companion.papers.hayes2023 import finite_mechanisms as finite
from companion.study import Parameter, Study, Tables, registry
from companion.study.exhibits import file_of, judge_tables
from companion.study.parameters import Settings

KEY = "hayes2023"
#: exhibits measured here, with parameters that make them quick
SMALL = {
    "thm2": {"mechanisms": 30},
    "thm7": {"mechanisms": 20},
    "lem8": {"pairs": 4},
    "lem9": {"pairs": 20},
    "lem11": {"data_sets": 1},
    "lem12": {"pairs": 50},
    "prop6": {},
    "alg1": {"epsilons": [4.0]},
    "prop5": {"million_repeats": 3},
    "cor4": {
        "epsilons": [1.0, 10.0],
        "sampling_rates": [1.0],
        "steps": [100],
        "mechanisms": 10,
    },
    "table1": {},
    "table2": {"samples": 1000},
    "fig11": {"points": 12},
}
#: exhibits whose recorded runs are at hand
RECORDED = ("fig5", "fig14")
EXHIBITS = (*SMALL, *RECORDED, "fig15")


@functools.cache
def tables_for(name: str) -> Tables:
    exhibit = f"{KEY}/{name}"
    if name in SMALL:
        return file_of(exhibit).measure(Study(seed=11, overrides={exhibit: SMALL[name]}))
    if name in RECORDED:
        return recorded(exhibit)
    # the same curves as those of Figure 14
    curves = tables_for("fig14")
    bound, steps = curves["bound"].drop(columns="best attack"), curves.parameters.steps
    return Tables({"bound": bound}, exhibit=exhibit, parameters=Settings({"steps": steps}))


def failed(tables: Tables) -> set[str]:
    return {target for target, found in statuses(tables).items() if "failed" in found}


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

    found = algorithm1_estimates.spread(shift, kappa)
    for name, errors in {
        "samples": excess,
        "ratios": excess - gamma * ratio,
        "complement": np.minimum(ratio, threshold),
    }.items():
        assert float(found[name]) == pytest.approx(deviation(errors), rel=1e-6)


def test_the_second_moment_of_the_ratio():
    assert prop5.second_moment(1.0, 1.0) == pytest.approx(math.e, rel=1e-10)
    assert prop5.second_moment(0.5, 0.1) == pytest.approx(1.5359815, rel=1e-7)


def test_total_variations_of_one_step_have_a_closed_form():
    pair = lem11.lone_target(1.0, 0.4, 1.0, 0.3)
    found = lem11.total_variations(pair)
    assert found == pytest.approx(lem11.dominating(1.0, 0.3), abs=2e-5)


def test_total_variations_of_two_full_batch_steps_are_those_of_one_with_less_noise():
    two = lem11.dominating_two_steps(1.0, 1.0)
    assert two == pytest.approx(lem11.dominating(math.sqrt(0.5), 1.0), abs=1e-9)


def test_longer_gradients_fail_lemma_11(monkeypatch):
    monkeypatch.setattr(blow_up_lemmas, "CLIPPING_NORM", 2.0)  # whose code Lemma 11 runs
    study = Study(overrides={f"{KEY}/lem11": {"data_sets": 1, "noise_multipliers": [1.0]}})
    assert failed(lem11.measure(study)) == {f"{KEY}/lem11"}


def test_regions_of_the_best_guess_cover_the_line_once():
    rng = np.random.default_rng(3)
    for _ in range(50):
        means, prior = thm7.candidates(rng)
        low, high = thm7.regions(means, prior, 0.7)
        w = rng.normal(size=200) * 3
        inside = (low <= w[:, None]) & (w[:, None] < high)
        assert (inside.sum(axis=1) == 1).all()
        best = np.argmax(np.log(prior) - (w[:, None] - means) ** 2 / (2 * 0.7**2), axis=1)
        assert (inside.argmax(axis=1) == best).all()


def test_a_changed_profile_is_noticed_by_table_1(monkeypatch):
    monkeypatch.setitem(fig5.PARAMETERS, "steps", Parameter("int", 100, 101, "100", "T", low=1))
    (verdict,) = judge_tables(table1, table1.measure(Study()))
    assert verdict.status == "failed"
    assert "Figure 5" in verdict.ours


@pytest.mark.parametrize(
    "printed, values, same",
    [
        ("0.1", "0.1", True),
        ("0.1", "0.2", False),
        ("5;129;1000", "1000.0; 5.0; 129.0", True),
        ("5;129;1000", "5.0; 129.0", False),
        ("0.01-0.99", "0.01; 0.5; 0.99", True),
        ("0.01-0.99", "0.01; 0.5", False),
        ("2..16 (powers of two 2^1 to 2^4)", "2.0; 4.0; 8.0; 16.0", True),
        ("2..16 (powers of two 2^1 to 2^4)", "2.0; 8.0; 16.0", False),
        ("-", "10.0", False),
    ],
)
def test_printed_settings_are_read(printed, values, same):
    assert table1.same_settings(printed, values) is same


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
    rows = subsampled_attack.attack_run(TASK)
    assert [(r["score"], r["n"]) for r in rows] == [
        (score, n) for score in ("top", "likelihood") for n in (2, 10)
    ]
    success = {(r["score"], r["n"]): r["success"] for r in rows}
    assert success["likelihood", 2] > 0.9
    assert success["top", 10] <= success["top", 2]
    noisy = {**TASK, "epsilon": 8.0}
    rows = subsampled_attack.attack_run(noisy)
    assert subsampled_attack.attack_run(noisy) == rows
    assert subsampled_attack.attack_run({**noisy, "noise_seed": 3}) != rows


# what each verdict rests on ----------------------------------------------------------------------


def test_figure_5_is_told_with_the_records_numbers():
    tables = tables_for("fig5")
    script = registry.project_root() / "notebooks" / KEY / "04_hyperparameters.py"
    text = " ".join(script.read_text(encoding="utf-8").replace("\n# ", " ").split())
    success = tables["attack"].set_index(["score", "q"])["success"]
    assert tables.parameters.trials == 10_000 and "the paper's ten thousand networks" in text
    behind = (success["likelihood"] - success["top"]).idxmax()
    assert behind == 0.2
    told = f"{success['top', 0.2]:.3f} of the trials, the likelihood in"
    assert f"{told} {success['likelihood', 0.2]:.3f}." in text
    errors = tables["attack"].set_index(["score", "q"])["error"]
    measured = (
        f"we get {success['top', 0.99]:.3f} with a standard error of {errors['top', 0.99]:.3f}."
    )
    assert f"about 0.32 for it, and {measured}" in text
    best = tables["bound"].set_index("q")["best attack"][0.99]
    assert f"candidates would reach {best:.3f}." in text
    assert f"learning rate, {tables.parameters.learning_rate:g}, keeps" in text


@pytest.mark.parametrize(("target", "q", "printed"), [("C-025", 0.01, 0.15), ("C-026", 0.99, 0.32)])
def test_the_attack_at_the_ends_of_figure_5_is_held_to_print(target, q, printed):
    tables = tables_for("fig5")
    attack = tables["attack"]

    def judged_at(success: float, trials: int = 10_000):
        there = (attack["q"] == q) & (attack["score"] == "top")
        changed = attack.assign(success=attack["success"].mask(there, success))
        parameters = {**tables.parameters, "trials": trials}
        world = altered(tables, {"attack": changed}, parameters=Settings(parameters))
        return [v for v in judge_tables(file_of(f"{KEY}/fig5"), world) if v.target == target][1]

    assert judged_at(printed).status == "reproduced"
    for wrong in (printed - 0.04, printed + 0.04):
        assert judged_at(wrong).status == "failed"
    # on the edge of "about": undecided, however many networks there were
    edge = printed - 0.02
    assert "needs more than 10,000 networks" in judged_at(edge).why
    assert "needs 10,000 networks, as in the paper" in judged_at(edge, trials=300).why


@pytest.mark.parametrize("name", EXHIBITS)
def test_every_target_comes_out_as_the_book_says(name):
    expected = {t: "misprint" for t in ("E-C-01", "E-C-05", "E-C-06", "E-C-08")}
    expected |= {"C-014": "differs"}
    for target, found in statuses(tables_for(name)).items():
        # the attack at q = 0.99 is about as far from print as "about" allows: 0.292 for 0.32
        undecided = {"not decided"} if target == "C-026" else set()
        assert found == {expected.get(target, "reproduced")} | undecided, target


def test_table_2_by_hand_and_an_altered_number_is_noticed(monkeypatch):
    tables = tables_for("table2")
    cells = tables["table"].set_index(["n", "bound", "sigma"])["exact"]
    assert cells[10, "Ours", 1.0] == pytest.approx(0.321271, abs=1e-6)
    assert cells[100, "Guo et al. (2022b)", 3.0] == pytest.approx(0.075810, abs=1e-6)
    assert cells[10, "Guo et al. (2022b) (MC)", 0.5] == pytest.approx(0.770730, abs=1e-6)
    altered = registry.printed(f"{KEY}/table2").copy()
    row = altered.index[altered["method"] == "Guo et al. (2022b)"][3]
    altered.loc[row, ["value", "printed"]] = "0.284", "0.284"
    monkeypatch.setattr(registry, "printed", lambda name: altered)
    assert failed(tables) == {f"{KEY}/table2", "C-047"}


# runs of equal epsilon ---------------------------------------------------------------------------


def test_on_stand_in_data_only_what_rests_on_them_says_so():
    found = statuses(altered(tables_for("fig5"), {}, stand_ins=("data = digits",)))
    resting = {t for t, s in found.items() if "holds on stand-in data" in s}
    assert resting == {f"{KEY}/fig5", f"{KEY}/fig5b", "C-025", "C-029"}
    assert found[f"{KEY}/fig5a"] == {"reproduced"}


def test_named_ends_that_were_not_measured_are_not_judged():
    without = {"bound": lambda table: table.query("epsilon < 32")}
    assert statuses(altered(tables_for("fig15"), without))["C-054"] == {"not run here"}
    without = {"attack": lambda table: table.query("q > 0.01")}
    assert statuses(altered(tables_for("fig5"), without))["C-025"] == {"not run here"}


@pytest.mark.parametrize(("n", "signal"), [(10, 1.125), (512, 2.565), (2048, 3.0)])
def test_the_error_of_the_mean_is_that_of_ratios_below_a_threshold(n, signal):
    row = prop5.error_of_the_mean([n]).iloc[0]
    assert row["at sqrt(T)/sigma"] == pytest.approx(signal)
    z = stats.norm.isf(1 / n)

    def moment(power):
        def integrand(x):
            return math.exp(power * (signal * x - signal**2 / 2)) * stats.norm.pdf(x)

        return integrate.quad(integrand, -np.inf, z, epsabs=1e-12, limit=200)[0]

    error = math.sqrt((moment(2) - moment(1) ** 2) / 1e6)
    assert row["99.9% below"] == pytest.approx(stats.norm.isf(0.0005) * error, rel=1e-6)

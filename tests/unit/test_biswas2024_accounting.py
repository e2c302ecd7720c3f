"""Facts about the exhibits of Biswas et al. 2024 on accounting and what makes their verdicts."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy.special import logsumexp

from companion import study
from companion.experiments import fair_pairs as fair
from companion.experiments import federated as federated
from companion.papers.biswas2024 import old_accounting as accounting
from companion.study import registry
from reconrisk import DPSGD, privacy

KEY = "biswas2024"
MODULES = (accounting,)


def run(exhibit: str, seed: int = 0, **overrides):
    exhibit = exhibit if "/" in exhibit else f"{KEY}/{exhibit}"
    return study.Study(seed=seed, overrides={exhibit: overrides} if overrides else {}).run(exhibit)


def text_of(result, target: str) -> str:
    return " ".join(v.ours + v.paper + v.why for v in result.of(target))


# Gaussian noise by Rényi divergence --------------------------------------------------------------


@pytest.mark.parametrize(("sigma", "q"), [(1.23, 0.0021), (0.3, 0.01), (2.0, 0.5), (0.8, 1.0)])
def test_gaussian_divergence_at_whole_orders(sigma, q):
    orders = np.array([2.0, 3.0, 7.0, 20.0])
    ours = accounting.renyi_of_gaussian(sigma, q, orders)
    for order, value in zip(orders, ours, strict=True):
        count = np.arange(order + 1)
        log_binomial = np.array([math.log(math.comb(int(order), int(k))) for k in count])
        with np.errstate(divide="ignore"):
            weight = count * math.log(q) + (order - count) * np.log(1 - q) if q < 1 else None
        if weight is None:
            assert value == pytest.approx(order / (2 * sigma**2), rel=1e-12)
            continue
        terms = log_binomial + weight + count * (count - 1) / (2 * sigma**2)
        assert value == pytest.approx(logsumexp(terms) / (order - 1), rel=1e-9)


@pytest.mark.filterwarnings("ignore:Optimal order is:UserWarning")
@pytest.mark.parametrize("sigma", [1.23, 0.42, 0.174])
@pytest.mark.parametrize("steps", [3, 1407])
def test_gaussian_account_is_that_of_opacus(sigma, steps):
    accountants = pytest.importorskip("opacus.accountants")
    theirs = accountants.RDPAccountant()
    theirs.history = [(sigma, 1 / 469, steps)]
    ours = accounting.gaussian_by_renyi(sigma, 1 / 469, steps)
    assert ours == pytest.approx(theirs.get_epsilon(federated.DELTA), rel=1e-6)
    certified = privacy.epsilon(DPSGD(sigma, 1 / 469, steps), federated.DELTA)
    assert certified.upper < ours


@pytest.mark.filterwarnings("ignore:Optimal order is:UserWarning")
def test_search_for_a_noise_multiplier_is_that_of_opacus():
    utils = pytest.importorskip("opacus.accountants.utils")
    theirs = utils.get_noise_multiplier(
        target_epsilon=10.9,
        target_delta=federated.DELTA,
        sample_rate=1 / 469,
        steps=1407,
        accountant="rdp",
    )
    assert accounting._searched_noise(10.9) == pytest.approx(theirs, abs=1e-12)
    assert accounting._truncated(theirs) == 0.420


def test_truncation_keeps_digits():
    assert accounting._truncated(0.66099) == 0.66
    assert accounting._truncated(1.2305) == 1.23


# Criteria and helpers ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("printed", "ours", "approach", "fits"),
    [
        ("0.49", 0.4804, 1, True),
        ("0.49", 0.4649, 1, False),
        ("0.49", 0.4951, 1, False),
        ("7.97", 7.9659, 2, True),
        ("7.97", 8.176, 2, False),
        ("7.97", 7.94, 2, False),
        ("10.9", 10.893, 2, True),
    ],
)
def test_a_printed_number_may_only_lie_above_the_optimum(printed, ours, approach, fits):
    assert accounting.fits(printed, ours, approach) is fits


@pytest.mark.parametrize(("epsilon", "delta", "steps"), [(0.5, 0.0, 3), (0.2, 0.01, 4)])
def test_composition_by_counting_is_that_by_enumeration(epsilon, delta, steps):
    truth = math.exp(epsilon) / (1 + math.exp(epsilon))
    for at in (0.0, 0.3, epsilon * steps * 0.6, epsilon * steps):
        total = 0.0
        for answers in itertools.product((0, 1), repeat=steps):
            true = sum(answers)
            own = truth**true * (1 - truth) ** (steps - true)
            other = truth ** (steps - true) * (1 - truth) ** true
            total += max(own - math.exp(at) * other, 0.0)
        exact = 1 - (1 - delta) ** steps * (1 - total)
        found = accounting._composed_delta(epsilon, delta, steps, at)
        assert found == pytest.approx(exact, abs=1e-13)


@pytest.mark.parametrize("kappa", [25.0, 300.0])
def test_quadrature_over_latitudes_lies_in_the_enclosure(kappa):
    loss, log_away = accounting._latitudes(federated.DIMENSION, kappa)
    assert np.sum(np.exp(log_away + loss)) == pytest.approx(1.0, abs=1e-9)
    exact = accounting._exact_epsilon(loss, log_away, 1e-4)
    value = privacy.vmf_epsilon(kappa, federated.DIMENSION, 1e-4, tolerance=1e-6)
    assert value.lower * (1 - 1e-7) <= exact <= value.upper * (1 + 1e-7)


@pytest.mark.parametrize("dimension", [2, 3])
def test_points_on_the_sphere_weigh_its_area(dimension):
    points, weights = accounting._on_sphere(dimension)
    assert np.linalg.norm(points, axis=1) == pytest.approx(1.0)
    assert weights.sum() == pytest.approx(2 * math.pi if dimension == 2 else 4 * math.pi)
    second = points.T @ (weights[:, None] * points)
    np.testing.assert_allclose(second, weights.sum() / dimension * np.eye(dimension), atol=1e-12)


def test_renyi_divergences_do_not_order_delta():
    found = accounting._renyi_order_is_not_enough()
    assert found["renyi ordered"] == 1.0
    assert found["delta of the first"] == pytest.approx(0.2)
    assert found["delta of the second"] == pytest.approx(0.16)


# Fair pairs --------------------------------------------------------------------------------------


@pytest.mark.parametrize("sigma", [1.23, 0.42, 0.174])
def test_both_halves_of_a_fair_pair_cost_the_same(sigma):
    pair = fair.fair_pair(sigma)
    assert fair.middle(pair.vmf) == pytest.approx(fair.middle(pair.gaussian), rel=3e-5)
    closed = math.sqrt(federated.DIMENSION) / (2 * sigma)
    assert pair.concentration == pytest.approx(closed, rel=5e-4)
    assert fair.fair_concentration(sigma) == pair.concentration
    # a per cent more concentration costs clearly more
    more = privacy.vmf_epsilon(
        1.01 * pair.concentration,
        federated.DIMENSION,
        federated.DELTA,
        federated.SAMPLING_RATE,
        federated.STEPS,
    )
    assert more.lower > pair.gaussian.upper


def test_accounts_name_the_better_approach():
    for kappa, winner in ((75.0, 1), (100.0, 1), (125.0, 2), (400.0, 2), (500.0, 1)):
        found = accounting.accounts(kappa, federated.EPOCHS)
        assert found.winner == winner
        assert found.best == min(found.first.epsilon, found.second.epsilon)
        assert found.certified.upper < found.best


# What each verdict rests on ----------------------------------------------------------------------


def test_every_target_is_settled_once():
    settled = [
        target
        for known in study.all_exhibits(KEY).values()
        if known.module in {m.__name__ for m in MODULES}
        for target in known.targets
    ]
    assert len(settled) == len(set(settled))
    mine = {"D-001", *(f"D-{i:03}" for i in range(3, 11))}
    mine |= {f"E-D-{i:02}" for i in (1, 2, 3, 4, 12, 13, 14)}
    assert {t for t in settled if "/" not in t} == mine


def test_errata_are_settled_where_the_registry_says():
    for known in study.all_exhibits(KEY).values():
        for target in known.targets & set(registry.errata()):
            assert registry.errata()[target].exhibit == known.exhibit


def test_theorems_hold_for_another_seed():
    for exhibit in ("prop1", "thm1", "prop2", "prop3", "prop4", "thm2", "thm3"):
        assert run(exhibit, seed=11).status == "reproduced"


def test_table_4_is_reproduced_and_refuted():
    result = run("table4")
    assert result.status == "refuted"
    assert [v.status for v in result.of(f"{KEY}/table4")] == ["reproduced", "refuted"]
    columns = result.tables["columns"].set_index("kappa")
    assert columns.loc[75.0, "VMF, T = 3"] == pytest.approx(0.4804, abs=1e-4)
    assert columns.loc[75.0, "VMF, T = 1407"] == pytest.approx(1.6437, abs=1e-4)
    certified = result.tables["certified"].set_index("kappa")
    assert certified.loc[75.0, "VMF certified, T = 1407"] == pytest.approx(0.7905, abs=2e-4)
    assert "1.6 to 3.5 times" in text_of(result, "E-D-01")
    # clipped layer by layer it is the other half of the pair that costs more
    by_layer = certified["Gaussian certified by layer"]
    assert bool((by_layer > certified["VMF certified, T = 1407"]).all())


def altered(monkeypatch, exhibit: str, kappa: str, metric: str, text: str) -> None:
    """Print another number in the place of one."""
    honest = registry.printed
    table = honest(f"{KEY}/{exhibit}").copy()
    row = table.index[
        (table["kappa_vmf"].astype(float) == float(kappa)) & (table["metric"] == metric)
    ]
    assert len(row) == 1
    table.loc[row, ["value", "printed"]] = text, text
    monkeypatch.setattr(
        registry, "printed", lambda name: table if name.endswith(exhibit) else honest(name)
    )
    for cached in (
        accounting._table1,
        accounting._table4_text,
        accounting._printed_epsilons,
        accounting._columns_of_table4,
    ):
        cached.cache_clear()


@pytest.fixture
def clean():
    """Forget the altered tables after a test."""
    yield
    for cached in (
        accounting._table1,
        accounting._table4_text,
        accounting._printed_epsilons,
        accounting._columns_of_table4,
    ):
        cached.cache_clear()


@pytest.mark.parametrize(
    ("exhibit", "kappa", "metric", "text", "target"),
    [
        ("table1", "75", "epsilon", "0.47", "table1"),
        ("table1", "200", "epsilon", "11.2", "table1"),
        ("table4", "400", "epsilon", "113.9", "table4"),
        ("table4", "250", "sigma_gauss", ".322", "table4"),
    ],
)
def test_an_altered_number_is_noticed(monkeypatch, clean, exhibit, kappa, metric, text, target):
    altered(monkeypatch, exhibit, kappa, metric, text)
    with pytest.raises(study.VerdictError, match=target):
        run(exhibit)


def test_the_corrected_rows_would_settle_the_erratum(monkeypatch, clean):
    altered(monkeypatch, "table1", "300", "epsilon", "51.36")
    with pytest.raises(study.VerdictError):
        run("table1")


def test_the_right_winner_at_100_would_settle_the_erratum(monkeypatch, clean):
    altered(monkeypatch, "table1", "100", "best_approach", "1")
    with pytest.raises(study.VerdictError, match="E-D-03"):
        run("alg_accounting1")


def test_a_divergence_of_half_the_concentration_fails_proposition_1(monkeypatch):
    honest = privacy.vmf_renyi
    monkeypatch.setattr(privacy, "vmf_renyi", lambda a, p, k, *angle: honest(a, p, k / 2, *angle))
    with pytest.raises(study.VerdictError, match="prop1"):
        run("prop1")


def test_a_smaller_factor_fails_theorem_3(monkeypatch):
    honest = privacy.vmf_renyi_sampled
    monkeypatch.setattr(privacy, "vmf_renyi_sampled", lambda *a, **k: 0.9 * honest(*a, **k))
    with pytest.raises(study.VerdictError, match="thm3"):
        run("thm3")


def test_a_composition_that_forgets_a_step_fails_theorem_2(monkeypatch):
    honest = privacy.compose
    monkeypatch.setattr(
        privacy, "compose", lambda e, d, steps, slack: honest(e, d, max(steps - 1, 1), slack)
    )
    with pytest.raises(study.VerdictError, match="thm2"):
        run("thm2")

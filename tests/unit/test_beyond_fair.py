"""The fair comparison of mechanisms: laws of the direction, pairings, ranks and small attacks."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from scipy import integrate, stats

from companion.experiments.federated import DIMENSION, studied_pairs
from companion.papers.beyond import fair_order
from companion.papers.beyond import mechanism_or_calibration as mechanism
from companion.papers.beyond.direction_laws import (
    cosine_laws,
    log_density_gaussian,
    log_density_vmf,
)
from companion.study import failures_kept, registry
from companion.study.records import RECORDED, read_record
from reconrisk import bounds, privacy
from reconrisk.mechanisms import sample_vmf, vmf_cosines
from reconrisk.models import SigmoidNetwork
from reconrisk.training import Release, train_mini_batches

RECORD = registry.project_root() / RECORDED / "beyond/mechanism_or_calibration"


def _share_below(log_density, grid: np.ndarray) -> np.ndarray:
    density = np.exp(log_density - log_density.max())
    below = integrate.cumulative_trapezoid(density, grid, initial=0)
    return below / below[-1]


@pytest.mark.parametrize("signal", [0.0, 2.0, 9.0])
def test_the_gaussian_cosine_has_the_law_of_a_simulated_one(signal):
    dimension = 40
    rng = np.random.default_rng(3)
    noisy = rng.standard_normal((20_000, dimension))
    noisy[:, 0] += signal
    cosine = noisy[:, 0] / np.linalg.norm(noisy, axis=1)
    grid = np.linspace(-1 + 1e-9, 1 - 1e-9, 20_001)
    below = _share_below(log_density_gaussian(grid, dimension, signal), grid)
    assert stats.kstest(cosine, lambda w: np.interp(w, grid, below)).pvalue > 1e-3


def test_the_vmf_cosine_has_the_law_of_a_sampled_one():
    grid = np.linspace(-1 + 1e-9, 1 - 1e-9, 20_001)
    below = _share_below(log_density_vmf(grid, 40, 60.0), grid)
    cosine = vmf_cosines(40, 60.0, np.random.default_rng(4), 20_000)[0]
    assert stats.kstest(cosine, lambda w: np.interp(w, grid, below)).pvalue > 1e-3


@pytest.mark.parametrize("cosine", [0.01, 0.3, 0.7, 0.95])
def test_both_laws_have_one_mean_and_the_limits_variances(cosine):
    laws = cosine_laws(DIMENSION, cosine)
    assert laws.mean == pytest.approx(cosine, rel=1e-4)
    assert float(privacy.vmf_mean_cosine(DIMENSION, laws.concentration)) == pytest.approx(laws.mean)
    scale = (1 - cosine**2) / math.sqrt(DIMENSION)
    assert laws.std_gaussian == pytest.approx(scale * math.sqrt(1 - cosine**2 / 2), rel=2e-4)
    assert laws.std_vmf == pytest.approx(scale / math.sqrt(1 + cosine**2), rel=2e-4)


def test_the_distance_is_that_of_two_nearly_normal_laws_and_at_most_0_029():
    for cosine in (0.0055, 0.1, 0.5, 0.5**0.5, 0.9, 0.999):
        ratio = math.sqrt((1 - cosine**2 / 2) * (1 + cosine**2))
        # two centred normal laws differ most between the points where their densities cross
        cross = ratio * math.sqrt(2 * math.log(ratio) / (ratio**2 - 1))
        normal = 2 * (stats.norm.cdf(cross) - stats.norm.cdf(cross / ratio))
        distance = cosine_laws(DIMENSION, cosine).distance
        assert distance == pytest.approx(normal, rel=0.03)
        assert distance < 0.029


def test_the_distance_in_few_dimensions_is_that_of_simulated_cosines():
    laws = cosine_laws(60, 0.7)
    rng = np.random.default_rng(5)
    noisy = rng.standard_normal((200_000, 60))
    noisy[:, 0] += math.sqrt(60 * 0.49 / 0.51)
    gaussian = noisy[:, 0] / np.linalg.norm(noisy, axis=1)
    vmf = vmf_cosines(60, laws.concentration, rng, 200_000)[0]
    edges = np.linspace(0, 1, 61)
    shares = [np.histogram(v, edges)[0] / len(v) for v in (gaussian, vmf)]
    # sampling adds about sqrt(bins / (pi n)) to the distance of histograms
    assert 0.5 * np.abs(shares[0] - shares[1]).sum() == pytest.approx(laws.distance, abs=0.01)


def test_releases_of_a_cosine_have_that_cosine():
    truth = np.zeros(DIMENSION)
    truth[0] = 0.2
    rng = np.random.default_rng(6)
    for cosine in (0.05, 0.4, 0.95):
        vmf = mechanism.vmf_at_cosine(cosine)
        turned = sample_vmf(truth, vmf.noise, rng, size=200)[:, 0]
        assert turned.mean() == pytest.approx(cosine, abs=0.005)
        gaussian = mechanism.gaussian_at_cosine(cosine, 128, 0.2)
        noisy = truth + gaussian.noise / 128 * rng.standard_normal((200, DIMENSION))
        shown = noisy[:, 0] / np.linalg.norm(noisy, axis=1)
        assert shown.mean() == pytest.approx(cosine, abs=0.005)


@pytest.mark.parametrize("noise", [0.002, 0.01, 0.08])
def test_equal_capacities_are_equal(noise):
    kappa = fair_order.equal_capacity_concentration(noise, math.sqrt(3))
    gaussian = bounds.bayes_capacity_gaussian(DIMENSION, noise, math.sqrt(3))
    assert float(bounds.bayes_capacity_vmf(DIMENSION, kappa)) == pytest.approx(float(gaussian))


def test_rank_correlation_is_spearmans_with_ties():
    rng = np.random.default_rng(7)
    risk = rng.normal(size=(3, 16))
    order = np.repeat(np.arange(8.0), 2)
    found = fair_order.rank_correlation(risk, order)
    for row, value in zip(risk, found, strict=True):
        assert value == pytest.approx(stats.spearmanr(row, order).statistic)
    # an order blind to the mechanism, perfect within each, reaches one half only
    apart = np.where(np.arange(16) % 2, 100.0, 0.0) + order
    assert 0.45 < fair_order.rank_correlation(apart, order) < 0.55


def test_the_printed_pairs_capacities_order_the_printed_errors():
    table = fair_order.printed_correlations().set_index(["data", "n"])
    assert table.loc[("MNIST", 128), "log capacity"] == pytest.approx(1)
    assert table.loc[("FashionMNIST", 16), "log capacity"] < 0.95
    assert (table["epsilon"] < 0.7).all()


def test_points_are_equal_in_what_their_pairing_holds_equal(monkeypatch):
    monkeypatch.setattr(fair_order, "studied_pairs", lambda: studied_pairs()[::7])
    points = fair_order.paired_points(128)
    assert len(points) == 12
    for vmf, gaussian in zip(points[::2], points[1::2], strict=True):
        assert (vmf.mechanism, gaussian.mechanism) == ("VMF", "Gaussian")
        assert vmf.pairing == gaussian.pairing
        if vmf.pairing == "equal capacity":
            assert vmf.log_capacity == gaussian.log_capacity
        else:
            assert vmf.epsilon == gaussian.epsilon
            assert vmf.log_capacity < gaussian.log_capacity


def curves(trained_cosine):
    """Attacks and trainings whose error falls with the cosine, under noises of known cosines.

    VMF noise has one cosine at all steps, Gaussian noise three times that of training at first.
    """
    noise = np.geomspace(0.1, 10, 25)
    rows = []
    for name, sign, first in (("Gaussian", -1, 3.0), ("VMF", 1, 1.0)):
        cosine = trained_cosine * noise**sign
        both = pd.DataFrame({"n": 16, "mechanism": name, "noise": noise, "cosine": cosine})
        trained = both.assign(accuracy=np.log(cosine), **{"accuracy error": 0.01})
        tried = both.assign(cosine=first * cosine, mse=-np.log(first * cosine))
        rows.append((tried.assign(**{"mse error": 0.1}), trained))
    return [pd.concat(parts, ignore_index=True) for parts in zip(*rows, strict=True)]


def test_at_equal_accuracy_the_cosine_under_attack_decides():
    """Equal means over the training say nothing of the first step, which is the one attacked."""
    matched = mechanism.at_equal_accuracy(*curves(0.02))
    assert len(matched) >= 23  # whether the ends are reached is a matter of rounding
    np.testing.assert_allclose(matched["trained"], 0, atol=1e-9)
    np.testing.assert_allclose(matched["attacked"], math.log(3))
    np.testing.assert_allclose(matched["ahead"], math.log(3))
    # the error of both accuracies, on a curve of slope one, beside that of both attacks
    inner = matched["ahead error"].iloc[1:-1]
    np.testing.assert_allclose(inner, math.sqrt(2 * 0.01**2 + 2 * 0.1**2))


def test_more_noise_in_the_runs_leaves_matched_utility_undecided():
    tables = read_record(RECORD).tables
    attack, utility = tables["attack"], tables["utility"]

    def judged(attack, utility):
        frames = {**tables.frames, "attack": attack, "utility": utility}
        verdicts = mechanism.judge(replace(tables, frames=frames))
        (verdict,) = (v for v in verdicts if v.target == "D-032")
        return verdict.status

    assert judged(attack, utility) == "not decided"  # the step attacked decides
    throughout = utility["cosine"].where(utility["mechanism"] == "Gaussian", utility["cosine"] / 2)
    longer = utility.assign(cosine=throughout)
    assert judged(attack, longer) == "reproduced"
    noisy = attack.assign(**{"mse error": 3 * attack["mse error"]})
    assert judged(noisy, longer) == "not decided"
    # what the mechanisms' names say must be what was attacked
    names = {"VMF": "Gaussian", "Gaussian": "VMF"}
    with failures_kept():
        turned = judged(attack.assign(mechanism=attack["mechanism"].map(names)), utility)
    assert turned == "failed"


def test_printed_errors_are_told_apart_from_guesses_once_each():
    table = mechanism.printed_errors()
    assert not table.duplicated(["data", "mechanism", "noise"]).any()
    assert len(table) == 40
    plain = table[(table["data"] == "MNIST") & (table["noise"] == "-")].iloc[0]
    assert plain["MSE"] == pytest.approx(1.370)
    assert plain["class means"] < plain["MSE"] < plain["mean image"]


def test_a_watcher_sees_every_step_and_changes_nothing():
    network = SigmoidNetwork((6, 5, 3))
    records = torch.randn((20, 6), generator=torch.Generator().manual_seed(2))
    labels = torch.arange(20) % 3
    steps: list[int] = []

    def watch(step, weights, rows, takes_part, released):
        steps.append(step)
        assert rows.shape == takes_part.shape
        assert all(released[name].shape == w.shape for name, w in weights.items())

    def trained(watch):
        return train_mini_batches(
            network,
            records,
            labels,
            [Release("gaussian", 0.5), Release("vmf", 40.0)],
            batch_size=5,
            epochs=3,
            generator=torch.Generator().manual_seed(8),
            watch=watch,
        )

    watched, plain = trained(watch), trained(None)
    assert steps == list(range(12))
    assert all(torch.equal(watched[name], w) for name, w in plain.items())

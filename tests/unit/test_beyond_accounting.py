"""Our own accounting of VMF noise, capacity of layers and utility at equal epsilon."""

from __future__ import annotations

import math

import numpy as np
import pytest

from companion.experiments import federated
from companion.papers.beyond import capacity_of_layers as layers
from companion.papers.beyond import fair_utility, vmf_accountant
from companion.study import Study
from reconrisk import bounds, privacy

PAIRS = [federated.studied_pairs()[k] for k in (0, 7)]


def test_an_enclosure_that_is_too_low_fails_the_simulation(monkeypatch):
    honest = privacy.vmf_epsilon

    def halved(*args, **kwargs):
        value = honest(*args, **kwargs)
        return type(value)(0.8 * value.lower, 0.8 * value.upper)

    monkeypatch.setattr(privacy, "vmf_epsilon", halved)
    context = Study().context("beyond/vmf_accountant")
    assert vmf_accountant.simulated_runs(context)["errors outside"].max() > 4


def test_a_square_has_less_capacity_than_the_disc_around_it():
    # p = 1 + 1: (1 + 2/(s sqrt(2 pi)))^2 against Theorem 5's disc of radius sqrt(2)
    s = 0.25
    side = 1 + 2 / (s * math.sqrt(2 * math.pi))
    assert layers.gap(s, (1, 1)) == pytest.approx(
        float(bounds.bayes_capacity_gaussian(2, s, math.sqrt(2))) - 2 * math.log(side), rel=1e-12
    )
    volumes, _ = layers.log_volumes((1, 1))
    assert volumes == pytest.approx(math.log(2 * math.pi / 4), rel=1e-12)
    assert layers.gap(1e-6, (1, 1)) == pytest.approx(volumes, rel=1e-4)


def test_equal_layers_fill_the_ball_to_leading_order():
    equal, leading = layers.log_volumes((1000, 1000, 1000))
    assert leading == pytest.approx(0.0, abs=1e-9)
    assert 0 < equal < 20
    assert layers.log_volumes((2000, 900, 100))[0] > 500


def test_fair_concentrations_are_below_the_printed_ones():
    table = fair_utility.certified_costs(PAIRS)
    assert (table["VMF epsilon at kappa"] > table["epsilon"]).all()
    approximate = math.sqrt(federated.DIMENSION) / (2 * table["sigma"])
    np.testing.assert_allclose(table["fair kappa"], approximate, rtol=0.01)


def test_gaussian_runs_do_not_notice_the_concentration_beside_them():
    overrides = {"beyond/fair_utility": {"epochs": 2, "repeats": 2, "concentrations": [75, 400]}}
    context = Study(overrides=overrides).context("beyond/fair_utility")
    rows = fair_utility.pairing_runs(context, PAIRS, [47.6, 300.0])
    by_layer, whole, fair = fair_utility.BY_LAYER, fair_utility.WHOLE, fair_utility.FAIR
    assert set(rows["pairing"]) == {by_layer, whole, fair}
    wide = rows[rows["mechanism"] == "Gaussian"].pivot_table(
        index=["label", "repeat"], columns="pairing", values="accuracy"
    )
    np.testing.assert_array_equal(wide[whole], wide[fair])

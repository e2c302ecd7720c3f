"""Our own accounting of VMF noise, capacity of layers and utility at equal epsilon."""

from __future__ import annotations

import math

import numpy as np
import pytest

from companion.experiments import federated
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
    # layers of one weight each: (1 + 2/(s sqrt(2 pi)))^2 against Theorem 5's disc of radius sqrt(2)
    s = 0.25
    layers = 2 * float(bounds.bayes_capacity_gaussian(1, s, 1.0))
    assert layers == pytest.approx(2 * math.log1p(2 / (s * math.sqrt(2 * math.pi))), rel=1e-12)
    assert layers < float(bounds.bayes_capacity_gaussian(2, s, math.sqrt(2)))
    # with little noise the ratio is that of the volumes
    gap = [float(bounds.bayes_capacity_gaussian(p, 1e-6, r)) for p, r in ((2, 2**0.5), (1, 1.0))]
    assert gap[0] - 2 * gap[1] == pytest.approx(math.log(2 * math.pi / 4), rel=1e-4)


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

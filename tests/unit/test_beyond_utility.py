"""Facts about training at truly equal epsilon."""

from __future__ import annotations

import math

import numpy as np

from companion import study
from companion.experiments import federated
from companion.papers.beyond import fair_utility

PAIRS = [federated.studied_pairs()[k] for k in (0, 7)]


def test_fair_concentrations_are_below_the_printed_ones():
    table = fair_utility.certified_costs(PAIRS)
    assert (table["VMF epsilon at kappa"] > table["epsilon"]).all()
    approximate = math.sqrt(federated.DIMENSION) / (2 * table["sigma"])
    np.testing.assert_allclose(table["fair kappa"], approximate, rtol=0.01)


def test_equal_epsilon_is_exhibited_and_shares_its_runs():
    overrides = {
        "beyond/fair_utility": {"epochs": 2, "repeats": 2, "concentrations": [75, 400]},
    }
    session = study.Study(overrides=overrides)
    context = session.context("beyond/fair_utility")
    costs = fair_utility.certified_costs(PAIRS)
    rows = fair_utility.pairing_runs(context, PAIRS, list(costs["fair kappa"]))
    assert set(rows["pairing"]) == {fair_utility.BY_LAYER, fair_utility.WHOLE, fair_utility.FAIR}
    wide = rows[rows["mechanism"] == "Gaussian"].pivot_table(
        index=["label", "repeat"], columns="pairing", values="accuracy"
    )
    # Gaussian runs do not notice the concentration beside them
    np.testing.assert_array_equal(wide[fair_utility.WHOLE], wide[fair_utility.FAIR])

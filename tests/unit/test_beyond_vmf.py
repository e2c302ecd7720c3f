"""The exhibits on attackers who know VMF noise: parts against other routes, and their judges."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from companion.papers.beyond import (
    vmf_batches,
    vmf_inversion,
    vmf_notions,
    vmf_rero,
)
from companion.study import Study
from made_tables import made
from reconrisk import bounds, privacy

# Batches -----------------------------------------------------------------------------------------


def test_candidates_and_lengths_of_a_batch():
    study = Study().context("beyond/vmf_prior_aware")
    (batch,) = vmf_batches.draw_batches(study, "digits", 5, 1, 3)
    assert batch.known.shape == (13_700,) and batch.gradients.shape == (3, 13_700)
    assert float(batch.gradients.norm(dim=1).max()) <= 1 + 1e-5
    assert len(set(batch.rows.tolist()) | set(batch.candidates.tolist())) == 7
    sums = batch.known + batch.gradients
    assert batch.length == pytest.approx(float(sums.norm(dim=1).mean()), rel=1e-6)
    cosine = float(torch.nn.functional.cosine_similarity(sums[0], sums[1], dim=0))
    assert batch.cosines[0, 1] == pytest.approx(cosine, abs=1e-5)
    # alone in its batch, a candidate's direction is its gradient's
    (alone,) = vmf_batches.draw_batches(study, "digits", 1, 1, 3)
    assert torch.allclose(alone.directions, alone.gradients / alone.gradients.norm(dim=1)[:, None])


def test_calibrations_to_a_cosine_are_inverse():
    for s in (0.05, 1.0, 30.0):
        cosine = float(bounds.direction_cosine_gaussian(500, s))
        assert vmf_batches.noise_of_cosine(500, cosine) == pytest.approx(s, rel=1e-9)
        kappa = vmf_batches.concentration_of_cosine(500, s)
        assert float(privacy.vmf_mean_cosine(500, kappa)) == pytest.approx(cosine, rel=1e-9)


# Reconstruction robustness -----------------------------------------------------------------------


def test_unprinted_noise_is_refused():
    with pytest.raises(ValueError, match="Table IV"):
        vmf_rero.run_curves(0.5, np.array([0.1]))


# The analytic inversion --------------------------------------------------------------------------


@pytest.mark.parametrize("kappa", [30.0, 300.0])
def test_equal_gaussian_noise(kappa):
    p = 2560
    sigma = vmf_inversion.equal_gaussian("capacity", p, kappa)
    assert float(bounds.bayes_capacity_gaussian(p, sigma, 1.0)) == pytest.approx(
        float(bounds.bayes_capacity_vmf(p, kappa)), rel=1e-9
    )
    # opposite directions are twice as far apart as a record moves a sum
    assert vmf_inversion.equal_gaussian("epsilon", p, kappa) == pytest.approx(
        math.sqrt(p) / (2 * kappa), rel=0.03
    )
    assert vmf_inversion.equal_gaussian("cosine", p, kappa) == pytest.approx(
        math.sqrt(p) / kappa, rel=0.03
    )


@pytest.fixture(scope="module")
def inverted():
    small = {"signals": (1.0, 8.0), "records": 40, "rows": 50}
    return vmf_inversion.measure(Study(seed=3, overrides={"beyond/vmf_inversion": small}))


def test_pictures_of_the_inversion(inverted):
    assert len(vmf_inversion.draw(inverted).axes) == 3


# Which mechanism, under which notion -------------------------------------------------------------


def notion_tables():
    """At equal epsilon VMF is better protected and less useful, at equal capacity otherwise."""
    rows = []
    for held, factor in (("epsilon", 0.5), ("capacity", 2.0), ("cosine", 1.0)):
        for key, notion in vmf_notions.NOTIONS.items():
            vmf = {"epsilon": 2.0, "run": 2.0, "release": 2.0, "capacity": 0.5}.get(key, 1.0)
            rows.append(
                {
                    "sigma": 0.3,
                    "held equal": held,
                    "concentration": 50.0,
                    "notion": notion,
                    "Gaussian": 0.4,
                    "VMF": 0.4 * (vmf if held == "cosine" else factor),
                    "standard error": 0.001 if key == "named" else 0.0,
                    "Gaussian cosine": 0.1,
                    "VMF cosine": 0.1 * factor,
                    "at least": False,
                }
            )
    return made(vmf_notions, {"notions": rows})


def test_winners():
    assert vmf_notions.smaller(1.0, 2.0, 0.1) == "Gaussian"
    assert vmf_notions.smaller(2.0, 1.0, 0.1) == "VMF"
    assert vmf_notions.smaller(1.0, 1.05, 0.1) == "neither"
    row = {"held equal": "epsilon", "notion": "certified epsilon", "standard error": 0.0}
    better = vmf_notions.protects_better
    assert better(row | {"Gaussian": 1.0, "VMF": 1.0}) == "held equal"
    row["notion"] = "log capacity"
    assert better(row | {"Gaussian": 1.0, "VMF": 1.005}) == "neither"
    assert better(row | {"Gaussian": 1.0, "VMF": 1.03}) == "Gaussian"
    # where simulated, four standard errors must lie on one side of the margin
    simulated = row | {"Gaussian": 1.0, "VMF": 1.05}
    assert better(simulated | {"standard error": 0.01}) == "neither"
    assert better(simulated | {"standard error": 0.1}) == vmf_notions.UNDECIDED
    assert better(simulated | {"VMF": 1.3, "standard error": 0.01}) == "Gaussian"


def test_values_as_they_are_shown():
    shown = vmf_notions.shown_values(notion_tables()["notions"])
    assert list(shown.columns[2:]) == [
        "Gaussian", "VMF, equal epsilon", "VMF, equal capacity", "VMF, equal cosine",
    ]  # fmt: skip
    assert shown.set_index("notion").loc["log capacity"].tolist() == [
        0.3, "0.4", "0.2", "0.8", "0.2",
    ]  # fmt: skip
    assert [vmf_notions.two_digits(x) for x in (41_234.0, 594.7, 99.6, 20.1, 0.0123)] == [
        "41,000", "590", "100", "20", "0.012",
    ]  # fmt: skip
    assert [vmf_notions.two_digits(x, at_least=True) for x in (0.9554, 594.7)] == [
        "> 0.95", "> 590",
    ]  # fmt: skip


def test_same_seed_same_tables(inverted):
    small = {"signals": (1.0, 8.0), "records": 40, "rows": 50}
    again = vmf_inversion.measure(Study(seed=3, overrides={"beyond/vmf_inversion": small}))
    for name, table in inverted.items():
        assert table.equals(again[name])

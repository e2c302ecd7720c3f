"""The exhibits on attackers who know the sphere: their parts against other routes, and verdicts."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pandas as pd
import pytest
import torch

from companion.papers.beyond import old_vmf as ours
from companion.papers.beyond import turned_batches as turned
from companion.study import Study
from companion.study.verdicts import VerdictError
from reconrisk import bounds, privacy

SMALL = {
    "beyond/vmf_rero": {
        "noise_multipliers": (0.461,), "prior_points": 7, "simulated_steps": 2, "trials": 2000
    },
    "beyond/vmf_prior_aware": {
        "signals": (1.0, 2.0), "samples": 1000, "batch_sizes": (1, 8), "batches": 12,
        "releases": 40, "steps": 2,
    },
    "beyond/vmf_inversion": {"signals": (1.0, 8.0), "records": 40, "rows": 10},
    "beyond/vmf_notions": {"noise_multipliers": (0.461,), "batches": 10, "releases": 40},
}  # fmt: skip


@pytest.mark.parametrize("exhibit", list(SMALL))
def test_small_runs_settle_what_they_declare(exhibit):
    result = Study(seed=3, overrides=SMALL).run(exhibit)
    assert result.status in ("reproduced", "holds on stand-in data")
    for table in result.tables.values():
        assert not table.isna().to_numpy().any()


def test_candidates_and_lengths_of_a_batch():
    context = Study(overrides=SMALL).context("beyond/vmf_prior_aware")
    (batch,) = turned.draw_batches(context, "digits", 5, 1, 3)
    assert batch.known.shape == (13_700,) and batch.gradients.shape == (3, 13_700)
    assert float(batch.gradients.norm(dim=1).max()) <= 1 + 1e-5
    assert len(set(batch.rows.tolist()) | set(batch.candidates.tolist())) == 7
    sums = batch.known + batch.gradients
    assert batch.length == pytest.approx(float(sums.norm(dim=1).mean()), rel=1e-6)
    cosine = float(torch.nn.functional.cosine_similarity(sums[0], sums[1], dim=0))
    assert batch.cosines[0, 1] == pytest.approx(cosine, abs=1e-5)
    # alone in its batch, a candidate's direction is its gradient's
    (alone,) = turned.draw_batches(context, "digits", 1, 1, 3)
    assert torch.allclose(alone.directions, alone.gradients / alone.gradients.norm(dim=1)[:, None])


def test_calibrations_to_a_cosine_are_inverse():
    for s in (0.05, 1.0, 30.0):
        cosine = float(bounds.direction_cosine_gaussian(500, s))
        assert turned.noise_of_cosine(500, cosine) == pytest.approx(s, rel=1e-9)
        kappa = turned.concentration_of_cosine(500, s)
        assert float(privacy.vmf_mean_cosine(500, kappa)) == pytest.approx(cosine, rel=1e-9)


@pytest.mark.parametrize("kappa", [30.0, 300.0])
def test_equal_gaussian_noise(kappa):
    p = 2560
    sigma = ours._equal_gaussian("capacity", p, kappa)
    assert float(bounds.bayes_capacity_gaussian(p, sigma, 1.0)) == pytest.approx(
        float(bounds.bayes_capacity_vmf(p, kappa)), rel=1e-9
    )
    # opposite directions are twice as far apart as a record moves a sum
    assert ours._equal_gaussian("epsilon", p, kappa) == pytest.approx(
        math.sqrt(p) / (2 * kappa), rel=0.03
    )
    assert ours._equal_gaussian("cosine", p, kappa) == pytest.approx(math.sqrt(p) / kappa, rel=0.03)


def test_winners():
    assert ours._smaller(1.0, 2.0, 0.1) == "Gaussian"
    assert ours._smaller(2.0, 1.0, 0.1) == "VMF"
    assert ours._smaller(1.0, 1.05, 0.1) == "neither"
    row = {"held equal": "epsilon", "notion": "certified epsilon", "standard error": 0.0}
    assert ours._protects(row | {"Gaussian": 1.0, "VMF": 1.0}) == "held equal"
    row["notion"] = "log capacity"
    assert ours._protects(row | {"Gaussian": 1.0, "VMF": 1.005}) == "neither"
    assert ours._protects(row | {"Gaussian": 1.0, "VMF": 1.03}) == "Gaussian"
    # where simulated, differences below four standard errors do not count
    assert ours._protects(row | {"Gaussian": 1.0, "VMF": 1.3, "standard error": 0.1}) == "neither"


def test_two_digits():
    assert [ours._two_digits(x) for x in (41_234.0, 594.7, 99.6, 20.1, 0.0123)] == [
        "41,000", "590", "100", "20", "0.012",
    ]  # fmt: skip
    assert [ours._two_digits(x, at_least=True) for x in (0.9554, 594.7)] == ["> 0.95", "> 590"]


def test_unprinted_noise_is_refused():
    with pytest.raises(ValueError, match="Table IV"):
        ours._run_curves((0.5,), np.array([0.1]))


def test_a_wrong_formula_is_seen(monkeypatch):
    # the noise of the row mean forgotten: the attacked pictures no longer agree with the formula
    monkeypatch.setattr(
        ours.bounds, "direction_error_scaled_vmf", lambda n, kappa, p: (p - 1) / kappa**2
    )
    with pytest.raises(VerdictError, match="O-035"):
        Study(seed=3, overrides=SMALL).run("beyond/vmf_inversion")


def test_a_wrong_winner_is_seen(monkeypatch):
    # the capacity of the unaveraged noise: capacity then calls the other one the better protected
    monkeypatch.setattr(ours, "_log_capacity", lambda sigma: 100.0)
    with pytest.raises(VerdictError, match="vmf_notions"):
        Study(seed=3, overrides=SMALL).run("beyond/vmf_notions")


def test_same_seed_same_tables():
    first, second = (
        Study(seed=5, overrides=SMALL).run("beyond/vmf_inversion") for _ in range(2)
    )
    pd.testing.assert_frame_equal(first.tables["measured"], second.tables["measured"])
    assert dataclasses.replace(first, tables={}) == dataclasses.replace(second, tables={})

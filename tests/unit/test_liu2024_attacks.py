"""Liu et al.'s tables of attacks: what is printed, what it can mean, and that checks can fail."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest

from companion.papers.liu2024 import old_attacks as attacks
from companion.papers.liu2024.error_moments import (
    can_belong_together,
    largest_mean_psnr,
    least_mean_psnr,
)
from companion.papers.liu2024.old_attacks_parameters import PARAMETERS
from companion.study.parameters import resolve
from companion.study.session import Context
from companion.study.verdicts import VerdictError


def _context(**given) -> Context:
    name = "liu2024/table4"
    return Context(name, resolve(name, PARAMETERS[name], "quick", given))


# Means and deviations of two errors ------------------------------------------------------------


@pytest.mark.parametrize("seed", range(6))
def test_what_pictures_really_have_is_possible(seed):
    rng = np.random.default_rng(seed)
    errors = np.clip(rng.lognormal(-1.8, 0.2 + 0.15 * seed, 50), 1e-4, 1)
    decibels = -20 * np.log10(errors)
    four = [errors.mean(), errors.std(ddof=1), decibels.mean(), decibels.std(ddof=1)]
    rounded = [round(float(v), 2) for v in four]
    assert can_belong_together(*rounded)
    assert least_mean_psnr(rounded[0]) <= rounded[2]
    assert rounded[2] <= largest_mean_psnr(rounded[0], rounded[1], rounded[3])


def test_jensens_bound_is_attained_by_equal_errors():
    assert least_mean_psnr(0.1 - 0.005) == pytest.approx(20)
    assert can_belong_together(0.1, 0.0, 20.0, 0.0)
    assert not can_belong_together(0.1, 0.0, 21.0, 0.0)
    assert not can_belong_together(0.1, 0.0, 19.0, 0.0)


def test_an_error_cannot_deviate_by_more_than_its_mean_allows():
    # numbers in [0, 1] with mean m: at most sqrt(m (1 - m)), over which sqrt(2) is forgiven
    assert not can_belong_together(0.31, 0.71, 10.54, 1.38)
    assert math.isnan(largest_mean_psnr(0.31, 0.71, 1.38))


def test_the_printed_columns_contradict_each_other():
    # Table 7, batch size 2, no defence: 0.15 (0.04) and 23.69 (5.69)
    assert not can_belong_together(0.15, 0.04, 23.69, 5.69)
    most = largest_mean_psnr(0.15, 0.04, 5.69)
    # two errors, one small enough to use up the spread of the PSNR, reach nearly that
    share = np.linspace(1e-3, 0.2, 400)[:, None]
    small = np.geomspace(1e-5, 0.1, 400)
    large = (0.155 - share * small) / (1 - share)
    spread = np.sqrt(share * (1 - share)) * 20 * np.log10(large / small)
    deviation = np.sqrt(share * (1 - share)) * (large - small)
    fits = (spread <= 5.695) & (deviation <= 0.045)
    mean = -20 * (share * np.log10(small) + (1 - share) * np.log10(large))
    assert 17 < mean[fits].max() <= most < 20


# What is printed ---------------------------------------------------------------------------------


def test_printed_tables_are_read_whole():
    assert [len(attacks.printed_errors(f"table{k}")) for k in (4, 7, 8)] == [180, 45, 45]
    four = attacks.printed_errors("table4")
    assert set(four["attack"]) == set(attacks.TABLE4)
    row = four[(four["attack"] == "CPA") & (four["batch size"] == 8)].set_index("setting")
    assert row.loc["GradPrune p=0.99", "RMSE"] == 0.33
    seven = attacks.printed_errors("table7").set_index(["batch size", "setting"])
    assert seven.loc[(8, "LocalAggregation steps=5"), "PSNR sd"] == 2.20
    assert seven.loc[(2, "None"), "RMSE"] == 0.15


def test_checks_of_the_printed_tables_fail_when_a_cell_is_changed(monkeypatch):
    real = attacks.printed_errors

    def changed(table: str) -> pd.DataFrame:
        found = real(table).copy()
        if table == "table8":
            found.loc[found["setting"] == "GradClip C=2", "RMSE"] += 0.01
        return found

    printed = real("table4").copy()
    printed.loc[printed["attack"] == "Ours", "RMSE"] += 0.1
    context = _context()
    with pytest.raises(VerdictError, match="E-020"):
        attacks._most_settings(context, printed, printed)
    monkeypatch.setattr(attacks, "printed_errors", changed)
    assert (attacks._shared_cells().eval("`RMSE in 4` == `RMSE in 8`")).sum() == 30


def test_both_errors_are_refuted_only_while_they_contradict():
    together = attacks._judged_pairs("table7", attacks.printed_errors("table7").head(4))
    assert attacks._incompatible(together).status == "refuted"
    mended = together.assign(possible=True)
    with pytest.raises(VerdictError, match="E-E-03"):
        attacks._incompatible(mended)


# What is run -------------------------------------------------------------------------------------


def test_imprints_lose_more_records_in_larger_batches(monkeypatch):
    monkeypatch.setattr(attacks, "_MANY", 500)
    found = attacks.imprints_by_batch(_context(batch_sizes=[1, 8]))
    assert found["exact"].iloc[0] == 1
    assert (found["exact"].diff().dropna() < 0).all()
    gap = (found["exact"] - found["alone in a bin"]).abs()
    assert (gap <= 4 * found["exact error"] + 0.01).all()


def test_means_of_exact_pictures_are_finite():
    rows = pd.DataFrame(
        {
            "attack": "Analytic",
            "batch size": 2,
            "defence": "None",
            "strength": 0.0,
            "setting": "None",
            "aware": False,
            "RMSE": [0.0, 0.1],
            "PSNR": [np.inf, 20.0],
            "gradient norm": 1.0,
            "relative noise": 0.0,
        }
    )
    (row,) = attacks._means(rows).to_dict("records")
    assert row["PSNR"] == 60.0 and row["RMSE"] == pytest.approx(0.05)


def test_a_verdict_on_our_runs_is_an_error_when_the_outcome_is_another():
    context = _context()
    held = attacks._on_ours(context, "E-018", True, "so it is")
    assert held.status == "holds on stand-in data"
    known = attacks._on_ours(context, "E-018", False, "so it is not", otherwise="for a reason")
    assert known.status == "differs"
    with pytest.raises(VerdictError):
        attacks._on_ours(context, "E-018", False, "it should be")
    with pytest.raises(VerdictError):
        attacks._on_ours(context, "E-018", True, "it should not be", otherwise="for a reason")

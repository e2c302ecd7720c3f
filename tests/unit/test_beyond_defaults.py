"""The audit of documented settings: its rows, and its numbers by other routes."""

from __future__ import annotations

import math
from fractions import Fraction

import dp_accounting
import pandas as pd
import pytest
from dp_accounting import pld, rdp

from companion.papers.beyond import defaults
from companion.papers.beyond.rounding import outwards
from companion.study import registry
from reconrisk import DPSGD, Enclosure, bounds

ROWS = pd.read_csv(
    registry.project_root() / "data" / "companion" / "defaults.csv",
    dtype=str,
    keep_default_na=False,
    index_col="id",
)


def test_every_setting_has_its_source_and_can_be_computed() -> None:
    assert ROWS.index.is_unique
    for row in ROWS.itertuples():
        assert row.source.startswith("https://")
        assert row.version and row.what and row.note
        if row.steps:
            assert 0 < Fraction(row.sampling_rate) <= 1
            assert int(row.steps) > 0 and 0 < float(row.delta) < 1
            assert bool(row.noise_multiplier) != bool(row.target_epsilon)
        else:  # a guarantee
            assert row.reported_zcdp or (row.reported_epsilon and row.delta)
    assert set(ROWS["kind"]) == set(defaults._KINDS)


def test_sources_are_of_one_commit_or_paper() -> None:
    """An address that changes under the reader is none."""
    for source in ROWS["source"]:
        if "github.com" in source:
            commit = source.split("/blob/")[1].split("/")[0]
            assert len(commit) == 40 and int(commit, 16) >= 0


def _event(name: str) -> dp_accounting.DpEvent:
    row = ROWS.loc[name]
    step = dp_accounting.PoissonSampledDpEvent(
        float(Fraction(row["sampling_rate"])),
        dp_accounting.GaussianDpEvent(float(row["noise_multiplier"])),
    )
    return dp_accounting.SelfComposedDpEvent(step, int(row["steps"]))


@pytest.mark.parametrize(
    ("name", "digits"), [("de_imagenet", 2), ("de_cifar100", 1), ("tff", 0), ("de_cifar10", 0)]
)
def test_what_is_reported_is_what_renyi_accounting_gives(name: str, digits: int) -> None:
    """The settings are read as they were meant: their epsilon comes out as documented."""
    accountant = rdp.RdpAccountant()
    accountant.compose(_event(name))
    epsilon = accountant.get_epsilon(float(ROWS.loc[name, "delta"]))
    assert round(epsilon, digits) == round(float(ROWS.loc[name, "reported_epsilon"]), digits)


@pytest.mark.parametrize("name", ["tfp_site", "tff", "flower_secagg", "de_cifar10"])
def test_the_certified_epsilon_holds_that_of_another_accountant(name: str) -> None:
    tables = registry.project_root() / "tests" / "tables" / "beyond" / "defaults" / "settings.csv"
    stored = pd.read_csv(tables).iloc[ROWS.index.get_loc(name)]
    accountant = pld.PLDAccountant(value_discretization_interval=1e-3)
    accountant.compose(_event(name))
    epsilon = accountant.get_epsilon(float(ROWS.loc[name, "delta"]))
    assert stored["epsilon, from"] * (1 - 2e-3) <= epsilon <= stored["epsilon, to"] * 1.01


def test_a_guarantee_alone_bounds_the_success() -> None:
    """rho-zCDP as noise 1/sqrt(2 rho) without sampling, which has that rho, does or better."""
    row = ROWS.loc["gboard_low"]
    found = defaults._success(row, None, 0.1)
    run = DPSGD(1 / math.sqrt(2 * float(row["reported_zcdp"])), 1.0, 1)
    assert found.lower == 0.1
    assert bounds.rero(run, 0.1).upper < found.upper < 1
    row = ROWS.loc["vaultgemma"]
    assert defaults._success(row, None, 1e-6).upper == pytest.approx(math.exp(2) * 1e-6, rel=1e-3)


def test_ends_are_rounded_outwards() -> None:
    low, high = outwards(Enclosure(0.123456, 0.123456))
    assert (low, high) == (0.1234, 0.1235)
    assert outwards(Enclosure(0.0, 1.0)) == (0.0, 1.0)
    assert outwards(Enclosure(1e-6, 1e-6)) == (1e-6, 1e-6)

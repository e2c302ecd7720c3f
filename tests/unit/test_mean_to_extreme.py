"""Facts about the exhibits of *From Mean to Extreme*."""

from __future__ import annotations

import dataclasses

import pandas as pd
import pytest

from companion import study
from companion.papers.mean_to_extreme import (
    alg_cor1_attack,
    fig1,
    fig3,
    fig4,
    fig5,
    fig6,
    lemB1,
    prop1,
    prop2,
    prop3,
    prop4,
    prop5,
    prop6,
    prop7,
    propB1,
    propB2,
    propB3,
    propB4,
    thm1,
    thm2,
)
from companion.study import registry
from companion.study.exhibits import id_of, judge_tables
from companion.study.records import FOLDER, read_tables

KEY = "mean_to_extreme"
SMALL = {
    alg_cor1_attack: {"repeats": 100, "dimension": 8},
    prop1: {"repeats": 200, "rows": [1, 10, 100]},
    propB1: {},
    propB2: {"repeats": 400, "rows": [1, 10, 100]},
    lemB1: {"repeats": 50_000},
    prop2: {"repeats": 400},
    thm1: {"records": 100, "noise_multipliers": [0.05, 1.0]},
    thm2: {"repeats": 400, "dimensions": [1, 64]},
    prop3: {"records": 20, "repeats": 100},
    prop4: {"records": 20, "repeats": 100},
    prop5: {"repeats": 2000},
    propB3: {"repeats": 200, "dimensions": [64, 1024]},
    fig3: {"points": 41},
    fig5: {},
    fig6: {"size": 64, "small_size": 32},
    prop6: {"dimensions": [100, 10_000], "digits": 50},
    propB4: {"repeats": 400, "dimensions": [3, 64]},
    prop7: {"repeats": 400, "averaged": [1, 4]},
}


@pytest.fixture(scope="module")
def measured():
    found = {}

    def measure(exhibit):
        if exhibit not in found:
            given = {id_of(exhibit): SMALL[exhibit]}
            found[exhibit] = exhibit.measure(study.Study(overrides=given))
        return found[exhibit]

    return measure


def failed(exhibit, tables) -> set[str]:
    verdicts = judge_tables(exhibit, tables)
    return {v.target.removeprefix(f"{KEY}/") for v in verdicts if v.status == "failed"}


@pytest.mark.parametrize("exhibit", SMALL, ids=lambda exhibit: id_of(exhibit).split("/")[1])
def test_what_holds_holds_on_small_runs_too(measured, exhibit) -> None:
    assert not failed(exhibit, measured(exhibit))


def test_another_size_than_the_papers_differs_and_does_not_fail(measured) -> None:
    parameters = study.Study(overrides={f"{KEY}/fig1": {"size": 64}}).context(f"{KEY}/fig1")
    errors = {
        "picture": [0, 0],
        "rows M": [1, 1000],
        "norm": [200.0, 200.0],
        "MSE": [6.25, 0.01],
        "expected MSE": [6.25, 0.01],
    }
    tables = study.Tables({"errors": pd.DataFrame(errors)}, parameters=parameters.parameters)
    status = {v.target: v.status for v in judge_tables(fig1, tables)}
    assert status[f"{KEY}/fig1_left"] == "differs" and "failed" not in status.values()


@pytest.mark.parametrize(("like", "status"), [("ncc", "reproduced"), ("psnr", "differs")])
def test_lpips_says_whether_a_perceptual_loss_follows_the_ncc(like, status) -> None:
    stored = read_tables(registry.project_root() / FOLDER / KEY / "fig4")
    untrained = judge_tables(fig4, stored)[-1]
    assert untrained.status == "not run here" and "weights" in untrained.why
    metrics = stored["metrics"]
    lpips = dataclasses.replace(
        stored,
        frames={"metrics": metrics.assign(perceptual_loss=-metrics[like])},
        stand_ins=(),
        ran="photographs; perceptual loss: LPIPS (SqueezeNet).",
    )
    verdicts = judge_tables(fig4, lpips)
    assert verdicts[-1].status == status and "LPIPS (SqueezeNet)" in verdicts[-1].statement
    assert not any(v.status in ("failed", "holds on stand-in data") for v in verdicts)
    assert "LPIPS (SqueezeNet)" in fig4.caption(lpips) and "stand-in" not in fig4.caption(lpips)

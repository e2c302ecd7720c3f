"""Facts about the exhibits of *From Mean to Extreme*."""

from __future__ import annotations

import dataclasses

import pandas as pd
import pytest

from companion import study
from companion.papers.mean_to_extreme import fig1, fig4
from companion.study import registry
from companion.study.exhibits import judge_tables
from companion.study.records import FOLDER, read_tables

KEY = "mean_to_extreme"


def test_another_size_than_the_papers_differs_and_does_not_fail() -> None:
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
    trained = judge_tables(fig4, stored)[-1]
    assert trained.status == "not decided" and "the ST-LPIPS follows" in trained.statement
    # runs without the package, as the recorded one
    metrics = stored["metrics"].drop(columns="ST-LPIPS")
    untrained = judge_tables(fig4, dataclasses.replace(stored, frames={"metrics": metrics}))[-1]
    assert untrained.status == "not run here" and "weights" in untrained.why
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

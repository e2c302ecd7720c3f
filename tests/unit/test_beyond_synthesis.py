"""The run that five papers look at: parts by other routes, what breaks them."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
import torch

from altered_tables import stored
from companion.papers.beyond import one_run
from companion.papers.beyond.record_gradient import clipped_gradient
from companion.study import registry
from companion.study.records import FOLDER
from reconrisk.models import Classifier
from reconrisk.training import gradient_factors

# One run -----------------------------------------------------------------------------------------


def test_an_entry_of_the_report_that_differs_is_found():
    report = stored("beyond/one_run")["report"]
    wrong = report.assign(here=report["here"].mask(report.index == 3, 0.2))
    assert report.index[~one_run.report_agrees(wrong)].tolist() == [3]


def test_parts_of_the_run():
    assert one_run.share_and_error(np.array([True, False])) == (0.5, math.sqrt(0.5 / 2))
    assert one_run.share_and_error(np.zeros(4)) == (0.0, 0.25)
    row = one_run.Answer("C", "all", "what", 0.5, "at most", "attack", 0.4, 0.1)
    rows = [row, one_run.Answer("D", "", "x", 1.0)]
    shown = one_run.shown_answers(pd.DataFrame(rows, columns=one_run.ANSWER))
    assert shown["measured"].tolist() == ["≤ 0.4", ""]


def test_the_gradient_against_the_library_and_against_autograd():
    generator = torch.Generator().manual_seed(0)
    one = [Classifier(6, 4, 3).initialise(generator, torch.float64) for _ in range(3)]
    weights = {name: torch.stack([w[name] for w in one]) for name in one[0]}
    record, label = torch.rand(6, generator=generator, dtype=torch.float64), torch.tensor(2)
    found = clipped_gradient(weights, record, label)
    squares = sum(g.flatten(1).square().sum(dim=1) for g in found.values())
    factors = gradient_factors(weights, record[None], label[None])
    assert torch.allclose(squares, factors.squared_norms()[:, 0])

    def loss(w):
        hidden = torch.nn.functional.elu(w["hidden.weight"] @ record + w["hidden.bias"])
        logits = w["output.weight"] @ hidden + w["output.bias"]
        return torch.nn.functional.cross_entropy(logits[None], label[None])

    expected = torch.func.grad(loss)({name: w[1] for name, w in weights.items()})
    for name, g in found.items():
        assert torch.allclose(g[1], expected[name])
    clipped = clipped_gradient(weights, record, label, 0.01)
    norms = sum(g.flatten(1).square().sum(dim=1) for g in clipped.values()).sqrt()
    assert torch.allclose(norms, torch.full((3,), 0.01, dtype=torch.float64))


def test_the_landing_page_says_what_the_exhibit_computed():
    page = " ".join((registry.project_root() / "book" / "index.md").read_text().split())
    assert "named {ref}`about half of the time at most <exhibit-beyond-one_run>`" in page
    rows = pd.read_csv(registry.project_root() / FOLDER / "beyond" / "one_run" / "rows.csv")
    bound = rows.set_index("question")["bound"]["success with 10 candidates"]
    assert bound == pytest.approx(0.5, abs=0.02)

"""The diagram of Liu et al. 2024: a batch sent through its parts, and the sizes drawn."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from companion.papers.liu2024 import fig1
from companion.study import Tables
from companion.study.exhibits import judge_tables


def test_the_noise_alone_decides_the_error():
    """At a fixed batch the bound is proportional to the noise; without it nothing is left."""
    little, much = (
        fig1.send_through(np.random.default_rng(5), 8, 1500, 2, s) for s in (0.02, 0.04)
    )
    assert much["bound"] == pytest.approx(2 * little["bound"])
    assert much["defended"] == pytest.approx(2 * little["defended"], rel=0.05)
    assert little["undefended"] < 1e-9 < 1e-4 < little["defended"]


def test_a_gradient_does_not_know_the_order_of_its_batch():
    chain = fig1.send_through(np.random.default_rng(2), 6, 800, 3, 0.1)
    assert chain["reordered"] < 1e-12


def test_the_sizes_in_the_diagram():
    table = fig1.parts(16, 4000, 3).set_index("part")
    assert list(table.index[:4]) == ["batch", "gradient", "defence", "attack"]
    assert table["numbers"]["batch"] == table["numbers"]["attack"] == 48
    assert table["numbers"]["defence"] == 4000


@pytest.fixture
def tables():
    chain = {"reordered": 1e-16, "undefended": 1e-9, "defended": 0.11, "bound": 0.1}
    frames = {"parts": fig1.parts(6, 900, 2), "chains": pd.DataFrame([chain, chain])}
    return Tables(frames, exhibit="liu2024/fig1")


def test_the_diagram_writes_the_sizes_that_were_run(tables):
    (verdict,) = judge_tables(fig1, tables)
    assert verdict.status == "reproduced"
    written = [text.get_text() for text in fig1.draw(tables).axes[0].texts]
    assert {"12\nnumbers", "900\nnumbers"} <= set(written)
    assert "12 numbers" in fig1.alt(tables) and "900" in fig1.alt(tables)

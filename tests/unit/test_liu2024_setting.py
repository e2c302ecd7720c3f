"""The diagram of Liu et al. 2024: a batch sent through its parts, and the sizes drawn."""

from __future__ import annotations

import numpy as np
import pytest

from companion import figures, study
from companion.papers.liu2024.old_setting import chain, parts


def test_the_noise_alone_decides_the_error():
    """At a fixed batch the bound is proportional to the noise; without it nothing is left."""
    little, much = (chain(np.random.default_rng(5), 8, 1500, 2, s) for s in (0.02, 0.04))
    assert much.bound == pytest.approx(2 * little.bound)
    assert much.defended == pytest.approx(2 * little.defended, rel=0.05)
    assert little.undefended < 1e-9 < 1e-4 < little.defended


def test_a_gradient_does_not_know_the_order_of_its_batch():
    assert chain(np.random.default_rng(2), 6, 800, 3, 0.1).reordered < 1e-12


def test_the_sizes_in_the_diagram():
    table = parts(16, 4000, 3).set_index("part")
    assert list(table.index[:4]) == ["batch", "gradient", "defence", "attack"]
    assert table["numbers"]["batch"] == table["numbers"]["attack"] == 48
    assert table["numbers"]["defence"] == 4000


def test_the_diagram_writes_the_sizes_that_were_run():
    session = study.Study(
        overrides={"liu2024/fig1": {"dimension": 6, "width": 900, "batch_size": 2, "draws": 4}}
    )
    result = session.run("liu2024/fig1")
    assert result.status == "reproduced"
    written = [text.get_text() for text in figures.draw(result).axes[0].texts]
    assert {"12 numbers", "900 numbers"} <= set(written)

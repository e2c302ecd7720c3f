"""Facts about the exhibits of Ziller et al. 2024."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pandas as pd
import pytest
import torch

from companion import study
from companion.papers.ziller2024 import attacked_photographs, fig1, fig4, fig8, table1
from companion.papers.ziller2024.projection_steps import released
from companion.study import registry, session
from companion.study.exhibits import id_of, judge_tables
from companion.study.records import FOLDER, read_tables
from reconrisk import DPSGD, bounds, datasets, metrics

KEY = "ziller2024"
SMALL = {"pictures": 2, "size": 64, "noise_multipliers": [1e-4, 1e-3, 1e-1]}


def measure(exhibit, seed: int = 0, **overrides):
    given = {id_of(exhibit): overrides} if overrides else {}
    return exhibit.measure(study.Study(seed=seed, overrides=given))


@pytest.fixture(scope="module")
def pixels():
    return measure(fig1, **SMALL)


@pytest.fixture(scope="module")
def bounds_table():
    return measure(table1)


# Table 1 -----------------------------------------------------------------------------------------


def test_table1_refuses_to_compare_fewer_numbers_than_the_paper_prints(
    bounds_table, monkeypatch
) -> None:
    printed = registry.printed(f"{KEY}/table1")
    for missing in (printed.index == 5, printed["row_index"] == 17):
        monkeypatch.setattr(registry, "printed", lambda name, m=missing: printed[~m])
        with pytest.raises(ValueError, match="68 printed numbers were expected in the table"):
            judge_tables(table1, bounds_table)


# The propositions --------------------------------------------------------------------------------


def test_the_noise_does_not_hang_on_the_last_bit_of_a_norm() -> None:
    """Norms are sums, whose last bit differs between machines; the draws must not."""
    context = study.Study().context(f"{KEY}/prop1")
    record = np.linspace(0, 1, 8)
    one, other = (
        released(context, record, DPSGD(0.5, max_grad_norm=c), 3)
        for c in (2.0, np.nextafter(2.0, 3.0))
    )
    assert np.allclose(one, other, rtol=1e-12)


# Photographs -------------------------------------------------------------------------------------


def test_two_workers_give_the_tables_of_one(monkeypatch) -> None:
    tables = []
    for workers in (1, 2):
        monkeypatch.setattr(session, "_FINISHED", {})  # nothing is served from memory
        given = {f"{KEY}/fig1": SMALL}
        context = study.Study(workers=workers, overrides=given).context(f"{KEY}/fig1")
        tasks = [
            attacked_photographs.picture_task(
                context, picture=i, size=64, row=0, max_grad_norm=10.0
            )
            for i in (0, 1)
        ]
        tables.append(attacked_photographs.attack_pictures(context, tasks))
    assert len(tables[0]) == 6
    pd.testing.assert_frame_equal(*tables, check_exact=True)


def test_figures_1_and_4_look_at_the_same_reconstructions() -> None:
    context = study.Study().context
    seeds = [
        [
            attacked_photographs.picture_task(
                context(f"{KEY}/{figure}"), picture=1, size=64, row=row, max_grad_norm=1.0
            )["noise_seed"]
            for row in (0, 1)
        ]
        for figure in ("fig1", "fig4")
    ]
    assert seeds[0] == seeds[1]
    assert seeds[0][0] != seeds[0][1]


@pytest.mark.parametrize("ratio", [0.3, 3.0])
def test_reconstructions_have_the_closed_form_mean_of_the_mse(ratio: float) -> None:
    picture = datasets.pictures(32, 1)[0]
    norm = float(np.linalg.norm(picture))
    given = DPSGD(3e-3, max_grad_norm=ratio * norm)
    generator = torch.Generator().manual_seed(5)
    rebuilt = [attacked_photographs.rebuild(picture, given, generator) for _ in range(200)]
    errors = metrics.mse(picture.ravel(), np.reshape(rebuilt, (200, -1)))
    bias = max(1 - ratio, 0.0) ** 2 * np.mean(picture**2)
    expected = bias + (given.max_grad_norm * given.noise_multiplier) ** 2
    assert errors.mean() == pytest.approx(expected, abs=4 * errors.std() / math.sqrt(200))
    assert bounds.expected_mse_clipped(
        norm, picture.size, 3e-3, given.max_grad_norm
    ) == pytest.approx(expected, rel=1e-12)


def test_the_expectations_drawn_in_figure_1_are_those_of_the_paper_at_this_dimension(pixels):
    table = pixels["metrics"]
    variance = (table["contrast"] * table["norm"]) ** 2 / table["N"]
    eq7 = (
        table["beta"]
        * np.sqrt(variance)
        / np.hypot(table["beta"] * np.sqrt(variance), table["C"] * table["sigma"])
    )
    assert np.allclose(table["expected NCC"], eq7, rtol=2 / table["N"].min())


def test_figure_1_spans_the_clipping_norms_its_rows_are_named_for(pixels) -> None:
    clipped = pixels["metrics"].groupby("row", sort=False)["beta"].agg(["min", "max"])
    assert list(clipped.index) == ["0.01 min", "min", "max", "10 max"]
    assert clipped.loc["0.01 min", "max"] < 0.011
    assert clipped.loc["min", "max"] == 1 and clipped.loc["min", "min"] < 1
    assert (clipped.loc[["max", "10 max"], "min"] == 1).all()


def test_a_network_that_stands_in_is_a_stand_in_for_its_own_panel_only() -> None:
    stored = read_tables(registry.project_root() / FOLDER / KEY / "fig4")
    network = stored["metrics"]["distance"].iloc[0]
    tables = dataclasses.replace(stored, stand_ins=(network,))
    verdicts = judge_tables(fig4, tables)
    status = {v.target: v.status for v in verdicts}
    assert status[f"{KEY}/fig4_nmi"] == status[f"{KEY}/fig4_ssim"] == "reproduced"
    # beside it a trained network decides
    assert [v.status for v in verdicts if v.target == f"{KEY}/fig4_perceptual"] == [
        "holds on stand-in data",
        "reproduced",
    ]
    assert status["B-031"] == status["B-036"] == "reproduced"
    untrained = {"metrics": tables["metrics"].drop(columns="ST-LPIPS")}
    alone = judge_tables(fig4, dataclasses.replace(tables, frames=untrained))
    assert {v.status for v in alone if v.target in ("B-031", "B-036")} == {"holds on stand-in data"}


def test_displayed_pictures_are_in_range_and_small_enough() -> None:
    tables = measure(fig8, sizes=[32, 512], noise_multipliers=[1e-5, 1e-3], clip_ratio=320.0)
    assert {len(image) for image in tables.images.values()} == {32, 256, 64}
    # the middle, which no averaging has made smoother than the noise is
    middle, whole = (tables.images[f"512 0.001{part}"] for part in (" middle", ""))
    assert middle.std() > 1.5 * whole.std()
    assert all(0 <= i.min() and i.max() <= 1 for i in tables.images.values())

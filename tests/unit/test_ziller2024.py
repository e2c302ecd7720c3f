"""Facts about the computations of Ziller et al. 2024."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest

from companion import figures, study
from reconrisk import DPSGD, bounds, metrics
from companion.study import registry
from reconrisk import datasets
from companion.experiments import _tools, ziller2024_bounds, ziller2024_photographs

KEY = "ziller2024"
SMALL = {"pictures": 2, "size": 64, "noise_multipliers": [1e-4, 1e-3, 1e-1]}


def run(exhibit: str, seed: int = 0, workers: int = 1, **overrides):
    exhibit = f"{KEY}/{exhibit}"
    given = {exhibit: overrides} if overrides else {}
    return study.Study(seed=seed, workers=workers, overrides=given).run(exhibit)


@pytest.fixture(scope="module")
def figure1():
    return run("fig1", **SMALL)


def test_every_exhibit_claim_and_erratum_of_the_paper_is_settled_by_a_computation() -> None:
    settled = set().union(*(c.targets for c in study.all_exhibits(KEY).values()))
    exhibits = {k for k, e in registry.exhibits().items() if e.paper_key == KEY and e.computable}
    claims = {k for k, c in registry.claims().items() if c.paper_key == KEY}
    errata = {k for k, e in registry.errata().items() if e.paper_key == KEY}
    assert len(claims) == 43 and len(errata) >= 11
    assert settled == exhibits | claims | errata | {"O-010"}


def test_errata_are_computed_at_the_exhibit_that_the_registry_names() -> None:
    for name, erratum in registry.errata().items():
        if erratum.paper_key == KEY:
            assert name in study.all_exhibits(KEY)[erratum.exhibit].targets


def test_table1_has_68_numbers_and_an_altered_one_is_noticed(monkeypatch) -> None:
    printed = registry.printed(f"{KEY}/table1")
    assert len(printed) == 68
    assert run("table1").status == "reproduced"
    for index, value, text in ((0, "38.8", r"38.8\%"), (47, "50.2", "50.2"), (37, "-1e1", "-1e1")):
        altered = printed.copy()
        altered.loc[index, ["value", "printed"]] = value, text
        monkeypatch.setattr(registry, "printed", lambda name, table=altered: table)
        with pytest.raises(study.VerdictError, match="67 of 68 agree"):
            run("table1")


def test_table1_refuses_to_compare_fewer_numbers_than_the_paper_prints(monkeypatch) -> None:
    printed = registry.printed(f"{KEY}/table1").drop(index=5)
    monkeypatch.setattr(registry, "printed", lambda name: printed)
    with pytest.raises(ValueError, match="68 printed numbers were expected in this part; got 67"):
        run("table1")


def test_wrong_noise_is_noticed(monkeypatch) -> None:
    """A step that forgot the clipping norm in its noise fails the verdict on Proposition 1."""
    honest = _tools.observe

    def forgetful(inputs, run, *args, **kwargs):
        weaker = DPSGD(0.9 * run.noise_multiplier, max_grad_norm=run.max_grad_norm)
        return honest(inputs, weaker, *args, **kwargs)

    monkeypatch.setattr(_tools, "observe", forgetful)
    with pytest.raises(study.VerdictError, match="prop1"):
        run("prop1", samples=500)


def test_the_same_seed_gives_the_same_tables_and_another_seed_others() -> None:
    first, again, other = (
        run("prop3", seed, samples=200, dimensions=[2, 1000]) for seed in (0, 0, 1)
    )
    pd.testing.assert_frame_equal(first.tables["ncc"], again.tables["ncc"])
    assert (first.tables["ncc"]["mean"] != other.tables["ncc"]["mean"]).any()
    pd.testing.assert_frame_equal(first.tables["closed form"], again.tables["closed form"])


def test_the_noise_does_not_hang_on_the_last_bit_of_a_norm() -> None:
    """Norms are sums, whose last bit differs between machines; the draws must not."""
    context = study.Study().context(f"{KEY}/prop1")
    record = np.linspace(0, 1, 8)
    one, other = (
        ziller2024_bounds.released(context, record, DPSGD(0.5, max_grad_norm=c), 3)
        for c in (2.0, np.nextafter(2.0, 3.0))
    )
    assert np.allclose(one, other, rtol=1e-12)


def test_two_workers_give_the_tables_of_one() -> None:
    tables = []
    for workers in (1, 2):
        given = {f"{KEY}/fig1": SMALL}
        context = study.Study(workers=workers, overrides=given).context(f"{KEY}/fig1")
        tasks = [
            ziller2024_photographs._task(context, picture=i, size=64, row=0, max_grad_norm=10.0)
            for i in (0, 1)
        ]
        tables.append(ziller2024_photographs._sweep(context, tasks))
    assert len(tables[0]) == 6
    pd.testing.assert_frame_equal(*tables, check_exact=True)


def test_figures_1_and_4_look_at_the_same_reconstructions() -> None:
    context = study.Study().context
    seeds = [
        [
            ziller2024_photographs._task(
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
    import torch

    picture = datasets.pictures(32, 1)[0]
    norm = float(np.linalg.norm(picture))
    given = DPSGD(3e-3, max_grad_norm=ratio * norm)
    generator = torch.Generator().manual_seed(5)
    errors = np.array(
        [
            metrics.mse(
                picture.ravel(), ziller2024_photographs.rebuild(picture, given, generator).ravel()
            )
            for _ in range(200)
        ]
    )
    bias = max(1 - ratio, 0.0) ** 2 * np.mean(picture**2)
    expected = bias + (given.max_grad_norm * given.noise_multiplier) ** 2
    assert errors.mean() == pytest.approx(expected, abs=4 * errors.std() / math.sqrt(200))
    assert bounds.expected_mse_clipped(
        norm, picture.size, 3e-3, given.max_grad_norm
    ) == pytest.approx(expected, rel=1e-12)


def test_the_expectations_drawn_in_figure_1_are_those_of_the_paper_at_this_dimension(figure1):
    table = figure1.tables["metrics"]
    variance = (table["contrast"] * table["norm"]) ** 2 / table["N"]
    eq7 = (
        table["beta"]
        * np.sqrt(variance)
        / np.hypot(table["beta"] * np.sqrt(variance), table["C"] * table["sigma"])
    )
    assert np.allclose(table["expected NCC"], eq7, rtol=2 / table["N"].min())


def test_figure_1_spans_the_clipping_norms_its_rows_are_named_for(figure1) -> None:
    table = figure1.tables["metrics"]
    clipped = table.groupby("row", sort=False)["beta"].agg(["min", "max"])
    assert list(clipped.index) == ["0.01 min", "min", "max", "10 max"]
    assert clipped.loc["0.01 min", "max"] < 0.011
    assert clipped.loc["min", "max"] == 1 and clipped.loc["min", "min"] < 1
    assert (clipped.loc[["max", "10 max"], "min"] == 1).all()


def test_the_paper_profile_names_the_data_it_lacks() -> None:
    with pytest.raises(FileNotFoundError, match=r"ziller2024/fig1 .*data_root.*class/\*\.jpg"):
        study.Study(profile="paper").run(f"{KEY}/fig1")


def test_displayed_pictures_are_in_range_and_small_enough() -> None:
    result = run("fig8", sizes=[32, 512], noise_multipliers=[1e-5, 1e-3], clip_ratio=320.0)
    assert {len(image) for image in result.images.values()} == {32, 256}
    assert all(0 <= i.min() and i.max() <= 1 for i in result.images.values())


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_every_picture_has_a_caption_and_alternative_text(figure1) -> None:
    from matplotlib import pyplot as plt

    drawn = figures.draw(figure1)
    assert drawn is not None and drawn.get_size_inches()[0] * drawn.dpi <= 1010
    plt.close(drawn)
    for exhibit in study.all_exhibits(KEY):
        if registry.exhibits()[exhibit].kind == "figure":
            said = figures.describe(exhibit)
            assert len(said.caption) > 80 and len(said.alt) > 60 and said.alt != said.caption

"""Facts about the exhibits of *From Mean to Extreme*, and worlds in which its claims are false."""

from __future__ import annotations

import dataclasses

import numpy as np
import pandas as pd
import pytest

from companion import study
from companion.papers.mean_to_extreme import (
    alg_cor1_attack,
    fig1,
    fig3,
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
from companion.study.exhibits import id_of, judged

KEY = "mean_to_extreme"
SMALL = {
    alg_cor1_attack: {"repeats": 100, "dimension": 8},
    prop1: {"repeats": 200, "rows": [1, 10, 100]},
    propB1: {},
    propB2: {"repeats": 400, "rows": [1, 10, 100]},
    lemB1: {"repeats": 50_000},
    prop2: {"repeats": 400},
    thm1: {"records": 100, "noise_multipliers": [0.2, 1.0]},
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
    verdicts = judged(exhibit, tables)
    return {v.target.removeprefix(f"{KEY}/") for v in verdicts if v.status == "failed"}


def altered(tables, name: str, columns):
    """The tables with some columns of one put through functions or replaced."""
    table = tables[name].copy()
    for column, change in columns.items():
        assert column in table, column
        table[column] = change(table[column]) if callable(change) else change
    return dataclasses.replace(tables, frames={**tables.frames, name: table})


def test_every_exhibit_claim_and_erratum_of_the_paper_is_settled_by_a_computation() -> None:
    settled = set().union(*(c.targets for c in study.all_exhibits(KEY).values()))
    exhibits = {k for k, e in registry.exhibits().items() if e.paper_key == KEY and e.computable}
    claims = {k for k, c in registry.claims().items() if c.paper_key == KEY}
    errata = {
        k
        for k, e in registry.errata().items()
        if e.paper_key == KEY and e.exhibit.startswith(f"{KEY}/")
    }
    assert settled == exhibits | claims | errata


@pytest.mark.parametrize("exhibit", SMALL, ids=lambda exhibit: id_of(exhibit).split("/")[1])
def test_what_holds_holds_on_small_runs_too(measured, exhibit) -> None:
    assert not failed(exhibit, measured(exhibit))


WORLDS = [
    (alg_cor1_attack, "clipping", {"p-value": 1e-6}, {"alg_cor1_attack", "A-012", "A-044"}),
    (alg_cor1_attack, "without noise", {"largest error": 1e-3}, {"A-001", "A-006"}),
    (alg_cor1_attack, "batch", {"MSE": 0.0}, {"A-002"}),
    (alg_cor1_attack, "privacy profile", {"eq. (3)": lambda x: x + 1e-6}, {"A-003"}),
    (alg_cor1_attack, "gradient norm", {"norm": lambda x: x**2}, {"A-047"}),
    # the variance is least at the printed number of rows already
    (prop1, "variance", {"variance": 0.09}, {"prop1", "E-A-01", "A-009", "A-011"}),
    (prop1, "variance", {"theory": 0.09}, {"prop1", "E-A-01", "A-009", "A-010", "A-011"}),
    (propB1, "clipped gradients", {"2 X": 0.0}, {"propB1", "A-052"}),
    (propB1, "ratio", {"tail index": 3.0}, {"A-007", "E-A-08"}),
    (propB1, "ratio", {"p-value, Cauchy": 0.5}, {"E-A-08"}),
    (propB2, "variance", {"theory": 0.05}, {"propB2", "A-008", "E-A-12"}),
    (propB2, "variance", {"variance": lambda x: 2 * x}, {"propB2", "A-008"}),
    (propB2, "variance", {"gradient norm": lambda x: x**2}, {"E-A-12"}),
    (prop2, "errors", {"MSE": lambda x: 1.5 * x}, {"prop2", "A-014"}),
    (prop2, "errors", {"bias in errors": 7.0}, {"prop2", "A-014"}),
    (prop2, "errors", {"C": lambda x: x[::-1].to_numpy()}, {"A-016", "A-017"}),
    (prop2, "guo", {"Guo et al. bound": 0.1}, {"A-004"}),
    (thm1, "ratios", {"beats X_hat": False}, {"thm1", "E-A-02"}),
    (thm1, "ratios", {"MSE over sigma^2 ||X||^2": 1.0}, {"thm1", "E-A-02", "A-050"}),
    (thm1, "ordering", {"ordered alike": 3}, {"A-023"}),
    (thm2, "law", {"p-value": 1e-6}, {"thm2", "A-018"}),
    (thm2, "law", {"z-score": 5.0}, {"thm2", "A-019"}),
    (prop3, "attacks", {"measured": 0.05}, {"prop3", "E-A-09"}),
    (prop3, "any reconstruction", {"value": 0.06}, {"prop3", "E-A-09"}),
    (prop3, "bound", {"largest measured": 1.0}, {"A-020", "prop3", "E-A-09", "E-A-15"}),
    (prop3, "bound", {"bound with C = 2 min ||X||": 1.0}, {"A-021"}),
    (prop3, "bound", {"bound with C": 0.0}, {"A-021", "A-045"}),
    (prop3, "matching", {"success": 0.9}, {"A-005"}),
    (prop3, "matching", {"success": 0.05}, {"A-005"}),
    (prop4, "bound", {"largest measured": 1.0}, {"prop4", "A-022"}),
    (prop4, "bound", {"largest exact": lambda x: x + 0.05}, {"prop4", "A-022"}),
    (prop5, "measured", {"P(PSNR >= eta)": 0.0}, {"prop5"}),
    (prop5, "eta", {"eta (dB)": -3.0}, {"E-A-14"}),
    (propB3, "distance", {"distance to the normal law": 0.01}, {"propB3", "A-051"}),
    (propB3, "simulated", {"p-value": 1e-6}, {"propB3", "A-051"}),
    (
        fig3,
        "curves",
        {"P(MSE <= eta)": lambda x: 1 - x},
        {"fig3", "fig3_row1_mse", "fig3_row3_mse", "A-035", "A-038", "E-A-04"},
    ),
    (fig3, "curves", {"expected MSE": lambda x: x + np.arange(len(x))}, {"fig3_row2_mse", "A-036"}),
    (fig3, "curves", {"expected PSNR": 0.0}, {"fig3_row2_psnr", "A-037"}),
    # an MSE that grows like the factor, as the text says
    (fig5, "errors", {"MSE": [1e-3, 1e-2]}, {"fig5", "A-041", "A-042", "E-A-05"}),
    (fig5, "similarities", {"PSNR": [20.0, 40.0]}, {"A-049"}),
    (fig5, "similarities", {"norm": 1.0}, {"fig5_original", "fig5_scaled"}),
    (fig6, "metrics", {"mse": lambda x: 1.5 * x}, {"fig6_scenario1", "fig6_scenario3"}),
    (fig6, "metrics", {"psnr, own range": 20.0}, {"fig6", "A-043"}),
    (fig6, "metrics", {"ssim": lambda x: x * np.linspace(1, 0.9, len(x))}, {"fig6", "A-043"}),
    (prop6, "population", {"sample NCC": 0.9}, {"prop6", "A-024"}),
    (prop6, "population", {"NCC without noise": 0.99}, {"A-025"}),
    (prop6, "decay", {"bound": lambda x: x**2}, {"A-026"}),
    (prop6, "decay", {"bound": lambda x: x[::-1].to_numpy()}, {"A-026", "A-048"}),
    (prop6, "digits", {"clipped to [0, 1]": 0.0}, {"E-A-13"}),
    (propB4, "exceedance", {"eq. (66) off": 1e-6}, {"propB4"}),
    (propB4, "exceedance", {"share above": 0.0}, {"A-027"}),
    (prop7, "variance", {"variance": 0.3}, {"prop7", "A-028"}),
    (prop7, "selection", {"printed": 0.1}, {"A-029"}),
    (prop7, "tails", {"exact mixture": 1.0}, {"A-046"}),
    (prop7, "simulated selection", {"once": 0.5}, {"E-A-03"}),
]


@pytest.mark.parametrize(
    ("exhibit", "name", "columns", "targets"),
    WORLDS,
    ids=[f"{id_of(e).split('/')[1]}-{name}-{'-'.join(c)}" for e, name, c, _ in WORLDS],
)
def test_a_world_in_which_a_claim_is_false_is_noticed(
    measured, exhibit, name, columns, targets
) -> None:
    assert failed(exhibit, altered(measured(exhibit), name, columns)) >= targets


def test_an_information_matrix_of_independent_noise_is_noticed(measured) -> None:
    tables = measured(lemB1)
    norm = np.linalg.norm(tables["record"]["value"])
    stated = np.eye(3) / (tables.parameters.noise_multiplier * norm) ** 2
    columns = {i: stated[i] for i in range(3)}
    assert failed(lemB1, altered(tables, "scores", columns)) == {"lemB1", "E-A-11"}


def test_pictures_that_more_rows_do_not_help_are_noticed() -> None:
    errors = {
        "picture": [0, 0, 1, 1],
        "rows M": [1, 1000, 1, 1000],
        "norm": [200.0, 200.0, 100.0, 100.0],
        "MSE": [6.25, 0.01, 6.25, 0.00625],
        "expected MSE": [6.25, 0.01, 6.25, 0.00625],
    }
    tables = study.Tables(
        {"errors": pd.DataFrame(errors)},
        exhibit=f"{KEY}/fig1",
        parameters=study.Study().context(f"{KEY}/fig1").parameters,
    )
    assert not failed(fig1, tables)
    assert "at least 620 times" in fig1.alt(tables)
    same = altered(tables, "errors", {"MSE": 6.25})
    assert failed(fig1, same) == {"fig1", "fig1_right", "A-030"}
    least = altered(tables, "errors", {"MSE": [6.25, 0.01, 6.25, 0.0025]})
    assert failed(fig1, least) == {"fig1", "fig1_right"}
    quiet = altered(tables, "errors", {"MSE": [1.0, 0.01, 1.0, 0.00625]})
    assert failed(fig1, quiet) == {"fig1", "fig1_middle"}


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
    status = {v.target: v.status for v in judged(fig1, tables)}
    assert status[f"{KEY}/fig1_left"] == "differs" and "failed" not in status.values()


@pytest.mark.parametrize("exhibit", [prop1, fig3, fig5, fig6], ids=lambda e: id_of(e))
def test_pictures_are_drawn_and_told(measured, exhibit) -> None:
    tables = measured(exhibit)
    assert exhibit.draw(tables).axes
    assert 60 < len(exhibit.alt(tables)) < 700 and exhibit.alt(tables).endswith(".")

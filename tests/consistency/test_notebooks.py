"""Stored notebooks against the registry, against their scripts, and by themselves."""

from __future__ import annotations

import pytest

from companion.study import registry, stored
from consistency import checks

ROOT = registry.project_root()
NOTEBOOKS = checks.notebooks(ROOT)
#: those with exhibits: at the end of each the reader has something to do
WITH_EXHIBITS = [name for name, notebook in NOTEBOOKS.items() if stored.exhibit_cells(notebook)]


def test_there_are_notebooks() -> None:
    assert NOTEBOOKS


@pytest.mark.parametrize("paper", checks.BUILT)
def test_every_exhibit_claim_and_erratum_has_a_verdict(paper: str) -> None:
    assert checks.without_verdict(ROOT, [paper]) == []


def test_every_id_shown_is_registered() -> None:
    assert checks.unknown_ids(ROOT) == []


def test_every_statement_and_erratum_stands_on_its_papers_page() -> None:
    assert checks.unstated(ROOT) == []


def test_stored_results_do_not_contradict_themselves() -> None:
    assert checks.contradictions(ROOT) == []


def test_golden_parameters_are_the_quick_profile() -> None:
    assert checks.outdated_parameters(ROOT) == []


def test_scripts_and_notebooks_are_in_step() -> None:
    assert checks.unpaired(ROOT) == []


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_every_cell_was_executed_in_order_and_is_compared(name: str) -> None:
    assert checks.unexecuted(name, NOTEBOOKS[name]) == []


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_nothing_is_silenced_without_a_reason(name: str) -> None:
    assert checks.silenced(name, NOTEBOOKS[name]) == []


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_nothing_of_one_machine_is_stored(name: str) -> None:
    assert checks.volatile(name, NOTEBOOKS[name]) == []


@pytest.mark.parametrize("name", WITH_EXHIBITS)
def test_it_ends_with_three_exercises_and_their_solutions(name: str) -> None:
    assert checks.exercises(name, NOTEBOOKS[name]) == []


def test_a_missing_exercise_or_solution_is_reported() -> None:
    name = "notebooks/beyond/00_fifteen_minutes.ipynb"
    cells = NOTEBOOKS[name]["cells"]
    for lost in range(len(cells) - 6, len(cells)):
        assert checks.exercises(name, {"cells": cells[:lost] + cells[lost + 1 :]}), lost


def test_tolerances_are_those_of_the_printed_digits() -> None:
    assert checks.printed_numbers(ROOT)
    assert checks.loosened(ROOT) == []
    assert checks.misjudged() == []
    assert checks.edited_tolerances(ROOT) == []

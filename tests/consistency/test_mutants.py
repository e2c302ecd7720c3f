"""The table of mutants is complete: each break still applies, and something noticed it."""

from collections import Counter

import pytest

from mutants.breaks import MUTANTS
from mutants.run import PROJECT, broken_copy, read_table

EXHIBITS = PROJECT / "tests" / "tables"


def test_every_mutant_was_noticed():
    rows = read_table()
    assert [m.name for m in MUTANTS] == list(rows)
    for mutant in MUTANTS:
        assert rows[mutant.name]["where"] == mutant.file
        assert rows[mutant.name]["caught_by"], f"{mutant.name} survived"


def test_there_are_many_and_no_two_alike():
    assert len(MUTANTS) >= 180
    assert max(Counter(m.name for m in MUTANTS).values()) == 1
    assert max(Counter((m.file, m.new) for m in MUTANTS).values()) == 1


@pytest.mark.parametrize(
    "room", ["attacks", "mechanisms", "bounds", "privacy", "training", "papers", "risk"]
)
def test_they_are_spread_over_the_library_and_the_papers(room):
    assert sum(f"/{room}/" in m.file for m in MUTANTS) >= 4


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda m: m.name)
def test_what_is_broken_is_there(mutant):
    text = (PROJECT / "lib" / mutant.file).read_text(encoding="utf-8")
    assert text.count(mutant.old) == 1 and mutant.new != mutant.old
    assert mutant.exhibits or mutant.tests
    assert all((PROJECT / "tests" / name).is_file() for name in mutant.tests)
    assert all((EXHIBITS / name).is_dir() for name in mutant.exhibits)


def test_a_break_that_does_not_apply_is_refused(tmp_path):
    from dataclasses import replace

    with pytest.raises(ValueError, match="old must occur once; got 0"):
        broken_copy(replace(MUTANTS[0], old="no such code"), tmp_path)

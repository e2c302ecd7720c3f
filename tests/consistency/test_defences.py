"""Every accusation carries a reading, the best defence, and why it stands nonetheless."""

import pytest

from companion.study import registry, stored
from companion.study.recorded import read_recorded
from companion.study.verdicts import ACCUSING

ROOT = registry.project_root()


@pytest.fixture(scope="module")
def verdicts():
    """All verdicts, of notebooks and of records."""
    quick = [v for result in stored.read(ROOT).results.values() for v in result.verdicts]
    recorded = [v for judging in read_recorded(ROOT).judgings.values() for v in judging.verdicts]
    return quick + recorded


def test_every_accusation_has_a_defence_that_does_not_win(verdicts):
    defences = registry.defences()
    accusing = {(v.target, v.erratum) for v in verdicts if v.status in ACCUSING}
    lacking = []
    for target, erratum in accusing:
        row = defences.get(target) or defences.get(erratum)
        if row is None or not (row.reading and row.defence and row.stands_because):
            lacking.append(target)
    assert not lacking, sorted(set(lacking))


def test_every_defence_defends_something(verdicts):
    accused = {v.target for v in verdicts if v.status in ACCUSING}
    unjudged = set(registry.defences()) - accused - set(registry.errata())
    assert not unjudged


def test_a_misprint_is_called_one(verdicts):
    errata = registry.errata()
    assert {e.weight for e in errata.values()} <= set(registry.WEIGHTS)
    for v in verdicts:
        if v.target in errata and v.status in ("refuted", "misprint"):
            assert (v.status == "misprint") == (errata[v.target].weight == "misprint"), v.target


def test_what_our_text_may_have_lost_accuses_nobody(verdicts):
    unsure = {e.id for e in registry.errata().values() if e.weight == "text"}
    assert not {v.target for v in verdicts if v.target in unsure and v.status in ACCUSING}

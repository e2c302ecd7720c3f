"""Every verdict on stand-in data has a reason, and says what would lift it."""

import re

from companion.study import registry, stored
from companion.study.recorded import read_recorded

ROOT = registry.project_root()
#: of runs that a reader asks for: no stored one has them
ASKED_FOR = registry.stand_ins()[-2:]


def test_every_verdict_on_a_stand_in_has_a_reason():
    results = stored.read(ROOT).results.values()
    held = [r for r in results if any(v.status == "holds on stand-in data" for v in r.verdicts)]
    assert held
    unnamed = [r.content["exhibit"] for r in held if not r.content["stand_ins"]]
    assert not unnamed
    for result in results:
        for name in result.content["stand_ins"]:
            kind = registry.stand_in(name)
            assert kind not in ASKED_FOR, f"{result.content['exhibit']}: {name} has no reason"
            assert all((kind.what, kind.instead_of, kind.why, kind.lifted_by)), name


def test_every_reason_is_one_of_a_stored_run():
    names = {
        name
        for result in stored.read(ROOT).results.values()
        for name in result.content["stand_ins"]
    }
    names.update(*(record.stand_ins for record in read_recorded(ROOT).records.values()))
    idle = [k.what for k in registry.stand_ins() if k not in set(map(registry.stand_in, names))]
    assert idle == [kind.what for kind in ASKED_FOR]


def test_no_name_of_a_stored_run_has_two_reasons():
    results = stored.read(ROOT).results.values()
    for name in {name for result in results for name in result.content["stand_ins"]}:
        matching = [k for k in registry.stand_ins()[:-1] if re.fullmatch(k.match, name)]
        assert len(matching) == 1, name


def test_stand_ins_of_recorded_runs_have_reasons_too():
    for record in read_recorded(ROOT).records.values():
        for name in record.stand_ins:
            assert registry.stand_in(name) not in ASKED_FOR, name


def test_every_stored_verdict_says_truly_which_part_of_the_data_it_is_on():
    for result in stored.read(ROOT).results.values():
        subsets = result.content["subsets"]
        for verdict in result.verdicts:
            named = set(verdict.on.split(" and ")) if verdict.on else set()
            assert named <= set(subsets), f"{result.content['exhibit']}: {verdict.on}"
            if verdict.status == "holds on stand-in data":
                assert not verdict.on and result.content["stand_ins"], verdict.target

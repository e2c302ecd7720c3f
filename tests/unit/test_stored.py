"""What the notebooks store is read without running them, and what is wrong is said."""

from __future__ import annotations

import copy
import json
import re

import nbformat
import pytest

from companion.study import Study, Verdict, stored
from companion.study.provenance import describe_run
from companion.study.records import FOLDER, attach_provenance
from companion.study.stored import StoredError

FIG1, TABLE1 = "ziller2024/fig1", "ziller2024/table1"


@pytest.fixture
def contents(project):
    session = Study()
    return {i: json.loads(json.dumps(session.run(i).as_dict())) for i in (FIG1, TABLE1)}


def test_refreshed_notebooks_read_back(project):
    path = project.refreshed()
    results = stored.read(project.root).results
    assert list(results) == [FIG1, TABLE1]
    assert results[FIG1].notebook == "notebooks/ziller2024/01_bounds.ipynb"
    assert results[FIG1].content["settings"]["samples"] == 5
    assert results[TABLE1].verdicts == list(Study().run(TABLE1).verdicts)
    assert results[TABLE1].provenance.seconds == 0.4
    assert list(stored.find_inconsistencies(results)) == []
    assert stored.notebooks(project.root) == [path]
    nbformat.validate(nbformat.read(path, as_version=4))


def test_notebooks_come_in_the_books_order(project):
    for name in ("hayes2023/01_a", "ziller2024/02_b", "ziller2024/01_a", "mean_to_extreme/01_a"):
        project.notebook(name, {})
    names = [p.relative_to(project.root / "notebooks").as_posix()
             for p in stored.notebooks(project.root)]  # fmt: skip
    assert names == [
        "mean_to_extreme/01_a.ipynb",
        "ziller2024/01_a.ipynb",
        "ziller2024/02_b.ipynb",
        "hayes2023/01_a.ipynb",
    ]


def test_a_cell_never_executed_is_an_error(project, contents):
    project.notebook("ziller2024/01", {FIG1: None, TABLE1: contents[TABLE1]})
    held = stored.read(project.root)
    assert list(held.results) == [TABLE1]  # the others are still read
    (problem,) = held.problems
    assert re.search(r"01\.ipynb: the cell of .*fig1 was never executed", problem)


def _edit(path, change):
    nb = json.loads(path.read_text())
    change(nb)
    path.write_text(json.dumps(nb))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda nb: nb["cells"][1].update(outputs=[]), "stores 0 results; expected one"),
        (lambda nb: nb["cells"][1]["outputs"].append(nb["cells"][1]["outputs"][0]), "stores 2"),
        (lambda nb: nb["cells"][1].update(outputs=nb["cells"][2]["outputs"]), "the result of"),
        (lambda nb: nb["cells"][1].update(cell_type="markdown"), "is not a code cell"),
        (lambda nb: nb["cells"].append(nb["cells"][1]), "two cells are tagged exhibit:"),
        (lambda nb: nb["cells"][1]["metadata"]["tags"].append("exhibit:x"), "several exhibits"),
        (lambda nb: nb.pop("cells"), "cells"),
        (lambda nb: _verdicts(nb)[0].update(status="fine"), "the unknown verdict 'fine'"),
        (lambda nb: _verdicts(nb)[0].update(status="pending"), "the unknown verdict 'pending'"),
        (lambda nb: _verdicts(nb)[3].update(target="B-999"), "'B-999', which no CSV lists"),
    ],
)
def test_what_is_wrong_with_a_notebook_is_said(project, change, message):
    _edit(project.refreshed(), change)
    assert re.search(message, "\n".join(stored.read(project.root).problems))


def test_malformed_results_are_said(project, contents):
    del contents[FIG1]["verdicts"][0]["statement"]
    del contents[TABLE1]["exhibit"]
    project.notebook("ziller2024/01", contents)
    assert len(stored.read(project.root).problems) == 2
    assert all("malformed" in p for p in stored.read(project.root).problems)


def test_an_exhibit_belongs_to_one_notebook(project, contents):
    project.notebook("ziller2024/01", contents)
    project.notebook("ziller2024/02", {FIG1: contents[FIG1]})
    (problem,) = stored.read(project.root).problems
    first, second = (f"notebooks/ziller2024/0{n}.ipynb" for n in (1, 2))
    assert problem == f"{second}: {FIG1} is in {first} too"


def test_every_target_has_a_status(project, contents):
    project.notebook("ziller2024/01", contents)
    rows = stored.verdicts_by_target(
        (r.notebook, r.verdicts) for r in stored.read(project.root).results.values()
    )
    assert {key: row.status for key, row in rows.items()} == {
        FIG1: "reproduced",
        FIG1 + "_mse": "holds on stand-in data",
        FIG1 + "_psnr": "differs",
        TABLE1: "reproduced",
        "ziller2024/alg_linear": "pending",
        "hayes2023/fig5": "pending",
        "hayes2023/fig5a": "pending",
        "B-001": "reproduced",
        "B-002": "reproduced",
        "C-001": "reproduced",
        "E-B-01": "refuted",
    }  # and no definition
    assert rows["B-002"].notebooks == ("notebooks/ziller2024/01.ipynb",)
    assert rows["E-B-01"].kind == "erratum"
    assert rows["hayes2023/fig5"].as_dict()["verdicts"] == []


def test_several_verdicts_on_one_target_give_the_worst(project):
    good = Verdict("B-001", "reproduced", "here")
    bad = Verdict("B-001", "differs", "there", why="other data")
    row = stored.verdicts_by_target([("one", [good]), ("two", [bad]), ("one", [good])])["B-001"]
    assert row.status == "differs"
    assert row.verdicts == (good, bad, good)
    assert row.notebooks == ("one", "two")
    with pytest.raises(StoredError, match="one: a verdict on 'B-999', which no CSV lists"):
        stored.verdicts_by_target([("one", [Verdict("B-999", "reproduced", "")])])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda c: c.update(status="reproduced "), "its status is given as"),
        (lambda c: c["verdicts"][0].update(status="differs"), "is 'differs' without saying why"),
        (lambda c: c["verdicts"][2].update(status="reproduced"), "but says 'other photographs'"),
        (lambda c: c.update(seed=7), "its provenance says seed 0, the result 7"),
        (lambda c: c["settings"].update(samples=7), "its provenance says parameters"),
    ],
)
def test_contradictions_are_found(project, change, message):
    _edit(project.refreshed(), lambda nb: change(_content(nb)))
    found = list(stored.find_inconsistencies(stored.read(project.root).results))
    assert any(message in sentence for sentence in found), found


def _verdicts(nb):
    return _content(nb)["verdicts"]


def _content(nb):
    (content,) = (v for k, v in nb["cells"][1]["outputs"][0]["data"].items() if "json" in k)
    return content


def test_a_notebook_names_the_records_of_its_exhibits(project):
    path = project.refreshed()
    before = nbformat.read(path, as_version=4)
    named = dict(stored.checksums_of(before))
    assert list(named) == [FIG1, TABLE1]
    nb = copy.deepcopy(before)
    nb.metadata = nbformat.from_dict({"kernelspec": {"name": "python3"}})
    assert stored.name_records(nb, named) is nb
    assert nb.metadata.kernelspec.name == "python3"
    assert stored.checksums_of(nb) == named
    stored.name_records(nb, {FIG1: named[FIG1]})
    assert list(stored.checksums_of(nb)) == [FIG1]  # what is no longer there is gone
    with pytest.raises(StoredError, match="no cell for hayes2023/fig5"):
        stored.name_records(nb, {"hayes2023/fig5": ""})
    assert stored.checksums_of({"cells": [], "metadata": {}}) == {}


@pytest.mark.parametrize("change", ["missing", "edited", "another"])
def test_a_record_that_is_not_the_one_named_is_a_problem(project, change):
    project.refreshed()
    path = project.root / FOLDER / FIG1 / "record.json"
    if change == "missing":
        path.unlink()
    elif change == "edited":
        path.write_text(path.read_text().replace('"seed": 0', '"seed": 1'))
    else:
        attach_provenance(path.parent, describe_run(Study(), FIG1, 9.0))
    (problem,) = stored.read(project.root).problems
    assert FIG1 in problem

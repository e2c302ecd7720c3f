"""Results: what a notebook stores of them, and what nbval can hold to account."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

from companion.study import Result, Study, Tables, Verdict, check, shared_by
from companion.study.results import RESULT_MIME, digest

FIG1 = Tables({}, exhibit="ziller2024/fig1")
TABLE = pd.DataFrame({"name": ["a", "b"], "n": [1, 2], "value": [0.1, -1e-300]})


def test_a_digest_follows_every_value_and_name():
    same = digest(TABLE)
    assert digest(TABLE.copy()) == same
    assert len(same) == 16
    for changed in (
        TABLE.assign(value=[0.1001, -1e-300]),
        TABLE.assign(value=[0.1, -1.1e-300]),
        TABLE.assign(n=[1, 3]),
        TABLE.assign(name=["a", "c"]),
        TABLE.rename(columns={"n": "m"}),
        TABLE.iloc[::-1],
        TABLE.iloc[:1],
    ):
        assert digest(changed) != same


def test_a_digest_forgives_the_last_bits_and_the_sign_of_zero():
    ulp = TABLE.assign(value=np.nextafter(TABLE["value"], 1))
    assert digest(ulp) == digest(TABLE)
    assert digest(pd.DataFrame({"a": [0.0]})) == digest(pd.DataFrame({"a": [-0.0]}))
    assert digest(TABLE.assign(value=[0.1 + 1e-9, -1e-300])) == digest(TABLE)
    assert digest(TABLE, digits=12) != digest(TABLE.assign(value=[0.1 + 1e-9, -1e-300]), digits=12)


def test_a_result_shows_itself_as_text_table_and_data(project):
    result = Study(seed=2).run("ziller2024/fig1")
    bundle = result._repr_mimebundle_()
    assert set(bundle) == {"text/plain", "text/html", RESULT_MIME}
    assert json.loads(json.dumps(bundle[RESULT_MIME])) == bundle[RESULT_MIME]
    assert bundle[RESULT_MIME]["seed"] == 2
    assert bundle[RESULT_MIME]["settings"] == {"samples": 5, "scale": 0.5, "norms": [1.0, 2.0]}
    assert bundle[RESULT_MIME]["status"] == "reproduced"
    assert bundle[RESULT_MIME]["digests"] == {}
    text = bundle["text/plain"]
    assert text.startswith("ziller2024/fig1: reproduced\n")
    assert "other photographs" in text
    for verdict in result.verdicts:
        assert verdict.target in text
        assert verdict.statement in text
    assert "verdict-holds-on-stand-in-data" in bundle["text/html"]
    assert "Figure 1 (MSE)" in bundle["text/html"]


def test_exact_tables_are_held_by_their_digest(project):
    result = Study().run("ziller2024/table1")
    expected = digest(result.tables["cells"])
    assert result.as_dict()["digests"] == {"cells": expected}
    assert expected in repr(result)


def test_verdicts_in_the_same_words_share_a_row(project):
    one = check("ziller2024/fig1", True, "both fall", ours="2")
    result = Result(
        FIG1,
        [*shared_by(one, "ziller2024/fig1_mse"), check("A-001", True, "it is small")],
    )
    assert [line for line in repr(result).splitlines()[1:] if line] == [
        "  ziller2024/fig1, ziller2024/fig1_mse: reproduced: both fall (ours 2)",
        "  A-001: reproduced: it is small",
    ]
    assert result._repr_html_().count("<tr>") == 1 + 2
    assert [v["target"] for v in result.as_dict()["verdicts"]] == [
        "ziller2024/fig1",
        "ziller2024/fig1_mse",
        "A-001",
    ]


def test_texts_cannot_break_the_page(project):
    verdict = Verdict("ziller2024/fig1", "differs", "a < b & c", "<i>", "1", why="<script>")
    page = Result(FIG1, [verdict])._repr_html_()
    assert "a &lt; b &amp; c" in page
    assert "<script>" not in page
    assert "<i>" not in page


def test_the_status_is_that_of_the_exhibit_itself(project):
    good = Verdict("ziller2024/fig1", "reproduced", "")
    bad = Verdict("ziller2024/fig1_mse", "differs", "", why="x")
    result = Result(FIG1, [good, bad])
    assert result.status == "reproduced"
    assert list(result.of("ziller2024/fig1_mse")) == [bad]
    assert Result(FIG1, [bad]).status == "pending"


def test_an_exhibit_must_judge_what_it_settles(project, monkeypatch):
    from companion.study import find_exhibit
    from companion.study.exhibits import targets_of

    exhibit = find_exhibit("ziller2024/fig1")
    for settled, message in (
        ((*exhibit.file.SETTLES, "C-001"), r"no verdict for \['C-001'\]"),
        (("_mse", "_psnr", "E-B-01"), r"undeclared verdicts for \['B-001'\]"),
    ):
        monkeypatch.setattr(exhibit.file, "SETTLES", settled)
        with pytest.raises(RuntimeError, match=message):
            Study().run("ziller2024/fig1")
    monkeypatch.setattr(exhibit.file, "SETTLES", ("B-999",))
    with pytest.raises(KeyError, match="'B-999' is neither"):
        targets_of(exhibit.file)

"""The stored tables of every quick run: judged and drawn as they are, in milliseconds.

``make refresh`` writes them beside the notebooks' outputs. What judges and draws sees nothing else
than tables, so what a notebook stores must come out of its tables again.
"""

from __future__ import annotations

import json

import pytest

from companion.study import registry, stored
from companion.study.exhibits import describe_figure, find_exhibit, judge_tables
from companion.study.records import FOLDER, find_records, read_tables
from companion.study.results import Result
from companion.study.tables import as_shown

ROOT = registry.project_root()
EXHIBITS = find_records(ROOT / FOLDER)


@pytest.fixture(scope="module")
def results():
    return stored.read(ROOT).results


@pytest.fixture(scope="module")
def pictures():
    """Size and number of axes of each stored figure, by exhibit."""
    outputs = {
        exhibit_id: [output.get("data", {}) for output in cell["outputs"]]
        for path in stored.notebooks(ROOT)
        for exhibit_id, cell in stored.exhibit_cells(json.loads(path.read_text("utf-8"))).items()
    }
    return {
        exhibit_id: ["".join(data["text/plain"]) for data in all_data if "image/png" in data]
        for exhibit_id, all_data in outputs.items()
    }


def test_every_exhibit_has_its_tables(results):
    assert EXHIBITS == sorted(results)


def test_every_notebook_names_the_records_of_its_exhibits():
    assert stored.read(ROOT).problems == ()
    for path in stored.notebooks(ROOT):
        notebook = json.loads(path.read_text(encoding="utf-8"))
        assert stored.checksums_of(notebook).keys() == stored.exhibit_cells(notebook).keys(), path


def test_shown_tables_are_stored_ones():
    """To the letter: where other kernels move a table, nothing else says what its text must be."""
    for path in stored.notebooks(ROOT):
        cells = stored.exhibit_cells(json.loads(path.read_text(encoding="utf-8")))
        for exhibit_id, cell in cells.items():
            tables = read_tables(ROOT / FOLDER / exhibit_id)
            expected = {as_shown(table)["text/plain"] for table in tables.values()}
            data = [output.get("data", {}) for output in cell["outputs"]]
            shown = [d for d in data if d.keys() == {"text/plain", "text/html"}]
            assert {"".join(d["text/plain"]) for d in shown} <= expected, exhibit_id


@pytest.mark.parametrize("exhibit_id", EXHIBITS)
def test_stored_tables_are_judged_as_the_notebook_says(results, exhibit_id):
    tables = read_tables(ROOT / FOLDER / exhibit_id)
    content = results[exhibit_id].content
    # what a verdict would have noticed takes a second to compute; nbval compares it
    told = [verdict | {"notices": ""} for verdict in content["verdicts"]]
    assert [v.as_dict() for v in judge_tables(find_exhibit(exhibit_id).file, tables)] == told
    parts = Result(tables, ()).as_dict()
    assert all(parts[key] == content[key] for key in ("digests", "measured", "ran"))


@pytest.mark.parametrize("exhibit_id", [e for e in EXHIBITS if find_exhibit(e).is_drawn])
def test_stored_tables_are_drawn(results, pictures, exhibit_id):
    from matplotlib import pyplot as plt
    from matplotlib.text import Text

    exhibit = find_exhibit(exhibit_id)
    tables = read_tables(ROOT / FOLDER / exhibit_id)
    before = plt.get_fignums()
    figure = exhibit.draw(tables)
    assert pictures[exhibit_id] == [repr(figure)], "older than what draws it: run its notebook"
    # what is wrong with a text or an axis shows here, and with the layout in notebooks and the book
    figure.set_layout_engine("none")
    figure.draw_without_rendering()
    assert plt.get_fignums() == before, "a figure is left open, and a notebook would show it twice"
    assert figure.get_size_inches()[0] < 8.41, "it is wider than the page, which would shrink it"
    sizes = {t.get_fontsize() for t in figure.findobj(Text) if t.get_text() and t.get_visible()}
    assert min(sizes, default=8) > 7.9, "letters too small to read"
    words = describe_figure(exhibit.file, tables)
    assert len(words["alt"].split()) > 8 and words["alt"].endswith(".")
    assert len(words["caption"]) > 40 and "nan" not in words["alt"].split()
    assert words == {k: results[exhibit_id].content[k] for k in ("caption", "alt")}

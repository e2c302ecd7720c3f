"""Recorded runs: what answers for an exhibit, and how they are shown beside the quick ones."""

from __future__ import annotations

import dataclasses
import json
import re
from types import SimpleNamespace

import pandas as pd
import pytest
from typer.testing import CliRunner

from companion.book import notices
from companion.book.figures import Wanted, draw_files, drawn_files
from companion.book.gallery import Gallery, Shown
from companion.book.pages import status_badges
from companion.book.recorded_pages import recorded_block, recorded_page
from companion.cli.app import app
from companion.study import MissingTable, Study, find_exhibit, registry, running
from companion.study.files import seal
from companion.study.parameters import Settings
from companion.study.perturbations import smallest_detectable
from companion.study.provenance import describe_run
from companion.study.recorded import (
    Judging,
    Recorded,
    judge_record,
    list_differences,
    read_recorded,
    recorded_ids,
)
from companion.study.records import (
    FOLDER,
    RECORDED,
    NoPicture,
    RecordError,
    read_record,
    read_tables,
    write_record,
)
from companion.study.tables import Tables
from companion.study.verdicts import check, failures_kept

EXHIBIT = "ziller2024/table1"
# draws metrics over noise; a photograph of it would be fig5
DRAWN, WITH_PICTURES = "ziller2024/fig2", "ziller2024/fig5"
ROOT = registry.project_root()


def write(project, exhibit=EXHIBIT, tables=None, overrides=None, failing=False, **changed):
    """A record of an exhibit with one verdict on each of its targets."""
    known = find_exhibit(exhibit)
    session = Study(profile="paper", overrides={exhibit: overrides or {}}, data_root=project)
    with failures_kept():
        judged = [check(t, not failing, f"{t} is as it is", ours="1.25") for t in known.targets]
    small = pd.DataFrame({"x": [1.23456, float("nan")], "name": ["None", ""]})
    measured = Tables(
        tables or {"small": small},
        ran="a toy",
        exhibit=exhibit,
        profile="paper",
        parameters=session.context(exhibit).parameters,
    )
    origin = describe_run(session, exhibit, 90.0)
    origin = dataclasses.replace(origin, commit="0123456789abcdef", **changed)
    write_record(measured, project / RECORDED / exhibit, provenance=origin, verdicts=judged)
    return known


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A project with the real registry and notebooks, and records of its own."""
    (tmp_path / "data").mkdir()
    (tmp_path / "tests").mkdir()
    for name in ("data/paper", "data/companion", "notebooks", FOLDER):
        (tmp_path / name).symlink_to(ROOT / name)
    monkeypatch.setenv("RECONRISK_ROOT", str(tmp_path))
    return tmp_path


def there(path):
    return f"there/{path}"


# --- reading --------------------------------------------------------------------------------------


def test_nothing_is_recorded_in_an_empty_project(tmp_path):
    assert recorded_ids(tmp_path) == []
    assert read_recorded(tmp_path) == Recorded()
    assert Recorded().status(EXHIBIT) == ""


def test_a_sound_record_is_read_without_a_problem(project):
    write(project)
    found = read_recorded(project)
    assert found.problems == ()
    assert list(found.records) == [EXHIBIT]
    assert found.status(EXHIBIT) == "reproduced"
    # a text that other readers take for a missing value stays one
    assert found.records[EXHIBIT].tables["small"]["name"][0] == "None"


def edit_record(project, change, exhibit=EXHIBIT):
    path = project / RECORDED / exhibit / "record.json"
    content = json.loads(path.read_text())
    change(content)
    del content["sha256"]
    path.write_bytes(seal(content))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda c: c.update(schema=0), "not a sound record: layout 0, expected 2"),
        (lambda c: c["files"].update({"small.csv": "0" * 64}), "not the file that was recorded"),
        (lambda c: c["provenance"].pop("seed"), "the provenance is incomplete"),
        (lambda c: c["verdicts"][0].update(why="as it is"), "but says 'as it is'"),
        (lambda c: c["provenance"].update(exhibit="ziller2024/fig1"), "is the record of"),
        (lambda c: c["verdicts"].pop(), "no verdict on"),
        (lambda c: c["verdicts"][0].update(status="fine"), "'fine'"),
        (lambda c: c["verdicts"][0].update(target="Z-001"), "'Z-001'"),
    ],
)
def test_what_is_wrong_with_a_record_is_said(project, change, said):
    write(project)
    edit_record(project, change)
    problems = read_recorded(project).problems
    assert any(said in problem for problem in problems), problems
    assert all(problem.startswith(f"data/recorded/{EXHIBIT}: ") for problem in problems)


def test_an_unreadable_record_does_not_hide_the_others(project):
    write(project)
    write(project, "ziller2024/prop1")
    (project / RECORDED / "ziller2024/prop1/record.json").write_text("{")
    found = read_recorded(project)
    assert list(found.records) == [EXHIBIT]
    assert len(found.problems) == 1 and "not a sound record" in found.problems[0]


def test_a_failed_verdict_is_a_problem(project):
    write(project, failing=True)
    found = read_recorded(project)
    assert found.status(EXHIBIT) == "failed"
    assert any(
        f"{EXHIBIT} failed: {EXHIBIT} is as it is: does not hold" in p for p in found.problems
    )


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda p: p.update(gone=1), "has no parameter 'gone'"),
        (lambda p: p.pop("pictures"), "pictures is new since"),
        (lambda p: p.update(pictures="many"), "pictures must be a whole number"),
        (lambda p: p.update(pictures=-1), "pictures must be finite and at least"),
        (lambda p: p.update(pictures=7.0), None),  # equal to what is asked for
    ],
)
def test_parameters_that_cannot_be_asked_for_any_more(project, change, said):
    write(project, "ziller2024/fig1", overrides={"pictures": 7})
    edit_record(project, lambda c: change(c["provenance"]["parameters"]), "ziller2024/fig1")
    problems = read_recorded(project).problems
    assert (problems == ()) if said is None else any(said in p for p in problems), problems


def test_the_record_stands_in_the_place_of_its_exhibits_quick_run(project):
    """A target that two exhibits judge keeps the verdict of the one without a record."""
    write(project)
    found = read_recorded(project)
    good, bad = check("B-001", True, "so"), check("B-001", False, "so", differs="not so here")
    assert found.counting(EXHIBIT, [(EXHIBIT, bad)]) == "reproduced"
    assert found.counting(EXHIBIT, [("ziller2024/fig1", bad)]) == "differs"
    assert found.counting("C-001", [("ziller2024/fig1", good)]) == "reproduced"
    assert found.counting("C-001", []) == "pending"


@pytest.mark.parametrize(
    ("stand_ins", "counts"), [((), "not decided"), (("a network",), "reproduced")]
)
def test_an_undecided_record_on_the_papers_data_outranks_a_quick_run(stand_ins, counts):
    """A run of a few minutes decides nothing that the paper's own data leave open."""
    record = SimpleNamespace(stand_ins=stand_ins)
    judging = Judging((check("D-018", None, "so"), check("D-002", True, "so")))
    found = Recorded({"biswas2024/fig2": record}, judgings={"biswas2024/fig2": judging})
    quick = [("biswas2024/fig2", check("D-018", True, "so"))]
    assert found.counting("D-018", quick) == counts
    assert found.counting("D-018", [*quick, ("biswas2024/table5", quick[0][1])]) == counts


# --- drawing --------------------------------------------------------------------------------------


def test_a_record_holds_tables_again_but_no_picture(project):
    tables = {"two words": pd.DataFrame({"x": [1.0]})}
    write(project, "ziller2024/fig1", tables, {"pictures": 7})
    record = read_record(project / RECORDED / "ziller2024/fig1")
    again = record.tables
    assert again["two words"]["x"][0] == again["two-words"]["x"][0] == 1.0
    assert "two words" in again and "three words" not in again
    with pytest.raises(MissingTable, match="has no table 'three words'; it has two-words"):
        again["three words"]
    assert again.parameters["pictures"] == 7
    assert isinstance(again.parameters["noise_multipliers"], tuple)
    for use in (len, list, lambda images: images["0 original"], lambda images: images.items()):
        with pytest.raises(NoPicture):
            list(use(again.images)) if use is not len else use(again.images)


def test_figures_are_drawn_from_tables_and_never_with_pictures(project, tmp_path):
    session = Study(overrides={})
    result = session.run(DRAWN)
    origin = describe_run(session, DRAWN, 1.0)
    write_record(result.tables, project / RECORDED / DRAWN, provenance=origin)
    folder = tmp_path / "recorded"
    assert draw_files(Wanted(DRAWN, project / RECORDED / DRAWN, recorded=True), folder)
    size = re.search(r'width="([\d.]+)" height="([\d.]+)"', (folder / "figure.svg").read_text())
    assert 600 < float(size[1]) < 1000 and float(size[2]) > 200
    # an exhibit of pictures, one without a drawing, and one whose table has another name
    for exhibit in (WITH_PICTURES, "ziller2024/prop1"):
        write(project, exhibit, {"grid": pd.DataFrame({"size": [32], "sigma": [0.1]})})
        wanted = Wanted(exhibit, project / RECORDED / exhibit, recorded=True)
        if find_exhibit(exhibit).is_drawn:
            assert not draw_files(wanted, tmp_path / "none")
        assert drawn_files([wanted], tmp_path / "cache") == {}
    write(project)
    with pytest.raises(RecordError, match=f"{EXHIBIT}: its tables cannot be drawn: .*'table'"):
        draw_files(Wanted(EXHIBIT, project / RECORDED / EXHIBIT, recorded=True), tmp_path / "none")
    assert not list((tmp_path / "none").glob("figure.*"))


def test_what_verdicts_would_have_noticed_is_found_once(project, monkeypatch):
    exhibit = "ziller2024/fig6"
    (project / RECORDED / exhibit).parent.mkdir(parents=True)
    (project / RECORDED / exhibit).symlink_to(ROOT / RECORDED / exhibit)
    recorded = read_recorded(project)
    assert not any(v.notices for v in recorded.judgings[exhibit].verdicts)
    found = notices.add_notices(recorded, project).judgings[exhibit].verdicts
    tables = recorded.records[exhibit].tables
    told = smallest_detectable(find_exhibit(exhibit).file, tables)
    assert {v.target: v.notices for v in found if v.notices} == told != {}
    monkeypatch.setattr(notices, "find_notices", None)  # nothing is left to find
    assert notices.add_notices(recorded, project).judgings[exhibit].verdicts == found


def test_what_a_quick_run_beside_a_record_would_have_noticed_is_not_sought(monkeypatch):
    """The record's verdicts count; a run with other parameters is nobody's but its reader's."""
    exhibit, other = "ziller2024/fig6", "ziller2024/fig2"
    assert (ROOT / RECORDED / exhibit).is_dir() and not (ROOT / RECORDED / other).is_dir()
    targets = {*registry.claims(), *registry.errata(), *registry.exhibits()}
    told = dict.fromkeys(targets, "told")
    monkeypatch.setattr(running, "smallest_detectable", lambda module, tables: told)

    def notices_of(tables):
        result = running.judge(find_exhibit(tables.exhibit).file, tables)
        return {verdict.notices for verdict in result.verdicts}

    quick = read_tables(ROOT / FOLDER / exhibit)
    assert notices_of(quick) == {""}
    own = Settings({**quick.parameters, "picture": 1})
    for tables in (
        dataclasses.replace(quick, parameters=own),
        read_record(ROOT / RECORDED / exhibit).tables,
        read_tables(ROOT / FOLDER / other),
        # the record is undecided on stand-ins
        read_tables(ROOT / FOLDER / "mean_to_extreme" / "fig4"),
    ):
        assert notices_of(tables) == {"told"}


# --- in the book ----------------------------------------------------------------------------------


def test_a_record_is_shown_with_what_ran_and_what_differs(project):
    small, long = pd.DataFrame({"x": [1.23456, 6e-122, 0.0]}), pd.DataFrame({"x": [0] * 99})
    tables = {"small": small, "long": long}
    tables["weights"] = pd.DataFrame({"x": ["AAAA" * 1000]})
    known = write(
        project,
        "ziller2024/fig1",
        tables,
        {"pictures": 7},
        inputs={"photographs (7 files)": "ab" * 32},
        peak_memory_gb=1.5,
        earlier=[
            {
                "parameters": {"pictures": 5},
                "time": "2026-01-02T03",
                "seconds": 60,
                "commit": "fedc",
            }
        ],
    )
    record = read_record(project / RECORDED / "ziller2024/fig1")
    paper = known.parameters["pictures"].paper
    assert [(d.name, d.ran, d.paper) for d in list_differences(record, known)] == [
        ("pictures", 7, paper)
    ]
    block = recorded_block(known, record, judge_record(known.id, record), there)
    assert "a toy" in block and "90 s" in block and "`0123456789`" in block
    assert f"`pictures` 7 instead of {paper}" in block and block.count(" instead of ") == 1
    assert " `pictures` 5: 2026-01-02, 60 s, commit `fedc`." in block
    assert "photographs (7 files) `abababababab`" in block and "1.5 GB" in block
    assert "<td>1.25</td>" in block and "is as it is" in block
    # short tables are printed, to four digits and no smaller than anyone reads, long ones linked
    assert [c.split("\n")[0] for c in block.split("* - ")[2:5]] == ["1.235", "below 1e-30", "0"]
    assert f"there/{RECORDED.as_posix()}/ziller2024/fig1/long.csv), 99 rows." in block
    # nor is what only a program reads
    assert "weights.csv), 1 rows." in block and "AAAA" not in block
    assert "{figure}" not in block


def test_a_recorded_figure_has_caption_and_alternative_text(project):
    quick = read_tables(ROOT / FOLDER / "ziller2024/fig1")
    known = write(project, "ziller2024/fig1", dict(quick), {"pictures": 7})
    record = read_record(project / RECORDED / "ziller2024/fig1")
    block = recorded_block(known, record, judge_record(known.id, record), there, "recorded/x.png")
    lines = block.splitlines()
    alt = next(line for line in lines if line.startswith(":alt:"))
    assert len(alt.split()) > 8 and "/" not in alt and alt.endswith(".")
    caption = lines[lines.index(alt) + 2]
    assert 60 <= len(caption) <= 700
    assert ":name: fig-recorded-ziller2024-fig1" in block


def test_the_page_lists_every_record_and_what_has_none(project):
    write(project, "ziller2024/fig1", overrides={"pictures": 7})
    page = recorded_page(read_recorded(project), project, there)
    waiting = [c for c in registry.costs().values() if c.needs_data]
    assert "## 1 records" not in page and "## 1 record\n" in page
    assert f"## {len(waiting) - 1} exhibits without a record" in page
    assert "<exhibit-ziller2024-fig1>" in page and "`pictures` 7 (100)" in page
    assert "[1 table](there/data/recorded/ziller2024/fig1)" in page
    for cost in waiting:
        assert page.count(f"<{registry.exhibit(cost.exhibit).anchor}>") == 1, cost.exhibit


def test_the_recorded_verdict_comes_first_and_the_quick_one_beside_it(project):
    write(project)
    quick = check(EXHIBIT, False, "so", differs="few trials")
    content = {"status": "differs", "profile": "quick", "verdicts": [quick.as_dict()]}
    shown = {EXHIBIT: Shown(EXHIBIT, "notebooks/a", content, None)}
    alone = Gallery(shown)
    assert alone.status(EXHIBIT) == "differs"
    assert "recorded" not in status_badges(alone, EXHIBIT)
    both = Gallery(shown, read_recorded(project))
    assert both.status(EXHIBIT) == "reproduced"
    text = status_badges(both, EXHIBIT)
    assert text.index("reproduced</span> recorded run") < text.index("differs</span> quick run")


# --- on the command line --------------------------------------------------------------------------


def verdicts(*arguments, code=0):
    ran = CliRunner().invoke(app, ["verdicts", *arguments], env={"COLUMNS": "200"})
    assert ran.exit_code == code, ran.output
    return ran


def test_recorded_verdicts_stand_beside_the_quick_ones(project):
    write(project)
    answer = json.loads(verdicts("--profile", "recorded", "--json").stdout)
    assert answer["ok"] and answer["records"] == [EXHIBIT]
    rows = {row["id"]: row for row in answer["targets"]}
    row = rows[EXHIBIT]
    assert row["status"] == row["recorded"]["status"] == "reproduced"
    assert row["recorded"]["exhibits"] == [EXHIBIT] and row["quick"]["notebooks"]
    assert rows["hayes2023/fig3"]["recorded"] is None
    assert rows["hayes2023/fig3"]["quick"]["status"] == rows["hayes2023/fig3"]["status"]
    assert sum(answer["summary"].values()) == len(rows)
    shown = verdicts("--profile", "recorded", "--paper", "ziller2024").stdout
    assert "quick run only" in shown and "every record is whole and sound" in shown
    judged = [t for t in find_exhibit(EXHIBIT).targets if rows[t]["paper"] == "ziller2024"]
    assert f"1 records; {len(judged)} of " in shown


def test_an_unsound_record_is_status_1_and_a_contradiction_status_2(project):
    write(project)
    path = project / RECORDED / EXHIBIT / "small.csv"
    path.write_text(path.read_text().replace("1.23456", "1.3"))
    shown = verdicts("--profile", "recorded", "--paper", "ziller2024", code=1).stdout
    assert "does not hold:" in shown and "not the file that was recorded" in shown
    verdicts("--profile", "recorded", "--fresh", code=2)

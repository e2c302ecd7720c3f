"""The registry: the papers' exhibits and claims, whole and without contradictions."""

from __future__ import annotations

import re
from collections import Counter

import pytest

from companion.study import registry

PRINTED = sorted(
    path.relative_to(registry.project_root() / "data" / "paper").with_suffix("").as_posix()
    for path in (registry.project_root() / "data" / "paper").glob("*/*.csv")
)


def test_every_paper_is_in_from_the_start():
    exhibits = Counter(e.paper_key for e in registry.exhibits().values())
    claims = Counter(c.paper_key for c in registry.claims().values())
    ours = "beyond"
    assert {k: v for k, v in exhibits.items() if k != ours} == {
        "mean_to_extreme": 57,
        "ziller2024": 39,
        "hayes2023": 54,
        "biswas2024": 44,
        "liu2024": 58,
    }
    assert {k: v for k, v in claims.items() if k != ours} == {
        "mean_to_extreme": 53,
        "ziller2024": 43,
        "hayes2023": 59,
        "biswas2024": 38,
        "liu2024": 41,
    }
    assert sum(v for k, v in claims.items() if k != ours) == 234
    assert set(registry.PAPERS) == exhibits.keys() == claims.keys()


def test_ids_are_unique_over_all_kinds_of_targets():
    ids = [*registry.exhibits(), *registry.claims(), *registry.errata()]
    assert len(ids) == len(set(ids))
    assert len({e.anchor for e in registry.exhibits().values()}) == len(registry.exhibits())


def test_ids_say_which_paper_they_belong_to():
    for exhibit in registry.exhibits().values():
        assert exhibit.id.partition("/")[0] == exhibit.paper_key
    letters = {key: letter for letter, key in zip("ABCDEO", registry.PAPERS, strict=True)}
    for claim in registry.claims().values():
        assert claim.id.partition("-")[0] == letters[claim.paper_key]
    for erratum in registry.errata().values():
        assert erratum.id.split("-")[:2] == ["E", letters[erratum.paper_key]]
        assert erratum.exhibit in registry.exhibits()
        assert erratum.printed and erratum.corrected


def test_definitions_and_remarks_say_which_verdict_rests_on_them():
    targets = {e.id for e in registry.exhibits().values() if e.computable} | {*registry.claims()}
    stated = [e for e in registry.exhibits().values() if not e.computable]
    rests = {e.id: targets & set(re.findall(r"[\w/-]+", e.headline_claims)) for e in stated}
    without = {i for i, named in rests.items() if not named}
    assert without == {"biswas2024/def2", "liu2024/remC3"}
    reasons = [e.headline_claims for e in stated if e.id in without]
    assert all(reason.startswith("not judged: ") for reason in reasons)


def test_every_row_says_what_it_is_and_where():
    for row in (*registry.exhibits().values(), *registry.claims().values()):
        assert row.place, row.id
    assert {e.kind for e in registry.exhibits().values()} == {
        "figure", "table", "algorithm", "theorem", "definition", "remark", "assumption",
    }  # fmt: skip
    assert all(e.title for e in registry.exhibits().values())
    assert all(c.claim and c.how_to_check for c in registry.claims().values())


def test_definitions_are_stated_and_not_computed():
    assert not registry.exhibit("ziller2024/def1").computable
    assert registry.exhibit("ziller2024/table1").computable


@pytest.mark.parametrize(
    ("panel", "figure"),
    [
        ("mean_to_extreme/fig2_row1_mse", "mean_to_extreme/fig2"),
        ("mean_to_extreme/fig4_perceptual_loss", "mean_to_extreme/fig4"),
        ("mean_to_extreme/fig2", "mean_to_extreme/fig2"),
        ("mean_to_extreme/alg_cor1_attack", "mean_to_extreme/alg_cor1_attack"),
        ("hayes2023/fig12d", "hayes2023/fig12"),
        ("hayes2023/fig13a", "hayes2023/fig13"),
        ("hayes2023/fig14_prior100", "hayes2023/fig14"),
        ("liu2024/prop3_1", "liu2024/prop3_1"),
        ("beyond/ncc_law", "beyond/ncc_law"),
    ],
)
def test_panels_belong_to_their_figure(panel, figure):
    assert registry.parent_of(panel) == figure


def test_what_a_panels_row_leaves_empty_is_its_figures():
    panel, figure = map(registry.exhibit, ("mean_to_extreme/fig1_left", "mean_to_extreme/fig1"))
    assert (panel.parameters, panel.model) == (figure.parameters, figure.model) != ("", "")
    assert panel.x_axis == "column" != figure.x_axis and panel.title == "Reference images"
    assert panel.headline_claims == ""  # its own


def test_every_parent_exists_and_has_none_itself():
    exhibits = registry.exhibits()
    for exhibit_id in exhibits:
        parent = registry.parent_of(exhibit_id)
        assert parent in exhibits
        assert registry.parent_of(parent) == parent
        assert exhibits[parent].paper_key == exhibits[exhibit_id].paper_key
        if parent != exhibit_id:
            assert exhibits[parent].kind == exhibits[exhibit_id].kind


def test_unknown_ids_are_refused_with_the_nearest_known():
    with pytest.raises(KeyError, match="did you mean ziller2024/table1"):
        registry.exhibit("ziller2024/tabel1")
    with pytest.raises(KeyError, match="companion list"):
        registry.exhibit("???")
    with pytest.raises(KeyError, match="neither an exhibit, a claim nor an erratum"):
        registry.place_of("A-999")
    with pytest.raises(KeyError, match="no printed numbers are recorded"):
        registry.printed("ziller2024/fig99")


def test_places_are_found_for_every_kind_of_target():
    assert registry.place_of("ziller2024/table1") == "Table 1"
    assert registry.place_of("A-003") == "Section 2.2"
    assert registry.place_of("E-A-01").startswith("Proposition 1")


@pytest.mark.parametrize("name", PRINTED)
def test_printed_numbers_give_their_place_and_no_line(name):
    table = registry.printed(name)
    assert {"place", "metric", "value", "printed", "certain", "notes"} <= set(table.columns)
    assert "quote_line" not in table.columns
    assert (table["place"] != "").all()
    assert set(table["certain"]) <= {"yes", "no"}
    paper, _, exhibit = name.partition("/")
    assert paper in registry.PAPERS
    assert exhibit == "text" or name in registry.exhibits()


def test_numbers_read_in_the_papers_are_in():
    """A sample of what the papers print, read in them and not in the CSV files."""
    table = registry.printed("ziller2024/table1")
    assert len(table) == 68
    cell = {
        (int(row["row_index"]), row["metric"]): (float(row["value"]), row["printed"])
        for row in table.to_dict("records")
    }
    success, mse, psnr, ncc = (
        "worst_case_matching_success",
        "min_E_MSE",
        "max_E_PSNR",
        "max_E_NCC",
    )
    assert cell[1, success] == (38.9, r"38.9\%")
    assert cell[1, ncc] == (3.2, r"3.2\%")
    assert cell[2, mse] == (1e-8, r"1.0\cdot 10^{-8}")
    assert cell[2, psnr] == (80.0, "80.0")
    assert cell[3, ncc] == (95.3, r"95.3\%")
    assert cell[4, success] == (10.2, r"10.2\%")
    assert cell[4, psnr] == (-40.0, "-40.0")
    assert cell[5, mse] == (1e8, r"1.0\cdot 10^{8}")
    assert cell[7, psnr] == (-20.0, "-20.0")
    assert registry.setting("mean_to_extreme/fig2", "M") == "100"
    assert registry.setting("mean_to_extreme/fig2", "N_dimension") == "4"
    with pytest.raises(KeyError, match="prints 0 values of 'nothing'"):
        registry.setting("mean_to_extreme/fig2", "nothing")


def test_a_row_listed_twice_is_an_error(project):
    path = project.root / "data/paper/claims.csv"
    path.write_text(path.read_text() + path.read_text().splitlines()[1] + "\n")
    registry.claims.cache_clear()
    with pytest.raises(ValueError, match="the registry lists B-001 twice"):
        registry.claims()


def test_the_project_is_found_or_the_refusal_says_how(project, monkeypatch, tmp_path):
    assert registry.project_root() == project.root
    monkeypatch.setenv("RECONRISK_ROOT", str(project.root / "data" / "paper"))
    assert registry.project_root() == project.root
    monkeypatch.setenv("RECONRISK_ROOT", str(tmp_path))
    with pytest.raises(FileNotFoundError, match="RECONRISK_ROOT"):
        registry.project_root()


def test_tables_of_print_are_made_once_and_anew_where_print_is_altered():
    made = []

    @registry.of_print
    def values(name):
        made.append(name)
        return registry.printed(name)[["value"]]

    first, again = values("liu2024/table8"), values("liu2024/table8")
    assert made == ["liu2024/table8"] and first.equals(again)
    first.loc[0, "value"] = "nobody else's"
    assert values("liu2024/table8").equals(again)
    other = registry.printed("liu2024/table8").assign(value="1")
    with registry.printed_as({"liu2024/table8": other}):
        assert (values("liu2024/table8")["value"] == "1").all()
    assert values("liu2024/table8").equals(again) and len(made) == 2
    registry.forget()
    values("liu2024/table8")
    assert len(made) == 3

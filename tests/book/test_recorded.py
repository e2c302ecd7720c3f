"""Recorded runs in the compiled book: beside their exhibits, in the ledgers, and on their page."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

from PIL import Image

from companion.study import registry, stored
from companion.study.recorded import list_unrecorded, pair_verdicts, read_recorded

ROOT = registry.project_root()
PAGE = "book/generated/recorded.html"


def _text(element) -> str:
    return " ".join(element.get_text(" ").split())


def _width(path: Path) -> float:
    """Pixels of a picture, whose letters are large enough at that width."""
    if path.suffix == ".svg":
        return float(ElementTree.parse(path).getroot().get("width", "nan"))
    with Image.open(path) as picture:
        return picture.width


def test_every_record_stands_below_its_exhibit(book) -> None:
    recorded = read_recorded(ROOT)
    records, judgings = recorded.records, recorded.judgings
    homes = {exhibit: r.notebook for exhibit, r in stored.read(ROOT).results.items()}
    blocks = {page: soup.select(".recorded-run") for page, soup in book.pages.items()}
    assert sum(map(len, blocks.values())) == len(records)
    for exhibit, record in records.items():
        found = blocks[homes[exhibit].replace(".ipynb", ".html")]
        mine = [b for b in found if f"data/recorded/{exhibit}/" in json.dumps(str(b))]
        assert len(mine) == 1, exhibit
        text = _text(mine[0])
        assert record.provenance.commit[:10] in text and record.provenance.time[:10] in text
        shown = {_text(badge) for badge in mine[0].select("div.verdicts td .verdict")}
        assert shown == {verdict.status for verdict in judgings[exhibit].verdicts}, exhibit
        for name in record.tables:
            assert f"{exhibit}/{name}.csv" in str(mine[0]), (exhibit, name)


def test_recorded_figures_are_described_and_of_a_readable_size(book) -> None:
    figures = [
        (page, figure)
        for page, soup in book.pages.items()
        for figure in soup.select(".recorded-run figure")
    ]
    assert figures
    for page, figure in figures:
        image, caption = figure.find("img"), _text(figure.find("figcaption"))
        assert image["alt"].startswith("From the recorded run.") and image["alt"].endswith(".")
        assert 40 <= len(caption) <= 700, (page, caption)
        path = ((book.folder / page).parent / image["src"]).resolve()
        assert 600 <= _width(path) <= 2400, path
        assert path.stat().st_size < 600_000, path


def test_the_page_of_records_is_complete(book) -> None:
    soup = book.pages[PAGE]
    records = read_recorded(ROOT).records
    assert len(soup.select("table.records tbody tr")) == len(records)
    assert len(soup.select("table.costs tbody tr")) == len(list_unrecorded(ROOT))
    links = {a["href"].rpartition("#")[2] for a in soup.select("table.records a[href*='#']")}
    assert len(links) == len(records)


def test_the_ledgers_tell_recorded_and_quick_verdicts_apart(book) -> None:
    recorded = read_recorded(ROOT)
    claims = {claim for claim in registry.claims() if recorded.verdicts_for(claim)}
    told = [
        row
        for row in book.pages["book/generated/claims.html"].select("table.ledger tbody tr")
        if "recorded" in _text(row) and "quick run" in _text(row)
    ]
    assert len(told) == len(claims)
    # the verdict that counts comes first: the filter above the ledger goes by it
    counting = {
        row.quick.id: row.status for row in pair_verdicts(recorded, stored.read(ROOT).results)
    }
    for row in told:
        target = _text(row.find("td"))
        assert _text(row.select_one(".verdict")) == counting[target], target

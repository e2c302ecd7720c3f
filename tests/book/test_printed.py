"""The book as PDF: nothing is lost on the way to paper, and a browser prints it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pypdf
import pytest
import yaml
from bs4 import BeautifulSoup

from companion.book import printed
from companion.study import registry

CONTENTS = yaml.safe_load((registry.project_root() / "_toc.yml").read_text())


@pytest.fixture(scope="module")
def sheet(book) -> BeautifulSoup:
    text = printed.one_page(book.folder, printed.parts_of(CONTENTS), "Reconstruction risk", "")
    return BeautifulSoup(text, "html.parser")


def test_every_page_and_picture_is_there_and_every_link_leads_somewhere(book, sheet) -> None:
    anchors = {tag["id"] for tag in sheet.find_all(id=True)}
    inner = [a["href"] for a in sheet.find_all("a", href=True) if a["href"].startswith("#")]
    assert len(inner) > 2000
    assert sorted({href for href in inner if href[1:] not in anchors}) == []
    pages = [page for part in printed.parts_of(CONTENTS) for page in part.pages]
    assert len(sheet.select("section.page")) == len(pages) > 60
    assert not [page for page in pages if page.startswith("book/api/")]
    pictures = [img["src"] for img in sheet.find_all("img")]
    assert len(pictures) > 150
    lost = [p for p in pictures if "://" not in p and not (book.folder / p).is_file()]
    assert lost == []


def print_pdf(page: Path, target: Path) -> None:
    """Print in a thread of its own: in this one the other tests' browser is running."""
    with ThreadPoolExecutor(1) as pool:
        pool.submit(printed.print_pdf, page, target).result()


def test_pages_with_formulas_and_figures_are_printed(book, find_chromium, tmp_path: Path) -> None:
    find_chromium()  # without a browser this is skipped
    pages = ("book/papers/hayes2023", "notebooks/ziller2024/02_photographs")
    parts = [printed.Part("", ("book/index",)), printed.Part("Some", pages)]
    page = book.folder / "_some.html"
    page.write_text(printed.one_page(book.folder, parts, "Some pages", "Version 0"))
    try:
        print_pdf(page, tmp_path / "some.pdf")
    finally:
        page.unlink()
    found = pypdf.PdfReader(tmp_path / "some.pdf")
    assert found.metadata.title == "Some pages" and "Version 0" in found.pages[0].extract_text()
    words = "".join(sheet.extract_text() for sheet in found.pages)
    assert "Contents" in words and "\\mathcal" not in words and "$" not in words
    assert sum(len(sheet.images) for sheet in found.pages) > 3
    assert len(found.outline) >= 3
    inner = [
        note.get_object()["/Dest"]
        for sheet in found.pages
        for note in sheet.get("/Annots", ())
        if "/Dest" in note.get_object()
    ]
    assert len(inner) > 5 and set(inner) <= set(found.named_destinations)


def test_the_tour_is_printed_as_slides(book, find_chromium, tmp_path: Path) -> None:
    text = printed.slides(book.folder, "book/tour")
    stops = BeautifulSoup(text, "html.parser").select("body > section")
    assert len(stops) == 8 and all(len(stop.select("figure img")) == 1 for stop in stops)
    find_chromium()
    page = book.folder / "_slides.html"
    page.write_text(text)
    try:
        print_pdf(page, tmp_path / "slides.pdf")
    finally:
        page.unlink()
    assert len(pypdf.PdfReader(tmp_path / "slides.pdf").pages) == 9  # the title's, and one a stop


def test_what_cannot_be_set_or_found_is_said(find_chromium, tmp_path: Path) -> None:
    find_chromium()
    page = tmp_path / "page.html"
    page.write_text('<img src="none.png"><mjx-merror>Undefined control sequence</mjx-merror>')
    with pytest.raises(ValueError, match="2 faults in page.html: Undefined control sequence"):
        print_pdf(page, tmp_path / "page.pdf")
    assert not list(tmp_path.glob("*.p*f")) and not list(tmp_path.glob("*.part"))

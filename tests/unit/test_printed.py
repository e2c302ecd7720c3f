"""The book as one page: anchors, links, pictures and what is left out."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from bs4 import BeautifulSoup

from companion.book.printed import Part, one_page, parts_of

PAGE = """<html><head>
<script>window.MathJax = {{"tex": {{"macros": {{}}}}}}</script>
<script defer="defer" src="{up}_static/mathjax/tex-mml-chtml.js?v=1"></script>
<script src="{up}_static/other.js"></script>
</head><body><aside><a href="elsewhere.html">a sidebar</a></aside>
<article class="bd-article"><h1 id="head">{title}<a class="headerlink" href="#head">#</a></h1>
{body}</article></body></html>"""

CONTENTS = """
root: book/index
parts:
  - caption: First & last
    chapters:
      - file: book/one
        sections:
          - file: book/two
      - url: https://example.org
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    pages = {
        "index": '<p id="start">Start at <a href="one.html#law">the law</a>.</p>',
        "one": '<p id="law">See <a href="#law">here</a>, <a href="two.html">there</a>, '
        '<a href="../_modules/code.html#L3"><code>code</code></a>, '
        '<a href="https://doi.org/10/x">print</a>.</p>'
        '<details><summary>More</summary><p>unfolded</p></details>'
        '<details class="hide"><summary>Code</summary><div class="cell_input">x = 1</div></details>'
        '<img src="../_images/a.png" loading="lazy"><script>alert(1)</script>',
        "two": '<p id="law">Another <a href="../book/index.html#start">start</a></p>'
        '<input id="tab"><label for="tab">tab</label>',
    }  # fmt: skip
    for name, body in pages.items():
        path = tmp_path / "book" / f"{name}.html"
        path.parent.mkdir(exist_ok=True)
        path.write_text(PAGE.format(up="../", title=name.title(), body=body), encoding="utf-8")
    return tmp_path


@pytest.fixture
def printed(folder: Path) -> BeautifulSoup:
    parts = parts_of(yaml.safe_load(CONTENTS))
    return BeautifulSoup(one_page(folder, parts, "A <book>", "Version 1"), "html.parser")


def test_parts_follow_the_contents():
    assert parts_of(yaml.safe_load(CONTENTS)) == [
        Part("", ("book/index",)),
        Part("First & last", ("book/one", "book/two")),
    ]


def test_anchors_stand_once_and_links_lead_to_them(printed: BeautifulSoup):
    anchors = [tag["id"] for tag in printed.find_all(id=True)]
    assert len(anchors) == len(set(anchors))
    inner = [a["href"][1:] for a in printed.find_all("a", href=True) if a["href"][0] == "#"]
    assert set(inner) <= set(anchors)
    by_words = {a.get_text(): a["href"] for a in printed.find_all("a", href=True)}
    assert by_words["the law"] == by_words["here"] == "#page-1-law"
    assert by_words["there"] == by_words["Two"] == "#page-2"
    assert by_words["start"] == "#page-0-start"
    assert by_words["print"] == "https://doi.org/10/x"
    assert "code" not in by_words and "code" in printed.get_text()


def test_what_belongs_to_a_screen_is_left_out(printed: BeautifulSoup):
    words = printed.get_text()
    assert "a sidebar" not in words and "x = 1" not in words and "alert" not in words
    assert "unfolded" in words and printed.find("details").has_attr("open")
    assert not printed.select("input, a.headerlink")
    assert printed.find("label")["for"] == "page-2-tab"


def test_pictures_and_formulas_are_found_from_the_books_folder(printed: BeautifulSoup):
    picture = printed.find("img")
    assert picture["src"] == "_images/a.png" and not picture.has_attr("loading")
    settings, program = printed.find_all("script")
    assert "macros" in settings.get_text()
    assert program["src"] == "_static/mathjax/tex-mml-chtml.js?v=1"


def test_the_front_says_what_it_is(printed: BeautifulSoup):
    assert printed.title.get_text() == "A <book>"
    assert "Version 1" in printed.header.get_text()
    assert [p.get_text() for p in printed.nav.find_all("p")] == ["Contents", "First & last"]
    assert [li.get_text() for li in printed.nav.find_all("li")] == ["One", "Two"]


def test_a_page_that_is_missing_is_named(folder: Path):
    with pytest.raises(FileNotFoundError, match=r"three\.html"):
        one_page(folder, [Part("", ("book/three",))], "A", "B")
    (folder / "book" / "bare.html").write_text("<p>no page</p>")
    with pytest.raises(ValueError, match="'book/bare' has no article"):
        one_page(folder, [Part("", ("book/bare",))], "A", "B")

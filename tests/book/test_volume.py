"""A reader can finish the book: words in sight by page and in all, and bytes.

In sight is what no fold holds. A formula is one word; listings of code and printed output are not
counted, nor is what is looked up and not read: the part Reference, with the ledgers.
"""

from __future__ import annotations

from copy import copy

import yaml
from bs4 import BeautifulSoup, Tag

from companion.book import printed
from companion.study import registry

CONTENTS = yaml.safe_load((registry.project_root() / "_toc.yml").read_text())

MOST_OF_A_PAGE, MOST_OF_THE_BOOK = 3_000, 90_000
MOST_BYTES = 3_000_000
#: the library's reference, the ledgers, and the other pages of the part of that name
LOOKED_UP = (
    *("book/api/", "book/generated/", "_modules/", "genindex", "prf-prf", "py-modindex"),
    *printed.parts_of(CONTENTS)[-1].pages,
)


def words_in_sight(article: Tag) -> int:
    shown = copy(article)
    for tag in shown.select("script, style, pre, form, .headerlink"):
        tag.decompose()
    for fold in shown.select("details:not([open])"):
        for inside in list(fold.children):
            if getattr(inside, "name", None) != "summary":
                inside.extract()
    for formula in shown.select(".math"):
        formula.string = "formula"
    return sum(any(map(str.isalnum, word)) for word in shown.get_text(" ").split())


def test_words_are_counted_as_a_reader_sees_them() -> None:
    page = BeautifulSoup(
        "<article><p>Two words, <span class='math'>x = 1</span> - </p><pre>a = 1</pre>"
        "<details><summary>Folded</summary><p>not seen</p></details>"
        "<details open><summary>Open</summary><p>seen</p></details></article>",
        "html.parser",
    )
    assert words_in_sight(page.article) == 6
    assert "not seen" in page.get_text()  # the page itself is left alone


def test_a_page_and_the_book_can_be_finished(book) -> None:
    counts = {
        name: words_in_sight(article)
        for name, page in book.pages.items()
        if (article := page.select_one("article.bd-article")) and not name.startswith(LOOKED_UP)
    }
    print(*(f"{words:6} {name}" for name, words in counts.items()), sum(counts.values()), sep="\n")
    assert len(counts) > 60
    assert {name: words for name, words in counts.items() if words > MOST_OF_A_PAGE} == {}
    assert sum(counts.values()) <= MOST_OF_THE_BOOK


def test_a_page_loads_little_before_it_is_scrolled(book) -> None:
    heavy = {}
    for name, page in book.pages.items():
        linked = {e.get("src") for e in page.select("script[src], img[src]:not([loading=lazy])")}
        linked |= {e["href"] for e in page.select("link[rel=stylesheet][href]")}
        paths = {(book.folder / name).parent / address.partition("?")[0] for address in linked}
        loaded = [(book.folder / name), *(path for path in paths if path.is_file())]
        size = sum(path.stat().st_size for path in loaded)
        if size > MOST_BYTES and not name.startswith("_modules/"):
            heavy[name] = size
    assert heavy == {}
    pictures = [i for p in book.pages.values() for i in p.select("article figure img")]
    assert all(picture.get("loading") == "lazy" for picture in pictures)

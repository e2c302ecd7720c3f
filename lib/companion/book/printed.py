"""The book on paper: all its pages as one, in the order of the contents, and that one as PDF.

One page, the tour, is printed as slides besides.
"""

from __future__ import annotations

import html
import posixpath
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import yaml
from bs4 import BeautifulSoup, Tag

import reconrisk

__all__ = [
    "Part",
    "find_chromium",
    "one_page",
    "parts_of",
    "print_book",
    "print_pdf",
    "print_slides",
    "slides",
]

#: what the system may call the browser
CHROMIUM = ("chromium", "chromium-browser", "google-chrome")

#: what only works, or only makes sense, on a screen
_ON_SCREEN = (
    "script, style, input, button, summary svg, a.headerlink, form, details:has(> .cell_input), "
    "details.below-input, details.exhibit-source, details.exhibit-details, "
    "details.exhibit-verdicts, details.exhibit-table"
)

#: what is looked up and not read: the library's reference
_LOOKED_UP = "book/api/"

#: attributes that name another element of the page
_REFERENCES = ("for", "aria-labelledby", "aria-describedby")


@dataclass(frozen=True)
class Part:
    """A part of the contents: its caption and its pages, as paths without an ending."""

    caption: str
    pages: tuple[str, ...]


def parts_of(contents: Mapping[str, Any]) -> list[Part]:
    """Return the parts of a ``_toc.yml``; the first one, without a caption, is the front page."""
    parts = [Part("", (contents["root"],))]
    for part in contents["parts"]:
        parts.append(Part(part["caption"], tuple(_pages(part["chapters"]))))
    return parts


def _pages(chapters: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    for chapter in chapters:
        if "file" in chapter and not chapter["file"].startswith(_LOOKED_UP):
            yield chapter["file"]
        yield from _pages(chapter.get("sections", ()))


def print_book(folder: Path, contents: Path, target: Path) -> None:
    """Print the compiled book to a PDF, its title page with the version.

    Parameters
    ----------
    folder : Path
        The compiled pages.
    contents : Path
        The book's ``_toc.yml``.
    target : Path
        The PDF.

    Raises
    ------
    FileNotFoundError
        If the book has not been compiled, or there is no Chromium.
    ValueError
        If something cannot be printed; the message says what.
    """
    parts = parts_of(yaml.safe_load(contents.read_text(encoding="utf-8")))
    line = f"Five papers, regenerated and checked. Version {reconrisk.__version__}"
    _print_text(one_page(folder, parts, "Reconstruction risk", line), folder, target)


def print_slides(folder: Path, page: str, target: Path) -> None:
    """Print a compiled page to a PDF of :func:`slides`; raises as :func:`print_book` does."""
    _print_text(slides(folder, page), folder, target)


def _print_text(text: str, folder: Path, target: Path) -> None:
    """Print a page of HTML whose paths start in a folder."""
    page = folder / "_printed.html"
    try:
        page.write_text(text, encoding="utf-8")
        print_pdf(page, target)
    finally:
        page.unlink(missing_ok=True)


def slides(folder: Path, page: str) -> str:
    """Return a compiled page as one page of HTML that prints a slide for each of its sections.

    A slide has a section's heading, the words before its picture, and the picture, without its
    caption; links keep their words.

    Parameters
    ----------
    folder : Path
        The compiled pages.
    page : str
        The page's path without an ending.

    Raises
    ------
    FileNotFoundError
        If the page has not been compiled.
    """
    soup = BeautifulSoup((folder / f"{page}.html").read_text(encoding="utf-8"), "html.parser")
    article = _article(soup, page)
    scripts = _mathematics(soup, f"{page}.html")
    _prepare(article, f"{page}.html", {f"{page}.html": "slides"})
    for tag in article.select("figcaption, figure ~ p, h1 .section-number"):
        tag.decompose()
    title = article.find("h1")
    heading = title.get_text(" ", strip=True) if title else page
    shown = "".join(map(str, article.select("section > section")))
    style = (Path(__file__).parent / "slides.css").read_text(encoding="utf-8")
    body = f"<body><h1>{html.escape(heading)}</h1>{shown}</body>"
    return f"{_head(heading, style, scripts)}{body}</html>"


def one_page(folder: Path, parts: Sequence[Part], title: str, line: str) -> str:
    """Return the compiled book as one page of HTML, to be written into its folder.

    Every anchor is renamed so that it stands once. A link between pages leads to the place in this
    one; a link to what is not in the contents (a page of source code, a file) keeps its words only.
    An exhibit's folds are left out (its checks, its second picture, its code, how to run it), and
    so is the library's reference; everything else that is folded is open.

    Parameters
    ----------
    folder : Path
        The compiled pages, as :func:`companion.cli.book.compile_book` leaves them.
    parts : sequence of Part
        What is printed, in this order.
    title, line : str
        What the title page says.

    Raises
    ------
    FileNotFoundError
        If a page of the contents has not been compiled.
    """
    pages = [page for part in parts for page in part.pages]
    keys = {f"{page}.html": f"page-{number}" for number, page in enumerate(pages)}
    head, heads, bodies = "", {}, {}
    for page in pages:
        soup = BeautifulSoup((folder / f"{page}.html").read_text(encoding="utf-8"), "html.parser")
        article = _article(soup, page)
        head = head or _mathematics(soup, f"{page}.html")
        _prepare(article, f"{page}.html", keys)
        heading = article.find("h1")
        heads[page] = heading.get_text(" ", strip=True) if heading else page
        bodies[page] = article.decode_contents()
    contents = "".join(_listed(part, keys, heads) for part in parts[1:])
    printed = "".join(_printed(part, keys, bodies) for part in parts)
    style = (Path(__file__).parent / "printed.css").read_text(encoding="utf-8")
    return (
        f"{_head(title, style, head)}"
        f'<body><header class="title"><p class="name">{html.escape(title)}</p>'
        f'<p>{html.escape(line)}</p></header><nav><p class="contents">Contents</p>{contents}</nav>'
        f"{printed}</body></html>"
    )


def _article(soup: BeautifulSoup, page: str) -> Tag:
    article = soup.select_one("article.bd-article")
    if article is None:
        raise ValueError(f"page {page!r} has no article: is it a page of the book?")
    return article


def _head(title: str, style: str, scripts: str) -> str:
    return (
        f'<!doctype html><html lang="en" data-theme="light"><head><meta charset="utf-8">'
        f"<title>{html.escape(title)}</title>"
        f'<link rel="stylesheet" href="_static/pygments.css">'
        f'<link rel="stylesheet" href="_static/custom.css"><style>{style}</style>{scripts}</head>'
    )


def _mathematics(soup: BeautifulSoup, page: str) -> str:
    """Return the scripts that set formulas, if the page has them; their paths from the folder."""
    scripts = []
    for script in soup.find_all("script"):
        source = script.get("src")
        if source and "mathjax" in str(source).lower():
            script["src"] = _path(str(source), page)
            scripts.append(str(script))
        elif not source and "MathJax" in script.get_text():
            scripts.append(str(script))
    return "".join(scripts)


def _path(address: str, page: str) -> str:
    """Return a relative address of a page as a path from the book's folder."""
    return posixpath.normpath(posixpath.join(posixpath.dirname(page), unquote(address)))


def _prepare(article: Tag, page: str, keys: Mapping[str, str]) -> None:
    """Make an article a part of the one page, in place."""
    key = keys[page]
    for tag in article.select(_ON_SCREEN):
        tag.decompose()
    for tag in article.find_all(id=True):
        tag["id"] = f"{key}-{tag['id']}"
    for name in _REFERENCES:
        for tag in article.select(f"[{name}]"):
            tag[name] = " ".join(f"{key}-{other}" for other in str(tag[name]).split())
    for tag in article.find_all("details"):
        tag["open"] = ""
    for tag in article.find_all(["img", "object", "source"]):
        for name in ("src", "data"):
            if tag.get(name) and not urlsplit(str(tag[name])).scheme:
                tag[name] = _path(str(tag[name]), page)
        tag.attrs.pop("loading", None)  # what is below the window is printed, too
    for link in article.find_all("a", href=True):
        _relink(link, page, keys)


def _relink(link: Tag, page: str, keys: Mapping[str, str]) -> None:
    """Let a link lead to its place in the one page, or take it off its words."""
    address = urlsplit(str(link["href"]))
    if address.scheme or address.netloc:
        return
    target = keys.get(_path(address.path, page) if address.path else page)
    if target is None:
        link.unwrap()
    else:
        link["href"] = f"#{target}" + (f"-{unquote(address.fragment)}" if address.fragment else "")


def _listed(part: Part, keys: Mapping[str, str], heads: Mapping[str, str]) -> str:
    lines = "".join(
        f'<li><a href="#{keys[f"{page}.html"]}">{html.escape(heads[page])}</a></li>'
        for page in part.pages
    )
    return f"<p>{html.escape(part.caption)}</p><ul>{lines}</ul>"


def _printed(part: Part, keys: Mapping[str, str], bodies: Mapping[str, str]) -> str:
    caption = f'<p class="part">{html.escape(part.caption)}</p>' * bool(part.caption)
    pages = [
        f'<section class="page" id="{keys[f"{page}.html"]}">{caption * (number == 0)}'
        f"{bodies[page]}</section>"
        for number, page in enumerate(part.pages)
    ]
    return "".join(pages)


def find_chromium() -> str:
    """Return the path of the system's Chromium.

    Raises
    ------
    FileNotFoundError
        If there is none.
    """
    found = next(filter(None, map(shutil.which, CHROMIUM)), None)
    if found is None:
        raise FileNotFoundError(f"no browser that prints: none of {', '.join(CHROMIUM)} is found")
    return found


def print_pdf(page: Path, target: Path) -> None:
    """Print a page of HTML to a PDF with an outline.

    Formulas are set and pictures loaded before.

    Parameters
    ----------
    page : Path
        The file to print.
    target : Path
        The PDF; written as a whole or not at all.

    Raises
    ------
    FileNotFoundError
        If there is no Chromium.
    ValueError
        If a formula cannot be set or a picture is missing; the message has the first ones.
    """
    from playwright.sync_api import sync_playwright

    chromium = find_chromium()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        try:
            sheet = browser.new_page(viewport={"width": _WIDTH, "height": 900})
            sheet.emulate_media(media="print")
            sheet.set_default_timeout(0)  # a book takes minutes
            sheet.goto(page.resolve().as_uri(), wait_until="load")
            faults = sheet.evaluate(_READY)
            if faults:
                raise ValueError(f"{len(faults)} faults in {page.name}: {'; '.join(faults[:5])}")
            unfinished = target.with_suffix(".part")
            target.parent.mkdir(parents=True, exist_ok=True)
            # of a tagged document the browser knows the headings, which make the outline
            sheet.pdf(
                path=unfinished,
                prefer_css_page_size=True,
                print_background=True,
                tagged=True,
                outline=True,
            )
            unfinished.replace(target)
        finally:
            browser.close()


#: pixels between the margins of a sheet, at 96 to an inch: 176 of A4's 210 mm
_WIDTH = 665

#: waits for formulas and pictures and returns what is wrong with them; fits tables
_READY = re.sub(
    r"\s+",
    " ",
    """async () => {
        if (window.MathJax && MathJax.startup) await MathJax.startup.promise;
        const said = [...document.querySelectorAll('mjx-merror')].map(e => e.textContent);
        for (const image of document.images)
            await image.decode().catch(() => said.push('no picture ' + image.getAttribute('src')));
        for (const narrower of [1, 0.97, 0.94]) {
            const wide = [...document.querySelectorAll('table')]
                .map(table => [table, table.parentElement.clientWidth / table.offsetWidth])
                .filter(([table, fits]) => fits && fits < 1);
            for (const [table, fits] of wide) {
                const size = parseFloat(getComputedStyle(table).fontSize);
                table.style.fontSize = Math.max(4, size * fits * narrower) + 'px';
            }
        }
        for (const table of document.querySelectorAll('table'))
            if (table.offsetWidth > 1.01 * table.parentElement.clientWidth)
                for (const cell of table.querySelectorAll('td')) cell.style.whiteSpace = 'normal';
        return said;
    }""",
)

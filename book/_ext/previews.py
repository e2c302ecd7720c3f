"""Sphinx extension: what is shown when a reader points at a link within the book.

Once all pages are written, what stands at the targets of a page's links is put into a script of
that page, which hands it to ``_static/previews.js``: nothing is asked of a network. Only pages that
another links to are parsed. Two kinds of targets get more than the paragraph that has their label:
an exhibit its picture, and a claim its row of the ledger.
"""

import html
import json
import posixpath
import re
from collections.abc import Collection, Iterable, Mapping
from copy import copy
from pathlib import Path

from bs4 import BeautifulSoup, Tag

FOLDER = "previews"

#: signatures of the API have no preview, for their number
_UNSHOWN = re.compile(r".*api/\w+\.html#")
#: nor have marks that link a heading to itself, names in code, and whole cards
_OTHER = {"headerlink", "sd-stretched-link", "name", "viewcode-link", "viewcode-back"}
_HEADINGS = ["h1", "h2", "h3", "h4", "h5", "h6"]
_BOXES = {"admonition", "proof", "citation"}

#: what no preview shows, and most of a page: marks within code, and tables of results
_MARKS = re.compile(r"(?<=<pre>).*?(?=</pre>)", re.DOTALL)
_MARK = re.compile(r"</?span[^>]*>")
_RESULTS = re.compile(r'<table[^>]*class="dataframe.*?</table>', re.DOTALL)

_ANCHOR = re.compile(r"<a\s[^>]*>")
_ATTRIBUTE = re.compile(r'\s(href|class)="([^"]*)"')
_ADDRESS = re.compile(r'(<(?:a|img)\s[^>]*?\b(?:href|src)=")(?![a-zA-Z][a-zA-Z0-9+.-]*:|#)([^"]*)')

#: a page and an anchor on it, empty for its top
Target = tuple[str, str]


def targets_of(page: str, article: str, pages: Collection[str]) -> dict[str, Target]:
    """Return the targets, on one of some pages, of an article's links by their addresses."""
    found = {}
    for anchor in set(_ANCHOR.findall(article)):
        given = dict(_ATTRIBUTE.findall(anchor))
        link = html.unescape(given.get("href", ""))
        if not link or _UNSHOWN.match(link) or _OTHER & set(given.get("class", "").split()):
            continue
        path, _, target = link.partition("#")
        to = posixpath.normpath(posixpath.join(posixpath.dirname(page), path))
        to = to.removesuffix(".html") if path else page
        if to in pages and (not path or path.endswith(".html")):
            found[link] = (to, target)
    return found


def previews_of(article: str, targets: Iterable[str]) -> dict[str, str]:
    """Return the HTML to show for targets on a page, except those for which nothing is shown."""
    article = _MARKS.sub(lambda code: _MARK.sub("", code[0]), _RESULTS.sub("", article))
    body = BeautifulSoup(article, "html.parser")
    by_id = {element["id"]: element for element in body.find_all(id=True)}
    elements = {target: by_id.get(target) if target else body.find(_HEADINGS) for target in targets}
    shown = {target: preview(e, target) for target, e in elements.items() if e is not None}
    return {target: content for target, content in shown.items() if content}


def preview(element: Tag, target: str) -> str:
    """Return the HTML to show for one element that a link leads to; empty if there is none."""
    if element.name == "span" and not element.attrs.keys() - {"id"} and not element.contents:
        element = element.parent or element  # a further label of what begins here
    classes = set(element.get("class") or ())
    for prefix, rule in PREVIEWS.items():
        if target.startswith(prefix):
            return rule(element)
    if element.name in _HEADINGS:
        return headed(element)
    if element.name == "section":
        heading = element.find(_HEADINGS)
        return headed(heading) if heading else ""
    if element.name == "dt":
        return defined(element)
    if element.name == "div" and "math" in classes:
        return without_numbers(element)
    is_box = element.name == "div" and bool(classes & _BOXES)
    return str(element) if is_box or element.name in ("figure", "p", "aside") else ""


def headed(heading: Tag) -> str:
    """Return a heading with the first one or two paragraphs below it."""
    parts = [str(heading)]
    for sibling in heading.find_next_siblings(["section", "p"]):
        if sibling.name == "section":
            below = sibling.find(_HEADINGS)
            return "".join(parts) + (headed(below) if below else "")
        following = sibling.find_next_sibling()
        both = [sibling, following] if following and following.name == "p" else [sibling]
        return "".join(map(str, [*parts, *both]))
    return parts[0]


def defined(term: Tag) -> str:
    """Return a term of a list with the first paragraphs of its definition."""
    definition = term.find_next_sibling()
    if definition is None or definition.name != "dd":
        return str(term)
    paragraphs = [p for p in definition.find_all(True, recursive=False)[:6] if p.name == "p"]
    return f"{term}<dd>{''.join(map(str, paragraphs))}</dd>"


def without_numbers(formula: Tag) -> str:
    """Return a displayed formula without its number."""
    formula = copy(formula)
    for number in formula.select("span.eqno"):
        number.decompose()
    return str(formula)


def exhibit_preview(label: Tag) -> str:
    """Return an exhibit's heading and sentence, and the first picture before the next exhibit."""
    parts = [str(label)]
    for element in label.find_all_next(["p", "figure"]):
        if element.name == "p" and str(element.get("id", "")).startswith("exhibit-"):
            break
        if element.name == "figure":
            picture = element.find("img")
            parts += [str(picture)] if picture else []
            break
        if element.find_parent(["table", "details", "figure"]) is None and len(parts) < 2:
            parts.append(str(element))
    return "".join(parts)


def claim_preview(label: Tag) -> str:
    """Return what a claim's row says it is: its second cell."""
    row = label.find_parent("tr")
    cells = row.find_all("td", recursive=False) if row else []
    return cells[1].decode_contents() if len(cells) > 1 else str(label)


PREVIEWS = {"exhibit-": exhibit_preview, "claim-": claim_preview}


def moved(content: str, folder: str) -> str:
    """Return HTML of a page in another folder with its addresses as they are from here."""

    def from_here(match: re.Match[str]) -> str:
        return match[1] + posixpath.normpath(posixpath.join(folder, match[2]))

    return _ADDRESS.sub(from_here, content) if folder else content


def scripts(articles: Mapping[str, str]) -> dict[str, str]:
    """Return the script of each page, from all pages' articles."""
    links = {page: targets_of(page, article, articles) for page, article in articles.items()}
    wanted: dict[str, set[str]] = {}
    for to, target in {found for targets in links.values() for found in targets.values()}:
        wanted.setdefault(to, set()).add(target)
    shown = {to: previews_of(articles[to], targets) for to, targets in wanted.items()}
    written = {}
    for page, targets in links.items():
        here = posixpath.dirname(page)
        contents = {
            link: moved(shown[to][target], folder_from(here, to))
            for link, (to, target) in sorted(targets.items())
            if target in shown[to]
        }
        written[page] = f"showPreviews({json.dumps(contents)});\n" if contents else ""
    return written


def folder_from(here: str, page: str) -> str:
    """Return the way from a folder to a page's folder; empty if it is the same."""
    way = posixpath.relpath(posixpath.dirname(page) or ".", here or ".")
    return "" if way == "." else way


def _load(app, pagename, templatename, context, doctree) -> None:
    """Have a page load its previews, and MathJax for the formulas in them."""
    if doctree:
        app.env.get_domain("math").data["has_equations"][pagename] = True
        app.add_js_file("previews.js", loading_method="defer")
        app.add_js_file(f"{FOLDER}/{pagename}.js", loading_method="defer")


def _write(app, exception) -> None:
    if exception is not None or app.builder.format != "html":
        return
    out = Path(app.outdir)
    articles = {}
    for page in sorted(app.env.all_docs):
        whole = (out / f"{page}.html").read_text(encoding="utf-8")
        article = whole.partition('<article class="bd-article">')[2]
        articles[page] = article.partition("</article>")[0]
    for page, script in scripts(articles).items():
        path = out / "_static" / FOLDER / f"{page}.js"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(script, encoding="utf-8")


def setup(app) -> dict[str, object]:
    """Register with Sphinx: before MathJax looks for formulas, before pages are corrected."""
    app.connect("html-page-context", _load, priority=450)
    app.connect("build-finished", _write, priority=400)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}

"""The compiled pages, read as files."""

from __future__ import annotations

import json
import re
import runpy
import sys
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
import yaml
from bs4 import BeautifulSoup

from companion.book import figures, sources
from companion.study import registry, stored
from companion.study.exhibits import find_exhibit
from companion.study.records import FOLDER

ROOT = registry.project_root()


def test_the_build_has_no_warning(book) -> None:
    assert book.faultless, book.said
    assert (book.folder / "index.html").is_file()
    log = (book.folder.parent / "book.log").read_text()
    assert not re.search("WARNING|ERROR", log)


def test_sphinx_alone_has_the_book_s_configuration(book, monkeypatch) -> None:
    source = book.folder.parent / "source"
    settings = yaml.safe_load((source / "_config.yml").read_text())["sphinx"]["config"]
    monkeypatch.setattr(sys, "path", [*sys.path])
    config = runpy.run_path(source / "conf.py")
    changed = {name for name in settings if config[name] != settings[name]}
    assert changed == {"extensions", "suppress_warnings"}
    assert not {"jupyter_book", "sphinx_comments"} & {*config["extensions"]}
    assert all(find_spec(name) for name in config["extensions"])
    assert all((source / path).is_file() for path in config["bibtex_bibfiles"])
    assert (source / config["html_logo"]).is_file()


def test_every_picture_has_alternative_text(book) -> None:
    pictures = [(page, img) for page, soup in book.pages.items() for img in soup.find_all("img")]
    assert len(pictures) > len(book.pages)  # the logo alone is on every page
    lacking = [
        f"{page}: {img.get('src')}" for page, img in pictures if not (img.get("alt") or "").strip()
    ]
    assert not lacking, "\n".join(lacking)


def test_every_picture_of_a_notebook_is_described_in_words_of_its_own(book) -> None:
    """Alternative text that repeats a file name or the word figure says nothing."""
    thin = []
    for page, soup in book.pages.items():
        if page.startswith("notebooks/"):
            for img in soup.select("article img"):
                words = img["alt"].split()
                if len(words) < 6 or "/" in img["alt"]:
                    thin.append(f"{page}: {img['alt']!r}")
    assert not thin, "\n".join(thin)


def test_no_formula_or_role_is_left_as_it_was_typed(book) -> None:
    """A display formula within a paragraph, say, shows its dollars."""
    raw = []
    for page, soup in book.pages.items():
        if not page.startswith(("book/", "notebooks/")) or page.startswith("book/api/"):
            continue
        for text in soup.select_one("article.bd-article").find_all(string=_TYPED):
            if text.find_parent(["pre", "code", "script", "style"]) is None:
                if text.find_parent(class_="math") is None:
                    raw.append(f"{page}: {text.strip()[:80]}")
    assert not raw, "\n".join(raw)


_TYPED = re.compile(r"\\[a-zA-Z]{2,}|\$\$|\{(?:ref|doc|term|eq|prf:ref)\}`")


def test_a_statement_of_a_paper_has_the_papers_number_and_no_other(book) -> None:
    page = book.pages["book/papers/biswas2024.html"]
    title = page.select_one("#prf-biswas2024-def7 .admonition-title").get_text()
    assert title.startswith("Paper D, Definition 7 (")
    own, far = (
        {
            a.get_text()
            for a in book.pages[f"book/{name}.html"].select('a.reference[href$="biswas2024-def7"]')
        }
        for name in ("papers/biswas2024", "glossary")
    )
    assert far == {"Paper D, Definition 7"} and own <= {"Definition 7"}


def _links(book):
    for page, soup in book.pages.items():
        for tag, attribute in (("a", "href"), ("img", "src"), ("link", "href"), ("script", "src")):
            for element in soup.find_all(tag):
                if element.get(attribute):
                    yield page, element, element[attribute]


def test_internal_links_and_anchors_resolve(book) -> None:
    ids = {
        page: {e["id"] for e in soup.find_all(id=True)}
        | {e["name"] for e in soup.select("a[name]")}
        for page, soup in book.pages.items()
    }
    broken = []
    checked = 0
    for page, element, link in _links(book):
        parts = urlsplit(link)
        if parts.scheme or parts.netloc or "headerlink" in element.get("class", ()):
            continue
        checked += 1
        path = (book.folder / page).parent / unquote(parts.path) if parts.path else None
        target = path.resolve() if path else (book.folder / page)
        if not target.exists():
            broken.append(f"{page}: {link}")
            continue
        name = target.relative_to(book.folder.resolve()).as_posix() if path else page
        fragment = unquote(parts.fragment)
        if fragment and name in ids and fragment not in ids[name]:
            broken.append(f"{page}: {link}")
    assert checked > 1000
    assert not broken, "\n".join(broken)


def test_links_are_counted(book) -> None:
    """Every page of the book leads on; ``-s`` prints how many links of each kind each has."""
    inside, outside = {}, {}
    for page, soup in book.pages.items():
        if (article := soup.find("article")) and not page.startswith("_modules/"):
            links = [a["href"] for a in article.select("a[href]:not(.headerlink)")]
            outside[page] = [link for link in links if urlsplit(link).scheme in ("http", "https")]
            inside[page] = [link for link in links if not urlsplit(link).scheme]
            print(f"{page:60} {len(inside[page]):5} inside {len(outside[page]):5} outside")
    addresses = {link.partition("#")[0] for links in outside.values() for link in links}
    print(f"in all {sum(map(len, inside.values()))} inside, to {len(addresses)} addresses outside")
    prose = {p: links for p, links in inside.items() if p.startswith(("book/", "notebooks/"))}
    assert len(prose) > 60 and len(addresses) > 100
    assert [page for page, links in prose.items() if not links] == []


def test_no_page_loads_anything_from_elsewhere(book) -> None:
    """Links may lead outside; pictures, styles and scripts may not."""
    foreign = [
        f"{page}: {link}"
        for page, element, link in _links(book)
        if element.name != "a"
        and element.get("rel") not in (["canonical"], ["license"])
        and (urlsplit(link).netloc or urlsplit(link).scheme not in ("", "data"))
    ]
    assert not foreign, "\n".join(foreign)


def test_every_exhibit_and_erratum_has_its_anchor_once(book) -> None:
    """Sphinx turns ``exhibit-mean_to_extreme-fig2`` into an id with hyphens."""
    found: dict[str, list[str]] = {}
    for page, soup in book.pages.items():
        for element in soup.select("[id^=exhibit-], [id^=erratum-], [id^=claim-]"):
            found.setdefault(element["id"], []).append(page)
    wanted = {_html_id(e.anchor) for e in registry.exhibits().values()}
    wanted |= {_html_id(f"erratum-{i}") for i in registry.errata()}
    wanted |= {_html_id(f"claim-{i}") for i in registry.claims()}
    assert wanted - found.keys() == set()
    assert {i: p for i, p in found.items() if len(p) > 1} == {}


def _html_id(label: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", label.lower()).strip("-")


def test_exhibits_stand_on_their_notebooks_page(book) -> None:
    for exhibit_id, result in stored.read(ROOT).results.items():
        page = book.pages[result.notebook.replace(".ipynb", ".html")]
        anchor = _html_id(registry.exhibit(exhibit_id).anchor)
        assert page.find(id=anchor) is not None, exhibit_id
        assert f"companion run {exhibit_id} --profile" in " ".join(page.get_text().split())


def test_exhibits_lead_to_their_papers(book) -> None:
    """The heading names the paper's figure and links to the paper."""
    for exhibit_id, result in stored.read(ROOT).results.items():
        row = registry.exhibit(exhibit_id)
        where = sources.address(row.paper_key)
        assert bool(where) == (row.paper_key != "beyond")
        if where:
            page = book.pages[result.notebook.replace(".ipynb", ".html")]
            place = page.find(id=_html_id(row.anchor))
            # where a heading has several labels, all but one are spans in it
            link = (place.parent if place.name == "span" else place).find("a", href=where)
            assert link is not None, exhibit_id
            assert link.get_text().startswith(f"Paper {sources.letter(row.paper_key)}, ")


def test_every_exhibit_can_be_taken_along(book) -> None:
    """Figure as vectors where its page can draw it, every table, and a sentence to cite it."""
    for exhibit_id, result in stored.read(ROOT).results.items():
        page = book.pages[result.notebook.replace(".ipynb", ".html")]
        stem = _html_id(exhibit_id)
        links = {
            a["href"].rpartition("/")[2]: (book.folder / page_of(result) / a["href"]).resolve()
            for a in page.select("a.download[href]")
        }
        folder = ROOT / FOLDER / exhibit_id
        for table in folder.glob("*.csv"):
            assert links[f"{stem}-{table.name}"].read_bytes() == table.read_bytes()
        drawn = figures.Wanted(exhibit_id, folder).can_be_drawn
        for ending in figures.FORMATS if drawn else ():
            assert links[f"{stem}.{ending}"].stat().st_size > 1000, exhibit_id
        if find_exhibit(exhibit_id).is_drawn and not drawn:
            assert links[f"{stem}.png"].read_bytes().startswith(b"\x89PNG")
        text = " ".join(page.get_text(" ").split())
        assert f"exhibit {exhibit_id} , computed on" in text, exhibit_id


def page_of(result: stored.StoredResult) -> Path:
    return Path(result.notebook).parent


def test_pages_show_vectors(book) -> None:
    """Letters stay sharp on every screen; a raster where there are photographs or many points."""
    shown = [
        str(img["src"])
        for name, page in book.pages.items()
        if name.startswith("notebooks/")
        for img in page.select("article figure img")
    ]
    assert sum(src.endswith(".svg") for src in shown) > 0.75 * len(shown)
    largest = max((book.folder / "_images").glob("*.svg"), key=lambda p: p.stat().st_size)
    assert largest.stat().st_size <= figures.LIGHT


def test_every_reference_can_be_clicked(book) -> None:
    entries = book.pages["book/references.html"].select(".citation")
    assert len(entries) > 80
    assert [e.get_text()[:60] for e in entries if e.select_one("a.external") is None] == []


def test_previews_are_of_this_book_only(book) -> None:
    scripts = list((book.folder / "_static" / "previews").rglob("*.js"))
    assert len(scripts) >= len([p for p in (ROOT / "notebooks").rglob("*.ipynb")])
    for script in scripts:
        shown = BeautifulSoup(script.read_text(), "html.parser")
        assert not [i for i in shown.find_all("img") if "://" in i.get("src", "")], script
    assert not [p for p in book.pages.values() if p.find("script", src=re.compile("unpkg"))]


def test_names_in_an_exhibits_source_lead_to_where_they_are_described(book) -> None:
    """Whatever a folded ``measure`` takes from a room of the library has its link."""
    sources = [
        fold.select_one(".highlight")
        for page, soup in book.pages.items()
        if page.startswith("notebooks/")
        for fold in soup.select(".exhibit-source")
    ]
    assert len(sources) > 150
    for code in sources:
        text = code.get_text()
        rooms = re.findall(r"from reconrisk import (.+)", text)
        names = [room.strip() for line in rooms for room in line.split(",") if room.islower()]
        used = {found for room in names for found in re.findall(rf"\b{room}\.\w+", text)}
        assert used <= {a.get_text() for a in code.select("a.name")}, text[:200]


@pytest.mark.parametrize("name", ["exhibits", "claims"])
def test_ledgers_list_everything(book, name: str) -> None:
    text = book.pages[f"book/generated/{name}.html"].get_text(" ")
    if name == "claims":
        assert [c for c in registry.claims() if c not in text] == []
    else:
        places = {e.place for e in registry.exhibits().values() if e.computable}
        whole = {registry.exhibit(registry.parent_of(i)).place for i in registry.exhibits()}
        assert [p for p in places & whole if p not in text] == []


def test_verdicts_on_the_pages_are_the_stored_ones(book) -> None:
    """Counts on the index page against a count made here from the notebooks alone."""
    results = stored.read(ROOT).results
    targets = stored.verdicts_by_target((r.notebook, r.verdicts) for r in results.values())
    whole = [
        t for t in targets.values()
        if t.kind not in ("claim", "erratum") and registry.parent_of(t.id) == t.id
    ]  # fmt: skip
    done = sum(t.status != "pending" for t in whole)
    text = " ".join(book.pages["book/generated/exhibits.html"].get_text(" ").split())
    assert f"{done} of {len(whole)} are built, {len(whole) - done} are pending." in text


def test_no_verdict_is_typed_into_the_prose() -> None:
    """Badges come from computed results only; the reading guide alone explains the words."""
    for path in (ROOT / "book").rglob("*.md"):
        if "generated" in path.parts or path.name in ("read.md",):
            continue
        assert 'class="verdict' not in path.read_text(), path


def test_search_index_is_filled(book) -> None:
    text = (book.folder / "searchindex.js").read_text()
    index = json.loads(text.removeprefix("Search.setIndex(").rstrip().rstrip(";").removesuffix(")"))
    for path in (ROOT / "book").rglob("*.md"):
        if not path.name.startswith("_"):
            assert path.relative_to(ROOT).with_suffix("").as_posix() in index["docnames"]
    assert {"reconstruct", "gradient", "nois"} <= set(index["terms"])


def test_download_gives_the_stored_notebook(book) -> None:
    for path in stored.notebooks(ROOT):
        name = path.relative_to(ROOT).as_posix()
        assert (book.folder / "_sources" / name).read_bytes() == path.read_bytes()
        page = book.pages[name.replace(".ipynb", ".html")]
        assert page.select(f'a[href$="_sources/{name}"]')


def test_launch_buttons_lead_to_the_notebook(book) -> None:
    page = book.pages[stored.notebooks(ROOT)[0].relative_to(ROOT).with_suffix(".html").as_posix()]
    links = [a["href"] for a in page.select("a[href]")]
    name = stored.notebooks(ROOT)[0].relative_to(ROOT).as_posix()
    for hub in ("mybinder.org", "colab.research.google.com"):
        assert [link for link in links if hub in link and name in unquote(link)], hub
    assert not [link for link in links if "example.org" in link or "git-pull" in link]


_HEAD = ("og:title", "og:site_name", "og:description", "citation_title", "citation_author")


def test_pages_say_how_to_cite_and_to_preview_them(book) -> None:
    for name, page in book.pages.items():
        if name.startswith(("book/", "notebooks/")):
            tags = page.select("meta[content]")
            said = {m.get("name") or m.get("property"): m["content"] for m in tags}
            assert all(said.get(tag) for tag in _HEAD), name


def test_no_id_repeats_on_a_page(book) -> None:
    for name, page in book.pages.items():
        if name.startswith(("book/", "notebooks/")):
            ids = [e["id"] for e in page.select("article [id]")]
            assert sorted(ids) == sorted(set(ids)), name


def test_mathjax_is_the_small_part(book) -> None:
    files = [p for p in (book.folder / "_static" / "mathjax").rglob("*") if p.is_file()]
    assert (book.folder / "_static" / "mathjax" / "tex-mml-chtml.js").is_file()
    assert sum(p.stat().st_size for p in files) < 3e6

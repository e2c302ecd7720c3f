"""Sphinx extension: three changes to the pages of the book.

1. A labelled equation of a paper, ``eq-<paper>-<n>``, is numbered by the paper: the letter
   of the paper and the number printed there, so that ``(A 23)`` is equation 23 of paper A.
   Other labelled equations count from 1 on each page.
2. Accessibility faults of the theme's HTML are corrected on the finished pages, because the
   theme has no setting for them; so is its loading of every small picture at once, and a line
   that breaks between a formula and its comma.
3. A statement of a paper is called by the paper's number, in its title and in links to it, and
   has no second number of the book's.

Every page's head says besides how it is cited and previewed, and a book with an address has a
sitemap.
"""

import re
import textwrap
from collections.abc import Container, Mapping, Sequence
from html import escape, unescape
from pathlib import Path
from urllib.parse import urljoin

from docutils import nodes

from companion.book.sources import letter

_LABEL = re.compile(r"eq-(?P<paper>[a-z_0-9]+)-(?P<number>[0-9A-Za-z.]+)$")


def paper_number(label: str) -> str | None:
    """Return the number to show for an equation's label, None if no paper printed it."""
    match = _LABEL.match(label)
    mark = letter(match["paper"]) if match else ""
    return f"{mark}\N{NO-BREAK SPACE}{match['number']}" if match and mark else None


def _number_equations(app, doctree) -> None:
    """Number a paper's equations as printed there, and all others from 1 on each page."""
    equations = app.env.get_domain("math").equations
    ours = 0
    for node in doctree.findall(nodes.math_block):
        label = node.get("label")
        if not label or node.get("number") is None:
            continue
        number = paper_number(label)
        if number is None:
            ours += 1
            number = str(ours)
        node["number"] = number
        equations[label] = (app.env.docname, number)


CORRECTIONS = [
    # WCAG 2.5.3: the visible text of a button must be part of its accessible name. The search
    # button shows "Search Ctrl+K" and is labelled "Search"; its text suffices as a name.
    (
        re.compile(r'(<button class="[^"]*search-button-field[^"]*"[^>]*?) aria-label="Search"'),
        r"\1",
    ),
    # The theme button's three icons have titles that are not part of its label.
    (
        re.compile(r'<i class="theme-switch ([^"]*)" data-mode="(\w+)"\s+title="[^"]*">'),
        r'<i class="theme-switch \1" data-mode="\2" aria-hidden="true">',
    ),
    # WCAG 4.1.2: the switch that opens a branch of the contents has an icon and no name.
    (
        re.compile(r'<summary>(<span class="toctree-toggle")'),
        r'<summary aria-label="Show or hide the pages below">\1',
    ),
    # The summary of a folded cell shows "Show code cell source" and has another label.
    (re.compile(r'<summary aria-label="Toggle hidden content">'), "<summary>"),
    # The children of a list must be list items; docutils gives citations a deprecated role.
    (
        re.compile(r'(<div class="citation" id="[^"]*") role="doc-biblioentry"'),
        r'\1 role="listitem"',
    ),
    # On a phone a wide figure scrolls in its own box, which the keyboard must reach.
    (re.compile(r'(<figure class="[^"]*" id="(?:fig-|id\d)[^"]*")>'), r'\1 tabindex="0">'),
    # No setting either: a page loads the pictures that come into sight.
    (re.compile(r'<img (?![^>]*(?:loading=|class="logo))'), '<img loading="lazy" '),
    # Every proof and every statement has the same id for its inside.
    (re.compile(r' id="proof-content"'), ""),
    # A browser may break a line on either side of a formula, even before a comma.
    (
        re.compile(r'([(\[“]?<span class="math [^"]*">\\\([^<]*</span>[),.;:!?’”\]]+)'),
        r'<span class="unbroken">\1</span>',
    ),
    # The sidebar's logo and search are in no landmark.
    (
        re.compile(r'<div id="pst-primary-sidebar" class="bd-sidebar-primary bd-sidebar'),
        r'<div id="pst-primary-sidebar" role="complementary" aria-label="Book" '
        r'class="bd-sidebar-primary bd-sidebar',
    ),
]


# The list of modules with source code has lists as direct children.
_MODULES = re.compile(
    r"(?<=<h1>All modules for which code is available</h1>)\s*<ul>.*</ul>(?=\s*</article>)", re.S
)


def _flat_list(match: re.Match[str]) -> str:
    return "<ul>" + re.sub(r"</?ul>", "", match[0]) + "</ul>"


def corrected(html: str) -> str:
    """Return a page's HTML without the theme's known accessibility faults."""
    for pattern, replacement in CORRECTIONS:
        html = pattern.sub(replacement, html)
    return _MODULES.sub(_flat_list, html)


_BACK = re.compile(r'(<a class="viewcode-back" href="[^"#]*#)([\w.]+)\.(\w+)"')


def back_links(html: str, module: str, described: Container[str]) -> str:
    """Return a module's shown source whose links back lead to names that are described.

    Sphinx remembers one page for a module. Where names of a module are described in two places,
    as its own and as a package's, links back for the one go to the other.
    """

    def corrected_link(match: re.Match[str]) -> str:
        own = f"{module}.{match[3]}"
        known = f"{match[2]}.{match[3]}" in described
        return match[0] if known or own not in described else f'{match[1]}{own}"'

    return _BACK.sub(corrected_link, html)


_KIND = "Definition|Proposition|Theorem|Lemma|Corollary|Remark|Algorithm"
_TITLE = re.compile(
    r'(<div class="proof [^"]*" id="(prf-[^"]+)">\s*<p class="admonition-title">)'
    rf'<span class="caption-number">([^<]*?) *</span> \((Paper [A-E]), ((?:{_KIND}) [^:<)]+): '
)
_REFERENCE = re.compile(
    r'(<a class="reference internal" href="([^"#]*)#(prf-[^"]+)">)([^<]*)(?=</a>)'
)


def printed_names(html: str) -> dict[tuple[str, str], list[str]]:
    """Return the paper and the printed name of statements, by label and the book's own number."""
    return {(label, ours): names for _, label, ours, *names in _TITLE.findall(html)}


def named_as_printed(html: str, names: Mapping[tuple[str, str], Sequence[str]]) -> str:
    """Return a page whose statements, and links to statements, have the papers' numbers."""

    def called(match: re.Match[str]) -> str:
        link, page, *numbered = match.groups()
        if tuple(numbered) not in names:  # it has words of its own, or no number in print
            return match[0]
        paper, name = names[tuple(numbered)]
        return f"{link}{paper}, {name}" if page else f"{link}{name}"

    titled = _TITLE.sub(r'\1<span class="caption-number">\4, \5</span> (', html)
    return _REFERENCE.sub(called, titled)


#: one icon in the theme's script: its name, size, other names, code and outline
_DRAWN = re.compile(
    r'(?:"([a-z0-9-]+)"|\b([a-z0-9]+)):\[\d+,\d+,\[([^\]]*)\],"[0-9a-f]+",'
    r'(?:"[^"]*"|\[[^\]]*\])\],?'
)
_ICON = re.compile(r"\bfa-([a-z0-9-]+)")


def with_icons(script: str, used: Container[str]) -> str:
    """Return the script that draws icons with those that are used: a few of two thousand."""

    def kept(match: re.Match[str]) -> str:
        names = [match[1] or match[2], *re.findall(r'"([^"]+)"', match[3])]
        return match[0] if any(name in used for name in names) else ""

    return _DRAWN.sub(kept, script)


def _keep_used_icons(out: Path) -> None:
    """Leave out of the theme's largest script the icons that no page and no script names."""
    drawing = out / "_static" / "scripts" / "fontawesome.js"
    scripts = [path for path in (out / "_static").rglob("*.js") if path != drawing]
    used = {
        icon
        for path in (*out.rglob("*.html"), *scripts)
        for icon in _ICON.findall(path.read_text(encoding="utf-8"))
    }
    if drawing.is_file():
        text = drawing.read_text(encoding="utf-8")
        drawing.write_text(with_icons(text, used), encoding="utf-8")


def _correct_pages(app, exception) -> None:
    """Rewrite every built page in place once the build has succeeded."""
    if exception is not None or app.builder.format != "html":
        return
    described = app.env.get_domain("py").objects
    out = Path(app.outdir)
    names: dict[tuple[str, str], list[str]] = {}
    for page in out.glob("book/papers/*.html"):
        names |= printed_names(page.read_text(encoding="utf-8"))
    for page in out.rglob("*.html"):
        if "_static" in page.parts:
            continue
        before = page.read_text(encoding="utf-8")
        after = named_as_printed(corrected(before), names)
        where = page.relative_to(out).with_suffix("").parts
        if where[0] == "_modules":
            after = back_links(after, ".".join(where[1:]), described)
        if after != before:
            page.write_text(after, encoding="utf-8")
    _keep_used_icons(out)


def _let_go_of_the_environment(app, doctree) -> None:
    """Tie every node to its page.

    Nodes from ``eval-rst`` blocks belong to a document of their own whose settings hold the whole
    build environment, which would be stored with each page and read again with it: megabytes.
    """
    for node in doctree.findall():
        node.document = doctree


def _write_in_parallel(app, env) -> None:
    """Let processes share the writing of pages.

    Jupyter Book asks Sphinx for one process, and some of its extensions cannot read with more.
    """
    app.parallel = app.config.writers + 1  # besides this one, which resolves their references


#: letters of a page's description
_DESCRIBED = 200


def _describe(app, pagename, templatename, context, doctree) -> None:
    """Add what search engines, reference managers and previews read to a page's head."""
    if doctree is None:
        return
    first = next(iter(doctree.findall(nodes.paragraph)), None)
    words = " ".join((first.astext() if first is not None else "").split())
    title = " ".join(re.sub(r"<[^>]*>", "", context.get("title", "")).split())
    said = {
        "property": {
            "og:title": title,
            "og:type": "article",
            "og:site_name": app.config.project,
            "og:description": textwrap.shorten(words, _DESCRIBED, placeholder=" ...") or title,
        },
        "name": {
            "citation_title": f"{title} ({app.config.project})",
            "citation_author": app.config.author,
            "citation_publication_date": app.config.copyright,
        },
    }
    if app.config.html_baseurl:
        said["property"]["og:url"] = urljoin(app.config.html_baseurl, f"{pagename}.html")
    context["metatags"] = context.get("metatags", "") + "".join(
        f'\n<meta {kind}="{tag}" content="{escape(unescape(content))}">'
        for kind, tags in said.items()
        for tag, content in tags.items()
    )


def _write_sitemap(app, exception) -> None:
    """Write the addresses of all pages, if the book has one."""
    if exception is None and app.config.html_baseurl and app.builder.format == "html":
        pages = (urljoin(app.config.html_baseurl, f"{p}.html") for p in sorted(app.env.found_docs))
        listed = "".join(f"<url><loc>{escape(page)}</loc></url>" for page in pages)
        schema = "http://www.sitemaps.org/schemas/sitemap/0.9"
        text = f'<?xml version="1.0" encoding="UTF-8"?><urlset xmlns="{schema}">{listed}</urlset>'
        (Path(app.outdir) / "sitemap.xml").write_text(text, encoding="utf-8")


def setup(app) -> dict[str, object]:
    """Register them with Sphinx; ``writers`` is the number of processes that write pages."""
    app.add_config_value("writers", 0, "")
    app.connect("env-updated", _write_in_parallel)
    app.connect("doctree-read", _number_equations)
    app.connect("doctree-read", _let_go_of_the_environment)
    app.connect("html-page-context", _describe)
    app.connect("build-finished", _correct_pages)
    app.connect("build-finished", _write_sitemap)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}

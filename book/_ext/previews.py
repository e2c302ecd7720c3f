"""Sphinx extension: what sphinx-tippy shows when a reader points at a link within the book.

sphinx-tippy collects the HTML behind every link when the book is built and writes it into a script
of each page. It would load the code that shows it from elsewhere; ``_static/previews.js`` stands in
for that, upon the theme's own Bootstrap, so that nothing is asked of a network. Two kinds of
targets get more than the paragraph that has their label: an exhibit its picture, and a claim its
row of the ledger.
"""

import re

import sphinx_tippy
from bs4 import BeautifulSoup, Tag


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


def richer(body: BeautifulSoup) -> dict[str, str]:
    """Return the previews of a page's exhibits and claims, by their targets."""
    return {
        label["id"]: rule(label)
        for prefix, rule in PREVIEWS.items()
        for label in body.find_all(id=re.compile(f"^{prefix}"))
    }


def setup(app) -> dict[str, object]:
    """Have sphinx-tippy collect them from the page that it has parsed anyway."""
    collected = sphinx_tippy.create_id_to_tip_html
    sphinx_tippy.create_id_to_tip_html = lambda config, body: collected(config, body) | richer(body)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": False}

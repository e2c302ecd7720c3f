"""Where the papers can be read: their letters in the book, and addresses from its bibliography."""

import functools
from pathlib import Path

import yaml

from companion.study import registry

__all__ = ["address", "bibtex", "letter", "linked_place"]

#: fields of an entry that lead to the paper, the published version first, with their prefixes
_PREFIXES = {"url": "", "doi": "https://doi.org/", "eprint": "https://arxiv.org/abs/"}


def letter(paper_key: str) -> str:
    """Return a paper's letter in the book (``"A"``); empty for our own results.

    Examples
    --------
    >>> letter("mean_to_extreme"), letter("beyond")
    ('A', '')
    """
    papers = [key for key in registry.PAPERS if key != "beyond"]
    return chr(ord("A") + papers.index(paper_key)) if paper_key in papers else ""


def address(paper_key: str, bibliography: Path | None = None) -> str:
    """Return the address of a paper, from the entry of its key in ``book/references.bib``.

    The published version comes before the preprint: the entry's ``url``, else its ``doi``, else its
    ``eprint`` on arXiv. Empty if there is no such entry, as for our own results.

    Parameters
    ----------
    paper_key : str
        The paper's key, which is also that of its entry.
    bibliography : Path, optional
        Another file.

    Examples
    --------
    >>> address("biswas2024")
    'https://arxiv.org/abs/2502.04045'
    """
    path = bibliography or registry.project_root() / "book" / "references.bib"
    return _addresses(path).get(paper_key, "")


def bibtex(citation: Path, note: str = "") -> str:
    """Return the BibTeX entry of this project, from its ``CITATION.cff``.

    Parameters
    ----------
    citation : Path
        The file.
    note : str
        What is cited in particular, a finding for instance.

    Raises
    ------
    KeyError
        If the file lacks title, authors, version, date or address.

    Examples
    --------
    >>> print(bibtex(registry.project_root() / "CITATION.cff").splitlines()[0])
    @software{reconstruction_risk,
    """
    cited = yaml.safe_load(citation.read_text(encoding="utf-8"))
    authors = (
        # a group's name is one name: braces keep BibTeX from cutting it
        f"{{{one['name']}}}" if "name" in one else f"{one['family-names']}, {one['given-names']}"
        for one in cited["authors"]
    )
    fields = {
        "title": f"{{{cited['title']}}}",
        "author": " and ".join(authors),
        "year": str(cited["date-released"])[:4],
        "version": str(cited["version"]),
        "url": cited["repository-code"],
    } | ({"note": note} if note else {})
    lines = [f"  {name:<7} = {{{value}}}," for name, value in fields.items()]
    return "\n".join(["@software{reconstruction_risk,", *lines, "}"])


@functools.cache
def _addresses(bibliography: Path) -> dict[str, str]:
    """Addresses by key; none if there is no such file."""
    from pybtex.database import parse_file

    if not bibliography.is_file():
        return {}
    found = {}
    for key, entry in parse_file(str(bibliography)).entries.items():
        given = [
            prefix + str(entry.fields[n]) for n, prefix in _PREFIXES.items() if n in entry.fields
        ]
        found[key] = given[0] if given else ""
    return found


def linked_place(paper_key: str, place: str) -> str:
    """Return a place in a paper as a link to the paper: ``[Paper A, Figure 2](...)``.

    Examples
    --------
    >>> linked_place("biswas2024", "Table V")
    '[Paper D, Table V](https://arxiv.org/abs/2502.04045)'
    """
    where, mark = address(paper_key), letter(paper_key)
    return f"[{f'Paper {mark}, ' if mark else ''}{place}]({where})" if where else ""

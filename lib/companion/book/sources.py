"""Where the papers can be read: their letters in the book, and addresses from its bibliography."""

import functools
from pathlib import Path

from companion.study import registry

__all__ = ["address", "letter", "linked_place"]

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

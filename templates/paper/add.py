"""Add the template's paper to a checkout.

Five files are new: printed numbers, exhibit, its folder's empty ``__init__.py``, page, notebook.
Four change: two CSV files gain a row, the registry the paper's title, the table of contents its
pages.

Usage: python templates/paper/add.py CHECKOUT
"""

from __future__ import annotations

import sys
from pathlib import Path

KEY = "example2026"
HERE = Path(__file__).parent

#: the template's file -> its place in a checkout
FILES = {
    "data/table1.csv": f"data/paper/{KEY}/table1.csv",
    "table1.py": f"lib/companion/papers/{KEY}/table1.py",
    "page.md": f"book/papers/{KEY}.md",
    "notebook.py": f"notebooks/{KEY}/01_response.py",
}

#: rows that are appended
ROWS = {
    "data/exhibits.csv": "data/paper/exhibits.csv",
    "data/claims.csv": "data/paper/claims.csv",
}

#: file -> the line that must stand in it once, and what is put before that line
LINES = {
    "lib/companion/study/registry.py": (
        '    "beyond": "This companion",',
        f'    "{KEY}": "The example",\n',
    ),
    "_toc.yml": (
        "  - caption: Our own results",
        "  - caption: The example\n    numbered: 1\n    chapters:\n"
        f"      - file: book/papers/{KEY}\n      - file: notebooks/{KEY}/01_response\n",
    ),
}


def add(checkout: Path) -> list[str]:
    """Copy the files, append the rows, add the lines; return the files touched.

    Raises
    ------
    ValueError
        If the paper is there already or a line has no place.
    """
    if (checkout / FILES["page.md"]).exists():
        raise ValueError(f"{KEY} is in {checkout} already")
    texts = {f"lib/companion/papers/{KEY}/__init__.py": ""}
    for name, (line, before) in LINES.items():
        text = (checkout / name).read_text(encoding="utf-8")
        if text.count(f"{line}\n") != 1:
            raise ValueError(f"{name} must have the line {line!r} once")
        texts[name] = text.replace(f"{line}\n", f"{before}{line}\n")
    for name, place in FILES.items():
        texts[place] = (HERE / name).read_text(encoding="utf-8")
    for name, place in ROWS.items():
        rows = (checkout / place).read_text(encoding="utf-8")
        texts[place] = rows + (HERE / name).read_text(encoding="utf-8")
    for place, text in texts.items():
        (checkout / place).parent.mkdir(parents=True, exist_ok=True)
        (checkout / place).write_text(text, encoding="utf-8")
    return sorted(texts)


if __name__ == "__main__":
    print("\n".join(add(Path(sys.argv[1]))))

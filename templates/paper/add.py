"""Add the template's paper to a checkout: the files it brings, and one line in each list.

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
    "profile.py": f"lib/reconrisk/study/profiles/{KEY}.py",
    "experiment.py": f"lib/reconrisk/study/experiments/{KEY}.py",
    "figure.py": f"lib/reconrisk/figures/{KEY}.py",
    "page.md": f"book/papers/{KEY}.md",
    "notebook.py": f"notebooks/{KEY}/01_response.py",
}

#: rows that are appended
ROWS = {
    "data/exhibits.csv": "data/paper/exhibits.csv",
    "data/claims.csv": "data/paper/claims.csv",
}

#: file -> (line, what is put before it), once each
LINES = {
    "lib/reconrisk/study/registry.py": [
        ('    "companion": "This companion",', f'    "{KEY}": "The example",\n'),
    ],
    "lib/reconrisk/study/computations.py": [('    "companion": (', f'    "{KEY}": ("{KEY}",),\n')],
    "lib/reconrisk/figures/drawings.py": [('    "companion": (', f'    "{KEY}": ("{KEY}",),\n')],
    "lib/reconrisk/study/profiles/__init__.py": [
        ("    hayes2023_bounds,", f"    {KEY},\n"),
        ("    **hayes2023_bounds.PARAMETERS,", f"    **{KEY}.PARAMETERS,\n"),
    ],
    "_toc.yml": [
        (
            "  - caption: Beyond the papers",
            "  - caption: The example\n    numbered: 1\n    chapters:\n"
            f"      - file: book/papers/{KEY}\n      - file: notebooks/{KEY}/01_response\n",
        ),
    ],
}


def add(checkout: Path) -> None:
    """Copy the files, append the rows, and put a line into each list.

    Raises
    ------
    ValueError
        If the paper is there already or a list has no place for it.
    """
    if (checkout / FILES["page.md"]).exists():
        raise ValueError(f"{KEY} is in {checkout} already")
    texts = {name: (checkout / name).read_text(encoding="utf-8") for name in LINES}
    for name, lines in LINES.items():
        for line, before in lines:
            if texts[name].count(f"{line}\n") != 1:
                raise ValueError(f"{name} must have the line {line!r} once")
            texts[name] = texts[name].replace(f"{line}\n", f"{before}{line}\n")
    for name, text in texts.items():
        (checkout / name).write_text(text, encoding="utf-8")
    for name, place in FILES.items():
        (checkout / place).parent.mkdir(parents=True, exist_ok=True)
        (checkout / place).write_text((HERE / name).read_text(encoding="utf-8"), encoding="utf-8")
    for name, place in ROWS.items():
        with (checkout / place).open("a", encoding="utf-8") as stream:
            stream.write((HERE / name).read_text(encoding="utf-8"))


if __name__ == "__main__":
    add(Path(sys.argv[1]))

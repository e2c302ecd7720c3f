"""Where the tests' time goes: by group, file and cell, and what starting costs.

    make test ARGS=--junitxml=_build/tests.xml
    python benchmarks/tests.py _build/tests.xml [--rows 40]

Prints a table and writes it to ``tests.csv`` beside this file. Seconds are a worker's; the first
test that needs a fixture pays for it, so the first of the book's compiles it.
"""

from __future__ import annotations

import argparse
import csv
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree

TABLE = Path(__file__).with_suffix(".csv")
#: what processes import when they start: a sweep's worker, a notebook's kernel, the command line
IMPORTS = ("pandas", "torch", "reconrisk.attacks", "companion.exhibit", "companion.cli")


def read_times(path: Path) -> Counter[tuple[str, str]]:
    """Return seconds by file and test of a report in JUnit's format; files without their folder."""
    taken: Counter[tuple[str, str]] = Counter()
    for case in ElementTree.parse(path).getroot().iter("testcase"):
        # a notebook's cells have its path as their class; other tests have their module's
        place = case.get("classname", "").removeprefix("tests.")
        taken[place, case.get("name", "")] += float(case.get("time", 0))
    return taken


def time_start(*code: str) -> float:
    """Return the median seconds of three processes that do so and end."""
    runs = []
    for _ in range(3):
        start = time.perf_counter()
        subprocess.run([sys.executable, *code], check=True, capture_output=True)
        runs.append(time.perf_counter() - start)
    return sorted(runs)[1]


def time_kernel() -> float:
    """Return the seconds until a notebook's kernel has run an empty cell."""
    import nbformat
    from nbclient import NotebookClient

    cell = nbformat.v4.new_code_cell("pass")
    start = time.perf_counter()
    NotebookClient(nbformat.v4.new_notebook(cells=[cell])).execute()
    return time.perf_counter() - start


def main() -> None:
    """Print and store the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("report", type=Path, help="of pytest --junitxml")
    parser.add_argument("--rows", type=int, default=40, help="files and cells to show (default 40)")
    given = parser.parse_args()
    taken = read_times(given.report)
    files: Counter[str] = Counter()
    cells: Counter[str] = Counter()
    for (place, name), seconds in taken.items():
        files[place] += seconds
        cells[f"{place} {name}"] += seconds
    groups: Counter[str] = Counter()
    for place, seconds in files.items():
        groups[place.replace("/", ".").split(".")[0]] += seconds
    rows = [("all", "all", sum(files.values()))]
    for kind, counts in (("group", groups), ("file", files), ("test", cells)):
        rows += [(kind, name, seconds) for name, seconds in counts.most_common(given.rows)]
    rows += [("import", name, time_start("-c", f"import {name}")) for name in ("sys", *IMPORTS)]
    rows.append(("start", "a notebook's kernel", time_kernel()))
    with TABLE.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(("kind", "name", "seconds"))
        writer.writerows((kind, name, f"{seconds:.2f}") for kind, name, seconds in rows)
    for kind, name, seconds in rows:
        print(f"{kind:8}{seconds:9.2f}  {name}")


if __name__ == "__main__":
    main()

"""Break one method at a time and store which verdict or test notices: ``make mutants``.

``python tests/mutants/run.py [WORDS ...]`` runs the mutants whose names contain the words (all by
default) and writes ``caught.csv``. Each runs in a copy of the library below a temporary folder.
"""

import argparse
import csv
import functools
import itertools
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from mutants.breaks import MUTANTS, Mutant

PROJECT = Path(__file__).resolve().parents[2]
TABLE = Path(__file__).with_name("caught.csv")
COLUMNS = ("mutant", "where", "caught_by")
#: a mutant that sends a loop astray is stopped, and not counted as caught
SECONDS = 900

#: measures exhibits and prints the targets whose verdicts failed
VERDICTS = """
import sys, warnings
from companion.study import Study, find_exhibit
from companion.study.exhibits import judge_tables
warnings.simplefilter("ignore")
for exhibit in sys.argv[1:]:
    file = find_exhibit(exhibit).file
    verdicts = judge_tables(file, file.measure(Study()))
    failed = sorted({v.target for v in verdicts if v.status == "failed"})
    if failed:
        print("CAUGHT", exhibit, *failed)
        break
"""


def broken_copy(mutant: Mutant, folder: Path) -> Path:
    """Copy what tests need, with one break.

    Raises
    ------
    ValueError
        If the code to break is not there exactly once.
    """
    shutil.copytree(PROJECT / "lib", folder / "lib", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "conftest.py", "data", "tests", "notebooks", "templates"):
        (folder / name).symlink_to(PROJECT / name)
    path = folder / "lib" / mutant.file
    text = path.read_text(encoding="utf-8")
    if text.count(mutant.old) != 1:
        raise ValueError(f"{mutant.name}: old must occur once; got {text.count(mutant.old)}")
    path.write_text(text.replace(mutant.old, mutant.new), encoding="utf-8")
    return folder


def caught_by(mutant: Mutant, first: bool = False) -> list[str]:
    """Return what notices a mutant: a verdict, a test, both or neither; or the ``first`` that does.

    The test is tried first, as it takes seconds.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = broken_copy(mutant, Path(name))
        found = itertools.chain(_tests(mutant, folder), _verdicts(mutant, folder))
        return list(itertools.islice(found, 1) if first else found)


def _run(folder: Path, *command: str) -> str:
    environment = os.environ | {
        "PYTHONPATH": str(folder / "lib"),
        "RECONRISK_ROOT": str(folder),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    try:
        done = subprocess.run(
            [sys.executable, *command],
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return ""
    return done.stdout + done.stderr


def _verdicts(mutant: Mutant, folder: Path) -> Iterator[str]:
    if mutant.exhibits:
        output = _run(folder, "-c", VERDICTS, *mutant.exhibits)
        for line in re.findall(r"^CAUGHT (\S+) (.*)$", output, re.MULTILINE):
            yield f"verdicts of {line[0]}: {line[1].replace(' ', ', ')}"
        errors = re.findall(r"^(\w+Error): ", output, re.MULTILINE)
        if "CAUGHT" not in output and errors:
            yield f"{errors[-1]} in {', '.join(mutant.exhibits)}"


def _tests(mutant: Mutant, folder: Path) -> Iterator[str]:
    if mutant.tests:
        files = [f"tests/{name}" for name in mutant.tests]
        output = _run(folder, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *files)
        failed = re.findall(r"^(?:FAILED|ERROR) (\S+)", output, re.MULTILINE)
        yield from (f"test {name.removeprefix('tests/')}" for name in failed[:1])


def read_table() -> dict[str, dict[str, str]]:
    """Return the stored table, by mutant."""
    if not TABLE.is_file():
        return {}
    with TABLE.open(encoding="utf-8", newline="") as file:
        return {row["mutant"]: row for row in csv.DictReader(file)}


def write_table(rows: dict[str, dict[str, str]]) -> None:
    """Store the rows of mutants that there are, in their order."""
    with TABLE.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows[m.name] for m in MUTANTS if m.name in rows)


def main() -> int:
    """Run the mutants asked for; return 1 if one survived."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("words", nargs="*", help="run mutants whose names contain one of these")
    parser.add_argument("--jobs", type=int, default=1, help="mutants at once (default: 1)")
    parser.add_argument("--new", action="store_true", help="only those that the table lacks")
    parser.add_argument("--first", action="store_true", help="stop at the first that notices")
    given = parser.parse_args()
    try_one = functools.partial(caught_by, first=given.first)
    rows = read_table()
    chosen = [
        m
        for m in MUTANTS
        if (not given.words or any(word in m.name for word in given.words))
        and not (given.new and rows.get(m.name, {}).get("caught_by"))
    ]
    survivors = []
    with ThreadPoolExecutor(given.jobs) as pool:
        start = time.monotonic()
        results = zip(chosen, pool.map(try_one, chosen), strict=True)
        for number, (mutant, found) in enumerate(results, 1):
            rows[mutant.name] = {
                "mutant": mutant.name,
                "where": mutant.file,
                "caught_by": "; ".join(found),
            }
            write_table(rows)
            if not found:
                survivors.append(mutant.name)
            seconds = time.monotonic() - start
            print(
                f"[{seconds:5.0f} s] {number}/{len(chosen)} {mutant.name}: "
                f"{'; '.join(found) or 'SURVIVED'}",
                flush=True,
            )
    print(f"{len(chosen) - len(survivors)} of {len(chosen)} caught")
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main())

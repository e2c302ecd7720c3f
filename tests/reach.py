"""What each test file and notebook depends on: ``make test-changed`` runs what a change reaches.

A fingerprint is the hash of every file that can change an outcome: the file itself, the sources of
ours that it imports or names, the data that these read, versions and kernels. The imports are read
from the syntax tree, so what a test finds by a computed name is told by the words with which it
does so; where they leave doubt, the file depends on more. Fingerprints of the files that passed lie
in ``_build``, which is not in git: a fresh clone runs everything.
"""

from __future__ import annotations

import csv
import hashlib
import json
import os
import platform
import re
from collections.abc import Iterable, Iterator, Mapping
from importlib import metadata
from pathlib import Path

__all__ = ["PASSED", "Reach", "read_passed", "write_passed"]

#: fingerprints of what passed, below the project's folder
PASSED = Path("_build") / "passed.json"
#: on which every test depends
_COMMON = ("conftest.py", "pyproject.toml", "constraints.txt", "tests/*.py", "tests/nbval.cfg")
_EXHIBIT = re.compile(r"\b([a-z_]+(?:20\d\d|_extreme)|beyond)/(\w+)")
#: words with which a test finds exhibits by computed names
_ENUMERATES = re.compile(r"registry\.exhibits\(|import_module\(|altered_tables")
#: words with which it runs a command of ours
_COMMANDS = re.compile(r"subprocess|CliRunner|companion\.cli|reconrisk\.cli")
#: compiled from stored outputs: an exhibit's file acts on the book through its notebook alone
_BOOK = (
    "book/**/*",
    "_*.yml",
    "README.md",
    "notebooks/*/*.ipynb",
    "templates/**/*",
    "tests/book/*",
    "tests/tables/**/*",
)


class Reach:
    """The files of a project, each by its contents when first asked for.

    Parameters
    ----------
    root : Path
        The project's folder.
    settings : mapping of str to str
        What else changes outcomes: kernels, options.
    """

    def __init__(self, root: Path, settings: Mapping[str, str]) -> None:
        self._root = root
        self._found: dict[str, list[Path]] = {}
        self._digests: dict[str, bytes] = {}
        versions = sorted({f"{d.name}=={d.version}" for d in metadata.distributions()})
        machine = [platform.python_version(), platform.machine(), os.environ.get("CI", "")]
        self._settings = json.dumps([versions, machine, dict(settings)], sort_keys=True)

    def scopes(self) -> Iterator[str]:
        """Yield notebooks and test files, relative to the root, and ``tests/book`` as a whole."""
        yield from (str(p.relative_to(self._root)) for p in self._files("notebooks/*/*.ipynb"))
        for path in self._files("tests/*/test_*.py"):
            if path.parent.name != "book":
                yield str(path.relative_to(self._root))
        yield "tests/book"

    def fingerprint(self, scope: str) -> str:
        """Return the hash of all that a scope depends on."""
        digest = hashlib.sha256(self._settings.encode())
        for path in sorted(map(str, self._common() | self.files(scope))):
            digest.update(self._digest(path))
        if scope.startswith("notebooks/"):
            digest.update(self._rows(scope.split("/")[1]).encode())
        return digest.hexdigest()

    def files(self, scope: str) -> set[Path]:
        """Return the files that a scope depends on besides those on which all do."""
        path, group = self._root / scope, scope.split("/")[1]
        if scope == "tests/book":
            library = self._all("lib/**/*.py") - self._all("lib/companion/papers/*/*.py")
            return library | self._all(*_BOOK, "data/**/*")
        if scope.startswith("notebooks/"):
            return {path} | self._of_notebook(path.with_suffix(".py"))
        if group not in ("unit", "property"):  # these look at the project as a whole
            return self._all("lib/**/*.py", "tests/**/*", "data/**/*", *_BOOK, ".github/**/*", "*")
        return {path} | self._of_test(path)

    # What is read off a file ----------------------------------------------------------------------

    def _of_notebook(self, source: Path) -> set[Path]:
        """The sources of a notebook and its exhibits, their tables and records."""
        found = {source} | self._imported(source)
        for paper, name in self._exhibits(source):
            found |= self._all(f"tests/tables/{paper}/{name}/*", f"data/recorded/{paper}/{name}/*")
        return found | self._all(f"data/paper/{source.parent.name}/*")

    def _of_test(self, path: Path) -> set[Path]:
        text = path.read_text(encoding="utf-8")
        found = self._imported(path) | self._all(
            f"{path.parent.relative_to(self._root)}/conftest.py"
        )
        if _COMMANDS.search(text):
            papers = self._all("lib/companion/papers/*/*.py")
            found |= self._all("lib/**/*.py") - papers
        if _ENUMERATES.search(text):
            found |= self._all("lib/**/*.py")
        if any("companion" in p.parts for p in found):
            found |= self._all("data/paper/**/*", "data/companion/*", "tests/tables/**/*")
        if "recorded" in text:
            found |= self._all("data/recorded/**/*")
        if re.search(r"notebooks|\"book\"", text):
            found |= self._all(*_BOOK)
        return found

    def _imported(self, path: Path) -> set[Path]:
        """The sources of ours that a file imports, and of the exhibits that it names."""
        from companion.papers import find_families
        from companion.study.sources import files_reached, source

        named: list[str] = []
        others: set[Path] = set()
        for paper, name in self._exhibits(path):
            package, folder = f"companion.papers.{paper}", f"lib/companion/papers/{paper}"
            if source(f"{package}.{name}"):
                named.append(f"{package}.{name}")
            elif families := find_families(str(self._root / folder), name):
                named += [f"{package}.{family.stem}" for family in families]
            else:
                others |= self._all(f"{folder}/*.py")
        found = set(files_reached(path, *named).values()) | others
        return {p for p in found if p.is_relative_to(self._root)}

    def _exhibits(self, path: Path) -> set[tuple[str, str]]:
        return set(_EXHIBIT.findall(path.read_text(encoding="utf-8")))

    def _rows(self, paper: str) -> str:
        """The rows of the shared tables but those that name other papers alone."""
        papers = {p.name for p in self._files("lib/companion/papers/*") if p.is_dir()}
        kept = []
        for path in sorted(self._all("data/paper/*.csv", "data/companion/*.csv")):
            with path.open(encoding="utf-8", newline="") as file:
                for row in csv.reader(file):
                    named = {p for p in papers if any(p in cell for cell in row)}
                    if not named or paper in named or paper == "beyond":
                        kept.append("\t".join(row))
        return "\n".join(kept)

    # The project's files --------------------------------------------------------------------------

    def _files(self, pattern: str) -> list[Path]:
        if pattern not in self._found:
            found = (p for p in sorted(self._root.glob(pattern)) if "__pycache__" not in p.parts)
            self._found[pattern] = list(found)
        return self._found[pattern]

    def _all(self, *patterns: str) -> set[Path]:
        return {p for pattern in patterns for p in self._files(pattern) if p.suffix}

    def _common(self) -> set[Path]:
        return self._all(*_COMMON)

    def _digest(self, path: str) -> bytes:
        """A hash of a file's name within the project and its contents; none of a folder."""
        if path not in self._digests:
            name, data = os.path.relpath(path, self._root), Path(path)
            contents = data.read_bytes() if data.is_file() else b""
            self._digests[path] = hashlib.sha256(name.encode() + b"\0" + contents).digest()
        return self._digests[path]


def read_passed(root: Path) -> dict[str, str]:
    """Return the fingerprints with which scopes passed on this machine; none if none are kept."""
    path = root / PASSED
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}


def write_passed(root: Path, passed: Mapping[str, str], failed: Iterable[str]) -> None:
    """Keep the fingerprints of scopes that passed, and forget those of scopes that failed."""
    kept = {**read_passed(root), **passed}
    for scope in failed:
        kept.pop(scope, None)
    path = root / PASSED
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(kept, indent=0, sort_keys=True) + "\n", encoding="utf-8")

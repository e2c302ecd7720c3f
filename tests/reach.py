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
#: words with which a test finds exhibits by computed names; a literal one has no paper in it
_ENUMERATES = re.compile(r'registry\.exhibits\(|import_module\((?!"\w+"\))|altered_tables')
#: files whose tests have an exhibit's id in brackets, if any, and look at nothing of another
_BY_EXHIBIT = (
    "tests/consistency/test_scales.py",
    "tests/consistency/test_tables.py",
    "tests/recorded/test_points.py",
    "tests/unit/test_falsifiers.py",
)
#: where an exhibit's tables are
_TABLES = ("tests/tables", "data/recorded")
#: what belongs to single exhibits
_OWN = ("lib/companion/papers/*/*.py", "notebooks/*/*.ipynb", *(f"{t}/**/*" for t in _TABLES))
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
        self._rest: dict[str, set[Path]] = {}
        self._own: dict[str, set[Path]] = {}
        self._hashes: dict[str, bytes] = {}
        self._named: dict[Path, set[tuple[str, str]]] = {}
        versions = sorted({f"{d.name}=={d.version}" for d in metadata.distributions()})
        machine = [platform.python_version(), platform.machine(), os.environ.get("CI", "")]
        self._settings = json.dumps([versions, machine, dict(settings)], sort_keys=True)

    def scopes(self) -> Iterator[str]:
        """Yield notebooks and test files, relative to the root, and ``tests/book`` as a whole.

        Of a file that tests one exhibit after the other also ``FILE[EXHIBIT]``.
        """
        yield from (str(p.relative_to(self._root)) for p in self._files("notebooks/*/*.ipynb"))
        for path in self._files("tests/*/test_*.py"):
            if path.parent.name != "book":
                yield str(path.relative_to(self._root))
        yield "tests/book"
        for folder in self._files("tests/tables/*/*"):
            exhibit = folder.relative_to(self._root / "tests/tables")
            yield from (f"{name}[{exhibit}]" for name in _BY_EXHIBIT)

    def fingerprint(self, scope: str) -> str:
        """Return the hash of all that a scope depends on."""
        digest = hashlib.sha256(self._settings.encode())
        if scope.endswith("]"):  # of hundreds of scopes what they share is hashed once
            whole, _, exhibit = scope[:-1].partition("[")
            if whole not in self._hashes:
                self._hashes[whole] = self._hash(self._common() | self._shared(whole))
            digest.update(self._hashes[whole] + self._hash(self._of_exhibit(exhibit)))
            return digest.hexdigest()
        digest.update(self._hash(self._common() | self.files(scope)))
        if scope.startswith("notebooks/"):
            digest.update(self._rows(scope.split("/")[1]).encode())
        return digest.hexdigest()

    def files(self, scope: str) -> set[Path]:
        """Return the files that a scope depends on besides those on which all do."""
        path, group = self._root / scope, scope.split("/")[1]
        if scope.endswith("]"):
            whole, _, exhibit = scope[:-1].partition("[")
            return self._shared(whole) | self._of_exhibit(exhibit)
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

    def _shared(self, scope: str) -> set[Path]:
        """What the tests of a file depend on whatever their exhibit."""
        if scope not in self._rest:
            self._rest[scope] = self.files(scope) - self._all(*_OWN)
        return self._rest[scope]

    def _of_exhibit(self, exhibit: str) -> set[Path]:
        """The sources of an exhibit, the tables that they name, and its notebook."""
        if exhibit not in self._own:
            paper, name = exhibit.split("/")
            found = self._reached(Path(__file__), *self._modules(paper, name))
            named = {(paper, name)}
            for path in found & self._all("lib/companion/papers/*/*.py"):
                named |= self._exhibits(path)
            for one in named:
                found |= self._all(*(f"{folder}/{'/'.join(one)}/*" for folder in _TABLES))
            for path in self._files("notebooks/*/*.py"):
                if (paper, name) in self._exhibits(path):
                    found.add(path.with_suffix(".ipynb"))
            self._own[exhibit] = found
        return self._own[exhibit]

    def _imported(self, path: Path) -> set[Path]:
        """The sources of ours that a file imports, and of the exhibits that it names."""
        named: list[str] = []
        others: set[Path] = set()
        for paper, name in self._exhibits(path):
            modules = self._modules(paper, name)
            named += modules
            if not modules:
                others |= self._all(f"lib/companion/papers/{paper}/*.py")
        return self._reached(path, *named) | others

    def _reached(self, path: Path, *modules: str) -> set[Path]:
        from companion.study.sources import files_reached

        found = files_reached(path, *modules).values()
        return {p for p in found if p.is_relative_to(self._root)}

    def _modules(self, paper: str, name: str) -> list[str]:
        """The module of an exhibit, or of the family that holds it; none if there is none."""
        from companion.papers import find_families
        from companion.study.sources import source

        package, folder = f"companion.papers.{paper}", self._root / "lib/companion/papers" / paper
        if source(f"{package}.{name}"):
            return [f"{package}.{name}"]
        return [f"{package}.{family.stem}" for family in find_families(str(folder), name)]

    def _exhibits(self, path: Path) -> set[tuple[str, str]]:
        if path not in self._named:
            self._named[path] = set(_EXHIBIT.findall(path.read_text(encoding="utf-8")))
        return self._named[path]

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

    def _hash(self, files: Iterable[Path]) -> bytes:
        return hashlib.sha256(b"".join(map(self._digest, sorted(map(str, files))))).digest()

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

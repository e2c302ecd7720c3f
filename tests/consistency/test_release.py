"""Releases: one version, a complete citation, packages that install alone, an archive's deposit."""

from __future__ import annotations

import datetime
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
import yaml
from pybtex.database import parse_file, parse_string
from typer.testing import CliRunner

import reconrisk
from companion.book import sources
from companion.cli.app import app
from companion.cli.release import deposit, set_version
from companion.study import registry
from reconrisk import DPSGD, bounds, privacy

ROOT = registry.project_root()
CITATION = yaml.safe_load((ROOT / "CITATION.cff").read_text())


def test_the_version_stands_in_one_place_and_is_cited() -> None:
    assert str(CITATION["version"]) == reconrisk.__version__
    for folder in (ROOT, ROOT / "lib" / "companion"):
        text = (folder / "pyproject.toml").read_text()
        assert 'dynamic = ["version"]' in text
        assert not re.search(r'^version = "', text, re.M)


def test_the_citation_names_the_papers_as_the_bibliography_does() -> None:
    entries = parse_file(str(ROOT / "book" / "references.bib")).entries
    papers = [key for key in registry.PAPERS if key != "beyond"]
    assert len(CITATION["references"]) == len(papers)
    for key, cited in zip(papers, CITATION["references"], strict=True):
        entry = entries[key]
        assert cited["title"] == re.sub(r"[{}]", "", entry.fields["title"])
        assert str(cited["year"]) == entry.fields["year"]
        assert cited["url"] == sources.address(key)
        names = [str(person.last_names[0]) for person in entry.persons["author"]]
        assert [author["family-names"] for author in cited["authors"]] == names
        assert cited["identifiers"][0]["value"] == f"arXiv:{entry.fields['eprint']}"


def test_the_books_own_entry_is_bibtex() -> None:
    (entry,) = parse_string(sources.bibtex(ROOT / "CITATION.cff", "x"), "bibtex").entries.values()
    assert entry.type == "software"
    assert entry.fields["title"].strip("{}") == CITATION["title"]
    assert entry.fields["version"] == reconrisk.__version__
    assert entry.fields["note"] == "x"
    assert len(entry.persons["author"]) == len(CITATION["authors"])


def test_every_work_of_the_bibliography_has_an_address() -> None:
    entries = parse_file(str(ROOT / "book" / "references.bib")).entries
    assert [k for k, e in entries.items() if not {"doi", "eprint", "url"} & set(e.fields)] == []
    for entry in entries.values():
        assert re.fullmatch(r"10\.\d{4,}/\S+", entry.fields.get("doi", "10.1000/x"))
        assert re.fullmatch(r"\d{4}\.\d{4,5}(v\d+)?", entry.fields.get("eprint", "1234.56789"))
        assert entry.fields.get("url", "https://").startswith("https://")


def test_links_of_the_readme_work_on_an_index() -> None:
    """A page of a package index has no files beside it."""
    links = re.findall(r"\]\(([^)]+)\)", (ROOT / "README.md").read_text())
    assert links
    assert [link for link in links if not link.startswith(("https://", "#"))] == []


# --- a new version ----------------------------------------------------------------------------

RELEASED = ("lib/reconrisk/_version.py", "CITATION.cff", "CHANGELOG.md")


@pytest.fixture()
def checkout(tmp_path: Path) -> Path:
    """The files that a release reads and writes, committed in a repository of their own."""
    for name in RELEASED:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@example.org", "-C", str(tmp_path)]
    for command in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "all"]):
        subprocess.run([*git, *command], check=True)
    return tmp_path


def test_a_new_version_is_written_where_it_stands(checkout: Path) -> None:
    assert set_version(checkout, "3.1.4", datetime.date(2027, 1, 2)) == list(RELEASED)
    assert '__version__ = "3.1.4"' in (checkout / RELEASED[0]).read_text()
    cited = yaml.safe_load((checkout / "CITATION.cff").read_text())
    assert (cited["version"], str(cited["date-released"])) == ("3.1.4", "2027-01-02")
    log = (checkout / "CHANGELOG.md").read_text()
    assert "## Unreleased\n\n## 3.1.4 - 2027-01-02\n" in log
    assert log.count("## Unreleased") == 1


@pytest.mark.parametrize("version", ["", "1", "1.2", "v1.2.3", "1.2.3 ", "1.2.3-dev"])
def test_what_is_no_version_is_refused(checkout: Path, version: str) -> None:
    before = [(checkout / name).read_bytes() for name in RELEASED]
    with pytest.raises(ValueError, match="version must be like 0.2.0"):
        set_version(checkout, version, datetime.date(2027, 1, 2))
    assert [(checkout / name).read_bytes() for name in RELEASED] == before


def test_a_file_without_its_line_is_named_and_nothing_is_written(checkout: Path) -> None:
    (checkout / "CHANGELOG.md").write_text("# Changelog\n")
    with pytest.raises(ValueError, match=re.escape("CHANGELOG.md must have a line like")):
        set_version(checkout, "3.1.4", datetime.date(2027, 1, 2))
    assert '__version__ = "3.1.4"' not in (checkout / RELEASED[0]).read_text()


# --- the archive ------------------------------------------------------------------------------


def test_a_deposit_has_the_commits_files_and_true_checksums(checkout: Path, tmp_path) -> None:
    out = tmp_path / "deposit"
    manifest = deposit(checkout, out)
    version = reconrisk.__version__
    assert [entry["name"] for entry in manifest["source"]] == sorted(RELEASED)
    with tarfile.open(out / f"reconstruction-risk-{version}-source.tar.gz") as packed:
        files = {m.name.partition("/")[2] for m in packed.getmembers() if m.isfile()}
    assert files == set(RELEASED)
    assert len(manifest["missing"]) == 3  # nothing has been built here
    for entry in manifest["files"]:
        content = (out / entry["name"]).read_bytes()
        assert (entry["bytes"], entry["sha256"]) == (
            len(content),
            hashlib.sha256(content).hexdigest(),
        )
    assert json.loads((out / "manifest.json").read_text()) == manifest
    zenodo = json.loads((out / "zenodo.json").read_text())
    assert (zenodo["title"], zenodo["version"]) == (CITATION["title"], version)
    assert len(zenodo["related_identifiers"]) == len(CITATION["references"])
    checked = subprocess.run(["sha256sum", "-c", "SHA256SUMS"], cwd=out, capture_output=True)
    assert checked.returncode == 0, checked.stdout


def test_a_deposit_takes_what_has_been_built(checkout: Path) -> None:
    (checkout / ".gitignore").write_text("/_build/\n")
    (checkout / "_build" / "dist").mkdir(parents=True)
    (checkout / "_build" / "dist" / "a.whl").write_bytes(b"wheel")
    (checkout / "_build" / "html").mkdir()
    (checkout / "_build" / "html" / "index.html").write_text("<p>book</p>")
    manifest = deposit(checkout, checkout / "_build" / "archive")
    names = {entry["name"] for entry in manifest["files"]}
    assert {"a.whl", f"reconstruction-risk-{reconrisk.__version__}-html.tar.gz"} <= names
    assert manifest["missing"] == ["PDF: the book's PDF"]


def test_a_deposit_of_uncommitted_work_is_refused(checkout: Path, monkeypatch) -> None:
    (checkout / "CHANGELOG.md").write_text("changed")
    with pytest.raises(ValueError, match="no uncommitted changes"):
        deposit(checkout, checkout / "out")
    assert not (checkout / "out").exists()
    monkeypatch.setattr("companion.study.registry.project_root", lambda: checkout)
    result = CliRunner().invoke(app, ["archive", "--out", str(checkout / "out")])
    assert result.exit_code == 2


# --- the packages -----------------------------------------------------------------------------

#: what a clean environment sees: nothing of the checkout
CLEAN = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}


def _python(folder: Path, *requirements: str) -> Path:
    """A fresh environment with these packages; skips without an index to install from."""
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    python = folder / "bin" / "python"
    pip = [str(python), "-m", "pip", "--disable-pip-version-check", "install", "-q"]
    done = subprocess.run([*pip, *requirements], capture_output=True, text=True, env=CLEAN)
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["pip failed"])[-1]
        pytest.skip(f"no index to install {', '.join(requirements)} from: {last}")
    return python


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The library's sdist and wheel, built as a release does."""
    folder = tmp_path_factory.mktemp("packages")
    tools = re.search(r"^RELEASE_TOOLS := (.+)$", (ROOT / "Makefile").read_text(), re.M)
    assert tools is not None
    python = _python(folder / "tools", *tools[1].split())
    source = folder / "source"
    compiled = shutil.ignore_patterns("__pycache__")  # another process may be writing it
    shutil.copytree(ROOT / "lib" / "reconrisk", source / "lib" / "reconrisk", ignore=compiled)
    for name in ("pyproject.toml", "MANIFEST.in", "README.md", "LICENSE", *RELEASED[1:]):
        shutil.copy(ROOT / name, source)
    for tool, *arguments in (
        ["pyproject-build", "--outdir", str(folder / "dist"), str(source)],
        ["twine", "check", "--strict"],
        ["cffconvert", "--validate", "-i", str(source / "CITATION.cff")],
    ):
        files = (folder / "dist").glob("*") if tool == "twine" else ()
        command = [str(python.parent / tool), *arguments, *map(str, files)]
        done = subprocess.run(command, capture_output=True, text=True, env=CLEAN)
        assert done.returncode == 0, done.stdout + done.stderr
    return folder / "dist"


def test_packages_hold_the_library_and_say_whose_they_are(packages: Path) -> None:
    version = reconrisk.__version__
    wheel, sdist = (
        packages / f"reconrisk-{version}-py3-none-any.whl",
        packages / (f"reconrisk-{version}.tar.gz"),
    )
    with zipfile.ZipFile(wheel) as packed:
        names = packed.namelist()
        metadata = packed.read(f"reconrisk-{version}.dist-info/METADATA").decode()
    assert not [n for n in names if not n.startswith(("reconrisk/", "reconrisk-"))]
    for name in ("py.typed", "risk/report.schema.json", "_version.py"):
        assert f"reconrisk/{name}" in names
    for field in ("Project-URL: Changelog", "License-Expression: MIT", "Classifier: Typing"):
        assert field in metadata
    with tarfile.open(sdist) as packed:
        inside = {member.name.partition("/")[2] for member in packed.getmembers()}
    assert {"CHANGELOG.md", "CITATION.cff", "LICENSE", "README.md"} <= inside


def test_the_wheel_installs_and_answers_in_a_clean_environment(packages: Path, tmp_path) -> None:
    wheel = next(packages.glob("*.whl"))
    pins = ["-c", str(ROOT / "constraints.txt")]
    python = _python(tmp_path / "clean", *pins, f"{wheel}[cli]")
    code = (
        "import reconrisk; from reconrisk import DPSGD, bounds, privacy; "
        "run = DPSGD(1.1, sampling_rate=256/60000, steps=3515); "
        "print(reconrisk.__version__, privacy.epsilon(run, 1e-5).upper, "
        "bounds.rero(run, 0.1).upper, reconrisk.__file__)"
    )

    def said(*command: str) -> str:
        run = subprocess.run(
            command, cwd=tmp_path, env=CLEAN, capture_output=True, text=True, check=True
        )
        return run.stdout

    version, epsilon, success, path = said(str(python), "-c", code).split()
    assert version == reconrisk.__version__
    assert Path(path).is_relative_to(tmp_path)
    run = DPSGD(1.1, sampling_rate=256 / 60_000, steps=3515)
    assert float(epsilon) == pytest.approx(privacy.epsilon(run, 1e-5).upper, abs=2e-3)
    assert float(success) == pytest.approx(bounds.rero(run, 0.1).upper, abs=2e-3)
    command = "--sigma 1.1 --batch-size 256 --dataset-size 60000 --epochs 1 --format json"
    report = said(str(python.parent / "reconrisk"), "risk", *command.split())
    assert json.loads(report)["library_version"] == reconrisk.__version__

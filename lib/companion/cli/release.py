"""Releases: one version in every file that has it, and what an archive holds of it."""

import datetime
import hashlib
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Annotated, Any

import typer

from reconrisk.cli.console import usage_errors

_VERSION = re.compile(r"\d+\.\d+\.\d+(?:(?:a|b|rc)\d+)?")


def release(
    version: Annotated[str, typer.Argument(help="The new version, such as 0.2.0.")],
) -> None:
    """Write a version and today's date where they stand; commit nothing."""
    from companion.study import registry

    with usage_errors():
        changed = set_version(registry.project_root(), version, datetime.date.today())
    typer.echo(f"version {version} in {', '.join(changed)}")


def archive(
    out: Annotated[
        Path, typer.Option(help="Folder for the deposit; emptied first.", file_okay=False)
    ] = Path("_build/archive"),
) -> None:
    """Gather what an archive such as Zenodo should hold of this commit, with checksums."""
    from companion.study import registry

    with usage_errors():
        manifest = deposit(registry.project_root(), out)
    size = sum(entry["bytes"] for entry in manifest["files"])
    typer.echo(
        f"{len(manifest['files'])} files, {size / 1e6:.1f} MB, of commit {manifest['commit'][:12]} "
        f"in {out}"
    )


def set_version(project: Path, version: str, date: datetime.date) -> list[str]:
    """Write a version and its date into the library, the citation and the change log.

    ``version`` is ``MAJOR.MINOR.PATCH``, or a pre-release of it (``0.2.0rc1``). Returns the names
    of the files that were written.

    Raises
    ------
    ValueError
        If the version has another form, or a file lacks the line that should change. Nothing is
        written then.
    """
    if not _VERSION.fullmatch(version):
        raise ValueError(f"version must be like 0.2.0 or 0.2.0rc1; got {version!r}")
    rules = {
        "lib/reconrisk/_version.py": [(r'__version__ = ".*"', f'__version__ = "{version}"')],
        "CITATION.cff": [
            (r"^version: .*", f"version: {version}"),
            (r"^date-released: .*", f"date-released: {date.isoformat()}"),
        ],
        "CHANGELOG.md": [
            (r"^## Unreleased$", f"## Unreleased\n\n## {version} - {date.isoformat()}")
        ],
    }
    texts = {}
    for name, changes in rules.items():
        text = (project / name).read_text(encoding="utf-8")
        for pattern, new in changes:
            text, count = re.subn(pattern, new, text, count=1, flags=re.M)
            if not count:
                raise ValueError(f"{name} must have a line like {pattern!r}; it has none")
        texts[name] = text
    for name, text in texts.items():
        (project / name).write_text(text, encoding="utf-8")
    return list(texts)


def deposit(project: Path, out: Path) -> dict[str, Any]:
    """Write the files of an archive's deposit and their manifest.

    The deposit is the source of the commit as a ``tar.gz`` (the tables of recorded runs are in
    it), and what has been built of it: the packages (``_build/dist``), the book as pages
    (``_build/html``) and as PDF (``_build/*.pdf``). What has not been built is not in it, and the
    manifest says so.

    Parameters
    ----------
    project : Path
        The checkout, without uncommitted changes.
    out : Path
        Folder; emptied first.

    Returns
    -------
    dict
        As in ``manifest.json``: ``commit``, ``version``, ``files`` (name, bytes, sha256),
        ``missing``, and ``source``, the same of every file in the commit.

    Raises
    ------
    ValueError
        If the checkout has uncommitted changes, or is not one of git.
    """
    if _git(project, "status", "--porcelain", "--untracked-files=no"):
        raise ValueError("the checkout must have no uncommitted changes; commit them first")
    commit = _git(project, "rev-parse", "HEAD").strip()
    version = _version(project)
    name = f"reconstruction-risk-{version}"
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    source = out / f"{name}-source.tar.gz"
    _git(project, "archive", f"--prefix={name}/", "-o", str(source.resolve()), commit)
    missing = []
    built = project / "_build"
    for what, found in (
        ("packages: make package", sorted((built / "dist").glob("*"))),
        ("PDF: the book's PDF", sorted(built.glob("*.pdf"))),
    ):
        missing += [] if found else [what]
        for path in found:
            shutil.copy(path, out)
    if (built / "html" / "index.html").is_file():
        shutil.make_archive(str(out / f"{name}-html"), "gztar", built, "html")
    else:
        missing.append("pages: make html")
    metadata = _zenodo(project)
    (out / "zenodo.json").write_text(json.dumps(metadata, indent=2) + "\n", encoding="utf-8")
    manifest = {
        "title": metadata["title"],
        "version": version,
        "commit": commit,
        "files": [_entry(path, out) for path in sorted(out.iterdir())],
        "missing": missing,
        "source": [
            _entry(project / path, project)
            for path in _git(project, "ls-files", "-z").split("\0")
            if path and (project / path).is_file()
        ],
    }
    (out / "manifest.json").write_text(json.dumps(manifest, indent=1) + "\n", encoding="utf-8")
    sums = "".join(f"{entry['sha256']}  {entry['name']}\n" for entry in manifest["files"])
    (out / "SHA256SUMS").write_text(sums, encoding="utf-8")
    return manifest


def _version(project: Path) -> str:
    text = (project / "lib" / "reconrisk" / "_version.py").read_text(encoding="utf-8")
    return text.partition('__version__ = "')[2].partition('"')[0]


def _entry(path: Path, folder: Path) -> dict[str, Any]:
    content = path.read_bytes()
    return {
        "name": path.relative_to(folder).as_posix(),
        "bytes": len(content),
        "sha256": hashlib.sha256(content).hexdigest(),
    }


def _zenodo(project: Path) -> dict[str, Any]:
    """Return the metadata of a deposit on Zenodo, from the citation file."""
    import yaml

    cited = yaml.safe_load((project / "CITATION.cff").read_text(encoding="utf-8"))
    related = [
        {
            "identifier": reference["url"],
            "relation": "isSupplementTo",
            "resource_type": "publication",
        }
        for reference in cited["references"]
    ]
    return {
        "title": cited["title"],
        "upload_type": "software",
        "version": str(cited["version"]),
        "publication_date": str(cited["date-released"]),
        "description": cited["abstract"],
        "creators": [{"name": author["name"]} for author in cited["authors"]],
        "license": cited["license"],
        "keywords": cited["keywords"],
        "related_identifiers": related,
    }


def _git(project: Path, *arguments: str) -> str:
    try:
        run = subprocess.run(
            ["git", "-C", str(project), *arguments], capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError) as error:
        said = getattr(error, "stderr", "") or str(error)
        raise ValueError(f"the project must be a checkout of git: {said.strip()}") from error
    return run.stdout

"""How a result was computed, and the reasons why it is outdated.

The provenance holds hashes of the exhibit's file and of all files of ours that it imports, directly
or not (found in the sources, without running them); of the printed numbers and registry rows that
it is judged by; and the parameters themselves.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import importlib
import json
import platform
import re
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from companion.kernels import kernels_in_use
from companion.study import registry
from companion.study.exhibits import Exhibit, find_exhibit
from companion.study.inputs import checksums
from companion.study.parameters import plain
from companion.study.sources import PACKAGES as OURS
from companion.study.sources import package_folder, sha256, source_files

if TYPE_CHECKING:
    from companion.study.session import Context

#: packages whose versions the provenance holds.
PACKAGES = ("numpy", "scipy", "torch", "pandas", "matplotlib", "scikit-image", "scikit-learn")

#: whose files are named one by one
_ALONE = ("companion/papers/", "companion/experiments/")

# The code and the data that determine a result ----------------------------------------------------


def fingerprint(exhibit: Exhibit) -> dict[str, dict[str, str]]:
    """Return hashes of the code and data that determine an exhibit's result.

    Returns
    -------
    dict
        ``{"code": {file or folder: sha256}, "data": {file or registry id: sha256}}``. Files of
        papers and experiments are named one by one, relative to ``lib``, and the rest by folder
        (``reconrisk/privacy``), with one hash of all files there that are imported.
    """
    files = source_files(exhibit.module)
    code = {_file_name(name, path): sha256(path) for name, path in files.items()}
    return {"code": hash_by_folder(code), "data": _data(exhibit)}


def hash_by_folder(code: Mapping[str, str]) -> dict[str, str]:
    """Return hashes of files with one hash for each folder but those of papers and experiments."""
    folders: dict[str, dict[str, str]] = {}
    for name, found in code.items():
        alone = name.startswith(_ALONE) or name.partition("/")[0] not in OURS
        folders.setdefault(name if alone else name.rpartition("/")[0], {})[name] = found
    return {
        name: files.get(name) or hashlib.sha256(_canonical(files).encode()).hexdigest()
        for name, files in folders.items()
    }


def _file_name(module: str, path: Path) -> str:
    if module.partition(".")[0] not in OURS:
        return path.name
    if not path.is_relative_to(package_folder()):
        return f"{path.parent.name}/{path.name}"  # a paper outside the checkout
    return path.relative_to(package_folder()).as_posix()


def _data(exhibit: Exhibit) -> dict[str, str]:
    """Return hashes of the printed numbers and registry rows that an exhibit is compared with."""
    folder = registry.project_root() / "data" / "paper"
    names = {exhibit.id} | _named_tables(exhibit)
    hashes = {
        f"data/paper/{name}.csv": sha256(folder / f"{name}.csv")
        for name in sorted(names)
        if (folder / f"{name}.csv").is_file()
    }
    for target in sorted(exhibit.targets):
        for table in (registry.exhibits(), registry.claims(), registry.errata()):
            if target in table:
                row = _canonical(dataclasses.asdict(table[target]))
                hashes[f"registry:{target}"] = hashlib.sha256(row.encode()).hexdigest()
    return hashes


#: as in ``printed("paper/text")`` and ``printed(f"{KEY}/{name}")``
_NAMED = re.compile(r'"(\{KEY\}|\w+)/(\w+|\{[^}"]+\})"')


def _named_tables(exhibit: Exhibit) -> set[str]:
    """Return the printed tables that it and its imports name; all of a paper where computed."""
    names: set[str] = set()
    folder = registry.project_root() / "data" / "paper"
    for module, path in source_files(exhibit.module).items():
        if not module.startswith(("companion.papers.", "companion.experiments.")):
            continue
        for key, table in _NAMED.findall(path.read_text("utf-8")):
            if key == "{KEY}":
                key = importlib.import_module(module).KEY
            if table.startswith("{"):
                names |= {f"{key}/{path.stem}" for path in (folder / key).glob("*.csv")}
            else:
                names.add(f"{key}/{table}")
    return names


def _canonical(value: Any) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=False)


# Provenance -----------------------------------------------------------------------------------


class Session(Protocol):
    """What gives each exhibit its parameters and data: a :class:`~companion.study.Study`."""

    def context(self, exhibit_id: str) -> Context:
        """Return what the exhibit's ``measure`` is given."""


@dataclass(frozen=True)
class Provenance:
    """How a result was computed: with which code, data, parameters and machine.

    Attributes
    ----------
    exhibit, profile, seed, device : str, str, int, str
        As run.
    parameters : mapping
        Every parameter's value; lists for tuples.
    code, data : mapping of str to str
        Hashes, see :func:`fingerprint`; empty of a run that is not finished.
    commit, dirty : str, bool
        Git commit of the checkout and whether files differed from it; empty and None outside one.
    packages : mapping of str to str
        Versions, Python's included.
    kernels : mapping of str to str
        Environment variables that chose the libraries' machine code, see
        :mod:`companion.kernels`.
    inputs : mapping of str to str
        sha256 of every data set read, see :func:`companion.study.inputs.checksums`.
    peak_memory_gb : float or None
        The largest resident memory of the process or of one of its workers.
    platform : str
        Operating system and processor family, no machine's name.
    seconds : float or None
        Wall time of the computation.
    time : str
        When it ended, UTC, ISO 8601.
    earlier : list of mapping
        Of runs put together, the provenances of those before the last, whose the rest is.
    """

    exhibit: str
    profile: str
    parameters: Mapping[str, Any]
    seed: int
    device: str = ""
    code: Mapping[str, str] = field(default_factory=dict)
    data: Mapping[str, str] = field(default_factory=dict)
    commit: str = ""
    dirty: bool | None = None
    packages: Mapping[str, str] = field(default_factory=dict)
    kernels: Mapping[str, str] = field(default_factory=dict)
    inputs: Mapping[str, str] = field(default_factory=dict)
    peak_memory_gb: float | None = None
    platform: str = ""
    seconds: float | None = None
    time: str = ""
    earlier: list[Mapping[str, Any]] = field(default_factory=list)


def describe_run(session: Session, exhibit_id: str, seconds: float) -> Provenance:
    """Return the provenance of a result that ``session`` has just computed in ``seconds``."""
    exhibit = find_exhibit(exhibit_id)
    context = session.context(exhibit_id)
    commit, dirty = checkout(registry.project_root())
    stamped = fingerprint(exhibit)
    return Provenance(
        exhibit=exhibit.id,
        profile=context.profile,
        parameters=plain(dict(context.parameters)),
        seed=context.seed,
        device=context.device,
        code=stamped["code"],
        data=stamped["data"],
        commit=commit,
        dirty=dirty,
        packages=_versions(),
        kernels=kernels_in_use(),
        inputs=checksums(exhibit, context),
        peak_memory_gb=_peak_memory(context.workers),
        platform=f"{platform.system()} {platform.machine()}",
        seconds=round(seconds, 3),
        time=datetime.now(UTC).isoformat(timespec="seconds"),
    )


def checkout(root: Path) -> tuple[str, bool | None]:
    """Return the commit and whether the checkout differs from it; empty outside a checkout."""

    def git(*arguments: str) -> str:
        command = ["git", "-C", str(root), *arguments]
        run = subprocess.run(command, capture_output=True, text=True, check=True, timeout=20)
        return run.stdout.strip()

    try:
        return git("rev-parse", "--verify", "HEAD"), bool(git("status", "--porcelain"))
    except (OSError, subprocess.SubprocessError):
        return "", None


def _versions() -> dict[str, str]:
    versions = {"python": platform.python_version()}
    for package in PACKAGES:
        with contextlib.suppress(PackageNotFoundError):
            versions[package] = version(package)
    return versions


def _peak_memory(workers: int) -> float | None:
    """Return the largest resident memory in GB of this process or a worker; None if unknown."""
    try:
        import resource
    except ImportError:  # Windows
        return None
    unit = 1 if platform.system() == "Darwin" else 1024
    status = Path("/proc/self/status")
    if status.is_file():
        # ru_maxrss starts from the memory of the parent process; VmHWM does not
        found = re.search(r"VmHWM:\s*(\d+) kB", status.read_text())
        largest = int(found[1]) if found else 0
    else:
        largest = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    if workers > 1:
        largest = max(largest, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
    return round(largest * unit / 1e9, 2)


@dataclass(frozen=True)
class Reason:
    """One reason to run an exhibit again."""

    kind: str
    what: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.what}"


def explain(exhibit_id: str, stored: Provenance | None, session: Session) -> list[Reason]:
    """Return the reasons to run an exhibit again; none if the stored result answers.

    ``stored`` is the provenance of the stored result, None if there is none; ``session`` holds the
    requested profile, seed, device, data and overrides. Kinds of reasons: *nothing recorded*,
    *code*, *data*, *inputs*, *parameters*, *profile*, *seed*, *device*.
    """
    if stored is None:
        return [Reason("nothing recorded", f"no stored result of {exhibit_id} says how it was run")]
    context = session.context(exhibit_id)
    now = fingerprint(find_exhibit(exhibit_id))
    reasons = [
        Reason(kind, f"{stored_value} stored, {asked} asked for")
        for kind, stored_value, asked in (
            ("profile", stored.profile, context.profile),
            ("seed", stored.seed, context.seed),
            ("device", stored.device, context.device),
        )
        if stored_value != asked
    ]
    codes = (stored.code, *(run["code"] for run in stored.earlier))
    reasons += dict.fromkeys(
        reason for c in codes for reason in _differences("code", c, now["code"])
    )
    reasons += _differences("data", stored.data, now["data"])
    if context.data_root is not None or context.profile == "quick":
        # without a data root, a paper's own data cannot be compared
        read = checksums(find_exhibit(exhibit_id), context)
        reasons += _differences("inputs", stored.inputs, read)
    asked = plain(dict(context.parameters))
    for name in sorted(asked.keys() | stored.parameters.keys()):
        if name not in stored.parameters:
            reasons.append(Reason("parameters", f"{name} is new ({asked[name]!r})"))
        elif name not in asked:
            reasons.append(Reason("parameters", f"{name} no longer exists"))
        elif plain(stored.parameters[name]) != asked[name]:
            was = stored.parameters[name]
            reasons.append(Reason("parameters", f"{name} was {was!r}, is {asked[name]!r}"))
    return reasons


def _differences(kind: str, stored: Mapping[str, str], now: Mapping[str, str]) -> Iterator[Reason]:
    for name in sorted(stored.keys() | now.keys()):
        if name not in now:
            yield Reason(kind, f"{name} is no longer used")
        elif name not in stored:
            yield Reason(kind, f"{name} is new")
        elif stored[name] != now[name]:
            yield Reason(kind, f"{name} changed")

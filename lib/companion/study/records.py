"""The store: an exhibit's tables with their provenance, read and written here alone.

A record is a folder: one CSV file per table, ``figure.png`` if a picture was drawn, and
``record.json`` with the provenance, the verdicts of the run, a hash of every other file and a
checksum of itself. The notebooks' quick runs have theirs in ``tests/tables``, without verdicts,
which the notebooks show; long runs in ``data/recorded``; ``companion run`` writes to any folder.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import hashlib
import io
import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from companion.study.exhibits import find_exhibit
from companion.study.files import seal, unseal, write_atomically
from companion.study.parameters import Settings, plain, resolve
from companion.study.provenance import Provenance
from companion.study.sources import sha256
from companion.study.tables import Tables, csv_files, exact_table, file_stem
from companion.study.verdicts import Verdict

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: folders of the project: the quick runs' records, and those of long runs
FOLDER, RECORDED = Path("tests", "tables"), Path("data", "recorded")
#: environment variable: the folder in which runs keep the tables that they judge
VARIABLE = "COMPANION_TABLES"
#: the file of a run's pictures, beside its tables; the project keeps none
PICTURES = "pictures.npz"
#: version of the layout of ``record.json``; other versions are refused
SCHEMA = 2


class RecordError(ValueError):
    """A record on disk is incomplete, damaged or of another layout."""


class NoPicture(LookupError):
    """A drawing needs a picture, and a record holds tables only."""


class _NoPictures(Mapping[str, Any]):
    """A placeholder for the pictures that a record lacks: every use raises ``NoPicture``."""

    def __getitem__(self, name: str) -> Any:
        raise NoPicture(f"a record holds no picture {name!r}")

    def __iter__(self) -> Iterator[str]:
        raise NoPicture("a record holds no pictures")

    def __len__(self) -> int:
        raise NoPicture("a record holds no pictures")


def pictures_at_hand(tables: Tables) -> dict[str, np.ndarray]:
    """Return a run's pictures by name; none of a recorded one, which holds tables only."""
    try:
        return dict(tables.images)
    except NoPicture:
        return {}


@dataclass(frozen=True)
class Record:
    """A record read back.

    Attributes
    ----------
    provenance : Provenance
        Where it comes from.
    frames : mapping of str to DataFrame
        The data by the names of their files, with floats as they were to the last bit.
    exact, ran, stand_ins, subsets
        As in :class:`Tables`.
    images : mapping of str to sequence of int
        The shapes of the run's pictures.
    verdicts : tuple of Verdict
        Those of the run; none of a quick run, whose notebook shows them.
    checksum : str
        Of ``record.json``, and so of all its files.
    figure : Path or None
        The picture.
    """

    provenance: Provenance
    frames: Mapping[str, pd.DataFrame]
    exact: tuple[str, ...]
    ran: str
    stand_ins: tuple[str, ...]
    subsets: tuple[str, ...]
    images: Mapping[str, Sequence[int]]
    verdicts: tuple[Verdict, ...]
    checksum: str
    figure: Path | None

    @property
    def settings(self) -> Settings:
        """The run's parameters as the exhibit takes them now.

        Raises
        ------
        TypeError, ValueError
            If one no longer exists, or its value is no longer valid.
        """
        run, known = self.provenance, find_exhibit(self.provenance.exhibit)
        return resolve(run.exhibit, known.parameters, run.profile, run.parameters)

    @functools.cached_property
    def tables(self) -> Tables:
        """The tables as ``measure`` gave them, without pictures; raises as ``settings`` does."""
        run = self.provenance
        return Tables(
            self.frames,
            exact=self.exact,
            images=_NoPictures(),
            ran=self.ran,
            stand_ins=self.stand_ins,
            subsets=self.subsets,
            exhibit=run.exhibit,
            profile=run.profile,
            seed=run.seed,
            parameters=self.settings,
            shown=find_exhibit(run.exhibit).shown,
        )


def find_records(folder: Path) -> list[str]:
    """Return the exhibits with a record in a folder, sorted."""
    return sorted(p.parent.relative_to(folder).as_posix() for p in folder.glob("*/*/record.json"))


# Writing ------------------------------------------------------------------------------------------


def write_record(
    tables: Tables,
    folder: str | Path,
    *,
    provenance: Provenance | None = None,
    verdicts: Iterable[Verdict] = (),
    figure: Figure | bytes | None = None,
) -> Path:
    """Write tables to a folder, made if it does not exist, and return ``record.json``'s path.

    Everything is on the disk before anything old is removed: a full disk loses nothing. Then an
    older ``record.json`` goes first and the new one comes last: an interrupted call leaves no
    record rather than a mixed one. Without ``provenance`` the record holds what the tables
    themselves say of it; ``figure`` may be the content of a PNG file.

    Raises
    ------
    ValueError
        If the provenance is another exhibit's.
    """
    if provenance is None:
        given = plain(dict(tables.parameters))
        provenance = Provenance(tables.exhibit, tables.profile, given, tables.seed)
    if provenance.exhibit != tables.exhibit:
        raise ValueError(f"the provenance of {provenance.exhibit} is not that of {tables.exhibit}")
    files = csv_files(tables)
    if figure is not None:
        files["figure.png"] = figure if isinstance(figure, bytes) else _png(figure)
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    body = {
        "schema": SCHEMA,
        "measured": _describe_measurement(tables),
        "provenance": plain(dataclasses.asdict(provenance)),
        "verdicts": [v.as_dict() for v in verdicts],
        "files": {name: hashlib.sha256(data).hexdigest() for name, data in files.items()},
    }
    files["record.json"] = seal(body)  # the record comes last
    with tempfile.TemporaryDirectory(prefix=".record-", dir=folder) as new:
        for name, data in files.items():
            write_atomically(Path(new) / name, data)
        _clear(folder)
        for name in files:
            (Path(new) / name).replace(folder / name)
    return folder / "record.json"


def _describe_measurement(tables: Tables) -> dict[str, Any]:
    images = {} if isinstance(tables.images, _NoPictures) else tables.images
    return {
        "ran": tables.ran,
        "exact": list(tables.exact),
        "stand_ins": list(tables.stand_ins),
        "subsets": list(tables.subsets),
        # a CSV file does not show whether 0.5 is a number or a string
        "texts": {file_stem(n): texts for n, table in tables.items() if (texts := _texts(table))},
        "images": {name: list(image.shape) for name, image in images.items()},
    }


def _texts(table: pd.DataFrame) -> list[str]:
    """Return the columns that hold strings only, some of which look like numbers."""
    return [
        str(name)
        for name, column in table.items()
        if len(column)
        and all(isinstance(entry, str) for entry in column)
        and any(map(_is_number, column))
    ]


def _is_number(text: str) -> bool:
    with contextlib.suppress(ValueError):
        float(text)
        return True
    return False


def _png(figure: Figure) -> bytes:
    stream = io.BytesIO()
    # no date and no version in the file: equal pictures are equal files
    figure.savefig(stream, format="png", metadata={"Software": None})
    return stream.getvalue()


def _clear(folder: Path) -> None:
    """Remove an older record and its files; keep files that no record lists."""
    with contextlib.suppress(FileNotFoundError, RecordError):
        old: Iterable[str] = read_content(folder)["files"]
        (folder / "record.json").unlink()
        for name in old:
            (folder / Path(name).name).unlink(missing_ok=True)
    (folder / "record.json").unlink(missing_ok=True)


def attach_provenance(folder: Path, provenance: Provenance) -> str:
    """Complete the record of a run that is finished; return its new checksum."""
    content = read_content(folder)
    body = {k: v for k, v in content.items() if k != "sha256"}
    body["provenance"] = plain(dataclasses.asdict(provenance))
    write_atomically(folder / "record.json", seal(body))
    return str(read_content(folder)["sha256"])


# Putting runs together ----------------------------------------------------------------------------


def join_records(records: Sequence[Record]) -> tuple[Tables, Provenance]:
    """Return the tables and the provenance of several runs that were computed value by value.

    The exhibit's ``CELLS`` names the parameter in whose values they differ, and the column of every
    table that holds them: each value is measured for itself, from random numbers of its own.

    Raises
    ------
    ValueError
        If there are fewer than two, the exhibit declares no ``CELLS``, runs differ in anything else
        or have a value in common, or a table lacks the column.
    """
    if len(records) < 2:
        raise ValueError(f"records must be two or more; got {len(records)}")
    last = records[-1]
    parameter, column = getattr(find_exhibit(last.provenance.exhibit).file, "CELLS", ("", ""))
    if not parameter:
        raise ValueError(f"{last.provenance.exhibit} declares no CELLS: its runs stay apart")
    settings = [_alike(record, parameter) for record in records]
    if other := sorted(
        n for n in settings[-1] if any(s.get(n) != settings[-1][n] for s in settings)
    ):
        raise ValueError(f"runs may differ in {parameter} alone; these do in {', '.join(other)}")
    values = [value for record in records for value in record.settings[parameter]]
    if len(set(values)) < len(values):
        raise ValueError(f"runs may have no {parameter} in common; these have {values}")
    if lacking := [name for name, table in last.frames.items() if column not in table]:
        raise ValueError(f"tables {', '.join(lacking)} have no column {column!r}")
    frames = {n: pd.concat([r.frames[n] for r in records], ignore_index=True) for n in last.frames}
    whole = Settings({**last.settings, parameter: tuple(values)})
    provenance = dataclasses.replace(
        last.provenance,
        parameters=plain(dict(whole)),
        dirty=any(record.provenance.dirty for record in records),
        earlier=[run for record in records for run in _runs_of(record, parameter)][:-1],
    )
    return dataclasses.replace(last.tables, frames=frames, parameters=whole), provenance


def _runs_of(record: Record, parameter: str) -> list[Mapping[str, Any]]:
    """The provenances of the runs of a record, each with its own values of the parameter."""
    *earlier, last = *record.provenance.earlier, plain(dataclasses.asdict(record.provenance))
    known = [value for run in earlier for value in run["parameters"][parameter]]
    own = [value for value in last["parameters"][parameter] if value not in known]
    return [*earlier, last | {"parameters": last["parameters"] | {parameter: own}, "earlier": []}]


def _alike(record: Record, parameter: str) -> dict[str, Any]:
    """What runs that are put together have in common."""
    run = record.provenance
    same = {name: getattr(run, name) for name in ("exhibit", "profile", "seed", "device", "inputs")}
    same |= {name: getattr(record, name) for name in ("ran", "exact", "stand_ins", "subsets")}
    same |= {"columns": {name: list(table) for name, table in record.frames.items()}}
    return same | {n: value for n, value in run.parameters.items() if n != parameter}


def keep_tables(tables: Tables) -> None:
    """Write tables to the folder that ``COMPANION_TABLES`` names; do nothing if it is unset."""
    if os.environ.get(VARIABLE):
        folder = Path(os.environ[VARIABLE], tables.exhibit)
        write_record(tables, folder)
        if tables.images:
            # single precision is finer than what is seen
            pictures: dict[str, Any] = {n: np.float32(image) for n, image in tables.images.items()}
            np.savez_compressed(folder / PICTURES, **pictures)


# Reading ------------------------------------------------------------------------------------------


def read_record(folder: str | Path) -> Record:
    """Read a record back.

    Raises
    ------
    FileNotFoundError
        If the folder holds none.
    RecordError
        If it is damaged: of another layout, or a file of it is missing or has changed.
    """
    folder = Path(folder)
    content = read_content(folder)
    for name, expected in content["files"].items():
        path = folder / name
        if not path.is_file() or sha256(path) != expected:
            raise RecordError(f"{path} is missing or not the file that was recorded")
    measured, texts = content["measured"], content["measured"]["texts"]
    stems = [name[:-4] for name in content["files"] if name.endswith(".csv")]
    return Record(
        provenance=content["provenance"],
        frames={n: exact_table(folder / f"{n}.csv", texts.get(n, ())) for n in stems},
        **{name: tuple(measured[name]) for name in ("exact", "stand_ins", "subsets")},
        ran=measured["ran"],
        images=measured["images"],
        verdicts=tuple(Verdict(**verdict) for verdict in content["verdicts"]),
        checksum=content["sha256"],
        figure=folder / "figure.png" if "figure.png" in content["files"] else None,
    )


def read_content(folder: Path) -> dict[str, Any]:
    """Return what ``record.json`` holds, with a :class:`Provenance`, without reading other files.

    Raises as :func:`read_record` does.
    """
    path = folder / "record.json"
    try:
        content = unseal(path.read_bytes(), SCHEMA)
        names = {f.name for f in dataclasses.fields(Provenance)}
        given = {k: v for k, v in content["provenance"].items() if k in names}
        return {**content, "provenance": Provenance(**given)}
    except TypeError as error:
        raise RecordError(f"{path}: the provenance is incomplete: {error}") from None
    except (ValueError, KeyError) as error:
        raise RecordError(f"{path} is not a sound record: {error}") from None


def read_tables(folder: Path) -> Tables:
    """Read a run's tables; grey ramps stand for pictures that were not kept.

    Raises as :func:`read_record` does.
    """
    record = read_record(folder)
    return dataclasses.replace(
        record.tables, images=_pictures(folder) or dict(_ramps(record.images))
    )


def _pictures(folder: Path) -> dict[str, np.ndarray]:
    if not (folder / PICTURES).is_file():
        return {}
    with np.load(folder / PICTURES) as kept:
        return {name: kept[name] for name in kept.files}


def _ramps(shapes: Mapping[str, Sequence[int]]) -> Iterator[tuple[str, np.ndarray]]:
    for name, shape in shapes.items():
        ramp = np.linspace(0.0, 1.0, int(np.prod(shape[:2]))).reshape(shape[:2])
        yield name, np.broadcast_to(ramp[(...,) + (None,) * (len(shape) - 2)], shape).copy()

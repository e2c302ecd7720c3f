"""Tables of the quick runs on disk, without verdicts: tests judge and draw them in milliseconds."""

import contextlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from companion.study.exhibits import find_exhibit
from companion.study.parameters import plain, resolve
from companion.study.sweep import write_atomically
from companion.study.tables import Tables, csv_files, exact_table, file_stem

__all__ = ["FOLDER", "PICTURES", "VARIABLE", "keep", "read_tables", "write_tables"]

#: environment variable: the folder in which runs keep the tables that they judge.
VARIABLE = "COMPANION_TABLES"
#: the folder of the quick runs' tables, in the project
FOLDER = Path("tests", "tables")
#: the file of a run's pictures, beside its tables; the project keeps none
PICTURES = "pictures.npz"


def keep(tables: Tables) -> None:
    """Write tables to the folder that ``COMPANION_TABLES`` names; do nothing if it is unset."""
    if os.environ.get(VARIABLE):
        folder = Path(os.environ[VARIABLE], tables.exhibit)
        write_tables(tables, folder)
        if tables.images:
            # single precision is finer than what is seen
            pictures: dict[str, Any] = {n: np.float32(image) for n, image in tables.images.items()}
            np.savez_compressed(folder / PICTURES, **pictures)


def write_tables(tables: Tables, folder: Path) -> None:
    """Write tables as CSV files, and how they were measured as ``tables.json``."""
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("*.csv"):
        old.unlink()
    for name, data in csv_files(tables).items():
        write_atomically(folder / name, data)
    about = {
        "profile": tables.profile,
        "seed": tables.seed,
        "parameters": plain(dict(tables.parameters)),
        "ran": tables.ran,
        "exact": list(tables.exact),
        "stand_ins": list(tables.stand_ins),
        "subsets": list(tables.subsets),
        # a CSV file does not show whether 0.5 is a number or a string
        "texts": {name: texts for name, table in tables.items() if (texts := _texts(table))},
        "images": {name: list(image.shape) for name, image in tables.images.items()},
    }
    text = json.dumps(about, indent=1, ensure_ascii=False) + "\n"
    write_atomically(folder / "tables.json", text.encode())


def read_tables(folder: Path, exhibit_id: str) -> Tables:
    """Read tables back as ``measure`` gave them; grey ramps stand for pictures not kept."""
    about = json.loads((folder / "tables.json").read_text(encoding="utf-8"))
    texts = {file_stem(name): columns for name, columns in about.get("texts", {}).items()}
    exhibit = find_exhibit(exhibit_id)
    return Tables(
        {
            path.stem: _as_texts(exact_table(path), path, texts.get(path.stem, ()))
            for path in sorted(folder.glob("*.csv"))
        },
        exact=tuple(about["exact"]),
        images=dict(_pictures(folder) or _ramps(about["images"])),
        ran=about["ran"],
        stand_ins=tuple(about["stand_ins"]),
        subsets=tuple(about.get("subsets", ())),
        exhibit=exhibit_id,
        profile=about["profile"],
        seed=about["seed"],
        parameters=resolve(exhibit_id, exhibit.parameters, about["profile"], about["parameters"]),
        shown=exhibit.shown,
    )


def _texts(table: pd.DataFrame) -> list[str]:
    """Return the columns that hold strings only, some of which look like numbers."""
    return [
        str(name)
        for name, column in table.items()
        if len(column)
        and all(isinstance(entry, str) for entry in column)
        and any(_is_number(entry) for entry in column)
    ]


def _is_number(text: str) -> bool:
    with contextlib.suppress(ValueError):
        float(text)
        return True
    return False


def _as_texts(table: pd.DataFrame, path: Path, columns: Sequence[str]) -> pd.DataFrame:
    read = pd.read_csv(path, dtype=str, keep_default_na=False)
    return table.assign(**{name: read[name] for name in columns})


def _pictures(folder: Path) -> dict[str, np.ndarray]:
    """Return the pictures that a run kept; none if it kept none."""
    if not (folder / PICTURES).is_file():
        return {}
    with np.load(folder / PICTURES) as kept:
        return {name: kept[name] for name in kept.files}


def _ramps(shapes: Mapping[str, list[int]]) -> Iterator[tuple[str, np.ndarray]]:
    for name, shape in shapes.items():
        ramp = np.linspace(0.0, 1.0, int(np.prod(shape[:2]))).reshape(shape[:2])
        yield name, np.broadcast_to(ramp[(...,) + (None,) * (len(shape) - 2)], shape).copy()

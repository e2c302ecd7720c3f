"""Records from a table: numbers in a CSV or TSV file, or in an array of NumPy."""

from __future__ import annotations

import csv
import math
from itertools import islice
from pathlib import Path

import numpy as np

__all__ = ["TABLES", "read_table"]

#: suffixes of tables, with what separates their cells
TABLES = {".csv": ",", ".tsv": "\t", ".npy": ""}


def read_table(path: Path, most: int) -> tuple[np.ndarray, int]:
    """Return the first records of a table, a row each, and how many it holds.

    Raises
    ------
    ValueError
        If the file holds anything but finite numbers: of a CSV or TSV file only the first line may
        name columns, all of them by something else than a number. The message says where.
    OSError
        If the file cannot be opened.
    """
    if path.suffix.lower() == ".npy":
        return _read_array(path, most)
    with path.open(newline="", encoding="utf-8-sig") as file:
        lines = csv.reader(file, delimiter=TABLES[path.suffix.lower()])
        try:
            rows = [(lines.line_num, cells) for cells in lines if cells]
        except (UnicodeDecodeError, csv.Error) as error:
            raise ValueError(f"{path} must be a table in UTF-8: {error}") from None
    names = rows.pop(0)[1] if rows and not any(map(_is_number, rows[0][1])) else []
    if not rows:
        raise ValueError(f"{path} must hold a line of numbers at least; it holds none")
    width = len(names or rows[0][1])
    table = np.empty((min(len(rows), most), width))
    for row, (line, cells) in zip(table, islice(rows, most), strict=True):
        if len(cells) != width:
            raise ValueError(f"{path}, line {line}: must have {width} cells; got {len(cells)}")
        for i, text in enumerate(cells):
            if not _is_number(text):
                where = f"column {names[i]!r}" if names else f"column {i + 1}"
                raise ValueError(
                    f"{path}, line {line}, {where}: must be a finite number, as in training "
                    f"(categories encoded, gaps filled); got {text[:40]!r}"
                )
            row[i] = float(text)
    return table, len(rows)


def _read_array(path: Path, most: int) -> tuple[np.ndarray, int]:
    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except ValueError as error:
        raise ValueError(f"{path} must be a whole .npy file of numbers: {error}") from None
    if array.dtype.kind not in "fiub" or array.ndim < 2 or array.size == 0:
        raise ValueError(
            f"{path} must hold numbers of shape (records, ...); got {array.dtype} of shape "
            f"{array.shape}"
        )
    table = np.asarray(array[:most], dtype=float).reshape(min(len(array), most), -1)
    if not np.all(np.isfinite(table)):
        raise ValueError(
            f"{path} must hold finite numbers; record "
            f"{int(np.argmin(np.isfinite(table).all(axis=1)))} does not"
        )
    return table, len(array)


def _is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False

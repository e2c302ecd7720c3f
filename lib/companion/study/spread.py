"""How far other kernels move what is measured, and whether fresh tables are the stored ones.

An attack of hundreds of steps takes another path from the last bit of its first sum on, so on
another processor its tables differ. By how much is measured: ``companion book spread`` runs the
notebooks with other sets of kernels (:mod:`companion.kernels`) and stores beside each exhibit's
tables, as ``spread.json``, the largest difference in every column, absolute and relative, for each
set. Fresh tables are the stored ones where no number is farther off than :data:`TIMES` the largest
of these differences or :data:`VISIBLE`; where no kernels move a column, to rounding errors.

A difference is seldom a matter of degree: an attack takes another path, a record falls on the other
side of a threshold. So a set that nobody has measured moves a few columns farther than all others,
or some that they do not move. Tests run with the fixed kernels, which are nearly the same
everywhere; with its own kernels a machine may find cells that differ there alone.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import numpy as np
import pandas as pd

from companion.study.files import write_atomically
from companion.study.tables import Tables, file_stem

#: the file beside an exhibit's tables; there is none where no kernels move anything
SPREAD = "spread.json"
#: how much farther than all measured kernels another machine may be: what each library's own and
#: plain kernels both move, they move by at most so different amounts
TIMES = 5.0
#: differences of this share of a column's largest number are rounding errors
ROUNDOFF = 1e-9
#: a share of a column's largest number below which no text shows a difference: where kernels move a
#: column at all, another set may move it that far
VISIBLE = 1e-3

#: by table and column, for each set of kernels the largest absolute and the largest relative
#: difference; of texts and truth values, twice the share of rows that differ
Spread = Mapping[str, Mapping[str, Mapping[str, tuple[float, float]]]]


def compute_spread(stored: Tables, others: Mapping[str, Tables]) -> Spread:
    """Return how far the tables of the same run with other kernels are from the stored ones.

    ``others`` holds tables by the name of the set of kernels.

    Raises
    ------
    ValueError
        If other kernels give a table other rows or columns: an exhibit's tables have a shape that
        its parameters fix.
    """
    found: dict[str, dict[str, dict[str, tuple[float, float]]]] = {}
    for name, table in stored.items():
        for kernels, tables in others.items():
            if problem := _find_misshapen(name, table, tables):
                raise ValueError(f"{stored.exhibit}: with kernels {kernels}, {problem}")
            for column in table.columns:
                largest = _largest(table[column], tables[name][column])
                if any(largest):
                    columns = found.setdefault(file_stem(name), {})
                    columns.setdefault(str(column), {})[kernels] = largest
    return found


def find_departures(stored: Tables, fresh: Tables, spread: Spread) -> Iterator[str]:
    """Yield as sentences where fresh tables are not the stored ones, up to the spread."""
    if missing := {file_stem(n) for n in stored} ^ {file_stem(n) for n in fresh}:
        yield f"tables on one side only: {', '.join(sorted(missing))}"
        return
    for name, table in stored.items():
        if problem := _find_misshapen(name, table, fresh):
            yield problem
            continue
        for column in table.columns:
            measured = spread.get(file_stem(name), {}).get(str(column), {})
            allowed = find_tolerance(table[column], measured.values())
            found = _largest(table[column], fresh[name][column])
            if any(one > most for one, most in zip(found, allowed, strict=True)):
                limits = "allow {:.3g} and {:.3g}" if measured else "do not move it"
                yield (
                    f"{name}, {column}: off by {found[0]:.3g}, relatively {found[1]:.3g}; "
                    f"other kernels {limits.format(*allowed)}"
                )


def find_tolerance(
    column: pd.Series, measured: Iterable[tuple[float, float]]
) -> tuple[float, float]:
    """Return how far a column's numbers may be off, absolutely and relatively.

    ``measured`` holds how far they are with other sets of kernels.
    """
    largest = np.max([*measured, (0.0, 0.0)], axis=0)
    if not largest.any():
        return (0.0, 0.0)
    numbers = column.to_numpy(float) if _is_measured(column) else np.ones(1)
    size = np.abs(numbers, where=np.isfinite(numbers), out=np.zeros(len(numbers))).max()
    absolute, relative = np.maximum(TIMES * largest, (VISIBLE * size, VISIBLE))
    return float(absolute), float(relative)


def _find_misshapen(name: str, stored: pd.DataFrame, tables: Tables) -> str:
    table = tables[name]
    if list(map(str, table.columns)) != list(map(str, stored.columns)):
        return f"{name} has columns {list(table.columns)}, stored are {list(stored.columns)}"
    if len(table) != len(stored):
        return f"{name} has {len(table)} rows, stored are {len(stored)}"
    return ""


def _largest(stored: pd.Series, fresh: pd.Series) -> tuple[float, float]:
    """Return the largest absolute and relative difference, (0, 0) for rounding errors."""
    if not all(_is_measured(column) for column in (stored, fresh)):
        share = float((stored.astype(str).to_numpy() != fresh.astype(str).to_numpy()).mean())
        return (2 * share, 2 * share) if share else (0.0, 0.0)
    a, b = (column.to_numpy(float) for column in (stored, fresh))
    defined = np.isfinite(a) & np.isfinite(b)
    if not np.array_equal(a[~defined], b[~defined], equal_nan=True):
        return (np.inf, np.inf)  # undefined or infinite in one of them
    a, b = a[defined], b[defined]
    off = np.abs(a - b)
    scale = np.maximum(np.abs(a), np.abs(b))
    if not off.size or off.max() <= ROUNDOFF * scale.max():
        return (0.0, 0.0)
    relative = np.divide(off, scale, out=np.zeros_like(off), where=scale > 0)
    return (_rounded_up(off.max()), _rounded_up(relative.max()))


def _is_measured(column: pd.Series) -> bool:
    return pd.api.types.is_numeric_dtype(column) and not pd.api.types.is_bool_dtype(column)


def _rounded_up(value: float) -> float:
    """Three digits, upwards."""
    step = 10.0 ** (np.floor(np.log10(value)) - 2)
    return float(f"{np.ceil(value / step) * step:.6g}")


def read_spread(folder: Path) -> Spread:
    """Read the spread beside an exhibit's tables; nothing moves where there is none."""
    path = folder / SPREAD
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}


def write_spread(spread: Spread, folder: Path) -> None:
    """Write the spread beside an exhibit's tables, one line a column."""
    path = folder / SPREAD
    if not spread:
        path.unlink(missing_ok=True)
        return
    tables = (
        json.dumps(name, ensure_ascii=False)
        + ": {\n"
        + ",\n".join(
            f"  {json.dumps(c, ensure_ascii=False)}: {json.dumps(s)}" for c, s in columns.items()
        )
        + "\n }"
        for name, columns in spread.items()
    )
    write_atomically(path, ("{\n " + ",\n ".join(tables) + "\n}\n").encode())

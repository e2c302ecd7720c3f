"""Tables of stored and recorded runs, altered into those of another world, and what is judged."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import pandas as pd

from companion.study import Tables, registry
from companion.study.exhibits import file_of, judge_tables
from companion.study.records import FOLDER, RECORDED, read_record, read_tables
from companion.study.verdicts import overall

__all__ = ["add_to", "altered", "recorded", "statuses", "stored", "worst_statuses"]

Change = Callable[[pd.DataFrame], pd.DataFrame]


def recorded(exhibit: str) -> Tables:
    """The tables of an exhibit's record."""
    return read_record(registry.project_root() / RECORDED / exhibit).tables


def stored(exhibit: str) -> Tables:
    """The tables of an exhibit's quick run."""
    return read_tables(registry.project_root() / FOLDER / exhibit)


def altered(
    tables: Tables, changes: Mapping[str, Change | pd.DataFrame], **fields: object
) -> Tables:
    """Tables of which some are new or replaced by what functions make of copies of them."""
    frames = dict(tables.frames)
    for name, change in changes.items():
        file = name if name in frames else name.replace(" ", "-")
        frames[file] = change if isinstance(change, pd.DataFrame) else change(tables[name].copy())
    return replace(tables, frames=frames, **fields)


def add_to(column: str, by: float, where: str = "index == index") -> Change:
    """Add to a column where a query holds."""

    def change(table: pd.DataFrame) -> pd.DataFrame:
        table.loc[table.query(where).index, column] += by
        return table

    return change


def statuses(tables: Tables) -> dict[str, set[str]]:
    """The statuses of an exhibit's verdicts by target, panels and claims among them."""
    found: dict[str, set[str]] = {}
    for verdict in judge_tables(file_of(tables.exhibit), tables):
        found.setdefault(verdict.target, set()).add(verdict.status)
    return found


def worst_statuses(tables: Tables) -> dict[str, str]:
    """The worst status of each target of an exhibit."""
    verdicts = judge_tables(file_of(tables.exhibit), tables)
    return {v.target: overall(w for w in verdicts if w.target == v.target) for v in verdicts}

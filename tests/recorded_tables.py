"""Tables of recorded runs, to be altered into worlds in which a claim is false."""

from __future__ import annotations

import dataclasses
from typing import Any

import pandas as pd

from companion.study import Tables
from companion.study.exhibits import file_of, judge_tables
from companion.study.records import RECORDED, read_record
from companion.study.registry import project_root

__all__ = ["altered", "recorded", "statuses", "with_tables"]


def recorded(exhibit: str) -> Tables:
    """The tables of an exhibit's recorded run."""
    return read_record(project_root() / RECORDED / exhibit).tables


def with_tables(tables: Tables, **frames: pd.DataFrame) -> Tables:
    """Tables with some added or replaced; an underscore stands for the space in a name."""
    given = {name.replace("_", "-"): frame for name, frame in frames.items()}
    return dataclasses.replace(tables, frames={**tables.frames, **given})


def altered(tables: Tables, table: str, rows: str = "", **columns: Any) -> Tables:
    """Tables in which some rows (a query; all by default) have other values in some columns.

    A value may be a function of the rows; an underscore stands for the space in a column's name.
    """
    frame = tables[table].copy()
    where = frame.query(rows).index if rows else frame.index
    assert len(where), f"no row with {rows}"
    for name, value in columns.items():
        column = name if name in frame else name.replace("_", " ")
        new = value(frame.loc[where]) if callable(value) else value
        values = pd.Series(frame[column].tolist(), frame.index, dtype=object)
        values[where] = pd.Series(new, where).tolist()
        frame[column] = values.tolist()
    return with_tables(tables, **{table.replace(" ", "_"): frame})


def statuses(tables: Tables) -> dict[str, str]:
    """The status of every target that the exhibit's ``judge`` settles."""
    return {v.target: v.status for v in judge_tables(file_of(tables.exhibit), tables)}

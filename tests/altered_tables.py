"""Tables of a recorded run, altered into those of another world, and what is then judged."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import pandas as pd

from companion.study import Tables, registry
from companion.study.exhibits import file_of, judge_tables
from companion.study.records import RECORDED, read_record

__all__ = ["altered", "recorded", "statuses"]


def recorded(exhibit: str) -> Tables:
    """The tables of an exhibit's record."""
    return read_record(registry.project_root() / RECORDED / exhibit).tables


Change = Callable[[pd.DataFrame], pd.DataFrame]


def altered(
    tables: Tables, changes: Mapping[str, Change | pd.DataFrame], **fields: object
) -> Tables:
    """Tables of which some are new or replaced by what functions make of copies of them."""
    frames = dict(tables.frames)
    for name, change in changes.items():
        if isinstance(change, pd.DataFrame):
            frames[name] = change
            continue
        file = name if name in frames else name.replace(" ", "-")
        frames[file] = change(tables[name].copy())
    return replace(tables, frames=frames, **fields)


def statuses(tables: Tables) -> dict[str, set[str]]:
    """The statuses of an exhibit's verdicts by target, panels and claims among them."""
    module = file_of(tables.exhibit)
    assert module is not None
    found: dict[str, set[str]] = {}
    for verdict in judge_tables(module, tables):
        found.setdefault(verdict.target, set()).add(verdict.status)
    return found

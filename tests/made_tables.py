"""Tables of an exhibit made by hand, and what its judge says of them."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import Any

import pandas as pd

from companion.study import Tables
from companion.study.exhibits import id_of, judged
from companion.study.parameters import Settings


def made(
    module: ModuleType,
    frames: Mapping[str, pd.DataFrame | Sequence[Mapping[str, Any]]],
    **parameters: Any,
) -> Tables:
    """Tables with an exhibit's quick parameters, some of them changed."""
    values = {name: p.quick for name, p in module.PARAMETERS.items()} | parameters
    return Tables(
        {name: pd.DataFrame(frame) for name, frame in frames.items()},
        exhibit=id_of(module),
        profile="quick",
        parameters=Settings(values),
    )


def statuses(module: ModuleType, tables: Tables) -> dict[str, str]:
    """Status of each target."""
    return {v.target: v.status for v in judged(module, tables)}


def failed(module: ModuleType, tables: Tables) -> set[str]:
    """Targets whose verdict failed."""
    return {target for target, status in statuses(module, tables).items() if status == "failed"}


def with_column(tables: Tables, name: str, column: str, change: Any, where: Any = None) -> Tables:
    """The tables with one column multiplied, replaced, or mapped by a function, in some rows."""
    frame = tables[name].copy()
    rows = slice(None) if where is None else frame.eval(where)
    new = frame.loc[rows, column].map(change) if callable(change) else change
    frame[column] = frame[column].astype(object) if isinstance(new, str) else frame[column]
    frame.loc[rows, column] = new
    return dataclasses.replace(tables, frames={**tables.frames, name: frame})

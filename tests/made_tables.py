"""Tables of an exhibit made by hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import Any

import pandas as pd

from companion.study import Tables
from companion.study.exhibits import id_of
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

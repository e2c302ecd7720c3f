"""Packages whose names are imported on first use.

A package lists its names once, as imports that type checkers follow and nothing runs::

    if TYPE_CHECKING:
        from reconrisk.bounds._rero import rero
    else:
        __getattr__, __dir__ = lazy.attach(__name__)

So one bound loads its own file and what that needs, not all bounds.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import sys
from collections.abc import Callable
from typing import Any

__all__ = ["attach"]


def attach(package: str) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return ``__getattr__`` and ``__dir__`` of a package that lists its names in this way.

    Public modules of the package that it takes names from are attributes, too, as they would be
    had it imported them.

    Parameters
    ----------
    package : str
        Its ``__name__``, while it is imported.
    """
    module, homes = sys.modules[package], _homes(package)

    def load(name: str) -> Any:
        if name in homes:
            home, there = homes[name]
            value = getattr(__import__(home, fromlist=[there]), there)
        elif any(home == f"{package}.{name}" for home, _ in homes.values()):
            value = importlib.import_module(f"{package}.{name}")
        else:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        setattr(module, name, value)
        return value

    return load, lambda: sorted({*vars(module), *homes})


def _homes(package: str) -> dict[str, tuple[str, str]]:
    """Return, of each name imported under ``if TYPE_CHECKING``, its module and its name there."""
    source = inspect.getsource(sys.modules[package])
    blocks = [block for block in ast.parse(source).body if isinstance(block, ast.If)]
    return {
        alias.asname or alias.name: (statement.module, alias.name)
        for block in blocks
        if ast.unparse(block.test) == "TYPE_CHECKING"
        for statement in block.body
        if isinstance(statement, ast.ImportFrom) and statement.module
        for alias in statement.names
    }

"""Which function draws which exhibit, with its caption and alternative text."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from companion.study.computations import legacy_modules
from companion.study.exhibits import file_of
from companion.style import styled

if TYPE_CHECKING:
    from types import ModuleType

    from matplotlib.figure import Figure

    from companion.study import Result

__all__ = ["Description", "describe", "draw", "draws", "is_drawn"]

@dataclass(frozen=True)
class Description:
    """What an exhibit's picture says, in our own words.

    Attributes
    ----------
    caption : str
        What the paper shows with it. What was run here and the verdict are added by the book.
    alt : str
        The alternative text: what is to be seen.
    """

    caption: str
    alt: str


_DRAWINGS: dict[str, tuple[Callable[[Result], Figure], Description]] = {}


def draws(
    exhibit: str, *, caption: str, alt: str
) -> Callable[[Callable[[Result], Figure]], Callable[[Result], Figure]]:
    """Register the function that draws an exhibit."""

    def register(function: Callable[[Result], Figure]) -> Callable[[Result], Figure]:
        _DRAWINGS[exhibit] = (function, Description(caption, alt))
        return function

    return register


def _file(exhibit: str) -> ModuleType | None:
    module = file_of(exhibit)
    return module if hasattr(module, "draw") else None


def _find(exhibit: str) -> tuple[Callable[[Result], Figure], Description] | None:
    for name in legacy_modules(exhibit.partition("/")[0], "figures"):
        importlib.import_module(name)
    return _DRAWINGS.get(exhibit)


def is_drawn(exhibit: str) -> bool:
    """Say whether an exhibit has a picture (theorems and most tables have none)."""
    return _file(exhibit) is not None or _find(exhibit) is not None


def describe(exhibit: str) -> Description:
    """Return caption and alternative text of an exhibit's picture; ``KeyError`` if it has none."""
    module = _file(exhibit)
    if module is not None:
        return Description(getattr(module, "CAPTION", ""), "")
    found = _find(exhibit)
    if found is None:
        raise KeyError(f"no picture is drawn for {exhibit!r}")
    return found[1]


def draw(result: Result) -> Figure | None:
    """Draw a result, or return None if its exhibit has no picture (theorems, most tables)."""
    module = _file(result.exhibit)
    if module is not None:
        return module.draw(result.tables)
    found = _find(result.exhibit)
    if found is None:
        return None
    with styled():
        return found[0](result)

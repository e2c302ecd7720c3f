"""Which function draws which exhibit, with its caption and alternative text."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from reconrisk.figures.style import styled

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from reconrisk.study import Result

__all__ = ["Description", "describe", "draw", "draws", "is_drawn"]

_MODULES = {
    "mean_to_extreme": ("mean_to_extreme",),
    "ziller2024": ("ziller2024",),
    "hayes2023": (
        "hayes2023_bounds",
        "hayes2023_prior_aware",
        "hayes2023_threat",
        "hayes2023_gradients",
        "hayes2023_hyperparameters",
    ),
    "biswas2024": (
        "biswas2024_accounting",
        "biswas2024_capacity",
        "biswas2024_utility",
        "biswas2024_reconstruction",
    ),
    "liu2024": (
        "liu2024_setting",
        "liu2024_upper_bounds",
        "liu2024_lower_bounds",
        "liu2024_proposed",
        "liu2024_attacks",
        "liu2024_utility",
    ),
    "companion": (
        "companion",
        "companion_success",
        "companion_risk",
        "companion_accounting",
        "companion_capacity",
        "companion_fair",
        "companion_utility",
        "companion_vmf",
        "companion_two_layer",
        "companion_defences",
        "companion_one_scale",
        "companion_cross_checks",
        "companion_synthesis",
    ),
}


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


def _find(exhibit: str) -> tuple[Callable[[Result], Figure], Description] | None:
    for name in _MODULES.get(exhibit.partition("/")[0], ()):
        importlib.import_module(f"reconrisk.figures.{name}")
    return _DRAWINGS.get(exhibit)


def is_drawn(exhibit: str) -> bool:
    """Say whether an exhibit has a picture (theorems and most tables have none)."""
    return _find(exhibit) is not None


def describe(exhibit: str) -> Description:
    """Return caption and alternative text of an exhibit's picture; ``KeyError`` if it has none."""
    found = _find(exhibit)
    if found is None:
        raise KeyError(f"no picture is drawn for {exhibit!r}")
    return found[1]


def draw(result: Result) -> Figure | None:
    """Draw a result, or return None if its exhibit has no picture (theorems, most tables)."""
    found = _find(result.exhibit)
    if found is None:
        return None
    with styled():
        return found[0](result)

"""How much of a training example can be rebuilt from what training leaks, and what bounds it.

The public rooms, each imported on first use so that the bounds load without PyTorch:
``special``, ``metrics``, ``privacy``, ``bounds``, ``risk``, ``mechanisms``, ``models``,
``convnets``, ``feature_maps``, ``two_layer``, ``training``, ``attacks``, ``study``, ``figures``.
"""

from __future__ import annotations

import importlib
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from reconrisk._types import DPSGD, Enclosure

_ROOMS = (
    "special",
    "metrics",
    "privacy",
    "bounds",
    "risk",
    "mechanisms",
    "models",
    "convnets",
    "feature_maps",
    "two_layer",
    "training",
    "attacks",
    "study",
    "figures",
)

__all__ = ["DPSGD", "Enclosure", *_ROOMS]

try:
    __version__ = version("reconrisk")
except PackageNotFoundError:  # run from a source tree that was never installed
    __version__ = "0+unknown"


def __getattr__(name: str) -> Any:
    if name in _ROOMS:
        return importlib.import_module(f"reconrisk.{name}")
    raise AttributeError(f"module 'reconrisk' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])

"""How much of a training example can be rebuilt from what training leaks, and what bounds it.

The public rooms, each imported on first use so that the bounds load without PyTorch and
``--help`` without NumPy:
``special``, ``metrics``, ``privacy``, ``bounds``, ``risk``, ``mechanisms``, ``models``,
``convnets``, ``feature_maps``, ``two_layer``, ``training``, ``attacks``, ``datasets``. Rooms
through which gradients flow need PyTorch, which the extra ``train`` brings.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
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
    "datasets",
)

__all__ = ["DPSGD", "Enclosure", *_ROOMS]


def __getattr__(name: str) -> Any:
    if name in ("DPSGD", "Enclosure"):
        return getattr(importlib.import_module("reconrisk._types"), name)
    if name in _ROOMS:
        return importlib.import_module(f"reconrisk.{name}")
    if name == "__version__":
        return _version()
    raise AttributeError(f"module 'reconrisk' has no attribute {name!r}")


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("reconrisk")
    except PackageNotFoundError:  # run from a source tree that was never installed
        return "0+unknown"


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])

"""Reconstruction risk of training examples under DP-SGD: bounds, attacks and accounting.

The public modules are imported on first use, so that the bounds load without PyTorch and ``--help``
without NumPy: ``special``, ``metrics``, ``privacy``, ``bounds``, ``risk``, ``mechanisms``,
``models``, ``convnets``, ``feature_maps``, ``two_layer``, ``training``, ``attacks``, ``datasets``.
Those that compute gradients need PyTorch, which the extra ``train`` installs.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from reconrisk._types import DPSGD, Enclosure

_MODULES = (
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

__all__ = ["DPSGD", "Enclosure", *_MODULES]


def __getattr__(name: str) -> Any:
    if name in ("DPSGD", "Enclosure"):
        return getattr(importlib.import_module("reconrisk._types"), name)
    if name in _MODULES:
        return importlib.import_module(f"reconrisk.{name}")
    if name == "__version__":
        return importlib.import_module("reconrisk._version").__version__
    raise AttributeError(f"module 'reconrisk' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])

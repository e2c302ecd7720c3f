"""What the core installation leaves out, and which extra brings it."""

from __future__ import annotations

import importlib.util

__all__ = ["EXTRAS", "advice", "require"]

#: packages that are not requirements of the core, and the extra that brings each
EXTRAS = {
    "typer": "cli",
    "rich": "cli",
    "yaml": "cli",
    "matplotlib": "report",
    "PIL": "images",
    "skimage": "images",
    "sklearn": "images",
    "torch": "train",
    "torchvision": "perceptual",
    "lpips": "perceptual",
}


def advice(package: str) -> str:
    """Return how to install what brings a package."""
    return f"pip install 'reconrisk[{EXTRAS[package]}]'"


def require(package: str, what: str) -> None:
    """Refuse ``what`` with the name of the extra, if a package it needs is not installed.

    Raises
    ------
    ModuleNotFoundError
        With the package as its ``name``.
    """
    try:
        found = importlib.util.find_spec(package)
    except ModuleNotFoundError:
        found = None
    if found is None:
        raise ModuleNotFoundError(f"{what} needs {package}: {advice(package)}", name=package)

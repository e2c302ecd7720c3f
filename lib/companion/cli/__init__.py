"""The command line ``companion``; ``companion --help`` lists its commands."""

import sys

__all__ = ["main"]


def main() -> None:
    """Run the command line."""
    from companion.cli.app import app
    from reconrisk._extras import EXTRAS, advice
    from reconrisk.cli.console import MISTAKE, note

    try:
        app()
    except FileNotFoundError as error:  # of commands that read the project before anything else
        from companion.study.registry import NoCheckout  # heavy: not for ``--help``

        if not isinstance(error, NoCheckout):
            raise
        note(f"error: {error}")
        sys.exit(MISTAKE)
    except ModuleNotFoundError as error:
        name = error.name or ""
        if name not in EXTRAS:
            raise
        note(f"error: this needs {name}: {advice(name)}")
        sys.exit(MISTAKE)

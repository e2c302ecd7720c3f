"""The common base of both command lines: ``-h``, ``--version``, ``--debug``, Markdown help."""

from __future__ import annotations

from typing import Annotated

import typer

__all__ = ["application"]


def _print_version(context: typer.Context, wanted: bool) -> None:
    if wanted:
        from reconrisk import __version__

        print(f"{context.command.name} {__version__}")
        raise typer.Exit


def _options(
    context: typer.Context,
    version: Annotated[
        bool,
        typer.Option(
            "--version", help="Print the version.", is_eager=True, callback=_print_version
        ),
    ] = False,
    debug: Annotated[
        bool, typer.Option("--debug", help="Show the traceback of a refusal too.")
    ] = False,
) -> None:
    context.obj = debug


def application(name: str, purpose: str, start: str) -> typer.Typer:
    """Return an application without commands.

    Parameters
    ----------
    name : str
        The command's name.
    purpose, start : str
        Its help text and the hint below it, in Markdown.

    Returns
    -------
    typer.Typer
    """
    app = typer.Typer(
        name=name,
        help=purpose,
        epilog=start,
        no_args_is_help=True,
        add_completion=False,
        rich_markup_mode="markdown",
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_options)
    return app

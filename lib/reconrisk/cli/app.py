"""The application behind ``reconrisk``: ``risk``, and an answer to commands that have moved."""

from __future__ import annotations

from typing import Annotated

import typer

from reconrisk.cli.console import MISTAKE, fail
from reconrisk.cli.risk import risk

__all__ = ["app"]

#: commands of the companion, which an older ``reconrisk`` had
_MOVED = ("list", "run", "parameters", "verdicts", "why", "costs", "data", "book")


def _print_version(wanted: bool) -> None:
    if wanted:
        from reconrisk import __version__

        print(f"reconrisk {__version__}")
        raise typer.Exit


app = typer.Typer(
    name="reconrisk",
    help="The reconstruction risk of a DP-SGD run: what attackers of each kind could rebuild.",
    epilog="Start with `reconrisk risk --noise-multiplier 1.1 --batch-size 256 "
    "--dataset-size 60000 --epochs 15`",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("risk")(risk)


@app.callback()
def options(
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


def _moved(name: str) -> None:
    @app.command(
        name,
        hidden=True,
        context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
        add_help_option=False,
    )
    def answer(context: typer.Context) -> None:
        words = " ".join(["companion", name, *context.args])
        raise fail(f"`reconrisk {name}` is now a command of the companion: {words}", MISTAKE)


for _name in _MOVED:
    _moved(_name)

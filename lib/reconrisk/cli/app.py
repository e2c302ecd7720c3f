"""The application behind ``reconrisk``: the command ``risk``, and pointers for moved commands."""

from __future__ import annotations

import typer

from reconrisk.cli.application import application
from reconrisk.cli.console import MISTAKE, fail
from reconrisk.cli.risk import risk

__all__ = ["app"]

#: commands of older versions, now in the companion
_MOVED = ("list", "run", "parameters", "verdicts", "why", "costs", "data", "book")


app = application(
    "reconrisk",
    "The reconstruction risk of a DP-SGD run: what attackers of each kind could rebuild.",
    "Start with `reconrisk risk --noise-multiplier 1.1 --batch-size 256 --dataset-size 60000 "
    "--epochs 15`",
)
app.command("risk")(risk)


def _refuse_moved(name: str) -> None:
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
    _refuse_moved(_name)

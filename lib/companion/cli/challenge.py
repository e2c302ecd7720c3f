"""``companion challenge``: score an attack against what is possible."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated

import typer

from reconrisk.cli.console import note, print_json, print_table, show, usage_errors

app = typer.Typer(
    help="Attack private gradients, and learn how near you come to what is possible.",
    no_args_is_help=True,
)


@app.command()
def example() -> None:
    """Print an entry to start from.

    Example: `companion challenge example > my_attack.py`
    """
    from companion.study import registry

    with usage_errors():
        path = registry.project_root() / "templates" / "challenge" / "nearest.py"
        print(path.read_text(encoding="utf-8"), end="")


@app.command("score")
def score_entry(
    context: typer.Context,
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="A Python file with name or rebuild; it is run.")
    ],
    data: Annotated[str, typer.Option(help="MNIST or synthetic.")] = "MNIST",
    trials: Annotated[int, typer.Option(help="Releases a noise, 10 to 10,000.")] = 200,
    limit: Annotated[float, typer.Option(help="Seconds for one answer of the entry.")] = 600.0,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Score an entry at five noises, beside the certified bound and the least possible error.

    Records and noise are drawn in secret, anew each time. The file runs in a process of its own,
    with your rights: read it first.

    Example: `companion challenge score my_attack.py`
    """
    from companion import challenge

    scores = []
    with usage_errors(context.obj):
        entry = challenge.load_entry(file)
        for found in challenge.score(entry, data=data, trials=trials, limit=limit):
            scores.append(found)
            if not as_json:
                note(f"[{len(scores)}/{len(challenge.NOISES)}] sigma = {found.sigma:g} scored")
    recognised, removed = challenge.summary(scores)
    if as_json:
        means = {"recognised": _number(recognised), "error removed": _number(removed)}
        rows = [{k: _number(v) for k, v in s.as_dict().items()} for s in scores]
        asked = {"entry": entry.title, "data": data, "trials": trials}
        print_json({**asked, **means, "noises": rows})
        return
    print_table(
        ("sigma", "named", "guessed", "likeliest", "at most", "error", "constant", "least"),
        [
            (
                f"{s.sigma:g}",
                _text(s.named),
                f"{s.guessed:.4f}",
                f"{s.likeliest:.3f}",
                f"{s.bound:.3f}",
                _text(s.error),
                f"{s.constant:.4f}",
                f"{s.floor:.4f}",
            )
            for s in scores
        ],
    )
    parts = [
        f"{value:.1%} of {what}"
        for value, what in (
            (recognised, "the way from a guess to the bound"),
            (removed, "the removable error"),
        )
        if not math.isnan(value)
    ]
    show(f"\n{entry.title.rstrip(chr(46))}: {' and '.join(parts)}, on average over the noises.")


def _number(value: float) -> float | None:
    return None if math.isnan(value) else value


def _text(value: float) -> str:
    return "" if math.isnan(value) else f"{value:.4f}"

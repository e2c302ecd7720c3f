"""``companion costs``: the costs of the paper profile."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from reconrisk.cli.console import chosen_from, note, print_json, print_table, show, usage_errors

if TYPE_CHECKING:
    from companion.study.costs import Price, Total


def costs(
    context: typer.Context,
    paper: Annotated[
        list[str] | None,
        typer.Option("--paper", metavar="KEY", help="Only this paper (repeatable)."),
    ] = None,
    cores: Annotated[
        list[int] | None, typer.Option(min=1, help="Give times on so many cores (repeatable).")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show what the paper profile costs: core-hours, and times on machines of several sizes.

    Example: `companion costs --paper hayes2023 --cores 64`
    """
    from companion.book.costs_page import CORES, sums_text, time_text, times_text, work_text
    from companion.study.costs import prices, total
    from companion.study.registry import PAPERS

    with usage_errors(context.obj):
        papers = chosen_from("paper", paper, PAPERS)
    sizes = tuple(cores or CORES)
    by_paper = {key: prices([key]) for key in papers}
    sums = {key: total(rows) for key, rows in by_paper.items()}
    whole = total(p for rows in by_paper.values() for p in rows)
    if as_json:
        print_json(
            {
                "cores": list(sizes),
                "exhibits": [_price(p, sizes) for rows in by_paper.values() for p in rows],
                "papers": {key: _total(t, sizes) for key, t in sums.items()},
                "total": _total(whole, sizes),
            }
        )
        return
    heads = [f"on {size}" for size in sizes]
    if paper:
        print_table(
            ("id", "core-hours", "tasks", *heads, "memory", "basis"),
            [
                (
                    p.exhibit,
                    work_text(p),
                    str(p.tasks),
                    *(time_text(p, size) for size in sizes),
                    f"{p.memory_gb:g} GB",
                    p.basis,
                )
                for rows in by_paper.values()
                for p in rows
            ],
            flexible="basis",
        )
        show("")
    print_table(
        ("paper", "exhibits", "measured", "core-hours", "of them measured", "GPU-hours", *heads),
        [
            (name, str(t.exhibits), str(t.measured), *sums_text(t), *times_text(t, sizes))
            for name, t in [*sums.items(), *([("all", whole)] if len(sums) > 1 else [])]
        ],
    )
    note("what is not measured is scaled up from smaller runs; times on cores leave GPUs out")


def _price(price: Price, sizes: tuple[int, ...]) -> dict[str, object]:
    return {
        "id": price.exhibit,
        "core_hours": price.core_seconds / 3600,
        "gpu_hours": price.gpu_seconds / 3600,
        "tasks": price.tasks,
        "memory_gb": price.memory_gb,
        "measured": price.measured,
        "basis": price.basis,
        "seconds": {str(size): price.seconds_on(size) for size in sizes},
    }


def _total(sum_: Total, sizes: tuple[int, ...]) -> dict[str, object]:
    return {
        "exhibits": sum_.exhibits,
        "measured": sum_.measured,
        "core_hours": sum_.core_seconds / 3600,
        "measured_core_hours": sum_.measured_core_seconds / 3600,
        "gpu_hours": sum_.gpu_seconds / 3600,
        "seconds": {str(size): sum_.seconds_on(size) for size in sizes},
    }

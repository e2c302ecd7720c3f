"""The commands on exhibits; those on the book are in :mod:`companion.cli.book`.

Heavy modules are imported inside the commands, so that ``--help`` answers at once.
"""

from __future__ import annotations

import math
import os
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from companion.cli import challenge, data
from companion.cli._console import status_text
from companion.cli._costs import costs
from companion.cli.release import archive, release
from reconrisk.cli.application import application
from reconrisk.cli.console import (
    FAILED,
    chosen_from,
    note,
    print_json,
    print_table,
    show,
    usage_errors,
)

if TYPE_CHECKING:
    from companion.study import Study
    from companion.study.stored import Stored
    from companion.study.verdicts import Verdict


class _BookCommands(TyperGroup):
    """The commands of :mod:`companion.cli.book`, imported when one of them is called."""

    def list_commands(self, ctx: Any) -> list[str]:
        return self._commands().list_commands(ctx)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        return self._commands().get_command(ctx, cmd_name)

    @staticmethod
    def _commands() -> Any:
        from companion.cli import book

        return typer.main.get_command(book.app)


app = application(
    "companion",
    "Reconstruction risk: regenerate, judge and inspect the exhibits of five papers.",
    "Start with `companion list --paper ziller2024`, then `companion run ziller2024/table1`",
)
app.add_typer(
    typer.Typer(no_args_is_help=True),
    name="book",
    cls=_BookCommands,
    help="Run the notebooks and compile the book.",
)
app.add_typer(data.app, name="data")
app.add_typer(challenge.app, name="challenge")
app.command("costs")(costs)
app.command("archive")(archive)
app.command("release")(release)

Exhibit = Annotated[
    str,
    typer.Argument(help="An id as `companion list` shows it, e.g. mean_to_extreme/fig2."),
]
Paper = Annotated[
    list[str] | None,
    typer.Option("--paper", metavar="KEY", help="Only this paper (repeatable), e.g. ziller2024."),
]
Profile = Annotated[
    str,
    typer.Option(help="quick: small, offline, minutes. paper: the paper's own data and sizes."),
]
Seed = Annotated[int, typer.Option(help="Every random draw derives from it.")]
Device = Annotated[str, typer.Option(help="cpu, cuda, or one of several: cuda:0.")]
DataRoot = Annotated[
    str, typer.Option(metavar="DIR", help="The papers' data sets, for the paper profile.")
]
Overrides = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help="Another value for a parameter (repeatable)."),
]
Workers = Annotated[int, typer.Option(help="Processes for sweeps; no result depends on it.")]
Scheduler = Annotated[
    str | None,
    typer.Option(
        metavar="CLUSTER",
        help="A Dask cluster for sweeps instead: tcp://HOST:PORT, local:N for N workers here, or a "
        "scheduler file; by default what RECONRISK_SCHEDULER says.",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


# list -------------------------------------------------------------------------------------------


@app.command("list")
def list_exhibits(
    context: typer.Context,
    paper: Paper = None,
    kind: Annotated[
        list[str] | None, typer.Option(metavar="KIND", help="figure, table, theorem, ...")
    ] = None,
    status: Annotated[
        list[str] | None,
        typer.Option(metavar="STATUS", help="A verdict, e.g. refuted; spaces may be dashes."),
    ] = None,
    cost: Annotated[
        float | None,
        typer.Option(metavar="SECONDS", help="Only those whose quick run took at most this long."),
    ] = None,
    panels: Annotated[
        bool, typer.Option("--panels", help="List the parts of figures one by one.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """List the exhibits with their verdicts and what a quick run costs.

    Verdicts and costs are read from the notebooks.

    Example: `companion list --paper mean_to_extreme --status refuted`
    """
    from companion.study import registry, stored
    from companion.study.progress import duration

    with usage_errors(context.obj):
        held = stored.read(registry.project_root())
        judged = stored.verdicts_by_target((r.notebook, r.verdicts) for r in held.results.values())
        papers = chosen_from("paper", paper, registry.PAPERS)
        every = registry.exhibits().values()
        kinds = chosen_from("kind", kind, dict.fromkeys(e.kind for e in every))
        statuses = chosen_from("status", status, _statuses())
    rows = []
    for exhibit in every:
        parent = registry.parent_of(exhibit.id)
        state = judged[exhibit.id].status if exhibit.computable else "stated"
        seconds = _seconds(held, parent)
        if (
            exhibit.paper_key in papers
            and exhibit.kind in kinds
            and state in statuses
            and (panels or parent == exhibit.id)
            and (cost is None or (seconds is not None and seconds <= cost))
        ):
            rows.append((exhibit, state, seconds))
    for problem in held.problems:
        note(f"warning: {problem}")
    if as_json:
        print_json(
            [
                {
                    "id": e.id,
                    "paper": e.paper_key,
                    "kind": e.kind,
                    "place": e.place,
                    "title": e.title,
                    "status": state,
                    "seconds": seconds,
                }
                for e, state, seconds in rows
            ]
        )
        return
    print_table(
        ("id", "kind", "place", "title", "status", "cost"),
        [
            (
                *(e.id, e.kind, e.place, e.title, status_text(state)),
                "" if seconds is None else duration(seconds),
            )
            for e, state, seconds in rows
        ],
        flexible="title",
    )
    folded = "" if panels else "; --panels lists the parts of figures too"
    show(f"\n{len(rows)} exhibits ({_counts(state for _, state, _ in rows)}){folded}")


# run --------------------------------------------------------------------------------------------


@app.command()
def run(
    context: typer.Context,
    exhibits: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="EXHIBIT...", help="Ids as `companion list` shows them, e.g. ziller2024/fig1."
        ),
    ] = None,
    paper: Annotated[
        list[str] | None,
        typer.Option("--paper", metavar="KEY", help="All exhibits of this paper (repeatable)."),
    ] = None,
    profile: Profile = "quick",
    seed: Seed = 0,
    device: Device = "cpu",
    data: Annotated[
        str,
        typer.Option(
            metavar="PATH",
            help="Your own images, in place of the data set: a folder of pictures, with or without "
            "class folders, or an .npz file.",
        ),
    ] = "",
    data_root: DataRoot = "",
    set_: Overrides = None,
    workers: Workers = 1,
    scheduler: Scheduler = None,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Where to write; with several exhibits, DIR/PAPER/EXHIBIT. By default a folder in "
            "companion-out.",
        ),
    ] = None,
    checkpoints: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Keep the finished tasks of sweeps here. By default they are kept below the "
            "output folder until the run is over, so that a killed run resumes.",
        ),
    ] = None,
    memory: Annotated[
        float | None,
        typer.Option(
            metavar="GB", min=0, help="What the paper profile may take; by default what is free."
        ),
    ] = None,
    again: Annotated[
        bool, typer.Option("--again", help="Compute what is finished and up to date too.")
    ] = False,
    no_figure: Annotated[bool, typer.Option("--no-figure", help="Do not draw.")] = False,
    show_parameters: Annotated[
        bool, typer.Option("--show-parameters", help="Print the values of this run and stop.")
    ] = False,
) -> None:
    """Compute exhibits: their verdicts, their figures and the data behind them.

    Writes figure.png, a CSV per table and record.json as each is finished, whatever the verdicts
    say; what is there already and up to date is not computed again. Exit status 1: a verdict
    failed, or an exhibit of several could not be computed; 2: a wrong argument; 130: interrupted,
    and the same command goes on. `companion parameters EXHIBIT` lists what --set can change.

    Example: `companion run mean_to_extreme/fig2 --seed 1 --set samples=500 --out fig2`
    """
    os.environ.setdefault("MPLBACKEND", "agg")  # figures go to files; there may be no screen
    from companion.cli import _runs
    from companion.study import registry

    with usage_errors(context.obj):
        papers = chosen_from("paper", paper, registry.PAPERS) if paper else []
        chosen = _runs.choose_exhibits(exhibits or (), papers, reading=bool(data))
        if not chosen:
            raise ValueError("name an exhibit, or a paper with --paper; `companion list` has them")
        session = _session(context, chosen, set_)
        plans = _runs.make_plans(session, chosen, out, checkpoints)
    if show_parameters:
        for exhibit in chosen:
            _show_parameters(exhibit, session.context(exhibit).parameters)
        return
    with usage_errors(context.obj):
        plans = _runs.fit_to_memory(plans, memory)
    parts = [e for e in exhibits or () if e not in chosen]
    note(f"{profile} profile, seed {seed}, {device}" + (f"; your images: {data}" * bool(data)))
    for part in parts:
        note(f"{part} is a part of {registry.parent_of(part)}")
    _runs.execute_plans(
        plans,
        draw=not no_figure,
        again=again,
        debug=bool(context.obj),
        go_on=_runs.repeat_command(context, without=("again",)),
    )


@app.command()
def join(
    context: typer.Context,
    records: Annotated[list[Path], typer.Argument(metavar="RECORD...", help="Folders of runs.")],
    out: Annotated[Path, typer.Option(metavar="DIR", help="Where to write; none of the records.")],
) -> None:
    """Put runs together that were computed value by value, such as hours for each noise.

    They are of one exhibit, whose file names the list in which alone they may differ (CELLS), with
    random numbers of each value's own. Their tables are judged as those of one run.

    Example: `companion join noise-0.001 noise-0.01 --out both`
    """
    from companion.cli._console import print_verdicts
    from companion.study import find_exhibit
    from companion.study.records import join_records, read_record, write_record
    from companion.study.running import judge
    from companion.study.verdicts import failures_kept

    with usage_errors(context.obj):
        if out.resolve() in [record.resolve() for record in records]:
            raise ValueError(f"--out must be none of the records, which stay; got {out}")
        tables, provenance = join_records([read_record(record) for record in records])
        with failures_kept():
            result = judge(find_exhibit(tables.exhibit).file, tables)
        write_record(tables, out, provenance=provenance, verdicts=result.verdicts)
    print_verdicts(result.verdicts)
    show(f"\nwritten to {out}; `companion run` draws, this does not")


@app.command()
def parameters(context: typer.Context, exhibit: Exhibit) -> None:
    """Show an exhibit's parameters: their values in each profile, and what the paper prints.

    Example: `companion parameters mean_to_extreme/fig4`
    """
    from companion.study import find_exhibit

    with usage_errors(context.obj):
        exhibit_id = find_exhibit(exhibit).id
    _show_parameters(exhibit_id)


def _show_parameters(exhibit: str, settings: Mapping[str, Any] | None = None) -> None:
    from companion.study import find_exhibit

    declared = find_exhibit(exhibit).parameters
    if not declared:
        show(f"{exhibit} has no parameters")
        return
    here = () if settings is None else ("this run",)
    print_table(
        ("name", "type", *here, "quick", "paper", "printed", "meaning"),
        [
            (
                name,
                p.kind if math.isinf(p.low) else f"{p.kind}, >= {p.low:g}",
                *(() if settings is None else (_value(settings[name]),)),
                _value(p.quick),
                _value(p.paper),
                p.printed,
                p.meaning,
            )
            for name, p in declared.items()
        ],
    )


def _value(value: Any) -> str:
    return "[" + ", ".join(map(_value, value)) + "]" if isinstance(value, tuple) else str(value)


# verdicts ---------------------------------------------------------------------------------------


@app.command()
def verdicts(
    context: typer.Context,
    paper: Paper = None,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Compute everything now; read no notebook.")
    ] = False,
    profile: Annotated[
        str,
        typer.Option(
            help="recorded: those of the recorded long runs, beside the notebooks'. With --fresh: "
            "quick or paper."
        ),
    ] = "quick",
    seed: Seed = 0,
    device: Device = "cpu",
    data_root: DataRoot = "",
    workers: Workers = 1,
    scheduler: Scheduler = None,
    as_json: AsJson = False,
) -> None:
    """Show what became of every exhibit, claim and erratum.

    Reads the results stored in the notebooks; --fresh computes them with the profile, seed, device,
    data and workers given. Exit status 0: every verdict of the papers asked for (by default: of all
    papers built so far) is there and sound; 1: the last lines say what is not.

    With --profile recorded, the verdicts of the runs in data/recorded stand beside the notebooks'.
    What was not recorded is no fault; exit status 1 says that a record is damaged, cannot be asked
    for any more, or holds a verdict that failed.

    Example: `companion verdicts --fresh --paper ziller2024`
    """
    from companion.study import registry, stored
    from companion.study.exhibits import papers_built

    with usage_errors(context.obj):
        papers = chosen_from("paper", paper, registry.PAPERS)
        required = papers if paper else papers_built()
        if profile == "recorded":
            if fresh:
                raise ValueError("--fresh computes verdicts and --profile recorded reads them")
            _show_recorded(papers, as_json)
            return
        if fresh:
            collected, problems = _compute(_session(context), required)
        else:
            held = stored.read(registry.project_root())
            collected = [(r.notebook, r.verdicts) for r in held.results.values()]
            problems = [*held.problems, *stored.find_inconsistencies(held.results)]
        judged = stored.verdicts_by_target(collected)
        rows = [t for t in judged.values() if t.paper_key in papers]
    pending = [t.id for t in rows if t.status == "pending" and t.paper_key in required]
    if pending:
        problems.append(f"{len(pending)} pending of {', '.join(required)}: {_few(pending)}")
    if as_json:
        print_json(
            {
                "ok": not problems,
                "problems": problems,
                "summary": dict(Counter(t.status for t in rows)),
                "required": list(required),
                "targets": [t.as_dict() for t in rows],
            }
        )
    else:
        print_table(
            ("id", "place", "verdict", "what", "where"),
            [(t.id, t.place, status_text(t.status), t.title, "\n".join(t.notebooks)) for t in rows],
        )
        show(f"\n{len(rows)} targets: {_counts(t.status for t in rows)}")
        _show_problems(problems, f"every verdict of {', '.join(required)} is there and sound")
    if problems:
        raise typer.Exit(FAILED)


def _show_recorded(papers: Iterable[str], as_json: bool) -> None:
    """Show the recorded runs' verdicts beside the notebooks'; exit with 1 if one has a fault."""
    from companion.study import registry, stored
    from companion.study.recorded import pair_verdicts, read_recorded

    root = registry.project_root()
    recorded, held = read_recorded(root), stored.read(root)
    rows = [row for row in pair_verdicts(recorded, held.results) if row.quick.paper_key in papers]
    problems = [*recorded.problems, *held.problems]
    judged = [row for row in rows if row.verdicts]
    if as_json:
        print_json(
            {
                "ok": not problems,
                "problems": problems,
                "summary": dict(Counter(row.status for row in rows)),
                "recorded": dict(Counter(row.recorded for row in judged)),
                "records": sorted(recorded.records),
                "targets": [row.as_dict() for row in rows],
            }
        )
    else:
        print_table(
            ("id", "place", "recorded run", "quick run", "what", "recorded in"),
            [
                (
                    row.quick.id,
                    row.quick.place,
                    status_text(row.recorded or "quick run only"),
                    status_text(row.quick.status),
                    row.quick.title,
                    "\n".join(dict.fromkeys(exhibit for exhibit, _ in row.verdicts)),
                )
                for row in rows
            ],
            flexible="what",
        )
        show(
            f"\n{len(recorded.records)} records; {len(judged)} of {len(rows)} targets judged by "
            f"them: {_counts(row.recorded for row in judged)}"
        )
        show(f"with the quick runs of the others: {_counts(row.status for row in rows)}")
        _show_problems(problems, "every record is whole and sound")
    if problems:
        raise typer.Exit(FAILED)


def _show_problems(problems: Iterable[str], none: str) -> None:
    show("\n".join(["does not hold:", *(f"  {p}" for p in problems)]) if problems else none)


def _compute(
    session: Study, papers: Iterable[str]
) -> tuple[list[tuple[str, list[Verdict]]], list[str]]:
    """Compute the exhibits of papers; return their verdicts, and failures as sentences."""
    from companion.study import VerdictError, all_exhibits
    from companion.study.stored import targets
    from companion.study.sweep import SweepError

    # a paper's claim may be settled by another paper's exhibit
    wanted = {t.id for t in targets().values() if t.paper_key in papers}
    exhibits = [e.id for e in all_exhibits().values() if e.targets & wanted]
    collected: list[tuple[str, list[Verdict]]] = []
    problems: list[str] = []
    begin = time.perf_counter()
    for number, exhibit in enumerate(exhibits, 1):
        start, outcome = time.perf_counter(), "failed"
        try:
            result = session.run(exhibit)
            collected.append((exhibit, list(result.verdicts)))
            outcome = result.status
        except Exception as error:
            known = isinstance(error, VerdictError | SweepError)
            problems.append(f"{exhibit}: {'' if known else type(error).__name__ + ': '}{error}")
        now = time.perf_counter()
        note(
            f"[{number}/{len(exhibits)}] {exhibit}: {outcome} "
            f"({now - start:.1f} s, {now - begin:.0f} s in all)"
        )
    return collected, problems


# why --------------------------------------------------------------------------------------------


@app.command()
def why(
    context: typer.Context,
    exhibit: Exhibit,
    profile: Profile = "quick",
    seed: Seed = 0,
    device: Device = "cpu",
    set_: Overrides = None,
) -> None:
    """Say whether the stored result of an exhibit answers a request, and if not, why.

    Compares code, data and parameters with those of the notebook's stored result; what `companion
    run` wrote elsewhere is not looked at.
    Exit status 0: nothing would run again; 1: the exhibit would.

    Example: `companion why mean_to_extreme/fig2 --set samples=500`
    """
    from companion.study import find_exhibit, registry, stored
    from companion.study.provenance import explain

    with usage_errors(context.obj):
        exhibit_id = find_exhibit(exhibit).id
        session = _session(context, [exhibit_id], set_)
        held = stored.read(registry.project_root()).results.get(exhibit_id)
        reasons = explain(exhibit_id, held.provenance if held else None, session)
    if not reasons:
        assert held is not None and held.provenance is not None
        show(
            f"{exhibit_id}: nothing would run again; {held.notebook} holds this result, "
            f"computed {held.provenance.time}"
        )
        return
    beside = f"; compared with {held.notebook}'s result" if held else ""
    show(f"{exhibit_id} would run again{beside}:")
    for reason in reasons:
        show(f"  {reason}")
    raise typer.Exit(FAILED)


# Shared -----------------------------------------------------------------------------------------


#: options of commands that are a study's fields of the same name
_CHOICES = ("profile", "seed", "device", "data", "data_root", "workers", "scheduler")


def _session(
    context: typer.Context, exhibits: Iterable[str] = (), pairs: Iterable[str] | None = None
) -> Study:
    """Return the study that a command's options ask for, with ``--set`` for some exhibits."""
    from companion.study import Study

    choices = {name: value for name, value in context.params.items() if name in _CHOICES}
    values: dict[str, str] = {}
    for pair in pairs or ():
        name, equals, value = pair.partition("=")
        if not equals or not name.strip():
            raise ValueError(f"--set takes NAME=VALUE; got {pair!r}")
        values[name.strip()] = value
    return Study(**choices, overrides={e: values for e in exhibits} if values else {})


def _statuses() -> list[str]:
    from companion.study.verdicts import STATUSES

    return [*STATUSES, "stated"]


def _seconds(held: Stored, exhibit: str) -> float | None:
    result = held.results.get(exhibit)
    return None if result is None or result.provenance is None else result.provenance.seconds


def _counts(statuses: Iterable[str]) -> str:
    counted = Counter(statuses)
    return ", ".join(f"{counted[s]} {s}" for s in _statuses() if counted[s]) or "none"


def _few(ids: list[str]) -> str:
    return ", ".join(ids[:8]) + (f", and {len(ids) - 8} more" if len(ids) > 8 else "")

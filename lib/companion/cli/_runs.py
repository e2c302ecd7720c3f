"""What ``companion run`` does with its exhibits: compute one after the other, and lose nothing.

Each exhibit's record is written as it finishes. A verdict that fails is recorded as *failed*, an
exhibit that breaks does not stop the next, and an interrupt keeps what is finished.
"""

from __future__ import annotations

import dataclasses
import shlex
import shutil
import time
import traceback
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from companion.cli._console import status_text, verdict_table
from companion.cli._memory import affordable_workers, free_gigabytes, start_of_peak
from companion.cli._progress import Progress
from companion.study import Study, registry, stored
from companion.study.exhibits import all_exhibits, find_exhibit
from companion.study.own_images import reads_data
from companion.study.progress import duration
from companion.study.recorded import verdicts_of
from companion.study.records import (
    Reason,
    RecordError,
    explain,
    provenance,
    read_record,
    write_record,
)
from companion.study.sweep import SweepError
from companion.study.verdicts import Verdict, failures_kept
from reconrisk.cli.console import FAILED, MISTAKE, fail, note, print_table, show

if TYPE_CHECKING:
    from companion.study.results import Result

__all__ = ["INTERRUPTED", "Plan", "carry_out", "chosen_exhibits", "fitting", "plans"]

#: exit status after Ctrl-C
INTERRUPTED = 130


@dataclass(frozen=True)
class Plan:
    """One exhibit's run.

    Attributes
    ----------
    exhibit : str
        Its id.
    session : Study
        With the folder of the finished tasks as its checkpoints.
    folder : Path
        Of the record.
    keeps_tasks : bool
        Whether finished tasks stay when the run is over.
    """

    exhibit: str
    session: Study
    folder: Path
    keeps_tasks: bool

    @property
    def tasks(self) -> Path:
        """Folder of the finished tasks."""
        return Path(self.session.checkpoints)


@dataclass(frozen=True)
class Ended:
    """What became of one plan: the verdicts with what ran, or what went wrong."""

    plan: Plan
    status: str
    how: str
    verdicts: Sequence[Verdict] = ()
    ran: str = ""
    problem: str = ""

    @property
    def failed(self) -> list[str]:
        """What does not hold, in words."""
        told = [f"{v.target}: {v.statement}: {v.why}" for v in self.verdicts if _fails(v)]
        return [*([f"{self.plan.exhibit}: {self.problem}"] if self.problem else []), *told]


def chosen_exhibits(
    exhibits: Iterable[str], papers: Iterable[str], *, reading: bool = False
) -> list[str]:
    """Return the exhibits to compute: those named (for a panel, its figure), then the papers'.

    With ``reading`` only those of the papers' that read a data set or photographs.
    """
    named = [find_exhibit(e).id for e in exhibits]
    listed = [
        exhibit
        for key in papers
        for exhibit, known in all_exhibits(key).items()
        if not reading or reads_data(known)
    ]
    return list(dict.fromkeys([*named, *listed]))


def plans(
    session: Study, exhibits: Sequence[str], out: Path | None, checkpoints: Path | None
) -> list[Plan]:
    """Say where each exhibit's record and tasks go.

    One exhibit's record lies in ``out`` itself, those of several in ``out/PAPER/EXHIBIT``; without
    ``out`` in ``companion-out/PAPER-EXHIBIT``. Tasks lie below the record, or in ``checkpoints``.
    """
    made = []
    for exhibit in exhibits:
        folder = Path("companion-out") / exhibit.replace("/", "-")
        if out is not None:
            folder = out if len(exhibits) == 1 else out / exhibit
        tasks = folder / "tasks" if checkpoints is None else checkpoints
        own = dataclasses.replace(session, checkpoints=tasks)
        own.context(exhibit)  # refuses here, before anything is computed
        made.append(Plan(exhibit, own, folder, checkpoints is not None))
    return made


def fitting(every: Sequence[Plan], gigabytes: float | None) -> list[Plan]:
    """Return the plans with no more processes than fit into memory.

    Parameters
    ----------
    gigabytes : float, optional
        What the run may take; what is free, if not given.

    Raises
    ------
    ValueError
        If one process does not fit.
    """
    costs = registry.costs()
    fitted = []
    for plan in every:
        cost = costs.get(plan.exhibit)
        if cost is None or plan.session.profile != "paper" or plan.session.cluster:
            fitted.append(plan)  # a quick run is small, and a cluster's memory is its own
            continue
        free = free_gigabytes() if gigabytes is None else gigabytes
        asked = plan.session.workers
        fits = affordable_workers(cost.ceiling_gb, asked, free)
        if not fits:
            raise ValueError(
                f"{plan.exhibit} may take {cost.ceiling_gb:.1f} GB in the paper profile, and "
                f"{free:.1f} GB are free; --memory GB says that it may take as much all the same"
            )
        if fits < asked:
            note(
                f"{plan.exhibit}: {fits} instead of {asked} workers, since each may take "
                f"{cost.ceiling_gb:.1f} GB and {free:.1f} GB are free (--memory GB says otherwise)"
            )
            plan = dataclasses.replace(
                plan, session=dataclasses.replace(plan.session, workers=fits)
            )
        fitted.append(plan)
    return fitted


def carry_out(every: Sequence[Plan], *, draw: bool, again: bool, debug: bool, go_on: str) -> None:
    """Compute every plan that is not up to date and tell what became of all.

    Parameters
    ----------
    draw : bool
        Whether to draw figures.
    again : bool
        Whether to compute what is up to date too.
    debug : bool
        Whether to let exceptions through.
    go_on : str
        The command that goes on after an interrupt.

    Raises
    ------
    typer.Exit
        With status 1 if anything does not hold or broke, 2 if the only exhibit refuses, 130 after
        an interrupt.
    """
    progress = Progress(_foreseen(every))
    ended: list[Ended] = []
    try:
        for plan in every:
            held = None if again else _up_to_date(plan, draw)
            if held is not None:
                progress.passed()
                ended.append(held)
                note(
                    f"{plan.exhibit}: {held.how} ({plan.folder}; --again computes it all the same)"
                )
                continue
            ended.append(_computed(plan, progress, draw, debug, alone=len(every) == 1))
            if len(every) > 1:
                note(f"{plan.exhibit}: {ended[-1].status} ({ended[-1].how})")
    except KeyboardInterrupt:
        _tell_interrupted(every, ended, go_on)
        raise typer.Exit(INTERRUPTED) from None
    _tell(ended)


def command_again(context: typer.Context, *, without: Sequence[str] = ()) -> str:
    """Return the command line that was given, as it can be typed again."""
    words = ["companion", str(context.info_name)]
    for parameter in context.command.params:
        name = parameter.name or ""
        source = context.get_parameter_source(name)
        if source is None or source.name != "COMMANDLINE" or name in without:
            continue
        value = context.params[name]
        values = value if isinstance(value, list | tuple) else [value]
        for one in values:
            if parameter.param_type_name == "argument":
                words.append(str(one))
            elif one is True:
                words.append(parameter.opts[0])
            else:
                words += [parameter.opts[0], str(one)]
    return shlex.join(words)


# One exhibit --------------------------------------------------------------------------------------


def _up_to_date(plan: Plan, draw: bool) -> Ended | None:
    """The record of an earlier run that answers this one; None if there is none."""
    try:
        record = read_record(plan.folder)
    except (OSError, RecordError):
        return None
    reasons = explain(plan.exhibit, record.provenance, plan.session)
    if draw and record.figure is None and find_exhibit(plan.exhibit).is_drawn:
        reasons.append(Reason("figure", "none was drawn"))
    if reasons:
        return None
    how = f"up to date, computed {record.provenance.time}"
    return Ended(plan, record.result["status"], how, verdicts_of(record), record.result["ran"])


def _computed(plan: Plan, progress: Progress, draw: bool, debug: bool, *, alone: bool) -> Ended:
    start_of_peak()
    start = time.perf_counter()
    try:
        with progress.exhibit(), failures_kept():
            result = plan.session.run(plan.exhibit)
    except Exception as error:
        refused = isinstance(error, ValueError | OSError)
        if debug or (alone and not refused and not isinstance(error, SweepError)):
            raise
        if alone and refused:
            raise fail(f"{error} (--debug shows where)", MISTAKE) from None
        told = str(error) if isinstance(error, SweepError) else f"{type(error).__name__}: {error}"
        return Ended(plan, "failed", duration(time.perf_counter() - start), problem=told)
    seconds = time.perf_counter() - start
    origin = provenance(plan.session, plan.exhibit, seconds)
    picture, problem = _drawn(result, debug) if draw else (None, "")
    write_record(result, plan.folder, picture, provenance=origin)
    if not plan.keeps_tasks and plan.tasks.is_dir():
        shutil.rmtree(plan.tasks)  # they served to resume this run, which is over
    status = "failed" if problem else result.status
    return Ended(plan, status, duration(seconds), result.verdicts, result.tables.ran, problem)


def _drawn(result: Result, debug: bool) -> tuple[Any, str]:
    """The figure, or why there is none: hours of computing are not lost over it."""
    try:
        return find_exhibit(result.exhibit).draw(result.tables), ""
    except Exception as error:
        if debug:
            traceback.print_exc()
        return None, f"the figure could not be drawn: {type(error).__name__}: {error}"


def _foreseen(every: Sequence[Plan]) -> list[tuple[str, float | None]]:
    """Seconds that the runs took before: as measured for the paper profile, as stored for quick."""
    if every[0].session.profile == "paper":
        known = {name: float(cost.seconds) for name, cost in registry.costs().items()}
    else:
        held = stored.read(registry.project_root()).results.items()
        known = {name: r.provenance["seconds"] for name, r in held if r.provenance is not None}
    return [(plan.exhibit, known.get(plan.exhibit)) for plan in every]


# What is told -----------------------------------------------------------------------------------


def _fails(verdict: Verdict) -> bool:
    return verdict.status == "failed"


def _tell(ended: Sequence[Ended]) -> None:
    """Say what became of the exhibits; the exit status is 1 if anything does not hold."""
    if len(ended) == 1:
        _tell_one(ended[0])
    else:
        print_table(
            ("exhibit", "status", "took", "verdicts", "written to"),
            [
                (
                    e.plan.exhibit,
                    status_text(e.status),
                    e.how.partition(",")[0],
                    str(len(e.verdicts)),
                    str(e.plan.folder) if e.verdicts else "",
                )
                for e in ended
            ],
            flexible="written to",
        )
    failed = [text for e in ended for text in e.failed]
    for text in failed:
        note(f"error: {text}")
    if failed:
        raise typer.Exit(FAILED)


def _tell_one(one: Ended) -> None:
    if not one.verdicts:
        return
    show(f"{one.plan.exhibit}: {one.status}")
    if one.ran:
        show(f"{one.ran}\n")
    verdict_table(one.verdicts)
    folder = one.plan.folder
    files = sorted(p.name for p in folder.iterdir() if p.suffix in {".csv", ".png"})
    show(f"\n{one.how}; written to {folder}: {', '.join([*files, 'record.json'])}")


def _tell_interrupted(every: Sequence[Plan], ended: Sequence[Ended], go_on: str) -> None:
    kept = [e.plan for e in ended if e.verdicts]
    if len(every) > 1:
        note(f"interrupted: {len(kept)} of {len(every)} exhibits are finished and kept")
    else:
        note("interrupted")
    if len(ended) < len(every):
        plan = every[len(ended)]
        tasks = list(plan.tasks.rglob("*.json")) if plan.tasks.is_dir() else []
        if tasks:
            note(f"{plan.exhibit}: {len(tasks)} finished tasks are kept in {plan.tasks}")
        else:
            note(f"{plan.exhibit}: nothing of it was finished")
    note(f"to go on: {go_on}")
